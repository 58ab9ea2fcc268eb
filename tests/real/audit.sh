#!/bin/bash
# Questions of an auditor about a cloud on a simulated fleet, each answered by a command: before and after half of the
# log has left its file for the archive. The answers and their times go to a file, from which docs/audit.md has its
# examples.
#
#   tests/real/audit.sh [FILE]      writes FILE (default: no file is kept)
#
# CHRONOVA_AUDIT_EVENTS   CHRONOVA_DEV_BIN appends synthetic events until the log has this many (default: appends none)
set -uo pipefail
FILE=${1:-}
. "$(dirname "$0")/../testbed/sim.sh"
command -v python3 >/dev/null && command -v openssl >/dev/null || cannot "needs python3 and openssl"
sim_open audit '[chronova]' 'hypervisors = sim://2'
DOCS=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../docs" && pwd)
ANSWERS=$WORK/answers TIMES=$WORK/times FOLLOWER= SINK=
house_last() {
  local process
  for process in $FOLLOWER $SINK; do kill "$process" 2>/dev/null; done
}
at() { "$CHRONOVA_BIN" "$1" --data-dir "$DATA" "${@:2}"; }
prune() { "$CHRONOVA_BIN" log prune --data-dir "$DATA" "$@"; }
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
scene() { timeout 300 python3 "$HERE/audit_scene.py" "$URL" "$PASSWORD" "$WORK/scene" "$1"; }
of_scene() { python3 -c 'import json,sys; print(eval("json.load(open(sys.argv[1]))" + sys.argv[2]))' "$WORK/scene" "$1"; } # expression
position() { at audit head | cut -d: -f1; }

# Runs a command, and writes the question, the command, the beginning of the answer, and the seconds.
# ANSWER is the whole output, STATUS the exit status.
ask() { # question, command...
  local question=$1 began ended; shift
  began=$(date +%s%N)
  ANSWER=$("$@" 2>&1) STATUS=$?
  ended=$(date +%s%N)
  awk -v what="$question" -v n=$((ended - began)) 'BEGIN { printf "| %s | %.3f |\n", what, n / 1e9 }' >>"$TIMES"
  { printf '\n## %s\n\n$ %s\n' "$question" \
      "$(sed "s#^at #chronova #; s#^prune #chronova log prune #; s#$CHRONOVA_BIN#chronova#g; s#$DOCS#docs#g; s#$WORK#.#g" <<<"$*")"
    head -n 12 <<<"$ANSWER" | cut -c 1-200
    [ "$(wc -l <<<"$ANSWER")" -le 12 ] || echo "... $(wc -l <<<"$ANSWER") lines"
    awk -v n=$((ended - began)) 'BEGIN { printf "(%.3f s)\n", n / 1e9 }'; } >>"$ANSWERS"
}

scene begin || { bad "the first scene"; exit 1; }
sleep 1 # The records of access are written within half a second.
MIDDLE=$(position)
scene end || { bad "the second scene"; exit 1; }
sleep 1
ALICE=$(of_scene '["alice"]') ONE=$(of_scene '["servers"][0]') PROJECT=$(of_scene '["project"]')
END=$(position)

# -------------------------------------------------------------------------------------------- while the server runs

ask "Can the log be read beside the server?" at audit head
like "the log is read beside the server" "$ANSWER" '^[0-9]+:[0-9a-f]{64}$'
timeout 300 "$CHRONOVA_BIN" audit --data-dir "$DATA" --follow --kind instance.deleted --from-position "$END" >"$WORK/follow" &
FOLLOWER=$!
house_stop; house_start || { bad "the control plane starts again"; exit 1; }
scene after || { bad "the third scene"; exit 1; }
within 15 "the listing goes on across a restart of the server" grep -q '"kind":"instance.deleted"' "$WORK/follow"
kill $FOLLOWER 2>/dev/null; FOLLOWER=
ask "What came after a restart, followed live?" cat "$WORK/follow"
house_stop

if [ -n "${CHRONOVA_AUDIT_EVENTS:-}" ]; then
  [ -x "${CHRONOVA_DEV_BIN:-}" ] || cannot "CHRONOVA_DEV_BIN names no program"
  "$CHRONOVA_DEV_BIN" fill-log "$DATA" --events "$CHRONOVA_AUDIT_EVENTS" || { bad "the log is filled"; exit 1; }
fi
ask "How much of the log is in the index?" at audit index
same "the index is complete" "$STATUS" 0
EVENTS=$(position)
# The synthetic events come after the last checkpoint of the server.
ask "Do the read models equal a rebuild?" at rebuild --replace
same "the read models are rebuilt" "$STATUS" 0

# ------------------------------------------------------------------------------------------------- of the whole log

ask "Who deleted the server web-1, and from where?" at audit --server web-1 --kind instance.delete_requested
like "the deletion names user, address and program" "$ANSWER" "\"user\":\"$ALICE\".*\"address\":\"127.0.0.1\".*\"agent\":\"scene/1\""
same "one event is the answer" "$(wc -l <<<"$ANSWER")" 1

