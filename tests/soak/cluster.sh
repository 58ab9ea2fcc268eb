#!/bin/bash
# Three members on a replicated PostgreSQL under Patroni. Clients write and read at all members and create servers on a
# simulated fleet, while members and databases are killed, stopped and cut off. Afterwards nothing that was acknowledged is
# lost or doubled, no read was stale, and the log is verified.
#
#   cluster.sh kills N         kills the leader N times                               (the aim of all runs: 500)
#   cluster.sh pauses N        stops the leader (SIGSTOP)                             (200)
#   cluster.sh cuts N          cuts the leader off, also one way                      (100)
#   cluster.sh databases N     kills or cuts off the primary of the database          (50)
#   cluster.sh standbys N      loses both standbys of the database for 15 s, or delays and loses packets of both
#   cluster.sh disks N         fills the disk of the database's primary
#   cluster.sh clocks N        kills the leader, while the wall clocks of the members differ by up to two minutes
#   cluster.sh mixed SECONDS   faults of all kinds, and switchovers of the database   (3600 seconds)
#   cluster.sh hosts N         kills and stops the leader while two real hosts work   (30 kills and 10 pauses)
#   cluster.sh client N        `openstack server create --wait` at each member, while a member is killed (9 pairs)
#   cluster.sh reads N         measures N reads and writes at the leader and at a follower, without faults
#   cluster.sh takeover N      kills the leader of a large log: CHRONOVA_CLUSTER_HOSTS (10000) hosts and
#                              CHRONOVA_CLUSTER_SERVERS (1000000) servers; CHRONOVA_DEV_BIN is chronova-dev. A million
#                              servers need 16 GiB of memory, 40 GiB of /var/tmp, and half an hour before the first kill
#   cluster.sh upgrade         gives members of CHRONOVA_OLDER_PROGRAM the program CHRONOVA_BIN, one after the other
#   cluster.sh report          prints the sums and the outages of all runs
#
# Each run adds its faults to a file, so that many short runs together reach the aims. A run needs about three minutes
# beside its faults. A fault takes 10 to 40 seconds, and with real hosts 30 to 90 seconds.
#
#   CHRONOVA_BIN                the program; for `hosts`, CHRONOVA_IMAGE is the guest image
#   CHRONOVA_CLUSTER_RESULTS    the file of results (default: cluster.jsonl beside this script)
#   CHRONOVA_CLUSTER_LIMIT      no fault begins after this number of seconds (default: 900)
#   CHRONOVA_CLUSTER_SEED       the seed of the faults (default: random; the results have it)
#
# As root. Exit status as in house.sh.
set -uo pipefail
SOAK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$SOAK/../testbed/house.sh"
RESULTS=${CHRONOVA_CLUSTER_RESULTS:-$SOAK/cluster.jsonl}
PART=${1:-} AMOUNT=${2:-1} CLIENTS=soak.py

# Two hosts in namespaces, which all members reach.
real_hosts() {
  [ -s "${CHRONOVA_IMAGE:-}" ] || cannot "CHRONOVA_IMAGE names no guest image"
  local state=/var/tmp/tb-$CLUSTER_HOSTS
  CLIENTS=hosts.py
  hosts down >/dev/null 2>&1
  hosts up 2 >"$WORK/hosts" 2>&1 || { tail -n 5 "$WORK/hosts"; cannot "the hosts do not start here"; }
  . "$state/hosts.env"
  export CLUSTER_HYPERVISORS="$h1_TCP $h2_TCP" CLUSTER_OPTIONS CHRONOVA_IMAGE
  CLUSTER_OPTIONS=$(printf '%s\n' '[DEFAULT]' 'instance_name_template = cluster-%08x' 'report_interval = 2' 'service_down_time = 6' \
    'shutdown_timeout = 5' '[volume]' 'shared = true' "pool_path = $state/shared/volumes")
}
hosts() { env -u TESTBED_STATE TESTBED_ID="$CLUSTER_HOSTS" bash "$HERE/hosts.sh" "$@"; }

