"""Checks docs/errors.md against the source: every message that its tables quote
is what the code says, and every error that is thrown is in one of them.

A quoted message stands between backticks in the first column of a table that
begins with "message"; "..." is what the code puts in. A message that is not in
the throw itself, but handed to it, is checked only one way.
"""

import re
from bisect import bisect_right

from repository import ROOT, files, finish

DOCUMENT = "docs/errors.md"
MAX_BETWEEN = 100  # characters of other literals that "..." may stand for
# Thrown on the way to an error that is told, or never told at all.
INTERNAL = ("std::bad_alloc", "FailedElsewhere")

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/                                  # a comment
      |R"(?P<mark>[^(\s"]*)\((?P<raw>.*?)\)(?P=mark)"
      |"(?P<plain>(?:\\.|[^"\\\n])*)"
      |'(?:\\.|[^'\\\n])+'|\d[\w.']*                        # no text
      |(?P<throw>\bthrow\s+(?P<type>[\w:]+)\()
      |\w+|(?P<end>;)|\S""",
    re.VERBOSE | re.DOTALL,
)
ESCAPES = {"n": "\n", "t": "\t"}


def one_space(text):
    return re.sub(r"\s+", " ", text)


class Source:
    """The literals of a file, one after the other, and which of them every throw
    has."""

    def __init__(self, path):
        self.path = path
        code = (ROOT / path).read_text()
        literals = []
        self.throws = []  # line, type, numbers of literals
        is_adjacent = False
        is_throwing = False
        for token in TOKEN.finditer(code):
            if token[0].startswith(("//", "/*")):
                continue
            text = token["raw"]
            if token["plain"] is not None:
                text = re.sub(
                    r"\\(.)",
                    lambda escape: ESCAPES.get(escape[1], escape[1]),
                    token["plain"],
                )
            if text is not None and is_adjacent:
                literals[-1] += text
            elif text is not None:
                literals.append(text)
            elif token["throw"]:
                line = code.count("\n", 0, token.start()) + 1
                begin = len(literals)
                is_throwing = True
                kind = token["type"]
            elif token["end"] and is_throwing:
                words = [
                    number
                    for number in range(begin, len(literals))
                    if re.search("[a-z]", literals[number])
                ]
                self.throws.append((line, kind, words))
                is_throwing = False
            is_adjacent = text is not None
        self.text = ""
        self.begins = []  # of literals in the text
        for literal in literals:
            self.begins.append(len(self.text))
            self.text += one_space(literal)
        self.quoted = set()  # numbers of literals

    def find(self, message):
        """Marks the literals that the message is made of; false if none are."""
        pieces = [one_space(piece) for piece in message.split("...")]
        pieces = [piece for piece in pieces if piece.strip()]
        anchor = pieces.index(max(pieces, key=len))
        is_found = False
        for found in re.finditer(re.escape(pieces[anchor]), self.text):
            begin, end = found.span()
            for piece in reversed(pieces[:anchor]):
                if begin >= 0:
                    from_here = max(0, begin - MAX_BETWEEN)
                    begin = self.text.rfind(piece, from_here, begin)
            for piece in pieces[anchor + 1 :]:
                if end >= 0:
                    at = self.text.find(piece, end, end + MAX_BETWEEN)
                    end = at + len(piece) if at >= 0 else -1
            if begin >= 0 and end >= 0:
                is_found = True
                first = bisect_right(self.begins, begin) - 1
                last = bisect_right(self.begins, end - 1) - 1
                self.quoted.update(range(first, last + 1))
        return is_found


def quoted_messages(text):
    """Yields every message in the tables, with its line."""
    is_listing = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 3:
            is_listing = False
        elif cells[1] == "message":
            is_listing = True
        elif is_listing:
            for message in re.findall(r"`([^`]+)`", cells[1]):
                yield number, message


sources = [Source(path) for path in files(".h", ".cpp", under="src")]
problems = []
count = 0
for number, message in quoted_messages((ROOT / DOCUMENT).read_text()):
    count += 1
    if not any([source.find(message) for source in sources]):
        problems.append(f"{DOCUMENT}:{number}: no code says '{message}'")
for source in sources:
    for line, kind, words in source.throws:
        if kind not in INTERNAL and words and source.quoted.isdisjoint(words):
            problems.append(f"{source.path}:{line}: not in {DOCUMENT}, add it")
finish(problems, f"{count} messages")
