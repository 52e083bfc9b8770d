#!/usr/bin/env python3
"""Makes the losses of other engines that tests/engine/golden_losses_test.cpp has to meet.

    bench/peers/setup.sh --no-mpi
    bench/peers/.venv/bin/torchrun --nproc-per-node 2 bench/peers/golden_losses.py

Trains the GPT of train_gpt.py, a small one, on two ranks: with plain PyTorch,
where one process runs the micro-batches of both ranks and averages; with FSDP2;
with DeepSpeed at stages 0 to 3. Each has the same weights, tokens and
configuration, which is DeepSpeed's JSON. The batches are few and come again and
again, so that the loss falls: equal losses then mean equal updates. Writes
tests/engine/golden_losses.json, and prints how far each engine is from plain
PyTorch.
"""
import copy
import json
import os
import re
import sys

import training_runs

os.environ.update(training_runs.environment())  # before DeepSpeed looks for its compiler

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.runtime import lr_schedules

import train_gpt
from compare_collectives import ROOT

RANKS = 2
STEPS = 20
MODEL = {"d_model": 32, "layers": 2, "heads": 4, "vocabulary": 64, "length": 16}
BATCHES = 4  # different ones of each rank
GOLDEN = ROOT / "tests" / "engine" / "golden_losses.json"

# Every type of optimizer, each with something that another implementation might
# understand otherwise. DeepSpeed clips to 1 where nothing is said.
CONFIGURATIONS = {
    "AdamW with clipping, warm-up and accumulation": {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "betas": [0.9, 0.95], "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}},
    },
    "SGD with momentum, without clipping": {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 0,
        "optimizer": {"type": "SGD", "params": {"lr": 0.05, "momentum": 0.9}},
        "zero_allow_untested_optimizer": True,
    },
    "Adam as it comes": {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "Adam", "params": {"lr": 3e-3}},
    },
    "Adam with L2": {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "Adam", "params": {"lr": 3e-3, "weight_decay": 0.1, "adam_w_mode": False}},
    },
}


class Torch(train_gpt.Torch):
    """With any of torch's optimizers, and with DeepSpeed's schedules."""

    def __init__(self, kind, model, config, accumulation):
        config = dict(config)
        optimizer, scheduler = config.pop("optimizer"), config.pop("scheduler", None)
        super().__init__(kind, model, config, accumulation)
        kind, params = optimizer["type"], {"weight_decay": 0, **optimizer["params"]}
        if params.pop("adam_w_mode", True) and kind == "Adam":
            kind = "AdamW"  # as DeepSpeed means it
        self.optimizer = getattr(torch.optim, kind)(self.module.parameters(), **params)
        self.schedule = scheduler and getattr(lr_schedules, scheduler["type"])(self.optimizer, **scheduler["params"])

    def update(self):
        super().update()
        if self.schedule:
            self.schedule.step()  # after the optimizer, as in DeepSpeed's engine


def make_engine(name, config):
    torch.manual_seed(42)
    model = train_gpt.Gpt(**MODEL)
    accumulation = config.get("gradient_accumulation_steps", 1)
    if name == "plain":
        return Torch(name, model, config, accumulation * RANKS)
    if name == "fsdp2":
        return Torch(name, model, config, accumulation)
    config = {**copy.deepcopy(config), "zero_optimization": {"stage": int(name[-1])}}
    return train_gpt.DeepSpeed(model, config, accumulation)


def train(name, config):
    """The loss of each step: the mean over ranks and micro-batches."""
    engine = make_engine(name, config)
    accumulation = config.get("gradient_accumulation_steps", 1)
    batch = config["train_micro_batch_size_per_gpu"]

    def loss_of(number, rank):
        torch.manual_seed(1000 * (number % BATCHES) + rank)
        return engine.module(torch.randint(0, MODEL["vocabulary"], (batch, MODEL["length"] + 1)))

    losses = []
    for step in range(STEPS):
        first = step * accumulation
        if name == "plain":
            found = engine.round(lambda i: loss_of(first + i // RANKS, i % RANKS))
        else:
            found = engine.round(lambda i: loss_of(first + i, dist.get_rank()))
        engine.update()
        losses.append(sum(found) / len(found))
    return (train_gpt.over_ranks(losses, dist.ReduceOp.SUM) / RANKS).tolist()


def main():
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    if dist.get_world_size() != RANKS:
        sys.exit(f"golden_losses: made by {RANKS} ranks, not {dist.get_world_size()}")
    cases = []
    for title, config in CONFIGURATIONS.items():
        losses = {name: train(name, config) for name in
                  ("plain", "fsdp2", *(f"deepspeed, stage {stage}" for stage in range(4)))}
        cases.append({"name": title, "config": config, "losses": {
            name: [float(f"{loss:.9g}") for loss in found] for name, found in losses.items()}})
        if dist.get_rank() == 0:
            print(f"{title}: {losses['plain'][0]:.6f} to {losses['plain'][-1]:.6f}")
            for name, found in losses.items():
                furthest = max(abs(a - b) / b for a, b in zip(found, losses["plain"], strict=True))
                print(f"  {name}: within {furthest:.1e} of plain PyTorch")
    if dist.get_rank() == 0:
        golden = {
            "made_by": "bench/peers/golden_losses.py",
            "versions": {"torch": torch.__version__, "deepspeed": deepspeed.__version__},
            "ranks": RANKS, "batches": BATCHES, "model": MODEL, "cases": cases}
        # Lists of numbers in one line each.
        text = re.sub(r"\[([^][{}]*)\]", lambda found: f"[{' '.join(found[1].split())}]", json.dumps(golden, indent=1))
        GOLDEN.write_text(text + "\n")
    # As in train_gpt.py: Gloo's threads may abort a process that takes its groups apart.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
