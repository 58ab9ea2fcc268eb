#!/bin/bash
# Encrypted volumes of a real Cinder in a real Ceph, with their keys in a real Barbican. QEMU decrypts them: the host has
# no device. A guest writes a word, which is not in Ceph; another guest reads it. The passphrase is in no log and in no
# definition, and leaves the host with the volume. A guest keeps the volume over a hard reboot, and boots from another
# one. A volume without its key is a clear fault. Barbican also keeps the passphrase of a guest's emulated TPM.
#
# As root, about eight minutes. It uses this machine's libvirtd, so no other script with it may run at the same time. Exit
# status as in house.sh.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TESTBED=$HERE/../testbed
. "$TESTBED/house.sh"
. "$TESTBED/cloud.sh"
needs_programs cinder keystone-wsgi-public barbican-wsgi-api uwsgi_python3 cinder-volume ceph-mon ceph-osd mariadbd
needs_programs testbed swtpm

house_first() {
  local section ceph
  bash "$TESTBED/ceph.sh" up "$CLOUD/ceph" >"$CLOUD/ceph.out" 2>&1 &
  ceph=$!
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" || { bad "Keystone starts"; exit 1; }
  KEYSTONE=$(cat "$CLOUD/keystone/url")
  bash "$TESTBED/barbican.sh" up "$CLOUD/barbican" "$CLOUD/keystone" || { bad "Barbican starts"; exit 1; }
  BARBICAN=$(cat "$CLOUD/barbican/url")
  python3 "$TESTBED/enlist.py" "$KEYSTONE" "service=nova=compute=$URL/compute/v2.1" "service=glance=image=$URL/image" \
    "service=neutron=network=$URL/network" "service=placement=placement=$URL/placement" member=ann=web=member member=ann=web=creator \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  wait $ceph || { bad "Ceph starts" "$(tail -n 20 "$CLOUD/ceph.out")"; exit 1; }
  # Cinder reads images from the control plane's own image service.
  mkdir "$CLOUD/images"
  echo "$URL/image" >"$CLOUD/images/url"
  KEYS_AT=$BARBICAN bash "$TESTBED/cinder.sh" up "$CLOUD/cinder" "$CLOUD/keystone" "$CLOUD/ceph" "$CLOUD/images" || { bad "Cinder starts"; exit 1; }
  CINDER=$(cat "$CLOUD/cinder/url") SECRET=$(cat "$CLOUD/cinder/secret")
  { echo clouds:; cloud chronova admin admin; cloud web ann web; } >"$HOUSE_CLOUDS"
  for section in keystone_authtoken service_user; do echo "[$section]"; account nova; done >>"$CONF"
  printf '%s\n' 'timeout = 60' 'send_service_user_token = true' '[keystone_authtoken]' 'http_connect_timeout = 60' \
    '[cinder]' 'os_region_name = RegionOne' 'timeout = 60' '[chronova]' 'image_service = embedded' \
    "rbd_keyring = $CLOUD/ceph/ceph.client.cinder.keyring" 'key_manager = external' '[libvirt]' 'swtpm_enabled = true' >>"$CONF"
  ok "Keystone answers at $KEYSTONE, Barbican at $BARBICAN, Cinder at $CINDER, Ceph at $(cat "$CLOUD/ceph/monitor")"
}

