#!/usr/bin/env python3
"""Trains while ranks are killed again and again, beside DDP that torchrun restarts.

Both train nanoGPT's small recipe (examples/train/shakespeare_char.json) on the same text,
once undisturbed and once with a random rank killed every few seconds, at the same moments
after the first step. libzero replaces the rank that is lost; torchrun ends all ranks and
starts them again, which go on from their newest checkpoint. A round is one run of each.

  scripts/get_shakespeare.sh
  bench/peers/setup.sh --no-deepspeed --no-mpi
  bench/goodput.py --every 10 --steps 1000

Goodput is the undisturbed time over the disturbed one, from the first step to the last.
A step is lost if it was done and had to be done again.
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
import sys
import tempfile
import time

from recovery import ROOT, lines_of, percentile

DEADLINE = 3600
VENV = ROOT / "bench/peers/.venv"
PROGRAMS = ("libzero", "DDP")


def command_of(program, options, out):
    if program == "libzero":
        return [ROOT / "build/bin/zero", "train", ROOT / "examples/train/shakespeare_char.json",
                "-n", options.ranks, "--out", out, "--on-loss", "replace",
                "--set", f"data.path={options.data}", "--set", f"train.steps={options.steps}",
                "--set", "train.evaluate_every=0", "--set", "train.report_every=1",
                "--set", "train.save_at_end=false", "--set", "train_micro_batch_size_per_gpu=1",
                "--set", f"zero_optimization.stage={options.stage}"]
    return [VENV / "bin/torchrun", "--nproc-per-node", options.ranks, "--max-restarts", 100000,
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
            ROOT / "bench/peers/train_recipe.py", "text", "--engine", "ddp", "--data", options.data,
            "--steps", options.steps, "--no-evaluation", "--folder", out, "--save-every", options.save_every]


def processes_of(job):
    """Its ranks: those of its session that no other one of them has for a parent's parent."""
    ranks = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"GOODPUT_JOB={job}".encode() not in environment:
            continue
        is_rank = any(name.startswith((b"ZERO_RANK=", b"LOCAL_RANK=")) for name in environment)
        if is_rank and command != [b""]:
            ranks.append(int(entry.name))
    return ranks


class Run:
    """One run from its start to its end."""

    def __init__(self, program, options, folder, kills):
        self.out = folder / "run"
        if program != "libzero":
            self.out.mkdir()
        self.job = f"{os.getpid()}-{folder.name}"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GOODPUT_JOB": self.job}
        began = time.monotonic()
        with open(folder / "output", "w") as output:
            process = subprocess.Popen(list(map(str, command_of(program, options, self.out))), env=environment,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            self.killed, self.seen = 0, {}
            first = None
            while process.poll() is None:
                now = time.monotonic()
                if now - began > DEADLINE:
                    raise SystemExit(f"{program} took more than {DEADLINE} s")
                for line in lines_of(self.out):
                    if "loss" in line:
                        self.seen.setdefault(line["step"], now)
                        first = first or now
                if first and self.killed < len(kills) and now - first >= kills[self.killed][0]:
                    ranks = sorted(processes_of(self.job))
                    if ranks:
                        os.kill(ranks[int(kills[self.killed][1] * len(ranks))], signal.SIGKILL)
                    self.killed += 1
                time.sleep(0.02)
        finally:
            process.kill()
        self.output = (folder / "output").read_text()
        if process.returncode != 0:
            raise SystemExit(f"{program} ended with {process.returncode}:\n{self.output[-3000:]}")
        steps = [line for line in lines_of(self.out) if "loss" in line]
        self.losses = {line["step"]: line["loss"] for line in steps}
        self.again = len(steps) - len(self.losses)
        self.to_first_step = first - began
        self.seconds = max(self.seen.values()) - first


def kills_of(options, chance):
    """(seconds after the first step, which of the ranks) of more than there is time for."""
    return [((number + chance.random() * 0.5) * options.every, chance.random()) for number in range(1, 10000)]


def final_loss(run):
    """Of the last steps; one alone is noise."""
    return statistics.mean(loss for _, loss in sorted(run.losses.items())[-100:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/shakespeare.txt")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=float, default=30, help="seconds from one kill to the next, about")
    parser.add_argument("--stage", type=int, default=2, help="of libzero")
    parser.add_argument("--save-every", type=int, default=50, help="steps between DDP's checkpoints")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.data = options.data.resolve()
    chance = random.Random(options.seed)
    rows = {program: [] for program in options.programs.split(",")}
    said = []
    for turn in range(options.rounds):
        kills = kills_of(options, chance)
        for program, found in rows.items():
            with tempfile.TemporaryDirectory() as calm_folder, tempfile.TemporaryDirectory() as folder:
                calm = Run(program, options, pathlib.Path(calm_folder), [])
                run = Run(program, options, pathlib.Path(folder), kills)
            row = {"program": program, "round": turn + 1, "kills": run.killed,
                   "undisturbed_s": calm.seconds, "disturbed_s": run.seconds, "goodput": calm.seconds / run.seconds,
                   "seconds_per_kill": (run.seconds - calm.seconds) / max(1, run.killed),
                   "steps_again": run.again, "start_s": calm.to_first_step,
                   "loss": final_loss(calm), "disturbed_loss": final_loss(run),
                   "largest_difference": max(abs(run.losses[step] - loss) / loss for step, loss in calm.losses.items())}
            if program == "libzero":
                said += [float(ms) for ms in re.findall(r"lost .* on after (\d+) ms", run.output)]
            found.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    for program, found in rows.items():
        print(json.dumps({"program": program, **{name: statistics.median(row[name] for row in found)
                                                 for name in found[0] if name not in ("program", "round")}}))
    if said:
        print(json.dumps({"losses": len(said), "recovery_ms_p50": percentile(said, 0.5),
                          "recovery_ms_p95": percentile(said, 0.95)}))


if __name__ == "__main__":
    main()
