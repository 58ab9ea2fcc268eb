#!/bin/bash
# A real guest has NUMA nodes of unequal size on a real host with two cells. The limits of a flavor on a guest's traffic are
# in the host's kernel. A guest that KVM runs does not see KVM if its flavor hides it, and has an IOMMU with extended
# interrupt modes. The host is one of device-host.sh, with two processors on each cell. Its kernel has the traffic shaping
# that this machine's may lack, and KVM.
#
#   nodes.sh [PART...]   runs only these parts: nodes, kvm, traffic (default: all)
set -uo pipefail
. "$(dirname "$0")/../testbed/devices.sh"
PARTS=" ${*:-nodes kvm traffic} "
part() { [[ $PARTS == *" $1 "* ]]; }
export TESTBED_CPUS=4
devices_open nodes dn 10.92 1
os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public "$NAME" >"$WORK/image" 2>&1 || bad "the image is uploaded" "$(cat "$WORK/image")"

# ------------------------------------------------------------------------------------------------ nodes of unequal size

# The cell of a guest's node, and the processors of a cell.
cell_of() { grep -oE "<memnode cellid='$1' mode='strict' nodeset='[01]'/>" <<<"$DEFINED" | sed -E "s/.*nodeset='(.)'.*/\1/"; } # node
processors() { case $1 in 0) echo 0-1 ;; 1) echo 2-3 ;; esac; } # cell
memory_of() { at d1 "$ONE" "awk '/MemTotal/ {print \$4}' /sys/devices/system/node/node$1/meminfo"; } # node
if part nodes; then
  flavor uneven 256 3 hw:numa_nodes=2 hw:numa_cpus.0=0 hw:numa_mem.0=96 hw:numa_cpus.1=1,2 hw:numa_mem.1=160
  flavor three 192 3 hw:numa_nodes=3
  make one uneven --host d1; ONE=$ID
  stands one d1
  DEFINED=$(on d1 dumpxml "$ONE" | tr -d '\n')
  like "the definition has a node with one CPU and 96 MiB" "$DEFINED" "<cell id='0' cpus='0' memory='98304' unit='KiB'"
  like "the definition has a node with two CPUs and 160 MiB" "$DEFINED" "<cell id='1' cpus='1-2' memory='163840' unit='KiB'"
  same "the nodes are on both cells of the host" "$(printf '%s\n' "$(cell_of 0)" "$(cell_of 1)" | sort | paste -sd ' ')" "0 1"
  same "each CPU runs on the processors of its node's cell" "$(on d1 vcpupin "$ONE" | awk '$1 ~ /^[0-9]+$/ {print $2}' | paste -sd ' ')" \
    "$(processors "$(cell_of 0)") $(processors "$(cell_of 1)") $(processors "$(cell_of 1)")"
  same "the host's kernel keeps the memory of the nodes on both cells" \
    "$(shell d1 'cat /proc/$(pgrep -x qemu-system-x86)/numa_maps' | grep -oE ' bind[^ ]*:[01] ' | grep -oE '[01] $' | tr -d ' ' | sort -u | paste -sd ' ')" "0 1"
  same "the guest sees two nodes" "$(at d1 "$ONE" 'cat /sys/devices/system/node/online')" 0-1
  same "the guest sees the CPUs of each node" "$(at d1 "$ONE" 'cat /sys/devices/system/node/node0/cpulist /sys/devices/system/node/node1/cpulist' | paste -sd ' ')" "0 1-2"
  SMALL=$(memory_of 0) LARGE=$(memory_of 1)
  # The kernel and its initial files are part of what a node lacks.
  expect "the guest sees the memory of the small node" [ "${SMALL:-0}" -gt 32768 -a "${SMALL:-0}" -le 98304 ]
  expect "the guest sees the memory of the large node" [ "${LARGE:-0}" -gt 98304 -a "${LARGE:-0}" -le 163840 ]
  make two three --host d1
  wait_for 600 built two
  same "a guest with more nodes than the host has cells is in ERROR" "$(status_of two)" ERROR
  like "its fault says that no host is valid" "$(fault two)" 'No valid host was found'
  expect "the server with two nodes is rebooted hard" os server reboot --hard --wait one
  ready one "the guest with two nodes is booted again" 2
  DEFINED=$(on d1 dumpxml "$ONE" | tr -d '\n')
  same "the nodes are on both cells after the reboot" "$(printf '%s\n' "$(cell_of 0)" "$(cell_of 1)" | sort | paste -sd ' ')" "0 1"
  deleted two
  deleted one
