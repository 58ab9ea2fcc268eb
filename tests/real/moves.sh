#!/bin/bash
# Two real guests are resized, cold-migrated, shelved and evacuated between two hosts, and come back. Each guest has a
# word and a count of its boots on its own disk. Both show from inside the guest which data moved. The second guest has
# a volume, and keeps the volume with the word on it. `moves.sh shared` runs the same with shared storage. With
# CHRONOVA_SOAK=1 both variants run, with a third host: cold and live migrations in a circle, into a zone and out of it,
# and an evacuation of one host to both others.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
# A shelved server stays on its host until it is offloaded.
HOUSE_CONF=$(printf '[DEFAULT]\nshelved_offload_time = -1')
HOSTS=2
[ -z "${CHRONOVA_SOAK:-}" ] || HOSTS=3
fleet_open "moves-${1:-local}" mv 10.71 $HOSTS "${1:-local}"
house_furnish
within 60 "all hosts are there" host_stands h$HOSTS up
[ $HOSTS = 2 ] || expect "the third host is disabled" os compute service set --disable h3 nova-compute
INSIDE_SECONDS=120
LARGE=$NAME-large
os flavor create --vcpus 2 --ram 192 --disk 2 "$LARGE" >"$WORK/large" 2>&1 || bad "the larger flavor is made" "$(cat "$WORK/large")"
# A migration can name a host from 2.56 on, an unshelve from 2.91 on.
to_host() { os server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server
one() { echo "$NAME-one"; }
two() { echo "$NAME-two"; }

boot "$(one)" --no-wait --config-drive True --availability-zone nova:h1; ONE=$ID
boot "$(two)" --config-drive True --availability-zone nova:h2; TWO=$ID
within 60 "both servers are ACTIVE" at_rest "$(one)" ACTIVE
expect "the first guest is booted and writes a word on its disk" mark_at h1 "$ONE" first
expect "the second guest does, too" mark_at h2 "$TWO" second
give_volume "$(two)"
expect "it writes a word on its volume" write_on h2 "$TWO" kept
keeps_volume() { # host
  same "it reads its word from its volume" "$(read_on "$1" "$TWO")" kept
  same "the volume belongs to the server" "$(get volume "$NAME-volume" status) $(attached_to "$NAME-volume")" "in-use $TWO"
}

# ------------------------------------------------------ a resize and its confirmation; a shelved server on another host

expect "a resize is requested" os server resize --flavor "$LARGE" "$(one)"
expect "the other server is shelved, and leaves its host" os server shelve --offload --wait "$(two)"
expect "it is SHELVED_OFFLOADED" at_rest "$(two)" SHELVED_OFFLOADED
same "nothing of it is left there" "$(files_on h2 "$TWO")$(on h2 list --all --uuid | grep -x "$TWO")" ""
expect "an unshelve on the other host is requested" to_host unshelve h1 "$(two)"
within 120 "the first one waits to be verified" at_rest "$(one)" VERIFY_RESIZE
same "it is on the other host" "$(place "$(one)")" h2
same "its guest's disk moved with it" "$(marker_at h2 "$ONE")" first
same "it counts its second boot" "$(boots_at h2 "$ONE")" 2
same "its disk is larger" "$(disk_of h2 "$ONE") $(at h2 "$ONE" 'cat /sys/block/vda/size')" "2147483648 4194304"
same "it has two processors" "$(at h2 "$ONE" 'grep -c ^processor /proc/cpuinfo')" 2
same "the source keeps its guest, stopped" "$(on h1 domstate "$ONE" | head -n 1)" "shut off"
expect "it is confirmed" os server resize confirm "$(one)"
within 60 "it is ACTIVE" at_rest "$(one)" ACTIVE
same "the resize is listed" "$(moves_of "$(one)" --type resize -c Status -c 'Source Compute' -c 'Dest Compute')" "h1 h2 confirmed"
same "nothing is left at the source" "$(left_on h1 "$ONE")" ""
within 120 "the shelved one is ACTIVE again" at_rest "$(two)" ACTIVE
same "where it was told" "$(place "$(two)")" h1
same "the disk has its marker" "$(marker_at h1 "$TWO")" second
keeps_volume h1

# ----------------------------------------------------------------- a cold migration of a stopped server, and its revert

expect "a migration is requested" to_host migrate h1 "$(one)"
within 120 "it waits to be verified" at_rest "$(one)" VERIFY_RESIZE
same "it is on the named host" "$(place "$(one)")" h1
same "its disk moved with it" "$(marker_at h1 "$ONE")" first
expect "it writes another word" mark_at h1 "$ONE" between
same "it runs once" "$(runs "$ONE")" 1
expect "the migration is reverted" os server migration revert "$(one)"
within 90 "it is ACTIVE" at_rest "$(one)" ACTIVE
same "the migration is listed" "$(moves_of "$(one)" --type cold-migration -c Status -c 'Source Compute' -c 'Dest Compute')" "h2 h1 reverted"
same "where it was" "$(place "$(one)")" h2
same "nothing is left on the abandoned destination" "$(left_on h1 "$ONE")" ""
same "its disk is unchanged" "$(marker_at h2 "$ONE")" first
same "it runs once" "$(runs "$ONE")" 1

# ----------------------------------------------------------------------------------------------------------- evacuation

like "an evacuation from a host that is up is refused" "$(os server evacuate "$(two)" --os-compute-api-version 2.29 2>&1)" "still in use"
hosts crash h1 >/dev/null 2>&1
within 60 "a host loses its power and is shown as down" host_stands h1 down
expect "an evacuation is requested" os server evacuate "$(two)" --os-compute-api-version 2.29 >"$WORK/did"
like "the answer names the server" "$(cat "$WORK/did")" "$TWO"
within 120 "it is ACTIVE again" at_rest "$(two)" ACTIVE
same "on the other host" "$(place "$(two)")" h2
case $STORAGE in
  local) same "its guest's disk is recreated" "$(boots_at h2 "$TWO") $(marker_at h2 "$TWO")" "1 " ;;
  shared) same "it keeps its disk" "$(marker_at h2 "$TWO")" second ;;
