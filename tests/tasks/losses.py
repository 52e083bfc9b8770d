#!/usr/bin/env python3
"""Runs of `zero train --on-loss shrink` whose ranks are killed or stopped one after
another, until one is left; or of `--on-loss replace`, whose ranks are killed or stopped
while others take their places.

Each seed is one run. It has to end well without being started again, with the losses of
a run that nothing happened to, each step once, and with nothing left behind. The seed
chooses the stage and whether memory is shared, too.

  tests/tasks/losses.py --zero build/bin/zero --count 20
  tests/tasks/losses.py --zero build/bin/zero --seed 7     # one of them, again
  tests/tasks/losses.py --zero build/bin/zero --on-loss replace
"""
import json
import os
import random
import re
import shutil
import signal
import time

from faults import DEADLINE, Failure, Start, losses, losses_or_none, run_seeds, send

STEPS = {"shrink": 120, "replace": 300}  # a new process takes seconds to come
LOSSES = {"shrink": 3, "replace": 6}
RANKS = 4
TOLERANCE = 1e-5

CONFIG = {
    "model": {"type": "gpt", "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16, "dropout": 0},
    "data": {"type": "text", "path": "text.txt"},
    "train": {"evaluate_every": 20, "evaluate_samples": 8, "report_every": 1, "save_every": 15},
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": 1,
    # Rounding that differs stays rounding, which Adam makes more of.
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "libzero": {"timeout_seconds": 3},
}


def command_of(options, out):
    command = [str(options.zero), "train", "config.json", "-n", str(RANKS), "--out", str(out)]
    return command + ["--on-loss", options.on_loss, "--set", f"train.steps={STEPS[options.on_loss]}"]


def prepare(options, folder, chance):
    folder.mkdir()
    (folder / "text.txt").write_text("the cat sat on the mat, and so did the dog. " * 200)
    config = dict(CONFIG, zero_optimization={"stage": chance.randrange(4)})
    if options.on_loss == "replace":  # over more steps
        config["optimizer"] = {"type": "SGD", "params": {"lr": 0.01}}
        config["train"] = dict(CONFIG["train"], evaluate_every=60, save_every=40)
    config["libzero"] = dict(CONFIG["libzero"], shared_memory=chance.random() < 0.7)
    (folder / "config.json").write_text(json.dumps(config))
    return f"stage {config['zero_optimization']['stage']}, shared {config['libzero']['shared_memory']}"


def those_who_train(start, folder):
    """Those that were there at first, and those that have joined them."""
    joined = set()
    for line in (folder / "log.txt").read_text(errors="replace").splitlines():
        if " joined after step " in line:
            before = line.split(" joined after step ")[0].split(" lost after step ")[-1]
            joined.update(int(pid) for pid in re.findall(r"process (\d+)", before))
    return [pid for pid in start.ranks() if pid in start.numbers or pid in joined]


def lose_ranks(start, folder, out, chance, told, on_loss):
    for _ in range(LOSSES[on_loss]):
        goal = len(losses_or_none(out)) + chance.randrange(1, STEPS[on_loss] // 4)
        begin = time.monotonic()
        while start.process.poll() is None and time.monotonic() - begin < DEADLINE:
            if len(losses_or_none(out)) >= goal:
                break
            time.sleep(0.002)
        time.sleep(chance.random() * 0.03)
        alive = those_who_train(start, folder)
        if start.process.poll() is not None:
            return
        if len(alive) < 2:
            continue
        for victim in chance.sample(alive, chance.randrange(1, min(3, len(alive)))):
            how = signal.SIGSTOP if chance.random() < 0.1 else signal.SIGKILL
            told.append(f"{how.name} {start.numbers.get(victim, '?')} after {len(losses_or_none(out))}")
            send(victim, how)


def differing(found, expected):
    for step, loss in expected.items():
        if abs(found.get(step, float("inf")) - loss) > TOLERANCE * loss:
            return f"the loss of step {step} is {found.get(step)}, not {loss}"
    return None


def try_seed(options, seed, work, expected):
    chance = random.Random(seed)
    folder = work / f"seed-{seed}"
    told = [prepare(options, folder, chance)]
    out = folder / "run"
    start = Start(command_of(options, out), folder, f"{os.getpid()}-{seed}", None)
    try:
        while len(start.ranks()) < RANKS and start.process.poll() is None:
            time.sleep(0.01)
        start.numbers = {pid: number for number, pid in enumerate(start.ranks())}
        while not losses_or_none(out) and start.process.poll() is None:
            time.sleep(0.01)
        lose_ranks(start, folder, out, chance, told, options.on_loss)
        code = start.wait()
        start.nothing_left()
        if code != 0:
            raise Failure(f"it ended with {code}:\n" + (folder / "log.txt").read_text()[-3000:])
        problem = differing(losses(out), expected)
        if problem:
            raise Failure(problem)
        if options.on_loss == "replace":
            log = (folder / "log.txt").read_text(errors="replace")
            told.append(f"{len(re.findall(' joined after step ', log))} times others joined")
    except Failure as failure:
        print(f"seed {seed}: FAILED: {failure}\n  after: {'; '.join(told)}\n  in {folder}", flush=True)
        return False
    finally:
        start.end()
    print(f"seed {seed}: {'; '.join(told)}: as expected", flush=True)
    shutil.rmtree(folder)
    return True


def undisturbed(options, work):
    folder = work / "undisturbed"
    prepare(options, folder, random.Random(0))
    start = Start(command_of(options, folder / "run"), folder, f"{os.getpid()}-undisturbed", None)
    try:
        if start.wait() != 0:
            raise SystemExit("the undisturbed run failed:\n" + (folder / "log.txt").read_text()[-3000:])
    finally:
        start.end()
    return losses(folder / "run")


def add_options(parser):
    parser.add_argument("--on-loss", choices=STEPS, default="shrink", help="what becomes of lost ranks")


if __name__ == "__main__":
    run_seeds(__doc__, "losses", undisturbed, try_seed, add_options)
