#!/usr/bin/env python3
"""Times how long ranks on several hosts take to go on when one of them, or a host, is lost.

Hosts are network namespaces of this machine, joined by links of 1 Gbit/s. A GPT is
trained by `zero train` over them; then a rank is killed, or all ranks of a host, whose
part is taken from the copy that another host keeps, or from the last checkpoint. What is
reported is what the ranks say: from when one notices the loss until it goes on.

  bench/hosts_recovery.py --rounds 5
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/net"))

from namespaces import Hosts, Mpi, finish, why_no_hosts  # noqa: E402

DEADLINE = 900
WORDS = "the cat sat on a mat and the dog ran to a king who had seen it all before"


def write_config(folder, options, copies):
    chance = random.Random(1)
    (folder / "text.txt").write_text(" ".join(chance.choice(WORDS.split()) for _ in range(40000)))
    config = {
        "model": {"type": "gpt", "n_layer": options.layers, "n_head": 8, "n_embd": options.width, "block_size": 64},
        "data": {"type": "text", "path": str(folder / "text.txt")},
        "train_batch_size": 12,
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": options.stage},
        "libzero": {"redundancy": copies},
        "train": {"steps": options.steps, "evaluate_samples": 4, "save_at_end": False,
                  "save_every": 0 if copies else 3},
    }
    (folder / "config.json").write_text(json.dumps(config))


def num_updates(out):
    path = out / "metrics.jsonl"
    return sum('"loss"' in line for line in path.read_text().splitlines()) if path.exists() else 0


def ranks_on(hosts, host):
    return [process for process in hosts.processes(host)
            if b"zero\0train" in pathlib.Path(f"/proc/{process}/cmdline").read_bytes()]


def run(options, copies, lost):
    """Seconds; `lost` is how many ranks of the last host are killed."""
    with Hosts(options.hosts) as hosts, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder, options, copies)
        hosts.shape(options.rate)
        words = [str(ROOT / "build/bin/zero"), "train", str(folder / "config.json"), "--out", str(folder / "run")]
        job = Mpi("openmpi", ROOT / ".mpi").launch(hosts, options.ranks, words, folder)
        begin = time.monotonic()
        while num_updates(folder / "run") < options.steps // 2:
            if job.poll() is not None or time.monotonic() - begin > DEADLINE:
                raise SystemExit(finish(job)[-3000:])
            time.sleep(0.02)
        for process in ranks_on(hosts, hosts.names[-1])[:lost]:
            os.kill(process, signal.SIGKILL)
        out = finish(job, DEADLINE)
        said = re.search(r"^lost .* on after (\d+) ms", out, re.MULTILINE)
        if said is None:
            raise SystemExit(out[-3000:])
        return float(said[1]) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2, help="of each host")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--rate", default="1gbit")
    options = parser.parse_args()
    if reason := why_no_hosts():
        raise SystemExit(reason)
    for what, copies, lost in (("a rank", 0, 1), ("a host, from its copy", 1, options.ranks),
                               ("a host, from a checkpoint", 0, options.ranks)):
        seconds = [run(options, copies, lost) for _ in range(options.rounds)]
        print(f"{what}: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s of {len(seconds)}",
              flush=True)


if __name__ == "__main__":
    main()
