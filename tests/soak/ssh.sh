#!/bin/bash
# Chronova reaches two hosts by SSH (`qemu+ssh`), and guests migrate live between them by SSH. Each host of device-host.sh is
# a virtual machine with a kernel of its own, so its firewall and its SSH are real. A migration to a host with a wrong
# key fails, and the error has the words of SSH. A migration succeeds if a firewall lets only SSH and the ports of QEMU
# through. It fails if the firewall also blocks the ports of QEMU. The guests run with KVM and have a CPU like the
# host's. Then a host loses its emulator.
set -uo pipefail
. "$(dirname "$0")/../testbed/devices.sh"
HOUSE_CONF=$(printf '%s\n' '[libvirt]' 'live_migration_scheme = ssh' 'live_migration_inbound_addr = %s-moves')
devices_open ssh dx 10.96 2
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public "$NAME" >"$WORK/image" 2>&1 || bad "the image is uploaded" "$(cat "$WORK/image")"
os flavor create --vcpus 1 --ram 160 --disk 1 "$NAME-bare" >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"

# ------------------------------------------------------------------------------------------------ live migrations by SSH

counting >/dev/null
make nine bare --host d1 --user-data "$WORK/tick"; NINE=$ID; ID=$NINE
stands nine d1
within 60 "the guest counts" ticks_on nine 2
# The CPU of the running guest.
cpu_of() { on "$1" dumpxml "$2" | sed -n '/<cpu /,/<\/cpu>/p'; } # host, uuid
CPU=$(cpu_of d1 "$NINE")
like "the running guest has a model and features like those of its host's CPU" "$CPU" '<model .*|<feature '
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
same "the guest keeps its CPU over the live migration" "$(cpu_of d2 "$NINE")" "$CPU"
like "its next start takes the model of its new host's CPU" "$(on d2 dumpxml --inactive "$NINE" | tr -d '\n')" "<cpu mode='host-model'"
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

# ---------------------------------------------------------------------------------------------- a host without an emulator

make ten bare --host d2; TEN=$ID
stands ten d2
shell d2 'mv /usr/bin/qemu-system-x86_64 /usr/bin/hidden'
make eleven bare --host d2
wait_for 600 built eleven
same "a server on a host without an emulator is in ERROR" "$(status_of eleven)" ERROR
like "its fault says that no host is left" "$(fault eleven)" 'Exceeded maximum number of retries'
like "its events have libvirt's words" "$(reason eleven)" '[Ee]mulator|qemu-system-x86_64'
shell d2 'kill $(cat /run/device-host-libvirtd)'
within 60 "the check of a host says that it has no emulator" eval '! "$CHRONOVA_BIN" host check --config-file "$CONF" "$d2_SSH" >"$WORK/check" 2>&1 && grep -qE "FAIL.*[Ee]mulator" "$WORK/check"'
within 60 "the host without an emulator is down" host_stands d2 down
shell d2 'mv /usr/bin/hidden /usr/bin/qemu-system-x86_64; kill $(cat /run/device-host-libvirtd)'
within 120 "the host with its emulator is up" host_stands d2 up
within 60 "the server of that host is ACTIVE" is_at ten d2
expect "the server is rebooted hard" os server reboot --hard --wait ten
deleted ten
deleted eleven
verdict
