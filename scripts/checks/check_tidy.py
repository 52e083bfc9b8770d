"""Checks src/ and include/ with clang-tidy: what is compiled as one file is
checked as one, two at a time on two cores.

Usage: check_tidy.py BUILD_FOLDER, which has compile_commands.json

It takes many seconds, so the build folder keeps what was clean: that is not
checked again until it, or what it includes of libzero, changes.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from repository import ROOT, finish, tool

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def with_includes(path, seen):
    """Adds the file, and what it includes of libzero, to seen."""
    if path in seen or not path.is_file():
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text()):
        with_includes(ROOT / "src" / name, seen)  # or a whole path
        with_includes(ROOT / "include" / name, seen)
    return seen


def digest_of(entry):
    """Stands for all that the result of a check depends on."""
    paths = sorted(with_includes(Path(entry["file"]), {ROOT / ".clang-tidy"}))
    parts = [entry["command"].encode(), *(path.read_bytes() for path in paths)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def check(entry):
    """What clang-tidy has to say about a file; nothing if it is clean."""
    result = subprocess.run(
        [
            clang_tidy,
            f"--config-file={ROOT / '.clang-tidy'}",
            "-p",
            build,
            "--quiet",
            entry["file"],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if result.returncode == 0:
        return ""
    return result.stdout or result.stderr


clang_tidy = tool("clang-tidy")
build = Path(sys.argv[1]).resolve()
cache = build / "clang-tidy.json"
clean = set(json.loads(cache.read_text())) if cache.exists() else set()

entries = {
    digest_of(entry): entry
    for entry in json.loads((build / "compile_commands.json").read_text())
    if Path(entry["file"]).is_relative_to(ROOT / "src")
    or Path(entry["file"]).is_relative_to(build / "src")
}
stale = [digest for digest in entries if digest not in clean]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    reports = list(pool.map(lambda digest: check(entries[digest]), stale))

clean.update(digest for digest, report in zip(stale, reports) if not report)
cache.write_text(json.dumps(sorted(clean & entries.keys())))
finish([report for report in reports if report], f"{len(entries)} files")
