#!/bin/bash
# The switch from a real Nova to Chronova: a Nova Zed with the real libvirt driver, Keystone, Glance and Neutron runs
# servers on two hosts. `chronova adopt` takes them over, and Nova's services end. Chronova continues with the same
# hosts at the same address. The guests count on their consoles, and no number may be missing. Only a long run
# (CHRONOVA_SOAK=1) has time for this.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TESTBED=$HERE/../testbed
. "$TESTBED/fleet.sh"
. "$TESTBED/cloud.sh"
long_run || cannot "only a long run starts a real Nova"
for program in nova-conductor nova-api-wsgi placement-api keystone-wsgi-public glance-wsgi-api neutron-server ovs-vsctl mariadbd genisoimage; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || cannot "no $program here: setup_packages nova of ops/setup.sh installs it"
done
HOSTS=(h1 h2)

neutron() { bash "$TESTBED/neutron.sh" "$@"; }
nova() { bash "$TESTBED/nova.sh" "$@"; }
web() { os --os-cloud web "$@"; }
quiet() { "$@" >"$WORK/quiet" 2>&1 || { tail -n 5 "$WORK/quiet"; false; }; }
must() { within "$@"; [ $FAILED = 0 ] || exit 1; } # as within, but the rest makes no sense without it
require() { local what=$1; shift; if "$@"; then ok "$what"; else bad "$what" "$*"; exit 1; fi; }

# ------------------------------------------------------------------------------------------------------ the cloud of Nova

house_first() {
  local port; port=$(free_port)
  KEYSTONE=http://127.0.0.1:$port
  neutron up "$CLOUD/neutron" "$KEYSTONE" 10.231.0.2 >"$CLOUD/neutron.out" 2>&1 & local networking=$!
  { wait_for 60 test -s "$CLOUD/neutron/sb" && neutron join "$CLOUD/neutron" "${HOSTS[@]}"; } >"$CLOUD/join.out" 2>&1 & local joining=$!
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" "$port" >"$CLOUD/keystone.out" 2>&1 || { bad "Keystone starts" "$(tail -n 20 "$CLOUD/keystone.out")"; exit 1; }
  wait_for 60 test -s "$CLOUD/neutron/url"
  python3 "$TESTBED/people.py" "$KEYSTONE" nova:service:service,admin placement:service:service,admin neutron:service:service,admin \
    ann:web:member "compute=$URL/compute/v2.1" "placement=$URL/placement" "network=$(cat "$CLOUD/neutron/url")" \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  bash "$TESTBED/glance.sh" up "$CLOUD/glance" "$CLOUD/keystone" >"$CLOUD/glance.out" 2>&1 || { bad "Glance starts" "$(tail -n 20 "$CLOUD/glance.out")"; exit 1; }
  { echo clouds:; cloud chronova admin admin; cloud web ann web; } >"$HOUSE_CLOUDS"
  wait $networking || { bad "Neutron starts" "$(tail -n 20 "$CLOUD/neutron.out")"; exit 1; }
  wait $joining || { bad "the hosts join OVN" "$(tail -n 20 "$CLOUD/join.out")"; exit 1; }
  NEUTRON=$(cat "$CLOUD/neutron/url")
  ok "Keystone, Glance and Neutron answer"
  nova up "$CLOUD/nova" "$KEYSTONE" "$PORT" "${KEYSTONE##*:},$(sed 's/.*://' "$CLOUD/glance/url"),${NEUTRON##*:}" "${HOSTS[@]}" \
    >"$CLOUD/nova.out" 2>&1 || { bad "Nova starts" "$(tail -n 20 "$CLOUD/nova.out")"; exit 1; }
  ok "a real Nova answers at $URL"
  nova_creates
  nova_ends
  adopt_it
}

