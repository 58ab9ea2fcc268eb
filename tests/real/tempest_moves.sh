#!/bin/bash
# Runs one of tempest's tests of live migration, with booting guests on two real hosts without shared storage. With
# CHRONOVA_SOAK=1 it runs all of tempest's tests of live migrations, cold migrations and resizes. The script calls
# tests/real/tempest.sh with the hosts of the testbed. TEMPEST_VENV and TEMPEST_RESULT have the same meaning as in
# tempest.sh.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
[ "$(id -u)" = 0 ] || cannot "needs root, for hosts in namespaces"
[ -s "${CHRONOVA_IMAGE:-}" ] || cannot "CHRONOVA_IMAGE names no guest image"
export TESTBED_ID=${TESTBED_ID:-tp}
STATE=${TESTBED_STATE:-/var/tmp/tb-$TESTBED_ID}
hosts() { bash "$HERE/hosts.sh" "$@"; }
hosts down >/dev/null 2>&1
trap 'hosts down >/dev/null 2>&1' EXIT
hosts up 2 >/dev/null 2>&1 || cannot "the hosts do not start here"
. "$STATE/hosts.env"
export TEMPEST_HYPERVISORS="$h1_UNIX $h2_UNIX" TEMPEST_HOSTS=2 TEMPEST_IMAGE=$CHRONOVA_IMAGE TEMPEST_RAM=128 TEMPEST_WORKERS=1
export TEMPEST_PASSES=$TOP/tests/tempest/passes-testbed.txt
export TEMPEST_SETTINGS="live_migration=true live_migrate_back_and_forth=true block_migration_for_live_migration=true
  build_timeout=180 shelve_migrate=true"
# One test for a short run.
SELECTED='^tempest\.api\.compute\.admin\.test_live_migration\.LiveAutoBlockMigrationV225Test\.test_live_block_migration\['
! long_run || SELECTED=$(grep -v '^#' "$TOP/tests/tempest/moves.txt" | paste -sd '|')
bash "$(dirname "$0")/tempest.sh" "${1:-$SELECTED}"
