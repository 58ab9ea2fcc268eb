#!/bin/bash
# A user's operations with the real client, on a real guest: the script checks all results in the API, the guest and
# libvirt.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
house_open client 10.67

# ----------------------------------------------------------------------------------------------- resources for a server

house_furnish
like "the catalogue names the services" "$(openstack catalog list -f value -c Type)" '^compute$'
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
like "a log-in works with the bare address of the control plane" "$(env -u OS_CLOUD -u OS_CLIENT_CONFIG_FILE openstack --os-auth-url "$URL" \
  --os-username admin --os-password "$PASSWORD" --os-project-name admin --os-user-domain-id default --os-project-domain-id default \
  catalog list -f value -c Type 2>&1)" '^compute$'
like "a client takes its credentials from variables and finds compute in the catalogue" "$(env -u OS_CLOUD -u OS_CLIENT_CONFIG_FILE \
  OS_AUTH_URL="$URL" OS_USERNAME=admin OS_PASSWORD="$PASSWORD" OS_PROJECT_NAME=admin OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default \
  openstack flavor list -f value -c Name 2>&1)" '^client$'
like "the service list has the scheduler" "$(os compute service list -f value -c Binary)" '^nova-scheduler$'
same "the image is active, and whole" "$(get image client status) $(get image client checksum)" \
  "active $(md5sum "$CHRONOVA_IMAGE" | cut -d' ' -f1)"
like "the image list has the image" "$(os image list -f value -c Name -c Status)" '^client active$'
same "the flavor has the requested sizes" "$(os flavor show client -f value -c vcpus -c ram -c disk | tr '\n' ' ')" "1 160 1 "
like "the flavor list has the flavor" "$(os flavor list -f value -c Name)" '^client$'
os flavor create --vcpus 2 --ram 64 --disk 0 client-extra >/dev/null
os flavor set --property hw:cpu_policy=shared client-extra
like "the flavor has the property that was set" "$(get flavor client-extra properties)" "hw:cpu_policy.*shared"
expect "a flavor is deleted" os flavor delete client-extra
unlike "a deleted flavor is gone" "$(os flavor list -f value -c Name)" '^client-extra$'
same "the network is up" "$(get network client status)" ACTIVE
same "the subnet has its range" "$(get subnet client cidr)" 10.67.1.0/24
like "the network list has the network" "$(os network list -f value -c Name)" '^client$'
like "the subnet list has the subnet" "$(os subnet list -f value -c Name -c Subnet)" '^client 10.67.1.0/24$'

ssh-keygen -q -t ed25519 -N '' -f "$WORK/key" -C client@test 2>/dev/null || {
  # Any public key will do.
  echo "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGq0yQUB8C0kTm3PjHn0b0GVJrU6iZ4uJ0Qk8mS1x3ZV client@test" >"$WORK/key.pub"
}
like "a key pair is imported" "$(os keypair create --public-key "$WORK/key.pub" client)" 'fingerprint +\| ([0-9a-f]{2}:){15}'
like "the key pair list has the key pair" "$(os keypair list -f value -c Name)" '^client$'
same "the key pair has the imported key" "$(os keypair show --public-key client)" "$(cat "$WORK/key.pub")"
os keypair create client-extra >"$WORK/key-extra" && like "a key pair is generated" "$(cat "$WORK/key-extra")" 'BEGIN OPENSSH PRIVATE KEY'
os keypair delete client-extra
unlike "a deleted key pair is gone" "$(os keypair list -f value -c Name)" '^client-extra$'

os security group create client >/dev/null && os security group rule create --protocol tcp --dst-port 22 --remote-ip 10.67.0.0/16 client >/dev/null
os security group rule create --protocol icmp client >/dev/null
like "the security group list has the security group" "$(os security group list -f value -c Name)" '^client$'
like "a security group has its rules" "$(os security group rule list client -f value -c 'IP Protocol' -c 'IP Range' -c 'Port Range')" '^tcp 10.67.0.0/16 22:22$'

# ------------------------------------------------------------------------------------------------------------- the host

