#!/bin/bash
# A cloud that has a Glance beside its Keystone: servers boot from Glance's images, and Glance stores their snapshots.
# Barbican has the certificates of signed images.
# Chronova sends the user's token, and a service's token beside it. With CHRONOVA_SOAK=1, Glance is also slowed, stopped
# and killed during boots and snapshots.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TESTBED=$HERE/../testbed
. "$TESTBED/house.sh"
. "$TESTBED/cloud.sh"
. "$TESTBED/signatures.sh"
[ -x /usr/bin/barbican-wsgi-api ] && [ -x /usr/bin/glance-wsgi-api ] && [ -x /usr/bin/keystone-wsgi-public ] && [ -x /usr/bin/uwsgi_python3 ] \
  || { echo "no Glance or no Barbican here: setup_packages openstack of ops/setup.sh installs them"; exit 77; }

# How many seconds Glance may take for an answer.
PATIENCE=15

house_first() {
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" || { bad "Keystone starts"; exit 1; }
  bash "$TESTBED/glance.sh" up "$CLOUD/glance" "$CLOUD/keystone" || { bad "Glance starts"; exit 1; }
  bash "$TESTBED/barbican.sh" up "$CLOUD/barbican" "$CLOUD/keystone" || { bad "Barbican starts"; exit 1; }
  KEYSTONE=$(cat "$CLOUD/keystone/url") GLANCE=$(cat "$CLOUD/glance/url") BARBICAN=$(cat "$CLOUD/barbican/url")
  python3 "$TESTBED/enlist.py" "$KEYSTONE" "service=nova=compute=$URL/compute/v2.1" "service=neutron=network=$URL/network" \
    "service=placement=placement=$URL/placement" member=ann=web=member member=ann=web=creator member=eve=shop=member \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  { echo clouds:; cloud chronova admin admin; cloud web ann web; cloud shop eve shop; } >"$HOUSE_CLOUDS"
  local section
  for section in keystone_authtoken service_user; do
    echo "[$section]"
    account nova
  done >>"$CONF"
  printf '%s\n' 'timeout = 60' 'send_service_user_token = true' '[keystone_authtoken]' 'http_connect_timeout = 60' '[glance]' \
    "timeout = $PATIENCE" 'num_retries = 2' 'region_name = RegionOne' >>"$CONF"
  ok "Keystone answers at $KEYSTONE, Glance at $GLANCE, Barbican at $BARBICAN"
}

