#!/bin/bash
# A cloud that has Keystone, Glance, and Neutron with OVN: servers on two real hosts boot from Glance's images and get
# Neutron's ports. Each port is bound to the server's host, plugged into Open vSwitch there, and deleted or unbound with
# the server. Guests get their metadata through Neutron's agents.
# With CHRONOVA_SOAK=1 also: more migrations and interfaces, a port that is never plugged, and faults of each service
# during builds, deletes and live migrations.
set -uo pipefail
FLEET_OPTIONS=--root-link
. "$(dirname "$0")/../testbed/openstack.sh"
STATE_OF=(port.status port.binding:host_id port.device_owner port.device_id port.binding:vif_type)
openstack_open services nt 10.84

# ------------------------------------------------------------------------------------------- the services of this cloud

like "the configuration is usable" "$("$CHRONOVA_BIN" config check "$CONF")" '^usable: 0 errors'
HEALTH=$(curl -fsS "$URL/healthz")
like "the health says that Glance is the image service" "$HEALTH" '"images":\{"service":"glance"'
like "the health says that Neutron is the network service" "$HEALTH" '"network":\{"service":"neutron"'
same "the embedded network API is not served" "$(ask '' "$URL/network/v2.0/networks")" 404
like "the answer says where the real network API is" "$(cat "$WORK/answer")" 'network service of this cloud is at'

# Several commands run in the background, because each waits for Keystone.
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public services >"$WORK/image" 2>&1 &
IMAGING=$!
os flavor create --vcpus 1 --ram 160 --disk 1 services >"$WORK/flavor" 2>&1 &
FLAVORING=$!
{ os network create --external --provider-network-type flat --provider-physical-network physnet1 outside \
  && os subnet create --network outside --no-dhcp --gateway 10.232.0.1 --subnet-range 10.232.0.0/24 \
    --allocation-pool start=10.232.0.150,end=10.232.0.199 outside; } >"$WORK/outside" 2>&1 &
OUTSIDE=$!
web network create inner >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
web subnet create --network inner --subnet-range 10.84.1.0/24 inner >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
wait $OUTSIDE || bad "the external network is made" "$(cat "$WORK/outside")"
{ web router create --external-gateway outside inner && web router add subnet inner inner; } >"$WORK/router" 2>&1 &
ROUTING=$!
wait $IMAGING || bad "the image is uploaded" "$(cat "$WORK/image")"
wait $FLAVORING || bad "the flavor is made" "$(cat "$WORK/flavor")"
WANTED=(--flavor services --image services --config-drive True)

# ------------------------------------------------------------------------------ two servers of one project on two hosts

MINE=$(web port create --network inner mine -f value -c id)
GROUP=$(web --os-compute-api-version 2.15 server group create --policy soft-anti-affinity services -f value -c id)
web server create "${WANTED[@]}" --network inner --hint "group=$GROUP" one -f value -c id >"$WORK/one" 2>&1 &
ASKING=$!
web server create "${WANTED[@]}" --port mine --hint "group=$GROUP" two -f value -c id >"$WORK/two" 2>&1 || bad "a server with a port is requested" "$(cat "$WORK/two")"
wait $ASKING || bad "a server on the network is requested" "$(cat "$WORK/one")"
ONE=$(tail -n 1 "$WORK/one") TWO=$(tail -n 1 "$WORK/two")
SERVERS+=("$ONE" "$TWO")
within 120 "a server on the network is ACTIVE" server_is "$ONE" ACTIVE
within 120 "a server with a port of its user is ACTIVE" server_is "$TWO" ACTIVE
HOST=$(place_of "$ONE") P1=$(port_of "$ONE")
OTHER=$(other "$HOST")
same "the two servers are on two hosts" "$(place_of "$TWO")" "$OTHER"
within 20 "the port of the first server is ACTIVE and bound to its host" port_is "$P1" "ACTIVE $HOST compute:nova $ONE ovs" "${STATE_OF[@]}"
within 20 "the member's port is ACTIVE and bound to its server's host" port_is "$MINE" "ACTIVE $OTHER compute:nova $TWO ovs" "${STATE_OF[@]}"
A1=$(port "$P1" port.fixed_ips.0.ip_address) A2=$(port "$MINE" port.fixed_ips.0.ip_address)
same "the first server shows its port's address" "$(server "$ONE" server.addresses.inner.0.addr)" "$A1"
like "the first guest's interface has the port's id for Open vSwitch" "$(on "$HOST" dumpxml "$ONE")" "interfaceid='$P1'"
same "Open vSwitch has the interface of the first guest" "$(neutron in "$HOST" ovs-vsctl --bare --columns=name find Interface "external_ids:iface-id=$P1")" "tap${P1:0:11}"

