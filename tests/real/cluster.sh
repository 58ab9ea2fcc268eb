#!/bin/bash
# Three members on a replicated PostgreSQL under Patroni. Clients write and read at all members, while members and
# databases are killed, stopped and cut off. Afterwards nothing that was acknowledged is lost or doubled, no read was
# stale, and the log is verified. Only a long run runs this script.
#
#   CHRONOVA_CLUSTER_SECONDS   how long faults strike (default: 1200)
#   CHRONOVA_CLUSTER_SEED      the seed of the faults (default: random; the report has it)
#   CHRONOVA_CLUSTER_REPORT    the file that gets the table of outages (default: none)
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
long_run || cannot "only a long run starts a replicated database"
[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
setup_packages cluster || cannot "PostgreSQL, Patroni and etcd are missing"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cluster.XXXXXX")
CLUSTER=$HERE/cluster.sh
finish() { bash "$CLUSTER" down; [ $FAILED != 0 ] || rm -rf "$WORK"; }
trap finish EXIT
bash "$CLUSTER" up >"$WORK/up" 2>&1 || { bad "the cluster starts" "$(tail -n 5 "$WORK/up" /var/tmp/tb-"${TESTBED_ID:-cl}"/log/*.out)"; exit 1; }
ok "the cluster starts"
bash "$CLUSTER" run python3 "$TOP/tests/real/cluster/soak.py" "$CLUSTER" "${CHRONOVA_CLUSTER_SECONDS:-1200}" \
  "${CHRONOVA_CLUSTER_SEED:-$RANDOM}" "${CHRONOVA_CLUSTER_REPORT:-$WORK/report}" 2>&1 | tee "$WORK/soak"
[ "${PIPESTATUS[0]}" = 0 ] || FAILED=1
while read -r _ _ outcome what; do
  case $outcome in ok | FAIL) record "$outcome" "$what" ;; esac
done <"$WORK/soak"
verdict
