#!/bin/bash
# Guests get real PCI devices of real hosts: each of the two hosts of device-host.sh is a virtual machine with an IOMMU, an
# NVMe controller with four virtual functions, one without SR-IOV, and a display adapter. Chronova drives them by SSH. A
# guest writes on its device, and the word is in the file behind the device. The devices move with resizes, reverts and
# evacuations, are given back, and are never given twice. Guests without devices migrate live by SSH, with a wrong host
# key, through a firewall and with a CPU like the host's. Takes about an hour, because guests of emulated hosts are slow.
#
#   devices.sh [PART...]   runs only these parts: functions, whole, race, failure, pages, live, emulator (default: all)
set -uo pipefail
. "$(dirname "$0")/../testbed/devices.sh"
PARTS=" ${*:-functions whole race failure pages live emulator} "
part() { [[ $PARTS == *" $1 "* ]]; }
SPECS=$(cat <<'C'
[pci]
report_in_placement = true
device_spec = {"address": {"domain": "0000", "bus": "41", "slot": "00", "function": "[1-4]"}, "resource_class": "nvme_vf", "traits": "CUSTOM_FAST"}
device_spec = {"address": "0000:01:00.0", "resource_class": "nvme"}
device_spec = {"vendor_id": "1234", "product_id": "1111"}
alias = {"name": "vf", "device_type": "type-VF", "vendor_id": "1b36", "product_id": "0010", "resource_class": "nvme_vf"}
alias = {"name": "nvme", "vendor_id": "1b36", "product_id": "0010", "resource_class": "nvme"}
alias = {"name": "gpu", "vendor_id": "1234", "product_id": "1111"}
[filter_scheduler]
pci_in_placement = true
[libvirt]
live_migration_scheme = ssh
live_migration_inbound_addr = %s-moves
C
)
HOUSE_CONF=$(printf '%s\n' '[DEFAULT]' 'allow_resize_to_same_host = false' "$SPECS")
devices_open devices dv 10.93 2
CARD=0000:41:00.0 WHOLE=0000:01:00.0 DISPLAY_ADAPTER=0000:02:00.0

furnish() {
  local name
  os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public "$NAME" >"$WORK/image" 2>&1 \
    || bad "the image is uploaded" "$(cat "$WORK/image")"
  for name in bare vf nvme gpu pages; do
    os flavor create --vcpus 1 --ram 160 --disk 1 "$NAME-$name" >"$WORK/flavor" 2>&1 || bad "the flavor $name is made" "$(cat "$WORK/flavor")"
  done
  os flavor create --vcpus 1 --ram 192 --disk 1 "$NAME-vf2" >"$WORK/flavor" 2>&1 || bad "the flavor vf2 is made" "$(cat "$WORK/flavor")"
  os flavor set --property pci_passthrough:alias=vf:1 "$NAME-vf"
  os flavor set --property pci_passthrough:alias=vf:2 "$NAME-vf2"
  os flavor set --property pci_passthrough:alias=nvme:1 "$NAME-nvme"
  os flavor set --property pci_passthrough:alias=gpu:1,nvme:1 "$NAME-gpu"
  os flavor set --property pci_passthrough:alias=vf:1 --property hw:mem_page_size=large "$NAME-pages"
}
furnish

