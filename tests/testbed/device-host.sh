#!/bin/bash
# device-host.sh image | up N | down | status | exec H CMD.. | inside H GUEST CMD.. | copy FROM H:TO | crash H | boot H
#
# Compute hosts with devices to pass to guests. Each host is a virtual machine with Debian 12 under an emulating QEMU, so
# it needs neither KVM nor any device of this machine. Host i is `di`. It has
#
#   * an IOMMU (Intel's, with remapping of interrupts), and two NUMA nodes with one processor (half of TESTBED_CPUS) and
#     1.5 GiB each, of which 240 MiB are huge pages;
#   * an NVMe controller with SR-IOV at node 1: four virtual functions, each in an IOMMU group of its own, online, and with
#     the host's driver. All functions see one namespace, whose data is $STATE/di/functions.img;
#   * with TESTBED_CARD=1, a network card with SR-IOV at node 1 (igb): four virtual functions with the host's driver. The
#     cards of both hosts are on one wire;
#   * an NVMe controller without SR-IOV at node 0, with the namespace $STATE/di/plain.img;
#   * a display adapter without a driver (bochs-display) at node 0, in place of a GPU;
#   * a real device mapper and LVM, with the volume group `chronova-disks` on a disk of its own;
#   * libvirtd and QEMU as Debian has them: QEMU's account libvirt-qemu, its mount namespace, cgroups;
#   * SSH, for root with a key. root of one host also logs in at the others. `qemu+ssh` is the only way to libvirtd.
#
# A host has no SmartNIC, no vDPA device, no mediated device, no device with a driver for live migration, and no
# apparmor. A network card with SR-IOV needs QEMU 8, which device-host/emulator.sh gets from Debian's backports. Guests
# run with KVM, because QEMU emulates AMD's SVM, too; a boot takes half a minute on a quiet machine. Without KVM
# (TESTBED_CPU=max,-svm) it takes many minutes. Times mean nothing, and timeouts of seconds are too short. Run nothing
# else meanwhile: beside a build, everything takes four times as long. A host whose kernel dies stays off. That happened
# once on QEMU 10: its SVM let an interrupt through right after the exit of a guest.
#
#   image            builds the disk of the hosts, if what it is made of has changed (device-host/image.sh); `up` does so
#   up N             starts N hosts (default: 2), and writes $STATE/hosts.env (shell variables d1_SSH: the URI)
#   down             ends the hosts and removes their directory
#   exec H CMD..     runs CMD on host H as root
#   inside H G CMD.. runs CMD in guest G (a UUID) of host H, over its serial console
#   copy FROM H:TO   copies a file to host H
#   crash H, boot H  ends the host as a power failure does; starts it again
#
# The control plane reaches host i at 127.0.0.1, at a port of its own. The hosts reach each other over one wire, under the
# names di and di-moves (10.235.0.10+i).
#
# Environment: TESTBED_ID (default: a), TESTBED_DEVICES (the directory, default: /var/tmp/dh-$TESTBED_ID), TESTBED_CACHE
# (default: /var/tmp/chronova-testbed), TESTBED_CARD and TESTBED_CPUS (see above), TESTBED_CPU (the hosts' CPU)
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
ID=${TESTBED_ID:-a}
STATE=${TESTBED_DEVICES:-/var/tmp/dh-$ID}
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/device-host
HERE=$(dirname "$(realpath "$0")")
. "$HERE/still_runs.sh"
. "$HERE/free_port.sh"
GROUP=chronova-disks
CPUS=${TESTBED_CPUS:-2} # an even number

