#!/bin/bash
# Volumes and a real guest. The guest boots from a volume. While the guest runs, another volume is attached, extended,
# swapped and detached. With CHRONOVA_SOAK=1 also: a volume is present after a reboot, and another guest reads it. A
# server on a volume is rescued, rebuilt and shelved. The deletion of a server keeps or deletes its root volume, as
# `delete_on_termination` says.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open attached 10.72
house_furnish

volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
attached() { os server add volume "$1" "$2" >"$WORK/attached" 2>&1; } # server, volume
volume() { # name, options...
  local name=$1; shift
  os volume create $([[ " $* " == *" --size "* ]] || echo --size 1) "$@" "$name" >"$WORK/volume-$name" 2>&1 || bad "volume $name is requested" "$(tail -n 5 "$WORK/volume-$name")"
  within 60 "volume $name is available" volume_is "$name" available
}
# Writes a line of text to a sector that no file system uses.
write_to() { inside "$1" "echo $3 | dd of=/dev/$2 bs=512 seek=200 conv=fsync 2>/dev/null"; } # uuid, disk, word
read_from() { inside "$1" "dd if=/dev/$2 bs=512 skip=200 count=1 2>/dev/null | head -n 1"; }

# ------------------------------------------------------------ a boot from a volume, and a volume that is attached later

IMAGE=$(get image "$NAME" id)
on_volume() { # name, options of the root disk...
  local name=$1 root=$2; shift 2
  os server create --wait --flavor "$NAME" --network "$NAME" --block-device "$root,destination_type=volume,boot_index=0" "$@" \
    "$name" >"$WORK/boot-$name" 2>&1 || bad "$name is booted" "$(tail -n 20 "$WORK/boot-$name")"
  ID=$(get server "$name" id)
  SERVERS+=("$ID")
}
root_of() { os server volume list "$1" -f value -c 'Volume ID' 2>/dev/null | head -n 1; }

on_volume attached-one "uuid=$IMAGE,source_type=image,volume_size=1,delete_on_termination=true"; ONE=$ID
ready attached-one "a guest boots from a volume made from an image"
ROOT=$(root_of attached-one)
same "the root volume is in use" "$(get volume "$ROOT" status)" in-use
unlike "the host has no other root disk of the server" "$(v vol-list chronova)" "${ONE}_disk "
like "a detachment of the root volume is refused" "$(os server remove volume attached-one "$ROOT" 2>&1)" "root"
volume attached-data
DATA=$(get volume attached-data id)
expect "a data volume is attached" attached attached-one attached-data
within 60 "the data volume is in use" volume_is attached-data in-use
within 30 "the running guest sees the disk" sees_disk "$ONE" vdb
same "the disk's serial number is the volume's id" "$(inside "$ONE" cat /sys/block/vdb/serial)" "${DATA:0:20}"
same "the disk has the volume's size" "$(inside "$ONE" cat /sys/block/vdb/size)" 2097152
expect "the guest writes a word on the disk" write_to "$ONE" vdb carried-over
like "the server shows the data volume" "$(os server show attached-one -f value -c volumes_attached)" "$DATA"
like "a second attachment of the volume is refused" "$(os server add volume attached-one attached-data 2>&1)" "already attached"

expect "a volume type for several servers is created" os volume type create --property multiattach='<is> True' attached-shared
expect "a volume of that type is requested" os volume create --size 1 --type attached-shared attached-shared
within 30 "a volume in a pool of files cannot be shared" volume_is attached-shared error
os volume delete attached-shared
within 30 "the volume that cannot be shared is deleted" no_volume attached-shared
os volume type delete attached-shared

# -------------------------------------------------------------------- snapshot, resize and swap under the running guest

# The client sends --force only with older API versions, so the script calls the API directly.
expect "a snapshot is made of the volume in use" curl -fsS -m 20 -o /dev/null -H "X-Auth-Token: $(os token issue -f value -c id)" \
  -H 'Content-Type: application/json' -d "{\"snapshot\": {\"volume_id\": \"$DATA\", \"name\": \"attached-moment\", \"force\": true}}" \
  "$URL/volume/v3/snapshots"
