#!/usr/bin/env python3
"""What more ranks cost on one machine, at fixed total work.

The GPT of train_gpt with 8 sequences of 64 tokens per step, divided among 1, 2,
4 and 8 ranks; where there are fewer ranks than cores, each has several threads.
The variants take turns, round after round; a ratio is the median of the ratios
within the rounds. Needs only Python's standard library.

    bench/cost_of_ranks.py [--rounds 5] [--build build]
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEQUENCES = 8
RANKS = [1, 2, 4, 8]
STAGES = {
    "stage 0": {"stage": 0},
    "stage 2": {"stage": 2},
    "stage 3, not shared": {"stage": 3, "shared_memory": False},
}


def config_of(stage, ranks):
    return {
        "train_micro_batch_size_per_gpu": SEQUENCES // ranks,
        "gradient_clipping": 0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": stage["stage"]},
        "libzero": {"shared_memory": stage.get("shared_memory", True)},
    }


def measure(build, stage, ranks, steps):
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "zero.json")
        result = Path(folder, "result.json")
        config.write_text(json.dumps(config_of(stage, ranks)))
        subprocess.run(
            [
                build / "bin/zero", "run", "-n", str(ranks),
                build / "bin/train_gpt", "--config", config,
                "--threads", str(max(1, os.cpu_count() // ranks)),
                "--steps", str(steps), "--warmup", "2", "--json", result,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=600,
        )
        return json.loads(result.read_text())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    options = parser.parse_args()

    rows = {}
    for number in range(options.rounds):
        for name, stage in STAGES.items():
            for ranks in RANKS:
                row = measure(options.build, stage, ranks, options.steps)
                rows.setdefault((name, ranks), []).append(row)
        print(f"round {number + 1} of {options.rounds}", flush=True)

    print("| stage | ranks | step, s | over 1 rank | CPU, s | PSS, MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for (name, ranks), found in rows.items():
        first = rows[name, 1]
        ratio = statistics.median(
            row["median_seconds"] / one["median_seconds"]
            for row, one in zip(found, first)
        )
        seconds, cpu, pss = (
            statistics.median(row[key] for row in found)
            for key in ("median_seconds", "cpu_seconds", "pss")
        )
        print(
            f"| {name} | {ranks} | {seconds:.3f} | {ratio:.2f} "
            f"| {cpu:.3f} | {pss / 1e6:.0f} |"
        )


if __name__ == "__main__":
    main()
