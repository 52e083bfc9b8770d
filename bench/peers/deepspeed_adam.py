"""Times DeepSpeedCPUAdam as `zero bench adam` times its own: prints one row.

    deepspeed_adam.py NUMEL ROUNDS THREADS
"""
import json
import statistics
import sys
import time

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam

BYTES_PER_ELEMENT = 28  # parameter, gradient and two moments read; all but the gradient written


def main():
    numel, rounds, threads = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    parameter = torch.nn.Parameter(torch.full((numel,), 0.1))
    parameter.grad = torch.full((numel,), 1e-3)
    optimizer = DeepSpeedCPUAdam([parameter], lr=1e-3, weight_decay=0.01, adamw_mode=True)
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[1:])
    print(json.dumps({
        "op": "deepspeed_adam",
        "bytes": BYTES_PER_ELEMENT * numel,
        "seconds": median,
        "gigabytes_per_second": BYTES_PER_ELEMENT * numel / median / 1e9,
    }))


if __name__ == "__main__":
    main()
