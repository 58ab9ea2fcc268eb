#!/bin/bash
# Notifications reach a real RabbitMQ. Twelve servers are created, stopped, started and deleted, four at a time. The
# broker is killed while the first four are under way, and it is missing for the next four. Then the control plane is
# killed and started again, and the broker starts again while the last four are under way. Each notification of a server
# must arrive once and in order, after duplicates are dropped by their ids. Needs no hypervisor.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || cannot "RabbitMQ is not installed"
SYSTEM_PYTHON=/usr/bin/python3
"$SYSTEM_PYTHON" -c 'import kombu' 2>/dev/null || cannot "kombu is not installed for $SYSTEM_PYTHON"

BROKER_HOME=$(mktemp -d "${TMPDIR:-/tmp}/chronova-rabbit.XXXXXX") BROKER=
AMQP=$(free_port) DIST=$(free_port) EPMD=$(free_port)
printf 'listeners.tcp.default = 127.0.0.1:%s\nlog.console = false\n' "$AMQP" >"$BROKER_HOME/rabbitmq.conf"
broker_start() {
  env HOME="$BROKER_HOME" RABBITMQ_NODENAME="chronova-$AMQP@localhost" RABBITMQ_CONFIG_FILE="$BROKER_HOME/rabbitmq" \
    RABBITMQ_MNESIA_BASE="$BROKER_HOME/data" RABBITMQ_LOG_BASE="$BROKER_HOME/log" RABBITMQ_DIST_PORT="$DIST" \
    ERL_EPMD_PORT="$EPMD" ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_PID_FILE="$BROKER_HOME/pid" RABBITMQ_ENABLED_PLUGINS_FILE="$BROKER_HOME/plugins" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 1:1 -start_epmd false -erl_epmd_port '"$DIST" \
    /usr/lib/rabbitmq/bin/rabbitmq-server >>"$BROKER_HOME/out" 2>&1 </dev/null &
  BROKER=$!
  wait_for 90 bash -c "exec 3<>/dev/tcp/127.0.0.1/$AMQP" 2>/dev/null
}
# RabbitMQ's node is a child of rabbitmq-server, whose process is BROKER.
broker_kill() {
  local node
  node=$(pgrep -P "$BROKER" beam.smp || echo "$BROKER")
  kill -9 $node 2>/dev/null
  wait "$BROKER" 2>/dev/null
  BROKER=
}
# The port mapper that a node starts continues after the end of the node. It listens on this script's own port.
house_last() {
  [ -z "$BROKER" ] || broker_kill
  epmd -port "$EPMD" -kill >/dev/null 2>&1
  rm -rf "$BROKER_HOME"
}
broker_start || cannot "RabbitMQ does not start: $(tail -n 5 "$BROKER_HOME/out")"

sim_open notifications '[chronova]' 'hypervisors = sim://2?vcpus=512&memory_mib=1048576&disk_gib=100000' '[api]' 'auth_strategy = noauth2' \
  '[quota]' 'instances = -1' 'cores = -1' 'ram = -1' '[notifications]' 'notification_format = both' \
  '[oslo_messaging_notifications]' 'driver = messagingv2' "transport_url = rabbit://guest:guest@127.0.0.1:$AMQP//" \
  '[oslo_messaging_rabbit]' 'amqp_durable_queues = true'
ask() { # METHOD PATH [BODY]
  curl -sS -m 60 -X "$1" -H 'X-Auth-Token: admin' -H 'OpenStack-API-Version: compute 2.90' -H 'Content-Type: application/json' \
    ${3:+-d "$3"} "$URL$2"
}
id_of() { "$SYSTEM_PYTHON" -c 'import json,sys; print(json.load(sys.stdin)[sys.argv[1]]["id"])' "$1"; }
FLAVOR=$(ask POST /compute/v2.1/flavors '{"flavor":{"name":"tiny","vcpus":1,"ram":64,"disk":1}}' | id_of flavor)
IMAGE=$(ask POST /image/v2/images '{"name":"tiny","disk_format":"raw","container_format":"bare"}' | "$SYSTEM_PYTHON" -c 'import json,sys; print(json.load(sys.stdin)["id"])')
head -c 4096 /dev/zero | curl -sS -X PUT -H 'X-Auth-Token: admin' -H 'Content-Type: application/octet-stream' --data-binary @- "$URL/image/v2/images/$IMAGE/file"

