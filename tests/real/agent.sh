#!/bin/bash
# The QEMU guest agent in a real guest: it sets a password, and it quiesces the file systems while an image is made.
# With CHRONOVA_SOAK=1 also: a guest on a volume is quiesced. Without a running agent, no password can be set. Nor
# can an image be made of a server that requires quiescing.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open agent 10.67
IMAGE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-agent.qcow2
if ! [ -s "$IMAGE" ] || [ -n "$(find "$HERE/make-image.sh" "$HERE/guest" -newer "$IMAGE" -print -quit)" ]; then
  bash "$HERE/make-image.sh" "$IMAGE" --agent >"$WORK/make-image" 2>&1 || cannot "no guest image with an agent: $(tail -n 1 "$WORK/make-image")"
fi
house_furnish
INSIDE_SECONDS=150

# The client's output is shown only on a failure.
did() { os "$@" >"$WORK/did" 2>&1 || { tail -n 5 "$WORK/did"; false; }; }
image() { os image create --disk-format qcow2 --container-format bare --file "$IMAGE" "$@" >"$WORK/image-$1" 2>&1; }
expect "an image is created that requires a guest agent" image agent-image --property hw_qemu_guest_agent=yes \
  --property os_require_quiesce=yes --property os_admin_user=root --property hw_watchdog_action=poweroff --property hw_pmu=no

# qemu-ga calls this hook with the word `freeze` or `thaw`. The hook prints the word on the console, because the file
# systems are frozen then. `listen` restarts the agent with the hook.
HOOK='printf "%s\n" "#!/bin/sh" "echo GUEST-AGENT \$1 >/dev/ttyS0" >/run/hook; chmod +x /run/hook'
listen() { # uuid
  inside "$1" "$HOOK; kill \$(cat /run/qemu-ga.pid); sleep 1; P=\$(grep -l guest_agent /sys/class/virtio-ports/*/name); \
    qemu-ga -d -m virtio-serial -p /dev/\$(basename \$(dirname \$P)) -t /run -f /run/qemu-ga.pid -F/run/hook && sleep 1"
}
heard() { console "$1" | grep -aoE 'GUEST-AGENT (freeze|thaw)' | cut -d ' ' -f 2 | tr '\n' ' '; } # server

# ---------------------------------------------------------------------------------------------- a guest on a local disk

os server create --wait --flavor "$NAME" --image agent-image --network "$NAME" --config-drive True agent-one >"$WORK/one" 2>&1 \
  || bad "a server is made" "$(tail -n 20 "$WORK/one")"
ONE=$(get server agent-one id); SERVERS+=("$ONE")
like "the guest has a channel to its agent" "$(v dumpxml "$ONE")" 'org.qemu.guest_agent.0'
like "the guest has the watchdog of its image" "$(v dumpxml "$ONE")" "<watchdog model='i6300esb' action='poweroff'"
like "the guest has no PMU" "$(v dumpxml "$ONE")" "<pmu state='off'/>"
like "the guest has a random number generator" "$(v dumpxml "$ONE" | tr -d '\n')" "<rng model='virtio'> *<backend model='random'>/dev/urandom</backend>"
like "the guest has a socket of one core and one thread" "$(v dumpxml "$ONE")" "<topology sockets='1' .*cores='1' threads='1'/>"
ready agent-one "the guest is booted"
within 30 "the guest's agent answers" v qemu-agent-command "$ONE" '{"execute":"guest-ping"}'
expect "a password is set" did server set --password s3cret-of-one agent-one
same "the guest knows the password" "$(inside "$ONE" 'cat /run/passwords')" "root $(printf s3cret-of-one | sha256sum | cut -d ' ' -f 1)"
expect "the agent is restarted with the hook" listen "$ONE"
within 30 "the restarted agent answers" v qemu-agent-command "$ONE" '{"execute":"guest-ping"}'
expect "an image is made" did server image create --wait --name agent-copy agent-one
same "the image is active" "$(get image agent-copy status)" active
within 20 "the guest was quiesced for the image, and released" eval '[ "$(heard agent-one)" = "freeze thaw " ]'
long_run || { expect "the server is deleted" did server delete --wait agent-one; verdict; }

# From here on, the guest's agent does not run.
expect "the agent ends" inside "$ONE" 'kill $(cat /run/qemu-ga.pid); sleep 1; ! pidof qemu-ga'
did server image create --name agent-lost agent-one
within 60 "no image is made of a guest that cannot be quiesced" absent agent-lost image
within 30 "the server is ACTIVE after the failed image" is agent-one ACTIVE
like "without the agent, a password is refused" "$(os server set --password x agent-one 2>&1)" 'Unable to set password on instance'
expect "the first server is deleted" did server delete --wait agent-one

# -------------------------------------------------------------------------------------------------- a guest on a volume

on_volume() { # name, image
  os volume create --size 1 --image "$2" "$1" >"$WORK/volume-$1" 2>&1 || return 1
  wait_for 120 eval "[ \"\$(get volume $1 status)\" = available ]" || return 1
  os server create --wait --flavor "$NAME" --volume "$1" --network "$NAME" --config-drive True "$1" >"$WORK/$1" 2>&1 || return 1
  SERVERS+=("$(get server "$1" id)")
}
expect "a server is made on a volume" on_volume agent-two agent-image
TWO=$(get server agent-two id)
ready agent-two "the guest on the volume is booted"
expect "the agent of that guest is restarted with the hook" listen "$TWO"
within 30 "the restarted agent of that guest answers" v qemu-agent-command "$TWO" '{"execute":"guest-ping"}'
expect "an image of the server on the volume is made" did server image create --wait --name agent-volumes agent-two
like "the image consists of snapshots" "$(get image agent-volumes properties)" block_device_mapping
within 20 "the guest was quiesced for the snapshots, and released" eval '[ "$(heard agent-two)" = "freeze thaw " ]'
expect "the server on the volume is deleted" did server delete --wait agent-two
expect "an image is created that requires quiescing but declares no agent" image agent-none --property os_require_quiesce=yes
expect "a server is created that cannot be quiesced" on_volume agent-three agent-none
like "an image of the server without an agent is refused" "$(os server image create --name agent-never agent-three 2>&1)" 'QEMU guest agent is not enabled'
like "a password for the server without an agent is refused" "$(os server set --password x agent-three 2>&1)" 'QEMU guest agent is not enabled'
expect "the server without an agent is deleted" did server delete --wait agent-three
for snapshot in $(os volume snapshot list -f value -c ID); do did volume snapshot delete "$snapshot"; done
within 60 "no snapshot is left" eval '[ -z "$(os volume snapshot list -f value -c ID)" ]'
for volume in agent-two agent-three; do did volume delete "$volume"; done
within 60 "no volume is left" eval '[ -z "$(os volume list -f value -c ID)" ]'
verdict
