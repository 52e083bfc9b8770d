#!/usr/bin/env bash
# Sets libzero up, and shows four ranks that talk.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

if (($# > 0)); then
  echo "usage: scripts/demo.sh" >&2
  exit 2
fi

scripts/setup.sh

echo
echo "Four ranks on this machine: a sum over all, then reads of a busy rank."
echo '$ build/bin/zero run -n 4 build/bin/talk'
exec build/bin/zero run -n 4 build/bin/talk
