#!/usr/bin/env python3
"""Runs of `zero train` that something happens to, again and again, until they are done.

Each seed is one run: it is started with --resume, and while it trains a rank is killed
or stopped, the launcher is killed, somebody asks it to stop, the disk is full, or a file
of its newest checkpoint is damaged; then it is started again. In the end its losses have
to be those of a run that nothing happened to, and nothing may be left behind.

  tests/tasks/faults.py --zero build/bin/zero --count 20
  tests/tasks/faults.py --zero build/bin/zero --seed 7     # one of them, again
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 40
RANKS = 2
DEADLINE = 120  # of one start; a busy machine is slow
FAULTS_OF_A_RUN = 4

CONFIG = {
    "model": {"type": "gpt", "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16, "dropout": 0.1},
    "data": {"type": "text", "path": "text.txt"},
    "train": {"steps": STEPS, "evaluate_samples": 8, "report_every": 1, "save_every": 5, "keep_checkpoints": 3},
    "train_batch_size": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    "libzero": {"timeout_seconds": 3},
}


class Failure(Exception):
    pass


class Start:
    """One start of a run, with all processes that come of it."""

    def __init__(self, command, folder, mark, failpoint):
        self.mark = f"ZERO_FAULTS_RUN={mark}"
        self.log = open(folder / "log.txt", "ab")
        environment = dict(os.environ, OMP_NUM_THREADS="1", ZERO_FAULTS_RUN=mark)
        if failpoint:
            environment["ZERO_FAILPOINT"] = failpoint
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=self.log, stderr=self.log)

    def processes(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                is_dead = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            except OSError:
                continue
            if self.mark.encode() in environment and not is_dead:
                found.append(int(entry.name))
        return found

    def ranks(self):
        """Those that train: the launcher's command has -n, theirs has not."""
        found = []
        for pid in self.processes():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"train" in words and b"-n" not in words:
                found.append(pid)
        return sorted(found)

    def wait(self):
        try:
            return self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise Failure(f"it did not end within {DEADLINE} s") from None
        finally:
            self.log.close()

    def nothing_left(self):
        """The launcher's other process may still be clearing up."""
        for _ in range(200):
            left = self.processes()
            if not left:
                return
            time.sleep(0.05)
        raise Failure(f"processes {left} are left")

    def end(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def losses(out):
    found = {}
    path = out / "metrics.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        values = json.loads(line)
        if "loss" in values:
            if values["step"] in found:
                raise Failure(f"step {values['step']} is there twice")
            found[values["step"]] = values["loss"]
    return found


def checkpoints(out):
    folder = out / "checkpoints"
    return sorted(folder.glob("save-*")) if folder.exists() else []


def damage(out, chance):
    """Something of the newest checkpoint; not of the only one."""
    known = checkpoints(out)
    if len(known) < 2:
        return "nothing to damage"
    path = chance.choice(sorted(known[-1].iterdir()))
    size = path.stat().st_size
    kind = chance.choice(["flip", "cut", "remove", "zeros"])
    if kind == "remove":
        path.unlink()
    elif kind == "cut":
        os.truncate(path, chance.randrange(size))
    else:
        offset = chance.randrange(size)
        with path.open("r+b") as file:
            file.seek(offset)
            old = file.read(64)
            file.seek(offset)
            file.write(bytes([old[0] ^ 1 << chance.randrange(8)]) if kind == "flip" else b"\0" * len(old))
    return f"{kind} {path.parent.name}/{path.name}"


def wait_for_steps(start, out, chance):
    """Until it has made some more, or has ended."""
    goal = len(losses_or_none(out)) + chance.randrange(1, 12)
    begin = time.monotonic()
    while start.process.poll() is None and time.monotonic() - begin < DEADLINE:
        if len(losses_or_none(out)) >= goal:
            break
        time.sleep(0.005)
    time.sleep(chance.random() * 0.05)


def losses_or_none(out):
    try:
        return losses(out)
    except (Failure, json.JSONDecodeError):  # it is being written
        return {}


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def strike(start, out, fault, chance):
    wait_for_steps(start, out, chance)
    ranks = start.ranks()
    victim = chance.choice(ranks) if ranks else None
    if fault == "kill launcher":
        send(start.process.pid, signal.SIGKILL)
    elif victim is None:
        return
    elif fault == "kill":
        send(victim, signal.SIGKILL)
    elif fault == "stop":
        send(victim, signal.SIGSTOP)
    elif fault == "term":
        send(victim, signal.SIGTERM)
    elif fault == "save and kill":
        send(victim, signal.SIGUSR1)
        time.sleep(chance.random() * 0.1)
        send(victim, signal.SIGKILL)


def run_once(options, folder, out, chance, mark, told):
    """One start, with one fault. Whether the run is done."""
    fault = chance.choice(["kill", "kill", "stop", "term", "kill launcher", "save and kill", "full", "killed saving",
                           "damage"])
    failpoint = None
    if fault in ("full", "killed saving"):
        action = "kill" if fault == "killed saving" else chance.choice(["enospc", "eio"])
        failpoint = f"file.call:{action}@{chance.randrange(1, 60)}:{chance.randrange(RANKS)}"
    told.append(fault + (f" ({failpoint})" if failpoint else ""))
    start = Start(command_of(options, out), folder, mark, failpoint)
    try:
        if fault == "damage":
            strike(start, out, "kill", chance)
        elif not failpoint:
            strike(start, out, fault, chance)
        code = start.wait()
        start.nothing_left()
    finally:
        start.end()
    if fault == "damage":
        told.append(damage(out, chance))
    return code == 0


def command_of(options, out):
    return [str(options.zero), "train", "config.json", "-n", str(RANKS), "--out", str(out), "--resume"]


def finish(options, folder, out, mark):
    start = Start(command_of(options, out), folder, mark, None)
    try:
        if start.wait() != 0:
            raise Failure("it did not go on:\n" + (folder / "log.txt").read_text()[-2000:])
        start.nothing_left()
    finally:
        start.end()


def check_folder(out):
    left = [path.name for path in (out / "checkpoints").iterdir() if path.name.startswith(".")]
    left += [path.name for path in out.iterdir() if path.name.startswith(".")]
    if left:
        raise Failure(f"{left} is left")


def prepare(folder):
    folder.mkdir()
    (folder / "text.txt").write_text("the cat sat on the mat, and so did the dog. " * 200)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def try_seed(options, seed, work, expected):
    chance = random.Random(seed)
    folder = work / f"seed-{seed}"
    prepare(folder)
    out = folder / "run"
    told = []
    try:
        for _ in range(FAULTS_OF_A_RUN):
            if run_once(options, folder, out, chance, f"{os.getpid()}-{seed}", told):
                break
        finish(options, folder, out, f"{os.getpid()}-{seed}")
        check_folder(out)
        found = losses(out)
        if found != expected:
            step = next(step for step in expected if found.get(step) != expected[step])
            raise Failure(f"the loss of step {step} is {found.get(step)}, not {expected[step]}")
    except Failure as failure:
        print(f"seed {seed}: FAILED: {failure}\n  after: {'; '.join(told)}\n  in {folder}", flush=True)
        return False
    print(f"seed {seed}: {'; '.join(told)}: as expected", flush=True)
    shutil.rmtree(folder)
    return True


def run_seeds(about, name, undisturbed, try_seed, add_options=lambda parser: None):
    """The program of a script like this one: expects of every seed what undisturbed() gave."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zero", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--count", type=int, default=5, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one")
    add_options(parser)
    options = parser.parse_args()
    options.zero = options.zero.resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix=f"zero-{name}-"))
    expected = undisturbed(options, work)
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.count)
    failed = [seed for seed in seeds if not try_seed(options, seed, work, expected)]
    if failed:
        sys.exit(f"{len(failed)} of {len(seeds)} failed: seeds {failed}; files are in {work}")
    shutil.rmtree(work)
    print(f"{len(seeds)} runs: no hang, no other loss, nothing left")


def undisturbed(options, work):
    reference = work / "reference"
    prepare(reference)
    finish(options, reference, reference / "run", f"{os.getpid()}-reference")
    expected = losses(reference / "run")
    assert len(expected) == STEPS
    return expected


if __name__ == "__main__":
    run_seeds(__doc__, "faults", undisturbed, try_seed)
