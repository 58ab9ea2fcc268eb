#!/bin/bash
# The operator's commands on the data of a control plane with a real guest: while the control plane runs, and after its
# shutdown.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open operators 10.69
house_furnish

at() { "$CHRONOVA_BIN" "$1" --data-dir "$DATA" "${@:2}" 2>&1; }
only() { if grep -vqE -- "$3" <<<"$2" || [ -z "$2" ]; then bad "$1" "$(grep -vE -- "$3" <<<"$2" | head -n 3)"; else ok "$1"; fi; } # what, lines, pattern

boot operators-one
ONE=$ID
like "a server is ACTIVE" "$(status_of operators-one)" ACTIVE
os server stop operators-one
within 60 "the server is SHUTOFF" is operators-one SHUTOFF
sleep 1
MIDDLE=$(date -u +%Y-%m-%dT%H:%M:%SZ)
sleep 1
os flavor create --vcpus 1 --ram 160 --disk 9000000 operators-big >/dev/null
os server create --flavor operators-big --image operators --network operators operators-two >/dev/null
within 30 "a server that fits nowhere fails" is operators-two ERROR
like "the fault of that server gives the reason" "$(get server operators-two fault)" 'No valid host'
TWO=$(get server operators-two id)
REQUEST=$(os server event list operators-one -f value -c 'Request ID' -c Action | awk '$2 == "stop" || $1 == "stop" { print }' | grep -oE 'req-[0-9a-f-]{36}')

# ---------------------------------------------------------------------------------- audit, while the control plane runs

ALL=$(at audit)
expect "every line of the audit is JSON" python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' <<<"$ALL"
same "positions go up without a gap" "$(grep -oE '^\{"position":[0-9]+' <<<"$ALL" | grep -oE '[0-9]+$' | awk 'NR > 1 && $1 != last + 1 { print } { last = $1 }')" ""
like "--instance shows one server" "$(at audit --instance "$ONE")" '"kind":"instance.build_succeeded"'
like "--instance shows the server's events of every stream" "$(at audit --instance "$ONE")" '"kind":"ledger.claimed"'
unlike "--instance does not show another server" "$(at audit --instance "$ONE")" "$TWO"
only "--kind shows only events of that kind" "$(at audit --kind instance.build)" '"kind":"instance\.build'
like "--kind takes a pattern" "$(at audit --kind '*_failed')" '"kind":"instance.build_failed"'
only "--stream shows only that stream" "$(at audit --stream "instance-$ONE")" "\"stream\":\"instance-$ONE\""
only "--request-id shows only events of that request" "$(at audit --request-id "$REQUEST")" "\"request_id\":\"$REQUEST\"|\"correlation\":\"${REQUEST#req-}\""
like "--request-id shows the outcome of that request" "$(at audit --request-id "$REQUEST")" '"kind":"process.finished"'
unlike "--since does not show earlier events" "$(at audit --since "$MIDDLE")" "$ONE"
unlike "--until does not show later events" "$(at audit --until "$MIDDLE")" "$TWO"
PROJECT=$(os token issue -f value -c project_id)
only "--project shows only events of that project" "$(at audit --project "$PROJECT")" "$PROJECT"
NOBODY=$(at audit --user 00000000000000000000000000000000 2>&1)
same "--user with an unknown user exits with 2" "$?" 2
like "the refusal names the unknown user" "$NOBODY" 'no request of the user 0{32} is in the log'
same "one position is one line" "$(at audit --from-position 5 --to-position 5 | wc -l)" 1
timeout 20 "$CHRONOVA_BIN" audit --data-dir "$DATA" --follow --kind instance. --from-position "$(wc -l <<<"$ALL")" >"$WORK/follow" &
FOLLOWER=$!
os server delete --wait operators-two
within 15 "--follow prints new events" grep -q "instance.deleted.*$TWO\|$TWO.*instance.deleted" "$WORK/follow"
kill $FOLLOWER 2>/dev/null
unlike "no secret is in the audit" "$ALL" "$(sed -n 's/.*password: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$OS_CLIENT_CONFIG_FILE")|ssh-[a-z0-9]+ PRIVATE"

# -------------------------------------------------------------------------------------------------------------- inspect

STORY=$(at inspect operators-one)
like "inspect shows the server's name and id" "$STORY" "^server operators-one \\($ONE"
like "inspect shows the server's status" "$STORY" 'status +SHUTOFF'
like "inspect shows the steps of the creation" "$STORY" 'build_instance.*spawn_guest'
like "inspect shows the stop, with its request id" "$STORY" "^stop  $REQUEST"
same "inspect by the server's id prints the same" "$(at inspect "$ONE")" "$STORY"
same "inspect by the start of the server's id prints the same" "$(at inspect "${ONE:0:13}")" "$STORY"
expect "inspect --json prints valid JSON" eval 'at inspect --json operators-one | python3 -m json.tool >/dev/null'
like "inspect shows why a server failed" "$(at inspect "$TWO")" 'No valid host|no host'
like "inspect shows a request" "$(at inspect request "$REQUEST")" 'stop_instance|stop'
like "inspect shows a host" "$(at inspect host "$(os hypervisor list -f value -c 'Hypervisor Hostname')")" 'host\.'
at inspect nobody >/dev/null; same "inspect with an unknown name exits 1" $? 1

# -------------------------------------------------------------------------------------------------------------- rebuild

os server delete --wait operators-one
same "nothing of the server is left on the host" "$(leftovers "$ONE")" ""
house_stop
LINE=$(at rebuild); same "rebuild exits 0 on a valid log" $? 0
like "the read models equal what the log says" "$LINE" '^equal: [0-9]+ read models at position [0-9]+'
like "inspect works after the shutdown, too" "$(at inspect "$ONE")" 'DELETED'
LINE=$(at rebuild --replace); same "rebuild --replace exits 0" $? 0
expect "the control plane starts from the recomputed read models" house_start
like "the flavors are the same" "$(os flavor list -f value -c Name)" '^operators$'

# --------------------------------------------------------------------------------------------------------------- config

"$CHRONOVA_BIN" config check "$CONF" >"$WORK/good" 2>&1; same "config check exits 0 for a valid file" $? 0
printf '[DEFAULT]\nreport_intervall = 5\ncpu_allocation_ratio = many\n[libvirt]\nvirt_type = vmware\n' >"$WORK/bad.conf"
"$CHRONOVA_BIN" config check "$WORK/bad.conf" >"$WORK/bad" 2>&1; same "config check exits 2 for an invalid file" $? 2
like "config check suggests the right name of an unknown option" "$(cat "$WORK/bad")" 'report_interval'
like "config check names the option with an invalid value" "$(cat "$WORK/bad")" 'cpu_allocation_ratio'
like "config check reports all errors at once" "$(cat "$WORK/bad")" 'virt_type'
"$CHRONOVA_BIN" serve --data-dir "$WORK/none" --config-file "$WORK/bad.conf" >"$WORK/refused" 2>&1; same "the control plane exits 2 with an invalid file" $? 2

os subnet delete operators && os network delete operators || bad "the network is deleted"
verdict
