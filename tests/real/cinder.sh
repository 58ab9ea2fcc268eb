#!/bin/bash
# A cloud that has Keystone and Cinder, with volumes in a real Ceph. A user's volume is attached to a running guest,
# which writes a word on the volume. Then the volume is detached, read by another guest, and deleted. Another volume
# serves both guests at once. With CHRONOVA_SOAK=1 also: a volume is extended while a guest uses it. Cinder is killed
# during an attachment. Chronova has a wrong key for Ceph. A server that is created with a volume keeps the volume over
# a hard reboot.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TESTBED=$HERE/../testbed
. "$TESTBED/house.sh"
. "$TESTBED/cloud.sh"
needs_programs cinder keystone-wsgi-public uwsgi_python3 cinder-volume ceph-mon ceph-osd mariadbd

house_first() {
  local section ceph
  bash "$TESTBED/ceph.sh" up "$CLOUD/ceph" >"$CLOUD/ceph.out" 2>&1 &
  ceph=$!
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" || { bad "Keystone starts"; exit 1; }
  KEYSTONE=$(cat "$CLOUD/keystone/url")
  python3 "$TESTBED/enlist.py" "$KEYSTONE" "service=nova=compute=$URL/compute/v2.1" "service=glance=image=$URL/image" \
    "service=neutron=network=$URL/network" "service=placement=placement=$URL/placement" member=ann=web=member member=eve=shop=member \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  wait $ceph || { bad "Ceph starts" "$(tail -n 20 "$CLOUD/ceph.out")"; exit 1; }
  bash "$TESTBED/cinder.sh" up "$CLOUD/cinder" "$CLOUD/keystone" "$CLOUD/ceph" || { bad "Cinder starts"; exit 1; }
  CINDER=$(cat "$CLOUD/cinder/url") SECRET=$(cat "$CLOUD/cinder/secret")
  { echo clouds:; cloud chronova admin admin; cloud web ann web; cloud shop eve shop; } >"$HOUSE_CLOUDS"
  for section in keystone_authtoken service_user; do
    printf '%s\n' "[$section]" "auth_url = $KEYSTONE" 'auth_type = password' 'username = nova' 'password = secret' \
      'user_domain_name = Default' 'project_name = service' 'project_domain_name = Default'
  done >>"$CONF"
  printf '%s\n' 'timeout = 60' 'send_service_user_token = true' '[keystone_authtoken]' 'http_connect_timeout = 60' \
    '[cinder]' 'os_region_name = RegionOne' "timeout = $PATIENCE" 'http_retries = 2' '[chronova]' 'image_service = embedded' \
    "rbd_keyring = $CLOUD/ceph/ceph.client.cinder.keyring" >>"$CONF"
  ok "Keystone answers at $KEYSTONE, Cinder at $CINDER, Ceph at $(cat "$CLOUD/ceph/monitor")"
}

