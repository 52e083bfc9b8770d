"""Runs bench/train_gpt.cpp and train_gpt.py, for the scripts that compare them."""
import json
import os
import pathlib
import shlex
import subprocess
import sys

from compare_collectives import PEERS, ROOT, VENV, stop

LIBZERO = "libzero"
PYTHON_ENGINES = ["ddp", "fsdp2", "deepspeed"]


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {message}")


def check_installed(engines, build):
    for name in ("zero", "train_gpt"):
        if LIBZERO in engines and not os.access(build / "bin" / name, os.X_OK):
            fail(f"no program {build / 'bin' / name}; build it, or give its place with --build")
    for engine, package in (("ddp", "torch"), ("fsdp2", "torch"), ("deepspeed", "deepspeed")):
        if engine in engines and not any(VENV.glob(f"lib/python*/site-packages/{package}")):
            fail(f"{engine} is not installed; run bench/peers/setup.sh")


def command(engine, ranks, build):
    """How a training program is started; its own arguments follow."""
    if engine == LIBZERO:
        return [str(build / "bin" / "zero"), "run", "-n", str(ranks), str(build / "bin" / "train_gpt")]
    # Port 0: whichever is free.
    return [str(VENV / "bin" / "torchrun"), "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "localhost:0", str(PEERS / "train_gpt.py"), "--engine", engine]


def environment():
    """One thread a rank, and the virtual environment's ninja, by which DeepSpeed compiles."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu",
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


def run(engine, config, arguments, ranks, build, directory, timeout):
    """Trains with the configuration (a dictionary) and returns what was measured."""
    directory = pathlib.Path(directory)
    config_file, result_file = directory / "config.json", directory / "result.json"
    config_file.write_text(json.dumps(config, indent=1))
    result_file.unlink(missing_ok=True)
    line = [*command(engine, ranks, build), "--config", str(config_file), "--json", str(result_file),
            *map(str, arguments)]
    # A session of its own makes program and ranks one group that can be stopped.
    process = subprocess.Popen(line, env=environment(), cwd=ROOT, text=True, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        fail(f"{engine} took more than {timeout} seconds: {shlex.join(line)}")
    except BaseException:
        stop(process)
        raise
    if process.returncode or not result_file.exists():
        fail(f"{engine} failed ({process.returncode}): {shlex.join(line)}\n{output[-4000:].strip()}")
    return json.loads(result_file.read_text())
