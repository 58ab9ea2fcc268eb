#!/bin/bash
# tests/bench/side-by-side.sh BENCH OUT [OPTION...]   measures Nova and Chronova in turns on this machine
#
# BENCH has bench.py, which measures the public APIs, and nova/up.sh and nova/down.sh, which start a Nova from Debian's
# packages with four compute services of the fake driver. OUT gets each result, the load before each pass, and the table
# `table.md`: medians of both, and their ratios. bench.py gets the further options.
#
# CHRONOVA_BIN is a release build. CHRONOVA_BENCH_TURNS sets the number of passes of each (3). Each pass starts on empty
# databases, and on an empty log.
set -euo pipefail
BENCH=$(realpath "$1") OUT=$(realpath -m "$2"); shift 2
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TURNS=${CHRONOVA_BENCH_TURNS:-3}
[ $# -gt 0 ] || set -- --duration 3 --repeats 1 --boots 40 --boot-repeats 1 --sizes 100 --rps 1000
mkdir -p "$OUT"
: >"$OUT/load.txt"

# Waits until the load of the pass before has gone, because it would slow this pass down.
quiet() { # what
  for _ in $(seq 1 60); do awk '{ exit !($1 < 0.5) }' /proc/loadavg && break; sleep 5; done
  printf '%s %s load %s\n' "$(date -u '+%F %H:%M')" "$1" "$(cut -d' ' -f1-3 /proc/loadavg)" | tee -a "$OUT/load.txt"
}

nova() { # nth, option...
  local nth=$1; shift
  export BASELINE_DIR=$OUT/nova
  rm -rf "$BASELINE_DIR"
  trap 'bash "$BENCH/nova/down.sh" --purge' EXIT
  bash "$BENCH/nova/up.sh" >"$OUT/nova-$nth.up" 2>&1
  quiet "nova $nth"
  python3 "$BENCH/bench.py" --auth-url http://127.0.0.1:15000/v3 --password baseline --pids-dir "$BASELINE_DIR/run" \
    --label "Nova Zed" --out "$OUT/nova-$nth.json" "$@" >"$OUT/nova-$nth.log"
  bash "$BENCH/nova/down.sh" --purge
  trap - EXIT
}

for nth in $(seq 1 "$TURNS"); do
  nova "$nth" "$@"
  quiet "chronova $nth"
  bash "$HERE/run.sh" "$BENCH/bench.py" "$OUT/chronova-$nth.json" "$@" >"$OUT/chronova-$nth.log"
done
results() { local nth; for nth in $(seq 1 "$TURNS"); do printf '%s ' "$OUT/$1-$nth.json"; done; }
# shellcheck disable=SC2046 # one word for each file
python3 "$HERE/compare.py" --theirs $(results nova) --ours $(results chronova) | tee "$OUT/table.md"
