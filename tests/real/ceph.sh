#!/bin/bash
# A cloud whose disks, volumes and images are in one real Ceph, with real Keystone, Glance and Cinder and two hosts. A
# guest's root disk is a clone of Glance's image: nothing is downloaded. The guest has a volume of Cinder, which another
# guest reads, and which grows while it is in use. With CHRONOVA_SOAK=1 also: images are made of the running guest, of a
# stopped guest, and in another format. The guest migrates live, and is evacuated after a power failure of its host: the
# disk and the volume keep what was written on them, and the old attachment is ended. Then follow a resize with revert,
# a rescue, a shelve, a rebuild, images from Ceph for disks that are files, and a wrong key.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
TESTBED=$HERE
. "$TESTBED/cloud.sh"
needs_programs cinder keystone-wsgi-public glance-wsgi-api uwsgi_python3 cinder-volume ceph-mon ceph-osd rbd mariadbd

# The address of this machine that the hosts of hosts.sh reach.
MACHINE=10.231.0.2
house_first() {
  bash "$TESTBED/ceph.sh" up "$CLOUD/ceph" $MACHINE >"$CLOUD/ceph.out" 2>&1 || { bad "Ceph starts" "$(tail -n 20 "$CLOUD/ceph.out")"; exit 1; }
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" || { bad "Keystone starts"; exit 1; }
  KEYSTONE=$(cat "$CLOUD/keystone/url")
  python3 "$TESTBED/enlist.py" "$KEYSTONE" "service=nova=compute=$URL/compute/v2.1" "service=neutron=network=$URL/network" \
    "service=placement=placement=$URL/placement" member=ann=web=member || { bad "Keystone gets its users, roles and services"; exit 1; }
  bash "$TESTBED/glance.sh" up "$CLOUD/glance" "$CLOUD/keystone" '' "$CLOUD/ceph" || { bad "Glance starts"; exit 1; }
  bash "$TESTBED/cinder.sh" up "$CLOUD/cinder" "$CLOUD/keystone" "$CLOUD/ceph" "$CLOUD/glance" || { bad "Cinder starts"; exit 1; }
  GLANCE=$(cat "$CLOUD/glance/url") CINDER=$(cat "$CLOUD/cinder/url") SECRET=$(cat "$CLOUD/cinder/secret")
  MONITOR=$(cat "$CLOUD/ceph/monitor") KEYRING=$CLOUD/ceph/ceph.client.cinder.keyring
  { echo clouds:; cloud chronova admin admin; cloud web ann web; } >"$HOUSE_CLOUDS"
  local section
  for section in keystone_authtoken service_user; do echo "[$section]"; account nova; done >>"$CONF"
  printf '%s\n' 'timeout = 60' 'send_service_user_token = true' '[keystone_authtoken]' 'http_connect_timeout = 60' \
    '[glance]' 'timeout = 60' 'region_name = RegionOne' '[cinder]' 'os_region_name = RegionOne' 'timeout = 60' \
    '[chronova]' "rbd_keyring = $KEYRING" "rbd_monitors = $MONITOR" '[libvirt]' 'images_type = rbd' 'images_rbd_pool = vms' \
    'rbd_user = cinder' "rbd_secret_uuid = $SECRET" 'snapshot_image_format = raw' 'rbd_connect_timeout = 60' >>"$CONF"
  ok "Keystone answers at $KEYSTONE, Glance at $GLANCE, Cinder at $CINDER, Ceph at $MONITOR"
}

