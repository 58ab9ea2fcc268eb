#!/bin/bash
# A real Nova and Placement (Zed) from Debian's packages (`setup_packages nova` of ops/setup.sh), with the real libvirt
# driver on hosts of hosts.sh. It needs the Keystone, Glance and Neutron of keystone.sh, glance.sh and neutron.sh. With a
# Cinder of cinder.sh, servers can have volumes.
#
#   nova.sh up DIR KEYSTONE PORT REACHED H...   starts databases, broker, Placement, Nova's services, and a nova-compute
#                                               in each host. Nova's API is http://127.0.0.1:PORT/compute/v2.1. Chronova
#                                               would have the same address, so one catalogue fits both. REACHED lists
#                                               the ports of Keystone, Glance, Neutron and Cinder on this machine, with
#                                               commas between them. The hosts can reach these ports
#   nova.sh stop DIR                            ends the services of Nova, and Placement. The databases stay up
#   nova.sh down DIR                            ends everything; DIR stays
#
# DIR has MariaDB's data, nova.conf, placement/placement.conf, compute-H.conf and the logs. `placement.url` has
# Placement's address. The accounts in Keystone are nova and placement, project service, password `secret`. A host keeps
# the guests' disks and console logs in $TESTBED/H/local/nova.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/service.sh"
shift 2
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}
TESTBED=${TESTBED_STATE:-/var/tmp/tb-${TESTBED_ID:-a}}
. "$HERE/mariadb.sh"

# ------------------------------------------------------------------------------------------------------- configuration

address() { echo "mysql+pymysql://root@localhost/$1?unix_socket=$DIR/mariadb.sock&charset=utf8"; } # database
account() { # section, user
  printf '[%s]\n' "$1"
  printf '%s\n' "auth_url = $KEYSTONE/v3" 'auth_type = password' "username = $2" 'password = secret' 'user_domain_name = Default' \
    'project_name = service' 'project_domain_name = Default' 'region_name = RegionOne'
}

# The configuration of all services. It has no databases, because a nova-compute must not know them.
shared() {
  cat <<CONF
[DEFAULT]
log_dir = $DIR/log
state_path = $DIR/state
my_ip = 127.0.0.1
host = ctl
transport_url = rabbit://guest:guest@127.0.0.1:$AMQP//
allow_resize_to_same_host = true
shelved_offload_time = 0
shutdown_timeout = 30
report_interval = 5
[api]
auth_strategy = keystone
[oslo_concurrency]
lock_path = $DIR/state/locks
[vnc]
enabled = false
[cache]
enabled = false
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 3
CONF
  account keystone_authtoken nova
  printf '%s\n' "www_authenticate_uri = $KEYSTONE" 'service_token_roles = service'
  account service_user nova
  echo 'send_service_user_token = true'
  account placement placement
  echo "endpoint_override = $(cat "$DIR/placement.url")"
  account neutron nova
  account cinder nova
  printf '%s\n' 'os_region_name = RegionOne' '[glance]' 'region_name = RegionOne'
}

uwsgi_ini() { # name, port, processes, lines...
  printf '%s\n' '[uwsgi]' "http-socket = 127.0.0.1:$2" "processes = $3" 'plugins = python3' 'master = true' 'threads = 1' 'enable-threads = true' \
    'lazy-apps = true' 'thunder-lock = true' 'die-on-term = true' 'no-orphans = true' 'buffer-size = 65535' 'disable-logging = true' \
    'add-header = Connection: close' "${@:4}" >"$DIR/$1.ini"
}

