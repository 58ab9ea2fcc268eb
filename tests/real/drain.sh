#!/bin/bash
# A host is drained. Its guest is real, counts on its console and has a volume. The guest continues to count on the
# other host. In the middle of the drain, the control plane is killed; it continues the drain after its restart. The
# drained host takes no new server until its service is enabled again. With CHRONOVA_SOAK=1 there are three guests and
# two other hosts, and at most two guests move at the same time.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
HOSTS=2 ALL=(1)
! long_run || HOSTS=3 ALL=(1 2 3)
fleet_open drain dr 10.73 $HOSTS
within 60 "the other hosts are up" eval "host_stands h2 up && host_stands h$HOSTS up"
house_furnish
host() { "$CHRONOVA_BIN" host "$@" --data-dir "$DATA"; }
declare -A ids
for n in "${ALL[@]}"; do boot "drain-$n" --no-wait --config-drive True --user-data "$(counting)" --availability-zone nova:h1; ids[$n]=$ID; done
for n in "${ALL[@]}"; do ready "drain-$n" "guest $n is booted"; within 60 "guest $n counts" ticks_on "drain-$n" 2; done
give_volume drain-1
expect "the first guest writes a word on its volume" write_on h1 "${ids[1]}" drained

like "the list of hosts shows the servers of h1" "$(host list)" "^h1 .*${#ALL[@]}"
host drain h1 --parallel 2 --reason 'new memory' >"$WORK/drain" 2>&1 &
DRAIN=$!
within 60 "the first migration runs" migration_is drain-1 running
house_kill
house_start || bad "the control plane starts after it was killed" "$(tail -n 20 "$WORK/chronova.log")"
wait $DRAIN
within 300 "h1 has no guests" eval '[ -z "$(on h1 list --all --uuid)" ]'
expect "a second drain of the empty h1 succeeds" host drain h1 --parallel 2
for n in "${ALL[@]}"; do
  now=$(place "drain-$n")
  like "guest $n is on another host" "$now" '^h[23]$'
  within 60 "server $n is ACTIVE" is_at "drain-$n" "$now"
  same "guest $n runs on no other host" "$(runs_on "$now" "${ids[$n]}" && runs "${ids[$n]}")" 1
  same "nothing of guest $n is left on h1" "$(left_on h1 "${ids[$n]}")" ""
  counts_on "drain-$n"
done
same "the first guest reads its word from its volume" "$(read_on "$(place drain-1)" "${ids[1]}")" drained
! long_run || same "both other hosts have guests" "$(for n in 1 2 3; do place "drain-$n"; done | sort -u | paste -sd ' ')" "h2 h3"
like "the service of h1 is disabled, with the reason" "$(os compute service list --service nova-compute --long -f value -c Host -c Status -c 'Disabled Reason')" '^h1 disabled .*new memory'
boot drain-4
like "a new server is placed on another host than h1" "$(place drain-4)" '^h[23]$'
expect "the service of h1 is enabled again" os compute service set --enable h1 nova-compute
os server delete --wait "${ALL[@]/#/drain-}" drain-4
drop_volume
for n in "${ALL[@]}"; do same "nothing is left of guest $n" "$(rest_of "${ids[$n]}")" ""; done
verdict
