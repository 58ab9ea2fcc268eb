#!/bin/bash
# The switch from a real Nova to Chronova: a Nova Zed with the real libvirt driver, Keystone, Glance, Neutron and Cinder
# (volumes in Ceph) runs servers in several states on two hosts. `chronova adopt` compares the answers of the running
# Nova, and takes the servers over when Nova's services have ended. Chronova continues with the same hosts at the same
# address. The guests count on their consoles, and no number may be missing. Then Chronova reboots, migrates, resizes
# and deletes servers whose disk Nova made from an image, and a server with volumes. Only a long run (CHRONOVA_SOAK=1)
# has time for this.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TESTBED=$HERE/../testbed
. "$TESTBED/fleet.sh"
. "$TESTBED/cloud.sh"
long_run || cannot "only a long run starts a real Nova"
needs_programs 'nova cinder' nova-conductor nova-api-wsgi placement-api keystone-wsgi-public glance-wsgi-api neutron-server ovs-vsctl cinder-volume ceph-osd mariadbd \
  genisoimage
HOSTS=(h1 h2)

neutron() { bash "$TESTBED/neutron.sh" "$@"; }
nova() { bash "$TESTBED/nova.sh" "$@"; }
web() { os --os-cloud web "$@"; }
quiet() { "$@" >"$WORK/quiet" 2>&1 || { tail -n 5 "$WORK/quiet"; false; }; }
must() { local before=$FAILED; within "$@"; [ $FAILED = "$before" ] || exit 1; } # as within, but the rest makes no sense without it
require() { local what=$1; shift; if "$@"; then ok "$what"; else bad "$what" "$*"; exit 1; fi; }

# ------------------------------------------------------------------------------------------------------ the cloud of Nova

house_first() {
  local port; port=$(free_port)
  KEYSTONE=http://127.0.0.1:$port
  neutron up "$CLOUD/neutron" "$KEYSTONE" 10.231.0.2 >"$CLOUD/neutron.out" 2>&1 & local networking=$!
  bash "$TESTBED/ceph.sh" up "$CLOUD/ceph" 10.231.0.2 >"$CLOUD/ceph.out" 2>&1 & local storing=$!
  { wait_for 60 test -s "$CLOUD/neutron/sb" && neutron join "$CLOUD/neutron" "${HOSTS[@]}"; } >"$CLOUD/join.out" 2>&1 & local joining=$!
  bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" "$port" >"$CLOUD/keystone.out" 2>&1 || { bad "Keystone starts" "$(tail -n 20 "$CLOUD/keystone.out")"; exit 1; }
  wait_for 60 test -s "$CLOUD/neutron/url"
  python3 "$TESTBED/people.py" "$KEYSTONE" nova:service:service,admin placement:service:service,admin neutron:service:service,admin \
    ann:web:member "compute=$URL/compute/v2.1" "placement=$URL/placement" "network=$(cat "$CLOUD/neutron/url")" \
    || { bad "Keystone gets its users, roles and services"; exit 1; }
  bash "$TESTBED/glance.sh" up "$CLOUD/glance" "$CLOUD/keystone" >"$CLOUD/glance.out" 2>&1 || { bad "Glance starts" "$(tail -n 20 "$CLOUD/glance.out")"; exit 1; }
  wait $storing || { bad "Ceph starts" "$(tail -n 20 "$CLOUD/ceph.out")"; exit 1; }
  bash "$TESTBED/cinder.sh" up "$CLOUD/cinder" "$CLOUD/keystone" "$CLOUD/ceph" "$CLOUD/glance" >"$CLOUD/cinder.out" 2>&1 \
    || { bad "Cinder starts" "$(tail -n 20 "$CLOUD/cinder.out")"; exit 1; }
  { echo clouds:; cloud chronova admin admin; cloud web ann web; } >"$HOUSE_CLOUDS"
  wait $networking || { bad "Neutron starts" "$(tail -n 20 "$CLOUD/neutron.out")"; exit 1; }
  wait $joining || { bad "the hosts join OVN" "$(tail -n 20 "$CLOUD/join.out")"; exit 1; }
  NEUTRON=$(cat "$CLOUD/neutron/url")
  ok "Keystone, Glance, Neutron and Cinder answer"
  local host; for host in "${HOSTS[@]}"; do ceph_key "$host"; done
  nova up "$CLOUD/nova" "$KEYSTONE" "$PORT" "${KEYSTONE##*:},$(port_in glance),${NEUTRON##*:},$(port_in cinder)" "${HOSTS[@]}" \
    >"$CLOUD/nova.out" 2>&1 || { bad "Nova starts" "$(tail -n 20 "$CLOUD/nova.out")"; exit 1; }
  ok "a real Nova answers at $URL"
  nova_creates
  nova_ends
  adopt_it
}