HOST=$(at audit servers --at "$MIDDLE" --json | python3 -c 'import json,sys; print(next(s["host"] for s in json.load(sys.stdin)["servers"] if s["name"] == "web-1"))')
ask "What ran on the host $HOST at that time?" at audit servers --host "$HOST" --at "$MIDDLE"
like "the server ran there" "$ANSWER" "web-1 \\($ONE\\)  ACTIVE  on $HOST"

ask "What runs on the host $HOST at the end of the log, at a checkpoint?" at audit servers --host "$HOST" --at "$EVENTS"
like "the end of the log is shown" "$ANSWER" "servers at position $EVENTS,"
ask "What ran in the middle of the log, far from a checkpoint?" at audit servers --at "$((EVENTS / 2))"
like "the middle of the log is shown" "$ANSWER" "servers at position $((EVENTS / 2)),"

ask "Who could use the project web at that time?" at audit roles web --at "$MIDDLE"
like "Alice could" "$ANSWER" "alice \\($ALICE\\)"
unlike "Bob could not" "$ANSWER" '^  bob '

ask "Who could use it at any time?" at audit roles web --since 1
like "Alice could for a time" "$ANSWER" "alice \\($ALICE\\)"
like "her time has an end" "$ANSWER" 'from +20[^ ]+ to 20'
like "Bob could, too" "$ANSWER" '^  bob '

ask "What did Alice do and try?" at audit --user alice --output table
for kind in access.login_failed access.logged_in access.request_refused instance.build_requested instance.delete_requested; do
  like "the answer has $kind" "$ANSWER" " $kind "
done

ask "What is the difference of two moments?" at audit diff "$MIDDLE" "$END"
same "there is a difference" "$STATUS" 1
like "a server is deleted" "$ANSWER" "^- server web-1 \\($ONE\\)"
like "a server is stopped" "$ANSWER" 'status .*ACTIVE -> SHUTOFF'
ask "What is the difference of one server?" at audit diff "$MIDDLE" "$END" --server web-2
like "the field is named" "$ANSWER" 'ACTIVE -> SHUTOFF'
ask "Who got and lost which right?" at audit diff "$MIDDLE" "$END" --access
like "Alice's role is revoked" "$ANSWER" '^- assignment alice: member on project web'
like "Bob's role is granted" "$ANSWER" '^\+ assignment bob: reader on project web'

# ------------------------------------------------------------------------------------------------------------ proofs

"$CHRONOVA_BIN" audit keygen --out "$WORK/auditor.key" >/dev/null
FIRST=$(at audit --from-position 1 --to-position 1 | grep -oE '"recorded_at":"[^"]*' | cut -d'"' -f4)
ask "Which events of the project were there between two dates, as a proof?" \
  at audit export --project "$PROJECT" --since "$FIRST" --sign-key "$WORK/auditor.key" --out "$WORK/project.export"
ask "Is the proof valid, without a program of ours?" python3 "$DOCS/verify_export.py" "$WORK/project.export" "$WORK/auditor.key.pub"
like "the export is valid" "$ANSWER" '^valid: '
at audit head --tree >"$WORK/head"
ask "Is the deletion in the log?" at audit prove --server "$ONE" --kind instance.delete_requested
printf '%s\n' "$ANSWER" >"$WORK/proof"
expect "the proof of the deletion is valid" python3 "$DOCS/verify_proof.py" "$WORK/proof" "$(cat "$WORK/head")"

# -------------------------------------------------------------------------------------------------------------- SIEM

cat >"$WORK/sink.py" <<'PY'
import http.server, json, sys
class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[2], "a") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Sink).serve_forever()
PY
SINK_PORT=$(free_port)
python3 "$WORK/sink.py" "$SINK_PORT" "$WORK/received" & SINK=$!
wait_for 15 eval "(exec 3<>/dev/tcp/127.0.0.1/$SINK_PORT) 2>/dev/null"
ask "Does the SIEM get the records of access?" at audit forward --to "http://127.0.0.1:$SINK_PORT/" --outbox "$WORK/outbox" --kind access. --once
same "the SIEM has each record once" "$(wc -l <"$WORK/received")" "$(at audit --kind access. | wc -l)"
at audit forward --to "http://127.0.0.1:$SINK_PORT/" --outbox "$WORK/outbox" --kind access. --once >/dev/null
same "a second run sends nothing again" "$(wc -l <"$WORK/received")" "$(at audit --kind access. | wc -l)"
kill "$SINK"; SINK=
ask "How does a record look in CADF?" at audit --kind access.login_failed --output cadf
like "the record is an event of CADF" "$ANSWER" '"typeURI":"http://schemas.dmtf.org/cloud/audit/1.0/event"'

# ------------------------------------------------------------------------------------------------- size and retention

BYTES=$(stat -c %s "$DATA/log.db")
ask "How large is the log?" echo "$EVENTS events, $BYTES bytes, $((BYTES / EVENTS)) bytes an event"
ask "Can old events be archived?" at audit archive --before "$MIDDLE" --out "$WORK/archive"
same "the archive is written" "$STATUS" 0
ask "Is the archive whole?" at audit verify-archive "$WORK/archive"
same "the archive is whole" "$STATUS" 0

