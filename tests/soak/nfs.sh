#!/bin/bash
# A volume of a real Cinder reaches two real hosts by NFS, from a real NFS-Ganesha. QEMU itself is the client: no host
# mounts anything. A guest writes a word on the volume. Cinder moves the volume to another back end while the guest has
# it, and the volume grows. The guest migrates live with it; another guest reads the word. A file that the server does
# not have causes a fault that names the reason. With CHRONOVA_SOAK=1 also: a hard reboot, a copy of the volume, and a
# power failure of the host with an evacuation.
set -uo pipefail
. "$(dirname "$0")/../testbed/served.sh"
served_needs ganesha.nfsd rpcbind rpcinfo
SERVED_BY=ExportDriver SERVED_SECOND=second
server_up() {
  bash "$TESTBED/ganesha.sh" up "$CLOUD/nfs" $MACHINE || return 1
  export SERVED_FOLDER=$CLOUD/nfs/volumes SERVED_ADDRESS=$MACHINE
}
server_down() { bash "$TESTBED/ganesha.sh" down "$CLOUD/nfs"; }
served_open nfs nf 10.88

# ------------------------------------------------------------------------------------------------- write, grow and move

attach "$ONE" "$FIRST" h1
like "QEMU itself is the client" "$(on h1 dumpxml "$FIRST" | tr -d '\n')" "<source protocol='nfs' name='$SERVED_FOLDER/volume-$VOLUME'[^>]*> *<host name='$MACHINE'"
expect "the guest writes a word on the volume" write_on h1 "$FIRST" carried
same "the word is in the server's file" "$(dd if="$SERVED_FOLDER/volume-$VOLUME" bs=512 skip=200 count=1 2>/dev/null | head -n 1)" carried
moves_in_cinder
expect "the volume is extended while the guest has it" asked --os-volume-api-version 3.42 volume set --size 2 data
within 60 "the running guest sees the volume's new size" eval '[ "$(at h1 "$FIRST" cat /sys/block/vdb/size)" = 4194304 ]'
moves_live
writes_and_leaves
other_guest_reads

# --------------------------------------------------------------------------------------- a file that the server lacks

# The NFS server has never opened this file, so no part of the file is in the server's cache.
spoilt lost
rm "$SERVED_FOLDER/volume-$SPOILT"
refused lost 'NFS|nfs|No such file|Failed to open'
discarded lost

ends_clean() { leaves_nothing; verdict; }
long_run || ends_clean

# ------------------------------------------------------------------------------------------- a reboot, and a copy of data

reboots_hard
expect "a volume is made from the volume in use" asked volume create --source data copy
within 60 "Cinder has made the copy" volume_is copy available
same "the copy has the word" "$(dd if="$SERVED_FOLDER/volume-$(get volume copy id)" bs=512 skip=200 count=1 2>/dev/null | head -n 1)" moved
discarded copy

# ------------------------------------------------------------------------------------------------------- a power failure

survives_power_failure
ends_clean
