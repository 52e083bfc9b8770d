#!/usr/bin/env python3
"""Runs ranks with srun, in a Slurm of its own on hosts that are network namespaces.

  slurm_test.py --program build/bin/on_hosts

Exits with 77, and says why, where namespaces cannot be made or Slurm is not
there. On Debian it is slurmctld, slurmd, slurm-client, munge and, for
--mpi=pmix, libpmix-dev.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from namespaces import OVER_THE_NETWORK, Hosts, finish, why_no_hosts

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
CPUS = 4  # of a host, whatever the machine has


class Slurm:
    """The first host has the controller; each is a node."""

    def __init__(self, hosts, work):
        self.hosts = hosts
        self.work = work
        self.daemons = []
        self.environment = {**os.environ, **OVER_THE_NETWORK, "SLURM_CONF": str(work / "slurm.conf")}

    def __enter__(self):
        first = self.hosts.names[0]
        key = self.work / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (self.work / "state").mkdir()
        # Nothing is confined, but slurmd does not start without saying so.
        (self.work / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        (self.work / "slurm.conf").write_text(self.configuration())
        try:
            self.start(["munged", "--foreground", "--force", f"--socket={self.work}/munge", f"--key-file={key}",
                        f"--pid-file={self.work}/munged.pid", f"--log-file={self.work}/munged.log",
                        f"--seed-file={self.work}/munged.seed"])
            self.wait_for(lambda: (self.work / "munge").exists())
            self.start(self.hosts.command(first, ["slurmctld", "-D"]))
            for host in self.hosts.names:
                (self.work / host).mkdir()
                # A namespace sees no control groups, which slurmd looks for.
                script = f"mount -t tmpfs none /sys/fs/cgroup; exec slurmd -D -N {host}"
                self.start(self.hosts.command(host, ["sh", "-c", script]))
            self.wait_for(lambda: self.capture("sinfo", "--noheader", "--format=%D %t").strip() ==
                          f"{self.hosts.count} idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()

    def configuration(self):
        first = self.hosts.names[0]
        lines = [
            "ClusterName=test", f"SlurmctldHost={first}({self.hosts.address(first)})",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", "CredType=cred/munge",
            f"AuthInfo=socket={self.work}/munge", f"StateSaveLocation={self.work}/state",
            f"SlurmdSpoolDir={self.work}/%n", f"SlurmctldPidFile={self.work}/slurmctld.pid",
            f"SlurmdPidFile={self.work}/%n.pid", f"SlurmctldLogFile={self.work}/slurmctld.log",
            f"SlurmdLogFile={self.work}/%n.log",
            f"TmpFS={self.work}/%n",  # all hosts have the same /tmp
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SwitchType=switch/none",
            "JobAcctGatherType=jobacct_gather/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU", "SlurmdParameters=config_overrides", "MpiDefault=none"]
        lines += [f"NodeName={host} NodeAddr={self.hosts.address(host)} CPUs={CPUS}" for host in self.hosts.names]
        lines += ["PartitionName=all Nodes=ALL Default=YES State=UP"]
        return "\n".join(lines) + "\n"

    def start(self, words):
        self.daemons.append(subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))

    def capture(self, *words):
        done = subprocess.run(self.hosts.command(self.hosts.names[0], words), env=self.environment,
                              capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def wait_for(self, is_there):
        deadline = time.time() + 60
        while not is_there():
            assert time.time() < deadline, "".join(
                f"{log.name}:\n{log.read_text()}" for log in self.work.glob("*.log"))
            time.sleep(0.2)

    def srun(self, mpi, each, program):
        """What it printed, and its exit code."""
        words = ["srun", "--immediate=30", f"--mpi={mpi}", f"--nodes={self.hosts.count}",
                 f"--ntasks-per-node={each}", *program]
        job = subprocess.Popen(self.hosts.command(self.hosts.names[0], words), env=self.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        return finish(job), job.returncode


def check_ranks(slurm, mpi, program):
    hosts = slurm.hosts
    for each in (1, 2):
        out, code = slurm.srun(mpi, each, [program, "collectives"])
        size = hosts.count * each
        assert code == 0, out
        assert len(re.findall(r"rank \d+ is done", out)) == size, out
        assert len(re.findall(rf"of {each} on {hosts.mark}", out)) == size, out
    print(f"srun --mpi={mpi} on {hosts.count} hosts")


def check_without_mpi(slurm, program):
    out, code = slurm.srun("none", 1, [program, "collectives"])
    assert code != 0 and "srun started 2 ranks (SLURM_STEP_NUM_TASKS) without an MPI" in out, out
    print("srun without an MPI is refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    program = pathlib.Path(options.program).absolute()
    modules = program.parents[1] / "lib/zero"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        print("left out: there is no", ", ".join(missing))
        return 77
    if reason := why_no_hosts():
        print("left out:", reason)
        return 77
    with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts, Slurm(hosts, pathlib.Path(folder)) as slurm:
        check_without_mpi(slurm, str(program))
        for name, mpi in (("openmpi", "pmix"), ("mpich", "pmi2")):
            if not (modules / f"libzero_{name}.so").exists():
                print(f"--mpi={mpi} is left out: libzero has no module for {name}")
            elif "Invalid MPI type" in slurm.srun(mpi, 1, ["true"])[0]:
                print(f"--mpi={mpi} is left out: this Slurm cannot load it")
            else:
                check_ranks(slurm, mpi, str(program))
    return 0


if __name__ == "__main__":
    sys.exit(main())
