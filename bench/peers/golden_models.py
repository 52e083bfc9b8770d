#!/usr/bin/env python3
"""Writes what transformers' GPT-2 and torchvision's ResNets answer, for the tests.

  bench/peers/.venv/bin/python bench/peers/golden_models.py > tests/models/golden_outputs.json

Weights and inputs are computed by a formula that tests/models/golden_outputs_test.cpp
has, too, so that no weights have to be kept. Needs bench/peers/setup.sh --models.
"""
import json

import torch


def wave(sizes, step, shift):
    count = torch.Size(sizes).numel()
    return torch.sin(step * torch.arange(count, dtype=torch.float64) + shift).view(sizes)


def fill(module):
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if name.endswith("num_batches_tracked"):
                continue
            values = wave(tensor.shape, 0.7, len(name))
            if name.endswith("running_var"):
                values = 1 + values ** 2
            elif tensor.dim() > 1:
                values = 0.05 * values
            else:
                values = 0.5 + 0.3 * values
            tensor.copy_(values)
    return module.eval()


def main():
    import torchvision
    from transformers import GPT2Config, GPT2LMHeadModel
    golden = {}
    gpt = fill(GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=3, n_embd=24, vocab_size=50, n_positions=16)))
    tokens = (torch.arange(24).view(2, 12) * 7) % 50
    with torch.no_grad():
        golden["gpt"] = gpt(tokens).logits[:, -1, :10].flatten().tolist()
        images = wave((2, 3, 40, 40), 0.01, 0).float()
        for depth in (18, 34, 50):
            net = fill(getattr(torchvision.models, f"resnet{depth}")(num_classes=6))
            golden[f"resnet{depth}"] = net(images).flatten().tolist()
    print(json.dumps(golden, indent=1))


if __name__ == "__main__":
    main()