# ------------------------------------------------------------------------ traffic, metadata, groups, a floating address

# Neutron's agent finds the guest by its network and address, and signs its request.
own_metadata() { at "$1" "$2" "timeout 20 wget -q -O - http://169.254.169.254/openstack/latest/meta_data.json" | grep -q "\"uuid\": *\"$2\""; } # host, uuid
within 120 "the first guest is booted, with its address by OVN's DHCP" has_address "$HOST" "$ONE" "$A1"
within 120 "the second guest is booted, with its address by OVN's DHCP" has_address "$OTHER" "$TWO" "$A2"
within 30 "guests of one group reach each other across hosts" ping_from "$HOST" "$ONE" "$A2" REACHED
within 60 "the first guest gets its own metadata through Neutron's agent" own_metadata "$HOST" "$ONE"
within 60 "the second guest gets its own metadata through the agent of the other host" own_metadata "$OTHER" "$TWO"
same "a server that requests no security group has the default group" "$(server "$ONE" server.security_groups.0.name)" default
expect "another security group is created" quiet web security group create closed
expect "the second server is added to that group" web server add security group "$TWO" closed
expect "the second server is removed from the default group" web server remove security group "$TWO" default
same "the second server shows that group only" "$(server "$TWO" server.security_groups.0.name)" closed
within 20 "the new group blocks the ping" ping_from "$HOST" "$ONE" "$A2" SILENT
expect "a rule of the new group allows the ping" quiet web security group rule create --protocol icmp closed
within 20 "the ping passes again" ping_from "$HOST" "$ONE" "$A2" REACHED
wait $ROUTING || bad "a router to the external network is made" "$(cat "$WORK/router")"
FLOATING=$(web floating ip create outside -f value -c floating_ip_address)
expect "a floating address is added to the second server" web server add floating ip "$TWO" "$FLOATING"
within 60 "the floating address answers pings from outside" reached
like "the second server shows the floating address" "$(server "$TWO" server.addresses.inner)" "$FLOATING"
# Neither a floating address nor the default group's own rules let traffic in from outside.
RULE=$(web security group rule list closed -f value -c ID -c 'IP Protocol' | awk '$2 == "icmp" {print $1}')
expect "the rule is deleted, and the floating address stays" quiet web security group rule delete "$RULE"
within 20 "the floating address alone lets no ping in" silent
expect "the second server gets the default group again" web server add security group "$TWO" default
expect "the second server loses the other group" web server remove security group "$TWO" closed
within 20 "within the default group the ping passes" ping_from "$HOST" "$ONE" "$A2" REACHED
expect "the default group lets no ping in from outside" silent
expect "a rule of the default group allows the ping" quiet web security group rule create --protocol icmp default
within 20 "the ping from outside passes by the new rule" reached

# --------------------------------------------------------------------------------- a live migration with two bindings