within 120 "the snapshot is available" eval '[ "$(get2 volume snapshot attached-moment status)" = available ]'
expect "the guest writes another word" write_to "$ONE" vdb later
volume attached-copy --snapshot attached-moment
expect "the volume is extended" os --os-volume-api-version 3.42 volume set --size 2 attached-data
within 60 "the volume is larger and in use" eval '[ "$(get volume attached-data size) $(get volume attached-data status)" = "2 in-use" ]'
within 30 "the running guest sees the new size" eval '[ "$(inside "$ONE" cat /sys/block/vdb/size)" = 4194304 ]'
volume attached-other --size 2
expect "a swap with another volume is requested" curl -fsS -m 20 -o /dev/null -X PUT -H "X-Auth-Token: $(os token issue -f value -c id)" \
  -H 'OpenStack-API-Version: compute 2.84' -H 'Content-Type: application/json' \
  -d "{\"volumeAttachment\": {\"volumeId\": \"$(get volume attached-other id)\"}}" \
  "$URL/compute/v2.1/servers/$ONE/os-volume_attachments/$DATA"
within 180 "the first volume is available after the swap" volume_is attached-data available
within 60 "the other volume is in use" volume_is attached-other in-use
same "the guest still reads its last word" "$(read_from "$ONE" vdb)" later
expect "the other volume is detached" os server remove volume attached-one attached-other
within 120 "the other volume is available" volume_is attached-other available
expect "the volume from the snapshot is attached" attached attached-one attached-copy
within 30 "the guest sees the volume from the snapshot" sees_disk "$ONE" vdb
same "that volume has the word from before the snapshot" "$(read_from "$ONE" vdb)" carried-over
expect "the volume from the snapshot is detached" os server remove volume attached-one attached-copy
within 120 "the volume from the snapshot is available" volume_is attached-copy available
os volume snapshot delete attached-moment
within 60 "the snapshot is deleted" no_snapshot attached-moment
for name in attached-other attached-copy; do os volume delete "$name"; done
long_run || {
  expect "the server is deleted" os server delete --wait attached-one
  within 60 "the root volume is deleted with the server" no_volume "$ROOT"
  expect "the data volume is deleted" os volume delete attached-data
  within 60 "the data volume does not exist any more" no_volume attached-data
  same "nothing of the server is left on the host" "$(leftovers "$ONE")" ""
  verdict
}
expect "the first volume is attached again" attached attached-one attached-data
within 30 "the guest sees the disk again" sees_disk "$ONE" vdb
expect "the guest writes the first word again" write_to "$ONE" vdb carried-over

expect "the server is rebooted hard" os server reboot --hard --wait attached-one
ready attached-one "the guest is booted again" 2
same "the disk has its word after the reboot" "$(read_from "$ONE" vdb)" carried-over

# ----------------------------------------------------------------------------------------------- the volume is detached

expect "the data volume is detached" os server remove volume attached-one attached-data
within 120 "the data volume is available" volume_is attached-data available
within 30 "the guest does not see the disk any more" sees_no_disk "$ONE" vdb
unlike "the persistent definition does not have the disk either" "$(v dumpxml --inactive "$ONE")" "$DATA"

# --------------------------------------------------------------------------------------- another guest reads the volume

boot attached-two; TWO=$ID
ready attached-two "the second guest is booted"
expect "the data volume is attached to the second server" attached attached-two attached-data
within 30 "the second guest sees the disk" sees_disk "$TWO" vdb
same "the second guest reads the word of the first one" "$(read_from "$TWO" vdb)" carried-over
expect "the second server is stopped" os server stop attached-two
within 60 "the second server is SHUTOFF" is attached-two SHUTOFF
expect "the data volume gets another attachment while the second server is off" curl -fsS -m 60 -o /dev/null -X PUT \
  -H "X-Auth-Token: $(os token issue -f value -c id)" -H 'Content-Type: application/json' \
  -d "{\"connector\": {\"host\": \"$(get server attached-two OS-EXT-SRV-ATTR:host)\"}}" \
  "$URL/chronova/v1/servers/$TWO/attachments/$DATA"
expect "the second server is started" os server start attached-two
within 120 "its guest reads the word over the new attachment" eval '[ "$(read_from "$TWO" vdb)" = carried-over ]'
expect "the second server is stopped again" os server stop attached-two
within 60 "the second server is SHUTOFF again" is attached-two SHUTOFF
expect "the data volume is detached while the second server is off" os server remove volume attached-two attached-data
within 60 "the data volume is available again" volume_is attached-data available
expect "the second server is deleted" os server delete --wait attached-two

# ------------------------------------------------------------------- images, rescue and rebuild of a server on a volume

on_volume attached-three "uuid=$IMAGE,source_type=image,volume_size=1,delete_on_termination=false"; THREE=$ID
ready attached-three "the third guest boots from a volume made from an image"
ROOT=$(root_of attached-three)

