#!/usr/bin/env python3
"""Runs ranks on several hosts as torchrun starts them, with no launcher of MPI.

  torchrun_test.py --program build/bin/on_hosts --torchruns .venv/bin/torchrun

Hosts are network namespaces. The variables are set as torchrun sets them, with a
store such as its agent keeps; the first torchrun of those given that runs is
tried, too. Exits with 77, and says why, where namespaces cannot be made or
libzero has no module for MPICH.
"""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys

from namespaces import OVER_THE_NETWORK, Hosts, finish, why_no_hosts

PORT = 29400


def start(hosts, host, words, variables=None):
    return subprocess.Popen(hosts.command(host, words), env={**os.environ, **OVER_THE_NETWORK, **(variables or {})},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


@contextlib.contextmanager
def a_store(hosts, program):
    """On the first host, until the end."""
    store = start(hosts, hosts.names[0], [program, "store", str(PORT)])
    try:
        lines = []
        while "the store is there\n" not in lines:
            lines.append(store.stdout.readline())
            assert lines[-1], "".join(lines)
        yield
    finally:
        store.kill()
        store.wait()


def start_ranks(hosts, each, program, left_out=(), variables=None):
    """As an agent on each host starts them."""
    size = hosts.count * each
    jobs = []
    for rank in set(range(size)) - set(left_out):
        node, local = divmod(rank, each)
        jobs.append(start(hosts, hosts.names[node], program, {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(each),
            "GROUP_RANK": str(node), "MASTER_ADDR": hosts.address(hosts.names[0]), "MASTER_PORT": str(PORT),
            "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "True", **(variables or {})}))
    return jobs


def check_done(jobs, hosts, each):
    outs = [finish(job) for job in jobs]
    out = "".join(outs)
    size = hosts.count * each
    assert all(job.returncode == 0 for job in jobs), out
    assert len(re.findall(r"rank \d+ is done", out)) == size, out
    assert len(re.findall(rf"host \d of {hosts.count},", out)) == size, out
    assert len(re.findall(rf"of {each} on {hosts.mark}", out)) == size, out
    assert "will end this job" in out, out  # MPICH does not survive losses


def check_failed(jobs, pattern):
    for job in jobs:
        out = finish(job)
        assert job.returncode == 1 and re.search(pattern, out), out


def check_collectives(program):
    for each in (1, 2):
        with Hosts(2) as hosts, a_store(hosts, program):
            check_done(start_ranks(hosts, each, [program, "collectives"]), hosts, each)
            # Started again, with what the first have left in the store.
            check_done(start_ranks(hosts, each, [program, "collectives"]), hosts, each)
    print("collectives on 2 hosts")


def check_missing(program):
    with Hosts(2) as hosts, a_store(hosts, program):
        jobs = start_ranks(hosts, 2, [program, "collectives"], {3}, {"ZERO_PROGRESS_TIMEOUT_SECONDS": "3"})
        check_failed(jobs, r"ranks 3 did not come to torchrun's store within 3 s")
    print("a rank that does not come is named")


def check_unreachable(program):
    with Hosts(2) as hosts, a_store(hosts, program):
        jobs = start_ranks(hosts, 1, [program, "collectives"], {0},
                           {"MASTER_ADDR": "10.77.0.99", "ZERO_PROGRESS_TIMEOUT_SECONDS": "3"})
        check_failed(jobs, rf"on host {hosts.names[1]}, torchrun's store at 10.77.0.99:{PORT} .*does not answer")
    print("a store that is out of reach is named")


def check_wrong_interface(program):
    with Hosts(2) as hosts, a_store(hosts, program):
        jobs = start_ranks(hosts, 1, [program, "collectives"], (), {"UCX_NET_DEVICES": "lo"})
        for job in jobs:
            out = finish(job)
            assert job.returncode != 0 and "unreachable" in out, out
    print("hosts that do not reach each other by MPI's interface end")


def check_torchrun(torchrun, program):
    """torchrun itself, with each of its ways to bring its agents together."""
    for each in (1, 2):
        for way in ("static", "c10d"):
            with Hosts(2) as hosts:
                first = hosts.address(hosts.names[0])
                jobs = []
                for node, host in enumerate(hosts.names):
                    words = [torchrun, "--nnodes=2", f"--nproc-per-node={each}"]
                    if way == "static":
                        words += [f"--node-rank={node}", f"--master-addr={first}", f"--master-port={PORT}"]
                    else:
                        words += ["--rdzv-backend=c10d", "--rdzv-id=test", f"--rdzv-endpoint={first}:{PORT}",
                                  f"--local-addr={hosts.address(host)}",
                                  f"--rdzv-conf=is_host={int(node == 0)}"]  # these hosts have no names to look up
                    jobs.append(start(hosts, host, [*words, "--no-python", program, "collectives"]))
                check_done(jobs, hosts, each)
    print(f"{torchrun} on 2 hosts")


def runs(torchrun):
    try:
        return subprocess.run([torchrun, "--help"], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--torchruns", nargs="*", default=[])
    options = parser.parse_args()
    program = pathlib.Path(options.program).absolute()
    if not (program.parents[1] / "lib/zero/libzero_mpich.so").exists():
        print("left out: libzero has no module for MPICH; scripts/setup.sh --for-tests installs one")
        return 77
    if reason := why_no_hosts():
        print("left out:", reason)
        return 77
    check_collectives(str(program))
    check_missing(str(program))
    check_unreachable(str(program))
    check_wrong_interface(str(program))
    torchrun = next(filter(runs, options.torchruns), None)
    if torchrun:
        check_torchrun(torchrun, str(program))
    else:
        print("torchrun itself is left out: none of those given runs, which takes all of PyTorch's packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
