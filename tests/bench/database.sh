#!/bin/bash
# Appends and builds on SQLite and on PostgreSQL 15, in turns, beside plain inserts into the same database.
#
#   tests/bench/database.sh OUT [standby]   writes the reports into the folder OUT; with `standby`, the database has a
#                                           synchronous standby on this machine
#
# CHRONOVA_DEV_BIN is a release build of chronova-dev; `chronova` is beside it, or CHRONOVA_BIN names it.
# CHRONOVA_BENCH_TURNS sets the number of passes of the builds (3). The database is below TMPDIR (/var/tmp). As root.
set -euo pipefail
OUT=$(realpath -m "${1:?the folder of the reports}")
DEV=$(realpath "${CHRONOVA_DEV_BIN:?a release build of chronova-dev}")
POSTGRES=/usr/lib/postgresql/15/bin
WORK=$(mktemp -d "${TMPDIR:-/var/tmp}/chronova-database.XXXXXX")
postgres() { local program=$1; shift; (cd / && runuser -u postgres -- "$POSTGRES/$program" "$@"); }
end() { for data in "$WORK"/*/PG_VERSION; do postgres pg_ctl -m immediate -D "${data%/PG_VERSION}" stop >/dev/null 2>&1 || true; done; rm -rf "$WORK"; }
trap end EXIT
start() { postgres pg_ctl -w -l "$WORK/$1.log" -o "-k $WORK -p $2 -c listen_addresses=" -D "$WORK/$1" start >/dev/null; } # name, port
sql() { postgres psql -X -A -t -q -v ON_ERROR_STOP=1 -h "$WORK" -U postgres -d postgres -c "$1"; }
# A new database. Prints its address.
database() { sql "CREATE DATABASE $1" >/dev/null; echo "host=$WORK user=postgres dbname=$1"; }

mkdir -p "$OUT"
chown postgres "$WORK"
postgres initdb -A trust -E UTF8 --locale=C -D "$WORK/primary" >/dev/null
start primary 5432
if [ "${2:-}" = standby ]; then
  postgres pg_basebackup -U postgres -R -X stream -c fast -h "$WORK" -D "$WORK/standby"
  start standby 5433
  sql "ALTER SYSTEM SET synchronous_standby_names = '*'"
  sql "SELECT pg_reload_conf()" >/dev/null
fi

"$DEV" log --dir "$WORK" --writers 1,64,512 --events 0 --database "$(database log)" --json-file "$OUT/log.json" | tee "$OUT/log.txt"
for turn in $(seq "${CHRONOVA_BENCH_TURNS:-3}"); do
  "$DEV" boot --dir "$WORK" --runs 1 --json-file "$OUT/boot-sqlite-$turn.json" | tee "$OUT/boot-sqlite-$turn.txt"
  "$DEV" boot --dir "$WORK" --runs 1 --database "$(database "boot$turn")" --json-file "$OUT/boot-postgres-$turn.json" \
    | tee "$OUT/boot-postgres-$turn.txt"
done
