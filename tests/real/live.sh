#!/bin/bash
# A real guest that counts on its console while it goes from one host to another and back: by copies of its disks, then
# (live.sh shared) over storage that both hosts have. What it counted can be read at its destination without a gap.
set -uo pipefail
STORAGE=${1:-local}
[ -n "${CHRONOVA_SOAK:-}" ] || { echo "takes minutes; set CHRONOVA_SOAK=1"; exit 77; }
HERE=$(cd "$(dirname "$0")" && pwd)
export TESTBED_ID=${TESTBED_ID:-lv}
STATE=${TESTBED_STATE:-/var/tmp/tb-$TESTBED_ID}
hosts() { bash "$HERE/../testbed/hosts.sh" "$@"; }
[ "$(id -u)" = 0 ] || { echo "needs root, for hosts in namespaces"; exit 77; }
hosts down >/dev/null 2>&1
UP=$(mktemp)
hosts up 2 >"$UP" 2>&1 || { tail -n 5 "$UP"; rm -f "$UP"; hosts down >/dev/null 2>&1; echo "the hosts do not start here"; exit 77; }
rm -f "$UP"
trap 'hosts down >/dev/null 2>&1' EXIT
. "$STATE/hosts.env"
HYPERVISORS="$h1_UNIX $h2_UNIX"
[ "$STORAGE" = local ] || HOUSE_CONF=$(printf '[DEFAULT]\ninstances_path = %s/shared/instances' "$STATE")
. "$HERE/../testbed/house.sh"
house_open "live-$STORAGE" 10.72
trap 'house_close; hosts down >/dev/null 2>&1' EXIT
on() { local uri=${1}_UNIX; shift; virsh -q -c "${!uri}" "$@" 2>/dev/null; } # host, virsh command
place() { get server "$1" OS-EXT-SRV-ATTR:host; }
other() { [ "$1" = h1 ] && echo h2 || echo h1; }
left_on() { on "$1" list --all --uuid | grep -x "$2"; on "$1" pool-refresh chronova >/dev/null; on "$1" vol-list chronova | awk '{print $1}' | grep "^$2_"; } # host, uuid
runs_on() { [ "$(on "$1" domstate "$2" | head -n 1)" = running ]; } # host, uuid
at_rest() { is "$1" ACTIVE && [ "$(get server "$1" OS-EXT-STS:task_state)" = None ]; }
is_at() { at_rest "$1" && [ "$(place "$1")" = "$2" ]; } # server, host
ticks() { console "$1" | grep -aoE 'GUEST-TICK [0-9]+' | awk '{print $2}'; }
last_tick() { ticks "$1" | tail -n 1; }
ticks_on() { [ "$(last_tick "$1")" -gt "$2" ]; } # server, count
# Every number once and in order: nothing was lost, and nothing began anew.
gaps() { ticks "$1" | awk 'NR > 1 && $1 != before + 1 {print "after " before " came " $1} {before = $1}'; }
state_of() { os server migration list --server "$1" --sort-column Id -f value -c Status --os-compute-api-version 2.59 | tail -n 1; }
number_of() { os server migration list --server "$1" --os-compute-api-version 2.59 -f value -c Id | sort -n | tail -n 1; }
# The client finds them by this name alone.
uuid_of() { os server migration list --server "$1" --os-compute-api-version 2.59 --sort-column Id --sort-ascending -f value -c UUID | tail -n 1; }
tells_bytes() { os server migration show "$1" "$2" --os-compute-api-version 2.79 -f json 2>/dev/null | grep -qE '"(Memory|Disk) Total Bytes": [1-9]'; }
migration_is() { [ "$(state_of "$1")" = "$2" ]; }
# What the control plane took beside libvirt's own call, of the migration that ended last.
overhead() {
  local whole call
  whole=$(sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -a 'a live migration has ended' | tail -n 1 | grep -oE 'milliseconds=[0-9]+' | cut -d= -f2)
  call=$(sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -a "the hosts' migration has ended" | tail -n 1 | grep -oE 'milliseconds=[0-9]+' | cut -d= -f2)
  echo "$((whole - call)) ms beside libvirt's $call ms"
}
with() { # options of [libvirt], for a control plane that is started anew
  house_stop
  sed -i '/^\[libvirt\]$/,$d' "$CONF"
  printf '%s\n' '[libvirt]' "$@" >>"$CONF"
  house_start || bad "the control plane starts again" "$(tail -n 20 "$WORK/chronova.log")"
  within 60 "its hosts are up" host_is up
}

house_furnish
printf '#!/bin/sh\ntouch /run/tick\n' >"$WORK/tick"
boot "live-$STORAGE" --config-drive True --user-data "$WORK/tick"
ONE="live-$STORAGE" FIRST=$(place "live-$STORAGE")
SECOND=$(other "$FIRST")
ready "$ONE" "the guest is booted"
within 60 "it counts" ticks_on "$ONE" 2

