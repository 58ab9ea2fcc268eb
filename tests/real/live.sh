#!/bin/bash
# A real guest counts on its console while it migrates live to another host. The guest has a volume on storage that both
# hosts reach; its disks are copied. A first migration is aborted. The count continues at the destination without a gap.
# With CHRONOVA_SOAK=1 the guest migrates back and forth, also under faults and with post-copy. Then `live.sh shared`
# repeats all of this with shared storage.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
fleet_open "live-${1:-local}" lv 10.72 2 "${1:-local}"
house_furnish
ONE="$NAME-one"
boot "$ONE" --config-drive True --user-data "$(counting)"
FIRST=$(place "$ONE")
SECOND=$(other "$FIRST")
tells_bytes() { os server migration show "$1" "$2" --os-compute-api-version 2.79 -f json 2>/dev/null | grep -qE '"(Memory|Disk) Total Bytes": [1-9]'; }
leaves() { os server migrate --live-migration "$ONE" "$@" --os-compute-api-version 2.79; }
forced() { os server migration force complete "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79; }
ends_clean() {
  expect "the server is deleted" os server delete --wait "$ONE"
  for host in h1 h2; do same "nothing of the server is left on $host" "$(files_on $host "$ID"; on $host list --all --uuid)" ""; done
  drop_volume
}
logged() { sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -aF -- "$1"; } # words
arrived() { # host
  within 180 "the server is ACTIVE on $1" is_at "$ONE" "$1"
  within 20 "the guest runs on $1" runs_on "$1" "$ID"
  same "the guest runs on no other host" "$(runs "$ID")" 1
}
ready "$ONE" "the guest is booted"
within 60 "the guest counts" ticks_on "$ONE" 2
give_volume "$ONE"
expect "the guest writes a word on its volume" write_on "$FIRST" "$ID" carried-along

# ----------------------------------------------------------------------------------------------------------------- abort

with 'live_migration_bandwidth = 2' 'live_migration_permit_auto_converge = true' 'live_migration_downtime = 400'
expect "a slow live migration is requested" leaves
within 120 "the slow migration runs" migration_is "$ONE" running
can() { on "$FIRST" qemu-monitor-command "$ID" '{"execute": "query-migrate-capabilities"}' | tr '{' '\n' | grep -F "\"$1\"" | grep -oE 'true|false'; }
within 10 "the slow migration runs with auto-converge" eval '[ "$(can auto-converge)" = true ]'
same "post-copy is not permitted" "$(can postcopy-ram)" false
within 10 "the first step of the downtime is a tenth of it" eval '[ "$(on "$FIRST" migrate-getmaxdowntime "$ID" | head -1)" = 40 ]'
NUMBER=$(number_of "$ONE") NAMED=$(uuid_of "$ONE")
like "the running migration is shown with its hosts" "$(os server migration show "$ONE" "$NAMED" --os-compute-api-version 2.79 -f value -c Status -c 'Source Compute' -c 'Dest Compute' | paste -sd ' ')" "^running $FIRST $SECOND$"
expect "the slow migration is aborted" os server migration abort "$ONE" "$(number_of "$ONE")" --os-compute-api-version 2.79
within 60 "the server is ACTIVE on its old host" is_at "$ONE" "$FIRST"
expect "the migration is cancelled" migration_is "$ONE" cancelled
like "the cancelled migration is not shown" "$(os server migration show "$ONE" "$NAMED" --os-compute-api-version 2.79 2>&1)" 'is not found for server'
like "the cancelled migration cannot be aborted" "$(os server migration abort "$ONE" "$NUMBER" --os-compute-api-version 2.79 2>&1)" '409.*task_state None'
like "the cancelled migration cannot be forced to complete" "$(os server migration force complete "$ONE" "$NUMBER" --os-compute-api-version 2.79 2>&1)" '409.*task_state None'
same "nothing of the server is on the other host" "$(left_on "$SECOND" "$ID")" ""
counts_on "$ONE"
with

# -------------------------------------------------------------------------------------------- migrations there and back

WAYS=("$SECOND")
! long_run || WAYS+=("$FIRST")
for TO in "${WAYS[@]}"; do
  FROM=$(place "$ONE")
  expect "a live migration to $TO is requested" leaves --host "$TO"
  arrived "$TO"
  same "nothing of the server is left on $FROM" "$(left_on "$FROM" "$ID")" ""
  counts_on "$ONE"
  expect "the migration is completed" migration_is "$ONE" completed
  ok "control plane: $(overhead "$ONE")"
  same "the guest reads its word from its volume" "$(read_on "$TO" "$ID")" carried-along
  same "the volume belongs to the server" "$(get volume "$NAME-volume" status) $(attached_to "$NAME-volume")" "in-use $ID"
done
long_run || { ends_clean; verdict; }
# The migrations above also brought the image and the network to each host. The next migrations all do the same work, so
# their times can be compared.
for TO in "$SECOND" "$FIRST" "$SECOND" "$FIRST" "$SECOND" "$FIRST"; do
  leaves --host "$TO"
  wait_for 180 is_at "$ONE" "$TO" || bad "the server is ACTIVE on $TO" "$(moves_of "$ONE")"
  overhead "$ONE" | tee -a "$WORK/overhead"
done
ok "control plane: $(median <"$WORK/overhead") ms, the median of $(wc -l <"$WORK/overhead")"
counts_on "$ONE"
like "the migrations are listed" "$(moves_of "$ONE" --type live-migration -c Type -c Status | sort | uniq -c)" '^ *8 completed live-migration$'

# -------------------------------------------------------------------------------------------------------- force complete

with 'live_migration_bandwidth = 2'
expect "another migration is requested" leaves
within 60 "the second slow migration runs" migration_is "$ONE" running
within 20 "the running migration shows its progress" tells_bytes "$ONE" "$(uuid_of "$ONE")"
expect "the second slow migration is forced to complete" forced
arrived "$SECOND"
like "the log says that the guest is paused" "$(logged 'pauses its guest')" "$ID"
same "no guest was switched to post-copy" "$(logged 'switch to post-copy')" ""
counts_on "$ONE"

# ------------------------------------------------------------------------------------------------------------ post-copy

with 'live_migration_bandwidth = 2' 'live_migration_permit_post_copy = true' 'live_migration_permit_auto_converge = true'
expect "a migration with post-copy is requested" leaves
within 60 "the migration with post-copy runs" migration_is "$ONE" running
within 30 "post-copy is enabled" eval '[ "$(FIRST=$SECOND; can postcopy-ram)" = true ]'
same "auto-converge is off beside post-copy" "$(FIRST=$SECOND; can auto-converge)" false
PAUSED=$(logged 'pauses its guest' | wc -l)
expect "the migration with post-copy is forced to complete" forced
arrived "$FIRST"
like "the log says that the guest is switched to post-copy" "$(logged 'switch to post-copy')" 'switched=true'
same "the guest is not paused for that" "$(logged 'pauses its guest' | wc -l)" "$PAUSED"
counts_on "$ONE"

# The destination's kernel does not allow post-copy. So QEMU slows the guest down, and a forced completion pauses the
# guest.
expect "$SECOND cannot do post-copy" hosts userfault "$SECOND" off
with 'live_migration_bandwidth = 2' 'live_migration_permit_post_copy = true' 'live_migration_permit_auto_converge = true'
expect "a migration with post-copy to that host is requested" leaves
within 60 "the migration to the host without post-copy runs" migration_is "$ONE" running
within 30 "auto-converge is enabled" eval '[ "$(can auto-converge)" = true ]'
same "post-copy is disabled" "$(can postcopy-ram)" false
like "the log says that the migration runs without post-copy" "$(grep -a 'runs without post-copy' "$WORK/chronova.log")" "$ID"
expect "the migration without post-copy is forced to complete" forced
arrived "$SECOND"
counts_on "$ONE"
hosts userfault "$SECOND" on
FIRST=$SECOND SECOND=$(other "$SECOND")

# ----------------------------------------------------------------------- the control plane is killed during a migration

# The forced completion pauses the guest for the rest of the migration. An emulated guest that runs during a minute of
# copying can break, with or without a control plane.
with 'live_migration_bandwidth = 2'
expect "one more slow migration is requested" leaves
within 60 "the migration runs before the control plane is killed" migration_is "$ONE" running
expect "that migration is forced to complete" forced
house_kill
house_start || bad "the control plane starts after it was killed" "$(tail -n 20 "$WORK/chronova.log")"
arrived "$SECOND"
counts_on "$ONE"
[ $FAILED = 0 ] || console "$ONE" | tail -n 40 >"$WORK/console"

ends_clean
[ -n "${1:-}" ] || [ $FAILED != 0 ] || { trap - EXIT; (exit 0); house_close; exec bash "$0" shared; }
verdict
