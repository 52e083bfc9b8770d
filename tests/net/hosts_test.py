#!/usr/bin/env python3
"""Runs ranks on several hosts, which are network namespaces of this machine.

  hosts_test.py --program build/bin/on_hosts --mpis .mpi
  hosts_test.py --program build/bin/on_hosts --mpis .mpi --faults 100

Exits with 77, and says why, where namespaces cannot be made or no MPI is there.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
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
    """Four ranks on two hosts that train until one is lost."""

    def __init__(self, mpi, program, work, hosts, shared):
        self.hosts = hosts
        self.job = mpi.launch(hosts, 2, [program, "train-on", str(shared), "1000000"], work,
                              {"ZERO_TIMEOUT_SECONDS": "3"})
        self.out = ""
        self.read_until(r"at step 20\b")
        self.ranks = {int(rank): int(process) for rank, process in
                      re.findall(r"rank (\d) of.*process (\d+)", self.out)}
        assert len(self.ranks) == 4, self.out

    def read_until(self, pattern):
        while not re.search(pattern, self.out):
            line = self.job.stdout.readline()
            assert line, self.out
            self.out += line

    def steps(self):
        return int(re.findall(r"at step (\d+)", self.out)[-1])

    def check_losses(self, expected):
        """As without a fault, as far as both have come."""
        losses = losses_by_step(self.out)
        for step in losses.keys() & expected.keys():
            assert abs(losses[step] - expected[step]) <= 1e-3 * expected[step], f"step {step}\n{expected}\n{self.out}"

    def check_lost(self, expected, survivors):
        """All survivors say that one of these was lost, and nothing is left."""
        self.out += finish(self.job)
        lost = [int(rank) for rank in re.findall(r"lost rank (\d)", self.out)]
        assert len(lost) >= survivors and set(lost) <= expected, f"{expected}\n{self.out}"
        deadline = time.time() + 20
        while any(self.hosts.processes(host) for host in self.hosts.names):
            assert time.time() < deadline, "processes are left"
            time.sleep(0.1)


def losses_by_step(out):
    return {int(step): float(loss) for step, loss in re.findall(r"at step (\d+), loss ([\d.]+)", out)}


def losses_without_faults(program):
    """On one host, by whether memory is shared."""
    losses = {}
    for shared in (0, 1):
        job = subprocess.run([str(pathlib.Path(program).parent / "zero"), "run", "-n", "4", program, "train-on",
                              str(shared), "400"], capture_output=True, text=True, timeout=DEADLINE)
        assert job.returncode == 0, job.stderr
        losses[shared] = losses_by_step(job.stdout)
    return losses


KINDS = ("killed", "stopped", "host gone", "unreachable", "link cut", "link slow")


def check_fault(mpi, program, work, seed, expected):
    """One of what happens to clusters, at a moment that the seed chooses."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    shared = chance.randrange(2)
    with Hosts(2) as hosts:
        training = Training(mpi, program, work, hosts, shared)
        time.sleep(chance.uniform(0, 0.5))
        victim = chance.randrange(4)
        if kind == "killed":
            os.kill(training.ranks[victim], signal.SIGKILL)
            training.check_lost({victim}, 3)
        elif kind == "stopped":
            os.kill(training.ranks[victim], signal.SIGSTOP)
            training.check_lost({victim}, 3)
        elif kind == "host gone":
            # The one that mpirun is not on.
            for process in (training.ranks[2], training.ranks[3]):
                os.kill(process, signal.SIGKILL)
            training.check_lost({2, 3}, 2)
        elif kind == "unreachable":
            # Each host loses the other one's ranks. mpirun waits for its daemon, which it cannot reach.
            hosts.cut(hosts.names[1])
            training.read_until(r"(?s)lost rank [23].*lost rank [23]")
            hosts.heal(hosts.names[1])
            training.check_lost({0, 1, 2, 3}, 2)
        else:
            before = training.steps()
            if kind == "link cut":
                hosts.cut(hosts.names[1])
                time.sleep(chance.uniform(0.2, 1.5))
                hosts.heal(hosts.names[1])
            else:
                hosts.shape(chance.choice(("10mbit", "20mbit", "100mbit")))
            training.read_until(rf"at step {before + 40}\b")
            os.kill(training.ranks[victim], signal.SIGKILL)
            training.check_lost({victim}, 3)
        training.check_losses(expected[shared])
    print(f"{mpi.name}: fault {seed}, {kind}, {'shared' if shared else 'not shared'}: as it should be", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpis", required=True, type=pathlib.Path)
    parser.add_argument("--faults", type=int, default=0, help="how many seeded faults, with Open MPI")
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
