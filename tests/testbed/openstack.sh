# A cloud with two real hosts, and a real Keystone, Glance, and Neutron with OVN; sourced by tests/real/services.sh and by
# scripts of tests/soak. The script sets FLEET_OPTIONS=--root-link first.
#
#   openstack_open NAME ID NET     starts all of it. KEYSTONE, GLANCE and NEUTRON are the addresses; ADMIN and WEB are tokens
#                                  of the administrator and of a member of the project `web`
#   openstack_patience SECONDS     limits the time of each call to another service. It holds from the next start of the
#                                  control plane on
#   web COMMAND...                 runs the client as the member
#   network PATH, port ID NAME..., server ID NAME...   answers of Neutron and of the control plane, and fields of them
#   session_of SERVICE             prints the file with the session's id of keystone, glance or neutron, for `signal`
#   keystone_up, glance_up, neutron_up   start the service again after a kill
#   fresh_image NAME               uploads an image that no host has, and prints its id
#   recovers SERVICE FAULT         brings the fault about, and then ends it: `kill` (down for 10 s), `hang`
#                                  (stopped for longer than PATIENCE, the time limit of calls), `slow` (for 60 s)
#   leaks                          prints what a service or a host has without a server, and what it lacks
#   service_leaks, host_leaks      the two parts of it

. "$(dirname "${BASH_SOURCE[0]}")/fleet.sh"
TESTBED=$HERE
. "$TESTBED/cloud.sh"
. "$TESTBED/pings.sh"
needs_programs neutron keystone-wsgi-public glance-wsgi-api neutron-server neutron-ovn-metadata-agent ovs-vsctl ovn-nbctl mariadbd haproxy

# An address of this machine that the hosts reach, and the secret of Neutron's metadata agents.
ADDRESS=10.231.0.2 SECRET=not-so-secret-4711

neutron() { bash "$TESTBED/neutron.sh" "$@"; }
keystone_up() { bash "$TESTBED/keystone.sh" up "$CLOUD/keystone" "$@"; }
glance_up() { bash "$TESTBED/glance.sh" up "$CLOUD/glance" "$CLOUD/keystone"; }
neutron_up() { neutron up "$CLOUD/neutron" "$KEYSTONE" "$ADDRESS" metadata; }
hosts_join() {
  wait_for 60 test -s "$CLOUD/neutron/sb" && neutron join "$CLOUD/neutron" h1 h2 \
    && neutron metadata "$CLOUD/neutron" "$ADDRESS:$METADATA" "$CLOUD/metadata.pem" "$SECRET" h1 h2
}

# The services and the hosts' switches start at the same time.
house_first() {
  local server switches images port
  port=$(free_port) METADATA=$(free_port)
  KEYSTONE=http://127.0.0.1:$port
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=metadata \
    -addext "subjectAltName=IP:$ADDRESS" -keyout "$CLOUD/metadata.key" -out "$CLOUD/metadata.pem" 2>/dev/null
  neutron_up >"$CLOUD/neutron.out" 2>&1 &
  server=$!
  hosts_join >"$CLOUD/join.out" 2>&1 &
  switches=$!
  keystone_up "$port" >"$CLOUD/keystone.out" 2>&1 || { bad "Keystone starts" "$(tail -n 20 "$CLOUD/keystone.out")"; exit 1; }
  wait_for 60 test -s "$CLOUD/neutron/url"
  NEUTRON=$(cat "$CLOUD/neutron/url")
  python3 "$TESTBED/people.py" "$KEYSTONE" nova:service:service,admin placement:service:service,admin \
    neutron:service:service,admin ann:web:member eve:shop:member "compute=$URL/compute/v2.1" "placement=$URL/placement" \
    "network=$NEUTRON" || { bad "Keystone gets its users, roles and services"; exit 1; }
  glance_up >"$CLOUD/glance.out" 2>&1 &
  images=$!
  { echo clouds:; cloud chronova admin admin; cloud web ann web; cloud shop eve shop; } >"$HOUSE_CLOUDS"
  {
    printf '%s\n' '[DEFAULT]' 'vif_plugging_timeout = 40' 'enabled_ssl_apis = metadata' '[wsgi]' "ssl_cert_file = $CLOUD/metadata.pem" \
      "ssl_key_file = $CLOUD/metadata.key" '[chronova]' "metadata_listen = $ADDRESS:$METADATA" '[keystone_authtoken]'
    account nova
    # Keystone has only two processes here, and Neutron calls Keystone for each request, so an answer may take long.
    echo 'http_connect_timeout = 60'
    echo '[service_user]'
    account nova
    printf '%s\n' 'timeout = 60' 'send_service_user_token = true' '[glance]' 'region_name = RegionOne' '[neutron]'
    account nova
    printf '%s\n' 'region_name = RegionOne' 'service_metadata_proxy = true' "metadata_proxy_shared_secret = $SECRET" 'default_floating_pool = outside'
  } >>"$CONF"
  wait $images || { bad "Glance starts" "$(tail -n 20 "$CLOUD/glance.out")"; exit 1; }
  wait $server || { bad "Neutron starts" "$(tail -n 20 "$CLOUD/neutron.out")"; exit 1; }
  GLANCE=$(cat "$CLOUD/glance/url")
  ok "Keystone answers at $KEYSTONE, Glance at $GLANCE, Neutron at $NEUTRON"
  wait $switches || { bad "the hosts join OVN" "$(tail -n 20 "$CLOUD/join.out")"; exit 1; }
  ok "two hosts are chassis of OVN"
}

