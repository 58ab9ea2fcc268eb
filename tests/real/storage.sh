#!/bin/bash
# A real guest whose disks are raw files or, with `storage.sh lvm`, logical volumes. The script builds the guest on one
# of two hosts, migrates it live and deletes it. It checks the disks from inside the guest and in the hosts' pools. With
# CHRONOVA_SOAK=1 also: images, resizes, a rescue, a shelving, a rebuild, and a reboot under another images_type. A long
# run ends with `storage.sh lvm`. There testbed/lvm.sh replaces LVM's own programs, because both hosts share one kernel.
# tests/real/lvm.sh runs the real programs.
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

# The storage pool of the disks, and the suffix of the disks' volumes. `volume` prints libvirt's description of a
# volume.
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
  expect "the server is deleted" asked server delete --wait "$ONE"
  for host in h1 h2; do same "nothing of the server is left on $host" "$(everything_on $host "$ID"; on $host list --all --uuid)" ""; done
}
source_of() { on "$1" dumpxml "$2" | tr -d '\n' | grep -oE "<disk type='(file|block)' device='disk'>.{0,160}" | head -n 1; } # host, uuid
to_host() { asked server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server
sectors() { at "$1" "$2" 'cat /sys/block/vda/size'; } # host, uuid

# ---------------------------------------------------------------------------------------------------------------- build

boot "$ONE" --flavor "$SMALL" --config-drive True --user-data "$(counting)" --availability-zone nova:h1
ready "$ONE" "the guest is booted from a whole copy of its image"
ALL=$(printf '%s\n' "_disk$SUFFIX" "_disk.eph0$SUFFIX" "_disk.swap$SUFFIX" | sort | tr '\n' ' ')
same "the disks have the configured backend" "$(disks_on h1 "$ID")" "$ALL"
case $FORM in
  raw) like "QEMU uses the file as raw" "$(source_of h1 "$ID")" "type='raw'.*source file='[^']*_disk.raw'"
    unlike "the file has no backing file" "$(volume h1 "${ID}_disk")" backingStore ;;
  lvm) like "QEMU uses the logical volume" "$(source_of h1 "$ID")" "disk type='block'.*type='raw'.*source dev='/dev/$GROUP/${ID}_disk'" ;;
esac
same "the root disk has the flavor's size" "$(bytes h1 "${ID}_disk") $(sectors h1 "$ID")" "1073741824 2097152"
expect "the guest writes a word on its disk" mark_at h1 "$ID" first

# ------------------------------------------------------------------------------------------------------- live migration

within 60 "the guest counts" ticks_on "$ONE" 2
expect "a live migration is requested" asked server migrate --live-migration --host h2 "$ONE" --os-compute-api-version 2.79
within 300 "the server is ACTIVE on h2" is_at "$ONE" h2
same "the guest runs on h2 only" "$(runs "$ID")" 1
same "nothing of the server is left on h1" "$(everything_on h1 "$ID")" ""
within 40 "the guest continues to count on h2" ticks_on "$ONE" "$(last_tick "$ONE")"
same "the guest counted without a gap on its way to h2" "$(gaps "$ONE")" ""
same "the server has all its disks on h2" "$(disks_on h2 "$ID")" "$ALL"
same "the root disk has its word on h2" "$(marker_at h2 "$ID")" first
long_run || { ends_clean; verdict; }
expect "a live migration back is requested" asked server migrate --live-migration --host h1 "$ONE" --os-compute-api-version 2.79
within 300 "the server is ACTIVE on h1 again" is_at "$ONE" h1

# ---------------------------------------------------------------------- images of the running and of the stopped server

expect "an image is made of the running guest" asked server image create --wait --name "$NAME-live" "$ONE"
expect "the server is stopped" asked server stop "$ONE"
within 60 "the server is SHUTOFF" at_rest "$ONE" SHUTOFF
expect "an image is made of the stopped guest" asked server image create --wait --name "$NAME-off" "$ONE"
same "both images are qcow2 files" "$(for image in live off; do get image "$NAME-$image" disk_format; done | tr '\n' ' ')" "qcow2 qcow2 "
expect "a server is built from the image of the stopped guest" asked server create --flavor "$NAME" --image "$NAME-off" --network "$NAME" --wait --availability-zone nova:h1 "$NAME-two"
TWO=$(get server "$NAME-two" id); SERVERS+=("$TWO")
same "the disk of the second server has the word" "$(marker_at h1 "$TWO")" first
expect "the second server is deleted" asked server delete --wait "$NAME-two"
same "nothing of the second server is left on h1" "$(everything_on h1 "$TWO")" ""

# ---------------------------------------------------------------------------------- resize to the other host and revert

expect "a resize to the other host is requested" asked server resize --flavor "$LARGE" "$ONE"
within 240 "the server is in VERIFY_RESIZE" at_rest "$ONE" VERIFY_RESIZE
same "the resized server is on h2" "$(place "$ONE")" h2
same "the resized server has all its disks, with a larger root disk" "$(bytes h2 "${ID}_disk") $(bytes h2 "${ID}_disk.eph0") $(disks_on h2 "$ID")" "2147483648 1073741824 $ALL"
expect "the resize is reverted" asked server resize revert "$ONE"
within 300 "the server is SHUTOFF again after the revert" at_rest "$ONE" SHUTOFF
same "nothing of the server is left on h2 after the revert" "$(everything_on h2 "$ID")" ""
expect "the reverted server is started" asked server start "$ONE"
within 60 "the reverted server is ACTIVE" at_rest "$ONE" ACTIVE
same "the disk has its word after the revert" "$(marker_at h1 "$ID")" first
expect "a second resize is requested" asked server resize --flavor "$LARGE" "$ONE"
within 240 "the server is in VERIFY_RESIZE again" at_rest "$ONE" VERIFY_RESIZE
same "the resized guest's disk moved to h2" "$(marker_at h2 "$ID") $(sectors h2 "$ID")" "first 4194304"
expect "the resize is confirmed" asked server resize confirm "$ONE"
within 60 "the server is ACTIVE after the resize" at_rest "$ONE" ACTIVE
same "nothing of the server is left on h1 after the resize" "$(everything_on h1 "$ID")" ""