port_in() { sed 's/.*://' "$CLOUD/$1/url"; } # service
# Nova's operators define this secret on each host.
ceph_key() { # host
  local secret; secret=$(cat "$CLOUD/cinder/secret")
  on "$1" secret-define /dev/stdin <<<"<secret ephemeral='no' private='no'><uuid>$secret</uuid><usage type='ceph'><name>client.cinder</name></usage></secret>" >/dev/null \
    && on "$1" secret-set-value "$secret" "$(awk '/key = / {print $3}' "$CLOUD/ceph/ceph.client.cinder.keyring")" >/dev/null || bad "$1 gets the key of Ceph"
}

house_last() {
  nova down "$CLOUD/nova"
  neutron down "$CLOUD/neutron"
  bash "$TESTBED/cinder.sh" down "$CLOUD/cinder"
  bash "$TESTBED/ceph.sh" down "$CLOUD/ceph"
  bash "$TESTBED/glance.sh" down "$CLOUD/glance"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

created() { # name, options...
  web server create --flavor tiny --network inner --config-drive True --user-data "$CLOUD/tick" "${@:2}" "$1" -f value -c id \
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
  web port create --network inner mine >"$WORK/port" 2>&1 || bad "Neutron has a port" "$(tail -n 5 "$WORK/port")"
  web volume create --size 1 data >"$WORK/volume" 2>&1 || bad "Cinder has a volume" "$(tail -n 5 "$WORK/volume")"
  created running --image guest --hint "group=$GROUP" --property role=web --tag blue --os-compute-api-version 2.90
  created stopped --image guest --hint "group=$GROUP" --os-compute-api-version 2.90
  created paused --image guest
  created shelved --image guest
  created resized --image guest
  # This server has two ports. Its root disk is a volume, which Cinder makes from the image.
  created roomy --image guest --boot-from-volume 1 --port mine
  local id
  for id in "${SERVERS[@]}"; do must 400 "Nova's server $id is ACTIVE" settled "$id" ACTIVE; done
  act "$SHELVED" '{"shelve": null}'
  for id in "$RUNNING" "$STOPPED" "$PAUSED" "$RESIZED" "$ROOMY"; do must 300 "the guest of $id counts" counts "$id" 2; done
  # Nova's driver copies a resized server's disk between hosts with SSH, which the hosts do not have.
  local there; there=$(other "$(host_of "$RESIZED")")
  require "the other host takes no servers" os compute service set --disable "$there" nova-compute
  act "$RESIZED" "{\"resize\": {\"flavorRef\": \"$(os flavor show small -f value -c id)\"}}"
  expect "a volume is attached" web server add volume roomy data
  act "$STOPPED" '{"os-stop": null}'
  act "$PAUSED" '{"pause": null}'
  must 120 "a server is SHUTOFF" settled "$STOPPED" SHUTOFF
  within 60 "a server is PAUSED" settled "$PAUSED" PAUSED
  within 180 "a server is SHELVED_OFFLOADED" settled "$SHELVED" SHELVED_OFFLOADED
  must 180 "a server is RESIZED" settled "$RESIZED" VERIFY_RESIZE
  within 60 "the volume is in use" eval '[ "$(web volume show data -f value -c status)" = in-use ]'
  require "the other host takes servers again" os compute service set --enable "$there" nova-compute
  must 300 "the guest of the resized server has booted again" rebooted "$RESIZED" 2
  must 120 "it counts" counts "$RESIZED" 2
  SHAPES=$(shapes)
}

# The state of each server, as the API of Nova or of Chronova shows it.
shapes() {
  local id
  for id in "${SERVERS[@]}"; do
    ADMIN_SERVER "$id" server.name server.status server.OS-EXT-STS:vm_state server.OS-EXT-STS:power_state server.OS-EXT-SRV-ATTR:host \
      server.OS-EXT-SRV-ATTR:instance_name server.addresses.inner server.tags server.metadata server.created server.flavor.ram \
      server.key_name server.config_drive server.server_groups server.OS-SRV-USG:launched_at \
      server.os-extended-volumes:volumes_attached
  done
}

NOVA_FILES=(--nova-conf "$PWD/none")
adopt() { "$CHRONOVA_BIN" adopt --data-dir "$DATA" --uri "qemu+unix:///system?socket=$STATE/{host}/run/libvirt-sock" "${NOVA_FILES[@]}" "$@"; }

# The servers whose guests run while Nova's services end.
declare -A COUNTING=() BOOTS=()

nova_ends() {
  local id
  COUNTING=([running]=$RUNNING [resized]=$RESIZED [roomy]=$ROOMY)
  NOVA_FILES=(--nova-conf "$CLOUD/nova/nova.conf" --nova-conf "$CLOUD/nova/placement/placement.conf")
  adopt --check >"$WORK/check" 2>&1
  same "a check while Nova runs has no obstacle" "$? $(tail -n 1 "$WORK/check" | grep -oE '[0-9]+ in the way$')" "0 0 in the way"
  grep -B 1 '^  *- ' "$WORK/check" | cut -c 1-200
  within 120 "Nova's statistics of its hosts have no work any more" idle
  OS_AUTH_URL=$KEYSTONE/v3 OS_USERNAME=admin OS_PASSWORD=secret OS_PROJECT_NAME=admin adopt --dry-run --compare "$URL/compute/v2.1" \
    --compare-placement "$(cat "$CLOUD/nova/placement.url")" >"$WORK/compare" 2>&1
  same "the answers of the running Nova have no unexplained difference" "$?" 0
  cut -c 1-300 "$WORK/compare"
  adopt >"$WORK/early" 2>&1
  same "an adoption beside running services is refused" "$?" 1
  like "the refusal names a service" "$(cat "$WORK/early")" 'nova-compute on h1 reported'
  for id in "${COUNTING[@]}"; do BOOTS[$id]=$(boots_of "$id"); done
  nova stop "$CLOUD/nova" || bad "Nova's services end"
  NODES=$(nova_sql nova 'SELECT uuid, hypervisor_hostname FROM compute_nodes WHERE deleted = 0')
}
# Each nova-compute counts its servers with a task once a minute.
idle() { [ "$(nova_sql nova 'SELECT SUM(current_workload) FROM compute_nodes WHERE deleted = 0')" = 0 ]; }
nova_sql() { mariadb --no-defaults -u root -S "$CLOUD/nova/mariadb.sock" -B -N "$1" -e "$2"; } # database, statement

adopt_it() {
  local uuid host
  must 100 "the adoption succeeds once Nova's services are silent" eval 'adopt >"$WORK/adopted" 2>&1'
  tail -n 1 "$WORK/adopted"
  # As docs/from-nova.md says, the UUID of the pool `chronova` tells Chronova which host this is.
  while read -r uuid host; do
    mkdir -p "$STATE/$host/lib/chronova"
    on "$host" pool-define /dev/stdin <<<"<pool type='dir'><name>chronova</name><uuid>$uuid</uuid><target><path>/var/lib/libvirt/chronova</path></target></pool>" \
      >/dev/null || bad "the pool of $host is defined"
  done <<<"$NODES"
  # Nova has given its guests names in the default form, so Chronova also uses the default.
  sed -i '/^instance_name_template/d' "$CONF"
  local section
  for section in keystone_authtoken service_user; do echo "[$section]"; account nova; done >>"$CONF"
  printf '%s\n' 'send_service_user_token = true' 'timeout = 60' '[keystone_authtoken]' 'http_connect_timeout = 60' '[glance]' 'timeout = 60' 'region_name = RegionOne' \
    '[neutron]' >>"$CONF"
  account nova >>"$CONF"
  printf '%s\n' 'region_name = RegionOne' '[cinder]' 'os_region_name = RegionOne' 'timeout = 60' '[DEFAULT]' \
    'allow_resize_to_same_host = false' '[chronova]' "rbd_keyring = $CLOUD/ceph/ceph.client.cinder.keyring" >>"$CONF"
}

# -------------------------------------------------------------------------- the guests' consoles, from the hosts' files

# Prints Nova's file first, and then Chronova's two files on the host to which the guest has moved. The file `.0` is the
# older one.
console_of() {
  { cat "$STATE"/h*/local/nova/"$1"/console.log "$STATE"/h*/lib/chronova/"$1_console.log.0" "$STATE"/h*/lib/chronova/"$1_console.log" 2>/dev/null || true; } \
    | tr -d '\r'
}
ticks_of() { console_of "$1" | awk '/GUEST-READY/ {lines = ""} /GUEST-TICK [0-9]+/ {lines = lines $0 "\n"} END {printf "%s", lines}' | grep -aoE 'GUEST-TICK [0-9]+' | cut -d ' ' -f 2; }
count_of() { ticks_of "$1" | tail -n 1; }
counts() { local now; now=$(count_of "$1"); [ "${now:-0}" -ge "$2" ]; } # uuid, number
holes() { ticks_of "$1" | awk 'NR > 1 && $1 != before + 1 {print "after " before " came " $1} {before = $1}'; }
boots_of() { console_of "$1" | grep -ac GUEST-READY; }
last_boot() { console_of "$1" | grep -aoE 'GUEST-READY .* boots=[0-9]+' | tail -n 1 | sed 's/.*=//'; }
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
for name in "${!COUNTING[@]}"; do
  id=${COUNTING[$name]} SEEN=$(count_of "${COUNTING[$name]}")
  within 30 "$name: its guest counts on under Chronova" counts "$id" $((SEEN + 3))
  same "$name: its count has no gap over the switch" "$(holes "$id")" ""
  same "$name: it has not booted again" "$(boots_of "$id")" "${BOOTS[$id]}"
done

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
      # A domain may be removed after it was listed.
      on "$host" dumpxml --inactive "$id" >"$WORK/domain" && python3 -c 'import sys, xml.etree.ElementTree as tree
domain = tree.parse(sys.argv[3])
print(sys.argv[1], sys.argv[2], domain.findtext("vcpu"), int(domain.findtext("memory")) // 1024)' "$host" "$id" "$WORK/domain"
    done
  done | sort
}
balanced() { [ "$(books)" = "$(truth)" ]; }
# The migration of a resize that waits still claims the old flavor, as in Nova.
same "the books of Placement equal the domains of libvirt" "$(books | grep -F "$(printf '%s\n' "${SERVERS[@]}")")" "$(truth)"
same "the waiting resize has a claim of its own" "$(books | grep -cvF "$(printf '%s\n' "${SERVERS[@]}")")" 1

# ------------------------------------------------------------------------------------------------- Chronova operates them

act "$PAUSED" '{"unpause": null}'
within 60 "the paused server is ACTIVE" settled "$PAUSED" ACTIVE
SEEN=$(count_of "$PAUSED")
within 30 "its guest counts on" counts "$PAUSED" $((SEEN + 2))
same "its count has no gap" "$(holes "$PAUSED")" ""
act "$SHELVED" '{"unshelve": null}'
act "$STOPPED" '{"os-start": null}'
for id in "$RUNNING" "$ROOMY"; do act "$id" '{"reboot": {"type": "HARD"}}'; done
same "the resize that waited is confirmed" "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$RESIZED/action" -d '{"confirmResize": null}')" 204
for id in "${SERVERS[@]}"; do within 240 "$id is ACTIVE under Chronova" settled "$id" ACTIVE; done
# libvirt makes a new tap at each start of a guest. Open vSwitch in the kernel sees that the old tap is gone, and takes the
# new one into the port that Nova's os-vif has made. In user space (neutron.sh), Open vSwitch keeps the old tap open as
# long as it has the port. So this function deletes each port and adds it again, except the ports whose tap is gone.
reopen_taps() {
  local host tap ids
  for host in "${HOSTS[@]}"; do
    for tap in $(neutron in "$host" ovs-vsctl --bare --columns=name find Interface external_ids:iface-status=active); do
      ids=$(neutron in "$host" ovs-vsctl get Interface "$tap" external_ids)
      neutron in "$host" ovs-vsctl del-port "$tap"
      neutron in "$host" ip link show "$tap" >/dev/null 2>&1 || continue
      neutron in "$host" ovs-vsctl add-port br-int "$tap" -- set Interface "$tap" "external_ids=$ids" \
        -- remove Interface "$tap" external_ids ovn-installed ovn-installed-ts || bad "$host has the port $tap again"
    done
  done
}
# At boot, the test guest asks for an address for three seconds, and a busy Open vSwitch may need longer for a new port.
# If the guest got no address at boot, it asks again here.
addressed() { # uuid
  local said
  said=$(console_of "$1" | grep -a GUEST-READY | tail -n 1 | grep -oE 'ip=[0-9.]+' | cut -d = -f 2)
  [ -n "$said" ] || said=$(at "$(host_of "$1")" "$1" "udhcpc -i eth0 -n -q -t 5 -T 1 -s /etc/dhcp >/dev/null 2>&1; ip -4 -o addr show dev eth0" \
    | grep -oE '10\.87\.1\.[0-9]+' | head -n 1)
  [ -n "$said" ] && ADMIN_SERVER "$1" server.addresses.inner | grep -qF "'$said'"
}
reopen_taps
for id in "$RUNNING" "$STOPPED" "$ROOMY"; do
  within 300 "the guest of $id boots again from its disk" rebooted "$id" 2
  within 60 "it has its address" addressed "$id"