moves() { # uuid, host, token, more...
  ask "${3:-$ADMIN}" "$URL/compute/v2.1/servers/$1/action" -H 'OpenStack-API-Version: compute 2.34' \
    -d "{\"os-migrateLive\": {\"host\": \"$2\", \"block_migration\": \"auto\"}}" "${@:4}"
}
both_bindings() { printf '%s\n' "$1:ACTIVE" "$2:INACTIVE" | sort | paste -sd ' '; } # from, to
# Moves a server while the first guest pings it. `pings_hold` checks these pings.
pinged_move() { # uuid, port, address, from, to, token, more...
  local from=$4 to=$5
  same "the port has one binding before the migration to $to" "$(bindings "$2")" "$from:ACTIVE"
  pinged 40 "$3"
  : >"$WORK/seen"
  same "a live migration to $to is requested" "$(moves "$1" "$to" "${@:6}")" 202
  for _ in $(seq 300); do
    bindings "$2" >>"$WORK/seen"
    ! is_placed "$1" "$to" || break
    sleep 0.1
  done
  within 120 "the server is ACTIVE on $to after the migration" is_placed "$1" "$to"
  expect "the port had two bindings during the migration to $to" grep -qx "$(both_bindings "$from" "$to")" "$WORK/seen"
  same "the port has one binding after the migration to $to" "$(bindings "$2")" "$to:ACTIVE"
  within 30 "the port is ACTIVE on $to after the migration" port_is "$2" "ACTIVE $to compute:nova $1 ovs" "${STATE_OF[@]}"
  same "the port's profile announces no move after the migration to $to" "$(port "$2" port.binding:profile.migrating_to)" -
  same "nothing of the server is left on $from" "$(left_on "$from" "$1")" ""
}
# The token of the request has expired, so all calls to other services rest on Chronova's own account.
EXPIRED=$(bash "$TESTBED/keystone.sh" expired "$CLOUD/keystone" "$ADMIN")
same "a live migration is refused with an expired token" "$(moves "$TWO" "$HOST" "$EXPIRED")" 401
pinged_move "$TWO" "$MINE" "$A2" "$OTHER" "$HOST" "$EXPIRED" -H "X-Service-Token: $(token nova service)"
expect "a live migration ends well although the token of its request has expired" is_placed "$TWO" "$HOST"
within 30 "the floating address answers after the migration" reached
expect "the floating address is removed from the server" web server remove floating ip "$TWO" "$FLOATING"
within 20 "the floating address answers no pings any more" silent
expect "the floating address is deleted" web floating ip delete "$FLOATING"

# ------------------------------------------------------------------------------------------------------------- refusals

INNER=$(port "$P1" port.network_id) FLAVOR=$(get flavor services id) IMAGE=$(get image services id)
refusal() { # networks, more: prints the answer to a request for a server
  ask "$WEB" "$URL/compute/v2.1/servers" -d "{\"server\": {\"name\": \"refused\", \"flavorRef\": \"$FLAVOR\", \"imageRef\": \"$IMAGE\",
    \"networks\": [$1] ${2:-}}}"
  cat "$WORK/answer"
}
like "a port in use is refused in Nova's words" "$(refusal "{\"port\": \"$MINE\"}")" "^409.*Port $MINE is still in use"
os network create hidden -f value -c id >"$WORK/hidden" 2>&1
HIDDEN=$(tail -n 1 "$WORK/hidden")
like "a network of another project is refused as a network that does not exist" "$(refusal "{\"uuid\": \"$HIDDEN\"}")" "^400.*$HIDDEN could not be found"
auto() { # token: prints the answer to a request that leaves the network to the cloud
  ask "$1" "$URL/compute/v2.1/servers" -H 'OpenStack-API-Version: compute 2.37' -d "{\"server\": {\"name\": \"refused\",
    \"flavorRef\": \"$FLAVOR\", \"imageRef\": \"$IMAGE\", \"networks\": \"auto\"}}"
  cat "$WORK/answer"
}
like "auto is refused in Nova's words where Neutron can make no network" "$(auto "$(token eve shop)")" '^400.*Unable to automatically allocate a network for project'
like "an unknown group is refused in Nova's words" \
  "$(refusal "{\"uuid\": \"$INNER\"}" ', "security_groups": [{"name": "nonsense"}]')" '^400.*Security group nonsense not found'
pings_hold "$HOST"

# -------------------------------------------------------------------------------------------------------------- the end

