#!/bin/bash
# A cluster: three PostgreSQL 15 with synchronous replication under Patroni and etcd, and three members of Chronova with
# a simulated fleet. Each of the six nodes has a network namespace, so that connections between any two can be cut.
#
#   cluster.sh up               starts all, and waits until one member leads
#   cluster.sh down             ends all, and removes it
#   cluster.sh down-members     ends the members alone, and `start-members` starts them
#   cluster.sh serving          whether every member serves
#   cluster.sh primary          prints the node of the database's primary (d1, d2 or d3)
#   cluster.sh replicated       whether the primary has a synchronous standby
#   cluster.sh leader           prints the member that leads (m1, m2 or m3)
#   cluster.sh kill NODE        kills all processes of a node. A member starts again after a second
#   cluster.sh kill-postgres NODE   kills the database server of a node. Patroni decides what happens next
#   cluster.sh start NODE       starts a killed database node
#   cluster.sh lose NODE        ends Patroni and the database server of a node, but not its etcd; `regain NODE` starts them
#   cluster.sh slow NODE        delays all packets that a node sends by 50 ms, and loses one in fifty; `fast NODE` ends it
#   cluster.sh pause NODE       stops all processes of a node (SIGSTOP); `resume NODE` continues them
#   cluster.sh fill NODE        fills the disk of a database node, if `up` had CLUSTER_DISKS=1; `drain NODE` ends that
#   cluster.sh clock NODE SECONDS   moves the wall clock of a member ahead, if `up` had CLUSTER_CLOCKS=1
#   cluster.sh end NODE         ends a member as its service manager does (SIGTERM). It starts again after a second
#   cluster.sh install NODE PROGRAM   gives a member another program, from its next start on
#   cluster.sh program NODE     prints the file of the program that a member runs
#   cluster.sh cut A B [oneway] lets no packet pass from A to B, and without `oneway` from B to A. A and B are lists of
#                               nodes (m1 d1,d2,d3)
#   cluster.sh heal             ends all cuts
#   cluster.sh switchover       lets Patroni move the primary to its synchronous standby
#   cluster.sh sql SQL          runs a statement at the primary
#   cluster.sh run COMMAND...   runs a command in the network of the clients
#   cluster.sh operator WORD... runs a command of `chronova` (`cluster status`, `audit verify`)
#
# CHRONOVA_BIN is the program; CLUSTER_PROGRAM is that of the members, if it is another one. The members answer at
# http://10.98.0.{21,22,23}:8774 in the network of the clients. TESTBED_ID (cl) names the namespaces; TESTBED_STATE is the
# folder (/var/tmp/tb-ID). CLUSTER_LEASE is the lease in seconds (6), CLUSTER_HYPERVISORS the hosts (a simulated fleet),
# and CLUSTER_OPTIONS are further lines of the members' configuration. CLUSTER_HOSTS is the TESTBED_ID of hosts.sh, whose
# network the members then reach. CLUSTER_LOG is the data folder of a stopped control plane with SQLite: the members get
# its log and its files. CLUSTER_MEMBERS names the members (m1 m2 m3), and CLUSTER_PATIENCE is how many seconds the start
# of a member may take (120). As root.
set -uo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ID=${TESTBED_ID:-cl}
DIR=${TESTBED_STATE:-/var/tmp/tb-$ID}
. "$HERE/daemons.sh"
. "$HERE/clock.sh"
FABRIC=tb$ID-fab
DATABASES=(d1 d2 d3)
read -ra MEMBERS <<<"${CLUSTER_MEMBERS:-m1 m2 m3}"
POSTGRES=/usr/lib/postgresql/15/bin

die() { echo "cluster.sh: $*" >&2; exit 1; }
address() { case $1 in d*) echo "10.98.0.1${1#d}" ;; m*) echo "10.98.0.2${1#m}" ;; esac; } # node
at() { local node=$1; shift; ip netns exec "tb$ID-$node" "$@"; } # node, command
run() { ip netns exec "$FABRIC" "$@"; }
every() { printf "$1," $(for node in "${DATABASES[@]}"; do address "$node"; done) | sed 's/,$//'; } # format

# ------------------------------------------------------------------------------------------------------------- networks

