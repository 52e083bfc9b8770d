#!/usr/bin/env python3
"""Writes the table that libzero's schedules are tested against.

    pip install deepspeed==0.19.8
    python bench/peers/golden_schedules.py > tests/optim/golden_schedules.h

Runs DeepSpeed's own schedules on a torch optimizer of two groups with different
learning rates, and writes what each group's settings are in every update, in the
order of DeepSpeed's engine: `optimizer.step()` first, `lr_scheduler.step()`
after it (`_take_model_step` of deepspeed/runtime/engine.py). So the first update
has what the schedule's constructor leaves in the optimizer.

A case is (name, optimizer, schedule, parameters, number of updates). Parameters
have the names of DeepSpeed's JSON, which are those of zero::SchedulerConfig too,
so each case comes out as C++ that sets the same fields.
"""

import warnings

# Nothing here needs NumPy; PyTorch without it works, but says so.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch
from deepspeed.runtime import lr_schedules

GROUP_LRS = (0.004, 0.0005)

CASES = [
    ("range test", "adam", "LRRangeTest",
     {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 5,
      "lr_range_test_step_rate": 2.5}, 17),
    ("range test by stairs", "adam", "LRRangeTest",
     {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 5,
      "lr_range_test_step_rate": 2.5, "lr_range_test_staircase": True}, 17),
    ("range test, defaults", "adam", "LRRangeTest", {}, 5),
    ("cycle", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 7}, 20),
    ("cycle, uneven, with decay", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 5,
      "cycle_second_step_size": 9, "decay_step_size": 3, "decay_lr_rate": 0.5,
      "decay_mom_rate": 0.01, "cycle_min_mom": 0.85, "cycle_max_mom": 0.95}, 26),
    ("cycle, decay of the rate only", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 3,
      "decay_step_size": 2, "decay_lr_rate": 0.25}, 12),
    ("cycle, a step size without rates decays nothing", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 3,
      "decay_step_size": 2}, 10),
    ("cycle by stairs", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 10,
      "cycle_first_stair_count": 4}, 24),
    ("cycle, uneven by stairs", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 7,
      "cycle_second_step_size": 11, "cycle_first_stair_count": 3,
      "cycle_second_stair_count": 2}, 22),
    ("cycle, stairs up only", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 7,
      "cycle_second_step_size": 11, "cycle_first_stair_count": 3,
      "cycle_second_stair_count": 0}, 20),
    ("cycle without a second half", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 4,
      "cycle_second_step_size": 0}, 8),
    ("cycle without momentum", "adam", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 4,
      "cycle_momentum": False}, 10),
    ("cycle of SGD, which has no betas", "sgd", "OneCycle",
     {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 4}, 10),
    ("warm-up to each group's own rate", "adam", "WarmupLR",
     {"warmup_num_steps": 8}, 12),
    ("warm-up to one rate", "sgd", "WarmupLR",
     {"warmup_min_lr": 1e-5, "warmup_max_lr": 2e-3, "warmup_num_steps": 8}, 12),
    ("warm-up, linear", "adam", "WarmupLR",
     {"warmup_min_lr": 1e-5, "warmup_num_steps": 8, "warmup_type": "linear"}, 12),
    ("warm-up of one step", "adam", "WarmupLR", {"warmup_num_steps": 1}, 6),
    ("decay", "adam", "WarmupDecayLR",
     {"total_num_steps": 20, "warmup_num_steps": 6, "warmup_max_lr": 2e-3}, 26),
    ("decay, defaults", "adam", "WarmupDecayLR",
     {"total_num_steps": 12, "warmup_num_steps": 4}, 16),
    ("decay, linear from a rate", "adam", "WarmupDecayLR",
     {"total_num_steps": 15, "warmup_num_steps": 5, "warmup_min_lr": 1e-4,
      "warmup_max_lr": 2e-3, "warmup_type": "linear"}, 20),
    ("decay that ends within its warm-up", "adam", "WarmupDecayLR",
     {"total_num_steps": 5, "warmup_num_steps": 8, "warmup_max_lr": 2e-3}, 14),
    ("cosine", "adam", "WarmupCosineLR",
     {"total_num_steps": 20, "warmup_num_steps": 6}, 26),
    ("cosine, linear from a ratio", "adam", "WarmupCosineLR",
     {"total_num_steps": 16, "warmup_num_steps": 5, "warmup_min_ratio": 0.2,
      "cos_min_ratio": 0.05, "warmup_type": "linear"}, 22),
    ("cosine that ends within its warm-up", "sgd", "WarmupCosineLR",
     {"total_num_steps": 5, "warmup_num_steps": 8}, 14),
]

