#!/bin/bash
# A real Neutron with OVN, from Debian's packages (`setup_packages neutron` of ops/setup.sh), for scripts in tests/real.
#
#   neutron.sh up DIR KEYSTONE ADDRESS [metadata]   starts the databases and the server, unless they run. KEYSTONE is
#                                        Keystone's address. ADDRESS is an address of this machine that the hosts reach:
#                                        OVN's southbound database listens there. With `metadata`, each network has a
#                                        port for metadata
#   neutron.sh central DIR ADDRESS       starts only OVN's databases and ovn-northd, unless they run
#   neutron.sh join DIR H...             starts Open vSwitch and ovn-controller in running hosts of hosts.sh
#   neutron.sh metadata DIR SERVER AUTHORITY SECRET H...   starts Neutron's metadata agent in these hosts. SERVER is
#                                        HOST:PORT of Nova's metadata API, which has a certificate of AUTHORITY, a file.
#                                        The agents sign guests' requests with SECRET
#   neutron.sh pretend DIR HOST          adds to OVN a host that does not exist, so that ports can be bound to it
#   neutron.sh in H CMD...               runs CMD (ovs-vsctl, ovs-ofctl...) in a host
#   neutron.sh down DIR                  ends all these processes; DIR stays
#
# DIR has MariaDB's data, OVN's databases and the logs; `url` has the server's address. Each process leads a session of
# its own, whose id is in DIR/NAME.pid. The server's account in Keystone is neutron, project service, password `secret`.
# The server reports ports to the Compute endpoint of Keystone's catalogue. Open vSwitch forwards in user space, so no
# kernel module is needed. Its tunnels (geneve) run over the network of the hosts' guests.
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
COMMAND=${1:-}; shift || true
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}
TESTBED=${TESTBED_STATE:-/var/tmp/tb-${TESTBED_ID:-a}}
. "$(dirname "$(realpath "$0")")/free_port.sh"
die() { echo "neutron.sh: $*" >&2; exit 1; }

. "$(dirname "$(realpath "$0")")/daemons.sh"
. "$(dirname "$(realpath "$0")")/mariadb.sh"

# ------------------------------------------------------------------------------------------------------------ databases

# Chooses the addresses of the databases.
places() {
  [ -s "$DIR/nb" ] || echo "127.0.0.1:$(free_port)" >"$DIR/nb"
  [ -s "$DIR/sb" ] || echo "$ADDRESS:$(free_port)" >"$DIR/sb"
}

central() {
  local half table remote
  for half in nb sb; do
    [ -s "$DIR/ovn$half.db" ] || ovsdb-tool create "$DIR/ovn$half.db" "/usr/share/ovn/ovn-$half.ovsschema"
    if [ $half = nb ]; then table=OVN_Northbound,NB_Global,connections remote=$(cat "$DIR/nb"); else table=OVN_Southbound,SB_Global,connections remote=$(cat "$DIR/sb"); fi
    alive "ovn$half" || rm -f "$DIR/ovn$half.sock"
    spawn "ovn$half" ovsdb-server "$DIR/ovn$half.db" --remote="punix:$DIR/ovn$half.sock" --remote="db:$table" --unixctl="$DIR/ovn$half.ctl" \
      --no-chdir -vconsole:off --log-file="$DIR/log/ovn$half.log"
    within 20 test -S "$DIR/ovn$half.sock" || die "OVN's database $half does not start: see $DIR/log"
    # The default probe of 5 s cuts connections on a busy machine.
    "ovn-${half}ctl" --db="unix:$DIR/ovn$half.sock" --inactivity-probe=60000 set-connection "ptcp:${remote##*:}:${remote%:*}"
  done
  spawn northd ovn-northd --ovnnb-db="unix:$DIR/ovnnb.sock" --ovnsb-db="unix:$DIR/ovnsb.sock" --unixctl="$DIR/northd.ctl" -vconsole:off \
    --log-file="$DIR/log/northd.log"
}

# ----------------------------------------------------------------------------------------------------------- the server

