#!/usr/bin/env python3
"""Compares libzero's models and files with those who made the formats.

  bench/peers/.venv/bin/python bench/peers/check_models.py [--run DIR]

- GPT-2 of transformers, saved by it and loaded here: the logits.
- ResNet-18, 34 and 50 of torchvision, saved as safetensors and loaded here: the
  outputs, and that another number of classes leaves the last layer out.
- With --run, a folder of `zero train` with a GPT: transformers loads its model and
  answers with the same logits; TensorBoard's own reader reads its events.

Needs bench/peers/setup.sh --models.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/bin"
failures = 0


def report(what, difference, limit):
    global failures
    failures += not difference <= limit
    print(f"{'ok  ' if difference <= limit else 'FAIL'}  {what}: largest difference {difference:.2e}, allowed {limit:.0e}")


def outputs(folder, kind, model, data, *options):
    save_file({"input": data.contiguous()}, folder / "input.safetensors")
    result = subprocess.run([BIN / "model_outputs", kind, model, folder / "input.safetensors",
                             folder / "output.safetensors", *options], check=True, capture_output=True, text=True)
    return load_file(folder / "output.safetensors")["output"], result.stdout


def check_gpt(folder):
    from transformers import GPT2Config, GPT2LMHeadModel
    for config in (dict(n_layer=3, n_head=4, n_embd=64, vocab_size=300, n_positions=48),
                   dict(n_layer=12, n_head=12, n_embd=768)):
        model = GPT2LMHeadModel(GPT2Config(**config)).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # larger than at the start, so that differences show
                parameter.add_(0.05 * torch.randn_like(parameter))
            tokens = torch.randint(0, model.config.vocab_size, (3, 40))
            expected = model(tokens).logits
        model.save_pretrained(folder / "gpt")
        found, _ = outputs(folder, "gpt", folder / "gpt", tokens)
        report(f"GPT-2 of transformers, {config['n_layer']} layers, loaded here",
               ((found - expected).abs().max() / expected.abs().max()).item(), 1e-4)


def check_resnet(folder):
    import torchvision
    for depth in (18, 34, 50):
        model = getattr(torchvision.models, f"resnet{depth}")().eval()
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name.endswith("running_mean"):
                    buffer.uniform_(-0.2, 0.2)
                elif name.endswith("running_var"):
                    buffer.uniform_(0.5, 1.5)
            images = torch.randn(2, 3, 96, 96)
            expected = model(images)
        save_file(model.state_dict(), folder / "resnet.safetensors")
        found, left = outputs(folder, "resnet", folder / "resnet.safetensors", images,
                              "--depth", str(depth), "--classes", "1000")
        report(f"ResNet-{depth} of torchvision, loaded here",
               ((found - expected).abs().max() / expected.abs().max()).item(), 1e-4)
        _, left = outputs(folder, "resnet", folder / "resnet.safetensors", images,
                          "--depth", str(depth), "--classes", "7")
        report(f"ResNet-{depth}, 7 classes: the last layer stays as it is",
               0 if "fc.weight" in left and "fc.bias" in left else 1, 0.5)


def check_run(folder, run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from transformers import GPT2LMHeadModel
    model, info = GPT2LMHeadModel.from_pretrained(run / "best", output_loading_info=True)
    report(f"{run}/best in transformers: missing and unexpected tensors",
           len(info["missing_keys"]) + len(info["unexpected_keys"]), 0.5)
    model.eval()
    tokens = torch.randint(0, model.config.vocab_size, (4, model.config.n_positions))
    with torch.no_grad():
        expected = model(tokens).logits
    found, _ = outputs(folder, "gpt", run / "best", tokens)
    report(f"{run}/best, logits of transformers", ((found - expected).abs().max() / expected.abs().max()).item(), 1e-4)

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    lines = [line for line in (run / "metrics.jsonl").read_text().splitlines() if '"eval"' not in line]
    import json
    losses = [json.loads(line)["loss"] for line in lines]
    read = [event.value for event in events.Scalars("train/loss")]
    report(f"{run}/tensorboard: {len(read)} losses against metrics.jsonl",
           max(map(lambda a, b: abs(a - b), losses, read)) if len(losses) == len(read) else float("inf"), 1e-5)
    texts = [event for event in events.Tensors("sample")] if "sample" in events.Tags()["tensors"] else []
    print(f"      tags: {', '.join(events.Tags()['scalars'])}; {len(texts)} texts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=pathlib.Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_gpt(folder)
        check_resnet(folder)
        if options.run:
            check_run(folder, options.run)
    sys.exit(f"{failures} checks failed" if failures else 0)


if __name__ == "__main__":
    main()