configure() { # port
  mkdir -p "$DIR/placement" "$DIR/state"
  AMQP=$(free_port)
  echo "$AMQP" >"$DIR/amqp"
  echo "http://127.0.0.1:$1" >"$DIR/url"
  local port
  port=$(free_port)
  echo "http://127.0.0.1:$port" >"$DIR/placement.url"
  cp /etc/nova/api-paste.ini "$DIR/"
  shared >"$DIR/compute.conf"
  { cat "$DIR/compute.conf"; printf '%s\n' '[api_database]' "connection = $(address nova_api)" '[database]' "connection = $(address nova)"; } >"$DIR/nova.conf"
  { printf '%s\n' '[DEFAULT]' "log_file = $DIR/log/placement.log" '[api]' 'auth_strategy = keystone' '[placement_database]' "connection = $(address placement)"
    account keystone_authtoken placement; } >"$DIR/placement/placement.conf"
  # uWSGI loads a mounted file as a Python program only if the file has a suffix such as .wsgi.
  ln -sf /usr/bin/nova-api-wsgi "$DIR/nova_api.wsgi"
  uwsgi_ini api "$1" 2 "mount = /compute=$DIR/nova_api.wsgi" 'manage-script-name = true'
  uwsgi_ini placement "$port" 1 'wsgi-file = /usr/bin/placement-api'
}

