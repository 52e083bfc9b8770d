#!/usr/bin/env python3
"""Compares a training step of libzero with DDP, FSDP2 and DeepSpeed.

All train the same GPT of 23 M parameters on the same tokens, with fused Adam
and no clipping. They run in turn, round after round, so that whatever else
slows the machine for a while slows all of them; a ratio is the median of the
ratios within the rounds.
Needs only Python's standard library; bench/peers/setup.sh installs the peers.
"""
import argparse
import collections
import datetime
import json
import pathlib
import statistics
import sys
import tempfile

import training_runs
from compare_collectives import ROOT, hardware, number, peer_version, render, shown_command

# Every rank has this many tokens in a step, in so many sequences.
SETTINGS = {"1x64": (1, 64), "2x256": (2, 256)}
# A model so small that what is left is the memory of the program itself.
SMALL = ["--layers", 1, "--d-model", 64, "--heads", 1, "--vocabulary", 256, "--steps", 3, "--warmup", 1]

Program = collections.namedtuple("Program", "name engine stage libzero arguments", defaults=[{}, ()])
OURS = [
    Program("libzero 1", training_runs.LIBZERO, 1),
    Program("libzero 3", training_runs.LIBZERO, 3),
    Program("libzero 3, not shared", training_runs.LIBZERO, 3, {"shared_memory": False, "gather_budget": "25%"}),
]
PEERS = [
    Program("DDP", "ddp", 0),
    Program("FSDP2", "fsdp2", 0),
    Program("DeepSpeed 3", "deepspeed", 3),
]
# Forward and backward of all ranks at once and nothing else: no engine can be faster.
LIMIT = Program("compute alone", training_runs.LIBZERO, 0, {}, ("--compute-only",))


def configuration(program, batch):
    result = {
        "train_micro_batch_size_per_gpu": batch,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.01}},
        "zero_optimization": {"stage": program.stage},
    }
    if program.libzero:
        result["libzero"] = program.libzero
    return result


# --- measuring ---

def own_memory(result):
    """Of all ranks together. Pages of files are left out: they are libraries, and
    how much of them counts depends on who else has them mapped."""
    return result["pss"] - result["pss_file"]


def measure(options, setting, directory, rows):
    """Adds a row to `rows` for each program and round."""
    batch, tokens = SETTINGS[setting]
    programs = [p for p in OURS + PEERS + [LIMIT] if p.engine not in options.skip]

    def train(program, arguments):
        return training_runs.run(program.engine, configuration(program, batch), ["--tokens", tokens, *program.arguments, *arguments],
                                 options.ranks, options.build, directory, options.timeout)

    baseline = {}
    for program in programs:
        print(f"{setting}, small model: {program.name}", file=sys.stderr, flush=True)
        baseline[program.name] = own_memory(train(program, SMALL))
    for turn in range(options.rounds):
        # Another one begins each round, so that nobody always follows the same one.
        first = turn % len(programs)
        for program in programs[first:] + programs[:first]:
            print(f"{setting}, round {turn + 1} of {options.rounds}: {program.name}", file=sys.stderr, flush=True)
            result = train(program, ["--steps", options.steps, "--warmup", options.warmup])
            rows.append({"setting": setting, "round": turn + 1, "program": program.name,
                         "above_baseline": own_memory(result) - baseline[program.name],
                         "baseline": baseline[program.name], **result})
            if options.json:  # each time, so that a run cut short is not lost
                pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


# --- the tables ---

def by_program(rows, of):
    result = collections.defaultdict(list)
    for row in sorted(rows, key=lambda row: row["round"]):
        result[row["program"]].append(of(row))
    return result


def median_ratio(tops, bottoms):
    return statistics.median(top / bottom for top, bottom in zip(tops, bottoms, strict=True))


