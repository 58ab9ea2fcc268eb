#!/bin/bash
# Network interfaces are attached to a running guest and detached again, both in the running domain and in its
# persistent definition. The script also checks this from inside the guest. The guest runs from a volume that Chronova
# makes from the image. So the script also checks that the volume keeps its data while the server is off, and that it
# outlives the server.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open interfaces 10.85
house_furnish
os network create interfaces-two >"$WORK/network-two" 2>&1 || bad "a second network is made" "$(cat "$WORK/network-two")"
os subnet create --network interfaces-two --subnet-range 10.85.2.0/24 interfaces-two >/dev/null 2>&1
TWO=$(get network interfaces-two id)
NETWORKS+=("$TWO")

os flavor create --vcpus 1 --ram 160 --disk 1 --ephemeral 1 interfaces-more >"$WORK/more" 2>&1 || bad "a flavor with an ephemeral disk is made" "$(cat "$WORK/more")"
boot nic-one --flavor interfaces-more --boot-from-volume 1 --config-drive True
ONE=$ID
ready nic-one "the guest is booted"
ROOT=$(os server volume list nic-one -f value -c 'Volume ID')
volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
same "the server runs from a volume made from its image" "$(get volume "$ROOT" status) $(get volume "$ROOT" bootable)" "in-use True"
same "the guest has the flavor's ephemeral disk beside its volume" "$(inside "$ONE" 'cat /sys/block/vdb/size')" 2097152
drive() { inside "$ONE" 'mkdir -p /c; mount -t iso9660 -o ro /dev/sr0 /c && cat /c/openstack/latest/meta_data.json; umount /c'; }
DRIVE=$(drive)
like "the guest has its config drive" "$DRIVE" "$ONE"
macs() { v domiflist "$1" | awk 'NF > 4 || $5 ~ /:/ {print $5}' | grep : | sort; }
kept() { v domiflist "$1" --inactive | awk '{print $5}' | grep : | sort; }
same "the guest has one interface" "$(macs "$ONE" | wc -l)" 1
inside_has() { inside "$ONE" "ip -o addr show" | grep -qF "$1"; }
cable() { inside "$ONE" "cat /sys/class/net/*/address" | grep -qiF "$1"; }

# ------------------------------------------------------------------------ an interface is attached to the running guest

expect "a port is made" os port create --network interfaces-two --fixed-ip ip-address=10.85.2.77 nic-port
PORT=$(get port nic-port id) MAC=$(get port nic-port mac_address)
expect "the port is added to the running server, with a tag" os --os-compute-api-version 2.49 server add port --tag later nic-one "$PORT"
like "the server shows the port's address" "$(get server nic-one addresses)" '10\.85\.2\.77'
like "the running domain has the interface" "$(macs "$ONE")" "$MAC"
like "the persistent definition has the interface, too" "$(kept "$ONE")" "$MAC"
within 30 "the guest's kernel sees the network card" cable "$MAC"
within 60 "the guest got the port's address by DHCP" inside_has 10.85.2.77
like "the port is bound to the server" "$(get port nic-port device_id)" "$ONE"
same "the config drive is as before the attachment" "$(drive)" "$DRIVE"
like "a second attachment of the port is refused" "$(os server add port nic-one "$PORT" 2>&1)" "still in use"

# ---------------------------------------------------------------------------------------- the interface after a restart

expect "somebody changes the guest's definition" v desc "$ONE" --config --title --new-desc outside
expect "the server is rebooted hard" os server reboot --hard --wait nic-one
unlike "the guest's definition is made again" "$(v dumpxml --inactive "$ONE")" '<title>outside</title>'
ready nic-one "the guest is booted again" 2
within 60 "the guest's kernel sees the network card after the reboot" cable "$MAC"
DRIVE=$(drive)
like "the guest has its config drive after the reboot" "$DRIVE" "$ONE"

# -------------------------------------------------------------------------------------------- the interface is detached

expect "the port is removed from the server" os server remove port nic-one "$PORT"
within 60 "the running domain does not have the interface any more" eval '! macs "$ONE" | grep -qiF "$MAC"'
within 30 "the persistent definition does not have the interface either" eval '! kept "$ONE" | grep -qiF "$MAC"'
within 30 "the guest's kernel does not see the network card any more" eval '! cable "$MAC"'
within 20 "the server does not show the port's address any more" eval '! get server nic-one addresses | grep -q 10.85.2.77'
same "the port belongs to no server" "$(get port nic-port device_id)" ""
same "the config drive is as before the detachment" "$(drive)" "$DRIVE"
same "the packet filter of the port is removed" "$(v nwfilter-list | grep -c "$PORT")" 0

# ------------------------------------------------------------ an attachment by network, and one while the server is off

expect "an interface is added by network, with a new port" os server add network nic-one interfaces-two
within 20 "the server shows an address of that network" eval 'get server nic-one addresses | grep -q "10\.85\.2\."'
MADE=$(os port list --device-id "$ONE" --network interfaces-two -f value -c ID)
expect "the server is stopped" eval 'os server stop nic-one && wait_for 60 is nic-one SHUTOFF'
expect "another interface is added while the server is off" os server add port nic-one "$PORT"
like "the persistent definition has that interface" "$(kept "$ONE")" "$MAC"
expect "somebody changes the definition of the guest that is off" v desc "$ONE" --config --title --new-desc outside
expect "the server is started" eval 'os server start nic-one && wait_for 60 is nic-one ACTIVE'
unlike "the guest's definition is made again at the start" "$(v dumpxml --inactive "$ONE")" '<title>outside</title>'
like "the new definition has the added interface" "$(kept "$ONE")" "$MAC"
within 120 "the started guest sees that network card" cable "$MAC"
ready nic-one "the started guest has what it wrote on its volume before the stop" 3
EVENTS=$(os server event list nic-one -f value -c Action)
like "the server's events have the attachments" "$EVENTS" '^attach_interface$'
like "the server's events have the detachment" "$EVENTS" '^detach_interface$'

# --------------------------------------------------------------------------------------------- the address of a console

CONSOLE=$(os console url show --novnc nic-one -f value -c url)
like "a VNC console has an address" "$CONSOLE" "^http://127.0.0.1:[0-9]+/console/vnc_auto.html\?path=console%3Ftoken%3D[0-9a-f-]{36}$"

expect "the server is deleted" os server delete --wait nic-one
within 60 "the root volume outlives the server" volume_is "$ROOT" available
os volume delete "$ROOT"
within 60 "the root volume is deleted" no_volume "$ROOT"
same "nothing of the server is left on the host" "$(leftovers "$ONE" "$PORT")" ""
expect "the port that the server created is deleted" absent "$MADE" port
expect "the user's port is not deleted" os port show "$PORT" -f value -c id
os port delete "$PORT" >/dev/null 2>&1
verdict
