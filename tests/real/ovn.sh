#!/bin/bash
# Networks of the embedded network service that span hosts: with `[network] backend = ovn`, Chronova writes OVN's
# northbound database itself. Guests on two real hosts reach each other, get their addresses by OVN's DHCP, and obey
# their security groups. A floating address leads to one of them, also after a live migration. Chronova repairs changes
# of the database by others. If the database does not answer for a while, it gets the missed changes afterwards. With
# CHRONOVA_SOAK=1 also: more migrations, an aborted one, and interfaces of a running guest.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TESTBED=$HERE/../testbed
. "$TESTBED/fleet.sh"
. "$TESTBED/cloud.sh"
. "$TESTBED/pings.sh"
needs_programs neutron ovs-vsctl ovs-vswitchd ovn-nbctl ovn-sbctl ovn-northd ovn-controller

# OVN's databases run in the network namespace of the testbed's controller, so this script can run beside others. Chronova
# reaches the northbound database by its socket.
CENTRAL=$(mktemp -d "${TMPDIR:-/tmp}/chronova-ovn-central.XXXXXX")
neutron() { bash "$TESTBED/neutron.sh" "$@"; }
central() { hosts ctl bash "$TESTBED/neutron.sh" central "$CENTRAL" 10.231.0.1; }
nb() { PATH=$PATH:/usr/sbin ovn-nbctl --db="unix:$CENTRAL/ovnnb.sock" --timeout=20 "$@"; }

house_first() {
  central >"$WORK/central" 2>&1 || { bad "OVN's databases start" "$(tail -n 20 "$WORK/central")"; exit 1; }
  neutron join "$CENTRAL" h1 h2 >"$WORK/join" 2>&1 || { bad "the hosts join OVN" "$(tail -n 20 "$WORK/join")"; exit 1; }
  ok "two hosts are chassis of OVN"
  printf '%s\n' '[DEFAULT]' 'vif_plugging_timeout = 60' '[network]' 'backend = ovn' 'gateway_chassis = h1,h2' '[ovn]' \
    "ovn_nb_connection = unix:$CENTRAL/ovnnb.sock" 'ovsdb_probe_interval = 5000' >>"$CONF"
}

house_last() {
  neutron down "$CENTRAL"
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CENTRAL"
}

quiet() { "$@" >/dev/null; }
health() { curl -fsS -m 10 "$URL/healthz"; }
port_of() { os port list --server "$1" -f value -c ID | head -n 1; } # server
port() { os port show "$1" -f value -c "$2" 2>/dev/null; } # port, field
port_is() { [ "$(port "$1" status)" = "$2" ]; } # port, status
address_of() { port "$1" fixed_ips | grep -oE '[0-9]+(\.[0-9]+){3}' | head -n 1; } # port
is_on() { is "$1" ACTIVE && [ "$(place "$1")" = "$2" ]; } # server, host
taps() { neutron in "$1" ovs-vsctl --bare --columns=name find Interface type='""' | grep ^tap; } # host
# The rows of Chronova in the northbound database.
TABLES="Logical_Switch Logical_Switch_Port Logical_Router Logical_Router_Port Logical_Router_Static_Route NAT Gateway_Chassis DHCP_Options Port_Group ACL"
rows() { for table in $TABLES; do nb --columns=external_ids list "$table" | grep -oE 'chronova:row"?="?[^",}]*' | sed "s|.*=\"\\?|$table |"; done; }
no_rows() { nb list NB_Global >/dev/null && [ -z "$(rows)" ]; }
# Does not use a pipe, because `grep -q` ends at the first match, and then the listing fails.
has_row() { grep -qx "$1" <<<"$(rows)"; } # table and key
no_row() { nb list NB_Global >/dev/null && ! has_row "$1"; }

export TESTBED_PLAIN_TAPS=1
fleet_open ovn on 10.85 2
like "the configuration is usable" "$("$CHRONOVA_BIN" config check "$CONF")" '^usable: 0 errors'
trouble() { health | grep -qE "\"backend\":\"ovn\",\"state\":\"$1"; }
within 20 "the health says that OVN carries the networks" trouble 'no trouble'

# ----------------------------------------------------------------------------- two guests on two hosts, on one network

expect "another program has a switch in the database" nb ls-add foreign
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public ovn >"$WORK/image" 2>&1 \
  || bad "the image is uploaded" "$(cat "$WORK/image")"