configure_host() { # host
  cat >"$DIR/compute-$1.conf" <<CONF
[DEFAULT]
host = $1
my_ip = 10.231.0.$((10 + ${1#h}))
compute_driver = libvirt.LibvirtDriver
# The path is the same on every host, but each host has its own directory there.
instances_path = $TESTBED/local/nova
reserved_host_memory_mb = 0
[libvirt]
virt_type = qemu
hw_machine_type = x86_64=pc
num_pcie_ports = 0
[os_vif_ovs]
ovsdb_connection = unix:/run/openvswitch/db.sock
# All programs run as root here, so privsep needs no sudo.
[nova_sys_admin]
helper_command = privsep-helper --config-file $DIR/compute.conf
[vif_plug_ovs_privileged]
helper_command = privsep-helper --config-file $DIR/compute.conf
CONF
  mkdir -p "$TESTBED/$1/local/nova"
}

# ------------------------------------------------------------------------------------------------ databases and broker

make_schemas() {
  local manage=(nova-manage --config-file "$DIR/nova.conf")
  schema nova_api nova-common "${manage[@]}" api_db sync
  # The schema of a cell needs no mapping of the cell.
  schema nova nova-common "${manage[@]}" db sync --local_cell
  sql -e 'CREATE DATABASE nova_cell0 CHARACTER SET utf8'
  mariadb-dump --no-defaults -u root -S "$DIR/mariadb.sock" nova | sql nova_cell0
  schema placement placement-common env "OS_PLACEMENT_CONFIG_DIR=$DIR/placement" placement-manage --config-file "$DIR/placement/placement.conf" db sync
  # The database addresses of the cells are templates, as `nova-manage cell_v2` can write them.
  local template='{scheme}://{username}@{hostname}'
  sql nova_api -e "INSERT INTO cell_mappings (created_at, uuid, name, transport_url, database_connection, disabled) VALUES
    (UTC_TIMESTAMP(), '00000000-0000-0000-0000-000000000000', 'cell0', 'none:///', '$template/nova_cell0?{query}', 0),
    (UTC_TIMESTAMP(), UUID(), 'cell1', 'rabbit://guest:guest@127.0.0.1:$AMQP//', '$template/nova?{query}', 0)"
}

broker() {
  local dist epmd
  [ -s "$DIR/dist" ] || { free_port >"$DIR/dist"; free_port >"$DIR/epmd"; }
  dist=$(cat "$DIR/dist") epmd=$(cat "$DIR/epmd")
  mkdir -p "$DIR/rabbit"
  printf 'listeners.tcp.default = 127.0.0.1:%s\nlog.console = false\n' "$AMQP" >"$DIR/rabbit/rabbitmq.conf"
  spawn rabbit env HOME="$DIR/rabbit" RABBITMQ_NODENAME="nova-$AMQP@localhost" RABBITMQ_CONFIG_FILE="$DIR/rabbit/rabbitmq" \
    RABBITMQ_MNESIA_BASE="$DIR/rabbit/data" RABBITMQ_LOG_BASE="$DIR/log" RABBITMQ_DIST_PORT="$dist" ERL_EPMD_PORT="$epmd" \
    ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_PID_FILE="$DIR/rabbit/pid" RABBITMQ_ENABLED_PLUGINS_FILE="$DIR/rabbit/plugins" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 -start_epmd false -erl_epmd_port $dist" /usr/lib/rabbitmq/bin/rabbitmq-server
  within 90 bash -c "exec 3<>/dev/tcp/127.0.0.1/$AMQP" || die "RabbitMQ does not start: see $DIR/log/rabbit.out"
}

# --------------------------------------------------------------------------------------------------------- the services

# The Python package has the code of nova-compute, so its Debian package is not needed.
compute() { # host
  spawn "compute-$1" nsenter -t "$(cat "$TESTBED/$1/init.pid")" -m -u -i -n -p -- /usr/bin/python3 -c \
    'import sys; sys.argv[0] = "nova-compute"; from nova.cmd.compute import main; main()' \
    --config-file "$DIR/compute.conf" --config-file "$DIR/compute-$1.conf" --log-file "$DIR/log/compute-$1.log"
}

# Whether each host is mapped to a cell, and has its inventories in Placement.
mapped() { # hosts...
  local h
  for h in "$@"; do
    [ "$(sql -B -N nova_api -e "SELECT COUNT(*) FROM host_mappings WHERE host = '$h'")" = 1 ] || return 1
    [ "$(sql -B -N placement -e "SELECT COUNT(*) FROM resource_providers p JOIN inventories i ON i.resource_provider_id = p.id WHERE p.name = '$h'")" -ge 3 ] || return 1
  done
}

up() {
  local port=$2 reached=$3 h spaces=
  KEYSTONE=$1; shift 3
  mkdir -p -m 0700 "$DIR" "$DIR/log"
  [ -e "$DIR/url" ] || configure "$port"
  AMQP=$(cat "$DIR/amqp")
  broker & local brokering=$!
  database_server
  [ -e "$DIR/schemas.made" ] || { make_schemas; : >"$DIR/schemas.made"; }
  wait $brokering || die "the broker does not start"
  spawn placement env "OS_PLACEMENT_CONFIG_DIR=$DIR/placement" /usr/bin/uwsgi_python3 --ini "$DIR/placement.ini"
  spawn api env "OS_NOVA_CONFIG_DIR=$DIR" /usr/bin/uwsgi_python3 --ini "$DIR/api.ini"
  spawn conductor /usr/bin/nova-conductor --config-file "$DIR/nova.conf"
  spawn scheduler /usr/bin/nova-scheduler --config-file "$DIR/nova.conf"
  for h in "$@"; do spaces+=,tb${TESTBED_ID:-a}-$h; done
  # shellcheck disable=SC2086
  spawn reach python3 "$HERE/reach.py" "${spaces#,}" "$AMQP" "$(sed 's/.*://' "$DIR/placement.url")" ${reached//,/ }
  for h in "$@"; do configure_host "$h"; compute "$h"; done
  within 240 mapped "$@" || { tail -n 3 "$DIR"/log/compute-*.log "$DIR"/log/*.out >&2; die "not every nova-compute is up"; }
}

end() { local pid; for pid in "$DIR"/compute-*.pid; do [ ! -e "$pid" ] || stop "$(basename "$pid" .pid)"; done; stop api conductor scheduler placement; }

case $COMMAND in
  up) up "$@" ;;
  stop) end ;;
  down)
    end
    stop reach rabbit mariadb
    # The port mapper that a node starts continues after the end of the node. It listens on this script's own port.
    [ ! -s "$DIR/epmd" ] || epmd -port "$(cat "$DIR/epmd")" -kill >/dev/null 2>&1 || true
    ;;
  *) usage ;;
esac
