#!/bin/bash
# Metrics, alert rules and the Grafana dashboard: promtool checks the metrics and the rules. A real Prometheus
# collects the metrics of a running control plane, and answers every query of the dashboard.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
PLACE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../ops/monitoring" && pwd)
command -v promtool >/dev/null && command -v prometheus >/dev/null || cannot "no prometheus is installed"
expect "the alert rules are well-formed" promtool check rules "$PLACE/alerts.yml"
TOLD=$(cd "$PLACE" && promtool test rules alerts.test.yml 2>&1)
same "each alert fires on its fault, and no alert fires without a fault" $? 0
[[ $TOLD = *SUCCESS* ]] || echo "$TOLD"
sim_open monitoring '[chronova]' 'hypervisors = sim://3'
house_last() { [ -z "${PROMETHEUS:-}" ] || { kill "$PROMETHEUS" 2>/dev/null; wait "$PROMETHEUS" 2>/dev/null; }; }
curl -fsS "$URL/metrics" >"$WORK/metrics"
same "the metrics are named as Prometheus recommends" "$(promtool check metrics <"$WORK/metrics" 2>&1)" ""
# Every metric of the server has a row in the documentation. The reverse cannot be checked: some metrics exist only
# during a replay, or only if other services are configured.
same "the documentation lists each metric" "$(sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$WORK/metrics" | while read -r name; do grep -q "^| \`$name\`" "$PLACE/../../docs/monitoring.md" || echo "$name"; done)" ""
curl -fsS "$URL/compute/v2.1/" >"$WORK/version"
curl -fsS -H 'Accept: application/openmetrics-text' "$URL/metrics" >"$WORK/open"
like "a bucket in OpenMetrics names a request" "$(grep ' # ' "$WORK/open")" '^chronova_http_request_seconds_bucket\{.*\} [0-9]+ # \{request_id="req-[0-9a-f-]{36}"\} [0-9.]+$'
same "OpenMetrics ends with its mark" "$(tail -n 1 "$WORK/open")" '# EOF'
PROM=$((PORT + 1))
while (exec 3<>"/dev/tcp/127.0.0.1/$PROM") 2>/dev/null; do PROM=$((PROM + 1)); done
# The sample configuration with this server's address and a shorter interval.
mkdir "$WORK/prometheus" && cp "$PLACE"/alerts.yml "$WORK/prometheus/"
sed -e "s/127.0.0.1:8774/127.0.0.1:$PORT/" -e 's/15s/1s/' "$PLACE/prometheus.yml" >"$WORK/prometheus/prometheus.yml"
expect "the sample configuration is well-formed" promtool check config "$WORK/prometheus/prometheus.yml"
prometheus --config.file="$WORK/prometheus/prometheus.yml" --enable-feature=exemplar-storage --storage.tsdb.path="$WORK/prometheus/data" \
  --web.listen-address="127.0.0.1:$PROM" >"$WORK/prometheus.log" 2>&1 & PROMETHEUS=$!
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
timeout 120 python3 "$HERE/queries.py" "http://127.0.0.1:$PROM" "$PLACE/grafana.json" "$URL" "$PASSWORD"
same "every query of the dashboard is answered with data" $? 0
exemplars() { curl -fsS -G "http://127.0.0.1:$PROM/api/v1/query_exemplars" --data-urlencode 'query=chronova_http_request_seconds_bucket' \
  --data-urlencode "start=$(($(date +%s) - 300))" --data-urlencode "end=$(($(date +%s) + 60))"; }
within 20 "Prometheus has exemplars with request ids" eval 'exemplars | grep -qE "\"request_id\":\"req-[0-9a-f-]{36}\""'
verdict
