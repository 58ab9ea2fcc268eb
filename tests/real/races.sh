#!/bin/bash
# What goes wrong while a real guest is on its way to another host: a libvirtd restarts on either side, either host loses its
# network (the control plane reaches it over that, too), the guest switches itself off, the server is deleted. Whatever
# happens, the guest ends in one place, runs once, and goes on from where it was; of deleted servers nothing is left.
set -uo pipefail
[ -n "${CHRONOVA_SOAK:-}" ] || { echo "takes minutes; set CHRONOVA_SOAK=1"; exit 77; }
. "$(dirname "$0")/../testbed/fleet.sh"
FLEET_WIRE=TCP FLEET_OPTIONS=--root-link
HOUSE_CONF=$(printf '[libvirt]\nlive_migration_bandwidth = 2')
fleet_open races rc 10.74 2
house_furnish
ONE=races-one
boot "$ONE" --config-drive True --user-data "$(counting)" --availability-zone nova:h1
ready "$ONE" "the guest is booted"
within 60 "it counts" ticks_on "$ONE" 2

on_its_way() { # FROM TO: sends the guest, slowly
  FROM=$(place "$ONE") TO=$(other "$(place "$ONE")")
  expect "it is sent from $FROM to $TO" os server migrate --live-migration --host "$TO" "$ONE" --os-compute-api-version 2.79
  within 60 "it is on its way" migration_is "$ONE" running
  sleep 2
}
settles() { # what must be, whichever way it went
  within 150 "the migration is over" migration_over "$ONE"
  within 60 "both hosts are up" host_is up
  within 60 "the server is ACTIVE" at_rest "$ONE" ACTIVE
  local now; now=$(place "$ONE")
  within 30 "its guest runs on $now" runs_on "$now" "$ID"
  same "and nowhere else" "$(runs "$ID")" 1
  # What a host that was away has of it is removed when it is looked at again.
  within 60 "nothing is left on $(other "$now")" eval '[ -z "$(left_on "$(other "'"$now"'")" "$ID")" ]'
  counts_on "$ONE"
  ok "the migration: $(moves_of "$ONE" -c Status | tail -n 1)"
}

# ----------------------------------------------------------------------------------------- libvirtd restarts, on either side

for side in FROM TO; do
  on_its_way
  expect "libvirtd restarts on ${!side}" hosts restart "${!side}"
  settles
done

# ---------------------------------------------------------------------------------- a host loses its network, and gets it back

for side in TO FROM; do
  on_its_way
  hosts cut "${!side}"
  within 60 "${!side} is cut off, and seen to be down" host_stands "${!side}" down
  sleep 20
  same "the guest runs once" "$(runs "$ID")" 1
  hosts heal "${!side}"
  settles
done

# ----------------------------------------------------------------------------------------------- the guest switches itself off

on_its_way
at "$FROM" "$ID" 'poweroff' >/dev/null 2>&1 &
within 120 "the migration is over" migration_over "$ONE"
wait $!
within 60 "the server is SHUTOFF" at_rest "$ONE" SHUTOFF
same "its guest runs nowhere" "$(runs "$ID")" 0
NOW=$(place "$ONE")
same "nothing is left on $(other "$NOW")" "$(left_on "$(other "$NOW")" "$ID")" ""
expect "it is started again" os server start "$ONE"
within 60 "and is ACTIVE" at_rest "$ONE" ACTIVE
ready "$ONE" "its guest boots from its disk" 2

# --------------------------------------------------------------------------------------------------- deleted during each move

nothing_left() { # uuid
  for host in h1 h2; do within 60 "nothing of it is on $host" eval '[ -z "$(files_on '"$host"' "'"$1"'"; on '"$host"' list --all --uuid | grep -x "'"$1"'")" ]'; done
  same "nor in Placement" "$(os resource provider allocation show "$1" -f value)" ""
}
on_its_way
expect "it is deleted on its way" os server delete --wait "$ONE"
nothing_left "$ID"

os flavor create --vcpus 1 --ram 192 --disk 2 races-large >/dev/null
for move in resize migrate shelve; do
  boot "races-$move" --availability-zone nova:h1
  case $move in
    resize) os server resize --flavor races-large races-resize ;;
    *) os server $move "races-$move" ;;
  esac
  sleep 0.$((RANDOM % 9))
  expect "a server is deleted during $move" os server delete --wait "races-$move"
  nothing_left "$ID"
done

boot races-evacuated --availability-zone nova:h1
hosts crash h1 >/dev/null 2>&1
within 60 "a host fails" host_stands h1 down
os server evacuate races-evacuated --os-compute-api-version 2.29
sleep 0.$((RANDOM % 9))
expect "a server is deleted during an evacuation" os server delete --wait races-evacuated
hosts boot h1 >/dev/null 2>&1
within 90 "the host is back" host_stands h1 up
nothing_left "$ID"
[ $FAILED = 0 ] || console "$ONE" 2>/dev/null | tail -n 60 >"$WORK/console"
verdict