HOST=$(os hypervisor list -f value -c 'Hypervisor Hostname')
same "the one host runs QEMU" "$(os hypervisor show "$HOST" -f value -c hypervisor_type)" QEMU
same "the compute service of the host is enabled and up" "$(os compute service list --service nova-compute -f value -c Host -c Status -c State)" "$HOST enabled up"
like "the host is a resource provider" "$(os resource provider list -f value -c name)" "^$HOST\$"
RP=$(os resource provider list --name "$HOST" -f value -c uuid)
like "the inventory of the host has memory" "$(os resource provider inventory list "$RP" -f value -c resource_class)" '^MEMORY_MB$'

# ----------------------------------------------------------------------------------------------------- the first server

printf '#!/bin/sh\necho GUEST-KEY $(grep -c "client@test" /run/metadata/meta_data.json)\nexit 0\n' >"$WORK/user-data"
boot client-one --key-name client --security-group client --config-drive True --user-data "$WORK/user-data" --property purpose=proof
ONE=$ID
same "the server is ACTIVE" "$(status_of client-one)" ACTIVE
like "the server list has the server" "$(os server list -f value -c Name -c Status -c Networks)" '^client-one ACTIVE .*10\.67\.1\.'
SHOW=$(os server show client-one -f json)
like "the server shows its host" "$(tr -d '\n' <<<"$SHOW")" "\"OS-EXT-SRV-ATTR:hypervisor_hostname\": \"$HOST\""
like "the server shows its key" "$SHOW" '"key_name": "client"'
like "the server shows its property" "$SHOW" '"purpose": "proof"'
like "the server shows its security group" "$(tr -d ' \n' <<<"$SHOW")" '"security_groups":\[\{"name":"client"'
like "the server shows its image" "$SHOW" '"image": "client \('
ADDRESS=$(grep -oE '10\.67\.1\.[0-9]+' <<<"$SHOW" | head -n 1)
same "the domain runs in libvirt" "$(v domstate "$ONE")" running
PORT_ID=$(os port list --server client-one -f value -c ID)
like "the server's port is bound and up" "$(os port show "$PORT_ID" -f value -c status -c binding_vif_type -c device_owner | tr '\n' ' ')" 'bridge.*compute:.*ACTIVE'
like "the port has the server's address" "$(get port "$PORT_ID" fixed_ips)" "$ADDRESS"
like "the server's allocation is in Placement" "$(os resource provider allocation show "$ONE" -f value -c resources)" "'MEMORY_MB': 160"
ready client-one "the guest is booted"
READY=$(console client-one | grep -a GUEST-READY | tail -n 1)
same "the guest got the address that the API shows" "$(grep -oE 'ip=[^ ]*' <<<"$READY")" "ip=$ADDRESS"
like "the guest has its name and id from the config drive" "$READY" "hostname=client-one(\.novalocal)? uuid=$ONE source=configdrive"
within 30 "the user data ran" said client-one 'GUEST-USERDATA rc=0'
like "the guest's metadata has the key" "$(console client-one)" 'GUEST-KEY 1'
expect "the console log has only the requested lines" eval 'lines=$(os console log show --lines 3 client-one | wc -l); [ $lines -ge 1 ] && [ $lines -le 4 ]'

# ---------------------------------------------------------------------------------------- power actions, and their list

expect "a soft reboot is done" os server reboot --wait client-one
ready client-one "the guest booted again, from the same disk" 2
like "the guest shut down gracefully" "$(console client-one)" 'GUEST-(POWERBUTTON|SHUTDOWN)'
GRACEFUL=$(count_said client-one 'GUEST-(POWERBUTTON|SHUTDOWN)')
expect "a hard reboot is done" os server reboot --hard --wait client-one
ready client-one "the guest booted a third time" 3
same "the hard reboot did not ask the guest to shut down" "$(count_said client-one 'GUEST-(POWERBUTTON|SHUTDOWN)')" "$GRACEFUL"
same "the guest has the same address after two reboots" \
  "$(console client-one | grep -a GUEST-READY | tail -n 1 | grep -oE 'ip=[^ ]*')" "ip=$ADDRESS"
expect "a stop is requested" os server stop client-one
within 60 "the server is SHUTOFF" is client-one SHUTOFF
same "the domain is shut off in libvirt" "$(v domstate "$ONE")" "shut off"
same "the server's power state is Shutdown" "$(get server client-one OS-EXT-STS:power_state | sed 's/^4$/Shutdown/')" Shutdown
REFUSED=$(os server stop client-one 2>&1)
like "a second stop is refused" "$REFUSED" "409|while it is in vm_state stopped"
expect "an operator gives the server another model of network card" "$CHRONOVA_BIN" manage image_property set "$ONE" --property hw_vif_model=e1000 \
  --data-dir "$DATA" --config-file "$CONF"