done
within 30 "the books of Placement equal the domains of libvirt again" balanced

# ------------------------------------------------------------------------------------------------------- live migrations

goes_live() { # uuid, what
  local from to seen boot
  from=$(host_of "$1")
  to=$(other "$from")
  seen=$(count_of "$1") boot=$(last_boot "$1")
  same "$2: a live migration to $to is requested" "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$1/action" -H 'OpenStack-API-Version: compute 2.34' \
    -d "{\"os-migrateLive\": {\"host\": \"$to\", \"block_migration\": \"auto\"}}")" 202
  within 240 "$2: the server is ACTIVE again" settled "$1" ACTIVE
  same "$2: it is on the other host" "$(host_of "$1")" "$to"
  within 60 "$2: its guest counts on" counts "$1" $((seen + 5))
  same "$2: its count has no gap" "$(holes "$1")" ""
  same "$2: it has not booted again" "$(last_boot "$1")" "$boot"
  same "$2: libvirt runs it on one host" "$(runs "$1")" 1
}
goes_live "$ROOMY" "a server with volumes and two ports"
# The destination gets the image from Glance. Glance shows the MD5 that Nova recorded.
goes_live "$PAUSED" "a server with a disk of Nova's"
within 30 "the books of Placement equal the domains of libvirt after the migrations" balanced