esac
keeps_volume h2
like "the evacuation is listed" "$(os server migration list --type evacuation --os-compute-api-version 2.59 -f value 2>&1)" "done $TWO"
hosts boot h1 >/dev/null 2>&1
within 90 "the host is back" host_stands h1 up
same "nothing of the server is left on it" "$(left_on h1 "$TWO")" ""
like "the evacuation is complete" "$(os server migration list --type evacuation --os-compute-api-version 2.59 -f value 2>&1)" "completed $TWO"
expect "its guest goes on" mark_at h2 "$TWO" evacuated
same "and runs once" "$(runs "$TWO")" 1

# ---------------------------------------------------------------------------------------------------------- three hosts

left() { # former host, uuid
  same "nothing is left on $1" "$(left_on "$1" "$2")" ""
  same "it runs once" "$(runs "$2")" 1
}
if [ $HOSTS = 3 ]; then
  expect "the third host is enabled" os compute service set --enable h3 nova-compute
  expect "it gets a separate zone" eval 'os aggregate create --zone third third >"$WORK/zone" && os aggregate add host third h3 >"$WORK/zone"'
  expect "a server is shelved and offloaded" os server shelve --offload --wait "$(two)"
  expect "it comes back in that zone" os server unshelve --availability-zone third --wait "$(two)" --os-compute-api-version 2.77
  same "it is on the third host" "$(place "$(two)") $(get server "$(two)" OS-EXT-AZ:availability_zone)" "h3 third"
  same "the disk has its marker" "$(marker_at h3 "$TWO")" evacuated
  expect "it is shelved and offloaded again" os server shelve --offload --wait "$(two)"
  expect "it is unshelved without a zone" os server unshelve --no-availability-zone --host h2 --wait "$(two)" --os-compute-api-version 2.91
  same "it is on a host of another zone" "$(place "$(two)")" h2
  expect "the zone is removed" eval 'os aggregate remove host third h3 >"$WORK/zone" && os aggregate delete third'

  for to in h1 h3 h2; do
    from=$(place "$(one)")
    expect "the other one is sent from $from to $to" to_host migrate $to "$(one)"
    within 120 "it waits to be verified" at_rest "$(one)" VERIFY_RESIZE
    expect "the migration is confirmed" os server migration confirm "$(one)"
    within 60 "it is ACTIVE there" is_at "$(one)" $to
    left "$from" "$ONE"
  done
  same "its disk moved with it" "$(marker_at h2 "$ONE")" first
  boots=$(boots_at h2 "$ONE")
  for to in h3 h1 h2; do
    from=$(place "$(one)")
    expect "it is sent from $from to $to while it runs" os server migrate --live-migration --host $to "$(one)" --os-compute-api-version 2.79
    within 120 "it is ACTIVE there" is_at "$(one)" $to
    within 20 "its guest runs there" runs_on $to "$ONE"
    left "$from" "$ONE"
  done
  same "it was not restarted" "$(boots_at h2 "$ONE")" "$boots"

  expect "both servers write a word on their disks" eval 'mark_at h2 "$ONE" third && mark_at h2 "$TWO" third'
  hosts crash h2 >/dev/null 2>&1
  within 60 "their host fails" host_stands h2 down
  expect "an evacuation without a destination is requested" os server evacuate "$(two)" --os-compute-api-version 2.29 >"$WORK/did"
  within 120 "it is ACTIVE again" at_rest "$(two)" ACTIVE
  like "it is on one of the other hosts" "$(place "$(two)")" '^h[13]$'
  to=h1; [ "$(place "$(two)")" = h3 ] || to=h3
  expect "an evacuation to the third host is requested" os server evacuate --host $to "$(one)" --os-compute-api-version 2.29 >"$WORK/did"
  within 120 "where it is ACTIVE" is_at "$(one)" $to
  case $STORAGE in
    local) same "its disk is recreated" "$(boots_at $to "$ONE") $(marker_at $to "$ONE")" "1 " ;;
    shared) same "it keeps its disk" "$(marker_at $to "$ONE")" third ;;
  esac
  hosts boot h2 >/dev/null 2>&1
  within 90 "the host is back" host_stands h2 up
  left h2 "$ONE"
  left h2 "$TWO"
  same "both evacuations are complete" "$(os server migration list --type evacuation --host h2 --status completed --os-compute-api-version 2.59 -f value -c 'Source Compute' | sort | uniq -c | xargs)" "1 h1 2 h2"
fi

# ------------------------------------------------------------------ a stopped server is deleted before its confirmation

expect "a server is stopped" os server stop "$(one)"
within 60 "and off" at_rest "$(one)" SHUTOFF
expect "it is migrated" to_host migrate "$(other "$(place "$(one)")")" "$(one)"
within 90 "it waits to be verified" at_rest "$(one)" VERIFY_RESIZE
same "it stayed off" "$(on "$(place "$(one)")" domstate "$ONE" | head -n 1)" "shut off"
like "migrations are listed" "$(os server migration list -f value 2>&1)" "$ONE"
expect "it is deleted before its confirmation" os server delete --wait "$(one)"
expect "the other server is deleted, too" os server delete --wait "$(two)"
drop_volume
same "nothing is left anywhere" "$(rest_of "$ONE"; rest_of "$TWO"; for host in $(all_hosts); do on "$host" list --all --uuid; done)" ""
[ -n "${1:-}" ] || [ -z "${CHRONOVA_SOAK:-}" ] || [ $FAILED != 0 ] || { trap - EXIT; (exit 0); house_close; exec bash "$0" shared; }
verdict
