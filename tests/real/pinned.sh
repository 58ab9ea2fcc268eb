#!/bin/bash
# A real guest with a dedicated CPU on two hosts with different dedicated processors. The guest is pinned when it is
# built, pinned again by a live migration, and back on its old processor after a reverted cold migration. Another guest
# has a dedicated CPU and a floating one. The fault of a server that fits no host gives the reason. The guest's config
# drive is a disk with the file system vfat.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
[ "$(nproc)" -ge 2 ] || { echo "this machine has one processor: the test needs two, one for each host's pinned guest"; exit 77; }
HOUSE_CONF=$'[DEFAULT]\nconfig_drive_format = vfat\n[chronova]\nhost_cpus = h1 dedicated=1 shared=0; h2 dedicated=0 shared=1'
fleet_open pinned pn 10.73 2
house_furnish
within 60 "both hosts are up" host_stands h2 up
PINNED=$NAME-pinned
ONE=$NAME-one
os flavor create --vcpus 1 --ram 160 --disk 1 --property hw:cpu_policy=dedicated "$PINNED" >"$WORK/pinned" 2>&1 || bad "the flavor with a dedicated CPU is made" "$(cat "$WORK/pinned")"
os flavor create --vcpus 2 --ram 160 --disk 1 --property hw:cpu_policy=dedicated "$PINNED-two" >"$WORK/two" 2>&1 || bad "the flavor with two dedicated CPUs is made" "$(cat "$WORK/two")"
# A host whose cores have one thread can follow the thread policy isolate, but not require. A host whose cores have more
# threads can follow prefer, but not isolate.
FOLLOWED=isolate REFUSED=require
! grep -q '[,-]' /sys/devices/system/cpu/cpu0/topology/thread_siblings_list || FOLLOWED=prefer REFUSED=isolate
os flavor create --vcpus 2 --ram 160 --disk 1 --property hw:cpu_policy=mixed --property hw:cpu_dedicated_mask=0 \
  --property hw:emulator_threads_policy=share --property hw:cpu_thread_policy=$FOLLOWED "$PINNED-share" >"$WORK/share" 2>&1 \
  || bad "the flavor with a dedicated CPU, a floating CPU and shared emulator threads is made" "$(cat "$WORK/share")"
os flavor create --vcpus 1 --ram 160 --disk 1 --property hw:cpu_policy=dedicated --property hw:cpu_thread_policy=$REFUSED "$PINNED-threads" \
  >"$WORK/threads" 2>&1 || bad "the flavor with a thread policy that no host can follow is made" "$(cat "$WORK/threads")"
to_host() { os server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server

# The pinning in libvirt: the host processors of the vCPUs and of the emulator, and the NUMA nodes of the memory.
pins() { on "$1" vcpupin "$2" "${@:3}" | awk '$1 ~ /^[0-9]+$/ {print $2}' | paste -sd,; } # host, uuid
emulator() { on "$1" emulatorpin "$2" | awk 'NF {print $NF}'; } # host, uuid
cells() { on "$1" numatune "$2" | awk -F': ' '/numa_nodeset/ {print $2}' | tr -d ' '; } # host, uuid
# The processors on which the kernel lets QEMU's vCPU threads run.
allowed() { for task in /proc/"$(qemu_of "$1")"/task/*; do grep -q '^CPU [0-9]*/' "$task/comm" && awk '/Cpus_allowed_list/ {print $2}' "$task/status"; done | paste -sd,; } # uuid
processor_of() { case $1 in h1) echo 1 ;; h2) echo 0 ;; esac; }
is_pinned() { # occasion, host, uuid
  local own; own=$(processor_of "$2")
  same "$1: the guest's CPU has the host's dedicated processor" "$(pins "$2" "$3") $(pins "$2" "$3" --config)" "$own $own"
  same "$1: the emulator has the same processor" "$(emulator "$2" "$3")" "$own"
  same "$1: the kernel keeps the guest's CPU on that processor" "$(allowed "$3")" "$own"
  same "$1: the guest's memory is on the host's NUMA cell" "$(cells "$2" "$3")" 0
  same "$1: the API shows the pinning" "$(topology "$3" | sed 's/.*"cpu_pinning": {\([^}]*\)}.*/\1/')" "\"0\": $own"
}
token() { TOKEN=${TOKEN:-$(os token issue -f value -c id)}; echo "$TOKEN"; }
topology() { curl -fsS -m 10 -H "X-Auth-Token: $(token)" -H 'OpenStack-API-Version: compute 2.78' "$URL/compute/v2.1/servers/$1/topology" | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin), sort_keys=True))'; } # uuid
inventory() { os resource provider inventory list "$(os resource provider list --name "$1" -f value -c uuid)" -f value -c resource_class -c total 2>/dev/null | sort | paste -sd' '; } # host

like "host h1 has inventory for floating and dedicated CPUs" "$(inventory h1)" 'PCPU 1 VCPU 1'

# ---------------------------------------------------------------------------------------------------------------- build

