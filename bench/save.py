#!/usr/bin/env python3
"""Times checkpoints of libzero beside torch.save, PyTorch's distributed checkpoint and
what the disk takes in large direct writes.

All run in turn, round after round; a ratio is the median of the ratios within the
rounds.

  bench/save.py --folder /data/tmp --rounds 5        # after bench/peers/setup.sh
"""
import argparse
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEADLINE = 600


def direct_write(folder, size):
    """Seconds for as many bytes from one process, past the cache."""
    buffer = mmap.mmap(-1, 8 << 20)  # aligned
    path = folder / "direct"
    start = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
    for _ in range(size // len(buffer) + 1):
        os.write(file, buffer)
    os.fsync(file)
    os.close(file)
    seconds = time.monotonic() - start
    path.unlink()
    return seconds


def last_json(command):
    output = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
    return json.loads(output[output.index("{"):output.rindex("}") + 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=None, help="on the disk to be measured")
    parser.add_argument("--parameters", type=int, default=50_000_000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    size = 12 * options.parameters
    rows = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = pathlib.Path(name)
            row = {"direct": direct_write(folder, size)}
            own = last_json([ROOT / "build/bin/zero", "run", "-n", str(options.ranks), ROOT / "build/bin/save",
                             "--folder", folder, "--parameters", str(options.parameters), "--rounds", "2"])
            # The second of each: memory for the copy is there then.
            row |= {key: own[key][1] for key in ("save", "async", "blocked", "load")}
            row |= last_json([ROOT / "bench/peers/.venv/bin/torchrun", "--standalone", "--nproc-per-node",
                              str(options.ranks), ROOT / "bench/peers/save.py", folder, str(options.parameters)])
            rows.append(row)
            print(json.dumps(row), flush=True)
    print(f"{size / 1e6:.0f} MB, {options.ranks} ranks, medians of {options.rounds} rounds")
    for key in rows[0]:
        print(f"  {key:11} {statistics.median(row[key] for row in rows):7.3f} s")
    for peer in ("direct", "torch.save", "dcp"):
        ratio = statistics.median(row[peer] / row["save"] for row in rows)
        print(f"  {peer} takes {ratio:.2f} times as long as save")


main()
