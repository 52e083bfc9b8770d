"""Checks src/ and include/ with clang-tidy.

Usage: check_tidy.py BUILD_FOLDER, which has compile_commands.json

Most of the time goes into libtorch's headers, so what the build compiles several
at a time is checked in one bundle for each core. The build folder keeps what was
clean: that is not checked again until it, or what it includes of libzero,
changes.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from repository import ROOT, finish, tool

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def options_of(entry):
    """How a file is compiled, but for its name and that of the object file."""
    return tuple(shlex.split(entry["command"].split(" -o ")[0])[1:])


def bundles(build):
    """Yields (file, options) of all that is to be checked."""
    alone = []
    together = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.is_relative_to(ROOT / "src"):
            alone.append((file, options_of(entry)))
        elif file.is_relative_to(build / "src"):
            together.setdefault(options_of(entry), []).append(file)

    folder = build / "clang-tidy"
    folder.mkdir(exist_ok=True)
    for number, (options, files) in enumerate(together.items()):
        parts = min(os.cpu_count(), len(files))
        for part in range(parts):
            begin = len(files) * part // parts
            end = len(files) * (part + 1) // parts
            bundle = folder / f"{number}_{part}.cpp"
            bundle.write_text("".join(file.read_text() for file in files[begin:end]))
            yield bundle, options
    yield from alone


def with_includes(path, seen):
    """Adds the file, and what it includes of libzero, to seen."""
    if path in seen or not path.is_file():
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text()):
        with_includes(ROOT / "src" / name, seen)  # or a whole path
        with_includes(ROOT / "include" / name, seen)
    return seen


def digest_of(file, options):
    """Stands for all that the result of a check depends on."""
    paths = sorted(with_includes(file, {ROOT / ".clang-tidy"}))
    parts = [*map(str.encode, options), *(path.read_bytes() for path in paths)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def check(file, options):
    """What clang-tidy has to say about a file; nothing if it is clean."""
    config = f"--config-file={ROOT / '.clang-tidy'}"
    result = subprocess.run(
        [clang_tidy, config, "--quiet", file, "--", *options],
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

wanted = {digest_of(*bundle): bundle for bundle in bundles(build)}
stale = [digest for digest in wanted if digest not in clean]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    reports = list(pool.map(lambda digest: check(*wanted[digest]), stale))

clean.update(digest for digest, report in zip(stale, reports) if not report)
cache.write_text(json.dumps(sorted(clean & wanted.keys())))
finish([report for report in reports if report], f"{len(wanted)} bundles")
