#!/bin/bash
# Each service of a cloud fails in the midst of each operation on a server: real Keystone, Glance, and Neutron with OVN,
# and guests on two real hosts. The service is killed and started again, hangs for longer than the time limit of calls, or
# answers slowly. Afterwards no process is under way, and the server is in a state that a client understands. No port,
# binding, image, guest or claim is left that Chronova does not know.
#
#   tests/soak/services.sh      prints a table of all cells: operation, service, fault, outcome
#
# CHRONOVA_CELLS   only these cells, as OPERATION/SERVICE/FAULT with wildcards: "build/glance/kill */neutron/hang".
#                  Operations: build snapshot attach detach live cold confirm shelve unshelve delete. Services: keystone
#                  glance neutron. Faults: kill hang slow
# CHRONOVA_SEED    chooses the moments of the faults (default: random; the script prints it)
# CHRONOVA_MINUTES begins no cell after so many minutes (default: no limit)
#
# A cell that fails does not fail the next ones. Its leftovers are reported once, and the next cell gets a server of its
# own.
#
# As root. All 90 cells take about two and a half hours on two slow processors: two minutes for the cloud, and on average
# 95 seconds for a cell (slow 70, kill 95, hang 110; a minute more for confirm, unshelve and after a delete). A failed
# cell may take ten minutes. One cell alone takes four minutes. The hosts reach this machine by its own address, so no
# other script with such hosts may run at the same time. Exit status as in house.sh.
set -uo pipefail
FLEET_OPTIONS=--root-link
. "$(dirname "$0")/../testbed/openstack.sh"
PATIENCE=15
# The states in which an operation may leave its server, if the request was accepted.
declare -A ENDS=([build]='ACTIVE|ERROR' [snapshot]=ACTIVE [attach]=ACTIVE [detach]=ACTIVE [live]=ACTIVE
  [cold]='VERIFY_RESIZE|ACTIVE|ERROR' [confirm]=ACTIVE [shelve]='SHELVED_OFFLOADED|ACTIVE'
  [unshelve]='ACTIVE|SHELVED_OFFLOADED' [delete]=-)
read -ra PATTERNS <<<"${CHRONOVA_CELLS:-*}"
CELLS=()
for OPERATION in build snapshot attach detach live cold confirm shelve unshelve delete; do
  for SERVICE in keystone glance neutron; do
    for FAULT in kill hang slow; do
      for PATTERN in "${PATTERNS[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        [[ $OPERATION/$SERVICE/$FAULT == $PATTERN ]] && { CELLS+=("$OPERATION $SERVICE $FAULT"); break; }
      done
    done
  done
done
[ ${#CELLS[@]} -gt 0 ] || cannot "CHRONOVA_CELLS selects no cell"
SEED=${CHRONOVA_SEED:-$RANDOM} RANDOM=$SEED STANDING='' BUILT='' FRESH='' SHOT='' EXTRA='' ROWS=() MISSED=0 LEFT=0

# ------------------------------------------------------------------------------------------------------------- requests

wanted() { echo "{\"server\": {\"name\": \"$1\", \"flavorRef\": \"$FLAVOR\", \"imageRef\": \"$2\", \"networks\": [{\"uuid\": \"$INNER\"}]}}"; } # name, image
# Requests that no fault meets.
plain() { ask "$1" "$API$2" "${@:3}" >"$WORK/status"; } # token, path, more...
act() { plain "$1" "/$STANDING/action" -d "{\"$2\": null}"; } # token, action
given() { field "$1" <"$2" | grep -v '^-$'; } # name, file: prints nothing for a field that is missing
# Sends a request in the background. The status of its answer gets into $WORK/asked, and the answer into $WORK/said.
request() { # token, path, more...
  rm -f "$WORK/asked" "$WORK/said"
  {
    curl -s -m 300 -o "$WORK/said" -w '%{http_code}' -H "X-Auth-Token: $1" -H 'Content-Type: application/json' "${@:3}" "$API$2" >"$WORK/asking"
    mv "$WORK/asking" "$WORK/asked"
  } &
}
begin() { # operation
  local at=/$STANDING
  case $1 in
    build) request "$WEB" "" -d "$(wanted built "$FRESH")" ;;
    snapshot) request "$WEB" "$at/action" -H 'OpenStack-API-Version: compute 2.45' -d '{"createImage": {"name": "shot"}}' ;;
    attach) request "$WEB" "$at/os-interface" -d "{\"interfaceAttachment\": {\"net_id\": \"$INNER\"}}" ;;
    detach) request "$WEB" "$at/os-interface/$EXTRA" -X DELETE ;;
    live) request "$ADMIN" "$at/action" -H 'OpenStack-API-Version: compute 2.34' -d '{"os-migrateLive": {"host": null, "block_migration": "auto"}}' ;;
    cold) request "$ADMIN" "$at/action" -d '{"migrate": null}' ;;
    confirm) request "$WEB" "$at/action" -d '{"confirmResize": null}' ;;
    shelve | unshelve) request "$WEB" "$at/action" -d "{\"$1\": null}" ;;
    delete) request "$WEB" "$at" -X DELETE ;;
  esac
}

