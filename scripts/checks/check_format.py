"""Checks that clang-format would change nothing."""

import subprocess
import sys

from repository import ROOT, files, tool

sources = list(files(".h", ".cpp"))
result = subprocess.run(
    [tool("clang-format"), "--dry-run", "--Werror", *sources], cwd=ROOT
)
print(f"{len(sources)} files; clang-format -i <file> formats one")
sys.exit(result.returncode)
