#!/usr/bin/env python3
"""Times the collectives of torch.distributed's Gloo backend over loopback.

    .venv/bin/python gloo_collectives.py [--ranks N] [--bytes LIST] [--ops LIST]

Prints one JSON row per (op, bytes), with the meanings of openmpi_collectives.c:
`bytes` is the whole unsharded float32 buffer and `seconds` the median over
iterations of the slowest rank's time. The times include the Python call, a few
microseconds, as they do for anybody training with PyTorch.
"""
import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import statistics
import sys
import tempfile
import time
import warnings

# The measurement needs no NumPy; PyTorch without it works, but says so.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

try:
    import torch
    import torch.distributed as dist
except ImportError:
    sys.exit("gloo_collectives: no PyTorch here; run bench/peers/setup.sh and use bench/peers/.venv/bin/python")


def value(source, target, index):
    """Small whole numbers, so that float sums are exact in any order."""
    return (100 * source + 10 * target + index % 7).float()


class Buffers:
    """`full` and `other` hold the whole buffer, `shard` is this rank's part of it."""

    def __init__(self, count, ranks, rank):
        self.rank, self.ranks = rank, ranks
        self.shard_count = max(1, count // ranks)
        self.index = torch.arange(count, dtype=torch.int32)
        self.owner = self.index // self.shard_count
        self.full = torch.zeros(count)
        self.other = torch.zeros(count)
        self.shard = torch.zeros(self.shard_count)

    def sum_of_values(self):
        return sum(value(r, 0, self.index) for r in range(self.ranks))

    def own(self, tensor):
        return tensor[self.rank * self.shard_count:][:self.shard_count]


class AllReduce:
    sharded = False

    def fill(b):
        b.full.copy_(value(b.rank, 0, b.index))

    def run(b):
        dist.all_reduce(b.full)

    def correct(b):
        return torch.equal(b.full, b.sum_of_values())


class ReduceScatter:
    # PyTorch makes this one of an all_reduce on a copy of the whole buffer, of
    # which it keeps the own part, so it is never faster than all_reduce.
    sharded = True
    fill = AllReduce.fill

    def run(b):
        dist.reduce_scatter_tensor(b.shard, b.full)

    def correct(b):
        return torch.equal(b.shard, b.own(b.sum_of_values()))


class AllGather:
    sharded = True

    def fill(b):
        b.shard.copy_(b.own(value(b.owner, 0, b.index)))

    def run(b):
        dist.all_gather_into_tensor(b.full, b.shard)

    def correct(b):
        return torch.equal(b.full, value(b.owner, 0, b.index))


class Broadcast:
    sharded = False
    fill = AllReduce.fill

    def run(b):
        dist.broadcast(b.full, 0)

    def correct(b):
        return torch.equal(b.full, value(0, 0, b.index))


class AllToAll:
    sharded = True

    def fill(b):
        b.full.copy_(value(b.rank, b.owner, b.index % b.shard_count))

    def run(b):
        dist.all_to_all_single(b.other, b.full)

    def correct(b):
        return torch.equal(b.other, value(b.owner, b.rank, b.index % b.shard_count))


class Barrier:
    sharded = False

    def fill(b):
        pass

    def run(b):
        dist.barrier()

    def correct(b):
        return True


OPS = {
    "all_reduce": AllReduce,
    "reduce_scatter": ReduceScatter,
    "all_gather": AllGather,
    "broadcast": Broadcast,
    "all_to_all": AllToAll,
    "barrier": Barrier,
}


def default_iterations(size):
    """Enough repetitions for a steady median, few enough for large buffers."""
    return max(10, min(200, (128 << 20) // size if size else 200))


def measure(name, size, iterations, rank, ranks):
    op = OPS[name]
    # A buffer too small to divide gets rounded up; the row keeps the size
    # asked for, so that rows of different programs still match.
    unit = 4 * ranks if op.sharded else 4
    b = Buffers((size + unit - 1) // unit * unit // 4, ranks, rank)
    op.fill(b)
    op.run(b)
    if not op.correct(b):
        raise RuntimeError(f"rank {rank}: wrong result of {name} with {size} bytes")

    for tensor in (b.full, b.other, b.shard):
        tensor.zero_()  # zeros stay zeros however often they are summed in place
    times = []
    warmup = iterations // 10 + 2
    for _ in range(warmup + iterations):
        # All start together, so nobody's time includes waiting for a late rank.
        dist.barrier()
        start = time.perf_counter()
        op.run(b)
        times.append(time.perf_counter() - start)

    slowest = torch.tensor(times[warmup:], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    seconds = statistics.median(slowest.tolist())
    return {"backend": "gloo", "op": name, "ranks": ranks, "bytes": size,
            "seconds": seconds, "gigabytes_per_second": size / seconds / 1e9}


def work(rank, options, store):
    torch.set_num_threads(1)  # as every rank has one core at most
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    for name in options.ops:
        for size in [0] if name == "barrier" else options.bytes:
            row = measure(name, size, options.iterations or default_iterations(size), rank, options.ranks)
            if rank == 0:
                print(json.dumps(row), flush=True)
    dist.destroy_process_group()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", default="8,65536,1048576,67108864", help="comma-separated buffer sizes")
    parser.add_argument("--ops", default=",".join(OPS), help="comma-separated, of: %(default)s")
    parser.add_argument("--iterations", type=int, default=0, help="default: by size")
    options = parser.parse_args()
    try:
        options.bytes = [int(size) for size in options.bytes.split(",")]
    except ValueError:
        parser.error(f"bad --bytes {options.bytes}")
    options.ops = options.ops.split(",")
    unknown = [name for name in options.ops if name not in OPS]
    if unknown or min(options.bytes) < 4 or options.ranks < 1:
        parser.error(f"unknown ops: {unknown}" if unknown else "sizes are at least 4 bytes, ranks at least 1")
    return options


def main():
    options = parse_arguments()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # Forking shares the long import of PyTorch between the ranks; it is safe
    # here as the parent has not computed anything, so it has no threads yet.
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="gloo_collectives.") as directory:
        # A file as the meeting point needs no free port.
        processes = [context.Process(target=work, args=(rank, options, os.path.join(directory, "store")), daemon=True)
                     for rank in range(options.ranks)]
        for process in processes:
            process.start()
        # Being stopped still removes the directory and ends the ranks. They are
        # forked before this, as a rank waiting in Gloo would not get to a handler.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        # One failed rank would leave the others waiting for it: stop them.
        failed = False
        while not failed and (running := [p for p in processes if p.exitcode is None]):
            multiprocessing.connection.wait([p.sentinel for p in running])
            failed = any(p.exitcode for p in processes)
        for process in processes:
            if failed:
                process.terminate()
            process.join()
    sys.exit(1 if any(p.exitcode for p in processes) else 0)


if __name__ == "__main__":
    main()