# -------------------------------------------------------------------------------------------------------------- queries

gauge() { curl -s -m 20 "$URL/metrics" | sed -n "s/^chronova_processes_$1 //p"; }
# Whether no process is under way, except the LEFT ones of earlier cells.
rests() { local now; now=$(gauge unfinished) && [ -n "$now" ] && [ "$now" -le "$LEFT" ]; }
begun() { [ -e "$WORK/asked" ] || ! rests; }
ended() { [ -e "$WORK/asked" ] && rests; }
# Prints status and task of a server, `- -` if it does not exist, or `unknown -`.
state() { # uuid
  for _ in 1 2 3; do
    case $(ask "$ADMIN" "$API/$1" -H 'OpenStack-API-Version: compute 2.90') in
      200) field server.status server.OS-EXT-STS:task_state <"$WORK/answer"; return ;;
      404) echo '- -'; return ;;
    esac
    sleep 3
  done
  echo 'unknown -'
}
is_in() { [ "$(state "$1")" = "$2 -" ]; } # uuid, status
# Lists the images that were not there at the beginning: id, status, name.
images() {
  curl -s -m 60 -H "X-Auth-Token: $ADMIN" "$GLANCE/v2/images?limit=1000" \
    | python3 -c 'import json, sys; [print(row["id"], row["status"], row["name"]) for row in json.load(sys.stdin)["images"]]' | grep -v "^$IMAGE "
}
# Lists the ports of the server's interfaces except the first one.
more_interfaces() {
  curl -s -m 60 -H "X-Auth-Token: $ADMIN" "$API/$STANDING/os-interface" \
    | python3 -c 'import json, sys; print(*[row["port_id"] for row in json.load(sys.stdin)["interfaceAttachments"]][1:])'
}
# Prints the differences between Chronova's servers and the services, and the servers and images of no operation. Leaves
# out what earlier cells left behind.
strays() { all_strays | grep -vxFf "$WORK/left"; }
all_strays() {
  service_leaks 2>&1
  curl -s -m 60 -H "X-Auth-Token: $ADMIN" "$API?all_tenants=1" \
    | python3 -c 'import json, sys; [print("server", row["id"], "is of no request") for row in json.load(sys.stdin)["servers"] if row["id"] not in sys.argv[1:]]' "$STANDING" "$BUILT"
  images | grep -v "^${FRESH:-none} " | grep -v "^${SHOT:-none} active " \
    | { case "$(state "${STANDING:-none}")" in SHELVED*) grep -v ' active standing-shelved$' ;; *) cat ;; esac; } | sed 's/^/image of no operation: /'
}
no_strays() { [ -z "$(strays)" ]; }
leftovers_of_all() { all_strays; host_leaks; }
new_leftovers() { leftovers_of_all | grep -vxFf "$WORK/left"; }
no_leaks() { [ -z "$(new_leftovers)" ]; }
tokens() { ADMIN=$(token admin admin) WEB=$(token ann web); [ -n "$ADMIN" ] && [ -n "$WEB" ]; }

# ------------------------------------------------------------------------------------- the server before and after a cell

