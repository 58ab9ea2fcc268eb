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
#
# As root. All 90 cells may take three hours. The hosts reach this machine by its own address, so no other script with
# such hosts may run at the same time. Exit status as in house.sh.
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
SEED=${CHRONOVA_SEED:-$RANDOM} RANDOM=$SEED STANDING='' BUILT='' FRESH='' SHOT='' EXTRA='' ROWS=() MISSED=0

# ------------------------------------------------------------------------------------------------------------- requests

wanted() { echo "{\"server\": {\"name\": \"$1\", \"flavorRef\": \"$FLAVOR\", \"imageRef\": \"$2\", \"networks\": [{\"uuid\": \"$INNER\"}]}}"; } # name, image
# Sends a request while no fault strikes.
plain() { ask "$1" "$API$2" "${@:3}" >"$WORK/status"; } # token, path, more...
act() { plain "$1" "/$STANDING/action" -d "{\"$2\": null}"; } # token, action
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
rests() { [ "$(gauge unfinished)" = 0 ]; }
begun() { [ -e "$WORK/asked" ] || ! rests; }
ended() { [ -e "$WORK/asked" ] && rests; }
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
# Prints the differences between Chronova's servers and the services. Also prints the servers and images that belong to
# no operation.
strays() {
  TOKEN=$ADMIN python3 "$TESTBED/leaks.py" "$URL/compute" "$URL/placement" "$NEUTRON" "$GLANCE" 2>&1
  curl -s -m 60 -H "X-Auth-Token: $ADMIN" "$API?all_tenants=1" \
    | python3 -c 'import json, sys; [print("server", row["id"], "is of no request") for row in json.load(sys.stdin)["servers"] if row["id"] not in sys.argv[1:]]' "$STANDING" "$BUILT"
  images | grep -v "^${FRESH:-none} " | grep -v "^${SHOT:-none} active " \
    | { case "$(state "$STANDING")" in SHELVED*) grep -v ' active standing-shelved$' ;; *) cat ;; esac; } | sed 's/^/image of no operation: /'
}
no_strays() { [ -z "$(strays)" ]; }
no_leaks() { [ -z "$(leaks)$(strays)" ]; }

# ------------------------------------------------------------------------------------- the server before and after a cell

within_state() { wait_for 600 is_in "$STANDING" "$1" && wait_for 300 rests || bad "$CELL: the server gets ready" "wanted $1, it is $(state "$STANDING")"; } # status
stand() {
  [ -n "$STANDING" ] || { plain "$WEB" "" -d "$(wanted standing "$IMAGE")"; STANDING=$(field server.id <"$WORK/answer"); SERVERS+=("$STANDING"); }
  within_state ACTIVE
}
arrange() { # operation
  stand
  case $1 in
    build) FRESH=$(fresh_image "fresh-$RANDOM") ;;
    detach)
      plain "$WEB" "/$STANDING/os-interface" -d "{\"interfaceAttachment\": {\"net_id\": \"$INNER\"}}"
      EXTRA=$(field interfaceAttachment.port_id <"$WORK/answer")
      within_state ACTIVE ;;
    confirm) act "$ADMIN" migrate; within_state VERIFY_RESIZE ;;
    unshelve) act "$WEB" shelve; within_state SHELVED_OFFLOADED ;;
  esac
}
# Ends the cell's operation without a fault. The server then has one interface and no images of its own.
restore() {
  local port image
  [ -z "$BUILT" ] || plain "$WEB" "/$BUILT" -X DELETE
  case "$(state "$STANDING")" in
    ACTIVE*) ;;
    VERIFY_RESIZE*) act "$WEB" confirmResize ;;
    SHELVED*) act "$WEB" unshelve ;;
    '- -') STANDING='' ;;
    *) plain "$WEB" "/$STANDING" -X DELETE; STANDING='' ;;
  esac
  wait_for 600 rests || bad "$CELL: no process is under way after the cleanup" "$(gauge stuck) are stuck"
  [ -z "$STANDING" ] || for port in $(more_interfaces); do plain "$WEB" "/$STANDING/os-interface/$port" -X DELETE; done
  for image in $FRESH $SHOT; do curl -s -m 60 -o /dev/null -X DELETE -H "X-Auth-Token: $ADMIN" "$GLANCE/v2/images/$image"; done
  BUILT='' FRESH='' SHOT='' EXTRA=''
  wait_for 300 rests && wait_for 180 no_leaks || bad "$CELL: nothing is left after the cleanup" "$(leaks; strays)"
  [ -z "$STANDING" ] || [ "$(runs "$STANDING")" = 1 ] || bad "$CELL: the guest runs on one host after the cleanup" "$(runs "$STANDING")"
}

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
  local code id before after midst problems='' began=$SECONDS
  CELL=$1/$2/$3 ADMIN=$(token admin admin) WEB=$(token ann web)
  arrange "$1"
  before=$(state "$STANDING")
  [ "$1" != build ] || before='- -'
  # The service is slow from before the request on, so that the fault comes in the midst of its work.
  slow "$(session_of "$2")" 0.4 0.1
  begin "$1"
  wait_for 60 begun
  sleep "$((RANDOM % 3)).$((RANDOM % 10))"
  midst=yes
  if ended; then midst=no; MISSED=$((MISSED + 1)); fi
  if [ "$3" = slow ]; then wait_for 60 ended; fast; else fast; recovers "$2" "$3"; fi
  wait_for 900 ended || problems+="$(gauge unfinished) processes are under way, $(gauge stuck) are stuck. "
  code=$(cat "$WORK/asked" 2>/dev/null) id=$STANDING
  if [ "$1" = build ]; then BUILT=$(field server.id <"$WORK/said" | grep -v '^-$') id=${BUILT:-none}; SERVERS+=(${BUILT:+"$BUILT"}); fi
  [ "$1" != snapshot ] || SHOT=$(field image_id <"$WORK/said" | grep -v '^-$')
  after=$(state "$id")
  fits "$1" "$code" "$before" "$after" "$(server "$id" server.fault.message)" || problems+="The answer was $code, the server was $before and is $after. "
  [ "$(gauge stuck)" = 0 ] || problems+="$(gauge stuck) processes are stuck. "
  wait_for 180 no_strays || problems+=$(strays)
  ROWS+=("| $1 | $2 | $3 | ${code:-none} ${after% -} | $midst | $((SECONDS - began)) |")
  same "$CELL: the answer is $code, and the server is ${after% -}" "$problems" ""
  restore
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
stand
for ENTRY in "${CELLS[@]}"; do
  read -r OPERATION SERVICE FAULT <<<"$ENTRY"
  cell "$OPERATION" "$SERVICE" "$FAULT"
done
[ -z "$STANDING" ] || plain "$WEB" "/$STANDING" -X DELETE
wait_for 300 rests
STANDING=''
within 60 "nothing is left at the end" no_leaks
same "no token is in the log" "$(grep -cF -e "$WEB" -e "$ADMIN" "$WORK/chronova.log")" 0
printf '%s\n' '' '| operation | service | fault | answer, and the server afterwards | in the midst | seconds |' '|---|---|---|---|---|---|' "${ROWS[@]}"
echo "$MISSED of ${#CELLS[@]} faults came after the operation had ended"
verdict
