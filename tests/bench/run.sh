#!/bin/bash
# tests/bench/run.sh BENCH_PY OUT.json [OPTION...]   repeats on Chronova the measurements that were made of Nova
#
# Starts the program (CHRONOVA_BIN, a release build) on an empty log with four simulated hosts. Nova had as many compute
# services with the fake driver, and each host of that driver has the same capacities. Creates an image and a flavor, and
# runs BENCH_PY with the further options. BENCH_PY measures the public APIs, and how long a start takes.
# tests/bench/compare.py puts two results side by side.
set -euo pipefail
BENCH=$(realpath "$1") OUT=$(realpath -m "$2"); shift 2
BIN=$(realpath "${CHRONOVA_BIN:-$(dirname "$0")/../../target/release/chronova}")
PORT=${CHRONOVA_PORT:-18774}
W=$(mktemp -d "${TMPDIR:-/tmp}/chronova-bench.XXXXXX")
mkdir "$W/pids"
echo bench-password >"$W/password"
cat >"$W/chronova.conf" <<CONF
[chronova]
hypervisors = sim://4?vcpus=1000&memory_mib=800000&disk_gib=600000
admin_password_file = $W/password
[quota]
instances = -1
cores = -1
ram = -1
CONF
cat >"$W/start" <<START
"$BIN" serve --data-dir "$W/data" --listen 127.0.0.1:$PORT --config-file "$W/chronova.conf" >"$W/said" 2>&1 </dev/null &
echo \$! >"$W/pids/chronova.pid"
START
cat >"$W/stop" <<STOP
kill \$(cat "$W/pids/chronova.pid")
while kill -0 \$(cat "$W/pids/chronova.pid") 2>/dev/null; do sleep 0.05; done
STOP
trap 'bash "$W/stop" 2>/dev/null; rm -rf "$W"' EXIT
bash "$W/start"
python3 - "http://127.0.0.1:$PORT" <<'PYTHON'
import json, sys, time, urllib.request
base, token = sys.argv[1], ""
def ask(method, path, body=None, kind="application/json"):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": kind, "X-Auth-Token": token}, method=method)
    return urllib.request.urlopen(request)
domain = {"id": "default"}
user = {"name": "admin", "domain": domain, "password": "bench-password"}
login = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": {"name": "admin", "domain": domain}}}}
for again in range(200):
    try:
        token = ask("POST", "/identity/v3/auth/tokens", login).headers["X-Subject-Token"]
        break
    except OSError:
        time.sleep(0.05)
image = json.load(ask("POST", "/image/v2/images", {"name": "tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public"}))
ask("PUT", "/image/v2/images/%s/file" % image["id"], b"\7" * 4096, "application/octet-stream")
ask("POST", "/compute/v2.1/flavors", {"flavor": {"name": "tiny", "vcpus": 1, "ram": 64, "disk": 1}})
PYTHON
bash "$W/stop"
python3 "$BENCH" --auth-url "http://127.0.0.1:$PORT/identity/v3" --password bench-password --pids-dir "$W/pids" \
  --cold "bash $W/start" --cold-stop "bash $W/stop" --label Chronova --out "$OUT" "$@"
