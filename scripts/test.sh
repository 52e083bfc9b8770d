#!/usr/bin/env bash
# Runs all tests: those of the release build, then the concurrent ones again
# under the thread and address sanitizers, then what reads files with made-up
# input.
#
#   scripts/test.sh                  everything
#   scripts/test.sh -L fast          these arguments are for ctest; only the
#   scripts/test.sh -R comm_         release build is tested then
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/.." || exit

case ${1:-} in -h | --help) exec sed -n '2,8s/^# \{0,1\}//p' scripts/test.sh ;; esac

scripts/setup.sh --for-tests || exit
export PATH=$PATH:$PWD/.venv/bin # where setup.sh puts ninja if it has to

# ctest itself passes over what it does not know, and runs everything.
if (($# > 0)) && ! ctest --help | grep -qE -- "(^|[ ,])$1([ ,=]|$)"; then
  echo "scripts/test.sh: ctest has no option $1" >&2
  exit 2
fi

status=0
cmake --build --preset release && ctest --preset release "$@" || status=1
if (($# == 0)); then
  presets=(tsan asan)
  if clang++ -x c++ -fsanitize=fuzzer -fsyntax-only /dev/null 2>/dev/null; then
    presets+=(fuzz)
  else
    echo "test.sh: fuzzing is left out: there is no clang++"
  fi
  for preset in "${presets[@]}"; do
    cmake --preset $preset -DLIBTORCH_PREFIX="${LIBTORCH_PREFIX:-}" &&
      cmake --build --preset $preset && ctest --preset $preset || status=1
  done
fi
exit $status