networks() {
  local node
  ip netns add "$FABRIC"
  ip -n "$FABRIC" link set lo up
  ip -n "$FABRIC" link add fab type bridge forward_delay 0
  ip -n "$FABRIC" address add 10.98.0.254/24 dev fab
  ip -n "$FABRIC" link set fab up
  for node in "${DATABASES[@]}" "${MEMBERS[@]}"; do
    ip netns add "tb$ID-$node"
    ip -n "$FABRIC" link add "$node" type veth peer name eth netns "tb$ID-$node"
    ip -n "$FABRIC" link set "$node" master fab up
    ip -n "tb$ID-$node" link set lo up
    ip -n "tb$ID-$node" address add "$(address "$node")/24" dev eth
    ip -n "tb$ID-$node" link set eth up
  done
  [ -z "${CLUSTER_HOSTS:-}" ] || for node in "${MEMBERS[@]}"; do
    ip -n "tb$CLUSTER_HOSTS-fab" link del "$node" 2>/dev/null
    ip -n "tb$CLUSTER_HOSTS-fab" link add "$node" type veth peer name hosts netns "tb$ID-$node"
    ip -n "tb$CLUSTER_HOSTS-fab" link set "$node" master brm up
    ip -n "tb$ID-$node" address add "10.231.0.20${node#m}/24" dev hosts
    ip -n "tb$ID-$node" link set hosts up
  done
}

# The processes of a node. Its namespace has no other process.
pids() { ip netns pids "tb$ID-$1" 2>/dev/null; } # node
signal() { local all; all=$(pids "$2"); [ -z "$all" ] || kill "-$1" $all 2>/dev/null; } # signal, node