house_last() {
  bash "$TESTBED/cinder.sh" down "$CLOUD/cinder"
  bash "$TESTBED/ceph.sh" down "$CLOUD/ceph"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  v secret-undefine "$SECRET" >/dev/null
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

# How many seconds Cinder may take for an answer.
PATIENCE=20
web() { os --os-cloud web "$@"; }
status() { # token, path, more...: sends a request to Chronova, and prints the status of the answer
  local token=$1 path=$2; shift 2
  curl -s -m 60 -o "$WORK/answer" -w '%{http_code}' -H "X-Auth-Token: $token" -H 'Content-Type: application/json' "$@" "$URL$path"
}
rbd() { bash "$TESTBED/ceph.sh" run "$CLOUD/ceph" rbd "$@" 2>/dev/null; }
volume_is() { [ "$(web volume show "$1" -f value -c status 2>/dev/null)" = "$2" ]; } # volume, status
volume() { # name, options...
  local name=$1; shift
  web volume create $([[ " $* " == *" --size "* ]] || echo --size 1) "$@" "$name" >"$WORK/volume-$name" 2>&1 \
    || bad "volume $name is requested" "$(tail -n 5 "$WORK/volume-$name")"
  within 60 "Cinder has made the volume $name" volume_is "$name" available
}
web_is() { [ "$(web server show "$1" -f value -c status 2>/dev/null)" = "$2" ]; }
# Prints the attachments of this volume: server, status, mode, and whether an id and a time are there.
details() { curl -s -m 30 -H "X-Auth-Token: $ADMIN" -H 'OpenStack-API-Version: volume 3.27' "$CINDER/v3/$ADMIN_PROJECT/attachments/detail?all_tenants=1" \
  | python3 -c 'import json, sys; [print(a["instance"], a["status"], a["attach_mode"], bool(a["id"] and a["attached_at"])) for a in json.load(sys.stdin)["attachments"] if a["volume_id"] == sys.argv[1]]' "$1"; } # volume
write_to() { inside "$1" "echo $3 | dd of=/dev/$2 bs=512 seek=200 conv=fsync 2>/dev/null"; } # uuid, disk, word
read_from() { inside "$1" "dd if=/dev/$2 bs=512 skip=200 count=1 2>/dev/null | head -n 1"; }
# Prints the server's newest action with its events.
failure_of() { web server event show "$1" "$(web server event list "$1" -f value -c 'Request ID' | head -n 1)" -f json 2>/dev/null; }

CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cloud.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml
chmod 755 "$CLOUD"
house_open cinder 10.85
ADMIN=$(token admin admin) ADMIN_PROJECT=$(os project show admin -f value -c id) SHOP=$(token eve shop)

# ------------------------------------------------------------------------------------------- the services of this cloud

like "the configuration says where volumes are" "$("$CHRONOVA_BIN" config check "$CONF")" \
  "note: \[chronova\] volume_service: Cinder at the endpoint volumev3::publicURL of Keystone's catalogue is the volume service"
same "the embedded volume API is not served" "$(status '' "/volume/v3/$ADMIN_PROJECT/volumes")" 404
like "the health says where volumes are" "$(curl -fsS "$URL/healthz")" '"volumes":\{"service":"cinder"'

# -------------------------------------------------------------------------------------------- from one guest to another

os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public cinder >"$WORK/image" 2>&1 \
  || bad "the image is uploaded" "$(cat "$WORK/image")"
os flavor create --vcpus 1 --ram 160 --disk 1 cinder >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"
web network create cinder >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
web subnet create --network cinder --subnet-range 10.85.1.0/24 cinder >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
NETWORKS+=("$(web network show cinder -f value -c id)")
for name in cinder-one cinder-two; do
  web server create --flavor cinder --image cinder --network cinder "$name" >"$WORK/boot-$name" 2>&1 \
    || bad "$name is requested" "$(tail -n 5 "$WORK/boot-$name")"
done
ONE=$(web server show cinder-one -f value -c id) TWO=$(web server show cinder-two -f value -c id)
SERVERS+=("$ONE" "$TWO")
volume data
VOLUME=$(web volume show data -f value -c id)
same "the volume's bytes are in Ceph" "$(rbd ls volumes)" "volume-$VOLUME"
web_ready() { within 180 "$1 is booted" eval "web console log show $1 2>/dev/null | grep -aq 'GUEST-READY'"; }
web_ready cinder-one
expect "the volume is attached to a running guest" web server add volume cinder-one data
within 60 "Cinder has the volume in use" volume_is data in-use
same "Cinder has one complete attachment" "$(attachments)" "$ONE attached"
same "the attachment is read-write and has its id and its time" "$(details "$VOLUME")" "$ONE attached rw True"
within 30 "the guest sees the disk" sees_disk "$ONE" vdb
same "the disk's serial number is the volume's id" "$(inside "$ONE" cat /sys/block/vdb/serial)" "${VOLUME:0:20}"
like "QEMU itself connects to the volume in Ceph" "$(v dumpxml "$ONE" | tr -d '\n')" "<source protocol='rbd' name='volumes/volume-$VOLUME'[^>]*> *<host name='127.0.0.1'"
like "the host has the libvirt secret that Chronova made for Ceph" "$(v secret-list)" "$SECRET"
KEY=$(awk '/key = / {print $3}' "$CLOUD/ceph/ceph.client.cinder.keyring")
same "the key is ${#KEY} characters long, and in no log" "$(cat "$DATA"/log.db* "$WORK/chronova.log" | grep -acF "$KEY")" 0
expect "the guest writes a word on the volume" write_to "$ONE" vdb carried-over
same "another project cannot attach the volume" \
  "$(status "$SHOP" "/compute/v2.1/servers/$ONE/os-volume_attachments" -d "{\"volumeAttachment\": {\"volumeId\": \"$VOLUME\"}}")" 404
like "an attachment to a second server is refused" "$(web server add volume cinder-two data 2>&1)" 'in-use|already attached'
expect "the volume is detached" web server remove volume cinder-one data
within 60 "Cinder has the volume available" volume_is data available
same "Cinder has no attachment" "$(attachments)" ""
within 30 "the guest does not see the disk any more" sees_no_disk "$ONE" vdb
web_ready cinder-two
expect "the volume is attached to another guest" web server add volume cinder-two data
within 60 "Cinder has the volume in use again" volume_is data in-use
within 30 "the other guest sees the disk" sees_disk "$TWO" vdb
same "the other guest reads the word of the first one" "$(read_from "$TWO" vdb)" carried-over

# ------------------------------------------------------------------------------------- one volume for two guests at once

expect "Cinder gets a volume type for several servers" os volume type create --property multiattach='<is> True' several
volume both --type several
adds() { web server add volume "$1" both --os-compute-api-version "$2" 2>&1; } # server, version
like "before 2.60 the shared volume is refused" "$(adds cinder-one 2.59)" '2\.60'
expect "the shared volume is attached to the first guest" adds cinder-one 2.60
within 30 "the first guest sees the shared disk" sees_disk "$ONE" vdb
expect "the first guest writes a word on the shared volume" write_to "$ONE" vdb for-both
expect "the shared volume is attached to the second guest, too" adds cinder-two 2.60
within 30 "the second guest sees the shared disk" sees_disk "$TWO" vdc
same "the second guest reads the word on the shared volume" "$(read_from "$TWO" vdc)" for-both
expect "the second guest writes on the shared volume as well" write_to "$TWO" vdc of-two
same "the first guest reads the word of the second" "$(inside "$ONE" "dd if=/dev/vdb bs=512 skip=200 count=1 iflag=direct 2>/dev/null | head -n 1")" of-two
same "each server has a complete attachment of its own" "$(attachments)" "$(printf '%s attached\n' "$ONE" "$TWO" "$TWO" | sort)"
expect "the shared volume is detached from the first guest" web server remove volume cinder-one both
within 30 "the first guest does not see the shared disk any more" sees_no_disk "$ONE" vdb
same "the second guest still reads the word" "$(read_from "$TWO" vdc)" of-two
expect "the shared volume is detached from the second guest" web server remove volume cinder-two both
within 60 "Cinder has the shared volume available" volume_is both available
expect "the shared volume is deleted" web volume delete both
within 60 "Cinder does not have the shared volume any more" absent both --os-cloud web volume
expect "the type for several servers is deleted" os volume type delete several

volume_goes() {
  expect "the volume is deleted" web volume delete data
  within 60 "Cinder does not have the volume any more" absent data --os-cloud web volume
  same "Ceph does not have the volume any more" "$(rbd ls volumes)" ""
  same "no attachment is left in Cinder" "$(attachments)" ""
}
long_run || {
  expect "both servers are deleted while the second has the volume" web server delete --wait cinder-one cinder-two
  within 60 "Cinder has the volume available after the deletion" volume_is data available
  volume_goes
  verdict
}

# -------------------------------------------------------------------------- an extension while the guest has the volume

expect "the volume is extended while the guest has it" web --os-volume-api-version 3.42 volume set --size 2 data
within 60 "Cinder has the volume's new size" eval '[ "$(web volume show data -f value -c size)" = 2 ]'
within 60 "the running guest sees the new size" eval '[ "$(inside "$TWO" cat /sys/block/vdb/size)" = 4194304 ]'
like "the server's actions have the extension" "$(web server event list cinder-two -f value -c Action)" extend_volume

# ------------------------------------------------------------------- a restart between an attachment and its detachment

house_kill
house_start || bad "the control plane starts again" "$(tail -n 20 "$WORK/chronova.log")"
within 30 "the compute host is up again" host_is up
expect "the volume is detached after a restart" web server remove volume cinder-two data
within 60 "Cinder has the volume available after the restart" volume_is data available
same "Cinder has no attachment after the restart" "$(attachments)" ""

# ------------------------------------------------------------------------------------- Cinder dies during an attachment

expect "an attachment is requested, shortly before Cinder is killed" web server add volume cinder-one data
bash "$TESTBED/cinder.sh" kill "$CLOUD/cinder"
sleep 2
like "the health names Cinder" "$(curl -s "$URL/healthz")" '"service":"cinder"'
bash "$TESTBED/cinder.sh" up "$CLOUD/cinder" "$CLOUD/keystone" "$CLOUD/ceph" || bad "Cinder starts again"
settled() { volume_is data in-use || volume_is data available; }
within 120 "the volume is attached or free" settled
sleep 5
case $(web volume show data -f value -c status) in
  in-use) same "the attachment is complete" "$(attachments)" "$ONE attached"
    expect "the volume is detached after Cinder was killed" web server remove volume cinder-one data ;;
  *) same "no attachment is left after Cinder was killed" "$(attachments)" ""
    unlike "the guest has no disk of the volume" "$(v dumpxml "$ONE")" "$VOLUME" ;;
