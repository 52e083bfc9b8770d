"""Checks that clang-format would change nothing."""

import re
import subprocess

from repository import ROOT, files, finish, tool

sources = list(files(".h", ".cpp"))
result = subprocess.run(
    [tool("clang-format"), "--dry-run", "--Werror", *sources],
    cwd=ROOT,
    stderr=subprocess.PIPE,
    text=True,
)
unformatted = re.findall(r"^(.+?):\d+:\d+: error:", result.stderr, re.MULTILINE)
finish(
    [f"clang-format -i {path}" for path in dict.fromkeys(unformatted)],
    f"{len(sources)} files",
)