like "the definition has the former model until the start" "$(v dumpxml "$ONE")" "<model type='virtio'/>"
expect "a start is requested" os server start client-one
within 60 "the server is ACTIVE again" is client-one ACTIVE
like "the started guest has a network card of that model" "$(v dumpxml "$ONE")" "<model type='e1000'/>"
expect "the server is locked" os server lock client-one
same "the lock is shown" "$(get server client-one locked)" True
expect "the server is unlocked" os server unlock client-one
expect "the server is renamed" os server set --name client-uno --property more=1 client-one
like "the server shows its new name and property" "$(os server show client-uno -f value -c name -c properties | tr '\n' ' ')" "client-uno.*'?more'?"
EVENTS=$(os server event list client-uno -f value -c Action -c 'Request ID')
for action in create reboot stop start lock unlock; do like "the server's events have $action" "$EVENTS" "(^| )$action( |\$)"; done
REQUEST=$(grep -oE 'req-[0-9a-f-]{36}' <<<"$(grep -E '(^| )create( |$)' <<<"$EVENTS")" | head -n 1)
like "the event of the creation shows its success" "$(os server event show client-uno "$REQUEST" -f value -c action -c events | tr '\n' ' ')" '^create.*Success'

# ---------------------------------------------------------------------------------------------------- the second server

os port create --network client --fixed-ip ip-address=10.67.1.77 --security-group client client-port >/dev/null
os flavor create --vcpus 1 --ram 160 --disk 0 client-zero >/dev/null
os server create --wait --flavor client-zero --image client --port client-port --config-drive True client-two >"$WORK/two" 2>&1 \
  || bad "a server with an existing port is booted" "$(cat "$WORK/two")"
TWO=$(get server client-two id)
SERVERS+=("$TWO")
like "the second server has the port's address" "$(get server client-two addresses)" '10\.67\.1\.77'
ready client-two "the second guest is booted"
like "the second guest has the port's address" "$(console client-two)" 'ip=10\.67\.1\.77 '
# The flavor of the second server has a root disk of size 0.
v pool-refresh chronova >/dev/null
same "with a flavor of disk 0, the guest's disk has the image's size" \
  "$(v vol-dumpxml "${TWO}_disk" chronova | sed -n "s/.*<capacity unit='bytes'>\(.*\)<.*/\1/p")" \
  "$(qemu-img info "$CHRONOVA_IMAGE" | sed -n 's/^virtual size: .*(\([0-9]*\) bytes)$/\1/p')"
# Servers keep their copies of deleted flavors.
expect "a flavor of a server is deleted by its name" os flavor delete client-zero
expect "a flavor of a server is deleted by its id" os flavor delete "$(get flavor client id)"
same "the servers outlive their flavors" "$(status_of client-uno) $(status_of client-two)" "ACTIVE ACTIVE"
expect "both servers are deleted" os server delete --wait client-uno client-two
same "the server list is empty" "$(os server list -f value -c Name)" ""
same "the existing port is still there, and unbound" "$(get port client-port device_id)$(get port client-port status)" DOWN
same "the port that the first server created is deleted" "$(os port list --network client --device-owner compute:nova -f value -c ID)" ""
same "nothing of both servers is left on the host" "$(leftovers "$ONE" "$PORT_ID"; leftovers "$TWO")" ""
same "nothing is left in Placement" "$(os resource provider usage show "$RP" -f value -c usage | sort -u)" 0

# ------------------------------------------------------------------------------------------------------------- deletion

expect "the port is deleted" os port delete client-port
expect "the subnet is deleted" os subnet delete client
expect "the network is deleted" os network delete client
expect "the security group is deleted" os security group delete client
expect "the key pair is deleted" os keypair delete client
expect "the image is deleted" os image delete client
same "all lists are empty" "$(os network list -f value -c Name; os subnet list -f value -c Name; os image list -f value -c Name
  os flavor list -f value -c Name; os keypair list -f value -c Name)" ""
verdict
