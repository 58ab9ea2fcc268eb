#!/bin/bash
# Ports of real guests are virtual functions of network cards. Each of the two hosts of device-host.sh has an emulated
# card with SR-IOV (igb), and both cards are on one wire. Ports of the kinds direct and macvtap are given to servers at
# their creation and later, and are taken from them. Their servers are suspended, and move cold and live.
#
# No packets go over the functions: the driver of a function (igbvf) waits only a millisecond for the host's driver to answer
# its reset. Emulated hosts are slower, so the guest's card has a random MAC address and no link. The script reads the MAC
# address and the VLAN from the host's card, and counts the functions that the guest's driver has.
#
# No run of this script has reached its end yet. One run got as far as the attachment of the second port. Then the
# kernel of the host died: the emulated SVM let an interrupt through right after the exit of a guest.
set -uo pipefail
. "$(dirname "$0")/../testbed/devices.sh"
export TESTBED_CARD=1
export CHRONOVA_IMAGE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-generic.qcow2
image_is_new() { [ -s "$CHRONOVA_IMAGE" ] && [ -z "$(find "$HERE/make-image.sh" "$HERE/guest" -newer "$CHRONOVA_IMAGE" -print -quit)" ]; }
# The cloud kernel has no driver of the card's functions.
image_is_new || bash "$HERE/make-image.sh" "$CHRONOVA_IMAGE" --kernel generic || cannot "the guest image cannot be built"
HOUSE_CONF=$(cat <<'C'
[pci]
device_spec = {"vendor_id": "8086", "product_id": "10ca", "physical_network": "fast"}
[libvirt]
live_migration_scheme = ssh
live_migration_inbound_addr = %s-moves
C
)
devices_open sriov ds 10.95 2
asked() { os "$@" >"$WORK/did" 2>&1; }
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public "$NAME" >"$WORK/image" 2>&1 || bad "the image is uploaded" "$(cat "$WORK/image")"
expect "a flavor is made" asked flavor create --vcpus 1 --ram 192 --disk 1 "$NAME"
expect "a network on the physical network of the cards is made" asked network create --provider-network-type vlan --provider-physical-network fast --provider-segment 100 fast
expect "its subnet is made" asked subnet create --network fast --subnet-range 10.95.1.0/24 --no-dhcp fast
port() { expect "the port $1 is made" asked port create --network fast --vnic-type "$2" "$1"; } # name, type
mac_of() { get port "$1" mac_address; }
profile() { os port show "$1" -f json -c binding_profile 2>/dev/null | tr -d '\n '; } # port
server() { # name, host, port
  asked server create --flavor "$NAME" --image "$NAME" --port "$3" --config-drive True --user-data "$(counting)" --host "$2" --os-compute-api-version 2.74 "$1" || bad "$1 is requested" "$(cat "$WORK/did")"
  ID=$(get server "$1" id); SERVERS+=("$ID")
}
built() { case $(status_of "$1") in ACTIVE | ERROR) return 0 ;; esac; return 1; } # server
stands() { # server, host
  wait_for 900 built "$1"
  same "$1 is ACTIVE on $2" "$(status_of "$1") $(place "$1")" "ACTIVE $2"
  [ "$(status_of "$1")" = ACTIVE ] || get server "$1" fault
  ready "$1" "the guest of $1 is booted"
}
# The number of the guest's interfaces that have this driver.
cards() { at "$1" "$2" "for c in /sys/class/net/*; do basename \$(readlink \$c/device/driver) 2>/dev/null; done" | grep -cx "$3"; } # host, uuid, driver
has_cards() { [ "$(cards "$1" "$2" "$3")" = "$4" ]; } # host, uuid, driver, number
interfaces() { on "$1" dumpxml --inactive "$2" | tr -d '\n' | grep -oE "<interface .*</interface>"; } # host, uuid
functions_free() { shell "$1" 'for f in /sys/bus/pci/devices/*/physfn; do basename $(readlink $(dirname $f)/driver); done' | sort | uniq -c | awk '{print $1, $2}' | paste -sd ' '; } # host

# --------------------------------------------------------------------------------------------- direct ports of two guests