# ------------------------------------------------------------------------------------------------------------- damage

cp -r "$DATA" "$WORK/damaged"
PLACE=$((BYTES * 2 / 3))
flip() { # file, place: inverts the bits of one byte
  python3 -c 'import sys; f = open(sys.argv[1], "r+b"); n = int(sys.argv[2]); f.seek(n); b = f.read(1)[0]; f.seek(n); f.write(bytes([b ^ 255]))' "$1" "$2"
}
flip "$WORK/damaged/log.db" "$PLACE"
ask "Where is a flipped byte (at $PLACE of $BYTES)?" "$CHRONOVA_BIN" audit verify --data-dir "$WORK/damaged"
same "the damage is found" "$STATUS" 1
like "the damage is located" "$ANSWER" 'page|position'
SEGMENT=$(find "$WORK/archive" -type f -name '*.zst' | head -n 1)
flip "$SEGMENT" "$(($(stat -c %s "$SEGMENT") / 2))"
ask "Where is a flipped byte of an archive?" at audit verify-archive "$WORK/archive"
same "the damage of the archive is found" "$STATUS" 1
like "the damaged segment is named" "$ANSWER" "$(basename "$SEGMENT" | cut -d. -f1)"
rm -r "$WORK/damaged"

# ---------------------------------------------------------------------------- half of the log moves out of its file

DELETED=$(at audit --server web-1 --kind instance.delete_requested) THEN=$(at audit servers --at "$MIDDLE")
ask "Which events may leave the file?" prune --older-than 0s --dry-run
like "all events before the checkpoint may leave" "$ANSWER" "^$((EVENTS - 1)) events may leave the file"
USED=$(sed -n "s/^the log's file uses \([0-9]*\) bytes.*/\1/p" <<<"$ANSWER")
ask "Can the older half leave the file?" prune --keep-size "$((USED / 2))"
like "the read models are proved equal first" "$ANSWER" '^equal: '
like "the older half has moved" "$ANSWER" '^moved: positions 1 to [0-9]+ are in '
FLOOR=$(sed -n 's/^moved: positions 1 to \([0-9]*\) .*/\1/p' <<<"$ANSWER")
expect "the newer half is still in the file" [ "${FLOOR:-0}" -ge "$((EVENTS / 3))" -a "${FLOOR:-0}" -lt "$EVENTS" ]
ask "Who deleted web-1? The same after the move" at audit --server web-1 --kind instance.delete_requested
same "the answer about the deletion is the same" "$ANSWER" "$DELETED"
ask "What ran at that time? Out of the archive" at audit servers --at "$MIDDLE"
same "the answer about that time is the same" "$ANSWER" "$THEN"
ask "Which is the first event? Out of the archive" at audit --to-position 1
same "one archived event is the answer" "$(wc -l <<<"$ANSWER")" 1
ask "Are file and archive whole?" at audit verify
same "file and archive are whole" "$STATUS" 0
like "the archive was verified, too" "$ANSWER" 'are in the archive in'

cp -r "$DATA" "$WORK/damaged"
SEGMENT=$(find "$WORK/damaged/archive" -type f -name '*.zst' | sort | head -n 1)
flip "$SEGMENT" "$(($(stat -c %s "$SEGMENT") / 2))"
ask "Where is a flipped byte of the events that have left the file?" "$CHRONOVA_BIN" audit verify --data-dir "$WORK/damaged"
same "the damage of the log's archive is found" "$STATUS" 1
like "the file of the archive is named" "$ANSWER" "$(basename "$SEGMENT")"
rm -r "$WORK/damaged"

# ------------------------------------------------------------------------------------------------------------ erasure

like "events have her name and those of her servers" "$(at audit --user "$ALICE" --without-index)" '"name":"web-[12]"'
ask "What would an erasure of Alice remove?" at audit erase --user "$ALICE" --reason "asked for on 3 May" --even-alive
same "the plan is made" "$STATUS" 0
ask "Is Alice erased?" at audit erase --user "$ALICE" --reason "asked for on 3 May" --even-alive --yes
same "the erasure is done" "$STATUS" 0
LEFT=$(at audit --user "$ALICE" --without-index)
like "her events are still there" "$LEFT" '"kind":"instance.build_requested"'
unlike "no event has her name" "$LEFT" '"name":"(alice|web-[12])"'
ask "What ran at that time? Out of the archive, after the erasure" at audit servers --at "$MIDDLE"
like "the archive still has her server" "$ANSWER" "\\($ONE\\)  ACTIVE"
unlike "the archive has no name of her servers" "$ANSWER" 'web-[12]'
ask "Is the log whole after the erasure?" at audit verify
same "the log is whole" "$STATUS" 0
{ printf '\n## Seconds, with %s events\n\n| question | s |\n|---|---|\n' "$EVENTS"; cat "$TIMES"; } >>"$ANSWERS"
cat "$ANSWERS"
# At the exit the folder of the run is removed.
[ -z "$FILE" ] || expect "the answers are kept" cp "$ANSWERS" "$FILE"
verdict
