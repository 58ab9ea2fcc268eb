#!/bin/bash
# Real guests with other image backends than copy-on-write files: raw files, then (`storage.sh lvm`) logical volumes.
# The script builds, migrates live and deletes guests on two hosts; with CHRONOVA_SOAK=1 also rescue, image, resize,
# rebuild and shelve, checked from inside the guests and in the hosts' pools. testbed/lvm.sh replaces LVM's own
# programs, because both hosts share one kernel; tests/real/lvm.sh runs the real programs.
set -uo pipefail
FORM=${1:-raw}
. "$(dirname "$0")/../testbed/fleet.sh"
GROUP=testbed-vg-$$
case $FORM in
  raw) HOUSE_CONF=$(printf '[libvirt]\nimages_type = raw') ;;
  lvm)
    losetup -f >/dev/null 2>&1 || cannot "this machine has no loop devices"
    export TESTBED_LVM="$GROUP 8192"
    # Overwriting whole volumes with zeros takes half a minute per GiB on a loop device.
    HOUSE_CONF=$(printf '[libvirt]\nimages_type = lvm\nimages_volume_group = %s\nvolume_clear_size = 64' "$GROUP") ;;
esac
fleet_open "storage-$FORM" "s${FORM:0:1}" 10.74 2
fleet_last() { hosts down >/dev/null 2>&1; rmdir "/dev/$GROUP" 2>/dev/null; }
trap 'house_close; fleet_last' EXIT
house_furnish
INSIDE_SECONDS=120
LARGE=$NAME-large
asked() { os "$@" >"$WORK/did" 2>&1; }
SMALL=$NAME-small
expect "a flavor with more disks is made" asked flavor create --vcpus 1 --ram 160 --disk 1 --ephemeral 1 --swap 16 "$SMALL"
expect "a larger flavor is created" asked flavor create --vcpus 1 --ram 160 --disk 2 --ephemeral 2 --swap 16 "$LARGE"
ONE=$NAME-one

# The storage pool of the disks, the suffix of their volumes, and libvirt's description of a volume.
POOL=chronova; SUFFIX=.raw
[ "$FORM" = raw ] || { POOL=chronova-lvm-$GROUP; SUFFIX=; }
volume() { on "$1" pool-refresh "$POOL" >/dev/null; on "$1" vol-dumpxml "$2$SUFFIX" "$POOL"; } # host, disk
bytes() { volume "$1" "$2" | sed -n "s/.*<capacity unit='bytes'>\(.*\)<.*/\1/p"; } # host, disk
disks_on() { # host, uuid
  on "$1" pool-refresh "$POOL" >/dev/null
  on "$1" vol-list "$POOL" | awk '{print $1}' | grep -E "^$2_(kept_)?disk(\.raw|\.eph0.*|\.swap.*|\.rescue.*)?$" | sed "s/^$2//" | sort | tr '\n' ' '
}
everything_on() { # host, uuid
  left_on "$1" "$2"
  [ "$FORM" = raw ] || { on "$1" pool-refresh "$POOL" >/dev/null; on "$1" vol-list "$POOL" | awk '{print $1}' | grep "^$2_"; }
}
ends_clean() {
  expect "it is deleted" asked server delete --wait "$ONE"
  for host in h1 h2; do same "nothing is left on $host" "$(everything_on $host "$ID"; on $host list --all --uuid)" ""; done
}
source_of() { on "$1" dumpxml "$2" | tr -d '\n' | grep -oE "<disk type='(file|block)' device='disk'>.{0,160}" | head -n 1; } # host, uuid
to_host() { asked server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server
sectors() { at "$1" "$2" 'cat /sys/block/vda/size'; } # host, uuid

# ------------------------------------------------------------------------------------------------------------- build

boot "$ONE" --flavor "$SMALL" --config-drive True --user-data "$(counting)" --availability-zone nova:h1
ready "$ONE" "the guest is booted from a whole copy of its image"
ALL=$(printf '%s\n' "_disk$SUFFIX" "_disk.eph0$SUFFIX" "_disk.swap$SUFFIX" | sort | tr '\n' ' ')
same "its disks have the configured backend" "$(disks_on h1 "$ID")" "$ALL"
case $FORM in
  raw) like "QEMU uses the file as raw" "$(source_of h1 "$ID")" "type='raw'.*source file='[^']*_disk.raw'"
    unlike "the file has no backing file" "$(volume h1 "${ID}_disk")" backingStore ;;
  lvm) like "QEMU uses the logical volume" "$(source_of h1 "$ID")" "disk type='block'.*type='raw'.*source dev='/dev/$GROUP/${ID}_disk'" ;;
