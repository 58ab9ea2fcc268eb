#!/bin/bash
# make-image.sh OUT.qcow2 [--kernel cloud|generic] [--uefi] [--agent] [--ssh] [--boot]
#
# Builds a tiny bootable guest disk from Debian packages and the files in guest/. The whole system is in the initramfs.
# The only partition (FAT, label GUESTBOOT) has the boot files and the data that the guest keeps across boots.
# guest/README.md describes the guest's programs and their output.
#   --kernel  cloud (the default) boots fastest but has no AHCI driver; generic has one
#   --uefi    also boots by UEFI, with secure boot too (Debian's signed shim, GRUB and kernel)
#   --agent   with the QEMU guest agent
#   --ssh     with an SSH server; root logs in with the key in the server's metadata
#   --boot    boots it once in QEMU and prints the milliseconds to GUEST-READY
# Packages are downloaded once, to $TESTBED_CACHE (/var/tmp/chronova-testbed), and unpacked, never installed.
set -euo pipefail
export LC_ALL=C
HERE=$(dirname "$(realpath "$0")")
OUT='' KERNEL=cloud UEFI=0 AGENT=0 SSH=0 BOOT=0
while [ $# -gt 0 ]; do
  case $1 in
    --kernel) KERNEL=$2; shift ;;
    --uefi) UEFI=1 ;;
    --agent) AGENT=1 ;;
    --ssh) SSH=1 ;;
    --boot) BOOT=1 ;;
    -*) echo "make-image.sh: no option $1" >&2; exit 2 ;;
    *) OUT=$1 ;;
  esac
  shift
done
[ -n "$OUT" ] || { sed -n '2,13p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
mkdir -p "$(dirname "$OUT")"
OUT=$(realpath -m "$OUT")
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/packages
mkdir -p "$CACHE"
chmod 755 "$(dirname "$CACHE")" "$CACHE" # apt downloads as a user of its own
W=$(mktemp -d "${TMPDIR:-/tmp}/make-image.XXXXXX")
trap 'rm -rf "$W"' EXIT

# ------------------------------------------------------------------------------------------------------------- packages

newest() { find "$CACHE" -name "$1_*.deb" -printf '%T@ %p\n' | sort -rn | sed -n '1s/^[^ ]* //p'; }

unpack() { # package names...
  local name file
  for name in "$@"; do
    file=$(newest "$name")
    if [ -z "$file" ]; then
      (cd "$CACHE" && apt-get -qq download "$name" >/dev/null 2>&1) || true
      file=$(newest "$name")
    fi
    [ -n "$file" ] || { echo "make-image.sh: package $name cannot be downloaded (apt-get update?)" >&2; exit 1; }
    dpkg-deb -x "$file" "$W/packages"
  done
}

case $KERNEL in
  cloud) meta=linux-image-cloud-amd64 ;;
  generic) meta=linux-image-amd64 ;;
  *) echo "make-image.sh: --kernel is cloud or generic" >&2; exit 2 ;;
esac
# The kernel's metapackage depends on the newest kernel.
kernel=$(apt-cache depends "$meta" 2>/dev/null | awk '/Depends:/ { print $2; exit }')
[ -n "$kernel" ] || { echo "make-image.sh: no $meta in the package lists (apt-get update?)" >&2; exit 1; }
echo "unpacking $kernel"
unpack "$kernel" busybox-static
[ $UEFI = 0 ] || unpack shim-signed grub-efi-amd64-signed
[ $AGENT = 0 ] || unpack qemu-guest-agent libglib2.0-0 liburing2 libudev1
[ $SSH = 0 ] || unpack dropbear-bin libtomcrypt1 libtommath1 libgmp10
VERSION=$(basename "$W"/packages/boot/vmlinuz-* | sed 's/^vmlinuz-//')
depmod -b "$W/packages" "$VERSION"

# ------------------------------------------------------------------------------------------------------------ initramfs

R=$W/root
mkdir -p "$R"/{bin,sbin,etc/acpi/PWRF,lib/modules,lib64,proc,sys,dev,run,tmp,boot,mnt/config,root,var/run}
busybox=$(find "$W/packages" -path '*bin/busybox' | sed -n 1p)
cp "$busybox" "$R/bin/busybox"
"$R/bin/busybox" --list | grep -vx busybox | while read -r applet; do ln -s /bin/busybox "$R/bin/$applet"; done
for applet in init reboot poweroff halt; do ln -s /bin/busybox "$R/sbin/$applet"; done
ln -s /bin/busybox "$R/init"

# Drivers with their dependencies, in the order of loading.
MODULES=(virtio_pci virtio_blk virtio_net virtio_scsi virtio_balloon virtio-rng virtio_console virtio_mem
  ahci ata_piix sr_mod sd_mod isofs efivarfs vfat nls_cp437 nls_iso8859-1 nls_ascii nls_utf8
  e1000 igbvf af_packet button evdev qemu_fw_cfg i6300esb)
: >"$R/etc/modules"
for module in "${MODULES[@]}"; do
  # Drivers that this kernel lacks, or has built in, are skipped.
  { modprobe -d "$W/packages" -S "$VERSION" --show-depends "$module" 2>/dev/null || true; } \
    | awk '$1 == "insmod" { print $2 }' | while read -r file; do
      grep -qxF "$(basename "$file")" "$R/etc/modules" && continue
      basename "$file" >>"$R/etc/modules"
      cp "$file" "$R/lib/modules/"
    done
done

