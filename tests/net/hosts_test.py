#!/usr/bin/env python3
"""Runs ranks on several hosts, which are network namespaces of this machine.

  hosts_test.py --program build/bin/on_hosts --mpis .mpi
  hosts_test.py --program build/bin/on_hosts --mpis .mpi --faults 100

Exits with 77, and says why, where namespaces cannot be made or no MPI is there.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from namespaces import DEADLINE, Hosts, Mpi, finish, why_no_hosts


def check_collectives(mpi, program, work):
    for num_hosts, ranks in ((2, 1), (2, 2), (4, 1), (4, 2)):
        with Hosts(num_hosts) as hosts:
            job = mpi.launch(hosts, ranks, [program, "collectives"], work)
            out = finish(job)
            size = num_hosts * ranks
            assert job.returncode == 0, out
            assert len(re.findall(r"rank \d+ is done", out)) == size, out
            assert len(re.findall(rf"host \d of {num_hosts},", out)) == size, out
            assert len(re.findall(rf"of {ranks} on {hosts.mark}", out)) == size, out
    print(f"{mpi.name}: collectives on 2 and 4 hosts")


def check_own_mpi(mpi, program, work):
    """A program that has called MPI_Init itself, and MPI_Finalize after libzero's end."""
    with Hosts(2) as hosts:
        job = mpi.launch(hosts, 1, [program, "own-mpi", str(mpi.library())], work)
        out = finish(job)
    assert job.returncode == 0, out
    assert len(re.findall(r"rank \d+ is done", out)) == 2, out
    print(f"{mpi.name}: in a program that has initialised MPI")


def check_wrong_interface(mpi, program, work):
    """Hosts that do not reach each other say so, and end."""
    with Hosts(2) as hosts:
        job = mpi.launch(hosts, 1, [program, "collectives"], work, {"ZERO_PROGRESS_TIMEOUT_SECONDS": "3"}, "lo")
        out = finish(job)
    assert job.returncode != 0, out
    assert re.search(rf"init: on host {hosts.mark}h\d, the ranks have not met", out), out
    print(f"{mpi.name}: hosts that do not reach each other say so")


def losses_of(out):
    """By stage and sharing."""
    return {line[:9]: [float(word) for word in line[10:].split()] for line in re.findall(r"stage \d \d:.*", out)}


def check_training(mpi, program, work):
    """Every stage has the losses that it has on one host."""
    alone = subprocess.run([str(pathlib.Path(program).parent / "zero"), "run", "-n", "4", program, "train"],
                           capture_output=True, text=True, timeout=DEADLINE)
    assert alone.returncode == 0, alone.stderr
    expected = losses_of(alone.stdout)
    assert len(expected) == 8, alone.stdout
    with Hosts(2) as hosts:
        job = mpi.launch(hosts, 2, [program, "train"], work)
        out = finish(job)
    assert job.returncode == 0, out
    assert ("will end this job" in out) == (mpi.name == "mpich"), out
    losses = losses_of(out)
    assert losses.keys() == expected.keys(), out
    for case, values in losses.items():
        for value, reference in zip(values, expected[case], strict=True):
            assert abs(value - reference) <= 2e-5 * abs(reference), f"{case}\n{alone.stdout}\n{out}"
    print(f"{mpi.name}: all stages on 2 hosts learn as on one")


def check_examples(mpi, program, work):
    """Examples print over two hosts what they print on one."""
    for name in ("plain_loop", "transformer"):
        example = str(pathlib.Path(program).parent / name)
        alone = subprocess.run([str(pathlib.Path(program).parent / "zero"), "run", "-n", "2", example],
                               capture_output=True, text=True, timeout=DEADLINE)
        expected = re.findall(r"loss [\d.]+ -> [\d.]+|finds \d+ of \d+ markers", alone.stdout)
        assert alone.returncode == 0 and expected, alone.stdout + alone.stderr
        with Hosts(2) as hosts:
            job = mpi.launch(hosts, 1, [example], work)
            out = finish(job)
        assert job.returncode == 0 and expected[-1] in out, f"{alone.stdout}\n{out}"
    print(f"{mpi.name}: examples on 2 hosts")