esac
same "it has the flavor's size" "$(bytes h1 "${ID}_disk") $(sectors h1 "$ID")" "1073741824 2097152"
expect "the guest writes a word on its disk" mark_at h1 "$ID" first

# ------------------------------------------------------------------------------------------------------- live migration

within 60 "the guest counts" ticks_on "$ONE" 2
expect "a live migration is requested" asked server migrate --live-migration --host h2 "$ONE" --os-compute-api-version 2.79
within 300 "it is ACTIVE on the other host" is_at "$ONE" h2
same "it runs once" "$(runs "$ID")" 1
same "nothing is left on its old host" "$(everything_on h1 "$ID")" ""
within 40 "it continues to count" ticks_on "$ONE" "$(last_tick "$ONE")"
same "it counted without a gap" "$(gaps "$ONE")" ""
same "it has all its disks" "$(disks_on h2 "$ID")" "$ALL"
same "the disks have their data" "$(marker_at h2 "$ID")" first
long_run || { ends_clean; verdict; }
expect "a live migration back is requested" asked server migrate --live-migration --host h1 "$ONE" --os-compute-api-version 2.79
within 300 "it is ACTIVE where it was" is_at "$ONE" h1

# ---------------------------------------------------------------------- images of the running and of the stopped server

expect "an image is made of the running guest" asked server image create --wait --name "$NAME-live" "$ONE"
expect "the server is stopped" asked server stop "$ONE"
within 60 "the server is SHUTOFF" at_rest "$ONE" SHUTOFF
expect "an image is made of the stopped guest" asked server image create --wait --name "$NAME-off" "$ONE"
same "both are images of whole disks" "$(for image in live off; do get image "$NAME-$image" disk_format; done | tr '\n' ' ')" "qcow2 qcow2 "
expect "a server is built from one" asked server create --flavor "$NAME" --image "$NAME-off" --network "$NAME" --wait --availability-zone nova:h1 "$NAME-two"
TWO=$(get server "$NAME-two" id); SERVERS+=("$TWO")
same "the word is on its disk" "$(marker_at h1 "$TWO")" first
expect "it is deleted" asked server delete --wait "$NAME-two"
same "nothing is left of it" "$(everything_on h1 "$TWO")" ""

# ---------------------------------------------------------------------------------- resize to the other host and revert

expect "a resize to the other host is requested" asked server resize --flavor "$LARGE" "$ONE"
within 240 "it waits to be verified" at_rest "$ONE" VERIFY_RESIZE
same "it is on the other host" "$(place "$ONE")" h2
same "it has all its disks, with a larger root disk" "$(bytes h2 "${ID}_disk") $(bytes h2 "${ID}_disk.eph0") $(disks_on h2 "$ID")" "2147483648 1073741824 $ALL"
expect "the resize is reverted" asked server resize revert "$ONE"
within 300 "the server is unchanged" at_rest "$ONE" SHUTOFF
same "nothing is left on the other host" "$(everything_on h2 "$ID")" ""
expect "it is started" asked server start "$ONE"
within 60 "the server is ACTIVE" at_rest "$ONE" ACTIVE
same "the disk has its marker" "$(marker_at h1 "$ID")" first
expect "a resize is asked for again" asked server resize --flavor "$LARGE" "$ONE"
within 240 "it waits to be verified" at_rest "$ONE" VERIFY_RESIZE
same "its guest's disk moved with it" "$(marker_at h2 "$ID") $(sectors h2 "$ID")" "first 4194304"
expect "it is confirmed" asked server resize confirm "$ONE"
within 60 "it is ACTIVE" at_rest "$ONE" ACTIVE
same "nothing is left at the source" "$(everything_on h1 "$ID")" ""

# ------------------------------------------------------------------------------------------------------- live migration

within 60 "the guest counts" ticks_on "$ONE" 2
expect "a live migration is requested" asked server migrate --live-migration --host h1 "$ONE" --os-compute-api-version 2.79
within 300 "it is ACTIVE on the other host" is_at "$ONE" h1
same "it runs once" "$(runs "$ID")" 1
same "nothing is left on its old host" "$(everything_on h2 "$ID")" ""
within 40 "it continues to count" ticks_on "$ONE" "$(last_tick "$ONE")"
same "it counted without a gap" "$(gaps "$ONE")" ""
same "it has all its disks" "$(disks_on h1 "$ID")" "$ALL"
same "the disks have their data" "$(marker_at h1 "$ID")" first

