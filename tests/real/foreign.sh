#!/bin/bash
# Guests of other architectures, which QEMU emulates. The guests have an empty disk, so each shows only the messages of its
# firmware: EDK2 on aarch64, SLOF on ppc64le, the loader of QEMU on s390x. The messages come over the serial console and
# stand in the console log. A host without an emulator for an architecture is not chosen.
# With CHRONOVA_SOAK=1 also: a guest of aarch64 boots Debian's kernel by UEFI.
# The script tries the architectures whose emulators this machine has (Debian: qemu-system-arm with qemu-efi-aarch64,
# qemu-system-ppc, qemu-system-misc; setup_packages foreign of ops/setup.sh).
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
[ ${#FOUND[@]} -gt 0 ] || cannot "no emulator of another architecture on this machine: setup_packages foreign of ops/setup.sh installs them"
fleet_open foreign fo 10.76 1
house_furnish
within 60 "the host is up" host_stands h1 up

board() { case $1 in aarch64) echo virt ;; ppc64le) echo pseries ;; s390x) echo s390-ccw-virtio ;; esac; }
# The first words of the firmware.
greeting() { case $1 in aarch64) echo 'UEFI firmware|BdsDxe' ;; ppc64le) echo 'SLOF' ;; s390x) echo 'LOADPARM|virtio|[Bb]oot' ;; esac; }
# The serial port that libvirt gives the board.
port() { case $1 in aarch64) echo pl011 ;; ppc64le) echo spapr-vty ;; s390x) echo sclpconsole ;; esac; }
os flavor create --vcpus 1 --ram 512 --disk 1 "$NAME-big" >"$WORK/flavor-big" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor-big")"
truncate -s 16M "$WORK/blank.raw"
image() { # architecture
  os image create --disk-format raw --container-format bare --file "$WORK/blank.raw" --public \
    --property hw_emulation_architecture="$1" "$NAME-$1" >"$WORK/image-$1" 2>&1 || bad "an image of $1 is uploaded" "$(cat "$WORK/image-$1")"
}
# QEMU ends a guest of s390x that finds nothing to boot, so the server is soon SHUTOFF.
built() { case $(status_of "$1") in ACTIVE | SHUTOFF | ERROR) return 0 ;; esac; return 1; } # server

for arch in "${FOUND[@]}"; do
  like "the host says that it emulates $arch" "$(os --os-placement-api-version 1.6 resource provider trait list \
    "$(os resource provider list --name h1 -f value -c uuid)" -f value)" "COMPUTE_ARCH_${arch^^}"
  image "$arch"
  boot "$NAME-$arch" --no-wait --flavor "$NAME-big" --image "$NAME-$arch"
  within 60 "a server of $arch is built" built "$NAME-$arch"
  unlike "the server of $arch has no fault" "$(status_of "$NAME-$arch") $(get server "$NAME-$arch" fault)" '^ERROR'
  DEFINED=$(on h1 dumpxml --inactive "$ID" | tr -d '\n')
  like "a guest of $arch has its own board" "$DEFINED" "<type arch='${arch/ppc64le/ppc64(le)?}' machine='$(board "$arch")"
  like "a guest of $arch has the serial port of its board" "$DEFINED" "<serial type='pty'>.*<model name='$(port "$arch")'/>"
  like "a guest of $arch has the screen of the operator" "$DEFINED" "<graphics type='vnc'"
  within 120 "the firmware of $arch writes to the console" said "$NAME-$arch" "$(greeting "$arch")"
  expect "the server of $arch is deleted" os server delete --wait "$NAME-$arch"
  same "nothing is left of the server of $arch" "$(rest_of "$ID")" ""
  same "no variables of its firmware are left" "$(ls "$STATE/h1/lib/qemu/nvram" 2>/dev/null)" ""
done
for arch in "${MISSING[@]}"; do
  image "$arch"
  os server create --wait --flavor "$NAME-big" --image "$NAME-$arch" --network "$NAME" "$NAME-$arch" >"$WORK/none" 2>&1
  SERVERS+=("$(get server "$NAME-$arch" id)")
  same "without an emulator, a server of $arch finds no host" "$(status_of "$NAME-$arch")" ERROR
  like "the fault of the server of $arch says so" "$(get server "$NAME-$arch" fault)" 'No valid host was found'
  os server delete --wait "$NAME-$arch"
done
long_run || verdict
has_emulator aarch64 || verdict

# ------------------------------------------------------------------------------------------ an operating system of aarch64

ARM=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-aarch64.qcow2
[ -s "$ARM" ] && [ -z "$(find "$HERE/make-foreign-image.sh" -newer "$ARM" -print -quit)" ] \
  || bash "$HERE/make-foreign-image.sh" "$ARM" >"$WORK/arm" 2>&1 || cannot "the guest image of aarch64 cannot be built: $(tail -n 1 "$WORK/arm")"
os image create --disk-format qcow2 --container-format bare --file "$ARM" --public --property hw_emulation_architecture=aarch64 \
  --property hw_machine_type=virt --property hw_firmware_type=uefi "$NAME-arm" >"$WORK/image-arm" 2>&1 || bad "an image with a kernel of aarch64 is uploaded" "$(cat "$WORK/image-arm")"
boot "$NAME-arm" --no-wait --flavor "$NAME-big" --image "$NAME-arm"
within 60 "the server with a kernel of aarch64 is ACTIVE" at_rest "$NAME-arm" ACTIVE
within 300 "its guest boots the kernel of aarch64 by UEFI, and sees its disk" said "$NAME-arm" "FOREIGN-READY machine=aarch64 firmware=uefi disk=2097152"
INSIDE_SECONDS=150
same "a command on its serial console is answered" "$(at h1 "$ID" 'uname -m')" aarch64
expect "the server with a kernel of aarch64 is rebooted hard" os server reboot --hard --wait "$NAME-arm"
within 300 "its guest boots again" eval '[ "$(count_said "$NAME-arm" "FOREIGN-READY machine=aarch64")" = 2 ]'
expect "the server with a kernel of aarch64 is deleted" os server delete --wait "$NAME-arm"
same "nothing is left of that server" "$(rest_of "$ID")" ""
same "no variables of that guest's firmware are left" "$(ls "$STATE/h1/lib/qemu/nvram" 2>/dev/null)" ""
verdict