def check_loss(mpi, program, work):
    """A rank that is killed is lost to those on other hosts within a second."""
    with Hosts(2) as hosts:
        job = mpi.launch(hosts, 2, [program, "wait"], work)
        lines = []
        read_until(job, lines, r"process \d+", 4)
        victim = re.search(r"rank 3 of.*process (\d+)", "".join(lines))
        time.sleep(0.5)
        killed = time.time()
        os.kill(int(victim[1]), signal.SIGKILL)
        out = "".join(lines) + finish(job)
        lost = re.findall(r"lost rank (\d) at ([\d.]+)", out)
        assert len(lost) == 3 and all(rank == "3" for rank, _ in lost), out
        worst = max(float(at) for _, at in lost) - killed
        assert worst < 20, f"{worst} s\n{out}"  # the machine may be busy
    print(f"{mpi.name}: a rank that was killed was lost to the others after {worst:.2f} s")


def read_until(job, lines, pattern, count):
    while len(re.findall(pattern, "".join(lines))) < count:
        line = job.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)


def check_going_on(mpi, program, work, num_hosts, per_host, victims):
    """Survivors on all hosts go on, also when the first rank is lost, and a host."""
    size = num_hosts * per_host
    with Hosts(num_hosts) as hosts:
        job = mpi.launch(hosts, per_host, [program, "go-on", "1"], work)
        lines = []
        read_until(job, lines, r"process \d+", size)
        ranks = {int(rank): int(process) for rank, process in
                 re.findall(r"rank (\d) of.*process (\d+)", "".join(lines))}
        worst = 0
        for victim in victims:
            size -= 1
            time.sleep(0.3)
            killed = time.time()
            os.kill(ranks[victim], signal.SIGKILL)
            read_until(job, lines, f"goes on with {size}", size)
            worst = max(worst, time.time() - killed)
        finish(job)
    print(f"{mpi.name}: survivors on {num_hosts} hosts went on after {worst:.2f} s at most")


class Training:
    """Ranks on several hosts that train on, whoever is lost."""

    def __init__(self, mpi, program, work, hosts, shared, copies, folder="", ranks=2):
        self.hosts = hosts
        self.job = mpi.launch(hosts, ranks, [program, "train-on", str(shared), "1000000", str(copies), str(folder)],
                              work, {"ZERO_TIMEOUT_SECONDS": "3"})
        self.out = ""
        self.read_until(r"at step 60\b")
        self.ranks = {int(rank): int(process) for rank, process in
                      re.findall(r"rank (\d) of.*process (\d+)", self.out)}
        assert len(self.ranks) == ranks * hosts.count, self.out

    def read_until(self, pattern):
        """It hangs if that takes longer than a job may."""
        timer = threading.Timer(DEADLINE, os.killpg, (self.job.pid, signal.SIGKILL))
        timer.start()
        try:
            while not re.search(pattern, self.out):
                line = self.job.stdout.readline()
                assert line, f"waiting for {pattern}:\n{self.out}"
                self.out += line
        finally:
            timer.cancel()

    def steps(self):
        return int(re.findall(r"at step (\d+)", self.out)[-1])

    def lose(self, victims):
        for victim in victims:
            os.kill(self.ranks[victim], signal.SIGKILL)
        return time.time()

    def check_goes_on(self, left, outcome):
        """Those who are left say how, once, and train on. Returns the milliseconds that it took them."""
        found = rf"lost after step \d+; ({outcome}).*; {left} ranks? go(?:es)? on after (\d+) ms"
        self.read_until(found)
        match = re.search(found, self.out)
        self.read_until(rf"of {left} at step (\d+)")
        self.read_until(rf"of {left} at step {self.steps() + 40}\b")
        return float(match[2])

    def check_losses(self, expected):
        """As without a fault, as far as both have come."""
        losses = re.findall(r"at step (\d+), loss ([\d.]+)", self.out)
        assert losses, self.out
        for step, loss in losses:
            reference = expected.get(int(step))
            assert reference is None or abs(float(loss) - reference) <= 1e-3 * reference + 1e-5, \
                f"step {step}\n{expected}\n{self.out}"

    def end(self):
        """Nothing is left."""
        for process in self.ranks.values():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.out += finish(self.job)
        deadline = time.time() + 20
        while any(self.hosts.processes(host) for host in self.hosts.names):
            assert time.time() < deadline, "processes are left"
            time.sleep(0.1)


