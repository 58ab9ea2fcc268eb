#!/bin/bash
# The control plane in a cloud with a real Keystone, and with a nova.conf as kolla-ansible writes it. Only Keystone's
# users, roles and tokens are valid.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../testbed/house.sh"
[ -x /usr/bin/keystone-wsgi-public ] && [ -x /usr/bin/uwsgi_python3 ] \
  || { echo "no Keystone here: setup_packages openstack of ops/setup.sh installs it"; exit 77; }

# How many seconds a token's validity is remembered, and how many Keystone may take for an answer.
CACHE=3 PATIENCE=6
SECRET=kolla-Tz5x9QmP

cloud() { # NAME USER SCOPE...: prints the entry NAME of a clouds.yaml
  local name=$1 user=$2 line; shift 2
  printf '  %s:\n    region_name: RegionOne\n    identity_api_version: 3\n    auth:\n' "$name"
  for line in "auth_url: $KEYSTONE/v3" "username: $user" "password: secret" "user_domain_name: Default" "$@"; do
    printf '      %s\n' "$line"
  done
}

house_first() {
  bash "$HERE/../testbed/keystone.sh" up "$KEYSTONE_DIR" || { bad "Keystone starts" "$(tail -n 20 "$KEYSTONE_DIR/uwsgi.log")"; exit 1; }
  KEYSTONE=$(cat "$KEYSTONE_DIR/url")
  COMPUTE=http://127.0.0.1:$(free_port)
  PLACEMENT=http://127.0.0.1:$(free_port)
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
  people "$SECRET" >"$KEYSTONE_DIR/users" || { bad "Keystone gets its users, roles and services"; exit 1; }
  nova_conf "$SECRET" >>"$CONF"
}

