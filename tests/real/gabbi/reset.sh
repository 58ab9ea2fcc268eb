#!/usr/bin/env bash
# Starts an empty server with the settings that PLACEMENT_PROFILE names. The gabbi runner calls this script before each
# file.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../testbed/still_runs.sh"
if [ -f "$GABBI_WORK/pid" ]; then
    pid=$(cat "$GABBI_WORK/pid")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do still_runs -p "$pid" || break; sleep 0.05; done
fi
rm -rf "$GABBI_WORK/data"
new_defaults=false policy='' cors=''
case "${PLACEMENT_PROFILE:-default}" in
    default | legacy-rbac) ;;
    secure-rbac) new_defaults=true ;;
    open-policy)
        policy="policy_file = open.yaml"
        grep -o '"name": *"placement:[a-z_:]*"' "$GABBI_POLICIES" | cut -d'"' -f4 | sed 's/.*/"&": "@"/' >"$GABBI_WORK/open.yaml"
        ;;
    cors) cors=$'[cors]\nallowed_origin = http://valid.example.com\nallow_headers = openstack-api-version' ;;
    *) exit 77 ;;
esac
cat >"$GABBI_WORK/nova.conf" <<CONF
[chronova]
listen = 127.0.0.1:$GABBI_MAIN
placement_listen = 127.0.0.1:$GABBI_PORT
[api]
auth_strategy = noauth2
[oslo_policy]
enforce_new_defaults = $new_defaults
enforce_scope = true
$policy
$cors
CONF
"$GABBI_BINARY" serve --data-dir "$GABBI_WORK/data" --config-file "$GABBI_WORK/nova.conf" >"$GABBI_WORK/log" 2>&1 &
echo $! >"$GABBI_WORK/pid"
for _ in $(seq 200); do
    if curl --silent --fail --output /dev/null "http://127.0.0.1:$GABBI_PORT/"; then exit 0; fi
    still_runs -p "$(cat "$GABBI_WORK/pid")" || break
    sleep 0.05
done
cat "$GABBI_WORK/log" >&2
exit 1
