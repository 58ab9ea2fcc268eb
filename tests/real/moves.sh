#!/bin/bash
# Two real guests move between two hosts, by resizes, cold migrations, shelving and evacuations. Each guest has a word
# and a count of its boots on its own disk. The script reads both inside the guest, so that it sees which data moved.
# The second guest has a volume, and keeps the volume with the word on it. `moves.sh shared` runs the same with shared
# storage. With CHRONOVA_SOAK=1 both variants run. A third host then allows further moves: cold and live migrations in
# a circle, into a zone and out of it, and an evacuation of one host to both others.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
# A shelved server stays on its host until it is offloaded.
HOUSE_CONF=$(printf '[DEFAULT]\nshelved_offload_time = -1')
HOSTS=2
[ -z "${CHRONOVA_SOAK:-}" ] || HOSTS=3
fleet_open "moves-${1:-local}" mv 10.71 $HOSTS "${1:-local}"
house_furnish
within 60 "all hosts are up" host_stands h$HOSTS up
[ $HOSTS = 2 ] || expect "the third host is disabled" os compute service set --disable h3 nova-compute
INSIDE_SECONDS=120
LARGE=$NAME-large
os flavor create --vcpus 2 --ram 192 --disk 2 "$LARGE" >"$WORK/large" 2>&1 || bad "the larger flavor is made" "$(cat "$WORK/large")"
# A migration can name a host from 2.56 on, an unshelve from 2.91 on.
to_host() { os server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server
one() { echo "$NAME-one"; }
two() { echo "$NAME-two"; }

boot "$(one)" --no-wait --config-drive True --property role=front --availability-zone nova:h1; ONE=$ID
boot "$(two)" --config-drive True --availability-zone nova:h2; TWO=$ID
within 60 "both servers are ACTIVE" at_rest "$(one)" ACTIVE
expect "the first guest is booted and writes a word on its disk" mark_at h1 "$ONE" first
expect "the second guest is booted and writes a word on its disk" mark_at h2 "$TWO" second
give_volume "$(two)"
expect "the second guest writes a word on its volume" write_on h2 "$TWO" kept
keeps_volume() { # host
  same "the second guest reads its word from its volume" "$(read_on "$1" "$TWO")" kept
  same "the volume belongs to the second server" "$(get volume "$NAME-volume" status) $(attached_to "$NAME-volume")" "in-use $TWO"
}

# ------------------------------------------------------ a resize and its confirmation; a shelved server on another host

expect "a resize of the first server is requested" os server resize --flavor "$LARGE" "$(one)"
expect "the second server is shelved, and leaves its host" os server shelve --offload --wait "$(two)"
expect "the second server is SHELVED_OFFLOADED" at_rest "$(two)" SHELVED_OFFLOADED
same "nothing of the second server is left on its old host" "$(files_on h2 "$TWO")$(on h2 list --all --uuid | grep -x "$TWO")" ""
expect "an unshelve of the second server on the other host is requested" to_host unshelve h1 "$(two)"
within 120 "the first server is in VERIFY_RESIZE" at_rest "$(one)" VERIFY_RESIZE
same "the first server is on the other host" "$(place "$(one)")" h2
same "the first guest's disk moved with it" "$(marker_at h2 "$ONE")" first
same "the first guest counts its second boot" "$(boots_at h2 "$ONE")" 2
same "the first guest's disk is larger" "$(disk_of h2 "$ONE") $(at h2 "$ONE" 'cat /sys/block/vda/size')" "2147483648 4194304"
same "the first guest has two processors" "$(at h2 "$ONE" 'grep -c ^processor /proc/cpuinfo')" 2
same "the source keeps the domain of the first guest, shut off" "$(on h1 domstate "$ONE" | head -n 1)" "shut off"
expect "the resize is confirmed" os server resize confirm "$(one)"
within 60 "the first server is ACTIVE after the resize" at_rest "$(one)" ACTIVE
same "the resize is listed" "$(moves_of "$(one)" --type resize -c Status -c 'Source Compute' -c 'Dest Compute')" "h1 h2 confirmed"
same "nothing of the first server is left at the source" "$(left_on h1 "$ONE")" ""
within 120 "the unshelved server is ACTIVE" at_rest "$(two)" ACTIVE
same "the unshelved server is on the requested host" "$(place "$(two)")" h1
same "the unshelved guest's disk has its word" "$(marker_at h1 "$TWO")" second
keeps_volume h1

# ------------------------------------------------------------------------------------- a cold migration, and its revert

identity() { os server show "$1" -f value -c id -c name -c addresses -c properties | paste -sd ' '; } # server
IDENTITY=$(identity "$(one)")
like "the first server has an address and its metadata" "$IDENTITY" "10\.71\..*role.*front"
expect "a cold migration of the first server is requested" to_host migrate h1 "$(one)"
within 120 "the first server is in VERIFY_RESIZE again" at_rest "$(one)" VERIFY_RESIZE
same "the first server is on the named host" "$(place "$(one)")" h1
same "the migrated server keeps its id, name, addresses and metadata" "$(identity "$(one)")" "$IDENTITY"
same "the first guest's disk moved to the named host" "$(marker_at h1 "$ONE")" first
same "the first guest was shut down and started again" "$(boots_at h1 "$ONE")" 3
expect "the first guest writes another word" mark_at h1 "$ONE" between
same "the first guest runs on one host" "$(runs "$ONE")" 1
expect "the migration is reverted" os server migration revert "$(one)"
within 90 "the first server is ACTIVE after the revert" at_rest "$(one)" ACTIVE
same "the reverted migration is listed" "$(moves_of "$(one)" --type cold-migration -c Status -c 'Source Compute' -c 'Dest Compute')" "h2 h1 reverted"
same "the first server is on its old host again" "$(place "$(one)")" h2
same "nothing is left on the abandoned destination" "$(left_on h1 "$ONE")" ""
same "the first guest's disk has its old word" "$(marker_at h2 "$ONE")" first
same "the first guest runs on one host after the revert" "$(runs "$ONE")" 1

# ----------------------------------------------------------------------------------------------------------- evacuation

like "an evacuation from a host that is up is refused" "$(os server evacuate "$(two)" --os-compute-api-version 2.29 2>&1)" "still in use"
hosts crash h1 >/dev/null 2>&1
within 60 "host h1, which lost its power, is shown as down" host_stands h1 down
expect "an evacuation of the second server is requested" os server evacuate "$(two)" --os-compute-api-version 2.29 >"$WORK/did"
like "the answer names the server" "$(cat "$WORK/did")" "$TWO"
within 120 "the evacuated server is ACTIVE" at_rest "$(two)" ACTIVE
same "the evacuated server is on the other host" "$(place "$(two)")" h2
case $STORAGE in
  local) same "the evacuated guest has a new disk" "$(boots_at h2 "$TWO") $(marker_at h2 "$TWO")" "1 " ;;
  shared) same "the evacuated guest keeps its disk" "$(marker_at h2 "$TWO")" second ;;
