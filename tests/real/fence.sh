#!/bin/bash
# A control plane on a restored log does not drive the host of its original, until an operator claims the host. A host
# is removed and added while the control plane runs.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open fence 10.84

OTHER=$WORK/other OTHER_PORT=$(free_port)
OTHER_URL=http://127.0.0.1:$OTHER_PORT
other_start() {
  setsid "$CHRONOVA_BIN" serve --data-dir "$OTHER" --listen "127.0.0.1:$OTHER_PORT" --config-file "$CONF" >>"$WORK/other.log" 2>&1 </dev/null 8>&- &
  OTHER_PID=$!
  wait_for 60 curl -fsS -m 5 -o /dev/null "$OTHER_URL/healthz" 2>/dev/null
}
house_last() { [ -z "${OTHER_PID:-}" ] || kill "$OTHER_PID" 2>/dev/null; }
# Whether the control plane at this URL sees its host in this state. The restored control plane accepts the credentials
# of the original.
seen() { # url, state
  local state
  state=$("$CHRONOVA_BIN" host list --data-dir "$DATA" --config-file "$CONF" --url "$1" | awk 'NR > 1 {print $3}' | sort -u)
  [ "$state" = "$2" ]
}
stays() { local n; for n in 1 2 3 4 5; do seen "$1" "$2" || return 1; sleep 1; done; } # url, state

expect "the running control plane is backed up" "$CHRONOVA_BIN" backup create "$WORK/backups" --data-dir "$DATA" --config-file "$CONF"
expect "the backup is restored beside it" "$CHRONOVA_BIN" backup restore "$WORK/backups" --data-dir "$OTHER" --config-file "$CONF"
expect "the restored control plane starts" other_start
within 30 "the restored control plane sees the host down" seen "$OTHER_URL" down
like "the restored control plane says how to take the host" "$(cat "$WORK/other.log")" 'another copy of this log drives the host.*chronova host claim'
expect "the host keeps refusing the restored control plane" stays "$OTHER_URL" down
expect "the original drives the host" seen "$URL" up

like "an operator claims the host" "$("$CHRONOVA_BIN" host claim --all --data-dir "$OTHER" --config-file "$CONF" 2>&1)" 'claimed for generation'
within 30 "the restored control plane drives the host" seen "$OTHER_URL" up
within 30 "the original has let go of the host" seen "$URL" down
like "the original says why the host refuses it" "$(cat "$WORK/chronova.log")" 'another copy of this log drives the host'

like "the original takes the host back" "$("$CHRONOVA_BIN" host claim --all --data-dir "$DATA" --config-file "$CONF" 2>&1)" 'claimed for generation'
within 30 "the original drives the host again" seen "$URL" up
within 30 "the restored control plane has let go of the host" seen "$OTHER_URL" down

cli() { local what=$1; shift; "$CHRONOVA_BIN" host "$what" --data-dir "$DATA" --config-file "$CONF" "$@" 2>&1; }
like "a host that takes servers is not removed" "$(cli remove "$(hostname)")" 'takes new servers'
expect "the service of the host is disabled" os compute service set --disable "$(hostname)" nova-compute
like "the disabled host is removed while the control plane runs" "$(cli remove "$(hostname)")" 'is removed'
same "no host is left" "$(os hypervisor list -f value -c ID 2>/dev/null)" ''
like "the host is added again" "$(cli add "${HYPERVISORS:-qemu:///system}")" 'is added'
within 30 "the original drives the host that was added" seen "$URL" up
verdict