house_last() {
  nova down "$CLOUD/nova"
  neutron down "$CLOUD/neutron"
  bash "$TESTBED/glance.sh" down "$CLOUD/glance"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

created() { # name, options...
  web server create --flavor tiny --image guest --network inner --config-drive True --user-data "$CLOUD/tick" "${@:2}" "$1" -f value -c id \
    >"$WORK/create-$1" 2>&1 || bad "$1 is requested" "$(tail -n 5 "$WORK/create-$1")"
  local id; id=$(tail -n 1 "$WORK/create-$1")
  declare -g "${1^^}=$id"
  SERVERS+=("$id")
}
settled() { [ "$(ADMIN_SERVER "$1" server.status server.OS-EXT-STS:task_state)" = "$2 -" ]; } # uuid, status
ADMIN_SERVER() { curl -s -m 60 -H "X-Auth-Token: $ADMIN" -H 'OpenStack-API-Version: compute 2.93' "$URL/compute/v2.1/servers/$1" | field "${@:2}"; }
host_of() { ADMIN_SERVER "$1" server.OS-EXT-SRV-ATTR:host; }
act() { # uuid, body
  same "the action on $1 is accepted: ${2:0:30}" \
    "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$1/action" -H 'OpenStack-API-Version: compute 2.93' -d "$2")" 202
}

nova_creates() {
  ADMIN=$(token admin admin)
  printf '#!/bin/sh\ntouch /run/tick\n' >"$CLOUD/tick"
  require "Glance has the image" quiet os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public guest
  require "Nova has a flavor" quiet os flavor create --vcpus 1 --ram 160 --disk 1 tiny
  require "Nova has a larger flavor" quiet os flavor create --vcpus 1 --ram 192 --disk 1 small
  require "Neutron has a network" quiet web network create inner
  require "Neutron has a subnet" quiet web subnet create --network inner --subnet-range 10.87.1.0/24 inner
  GROUP=$(web server group create --policy anti-affinity apart -f value -c id)
  created running --hint "group=$GROUP" --property role=web --tag blue --os-compute-api-version 2.90
  created stopped --hint "group=$GROUP" --os-compute-api-version 2.90
  created paused
  created shelved
  local id
  for id in "${SERVERS[@]}"; do must 300 "Nova's server $id is ACTIVE" settled "$id" ACTIVE; done
  act "$SHELVED" '{"shelve": null}'
  for id in "$RUNNING" "$STOPPED" "$PAUSED"; do must 300 "the guest of $id counts" counts "$id" 2; done
  act "$STOPPED" '{"os-stop": null}'
  act "$PAUSED" '{"pause": null}'
  must 120 "a server is SHUTOFF" settled "$STOPPED" SHUTOFF
  within 60 "a server is PAUSED" settled "$PAUSED" PAUSED
  within 180 "a server is SHELVED_OFFLOADED" settled "$SHELVED" SHELVED_OFFLOADED
  SHAPES=$(shapes)
}

# The state of each server, as the API of Nova or of Chronova shows it.
shapes() {
  local id
  for id in "${SERVERS[@]}"; do
    ADMIN_SERVER "$id" server.name server.status server.OS-EXT-STS:vm_state server.OS-EXT-STS:power_state server.OS-EXT-SRV-ATTR:host \
      server.OS-EXT-SRV-ATTR:instance_name server.addresses.inner.0.addr server.tags server.metadata server.created server.flavor.ram \
      server.key_name server.config_drive server.server_groups server.OS-SRV-USG:launched_at
  done
}

NOVA_FILES=(--nova-conf "$PWD/none")
adopt() { "$CHRONOVA_BIN" adopt --data-dir "$DATA" --uri "qemu+unix:///system?socket=$STATE/{host}/run/libvirt-sock" "${NOVA_FILES[@]}" "$@"; }