esac
keeps_volume h2
like "the evacuation is listed" "$(os server migration list --type evacuation --os-compute-api-version 2.59 -f value 2>&1)" "done $TWO"
hosts boot h1 >/dev/null 2>&1
within 90 "host h1 is up again" host_stands h1 up
same "nothing of the evacuated server is left on h1" "$(left_on h1 "$TWO")" ""
like "the evacuation is complete" "$(os server migration list --type evacuation --os-compute-api-version 2.59 -f value 2>&1)" "completed $TWO"
expect "the evacuated guest runs, and writes a word on its disk" mark_at h2 "$TWO" evacuated
same "the evacuated guest runs on one host" "$(runs "$TWO")" 1

# ---------------------------------------------------------------------------------------------------------- three hosts

left() { # former host, uuid
  same "nothing of the server is left on $1" "$(left_on "$1" "$2")" ""
  same "the guest runs on one host" "$(runs "$2")" 1
}
if [ $HOSTS = 3 ]; then
  expect "the third host is enabled" os compute service set --enable h3 nova-compute
  expect "the third host gets a separate zone" eval 'os aggregate create --zone third third >"$WORK/zone" && os aggregate add host third h3 >"$WORK/zone"'
  expect "the second server is shelved and offloaded" os server shelve --offload --wait "$(two)"
  expect "the second server is unshelved in that zone" os server unshelve --availability-zone third --wait "$(two)" --os-compute-api-version 2.77
  same "the second server is on the third host" "$(place "$(two)") $(get server "$(two)" OS-EXT-AZ:availability_zone)" "h3 third"
  same "the second guest's disk has its word on the third host" "$(marker_at h3 "$TWO")" evacuated
  expect "the second server is shelved and offloaded again" os server shelve --offload --wait "$(two)"
  expect "the second server is unshelved without a zone" os server unshelve --no-availability-zone --host h2 --wait "$(two)" --os-compute-api-version 2.91
  same "the second server is on a host of another zone" "$(place "$(two)")" h2
  expect "the zone is removed" eval 'os aggregate remove host third h3 >"$WORK/zone" && os aggregate delete third'

  for to in h1 h3 h2; do
    from=$(place "$(one)")
    expect "a cold migration of the first server from $from to $to is requested" to_host migrate $to "$(one)"
    within 120 "the first server is in VERIFY_RESIZE on its way from $from to $to" at_rest "$(one)" VERIFY_RESIZE
    expect "the migration from $from to $to is confirmed" os server migration confirm "$(one)"
    within 60 "the first server is ACTIVE on $to" is_at "$(one)" $to
    left "$from" "$ONE"
  done
  same "the first guest's disk moved in a circle" "$(marker_at h2 "$ONE")" first
  boots=$(boots_at h2 "$ONE")
  for to in h3 h1 h2; do
    from=$(place "$(one)")
    expect "a live migration of the first server from $from to $to is requested" os server migrate --live-migration --host $to "$(one)" --os-compute-api-version 2.79
    within 120 "the first server is ACTIVE on $to after its live migration" is_at "$(one)" $to
    within 20 "the first guest runs on $to" runs_on $to "$ONE"
    left "$from" "$ONE"
  done
  same "the first guest was not restarted" "$(boots_at h2 "$ONE")" "$boots"

  expect "both guests write a word on their disks" eval 'mark_at h2 "$ONE" third && mark_at h2 "$TWO" third'
  hosts crash h2 >/dev/null 2>&1
  within 60 "host h2, which lost its power, is shown as down" host_stands h2 down
  expect "an evacuation of the second server without a destination is requested" os server evacuate "$(two)" --os-compute-api-version 2.29 >"$WORK/did"
  within 120 "the second server is ACTIVE after its evacuation" at_rest "$(two)" ACTIVE
  like "the second server is on one of the other hosts" "$(place "$(two)")" '^h[13]$'
  to=h1; [ "$(place "$(two)")" = h3 ] || to=h3
  expect "an evacuation of the first server to $to is requested" os server evacuate --host $to "$(one)" --os-compute-api-version 2.29 >"$WORK/did"
  within 120 "the first server is ACTIVE on $to after its evacuation" is_at "$(one)" $to
  case $STORAGE in
    local) same "the first guest has a new disk" "$(boots_at $to "$ONE") $(marker_at $to "$ONE")" "1 " ;;
    shared) same "the first guest keeps its disk" "$(marker_at $to "$ONE")" third ;;
  esac
  hosts boot h2 >/dev/null 2>&1
  within 90 "host h2 is up again" host_stands h2 up
  left h2 "$ONE"
  left h2 "$TWO"
  same "both evacuations are complete" "$(os server migration list --type evacuation --host h2 --status completed --os-compute-api-version 2.59 -f value -c 'Source Compute' | sort | uniq -c | xargs)" "1 h1 2 h2"
fi

# ------------------------------------------------------------------ a stopped server is deleted before its confirmation

expect "the first server is stopped" os server stop "$(one)"
within 60 "the first server is SHUTOFF" at_rest "$(one)" SHUTOFF
expect "a cold migration of the stopped server is requested" to_host migrate "$(other "$(place "$(one)")")" "$(one)"
within 90 "the stopped server is in VERIFY_RESIZE" at_rest "$(one)" VERIFY_RESIZE
same "the stopped guest stayed off" "$(on "$(place "$(one)")" domstate "$ONE" | head -n 1)" "shut off"
like "the list of all migrations has the stopped server" "$(os server migration list -f value 2>&1)" "$ONE"
expect "the stopped server is deleted before its confirmation" os server delete --wait "$(one)"
expect "the second server is deleted" os server delete --wait "$(two)"
drop_volume
same "nothing of the servers is left on any host" "$(rest_of "$ONE"; rest_of "$TWO"; for host in $(all_hosts); do on "$host" list --all --uuid; done)" ""
[ -n "${1:-}" ] || [ -z "${CHRONOVA_SOAK:-}" ] || [ $FAILED != 0 ] || { trap - EXIT; (exit 0); house_close; exec bash "$0" shared; }
verdict
