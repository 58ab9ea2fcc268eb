#!/bin/bash
# Guests' disks on real LVM: one host with a volume group on a loop device. The script checks the disks from inside the
# guests. Needs a kernel with device mapper. On another kernel, the script runs `storage.sh lvm` instead: two hosts with
# a replacement for LVM's programs, under the real libvirt and QEMU.
set -uo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root, for a volume group"; exit 77; }
losetup -f >/dev/null 2>&1 || { echo "this machine has no loop devices"; exit 77; }
grep -q device-mapper /proc/misc || modprobe dm-mod 2>/dev/null
grep -q device-mapper /proc/misc || {
  # A long run of storage.sh also runs `storage.sh lvm`.
  [ -z "${CHRONOVA_SOAK:-}" ] || { echo "this machine's kernel has no device mapper"; exit 77; }
  echo "this machine's kernel has no device mapper: the replacement for LVM's programs"
  exec bash "$(dirname "$0")/storage.sh" lvm
}
command -v vgcreate >/dev/null || { echo "LVM's programs are not installed (package lvm2)"; exit 77; }
GROUP=chronova-test-$$
HOUSE_CONF=$(printf '%s\n' '[libvirt]' 'images_type = lvm' "images_volume_group = $GROUP" '[DEFAULT]' 'allow_resize_to_same_host = true')
. "$(dirname "$0")/../testbed/house.sh"
FILE=$(mktemp /var/tmp/chronova-lvm.XXXXXX)
truncate -s 8G "$FILE"
DEVICE=$(losetup -f --show "$FILE") || cannot "no loop device can be made"
house_last() {
  v pool-destroy "chronova-lvm-$GROUP"; v pool-undefine "chronova-lvm-$GROUP"
  vgremove -qff "$GROUP"; pvremove -qff "$DEVICE"; losetup -d "$DEVICE"; rm -f "$FILE"
} >/dev/null 2>&1
trap house_last EXIT
vgcreate -q "$GROUP" "$DEVICE" >/dev/null 2>&1 || cannot "no volume group can be made here"
house_open lvm 10.75
house_furnish
INSIDE_SECONDS=120
LARGE=$NAME-large
os flavor create --vcpus 1 --ram 160 --disk 2 --swap 16 "$LARGE" >"$WORK/large" 2>&1 || bad "the larger flavor is made" "$(cat "$WORK/large")"
ONE=$NAME-one
volumes() { lvs --noheadings -o lv_name,lv_size --units b --nosuffix "$GROUP" 2>/dev/null | awk -v id="$1" 'index($1, id) == 1 {sub(id, "", $1); print $1, $2}' | sort | tr '\n' ' '; } # uuid
on_disk() { inside "$1" "mkdir -p /m && mount -t vfat /dev/vda1 /m && $2; umount /m; sync" 2>/dev/null | tail -n 1; } # uuid, command
at_rest() { is "$1" "$2" && [ "$(get server "$1" OS-EXT-STS:task_state)" = None ]; } # server, status

like "the host shows the capacity of the volume group" "$(os hypervisor list --long -f value 2>&1; os hypervisor show "$(hostname)" -f value -c local_gb 2>&1)" '\b7\b'
boot "$ONE" --config-drive True
ready "$ONE" "the guest is booted from a logical volume"
same "the guest's disk is a logical volume of the flavor's size" "$(volumes "$ID")" "_disk 1073741824 "
on_disk "$ID" 'echo first >/m/marker' >/dev/null
expect "an image is made of the running guest" os server image create --wait --name "$NAME-image" "$ONE"
expect "the server is rescued" os server rescue "$ONE"
within 120 "the server is in rescue" at_rest "$ONE" RESCUE
like "the rescue disk is a logical volume" "$(volumes "$ID")" '_disk\.rescue '
expect "the server is unrescued" os server unrescue "$ONE"
within 120 "the server is ACTIVE after the rescue" at_rest "$ONE" ACTIVE
expect "the server is resized" os server resize --flavor "$LARGE" "$ONE"
within 300 "the server is in VERIFY_RESIZE" at_rest "$ONE" VERIFY_RESIZE
like "the disk is larger, and the old disk is kept" "$(volumes "$ID")" '^_disk 2147483648 _disk.swap 16777216 _kept_disk 1073741824 $'
same "the disk has its marker" "$(on_disk "$ID" 'cat /m/marker')" first
expect "the resize is reverted" os server resize revert "$ONE"
within 120 "the server is ACTIVE after the revert" at_rest "$ONE" ACTIVE
same "the old disk is back" "$(on_disk "$ID" 'cat /m/marker')" first
like "the disk has its old size" "$(volumes "$ID")" '^_disk 1073741824 '
expect "the server is deleted" os server delete --wait "$ONE"
same "nothing of the server is left on the host" "$(volumes "$ID")$(leftovers "$ID")" ""
verdict
