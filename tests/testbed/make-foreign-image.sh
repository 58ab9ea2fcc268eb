#!/bin/bash
# make-foreign-image.sh OUT.qcow2   builds a tiny guest disk for aarch64 from Debian packages of that architecture
#
# UEFI starts GRUB, and GRUB starts Debian's kernel. The whole system is in the initramfs. Its only program prints
#
#   FOREIGN-READY machine=M firmware=uefi|none disk=SECTORS
#
# on the guest's console, which afterwards is a root shell without a login, as in make-image.sh.
# Packages are downloaded once, to $TESTBED_CACHE (/var/tmp/chronova-testbed), and unpacked, never installed. The lists of
# packages are not those of this machine, which need not know the architecture.
set -euo pipefail
export LC_ALL=C
[ $# = 1 ] || { sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
mkdir -p "$(dirname "$1")"
OUT=$(realpath -m "$1")
ARCH=arm64
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/packages-$ARCH
mkdir -p "$CACHE"/{lists/partial,archives/partial}
chmod 755 "$(dirname "$CACHE")" "$CACHE" # apt downloads as a user of its own
W=$(mktemp -d "${TMPDIR:-/tmp}/make-foreign-image.XXXXXX")
trap 'rm -rf "$W"' EXIT
failed() { tail -n 5 "$W/log" >&2; echo "make-foreign-image.sh: $*" >&2; exit 1; }

# ------------------------------------------------------------------------------------------------------------- packages

SUITE=$(. /etc/os-release; echo "$VERSION_CODENAME")
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
printf 'deb [signed-by=%s] http://deb.debian.org/%s main\n' "$KEYS" "debian $SUITE" "$KEYS" "debian-security $SUITE-security" >"$W/sources.list"
: >"$W/status"
APT=(-qq -o APT::Architecture=$ARCH -o APT::Architectures=$ARCH -o Dir::State::lists="$CACHE/lists" -o Dir::State::status="$W/status"
  -o Dir::Cache::archives="$CACHE/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
  -o Dir::Etc::sourcelist="$W/sources.list" -o Dir::Etc::sourceparts=-)
newest() { find "$CACHE" -maxdepth 1 -name "$1_*.deb" -printf '%T@ %p\n' | sort -rn | sed -n '1s/^[^ ]* //p'; }
unpack() { # package
  [ -n "$(newest "$1")" ] || (cd "$CACHE" && apt-get "${APT[@]}" download "$1" >"$W/log" 2>&1) || failed "no package $1 for $ARCH"
  dpkg-deb -x "$(newest "$1")" "$W/packages"
}
# The kernel's metapackage depends on the newest kernel. An earlier download needs no lists.
KERNEL=$(basename "$(newest 'linux-image-*-cloud-arm64')" | sed 's/_.*//')
if [ -z "$KERNEL" ]; then
  apt-get "${APT[@]}" update >"$W/log" 2>&1 || failed "no lists of packages for $ARCH"
  KERNEL=$(apt-cache "${APT[@]}" depends linux-image-cloud-arm64 2>"$W/log" | awk '/Depends:/ { print $2; exit }')
fi
[ -n "$KERNEL" ] || failed "no kernel for $ARCH"
for package in "$KERNEL" busybox-static grub-efi-arm64-signed; do unpack "$package"; done
VERSION=$(basename "$W"/packages/boot/vmlinuz-* | sed 's/^vmlinuz-//')
depmod -b "$W/packages" "$VERSION"

# ------------------------------------------------------------------------------------------------------------ initramfs

R=$W/root
mkdir -p "$R"/{bin,sbin,etc,proc,sys,dev,run,lib/modules}
cp "$(find "$W/packages" -path '*bin/busybox' | sed -n 1p)" "$R/bin/busybox"
: >"$R/modules"
for module in virtio_pci virtio_mmio virtio_blk virtio_net; do
  # Drivers that the kernel has built in are skipped.
  { modprobe -d "$W/packages" -S "$VERSION" --show-depends "$module" 2>/dev/null || true; } \
    | awk '$1 == "insmod" { print $2 }' | while read -r file; do
      grep -qxF "$(basename "$file")" "$R/modules" && continue
      basename "$file" >>"$R/modules"
      cp "$file" "$R/lib/modules/"
    done
done
cat >"$R/init" <<'C'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin PS1='guest# '
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/lib/modules/$module"; done </modules
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e /sys/block/vda ] && break; usleep 300000; done
firmware=none
[ ! -d /sys/firmware/efi ] || firmware=uefi
echo "FOREIGN-READY machine=$(uname -m) firmware=$firmware disk=$(cat /sys/block/vda/size 2>/dev/null)"
exec init
C
chmod 755 "$R/init"
echo 'ttyAMA0::respawn:-/bin/sh' >"$R/etc/inittab"
(cd "$R" && find . | sort | cpio --quiet -o -H newc --owner 0:0 | gzip -1) >"$W/initrd"

# ----------------------------------------------------------------------------------------------------------------- disk

MIB=128
DISK=$W/disk.img
truncate -s ${MIB}M "$DISK"
printf 'label: dos\nstart=2048, type=ef, bootable\n' | sfdisk -q "$DISK"
mkfs.fat -F 16 -n GUESTBOOT --offset 2048 "$DISK" $(((MIB - 1) * 1024)) >/dev/null
PART=$DISK@@1M
printf 'set timeout=0\nset default=0\nmenuentry guest {\n linux /vmlinuz console=ttyAMA0 quiet mitigations=off panic=5\n initrd /initrd\n}\n' >"$W/grub.cfg"
mmd -i "$PART" ::/EFI ::/EFI/BOOT ::/EFI/debian
mcopy -i "$PART" "$(find "$W/packages" -name 'grubaa64.efi.signed' | sed -n 1p)" ::/EFI/BOOT/BOOTAA64.EFI
mcopy -i "$PART" "$W/grub.cfg" ::/EFI/debian/grub.cfg
mcopy -i "$PART" "$W/packages/boot/vmlinuz-$VERSION" ::/vmlinuz
mcopy -i "$PART" "$W/initrd" ::/initrd
qemu-img convert -q -f raw -O qcow2 -c "$DISK" "$W/image.qcow2"
mv "$W/image.qcow2" "$OUT" # last, so that a failed run leaves no incomplete image
echo "image $OUT: $(($(stat -c %s "$OUT") / 1024)) KiB, kernel $VERSION"