port one direct; port two direct
server first d1 one; FIRST=$ID
server second d2 two; SECOND=$ID
stands first d1
stands second d2
like "the interface is the function, managed, with the MAC address and the VLAN of the port" "$(interfaces d1 "$FIRST")" \
  "<interface type='hostdev' managed='yes'> *<mac address='$(mac_of one)'/> *(<driver name='vfio'/> *)?<source> *<address type='pci' domain='0x0000' bus='0x[0-9a-f]+' slot='0x10' function='0x[0-7]'/> *</source> *<vlan> *<tag id='100'/>"
like "the profile of the port names the device" "$(profile one)" '"pci_slot":"0000:[0-9a-f]+:10.[0-7]".*|"pci_vendor_info":"8086:10ca"'
same "the port is bound to hardware" "$(get port one binding_vif_type) $(get port one binding_host_id)" "hw_veb d1"
within 60 "the guest has a function" has_cards d1 "$FIRST" igbvf 1
within 60 "the guest of the other host has a function" has_cards d2 "$SECOND" igbvf 1
like "the host has set MAC address and VLAN of the function" "$(shell d1 'ip -d link show' | grep -i "$(mac_of one)")" "vf [0-9]+ .*vlan 100"

# --------------------------------------------------------------------------------- ports of a running server, and away

port three direct
expect "a direct port is given to the running server" asked server add port first three
within 120 "the running guest has the function" has_cards d1 "$FIRST" igbvf 2
same "the guest has two functions" "$(interfaces d1 "$FIRST" | grep -oE "type='hostdev'" | wc -l)" 2
expect "the direct port is taken from the running server" asked server remove port first three
within 180 "the guest does not have the second function any more" has_cards d1 "$FIRST" igbvf 1
within 120 "the host's driver has the function back" eval '[ "$(functions_free d1)" = "3 igbvf 1 vfio-pci" ]'
same "the free port has no device in its profile" "$(profile three)" '{"binding_profile":{}}'
port four macvtap
expect "a macvtap port is given to the running server" asked server add port first four
within 120 "the running guest has a virtio card over the function" has_cards d1 "$FIRST" virtio_net 1
expect "the macvtap port is taken from the running server" asked server remove port first four
within 180 "the guest does not have the virtio card any more" has_cards d1 "$FIRST" virtio_net 0

# --------------------------------------------------------------------------------------------- a suspension, and moves

expect "the server is suspended" asked server suspend first
within 300 "the server is SUSPENDED" at_rest first SUSPENDED
expect "the server is resumed" asked server resume first
within 300 "the server is ACTIVE after its suspension" at_rest first ACTIVE
within 120 "the guest has a function after its suspension" has_cards d1 "$FIRST" igbvf 1
within 60 "the guest counts" ticks_on first 2
expect "a live migration is requested" asked server migrate --live-migration --host d2 first --os-compute-api-version 2.79
within 600 "the server is ACTIVE on the other host" is_at first d2
same "the guest runs on no other host" "$(runs "$FIRST")" 1
within 120 "the guest has a function of the other host" has_cards d2 "$FIRST" igbvf 1
counts_on first
within 120 "the source has all its functions" eval '[ "$(functions_free d1)" = "4 igbvf" ]'
expect "a cold migration is requested" asked server migrate --host d1 first --os-compute-api-version 2.91
within 600 "the server waits for its confirmation" at_rest first VERIFY_RESIZE
like "the port has a device of the destination" "$(get port one binding_host_id) $(profile one)" 'd1 .*pci_slot'
expect "the migration is confirmed" asked server resize confirm first
within 120 "the server is ACTIVE after its confirmation" is_at first d1
within 300 "the guest is booted on the destination, with a function" has_cards d1 "$FIRST" igbvf 1
within 120 "the source has its function back" eval '[ "$(functions_free d2)" = "3 igbvf 1 vfio-pci" ]'
for name in first second; do expect "$name is deleted" asked server delete --wait $name; done
for host in d1 d2; do within 120 "all functions of $host are free" eval '[ "$(functions_free '$host')" = "4 igbvf" ]'; done
same "the port has no device any more" "$(profile one)" '{"binding_profile":{}}'
verdict