nova_ends() {
  NOVA_FILES=(--nova-conf "$CLOUD/nova/nova.conf" --nova-conf "$CLOUD/nova/placement/placement.conf")
  adopt --check >"$WORK/check" 2>&1
  same "a check while Nova runs has no obstacle" "$? $(tail -n 1 "$WORK/check" | grep -oE '[0-9]+ in the way$')" "0 0 in the way"
  grep -B 1 '^  *- ' "$WORK/check" | cut -c 1-200
  OS_AUTH_URL=$KEYSTONE/v3 OS_USERNAME=admin OS_PASSWORD=secret OS_PROJECT_NAME=admin adopt --dry-run --compare "$URL/compute/v2.1" \
    --compare-placement "$(cat "$CLOUD/nova/placement.url")" >"$WORK/compare" 2>&1
  same "the answers of the running Nova have no unexplained difference" "$?" 0
  tail -n 1 "$WORK/compare"
  grep -E '^(unexplained|refused|not compared|chronova)' "$WORK/compare" | cut -c 1-300
  adopt >"$WORK/early" 2>&1
  same "an adoption beside running services is refused" "$?" 1
  like "the refusal names a service" "$(cat "$WORK/early")" 'nova-compute on h1 reported'
  nova stop "$CLOUD/nova" || bad "Nova's services end"
  NODES=$(nova_sql nova 'SELECT uuid, hypervisor_hostname FROM compute_nodes WHERE deleted = 0')
}
nova_sql() { mariadb --no-defaults -u root -S "$CLOUD/nova/mariadb.sock" -B -N "$1" -e "$2"; } # database, statement

adopt_it() {
  local uuid host
  must 100 "the adoption succeeds once Nova's services are silent" eval 'adopt >"$WORK/adopted" 2>&1'
  tail -n 1 "$WORK/adopted"
  # As docs/from-nova.md says, the pool tells Chronova which host this is.
  while read -r uuid host; do
    mkdir -p "$STATE/$host/lib/chronova"
    on "$host" pool-define /dev/stdin <<<"<pool type='dir'><name>chronova</name><uuid>$uuid</uuid><target><path>/var/lib/libvirt/chronova</path></target></pool>" \
      >/dev/null || bad "the pool of $host is defined"
  done <<<"$NODES"
  # The names of Nova's guests have its default form.
  sed -i '/^instance_name_template/d' "$CONF"
  local section
  for section in keystone_authtoken service_user; do echo "[$section]"; account nova; done >>"$CONF"
  printf '%s\n' 'send_service_user_token = true' 'timeout = 60' '[keystone_authtoken]' 'http_connect_timeout = 60' '[glance]' 'timeout = 60' 'region_name = RegionOne' \
    '[neutron]' >>"$CONF"
  account nova >>"$CONF"
  printf '%s\n' 'region_name = RegionOne' '[DEFAULT]' 'vif_plugging_timeout = 60' >>"$CONF"
}

# ------------------------------------------------------------------------- the guests' consoles, which no API is asked for

console_of() { cat "$STATE"/h*/local/nova/"$1"/console.log 2>/dev/null | tr -d '\r'; }
count_of() { console_of "$1" | grep -aoE 'GUEST-TICK [0-9]+' | tail -n 1 | cut -d ' ' -f 2; }
counts() { local now; now=$(count_of "$1"); [ "${now:-0}" -ge "$2" ]; } # uuid, number
holes() { console_of "$1" | grep -aoE 'GUEST-TICK [0-9]+' | awk '{print $2}' | awk 'NR > 1 && $1 != before + 1 {print "after " before " came " $1} {before = $1}'; }
boots_of() { console_of "$1" | grep -ac GUEST-READY; }
# A guest counts its boots on its disk, so the number also shows that it is still the same disk.
rebooted() { console_of "$1" | grep -aqE "GUEST-READY .* boots=$2 "; } # uuid, boots

CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-adopt.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml
export TESTBED_PLAIN_TAPS=1
FLEET_OPTIONS=--root-link
fleet_open adopt an 10.87 "${#HOSTS[@]}"
ADMIN=$(token admin admin)

# --------------------------------------------------------------------------------- Chronova has taken over, unchanged

