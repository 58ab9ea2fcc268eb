#!/bin/bash
# Volumes and real guests: plugged into a running guest and written to from inside, there after a reboot, pulled out, read
# by another guest; servers that boot from volumes, and what is left when they end.
set -uo pipefail
# It takes minutes.
[ -n "${CHRONOVA_SOAK:-}" ] || { echo "only with --soak"; exit 77; }
. "$(dirname "$0")/../testbed/house.sh"
house_open attached 10.72
house_furnish

volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
no_volume() { ! os volume show "$1" >/dev/null 2>&1; }
attached() { os server add volume "$1" "$2" >"$WORK/attached" 2>&1; } # server, volume
volume() { # name, options...
  local name=$1; shift
  os volume create --size 1 "$@" "$name" >"$WORK/volume-$name" 2>&1 || bad "volume $name is asked for" "$(tail -n 5 "$WORK/volume-$name")"
  within 60 "volume $name is there" volume_is "$name" available
}
# A line of text at a place that no file system needs.
write_to() { inside "$1" "echo $3 | dd of=/dev/$2 bs=512 seek=200 conv=fsync 2>/dev/null"; } # uuid, disk, word
read_from() { inside "$1" "dd if=/dev/$2 bs=512 skip=200 count=1 2>/dev/null | head -n 1"; }

# --------------------------------------------------------------------------------------------------------- hot-plugged

volume attached-data
DATA=$(get volume attached-data id)
boot attached-one; ONE=$ID
ready attached-one "the first guest is booted"
expect "its volume is attached" attached attached-one attached-data
within 60 "the volume is in use" volume_is attached-data in-use
within 30 "the running guest sees the disk" sees_disk "$ONE" vdb
same "its serial number is the volume's id" "$(inside "$ONE" cat /sys/block/vdb/serial)" "${DATA:0:20}"
same "its size is the volume's" "$(inside "$ONE" cat /sys/block/vdb/size)" 2097152
expect "the guest writes to it" write_to "$ONE" vdb carried-over
like "the server shows it" "$(os server show attached-one -f value -c volumes_attached)" "$DATA"
like "a second attachment is refused" "$(os server add volume attached-one attached-data 2>&1)" "already attached"

expect "a hard reboot" os server reboot --hard --wait attached-one
ready attached-one "the guest is booted again" 2
same "the disk is there after it, with what was written" "$(read_from "$ONE" vdb)" carried-over

# ---------------------------------------------------------------------------------------------------------- pulled out

expect "its volume is detached" os server remove volume attached-one attached-data
within 120 "the volume is free" volume_is attached-data available
within 30 "the guest does not see the disk any more" sees_no_disk "$ONE" vdb
unlike "nor would it after its next start" "$(v dumpxml --inactive "$ONE")" "$DATA"

# ------------------------------------------------------------------------------------------------------- another guest

boot attached-two; TWO=$ID
ready attached-two "the second guest is booted"
expect "the volume is attached to it" attached attached-two attached-data
within 30 "it sees the disk" sees_disk "$TWO" vdb
same "and reads what the first one wrote" "$(read_from "$TWO" vdb)" carried-over
expect "it is stopped" os server stop attached-two
within 60 "it is SHUTOFF" is attached-two SHUTOFF
expect "the volume is detached while it is off" os server remove volume attached-two attached-data
within 60 "the volume is free again" volume_is attached-data available
expect "the second server is deleted" os server delete --wait attached-two

# ------------------------------------------------------------------------------------------------------ on its own disk

IMAGE=$(get image "$NAME" id)
on_volume() { # name, options of the root disk...
  local name=$1 root=$2; shift 2
  os server create --wait --flavor "$NAME" --network "$NAME" --block-device "$root,destination_type=volume,boot_index=0" "$@" \
    "$name" >"$WORK/boot-$name" 2>&1 || bad "$name is booted" "$(tail -n 20 "$WORK/boot-$name")"
  ID=$(get server "$name" id)
  SERVERS+=("$ID")
}
root_of() { os server volume list "$1" -f value -c 'Volume ID' 2>/dev/null | head -n 1; }

on_volume attached-three "uuid=$IMAGE,source_type=image,volume_size=1,delete_on_termination=false"; THREE=$ID
ready attached-three "a guest boots from a volume made from an image"
ROOT=$(root_of attached-three)
same "the volume is in use" "$(get volume "$ROOT" status)" in-use
unlike "there is no other root disk on the host" "$(v vol-list chronova)" "${THREE}_disk "
like "its root disk cannot be detached" "$(os server remove volume attached-three "$ROOT" 2>&1)" "root"
expect "its server is deleted" os server delete --wait attached-three
within 60 "its volume outlives it" volume_is "$ROOT" available
on_volume attached-four "uuid=$ROOT,source_type=volume,delete_on_termination=true"; FOUR=$ID
ready attached-four "another server goes on from that volume" 2
expect "that server is deleted" os server delete --wait attached-four
within 60 "the volume ended with it" no_volume "$ROOT"

expect "the first server is deleted" os server delete --wait attached-one
expect "the volume is deleted" os volume delete attached-data
within 60 "it is gone" no_volume attached-data
same "nothing is left on the host" "$(leftovers "$ONE")$(leftovers "$THREE")$(leftovers "$FOUR")" ""
verdict