house_last() {
  bash "$TESTBED/cinder.sh" down "$CLOUD/cinder"
  bash "$TESTBED/glance.sh" down "$CLOUD/glance"
  bash "$TESTBED/ceph.sh" down "$CLOUD/ceph"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  # Ceph listens at an address of the hosts' network, so the hosts are stopped last.
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

rbd() { bash "$TESTBED/ceph.sh" run "$CLOUD/ceph" rbd "$@" 2>/dev/null; }
volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
image_is() { [ "$(get image "$1" status)" = "$2" ]; } # image, status
# The server's disks in Ceph, without the server's id.
disks() { rbd ls vms | grep "^$1_" | sed "s/^$1//" | sort | tr '\n' ' '; } # uuid
parent_of() { rbd info "vms/$1_disk" | awk '$1 == "parent:" {print $2}'; } # uuid
bytes() { rbd info --format json "$1" | field size; } # image
marks() { rbd ls vms | grep -c '^host-'; }
rests() { rbd ls vms | grep -v '^host-'; rbd ls volumes; }
# Prints an answer of Glance to the administrator.
glance() { curl -s -m 30 -H "X-Auth-Token: $(token admin admin)" "$GLANCE/v2/$1"; }
asked() { os "$@" >"$WORK/did" 2>&1; }
upload() { # name, format, file: prints the id
  os image create --disk-format "$2" --container-format bare --public --file "$3" "$1" >"$WORK/image-$1" 2>&1 || bad "image $1 is uploaded" "$(tail -n 5 "$WORK/image-$1")"
  get image "$1" id
}
cached() { on "$1" pool-refresh chronova >/dev/null; on "$1" vol-list chronova | awk '{print $1}' | grep '^base-'; } # host

CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-ceph.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml
chmod 755 "$CLOUD"
FLEET_OPTIONS=--root-link
fleet_open ceph cp 10.86 2
within 60 "both hosts are up" host_stands h2 up
ADMIN_PROJECT=$(get project admin id)
INSIDE_SECONDS=120
ONE=$NAME-one TWO=$NAME-two

# -------------------------------------------------------------------------------------------- a root disk that is a clone

within 60 "both hosts have left their marks in the pool" eval '[ "$(marks)" = 2 ]'
for host in h1 h2; do
  like "$host has a libvirt pool over Ceph's" "$(on $host pool-dumpxml chronova-rbd-vms | tr -d '\n')" "<pool type='rbd'>.*<name>vms</name>.*<auth type='ceph' username='cinder'>"
  like "$host has the libvirt secret that Chronova made" "$(on $host secret-list)" "$SECRET"
done
qemu-img convert -O raw "$CHRONOVA_IMAGE" "$CLOUD/guest.raw"
IMAGE=$(upload "$NAME" raw "$CLOUD/guest.raw")
like "Glance has the image in Ceph" "$(rbd snap ls "images/$IMAGE")" ' snap '
asked flavor create --vcpus 1 --ram 160 --disk 1 --ephemeral 1 --swap 16 "$NAME"
os network create "$NAME" >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
asked subnet create --network "$NAME" --subnet-range "$NET.1.0/24" "$NAME"
NETWORKS+=("$(get network "$NAME" id)")
boot "$ONE" --config-drive True --user-data "$(counting)" --availability-zone nova:h1; FIRST=$ID
ready "$ONE" "the guest is booted from Ceph"
same "the root disk is a clone of Glance's image" "$(parent_of "$FIRST")" "images/$IMAGE@snap"
same "all disks are in Ceph" "$(disks "$FIRST")" "_disk _disk.eph0 _disk.swap "
same "no host has a copy of the image" "$(cached h1)$(cached h2)" ""
like "QEMU itself connects to the disk" "$(on h1 dumpxml "$FIRST" | tr -d '\n')" "<source protocol='rbd' name='vms/${FIRST}_disk'[^>]*> *<host name='$MACHINE'"
same "the root disk has the flavor's size" "$(bytes "vms/${FIRST}_disk") $(at h1 "$FIRST" cat /sys/block/vda/size)" "1073741824 2097152"
expect "the guest writes a word on its disk" mark_at h1 "$FIRST" first
KEY=$(awk '/key = / {print $3}' "$KEYRING")
same "the key of ${#KEY} characters is in no log" "$(cat "$DATA"/log.db* "$WORK/chronova.log" | grep -acF "$KEY")" 0
boot "$TWO" --availability-zone nova:h2; SECOND=$ID
ready "$TWO" "a second guest is booted from the same image"
same "both disks share the image" "$(rbd children "images/$IMAGE@snap" | sort)" "$(printf 'vms/%s_disk\n' "$FIRST" "$SECOND" | sort)"

# ---------------------------------------------------------------------------------------------------- a volume of Cinder

asked volume create --size 1 data
within 60 "Cinder has made the volume" volume_is data available
VOLUME=$(get volume data id)
# The guest's name of the volume's disk, for example vdd.
disk_of_volume() { at "$1" "$2" "for f in /sys/block/vd*/serial; do grep -q ${VOLUME:0:20} \$f && echo \$f; done; true" | grep -oE 'vd[a-z]+' | tail -n 1; } # host, uuid
attach() { # server, uuid, host: sets DISK
  expect "the volume is attached to $1" asked server add volume "$1" data
  within 60 "Cinder has the volume in use by $1" volume_is data in-use
  within 30 "the guest $1 sees the volume" eval "[ -n \"\$(disk_of_volume $3 $2)\" ]"
  DISK=$(disk_of_volume "$3" "$2")
}
detach() { # server
  expect "the volume is detached from $1" asked server remove volume "$1" data
  within 60 "Cinder has the volume available after $1" volume_is data available
}
attach "$TWO" "$SECOND" h2
expect "the second guest writes a word on the volume" write_on h2 "$SECOND" carried "$DISK"
detach "$TWO"
attach "$ONE" "$FIRST" h1
same "the first guest reads the word from another host" "$(read_on h1 "$FIRST" "$DISK")" carried
expect "the volume is extended while the guest has it" asked --os-volume-api-version 3.42 volume set --size 2 data
within 60 "the running guest sees the volume's new size" eval '[ "$(at h1 "$FIRST" cat /sys/block/$DISK/size)" = 4194304 ]'
long_run || { expect "the servers with disks in Ceph are deleted" asked server delete --wait "$ONE" "$TWO"; verdict; }
# From microversion 3.66 on, Cinder makes a snapshot of a volume in use without the option `force`. The client of this
# release does not send that option, either.
snapshot_data() {
  curl -sf -m 60 -o "$WORK/did" -H "X-Auth-Token: $(token admin admin)" -H 'OpenStack-API-Version: volume 3.66' \
    -H 'Content-Type: application/json' "$CINDER/v3/$ADMIN_PROJECT/snapshots" \
    -d "{\"snapshot\": {\"volume_id\": \"$VOLUME\", \"name\": \"data-copy\"}}"
}
expect "a snapshot is made of the volume in use" snapshot_data
within 60 "the snapshot is available" eval '[ "$(get2 volume snapshot data-copy status)" = available ]'
like "the snapshot is in Ceph" "$(rbd snap ls "volumes/volume-$VOLUME")" 'snapshot-'

# -------------------------------------------------------------------------------------------- an image of a running guest

expect "an image is made of the running guest" asked server image create --wait --name "$NAME-copy" "$ONE"
within 120 "Glance has the image of the guest" image_is "$NAME-copy" active
COPY=$(get image "$NAME-copy" id)
like "Glance has the image in Ceph, as it has its own" "$(rbd snap ls "images/$COPY")" ' snap '
# Glance computes the MD5 of bytes that it receives.
same "no byte of the image went through Glance" "$(glance "images/$COPY" | field checksum os_hash_algo)" "- sha512"
same "the image does not depend on the disk" "$(rbd info "images/$COPY" | grep -c parent)" 0
same "Glance has the hash of the image's bytes" "$(glance "images/$COPY" | field os_hash_value)" "$(rbd export --no-progress "images/$COPY" - | sha512sum | cut -d' ' -f1)"
same "the disk keeps no snapshot of the image" "$(rbd snap ls "vms/${FIRST}_disk")" ""
same "the host has no file of the image" "$(on h1 vol-list chronova | grep -c "${FIRST}_copy")" 0

# ------------------------------------------------------------------------------------------------------- live migration

within 60 "the guest counts" ticks_on "$ONE" 2
expect "a live migration is requested" asked server migrate --live-migration --host h2 "$ONE" --os-compute-api-version 2.79
within 300 "the server is ACTIVE on h2" is_at "$ONE" h2
same "the guest runs on one host" "$(runs "$FIRST")" 1
within 40 "the guest continues to count on h2" ticks_on "$ONE" "$(last_tick "$ONE")"
same "the guest counted without a gap on its way to h2" "$(gaps "$ONE")" ""
same "the guest did not boot again" "$(boots_at h2 "$FIRST")" 1
same "no file of the guest is left on h1" "$(files_on h1 "$FIRST")" ""
same "the disks stayed in place" "$(parent_of "$FIRST") $(disks "$FIRST")" "images/$IMAGE@snap _disk _disk.eph0 _disk.swap "
same "the root disk has its word on h2" "$(marker_at h2 "$FIRST")" first
same "the volume has its word on h2" "$(read_on h2 "$FIRST" "$DISK")" carried
same "Cinder has one attachment after the migration" "$(attachments)" "$FIRST attached"

# ------------------------------------------------------------------------------------------------------------ evacuation

hosts crash h2 >/dev/null 2>&1
within 60 "host h2, which lost its power, is shown as down" host_stands h2 down
expect "an evacuation is requested" os server evacuate "$ONE" --os-compute-api-version 2.29 >"$WORK/did"
within 180 "the evacuated server is ACTIVE" at_rest "$ONE" ACTIVE
same "the evacuated server is on h1" "$(place "$ONE")" h1
ready "$ONE" "the evacuated guest is booted from its own disk" 2
same "the root disk has its word after the evacuation" "$(marker_at h1 "$FIRST")" first
DISK=$(disk_of_volume h1 "$FIRST")
same "the volume has its word after the evacuation" "$(read_on h1 "$FIRST" "$DISK")" carried
expect "the evacuated guest writes on the volume, which the old host had locked" write_on h1 "$FIRST" evacuated "$DISK"
same "Cinder has no attachment of the old host" "$(attachments)" "$FIRST attached"
hosts boot h2 >/dev/null 2>&1
within 90 "host h2 is up again" host_stands h2 up
within 60 "the old host has let go of the evacuated guest" eval '[ -z "$(on h2 list --all --uuid | grep -x "$FIRST")" ]'
same "the evacuated guest still has its disks" "$(disks "$FIRST")" "_disk _disk.eph0 _disk.swap "
same "the evacuated guest runs on one host" "$(runs "$FIRST")" 1
same "the volume keeps the last word" "$(read_on h1 "$FIRST" "$DISK")" evacuated

ends_clean() {
  expect "the snapshot is deleted" asked volume snapshot delete data-copy
  expect "the servers are deleted" asked server delete --wait "$ONE" "$TWO"
  within 60 "the volume is available after the deletion" volume_is data available
  within 30 "the snapshot is gone" no_snapshot data-copy
  expect "the volume is deleted" asked volume delete data
  within 60 "Cinder does not have the volume any more" no_volume data
  same "nothing of the servers and volumes is left in Ceph" "$(rests)" ""
  same "no attachment is left in Cinder" "$(attachments)" ""
  expect "the image can be deleted, because no disk needs it" asked image delete "$NAME"
  verdict
}

# ------------------------------------------------------------------------------- the image of the guest, and other images

within 60 "the second server is at rest after the power failure" eval 'at_rest "$TWO" SHUTOFF || at_rest "$TWO" ACTIVE'
expect "the second server is started" eval 'at_rest "$TWO" ACTIVE || asked server start "$TWO"'
within 60 "the second server is ACTIVE" at_rest "$TWO" ACTIVE
boot "$NAME-three" --image "$NAME-copy" --availability-zone nova:h1; THIRD=$ID
ready "$NAME-three" "a guest is booted from the image of the first guest" 2
same "the guest has the word of the first guest" "$(marker_at h1 "$THIRD")" first
same "its disk is a clone of that image" "$(parent_of "$THIRD")" "images/$COPY@snap"
sed -i 's/^snapshot_image_format = raw/snapshot_image_format = qcow2/' "$CONF"
house_stop; house_start || bad "the control plane starts with another format of images"
within 60 "the hosts are up with another format of images" host_is up
expect "that server is stopped" asked server stop "$NAME-three"
within 60 "that server is SHUTOFF" at_rest "$NAME-three" SHUTOFF
expect "a qcow2 image is made of the stopped guest" asked server image create --wait --name "$NAME-off" "$NAME-three"
within 120 "Glance has the image of the stopped guest" image_is "$NAME-off" active
same "the host keeps no file of the copy" "$(on h1 vol-list chronova | grep -c passing)" 0
expect "that server is deleted" asked server delete --wait "$NAME-three"
QCOW2=$(upload "$NAME-qcow2" qcow2 "$CHRONOVA_IMAGE")
boot "$NAME-four" --image "$NAME-qcow2" --availability-zone nova:h1; FOURTH=$ID
ready "$NAME-four" "a guest is booted from an image that Ceph cannot clone"
same "the disk of that guest has no parent" "$(parent_of "$FOURTH") $(bytes "vms/${FOURTH}_disk")" " 1073741824"
expect "that guest is deleted" asked server delete --wait "$NAME-four"

# ------------------------------------------------------------------------------------------------- resize, revert, confirm

asked flavor create --vcpus 1 --ram 160 --disk 2 --ephemeral 1 --swap 16 "$NAME-large"
expect "a resize is requested" asked server resize --flavor "$NAME-large" "$ONE"
within 300 "the server is in VERIFY_RESIZE" at_rest "$ONE" VERIFY_RESIZE
same "the resized disk has the new size" "$(bytes "vms/${FIRST}_disk")" 2147483648
expect "the resize is reverted" asked server resize revert "$ONE"
within 300 "the server is ACTIVE after the revert" at_rest "$ONE" ACTIVE
same "the reverted disk has its size and its word" "$(bytes "vms/${FIRST}_disk") $(marker_at "$(place "$ONE")" "$FIRST")" "1073741824 first"
expect "a second resize is requested" asked server resize --flavor "$NAME-large" "$ONE"
within 300 "the server is in VERIFY_RESIZE again" at_rest "$ONE" VERIFY_RESIZE
expect "the resize is confirmed" asked server resize confirm "$ONE"
within 60 "the server is ACTIVE after the resize" at_rest "$ONE" ACTIVE
same "the resized disk keeps its word, and nothing was left aside" "$(marker_at "$(place "$ONE")" "$FIRST") $(disks "$FIRST")" "first _disk _disk.eph0 _disk.swap "

# ------------------------------------------------------------------------------------------- rescue, shelve and rebuild

expect "the server is rescued" asked server rescue "$ONE"
within 120 "the server is in rescue" at_rest "$ONE" RESCUE
same "the rescue disk is a clone of the image" "$(rbd info "vms/${FIRST}_disk.rescue" | awk '$1 == "parent:" {print $2}')" "images/$IMAGE@snap"
expect "the server is unrescued" asked server unrescue "$ONE"
within 120 "the server is ACTIVE after the rescue" at_rest "$ONE" ACTIVE
same "the rescue disk is gone" "$(disks "$FIRST")" "_disk _disk.eph0 _disk.swap "
expect "the server is shelved" asked server shelve "$ONE"
within 240 "the server is offloaded" at_rest "$ONE" SHELVED_OFFLOADED
same "an offloaded server has no disks" "$(disks "$FIRST")" ""
expect "the server is unshelved" asked server unshelve "$ONE"
within 300 "the unshelved server is ACTIVE" at_rest "$ONE" ACTIVE
same "the unshelved guest has its word" "$(marker_at "$(place "$ONE")" "$FIRST")" first
same "the disk does not depend on the image of the shelve" "$(parent_of "$FIRST")" ""
within 60 "the image of the shelve is deleted" eval '! os image list -f value -c Name | grep -q -- "-shelved"'
expect "the server is rebuilt" asked server rebuild --image "$NAME" --wait "$ONE"
within 120 "the rebuilt server is ACTIVE" at_rest "$ONE" ACTIVE
same "the rebuilt server has a clone again" "$(parent_of "$FIRST")" "images/$IMAGE@snap"

# ------------------------------------------------------------------------------------ images from Ceph for other backends

sed -i 's/^images_type = rbd/images_type = qcow2/' "$CONF"
printf '%s\n' '[glance]' 'enable_rbd_download = true' 'rbd_user = glance' 'rbd_pool = images' "rbd_ceph_conf = $CLOUD/ceph/ceph.conf" \
  'rbd_connect_timeout = 60' >>"$CONF"
house_stop; house_start || bad "the control plane starts with files as disks"
within 60 "the hosts are up with files as disks" host_is up
boot "$NAME-five" --availability-zone nova:h1; FIFTH=$ID
ready "$NAME-five" "a guest is booted from a file"
like "the host has a copy of the image" "$(cached h1)" '^base-'
like "the image came from Ceph" "$(sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -a 'reading an image from Ceph')" "$IMAGE"
expect "that server on files is deleted" asked server delete --wait "$NAME-five"
same "nothing of the server on files is left" "$(files_on h1 "$FIFTH")" ""
sed -i 's/^images_type = qcow2/images_type = rbd/' "$CONF"
house_stop; house_start || bad "the control plane starts with disks in Ceph again"
within 60 "the hosts are up with disks in Ceph again" host_is up

# ----------------------------------------------------------------------------------------------------------- a wrong key

sed 's|key = .*|key = AQDzzzzzAAAAABAAzzzzzzzzzzzzzzzzzzzzzw==|' "$KEYRING" >"$WORK/wrong.keyring"
cp "$CONF" "$WORK/right.conf"
sed -i "s|^rbd_keyring = .*|rbd_keyring = $WORK/wrong.keyring|" "$CONF"
house_stop; house_start || bad "the control plane starts with a wrong key"
within 60 "the hosts stay up with a wrong key, because their pools are open" host_is up
os server create --flavor "$NAME" --image "$NAME" --network "$NAME" "$NAME-wrong" >"$WORK/did" 2>&1
WRONG=$(get server "$NAME-wrong" id); SERVERS+=("$WRONG")
within 120 "a server with a wrong key fails" is "$NAME-wrong" ERROR
like "the log says why" "$(sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log")" 'ceph fsid failed|rbd (info|clone) failed'
cp "$WORK/right.conf" "$CONF"
house_stop; house_start || bad "the control plane starts with the right key"
within 60 "the hosts are up with the right key" host_is up
expect "the failed server is deleted" asked server delete --wait "$NAME-wrong"
for image in copy off qcow2; do asked image delete "$NAME-$image"; done
ends_clean
