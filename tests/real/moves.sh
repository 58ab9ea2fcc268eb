#!/bin/bash
# A real guest that is resized and moved between two hosts, and comes back: it counts its boots on its own disk, so what it
# says at its destination tells whether the disk went with it.
set -uo pipefail
[ -n "${CHRONOVA_SOAK:-}" ] || { echo "takes minutes; set CHRONOVA_SOAK=1"; exit 77; }
HERE=$(cd "$(dirname "$0")" && pwd)
export TESTBED_ID=${TESTBED_ID:-mv}
STATE=${TESTBED_STATE:-/var/tmp/tb-$TESTBED_ID}
hosts() { bash "$HERE/../testbed/hosts.sh" "$@"; }
[ "$(id -u)" = 0 ] || { echo "needs root, for hosts in namespaces"; exit 77; }
hosts down >/dev/null 2>&1
hosts up 2 >/tmp/moves-hosts.$$ 2>&1 || { tail -n 5 /tmp/moves-hosts.$$; rm -f /tmp/moves-hosts.$$; echo "the hosts do not start here"; exit 77; }
rm -f /tmp/moves-hosts.$$
. "$STATE/hosts.env"
HYPERVISORS="$h1_UNIX $h2_UNIX"
. "$HERE/../testbed/house.sh"
house_open moves 10.71
trap 'house_close; hosts down >/dev/null 2>&1' EXIT
on() { local uri=${1}_UNIX; shift; virsh -q -c "${!uri}" "$@" 2>/dev/null; } # host, virsh command
place() { get server "$1" OS-EXT-SRV-ATTR:host; }
disk_of() { on "$1" pool-refresh chronova >/dev/null; on "$1" vol-dumpxml "$2_disk" chronova | sed -n "s/.*<capacity unit='bytes'>\(.*\)<.*/\1/p"; }
left_on() { on "$1" list --all --uuid | grep -x "$2"; on "$1" pool-refresh chronova >/dev/null; on "$1" vol-list chronova | awk '{print $1}' | grep "^$2_"; } # host, uuid
other() { [ "$1" = h1 ] && echo h2 || echo h1; }
house_furnish
os flavor create --vcpus 2 --ram 192 --disk 2 moves-large >"$WORK/large" 2>&1 || bad "the larger flavor is made" "$(cat "$WORK/large")"

boot moves-one --config-drive True
ONE=$ID HOME_HOST=$(place moves-one)
AWAY=$(other "$HOME_HOST")
ready moves-one "the guest is booted"

# ------------------------------------------------------------------------------------------------------ resize, confirm

expect "a resize is asked for" os server resize --flavor moves-large moves-one
within 180 "the server waits to be verified" is moves-one VERIFY_RESIZE
same "it is on the other host" "$(place moves-one)" "$AWAY"
ready moves-one "the guest counts its second boot there: its disk went with it" 2
same "its disk is larger" "$(disk_of "$AWAY" "$ONE")" 2147483648
same "it has two processors" "$(on "$AWAY" dominfo "$ONE" | sed -n 's/^CPU(s): *//p')" 2
same "the source is kept, and off" "$(on "$HOME_HOST" domstate "$ONE" | head -n 1)" "shut off"
expect "it is confirmed" os server resize confirm moves-one
within 60 "the server is ACTIVE" is moves-one ACTIVE
same "nothing is left at the source" "$(left_on "$HOME_HOST" "$ONE")" ""

# ------------------------------------------------------------------------------------------------------- migrate, revert

expect "a migration is asked for" os server migrate moves-one
within 180 "the server waits to be verified again" is moves-one VERIFY_RESIZE
same "it is where it began" "$(place moves-one)" "$HOME_HOST"
ready moves-one "the guest counts its third boot" 3
expect "it is reverted" os server migrate revert moves-one
within 180 "the server is ACTIVE again" is moves-one ACTIVE
same "it is back" "$(place moves-one)" "$AWAY"
same "nothing is left where it was in between" "$(left_on "$HOME_HOST" "$ONE")" ""
within 180 "the guest runs again, from the disk that it left" eval 'on "$AWAY" domstate "$ONE" | grep -q running'

# ------------------------------------------------------------------------------------------------------------ evacuated

boot moves-two --availability-zone "nova:$HOME_HOST"
TWO=$ID LOST=$(place moves-two)
SAFE=$(other "$LOST")
ready moves-two "a second guest is booted"
state_of() { os hypervisor list -f value -c 'Hypervisor Hostname' -c State 2>/dev/null | awk -v host="$1" '$1 == host {print $2}'; }
stands() { [ "$(state_of "$1")" = "$2" ]; } # host, state
like "nobody leaves a host that is up" "$(os server evacuate moves-two --os-compute-api-version 2.29 2>&1)" "still in use"
hosts crash "$LOST" >/dev/null 2>&1
within 60 "the host is seen to be down" stands "$LOST" down
expect "the server is to leave it" os server evacuate moves-two --os-compute-api-version 2.29
within 180 "it is ACTIVE again" is moves-two ACTIVE
same "it is on the other host" "$(place moves-two)" "$SAFE"
ready moves-two "its guest counts its first boot: the disk is made anew" 1
like "the evacuation is listed" "$(os server migration list --type evacuation --os-compute-api-version 2.59 -f value 2>&1)" "$TWO.*done"
hosts boot "$LOST" >/dev/null 2>&1
within 120 "the host is back" stands "$LOST" up
same "nothing of the server is on it by then" "$(left_on "$LOST" "$TWO")" ""
like "the evacuation is complete" "$(os server migration list --type evacuation --os-compute-api-version 2.59 -f value 2>&1)" "$TWO.*completed"
expect "the second server is deleted" os server delete --wait moves-two

# ------------------------------------------------------------------------------------------------------ stopped, deleted

os server stop moves-one; within 60 "the server is off" is moves-one SHUTOFF
expect "an off server is migrated" os server migrate --host "$HOME_HOST" moves-one --os-compute-api-version 2.56
within 180 "it waits to be verified" is moves-one VERIFY_RESIZE
same "it stayed off" "$(on "$HOME_HOST" domstate "$ONE" | head -n 1)" "shut off"
like "migrations are listed" "$(os server migration list -f value 2>&1)" "$ONE"
expect "it is deleted before it is confirmed" os server delete --wait moves-one
same "nothing is left on one host" "$(left_on h1 "$ONE")" ""
same "nothing is left on the other" "$(left_on h2 "$ONE")" ""
verdict
