"""What the checks share: the repository's files, and how a check ends."""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77  # what ctest takes for "not run"


def files(*suffixes, under=""):
    """Yields the files with one of the suffixes, as paths relative to ROOT.

    Hidden folders, builds, and what runs have made and trained on are left out.
    git is not asked, so that an unpacked release can be checked as well.
    """
    for folder, subfolders, names in os.walk(ROOT / under):
        subfolders[:] = sorted(
            name
            for name in subfolders
            if not name.startswith((".", "build-"))
            and (Path(folder) != ROOT or name not in ("build", "data", "runs"))
        )
        for name in sorted(names):
            if name.endswith(suffixes):
                yield (Path(folder) / name).relative_to(ROOT)


def tool(name):
    """The path of a program; ends the check if it is not installed."""
    path = shutil.which(name)
    if path is None:
        print(f"{name} is not installed")
        sys.exit(SKIPPED)
    return path


def finish(problems, checked):
    """Prints the problems, or how many things were checked, and exits."""
    for problem in problems:
        print(problem)
    print(f"{checked}, {len(problems)} problems")
    sys.exit(1 if problems else 0)
