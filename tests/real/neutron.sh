#!/bin/bash
# A cloud that has Keystone and Neutron with OVN: servers on two real hosts get ports from Neutron. Each port is bound
# to its server's host, plugged into Open vSwitch, and deleted with the server.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../testbed/fleet.sh"
long_run || { echo "only with --soak: no whole run of it has passed yet"; exit 77; }
for program in keystone-wsgi-public neutron-server ovs-vsctl ovn-nbctl mariadbd; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null \
    || { echo "no $program here: setup_packages neutron of ops/setup.sh installs it"; exit 77; }
done

neutron() { bash "$HERE/../testbed/neutron.sh" "$@"; }

cloud() { # NAME USER PROJECT
  printf '  %s:\n    region_name: RegionOne\n    identity_api_version: 3\n    auth:\n' "$1"
  printf '      %s\n' "auth_url: $KEYSTONE/v3" "username: $2" "password: secret" "user_domain_name: Default" "project_name: $3" \
    "project_domain_name: Default"
}

account() { # user
  printf '%s\n' "auth_url = $KEYSTONE" 'auth_type = password' "username = $1" 'password = secret' 'user_domain_name = Default' \
    'project_name = service' 'project_domain_name = Default' 'region_name = RegionOne'
}

house_first() {
  bash "$HERE/../testbed/keystone.sh" up "$CLOUD_DIR/keystone" >"$CLOUD_DIR/keystone.out" 2>&1 \
    || { bad "Keystone starts" "$(tail -n 20 "$CLOUD_DIR/keystone.out")"; exit 1; }
  KEYSTONE=$(cat "$CLOUD_DIR/keystone/url")
  neutron up "$CLOUD_DIR/neutron" "$KEYSTONE" 10.231.0.2 >"$CLOUD_DIR/neutron.out" 2>&1 &
  local server=$!
  NEUTRON=
  wait_for 60 test -s "$CLOUD_DIR/neutron/sb"
  NEUTRON=$(cat "$CLOUD_DIR/neutron/url")
  python3 "$HERE/../testbed/people.py" "$KEYSTONE" nova:service:service,admin placement:service:service,admin \
    neutron:service:service,admin ann:web:member eve:shop:member "compute=$URL/compute/v2.1" "placement=$URL/placement" \
    "image=$URL/image" "network=$NEUTRON" || { bad "Keystone gets its users, roles and services"; exit 1; }
  {
    echo clouds:
    cloud chronova admin admin
    cloud web ann web
    cloud shop eve shop
  } >"$HOUSE_CLOUDS"
  {
    printf '%s\n' '[DEFAULT]' 'vif_plugging_timeout = 30' '[keystone_authtoken]'
    account nova
    # Keystone has only two processes here, and Neutron calls Keystone for each request, so an answer may take long.
    echo 'http_connect_timeout = 60'
    echo '[neutron]'
    account nova
    printf '%s\n' 'service_metadata_proxy = true' 'metadata_proxy_shared_secret = not-so-secret-4711' 'default_floating_pool = outside'
  } >>"$CONF"
  wait $server || { bad "Neutron starts" "$(tail -n 20 "$CLOUD_DIR/neutron.out")"; exit 1; }
  ok "Keystone answers at $KEYSTONE, Neutron at $NEUTRON"
  neutron join "$CLOUD_DIR/neutron" h1 h2 >"$CLOUD_DIR/join.out" 2>&1 || { bad "the hosts join OVN" "$(tail -n 20 "$CLOUD_DIR/join.out")"; exit 1; }
  ok "two hosts are chassis of OVN"
}

house_last() {
  neutron down "$CLOUD_DIR/neutron"
  bash "$HERE/../testbed/keystone.sh" down "$CLOUD_DIR/keystone"
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD_DIR"
}