# Creates users, roles and the catalogue, as in the installation guide; prints the ids of two users. Plain
# requests are faster than the client, which takes seconds for each command.
people() { # password of nova
  python3 - "$KEYSTONE/v3" "$1" "compute=$COMPUTE/v2.1" "placement=$PLACEMENT" "image=$URL/image" "network=$URL/network" <<'PYTHON'
import json, sys, urllib.request
root, secret, *services = sys.argv[1:]
token = None

def call(method, path, body=None):
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    request = urllib.request.Request(root + path, json.dumps(body).encode() if body else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers, json.loads(answer.read() or "null")

def make(kind, **values):
    return call("POST", "/%ss" % kind, {kind: values})[1][kind]["id"]

def user(name, password, project, *names):
    made = make("user", name=name, password=password, domain_id="default")
    for role in names:
        call("PUT", "/projects/%s/users/%s/roles/%s" % (projects[project], made, roles[role]))
    return made

default = {"id": "default"}
admin = {"methods": ["password"], "password": {"user": {"name": "admin", "domain": default, "password": "secret"}}}
scope = {"project": {"name": "admin", "domain": default}}
headers, body = call("POST", "/auth/tokens", {"auth": {"identity": admin, "scope": scope}})
token = headers["X-Subject-Token"]
roles = {role["name"]: role["id"] for role in call("GET", "/roles")[1]["roles"]}
roles.setdefault("service", None) or roles.update(service=make("role", name="service"))
projects = {name: make("project", name=name, domain_id="default") for name in ("service", "web", "shop")}
print("nova", user("nova", secret, "service", "service", "admin"))
user("placement", secret, "service", "service", "admin")
ann = user("ann", "secret", "web", "member")
call("PUT", "/domains/default/users/%s/roles/%s" % (ann, roles["member"]))
user("rob", "secret", "web", "reader")
print("eve", user("eve", "secret", "shop", "member"))
for name, url in (service.split("=") for service in services):
    service = make("service", name=name, type=name)
    for interface in "public", "internal", "admin":
        make("endpoint", service_id=service, interface=interface, region_id="RegionOne", url=url)
PYTHON
}

# Prints this test's section [chronova], and the lines that kolla-ansible writes into nova.conf about the services
# beside Nova. Some of these lines have no effect on Chronova.
nova_conf() { # password
  cat <<CONF
[chronova]
image_service = embedded
compute_listen = ${COMPUTE#http://}
placement_listen = ${PLACEMENT#http://}

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

# Sends a request with a token, and prints the status of the answer.
status() { # token, path, more...
  local token=$1 path=$2; shift 2
  curl -s -m 30 -o "$WORK/answer" -w '%{http_code}' -H "X-Auth-Token: $token" "$@" "$URL$path"
}
answers() { [ "$(status "$2" "$3")" = "$1" ]; } # status, token, path
# Requests a token without the client. The argument is a cloud of clouds.yaml, `nova` or `domain`.
token() {
  local user scope password=secret
  case $1 in
    chronova) user=admin scope=admin ;; web) user=ann scope=web ;; web-reader) user=rob scope=web ;; shop) user=eve scope=shop ;;
    nova) user=nova scope=service password=$SECRET ;; system) user=admin scope= ;; domain) user=ann scope= ;;
  esac
  case $1 in
    system) scope='"system": {"all": true}' ;;
    domain) scope='"domain": {"id": "default"}' ;;
    *) scope="\"project\": {\"name\": \"$scope\", \"domain\": {\"id\": \"default\"}}" ;;
  esac
  subject "{\"methods\": [\"password\"], \"password\": {\"user\":
    {\"name\": \"$user\", \"domain\": {\"id\": \"default\"}, \"password\": \"$password\"}}}, \"scope\": {$scope}"
}
subject() { # the value of "identity", and what follows it
  curl -s -m 30 -D - -o /dev/null -H 'Content-Type: application/json' "$KEYSTONE/v3/auth/tokens" -d "{\"auth\": {\"identity\": $1}}" \
    | tr -d '\r' | sed -n 's/^X-Subject-Token: //Ip'
}
# Sends a request of the administrator to Keystone.
keystone() { # method, path, more...
  local method=$1 path=$2; shift 2
  curl -sS -f -m 30 -o /dev/null -X "$method" -H "X-Auth-Token: $(token chronova)" -H 'Content-Type: application/json' "$@" "$KEYSTONE/v3/$path" \
    || bad "Keystone accepts the request $method $path"
}
change() { keystone PATCH "users/$(sed -n "s/^$1 //p" "$KEYSTONE_DIR/users")" -d "$2"; } # user, what
password_of_nova() { change nova "{\"user\": {\"password\": \"$1\"}}"; }
SERVERS_PATH=/compute/v2.1/servers

KEYSTONE_DIR=$(mktemp -d "${TMPDIR:-/tmp}/chronova-keystone.XXXXXX") HOUSE_CLOUDS=$KEYSTONE_DIR/clouds.yaml
house_open keystone 10.83

# ------------------------------------------------------------------------------------------- the services of this cloud

CHECKED=$("$CHRONOVA_BIN" config check "$CONF")
like "the configuration is usable" "$CHECKED" '^usable: 0 errors'
like "the configuration check says that Keystone is the identity service" "$CHECKED" "note: \[keystone_authtoken\] auth_url: Keystone at $KEYSTONE is the identity service"
sed 's/^password = .*//' "$CONF" >"$WORK/half.conf"
like "a configuration without the account's password is an error" "$("$CHRONOVA_BIN" config check "$WORK/half.conf")" \
  'error: \[keystone_authtoken\] password is not set'
like "the health names Keystone's address" "$(curl -fsS "$URL/healthz")" "\"identity\":\{\"service\":\"keystone\",\"place\":\"$KEYSTONE\""
same "the embedded identity API is not served" "$(status '' /identity/v3)" 404
like "the answer says where the real identity API is" "$(cat "$WORK/answer")" "identity service of this cloud is at $KEYSTONE"
same "no clouds.yaml is written" "$(ls "$DATA"/clouds.yaml 2>/dev/null)" ""
like "the refusal of a request without a token names Keystone's address" "$(curl -s -D - -o /dev/null "$URL$SERVERS_PATH")" "Keystone uri=\"$KEYSTONE\""
same "a forged token is refused" "$(status gAAAAABforged "$SERVERS_PATH")" 401

# ------------------------------------------------------------------------------------------------------------- a server

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
[ -n "$ONE" ] || { bad "the member's server has an id, which the next checks need"; exit 1; }
SERVERS+=("$ONE")
ready "$ONE" "a member's guest is booted"
same "the member's list has the server" "$(os --os-cloud web server list -f value -c Name -c Status)" "keystone-one ACTIVE"
PROJECT=$(os project show web -f value -c id)
same "the server belongs to the member's project" "$(get server "$ONE" project_id)" "$PROJECT"
OTHER=$(token shop)
same "another project may list servers" "$(status "$OTHER" "$SERVERS_PATH")" 200
same "the other project's list is empty" "$(cat "$WORK/answer")" '{"servers":[]}'
same "the other project does not find the server by its id" "$(status "$OTHER" "$SERVERS_PATH/$ONE")" 404
same "the other project cannot delete the server" "$(status "$OTHER" "$SERVERS_PATH/$ONE" -X DELETE)" 404
READER=$(token web-reader)
same "a reader sees the server" "$(status "$READER" "$SERVERS_PATH/$ONE")" 200
same "a reader may not stop the server" "$(status "$READER" "$SERVERS_PATH/$ONE/action" -H 'Content-Type: application/json' -d '{"os-stop": null}')" 403
same "a member sees no hypervisors" "$(status "$(token web)" /compute/v2.1/os-hypervisors)" 403
like "an administrator sees hypervisors" "$(os hypervisor list -f value -c State)" '^up$'
same "a token with system scope is refused" "$(status "$(token system)" /compute/v2.1/os-hypervisors)" 403
same "a token with domain scope is refused" "$(status "$(token domain)" "$SERVERS_PATH")" 403
like "Placement answers at its own endpoint of the catalogue" "$(os resource provider list -f value -c generation)" '^[0-9]+$'
same "the catalogue has Compute's address for each interface" "$(os catalog show compute -f json | grep -c "$COMPUTE/v2.1")" 3

# ------------------------------------------------------------------------------------------------------ private flavors

PRIVATE=$(os flavor create --private --vcpus 1 --ram 64 --disk 0 keystone-private -f value -c id)
sees() { status "$1" "/compute/v2.1/flavors/$PRIVATE"; } # token
MEMBER=$(token web)
same "no other project sees a private flavor" "$(sees "$OTHER") $(sees "$MEMBER")" "404 404"
expect "a project gets access to the flavor by its name" os flavor set --project shop keystone-private
same "only that project sees the flavor" "$(sees "$OTHER") $(sees "$MEMBER")" "200 404"
expect "a project gets access to the flavor by its id" os flavor set --project "$PROJECT" keystone-private
same "both projects see the flavor" "$(sees "$OTHER") $(sees "$MEMBER")" "200 200"
expect "the private flavor is deleted" os flavor delete keystone-private

# --------------------------------------------------------------------------------------------------------------- quotas

like "the quota of a project is shown" "$(os quota show --compute web 2>/dev/null)" ' instances +\| +10 '
expect "a quota is set by the project's name" os quota set --instances 1 web
like "the new quota is shown" "$(os quota show --compute web -f value 2>/dev/null)" '(^| )instances 1( |$)'
like "the new quota is enforced" "$(os --os-cloud web server create "${WANTED[@]}" keystone-two 2>&1)" 'Quota exceeded for instances'
QUOTA=/compute/v2.1/os-quota-sets/0123456789abcdef0123456789abcdef
same "a project that Keystone does not know has no quota" "$(status "$(token chronova)" "$QUOTA")" 400
like "the refusal says that the project is not valid" "$(cat "$WORK/answer")" 'is not a valid project'

# ---------------------------------------------------------------------------------------------- application credentials

RULES='[{"service": "compute", "method": "GET", "path": "/v2.1/servers"}]'
CREDENTIAL=$(os --os-cloud web application credential create --secret s3cret --access-rules "$RULES" narrow -f value -c id)
NARROW=$(subject "{\"methods\": [\"application_credential\"], \"application_credential\": {\"id\": \"$CREDENTIAL\", \"secret\": \"s3cret\"}}")
same "an application credential with access rules lists servers" "$(status "$NARROW" "$SERVERS_PATH")" 200
same "the application credential is refused for other requests" "$(status "$NARROW" "$SERVERS_PATH/$ONE") $(status "$NARROW" /compute/v2.1/flavors)" "401 401"

# ----------------------------------------------------------------------------------- expired tokens, tokens of services

OLD=$(bash "$HERE/../testbed/keystone.sh" expired "$KEYSTONE_DIR" "$(token web)") SERVICE=$(token nova)
passed_on() { status "$1" "$SERVERS_PATH/$ONE" -H "X-Service-Token: $2"; } # token of the user, token of the service
same "an expired token is refused" "$(status "$OLD" "$SERVERS_PATH/$ONE")" 401
same "an expired token is accepted beside a service's token" "$(passed_on "$OLD" "$SERVICE")" 200
same "an expired token is refused beside a token without the service role" "$(passed_on "$OLD" "$(token chronova)") $(passed_on "$OLD" "$(token web)")" "401 401"
same "a forged token is refused as the user's and as the service's" "$(passed_on gAAAAABforged "$SERVICE") $(passed_on "$OLD" gAAAAABforged)" "401 401"
same "the expired token alone is still refused" "$(status "$OLD" "$SERVERS_PATH/$ONE")" 401

# ------------------------------------------------------------------------------------------------------- revoked tokens

REVOKED=$(token web)
same "a snapshot is requested" "$(status "$REVOKED" "$SERVERS_PATH/$ONE/action" -H 'Content-Type: application/json' \
  -d '{"createImage": {"name": "keystone-snapshot"}}')" 202
keystone DELETE auth/tokens -H "X-Subject-Token: $REVOKED"
within $((CACHE + 2)) "a revoked token is refused after the cache's time" answers 401 "$REVOKED" "$SERVERS_PATH"
snapshot_is() { [ "$(os --os-cloud web image list --name keystone-snapshot -f value -c Status)" = "$1" ]; }
within 60 "a snapshot completes although its token was revoked" snapshot_is active
FIRED=$(token shop)
same "the token of an enabled user is accepted" "$(status "$FIRED" "$SERVERS_PATH")" 200
change eve '{"user": {"enabled": false}}'
within $((CACHE + 2)) "the token of a disabled user is refused" answers 401 "$FIRED" "$SERVERS_PATH"

# ------------------------------------------------------------------------------------- the account of the service fails

A=$(token web) B=$(token web)
password_of_nova something-else
within $((CACHE + 3)) "while the service's own password is wrong, requests get 503" answers 503 "$A" "$SERVERS_PATH"
like "the answer says that Keystone is unavailable" "$(cat "$WORK/answer")" 'Keystone service is temporarily unavailable'
like "the log says that Keystone refuses the service's own account" "$(tail -n 50 "$WORK/chronova.log")" "own account \(401"
same "even a forged token gets 503" "$(status gAAAAABforged "$SERVERS_PATH")" 503
password_of_nova "$SECRET"
within 10 "with the right password, requests are accepted again" answers 200 "$A" "$SERVERS_PATH"

# --------------------------------------------------------------------------------------------- Keystone does not answer

PID=$(cat "$KEYSTONE_DIR/pid") FRESH=("$(token web)" "$(token web)" "$(token web)" "$(token web)")
expect "the quota is raised" os quota set --instances 2 web
os --os-cloud web server create "${WANTED[@]}" keystone-two >"$WORK/boot-two" 2>&1 || bad "a second server is requested" "$(cat "$WORK/boot-two")"
TWO=$(sed -n 's/^| id  *| \([0-9a-f-]*\) .*/\1/p' "$WORK/boot-two")
SERVERS+=("$TWO")
kill -STOP -- "-$PID"
# Prints the status of an answer, and the seconds that it took.
ask() { curl -s -m 30 -o /dev/null -w '%{http_code} %{time_total}\n' -H "X-Auth-Token: $1" "$URL$SERVERS_PATH"; }
WAITS=()
for TOKEN in "${FRESH[@]:0:3}"; do ask "$TOKEN" >>"$WORK/waits" & WAITS+=($!); done
wait "${WAITS[@]}"
same "while Keystone hangs, requests get 503" "$(cut -d ' ' -f 1 "$WORK/waits" | sort | uniq -c | xargs)" "3 503"
expect "no request waits for much longer than the timeout ($(xargs <"$WORK/waits"))" awk "\$2 > $PATIENCE + 3 { exit 1 }" "$WORK/waits"
ask "${FRESH[3]}" >"$WORK/refused"
expect "a later request gets 503 at once ($(cat "$WORK/refused"))" awk '$1 != 503 || $2 > 2 { exit 1 }' "$WORK/refused"
like "the health says that Keystone does not answer" "$(curl -s "$URL/healthz")" "\"state\":\"keystone does not answer within $PATIENCE s\""
same "the health request itself is answered with 200" "$(curl -s -o /dev/null -w '%{http_code}' "$URL/healthz")" 200
same "the guest runs while Keystone hangs" "$(v domstate "$ONE" | head -n 1)" running
within 60 "the second server is built while Keystone hangs" domain_is "$TWO" running
kill -CONT -- "-$PID"
within 15 "requests are accepted after Keystone continues" answers 200 "${FRESH[0]}" "$SERVERS_PATH"
two_is() { [ "$(os --os-cloud web server show keystone-two -f value -c status)" = "$1" ]; }
within 30 "the second server is ACTIVE" two_is ACTIVE

kill -KILL -- "-$PID"
within $((CACHE + 3)) "after Keystone is killed, requests get 503" answers 503 "$A" "$SERVERS_PATH"
like "the health says that Keystone cannot be reached" "$(curl -s "$URL/healthz")" '"state":"keystone cannot be reached: Connection refused'
bash "$HERE/../testbed/keystone.sh" up "$KEYSTONE_DIR"
within 15 "requests are accepted after Keystone is started again" answers 200 "$A" "$SERVERS_PATH"
METRICS=$(curl -fsS "$URL/metrics")
like "the metrics count the unanswered calls to Keystone" "$METRICS" '^chronova_service_calls\{outcome="unanswered",service="keystone"\} [1-9]'
like "the metrics show that Keystone answers" "$METRICS" '^chronova_service_answers\{service="keystone"\} 1'

expect "the servers are deleted" os --os-cloud web server delete --wait keystone-one keystone-two
same "nothing of the servers is left on the host" "$(leftovers "$ONE")$(leftovers "$TWO")" ""
same "no secret is in the log" "$(grep -cF -e "$SECRET" -e "$A" -e "$SERVICE" -e "${FRESH[0]}" -e s3cret "$WORK/chronova.log")" 0
verdict