def table(rows):
    """A line for each program."""
    seconds = by_program(rows, lambda row: row["median_seconds"])
    cpu = by_program(rows, lambda row: row["cpu_seconds"])
    node = by_program(rows, lambda row: row["above_baseline"] / 1e6)
    base = by_program(rows, lambda row: row["baseline"] / 1e6)
    rss = by_program(rows, lambda row: max(row["peak_rss"], default=0) / 1e6)
    ours = [p.name for p in OURS if p.name in seconds]
    peers = [p.name for p in PEERS if p.name in seconds]
    lines = [["program", "step, s", "spread", "CPU, s", "node, MB", "baseline, MB", "RSS, MB"]]
    for name in ours + peers:
        lines.append([name, number(statistics.median(seconds[name])), number(max(seconds[name]) / min(seconds[name])),
                      number(statistics.median(cpu[name])),
                      f"{statistics.median(node[name]):.0f}", f"{statistics.median(base[name]):.0f}",
                      f"{statistics.median(rss[name]):.0f}"])
    limit = seconds.get(LIMIT.name, [])
    if limit:
        lines.append([LIMIT.name, number(statistics.median(limit)), number(max(limit) / min(limit)),
                      number(statistics.median(cpu[LIMIT.name])), "", "", ""])
    ratios = [["libzero over"] + [f"{peer} {what}" for what in ("speed", "CPU", "node", "RSS") for peer in peers]]
    for name in ours:
        ratios.append([name] + [number(median_ratio(seconds[peer], seconds[name])) for peer in peers]
                      + [number(median_ratio(of[name], of[peer])) for of in (cpu, node, rss) for peer in peers])
    if limit:
        ratios.append([LIMIT.name] + [number(median_ratio(seconds[peer], limit)) for peer in peers]
                      + [""] * 3 * len(peers))
    return render(lines) + ("\n\n" + render(ratios) if ours and peers else "")


LEGEND = """\
Medians over {rounds} rounds in which the programs took turns, {ranks} ranks with a thread
each; a ratio is the median of the ratios within the rounds. A step is the median of
{timed} steps after {warmup}, each that of the slowest rank. Spread is the slowest round over
the fastest. CPU is what the threads of all ranks used in a step, which a busy machine
changes less than the time; it leaves out what a program waits. Node is the memory of all ranks together (PSS, without pages of files)
between backward and update, above the baseline: the same program with a model of
one small layer. RSS is the peak of the larger rank. Speed above 1 means libzero is
faster; CPU, node and RSS below 1 that it needs less. Compute alone is forward and backward of
both ranks with nothing exchanged and nothing updated: its speed is what no engine can pass."""


def markdown(options, texts):
    packages = {"PyTorch": "torch", "DeepSpeed": "deepspeed"}
    facts = {**hardware(), "Ranks": f"{options.ranks}, one thread each",
             "Compared with": ", ".join(f"{name} {peer_version(package)}" for name, package in packages.items())
             + "; Gloo, on the CPU",
             "Model": "GPT, 23.1 M parameters: width 512, 6 layers, 8 heads, vocabulary 8192; AdamW, float32"}
    lines = [f"# Training step, {options.ranks} ranks, {datetime.date.today().isoformat()}", "",
             *(f"- {name}: {value}" for name, value in facts.items()), "", "```", shown_command(), "```", ""]
    for setting, text in texts.items():
        batch, tokens = SETTINGS[setting]
        lines += [f"## {batch} x {tokens} tokens per rank", "", text, ""]
    legend = LEGEND.format(rounds=options.rounds, ranks=options.ranks, timed=options.steps - options.warmup,
                           warmup=options.warmup)
    return "\n".join([*lines, legend, ""])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default=",".join(SETTINGS), help="comma-separated, of: %(default)s")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12, help="of a program in a round")
    parser.add_argument("--warmup", type=int, default=3, help="steps of these that are not timed")
    parser.add_argument("--skip", action="append", default=[], choices=training_runs.PYTHON_ENGINES)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="libzero's build directory")
    parser.add_argument("--timeout", type=float, default=900, help="seconds a program may take in one round")
    parser.add_argument("--json", help="write all rows of all rounds to this file")
    parser.add_argument("--markdown", help="write a results file with hardware and tables")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.settings = options.settings.split(",")
    unknown = [setting for setting in options.settings if setting not in SETTINGS]
    if unknown:
        parser.error(f"unknown settings: {', '.join(unknown)}")
    if options.rounds < 1 or options.ranks < 1 or not 0 <= options.warmup < options.steps:
        parser.error("rounds and ranks are at least 1, and steps more than warm-up steps")
    return options


def main():
    options = parse_arguments()
    training_runs.check_installed({p.engine for p in OURS + PEERS} - set(options.skip), options.build)
    rows, texts = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for setting in options.settings:
            measure(options, setting, directory, rows)
            texts[setting] = table([row for row in rows if row["setting"] == setting])
            print(f"{setting}\n\n{texts[setting]}\n", flush=True)
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(options, texts))


if __name__ == "__main__":
    main()
