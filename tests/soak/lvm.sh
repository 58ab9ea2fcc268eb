#!/bin/bash
# A guest's disks are logical volumes of a real LVM: the two hosts of device-host.sh have kernels of their own, so each has
# its device mapper and the volume group `chronova-disks`. The guest is built, migrates live, and its server is resized
# back and forth, rescued, imaged, and deleted; LVM's own programs on the hosts say which volumes there are. Deleted
# volumes are overwritten with zeros. Then the same disks are sparse volumes.
set -uo pipefail
. "$(dirname "$0")/../testbed/devices.sh"
GROUP=chronova-disks
HOUSE_CONF=$(printf '%s\n' '[libvirt]' 'live_migration_scheme = ssh' 'live_migration_inbound_addr = %s-moves' 'images_type = lvm' \
  "images_volume_group = $GROUP")
devices_open lvm dl 10.94 2
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public "$NAME" >"$WORK/image" 2>&1 || bad "the image is uploaded" "$(cat "$WORK/image")"
asked() { os "$@" >"$WORK/did" 2>&1; }
expect "a flavor is made" asked flavor create --vcpus 1 --ram 160 --disk 1 --swap 16 "$NAME"
expect "a larger flavor is made" asked flavor create --vcpus 1 --ram 160 --disk 2 --swap 16 "$NAME-large"
ONE=$NAME-one
# The logical volumes of a server on a host, as LVM lists them: the suffix and the bytes of each.
volumes() { shell "$1" "lvs --noheadings -o lv_name,lv_size --units b --nosuffix $GROUP" | awk -v id="$2" 'index($1, id) == 1 {sub(id, "", $1); print $1, $2}' | sort | paste -sd ' '; } # host, uuid
mapped() { shell "$1" "dmsetup ls" | grep -c "$(sed 's/-/--/g' <<<"$2")"; } # host, uuid

os server create --flavor "$NAME" --image "$NAME" --nic none --config-drive True --user-data "$(counting)" --host d1 --os-compute-api-version 2.74 "$ONE" >"$WORK/made" 2>&1 \
  || bad "a server is requested" "$(cat "$WORK/made")"
ID=$(get server "$ONE" id); SERVERS+=("$ID")
within 300 "the server is ACTIVE" is_at "$ONE" d1
ready "$ONE" "the guest is booted from a logical volume"
same "LVM has its disks" "$(volumes d1 "$ID")" "_disk 1073741824 _disk.swap 16777216"
same "the device mapper has both" "$(mapped d1 "$ID")" 2
like "QEMU uses the logical volume" "$(on d1 dumpxml "$ID" | tr -d '\n')" "<source dev='/dev/$GROUP/${ID}_disk'"
expect "the guest writes a word on its disk" mark_at d1 "$ID" first
within 60 "the guest counts" ticks_on "$ONE" 2
expect "a live migration is requested" asked server migrate --live-migration --host d2 "$ONE" --os-compute-api-version 2.79
within 600 "the server is ACTIVE on the other host" is_at "$ONE" d2
same "the guest runs on the other host only" "$(runs "$ID")" 1
same "LVM of the first host has no disk of it any more" "$(volumes d1 "$ID")" ""
same "LVM of the other host has its disks" "$(volumes d2 "$ID")" "_disk 1073741824 _disk.swap 16777216"
counts_on "$ONE"
same "the disk has its word on the other host" "$(marker_at d2 "$ID")" first
expect "an image is made of the running guest" asked server image create --wait --name "$NAME-image" "$ONE"
same "the image is a qcow2 file" "$(get image "$NAME-image" disk_format) $(get image "$NAME-image" status)" "qcow2 active"

expect "a resize is requested" asked server resize --flavor "$NAME-large" "$ONE"
within 600 "the server is in VERIFY_RESIZE" at_rest "$ONE" VERIFY_RESIZE
same "the resized disk is larger" "$(volumes d1 "$ID")" "_disk 2147483648 _disk.swap 16777216"
expect "the resize is reverted" asked server resize revert "$ONE"
within 300 "the server is ACTIVE after the revert" is_at "$ONE" d2
same "LVM has no disk of the abandoned destination" "$(volumes d1 "$ID")" ""
same "the old disk is back" "$(marker_at d2 "$ID")" first
expect "a resize is requested again" asked server resize --flavor "$NAME-large" "$ONE"
within 600 "the server is in VERIFY_RESIZE again" at_rest "$ONE" VERIFY_RESIZE
expect "the resize is confirmed" asked server resize confirm "$ONE"
within 120 "the server is ACTIVE after the resize" is_at "$ONE" d1
same "LVM of the source has no disk of it" "$(volumes d2 "$ID")" ""
same "the guest has its word on the larger disk" "$(marker_at d1 "$ID") $(at d1 "$ID" 'cat /sys/block/vda/size' | tail -n 1)" "first 4194304"

expect "the server is rescued" asked server rescue "$ONE"
within 300 "the server is in rescue" at_rest "$ONE" RESCUE
like "the rescue disk is a logical volume" "$(volumes d1 "$ID")" '_disk\.rescue '
expect "the server is unrescued" asked server unrescue "$ONE"
within 300 "the server is ACTIVE after the rescue" at_rest "$ONE" ACTIVE
unlike "the rescue disk is gone" "$(volumes d1 "$ID")" rescue
expect "the server is deleted" asked server delete --wait "$ONE"
for host in d1 d2; do same "nothing of the server is left on $host" "$(volumes $host "$ID")$(mapped $host "$ID")$(files_on $host "$ID")" 0; done

# The blocks of the deleted volume are free now. A new volume gets these blocks, and they contain only zeros.
shell d1 "lvcreate -q -y -Wn -Zn -L 1G -n probe $GROUP >/dev/null"
same "the word is not on the disk any more" "$(shell d1 "dd if=/dev/$GROUP/probe bs=1M iflag=direct 2>/dev/null | tr -d '\\0' | head -c 100 | wc -c")" 0
shell d1 "lvremove -q -f $GROUP/probe >/dev/null"

# ------------------------------------------------------------------------------------------------------- sparse volumes

house_stop
sed -i "s/^images_type = lvm$/images_type = lvm\nsparse_logical_volumes = true/" "$CONF"
house_start || bad "the control plane starts with sparse volumes" "$(tail -n 20 "$WORK/chronova.log")"
within 120 "the hosts are up with sparse volumes" host_is up
expect "a server is built" asked server create --wait --flavor "$NAME" --image "$NAME" --nic none --config-drive True --host d1 --os-compute-api-version 2.74 "$NAME-two"
TWO=$(get server "$NAME-two" id); SERVERS+=("$TWO")
ready "$NAME-two" "its guest is booted from a sparse volume"
echo "the volumes: $(shell d1 "lvs -a $GROUP")"
expect "the guest writes on the sparse volume" mark_at d1 "$TWO" sparse
same "the guest reads it again" "$(marker_at d1 "$TWO")" sparse
expect "the server with sparse volumes is deleted" asked server delete --wait "$NAME-two"
same "nothing of it is left on the host" "$(volumes d1 "$TWO")" ""
verdict