esac
within 60 "the volume is available after Cinder was killed" volume_is data available

# ---------------------------------------------------------------------------------------------------------- a wrong key

cp "$CONF" "$WORK/right.conf"
sed 's|key = .*|key = AQDzzzzzAAAAABAAzzzzzzzzzzzzzzzzzzzzzw==|' "$CLOUD/ceph/ceph.client.cinder.keyring" >"$WORK/wrong.keyring"
sed -i "s|^rbd_keyring = .*|rbd_keyring = $WORK/wrong.keyring|" "$CONF"
house_stop; house_start || bad "the control plane starts with a wrong key"
within 30 "the compute host is up with a wrong key" host_is up
expect "an attachment with a wrong key is requested" web server add volume cinder-one data
within 90 "the volume is available after the failed attachment" eval '[ -z "$(attachments)" ] && volume_is data available'
like "the server's action gives the reason of the failure" "$(failure_of cinder-one)" 'error connecting|Operation not permitted|Permission denied'
unlike "the guest has no disk after the failed attachment" "$(v dumpxml "$ONE")" "$VOLUME"
cp "$WORK/right.conf" "$CONF"
house_stop; house_start || bad "the control plane starts with the right key"
within 30 "the compute host is up with the right key" host_is up

# ------------------------------------------------------------------------------- a server that is created with a volume