settled() { case $(state "$STANDING") in "$1 -" | ERROR*) ;; *) false ;; esac; } # status
within_state() { wait_for 240 settled "$1" && is_in "$STANDING" "$1" && wait_for 120 rests; } # status
stand() {
  if [ -z "$STANDING" ]; then
    plain "$WEB" "" -d "$(wanted standing "$IMAGE")"
    STANDING=$(given server.id "$WORK/answer") || return 1
    SERVERS+=("$STANDING")
  fi
  within_state ACTIVE
}
arrange() { # operation
  stand || return 1
  # Chronova now knows the member's token, so a fault of Keystone meets the operation and not only the log-in.
  plain "$WEB" "/$STANDING"
  case $1 in
    build) FRESH=$(fresh_image "fresh-$RANDOM" 2>"$WORK/fresh") && [ -n "$FRESH" ] ;;
    detach)
      plain "$WEB" "/$STANDING/os-interface" -d "{\"interfaceAttachment\": {\"net_id\": \"$INNER\"}}"
      EXTRA=$(given interfaceAttachment.port_id "$WORK/answer") && within_state ACTIVE ;;
    confirm) act "$ADMIN" migrate; within_state VERIFY_RESIZE ;;
    unshelve) act "$WEB" shelve; within_state SHELVED_OFFLOADED ;;
  esac
}
# Ends the cell's operation without a fault. The server then has one interface and no images of its own. If that does not
# succeed, the next cell gets another server, and what is left behind is not reported again.
restore() {
  local port image clean=yes
  wait_for 60 tokens || { bad "$CELL: Keystone answers after the cell"; return; }
  curl -fsS -m 20 -o /dev/null "$URL/healthz" || { bad "$CELL: the control plane still answers"; house_start; }
  [ -z "$BUILT" ] || plain "$WEB" "/$BUILT" -X DELETE
  case "$(state "${STANDING:-none}")" in
    ACTIVE*) ;;
    VERIFY_RESIZE*) act "$WEB" confirmResize ;;
    SHELVED*) act "$WEB" unshelve ;;
    '- -') STANDING='' ;;
    *) leave ;;
  esac
  sleep 1
  wait_for 240 rests || clean=no
  [ -z "$STANDING" ] || for port in $(more_interfaces); do plain "$WEB" "/$STANDING/os-interface/$port" -X DELETE; done
  for image in $FRESH $SHOT; do curl -s -m 60 -o /dev/null -X DELETE -H "X-Auth-Token: $ADMIN" "$GLANCE/v2/images/$image"; done
  BUILT='' FRESH='' SHOT='' EXTRA=''
  wait_for 120 rests && wait_for 90 no_leaks || clean=no
  [ -z "$STANDING" ] || [ "$(runs "$STANDING")" = 1 ] || { bad "$CELL: the guest runs on one host after the cleanup" "$(runs "$STANDING")"; clean=no; }
  [ $clean = no ] || return 0
  bad "$CELL: nothing is left after the cleanup" "$(gauge unfinished) processes are under way ($LEFT before), $(gauge stuck) are stuck" \
    "$(new_leftovers)"
  [ -z "$STANDING" ] || leave
  wait_for 60 rests
  leftovers_of_all | grep -E '^(port|server|image|h[0-9]+|[-+][0-9]+) ' | sort -u >"$WORK/left"
}
leave() { plain "$WEB" "/$STANDING" -X DELETE; STANDING=''; }

# ------------------------------------------------------------------------------------------------------------ the cells

