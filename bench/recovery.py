#!/usr/bin/env python3
"""Times how long those who are left take to go on when a rank of `zero train` is killed.

Each round is a run that loses one rank after another, at random moments, until one is
left. What the ranks say themselves is from when one notices the loss until it goes on,
which takes the others coming to a call of the engine. What it cost the run is how much
longer the step took in which it happened than the steps around it.

  bench/recovery.py --ranks 3 --rounds 5
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEADLINE = 900
WORDS = "the cat sat on a mat and the dog ran to a king who had seen it all before"


def write_config(folder, options):
    chance = random.Random(1)
    (folder / "text.txt").write_text(" ".join(chance.choice(WORDS.split()) for _ in range(40000)))
    config = {
        "model": {"type": "gpt", "n_layer": options.layers, "n_head": 8, "n_embd": options.width, "block_size": 64},
        "data": {"type": "text", "path": str(folder / "text.txt")},
        "train_batch_size": 12,
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": options.stage},
        "train": {"steps": options.steps, "evaluate_samples": 4, "save_at_end": False},
    }
    (folder / "config.json").write_text(json.dumps(config))


def lines_of(out):
    path = out / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def ranks_of(process):
    """The children of the launcher's other process."""
    def children(pid):
        try:
            return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            return []
    return [rank for supervisor in children(process.pid) for rank in children(supervisor)]


def run(folder, options, chance):
    """(milliseconds that the ranks say, seconds beyond a usual step) of each loss."""
    out = folder / "run"
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [ROOT / "build/bin/zero", "train", folder / "config.json", "-n", str(options.ranks), "--out", out,
               "--on-loss", "shrink"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for loss in range(options.ranks - 1):
            goal = (loss + 1) * options.steps // options.ranks
            begin = time.monotonic()
            while sum("loss" in line for line in lines_of(out)) < goal and time.monotonic() - begin < DEADLINE:
                time.sleep(0.01)
            time.sleep(chance.random() * options.spread)
            os.kill(chance.choice(ranks_of(process)), signal.SIGKILL)
        output, _ = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    if process.returncode != 0:
        raise SystemExit(output[-3000:])
    said = [float(ms) for ms in re.findall(r"^lost .* on after (\d+) ms$", output, re.MULTILINE)]
    lines = lines_of(out)
    seconds = {line["step"]: line["seconds"] for line in lines if "loss" in line}
    beyond = []
    for line in lines:
        if "note" in line:
            usual = statistics.median(seconds[step] for step in range(line["step"] + 2, line["step"] + 6)
                                      if step in seconds)
            beyond.append(max(0.0, seconds.get(line["step"] + 1, usual) - usual))
    return said, beyond


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--spread", type=float, default=1.0, help="seconds, within which a kill comes after a step")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    said, beyond = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            write_config(pathlib.Path(name), options)
            of_run = run(pathlib.Path(name), options, chance)
            said += of_run[0]
            beyond += of_run[1]
    print(json.dumps({
        "losses": len(said),
        "recovery_ms": {"p50": percentile(said, 0.5), "p95": percentile(said, 0.95)},
        "beyond_a_step_s": {"p50": round(percentile(beyond, 0.5), 3), "p95": round(percentile(beyond, 0.95), 3)},
    }, indent=2))


if __name__ == "__main__":
    main()