web server create --wait --flavor cinder --network cinder --block-device \
  "uuid=$VOLUME,source_type=volume,destination_type=volume,boot_index=1" --image cinder cinder-three >"$WORK/boot-three" 2>&1 \
  || bad "a server is made with the volume" "$(tail -n 5 "$WORK/boot-three")"
THREE=$(web server show cinder-three -f value -c id); SERVERS+=("$THREE")
same "the third guest reads the word" "$(read_from "$THREE" vdb)" carried-over
expect "the third server is rebooted hard" web server reboot --hard --wait cinder-three
same "the third guest reads the word after the hard reboot" "$(read_from "$THREE" vdb)" carried-over

# ------------------------------------------------------------------------------ another attachment for a server that is off

attachment_ids() { curl -s -m 30 -H "X-Auth-Token: $ADMIN" -H 'OpenStack-API-Version: volume 3.44' "$CINDER/v3/$ADMIN_PROJECT/attachments?all_tenants=1" \
  | python3 -c 'import json, sys; print(*[a["id"] for a in json.load(sys.stdin)["attachments"]])'; }
expect "the third server is stopped" web server stop cinder-three
within 60 "the third server is off" web_is cinder-three SHUTOFF
BEFORE=$(attachment_ids)
same "the volume gets another attachment while the server is off" "$(status "$ADMIN" "/chronova/v1/servers/$THREE/attachments/$VOLUME" -X PUT \
  -d "{\"connector\": {\"host\": \"$(get server "$THREE" OS-EXT-SRV-ATTR:host)\"}}")" 200
within 60 "Cinder has another attachment" eval '[ "$(attachment_ids)" != "$BEFORE" ] && [ "$(attachments)" = "$THREE attached" ]'
expect "the third server is started" web server start cinder-three
within 120 "the third guest reads the word over the new attachment" eval '[ "$(read_from "$THREE" vdb)" = carried-over ]'
expect "the servers are deleted" web server delete --wait cinder-one cinder-two cinder-three
within 60 "Cinder has the volume available after the deletion of its server" volume_is data available
volume_goes
same "nothing of the servers is left on the host" "$(leftovers "$ONE")$(leftovers "$TWO")$(leftovers "$THREE")" ""
verdict
