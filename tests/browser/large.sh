#!/bin/bash
# large.sh [HOSTS [SERVERS]]   measures the dashboard in Chromium on a large simulated fleet (10,000 hosts with 100,000
#                              servers)
#
# Prints a table of every page: the time until it is ready, the times of typing, scrolling and sorting in its list, and
# the longest task of the browser. Then prints three figures beside their aims: the slowest page, the bytes of the
# dashboard, and the slowest input. Judges no time, because times depend on the machine. Fails if a page is not ready, if
# a list is not whole, or if a list renders rows out of view.
#
# CHRONOVA_BIN is the program, built for release; `chronova-dev` is beside it. CHRONOVA_SCREENSHOTS is a folder for
# screenshots. Needs some 3 GB of memory, 2 GB on the disk, and some minutes.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HOSTS=${1:-10000} SERVERS=${2:-100000}
command -v chromium >/dev/null && command -v chromedriver >/dev/null || cannot "no chromium and chromedriver are installed"
DEV=$(dirname "${CHRONOVA_BIN:-}")/chronova-dev
[ -x "$DEV" ] || cannot "there is no chronova-dev beside CHRONOVA_BIN"
# The first start with the copied servers folds a long log.
HOUSE_PATIENCE=900
house_last() { [ -z "${BROWSER:-}" ] || kill "$BROWSER" 2>/dev/null; }
sim_open large '[chronova]' "hypervisors = sim://$HOSTS?vcpus=1000&memory_mib=1000000&disk_gib=100000" \
  '[quota]' 'instances = -1' 'cores = -1' 'ram = -1'
SHOTS=${CHRONOVA_SCREENSHOTS:-$WORK/shots}; mkdir -p "$SHOTS"
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
timeout 3000 python3 "$TESTS/large.py" "$URL" "$PASSWORD" "$SHOTS" "$WORK/fleet" "$HOSTS" "$SERVERS" & BROWSER=$!
# The measurement begins when this file exists. large.py writes it when one server is built on a whole fleet.
while still_runs -p $BROWSER && [ ! -e "$WORK/fleet.ready" ]; do sleep 0.5; done
if [ -e "$WORK/fleet.ready" ]; then
  house_stop
  expect "the servers are copied" "$DEV" copy-servers "$DATA" --servers $((SERVERS - 1))
  # A server that has run from the beginning has the index of these events already.
  expect "the index of the log is complete" "$CHRONOVA_BIN" audit --data-dir "$DATA" index
  expect "the control plane starts again" house_start
  touch "$WORK/fleet.filled"
fi
wait $BROWSER; CODE=$?; BROWSER=
same "every page is ready and every list is whole" $CODE 0
verdict