ends() {
  expect "the servers are deleted" web server delete --wait "$ONE" "$TWO"
  within 10 "the port that was made for the server is deleted" no_port "$P1"
  same "the member's port is kept, and unbound" "$(port "$MINE" "${STATE_OF[@]}")" "DOWN - - - unbound"
  same "no tap device is left in Open vSwitch" "$(taps h1; taps h2)" ""
  same "nothing of the servers is left on the hosts" "$(rest_of "$ONE")$(rest_of "$TWO")" ""
  like "the metrics count the calls to Neutron" "$(curl -fsS "$URL/metrics")" '^chronova_service_calls\{outcome="done",service="neutron"\} [1-9]'
  same "no token is in the log" "$(grep -cF -e "$WEB" -e "$ADMIN" "$WORK/chronova.log")" 0
  verdict
}
long_run || ends

# ------------------------------------------------------------------------------ more moves, and one that is aborted

expect "a third server is requested" quiet web server create "${WANTED[@]}" --network inner three
THREE=$(web server show three -f value -c id); SERVERS+=("$THREE")
within 120 "the third server is ACTIVE" server_is "$THREE" ACTIVE
P3=$(port_of "$THREE") FROM=$(place_of "$THREE")
TO=$(other "$FROM") A3=$(port "$P3" port.fixed_ips.0.ip_address)
within 120 "the third guest has its address" has_address "$FROM" "$THREE" "$A3"
within 30 "the first guest reaches the third" ping_from "$HOST" "$ONE" "$A3" REACHED
for way in "$FROM $TO" "$TO $FROM"; do
  read -r from to <<<"$way"
  pinged_move "$THREE" "$P3" "$A3" "$from" "$to"
  same "the port's profile still names who created the port" "$(port "$P3" port.binding:profile.chronova_made_for | grep -c -- '-....-')" 1
  pings_hold "$to"
done

# An aborted live migration leaves the port unchanged.
with 'live_migration_bandwidth = 1'
same "a slow live migration is requested" "$(moves "$THREE" "$TO")" 202
on_its_way() { [ "$(bindings "$P3")" = "$(both_bindings "$FROM" "$TO")" ] && [ "$(server "$THREE" server.OS-EXT-STS:task_state)" = migrating ]; }
within 60 "the port has two bindings during the slow migration" on_its_way
running() { migration_is "$THREE" running; }
within 60 "the slow migration runs" running
expect "the slow migration is aborted" os server migration abort "$THREE" "$(number_of "$THREE")" --os-compute-api-version 2.79
within 60 "the third server is ACTIVE on its old host" is_placed "$THREE" "$FROM"
one_binding() { [ "$(bindings "$P3")" = "$FROM:ACTIVE" ]; }
within 30 "the port has one binding after the abort" one_binding
same "the port's profile announces no move after the abort" "$(port "$P3" port.binding:profile.migrating_to)" -
within 30 "the first guest reaches the third after the abort" ping_from "$HOST" "$ONE" "$A3" REACHED
expect "the third server is deleted" web server delete --wait "$THREE"
within 10 "the port of the third server is deleted" no_port "$P3"

# ------------------------------------------------------------------------------------------- more interfaces, and fewer

expect "one more interface is attached" quiet web server add network "$ONE" inner
P4=$(network "ports?device_id=$ONE" | python3 -c 'import json, sys; print(*[port["id"] for port in json.load(sys.stdin)["ports"] if port["id"] != sys.argv[1]])' "$P1")
within 20 "the port of that interface is ACTIVE" port_is "$P4" "ACTIVE $HOST" port.status port.binding:host_id
expect "that interface is detached" web server remove port "$ONE" "$P4"
within 20 "the port that was created for that interface is deleted" no_port "$P4"

# ------------------------------------------------------------------------------------------ a port that OVN never plugs

kill -STOP -- "-$(cat "$CLOUD/neutron/$OTHER-controller.pid")"
os compute service set --disable "$HOST" nova-compute
expect "a fourth server is requested, on a host without OVN's controller" quiet web server create "${WANTED[@]}" --network inner four
FOUR=$(web server show four -f value -c id); SERVERS+=("$FOUR")
has_port() { P5=$(port_of "$FOUR"); [ -n "$P5" ]; }
within 30 "the fourth server gets its port" has_port
within 90 "the fourth server fails, because its port stays down" server_is "$FOUR" ERROR
like "the fault of the fourth server has Nova's words" "$(server "$FOUR" server.fault.message)" 'Failed to allocate the network.s., not rescheduling'
within 10 "the port of the fourth server is deleted" no_port "$P5"
kill -CONT -- "-$(cat "$CLOUD/neutron/$OTHER-controller.pid")"
os compute service set --enable "$HOST" nova-compute
expect "the fourth server is deleted" web server delete --wait "$FOUR"