fi

# ------------------------------------------------------------------------------------------------------------------ KVM

sees_kvm() { at d1 "$1" 'dmesg | grep -c "Hypervisor detected: KVM"'; } # uuid
if part kvm; then
  flavor bare 160 1
  flavor hidden 160 1 hw:hide_hypervisor_id=true
  os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public --property hw_machine_type=q35 \
    --property hw_viommu_model=intel "$NAME-remapped" >"$WORK/image-remapped" 2>&1 || bad "an image with a virtual IOMMU is uploaded" "$(cat "$WORK/image-remapped")"
  make four bare --host d1; FOUR=$ID
  stands four d1
  like "KVM runs the guest" "$(on d1 dumpxml "$FOUR")" "<domain type='kvm'"
  same "an ordinary guest sees KVM" "$(sees_kvm "$FOUR")" 1
  deleted four
  make five hidden --host d1 --image "$NAME-remapped"; FIVE=$ID
  stands five d1
  DEFINED=$(on d1 dumpxml "$FIVE" | tr -d '\n')
  like "the definition hides KVM" "$DEFINED" "<kvm> *<hidden state='on'/>"
  same "the guest does not see KVM" "$(sees_kvm "$FIVE")" 0
  like "the guest's IOMMU has extended interrupt modes" "$DEFINED" "<iommu model='intel'> *<driver intremap='on' caching_mode='on' eim='on' iotlb='on' aw_bits='48'/>"
  like "the guest's firmware lists the IOMMU" "$(at d1 "$FIVE" ls /sys/firmware/acpi/tables/DMAR)" 'DMAR$'
  deleted five
fi

# -------------------------------------------------------------------------------------------------------------- traffic

if part traffic; then
  os network create "$NAME" >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
  os subnet create --network "$NAME" --subnet-range 10.92.1.0/24 "$NAME" >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
  flavor slow 160 1 quota:vif_inbound_average=1000 quota:vif_inbound_peak=2000 quota:vif_inbound_burst=500 \
    quota:vif_outbound_average=250 quota:vif_outbound_peak=500 quota:vif_outbound_burst=100
  os server create --flavor "$NAME-slow" --image "$NAME" --network "$NAME" --config-drive True --host d1 --os-compute-api-version 2.74 \
    three >"$WORK/make-three" 2>&1 || bad "three is requested" "$(tail -n 20 "$WORK/make-three")"
  THREE=$(get server three id)
  SERVERS+=("$THREE")
  stands three d1
  TAP=$(on d1 domiflist "$THREE" | awk '$5 ~ /:/ {print $1; exit}')
  LIMITS=$(on d1 domiftune "$THREE" "$TAP" | awk -F ': *' '/bound/ {gsub(/ /, "", $1); print $1 "=" $2}' | paste -sd ' ')
  like "libvirt has the limits of received traffic" "$LIMITS" 'inbound.average=1000 inbound.peak=2000 inbound.burst=500'
  like "libvirt has the limits of sent traffic" "$LIMITS" 'outbound.average=250 outbound.peak=500 outbound.burst=100'
  like "the host's kernel shapes the received traffic" "$(shell d1 "tc class show dev $TAP")" 'htb.*rate 8Mbit ceil 16Mbit'
  like "the host's kernel polices the sent traffic" "$(shell d1 "tc -s filter show dev $TAP parent ffff:")" 'police.*rate 2Mbit'
  expect "the server with limits is rebooted hard" os server reboot --hard --wait three
  ready three "the guest with limits is booted again" 2
  TAP=$(on d1 domiflist "$THREE" | awk '$5 ~ /:/ {print $1; exit}')
  like "the limits are there after the reboot" "$(shell d1 "tc class show dev $TAP")" 'htb.*rate 8Mbit ceil 16Mbit'
  deleted three
fi
verdict
