#!/bin/bash
# A cloud that has a Keystone: its users, roles and tokens are the ones that count, by a nova.conf as kolla-ansible writes it.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../testbed/house.sh"
[ -x /usr/bin/keystone-wsgi-public ] && [ -x /usr/bin/uwsgi_python3 ] \
  || { echo "no Keystone here: setup_packages openstack of ops/setup.sh installs it"; exit 77; }

# How long a token's validity is remembered, and how long Keystone may take for an answer.
CACHE=3 PATIENCE=2
SECRET=kolla-Tz5x9QmP

cloud() { # NAME USER SCOPE...: a cloud of the client's file
  local name=$1 user=$2 line; shift 2
  printf '  %s:\n    region_name: RegionOne\n    identity_api_version: 3\n    auth:\n' "$name"
  for line in "auth_url: $KEYSTONE/v3" "username: $user" "password: secret" "user_domain_name: Default" "$@"; do
    printf '      %s\n' "$line"
  done
}

house_first() {
  bash "$HERE/../testbed/keystone.sh" up "$KEYSTONE_DIR" || { bad "Keystone starts" "$(tail -n 20 "$KEYSTONE_DIR/uwsgi.log")"; exit 1; }
  KEYSTONE=$(cat "$KEYSTONE_DIR/url")
  local of_project=("project_domain_name: Default")
  {
    echo clouds:
    cloud chronova admin "project_name: admin" "${of_project[@]}"
    cloud web ann "project_name: web" "${of_project[@]}"
    cloud web-reader rob "project_name: web" "${of_project[@]}"
    cloud shop eve "project_name: shop" "${of_project[@]}"
    cloud system admin "system_scope: all"
  } >"$HOUSE_CLOUDS"
  ok "Keystone answers at $KEYSTONE"
  # As the installation guide has it.
  local type url interface user
  for user in service web shop; do os project create "$user" >/dev/null; done
  os role create service >/dev/null
  os user create --password "$SECRET" nova >/dev/null && os role add --project service --user nova service
  os role add --project service --user nova admin
  for user in ann eve rob; do os user create --password secret "$user" >/dev/null; done
  os role add --project web --user ann member
  os role add --project web --user rob reader
  os role add --project shop --user eve member
  os role add --system all --user admin admin
  while read -r type url; do
    os service create --name "$type" "$type" >/dev/null
    for interface in public internal; do os endpoint create --region RegionOne "$type" $interface "$URL/$url" >/dev/null; done
  done <<<'compute compute/v2.1
placement placement
image image
network network'
  nova_conf "$SECRET" >>"$CONF"
}

# What kolla-ansible writes into nova.conf about the services beside Nova. Not all of it has a meaning here.
nova_conf() { # password
  cat <<CONF
[oslo_concurrency]
lock_path = $WORK/lock

[oslo_messaging_rabbit]
amqp_durable_queues = true

[keystone_authtoken]
service_type = compute
www_authenticate_uri = $KEYSTONE
auth_url = $KEYSTONE
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = service
username = nova
password = $1
cafile =
region_name = RegionOne
memcache_security_strategy = ENCRYPT
memcache_secret_key = w4tQ8pWXGnVSDfwG6GLn
memcached_servers = 127.0.0.1:11211
token_cache_time = $CACHE
http_connect_timeout = $PATIENCE
service_token_roles_required = true
service_token_roles = service
CONF
}

house_last() {
  bash "$HERE/../testbed/keystone.sh" down "$KEYSTONE_DIR"
  [ $FAILED -gt 0 ] || rm -rf "$KEYSTONE_DIR"
}

# The status of a request with a token.
status() { # token, path, more...
  local token=$1 path=$2; shift 2
  curl -s -m 30 -o "$WORK/answer" -w '%{http_code}' -H "X-Auth-Token: $token" "$@" "$URL$path"
}
answers() { [ "$(status "$2" "$3")" = "$1" ]; } # status, token, path
token() { os --os-cloud "$1" token issue -f value -c id; }
SERVERS_PATH=/compute/v2.1/servers

KEYSTONE_DIR=$(mktemp -d "${TMPDIR:-/tmp}/chronova-keystone.XXXXXX") HOUSE_CLOUDS=$KEYSTONE_DIR/clouds.yaml
house_open keystone 10.83

# ------------------------------------------------------------------------------------------------- what is served here