house_last() {
  local hash volume
  fast
  # The hosts' cache keeps images longer than this cloud lives.
  for hash in "${HASHES[@]}"; do
    for volume in $(v vol-list chronova | awk '{print $1}' | grep "^base-$hash"); do v vol-delete "$volume" chronova; done >/dev/null
  done
  bash "$TESTBED/barbican.sh" down "$CLOUD/barbican"
  bash "$TESTBED/glance.sh" down "$CLOUD/glance"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

# Sends a request to the control plane, and prints the status of the answer.
status() { local token=$1 path=$2; shift 2; ask "$token" "$URL$path" "$@"; } # token, path, more...
# Prints an answer of Glance to the administrator.
glance() { curl -s -m 30 -H "X-Auth-Token: $ADMIN" "$GLANCE/v2/$1"; }
image_is() { [ "$(glance "images/$1" | field status)" = "$2" ]; } # id, status
no_image() { [ "$(curl -s -m 30 -o /dev/null -w '%{http_code}' -H "X-Auth-Token: $ADMIN" "$GLANCE/v2/images/$1")" = 404 ]; }
snapshot_of() { # token of the user, name: requests a snapshot, and prints the id of its image
  status "$1" "$SERVERS_PATH/$ONE/action" -H "X-Service-Token: $SERVICE" -H 'OpenStack-API-Version: compute 2.45' \
    -d "{\"createImage\": {\"name\": \"$2\"}}" >"$WORK/status"
  field image_id <"$WORK/answer"
}
at_rest() { status "$WEB" "$SERVERS_PATH/$ONE" >/dev/null; [ "$(field server.status server.OS-EXT-STS:task_state <"$WORK/answer")" = "ACTIVE -" ]; }
web() { os --os-cloud web "$@"; }
glance_up() { bash "$TESTBED/glance.sh" up "$CLOUD/glance" "$CLOUD/keystone"; }
slow_down() { slow "$CLOUD/glance/pid" 0.48 0.02; }
# Whether the first bytes of a snapshot are in Glance's store.
arrives() { [ -s "$CLOUD/glance/images/$1" ]; }
on_host() { v pool-refresh chronova >/dev/null; v vol-list chronova | awk '{print $1}' | grep -x "$1"; }
is_on_host() { [ -n "$(on_host "base-$1")" ]; }
is_half_on_host() { is_on_host "$1" && [ -z "$(on_host "base-$1.complete")" ]; }
upload() { # name, file, more...: creates an image in the project web, and prints its id
  local name=$1 file=$2; shift 2
  web image create --disk-format raw --container-format bare --file "$file" "$@" "$name" -f value -c id
}
SERVERS_PATH=/compute/v2.1/servers HASHES=()

CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cloud.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml SIGNERS=$CLOUD/signers
house_open glance 10.84
ADMIN=$(token admin admin) WEB=$(token ann web) SHOP=$(token eve shop) SERVICE=$(token nova service)

# ------------------------------------------------------------------------------------------- the services of this cloud

like "the configuration says where images are" "$("$CHRONOVA_BIN" config check "$CONF")" \
  "note: \[chronova\] image_service: Glance at the image endpoint of Keystone's catalogue is the image service"
same "the embedded image API is not served" "$(status '' /image/v2/images)" 404
like "the answer says where the real image API is" "$(cat "$WORK/answer")" "image service of this cloud is at"
like "the health says that Glance is the image service" "$(curl -fsS "$URL/healthz")" '"images":\{"service":"glance"'

# ----------------------------------------------------------------------------------------------- a server from an image

# The image ends with random data, so that a snapshot takes a while in the long form.
qemu-img convert -O raw "$CHRONOVA_IMAGE" "$WORK/guest.raw"
head -c "$(long_run && echo 60M || echo 4M)" /dev/urandom >>"$WORK/guest.raw"
os flavor create --vcpus 1 --ram 160 --disk 1 glance -f value -c id >"$WORK/flavor" 2>&1 &
FLAVORING=$!
signer authority && signer publisher authority && signer stranger || bad "keys and certificates are made"
AUTHORITY=$(deposit "$WEB" authority) PUBLISHER=$(deposit "$WEB" publisher) STRANGER=$(deposit "$WEB" stranger)
IMAGE=$(os image create --disk-format raw --container-format bare --file "$WORK/guest.raw" --public glance -f value -c id)
mapfile -t SIGNED < <(signed publisher "$PUBLISHER" "$WORK/guest.raw")
os image set "${SIGNED[@]}" "$IMAGE" || bad "the image gets a signature"
NETWORK=$(web network create glance -f value -c id)
NETWORKS+=("$NETWORK")
web subnet create --network glance --subnet-range 10.84.1.0/24 glance >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
wait $FLAVORING || bad "the flavor is made" "$(cat "$WORK/flavor")"
FLAVOR=$(tail -n 1 "$WORK/flavor")
WANTED=(--flavor glance --network glance --config-drive True)
asks() { # image, name, more...: requests a server in the project web, and stores its id in ID and, for the clean-up, in SERVERS
  web server create "${WANTED[@]}" "${@:3}" --image "$1" "$2" -f value -c id >"$WORK/boot" 2>&1 || bad "$2 is requested" "$(tail -n 20 "$WORK/boot")"
  ID=$(tail -n 1 "$WORK/boot")
  SERVERS+=("$ID")
}
# Asks the API directly, because the client also asks Glance for each server's image.
server_is() { status "$WEB" "$SERVERS_PATH/$1" >/dev/null; [ "$(field server.status <"$WORK/answer")" = "$2" ]; } # id, status
asks glance glance-one --os-compute-api-version 2.63 --trusted-image-cert "$AUTHORITY"
ONE=$ID
within 90 "a server is made from a signed image in Glance" server_is "$ONE" ACTIVE
ready "$ONE" "a guest is booted from a signed image in Glance"
like "the log says that the signature was verified" "$(cat "$WORK/chronova.log")" "signature of an image was verified.*$IMAGE"
HASH=$(glance "images/$IMAGE" | field os_hash_value)
HASHES+=("$HASH")
same "the host keeps the image under Glance's hash" "$(on_host "base-$HASH.complete")" "base-$HASH.complete"

# ------------------------------------------------------------------------------------------------- visibility of images

head -c 1048576 /dev/urandom >"$WORK/private.raw"
PRIVATE=$(upload glance-private "$WORK/private.raw")
IMAGES_PATH=/compute/v2.1/images
same "Nova's old API shows a project its image" "$(status "$WEB" "$IMAGES_PATH/$PRIVATE")" 200
like "the old API shows the image's size" "$(cat "$WORK/answer")" '"OS-EXT-IMG-SIZE:size":1048576'
like "the old API shows the image's status" "$(cat "$WORK/answer")" '"status":"ACTIVE"'
same "another project does not find the image, and cannot delete it" "$(status "$SHOP" "$IMAGES_PATH/$PRIVATE") $(status "$SHOP" "$IMAGES_PATH/$PRIVATE" -X DELETE)" "404 404"
same "another project's list does not have the image" "$(status "$SHOP" "$IMAGES_PATH") $(grep -c "$PRIVATE" "$WORK/answer")" "200 0"
same "the old API changes a property" "$(status "$WEB" "$IMAGES_PATH/$PRIVATE/metadata" -d '{"metadata": {"colour": "red"}}')" 200
same "Glance has the changed property" "$(glance "images/$PRIVATE" | field colour)" red
REQUEST="{\"server\": {\"name\": \"glance-foreign\", \"imageRef\": \"$PRIVATE\", \"flavorRef\": \"$FLAVOR\"}}"
same "another project cannot boot a server from the image" "$(status "$SHOP" "$SERVERS_PATH" -d "$REQUEST")" 400
like "the refusal has Nova's words" "$(cat "$WORK/answer")" 'Can not find requested image|could not be found'

# -------------------------------------------------------------------------------- an image that is cached before a boot

AGGREGATE=$(os aggregate create glance -f value -c id)
os aggregate add host glance "$(os hypervisor list -f value -c 'Hypervisor Hostname')" >/dev/null || bad "the host is in an aggregate"
CACHE_IT="{\"cache\": [{\"id\": \"$PRIVATE\"}]}"
same "the caching of an image on the hosts of an aggregate is requested" \
  "$(status "$ADMIN" "/compute/v2.1/os-aggregates/$AGGREGATE/images" -H 'OpenStack-API-Version: compute 2.81' -d "$CACHE_IT")" 202
HASHES+=("$(glance "images/$PRIVATE" | field os_hash_value)")
within 30 "the image is on the host" is_on_host "${HASHES[1]}"

# ------------------------------------------------------------------------------------ an image whose bytes were changed

head -c 1048576 /dev/urandom >"$WORK/tampered.raw"
TAMPERED=$(upload glance-tampered "$WORK/tampered.raw")
printf 'other' | dd of="$CLOUD/glance/images/$TAMPERED" bs=1 seek=1000000 conv=notrunc status=none
asks glance-tampered glance-tampered
within 30 "a server from tampered bytes fails" server_is "$ID" ERROR
like "the fault says that the checksum does not match" "$(field server.fault.message <"$WORK/answer")" 'unacceptable: its content does not match its checksum'
same "no byte of the tampered image stays on the host" "$(on_host "base-$(glance "images/$TAMPERED" | field os_hash_value)")" ""
expect "the server from tampered bytes is deleted" web server delete --wait "$ID"

# ------------------------------------------------------------------------------------------ signatures and certificates

certified() { # image, trusted certificate, name: requests a server, and stores its id in ID, SERVERS and REFUSED
  status "$WEB" "$SERVERS_PATH" -H 'OpenStack-API-Version: compute 2.63' -d "{\"server\": {\"name\": \"$3\", \"imageRef\": \"$1\",
    \"flavorRef\": \"$FLAVOR\", \"networks\": \"none\", \"trusted_image_certificates\": [\"$2\"]}}" >"$WORK/status"
  ID=$(field server.id <"$WORK/answer")
  [ -n "$ID" ] || bad "$3 is requested" "$(cat "$WORK/answer")"
  SERVERS+=("$ID") REFUSED+=("$ID")
}
refused() { # id, words, pattern of the fault's message
  within 30 "$2" server_is "$1" ERROR
  like "the fault is Nova's: $2" "$(field server.fault.message <"$WORK/answer")" "^Build of instance $1 aborted: $3"
}
REFUSED=() MISMATCH="Signature verification for the image failed: the signature does not match the image's data"
mapfile -t SIGNED < <(signed publisher "$PUBLISHER" "$WORK/private.raw")
web image set "${SIGNED[@]}" "$PRIVATE" || bad "an image that the host has gets a signature"
head -c 1048576 /dev/urandom >"$WORK/forged.raw"
FORGED=$(upload glance-forged "$WORK/forged.raw")
web image set "${SIGNED[@]}" "$FORGED" || bad "an image gets another image's signature"
head -c 1048576 /dev/urandom >"$WORK/changed.raw"
CHANGED=$(upload glance-changed "$WORK/changed.raw")
mapfile -t SIGNED < <(signed publisher "$STRANGER" "$WORK/changed.raw")
web image set "${SIGNED[@]}" "$CHANGED" || bad "an image gets another's certificate"
certified "$FORGED" "$AUTHORITY" glance-forged; OF_FORGED=$ID
certified "$CHANGED" "$STRANGER" glance-stranger; OF_STRANGER=$ID
certified "$PRIVATE" "$STRANGER" glance-untrusted; OF_UNTRUSTED=$ID
certified "$TAMPERED" "$AUTHORITY" glance-unsigned; OF_UNSIGNED=$ID
refused "$OF_FORGED" "an image with a wrong signature does not boot" "$MISMATCH"
refused "$OF_STRANGER" "an image with another signer's certificate does not boot" "$MISMATCH"
refused "$OF_UNTRUSTED" "an image whose certificate is not trusted does not boot, although the host has it" \
  "Image signature certificate validation failed for certificate: $PUBLISHER. Certificate chain building failed"
like "the log names the certificate chain that could not be built" "$(grep -aF "$OF_UNTRUSTED" "$WORK/chronova.log")" 'Certificate chain building failed'
refused "$OF_UNSIGNED" "an unsigned image does not boot if certificates are required" \
  'Signature verification for the image failed: .*Missing property: img_signature_uuid'
# Somebody who writes to Glance's store and to its database changes the bytes and their checksums. The signature
# remains.
mapfile -t SIGNED < <(signed publisher "$PUBLISHER" "$WORK/changed.raw")
web image set "${SIGNED[@]}" "$CHANGED" || bad "the image gets its publisher's certificate"
printf 'other' | dd of="$CLOUD/glance/images/$CHANGED" bs=1 seek=1000000 conv=notrunc status=none
CHANGED_HASH=$(sha512sum "$CLOUD/glance/images/$CHANGED" | cut -d' ' -f1)
sqlite3 -cmd '.timeout 20000' "$CLOUD/glance/glance.db" "UPDATE images SET os_hash_value = '$CHANGED_HASH' WHERE id = '$CHANGED'"
same "Glance shows the checksum of the changed bytes" "$(glance "images/$CHANGED" | field os_hash_value)" "$CHANGED_HASH"
certified "$CHANGED" "$AUTHORITY" glance-changed
refused "$ID" "an image with changed bytes and changed checksums does not boot" "$MISMATCH"
same "no byte of a refused image is on the host" \
  "$(on_host "base-$CHANGED_HASH")$(on_host "base-$(sha512sum "$WORK/forged.raw" | cut -d' ' -f1)")" ""
REJECTED=("${REFUSED[@]}")
certified "$PRIVATE" "$AUTHORITY" glance-certified
within 30 "the signed image that the host has becomes a server's disk" server_is "$ID" ACTIVE
like "the health tells of the key manager" "$(curl -fsS "$URL/healthz")" '"key manager":\{"service":"barbican"'
bash "$TESTBED/barbican.sh" down "$CLOUD/barbican"
certified "$PRIVATE" "$AUTHORITY" glance-keyless
refused "$ID" "without Barbican, no signed image boots" "Signature verification for the image failed: Unable to retrieve certificate with ID: $PUBLISHER"
expect "the servers of signed images are deleted" web server delete --wait "${REFUSED[@]}"
for ID in "${REJECTED[@]}"; do same "a refused server leaves nothing on the host" "$(leftovers "$ID")" ""; done

# ---------------------------------------------------------------------------------- snapshots, and a token that expires

expired() { bash "$TESTBED/keystone.sh" expired "$CLOUD/keystone" "$WEB" "$@"; }
SNAPSHOT=$(snapshot_of "$(expired)" glance-expired)
same "a snapshot is requested with an expired token and a service's token" "$(cat "$WORK/status")" 202
within 60 "that snapshot gets into Glance" image_is "$SNAPSHOT" active
same "that snapshot belongs to the user's project" "$(glance "images/$SNAPSHOT" | field owner)" "$(os project show web -f value -c id)"
within 20 "the server is at rest after that snapshot" at_rest
METRICS=$(curl -fsS "$URL/metrics")
like "the metrics count the calls to Glance" "$METRICS" '^chronova_service_calls\{outcome="done",service="glance"\} [1-9]'
like "Glance's log has request ids" "$(grep -c "global_request_id\|req-" "$CLOUD/glance/glance.log")" '^[1-9]'
same "no token is in the log" "$(grep -cF -e "$WEB" -e "$SERVICE" -e "$ADMIN" "$WORK/chronova.log")" 0
long_run || {
  expect "the server is deleted" web server delete --wait "$ONE"
  same "nothing of the server is left on the host" "$(leftovers "$ONE")" ""
  verdict
}

# ------------------------------------------------------------------------- a token expires while Glance does not answer

slow_down
END=$((SECONDS + 12)) SHORT=$(snapshot_of "$(expired 12)" glance-short)
same "a snapshot is requested with a token that expires soon" "$(cat "$WORK/status")" 202
within 60 "the first bytes of that snapshot are in Glance" arrives "$SHORT"
fast
signal STOP "$CLOUD/glance/pid"
expect "those bytes came before the token expired" [ "$END" -gt "$SECONDS" ]
sleep $((END > SECONDS ? END - SECONDS + 1 : 1))
signal CONT "$CLOUD/glance/pid"
within 60 "that snapshot completes after the token expired" image_is "$SHORT" active
within 20 "the server is at rest after the snapshot with the short token" at_rest

# ---------------------------------------------------------------------------------------- Glance dies during a snapshot

slow_down
DYING=$(snapshot_of "$WEB" glance-dying)
within 60 "the upload of a snapshot has begun" arrives "$DYING"
signal KILL "$CLOUD/glance/pid"
fast
tells_of_glance() { curl -s "$URL/healthz" | grep -q '"state":"glance cannot be reached: Connection refused'; }
within 20 "the health says that Glance cannot be reached" tells_of_glance
glance_up
within 60 "a snapshot during which Glance died leaves no image" no_image "$DYING"
within 20 "the server is at rest after that failed snapshot" at_rest
same "the failed snapshot leaves no copy on the host" "$(v vol-list chronova | grep -c "${ONE}_copy")" 0

# ------------------------------------------------------------------------------------------- Glance fails during a boot

truncate -s 250M "$WORK/large.raw"
head -c 1048576 /dev/urandom | dd of="$WORK/large.raw" conv=notrunc status=none
LARGE=$(upload glance-large "$WORK/large.raw")
LARGE_HASH=$(glance "images/$LARGE" | field os_hash_value)
HASHES+=("$LARGE_HASH")
begins() { # name: requests a server from the large image; not with the client, which would wait for the slow Glance
  status "$WEB" "$SERVERS_PATH" -H 'OpenStack-API-Version: compute 2.37' -d "{\"server\": {\"name\": \"$1\", \"imageRef\": \"$LARGE\",
    \"flavorRef\": \"$FLAVOR\", \"networks\": [{\"uuid\": \"$NETWORK\"}]}}" >"$WORK/status"
  ID=$(field server.id <"$WORK/answer")
  [ -n "$ID" ] || bad "$1 is requested" "$(cat "$WORK/answer")"
  SERVERS+=("$ID")
}
slow_down
begins glance-killed
KILLED=$ID
within 60 "the download of a large image has begun" is_half_on_host "$LARGE_HASH"
signal KILL "$CLOUD/glance/pid"
fast
within 90 "a server fails if Glance does not send its whole image" server_is "$KILLED" ERROR
like "the log says that the image cannot be read" "$(cat "$WORK/chronova.log")" "$LARGE cannot be read now: glance"
same "no incomplete image is left on the host" "$(on_host "base-$LARGE_HASH")" ""
glance_up
slow_down
begins glance-hung
HUNG=$ID
within 60 "the download of the large image has begun again" is_half_on_host "$LARGE_HASH"
fast
signal STOP "$CLOUD/glance/pid"
sleep $((PATIENCE + 3))
signal CONT "$CLOUD/glance/pid"
within 90 "a server becomes ACTIVE although Glance hung for longer than its timeout" server_is "$HUNG" ACTIVE
like "the log says that Glance sent no more of its answer" "$(cat "$WORK/chronova.log")" 'glance stopped sending its answer'
signal STOP "$CLOUD/glance/pid"
BEGAN=$SECONDS
same "while Glance hangs, a request for a server gets 503" "$(status "$WEB" "$SERVERS_PATH" -d "${REQUEST/glance-foreign/glance-late}")" 503
expect "that request waits for one timeout only" [ $((SECONDS - BEGAN)) -lt $((2 * PATIENCE)) ]
signal CONT "$CLOUD/glance/pid"

# ------------------------------------------------------------------------------------------ without the service's token

sed -i 's/^send_service_user_token = true/send_service_user_token = false/' "$CONF"
like "the configuration check warns about the missing service's token" "$("$CHRONOVA_BIN" config check "$CONF")" 'long work fails once the user.s token has expired'
house_stop
house_start || bad "the control plane starts again" "$(tail -n 20 "$WORK/chronova.log")"
within 30 "the compute host is up again" host_is up
snapshot_of "$(expired)" glance-alone >/dev/null
same "without a service's token, a snapshot with an expired token is refused" "$(cat "$WORK/status")" 403
like "the refusal names the option to change" "$(cat "$WORK/answer")" 'send_service_user_token'
within 20 "the server is at rest after the refused snapshot" at_rest
same "the refused snapshot leaves no image" "$(glance 'images?name=glance-alone' | grep -c '"id"')" 0

expect "the servers are deleted" web server delete --wait "$ONE" "$KILLED" "$HUNG"
same "nothing of the servers is left on the host" "$(leftovers "$ONE")$(leftovers "$KILLED")$(leftovers "$HUNG")" ""
same "no token is in the log after all faults" "$(grep -cF -e "$WEB" -e "$SERVICE" -e "$ADMIN" "$WORK/chronova.log")" 0
verdict
