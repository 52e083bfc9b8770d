"""Checks that the paths that *.md files name exist.

A path is the target of a link, or a word in backticks that begins with one of
the repository's own folders: build/bin/zero is none, src/comm/shm/ is one.
"""

import re

from repository import ROOT, files, finish

LINK = re.compile(r"\]\(<?([^)>#\s]+)[^)]*\)")
QUOTED = re.compile(r"`([\w./-]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

FOLDERS = {path.parts[0] for path in files("") if len(path.parts) > 1}


def named_paths(document, text):
    """Yields every path in the text, as written and as a path."""
    text = FENCED.sub("", text)
    for target in LINK.findall(text):
        if not re.match(r"[a-z]+:", target):  # not https:, mailto:
            yield target, document.parent / target
    for word in QUOTED.findall(text):
        if "/" in word and word.split("/")[0] in FOLDERS:
            yield word, ROOT / word


problems = []
documents = list(files(".md"))
for document in documents:
    text = (ROOT / document).read_text()
    for word, path in named_paths(ROOT / document, text):
        if not path.exists():
            problems.append(f"{document}: {word} does not exist")
finish(problems, f"{len(documents)} documents")