same "Chronova shows each server as Nova did" "$(shapes)" "$SHAPES"
same "both hosts are up, with the ids of Nova's compute nodes" \
  "$(curl -s -H "X-Auth-Token: $ADMIN" -H 'OpenStack-API-Version: compute 2.93' "$URL/compute/v2.1/os-hypervisors" | python3 -c 'import json, sys
for row in sorted(json.load(sys.stdin)["hypervisors"], key=lambda row: row["hypervisor_hostname"]): print(row["id"], row["hypervisor_hostname"], row["state"])')" \
  "$(sort -k 2 <<<"$NODES" | awk '{print $1, $2, "up"}')"
SEEN=$(count_of "$RUNNING")
within 30 "the first guest counts on under Chronova" counts "$RUNNING" $((SEEN + 3))
same "its count has no gap over the switch" "$(holes "$RUNNING")" ""
same "it has not booted again" "$(boots_of "$RUNNING")" 1

# Compares the claims of servers with the domains that libvirt has.
books() { nova_books | sort; }
nova_books() {
  local host node
  while read -r node host; do
    curl -s -H "X-Auth-Token: $ADMIN" "$URL/placement/resource_providers/$node/allocations" | python3 -c 'import json, sys
for consumer, held in json.load(sys.stdin)["allocations"].items():
    print(sys.argv[1], consumer, held["resources"].get("VCPU"), held["resources"].get("MEMORY_MB"))' "$host"
  done <<<"$NODES"
}
truth() {
  local host id
  for host in "${HOSTS[@]}"; do
    for id in $(on "$host" list --all --uuid); do
      on "$host" dumpxml --inactive "$id" | python3 -c 'import sys, xml.etree.ElementTree as tree
domain = tree.parse(sys.stdin)
print(sys.argv[1], sys.argv[2], domain.findtext("vcpu"), int(domain.findtext("memory")) // 1024)' "$host" "$id"
    done
  done | sort
}
same "the books of Placement equal the domains of libvirt" "$(books)" "$(truth)"

# ------------------------------------------------------------------------------------------------- Chronova operates them

act "$PAUSED" '{"unpause": null}'
within 60 "the paused server is ACTIVE" settled "$PAUSED" ACTIVE
SEEN=$(count_of "$PAUSED")
within 30 "its guest counts on" counts "$PAUSED" $((SEEN + 2))
same "its count has no gap" "$(holes "$PAUSED")" ""
act "$SHELVED" '{"unshelve": null}'
act "$STOPPED" '{"os-start": null}'
act "$RUNNING" '{"reboot": {"type": "HARD"}}'
act "$PAUSED" '{"os-stop": null}'
within 120 "the server that counts is stopped" settled "$PAUSED" SHUTOFF
act "$PAUSED" '{"os-start": null}'
for id in "${SERVERS[@]}"; do within 240 "$id is ACTIVE under Chronova" settled "$id" ACTIVE; done
for id in "$RUNNING" "$STOPPED" "$PAUSED"; do within 300 "the guest of $id boots again from its disk" rebooted "$id" 2; done
same "the books of Placement equal the domains of libvirt again" "$(books)" "$(truth)"

# ------------------------------------------------------------------------------------------------------------- the deletes

PORT_OF=$(curl -s -H "X-Auth-Token: $ADMIN" "$NEUTRON/v2.0/ports?device_id=$RUNNING" | field ports.0.id)
HOST_OF=$(host_of "$RUNNING")
for id in "${SERVERS[@]}"; do same "a server is deleted" "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$id" -X DELETE)" 204; done
none_left() { [ -z "$(truth)$(books)" ]; }
within 90 "no domain and no claim is left" none_left
same "the port that Nova made is deleted" "$(ask "$ADMIN" "$NEUTRON/v2.0/ports/$PORT_OF")" 404
same "the switch of the host has no port of the server" "$(neutron in "$HOST_OF" ovs-vsctl --bare --columns=name find Interface "external_ids:iface-id=$PORT_OF")" ""
verdict
