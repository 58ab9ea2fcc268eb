#!/bin/bash
# Faults during a live migration of a real guest. The libvirtd of the destination restarts, and another move is
# requested. With CHRONOVA_SOAK=1 also: the libvirtd of the source restarts; the control plane is killed; the guest
# shuts down; the server is deleted. A host loses its power or its network, before, at or after the switch-over. The
# migration and the control plane use the same network. After each fault the guest continues on exactly one host, as
# long as a host has its memory. Otherwise the server is SHUTOFF, and can be started again. A deleted server leaves
# nothing on the hosts or in Placement.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
FLEET_WIRE=TCP FLEET_OPTIONS=--root-link
HOUSE_CONF=$(printf '[libvirt]\nlive_migration_bandwidth = 2')
fleet_open races rc 10.74 2
house_furnish
ONE=races-one
boot "$ONE" --config-drive True --user-data "$(counting)" --availability-zone nova:h1
ready "$ONE" "the guest is booted"
within 60 "the guest counts" ticks_on "$ONE" 2

on_its_way() { # sets FROM and TO, and starts a slow migration
  FROM=$(place "$ONE") TO=$(other "$(place "$ONE")")
  expect "a live migration from $FROM to $TO is requested" os server migrate --live-migration --host "$TO" "$ONE" --os-compute-api-version 2.79
  within 60 "the migration from $FROM to $TO runs" migration_is "$ONE" running
  sleep 2
}
# Checks what must hold after a fault that the guest survives.
settles() { # [the check that the guest continues]
  within 150 "the migration is over" migration_over "$ONE"
  within 60 "both hosts are up" host_is up
  within 60 "the server is ACTIVE" at_rest "$ONE" ACTIVE
  local now; now=$(place "$ONE")
  within 30 "the guest runs on $now" runs_on "$now" "$ID"
  same "the guest runs on no other host" "$(runs "$ID")" 1
  # Leftovers on a host that was unreachable are removed when the reconciler compares the host with the log again.
  within 60 "nothing of the server is left on $(other "$now")" eval '[ -z "$(left_on "$(other "'"$now"'")" "$ID")" ]'
  "${1:-counts_on}" "$ONE"
  ok "the migration: $(moves_of "$ONE" -c Status | tail -n 1)"
}
# Checks that the guest continues to count. The older part of its console was lost when a host failed.
counts_here() { # server
  local seen now; seen=$(last_tick "$1") now=$(place "$1")
  within 40 "the guest continues to count" ticks_on "$1" "$((${seen:-0} + 2))"
  same "the guest counted without a gap" "$(gaps "$1")" ""
  same "the guest was not restarted" "$(boots_at "$now" "$ID")" "$BOOTS"
}
BOOTS=1
forced() { os server migration force complete "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79; }
# Succeeds within the last two seconds of the migration, or after its end.
nearly_across() {
  on "$FROM" domjobinfo "$ID" --rawstats \
    | awk '$1 == "memory_total:" {total = $2} $1 == "memory_remaining:" {rest = $2} END {exit !(NR < 3 || (total > 0 && rest < 4 * 1048576))}'
}
# The host loses its power and the guest's memory. Later the host boots again.
power_fails_under_it() { # host
  hosts crash "$1" >/dev/null 2>&1
  within 60 "$1, which lost its power and the guest's memory, is shown as down" host_stands "$1" down
  within 150 "the migration is over" migration_over "$ONE"
  hosts boot "$1" >/dev/null 2>&1
  within 90 "$1 is up again" host_stands "$1" up
  gone_off
}
gone_off() { # the guest ended with its host or by itself, and is started again from its disk
  within 60 "the server is SHUTOFF" at_rest "$ONE" SHUTOFF
  same "the guest runs on no host" "$(runs "$ID")" 0
  local now; now=$(place "$ONE")
  within 60 "nothing of the server is left on $(other "$now")" eval '[ -z "$(left_on "$(other "'"$now"'")" "$ID")" ]'
  expect "the server is started again" os server start "$ONE"
  within 60 "the server is ACTIVE again" at_rest "$ONE" ACTIVE
  BOOTS=$((BOOTS + 1))
  ready "$ONE" "the guest boots from its disk" $BOOTS
}

# ------------------------------------------------------------------------------------ libvirtd restarts, on either side

SIDES=(TO)
! long_run || SIDES=(FROM TO)
for side in "${SIDES[@]}"; do
  on_its_way
  like "another live migration is refused" "$(os server migrate --live-migration "$ONE" --os-compute-api-version 2.79 2>&1)" "task_state migrating"
  like "a cold migration is refused" "$(os server migrate "$ONE" --os-compute-api-version 2.79 2>&1)" "task_state migrating"
  expect "libvirtd restarts on ${!side}" hosts restart "${!side}"
  settles
done

nothing_left() { # uuid
  for host in h1 h2; do within 60 "nothing of the deleted server is on $host" eval '[ -z "$(files_on '"$host"' "'"$1"'"; on '"$host"' list --all --uuid | grep -x "'"$1"'")" ]'; done
  same "nothing of the deleted server is in Placement" "$(os resource provider allocation show "$1" -f value)" ""
}
long_run || { expect "the server is deleted" os server delete --wait "$ONE"; nothing_left "$ID"; verdict; }

# ------------------------------------------------------------------------------------------ the control plane is killed

on_its_way
house_kill
sleep 2
house_start || bad "the control plane starts after it was killed" "$(tail -n 20 "$WORK/chronova.log")"
settles

# --------------------------------------------------------------------------- a host loses its network, and gets it back

for side in TO FROM; do
  on_its_way
  hosts cut "${!side}"
  within 60 "${!side}, which is cut off, is shown as down" host_stands "${!side}" down
  sleep 20
  same "the guest runs once" "$(runs "$ID")" 1
  hosts heal "${!side}"
  settles
done

# ----------------------------------------------------------------------------- the network fails during the switch-over

# The guest is paused during the switch-over, which takes the hosts a moment. In that moment one host loses its network.
for side in FROM TO; do
  on_its_way
  forced
  within 120 "the migration has nearly ended" nearly_across
  sleep $((RANDOM % 3)).$((RANDOM % 9))
  hosts cut "${!side}"
  within 60 "${!side}, which was cut off at the switch-over, is shown as down" host_stands "${!side}" down
  sleep 20
  hosts heal "${!side}"
  settles
done

# ----------------------------------------------------------------------------------------------- a host loses its power

on_its_way
hosts crash "$TO" >/dev/null 2>&1
within 60 "$TO, which lost its power during the migration, is shown as down" host_stands "$TO" down
within 150 "the migration is over" migration_over "$ONE"
within 60 "the server is ACTIVE on $FROM" is_at "$ONE" "$FROM"
same "the guest runs on one host, without $TO" "$(runs "$ID")" 1
hosts boot "$TO" >/dev/null 2>&1
settles

on_its_way
forced
within 150 "the guest runs on $TO" runs_on "$TO" "$ID"
hosts crash "$FROM" >/dev/null 2>&1
within 60 "$FROM, which lost its power after the switch-over, is shown as down" host_stands "$FROM" down
within 150 "the server is ACTIVE on $TO" is_at "$ONE" "$TO"
same "the guest runs on one host, without $FROM" "$(runs "$ID")" 1
hosts boot "$FROM" >/dev/null 2>&1
settles counts_here

on_its_way
power_fails_under_it "$FROM"

on_its_way
forced
within 150 "the guest runs on $TO" runs_on "$TO" "$ID"
power_fails_under_it "$TO"

# ------------------------------------------------------------------------------------------ the guest shuts itself down

on_its_way
at "$FROM" "$ID" 'poweroff' >/dev/null 2>&1 &
OFF=$!
within 120 "the migration is over" migration_over "$ONE"
wait $OFF
gone_off

# ------------------------------------------------------------------------------- the server is deleted during each move

on_its_way
expect "the server is deleted during the live migration" os server delete --wait "$ONE"
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
within 60 "h1, which lost its power, is shown as down" host_stands h1 down
os server evacuate races-evacuated --os-compute-api-version 2.29
sleep 0.$((RANDOM % 9))
expect "a server is deleted during an evacuation" os server delete --wait races-evacuated
hosts boot h1 >/dev/null 2>&1
within 90 "h1 is up again" host_stands h1 up
nothing_left "$ID"
[ $FAILED = 0 ] || console "$ONE" 2>/dev/null | tail -n 60 >"$WORK/console"
verdict
