#!/bin/bash
# Common operations on two real guests, with as few boots as possible. The script makes a snapshot and a server from it,
# moves a volume from one guest to the other, and attaches an interface. It also tests rescue, pause, suspend, rebuild,
# shelve and unshelve. It checks the effects from inside the guests, over their serial consoles. The scripts images.sh,
# attached.sh, interfaces.sh and actions.sh test each operation in more detail.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open lifecycle 10.86
house_furnish
# A booting guest answers once its shell runs.
INSIDE_SECONDS=150

# The client's output is shown only on a failure.
did() { os "$@" >"$WORK/did" 2>&1 || { tail -n 5 "$WORK/did"; false; }; }
# The guest runs from memory, and mounts its root disk only to write or read the marker. So the marker comes from the
# disk.
mark() { inside "$1" "mkdir -p /m && mount -t vfat /dev/${3:-vda}1 /m && echo $2 >/m/marker && sync && umount /m && sync"; } # uuid, word
marker() { inside "$1" "mkdir -p /m && mount -t vfat /dev/${2:-vda}1 /m && cat /m/marker; umount /m" 2>/dev/null | tail -n 1; } # uuid, disk
volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
write_to() { inside "$1" "echo $3 | dd of=/dev/$2 bs=512 seek=200 conv=fsync 2>/dev/null"; } # uuid, disk, word
read_from() { inside "$1" "dd if=/dev/$2 bs=512 skip=200 count=1 2>/dev/null | head -n 1"; }

# ---------------------------------------------------------------- a boot, an image of the server, a boot from the image

# The guest counts seconds in its memory, and its config drive has its administrator's password.
printf '#!/bin/sh\ntouch /run/tick\n' >"$WORK/user-data"
os volume create --size 1 life-data >"$WORK/volume" 2>&1 || bad "a volume is requested" "$(tail -n 5 "$WORK/volume")"
boot life-one --config-drive True --user-data "$WORK/user-data" --password pa55word-of-one
ONE=$ID
expect "the guest is booted and writes a marker on its disk" mark "$ONE" first
like "the config drive has the server's password" \
  "$(inside "$ONE" 'mkdir -p /c; mount -t iso9660 -o ro /dev/sr0 /c && cat /c/openstack/latest/meta_data.json; umount /c')" pa55word-of-one
expect "an image of the running guest is made" did server image create --wait --name life-image life-one
os server create --wait --flavor "$NAME" --image life-image --network "$NAME" --config-drive True life-two >"$WORK/two" 2>&1 \
  || bad "a server is made from the image" "$(tail -n 20 "$WORK/two")"
TWO=$(get server life-two id); SERVERS+=("$TWO")

# ------------------------------------------------------------------- a volume moves to the other guest, while both boot

within 60 "the volume is available" volume_is life-data available
DATA=$(get volume life-data id)
expect "the volume is attached to the first guest" did server add volume life-one life-data
within 30 "the running guest sees the volume" sees_disk "$ONE" vdb
same "the disk's serial number is the volume's id" "$(inside "$ONE" cat /sys/block/vdb/serial)" "${DATA:0:20}"
expect "the first guest writes a word on the volume" write_to "$ONE" vdb carried-over
expect "the volume is detached from the first guest" did server remove volume life-one life-data
within 120 "the volume is available after the detachment" volume_is life-data available
within 30 "the first guest does not see the volume any more" sees_no_disk "$ONE" vdb
same "the second guest is booted from the image" "$(marker "$TWO")" first
expect "the volume is attached to the second guest" did server add volume life-two life-data
within 30 "the second guest sees the volume" sees_disk "$TWO" vdb
same "the second guest reads the word of the first one" "$(read_from "$TWO" vdb)" carried-over
like "a password for a guest without an agent is refused" "$(os server set --password x life-two 2>&1)" 'QEMU guest agent is not enabled'

# --------------------------------------------------------------------------------------------------------- an interface

cards() { inside "$TWO" 'cat /sys/class/net/*/address'; }
os port create --network "$NAME" life-port >"$WORK/port" 2>&1 || bad "a port is made" "$(cat "$WORK/port")"
PORT=$(get port life-port id) MAC=$(get port life-port mac_address)
expect "an interface is added to the second server" did server add port life-two "$PORT"
within 30 "the second guest sees the network card" eval 'cards | grep -qi "$MAC"'
expect "the interface is removed" did server remove port life-two "$PORT"
within 60 "the second guest does not see the network card any more" eval '! cards | grep -qi "$MAC"'

# ------------------------------------------------------------------------------------------------------------- a rescue