configure() { # Keystone, port
  mkdir -p "$DIR/state"
  echo "http://127.0.0.1:$2" >"$DIR/url"
  places
  account() {
    printf '%s\n' "auth_url = $KEYSTONE/v3" 'auth_type = password' "username = $1" 'password = secret' 'user_domain_name = Default' \
      'project_name = service' 'project_domain_name = Default' 'region_name = RegionOne'
  }
  cat >"$DIR/neutron.conf" <<CONF
[DEFAULT]
log_file = $DIR/log/server.log
bind_host = 127.0.0.1
bind_port = $2
api_paste_config = /etc/neutron/api-paste.ini
state_path = $DIR/state
transport_url = fake://
core_plugin = ml2
service_plugins = ovn-router,auto_allocate
api_workers = 1
rpc_workers = 1
rpc_state_report_workers = 0
dhcp_agent_notification = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
send_events_interval = 1
[quotas]
quota_port = 50
[database]
connection = mysql+pymysql://root@localhost/neutron?unix_socket=$DIR/mariadb.sock&charset=utf8
[oslo_concurrency]
lock_path = $DIR/state
[nova]
$(account nova)
[keystone_authtoken]
www_authenticate_uri = $KEYSTONE
$(account neutron)
service_token_roles = service
CONF
  cat >"$DIR/ml2.ini" <<CONF
[ml2]
type_drivers = local,flat,geneve
tenant_network_types = geneve
mechanism_drivers = ovn
extension_drivers = port_security
overlay_ip_version = 4
path_mtu = 1500
[ml2_type_geneve]
vni_ranges = 1:65536
max_header_size = 38
[ml2_type_flat]
flat_networks = *
[securitygroup]
enable_security_group = true
[ovn]
ovn_nb_connection = tcp:$(cat "$DIR/nb")
ovn_sb_connection = tcp:$(cat "$DIR/sb")
ovn_l3_scheduler = leastloaded
ovn_metadata_enabled = ${METADATA:-false}
neutron_sync_mode = log
CONF
}