uuid_of() { printf 'device-host-%s-%s' "$ID" "$1" | md5sum | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-4\3-8\4-\5/'; }
mac_of() { printf '02:%s' "$(printf '%s-%s-%s' "$ID" "$1" "$2" | md5sum | sed -E 's/^(..)(..)(..)(..)(..).*/\1:\2:\3:\4:\5/')"; }
address_of() { echo "10.235.0.$((10 + ${1#d}))"; }
hosts() { (cd "$STATE" 2>/dev/null && ls -d d[0-9]); }
alive() { [ -s "$STATE/$1/pid" ] && still_runs -p "$(cat "$STATE/$1/pid")"; }
need() { [ -d "$STATE/$1" ] || { echo "device-host.sh: no host $1 in $STATE" >&2; exit 1; }; }
reach() { local host=$1; shift; ssh -F "$STATE/ssh_config" -q -n "$host" "$@"; } # host, command

# --------------------------------------------------------------------------------------------------------------- image

inputs() { sha256sum <"$HERE/device-host/image.sh" | cut -d ' ' -f 1; }
image() {
  mkdir -p "$CACHE"
  exec 8>"$CACHE/lock"
  flock 8
  if [ "$(cat "$CACHE/inputs" 2>/dev/null)" != "$(inputs)" ] || [ ! -s "$CACHE/root.img" ]; then
    rm -f "$CACHE/inputs"
    bash "$HERE/device-host/image.sh" "$CACHE"
    inputs >"$CACHE/inputs"
  fi
  exec 8>&-
}

# The program that emulates the hosts.
emulator() {
  local place=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/device-host-emulator
  [ -n "${TESTBED_CARD:-}" ] || { echo qemu-system-x86_64; return 0; }
  [ -x "$place/qemu" ] || bash "$HERE/device-host/emulator.sh" "$place" >&2
  echo "$place/qemu"
}

# --------------------------------------------------------------------------------------------------------------- hosts

# Keys, names and settings of one host become its second disk.
make_host() { # host
  local h=$1 H=$STATE/$1 S=$STATE/$1/seed other
  mkdir -p "$S/ssh"
  for other in $(hosts); do
    printf '%s\n' "$(address_of "$other") $other $other-moves"
    [ "$other" = "$h" ] || printf '%s,%s-moves,%s %s\n' "$other" "$other" "$(address_of "$other")" "$(cut -d ' ' -f 1-2 "$STATE/$other/host_key.pub")" >>"$S/ssh/known_hosts"
  done >"$S/hosts.others"
  { echo '127.0.0.1 localhost'; cat "$S/hosts.others"; } >"$S/hosts"
  rm "$S/hosts.others"
  cp "$H/host_key" "$STATE/authorized_keys" "$HERE/device-host/functions" "$HERE/device-host/sshd_config" "$HERE/console.py" "$S/"
  install -m 755 "$HERE/device-host/init" "$S/init"
  cp "$STATE/key" "$S/ssh/id_ed25519"
  printf '%s\n' "NAME=$h" "UUID=$(uuid_of "$h")" "MANAGEMENT_MAC=$(mac_of "$h" m)" "MOVES_MAC=$(mac_of "$h" v)" \
    "MOVES_ADDRESS=$(address_of "$h")" "GROUP=$GROUP" >"$S/settings"
  chmod 600 "$S/host_key" "$S/ssh/id_ed25519"
  truncate -s 4M "$H/seed.img"
  mkfs.ext4 -q -F -O ^has_journal -E root_owner=0:0 -d "$S" "$H/seed.img"
  qemu-img create -q -f qcow2 -F raw -b "$CACHE/root.img" "$H/root.qcow2"
  truncate -s 64M "$H/functions.img" "$H/plain.img"
  truncate -s 6G "$H/group.img"
}

boot_host() { # host
  local h=$1 H=$STATE/$1 peer=d$((3 - ${1#d})) port qemu card=()
  ! alive "$h" || return 0
  qemu=$(emulator)
  [ -z "${TESTBED_CARD:-}" ] || card=(
    -netdev "dgram,id=fast,local.type=unix,local.path=$STATE/$h.fast,remote.type=unix,remote.path=$STATE/$peer.fast"
    -device pcie-root-port,id=port4,bus=node1,chassis=4,slot=4 -device "igb,bus=port4,netdev=fast,mac=$(mac_of "$h" f)")
  port=$(cat "$H/port")
  rm -f "$STATE/$h.wire" "$STATE/$h.fast" "$H/pid"
  : >"$H/serial"
  # The functions are in the lowest devices of bus 41, because the second root bus has the number 64.
  setsid nice -n 5 "$qemu" -name "$h" -accel tcg,thread=multi,tb-size=256 -M q35 -no-reboot -cpu "${TESTBED_CPU:-max,la57=off}" \
    -smp "$CPUS,sockets=2,cores=$((CPUS / 2)),threads=1" -m 3072 \
    -object memory-backend-ram,id=m0,size=1536M -object memory-backend-ram,id=m1,size=1536M \
    -numa "node,nodeid=0,cpus=0-$((CPUS / 2 - 1)),memdev=m0" -numa "node,nodeid=1,cpus=$((CPUS / 2))-$((CPUS - 1)),memdev=m1" -numa dist,src=0,dst=1,val=20 \
    -nodefaults -no-user-config -display none -pidfile "$H/pid" -serial "file:$H/serial" -qmp "unix:$H/qmp,server=on,wait=off" \
    -kernel "$CACHE/vmlinuz" -initrd "$CACHE/initrd" \
    -append "console=ttyS0 quiet panic=5 mitigations=off nowatchdog intel_iommu=on hugepagesz=2M hugepages=0:120,1:120 net.ifnames=0 pci=realloc nvme_core.multipath=N random.trust_cpu=on" \
    -device intel-iommu,intremap=on,caching-mode=on \
    -drive "file=$H/root.qcow2,if=none,id=root,cache=unsafe,discard=unmap" -device virtio-blk-pci,drive=root \
    -drive "file=$H/seed.img,format=raw,if=none,id=seed,readonly=on" -device virtio-blk-pci,drive=seed \
    -drive "file=$H/group.img,format=raw,if=none,id=group,cache=unsafe,discard=unmap" -device virtio-blk-pci,drive=group \
    -device virtio-rng-pci \
    -netdev "user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device "virtio-net-pci,netdev=management,mac=$(mac_of "$h" m)" \
    -netdev "dgram,id=moves,local.type=unix,local.path=$STATE/$h.wire,remote.type=unix,remote.path=$STATE/$peer.wire" \
    -device "virtio-net-pci,netdev=moves,mac=$(mac_of "$h" v)" \
    -device pxb-pcie,id=node1,bus=pcie.0,bus_nr=64,numa_node=1 -device pcie-root-port,id=port1,bus=node1,chassis=1,slot=1 \
    -device nvme-subsys,id=functions \
    -device nvme,id=sriov,serial=functions-$h,subsys=functions,bus=port1,sriov_max_vfs=4,sriov_vq_flexible=12,sriov_vi_flexible=8,max_ioqpairs=16,msix_qsize=16 \
    -drive "file=$H/functions.img,format=raw,if=none,id=shared,cache=writethrough" -device nvme-ns,drive=shared,bus=sriov,nsid=1,shared=on \
    -device pcie-root-port,id=port2,bus=pcie.0,chassis=2,slot=2 \
    -drive "file=$H/plain.img,format=raw,if=none,id=plain,cache=writethrough" -device nvme,id=plain0,serial=plain-$h,bus=port2,drive=plain \
    -device pcie-root-port,id=port3,bus=pcie.0,chassis=3,slot=3 -device bochs-display,bus=port3 "${card[@]}" \
    >"$H/qemu.log" 2>&1 </dev/null &
  for _ in $(seq 3000); do
    grep -aq DEVICE-HOST-READY "$H/serial" && return 0
    [ ! -s "$H/pid" ] || alive "$h" || break
    grep -aq 'Kernel panic' "$H/serial" && break
    sleep 0.2
  done
  echo "device-host.sh: $h did not start:" >&2
  tail -n 5 "$H/qemu.log" "$H/serial" >&2
  return 1
}

end_host() { # host
  local h=$1
  [ -s "$STATE/$h/pid" ] || return 0
  kill -9 "$(cat "$STATE/$h/pid")" 2>/dev/null || true
  for _ in $(seq 50); do alive "$h" || break; sleep 0.1; done
}

up() {
  local count=${1:-2} i h waiting=()
  [ "$count" -ge 1 ] && [ "$count" -le 2 ] || { echo "device-host.sh: N is 1 or 2" >&2; exit 2; }
  [ ! -e "$STATE" ] || { echo "device-host.sh: already up in $STATE (device-host.sh down first)" >&2; exit 1; }
  image
  emulator >/dev/null
  mkdir -p "$STATE"
  chmod 700 "$STATE"
  ssh-keygen -q -t ed25519 -N '' -C device-host -f "$STATE/key"
  cp "$STATE/key.pub" "$STATE/authorized_keys"
  for i in $(seq "$count"); do
    mkdir "$STATE/d$i"
    ssh-keygen -q -t ed25519 -N '' -C "d$i" -f "$STATE/d$i/host_key"
    free_port >"$STATE/d$i/port"
  done
  for h in $(hosts); do
    echo "[127.0.0.1]:$(cat "$STATE/$h/port") $(cut -d ' ' -f 1-2 "$STATE/$h/host_key.pub")" >>"$STATE/known_hosts"
    printf '%s\n' "Host $h" '  HostName 127.0.0.1' "  Port $(cat "$STATE/$h/port")" >>"$STATE/ssh_config"
  done
  # A URI of libvirt cannot name the file of known hosts. So the hosts' URIs name this program as ssh.
  printf '%s\n' 'Host *' '  User root' "  IdentityFile $STATE/key" '  IdentitiesOnly yes' "  UserKnownHostsFile $STATE/known_hosts" \
    '  StrictHostKeyChecking yes' '  BatchMode yes' '  ConnectTimeout 60' >>"$STATE/ssh_config"
  printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$STATE/ssh_config" >"$STATE/ssh"
  chmod 755 "$STATE/ssh"
  for h in $(hosts); do
    make_host "$h"
    echo "${h}_SSH='qemu+ssh://root@127.0.0.1:$(cat "$STATE/$h/port")/system?keyfile=$STATE/key&command=$STATE/ssh'" >>"$STATE/hosts.env"
  done
  for h in $(hosts); do
    boot_host "$h" &
    waiting+=($!)
  done
  for i in "${waiting[@]}"; do wait "$i" || { echo "device-host.sh: up failed; clear away with: device-host.sh down" >&2; exit 1; }; done
  echo "$STATE/hosts.env"
}

down() {
  local h
  for h in $(hosts); do end_host "$h"; done
  rm -rf "$STATE"
  echo down
}

status() {
  local h
  for h in $(hosts); do
    if alive "$h"; then echo "$h runs, port $(cat "$STATE/$h/port"): $(grep -a DEVICE-HOST "$STATE/$h/serial" | tail -n 1)"; else echo "$h is off"; fi
  done
}

case ${1:-} in
  image) image ;;
  up) shift; up "$@" ;;
  down) down ;;
  status) status ;;
  exec) need "$2"; host=$2; shift 2; reach "$host" "$(printf '%q ' "$@")" ;;
  inside)
    need "$2"
    host=$2 guest=$3; shift 3
    reach "$host" "$(printf '%q ' python3 /seed/console.py "$guest" "${INSIDE_SECONDS:-300}" "$*")" ;;
  copy) need "${3%%:*}"; scp -F "$STATE/ssh_config" -q "$2" "$3" ;;
  crash) need "$2"; end_host "$2" ;;
  boot) need "$2"; boot_host "$2" ;;
  *) sed -n '2,40p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
