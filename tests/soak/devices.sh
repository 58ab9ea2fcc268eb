#!/bin/bash
# Guests get PCI devices of their hosts. Each of the two hosts of device-host.sh is a virtual machine with an IOMMU, an
# NVMe controller with four virtual functions, an NVMe controller without SR-IOV, and a display adapter. Chronova drives
# them by SSH. A guest writes a word on its device, and the script finds the word in the file behind the device. The
# devices move with resizes, reverts and evacuations, are given back, and are never given twice. A guest with huge pages
# has its memory on the NUMA node of its device.
#
#   devices.sh [PART...]   runs only these parts: functions, whole, race, pages, failure (default: all)
set -uo pipefail
. "$(dirname "$0")/../testbed/devices.sh"
PARTS=" ${*:-functions whole race pages failure} "
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
  # The only whole controller of d1 is in use, so the controller of d2 is the last device.
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

verdict
