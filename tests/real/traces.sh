#!/bin/bash
# Traces of a server's life on a simulated fleet. A collector gets one trace for each request. The trace has the spans
# of the request, of its process, of the steps of the process, and of the calls to the host.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
command -v python3 >/dev/null || cannot "no python3 is installed"
COLLECTOR_PORT=$(free_port) || cannot "no port is free"
SPANS=$(mktemp "${TMPDIR:-/tmp}/chronova-spans.XXXXXX")
python3 "$HERE/collector.py" "$COLLECTOR_PORT" "$SPANS" & COLLECTOR=$!
house_last() { kill "$COLLECTOR" 2>/dev/null; rm -f "$SPANS"; }
trap house_last EXIT # until sim_open sets its own trap
sim_open traces '[chronova]' 'hypervisors = sim://2' "otlp_endpoint = http://127.0.0.1:$COLLECTOR_PORT/v1/traces"
sim_client
head -c 1048576 /dev/zero >"$WORK/image.raw"
quiet() { "$@" >"$WORK/out" 2>&1; }
expect "an image is uploaded" quiet os image create --disk-format raw --container-format bare --file "$WORK/image.raw" traces
expect "a flavor is made" quiet os flavor create --vcpus 1 --ram 64 --disk 1 traces
IMAGE=$(get image traces id) FLAVOR=$(get flavor traces id)
TOKEN=$(sed -n 's/^ *token: //p' "$WORK/clouds.yaml")
# Prints the id of the request.
asked() { # method, path, body
  curl -fsS -D - -o "$WORK/answer" -X "$1" "$URL/compute/v2.1$2" -H "X-Auth-Token: $TOKEN" -H 'Content-Type: application/json' \
    -H 'OpenStack-API-Version: compute 2.96' ${3:+-d "$3"} | tr -d '\r' | sed -n 's/^x-openstack-request-id: //Ip'
}
trace() { python3 "$HERE/collector.py" --tree "$SPANS" "$1"; } # request id
traced() { trace "$1" | grep -q "^  process $2"; } # request id, process

BUILD=$(asked POST /servers "{\"server\": {\"name\": \"traced\", \"flavorRef\": \"$FLAVOR\", \"imageRef\": \"$IMAGE\", \"networks\": \"none\"}}")
ID=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["server"]["id"])' "$WORK/answer")
within 60 "the server is ACTIVE" is traced ACTIVE
within 20 "the collector has the process of the build" traced "$BUILD" build_instance
TREE=$(trace "$BUILD")
like "the trace begins with the request" "$(sed -n 1p <<<"$TREE")" '^request servers\.create$'
like "the steps are below their process" "$TREE" '^    step [a-z_]+$'
like "the calls to the host are below their step" "$TREE" '^      hypervisor [a-z_]+$'
unlike "each span has its parent" "$TREE" '^orphan'
unlike "nothing failed" "$TREE" FAILED
DELETE=$(asked DELETE "/servers/$ID")
within 20 "the collector has the process of the delete" traced "$DELETE" delete_instance
LOST=$(asked GET /servers/00000000-0000-4000-8000-000000000000 2>/dev/null)
like "a request that was refused is in a trace, too" "$(sleep 5; trace "$LOST")" '^request servers\.show$'
kill "$COLLECTOR"; wait "$COLLECTOR" 2>/dev/null
same "without the collector, the server answers" "$(curl -s -o /dev/null -w '%{http_code}' "$URL/healthz")" 200
quiet os server list
said_once() { [ "$(grep -c 'the collector takes no traces' "$WORK/chronova.log")" = 1 ]; }
within 30 "the log says once that the collector is away" said_once
[[ $FAILED = 0 ]] || echo "$TREE"
verdict