TYPES = {
    "LRRangeTest": "lr_range_test",
    "OneCycle": "one_cycle",
    "WarmupLR": "warmup_lr",
    "WarmupDecayLR": "warmup_decay_lr",
    "WarmupCosineLR": "warmup_cosine_lr",
}


def make_optimizer(kind):
    """Two groups of a parameter each, with rates of their own."""
    groups = [{"params": [torch.zeros(1)], "lr": lr} for lr in GROUP_LRS]
    if kind == "adam":
        return torch.optim.AdamW(groups)
    return torch.optim.SGD(groups, momentum=0.9)


def updates(kind, schedule, parameters, count):
    """(lr of each group, beta1, beta2) of each update; betas -1 if untouched."""
    optimizer = make_optimizer(kind)
    before = optimizer.param_groups[0].get("betas")
    schedule = getattr(lr_schedules, schedule)(optimizer, **parameters)
    for _ in range(count):
        groups = optimizer.param_groups
        betas = groups[0].get("betas")
        assert all(group.get("betas") == betas for group in groups)
        yield *(group["lr"] for group in groups), *((-1, -1) if betas == before else betas)
        schedule.step()


def in_cpp(name, value):
    """The value as C++ would write it for the field of SchedulerConfig."""
    if name == "warmup_type":
        return f"SchedulerConfig::Warmup::{value}"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def main():
    print("// What DeepSpeed's schedules do, by bench/peers/golden_schedules.py. Not to be")
    print("// edited: run that again.")
    print("// clang-format off")
    print("#pragma once")
    print()
    print("#include <zero/config.h>")
    print()
    print("#include <array>")
    print("#include <string>")
    print("#include <vector>")
    print()
    print("namespace zero::optim {")
    print()
    print("struct GoldenUpdate {")
    print("  std::array<double, 2> lrs; // of both groups")
    print("  double beta1; // -1: as it was")
    print("  double beta2;")
    print("};")
    print()
    print("struct GoldenSchedule {")
    print("  std::string name;")
    print("  OptimizerConfig::Type optimizer;")
    print("  SchedulerConfig config;")
    print("  std::vector<GoldenUpdate> updates;")
    print("};")
    print()
    print(f"inline constexpr std::array<double, 2> kGoldenLrs{{{GROUP_LRS[0]!r}, {GROUP_LRS[1]!r}}};")
    print()
    print("inline std::vector<GoldenSchedule> golden_schedules() {")
    print("  std::vector<GoldenSchedule> all;")
    for name, kind, schedule, parameters, count in CASES:
        print("  {")
        print(f'    auto& golden = all.emplace_back(GoldenSchedule{{"{name}", OptimizerConfig::Type::{kind}, {{}}, {{}}}});')
        print(f"    golden.config.type = SchedulerConfig::Type::{TYPES[schedule]};")
        for key, value in parameters.items():
            print(f"    golden.config.{key} = {in_cpp(key, value)};")
        print("    golden.updates = {")
        for first, second, beta1, beta2 in updates(kind, schedule, parameters, count):
            print(f"        {{{{{first!r}, {second!r}}}, {beta1!r}, {beta2!r}}},")
        print("    };")
        print("  }")
    print("  return all;")
    print("}")
    print()
    print("} // namespace zero::optim")


if __name__ == "__main__":
    main()