# A log with many hosts and servers. CLUSTER_LOG is its data folder.
large_log() {
  [ -x "${CHRONOVA_DEV_BIN:-}" ] || cannot "CHRONOVA_DEV_BIN names no program"
  local hosts=${CHRONOVA_CLUSTER_HOSTS:-10000} servers=${CHRONOVA_CLUSTER_SERVERS:-1000000} port status
  export CLUSTER_SIZE="$hosts hosts and $servers servers" CLUSTER_MEMBERS="m1 m2" CLUSTER_PATIENCE=900 CLUSTER_LOG=$WORK/large
  export CLUSTER_HYPERVISORS="sim://$hosts?vcpus=1000&memory_mib=1000000&disk_gib=100000"
  printf '%s\n' '[chronova]' "hypervisors = $CLUSTER_HYPERVISORS" >"$WORK/large.conf"
  port=$(free_port) || cannot "no port is free"
  "$CHRONOVA_BIN" serve --data-dir "$CLUSTER_LOG" --listen "127.0.0.1:$port" --config-file "$WORK/large.conf" >"$WORK/large.log" 2>&1 &
  ALONE=$!
  wait_for 120 curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$port/healthz" 2>/dev/null \
    && CLUSTER_ALONE=127.0.0.1:$port CLUSTER_DATA=$CLUSTER_LOG \
      python3 "$SOAK/cluster/prepare.py" "$CLUSTER" prepare "$hosts" 0 0 /dev/null
  status=$?
  kill "$ALONE"
  wait "$ALONE"
  ALONE=
  [ $status = 0 ] || { bad "a server is built that can be copied" "$(tail -n 20 "$WORK/large.log")"; exit 1; }
  "$CHRONOVA_DEV_BIN" copy-servers "$CLUSTER_LOG" --servers "$servers" --projects 1000 >"$WORK/copies" 2>&1 \
    || { bad "the server is copied" "$(tail -n 5 "$WORK/copies")"; exit 1; }
  ok "the log has $CLUSTER_SIZE"
}

case $PART in
  kills | pauses | cuts | databases | mixed | takeover) ;;
  disks) export CLUSTER_DISKS=1 ;;
  clocks) export CLUSTER_CLOCKS=1 ;;
  standbys) export CLUSTER_OPTIONS='stale_reads = 60' ;;
  upgrade) [ -x "${CHRONOVA_OLDER_PROGRAM:-}" ] || cannot "CHRONOVA_OLDER_PROGRAM names no program"
    export CLUSTER_PROGRAM=$CHRONOVA_OLDER_PROGRAM ;;
  hosts) export CLUSTER_HOSTS=ch ;;
  client) CLIENTS=client.py; command -v openstack >/dev/null || cannot "no openstack client on the PATH" ;;
  reads) CLIENTS=reads.py ;;
  report) exec python3 "$SOAK/cluster/report.py" "$RESULTS" ;;
  *) sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | sed '$d;s/^# \{0,1\}//'; exit 2 ;;
esac
[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
setup_packages cluster || cannot "PostgreSQL, Patroni and etcd are missing"
# The commit does not tell whether the program is of that commit, so the results have the program's time, too.
CLUSTER_BUILD="$(git -C "$TOP" rev-parse --short=12 HEAD), program of $(date -u -r "$CHRONOVA_BIN" '+%F %H:%M UTC')"
export CLUSTER_BUILD CHRONOVA_BIN

WORK=$(mktemp -d "${TMPDIR:-/var/tmp}/chronova-cluster.XXXXXX")
CLUSTER=$HERE/cluster.sh
finish() {
  bash "$CLUSTER" down
  [ -z "${CLUSTER_HOSTS:-}" ] || hosts down >/dev/null 2>&1
  [ -z "${ALONE:-}" ] || kill -9 "$ALONE"
  rm -rf "$WORK/large"
  [ $FAILED != 0 ] || rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 1' TERM INT
[ $PART != hosts ] || real_hosts
[ $PART != takeover ] || large_log
bash "$CLUSTER" up >"$WORK/up" 2>&1 || { bad "the cluster starts" "$(tail -n 5 "$WORK/up" /var/tmp/tb-"${TESTBED_ID:-cl}"/log/*.out)"; exit 1; }
ok "the cluster starts"
# `ip netns exec` has mounts of its own, in which a host would boot unseen by the others.
nsenter --net="/run/netns/tb${TESTBED_ID:-cl}-fab" python3 "$SOAK/cluster/$CLIENTS" "$CLUSTER" "$PART" "$AMOUNT" \
  "${CHRONOVA_CLUSTER_LIMIT:-900}" "${CHRONOVA_CLUSTER_SEED:-$RANDOM}" "$RESULTS" 2>&1 | tee "$WORK/soak"
[ "${PIPESTATUS[0]}" = 0 ] || FAILED=1
verdict