install -m 644 "$HERE/guest/inittab" "$R/etc/inittab"
install -m 755 "$HERE/guest/boot" "$HERE/guest/shutdown" "$HERE/guest/dhcp" "$R/etc/"
install -m 755 "$HERE/guest/watcher" "$R/sbin/watcher"
install -m 755 "$HERE/guest/powerbutton" "$R/etc/acpi/PWRF/00000080" # acpid calls this file on the power button
install -m 755 "$HERE/guest/agent-shutdown" "$R/sbin/shutdown"
echo 'root::0:0:root:/root:/bin/sh' >"$R/etc/passwd"
echo 'root:x:0:' >"$R/etc/group"
echo "export PATH=/bin:/sbin PS1='guest# '" >"$R/etc/profile"

# Copies a program into the guest, with the libraries that it needs.
program() { # package's file, place in the guest
  local libraries=$W/packages/usr/lib/x86_64-linux-gnu:$W/packages/lib/x86_64-linux-gnu
  cp "$W/packages/$1" "$R/$2"
  LD_LIBRARY_PATH=$libraries ldd "$R/$2" | awk '/=> \// { print $3 } /^\t\/lib/ { print $1 }' | while read -r file; do
    place=$R/lib/x86_64-linux-gnu
    case $file in /lib64/*) place=$R/lib64 ;; esac
    mkdir -p "$place"
    cp -L "$file" "$place/"
  done
}
if [ $AGENT = 1 ]; then
  program usr/sbin/qemu-ga bin/qemu-ga
  install -m 755 "$HERE/guest/chpasswd" "$R/bin/chpasswd"
fi
if [ $SSH = 1 ]; then
  program usr/sbin/dropbear sbin/dropbear
  mkdir -p "$R/etc/dropbear"
  echo /bin/sh >"$R/etc/shells"
  # The test suites of other projects call `sudo`, `ip` and `udhcpc` by these paths.
  printf '#!/bin/sh\nexec "$@"\n' >"$R/bin/sudo"
  chmod 755 "$R/bin/sudo"
  for applet in ip udhcpc; do ln -s /bin/busybox "$R/sbin/$applet"; done
fi
(cd "$R" && find . | sort | cpio --quiet -o -H newc --owner 0:0 | lz4 -l -9 -q >"$W/initrd")

# ----------------------------------------------------------------------------------------------------------------- disk

MIB=64
DISK=$W/disk.img
truncate -s ${MIB}M "$DISK"
printf 'label: dos\nstart=2048, type=ef, bootable\n' | sfdisk -q "$DISK"
mkfs.fat -F 16 -n GUESTBOOT --offset 2048 "$DISK" $(((MIB - 1) * 1024)) >/dev/null
syslinux --install --offset 1048576 "$DISK"
dd if="$(find /usr/lib/syslinux /usr/lib/SYSLINUX -name mbr.bin 2>/dev/null | sed -n 1p)" of="$DISK" bs=440 count=1 \
  conv=notrunc status=none
PART=$DISK@@1M
ARGUMENTS='console=tty0 console=ttyS0,115200n8 quiet mitigations=off panic=5'
printf 'DEFAULT guest\nPROMPT 0\nTIMEOUT 0\nLABEL guest\n KERNEL /vmlinuz\n INITRD /initrd\n APPEND %s\n' "$ARGUMENTS" \
  >"$W/syslinux.cfg"
mcopy -i "$PART" "$W/packages/boot/vmlinuz-$VERSION" ::/vmlinuz
mcopy -i "$PART" "$W/initrd" ::/initrd
mcopy -i "$PART" "$W/syslinux.cfg" ::/syslinux.cfg
if [ $UEFI = 1 ]; then
  printf 'set timeout=0\nset default=0\nmenuentry guest {\n linux /vmlinuz %s\n initrd /initrd\n}\n' "$ARGUMENTS" >"$W/grub.cfg"
  mmd -i "$PART" ::/EFI ::/EFI/BOOT ::/EFI/debian
  mcopy -i "$PART" "$W/packages/usr/lib/shim/shimx64.efi.signed" ::/EFI/BOOT/BOOTX64.EFI
  mcopy -i "$PART" "$W/packages/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" ::/EFI/BOOT/grubx64.efi
  mcopy -i "$PART" "$W/grub.cfg" ::/EFI/debian/grub.cfg
fi
qemu-img convert -q -f raw -O qcow2 -c "$DISK" "$W/image.qcow2"
mv "$W/image.qcow2" "$OUT" # last, so that a failed run leaves no incomplete image
echo "image $OUT: $(($(stat -c %s "$OUT") / 1024)) KiB, kernel $VERSION"

# ----------------------------------------------------------------------------------------------------------------- boot

if [ $BOOT = 1 ]; then
  qemu-img create -q -f qcow2 -F qcow2 -b "$OUT" "$W/overlay.qcow2"
  log=$W/console begun=$(date +%s%N)
  : >"$log"
  qemu-system-x86_64 -accel tcg -M pc -m 128 -nodefaults -no-user-config -display none \
    -serial "file:$log" -drive "file=$W/overlay.qcow2,if=virtio" &
  qemu=$!
  for _ in $(seq 1200); do
    grep -aq GUEST-READY "$log" && break
    kill -0 $qemu 2>/dev/null || break
    sleep 0.1
  done
  ended=$(date +%s%N)
  kill $qemu 2>/dev/null || true
  wait $qemu 2>/dev/null || true
  grep -a GUEST-READY "$log" || { tail -n 5 "$log" >&2; exit 1; }
  echo "booted in $(((ended - begun) / 1000000)) ms"
fi
