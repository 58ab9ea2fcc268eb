#!/bin/bash
# The dashboard and a real guest in Chromium: the form launches the guest, the guest answers on its serial line, and its
# screen changes. CHRONOVA_SCREENSHOTS is a folder for screenshots.
set -uo pipefail
HOUSE_CONF=$(printf '%s\n' '[serial_console]' 'enabled = true')
. "$(dirname "$0")/../testbed/house.sh"
command -v chromium >/dev/null && command -v chromedriver >/dev/null || cannot "no chromium and chromedriver are installed"
house_open seen 10.77
house_furnish
SHOTS=${CHRONOVA_SCREENSHOTS:-$WORK/shots}; mkdir -p "$SHOTS"
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
timeout 280 python3 "$HERE/../browser/guest.py" "$URL" "$PASSWORD" "$SHOTS" "$NAME" "$WORK/server"
same "the checks in the browser pass" $? 0
# house_close removes what a failed check left of this server.
[ ! -s "$WORK/server" ] || SERVERS+=("$(cat "$WORK/server")")
[ ! -s "$WORK/server" ] || same "nothing of the server is left on the host" "$(leftovers "$(cat "$WORK/server")")" ""
verdict