CHECKED=$("$CHRONOVA_BIN" config check --config-file "$CONF")
like "the configuration is usable" "$CHECKED" '^usable: 0 errors'
like "... and says that Keystone is the identity service" "$CHECKED" "note: \[keystone_authtoken\] auth_url: Keystone at $KEYSTONE is the identity service"
sed 's/^password = .*//' "$CONF" >"$WORK/half.conf"
like "half an account is not usable" "$("$CHRONOVA_BIN" config check --config-file "$WORK/half.conf")" \
  'error: \[keystone_authtoken\] password is not set'
like "the health says where the identity service is" "$(curl -fsS "$URL/healthz")" "\"identity\":\{\"service\":\"keystone\",\"place\":\"$KEYSTONE\""
same "the embedded identity API is not served" "$(status '' /identity/v3)" 404
like "... and says where the real one is" "$(cat "$WORK/answer")" "identity service of this cloud is at $KEYSTONE"
same "no file with credentials is written" "$(ls "$DATA"/clouds.yaml 2>/dev/null)" ""
like "a request without a token is sent to Keystone" "$(curl -s -D - -o /dev/null "$URL$SERVERS_PATH")" "Keystone uri=\"$KEYSTONE\""
same "a forged token is no token" "$(status gAAAAABforged "$SERVERS_PATH")" 401

# ---------------------------------------------------------------------------------------------------------- a server

os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public keystone >"$WORK/image" 2>&1 \
  || bad "the image is uploaded" "$(cat "$WORK/image")"
os flavor create --vcpus 1 --ram 160 --disk 1 keystone >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"
os --os-cloud web network create keystone >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
os --os-cloud web subnet create --network keystone --subnet-range 10.83.1.0/24 keystone >"$WORK/subnet" 2>&1 \
  || bad "the subnet is made" "$(cat "$WORK/subnet")"
NETWORKS+=("$(os --os-cloud web network show keystone -f value -c id)")
WANTED=(--flavor keystone --image keystone --network keystone --config-drive True)
os --os-cloud web server create --wait "${WANTED[@]}" keystone-one >"$WORK/boot" 2>&1 \
  || bad "a member's server is made" "$(tail -n 20 "$WORK/boot")"
ONE=$(os --os-cloud web server show keystone-one -f value -c id)
SERVERS+=("$ONE")
ready "$ONE" "a member's guest is booted"
same "the member sees it" "$(os --os-cloud web server list -f value -c Name -c Status)" "keystone-one ACTIVE"
PROJECT=$(os project show web -f value -c id)
same "it belongs to the member's project" "$(get server "$ONE" project_id)" "$PROJECT"
same "another project sees nothing" "$(os --os-cloud shop server list -f value -c ID)" ""
like "... and does not find it by its id" "$(os --os-cloud shop server show "$ONE" 2>&1)" 'No server|could not be found|404'
like "... nor deletes it" "$(os --os-cloud shop server delete "$ONE" 2>&1)" 'No server|could not be found|404'
same "a reader sees it" "$(os --os-cloud web-reader server list -f value -c Name)" keystone-one
READER=$(token web-reader)
same "a reader may stop nothing" "$(status "$READER" "$SERVERS_PATH/$ONE/action" -H 'Content-Type: application/json' -d '{"os-stop": null}')" 403
same "a member sees no hypervisors" "$(status "$(token web)" /compute/v2.1/os-hypervisors)" 403
like "an administrator does" "$(os hypervisor list -f value -c State)" '^up$'
same "a token of the system is of another scope" "$(status "$(token system)" /compute/v2.1/os-hypervisors)" 403
same "... and good for what is the system's" "$(status "$(token system)" /compute/v2.1/os-services)" 403

# ------------------------------------------------------------------------------------------------------------- quotas

like "the quota of a project is shown" "$(os quota show --compute web 2>/dev/null)" ' instances +\| +10 '
expect "a quota is set by the project's name" os quota set --instances 1 web
like "... and shown" "$(os quota show --compute web -f value 2>/dev/null)" '(^| )instances 1( |$)'
like "... and enforced" "$(os --os-cloud web server create "${WANTED[@]}" keystone-two 2>&1)" 'Quota exceeded for instances'
QUOTA=/compute/v2.1/os-quota-sets/0123456789abcdef0123456789abcdef
same "a project that Keystone does not know has no quota" "$(status "$(token chronova)" "$QUOTA")" 400
like "... and that is said" "$(cat "$WORK/answer")" 'is not a valid project'

# ---------------------------------------------------------------------------------------- application credentials

RULES='[{"service": "compute", "method": "GET", "path": "/v2.1/servers"}]'
os --os-cloud web application credential create --secret s3cret --access-rules "$RULES" narrow >"$WORK/credential" 2>&1 \
  || bad "an application credential is made" "$(cat "$WORK/credential")"
