#!/bin/bash
# A volume of a real Cinder reaches two real hosts by NFS, from a real NFS-Ganesha. QEMU itself is the client: no host
# mounts anything. A guest writes on the volume, which grows meanwhile, and migrates live with it; another guest reads the
# word. A file that the server does not have is a clear fault. With CHRONOVA_SOAK=1 also: a hard reboot, a copy of the
# volume, and a power failure of the host with an evacuation.
set -uo pipefail
. "$(dirname "$0")/../testbed/served.sh"
served_needs ganesha.nfsd rpcbind rpcinfo
SERVED_BY=ExportDriver
server_up() {
  bash "$TESTBED/ganesha.sh" up "$CLOUD/nfs" $MACHINE || return 1
  export SERVED_FOLDER=$CLOUD/nfs/volumes SERVED_ADDRESS=$MACHINE
}
server_down() { bash "$TESTBED/ganesha.sh" down "$CLOUD/nfs"; }
served_open nfs nf 10.88

# ------------------------------------------------------------------------------------------------- write, grow and move

attach "$ONE" "$FIRST" h1
like "QEMU itself is the client" "$(on h1 dumpxml "$FIRST" | tr -d '\n')" "<source protocol='nfs' name='$SERVED_FOLDER/volume-$VOLUME'[^>]*> *<host name='$MACHINE'"
expect "the guest writes a word on the volume" put h1 "$FIRST" carried
same "the word is in the server's file" "$(dd if="$SERVED_FOLDER/volume-$VOLUME" bs=512 skip=200 count=1 2>/dev/null | head -n 1)" carried
expect "the volume is extended while the guest has it" asked --os-volume-api-version 3.42 volume set --size 2 data
within 60 "the running guest sees the volume's new size" eval '[ "$(at h1 "$FIRST" cat /sys/block/vdb/size)" = 4194304 ]'
within 60 "the guest counts" ticks_on "$ONE" 2
expect "a live migration is requested" asked server migrate --live-migration --host h2 "$ONE" --os-compute-api-version 2.79
within 300 "the server is ACTIVE on h2" is_at "$ONE" h2
same "the guest runs on one host" "$(runs "$FIRST")" 1
counts_on "$ONE"
same "the volume has its word on h2" "$(take h2 "$FIRST")" carried
same "Cinder has one attachment after the migration" "$(attachments)" "$FIRST attached"
expect "the guest writes on h2" put h2 "$FIRST" moved
detach "$ONE" "$FIRST" h2
same "Cinder has no attachment any more" "$(attachments)" ""
attach "$TWO" "$SECOND" h2
same "the other guest reads the last word" "$(take h2 "$SECOND")" moved
detach "$TWO" "$SECOND" h2

# --------------------------------------------------------------------------------------- a file that the server lacks

# The server has never seen this file, so it has nothing of it in its cache.
asked volume create --size 1 lost
within 60 "Cinder has made another volume" volume_is lost available
LOST=$(get volume lost id)
rm "$SERVED_FOLDER/volume-$LOST"
expect "an attachment without the file is requested" asked server add volume "$TWO" lost
within 90 "the volume is available after the failed attachment" eval '[ -z "$(attachments)" ] && volume_is lost available'
like "the server's action gives the reason" "$(failure_of "$TWO")" 'NFS|nfs|No such file|Failed to open'
unlike "the guest has no disk after the failed attachment" "$(on h2 dumpxml "$SECOND")" "$LOST"
same "the server is ACTIVE after the failed attachment" "$(status_of "$TWO")" ACTIVE
expect "the volume without a file is deleted" asked volume delete lost
within 60 "Cinder does not have that volume any more" no_volume lost

ends_clean() {
  expect "the servers are deleted" asked server delete --wait "$ONE" "$TWO"
  within 60 "the volume is available after the deletion" volume_is data available
  expect "the volume is deleted" asked volume delete data
  within 60 "Cinder does not have the volume any more" no_volume data
  same "no file of a volume is left" "$(ls "$SERVED_FOLDER")" ""
  same "no attachment is left in Cinder" "$(attachments)" ""
  verdict
}
long_run || ends_clean

# ------------------------------------------------------------------------------------------- a reboot, and a copy of data

attach "$ONE" "$FIRST" h2
expect "the server is rebooted hard" asked server reboot --hard --wait "$ONE"
ready "$ONE" "the guest is booted again" 2
same "the volume has its word after the hard reboot" "$(take h2 "$FIRST")" moved
expect "a volume is made from the volume in use" asked volume create --source data copy
within 60 "Cinder has made the copy" volume_is copy available
same "the copy has the word" "$(dd if="$SERVED_FOLDER/volume-$(get volume copy id)" bs=512 skip=200 count=1 2>/dev/null | head -n 1)" moved
expect "the copy is deleted" asked volume delete copy
within 60 "Cinder does not have the copy any more" no_volume copy

# ------------------------------------------------------------------------------------------------------- a power failure

hosts crash h2 >/dev/null 2>&1
within 60 "host h2, which lost its power, is shown as down" host_stands h2 down
expect "an evacuation is requested" os server evacuate "$ONE" --os-compute-api-version 2.29 >"$WORK/did"
within 180 "the evacuated server is ACTIVE" at_rest "$ONE" ACTIVE
ready "$ONE" "the evacuated guest is booted"
same "the volume has its word after the evacuation" "$(take h1 "$FIRST")" moved
same "Cinder has one attachment after the evacuation" "$(attachments)" "$FIRST attached"
hosts boot h2 >/dev/null 2>&1
within 90 "host h2 is up again after its power failure" host_stands h2 up
same "the guest runs on one host after the evacuation" "$(runs "$FIRST")" 1
within 60 "the second server is at rest after the power failure" eval 'at_rest "$TWO" SHUTOFF || at_rest "$TWO" ACTIVE'
ends_clean