# An image of the server is a snapshot of its volume. The server is also rescued and rebuilt.
mark_three() { inside "$THREE" "mkdir -p /m && mount -t vfat /dev/vda1 /m && echo $1 >/m/marker && sync && umount /m && sync"; } # word
marker_of() { inside "$1" "mkdir -p /m && mount -t vfat /dev/vda1 /m && cat /m/marker; umount /m" 2>/dev/null | tail -n 1; } # uuid
expect "the third guest writes a marker on its volume" mark_three on-a-volume
expect "an image of the third server is made while its guest runs" os server image create --wait --name attached-image attached-three
like "the image's property names the snapshots" "$(get image attached-image properties)" 'block_device_mapping.*snapshot'
os server create --wait --flavor "$NAME" --network "$NAME" --image attached-image attached-five >"$WORK/five" 2>&1 \
  || bad "a server is made from the image" "$(tail -n 20 "$WORK/five")"
FIVE=$(get server attached-five id); SERVERS+=("$FIVE")
same "the guest of the server from the image finds the marker" "$(marker_of "$FIVE")" on-a-volume
OTHER=$(root_of attached-five)
expect "the server from the image is deleted" os server delete --wait attached-five
os volume show "$OTHER" >/dev/null 2>&1 && os volume delete "$OTHER"
act_on() { # uuid, microversion, body
  curl -fsS -m 20 -o "$WORK/acted" -H "X-Auth-Token: $(os token issue -f value -c id)" -H "OpenStack-API-Version: compute $2" \
    -H 'Content-Type: application/json' -d "$3" "$URL/compute/v2.1/servers/$1/action"
}
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --property hw_rescue_device=disk \
  --property hw_rescue_bus=virtio attached-rescue >"$WORK/rescue-image" 2>&1 || bad "a rescue image is uploaded"
RESCUE=$(get image attached-rescue id)
expect "a rescue of the third server is requested" act_on "$THREE" 2.87 "{\"rescue\": {\"rescue_image_ref\": \"$RESCUE\"}}"
within 90 "the third server is in rescue" is attached-three RESCUE
same "the first disk of the rescued guest is still the server's volume" "$(marker_of "$THREE")" on-a-volume
same "the rescued guest has two disks" "$(inside "$THREE" 'ls /sys/block | grep ^vd | tr "\n" " "')" "vda vdb "
expect "an unrescue of the third server is requested" os server unrescue attached-three
within 90 "the third server is ACTIVE" is attached-three ACTIVE
same "the volume has the marker after the unrescue" "$(marker_of "$THREE")" on-a-volume
expect "a rebuild of the third server is requested" act_on "$THREE" 2.93 "{\"rebuild\": {\"imageRef\": \"$IMAGE\"}}"
within 120 "the third server is ACTIVE again" is attached-three ACTIVE
unlike "the rebuilt volume does not have the marker" "$(marker_of "$THREE")" on-a-volume
same "the root volume is the same as before, and in use" "$(root_of attached-three) $(get volume "$ROOT" status)" "$ROOT in-use"
expect "the third server is shelved" os server shelve attached-three
within 60 "the third server is offloaded at once" is attached-three SHELVED_OFFLOADED
same "the root volume stays reserved for the shelved server" "$(get volume "$ROOT" status)" reserved
expect "an unshelve of the third server is requested" os server unshelve attached-three
within 120 "the unshelved server is ACTIVE" is attached-three ACTIVE
expect "the unshelved guest boots from the volume" inside "$THREE" true
for snapshot in $(os volume snapshot list -f value -c ID); do os volume snapshot delete "$snapshot"; done
within 60 "the snapshots are deleted" eval '[ -z "$(os volume snapshot list -f value -c ID)" ]'
os image delete attached-image attached-rescue
expect "the third server is deleted" os server delete --wait attached-three
within 60 "the root volume outlives its server" volume_is "$ROOT" available
on_volume attached-four "uuid=$ROOT,source_type=volume,delete_on_termination=true"; FOUR=$ID
expect "another server boots from that volume" inside "$FOUR" true
expect "that server is deleted" os server delete --wait attached-four
within 60 "the volume is deleted with that server" no_volume "$ROOT"

expect "the first server is deleted" os server delete --wait attached-one
expect "the data volume is deleted" os volume delete attached-data
within 60 "the data volume does not exist any more" no_volume attached-data
same "nothing of the servers is left on the host" "$(leftovers "$ONE")$(leftovers "$THREE")$(leftovers "$FOUR")" ""
verdict
