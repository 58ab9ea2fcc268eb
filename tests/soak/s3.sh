#!/bin/bash
# Archives and backups of a log in a real object store: Ceph's gateway for S3 (radosgw) on a Ceph of one OSD. Old events
# leave the log for a bucket, and every command still reads them there. A move is killed at many moments and repeated. The
# gateway dies and comes back, and the control plane starts without it. A backup goes to the bucket, large files as
# multipart uploads; it is verified, and restored elsewhere. With a wrong key, an unknown bucket, or a gateway that does
# not answer, the error says what to change.
#
#   CHRONOVA_BIN   the binary
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
TESTBED=$HERE
[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
needs_programs store ceph-mon ceph-osd radosgw radosgw-admin
CEPH=$(mktemp -d "${TMPDIR:-/tmp}/chronova-s3-ceph.XXXXXX") KEY=AKIDSOAK SECRET=soak/secret+key RGW=

gateway_up() {
  radosgw -f -n client.rgw.a --keyring "$CEPH/ceph.client.rgw.a.keyring" --conf "$CEPH/ceph.conf" \
    --rgw-frontends "beast endpoint=127.0.0.1:$GATE" --log-file "$CEPH/log/rgw.log" >>"$CEPH/log/rgw.out" 2>&1 </dev/null &
  RGW=$!
  wait_for 120 curl -s -m 5 -o /dev/null "http://127.0.0.1:$GATE"
}
gateway_down() { [ -z "$RGW" ] || { kill "$RGW" 2>/dev/null; wait "$RGW" 2>/dev/null; }; RGW=; }
house_last() {
  gateway_down
  bash "$TESTBED/ceph.sh" down "$CEPH"
  [ $FAILED -gt 0 ] || rm -rf "$CEPH"
}
ceph_run() { bash "$TESTBED/ceph.sh" run "$CEPH" "$@"; }

bash "$TESTBED/ceph.sh" up "$CEPH" >"$CEPH.out" 2>&1 || { bad "Ceph starts" "$(tail -n 20 "$CEPH.out")"; bash "$TESTBED/ceph.sh" down "$CEPH"; exit 1; }
rm -f "$CEPH.out"
ok "Ceph runs"
GATE=$(free_port) || cannot "no port is free"
ceph_run ceph auth get-or-create client.rgw.a mon 'allow rw' osd 'allow rwx' -o "$CEPH/ceph.client.rgw.a.keyring" >/dev/null 2>&1
# One OSD takes few placement groups by default, and the gateway makes a pool for each kind of its data.
ceph_run ceph config set global osd_pool_default_pg_num 4 >/dev/null 2>&1
ceph_run ceph config set global mon_max_pg_per_osd 500 >/dev/null 2>&1
sim_open s3 '[chronova]' 'hypervisors = sim://2'
expect "Ceph's gateway starts" gateway_up
ceph_run timeout 300 radosgw-admin user create --uid soak --display-name soak --access-key "$KEY" --secret-key "$SECRET" >"$WORK/user" 2>&1 ||
  { bad "the gateway gets a user" "$(tail -n 10 "$WORK/user")"; exit 1; }
printf 'aws_access_key_id = %s\naws_secret_access_key = %s\n' "$KEY" "$SECRET" >"$WORK/key"
chmod 600 "$WORK/key"

# Makes a bucket with curl. openssl computes Amazon's signature, so that the test does not rely on Chronova's client.
hmac() { printf '%s' "$2" | openssl dgst -sha256 -mac HMAC -macopt "$1" -binary | od -An -tx1 | tr -d ' \n'; } # key, text
make_bucket() { # name
  local at day empty scope text key part
  at=$(date -u +%Y%m%dT%H%M%SZ) day=${at%T*} empty=$(printf '' | sha256sum | cut -d' ' -f1)
  scope=$day/us-east-1/s3/aws4_request
  text=$(printf 'PUT\n/%s\n\nhost:127.0.0.1:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n\nhost;x-amz-content-sha256;x-amz-date\n%s' \
    "$1" "$GATE" "$empty" "$at" "$empty" | sha256sum | cut -d' ' -f1)
  key=$(hmac "key:AWS4$SECRET" "$day")
  for part in us-east-1 s3 aws4_request; do key=$(hmac "hexkey:$key" "$part"); done
  curl -sf -m 60 -X PUT -o /dev/null "http://127.0.0.1:$GATE/$1" -H "x-amz-date: $at" -H "x-amz-content-sha256: $empty" \
    -H "Authorization: AWS4-HMAC-SHA256 Credential=$KEY/$scope,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=$(hmac "hexkey:$key" "$(printf 'AWS4-HMAC-SHA256\n%s\n%s\n%s' "$at" "$scope" "$text")")"
}
expect "a bucket is made" make_bucket soak
printf '%s\n' "s3_endpoint = http://127.0.0.1:$GATE" "s3_key_file = $WORK/key" >>"$CONF"

at() { "$CHRONOVA_BIN" "$@" --data-dir "$DATA" --config-file "$CONF"; }
prune() { at log prune --older-than 0s --archives s3://soak/archive; }
asked() { "$@" >"$WORK/told" 2>&1; }
token() { # the administrator's
  curl -sSi -m 30 -H 'Content-Type: application/json' "$URL/identity/v3/auth/tokens" -d '{"auth":{"identity":{"methods":["password"],
    "password":{"user":{"name":"admin","domain":{"id":"default"},"password":"'"$PASSWORD"'"}}},"scope":{"project":{"name":"admin",
    "domain":{"id":"default"}}}}}' | tr -d '\r' | sed -n 's/^x-subject-token: //Ip'
}
code() { curl -sS -m 120 -o "$WORK/answer" -w '%{http_code}' -H "X-Auth-Token: $TOKEN" "$@"; } # the status of an answer

