#!/bin/bash
# image.sh DIRECTORY   builds what a host of device-host.sh boots: the disk `root.img`, `vmlinuz` and `initrd`
#
# A Debian 12 with libvirt, QEMU, an SSH server and Debian's ordinary kernel, from the packages of debootstrap's mirror.
# `init` of this folder becomes its first program; there is no systemd. The image leaves out kernel modules that no such
# host needs, documentation, translations and QEMU's OpenBIOS. Takes about 3 minutes, and leaves about 1.5 GB.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
OUT=$1
PACKAGES=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/packages
# python3 runs console.py, which talks to a guest's serial console.
INSTALLED=(libvirt-daemon-system libvirt-clients libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils openssh-server
  udev kmod iproute2 iptables nftables dnsmasq-base netcat-openbsd nvme-cli lvm2 pciutils procps python3)
mkdir -p "$OUT" "$PACKAGES"
chmod 755 "$(dirname "$PACKAGES")" "$PACKAGES" # apt downloads as a user of its own
W=$(mktemp -d /var/tmp/device-host.XXXXXX)
trap 'rm -rf "$W"' EXIT
ROOT=$W/root
failed() { tail -n 15 "$W/log" >&2; echo "image.sh: $*" >&2; exit 1; }

# ------------------------------------------------------------------------------------------------------------- packages

debootstrap --variant=minbase bookworm "$ROOT" >"$W/log" 2>&1 || failed "debootstrap failed"
# A package that brings a daemon must not start it on this machine.
printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d"
chmod +x "$ROOT/usr/sbin/policy-rc.d"
chroot "$ROOT" apt-get -y -qq --no-install-recommends install "${INSTALLED[@]}" >"$W/log" 2>&1 || failed "packages are missing"
rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/lib/apt/lists/* "$ROOT"/usr/share/{doc,man,locale,qemu/openbios*} \
  "$ROOT"/etc/ssh/ssh_host_* "$ROOT"/etc/libvirt/qemu/networks "$ROOT"/usr/sbin/policy-rc.d

newest() { find "$PACKAGES" -name "$1_*.deb" -printf '%T@ %p\n' | sort -rn | sed -n '1s/^[^ ]* //p'; }
unpack() { # package, directory
  [ -n "$(newest "$1")" ] || (cd "$PACKAGES" && apt-get -qq download "$1" >"$W/log" 2>&1) || failed "no package $1 (apt-get update?)"
  dpkg-deb -x "$(newest "$1")" "$2"
}
# The package is unpacked, not installed: its scripts would build a large initrd.
kernel=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ { print $2; exit }')
[ -n "$kernel" ] || failed "no linux-image-amd64 in the package lists (apt-get update?)"
unpack "$kernel" "$W/kernel"
unpack busybox-static "$W/kernel"
VERSION=$(basename "$W"/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')
MODULES=lib/modules/$VERSION/kernel
(cd "$W/kernel/$MODULES" && rm -rf sound drivers/{gpu,media,infiniband,staging,isdn,hid,input,iio,usb,bluetooth,mmc,mtd,nfc,w1} \
  drivers/net/{wireless,wwan,can,usb,hamradio,fddi,arcnet} net/{bluetooth,mac80211,wireless,can,nfc})
mkdir -p "$ROOT/lib/modules"
cp -a "$W/kernel/lib/modules/$VERSION" "$ROOT/lib/modules/"
depmod -b "$ROOT" "$VERSION"

# -------------------------------------------------------------------------------------------------------- configuration

# All other settings are on each host's second disk, so a change of them needs no new image.
printf '#!/bin/sh\nmount -o ro /dev/vdb /seed\nexec /seed/init\n' >"$ROOT/sbin/device-host-init"
chmod 755 "$ROOT/sbin/device-host-init"
mkdir -p "$ROOT/seed" "$ROOT/run/sshd"
# These are Debian's defaults, except that libvirtd does not ask polkit, because polkit needs the system bus.
cat >>"$ROOT/etc/libvirt/libvirtd.conf" <<'C'
auth_unix_ro = "none"
auth_unix_rw = "none"
max_clients = 500
max_workers = 40
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
C

# --------------------------------------------------------------------------------------------------------------- initrd

# The initrd has only the drivers of the root disk and of its file system.
I=$W/initrd
mkdir -p "$I"/{bin,lib/modules,proc,sys,dev,root}
cp "$(find "$W/kernel" -path '*bin/busybox' | sed -n 1p)" "$I/bin/busybox"
: >"$I/modules"
for module in virtio_pci virtio_blk crc32c_generic ext4; do
  { modprobe -d "$ROOT" -S "$VERSION" --show-depends "$module" 2>/dev/null || true; } | awk '$1 == "insmod" { print $2 }' \
    | while read -r file; do
      grep -qxF "$(basename "$file")" "$I/modules" && continue
      basename "$file" >>"$I/modules"
      cp "$file" "$I/lib/modules/"
    done
done
cat >"$I/init" <<'C'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/lib/modules/$module"; done </modules
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -b /dev/vda ] && break; usleep 200000; done
mount -t ext4 /dev/vda /root || exec sh
mount --move /dev /root/dev
umount /sys /proc
exec switch_root /root /sbin/device-host-init
C
chmod 755 "$I/init"
(cd "$I" && find . | sort | cpio --quiet -o -H newc --owner 0:0 | gzip -1) >"$W/initrd.gz"

# ----------------------------------------------------------------------------------------------------------------- disk

truncate -s 4G "$W/root.img"
mkfs.ext4 -q -F -L device-host -J size=16 -E lazy_itable_init=1 -d "$ROOT" "$W/root.img"
cp "$W/kernel/boot/vmlinuz-$VERSION" "$OUT/vmlinuz"
cp "$W/initrd.gz" "$OUT/initrd"
cp --sparse=always "$W/root.img" "$OUT/root.img.new"
mv "$OUT/root.img.new" "$OUT/root.img" # last, so that a failed run leaves no incomplete image
echo "image $OUT/root.img: $(($(du -k "$OUT/root.img" | cut -f 1) / 1024)) MiB, kernel $VERSION"
