#!/bin/bash
# emulator.sh DIRECTORY   gets a QEMU that emulates a network card with SR-IOV (igb, from QEMU 8.0 on), from Debian's
# backports, and writes DIRECTORY/qemu, a script that starts it
#
# The QEMU lies in a Debian of its own in DIRECTORY/root and runs with the libraries there. Nothing of this machine
# changes.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
OUT=$1 R=$1/root
mkdir -p "$OUT"
rm -rf "$R" "$OUT/qemu"
LOG=$(mktemp)
trap 'rm -f "$LOG"' EXIT
failed() { tail -n 15 "$LOG" >&2; echo "emulator.sh: $*" >&2; exit 1; }
debootstrap --variant=minbase bookworm "$R" >"$LOG" 2>&1 || failed "debootstrap failed"
sed 's/ bookworm / bookworm-backports /' "$R/etc/apt/sources.list" >"$R/etc/apt/sources.list.d/backports.list"
chroot "$R" apt-get -qq update >"$LOG" 2>&1 || failed "there are no backports"
chroot "$R" apt-get -y -qq --no-install-recommends -t bookworm-backports install qemu-system-x86 >"$LOG" 2>&1 || failed "there is no QEMU"
rm -rf "$R"/var/cache/apt/* "$R"/var/lib/apt/lists/* "$R"/usr/share/{doc,man,locale}
cat >"$OUT/qemu" <<C
#!/bin/sh
exec "$R/lib64/ld-linux-x86-64.so.2" --library-path "$R/usr/lib/x86_64-linux-gnu:$R/lib/x86_64-linux-gnu" \\
  "$R/usr/bin/qemu-system-x86_64" -L "$R/usr/share/qemu" -L "$R/usr/share/seabios" -L "$R/usr/lib/ipxe/qemu" "\$@"
C
chmod 755 "$OUT/qemu"
"$OUT/qemu" --version | head -n 1