# ------------------------------------------------------------------------------------------------------ there and back

for TO in "$SECOND" "$FIRST"; do
  FROM=$(place "$ONE")
  expect "a live migration to $TO is asked for" os server migrate --live-migration --host "$TO" "$ONE" --os-compute-api-version 2.79
  within 120 "it is ACTIVE on $TO" is_at "$ONE" "$TO"
  within 20 "its guest runs there" runs_on "$TO" "$ID"
  [ "$STORAGE" = shared ] && same "no guest is left on $FROM" "$(on "$FROM" list --all --uuid | grep -x "$ID")" "" \
    || same "nothing is left on $FROM" "$(left_on "$FROM" "$ID")" ""
  SEEN=$(last_tick "$ONE")
  within 30 "it counts on" ticks_on "$ONE" "$((SEEN + 2))"
  same "it counted without a gap" "$(gaps "$ONE")" ""
  same "it was not started anew" "$(count_said "$ONE" 'GUEST-READY')" 1
  same "the migration is completed" "$(state_of "$ONE")" completed
  ok "control plane: $(overhead)"
done

# ------------------------------------------------------------------------------------------------- aborted and forced

with 'live_migration_bandwidth = 2'
expect "a slow live migration is asked for" os server migrate --live-migration "$ONE" --os-compute-api-version 2.79
within 60 "it is running" migration_is "$ONE" running
expect "it is aborted" os server migration abort "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79
within 60 "the server is ACTIVE where it was" is_at "$ONE" "$FIRST"
same "the migration is cancelled" "$(state_of "$ONE")" cancelled
same "no guest is on the other host" "$(on "$SECOND" list --all --uuid | grep -x "$ID")" ""
SEEN=$(last_tick "$ONE")
within 30 "it counts on" ticks_on "$ONE" "$((SEEN + 2))"

expect "another one is asked for" os server migrate --live-migration "$ONE" --os-compute-api-version 2.79
within 60 "it is running" migration_is "$ONE" running
within 20 "it tells how far it is" tells_bytes "$ONE" "$(uuid_of "$ONE")"
expect "it is forced to its end" os server migration force complete "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79
within 180 "it is ACTIVE on the other host" is_at "$ONE" "$SECOND"
within 20 "its guest runs there" runs_on "$SECOND" "$ID"
SEEN=$(last_tick "$ONE")
within 30 "it counts on" ticks_on "$ONE" "$((SEEN + 2))"
same "it counted without a gap" "$(gaps "$ONE")" ""

# ------------------------------------------------------------------------------------------------------------ post-copy

with 'live_migration_bandwidth = 2' 'live_migration_permit_post_copy = true'
expect "one that may end in post-copy is asked for" os server migrate --live-migration "$ONE" --os-compute-api-version 2.79
within 60 "it is running" migration_is "$ONE" running
expect "it is forced to its end" os server migration force complete "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79
within 180 "it is ACTIVE on the first host" is_at "$ONE" "$FIRST"
within 20 "its guest runs there" runs_on "$FIRST" "$ID"
SEEN=$(last_tick "$ONE")
within 30 "it counts on" ticks_on "$ONE" "$((SEEN + 2))"
same "it counted without a gap" "$(gaps "$ONE")" ""

# -------------------------------------------------------------------------------------- the control plane dies meanwhile

# The guest stands still meanwhile: emulated, one that goes on for a minute while it is copied can come out broken, with
# or without a control plane.
with 'live_migration_bandwidth = 2'
expect "one more is asked for" os server migrate --live-migration "$ONE" --os-compute-api-version 2.79
within 60 "it is running" migration_is "$ONE" running
expect "it is forced to its end" os server migration force complete "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79
house_kill
house_start || bad "the control plane starts after it was killed" "$(tail -n 20 "$WORK/chronova.log")"
within 180 "the server is ACTIVE at its destination" is_at "$ONE" "$SECOND"
within 20 "its guest runs there" runs_on "$SECOND" "$ID"
same "and nowhere else" "$(on "$FIRST" list --uuid | grep -x "$ID")" ""
SEEN=$(last_tick "$ONE")
within 30 "it counts on" ticks_on "$ONE" "$((SEEN + 2))"
same "it counted without a gap" "$(gaps "$ONE")" ""
same "it was not started anew" "$(count_said "$ONE" 'GUEST-READY')" 1
[ $FAILED = 0 ] || console "$ONE" | tail -n 40 >"$WORK/console"

expect "it is deleted" os server delete --wait "$ONE"
same "nothing is left on one host" "$(left_on h1 "$ID")" ""
same "nothing is left on the other" "$(left_on h2 "$ID")" ""
[ "$STORAGE" = shared ] || { [ $FAILED = 0 ] && house_close && hosts down >/dev/null 2>&1 && trap - EXIT && exec bash "$0" shared; }
verdict