drop() { at "$2" iptables -w -A INPUT -s "$(address "$1")" -j DROP; } # from, to
cut_off() { # nodes, nodes, `oneway`
  local from to
  for from in ${1//,/ }; do
    for to in ${2//,/ }; do
      drop "$from" "$to"
      [ "${3:-}" = oneway ] || drop "$to" "$from"
    done
  done
}
heal() { local node; for node in "${DATABASES[@]}" "${MEMBERS[@]}"; do at "$node" iptables -w -F INPUT; done; }

# ------------------------------------------------------------------------------------------------------------- database

start_database() { # node
  local own; own=$(address "$1")
  spawn "$1-etcd" ip netns exec "tb$ID-$1" etcd --name "$1" --data-dir "$DIR/$1/etcd" --log-level warn \
    --listen-peer-urls "http://$own:2380" --initial-advertise-peer-urls "http://$own:2380" \
    --listen-client-urls "http://$own:2379" --advertise-client-urls "http://$own:2379" --initial-cluster-state new \
    --initial-cluster "$(for node in "${DATABASES[@]}"; do printf '%s=http://%s:2380,' "$node" "$(address "$node")"; done | sed 's/,$//')" \
    --heartbeat-interval 300 --election-timeout 3000
  start_patroni "$1"
}
own_disk() { truncate -s 2G "$DIR/$1.disk" && mkfs.ext4 -q -m 0 "$DIR/$1.disk" && mount -o loop "$DIR/$1.disk" "$DIR/$1"; } # node
fill() { # node
  fallocate -l "$(($(df --output=avail -B1 "$DIR/$1" | tail -n 1) - 65536))" "$DIR/$1/filler" 2>/dev/null
  dd if=/dev/zero of="$DIR/$1/filler2" bs=4k 2>/dev/null
  return 0
}
start_patroni() { spawn "$1-patroni" ip netns exec "tb$ID-$1" runuser -u postgres -- /usr/bin/patroni "$DIR/$1/patroni.yml"; } # node
lose() { # node
  local pid
  stop "$1-patroni"
  for pid in $(pids "$1"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != postgres ] || kill -9 "$pid" 2>/dev/null; done
  return 0
}

configure_database() { # node
  local own; own=$(address "$1")
  mkdir -p "$DIR/$1"
  [ -z "${CLUSTER_DISKS:-}" ] || own_disk "$1" || die "no separate disk can be mounted"
  cat >"$DIR/$1/patroni.yml" <<YAML
scope: chronova
name: $1
restapi: {listen: "$own:8008", connect_address: "$own:8008"}
etcd3: {hosts: [$(every '"%s:2379"')]}
bootstrap:
  dcs:
    # The shortest times that Patroni accepts.
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    primary_start_timeout: 0
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql: {use_pg_rewind: true}
  initdb: [{encoding: UTF8}, {locale: C}, data-checksums]
postgresql:
  listen: "$own:5432"
  connect_address: "$own:5432"
  data_dir: $DIR/$1/data
  bin_dir: $POSTGRES
  pgpass: $DIR/$1/pgpass
  authentication: {superuser: {username: postgres}, replication: {username: replicator}, rewind: {username: postgres}}
  pg_hba: ["local all all trust", "host all all 10.98.0.0/24 trust", "host replication all 10.98.0.0/24 trust"]
  parameters: {max_connections: 60, shared_buffers: 32MB, unix_socket_directories: $DIR/$1, wal_sender_timeout: 5s,
    wal_receiver_timeout: 5s, tcp_user_timeout: 5000}
YAML
  chown -R postgres "$DIR/$1"
}

primary() {
  local node
  for node in "${DATABASES[@]}"; do
    [ "$(run curl -s -m 1 -o /dev/null -w '%{http_code}' "http://$(address "$node"):8008/primary")" = 200 ] && echo "$node" && return
  done
  return 1
}
sql_in() { local base=$1; shift; run "$POSTGRES/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d "postgresql://postgres@$(every %s)/$base?target_session_attrs=read-write&connect_timeout=2" -c "$*"; }
sql() { sql_in chronova "$@"; }
replicated() { [ "$(sql_in postgres "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'" 2>/dev/null)" = t ]; }

switchover() {
  local from to
  from=$(primary) || die "no primary"
  to=$(sql_in postgres "SELECT application_name FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') LIMIT 1")
  run curl -s -m 60 -d "{\"leader\": \"$from\", \"candidate\": \"$to\"}" "http://$(address "$from"):8008/switchover"
}

# -------------------------------------------------------------------------------------------------------------- members

certificates() {
  local node
  mkdir -p "$DIR/certificates" && cd "$DIR/certificates" || return 1
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 30 -subj /CN=members \
    -addext basicConstraints=critical,CA:TRUE
  for node in "${MEMBERS[@]}"; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$node.key" -out "$node.csr" -subj "/CN=$node"
    openssl x509 -req -in "$node.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -out "$node.pem" -days 30 \
      -extfile <(printf 'subjectAltName=IP:%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$(address "$node")")
  done
  cd / || return 1
}

configure_member() { # node
  local own; own=$(address "$1")
  mkdir -p "$DIR/$1"
  cat >"$DIR/$1/chronova.conf" <<CONF
[chronova]
hypervisors = ${CLUSTER_HYPERVISORS:-sim://4?latency_ms=1&vcpus=4096&memory_mib=8388608&disk_gib=1000000}
event_store = postgresql://postgres@$(every %s)/chronova?target_session_attrs=read-write
event_store_lease = ${CLUSTER_LEASE:-6}
[quota]
instances = -1
cores = -1
ram = -1
[cluster]
listen = $own:8770
name = $1
certificate = $DIR/certificates/$1.pem
key = $DIR/certificates/$1.key
ca = $DIR/certificates/ca.pem
${CLUSTER_OPTIONS:-}
CONF
}

install_program() { ln -sfn "$(realpath "$2")" "$DIR/$1/program"; } # node, program
program_of() { local pid; pid=$(pids "$1" | head -n 1) && readlink "/proc/$pid/exe"; } # node

# Like a service manager, the loop starts a member again one second after its end.
start_member() { # node
  spawn "$1" bash -c 'while :; do
      RUST_LOG=warn ip netns exec "$0" env ${5:+"CLOCK_AHEAD=$5" "LD_PRELOAD=$6"} "$1" serve --data-dir "$2" --listen "$3:8774" --config-file "$4" 8>&-
      echo "ended with $? at $(date -u +%T.%3N)"
      sleep 1
    done' "tb$ID-$1" "$DIR/$1/program" "$DIR/data" "$(address "$1")" "$DIR/$1/chronova.conf" \
    "${CLUSTER_CLOCKS:+$DIR/$1/clock}" "$DIR/clock.so"
}

role() { run curl -s -m 2 "http://$(address "$1"):8774/healthz" | sed -n 's/.*"role": *"\([a-z]*\)".*/\1/p'; } # member
leader() { local node; for node in "${MEMBERS[@]}"; do [ "$(role "$node")" = leader ] && echo "$node" && return; done; return 1; }
all_serve() { local node; for node in "${MEMBERS[@]}"; do [ -n "$(role "$node")" ] || return 1; done; }
operator() { run "${CHRONOVA_BIN:?names the program}" "$@" --data-dir "$DIR/data" --config-file "$DIR/m1/chronova.conf"; }

# Gives the database and the data folder the log of a control plane that had SQLite.
copy_log() {
  configure_member m1
  tar -C "$CLUSTER_LOG" --exclude='./log.db*' -cf - . | tar -C "$DIR/data" -xf - && operator log copy "$CLUSTER_LOG"
}

# ------------------------------------------------------------------------------------------------------------- commands

up() {
  local node
  [ "$(id -u)" = 0 ] || die "needs root, for network namespaces"
  [ -x "${CHRONOVA_BIN:-}" ] || die "CHRONOVA_BIN names no program"
  for program in etcd patroni iptables openssl; do command -v $program >/dev/null || die "$program is missing"; done
  down
  mkdir -p "$DIR/log" "$DIR/data"
  chmod 755 "$DIR"
  chmod 700 "$DIR/data"
  networks || die "no networks"
  [ -z "${CLUSTER_CLOCKS:-}" ] || clock_build "$DIR/clock.so" || die "the clock cannot be built"
  certificates >"$DIR/log/openssl.out" 2>&1 || die "no certificates"
  for node in "${DATABASES[@]}"; do configure_database "$node"; done
  for node in "${DATABASES[@]}"; do start_database "$node"; done
  within 120 primary || die "no primary"
  within 120 replicated || die "no synchronous standby"
  sql_in postgres "CREATE DATABASE chronova" || die "no database"
  [ -z "${CLUSTER_LOG:-}" ] || copy_log || die "the log is not copied"
  for node in "${MEMBERS[@]}"; do
    configure_member "$node"
    [ -z "${CLUSTER_CLOCKS:-}" ] || clock_ahead "$DIR/$node/clock" 0
    install_program "$node" "${CLUSTER_PROGRAM:-$CHRONOVA_BIN}"
    start_member "$node"
    # The first start creates the keys, which the others need.
    within "${CLUSTER_PATIENCE:-120}" role_known "$node" || die "$node does not serve"
  done
  within 60 leader || die "nobody leads"
}
role_known() { [ -n "$(role "$1")" ]; } # member

down() {
  local node name
  for node in "${DATABASES[@]}" "${MEMBERS[@]}"; do signal CONT "$node"; done
  stop "${MEMBERS[@]}"
  for node in "${DATABASES[@]}" "${MEMBERS[@]}"; do
    # Patroni's children leave its session.
    signal KILL "$node"
    rm -f "$DIR/$node-etcd.pid" "$DIR/$node-patroni.pid"
  done
  for name in $(ip netns list 2>/dev/null | awk '{print $1}'); do
    case $name in "tb$ID-fab" | "tb$ID-"[dm][123]) ip netns del "$name" ;; esac
  done
  for node in "${DATABASES[@]}"; do ! mountpoint -q "$DIR/$node" || umount "$DIR/$node" || umount -l "$DIR/$node"; done
  case $DIR in */tb-*) rm -rf "$DIR" ;; esac
}

case ${1:-} in
  up | down | primary | replicated | leader | heal | switchover) "$1" ;;
  serving) all_serve ;;
  down-members) stop "${MEMBERS[@]}" ;;
  start-members) for node in "${MEMBERS[@]}"; do start_member "$node"; done ;;
  kill) signal KILL "$2" ;;
  kill-postgres) kill -9 "$(head -n 1 "$DIR/$2/data/postmaster.pid")" ;;
  start) rm -f "$DIR/$2-etcd.pid" "$DIR/$2-patroni.pid"; start_database "$2" ;;
  fill) fill "$2" ;;
  drain) rm -f "$DIR/$2/filler" "$DIR/$2/filler2" ;;
  lose) lose "$2" ;;
  regain) start_patroni "$2" ;;
  slow) at "$2" tc qdisc replace dev eth root netem delay 50ms loss 2% ;;
  fast) at "$2" tc qdisc del dev eth root ;;
  pause) signal STOP "$2" ;;
  resume) signal CONT "$2" ;;
  clock) clock_ahead "$DIR/$2/clock" "$3" ;;
  end) signal TERM "$2" ;;
  install) install_program "$2" "$3" ;;
  program) program_of "$2" ;;
  cut) cut_off "$2" "$3" "${4:-}" ;;
  sql) shift; sql "$@" ;;
  run) shift; run "$@" ;;
  operator) shift; operator "$@" ;;
  *) sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | sed '$d;s/^# \{0,1\}//'; exit 2 ;;
esac