os flavor create --vcpus 1 --ram 160 --disk 1 ovn >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"
os network create inner >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
os subnet create --network inner --subnet-range 10.85.1.0/24 --dns-nameserver 192.0.2.53 inner >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
same "a network between hosts has room for Geneve's headers" "$(get network inner mtu)" 1442
GROUP=$(os --os-compute-api-version 2.15 server group create --policy soft-anti-affinity ovn -f value -c id)
for name in one two; do
  os server create --flavor ovn --image ovn --config-drive True --network inner --hint "group=$GROUP" $name >"$WORK/$name" 2>&1 \
    || bad "server $name is requested" "$(cat "$WORK/$name")"
  SERVERS+=("$(get server $name id)")
done
ONE=${SERVERS[0]} TWO=${SERVERS[1]}
within 120 "the first server is ACTIVE" is one ACTIVE
within 120 "the second server is ACTIVE" is two ACTIVE
HOST=$(place one) P1=$(port_of one) P2=$(port_of two)
OTHER=$(other "$HOST")
same "the two servers are on two hosts" "$(place two)" "$OTHER"
within 20 "the first server's port is ACTIVE, because OVN says so" port_is "$P1" ACTIVE
within 20 "the second server's port is ACTIVE, because OVN says so" port_is "$P2" ACTIVE
same "the port shows the VIF type of Open vSwitch" "$(port "$P1" binding_vif_type)" ovs
like "the first guest's interface has the port's id for Open vSwitch" "$(on "$HOST" dumpxml "$ONE")" "interfaceid='$P1'"
same "the hosts have no networks of libvirt" "$(on h1 net-list --all --name | grep ^chronova-; on h2 net-list --all --name | grep ^chronova-)" ""
same "the hosts have no packet filters of Chronova" "$(on h1 nwfilter-list | grep chronova-; on h2 nwfilter-list | grep chronova-)" ""
like "the database names the log that writes it" "$(nb get NB_Global . external_ids:chronova-log)" '[0-9a-f-]{36}/[0-9a-f-]{36}'
A1=$(address_of "$P1") A2=$(address_of "$P2")
within 120 "the first guest is booted, with its address by OVN's DHCP" has_address "$HOST" "$ONE" "$A1"
within 120 "the second guest is booted, with its address by OVN's DHCP" has_address "$OTHER" "$TWO" "$A2"
within 30 "guests of one group reach each other across hosts" ping_from "$HOST" "$ONE" "$A2" REACHED
like "the first guest has the network's MTU" "$(at "$HOST" "$ONE" 'cat /sys/class/net/eth0/mtu')" 1442

# ---------------------------------------------------------------------------------------------------------------- groups

expect "another security group is created" quiet os security group create closed
expect "the second server is added to that group" os server add security group two closed
expect "the second server is removed from the default group" os server remove security group two default
within 20 "the new group blocks the ping" ping_from "$HOST" "$ONE" "$A2" SILENT
expect "a rule of the new group allows the ping" quiet os security group rule create --protocol icmp closed
within 20 "the ping passes again" ping_from "$HOST" "$ONE" "$A2" REACHED

# --------------------------------------------------------------------------------------- a router and a floating address

{ os network create --external --provider-network-type flat --provider-physical-network physnet1 outside \
  && os subnet create --network outside --no-dhcp --gateway 10.232.0.1 --subnet-range 10.232.0.0/24 \
    --allocation-pool start=10.232.0.150,end=10.232.0.199 outside; } >"$WORK/outside" 2>&1 || bad "the external network is made" "$(cat "$WORK/outside")"
same "a physical network keeps its own MTU" "$(get network outside mtu)" 1500
{ os router create inner && os router set --external-gateway outside inner && os router add subnet inner inner; } >"$WORK/router" 2>&1 \
  || bad "a router to the external network is made" "$(cat "$WORK/router")"
within 30 "a guest reaches the outside through the router" ping_from "$HOST" "$ONE" 10.232.0.1 REACHED
FLOATING=$(os floating ip create outside -f value -c floating_ip_address)
expect "a floating address is added to the second server" os server add floating ip two "$FLOATING"
within 60 "the floating address answers pings from outside" reached
same "the floating address is ACTIVE" "$(os floating ip show "$FLOATING" -f value -c status)" ACTIVE
RULE=$(os security group rule list closed -f value -c ID -c 'IP Protocol' | awk '$2 == "icmp" {print $1}')
expect "the rule is deleted, and the floating address stays" quiet os security group rule delete "$RULE"
within 20 "the floating address alone lets no ping in" silent
expect "the rule is created again" quiet os security group rule create --protocol icmp closed
within 20 "the floating address answers again by the rule" reached

# ------------------------------------------------------------------------------------------------------ a live migration

