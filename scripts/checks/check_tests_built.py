"""Checks that every test file is named in CMake: one that is not never runs."""

import re

from repository import ROOT, files, finish

TESTS = ROOT / "tests"

lists = "\n".join(
    (ROOT / path).read_text() for path in files("CMakeLists.txt", under="tests")
)
named = re.findall(r"zero_add_\w*test\(([\w./]+)", re.sub("#.*", "", lists))
tests = [
    (ROOT / path).relative_to(TESTS).as_posix()
    for path in files("_test.cpp", "_test.cmake", under="tests")
]
finish(
    [
        f"tests/{test}: not in tests/CMakeLists.txt, add zero_add_test({test})"
        for test in tests
        if test not in named
    ],
    f"{len(tests)} tests",
)
