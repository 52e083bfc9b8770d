#!/usr/bin/env python3
"""Compares the Adam of libzero with torch's fused one and DeepSpeedCPUAdam.

`zero bench adam`, which measures libzero, torch and memory, and DeepSpeed run in
turn, round after round; a ratio is the median of the ratios within the rounds.
Needs only Python's standard library; bench/peers/setup.sh installs the peers.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess

from compare_collectives import PEERS, ROOT, VENV
from training_runs import environment


def rows_of(line, threads):
    output = subprocess.run(
        line, env={**environment(), "OMP_NUM_THREADS": str(threads)}, check=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600,
    ).stdout
    return [json.loads(row) for row in output.splitlines() if row.startswith("{")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numel", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()

    rates = collections.defaultdict(list)
    for number in range(options.rounds):
        rows = rows_of([str(options.build / "bin/zero"), "bench", "adam", "--json",
                        "--parameters", str(options.numel), "--rounds", "3"], options.threads)
        rows += rows_of([str(VENV / "bin/python"), str(PEERS / "deepspeed_adam.py"),
                         str(options.numel), "3", str(options.threads)], options.threads)
        for row in rows:
            rates[row["op"]].append(row["gigabytes_per_second"])
        print(f"round {number + 1} of {options.rounds}", flush=True)

    print(f"{options.numel} parameters, {options.threads} threads")
    print("| | GB/s | zero_adam over it |")
    print("| --- | ---: | ---: |")
    for op, found in rates.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["zero_adam"], found))
        print(f"| {op} | {statistics.median(found):.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