quiet() { "$@" >/dev/null; }
web() { os --os-cloud web "$@"; }
port_of() { web port list --server "$1" -f value -c ID; }
# The fields of a port as Neutron's administrator sees them.
port() { os port show "$1" -f json 2>/dev/null | python3 -c 'import json, sys
port = json.load(sys.stdin)
print(*[port.get(name) if port.get(name) is not None else "-" for name in sys.argv[1:]])' "${@:2}"; }
port_is() { [ "$(port "$1" "${@:3}")" = "$2" ]; } # port, values, names...
no_port() { ! os port show "$1" >/dev/null 2>&1; }

CLOUD_DIR=$(mktemp -d "${TMPDIR:-/tmp}/chronova-neutron.XXXXXX") HOUSE_CLOUDS=$CLOUD_DIR/clouds.yaml
export TESTBED_PLAIN_TAPS=1
FLEET_OPTIONS=--root-link
fleet_open neutron nt 10.84 2

# ------------------------------------------------------------------------------------------- the services of this cloud

like "the configuration is usable" "$("$CHRONOVA_BIN" config check "$CONF")" '^usable: 0 errors'
like "the health says that Neutron is the network service" "$(curl -fsS "$URL/healthz")" '"network":\{"service":"neutron"'
like "the embedded network API is not served" "$(curl -sS "$URL/network/v2.0/networks")" 'network service of this cloud is at'

os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public neutron >"$WORK/image" 2>&1 \
  || bad "the image is uploaded" "$(cat "$WORK/image")"
os flavor create --vcpus 1 --ram 160 --disk 1 neutron >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"
web network create inner >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
web subnet create --network inner --subnet-range 10.84.1.0/24 inner >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
WANTED=(--flavor neutron --image neutron --config-drive True)
boot_on() { # host, name, options...
  local host=$1 name=$2; shift 2
  os server create --os-compute-api-version 2.74 --host "$host" "${WANTED[@]}" "$@" "$name" >"$WORK/boot-$name" 2>&1 \
    || bad "$name is asked for" "$(tail -n 20 "$WORK/boot-$name")"
}

# ------------------------------------------------------------------------------ two servers of one project on two hosts

MINE=$(web port create --network inner mine -f value -c id)
web server create "${WANTED[@]}" --network inner one >"$WORK/one" 2>&1 || bad "a server on the network is asked for" "$(cat "$WORK/one")"
ONE=$(web server show one -f value -c id); SERVERS+=("$ONE")
HOST=
placed() { HOST=$(place "$ONE"); [ -n "$HOST" ]; }
one_is() { [ "$(web server show one -f value -c status)" = "$1" ]; }
within 90 "it is ACTIVE" one_is ACTIVE
within 30 "it is on a host" placed
OTHER=$(other "$HOST")
os compute service set --disable "$HOST" nova-compute
web server create "${WANTED[@]}" --port mine two >"$WORK/two" 2>&1 || bad "a server with a port is asked for" "$(cat "$WORK/two")"
TWO=$(web server show two -f value -c id); SERVERS+=("$TWO")
P1=$(port_of one)
within 20 "its port is ACTIVE and bound to its host" port_is "$P1" "ACTIVE $HOST compute:nova $ONE ovs" status binding_host_id device_owner device_id binding_vif_type
A1=$(web port show "$P1" -f json | python3 -c 'import json, sys; print(json.load(sys.stdin)["fixed_ips"][0]["ip_address"])')
same "the server shows the port's address" "$(web server show one -f json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["addresses"]["inner"])')" "$A1"
like "its guest is plugged into Open vSwitch by the port's id" "$(on "$HOST" dumpxml "$ONE")" "interfaceid='$P1'"
same "... which has it" "$(neutron in "$HOST" ovs-vsctl --bare --columns=name find Interface "external_ids:iface-id=$P1")" "tap${P1:0:11}"
two_is() { [ "$(web server show two -f value -c status)" = "$1" ]; }
within 90 "the other server is ACTIVE" two_is ACTIVE
same "it is on the other host" "$(place "$TWO")" "$OTHER"
within 20 "the member's port is ACTIVE there" port_is "$MINE" "ACTIVE $OTHER compute:nova $TWO" status binding_host_id device_owner device_id
A2=$(web port show "$MINE" -f json | python3 -c 'import json, sys; print(json.load(sys.stdin)["fixed_ips"][0]["ip_address"])')
os compute service set --enable "$HOST" nova-compute

# ------------------------------------------------------------------------------------------------------------ refusals

refused() { ! web server create "${WANTED[@]}" "$@" refused >"$WORK/refused" 2>&1; }
expect "a port in use is refused" refused --port mine
like "... in Nova's words" "$(cat "$WORK/refused")" "Port $MINE is still in use"
os network create hidden >/dev/null 2>&1 && os subnet create --network hidden --subnet-range 10.84.2.0/24 hidden >/dev/null 2>&1
HIDDEN=$(get network hidden id)
expect "a network of another project is refused" refused --nic "net-id=$HIDDEN"
like "... as if it were not there" "$(cat "$WORK/refused")" "$HIDDEN"
# The client looks for the group itself, so the request is made without it.
INNER=$(web network show inner -f value -c id)
like "a group that is not there is refused in Nova's words" "$(curl -sS -m 60 -H "X-Auth-Token: $(web token issue -f value -c id)" \
  -H 'Content-Type: application/json' "$URL/compute/v2.1/servers" -d "{\"server\": {\"name\": \"refused\", \"flavorRef\": \"$(get flavor neutron id)\",
  \"imageRef\": \"$(get image neutron id)\", \"networks\": [{\"uuid\": \"$INNER\"}], \"security_groups\": [{\"name\": \"nonsense\"}]}}")" \
  '"code":400,"message":"Security group nonsense not found'

# ------------------------------------------------------------------------------------- traffic and security groups

INSIDE_SECONDS=60
within 120 "the first guest is booted, with its address by OVN's DHCP" said "$ONE" "GUEST-READY hostname=.* ip=$A1"
within 120 "the second guest, too" said "$TWO" "GUEST-READY hostname=.* ip=$A2"
ping_from() { at "$1" "$2" "ping -c 1 -W 2 $3 >/dev/null 2>&1 && echo REACHED || echo SILENT" | grep -q "$4"; } # host, uuid, to, word
within 30 "guests of one group reach each other across hosts" ping_from "$HOST" "$ONE" "$A2" REACHED
expect "a group of its own is made" quiet web security group create closed
expect "the other server is taken out of the common group" web server remove security group two default
expect "... and put into the new one" web server add security group two closed
like "the server shows it" "$(web server show two -f value -c security_groups)" closed
within 20 "the new group blocks the ping" ping_from "$HOST" "$ONE" "$A2" SILENT
expect "a rule of the group allows it" quiet web security group rule create --protocol icmp closed
within 20 "the ping passes again" ping_from "$HOST" "$ONE" "$A2" REACHED

# ----------------------------------------------------------------------------------- attached and detached interfaces

expect "one more interface is attached" quiet web server add network one inner
P3=$(port_of one | grep -vx "$P1")
within 20 "its port is ACTIVE" port_is "$P3" "ACTIVE $HOST" status binding_host_id
expect "it is detached" web server remove port one "$P3"
within 20 "the port that was made for it is deleted" no_port "$P3"

# ------------------------------------------------------------------------------------------ a port that OVN never plugs

kill -STOP -- "-$(cat "$CLOUD_DIR/neutron/$OTHER-controller.pid")"
os compute service set --disable "$HOST" nova-compute
web server create "${WANTED[@]}" --network inner three >"$WORK/three" 2>&1 || bad "a third server is asked for" "$(cat "$WORK/three")"
THREE=$(web server show three -f value -c id); SERVERS+=("$THREE")
P4=
third_port() { P4=$(port_of three); [ -n "$P4" ]; }
within 30 "a server on a host without OVN's controller gets its port" third_port
three_is() { [ "$(web server show three -f value -c status)" = "$1" ]; }
within 60 "... and fails when its port stays down" three_is ERROR
like "... in Nova's words" "$(web server show three -f value -c fault)" 'Failed to allocate the network.s., not rescheduling'
within 10 "its port is deleted" no_port "$P4"
kill -CONT -- "-$(cat "$CLOUD_DIR/neutron/$OTHER-controller.pid")"
os compute service set --enable "$HOST" nova-compute
expect "it is deleted" web server delete --wait three

# ------------------------------------------------------------------------------------------------------------ deletion

expect "the servers are deleted" web server delete --wait one two
within 10 "the port that was made for the server is deleted" no_port "$P1"
same "the member's port is kept, and unbound" "$(port "$MINE" status binding_host_id device_id binding_vif_type)" "DOWN   unbound"
same "nothing is left in Open vSwitch" "$(for h in h1 h2; do neutron in $h ovs-vsctl --bare --columns=name find Interface type='""' | grep tap; done)" ""
same "nothing is left on the hosts" "$(rest_of "$ONE")$(rest_of "$TWO")" ""
like "the calls are counted" "$(curl -fsS "$URL/metrics")" '^chronova_service_calls\{outcome="[a-z]+",service="neutron"\} [1-9]'
verdict
