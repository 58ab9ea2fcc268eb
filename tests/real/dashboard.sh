#!/bin/bash
# The dashboard in real Chromium, on a simulated fleet. CHRONOVA_BIN is the program; CHRONOVA_SCREENSHOTS is a folder
# for screenshots.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/../browser" && pwd)
command -v chromium >/dev/null && command -v chromedriver >/dev/null || cannot "no chromium and chromedriver are installed"
sim_open browser '[chronova]' 'hypervisors = sim://3'
SHOTS=${CHRONOVA_SCREENSHOTS:-$WORK/shots}; mkdir -p "$SHOTS"
echo "$HOUSE" >"$WORK/pid"
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
AXE=$TESTS/node_modules/axe-core/axe.min.js
[ -s "$AXE" ] || { . "$TESTS/../../ops/setup.sh"; setup_dashboard_tools || cannot "axe cannot be installed"; }
timeout 290 python3 "$TESTS/dashboard.py" "$URL" "$PASSWORD" "$SHOTS" "$WORK/pid" "$AXE" & BROWSER=$!
# One of the browser's checks stops the control plane and requests its restart.
while still_runs -p $BROWSER; do
  if [ -e "$WORK/pid.again" ]; then wait "$HOUSE" 2>/dev/null; rm "$WORK/pid.again"; house_start; echo "$HOUSE" >"$WORK/pid"; fi
  sleep 0.5
done
wait $BROWSER; same "the checks in the browser pass" $? 0
verdict
