#!/bin/bash
# Operations on a real guest's disk: an image of the disk while the guest runs, and a rescue of a server whose disk was
# enlarged. CHRONOVA_SOAK=1 adds an image while the guest is off, backups, a rescue, a rebuild, a shelving and an
# unshelving. The script checks their effects from inside the guest, over its serial console.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open images 10.71
printf 'shelved_offload_time = -1\n' >"$WORK/more" # a shelved server stays on its host until it is offloaded
sed -i "/^\[DEFAULT\]/r $WORK/more" "$CONF"
house_stop; house_start || bad "the control plane starts again"
within 60 "the compute host is up again" host_is up
house_furnish

# The guest runs from memory, and mounts its root disk only to write or read the marker. So the marker comes from the
# disk.
mount_boot='mkdir -p /m; mount -t vfat $(for d in /dev/vd?1; do echo $d; done | sed -n "${N:-1}p") /m'
mark() { inside "$1" "N=1; $mount_boot && echo $2 >/m/marker && sync && umount /m && sync" >/dev/null; } # uuid, word
marker() { inside "$1" "N=${2:-1}; $mount_boot && cat /m/marker; umount /m" 2>/dev/null | tail -n 1; } # uuid, which disk

boot images-one --config-drive True
ONE=$ID
ready images-one "the guest is booted"
expect "the guest writes a marker on its disk" mark "$ONE" first
same "the guest reads the marker back" "$(marker "$ONE")" first
v pool-refresh chronova >/dev/null
DISK=$(v vol-dumpxml "${ONE}_disk" chronova)
size() { sed -n "s/.*<$1 unit='bytes'>\([0-9]*\)<.*/\1/p" <<<"$DISK"; } # allocation or capacity
like "by default the disk is a qcow2 file over the image" "$(tr -d '\n' <<<"$DISK")" "<format type='qcow2'/>.*<backingStore>.*<path>[^<]*/base-"
same "the disk has the flavor's size" "$(size capacity)" 1073741824
expect "the host gives the disk only what the guest wrote: $(size allocation) bytes" [ "$(size allocation)" -lt 100000000 ]

# ------------------------------------------------------------------------------------------ an image of a running guest

expect "an image of the running guest is requested" os server image create --wait --name images-live images-one
same "the image is active" "$(get image images-live status)" active
same "the server is still ACTIVE" "$(status_of images-one)" ACTIVE
same "no copy of the disk is left on the host" "$(v vol-list chronova | grep -c "${ONE}_copy")" 0
os image save --file "$WORK/live.qcow2" images-live
INFO=$(qemu-img info "$WORK/live.qcow2" 2>&1)
like "the image is a qcow2 file" "$INFO" 'file format: qcow2'
unlike "the image has no backing file" "$INFO" 'backing file'
expect "qemu-img finds no damage in the image" qemu-img check -q "$WORK/live.qcow2"
like "the image's properties name the server" "$(get image images-live properties)" "instance_uuid.*$ONE"
expect "the guest writes another marker" mark "$ONE" second

IMAGE_OF_HOUSE=$(get image "$NAME" id)
os flavor create --vcpus 1 --ram 160 --disk 1 --ephemeral 1 images-more >"$WORK/more" 2>&1 || bad "a flavor with an ephemeral disk is made" "$(cat "$WORK/more")"
os server create --wait --flavor images-more --image images-live --network "$NAME" --config-drive True images-two >"$WORK/two" 2>&1 \
  || bad "a server is made from the image" "$(tail -n 20 "$WORK/two")"
TWO=$(get server images-two id); SERVERS+=("$TWO")
within 180 "the second guest is booted" said images-two 'GUEST-READY hostname=images-two.* boots=2 '
same "the second guest has the marker from the time of the image" "$(marker "$TWO")" first
same "the first guest has the later marker" "$(marker "$ONE")" second

