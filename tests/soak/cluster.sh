#!/bin/bash
# Three members on a replicated PostgreSQL under Patroni. Clients write and read at all members and create servers on a
# simulated fleet, while members and databases are killed, stopped and cut off. Afterwards nothing that was acknowledged is
# lost or doubled, no read was stale, and the log is verified.
#
#   cluster.sh kills N         kills the leader N times                               (the aim of all runs: 500)
#   cluster.sh pauses N        stops the leader (SIGSTOP)                             (200)
#   cluster.sh cuts N          cuts the leader off, also one way                      (100)
#   cluster.sh databases N     kills or cuts off the primary of the database          (50)
#   cluster.sh mixed SECONDS   faults of all kinds, and switchovers of the database   (3600 seconds)
#   cluster.sh upgrade         gives members of CHRONOVA_OLDER_PROGRAM the program CHRONOVA_BIN, one after the other
#   cluster.sh report          prints the sums and the outages of all runs
#
# Each run adds its faults to a file, so that many short runs together reach the aims. A run needs about three minutes
# beside its faults; a fault takes 10 to 40 seconds.
#
#   CHRONOVA_BIN                the program
#   CHRONOVA_CLUSTER_RESULTS    the file of results (default: cluster.jsonl beside this script)
#   CHRONOVA_CLUSTER_LIMIT      no fault begins after this number of seconds (default: 900)
#   CHRONOVA_CLUSTER_SEED       the seed of the faults (default: random; the results have it)
#
# As root. Exit status as in house.sh.
set -uo pipefail
SOAK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$SOAK/../testbed/house.sh"
RESULTS=${CHRONOVA_CLUSTER_RESULTS:-$SOAK/cluster.jsonl}
PART=${1:-} AMOUNT=${2:-1}
case $PART in
  kills | pauses | cuts | databases | mixed) ;;
  upgrade) [ -x "${CHRONOVA_OLDER_PROGRAM:-}" ] || cannot "CHRONOVA_OLDER_PROGRAM names no program"
    export CLUSTER_PROGRAM=$CHRONOVA_OLDER_PROGRAM ;;
  report) exec python3 "$SOAK/cluster/report.py" "$RESULTS" ;;
  *) sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | sed '$d;s/^# \{0,1\}//'; exit 2 ;;
esac
[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
setup_packages cluster || cannot "PostgreSQL, Patroni and etcd are missing"
# The commit does not tell whether the program is of that commit, so the results have the program's time, too.
CLUSTER_BUILD="$(git -C "$TOP" rev-parse --short=12 HEAD), program of $(date -u -r "$CHRONOVA_BIN" '+%F %H:%M UTC')"
export CLUSTER_BUILD CHRONOVA_BIN

WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cluster.XXXXXX")
CLUSTER=$HERE/cluster.sh
finish() { bash "$CLUSTER" down; [ $FAILED != 0 ] || rm -rf "$WORK"; }
trap finish EXIT
trap 'exit 1' TERM INT
bash "$CLUSTER" up >"$WORK/up" 2>&1 || { bad "the cluster starts" "$(tail -n 5 "$WORK/up" /var/tmp/tb-"${TESTBED_ID:-cl}"/log/*.out)"; exit 1; }
ok "the cluster starts"
bash "$CLUSTER" run python3 "$SOAK/cluster/soak.py" "$CLUSTER" "$PART" "$AMOUNT" "${CHRONOVA_CLUSTER_LIMIT:-900}" \
  "${CHRONOVA_CLUSTER_SEED:-$RANDOM}" "$RESULTS" 2>&1 | tee "$WORK/soak"
[ "${PIPESTATUS[0]}" = 0 ] || FAILED=1
verdict
