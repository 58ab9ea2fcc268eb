#!/bin/bash
# The official Python client of EventStoreDB reads, follows and appends to the event log, while servers are created on
# simulated hosts. Needs no hypervisor.
set -uo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../ops/setup.sh"

cannot() { echo "$*"; exit 77; }
[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
OPENSTACK=$(command -v openstack) || cannot "no openstack client on the PATH"
command -v openssl >/dev/null || cannot "no openssl on the PATH"
PYTHON=${CHRONOVA_PYTHON:-$(dirname "$(readlink -f "$OPENSTACK")")/python3}
"$PYTHON" -c 'import kurrentdbclient' 2>/dev/null || cannot "kurrentdbclient is not installed for $PYTHON"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-eventstoredb.XXXXXX") HOUSE=
# Ends only processes that this script started.
finish() {
  local status=$?
  [ -z "$HOUSE" ] || { kill "$HOUSE" 2>/dev/null; wait "$HOUSE" 2>/dev/null; }
  [ $status = 0 ] && rm -rf "$WORK" || tail -n 20 "$WORK/chronova.log"
}
trap finish EXIT
trap 'exit 1' TERM INT

. "$HERE/../testbed/free_port.sh"
export PORT LOG_PORT WORK DATA=$WORK/data CHRONOVA_BIN
PORT=$(free_port) LOG_PORT=$(free_port)
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$WORK/key.pem" -out "$WORK/cert.pem" -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null || exit 1
cat >"$WORK/chronova.conf" <<END
[chronova]
hypervisors = sim://2
[eventstoredb]
listen = 127.0.0.1:$LOG_PORT
users = auditor:read:auditor-password
users = shop:write:shop-password
tls_certificate = $WORK/cert.pem
tls_key = $WORK/key.pem
max_subscriptions = 4
END
"$CHRONOVA_BIN" serve --data-dir "$DATA" --listen "127.0.0.1:$PORT" --config-file "$WORK/chronova.conf" >"$WORK/chronova.log" 2>&1 </dev/null &
HOUSE=$!
wait_for 60 curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$PORT/healthz" 2>/dev/null || { echo "the control plane does not start"; exit 1; }

"$PYTHON" "$HERE/eventstoredb/client.py" || exit 1

# The log with events of the other program is intact: `audit` and `rebuild` read it, and the control plane starts on it.
kill "$HOUSE"; wait "$HOUSE"; HOUSE=
"$CHRONOVA_BIN" audit --data-dir "$DATA" --kind external. >"$WORK/audit" || exit 1
grep -q '"cause":{"system":"eventstoredb/shop"}.*"event_type":"OrderPlaced"' "$WORK/audit" || { echo "the audit does not show the other program's events"; exit 1; }
echo "ok    the audit shows the other program's events"
"$CHRONOVA_BIN" rebuild --data-dir "$DATA" | grep '^equal' || { echo "the read models differ from a rebuild"; exit 1; }
echo "ok    the read models equal a rebuild"
"$CHRONOVA_BIN" serve --data-dir "$DATA" --listen "127.0.0.1:$PORT" --config-file "$WORK/chronova.conf" >>"$WORK/chronova.log" 2>&1 </dev/null &
HOUSE=$!
wait_for 60 curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$PORT/healthz" 2>/dev/null || { echo "the control plane does not start again"; exit 1; }
echo "ok    the control plane starts again"
"$PYTHON" "$HERE/eventstoredb/again.py" || exit 1