# Whether the outcome is one that a client understands. A refused request has changed nothing.
fits() { # operation, status of the answer, state before, state after, fault
  case $2 in
    2??) [[ "$4" =~ ^(${ENDS[$1]})\ -$ ]] && { [ "$4" != "ERROR -" ] || [ "$5" != - ]; } ;;
    503) [ "$4" = "$3" ] ;;
    # The request waits until the interface is attached, or until this has failed.
    500) [ "$1" = attach ] && [ "$4" = "$3" ] ;;
    *) false ;;
  esac
}
cell() { # operation, service, fault
  local code id before after midst problems='' began=$SECONDS arranged ended
  CELL=$1/$2/$3 LEFT=$(gauge unfinished) LEFT=${LEFT:-0}
  if ! wait_for 60 tokens || ! arrange "$1"; then
    bad "$CELL: the server gets ready" "it is $(state "${STANDING:-none}"), $(gauge unfinished) processes are under way" "$(head -c 500 "$WORK/answer" 2>&1)"
    ROWS+=("| $1 | $2 | $3 | did not begin | | $((SECONDS - began)) |")
    restore
    return
  fi
  arranged=$SECONDS before=$(state "$STANDING")
  [ "$1" != build ] || before='- -'
  # The service is slow from before the request on, so that the fault comes in the midst of its work.
  slow "$(session_of "$2")" 0.4 0.1
  begin "$1"
  wait_for 60 begun
  sleep "$((RANDOM % 3)).$((RANDOM % 10))"
  midst=yes
  if ended; then midst=no; MISSED=$((MISSED + 1)); fi
  if [ "$3" = slow ]; then wait_for 60 ended; fast; else fast; recovers "$2" "$3"; fi
  wait_for 400 ended || problems+="$(gauge unfinished) processes are under way, $(gauge stuck) are stuck. "
  ended=$SECONDS code=$(cat "$WORK/asked" 2>/dev/null) id=$STANDING
  if [ "$1" = build ]; then BUILT=$(given server.id "$WORK/said") id=${BUILT:-none}; SERVERS+=(${BUILT:+"$BUILT"}); fi
  [ "$1" != snapshot ] || SHOT=$(given image_id "$WORK/said")
  after=$(state "$id")
  fits "$1" "$code" "$before" "$after" "$(server "$id" server.fault.message)" \
    || problems+="The answer was $code, the server was $before and is $after: $(head -c 300 "$WORK/said" 2>&1) "
  [ "$(gauge stuck)" = 0 ] || problems+="$(gauge stuck) processes are stuck. "
  wait_for 90 no_strays || problems+=$(strays)
  same "$CELL: the answer is ${code:-none}, and the server is ${after% -}" "$problems" ""
  restore
  ROWS+=("| $1 | $2 | $3 | ${code:-none} ${after% -} | $midst | $((SECONDS - began)) |")
  echo "        $CELL took $((SECONDS - began)) s: $((arranged - began)) to prepare, $((ended - arranged)) with the fault, $((SECONDS - ended)) to compare and clean up; in the midst: $midst"
}
table() {
  printf '%s\n' '' '| operation | service | fault | answer, and the server afterwards | in the midst | seconds |' '|---|---|---|---|---|---|' "${ROWS[@]}"
  echo "$MISSED of ${#ROWS[@]} faults came after the operation had ended; ${#CELLS[@]} cells were wanted"
}

openstack_open faults sf 10.89
API=$URL/compute/v2.1/servers CELL=preparation
echo "        ${#CELLS[@]} cells; CHRONOVA_SEED=$SEED"
openstack_patience $PATIENCE
sed -i 's/^shutdown_timeout = .*/shutdown_timeout = 5/' "$CONF"
with 'live_migration_bandwidth = 8'
IMAGE=$(os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public faults -f value -c id) || bad "the image is uploaded"
FLAVOR=$(os flavor create --vcpus 1 --ram 160 --disk 1 faults -f value -c id) || bad "the flavor is made"
INNER=$(web network create inner -f value -c id) || bad "the network is made"
web subnet create --network inner --subnet-range 10.89.1.0/24 inner >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
[ $FAILED = 0 ] || verdict
: >"$WORK/left"
expect "a server is ACTIVE" stand
for ENTRY in "${CELLS[@]}"; do
  [ $((SECONDS / 60)) -lt "${CHRONOVA_MINUTES:-100000}" ] || break
  read -r OPERATION SERVICE FAULT <<<"$ENTRY"
  cell "$OPERATION" "$SERVICE" "$FAULT"
done
wait_for 60 tokens
[ -z "$STANDING" ] || leave
wait_for 120 rests
within 60 "nothing is left at the end" no_leaks
unlike "no token is in the log" "$(grep -aoF -e "${WEB:-no token}" -e "${ADMIN:-no token}" "$WORK/chronova.log" | head -n 1)" .
table
verdict