# Prints the status and the task of a server, for example `ACTIVE null`; `gone` if the server does not exist.
shown() {
  local answer
  answer=$(ask GET "/compute/v2.1/servers/$1")
  grep -q '"itemNotFound"' <<<"$answer" && { echo gone; return; }
  echo "$(sed -n 's/.*"status":"\([A-Z_]*\)".*/\1/p' <<<"$answer") $(sed -n 's/.*"OS-EXT-STS:task_state":\([^,}]*\).*/\1/p' <<<"$answer")"
}
shows() { [ "$(shown "$1")" = "$2" ]; }
live() { # NAME: creates, stops, starts and deletes a server
  local server
  server=$(ask POST /compute/v2.1/servers '{"server":{"name":"'"$1"'","imageRef":"'"$IMAGE"'","flavorRef":"'"$FLAVOR"'","networks":"none"}}' | id_of server) || return 1
  wait_for 60 shows "$server" "ACTIVE null" || return 1
  ask POST "/compute/v2.1/servers/$server/action" '{"os-stop":null}' && wait_for 60 shows "$server" "SHUTOFF null" || return 1
  ask POST "/compute/v2.1/servers/$server/action" '{"os-start":null}' && wait_for 60 shows "$server" "ACTIVE null" || return 1
  ask DELETE "/compute/v2.1/servers/$server" && wait_for 60 shows "$server" gone
}

load() { # NUMBER...: the lives of servers, at the same time
  local number one lives=() failed=0
  for number in "$@"; do live "server-$number" >>"$WORK/load" 2>&1 & lives+=($!); done
  for one in "${lives[@]}"; do wait "$one" || failed=1; done
  return $failed
}
under_way() { grep -qE '"status":"(ACTIVE|SHUTOFF)"' <<<"$(ask GET '/compute/v2.1/servers/detail?all_tenants=1')"; }
loading() { still_runs -p "$LOAD"; }

COUNT=12
"$SYSTEM_PYTHON" "$HERE/../real/notifications/consume.py" "amqp://guest:guest@127.0.0.1:$AMQP//" versioned_notifications.info $COUNT 300 \
  >"$WORK/consumer" 2>&1 &
CONSUMER=$!
load 1 2 3 4 & LOAD=$!
wait_for 60 under_way || bad "the first servers are under way"
broker_kill
expect "servers are under way while the broker is killed" loading
wait "$LOAD" || bad "four servers are created, stopped, started and deleted while the broker dies" "$(tail -n 5 "$WORK/load")"
# The control plane continues without the broker.
load 5 6 7 8 || bad "four servers are created, stopped, started and deleted without a broker" "$(tail -n 5 "$WORK/load")"
house_kill 2>/dev/null || kill -9 "$HOUSE"
house_start || bad "the control plane starts again" "$(tail -n 20 "$WORK/chronova.log")"
load 9 10 11 12 & LOAD=$!
wait_for 60 under_way || bad "the last servers are under way"
expect "the broker starts again" broker_start
wait "$LOAD" || bad "four servers are created, stopped, started and deleted while the broker starts" "$(tail -n 5 "$WORK/load")"
wait "$CONSUMER"
same "the notifications of each server are complete and in order" "$?: $(head -n 3 "$WORK/consumer" | sed 's/, [0-9]* doubles dropped//')" \
  "0: $COUNT servers, $((COUNT * 10)) notifications, 0 lives that differ"
tail -n 1 "$WORK/consumer"
verdict