requested() { nb --bare --columns=options find Logical_Switch_Port "name=$1" | grep -oE 'requested-chassis=[^ ]*' | cut -d= -f2; } # port
requested_is() { [ "$(requested "$1")" = "$2" ]; } # port, hosts
pinged_move() { # host
  local from; from=$(place two)
  same "only $from may bind the port before the migration to $1" "$(requested "$P2")" "$from"
  pinged 40 "$A2"
  : >"$WORK/seen"
  expect "a live migration to $1 is requested" quiet os server migrate --live-migration two --host "$1" --os-compute-api-version 2.79
  for _ in $(seq 150); do
    requested "$P2" >>"$WORK/seen"
    ! is_on two "$1" || break
    sleep 0.1
  done
  within 120 "the server is ACTIVE on $1 after the migration" is_on two "$1"
  expect "both hosts could bind the port during the migration to $1" grep -qx "$from,$1" "$WORK/seen"
  within 20 "only $1 may bind the port after the migration" requested_is "$P2" "$1"
  within 30 "the port is ACTIVE on $1" port_is "$P2" ACTIVE
  same "nothing of the server is left on $from" "$(left_on "$from" "$TWO")" ""
  pings_hold "$1"
}
pinged_move "$HOST"
within 30 "the floating address answers after the migration" reached

# ---------------------------------------------------------------------------------- faults of the database, and of others

enabled_is() { [ "$(nb lsp-get-enabled "$1")" = "$2" ]; } # port, word
expect "somebody disables a port in the database" nb lsp-set-enabled "$P1" disabled
within 20 "the port is enabled again" enabled_is "$P1" enabled
expect "somebody deletes a port in the database" nb lsp-del "$P1"
within 20 "the port is there again" has_row "Logical_Switch_Port port/$P1"
within 30 "the first guest reaches the second after that" ping_from "$HOST" "$ONE" "$A2" REACHED

signal KILL "$CENTRAL/ovnnb.pid"
within 30 "the health says that the database does not answer" trouble 'unix:'
like "without its database Chronova stays healthy" "$(health)" '^\{"status":"ok"'
expect "a rule is created without the database" quiet os security group rule create --protocol tcp --dst-port 4711 closed
NEW=$(os security group rule list closed -f value -c ID -c 'Port Range' | awk '/4711/ {print $1}')
like "the rule has an id" "$NEW" '^[0-9a-f-]{36}$'
if central >"$WORK/central" 2>&1; then ok "the database starts again"; else bad "the database starts again" "$(tail -n 20 "$WORK/central")"; fi
same "the database has its rows after that" "$(nb --bare --columns=name find Logical_Switch name=foreign)" foreign
within 30 "the health says that the database answers" trouble 'no trouble'
within 30 "the database has the rule that was made without it" has_row "ACL rule/$NEW"
within 30 "the floating address still answers" reached

if long_run; then
  pinged_move "$OTHER"
  pinged_move "$HOST"
  expect "one more interface is attached" quiet os server add network one inner
  P4=$(os port list --server one -f value -c ID | grep -vx "$P1")
  within 30 "the port of that interface is ACTIVE" port_is "$P4" ACTIVE
  expect "that interface is detached" quiet os server remove port one "$P4"
  within 20 "the database has lost the port of that interface" no_row "Logical_Switch_Port port/$P4"
  with 'live_migration_bandwidth = 1'
  expect "a slow live migration is requested" quiet os server migrate --live-migration two --host "$OTHER" --os-compute-api-version 2.79
  within 60 "both hosts may bind the port" requested_is "$P2" "$HOST,$OTHER"
  within 60 "the slow migration runs" migration_is two running
  expect "the slow migration is aborted" os server migration abort two "$(number_of two)" --os-compute-api-version 2.79
  within 60 "the second server is ACTIVE on its old host" is_on two "$HOST"
  within 20 "only the old host may bind the port" requested_is "$P2" "$HOST"
  within 30 "the first guest reaches the second after the abort" ping_from "$HOST" "$ONE" "$A2" REACHED
fi

# --------------------------------------------------------------------------------------------------------------- the end

expect "the floating address is removed from the server" os server remove floating ip two "$FLOATING"
within 20 "the floating address answers no pings any more" silent
expect "the floating address is deleted" os floating ip delete "$FLOATING"
expect "the servers are deleted" os server delete --wait one two
same "no tap device is left in Open vSwitch" "$(taps h1; taps h2)" ""
same "nothing of the servers is left on the hosts" "$(rest_of "$ONE")$(rest_of "$TWO")" ""
expect "router and networks are deleted" eval 'os router remove subnet inner inner && os router unset --external-gateway inner && os router delete inner \
  && os network delete inner && os network delete outside && os security group delete closed'
within 20 "no row of Chronova is left in the database" no_rows
same "the switch of the other program is still there" "$(nb --bare --columns=name list Logical_Switch)" foreign
same "the log has no failed comparison while the database answered" "$(grep -c 'refused a transaction' "$WORK/chronova.log")" 0
verdict
