#!/bin/bash
# The control plane detects and repairs changes from outside to guests, hosts and itself.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open outside 10.68
house_furnish

# ------------------------------------------------------------------------------------------------------------ the guest

boot outside-one
ONE=$ID
like "the server is ACTIVE" "$(status_of outside-one)" ACTIVE
ready outside-one

expect "the guest's QEMU process is killed" kill -9 "$(qemu_of "$ONE")"
within 15 "the server is SHUTOFF after its QEMU was killed" is outside-one SHUTOFF
expect "a start is requested" os server start outside-one
within 60 "the server is ACTIVE again" is outside-one ACTIVE
ready outside-one "the guest is booted from the same disk" 2

expect "the guest gets an ACPI shutdown" v shutdown "$ONE"
within 45 "the server is SHUTOFF after its guest shut down" is outside-one SHUTOFF
like "the guest shut down gracefully" "$(console outside-one)" GUEST-SHUTDOWN
os server start outside-one
within 60 "the server is ACTIVE after its guest shut down" is outside-one ACTIVE

expect "the domain and its network are stopped from outside" eval 'v destroy "$ONE"; v net-destroy "chronova-${NETWORKS[0]:0:8}"'
within 15 "the server is SHUTOFF without its network" is outside-one SHUTOFF
os server start outside-one
within 60 "the server starts, with its network" is outside-one ACTIVE
v undefine "$ONE" >/dev/null
expect "the domain is undefined and destroyed" v destroy "$ONE"
within 15 "the server is SHUTOFF without its domain" is outside-one SHUTOFF
same "libvirt does not have the domain" "$(v list --all --uuid | grep -x "$ONE")" ""
expect "a hard reboot recreates the domain" os server reboot --hard outside-one
within 60 "the server is ACTIVE with a new domain" is outside-one ACTIVE
same "libvirt runs the new domain" "$(v domstate "$ONE")" running
# The guest increases its count late in a boot, so a boot that ends early is not counted.
within 180 "the guest is booted from its old disk" said outside-one 'GUEST-READY hostname=.* boots=([3-9]) '
like "the event list has the reboot" "$(os server event list outside-one -f value -c Action)" 'reboot'
like "the log has the observed shutdown" "$("$CHRONOVA_BIN" inspect --data-dir "$DATA" outside-one)" 'instance.power_observed +Shutdown'

# ------------------------------------------------------------------------------------------------------------- the host

# This script starts libvirtd again with the same command line, and so with the same pid file. Then the script that
# first started libvirtd can still stop it. `here` excludes the libvirtd of a testbed's host, which another script may
# use: that libvirtd is in another network namespace.
here() { [ "$(readlink "/proc/$1/ns/net")" = "$(readlink /proc/self/ns/net)" ]; } # process
DAEMON=$(for process in $(pgrep -x libvirtd); do ! here "$process" || echo "$process"; done | head -n 1)
if [ -z "$DAEMON" ]; then
  bad "libvirtd is a process of this machine"
else
  mapfile -d '' -t WORDS <"/proc/$DAEMON/cmdline"
  GUEST=$(qemu_of "$ONE")
  like "the guest has a process" "$GUEST" '^[0-9]+$'
  expect "libvirtd is killed" kill -9 "$DAEMON"
  if [ ! -d /run/systemd/system ]; then # systemd would start libvirtd again at once
    within 45 "the compute service is down" service_is down
    within 15 "the hypervisor is down" host_is down
    same "the server is ACTIVE while libvirtd is down" "$(status_of outside-one)" ACTIVE
    rm -f /run/libvirt/libvirt-sock
    expect "libvirtd is started again" "/usr/sbin/${WORDS[0]##*/}" "${WORDS[@]:1}"
  fi
  within 60 "the compute service is up again" service_is up
  within 15 "the hypervisor is up again" host_is up
  same "the server is still ACTIVE" "$(status_of outside-one)" ACTIVE
  same "the guest ran all the time" "$(qemu_of "$ONE")" "$GUEST"
fi

# ---------------------------------------------------------------------------------------------------- the control plane

TOKEN=$(os token issue -f value -c id)
request() { curl -sS -m 20 -o "$WORK/answer" -w '%{http_code}' -H "X-Auth-Token: $TOKEN" -H 'Content-Type: application/json' \
  -H 'X-OpenStack-Nova-API-Version: 2.79' -X "$1" "$URL/compute/v2.1/$2" ${3:+-d "$3"}; }
IMAGE_ID=$(get image outside id) FLAVOR_ID=$(get flavor outside id) NETWORK_ID=$(get network outside id)

# The control plane is killed at different moments: right after the answer, during the work on the host, and shortly
# before the end of this work.
for after in 0 0.7 2.5; do
  name=outside-crash-$after
  same "a server is requested, $after s before a kill" "$(request POST servers "{\"server\": {\"name\": \"$name\", \"imageRef\": \"$IMAGE_ID\", \"flavorRef\": \"$FLAVOR_ID\",
    \"networks\": [{\"uuid\": \"$NETWORK_ID\"}], \"config_drive\": true}}")" 202
  sleep $after
  house_kill
  SERVERS+=("$(sed -n 's/.*"id": *"\([0-9a-f-]\{36\}\)".*/\1/p' "$WORK/answer" | head -n 1)")
  expect "the control plane starts again after it was killed $after s after the request" house_start
  within 90 "the requested server still becomes ACTIVE" is "$name" ACTIVE
  CRASHED=${SERVERS[-1]}
  same "libvirt runs the requested guest once" "$(v list --name | grep -c '^outside-')-$(v domstate "$CRASHED")" "2-running"
  PORT_ID=$(os port list --server "$name" -f value -c ID)
  same "the requested server has one port" "$(wc -w <<<"$PORT_ID")" 1
  [ "$after" != 0.7 ] || ready "$name" "the requested guest is booted"
  same "a deletion is requested, $after s before a kill" "$(request DELETE "servers/$CRASHED")" 204
  sleep $after
  house_kill
  expect "the control plane starts again after it was killed $after s after the deletion" house_start
  within 60 "the server is still deleted" gone "$name"
  within 30 "nothing of the deleted server is left on the host" eval '[ -z "$(leftovers "$CRASHED" "$PORT_ID")" ]'
  same "the port of the deleted server is deleted" "$(os port list -f value -c ID | grep -x "$PORT_ID")" ""
done
same "the first server is still ACTIVE" "$(status_of outside-one)" ACTIVE
same "the first guest ran all the time" "$(qemu_of "$ONE")" "${GUEST:-none}"

# ------------------------------------------------------------------------------------------------------------- deletion

PORT_ID=$(os port list --server outside-one -f value -c ID)
expect "the first server is deleted" os server delete --wait outside-one
same "nothing of the first server is left on the host" "$(leftovers "$ONE" "$PORT_ID")" ""
RP=$(os resource provider list -f value -c uuid)
same "nothing is left in Placement" "$(os resource provider usage show "$RP" -f value -c usage | sort -u)" 0
expect "the network is deleted" eval 'os subnet delete outside && os network delete outside'
within 15 "the host does not have the network any more" eval '! v net-list --all --name | grep -q "chronova-${NETWORK_ID:0:8}"'
verdict