# The request has no token, so a running server answers 401.
answers() { [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "$(cat "$DIR/url")/v2.0/networks")" = 401 ]; }

up() {
  mkdir -p -m 0700 "$DIR" "$DIR/log"
  [ -e "$DIR/url" ] || configure "$KEYSTONE" "$(free_port)"
  central & local other=$!
  database neutron neutron-common neutron-db-manage --config-file "$DIR/neutron.conf" --config-file "$DIR/ml2.ini" upgrade heads
  wait $other || die "OVN's databases do not start"
  spawn server /usr/bin/neutron-server --config-file "$DIR/neutron.conf" --config-file "$DIR/ml2.ini"
  until answers; do
    alive server && [ $SECONDS -lt 120 ] || { tail -n 20 "$DIR/log/server.log" "$DIR/log/server.out" >&2; die "Neutron does not start"; }
    sleep 0.3
  done
}

# ------------------------------------------------------------------------------------------------------------ the hosts

inside() { local host=$1; shift; nsenter -t "$(cat "$TESTBED/$host/init.pid")" -m -u -i -n -p -- "$@"; } # host, command...

join() { # host
  local h=$1 H=$TESTBED/$1 n=${1#h} wire link=(ip -n "tb${TESTBED_ID:-a}-$1")
  wire=10.232.0.$((10 + n))
  mkdir -p "$H"/{ovs,ovn} "$H/log/ovs" /run/openvswitch /run/ovn
  # The mounts end with the host.
  # shellcheck disable=SC2016
  inside "$h" bash -c 'mountpoint -q /run/openvswitch || mount --bind "$0/ovs" /run/openvswitch
    mountpoint -q /run/ovn || mount --bind "$0/ovn" /run/ovn' "$H"
  # Deletes the Linux bridge of hosts.sh, because the bridge of Open vSwitch has the same name.
  [ -s "$H/ovs/conf.db" ] || { "${link[@]}" link del br-int; ovsdb-tool create "$H/ovs/conf.db" /usr/share/openvswitch/vswitch.ovsschema; }
  alive "$h-ovsdb" || rm -f "$H"/ovs/*.sock "$H"/ovs/*.ctl
  local enter=(nsenter -t "$(cat "$H/init.pid")" -m -u -i -n -p --) vs=(inside "$h" ovs-vsctl --timeout=30)
  spawn "$h-ovsdb" "${enter[@]}" ovsdb-server "$H/ovs/conf.db" --remote=punix:/run/openvswitch/db.sock --pidfile -vconsole:off \
    --log-file="$H/log/ovs/ovsdb-server.log"
  within 20 test -S "$H/ovs/db.sock" || die "$h: ovsdb-server does not start"
  "${vs[@]}" --no-wait init
  "${vs[@]}" --no-wait set Open_vSwitch . external-ids:system-id="$h" external-ids:hostname="$h" \
    external-ids:ovn-remote="tcp:$(cat "$DIR/sb")" external-ids:ovn-encap-type=geneve external-ids:ovn-encap-ip="$wire" \
    external-ids:ovn-bridge-datapath-type=netdev external-ids:ovn-bridge-mappings=physnet1:br-phy \
    external-ids:ovn-cms-options=enable-chassis-as-gw external-ids:ovn-remote-probe-interval=60000 \
    external-ids:ovn-openflow-probe-interval=60 external-ids:ovn-monitor-all=true \
    other_config:n-handler-threads=1 other_config:n-revalidator-threads=1
  spawn "$h-vswitchd" "${enter[@]}" ovs-vswitchd unix:/run/openvswitch/db.sock --pidfile -vconsole:off --log-file="$H/log/ovs/ovs-vswitchd.log"
  "${vs[@]}" -- --may-exist add-br br-int -- set bridge br-int datapath_type=netdev fail-mode=secure other-config:disable-in-band=true \
    -- --may-exist add-br br-phy -- set bridge br-phy datapath_type=netdev -- --may-exist add-port br-phy phys0
  # After a reboot the database lists the bridges before ovs-vswitchd has created them.
  within 20 "${link[@]}" link show br-phy && within 20 "${link[@]}" link show br-int || die "$h: ovs-vswitchd makes no bridges"
  # A tunnel in user space can leave only through a bridge of Open vSwitch, so br-phy has the address.
  "${link[@]}" addr replace "$wire/24" dev br-phy
  "${link[@]}" link set br-phy up
  "${link[@]}" link set br-int up
  spawn "$h-controller" "${enter[@]}" ovn-controller unix:/run/openvswitch/db.sock --pidfile -vconsole:off --log-file="$H/log/ovs/ovn-controller.log"
  # User-space Open vSwitch completes no checksums, so packets that enter it must have complete ones.
  ip netns exec "tb${TESTBED_ID:-a}-fab" ethtool -K "p$n" tx off >/dev/null 2>&1 || true
}

# For each network with a guest on its host, the agent starts an haproxy at 169.254.169.254 in a network namespace. The
# namespace ends with the host. /run/netns has the namespaces' names, so each host gets its own.
metadata() { # server, authority, secret, host
  local h=$4 H=$TESTBED/$4
  mkdir -p "$H/ovn/neutron" /run/netns
  inside "$h" sh -c 'grep -q "^netns-of-host " /proc/self/mounts || mount -t tmpfs netns-of-host /run/netns'
  cat >"$H/ovn/metadata.ini" <<CONF
[DEFAULT]
host = $h
log_file = $H/log/ovs/metadata-agent.log
state_path = $H/ovn/neutron
metadata_proxy_socket = $H/ovn/metadata_proxy
nova_metadata_host = ${1%:*}
nova_metadata_port = ${1##*:}
nova_metadata_protocol = https
auth_ca_cert = $2
metadata_proxy_shared_secret = $3
metadata_workers = 1
[agent]
root_helper =
[ovs]
ovsdb_connection = unix:/run/openvswitch/db.sock
[ovn]
ovn_sb_connection = tcp:$(cat "$DIR/sb")
ovn_metadata_enabled = true
CONF
  spawn "$h-metadata" nsenter -t "$(cat "$H/init.pid")" -m -u -i -n -p -- /usr/bin/neutron-ovn-metadata-agent --config-file "$H/ovn/metadata.ini"
}

chassis() { ovn-sbctl --db="unix:$DIR/ovnsb.sock" --bare --columns=hostname list chassis | grep -qx "$1"; }

# Debian pairs Neutron 21 with OVN 23.03. Neutron 21 reads a chassis' bridge mappings and gateway option from
# external_ids, but OVN 23.03 writes them to other_config only.
complete_chassis() { # host
  local key value
  within 60 chassis "$1" || die "$1 is no chassis: see $TESTBED/$1/log/ovs/ovn-controller.log"
  for key in ovn-bridge-mappings ovn-cms-options datapath-type iface-types; do
    value=$(ovn-sbctl --db="unix:$DIR/ovnsb.sock" get chassis "$1" "other_config:$key")
    ovn-sbctl --db="unix:$DIR/ovnsb.sock" set chassis "$1" "external_ids:$key=$value"
  done
}

usage() { sed -n '2,/^set /{/^#/p}' "$(realpath "$0")" >&2; exit 2; }
case $COMMAND in
  up) DIR=${1:?} KEYSTONE=${2:?} ADDRESS=${3:?} METADATA=${4:+true}; up ;;
  central)
    DIR=${1:?} ADDRESS=${2:?}
    mkdir -p -m 0700 "$DIR" "$DIR/log"
    places
    central
    ;;
  join)
    DIR=${1:?}; shift
    for h in "$@"; do join "$h"; done
    for h in "$@"; do complete_chassis "$h"; done
    ;;
  metadata)
    DIR=${1:?} server=${2:?} authority=${3:?} secret=${4:?}; shift 4
    for h in "$@"; do metadata "$server" "$authority" "$secret" "$h"; done
    ;;
  pretend)
    # Neutron considers a chassis alive if its nb_cfg is not behind the configuration. So this nb_cfg is far ahead.
    DIR=${1:?} host=${2:?}
    south=(ovn-sbctl --db="unix:$DIR/ovnsb.sock")
    "${south[@]}" chassis-add "$host" geneve "192.0.2.${host//[^0-9]/}" -- set chassis "$host" "hostname=$host"
    "${south[@]}" create Chassis_Private "name=$host" nb_cfg=1000000000 \
      "chassis=$("${south[@]}" --bare --columns=_uuid find chassis "name=$host")"
    ;;
  in) inside "$@" ;;
  down)
    DIR=${1:?}
    for pid in "$DIR"/h*.pid; do [ ! -e "$pid" ] || stop "$(basename "$pid" .pid)"; done
    stop server northd ovnnb ovnsb mariadb
    ;;
  *) usage ;;
esac
