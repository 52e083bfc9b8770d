#!/usr/bin/env python3
"""Times libzero over two hosts with a slow link between them, beside DDP and FSDP2.

The hosts are network namespaces of this machine, so it needs root, iproute2 and
scripts/setup.sh --for-tests. All programs run in turn, round after round; a ratio
is the median of the ratios within the rounds.

  bench/hosts.py --rounds 5
  bench/hosts.py --rounds 5 --peers      # after bench/peers/setup.sh --no-deepspeed
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/net"))

from namespaces import Hosts, Mpi, finish

DEADLINE = 900
PORT = 29400  # of torchrun, in namespaces of its own


class Runs:
    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.mpi = Mpi("openmpi", ROOT / ".mpi")
        self.bin = ROOT / "build/bin"

    def training(self, stage):
        config = self.work / f"stage{stage}.json"
        config.write_text(json.dumps({
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "gradient_clipping": 0,
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.01}},
            "zero_optimization": {"stage": stage}}))
        return ["--config", str(config), "--tokens", str(self.options.tokens),
                "--steps", str(self.options.steps), "--warmup", "3"]

    def compute(self):
        """A step of both ranks on one host: what the link has nothing to do with."""
        out = subprocess.run([self.bin / "zero", "run", "-n", "2", self.bin / "train_gpt", *self.training(1)],
                             check=True, capture_output=True, text=True).stdout
        return median_step(out)

    def libzero(self, stage):
        return self.over_hosts(lambda hosts: [self.mpi.launch(
            hosts, 1, [self.bin / "train_gpt", *self.training(stage)], self.work)])

    def collectives(self, ranks):
        with Hosts(2) as hosts:
            hosts.shape(self.options.rate)
            out = finish(self.mpi.launch(hosts, ranks, [self.bin / "on_hosts", "measure"], self.work), DEADLINE)
        return {name: float(seconds) for name, seconds in re.findall(r"(all_\w+) ([\d.]+)", out)}

    def peer(self, engine):
        def launch(hosts):
            python = ROOT / "bench/peers/.venv/bin"
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            return [subprocess.Popen(
                hosts.command(name, [str(python / "torchrun"), "--nnodes", "2", "--node-rank", str(number),
                                     "--nproc-per-node", "1", "--master-addr", hosts.address(hosts.names[0]),
                                     "--master-port", str(PORT), str(ROOT / "bench/peers/train_gpt.py"),
                                     "--engine", engine, *self.training(0)]),
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                start_new_session=True) for number, name in enumerate(hosts.names)]
        return self.over_hosts(launch)

    def over_hosts(self, launch):
        """The median step, and megabytes that the first host sends in one."""
        with Hosts(2) as hosts:
            hosts.shape(self.options.rate)
            before = hosts.sent_bytes(hosts.names[0])
            jobs = launch(hosts)
            out = "".join(finish(job, DEADLINE) for job in jobs)
            sent = hosts.sent_bytes(hosts.names[0]) - before
        # One round more measures memory; making the engine sends parameters once.
        return median_step(out), sent / (self.options.steps + 2) / 1e6


def median_step(out):
    found = re.search(r"median step: ([\d.]+)", out)
    assert found, out
    return float(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rate", default="1gbit", help="as tc has it")
    parser.add_argument("--megabytes", type=float, default=119, help="that the link carries in a second")
    parser.add_argument("--peers", action="store_true", help="also DDP and FSDP2, with Gloo")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, pathlib.Path(folder))
        for _ in range(options.rounds):
            row = {"compute": runs.compute()}
            for ranks in (1, 2):
                row.update({f"{name}, {ranks} a host": time for name, time in runs.collectives(ranks).items()})
            for stage in (1, 2, 3):
                row[f"stage {stage}"], row[f"MB of stage {stage}"] = runs.libzero(stage)
            if options.peers:
                for engine in ("ddp", "fsdp2"):
                    row[engine], row[f"MB of {engine}"] = runs.peer(engine)
            for stage in (1, 2, 3):
                best = max(row["compute"], row[f"MB of stage {stage}"] / options.megabytes)
                row[f"stage {stage} of perfect overlap"] = best / row[f"stage {stage}"]
                for engine in ("ddp", "fsdp2") if options.peers else ():
                    row[f"stage {stage} over {engine}"] = row[engine] / row[f"stage {stage}"]
            for name, share in (("all_gather", 0.5), ("all_reduce", 1)):
                for ranks in (1, 2):
                    wire = 16 * 2**20 * share / options.megabytes / 1e6
                    row[f"{name}, {ranks} a host, of the wire"] = wire / row[f"{name}, {ranks} a host"]
            rows.append(row)
            print(json.dumps(row), file=sys.stderr)
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name}: {statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
