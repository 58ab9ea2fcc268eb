#!/bin/bash
# Consoles of a real guest through the gateway: the script types on the guest's serial console, and the guest's screen
# answers by VNC and SPICE, also in Chromium with Debian's spice-html5. The guest's disk is a whole copy of its image in
# the image's own format. CHRONOVA_SCREENSHOTS is a folder for screenshots.
set -uo pipefail
HOUSE_CONF=$(printf '%s\n' '[serial_console]' 'enabled = true' '[spice]' 'enabled = true' \
  '[libvirt]' 'images_type = flat')
house_first() { sed -i '/^\[DEFAULT\]$/a force_raw_images = false' "$CONF"; }
. "$(dirname "$0")/../testbed/house.sh"
house_open consoles 10.68
house_furnish

url() { os console url show "$2" "$1" -f value -c url 2>/dev/null; } # server, --serial | --spice | --novnc
# The WebSocket address that the page of a console URL connects to.
gate() { echo "ws://127.0.0.1:$PORT/console?token=$(sed -E 's/.*token(=|%3D)//' <<<"$1")"; }
view() { python3 "$HERE/websocket.py" "$@" 2>&1; }

boot consoles-one
ready consoles-one
LINE=$(url consoles-one --serial)
like "the console URL leads to the gateway" "$LINE" "^ws://127.0.0.1:$PORT/console\?token="
like "a command that is typed on the serial console runs" "$(view "$LINE" 60 --say '\necho typed-$((6*7))\n' --until typed-42)" 'typed-42'
within 20 "the console log still has the guest's output" said consoles-one typed-42
view "$LINE" 60 --until never >"$WORK/first" & FIRST=$!
sleep 2
like "a later client gets the console" "$(view "$LINE" 60 --say '\necho later-$((6*7))\n' --until later-42)" 'later-42'
within 20 "the first client is disconnected" eval "! still_runs -p $FIRST"
wait "$FIRST"
same "the first client ends with the status of a closed connection" $? 1
same "a page of another site opens no console" "$(view "$LINE" 20 --origin http://elsewhere --until never)" 403
same "an unknown token opens no console" "$(view "ws://127.0.0.1:$PORT/console?token=x" 20 --until never)" 403

SCREEN=$(url consoles-one --novnc)
like "the URL of the screen leads to the gateway, too" "$SCREEN" "^http://127.0.0.1:$PORT/console/vnc_auto.html\?path=console%3Ftoken%3D"
like "the screen answers in VNC" "$(view "$(gate "$SCREEN")" 20 --until 'RFB 003')" '^RFB 003'
# The first message of SPICE: magic, version 2.2, 18 bytes, a new connection, the main channel, no capabilities.
HELLO=52454451020000000200000012000000000000000100000000000000000012000000
like "the screen answers in SPICE" "$(view "$(gate "$(url consoles-one --spice)")" 20 --hex "$HELLO" --until REDQ)" REDQ
# The browser loads the page of spice-html5 from the gateway.
LACKS=''
[ -s /usr/share/spice-html5/spice_auto.html ] || LACKS="spice-html5 is not installed"
command -v chromium >/dev/null && command -v chromedriver >/dev/null || LACKS="no chromium and chromedriver are installed"
if [ -z "$LACKS" ]; then
  SHOTS=${CHRONOVA_SCREENSHOTS:-$WORK/shots}; mkdir -p "$SHOTS"
  view "$LINE" 60 --say '\nwhile sleep 1; do date >/dev/tty1; done &\n' --until /dev/tty1 >"$WORK/dates"
  expect "the screen changes in a browser with SPICE" timeout 150 python3 "$HERE/../browser/spice.py" "$(url consoles-one --spice)" "$SHOTS"
fi
like "the guest has the video card for SPICE" "$(v dumpxml "$ID")" "model type='qxl'"
like "the host's VNC server is on a port from 5900 to 5999" "$(v dumpxml "$ID" | grep -oE "<graphics type='vnc' port='[0-9]+'")" "port='59[0-9][0-9]'"

v pool-refresh chronova >/dev/null
DISK=$(v vol-dumpxml "${ID}_disk" chronova)
like "a flat disk keeps the image's format without force_raw_images" "$DISK" "<format type='qcow2'/>"
unlike "a flat disk has no backing file" "$DISK" backingStore
like "the flat disk has the flavor's size" "$DISK" "<capacity unit='bytes'>1073741824<"

expect "the server is stopped" os server stop consoles-one
within 60 "the server is SHUTOFF" is consoles-one SHUTOFF
like "a guest that is off has no console" "$(os console url show --serial consoles-one 2>&1)" 'Unavailable console type serial'
same "the token of a server that is off gets 502" "$(view "$LINE" 20 --until never)" 502
expect "the server is deleted" os server delete --wait consoles-one
same "a deleted server's token gets 403" "$(view "$LINE" 20 --until never)" 403
same "nothing of the server is left on the host" "$(leftovers "$ID")" ""
[ -z "$LACKS" ] || cannot "$LACKS, so no browser opened SPICE"
verdict
