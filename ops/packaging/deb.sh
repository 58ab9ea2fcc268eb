#!/bin/bash
# ops/packaging/deb.sh PROGRAM DEV-PROGRAM FOLDER   builds the Debian packages of a built `chronova` into FOLDER
#
# DEV-PROGRAM is the `chronova-dev` of the same build: it writes the man pages and completions. FOLDER gets
# chronova_VERSION_ARCH.deb, and chronova-dbgsym_VERSION_ARCH.deb with the debug information if PROGRAM has any. The
# same programs give the same packages, byte by byte, because all files have the time of the last commit, or
# SOURCE_DATE_EPOCH. Settings, from the environment: DEB_VERSION (the program's version), DEB_COMPRESSION (options of
# dpkg-deb; -Zxz).
set -euo pipefail
PROGRAM=$(realpath "$1") DEV=$(realpath "$2") FOLDER=$3
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/../setup.sh"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$HERE" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022

VERSION=${DEB_VERSION:-$("$PROGRAM" --version | awk '{ print $2 }')}
ARCH=$(dpkg --print-architecture)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$FOLDER"

# Prints the packages whose libraries the program loads.
libraries() {
  mkdir -p "$WORK/shlibs/debian"
  printf 'Source: chronova\n\nPackage: chronova\nArchitecture: any\n' >"$WORK/shlibs/debian/control"
  (cd "$WORK/shlibs" && dpkg-shlibdeps -O "$PROGRAM" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# Writes DEBIAN/control and DEBIAN/md5sums of a package, and packs it.
pack() { # package, further fields...
  local package=$1 root=$WORK/$1; shift
  mkdir -p "$root/DEBIAN"
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs -r md5sum) >"$root/DEBIAN/md5sums"
  { printf '%s\n' "Package: $package" "Version: $VERSION" "Architecture: $ARCH" \
      'Maintainer: The Chronova developers <chronova@localhost>' "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)"
    printf '%s\n' "$@"; } >"$root/DEBIAN/control"
  find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  # shellcheck disable=SC2086 # several options
  dpkg-deb --root-owner-group ${DEB_COMPRESSION:--Zxz} --build "$root" "$FOLDER/${package}_${VERSION}_$ARCH.deb"
}

root=$WORK/chronova
mkdir -p "$root"/{usr/bin,lib/systemd/system,etc/chronova,usr/share/doc/chronova/examples}
install_program "$PROGRAM" "$root/usr/bin/chronova"
chmod 0755 "$root/usr/bin" "$root/usr/bin/chronova"
# kolla, Puppet and scripts call Nova's programs by these names.
for name in nova-manage nova-status nova-policy; do ln -s chronova "$root/usr/bin/$name"; done
"$DEV" package-files "$root"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
cp "$HERE/chronova.service" "$root/lib/systemd/system/"
install -m 0640 "$HERE/debian/chronova.conf" "$root/etc/chronova/chronova.conf"
cp "$HERE/debian/copyright" "$root/usr/share/doc/chronova/copyright"
"$PROGRAM" policy sample >"$root/usr/share/doc/chronova/examples/policy.yaml"
"$PROGRAM" config reference | gzip -9n >"$root/usr/share/doc/chronova/configuration.md.gz"
cp "$HERE/../monitoring/"{alerts.yml,grafana.json,prometheus.yml} "$root/usr/share/doc/chronova/examples/"
mkdir -p "$root/DEBIAN"
for script in postinst prerm postrm; do install -m 0755 "$HERE/debian/$script" "$root/DEBIAN/$script"; done
echo /etc/chronova/chronova.conf >"$root/DEBIAN/conffiles"
symbols=$root/usr/bin/chronova.debug
if [ -s "$symbols" ]; then
  mkdir -p "$WORK/chronova-dbgsym/usr/lib/debug/usr/bin"
  mv "$symbols" "$WORK/chronova-dbgsym/usr/lib/debug/usr/bin/chronova.debug"
  chmod 0644 "$WORK/chronova-dbgsym/usr/lib/debug/usr/bin/chronova.debug"
fi
pack chronova "Depends: $(libraries), adduser" 'Recommends: libvirt-daemon-system, qemu-utils' \
  'Conflicts: nova-common' 'Section: net' 'Priority: optional' \
  'Description: OpenStack compute control plane' \
  ' Serves the Compute and Placement APIs of OpenStack from one event log, and' \
  ' drives compute hosts over libvirt. It takes the place of nova-api,' \
  ' nova-scheduler, nova-conductor, nova-compute and placement-api.'
[ ! -d "$WORK/chronova-dbgsym" ] || pack chronova-dbgsym "Depends: chronova (= $VERSION)" 'Section: debug' 'Priority: optional' \
  'Description: debug information of chronova'