boot "$ONE" --flavor "$PINNED" --config-drive True --user-data "$(counting)"
ready "$ONE" "the guest is booted"
FIRST=$(place "$ONE") SECOND=$(other "$(place "$ONE")")
is_pinned "after the build" "$FIRST" "$ID"
ONE_ID=$ID
like "the guest reads a config drive with the file system vfat" "$(console "$ONE" | grep -a GUEST-READY)" "uuid=$ID source=configdrive"
fat_drive() { like "$1" "$(on "$2" dumpxml "$ONE_ID" | tr -d '\n')" "${ONE_ID}_disk.config'[^>]*/>( *<[^>]*>)* *<target dev='vdz' bus='virtio'/> *<readonly/>"; } # words, host
fat_drive "a config drive with the file system vfat is a read-only disk" "$FIRST"
like "the guest has one NUMA node" "$(on "$FIRST" dumpxml "$ID" | tr -d '\n')" "<numa> *<cell id='0' cpus='0' memory='163840' unit='KiB'"
like "the guest's firmware lists its NUMA node" "$(at "$FIRST" "$ID" ls /sys/firmware/acpi/tables/SRAT)" 'SRAT$'
within 60 "the guest counts" ticks_on "$ONE" 2

boot "$NAME-plain"
same "a guest with a floating CPU runs on the shared processor" "$(on "$(place "$NAME-plain")" vcpupin "$ID" | awk '$1 == 0 {print $2}')" "$((1 - $(processor_of "$(place "$NAME-plain")")))"
expect "the server with a floating CPU is deleted" os server delete --wait "$NAME-plain"

# ------------------------------------------------------------------------------------------- a server that fits no host

os server create --wait --flavor "$PINNED-two" --image "$NAME" --network "$NAME" "$NAME-two" >"$WORK/none" 2>&1
same "a server with two dedicated CPUs finds no host" "$(status_of "$NAME-two")" ERROR
like "the fault says that dedicated CPUs are missing" "$(get server "$NAME-two" fault)" 'No valid host was found.*dedicated CPUs?'
os server create --wait --flavor "$PINNED-threads" --image "$NAME" --network "$NAME" "$NAME-threads" >"$WORK/none" 2>&1
same "a server whose thread policy no host can follow finds no host" "$(status_of "$NAME-threads")" ERROR
like "the fault of that server says that no host is valid" "$(get server "$NAME-threads" fault)" 'No valid host was found'
expect "the servers that fit no host are deleted" os server delete --wait "$NAME-two" "$NAME-threads"

# ------------------------------------------------------------------------------------------------------- live migration

expect "a live migration is requested" os server migrate --live-migration --host "$SECOND" "$ONE" --os-compute-api-version 2.79
within 180 "the server is ACTIVE on $SECOND" is_at "$ONE" "$SECOND"
within 20 "the guest runs on $SECOND" runs_on "$SECOND" "$ONE_ID"
is_pinned "after the live migration" "$SECOND" "$ONE_ID"
same "nothing of the server is left on $FIRST" "$(left_on "$FIRST" "$ONE_ID")" ""
counts_on "$ONE"

boot "$NAME-next" --no-wait --flavor "$PINNED-share"
within 90 "another server gets the old processor" is_at "$NAME-next" "$FIRST"
MIXED=$(pins "$FIRST" "$ID")
same "a guest with a thread policy that the host can follow has the old processor" "${MIXED%%,*}" "$(processor_of "$FIRST")"
same "the other CPU of a mixed guest floats over the shared processor" "${MIXED#*,}" "$((1 - $(processor_of "$FIRST")))"
same "with the policy share, the emulator has the shared processor" "$(emulator "$FIRST" "$ID")" "$((1 - $(processor_of "$FIRST")))"
os server create --wait --flavor "$PINNED" --image "$NAME" --network "$NAME" "$NAME-full" >"$WORK/full" 2>&1
same "a third server with a dedicated CPU finds no host" "$(status_of "$NAME-full")" ERROR
like "the fault of the third server says that dedicated CPUs are missing" "$(get server "$NAME-full" fault)" 'No valid host was found.*dedicated CPUs?'
expect "the other two servers are deleted" os server delete --wait "$NAME-next" "$NAME-full"

# -------------------------------------------------------------------------------------------- cold migration and revert

expect "a hard reboot is requested" os server reboot --hard --wait "$ONE"
is_pinned "after the hard reboot" "$SECOND" "$ONE_ID"
fat_drive "the config drive is the same disk after the hard reboot" "$SECOND"
expect "a cold migration is requested" to_host migrate "$FIRST" "$ONE"
within 120 "the server is in VERIFY_RESIZE" at_rest "$ONE" VERIFY_RESIZE
within 20 "the guest runs on $FIRST" runs_on "$FIRST" "$ONE_ID"
is_pinned "after the cold migration" "$FIRST" "$ONE_ID"
same "the old processor is kept for the guest" "$(pins "$SECOND" "$ONE_ID" --config)" "$(processor_of "$SECOND")"
expect "the cold migration is reverted" os server migration revert "$ONE"
within 120 "the server is ACTIVE on $SECOND again" is_at "$ONE" "$SECOND"
within 20 "the guest runs on $SECOND again" runs_on "$SECOND" "$ONE_ID"
is_pinned "after the revert" "$SECOND" "$ONE_ID"
expect "the server is deleted" os server delete --wait "$ONE"
same "nothing of the server is left on the hosts" "$(rest_of "$ONE_ID")" ""
verdict
