"""Times torch.save and PyTorch's distributed checkpoint, for bench/save.py.

Each rank has its share of a model with Adam's state, as FSDP2 would leave it there.
Rank 0 says the seconds as a line of JSON.

  torchrun --nproc-per-node 2 bench/peers/save.py FOLDER PARAMETERS
"""
import json
import os
import shutil
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def timed(part):
    dist.barrier()
    start = time.monotonic()
    part()
    dist.barrier()
    return time.monotonic() - start


def torch_save(state, path):
    """On the disk, as the others leave it."""
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def main():
    folder, parameters = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    state = {
        f"{kind}.{layer}.{rank}": torch.randn(parameters // 10 // size)
        for kind in ("parameter", "exp_avg", "exp_avg_sq") for layer in range(10)
    }
    path = f"{folder}/dcp"
    if rank == 0:
        os.makedirs(path, exist_ok=True)
    times = {
        "torch.save": timed(lambda: torch_save(state, f"{folder}/torch-{rank}.pt")),
        "dcp": timed(lambda: dcp.save(state, checkpoint_id=path)),
        "dcp load": timed(lambda: dcp.load(state, checkpoint_id=path)),
    }
    os.unlink(f"{folder}/torch-{rank}.pt")
    dist.barrier()
    if rank == 0:
        shutil.rmtree(path)
        print(json.dumps(times), flush=True)
    dist.destroy_process_group()


main()
