#!/usr/bin/env python3
"""Trains the GPT of bench/train_gpt.cpp with an engine of Python, on the CPU.

The modules are made in the same order and every batch has the same seed as
there, so weights and tokens are the same. Needs bench/peers/setup.sh.

  bench/peers/.venv/bin/torchrun --nproc-per-node 2 bench/peers/train_gpt.py \\
      --engine fsdp2 --config zero.json --tokens 64
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    gelu = "none"  # or "tanh", as GPT-2 has it

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.projection = nn.Linear(d_model, d_model)
        self.mlp_norm = nn.LayerNorm(d_model)
        self.up = nn.Linear(d_model, 4 * d_model)
        self.down = nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate=self.gelu))


class Gpt(nn.Module):
    def __init__(self, d_model, layers, heads, vocabulary, length):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, d_model)  # the output layer too
        self.positions = nn.Embedding(length, d_model)
        self.blocks = nn.ModuleList(Block(d_model, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        with torch.no_grad():
            self.tokens.weight.mul_(0.02)
            self.positions.weight.mul_(0.02)

    def forward(self, tokens):
        """The loss: wrappers gather parameters for what is called through them."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


# --- engines: each has a module to call, round() and update() ---

class Torch:
    """torch alone, DDP or FSDP2, with torch's fused AdamW."""

    def __init__(self, kind, model, config, accumulation):
        if "scheduler" in config:
            sys.exit(f"train_gpt: {kind} is trained without a scheduler; remove it from the configuration")
        self.kind = kind
        self.accumulation = accumulation
        self.clipping = config.get("gradient_clipping", 1.0)
        if kind == "ddp":
            model = nn.parallel.DistributedDataParallel(model)
        elif kind == "fsdp2":
            from torch.distributed.fsdp import fully_shard
            mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        self.module = model
        params = config.get("optimizer", {}).get("params", {})
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=params.get("lr", 1e-3), betas=tuple(params.get("betas", (0.9, 0.999))),
            eps=params.get("eps", 1e-8), weight_decay=params.get("weight_decay", 0), fused=True)

    def round(self, loss_of):
        """The losses of a round, with gradients but without the update."""
        losses = []
        for micro_step in range(self.accumulation):
            last = micro_step + 1 == self.accumulation
            apart = contextlib.nullcontext()
            if self.kind == "fsdp2":
                self.module.set_requires_gradient_sync(last)
            elif self.kind == "ddp" and not last:
                apart = self.module.no_sync()
            with apart:
                loss = loss_of(micro_step)
                (loss / self.accumulation).backward()
            losses.append(loss.item())
        return losses

    def update(self):
        if self.clipping:
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.clipping)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class DeepSpeed:
    def __init__(self, model, config, accumulation):
        import deepspeed
        self.accumulation = accumulation
        self.module, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def round(self, loss_of):
        losses = []
        for micro_step in range(self.accumulation):
            loss = loss_of(micro_step)
            losses.append(loss.item())
            self.module.backward(loss)
            if micro_step + 1 < self.accumulation:
                self.module.step()
        return losses

    def update(self):
        self.module.step()


# --- measuring ---

def field(path, key):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    sys.exit(f"train_gpt: no {key} in {path}")


def from_all(value):
    values = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    values[dist.get_rank()] = value
    dist.all_reduce(values)
    return values.tolist()


def over_ranks(values, op):
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, op)
    return tensor


def train(options, config, engine, batch):
    rank, accumulation = dist.get_rank(), engine.accumulation

    def loss_of(number):
        if options.batches:
            number %= options.batches
        torch.manual_seed(1000 * number + rank)
        return engine.module(torch.randint(0, options.vocabulary, (batch, options.tokens + 1)))

    losses, seconds = [], []
    for step in range(options.steps + 1):
        if step == options.warmup:
            cpu_start = time.process_time()
        elif step == options.steps:
            cpu = (time.process_time() - cpu_start) / (options.steps - options.warmup)
        dist.barrier()
        start = time.perf_counter()
        found = engine.round(lambda micro_step: loss_of(step * accumulation + micro_step))
        if step == options.steps:  # one round more, stopped where gradients are there
            dist.barrier()
            pss = field("/proc/self/smaps_rollup", "Pss:")
            pss_file = field("/proc/self/smaps_rollup", "Pss_File:")
            dist.barrier()
        engine.update()
        if step < options.steps:
            losses.append(sum(found) / accumulation)
            if step >= options.warmup:
                seconds.append(time.perf_counter() - start)
    losses = (over_ranks(losses, dist.ReduceOp.SUM) / dist.get_world_size()).tolist()
    seconds = over_ranks(seconds, dist.ReduceOp.MAX).tolist()
    return {"losses": losses, "seconds": seconds, "median_seconds": statistics.median(seconds),
            "cpu_seconds": over_ranks([cpu], dist.ReduceOp.SUM).item(),
            "pss": sum(from_all(pss)), "pss_file": sum(from_all(pss_file)),
            "peak_rss": from_all(field("/proc/self/status", "VmHWM:"))}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, choices=["plain", "ddp", "fsdp2", "deepspeed"],
                        help="plain: one rank without any")
    parser.add_argument("--config", required=True, help="DeepSpeed's JSON; the others read the optimizer, "
                        "gradient_clipping, gradient_accumulation_steps and train_micro_batch_size_per_gpu of it")
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--batch", type=int, help="sequences of a micro-batch and rank; the file's size if not given")
    parser.add_argument("--tokens", type=int, default=64, help="length of a sequence")
    parser.add_argument("--batches", type=int, default=0,
                        help="different batches, used over and over; 0: all are different")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5, help="steps that are not timed")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    if options.warmup >= options.steps:
        parser.error("--warmup leaves no step to time")
    return options


def main():
    options = parse_arguments()
    config = json.loads(pathlib.Path(options.config).read_text())
    torch.set_num_threads(options.threads)
    if options.engine == "deepspeed":
        import deepspeed
        deepspeed.init_distributed("gloo")
    else:
        dist.init_process_group("gloo")
    if options.engine == "plain" and dist.get_world_size() > 1:
        sys.exit("train_gpt: plain is for one rank")
    torch.manual_seed(42)
    model = Gpt(options.d_model, options.layers, options.heads, options.vocabulary, options.tokens)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    accumulation = config.get("gradient_accumulation_steps", 1)
    batch = options.batch or config.get("train_micro_batch_size_per_gpu", 1)
    if options.engine == "deepspeed":
        engine = DeepSpeed(model, config, accumulation)
    else:
        engine = Torch(options.engine, model, config, accumulation)
    result = train(options, config, engine, batch)
    if dist.get_rank() == 0:
        print(f"{num_parameters} parameters")
        for step, loss in enumerate(result["losses"]):
            print(f"step {step}: loss {loss:.7f}")
        print(f"median step: {result['median_seconds']:.4f} s")
        print(f"CPU of all ranks: {result['cpu_seconds']:.4f} s per step")
        print(f"PSS of all ranks: {result['pss'] / 1e6:.1f} MB, of files {result['pss_file'] / 1e6:.1f} MB")
        for rank, bytes_ in enumerate(result["peak_rss"]):
            print(f"rank {rank}: peak RSS {bytes_ / 1e6:.1f} MB")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    # Gloo's threads may abort a process that takes its groups apart, after all
    # is done and written; so this does not.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
