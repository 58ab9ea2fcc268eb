#!/bin/bash
# Runs the compute commands of the client on a simulated fleet.
#
# The list of commands comes from the client. A command that is neither run nor excused with a reason fails the script.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
sim_open commands '[DEFAULT]' 'reclaim_instance_interval = 3600' '[volume]' 'shared = true' '[chronova]' 'hypervisors = sim://3'
sim_client

RAN=$WORK/ran UNSERVED=0
# Runs a command that must succeed. The first argument is the command's words, the others are its arguments. Unsupported
# operations are listed, and do not count as failed.
run() {
  local command=$1; shift
  echo "$command" >>"$RAN"
  # shellcheck disable=SC2086 # words of the options and of the command
  if os ${AT:+--os-compute-api-version $AT} $command "$@" >"$WORK/out" 2>&1; then ok "$command"
  elif grep -q 'is not implemented by this release' "$WORK/out"; then UNSERVED=$((UNSERVED + 1)); ok "$command (not served yet)"
  else bad "$command $*" "$(cat "$WORK/out")"; fi
}
settled() { ! is "$1" BUILD && [ "$(get server "$1" OS-EXT-STS:task_state)" = None ]; }
# Runs a command that changes a server's state. Checks the final state, if the operation is supported.
move() { # state, server, command, arguments...
  local state=$1 server=$2 unserved=$UNSERVED; shift 2
  run "$@"
  [ "$unserved" != "$UNSERVED" ] || within 30 "the server is $state after $1" is "$server" "$state"
}

# ------------------------------------------------------------------------------------------- resources for the commands

head -c 65536 /dev/zero >"$WORK/image"
os image create --disk-format raw --container-format bare --file "$WORK/image" --public image >"$WORK/out" 2>&1 || bad "the image is created" "$(cat "$WORK/out")"
BASE=$((RANDOM % 5))
for network in one two; do
  os network create $network >/dev/null && os subnet create --network $network --subnet-range 10.9$BASE.0.0/24 $network >/dev/null
  BASE=$((BASE + 5))
done
os port create --network two port >/dev/null
os network create --external public >/dev/null && os subnet create --network public --subnet-range 203.0.113.0/24 public >/dev/null
run "flavor create" --id 1 --ram 64 --disk 1 --vcpus 1 small
run "flavor create" --id 2 --ram 128 --disk 1 --vcpus 1 --private large
run "flavor list" --all
run "flavor set" --property hw:cpu_policy=shared --description d small
run "flavor set" --project admin large
run "flavor unset" --property hw:cpu_policy small
run "flavor show" small

# A client logs in with an application credential. It then has the credential's project and only the role that was
# named.
CREDENTIAL=$(os application credential create --secret s3cret --role reader reads -f value -c id)
by_credential() {
  env -u OS_CLOUD -u OS_CLIENT_CONFIG_FILE openstack --os-auth-type v3applicationcredential --os-auth-url "$URL/identity/v3" \
    --os-application-credential-id "$CREDENTIAL" --os-application-credential-secret s3cret "$@" 2>&1
}
like "the list has the application credential" "$(os application credential list -f value -c Name)" '^reads$'
like "a client logs in with an application credential" "$(by_credential flavor list -f value -c Name)" '^small$'
like "a credential with the role reader creates nothing" "$(by_credential flavor create --ram 64 --disk 0 --vcpus 1 refused)" '403'
expect "the application credential is deleted" os application credential delete reads
like "a deleted application credential is refused" "$(by_credential flavor list -f value -c Name)" '401'

run "keypair create" key
run "keypair list"
run "keypair show" key
HOST=$(os hypervisor list -f value -c 'Hypervisor Hostname' | sort | head -n 1)
run "hypervisor list" --long
run "hypervisor show" "$HOST"
run "hypervisor stats show"
run "host list"
run "host show" "$HOST"
run "compute service list" --long
run "compute service set" --disable --disable-reason why "$HOST" nova-compute
run "compute service set" --enable "$HOST" nova-compute
run "aggregate create" --zone east aggregate
run "aggregate add host" aggregate "$HOST"
run "aggregate list" --long
run "aggregate set" --property a=b --name aggregate aggregate
run "aggregate show" aggregate
run "aggregate cache image" aggregate image
run "aggregate unset" --property a aggregate
run "aggregate remove host" aggregate "$HOST"
run "aggregate delete" aggregate
run "server group create" --policy soft-anti-affinity group
run "server group list" --long
run "server group show" group
run "availability zone list" --long --compute
run "quota show" --compute
run "limits show" --absolute

# --------------------------------------------------------------------------------------------- a server and its actions