CREDENTIAL=$(os --os-cloud web application credential show narrow -f value -c id)
NARROW=$(curl -s -D - -o /dev/null -H 'Content-Type: application/json' "$KEYSTONE/v3/auth/tokens" -d "{\"auth\": {\"identity\": {
  \"methods\": [\"application_credential\"], \"application_credential\": {\"id\": \"$CREDENTIAL\", \"secret\": \"s3cret\"}}}}" \
  | tr -d '\r' | sed -n 's/^X-Subject-Token: //Ip')
same "an application credential with access rules lists servers" "$(status "$NARROW" "$SERVERS_PATH")" 200
same "... and is good for nothing else" "$(status "$NARROW" "$SERVERS_PATH/$ONE") $(status "$NARROW" /compute/v2.1/flavors)" "401 401"

# --------------------------------------------------------------------------------------------- tokens that are taken back

REVOKED=$(token web)
same "a token counts" "$(status "$REVOKED" "$SERVERS_PATH")" 200
os token revoke "$REVOKED"
within $((CACHE + 2)) "a revoked token counts no more, once the cache's time is over" answers 401 "$REVOKED" "$SERVERS_PATH"
FIRED=$(token shop)
same "a token counts" "$(status "$FIRED" "$SERVERS_PATH")" 200
os user set --disable eve
within $((CACHE + 2)) "a user who is switched off is out" answers 401 "$FIRED" "$SERVERS_PATH"

# ------------------------------------------------------------------------------------- the service's own account fails

A=$(token web) B=$(token web)
os user set --password something-else nova
within $((CACHE + 3)) "with a wrong password of its own nobody gets in" answers 503 "$A" "$SERVERS_PATH"
like "... which the client is told" "$(cat "$WORK/answer")" 'Keystone service is temporarily unavailable'
like "... and the log says why" "$(tail -n 50 "$WORK/chronova.log")" "own account no token \(401"
same "... not even a forged token is judged" "$(status gAAAAABforged "$SERVERS_PATH")" 503
os user set --password "$SECRET" nova
within 10 "with the right one all is well again" answers 200 "$A" "$SERVERS_PATH"

# ------------------------------------------------------------------------------------------------ Keystone goes away

C=$(token web) PID=$(cat "$KEYSTONE_DIR/pid")
kill -STOP -- "-$PID"
BEFORE=$SECONDS
same "a Keystone that hangs lets nobody in" "$(status "$C" "$SERVERS_PATH")" 503
expect "... and nobody waits for long" [ $((SECONDS - BEFORE)) -le $((PATIENCE + 1)) ]
for _ in 1 2 3; do status "$C" "$SERVERS_PATH" >/dev/null; done
TOOK=$(curl -s -m 30 -o /dev/null -w '%{time_total}' -H "X-Auth-Token: $C" "$URL$SERVERS_PATH")
expect "... and after a few requests nobody waits at all ($TOOK s)" awk "BEGIN { exit !($TOOK < 0.5) }"
like "the health says so" "$(curl -s "$URL/healthz")" '"state":"keystone does not answer within 2 s"'
same "... and that Chronova itself is well" "$(curl -s -o /dev/null -w '%{http_code}' "$URL/healthz")" 200
same "the guest runs on" "$(v domstate "$ONE" | head -n 1)" running
kill -CONT -- "-$PID"
within 15 "when it answers again, so does Chronova" answers 200 "$C" "$SERVERS_PATH"

kill -KILL -- "-$PID"
D=$A
within $((CACHE + 3)) "a Keystone that is gone lets nobody in" answers 503 "$D" "$SERVERS_PATH"
like "the health says so" "$(curl -s "$URL/healthz")" '"state":"keystone cannot be reached: Connection refused'
bash "$HERE/../testbed/keystone.sh" up "$KEYSTONE_DIR"
within 15 "when it is back, so is Chronova" answers 200 "$D" "$SERVERS_PATH"
METRICS=$(curl -fsS "$URL/metrics")
like "the calls are counted" "$METRICS" '^chronova_service_calls\{outcome="unanswered",service="keystone"\} [1-9]'
like "... and that Keystone answers" "$METRICS" '^chronova_service_answers\{service="keystone"\} 1'

expect "the server is deleted" os --os-cloud web server delete --wait keystone-one
same "nothing is left on the host" "$(leftovers "$ONE")" ""
same "no secret is in the log" "$(grep -cE "$SECRET|$A|$C|s3cret" "$WORK/chronova.log")" 0
verdict