# --------------------------------------------------------------------------------------------------------------- resizes

resizes() { # uuid, flavor, what, the boot that follows
  local from; from=$(host_of "$1")
  act "$1" "{\"resize\": {\"flavorRef\": \"$(os flavor show "$2" -f value -c id)\"}}"
  within 300 "$3: the server is in VERIFY_RESIZE" settled "$1" VERIFY_RESIZE
  same "$3: it has left its host" "$(host_of "$1")" "$(other "$from")"
  within 300 "$3: its guest boots again from its disk" rebooted "$1" "$4"
  same "$3: the resize is confirmed" "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$1/action" -d '{"confirmResize": null}')" 204
  within 90 "$3: the server is ACTIVE" settled "$1" ACTIVE
}
resizes "$ROOMY" small "a resize of a server with volumes and two ports" 3
resizes "$RESIZED" tiny "a resize of a server with a disk of Nova's" 3
# After the resize, the server's disk is one file that Chronova made, without a base image.
goes_live "$RESIZED" "a server with a disk of Nova's after its resize"
expect "an image of a running server with a disk of Nova's is requested" quiet web server image create --name copy running
imaged() { [ "$(web image show copy -f value -c status)" = active ] && settled "$RUNNING" ACTIVE; }
within 180 "the image is there" imaged
act "$RUNNING" '{"shelve": null}'
within 180 "a server with a disk of Nova's is shelved" settled "$RUNNING" SHELVED_OFFLOADED
same "Nova's file of the disk stays" "$(find "$STATE"/h*/local/nova/"$RUNNING" -name disk | wc -l)" 1
reopen_taps
act "$RUNNING" '{"unshelve": null}'
within 300 "it is unshelved" settled "$RUNNING" ACTIVE
within 300 "its guest boots again from its disk" rebooted "$RUNNING" 3
within 60 "it has its address" addressed "$RUNNING"
within 60 "the books of Placement equal the domains of libvirt after the resizes" balanced

# ------------------------------------------------------------------------------------------------------------- the deletes

PORT_OF=$(curl -s -H "X-Auth-Token: $ADMIN" "$NEUTRON/v2.0/ports?device_id=$STOPPED" | field ports.0.id)
for id in "${SERVERS[@]}"; do same "a server is deleted" "$(ask "$ADMIN" "$URL/compute/v2.1/servers/$id" -X DELETE)" 204; done
none_left() { [ -z "$(truth)$(books)" ]; }
within 120 "no domain and no claim is left" none_left
within 60 "the port that Nova made is deleted" eval '[ "$(ask "$ADMIN" "$NEUTRON/v2.0/ports/$PORT_OF")" = 404 ]'
same "the user's port is kept, and unbound" "$(web port show mine -f value -c status)" DOWN
within 60 "the user's volume is available" eval '[ "$(web volume show data -f value -c status)" = available ]'
verdict