# Makes a server without ports, and sets ID. Options may name the host.
make() { # name, flavor, options...
  local name=$1 flavor=$2; shift 2
  os server create --flavor "$NAME-$flavor" --image "$NAME" --nic none --config-drive True --os-compute-api-version 2.74 "$@" "$name" >"$WORK/make-$name" 2>&1 \
    || bad "$name is requested" "$(tail -n 20 "$WORK/make-$name")"
  ID=$(get server "$name" id)
  SERVERS+=("$ID")
}
built() { case $(status_of "$1") in ACTIVE | ERROR) return 0 ;; esac; return 1; } # server
stands() { # server, host: waits until it is ACTIVE there and its guest is booted
  wait_for 900 built "$1"
  same "$1 is ACTIVE on $2" "$(status_of "$1") $(place "$1")" "ACTIVE $2"
  [ "$(status_of "$1")" = ACTIVE ] || get server "$1" fault
  ready "$1" "the guest of $1 is booted" "${3:-1}"
}
fault() { get server "$1" fault; }
deleted() { expect "$1 is deleted" os server delete --wait "$1"; } # server
to_host() { os server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server
# The events of the newest action of a server.
reason() { os server event show "$1" "$(os server event list "$1" --os-compute-api-version 2.84 -f value -c 'Request ID' | head -n 1)" --os-compute-api-version 2.84 -f json 2>/dev/null; } # server

# ------------------------------------------------------------------------------------------------------ what hosts offer

like "the check of a host says that guests can have PCI devices" "$("$CHRONOVA_BIN" host check --config-file "$CONF" "$d1_SSH" 2>&1)" 'ok +guests can have PCI devices'
for host in d1 d2; do
  within 120 "$host has a provider for its card" eval '[ -n "$(provider "'"${host}_$CARD"'")" ]'
  same "the inventory of the card of $host is its four functions" "$(stock "${host}_$CARD")" "CUSTOM_NVME_VF 4"
  same "the controller without SR-IOV of $host is a provider of one device" "$(stock "${host}_$WHOLE")" "CUSTOM_NVME 1"
  same "the display adapter of $host is a provider of one device" "$(stock "${host}_$DISPLAY_ADAPTER")" "CUSTOM_PCI_1234_1111 1"
  same "the card's provider is below that of $host" "$(os resource provider show "$(provider "${host}_$CARD")" --os-placement-api-version 1.14 -f value -c parent_provider_uuid)" "$(provider "$host")"
  like "the card's provider has its trait" "$(os resource provider trait list "$(provider "${host}_$CARD")" --os-placement-api-version 1.6 -f value)" '^CUSTOM_FAST$'
done

# ------------------------------------------------------------------------------------------------- one virtual function

if part functions; then
  make one vf --host d1; ONE=$ID
  stands one d1
  PASSED=$(passed_to d1 "$ONE")
  like "the definition passes one function to the guest, managed by libvirt" "$(on d1 dumpxml --inactive "$ONE" | tr -d '\n')" \
    "<hostdev mode='subsystem' type='pci' managed='yes'> *(<driver name='vfio'/> *)?<source> *<address domain='0x0000' bus='0x41' slot='0x00' function='0x[1-4]'/> *</source>"
  same "the guest has one device" "$(wc -w <<<"$PASSED")" 1
  same "vfio-pci has the function on the host" "$(driver_of d1 "$PASSED")" vfio-pci
  same "the guest sees an NVMe controller" "$(guest_devices d1 "$ONE" 0108)" "0x1b36:0x0010"
  within 60 "the guest's driver has the namespace" eval 'at d1 "$ONE" "[ -b /dev/nvme0n1 ]"'
  expect "the guest writes on the device" sector_write d1 "$ONE" first 100
  same "the guest reads its word" "$(sector_read d1 "$ONE" 100)" first
  same "the word is in the file behind the device" "$(sector_of d1 functions 100)" first
  same "Placement counts the function" "$(used "d1_$CARD")" "CUSTOM_NVME_VF 1"

  make two vf --host d1; TWO=$ID
  stands two d1
  SECOND=$(passed_to d1 "$TWO")
  expect "the second guest of the host has another function of the same card" [ -n "$SECOND" -a "$SECOND" != "$PASSED" ]
  same "the second guest reads the word in the namespace that the functions share" "$(sector_read d1 "$TWO" 100)" first
  same "Placement counts both functions" "$(used "d1_$CARD")" "CUSTOM_NVME_VF 2"

  # -------------------------------------------------------------------------------------------------- a move, reverted
  expect "a cold migration is requested" to_host migrate d2 one
  within 600 "the server waits for its confirmation" at_rest one VERIFY_RESIZE
  same "the server is on the other host" "$(place one)" d2
  same "the destination has given a function" "$(used "d2_$CARD")" "CUSTOM_NVME_VF 1"
  same "the source keeps its function for a revert" "$(used "d1_$CARD")" "CUSTOM_NVME_VF 2"
  ready one "the guest is booted on the other host" 2
  within 60 "the guest's driver has the namespace of the other host" eval 'at d2 "$ONE" "[ -b /dev/nvme0n1 ]"'
  expect "the guest writes on the device of the other host" sector_write d2 "$ONE" moved 100
  same "the word is in the file of the other host" "$(sector_of d2 functions 100)" moved
  same "the file of the first host has its own word" "$(sector_of d1 functions 100)" first
  expect "the migration is reverted" os server migration revert one
  within 600 "the server is ACTIVE after the revert" is_at one d1
  same "the guest has its old function again" "$(passed_to d1 "$ONE")" "$PASSED"
  within 60 "the other host has all its functions again" used_is "d2_$CARD" "CUSTOM_NVME_VF 0"
  ready one "the guest is booted on its first host again" 2
  same "the guest reads its old word" "$(sector_read d1 "$ONE" 100)" first

  # ------------------------------------------------------------------------------------------- a resize to two functions
  expect "a resize to two functions is requested" os server resize --flavor "$NAME-vf2" one
  within 600 "the resized server waits for its confirmation" at_rest one VERIFY_RESIZE
  same "the resized server is on the other host" "$(place one)" d2
  same "the destination has given two functions" "$(used "d2_$CARD")" "CUSTOM_NVME_VF 2"
  ready one "the resized guest is booted" 3
  same "the resized guest sees two NVMe controllers" "$(guest_devices d2 "$ONE" 0108)" "0x1b36:0x0010 0x1b36:0x0010"
  expect "the resize is confirmed" os server resize confirm one
  within 120 "the source has its function back" used_is "d1_$CARD" "CUSTOM_NVME_VF 1"
  within 60 "the host's driver has the function that was given back" driver_is d1 "$PASSED" nvme
  expect "the resized server is rebooted hard" os server reboot --hard --wait one
  same "the guest has two devices after its reboot" "$(passed_to d2 "$ONE" | wc -w)" 2
  like "a suspension is refused" "$(os server suspend one 2>&1)" "not supported for instance .* with PCI devices"
  deleted one
  deleted two
  for host in d1 d2; do within 120 "all functions of $host are free" used_is "${host}_$CARD" "CUSTOM_NVME_VF 0"; done
  within 60 "the host's driver has the last function again" driver_is d1 "$SECOND" nvme
  same "nothing of the servers is left on the hosts" "$(rest_of "$ONE")$(rest_of "$TWO")" ""
fi

# --------------------------------------------------------------------------------- whole devices: a controller, a display

if part whole; then
  make three gpu --host d1; THREE=$ID
  stands three d1
  same "the guest sees a display adapter beside its own" "$(guest_devices d1 "$THREE" 03)" "$(guest_devices d1 "$THREE" 0300) 0x1234:0x1111"
  same "vfio-pci has the display adapter" "$(driver_of d1 "$DISPLAY_ADAPTER")" vfio-pci
  within 60 "the guest's driver has the namespace of the controller" eval 'at d1 "$THREE" "[ -b /dev/nvme0n1 ]"'
  expect "the guest writes on the whole controller" sector_write d1 "$THREE" whole 7
  same "the word is in the file behind the controller" "$(sector_of d1 plain 7)" whole
  same "the host's driver does not have the controller" "$(driver_of d1 "$WHOLE")" vfio-pci
  same "Placement counts both devices" "$(used "d1_$WHOLE") $(used "d1_$DISPLAY_ADAPTER")" "CUSTOM_NVME 1 CUSTOM_PCI_1234_1111 1"
  make four nvme --host d1
  wait_for 600 built four
  same "a second guest of the host does not get the device" "$(status_of four)" ERROR
  like "its fault says that no host fits" "$(fault four)" 'No valid host was found'
  deleted four
fi

# ---------------------------------------------------------------------------------------- two requests for the last device

if part race; then
  part whole || { make three nvme --host d1; THREE=$ID; stands three d1; }
  # d1 has given its only whole controller, so that of d2 is the last.
  make five nvme & FIVE=$!
  make six nvme & SIX=$!
  wait $FIVE $SIX
  for name in five six; do wait_for 900 built $name; done
  WINNERS=$(for name in five six; do is $name ACTIVE && echo $name; done)
  same "exactly one of two requests gets the last device" "$(wc -w <<<"$WINNERS")" 1
  LOSER=$(printf '%s\n' five six | grep -vx "$WINNERS")
  same "the other is in ERROR" "$(status_of "$LOSER")" ERROR
  like "its fault says why" "$(fault "$LOSER")" 'No valid host was found'
  same "the last device is given once" "$(used "d2_$WHOLE")" "CUSTOM_NVME 1"
  ready "$WINNERS" "the guest with the last device is booted"
  WON=$(get server "$WINNERS" id)
  within 60 "the guest's driver has the last device" eval 'at d2 "$WON" "[ -b /dev/nvme0n1 ]"'
  for name in five six three; do deleted $name; done
  for host in d1 d2; do within 120 "the whole controller of $host is free" used_is "${host}_$WHOLE" "CUSTOM_NVME 0"; done
  within 60 "the host's driver has the controller again" driver_is d1 "$WHOLE" nvme
fi

# ------------------------------------------------------------------------------------------------------- a power failure

if part failure; then
  make seven vf --host d1; SEVEN=$ID
  stands seven d1
  devices crash d1
  within 120 "the host without power is down" host_stands d1 down
  expect "an evacuation is requested" os server evacuate --host d2 seven --os-compute-api-version 2.95
  within 600 "the evacuated server is at rest" eval '[ "$(get server seven OS-EXT-STS:task_state)" = None ] && [ "$(place seven)" = d2 ]'
  # From 2.95 on an evacuated server stays off.
  os server start seven >/dev/null 2>&1
  within 300 "the evacuated server is ACTIVE" is_at seven d2
  same "the evacuated guest has a function of its new host" "$(passed_to d2 "$SEVEN" | wc -w) $(used "d2_$CARD")" "1 CUSTOM_NVME_VF 1"
  expect "the host gets its power back" devices boot d1
  within 300 "the host is up again" host_stands d1 up
  within 300 "the host that came back has all its functions" used_is "d1_$CARD" "CUSTOM_NVME_VF 0"
  within 120 "the host that came back does not have the guest any more" eval '! on d1 list --all --uuid | grep -qx "$SEVEN"'
  deleted seven
fi

# ------------------------------------------------------------------- huge pages, and a device on the cell of the guest

if part pages; then
  make eight pages --host d1; EIGHT=$ID
  stands eight d1
  DEFINED=$(on d1 dumpxml "$EIGHT" | tr -d '\n')
  like "the definition has the huge pages" "$DEFINED" "<memoryBacking> *<hugepages> *<page size='2048' unit='KiB' nodeset='0'/> *</hugepages>"
  like "the guest is on the cell of its device" "$DEFINED" "<memnode cellid='0' mode='strict' nodeset='1'/>"
  same "the kernel has given the pages of cell 1" "$(shell d1 'cat /sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages')" 40
  same "the pages of cell 0 are free" "$(shell d1 'cat /sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages')" 120
  deleted eight
  within 60 "the pages are free again" eval '[ "$(shell d1 "cat /sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages")" = 120 ]'
fi

# ------------------------------------------------------------------------------------------------ live migrations by SSH

if part live; then
  counting >/dev/null
  make nine bare --host d1 --user-data "$WORK/tick"; NINE=$ID; ID=$NINE
  stands nine d1
  within 60 "the guest counts" ticks_on nine 2
  leaves() { os server migrate --live-migration --host "$1" nine --os-compute-api-version 2.79; } # host
  # root of d1 does not know the key of d2.
  shell d1 'cp /root/.ssh/known_hosts /root/known_hosts; cut -d " " -f 1,2 /root/known_hosts | sed "s|\$| $(cut -d " " -f 2 /seed/authorized_keys)|" >/root/.ssh/known_hosts'
  expect "a live migration to a host with another key is requested" leaves d2
  within 300 "the migration to the host with another key is over" migration_over nine
  like "the event has the words of SSH" "$(reason nine)" 'Host key verification failed'
  same "the server stays on its host" "$(status_of nine) $(place nine)" "ACTIVE d1"
  counts_on nine
  shell d1 'cp /root/known_hosts /root/.ssh/known_hosts'

  # Only SSH and the ports of QEMU's migrations are open between the hosts.
  for host in d1 d2; do
    shell $host 'nft add table inet moves; nft add chain inet moves in "{ type filter hook input priority 0; }"; nft add rule inet moves in ip saddr 10.235.0.0/24 tcp dport != "{ 22, 49152-49215 }" tcp flags syn / syn,ack counter drop'
  done
  expect "a live migration by SSH through the firewall is requested" leaves d2
  within 300 "the server is ACTIVE on the other host" is_at nine d2
  within 30 "the guest runs on the other host" runs_on d2 "$NINE"
  same "the guest runs on no other host" "$(runs "$NINE")" 1
  same "nothing of the server is left on its first host" "$(left_on d1 "$NINE")" ""
  counts_on nine
  same "the firewall has dropped nothing" "$(for host in d1 d2; do shell $host 'nft list table inet moves' | grep -oE 'packets [0-9]+'; done | sort -u)" "packets 0"
  like "libvirtd of the source logged in by SSH" "$(shell d2 'cat /var/log/sshd.log' | grep -aE "Accepted publickey for root from 10\.235\.0\.11")" 'Accepted'
  expect "a live migration back is requested" leaves d1
  within 300 "the server is ACTIVE on its first host" is_at nine d1
  counts_on nine
  shell d1 'nft add rule inet moves in tcp dport 49152-49215 tcp flags syn / syn,ack counter reject with tcp reset; nft list table inet moves' >"$WORK/firewall"
  shell d2 'nft insert rule inet moves in ip saddr 10.235.0.0/24 tcp dport 49152-49215 tcp flags syn / syn,ack counter reject with tcp reset'
  expect "a live migration through a firewall without QEMU's ports is requested" leaves d2
  within 300 "the migration through the closed firewall is over" migration_over nine
  like "the event says that QEMU could not connect" "$(reason nine)" 'Connection refused|Failed to connect|unable to connect'
  same "the server stays on its first host" "$(status_of nine) $(place nine)" "ACTIVE d1"
  counts_on nine
  for host in d1 d2; do shell $host 'nft delete table inet moves'; done
  deleted nine
fi

# ---------------------------------------------------------------------------------------------- a host without an emulator

if part emulator; then
  make ten bare --host d2; TEN=$ID
  stands ten d2
  shell d2 'mv /usr/bin/qemu-system-x86_64 /usr/bin/hidden'
  make eleven bare --host d2
  wait_for 600 built eleven
  same "a server on a host without an emulator is in ERROR" "$(status_of eleven)" ERROR
  like "its fault has libvirt's words" "$(fault eleven)" '[Ee]mulator|qemu-system-x86_64'
  shell d2 'kill $(cat /run/device-host-libvirtd)'
  within 60 "the check of a host says that it has no emulator" eval '! "$CHRONOVA_BIN" host check --config-file "$CONF" "$d2_SSH" >"$WORK/check" 2>&1 && grep -qE "FAIL.*[Ee]mulator" "$WORK/check"'
  within 60 "the host without an emulator is down" host_stands d2 down
  shell d2 'mv /usr/bin/hidden /usr/bin/qemu-system-x86_64; kill $(cat /run/device-host-libvirtd)'
  within 120 "the host with its emulator is up" host_stands d2 up
  within 60 "the server of that host is ACTIVE" is_at ten d2
  expect "the server is rebooted hard" os server reboot --hard --wait ten
  deleted ten
  deleted eleven
fi
verdict