house_last() {
  fast
  neutron down "$CLOUD/neutron"
  bash "$TESTBED/glance.sh" down "$CLOUD/glance"
  bash "$TESTBED/keystone.sh" down "$CLOUD/keystone"
  hosts down >/dev/null 2>&1
  [ $FAILED -gt 0 ] || rm -rf "$CLOUD"
}

# -------------------------------------------------------------------------------------------------------------- queries

quiet() { "$@" >/dev/null; }
web() { os --os-cloud web "$@"; }
# `network` and `server` print answers of Neutron and of the control plane to the administrator. They use curl, because
# the client takes a second for each answer.
network() { curl -s -m 60 -H "X-Auth-Token: $ADMIN" "$NEUTRON/v2.0/$1"; }
server() { curl -s -m 60 -H "X-Auth-Token: $ADMIN" -H 'OpenStack-API-Version: compute 2.90' "$URL/compute/v2.1/servers/$1" | field "${@:2}"; }
server_is() { [ "$(server "$1" server.status)" = "$2" ]; } # uuid, status
state() { server "$1" server.status server.OS-EXT-STS:task_state; } # uuid
place_of() { server "$1" server.OS-EXT-SRV-ATTR:host; }
is_placed() { [ "$(place_of "$1")" = "$2" ] && server_is "$1" ACTIVE; } # uuid, host
port_of() { network "ports?device_id=$1" | field ports.0.id; } # uuid of a server
port() { network "ports/$1" | field "${@:2}"; }
port_is() { [ "$(port "$1" "${@:3}")" = "$2" ]; } # port, values, names...
# Lists the guests' tap devices in Open vSwitch on a host. Leaves out the metadata agent's own device, which has the
# network's id in its name.
taps() { neutron in "$1" ovs-vsctl --bare --columns=name find Interface type='""' | grep ^tap | grep -vx "tap${INNER:0:10}0"; }
no_port() { [ "$(ask "$ADMIN" "$NEUTRON/v2.0/ports/$1")" = 404 ]; }
bindings() { network "ports/$1/bindings" | python3 -c 'import json, sys
print(*sorted("%(host)s:%(status)s" % row for row in json.load(sys.stdin)["bindings"]))'; }

# ----------------------------------------------------------------------------------------------------- faults and leaks

session_of() { if [ "$1" = neutron ]; then echo "$CLOUD/neutron/server.pid"; else echo "$CLOUD/$1/pid"; fi; } # service
recovers() { # service, fault
  local session; session=$(session_of "$1")
  case $2 in
    kill) signal KILL "$session"; sleep 10; "$1_up" >>"$CLOUD/$1.out" 2>&1 || bad "$1 starts again" "$(tail -n 5 "$CLOUD/$1.out")" ;;
    hang) signal STOP "$session"; sleep $((PATIENCE + 10)); signal CONT "$session" ;;
    slow) slow "$session" 0.4 0.1; sleep 60; fast ;;
  esac
}
# No host has this image in its cache, so a host downloads it.
fresh_image() { # name: prints its id
  [ -s "$WORK/fresh.raw" ] || qemu-img convert -O raw "$CHRONOVA_IMAGE" "$WORK/fresh.raw"
  head -c 16 /dev/urandom >>"$WORK/fresh.raw"
  os image create --disk-format raw --container-format bare --file "$WORK/fresh.raw" --public "$1" -f value -c id
}
# Prints what services and hosts have although no server needs it, and what they lack.
leaks() { service_leaks; host_leaks; }
service_leaks() { TOKEN=$ADMIN python3 "$TESTBED/leaks.py" "$URL/compute" "$URL/placement" "$NEUTRON" "$GLANCE"; }
host_leaks() {
  local host guest
  for host in h1 h2; do
    diff <(on "$host" list --all --uuid | sed '/^$/d' | sort) \
      <(curl -s -m 60 -H "X-Auth-Token: $ADMIN" "$URL/compute/v2.1/servers/detail?all_tenants=1&host=$host" \
        | python3 -c 'import json, sys; print(*sorted(row["id"] for row in json.load(sys.stdin)["servers"]), sep="\n")' | sed '/^$/d') \
      | sed -n "s/^</$host has the guest/p; s/^>/$host lacks the guest/p"
    [ "$(taps "$host" | wc -l)" = "$(for guest in $(on "$host" list --uuid); do on "$host" domiflist "$guest"; done | grep -c tap)" ] \
      || echo "$host has not one tap device for each interface of a guest"
  done
}

openstack_open() { # name, testbed, first two numbers of its networks
  CLOUD=$(mktemp -d "${TMPDIR:-/tmp}/chronova-$1.XXXXXX") HOUSE_CLOUDS=$CLOUD/clouds.yaml
  export TESTBED_PLAIN_TAPS=1
  fleet_open "$1" "$2" "$3" 2
  ADMIN=$(token admin admin) WEB=$(token ann web)
}

openstack_patience() { # seconds
  sed -i "s/^http_connect_timeout = .*/http_connect_timeout = $1/; s/^timeout = .*/timeout = $1/" "$CONF"
  sed -i "s/^\[glance\]$/&\ntimeout = $1/; s/^\[neutron\]$/&\ntimeout = $1/" "$CONF"
}