# ------------------------------------------------------------------------------------------------ a log and its archive

PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
expect "a scene is played" asked timeout 600 python3 "$HERE/audit_scene.py" "$URL" "$PASSWORD" "$WORK/scene" begin
expect "more of it" asked timeout 600 python3 "$HERE/audit_scene.py" "$URL" "$PASSWORD" "$WORK/scene" end
house_stop
at audit --without-index >"$WORK/before" 2>/dev/null
same "the listing has events" "$([ "$(wc -l <"$WORK/before")" -gt 50 ] && echo many)" many

for round in $(seq "$(long_run && echo 60 || echo 12)"); do
  prune >/dev/null 2>&1 &
  KILLED=$!
  sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
  kill -9 $KILLED 2>/dev/null; wait $KILLED 2>/dev/null
  at audit --without-index 2>/dev/null | cmp -s - "$WORK/before" || { bad "after a killed move, every event is there (round $round)"; break; }
done
ok "killed moves are over"
prune >"$WORK/told" 2>&1
like "the events are in the bucket" "$(cat "$WORK/told")" 'are in s3://soak/archive|nothing to move'
expect "the listing is the same" cmp -s "$WORK/before" <(at audit --without-index 2>/dev/null)
rm -rf "$DATA/archive.s3"
expect "the listing is the same without the cache" cmp -s "$WORK/before" <(at audit --without-index 2>/dev/null)
like "the log is whole" "$(at audit verify 2>&1)" 'the log is whole'
like "the archive is valid" "$(at audit verify-archive s3://soak/archive 2>&1)" '^valid: '
like "the read models are equal" "$(at rebuild 2>&1)" '^equal: '

# ---------------------------------------------------------------------------------------------- a gateway that goes away

gateway_down
rm -rf "$DATA/archive.s3"
TOLD=$(at audit --without-index 2>&1); STATUS=$?
same "without the gateway, a read of an archived event fails" "$STATUS" 2
like "and says what to check" "$TOLD" 's3_endpoint'
house_start || { bad "the control plane starts without the gateway" "$(tail -n 20 "$WORK/chronova.log")"; exit 1; }
ok "the control plane starts without the gateway"
expect "it serves while the gateway is away" curl -fsS -m 10 -o /dev/null "$URL/healthz"
TOKEN=$(token)
same "a user of the past logs in" "${TOKEN:+yes}" yes
same "servers are listed" "$(code "$URL/compute/v2.1/servers/detail?all_tenants=1")" 200
same "a user is created" "$(code "$URL/identity/v3/users" -H 'Content-Type: application/json' -d '{"user":{"name":"later"}}')" 201
same "a question about archived events is told to come later" "$(code "$URL/compute/v2.1/servers/detail?as_of=2")" 503
like "and says why" "$(cat "$WORK/answer")" 'the archive cannot be read now'
house_stop
expect "the gateway comes back" gateway_up
house_start || { bad "the control plane starts with the gateway" "$(tail -n 20 "$WORK/chronova.log")"; exit 1; }
gateway_down
expect "it serves when the gateway goes" curl -fsS -m 10 -o /dev/null "$URL/healthz"
expect "the gateway comes back again" gateway_up
expect "a server of the past is read through the API" asked timeout 600 python3 "$HERE/audit_scene.py" "$URL" "$PASSWORD" "$WORK/scene" after

# --------------------------------------------------------------------------------------------------------------- backups

# An image of more than one part.
TOKEN=$(token)
image() { curl -fsS -m 600 -H "X-Auth-Token: $TOKEN" "$@"; }
IMAGE=$(image "$URL/image/v2/images" -H 'Content-Type: application/json' \
  -d '{"name":"large","disk_format":"raw","container_format":"bare"}' | python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])')
head -c 150000000 /dev/urandom >"$WORK/large"
expect "a large image is uploaded" image -X PUT -H 'Content-Type: application/octet-stream' --data-binary "@$WORK/large" -o /dev/null "$URL/image/v2/images/$IMAGE/file"
expect "a backup is made beside the server" asked at backup create s3://soak/backups
expect "a second backup" asked at backup create s3://soak/backups
like "the backups are whole" "$(at backup verify s3://soak/backups 2>&1)" 'the backups are whole'
expect "older backups are removed" asked at backup prune s3://soak/backups --keep 1
"$CHRONOVA_BIN" backup restore s3://soak/backups --data-dir "$WORK/restored" --config-file "$CONF" >"$WORK/told" 2>&1
same "a backup is restored" $? 0
same "the large image is whole" "$(sha256sum <"$WORK/restored/images/$IMAGE")" "$(sha256sum <"$WORK/large")"
like "the restored log is whole" "$("$CHRONOVA_BIN" audit verify --data-dir "$WORK/restored" 2>&1)" 'the log is whole'

# -------------------------------------------------------------------------------------------------------------- refusals

TOLD=$(at backup list s3://nowhere/backups 2>&1)
like "an unknown bucket is told" "$TOLD" 'create the bucket nowhere'
printf 'aws_access_key_id = %s\naws_secret_access_key = wrong\n' "$KEY" >"$WORK/wrong"
TOLD=$(at backup list "s3://soak/backups?key_file=$WORK/wrong" 2>&1)
like "a wrong key is told" "$TOLD" "check the access key in $WORK/wrong"
house_stop
verdict