# ------------------------------------------------------------------------------------------------------- live migration

within 60 "the resized guest counts" ticks_on "$ONE" 2
expect "a live migration of the resized server is requested" asked server migrate --live-migration --host h1 "$ONE" --os-compute-api-version 2.79
within 300 "the resized server is ACTIVE on h1" is_at "$ONE" h1
same "the resized guest runs on h1 only" "$(runs "$ID")" 1
same "nothing of the resized server is left on h2" "$(everything_on h2 "$ID")" ""
within 40 "the resized guest continues to count on h1" ticks_on "$ONE" "$(last_tick "$ONE")"
same "the resized guest counted without a gap" "$(gaps "$ONE")" ""
same "the resized server has all its disks on h1" "$(disks_on h1 "$ID")" "$ALL"
same "the root disk of the resized server has its word on h1" "$(marker_at h1 "$ID")" first

# ------------------------------------------------------------------------------------------- rescue, rebuild and shelve

expect "the server is rescued" asked server rescue "$ONE"
within 120 "the server is in rescue" at_rest "$ONE" RESCUE
like "the rescue disk has the same backend" "$(disks_on h1 "$ID")" "_disk.rescue$SUFFIX "
expect "the server is unrescued" asked server unrescue "$ONE"
within 120 "the server is ACTIVE after the rescue" at_rest "$ONE" ACTIVE
unlike "the rescue disk is gone" "$(disks_on h1 "$ID")" rescue
same "the own disk of the server has its word after the rescue" "$(marker_at h1 "$ID")" first
expect "the server is shelved" asked server shelve "$ONE"
within 180 "the server is offloaded from its host" at_rest "$ONE" SHELVED_OFFLOADED
same "nothing of the offloaded server is left on h1" "$(everything_on h1 "$ID")" ""
expect "an unshelve on h2 is requested" to_host unshelve h2 "$ONE"
within 240 "the unshelved server is ACTIVE" at_rest "$ONE" ACTIVE
same "the unshelved server is on h2, and its disk has its word" "$(place "$ONE") $(marker_at h2 "$ID")" "h2 first"
expect "the server is rebuilt" asked server rebuild --image "$NAME" "$ONE" --wait
within 120 "the rebuilt server is ACTIVE" at_rest "$ONE" ACTIVE
same "the rebuilt server has a new disk" "$(marker_at h2 "$ID")" ""

# --------------------------------------------------------------------------- a disk whose data looks like a disk format

expect "the rebuilt server is stopped" asked server stop "$ONE"
within 60 "the rebuilt server is SHUTOFF" at_rest "$ONE" SHUTOFF
# Writes the header of a qcow2 file to the first sectors of the guest's disk, as the guest itself could do.
qemu-img create -q -f qcow2 -F raw -b /etc/hostname "$WORK/header" 1G
case $FORM in
  raw) DISK=$STATE/h2/lib/chronova/${ID}_disk.raw ;;
  lvm) DISK=$(losetup -j "$STATE/h2/lib/testbed-lvm/$GROUP/${ID}_disk.lv" -O NAME --noheadings) ;;
esac
dd if="$WORK/header" of="$DISK" bs=64k conv=notrunc,fsync status=none
asked server image create --name "$NAME-header" "$ONE"
within 60 "the server is SHUTOFF after the request for an image" at_rest "$ONE" SHUTOFF
case $FORM in
  raw) unlike "no image is made of a raw file that looks like another format" "$(os image list -f value -c Name -c Status)" "$NAME-header active" ;;
  lvm)
    expect "an image is made of a logical volume that looks like another format" asked image save --file "$WORK/saved" "$NAME-header"
    qemu-img dd -f qcow2 -O raw bs=512 count=1 "if=$WORK/saved" "of=$WORK/first" && same "the image has the guest's bytes unchanged" "$(head -c 3 "$WORK/first")" QFI ;;
esac
expect "the server is started with that disk" asked server start "$ONE"
within 60 "the server is ACTIVE with that disk" at_rest "$ONE" ACTIVE
like "QEMU still uses the disk as raw" "$(source_of h2 "$ID")" "type='raw'"

# ----------------------------------------------------------------------------------- a reboot under another images_type

with 'images_type = qcow2' ${TESTBED_LVM:+"images_volume_group = $GROUP"}
expect "the server is rebooted hard under another images_type" asked server reboot --hard --wait "$ONE"
within 60 "the server is ACTIVE under another images_type" at_rest "$ONE" ACTIVE
ends_clean

# ----------------------------------------------------------------------------------- a volume group that does not exist

if [ "$FORM" = lvm ]; then
  house_stop
  sed -i "/^\[libvirt\]$/,\$d" "$CONF"
  printf '%s\n' '[libvirt]' 'images_type = lvm' 'images_volume_group = nowhere' >>"$CONF"
  house_start
  told() { sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -aq '\[libvirt\] images_volume_group names the volume group nowhere, but this host cannot use it'; }
  within 60 "the log names the option and the volume group" told
  within 60 "the hosts are down" host_is down
fi
[ -n "${1:-}" ] || [ $FAILED != 0 ] || { trap - EXIT; (exit 0); house_close; fleet_last; exec bash "$0" lvm; }
verdict
