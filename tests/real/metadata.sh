#!/bin/bash
# A guest without a config drive gets its metadata, with its tagged devices, at the well-known address. Devices that are
# attached later are in the metadata, too. The metadata service identifies the guest by its source address. The script
# checks the metadata from inside the guest. The guest boots from a volume of its user.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
ASKED=$(free_port) NET=10.90 RULE=()
HOUSE_CONF="metadata_listen = 0.0.0.0:$ASKED"
house_last() { [ ${#RULE[@]} = 0 ] || iptables -t nat -D "${RULE[@]}"; }
house_open metadata $NET
house_furnish
# The rule that docs/metadata.md gives to operators.
wanted=(PREROUTING -s $NET.1.0/24 -d 169.254.169.254 -p tcp --dport 80 -j DNAT --to-destination "$NET.1.1:$ASKED")
iptables -t nat -I "${wanted[@]}" 2>"$WORK/iptables" || cannot "no rule can be made: $(cat "$WORK/iptables")"
RULE=("${wanted[@]}")

printf '#!/bin/sh\nexit 7\n' >"$WORK/user-data"
os port create --network metadata meta-port >"$WORK/port" 2>&1 || bad "a port is made" "$(cat "$WORK/port")"
MAC=$(get port meta-port mac_address)
os volume create --size 1 --image metadata meta-root >"$WORK/root" 2>&1 || bad "a volume is requested from the image" "$(tail -n 5 "$WORK/root")"
volume_is() { [ "$(get volume "$1" status)" = "$2" ]; } # volume, status
within 60 "the volume from the image is available" volume_is meta-root available
ROOT=$(get volume meta-root id)
same "the volume from the image is bootable" "$(get volume meta-root bootable)" True
os --os-compute-api-version 2.49 server create --wait --flavor metadata --volume meta-root --user-data "$WORK/user-data" \
  --property role=web --nic "port-id=$(get port meta-port id),tag=front" meta-one >"$WORK/one" 2>&1 \
  || bad "a server is made" "$(tail -n 20 "$WORK/one")"
ONE=$(get server meta-one id); SERVERS+=("$ONE")
within 180 "the guest gets its name and id from the metadata service" said meta-one "GUEST-READY hostname=meta-one.novalocal uuid=$ONE source=metadata "
within 30 "the guest runs its user data from the metadata service" said meta-one 'GUEST-USERDATA rc=7'
same "the guest's root disk is the user's volume" "$(inside "$ONE" cat /sys/block/vda/serial)" "${ROOT:0:20}"
same "the volume of the root disk is in use" "$(get volume meta-root status)" in-use

ask() { inside "$ONE" "wget -q -O - http://169.254.169.254/$1"; }
same "the EC2 metadata has the server's address" "$(ask latest/meta-data/local-ipv4)" "$(get port meta-port fixed_ips | grep -oE '10\.[0-9.]+' | head -n 1)"
like "the metadata has the server's new name at once" "$(os server set --name meta-new meta-one && ask openstack/latest/meta_data.json)" '"name": ?"meta-new"'
# Prints the list of devices in the metadata, with their bus addresses.
place() { ask openstack/latest/meta_data.json | grep -oE '"devices": ?\[[^]]*\]?[^]]*\]'; }
DEVICE=$(place)
like "the metadata has its tagged interface" "$DEVICE" "\"mac\": ?\"$MAC\""
ADDRESS=$(grep -oE '"address": ?"[0-9a-f:.]+"' <<<"$DEVICE" | grep -oE '[0-9a-f]{4}:[0-9a-f:.]+')
same "the guest has the interface at the bus address in the metadata" "$(inside "$ONE" "cat /sys/bus/pci/devices/$ADDRESS/virtio*/net/*/address" | tail -n 1)" "$MAC"

# A disk that is attached later.
os volume create --size 1 meta-data >"$WORK/volume" 2>&1 || bad "a volume is requested" "$(tail -n 5 "$WORK/volume")"
within 60 "the volume is available" volume_is meta-data available
DATA=$(get volume meta-data id)
expect "the volume is attached with a tag" eval 'os --os-compute-api-version 2.49 server add volume --tag data meta-new meta-data >/dev/null'
within 30 "the guest sees the volume" sees_disk "$ONE" vdb
DISK=$(ask openstack/latest/meta_data.json | grep -oE '\{"type": ?"disk"[^}]*\}')
like "the metadata has the volume's serial number and tag" "$DISK" "\"serial\": ?\"$DATA\".*\"data\""
ADDRESS=$(grep -oE '"address": ?"[0-9a-f:.]+"' <<<"$DISK" | grep -oE '[0-9a-f]{4}:[0-9a-f:.]+')
same "the guest has the disk at the bus address in the metadata" "$(inside "$ONE" "ls /sys/bus/pci/devices/$ADDRESS/virtio*/block" | tail -n 1)" vdb

# A password that a guest generates for its owner.
inside "$ONE" "wget -q -O - --post-data c2VjcmV0 http://169.254.169.254/openstack/latest/password" >/dev/null
TOKEN=$(os token issue -f value -c id)
password() { curl -fsS "${@:2}" -X "$1" -H "X-Auth-Token: $TOKEN" "$URL/compute/v2.1/servers/$ONE/os-server-password"; }
same "the server's owner reads the posted password" "$(password GET)" '{"password":"c2VjcmV0"}'
expect "the owner clears the password" password DELETE
same "the password is empty after that" "$(password GET)" '{"password":""}'

# Other callers get no metadata.
same "the host itself gets no metadata" "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$ASKED/openstack/latest/meta_data.json")" 404

# An interface that is attached later. The guest's default route then leads over it, so this is the last check.
os port create --network metadata meta-late >"$WORK/late" 2>&1 || bad "another port is made" "$(cat "$WORK/late")"
LATE=$(get port meta-late mac_address)
LATE_IP=$(get port meta-late fixed_ips | grep -oE '10\.[0-9.]+' | head -n 1)
expect "an interface is attached with a tag" eval 'os --os-compute-api-version 2.49 server add port --tag back meta-new meta-late >/dev/null'
within 60 "the guest has the address of the later interface" eval 'inside "$ONE" "ip -o addr show" | grep -qF " $LATE_IP/"'
told() { DEVICE=$(ask openstack/latest/meta_data.json | grep -oE '\{"type": ?"nic"[^}]*\}' | grep -F "$LATE"); [ -n "$DEVICE" ]; }
within 30 "the metadata has the later interface" told
like "the later interface has its tag" "$DEVICE" '"tags": ?\["back"\]'
ADDRESS=$(grep -oE '"address": ?"[0-9a-f:.]+"' <<<"$DEVICE" | grep -oE '[0-9a-f]{4}:[0-9a-f:.]+')
same "the guest has the later interface at the bus address in the metadata" "$(inside "$ONE" "cat /sys/bus/pci/devices/$ADDRESS/virtio*/net/*/address" | tail -n 1)" "$LATE"
expect "the server is deleted" eval 'os server delete --wait meta-new'
same "nothing of the server is left on the host" "$(leftovers "$ONE")" ""
within 60 "the user's volume outlives the server" volume_is meta-root available
os volume delete meta-root
verdict