# ------------------------------------------------------------------------------------------- rescue, rebuild and shelve

expect "it is rescued" asked server rescue "$ONE"
within 120 "it is in rescue" at_rest "$ONE" RESCUE
like "the rescue disk has the same backend" "$(disks_on h1 "$ID")" "_disk.rescue$SUFFIX "
expect "it is unrescued" asked server unrescue "$ONE"
within 120 "it is ACTIVE" at_rest "$ONE" ACTIVE
unlike "the rescue disk is gone" "$(disks_on h1 "$ID")" rescue
same "its own disk is unchanged" "$(marker_at h1 "$ID")" first
expect "it is shelved" asked server shelve "$ONE"
within 180 "it leaves its host" at_rest "$ONE" SHELVED_OFFLOADED
same "nothing of it is left there" "$(everything_on h1 "$ID")" ""
expect "an unshelve on the other host is requested" to_host unshelve h2 "$ONE"
within 240 "it is ACTIVE again" at_rest "$ONE" ACTIVE
same "the disk has its marker" "$(place "$ONE") $(marker_at h2 "$ID")" "h2 first"
expect "it is rebuilt" asked server rebuild --image "$NAME" "$ONE" --wait
within 120 "it is ACTIVE" at_rest "$ONE" ACTIVE
same "its disk is recreated" "$(marker_at h2 "$ID")" ""

# ------------------------------------------------------------------------- a guest's data that looks like a disk format

expect "it is stopped" asked server stop "$ONE"
within 60 "the server is SHUTOFF" at_rest "$ONE" SHUTOFF
# A guest can write such a header to the first sectors of its disk.
qemu-img create -q -f qcow2 -F raw -b /etc/hostname "$WORK/header" 1G
case $FORM in
  raw) DISK=$STATE/h2/lib/chronova/${ID}_disk.raw ;;
  lvm) DISK=$(losetup -j "$STATE/h2/lib/testbed-lvm/$GROUP/${ID}_disk.lv" -O NAME --noheadings) ;;
esac
dd if="$WORK/header" of="$DISK" bs=64k conv=notrunc,fsync status=none
asked server image create --name "$NAME-header" "$ONE"
within 60 "the server is as it was" at_rest "$ONE" SHUTOFF
case $FORM in
  raw) unlike "no image is made of a raw file that looks like another format" "$(os image list -f value -c Name -c Status)" "$NAME-header active" ;;
  lvm)
    expect "an image is made of it" asked image save --file "$WORK/saved" "$NAME-header"
    qemu-img dd -f qcow2 -O raw bs=512 count=1 "if=$WORK/saved" "of=$WORK/first" && same "the image has the guest's bytes unchanged" "$(head -c 3 "$WORK/first")" QFI ;;
esac
expect "it is started" asked server start "$ONE"
within 60 "it is ACTIVE" at_rest "$ONE" ACTIVE
like "QEMU still uses the disk as raw" "$(source_of h2 "$ID")" "type='raw'"

# ----------------------------------------------------------------------------------- a reboot under another images_type

with 'images_type = qcow2' ${TESTBED_LVM:+"images_volume_group = $GROUP"}
expect "it is rebooted hard under another images_type" asked server reboot --hard --wait "$ONE"
within 60 "it is ACTIVE" at_rest "$ONE" ACTIVE
ends_clean

# ----------------------------------------------------------------------------------- a volume group that does not exist

if [ "$FORM" = lvm ]; then
  house_stop
  sed -i "/^\[libvirt\]$/,\$d" "$CONF"
  printf '%s\n' '[libvirt]' 'images_type = lvm' 'images_volume_group = nowhere' >>"$CONF"
  house_start
  told() { sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -aq '\[libvirt\] images_volume_group names the volume group nowhere, which this host cannot use'; }
  within 60 "the log names the option and the volume group" told
  within 60 "the hosts are down" host_is down
fi
[ -n "${1:-}" ] || [ $FAILED != 0 ] || { trap - EXIT; (exit 0); house_close; fleet_last; exec bash "$0" lvm; }
verdict