# An image of a server has its root disk, and not its ephemeral disk.
expect "the second guest writes a marker of its own" mark "$TWO" third-word
expect "the second guest writes a word on its ephemeral disk" inside "$TWO" 'echo kept-beside | dd of=/dev/vdb bs=512 seek=200 conv=fsync 2>/dev/null'
expect "an image of the server with an ephemeral disk is made" os server image create --wait --name images-root images-two
os image save --file "$WORK/root.qcow2" images-root
qemu-img convert -f qcow2 -O raw "$WORK/root.qcow2" "$WORK/root.raw"
same "the image has the size of the root disk alone" "$(stat -c %s "$WORK/root.raw")" 1073741824
expect "the image has the marker of the root disk" grep -qzaF third-word "$WORK/root.raw"
expect "the image does not have the word of the ephemeral disk" eval '! grep -qzaF kept-beside "$WORK/root.raw"'
rm -f "$WORK/root.raw" "$WORK/root.qcow2"

# The disks of the second server are enlarged, as an operator can do, so that they are larger than its flavor says. A
# rescue keeps the disks and their data.
expect "the second guest is stopped" os server stop images-two
within 60 "the second server is SHUTOFF" is images-two SHUTOFF
for disk in disk disk.eph0; do
  expect "the volume $disk of the second server is enlarged on the host" qemu-img resize -q "$(v vol-path --pool chronova "${TWO}_$disk")" +64M
done
expect "a rescue of the second server is requested" os server rescue images-two
within 90 "the second server is in rescue" is images-two RESCUE
like "the host has a rescue disk of the second server" "$(v pool-refresh chronova >/dev/null; v vol-list chronova)" "${TWO}_disk.rescue"
expect "an unrescue of the second server is requested" os server unrescue images-two
within 90 "the second server is ACTIVE" is images-two ACTIVE
within 180 "the second guest booted from its enlarged disk" said images-two 'GUEST-READY hostname=images-two.* boots=3 '
same "the enlarged disk has its marker" "$(marker "$TWO")" third-word
same "the enlarged ephemeral disk has its word" "$(inside "$TWO" 'dd if=/dev/vdb bs=512 skip=200 count=1 2>/dev/null | head -n 1')" kept-beside

long_run || {
  expect "both servers are deleted" os server delete --wait images-one images-two
  same "nothing of both servers is left on the host" "$(leftovers "$ONE")$(leftovers "$TWO")" ""
  verdict
}

# -------------------------------------------------------------------------------------- an image of a guest that is off

expect "the second guest is stopped again" os server stop images-two
within 60 "the second server is SHUTOFF again" is images-two SHUTOFF
expect "an image of the second server is requested" os server image create --wait --name images-off images-two
os image save --file "$WORK/off.qcow2" images-off
INFO=$(qemu-img info "$WORK/off.qcow2" 2>&1)
like "the image of the stopped guest is a qcow2 file" "$INFO" 'file format: qcow2'
unlike "the image of the stopped guest has no backing file" "$INFO" 'backing file'
expect "the second server is deleted" os server delete --wait images-two
same "nothing of the second server is left on the host" "$(leftovers "$TWO")" ""

# ------------------------------------------------------------------------------------------ a guest that writes nothing

truncate -s 1M "$WORK/blank.raw"
expect "an empty image is uploaded" os image create --disk-format raw --container-format bare --file "$WORK/blank.raw" images-blank
expect "a server is made from the empty image" os server create --wait --flavor "$NAME" --image images-blank --network "$NAME" images-silent
SILENT=$(get server images-silent id); SERVERS+=("$SILENT")
same "a guest that writes nothing has an empty log" "$(os console log show images-silent 2>&1)" ""
expect "that server is deleted" os server delete --wait images-silent

# -------------------------------------------------------------------------------------------------------------- backups

for n in 1 2 3; do os server backup create --wait --name "images-backup-$n" --type daily --rotate 2 images-one >/dev/null 2>&1; done
BACKUPS=$(os image list -f value -c Name | grep '^images-backup-' | sort | tr '\n' ' ')
same "the newest two of three backups are kept" "$BACKUPS" "images-backup-2 images-backup-3 "

# --------------------------------------------------------------------------------------------------------------- rescue

