#!/usr/bin/env bash
# Sets libzero up, trains a small GPT on plays of Shakespeare with two ranks at
# stage 3, about two minutes, and lets it write.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

case ${1:-} in
  '') ;;
  -h | --help) exec sed -n '2,3s/^# \{0,1\}//p' "$0" ;;
  *) echo "usage: scripts/demo.sh" >&2 && exit 2 ;;
esac

scripts/setup.sh
scripts/get_shakespeare.sh

run() {
  echo
  echo "\$ $*"
  "$@"
}

number=1
while [[ -e runs/demo-$number ]]; do
  number=$((number + 1))
done
out=runs/demo-$number
run build/bin/zero train examples/train/shakespeare_char.json -n 2 --out "$out"
run build/bin/zero generate "$out" --prompt "ROMEO." --tokens 300 --temperature 0.8
echo
echo "The report, for any browser: $PWD/$out/report.html"
