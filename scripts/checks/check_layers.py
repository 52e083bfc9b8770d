"""Checks that a folder under src/ includes only folders lower than itself, and
that include/ includes nothing of src/.
"""

import re

from repository import ROOT, files, finish

# From the lowest on.
LAYERS = (
    "base comm config shard observe gather optim reduce engine checkpoint "
    "launch data models report tasks cli"
).split()

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def problem_of(path, included):
    """Why the file must not include "included", or None."""
    target = included.split("/")[0]
    if path.parts[0] == "include":
        return "the public headers include only <zero/...> of libzero"
    if target not in LAYERS or "/" not in included:
        return "includes are relative to src/, as in \"base/error.h\""
    if not (ROOT / "src" / included).is_file():
        return "there is no such file under src/"
    layer = path.parts[1]
    if LAYERS.index(target) > LAYERS.index(layer):
        return f"{layer} is below {target}"
    return None


problems = []
sources = [*files(".h", ".cpp", under="src"), *files(".h", under="include")]
for path in sources:
    if path.parts[0] == "src" and path.parts[1] not in LAYERS:
        problems.append(f"{path}: not in a layer of check_layers.py")
        continue
    for included in INCLUDE.findall((ROOT / path).read_text()):
        reason = problem_of(path, included)
        if reason:
            problems.append(f'{path}: "{included}": {reason}')
finish(problems, f"{len(sources)} files")