expect "a rescue is requested" os server rescue images-one
within 90 "the server is in rescue" is images-one RESCUE
within 180 "the guest booted from the rescue disk" said images-one 'GUEST-READY .* boots=1 '
DISKS=$(inside "$ONE" 'ls /sys/block | grep ^vd | tr "\n" " "')
same "the rescued guest has two disks" "$DISKS" "vda vdb "
same "the second disk is the server's own, with its marker" "$(inside "$ONE" 'mkdir -p /r; mount -t vfat /dev/vdb1 /r && cat /r/marker' | tail -n 1)" second
expect "the guest changes the marker on its own disk" inside "$ONE" 'echo repaired >/r/marker; sync; umount /r; sync'
expect "an unrescue is requested" os server unrescue images-one
within 90 "the server is ACTIVE" is images-one ACTIVE
within 180 "the guest booted from its own disk" eval '[ "$(count_said images-one GUEST-READY)" -ge 3 ]'
same "the server's own disk has the changed marker" "$(marker "$ONE")" repaired
same "the rescue disk is deleted" "$(v pool-refresh chronova >/dev/null; v vol-list chronova | grep -c "${ONE}_disk.rescue")" 0

# A rescue with stable devices: the rescue disk is the last disk and the first boot device.
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --property hw_rescue_device=disk \
  --property hw_rescue_bus=virtio images-rescue >"$WORK/rescue-image" 2>&1 || bad "a rescue image is uploaded"
expect "a rescue with stable devices is requested" os server rescue --image images-rescue images-one
within 90 "the server is in rescue again" is images-one RESCUE
within 180 "the guest booted from the added disk" eval '[ "$(count_said images-one GUEST-READY)" -ge 4 ]'
same "the first disk is still the server's own" "$(inside "$ONE" 'mkdir -p /r; mount -t vfat /dev/vda1 /r && cat /r/marker; umount /r' | tail -n 1)" repaired
expect "another unrescue is requested" os server unrescue images-one
within 90 "the server is ACTIVE again" is images-one ACTIVE
within 180 "the guest booted from its own disk again" eval '[ "$(count_said images-one GUEST-READY)" -ge 5 ]'

# ----------------------------------------------------------------------------------------- shelve, offload and unshelve

expect "a shelving is requested" os server shelve images-one
within 120 "the server is SHELVED" is images-one SHELVED
same "the domain of the shelved server is shut off" "$(v domstate "$ONE")" "shut off"
like "the image of the shelved disk is active" "$(os image list -f value -c Name -c Status)" 'images-one-shelved active'
# The client can offload only in the same command as the shelving, so the script calls the API directly.
expect "an offload is requested" curl -fsS -m 20 -o /dev/null -H "X-Auth-Token: $(os token issue -f value -c id)" \
  -H 'Content-Type: application/json' -d '{"shelveOffload": null}' "$URL/compute/v2.1/servers/$ONE/action"
within 60 "the server is SHELVED_OFFLOADED" is images-one SHELVED_OFFLOADED
same "nothing of the offloaded server is on the host" "$(leftovers "$ONE")" ""
expect "an unshelve is requested" os server unshelve images-one
within 180 "the server is ACTIVE once more" is images-one ACTIVE
within 180 "the guest of the unshelved server is booted" said images-one 'GUEST-READY'
same "the unshelved guest has its marker" "$(marker "$ONE")" repaired
unlike "the image of the shelved disk is deleted" "$(os image list -f value -c Name)" 'images-one-shelved'
expect "the unshelved server is rebooted hard" os server reboot --hard --wait images-one
within 180 "the guest is booted again" eval '[ "$(count_said images-one GUEST-READY)" -ge 2 ]'
same "the guest has its marker after the hard reboot" "$(marker "$ONE")" repaired

# -------------------------------------------------------------------------------------------------------------- rebuild

MAC=$(v domiflist "$ONE" | awk '/chronova/ {print $5; exit}')
expect "a rebuild is requested" os server rebuild --wait --image "$IMAGE_OF_HOUSE" images-one
within 180 "the guest is booted from a new disk" said images-one 'GUEST-READY .* boots=1 '
like "the rebuilt guest has no marker" "$(marker "$ONE")" 'No such file'
same "the guest has the same interface as before" "$(v domiflist "$ONE" | awk '/chronova/ {print $5; exit}')" "$MAC"
same "a password is refused without an agent" "$(os server set --password x images-one 2>&1 | grep -c 'QEMU guest agent is not enabled')" 1

EVENTS=$(os server event list images-one -f value -c Action)
for action in createImage createBackup rescue unrescue shelve shelveOffload unshelve rebuild; do
  like "the server's events have $action" "$EVENTS" "^$action\$"
done
expect "the server is deleted" os server delete --wait images-one
same "nothing of the server is left on the host" "$(leftovers "$ONE")" ""
verdict
