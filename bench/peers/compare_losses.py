#!/usr/bin/env python3
"""One configuration, two engines: do DeepSpeed and libzero have the same losses?

A small GPT is trained by both, at each stage from the same JSON file, with
gradient accumulation, clipping and a schedule. The batches are few and come
again and again, so that the loss falls: equal losses then mean equal updates.
Exits with 1 if a loss differs by more than --tolerance.
Needs only Python's standard library; bench/peers/setup.sh installs DeepSpeed.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import training_runs
from compare_collectives import ROOT, render

MODEL = ["--d-model", 64, "--layers", 2, "--heads", 4, "--vocabulary", 256, "--tokens", 32, "--batches", 4]


def configuration(stage, torch_adam):
    adam = {"lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    if torch_adam:
        adam["torch_adam"] = True
    return {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": adam},
        "scheduler": {"type": "WarmupLR", "params": {
            "warmup_min_lr": 0, "warmup_max_lr": 3e-3, "warmup_num_steps": 10, "warmup_type": "linear"}},
        "zero_optimization": {"stage": stage},
    }


def compare(options, stage, directory):
    found = {}
    for engine in ("deepspeed", training_runs.LIBZERO):
        print(f"stage {stage}: {engine}", file=sys.stderr, flush=True)
        result = training_runs.run(
            engine, configuration(stage, options.torch_adam), [*MODEL, "--steps", options.steps, "--warmup", 0],
            options.ranks, options.build, directory, options.timeout)
        found[engine] = result["losses"]
    theirs, ours = found["deepspeed"], found[training_runs.LIBZERO]
    differences = [abs(a - b) / abs(a) for a, b in zip(theirs, ours, strict=True)]
    worst = max(range(len(differences)), key=differences.__getitem__)
    return {"stage": stage, "deepspeed": theirs, "libzero": ours, "largest": differences[worst], "at_step": worst}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", default="0,1,2,3", help="comma-separated")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="relative")
    parser.add_argument("--torch-adam", action="store_true",
                        help="torch_adam in the configuration, where DeepSpeed cannot compile its own")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="libzero's build directory")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a program may take")
    parser.add_argument("--json", help="write all losses to this file")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.stages = [int(stage) for stage in options.stages.split(",")]
    return options


def main():
    options = parse_arguments()
    training_runs.check_installed(["deepspeed", training_runs.LIBZERO], options.build)
    with tempfile.TemporaryDirectory() as directory:
        rows = [compare(options, stage, directory) for stage in options.stages]
    lines = [["stage", "first loss", "last loss, DeepSpeed", "libzero", "largest relative difference", "at step"]]
    for row in rows:
        lines.append([str(row["stage"]), f"{row['deepspeed'][0]:.6f}", f"{row['deepspeed'][-1]:.6f}",
                      f"{row['libzero'][-1]:.6f}", f"{row['largest']:.2e}", str(row["at_step"])])
    print(render(lines))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    if any(not row["largest"] <= options.tolerance for row in rows):
        training_runs.fail(f"losses differ by more than {options.tolerance}")


if __name__ == "__main__":
    main()