GROUP=$(get2 server group group id)
run "server create" --wait --flavor small --image image --network one --key-name key --property a=b --tag tag --hint "group=$GROUP" server
run "server list" --long --all-projects
run "server show" server
run "server set" --property c=d --tag more --description d --name server server
run "server unset" --property c --tag more --description server
run "server event list" server
run "server event show" server "$(os server event list server -f value -c 'Request ID' | head -n 1)"
run "server lock" --reason why server
run "server unlock" server
move SHUTOFF server "server stop" server
move ACTIVE server "server start" server
move PAUSED server "server pause" server
move ACTIVE server "server unpause" server
move SUSPENDED server "server suspend" server
move ACTIVE server "server resume" server
run "server reboot" --hard --wait server
run "server dump create" server
run "console log show" server
run "console url show" --novnc server
os security group create web >/dev/null
run "server add security group" server web
run "server remove security group" server web
# An address of the external network, reached through a router of the project.
os router create router >/dev/null && os router set --external-gateway public router && os router add subnet router one \
  || bad "the router is created" "$(os router show router 2>&1)"
ADDRESS=$(os floating ip create public -f value -c floating_ip_address)
run "server add floating ip" server "$ADDRESS"
expect "the server shows the floating IP" eval 'os server show server -c addresses -f value | grep -qF "$ADDRESS"'
expect "the floating IP is ACTIVE" [ "$(get2 floating ip "$ADDRESS" status)" = ACTIVE ]
run "server remove floating ip" server "$ADDRESS"
expect "the server does not show the floating IP any more" eval '! os server show server -c addresses -f value | grep -qF "$ADDRESS"'
expect "the floating IP is set on a port" os floating ip set --port "$(os port list --server server -f value -c ID | head -n 1)" "$ADDRESS"
expect "the floating IP is unset from the port" os floating ip unset --port "$ADDRESS"
expect "the floating IP is deleted" os floating ip delete "$ADDRESS"
run "server add network" server two
within 30 "the server is settled with its second network" settled server
run "server remove network" server two
run "server add port" server port
within 30 "the server is settled with its second port" settled server
run "server remove port" server port
run "server add fixed ip" server one
run "server image create" --name picture --wait server
run "server backup create" --name backup --type daily --rotate 1 --wait server
within 30 "the server is settled after its backup" settled server
run "server rebuild" --image image --wait server
move RESCUE server "server rescue" server
move ACTIVE server "server unrescue" server
run "server shelve" --offload --wait server
run "server unshelve" --wait server
run "server migration list"
run "usage list"
run "usage show" --project admin

if os catalog show volume >/dev/null 2>&1; then
  # `volume create` is no compute command, so the script does not count it.
  if os volume create --size 1 volume >"$WORK/out" 2>&1; then
    within 30 "the volume is available" eval '[ "$(get volume volume status)" = available ]'
    run "server add volume" server volume
    run "server volume list" server
    run "server volume set" --preserve-on-termination server volume
    run "server volume update" --preserve-on-termination server volume
    run "server remove volume" server volume
  fi
fi

run "server create" --wait --flavor small --image image --nic none gone
GONE=$(get server gone id)
move SOFT_DELETED "$GONE" "server delete" gone
run "server restore" "$GONE"
within 30 "the restored server is ACTIVE" is gone ACTIVE
run "server delete" --force --wait gone
run "server delete" --force --wait server
run "server group delete" group
run "keypair delete" key
run "flavor delete" small large
move_host() { os compute service list --service nova-compute -f value -c ID | sort | tail -n 1; }
run "compute service delete" "$(move_host)"

# ----------------------------------------------------------------------------------------------- no command is left out

# Commands that are not run, with the reasons.
excused() {
  case $1 in
    "server evacuate" | "server migrate"* | "server migration"* | "server resize"*) ;; # moves.sh and live.sh run these
    "compute agent "*) ;; # agents are gone: their API answers 410
    "host set") ;; # this API enables and disables no host, as in Nova with libvirt
    "console connection show") ;; # it needs the token of a console
    "server ssh") ;; # it logs in to the guest: simulated guests do not listen
    "server remove fixed ip") ;; # the client adds a new interface, whose only address cannot be removed
    "server add share" | "server remove share" | "server share "*) ;; # there is no share service
    "server add volume" | "server remove volume" | "server volume "*) ;; # run where there is a volume service
    *) return 1 ;;
  esac
}
os command list --group openstack.compute.v2 -f json >"$WORK/commands" 2>/dev/null
while read -r command; do
  grep -qxF "$command" "$RAN" || excused "$command" || bad "$command is neither run nor excused"
done < <(python3 -c 'import json, sys; [print(c) for g in json.load(open(sys.argv[1])) for c in (g["Commands"] if isinstance(g["Commands"], list) else g["Commands"].split())]' "$WORK/commands")
expect "the client has listed its commands" grep -q 'server unshelve' "$WORK/commands"
[ $UNSERVED = 0 ] || echo "$UNSERVED commands are not served yet"
verdict