# ------------------------------------------------------------------------- faults of each service in each process

# In each episode a server is built, another one is deleted, and a third one migrates. Shortly after these requests a
# service is killed, hangs for longer than its time limit, or becomes slow. Then it recovers.
PATIENCE=20
openstack_patience $PATIENCE
with 'live_migration_bandwidth = 8'
asks() { # name, image: requests a server on the network, and prints its id
  ask "$WEB" "$URL/compute/v2.1/servers" -d "{\"server\": {\"name\": \"$1\", \"flavorRef\": \"$FLAVOR\", \"imageRef\": \"$2\",
    \"networks\": [{\"uuid\": \"$INNER\"}]}}" >"$WORK/status"
  field server.id <"$WORK/answer"
}
is_built() { [[ "$(state "$1")" =~ ^(ACTIVE|ERROR)\ -$ ]]; } # uuid
is_active() { [ "$(state "$1")" = "ACTIVE -" ]; } # uuid
is_deleted() { [ "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$1")" = 404 ]; } # uuid
no_leaks() { [ -z "$(leaks)" ]; }
episode() { # service, fault
  local what="$1 $2" image to built
  ADMIN=$(token admin admin) WEB=$(token ann web)
  image=$(fresh_image "fresh-$1-$2")
  [ -n "${DOOMED:-}" ] || { DOOMED=$(asks doomed "$IMAGE"); SERVERS+=("$DOOMED"); }
  within 120 "$what: the server to delete is ACTIVE" is_active "$DOOMED"
  to=$(other "$(place_of "$MOVING")")
  same "$what: a live migration is requested" "$(moves "$MOVING" "$to")" 202
  built=$(asks "built-$1-$2" "$image")
  same "$what: a build is requested" "$(cat "$WORK/status")" 202
  SERVERS+=("$built")
  same "$what: a delete is requested" "$(ask "$WEB" "$URL/compute/v2.1/servers/$DOOMED" -X DELETE)" 204
  recovers "$1" "$2"
  within 240 "$what: the build ends" is_built "$built"
  within 240 "$what: the delete ends" is_deleted "$DOOMED"
  within 240 "$what: the migrated server is ACTIVE and at rest" is_active "$MOVING"
  echo "        the build ended $(state "$built"), the migrated server is on $(place_of "$MOVING") (wanted: $to)"
  within 60 "$what: nothing leaked" no_leaks
  no_leaks || leaks
  within 60 "$what: the first guest reaches the migrated guest" ping_from "$HOST" "$ONE" "$A5" REACHED
  DOOMED=$built
  is_active "$built" || { web server delete --wait "$built"; DOOMED=; }
}
expect "a server that will migrate is requested" quiet web server create "${WANTED[@]}" --network inner moving
MOVING=$(web server show moving -f value -c id); SERVERS+=("$MOVING")
within 120 "the server that will migrate is ACTIVE" is_active "$MOVING"
A5=$(port "$(port_of "$MOVING")" port.fixed_ips.0.ip_address)
within 120 "the guest that will migrate has its address" has_address "$(place_of "$MOVING")" "$MOVING" "$A5"
STRAY=$(os port create --network inner --device-owner compute:nova --device "$(uuidgen)" stray -f value -c id)
like "the comparison finds a port of no server" "$(leaks)" "port $STRAY is of server .*, which does not exist"
os port delete "$STRAY"
same "the comparison finds nothing else" "$(leaks)" ""
for SERVICE in keystone glance neutron; do
  for FAULT in kill hang slow; do episode "$SERVICE" "$FAULT"; done
done
expect "the last servers are deleted" web server delete --wait "$MOVING" ${DOOMED:+"$DOOMED"}
within 30 "nothing leaked in all episodes" no_leaks
ends