def losses_without_faults(program):
    """On one host, by whether memory is shared."""
    losses = {}
    for shared in (0, 1):
        job = subprocess.run([str(pathlib.Path(program).parent / "zero"), "run", "-n", "4", program, "train-on",
                              str(shared), "400"], capture_output=True, text=True, timeout=DEADLINE)
        assert job.returncode == 0, job.stderr
        losses[shared] = {int(step): float(loss) for step, loss in
                          re.findall(r"at step (\d+), loss ([\d.]+)", job.stdout)}
    return losses


ROUND = "the round is run again|the round was completed"
BACK = "back to '"
KINDS = ("killed", "stopped", "host gone", "unreachable", "link cut", "link slow")


def check_fault(mpi, program, work, seed, expected):
    """One of what happens to clusters, at a moment that the seed chooses."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    shared = chance.randrange(2)
    copies = chance.randrange(2)
    with Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
        training = Training(mpi, program, work, hosts, shared, copies, "" if copies else folder)
        time.sleep(chance.uniform(0, 0.5))
        victim = chance.randrange(4)
        from_memory_or_disk = ROUND if copies else BACK
        if kind == "killed":
            training.lose([victim])
            training.check_goes_on(3, ROUND)
        elif kind == "stopped":
            os.kill(training.ranks[victim], signal.SIGSTOP)
            training.check_goes_on(3, ROUND)
        elif kind == "host gone":
            # The one that mpirun is not on.
            training.lose([2, 3])
            training.check_goes_on(2, from_memory_or_disk)
        elif kind == "unreachable":
            # The side with the lowest rank goes on; the other one ends itself, and says why.
            hosts.cut(hosts.names[1])
            training.check_goes_on(2, from_memory_or_disk)
            hosts.heal(hosts.names[1])
        else:
            before = training.steps()
            if kind == "link cut":
                hosts.cut(hosts.names[1])
                time.sleep(chance.uniform(0.2, 1.5))
                hosts.heal(hosts.names[1])
            else:
                hosts.shape(chance.choice(("10mbit", "20mbit", "100mbit")))
            training.read_until(rf"of 4 at step {before + 40}\b")
            training.lose([victim])
            training.check_goes_on(3, ROUND)
        training.end()
        if kind == "unreachable":
            assert len(re.findall(r"on_hosts: .*(?:out of reach|took this one for lost)", training.out)) == 2, \
                training.out
        training.check_losses(expected[shared])
    print(f"{mpi.name}: fault {seed}, {kind}, {'shared' if shared else 'not shared'}, "
          f"{'copies' if copies else 'checkpoints'}: as it should be", flush=True)


def check_losing_hosts(mpi, program, work):
    """One rank, then the rest of its host, then a rank of another: those who are left train on, from memory."""
    expected = losses_without_faults(program)
    with Hosts(3) as hosts:
        training = Training(mpi, program, work, hosts, 1, 1)
        for victims, left in (((4,), 5), ((5,), 4), ((0,), 3)):
            training.lose(victims)
            took = training.check_goes_on(left, ROUND)
            print(f"{mpi.name}: {left} ranks go on {took:.0f} ms after they noticed", flush=True)
        training.end()
        training.check_losses(expected[1])


CONFIG = {
    "model": {"type": "gpt", "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16, "dropout": 0},
    "data": {"type": "text", "path": "text.txt"},
    "train": {"steps": 400, "evaluate_samples": 8, "report_every": 1, "save_every": 10},
    "train_batch_size": 12,
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "zero_optimization": {"stage": 2},
}


def metrics_of(folder, key):
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []
    return [line for line in lines if key in line]


def check_trainer(mpi, program, work):
    """`zero train` goes on by itself when a host is lost, from its copy or from the last checkpoint."""
    zero = str(pathlib.Path(program).parent / "zero")
    chance = random.Random(1)
    for copies in (1, 0):
        with Hosts(2) as hosts, tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            text = folder / "text.txt"
            text.write_text(" ".join(chance.choice("the cat sat on a mat and ran".split()) for _ in range(4000)))
            config = {**CONFIG, "data": {"type": "text", "path": str(text)}, "libzero": {"redundancy": copies}}
            (folder / "config.json").write_text(json.dumps(config))
            alone = subprocess.run([zero, "train", str(folder / "config.json"), "-n", "4", "--out", str(folder / "a")],
                                   capture_output=True, text=True, timeout=DEADLINE)
            assert alone.returncode == 0, alone.stdout + alone.stderr
            job = mpi.launch(hosts, 2, [zero, "train", str(folder / "config.json"), "--out", str(folder / "b")], work)
            deadline = time.time() + DEADLINE
            while len(metrics_of(folder / "b", "loss")) < 25:
                assert time.time() < deadline and job.poll() is None, finish(job)
                time.sleep(0.02)
            for process in hosts.processes(hosts.names[1]):
                if b"zero\0train" in pathlib.Path(f"/proc/{process}/cmdline").read_bytes():
                    os.kill(process, signal.SIGKILL)
            out = finish(job)
            expected = {line["step"]: line["loss"] for line in metrics_of(folder / "a", "loss")}
            steps = [line["step"] for line in metrics_of(folder / "b", "loss")]
            assert steps == list(range(1, 401)), f"{steps}\n{out}"
            for line in metrics_of(folder / "b", "loss"):
                reference = expected[line["step"]]
                assert abs(line["loss"] - reference) <= 1e-3 * reference, f"{line}\n{reference}\n{out}"
            notes = [line["note"] for line in metrics_of(folder / "b", "note")]
            found = [note for note in notes if note.startswith("lost ") and ("back to step" in note) != bool(copies)]
            assert len(found) == 1, f"{notes}\n{out}"
        print(f"{mpi.name}: zero train goes on {'from the copy' if copies else 'from its checkpoint'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpis", required=True, type=pathlib.Path)
    parser.add_argument("--faults", type=int, default=0, help="how many seeded faults, with Open MPI")
    parser.add_argument("--only", help="the check whose name ends so, with Open MPI")
    parser.add_argument("--first-fault", type=int, default=0, help="the first one's seed")
    options = parser.parse_args()
    mpis = [mpi for mpi in (Mpi("openmpi", options.mpis), Mpi("mpich", options.mpis)) if mpi.exists()]
    if not mpis:
        print("left out: there is no MPI; scripts/setup.sh --for-tests installs two")
        return 77
    if reason := why_no_hosts():
        print("left out:", reason)
        return 77
    program = str(pathlib.Path(options.program).absolute())
    with tempfile.TemporaryDirectory() as folder:
        if options.faults:
            expected = losses_without_faults(program)
            for seed in range(options.first_fault, options.first_fault + options.faults):
                check_fault(mpis[0], program, pathlib.Path(folder), seed, expected)
            return 0
        if options.only:
            globals()[f"check_{options.only}"](mpis[0], program, pathlib.Path(folder))
            return 0
        for mpi in mpis:
            check_collectives(mpi, program, pathlib.Path(folder))
            check_own_mpi(mpi, program, pathlib.Path(folder))
            check_training(mpi, program, pathlib.Path(folder))
            if mpi.name == "openmpi":
                check_wrong_interface(mpi, program, pathlib.Path(folder))
                check_examples(mpi, program, pathlib.Path(folder))
                check_loss(mpi, program, pathlib.Path(folder))
                check_going_on(mpi, program, pathlib.Path(folder), 2, 2, (0, 2, 1))
                # Each alone on its host: in the middle of what goes straight from tensor to tensor.
                for victims in ((0, 2, 1), (3, 1, 2)):
                    check_going_on(mpi, program, pathlib.Path(folder), 4, 1, victims)
                check_losing_hosts(mpi, program, pathlib.Path(folder))
                check_trainer(mpi, program, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