house_last() {
  bash "$TESTBED/cinder.sh" down "$CLOUD/cinder"
  bash "$TESTBED/ceph.sh" down "$CLOUD/ceph"
  bash "$TESTBED/barbican.sh" down "$CLOUD/barbican"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  v secret-undefine "$SECRET" >/dev/null
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

web() { os --os-cloud web "$@"; }
asked() { os "$@" >"$WORK/did" 2>&1; }
rbd() { bash "$TESTBED/ceph.sh" run "$CLOUD/ceph" rbd "$@" 2>/dev/null; }
volume_is() { [ "$(web volume show "$1" -f value -c status 2>/dev/null)" = "$2" ]; } # volume, status
web_ready() { within 180 "$1 is booted" eval "web console log show $1 2>/dev/null | grep -aq 'GUEST-READY hostname=.* boots=${2:-1} '"; } # server, boots
write_to() { inside "$1" "echo $3 | dd of=/dev/$2 bs=512 seek=200 conv=fsync 2>/dev/null"; } # uuid, disk, word
read_from() { inside "$1" "dd if=/dev/$2 bs=512 skip=200 count=1 iflag=direct 2>/dev/null | head -n 1"; } # uuid, disk
failure_of() { web server event show "$1" "$(web server event list "$1" -f value -c 'Request ID' | head -n 1)" -f json 2>/dev/null; } # server
key_of() { # volume: prints the id of its key
  curl -s -m 30 -H "X-Auth-Token: $ADMIN" "$CINDER/v3/$ADMIN_PROJECT/volumes/$1/encryption" | field encryption_key_id
}
# How many secrets of the host are for this usage, or that libvirtd does not answer.
secrets_for() { local all; if all=$(v secret-list); then grep -c " $1 " <<<"$all"; else echo "no answer"; fi; } # usage
opening() { secrets_for volume; }
secret() { # name, options...: makes an encrypted volume
  local name=$1; shift
  web volume create --size 1 --type secret "$@" "$name" >"$WORK/volume-$name" 2>&1 || bad "the volume $name is requested" "$(tail -n 5 "$WORK/volume-$name")"
  within 120 "Cinder has made the volume $name" volume_is "$name" available
}

CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cloud.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml
chmod 755 "$CLOUD"
house_open sealed 10.94
ADMIN=$(token admin admin) ADMIN_PROJECT=$(os project show admin -f value -c id)
like "the health says where keys are" "$(curl -fsS "$URL/healthz")" '"service":"barbican"'

os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public sealed >"$WORK/image" 2>&1 \
  || bad "the image is uploaded" "$(cat "$WORK/image")"
os flavor create --vcpus 1 --ram 160 --disk 1 sealed >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"
web network create sealed >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
web subnet create --network sealed --subnet-range 10.94.1.0/24 sealed >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
NETWORKS+=("$(web network show sealed -f value -c id)")
for name in sealed-one sealed-two; do
  web server create --flavor sealed --image sealed --network sealed "$name" >"$WORK/boot-$name" 2>&1 \
    || bad "$name is requested" "$(tail -n 5 "$WORK/boot-$name")"
done
ONE=$(web server show sealed-one -f value -c id) TWO=$(web server show sealed-two -f value -c id)
SERVERS+=("$ONE" "$TWO")

# -------------------------------------------------------------------------------------------- from one guest to another

expect "Cinder gets an encrypted volume type" asked volume type create --encryption-provider luks --encryption-cipher aes-xts-plain64 \
  --encryption-key-size 256 --encryption-control-location front-end secret
secret data
VOLUME=$(web volume show data -f value -c id)
KEY=$(key_of "$VOLUME")
like "Cinder has made a key for the volume" "$KEY" '-....-'
PASSPHRASE=$(curl -s -m 30 -H "X-Auth-Token: $(token ann web)" -H 'Accept: application/octet-stream' "$BARBICAN/v1/secrets/$KEY/payload" | od -An -v -tx1 | tr -d ' \n')
same "the key has 256 bits" "${#PASSPHRASE}" 64
web_ready sealed-one
expect "the encrypted volume is attached to a running guest" web server add volume sealed-one data
within 60 "Cinder has the volume in use" volume_is data in-use
within 30 "the guest sees the disk" sees_disk "$ONE" vdb
DEFINED=$(v dumpxml --security-info "$ONE" | tr -d '\n')
like "QEMU itself decrypts the volume in Ceph" "$DEFINED" "name='volumes/volume-$VOLUME'.*<encryption format='luks'"
same "the host has one secret for a volume" "$(opening)" 1
same "the passphrase is in no definition" "$(grep -cF "$PASSPHRASE" <<<"$DEFINED")" 0
same "the passphrase is in no log" "$(cat "$DATA"/log.db* "$WORK/chronova.log" | grep -acF "$PASSPHRASE")" 0
expect "the guest writes a word on the encrypted volume" write_to "$ONE" vdb written-by-one
same "the guest reads the word" "$(read_from "$ONE" vdb)" written-by-one
rbd export "volumes/volume-$VOLUME" - >"$WORK/raw"
same "the volume in Ceph begins as LUKS" "$(head -c 4 "$WORK/raw")" LUKS
same "the word is not in Ceph" "$(grep -ac written-by-one "$WORK/raw")" 0
expect "the server is rebooted hard" web server reboot --hard --wait sealed-one
web_ready sealed-one 2
same "the guest reads the word after the hard reboot" "$(read_from "$ONE" vdb)" written-by-one
expect "the volume is detached" web server remove volume sealed-one data
within 60 "Cinder has the volume available" volume_is data available
same "the host does not have the secret any more" "$(opening)" 0
web_ready sealed-two
expect "the volume is attached to another guest" web server add volume sealed-two data
within 30 "the other guest sees the disk" sees_disk "$TWO" vdb
same "the other guest reads the word of the first one" "$(read_from "$TWO" vdb)" written-by-one

# -------------------------------------------------------------------------------------------------- a guest boots from one

secret root --image sealed
web server create --wait --flavor sealed --network sealed --volume root sealed-three >"$WORK/boot-three" 2>&1 \
  || bad "a server is made from an encrypted volume" "$(tail -n 5 "$WORK/boot-three")"
THREE=$(web server show sealed-three -f value -c id); SERVERS+=("$THREE")
web_ready sealed-three
like "QEMU decrypts the root disk" "$(v dumpxml "$THREE" | tr -d '\n')" "volume-$(web volume show root -f value -c id)'.*<encryption format='luks'.*dev='vda'"
expect "the servers with encrypted volumes are deleted" web server delete --wait sealed-two sealed-three
same "no secret of a volume is left" "$(opening)" 0

# ------------------------------------------------------------------------------------------------------ a key that is gone

within 60 "Cinder has the volume available after the deletion" volume_is data available
same "the key is deleted" "$(ask "$(token ann web)" "$BARBICAN/v1/secrets/$KEY" -X DELETE)" 204
expect "an attachment without the key is requested" web server add volume sealed-one data
within 90 "the volume is available after the failed attachment" eval '[ -z "$(attachments)" ] && volume_is data available'
like "the server's action gives the reason of the failure" "$(failure_of sealed-one)" 'key of the encrypted volume cannot be read'
unlike "the guest has no disk after the failed attachment" "$(v dumpxml "$ONE" || echo "no answer, nothing is known of $VOLUME")" "$VOLUME"
expect "the server without its volume is deleted" web server delete --wait sealed-one

# -------------------------------------------------------------------------------------------- the passphrase of a TPM

# How many passphrases Barbican has, or that it does not answer.
tpms() {
  local all
  all=$(curl -fsS -m 30 -H "X-Auth-Token: $(token ann web)" "$BARBICAN/v1/secrets?limit=100" 2>&1) || { echo "no answer: $all"; return; }
  grep -o '"name": "chronova-tpm-[^"]*"' <<<"$all" | wc -l
}
expect "a flavor with a TPM is made" asked flavor create --vcpus 1 --ram 160 --disk 1 --property hw:tpm_version=2.0 --property hw:tpm_model=tpm-tis sealed-tpm
web server create --wait --flavor sealed-tpm --image sealed --network sealed sealed-four >"$WORK/boot-four" 2>&1 \
  || bad "a server with a TPM is made" "$(tail -n 5 "$WORK/boot-four")"
FOUR=$(web server show sealed-four -f value -c id); SERVERS+=("$FOUR")
web_ready sealed-four
same "Barbican has one passphrase of a TPM" "$(tpms)" 1
same "the host has no passphrase of a TPM" "$(secrets_for vtpm)" 0
expect "the server with a TPM is stopped" web server stop sealed-four
within 60 "the server with a TPM is off" eval '[ "$(web server show sealed-four -f value -c status)" = SHUTOFF ]'
expect "the server with a TPM is started" web server start sealed-four
web_ready sealed-four 2
expect "the server with a TPM is deleted" web server delete --wait sealed-four
same "Barbican has no passphrase of a TPM any more" "$(tpms)" 0
same "nothing of the servers is left on the host" "$(leftovers "$ONE")$(leftovers "$TWO")$(leftovers "$THREE")$(leftovers "$FOUR")" ""
verdict
