#!/bin/bash
# A real guest is paused and suspended, and continues without a boot. The script checks this on the guest's console.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open actions 10.70
house_furnish
expect "the flavor limits disks and video memory and has a watchdog" os flavor set --property quota:disk_write_iops_sec=2000 \
  --property quota:disk_write_bytes_sec=1048576 --property hw_video:ram_max_mb=32 --property hw:watchdog_action=pause actions
expect "the image requests as much video memory as the flavor allows" os image set --property hw_video_model=vga --property hw_video_ram=32 actions

# The guest prints a counter every second. The counter is only in its memory.
printf '#!/bin/sh\ntouch /run/tick\n' >"$WORK/user-data"
boot actions-one --config-drive True --user-data "$WORK/user-data"
ONE=$ID
ready actions-one "the guest is booted"
GUEST=$(v dumpxml "$ONE")
like "the guest's disk has the flavor's limit in libvirt" "$GUEST" '<write_iops_sec>2000</write_iops_sec>'
like "the guest has the flavor's watchdog in libvirt" "$GUEST" "<watchdog model='[a-z0-9]+' action='pause'"
# The first memory region of the guest's video card: its first and its last address.
read -r FIRST LAST _ <<<"$(inside "$ONE" 'for card in /sys/bus/pci/devices/*; do case $(cat $card/class) in 0x0300*) head -n 1 $card/resource;; esac; done' | tail -n 1)"
same "the guest's video card has that memory" "$((LAST - FIRST + 1))" 33554432
# Writes to the sectors before the only partition. Without the limit, 4 MB take a fraction of this time.
write_4_mb='read -r begun _ </proc/uptime; for n in 1 2 3 4 5; do dd if=/dev/zero of=/dev/vda bs=512 seek=200 count=1600 conv=fsync 2>/dev/null; done'
TOOK=$(inside "$ONE" "$write_4_mb; read -r ended _ </proc/uptime; echo \$((\${ended%.*} - \${begun%.*}))" | tail -n 1)
expect "4 MB on a disk of 1 MiB/s take the guest at least 3 s: ${TOOK:-no} s" [ "${TOOK:-0}" -ge 3 ]
within 30 "the guest counts" said actions-one '^GUEST-TICK '
tick() { console actions-one | grep -aoE '^GUEST-TICK [0-9]+' | tail -n 1 | cut -d' ' -f2; }
beyond() { local now; now=$(tick); [ "${now:-0}" -gt "$1" ]; } # number

# ----------------------------------------------------------------------------------------- diagnostics and an interrupt

DIAGNOSTICS=$(os server show --diagnostics actions-one -f value 2>&1 | tr -d "\n")
like "the diagnostics show the guest's disks and memory" "$DIAGNOSTICS" "read_bytes.*'maximum': 160"
FLAT=$(curl -fsS -m 10 -H "X-Auth-Token: $(os token issue -f value -c id)" -H 'OpenStack-API-Version: compute 2.47' "$URL/compute/v2.1/servers/$ONE/diagnostics")
wanted() {
  printf '%s\n' memory memory-actual memory-rss vda_{read,read_req,write,write_req,errors}
  printf 'tap[0-9a-f-]+_%s\n' {rx,tx}{,_packets,_errors,_drop}
}
same "before 2.48 the diagnostics have libvirt's names" "$(wanted | while read -r name; do grep -qE "\"$name\": ?-?[0-9]" <<<"$FLAT" || echo "$name"; done)" ""
expect "a crash dump is requested" os server dump create actions-one
within 20 "the guest's kernel got the interrupt" said actions-one 'NMI received'

# ---------------------------------------------------------------------------------------------------------------- pause

expect "a pause is requested" os server pause actions-one
within 30 "the server is PAUSED" is actions-one PAUSED
same "the domain is paused in libvirt" "$(v domstate "$ONE")" paused
like "the server's power state is Paused" "$(get server actions-one OS-EXT-STS:power_state)" '^(3|Paused)$'
PAUSED=$(tick); sleep 2
same "the guest counts no further" "$(tick)" "$PAUSED"
like "a second pause is refused" "$(os server pause actions-one 2>&1)" "Cannot 'pause' instance $ONE while it is in vm_state paused"
like "a stop of the paused server is refused" "$(os server stop actions-one 2>&1)" "Cannot 'stop' instance $ONE while it is in vm_state paused"
expect "an unpause is requested" os server unpause actions-one
within 30 "the server is ACTIVE" is actions-one ACTIVE
within 20 "the guest continues to count after the pause" beyond "$PAUSED"

# -------------------------------------------------------------------------------------------------------------- suspend

expect "a suspension is requested" os server suspend actions-one
within 60 "the server is SUSPENDED" is actions-one SUSPENDED
same "the domain is shut off in libvirt" "$(v domstate "$ONE")" "shut off"
same "the guest's memory is saved on the disk" "$(v dominfo "$ONE" | sed -n 's/^Managed save: *//p')" yes
SUSPENDED=$(tick)
like "a start of the suspended server is refused" "$(os server start actions-one 2>&1)" "Cannot 'start' instance $ONE while it is in vm_state suspended"
expect "a resume is requested" os server resume actions-one
within 60 "the server is ACTIVE again" is actions-one ACTIVE
within 20 "the guest continues to count after the suspension" beyond "$SUSPENDED"
same "the guest was booted only once" "$(count_said actions-one GUEST-READY)" 1

# ---------------------------------------------------------------------------------- a hard reboot of a suspended server

os server suspend actions-one; within 60 "the server is SUSPENDED once more" is actions-one SUSPENDED
expect "a hard reboot ends the suspension" os server reboot --hard --wait actions-one
same "no memory image is left on the disk" "$(v dominfo "$ONE" | sed -n 's/^Managed save: *//p')" no

EVENTS=$(os server event list actions-one -f value -c Action)
for action in pause unpause suspend resume reboot; do like "the server's events have $action" "$EVENTS" "^$action\$"; done
expect "the server is deleted" os server delete --wait actions-one
same "nothing of the server is left on the host" "$(leftovers "$ONE")" ""
verdict
