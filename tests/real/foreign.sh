#!/bin/bash
# Guests of other architectures, which QEMU emulates. The guests have an empty disk, so each shows only the messages of its
# firmware: EDK2 on aarch64, SLOF on ppc64le, the loader of QEMU on s390x. The messages come over the serial console and
# stand in the console log. A host without an emulator for an architecture is not chosen.
# The script tries the architectures whose emulators this machine has (Debian: qemu-system-arm with qemu-efi-aarch64,
# qemu-system-ppc, qemu-system-misc).
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
has_emulator() { # architecture
  case $1 in
    aarch64) command -v qemu-system-aarch64 >/dev/null && [ -n "$(find /usr/share/qemu/firmware -name '*aarch64*' 2>/dev/null)" ] ;;
    ppc64le) command -v qemu-system-ppc64 >/dev/null ;;
    s390x) command -v qemu-system-s390x >/dev/null ;;
  esac
}
FOUND=() MISSING=()
for arch in aarch64 ppc64le s390x; do if has_emulator "$arch"; then FOUND+=("$arch"); else MISSING+=("$arch"); fi; done
[ ${#FOUND[@]} -gt 0 ] || cannot "no emulator of another architecture on this machine"
fleet_open foreign fo 10.76 1
house_furnish
within 60 "the host is up" host_stands h1 up

board() { case $1 in aarch64) echo virt ;; ppc64le) echo pseries ;; s390x) echo s390-ccw-virtio ;; esac; }
# The first words of the firmware.
greeting() { case $1 in aarch64) echo 'UEFI firmware|BdsDxe' ;; ppc64le) echo 'SLOF' ;; s390x) echo 'LOADPARM|virtio' ;; esac; }
os flavor create --vcpus 1 --ram 512 --disk 1 "$NAME-big" >"$WORK/flavor-big" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor-big")"
truncate -s 16M "$WORK/blank.raw"
image() { # architecture
  os image create --disk-format raw --container-format bare --file "$WORK/blank.raw" --public \
    --property hw_emulation_architecture="$1" "$NAME-$1" >"$WORK/image-$1" 2>&1 || bad "an image of $1 is uploaded" "$(cat "$WORK/image-$1")"
}

for arch in "${FOUND[@]}"; do
  like "the host says that it emulates $arch" "$(os --os-placement-api-version 1.6 resource provider trait list \
    "$(os resource provider list --name h1 -f value -c uuid)" -f value)" "COMPUTE_ARCH_${arch^^}"
  image "$arch"
  boot "$NAME-$arch" --flavor "$NAME-big" --image "$NAME-$arch"
  like "a guest of $arch has its own board" "$(on h1 dumpxml "$ID" | tr -d '\n')" "<type arch='${arch/ppc64le/ppc64(le)?}' machine='$(board "$arch")"
  within 120 "the firmware of $arch writes to the console" said "$NAME-$arch" "$(greeting "$arch")"
  expect "the server of $arch is deleted" os server delete --wait "$NAME-$arch"
  same "nothing is left of the server of $arch" "$(rest_of "$ID")" ""
done
for arch in "${MISSING[@]}"; do
  image "$arch"
  os server create --wait --flavor "$NAME-big" --image "$NAME-$arch" --network "$NAME" "$NAME-$arch" >"$WORK/none" 2>&1
  SERVERS+=("$(get server "$NAME-$arch" id)")
  same "without an emulator, a server of $arch finds no host" "$(status_of "$NAME-$arch")" ERROR
  like "the fault of the server of $arch says so" "$(get server "$NAME-$arch" fault)" 'No valid host was found'
  os server delete --wait "$NAME-$arch"
done
verdict