expect "the first guest writes a word that the image does not have" mark "$ONE" own
expect "a rescue of the first server from the image is requested" did server rescue --image life-image life-one
within 90 "the first server is in rescue" is life-one RESCUE
like "the first guest was asked to shut down before its rescue" "$(console life-one)" 'GUEST-(POWERBUTTON|SHUTDOWN)'
# While the first guest boots, the second one is paused and suspended.
tick() { console life-two | grep -aoE '^GUEST-TICK [0-9]+' | tail -n 1 | cut -d' ' -f2; }
beyond() { local now; now=$(tick); [ "${now:-0}" -gt "$1" ]; } # number
inside "$TWO" 'touch /run/tick' >/dev/null
within 30 "the second guest counts" beyond 0
expect "the second server is paused" did server pause life-two
within 30 "the second server is PAUSED" is life-two PAUSED
COUNT=$(tick); sleep 2
same "the paused guest does not count" "$(tick)" "$COUNT"
os server unpause life-two
within 30 "the guest continues to count after the pause" beyond "$COUNT"
expect "the second server is suspended" did server suspend life-two
within 60 "the second server is SUSPENDED" is life-two SUSPENDED
same "the memory of the suspended guest is on the host's disk" "$(v dominfo "$TWO" | sed -n 's/^Managed save: *//p')" yes
COUNT=$(tick)
os server resume life-two
within 60 "the guest continues to count after the suspension" beyond "$COUNT"
same "the second guest was booted once" "$(count_said life-two GUEST-READY)" 1
same "the second guest still has the volume" "$(read_from "$TWO" vdb)" carried-over

same "the rescued guest runs from a disk of the image" "$(marker "$ONE")" first
same "the rescued guest has its own disk as the second, with the marker" "$(marker "$ONE" vdb)" own
like "the rescued guest has its config drive" \
  "$(inside "$ONE" 'mkdir -p /c; mount -t iso9660 -o ro /dev/sr0 /c && cat /c/openstack/latest/meta_data.json; umount /c')" "$ONE"
expect "the rescued guest writes another marker on its own disk" mark "$ONE" repaired vdb
expect "an unrescue of the first server is requested" did server unrescue life-one
within 90 "the first server is ACTIVE" is life-one ACTIVE

# --------------------------------------------------------------------------- rebuild; shelve and unshelve with a volume

# The client cannot send a file with a rebuild, so the script calls the API directly.
expect "a rebuild of the second server with metadata and a file is requested" curl -fsS -m 20 -o /dev/null \
  -H "X-Auth-Token: $(os token issue -f value -c id)" -H 'Content-Type: application/json' -H 'OpenStack-API-Version: compute 2.56' \
  -d "{\"rebuild\": {\"imageRef\": \"$(get image "$NAME" id)\", \"metadata\": {\"role\": \"rebuilt\"},
    \"personality\": [{\"path\": \"/etc/motd\", \"contents\": \"$(printf new-file | base64)\"}]}}" "$URL/compute/v2.1/servers/$TWO/action"
within 120 "the rebuilt server is ACTIVE" is life-two ACTIVE
same "the first guest runs from its own disk again, with the other marker" "$(marker "$ONE")" repaired
like "the rebuilt guest has a new disk" "$(marker "$TWO")" 'No such file'
DRIVE=$(inside "$TWO" 'mkdir -p /c; mount -t iso9660 -o ro /dev/sr0 /c && cat /c/openstack/latest/meta_data.json /c/openstack/content/0000; echo; umount /c')
like "the rebuilt guest's config drive has the new metadata" "$DRIVE" '"role": ?"rebuilt"'
like "the rebuilt guest's config drive has the new file" "$DRIVE" 'new-file'
same "the rebuilt guest reads the same word from the volume" "$(read_from "$TWO" vdb)" carried-over
os server remove volume life-two life-data
within 120 "the volume is available before it moves back" volume_is life-data available
expect "the volume is attached to the first server again" did server add volume life-one life-data
within 60 "the volume is in use" volume_is life-data in-use
expect "the first server is shelved" did server shelve life-one
within 120 "the first server is offloaded from its host" is life-one SHELVED_OFFLOADED
same "nothing of the offloaded server is left on the host" "$(leftovers "$ONE")" ""
same "the volume stays reserved for the offloaded server" "$(get volume life-data status)" reserved
expect "an unshelve of the first server is requested" did server unshelve life-one
within 180 "the unshelved server is ACTIVE" is life-one ACTIVE
same "the disk of the unshelved guest has its marker" "$(marker "$ONE")" repaired
same "the unshelved guest reads the word from its volume" "$(read_from "$ONE" vdb)" carried-over
same "the volume is in use after the unshelve" "$(get volume life-data status)" in-use

expect "both servers are deleted" did server delete --wait life-one life-two
same "nothing of both servers is left on the host" "$(leftovers "$ONE" "$PORT")$(leftovers "$TWO")" ""
same "the image outlives the server of which it was made" "$(get image life-image status)" active
within 30 "the volume is available in the end" volume_is life-data available
os volume delete life-data; os port delete "$PORT"; os image delete life-image
within 30 "the volume is deleted" no_volume life-data
verdict
