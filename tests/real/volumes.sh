#!/bin/bash
# A user's operations on volumes with the real client, on a real storage pool. The script compares the answers with the
# files of volumes and snapshots in the pool, as libvirt and qemu-img report them. With CHRONOVA_SOAK=1 also: volumes
# made from images and from snapshots, volume types, limits, and a kill of the control plane.
set -uo pipefail
POOL=chronova-volumes-$$ POOL_PATH=/var/lib/libvirt/chronova-volumes-$$
HOUSE_CONF=$(printf '%s\n' '[volume]' "pool = $POOL" "pool_path = $POOL_PATH" 'quota_volumes = 8')
. "$(dirname "$0")/../testbed/house.sh"
house_open volumes 10.73
drop_pool() {
  v pool-refresh "$POOL"
  for volume in $(v vol-list "$POOL" | awk '{print $1}'); do v vol-delete "$volume" "$POOL"; done
  v pool-destroy "$POOL"; v pool-undefine "$POOL"
  rmdir "$POOL_PATH" 2>/dev/null
} >/dev/null
trap 'drop_pool; house_close' EXIT

volume_is() { [ "$(get volume "$1" status)" = "$2" ]; }
snapshot_is() { [ "$(get2 volume snapshot "$1" status)" = "$2" ]; }
file() { echo "$POOL_PATH/volume-$(get volume "$1" id)"; }
size_of() { qemu-img info --output=json "$1" 2>/dev/null | python3 -c 'import json, sys; i = json.load(sys.stdin); print(i["virtual-size"] >> 30, i["format"], i.get("backing-filename", "alone"))'; }
nothing_stays() {
  for name in $(os volume list -f value -c Name); do os volume delete "$name" || bad "$name is deleted"; done
  within 60 "all volumes are deleted" eval '[ -z "$(os volume list -f value -c Name)" ]'
  same "no file is left in the pool" "$(ls "$POOL_PATH")" ""
}
make() { # name, options...
  local name=$1; shift
  os volume create "$@" "$name" >"$WORK/made-$name" 2>&1 || bad "$name is requested" "$(tail -n 5 "$WORK/made-$name")"
  within 120 "$name is available" volume_is "$name" available
}

# -------------------------------------------------------------------------------------------------------------- volumes

like "the catalogue has the volume service" "$(os catalog list -f value -c Type)" '^block-storage$'
make blank --size 1 --description 'nothing yet' --property purpose=proof
same "the volume's file has the requested size, and no backing file" "$(size_of "$(file blank)")" "1 qcow2 alone"
like "the volume list has the volume" "$(os volume list -f value -c Name -c Status -c Size)" '^blank available 1$'
like "the volume shows its properties" "$(get volume blank properties)" purpose.*proof
os volume set --property colour=blue --name blank-new blank && like "the volume has its new property" "$(get volume blank-new properties)" colour.*blue
os volume set --name blank blank-new
os volume unset --property colour blank && unlike "a property is removed" "$(get volume blank properties)" colour
os volume set --bootable blank && like "the volume is bootable" "$(get volume blank bootable)" '^[Tt]rue$'
os volume set --size 2 blank
within 60 "the volume has its new size" eval '[ "$(get volume blank size) $(get volume blank status)" = "2 available" ]'
same "the volume's file has the new size, too" "$(size_of "$(file blank)")" "2 qcow2 alone"

make kept --source blank --size 2
os volume snapshot create --volume kept moment >/dev/null || bad "a snapshot is requested"
within 60 "the snapshot is available" snapshot_is moment available
like "the deletion of a volume with a snapshot is refused" "$(os volume delete kept 2>&1)" 'have snapshots'
os volume snapshot delete moment
within 60 "the snapshot is deleted" no_snapshot moment
unlike "the file of the snapshot is deleted" "$(ls "$POOL_PATH")" '^snapshot-'
long_run || { nothing_stays; verdict; }
os volume delete kept
within 60 "the copy is deleted" no_volume kept

house_furnish
make root --image "$NAME" --size 2
like "a volume of an image is bootable" "$(get volume root bootable)" '^[Tt]rue$'
like "the volume of an image shows the image" "$(os volume show root -f json -c volume_image_metadata | tr -d '\n')" "\"image_name\": \"$NAME\""
same "the file of that volume has no backing file" "$(size_of "$(file root)")" "2 qcow2 alone"
expect "that volume has the image's content" qemu-img compare -q "$CHRONOVA_IMAGE" "$(file root)"

# ------------------------------------------------------------------------------------------------------------ snapshots

# `writes` fills a part of a volume with one byte, and `holds` says whether the part has only this byte.
writes() { qemu-io -c "write -P $1 1536M 1M" "$(file "$2")" >"$WORK/written"; } # byte, volume
holds() { qemu-io -r -c "read -P $1 1536M 1M" "$(file "$2")" >"$WORK/read" && ! grep -q 'Pattern verification failed' "$WORK/read"; } # byte, volume
expect "qemu-io writes to the volume before the snapshot" writes 0x5a root
os volume snapshot create --volume root --property of=root before >/dev/null || bad "a snapshot of the volume of the image is requested"
within 60 "the snapshot of the volume of the image is available" snapshot_is before available
like "the snapshot list has the snapshot" "$(os volume snapshot list -f value -c Name -c Status -c Size)" '^before available 2$'
expect "qemu-io writes to the volume after the snapshot" writes 0xa5 root
make copy --snapshot before
expect "a volume of the snapshot has the data from before the snapshot" holds 0x5a copy
make twin --source root --size 3
expect "a volume of a volume has the newest data" holds 0xa5 twin
same "a volume of a volume has the requested size" "$(size_of "$(file twin)")" "3 qcow2 alone"
like "the deletion of a volume with snapshots is refused" "$(os volume delete root 2>&1)" 'have snapshots'
os volume snapshot set --name after before && like "a snapshot is renamed" "$(os volume snapshot list -f value -c Name)" '^after$'
os volume snapshot delete after
within 60 "the renamed snapshot is deleted" no_snapshot after
unlike "the file of the renamed snapshot is deleted" "$(ls "$POOL_PATH")" '^snapshot-'

# -------------------------------------------------------------------------------------------------------- types, limits

os volume type create --public --description 'for several' --property multiattach='<is> True' several >/dev/null
like "the type list has the new type and the default one" "$(os volume type list -f value -c Name | sort | tr '\n' ' ')" '__DEFAULT__ several'
make shared --size 1 --type several
same "a volume of the new type may be shared" "$(get volume shared multiattach)" True
like "the limits count the existing volumes" "$(os limits show --absolute -f value | grep totalVolumesUsed)" ' 5$'
for n in 1 2 3; do make "filler-$n" --size 1; done
like "a volume beyond the quota is refused" "$(os volume create --size 1 ninth 2>&1)" 'Maximum number of volumes allowed'
like "the list of pools has the pool" "$(os volume backend pool list -f value -c Name 2>&1)" "@chronova#$POOL\$"
like "the volume service runs" "$(os volume service list -f value -c Binary -c State 2>&1)" '^cinder-volume up$'

# ------------------------------------------------------------------------ a kill of the control plane, and the clean-up

house_kill
house_start || bad "the control plane starts again"
within 60 "the compute host is up again" host_is up
like "a volume is still in the list after the control plane was killed" "$(os volume list -f value -c Name)" '^twin$'
nothing_stays
os volume type delete several || bad "a type is deleted"
os image delete "$NAME"
verdict
