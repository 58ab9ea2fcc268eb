#!/bin/bash
# Debian's Horizon on a simulated fleet. A user logs in, and looks at every page of the menu. The user launches a
# server, opens its consoles, presses buttons, and deletes the server. Neither Horizon's log nor Chronova's has an
# error. The long form of the visit also fills in the forms of all services, as an administrator and as a new user.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
[ -e /usr/share/openstack-dashboard/wsgi.py ] && [ -x /usr/bin/uwsgi_python3 ] || cannot "no openstack-dashboard and uwsgi-plugin-python3 are installed"
sim_open horizon '[chronova]' 'hypervisors = sim://2' '[serial_console]' 'enabled = true'
SITE=$(mktemp -d "${TMPDIR:-/tmp}/chronova-horizon-site.XXXXXX")
house_last() {
  [ -z "${VISIT:-}" ] || kill "$VISIT" 2>/dev/null
  bash "$HERE/horizon.sh" down "$SITE"
  if [ $FAILED = 0 ]; then rm -rf "$SITE"; else echo "the files of Horizon: $SITE"; fi
}
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")

# An image, a flavor and a network.
sim_client
quiet() { "$@" >"$WORK/out" 2>&1; }
head -c 1048576 /dev/zero >"$WORK/image.raw"
expect "an image is uploaded" quiet os image create --disk-format raw --container-format bare --file "$WORK/image.raw" --public horizon
expect "a flavor is made" quiet os flavor create --vcpus 1 --ram 64 --disk 1 horizon
expect "a network is made" quiet os network create horizon
expect "a subnet is made" quiet os subnet create --network horizon --subnet-range 10.99.1.0/24 horizon
expect "an external network is made" quiet os network create --external outside
expect "its subnet is made" quiet os subnet create --network outside --no-dhcp --subnet-range 198.51.100.0/24 outside

# Horizon's own user reads its settings.
chmod 0755 "$SITE"
expect "Horizon starts" bash "$HERE/horizon.sh" up "$SITE" "$URL/identity/v3"
[ $FAILED = 0 ] || { tail -n 30 "$SITE/uwsgi.log"; verdict; }
mkdir "$WORK/visit"
LONG=()
! long_run || LONG=(--long)
timeout 900 python3 "$HERE/horizon.py" "$(cat "$SITE/url")" admin "$PASSWORD" horizon "$WORK/visit" "${LONG[@]}" >"$WORK/visit/told" 2>"$WORK/visit/err" & VISIT=$!

# The consoles that Horizon gives to its user.
visited() { [ -e "$WORK/visit/$1" ] || ! still_runs -p $VISIT; }
wait_for 400 visited serial
if [ -e "$WORK/visit/serial" ]; then
  same "the page of the screen opens" "$(curl -s -o "$WORK/visit/page" -w '%{http_code}' "$(cat "$WORK/visit/vnc")")" 200
  like "the serial console answers" "$(python3 "$HERE/websocket.py" "$(cat "$WORK/visit/serial")" 30 --say 'typed-by-horizon\n' --until typed-by-horizon 2>&1)" typed-by-horizon
  : >"$WORK/visit/serial.seen"
fi
wait $VISIT; STATUS=$? VISIT=
while IFS=$'\t' read -r outcome what why; do
  case $outcome in ok) ok "$what" ;; FAIL) bad "$what" "${why:-}" ;; esac
done <"$WORK/visit/told"
same "the visit ends" "$STATUS $(cat "$WORK/visit/err")" "0 "

# ------------------------------------------------------------------------------------------------------------- the logs

same "Horizon's log has no traceback and no error" \
  "$(grep -aE '^Traceback|^(ERROR|CRITICAL) ' "$SITE/uwsgi.log" | sort | uniq -c)" ""
same "Chronova's log has no error" "$(grep -aE ' (ERROR|WARN) |" 5[0-9][0-9] ' "$WORK/chronova.log" | cut -c 1-200)" ""
same "Chronova answered nothing with a server's error" \
  "$(curl -fsS "$URL/metrics" | grep '^chronova_http_requests_total' | grep 'status="5' | grep -v ' 0$')" ""
verdict
