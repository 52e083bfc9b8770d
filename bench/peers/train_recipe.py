#!/usr/bin/env python3
"""Trains the recipes of examples/train with PyTorch's own DDP or FSDP2, on the CPU.

  bench/peers/.venv/bin/torchrun --nproc-per-node 2 bench/peers/train_recipe.py \\
      text --engine ddp --data data/shakespeare.txt
  bench/peers/.venv/bin/torchrun --nproc-per-node 2 bench/peers/train_recipe.py \\
      images --engine fsdp2 --data data/cifar-10-batches-bin --steps 391

Prints the seconds of all steps, without evaluation, and what the evaluation found. With
--folder it writes a line for each step and saves there, and goes on from what was saved:
what `torchrun --max-restarts` needs.
"""
import argparse
import json
import math
import os
import pathlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import train_gpt


class Text:
    """nanoGPT's small recipe, character by character."""
    steps = 2000
    batch = 12

    def __init__(self, path):
        text = pathlib.Path(path).read_text()
        characters = {c: i for i, c in enumerate(sorted(set(text)))}
        tokens = torch.tensor([characters[c] for c in text])
        cut = round(0.9 * len(tokens))
        self.train, self.test = tokens[:cut], tokens[cut:]
        train_gpt.Block.gelu = "tanh"
        self.model = train_gpt.Gpt(128, 4, 4, len(characters), 64)
        for name, parameter in self.model.named_parameters():
            if parameter.dim() == 2:
                deviation = 0.02 / math.sqrt(8) if name.endswith(("projection.weight", "down.weight")) else 0.02
                torch.nn.init.normal_(parameter, 0, deviation)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(parameter)

    def optimizer(self, model):
        groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0}]
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)

    def lr(self, step):
        if step < 100:
            return 1e-3 * step / 100
        return 1e-4 + 0.9e-3 * 0.5 * (1 + math.cos(math.pi * (step - 100) / 1900))

    clipping = 1.0

    def loss(self, model, count, generator):
        places = torch.randint(len(self.train) - 64, (count,), generator=generator)
        return model(torch.stack([self.train[i:i + 65] for i in places]))

    def evaluate(self, model, rank, size):
        places = torch.linspace(0, len(self.test) - 65, 2400).long()[rank::size]
        losses = [model(torch.stack([self.test[i:i + 65] for i in part])).item() * len(part)
                  for part in places.split(24)]
        return {"loss": sum(losses)}, len(places)


class Images:
    """ResNet-18 as torchvision has it, on CIFAR-10."""
    steps = 3910
    batch = 128

    def __init__(self, path):
        import torchvision
        def read(names):
            data = torch.cat([torch.frombuffer(bytearray((pathlib.Path(path) / name).read_bytes()), dtype=torch.uint8)
                              for name in names]).view(-1, 3073)
            return data[:, 1:].view(-1, 3, 32, 32), data[:, 0].long()
        self.images, self.labels = read([f"data_batch_{i}.bin" for i in range(1, 6)])
        self.test_images, self.test_labels = read(["test_batch.bin"])
        values = self.images.float() / 255
        self.mean, self.std = values.mean((0, 2, 3)).view(1, 3, 1, 1), values.std((0, 2, 3)).view(1, 3, 1, 1)
        self.model = torchvision.models.resnet18(num_classes=10)
        self.order = torch.empty(0, dtype=torch.long)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)

    def lr(self, step):
        if step < 1173:
            return 0.1 * step / 1173
        return 0.1 - 0.1 * (step - 1173) / 2737

    clipping = 0

    def loss(self, model, count, generator):
        if len(self.order) < count:
            self.order = torch.randperm(len(self.images), generator=generator)
        numbers, self.order = self.order[:count], self.order[count:]
        images = (self.images[numbers].float() / 255 - self.mean) / self.std
        padded = F.pad(images, (4, 4, 4, 4))
        moved = []
        for image in padded:
            y, x = torch.randint(9, (2,), generator=generator).tolist()
            image = image[:, y:y + 32, x:x + 32]
            moved.append(image.flip(2) if torch.rand(1, generator=generator) < 0.5 else image)
        return F.cross_entropy(model(torch.stack(moved)), self.labels[numbers], label_smoothing=0.1)

    def evaluate(self, model, rank, size):
        right = 0
        for numbers in torch.arange(len(self.test_images))[rank::size].split(256):
            logits = model((self.test_images[numbers].float() / 255 - self.mean) / self.std)
            right += (logits.argmax(1) == self.test_labels[numbers]).sum().item()
        return {"accuracy": right}, len(range(rank, len(self.test_images), size))


class Folder:
    """Where a run can be taken up again: metrics.jsonl, and the newest checkpoint whole."""

    def __init__(self, path, save_every):
        self.path = pathlib.Path(path)
        self.save_every = save_every

    def load(self, recipe, optimizer, generator):
        """The step to go on with."""
        if not (self.path / "checkpoint.pt").exists():
            return 0
        saved = torch.load(self.path / "checkpoint.pt", weights_only=True)
        recipe.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        generator.set_state(saved["generators"][dist.get_rank()])
        return saved["step"]

    def step_is_done(self, step, loss, recipe, optimizer, generator):
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        saves = step % self.save_every == 0
        if saves:
            states = [torch.empty_like(generator.get_state()) for _ in range(dist.get_world_size())]
            dist.all_gather(states, generator.get_state())
        if dist.get_rank() != 0:
            return
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "loss": mean.item() / dist.get_world_size()}) + "\n")
        if saves:
            with open(self.path / "checkpoint.new", "wb") as file:
                torch.save({"model": recipe.model.state_dict(), "optimizer": optimizer.state_dict(),
                            "generators": states, "step": step}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.path / "checkpoint.new", self.path / "checkpoint.pt")


def wrap(engine, model):
    if engine == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for module in model.modules():
        if type(module).__name__ in ("Block", "BasicBlock"):
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=["text", "images"])
    parser.add_argument("--engine", choices=["ddp", "fsdp2"], required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, help="fewer than the recipe has")
    parser.add_argument("--no-evaluation", action="store_true")
    parser.add_argument("--folder", help="where to write each step's loss, to save, and to go on from")
    parser.add_argument("--save-every", type=int, default=50, help="steps, with --folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1337)
    recipe = (Text if options.recipe == "text" else Images)(options.data)
    model = wrap(options.engine, recipe.model)
    optimizer = recipe.optimizer(model)
    generator = torch.Generator().manual_seed(1337 + rank)
    steps = options.steps or recipe.steps
    folder = Folder(options.folder, options.save_every) if options.folder else None
    first = folder.load(recipe, optimizer, generator) if folder else 0
    dist.barrier()
    start = time.perf_counter()
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr(step)
        loss = recipe.loss(model, recipe.batch // size, generator)
        loss.backward()
        if recipe.clipping:
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clipping)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if folder:
            folder.step_is_done(step + 1, loss, recipe, optimizer, generator)
        if rank == 0 and (step + 1) % 250 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}, {time.perf_counter() - start:.1f} s", flush=True)
    dist.barrier()
    result = {"engine": options.engine, "steps": steps, "seconds": time.perf_counter() - start}
    if not options.no_evaluation:
        model.eval()
        with torch.no_grad():
            sums, count = recipe.evaluate(model, rank, size)
        for name, value in sums.items():
            totals = torch.tensor([value, count], dtype=torch.float64)
            dist.all_reduce(totals)
            result[name] = (totals[0] / totals[1]).item()
    if rank == 0:
        print(json.dumps(result), flush=True)
    # Gloo's threads may abort a process that takes its groups apart.
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
