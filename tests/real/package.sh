#!/bin/bash
# The Debian package of ops/packaging is built, installed, started, upgraded, removed and purged. This happens on a copy
# of this machine's root (an overlay in a mount namespace), so the machine itself does not change. With CHRONOVA_SOAK=1
# also: a guest boots there on a libvirtd of its own, two builds are equal, apt installs and purges the package in a fresh
# Debian 12 (debootstrap), a guest boots there with Debian's libvirt, and the OCI image is built and run.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
[ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
DEV=$(dirname "$CHRONOVA_BIN")/chronova-dev
[ -x "$DEV" ] || cannot "$DEV is missing"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-package.XXXXXX")
MACHINE='' ROOT=$WORK/copy LIBVIRTD='' CLIENT='' LACKS=''
finish() {
  local name
  [ -z "${SERVER:-}" ] || kill "$SERVER" 2>/dev/null
  [ -z "$CLIENT" ] || kill "$CLIENT" 2>/dev/null
  [ -z "$LIBVIRTD" ] || {
    for name in $(inside virsh -q -c qemu:///system list --name); do inside virsh -q -c qemu:///system destroy "$name" >/dev/null; done
    kill "$LIBVIRTD" 2>/dev/null
  }
  [ -z "$MACHINE" ] || kill "$MACHINE" 2>/dev/null
  if [ $FAILED -gt 0 ]; then echo "the files of this run: $WORK"; else rm -rf "$WORK"; fi
}
trap finish EXIT
export DEB_COMPRESSION='-Zgzip -z1' SOURCE_DATE_EPOCH=1780000000
build() { bash "$(dirname "$0")/../../ops/packaging/deb.sh" "$CHRONOVA_BIN" "$DEV" "$1" >"$WORK/build.log" 2>&1; } # folder
sums() { (cd "$1" && sha256sum -- *.deb); } # folder
fields() { dpkg-deb -f "$PACKAGE" "$@"; }

# ---------------------------------------------------------------------------------------------------------------- build

expect "the package is built" build "$WORK/one"
PACKAGE=$(ls "$WORK"/one/chronova_*.deb)
DEB_VERSION=$(fields Version)+next
export DEB_VERSION
expect "a newer package is built" build "$WORK/next"
NEXT=$(ls "$WORK"/next/chronova_*.deb)
like "the package depends on libvirt's library" "$(fields Depends)" 'libvirt0 \(>='
CONTENT=$(dpkg-deb -c "$PACKAGE" | awk '{ print $1, $2, $6 }')
for file in usr/bin/chronova lib/systemd/system/chronova.service etc/chronova/chronova.conf usr/share/man/man1/chronova.1.gz \
  usr/share/man/man1/chronova-audit.1.gz usr/share/bash-completion/completions/chronova usr/share/zsh/vendor-completions/_chronova \
  usr/share/fish/vendor_completions.d/chronova.fish usr/share/doc/chronova/examples/policy.yaml; do
  like "the package has $file" "$CONTENT" " root/root \./$file\$"
done

# -------------------------------------------------------------------------------------------------------- the copied root

# Starts a mount namespace whose /copy is a writable copy of the root. The namespace ends with the script. libvirtd reads
# the number of processors from /sys, and reports no host without it. There are no cgroups there, as in hosts.sh.
mkdir -p "$WORK/copy" "$WORK/layer"
# shellcheck disable=SC2016
unshare -m bash -c '
  mount -t tmpfs layer "$0/layer" && mkdir "$0/layer/upper" "$0/layer/work" \
    && mount -t overlay copy -o "lowerdir=/,upperdir=$0/layer/upper,workdir=$0/layer/work" "$0/copy" \
    && mount -t proc proc "$0/copy/proc" && mount -t sysfs sysfs "$0/copy/sys" && mount --rbind /dev "$0/copy/dev" && touch "$0/ready" && exec sleep 3600' "$WORK" &
MACHINE=$!
wait_for 20 test -e "$WORK/ready" || cannot "this machine has no overlay file system"
# With EXEC=exec, the command takes the place of the calling shell, so that a signal reaches it.
inside() { ${EXEC:-} nsenter -t "$MACHINE" -m chroot "$ROOT" env -u LD_LIBRARY_PATH "$@"; } # command...
as_user() { inside setpriv --reuid=chronova --regid=chronova --init-groups "$@"; } # command...
serve() { # starts the service's command without systemd
  EXEC=exec as_user chronova serve --data-dir /var/lib/chronova --config-file /etc/chronova/chronova.conf --listen "127.0.0.1:$PORT" >"$WORK/serve.log" 2>&1 &
  SERVER=$!
}
logged() { local file=$WORK/$1; shift; "$@" >"$file" 2>&1; } # file, command...
domains() { inside virsh -q -c qemu:///system list --all --name | grep .; }

# A guest boots with the installed package on the libvirtd of the same root. Its QEMU emulates the processor.
guest_boots() {
  local python; python=$(dirname "$(readlink -f "$(command -v openstack)")")/python3
  inside sh -c 'rm -rf /run/libvirt /etc/libvirt/qemu /etc/libvirt/storage; mkdir -p /run/libvirt /var/log/libvirt; cat >/etc/libvirt/qemu.conf' <<C
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
C
  # The group lets the service's user in. libvirtd's default asks polkit, which needs the system bus.
  inside sh -c 'cat >/etc/libvirt/libvirtd.conf' <<'C'
unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
auth_unix_rw = "none"
C
  EXEC=exec inside libvirtd >"$WORK/libvirtd.log" 2>&1 &
  LIBVIRTD=$!
  within 60 "libvirtd answers the service's user" as_user virsh -q -c qemu:///system list
  serve
  within 60 "the service starts with libvirt" curl -fsS -m 2 -o /dev/null "http://127.0.0.1:$PORT/healthz"
  inside cat /var/lib/chronova/clouds.yaml >"$WORK/clouds.yaml"
  export OS_CLIENT_CONFIG_FILE=$WORK/clouds.yaml OS_CLOUD=chronova
  rm -f "$WORK/client"
  "$python" "$HERE/client.py" serve "$WORK/client" >"$WORK/client.log" 2>&1 &
  CLIENT=$!
  wait_for 60 test -S "$WORK/client" || bad "the client starts" "$(cat "$WORK/client.log")"
  local failed=$FAILED
  within 120 "this machine is a compute host" eval 'os hypervisor list -f value -c State | grep -q up'
  if [ $FAILED = "$failed" ]; then serves_a_guest; else tail -n 30 "$WORK/serve.log" "$WORK/libvirtd.log"; fi
  kill "$CLIENT" "$SERVER" "$LIBVIRTD"
  wait "$CLIENT" "$SERVER" "$LIBVIRTD" 2>/dev/null
  CLIENT='' SERVER='' LIBVIRTD=''
}
serves_a_guest() {
  expect "an image is uploaded" logged image os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" packaged
  expect "a flavor is created" logged flavor os flavor create --vcpus 1 --ram 160 --disk 1 packaged
  expect "a server is built" logged server os server create --wait --flavor packaged --image packaged --nic none --os-compute-api-version 2.37 packaged
  within 180 "its guest boots" said packaged 'GUEST-READY'
  same "libvirt has one guest" "$(domains | wc -l)" 1
  expect "the server is deleted" os server delete --wait packaged
  same "libvirt has no guest" "$(domains)" ""
}
can_boot() { # remembers what is missing
  [ -s "${CHRONOVA_IMAGE:-}" ] || LACKS="CHRONOVA_IMAGE names no guest image, so no guest was booted"
  command -v openstack >/dev/null || LACKS="no openstack client on the PATH, so no guest was booted"
  [ -z "$LACKS" ]
}
put() { nsenter -t "$MACHINE" -m install -m 0644 "$1" "$WORK/copy/$2"; } # file, place
# Nova's own package has programs of the same names.
inside dpkg --force-all --purge nova-common >/dev/null 2>&1
inside rm -rf /etc/chronova /var/lib/chronova
put "$PACKAGE" /one.deb; put "$NEXT" /next.deb

expect "dpkg installs the package" inside dpkg --no-triggers -i /one.deb
same "its program runs" "$(inside chronova --version)" "$("$CHRONOVA_BIN" --version)"
like "Nova's name for the manager's program works" "$(inside nova-manage --help 2>&1)" 'cell_v2'
like "the service's user may use libvirt" "$(inside id chronova)" '\(libvirt\)'
same "the data folder is the user's alone" "$(inside stat -c '%a %U %G' /var/lib/chronova)" "700 chronova chronova"
same "the user may read the configuration, and nobody else" "$(inside stat -c '%a %U %G' /etc/chronova/chronova.conf)" "640 root chronova"
expect "the user's check of the configuration passes" as_user chronova config check /etc/chronova/chronova.conf
# shellcheck disable=SC2016
like "bash completes the commands" "$(inside bash -c '. /usr/share/bash-completion/completions/chronova
  COMP_WORDS=(chronova reb) COMP_CWORD=1; _chronova chronova reb chronova; echo "${COMPREPLY[@]}"')" '^rebuild$'

PORT=$(free_port)
inside sed -i 's|^hypervisors = .*|hypervisors = sim://2|' /etc/chronova/chronova.conf
serve
within 60 "the service's command starts the server without systemd" curl -fsS -m 2 -o /dev/null "http://127.0.0.1:$PORT/healthz"
kill "$SERVER"; wait "$SERVER"
same "SIGTERM ends the server" "$? $(pgrep -f "serve --data-dir /var/lib/chronova .*127.0.0.1:$PORT")" "0 "
EVENTS=$(as_user chronova audit --data-dir /var/lib/chronova | wc -l)
expect "the log has events" test "$EVENTS" -gt 4

# ------------------------------------------------------------------------------------------------ upgrade, remove, purge

expect "dpkg upgrades the package" inside dpkg --no-triggers -i --force-confdef --force-confold /next.deb
same "the newer version is installed" "$(inside dpkg-query -W -f '${Version}' chronova)" "$DEB_VERSION"
like "the changed configuration stays" "$(inside cat /etc/chronova/chronova.conf)" '^hypervisors = sim://2$'
same "the log stays" "$(as_user chronova audit --data-dir /var/lib/chronova | wc -l)" "$EVENTS"
expect "dpkg removes the package" inside dpkg --no-triggers -r chronova
expect "the program is gone" inside test ! -e /usr/bin/chronova
expect "the configuration stays after a removal" inside test -e /etc/chronova/chronova.conf
inside dpkg --no-triggers --purge chronova >"$WORK/purge" 2>&1
like "a purge says that the log stays" "$(cat "$WORK/purge")" '/var/lib/chronova stays'
expect "a purge removes the configuration" inside test ! -e /etc/chronova
expect "the log stays after a purge" inside test -s /var/lib/chronova/log.db
expect "dpkg installs the package beside the old log" inside dpkg --no-triggers -i /one.deb
[ -x /usr/sbin/libvirtd ] || LACKS="no libvirtd is installed, so no guest was booted"
! long_run || ! can_boot || guest_boots
inside touch /etc/chronova/purge-data
expect "dpkg purges the package with its data" inside dpkg --no-triggers --purge chronova
expect "such a purge removes the log" inside test ! -e /var/lib/chronova
long_run || verdict
unset DEB_VERSION
expect "the package is built again" build "$WORK/two"
same "both builds are equal" "$(sums "$WORK/one")" "$(sums "$WORK/two")"

# ------------------------------------------------------------------------------------------------------- a fresh Debian

command -v debootstrap >/dev/null || cannot "debootstrap is not installed"
FRESH=$WORK/fresh
expect "a fresh Debian 12 is made" logged debootstrap.log debootstrap --variant=minbase bookworm "$FRESH"
cp "$PACKAGE" "$FRESH/one.deb"
expect "apt installs the package with what it needs" logged apt-install.log chroot "$FRESH" apt-get -y -qq --no-install-recommends install /one.deb
expect "its program runs in a fresh Debian" chroot "$FRESH" chronova config check /etc/chronova/chronova.conf
# A package that brings a daemon must not start it on this machine.
printf '#!/bin/sh\nexit 101\n' >"$FRESH/usr/sbin/policy-rc.d"; chmod +x "$FRESH/usr/sbin/policy-rc.d"
expect "apt installs libvirt and QEMU later" logged apt-libvirt.log chroot "$FRESH" apt-get -y -qq --no-install-recommends install \
  libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils
kill "$MACHINE"; rm -f "$WORK/ready"
# shellcheck disable=SC2016
unshare -m bash -c '
  mount --rbind "$0/fresh" "$0/fresh" && mount -t proc proc "$0/fresh/proc" && mount --rbind /dev "$0/fresh/dev" && mount -t sysfs sysfs "$0/fresh/sys" \
    && mount -t tmpfs run "$0/fresh/run" && touch "$0/ready" && exec sleep 3600' "$WORK" &
MACHINE=$! ROOT=$FRESH
wait_for 20 test -e "$WORK/ready" || cannot "a fresh Debian cannot be mounted here"
PORT=$(free_port)
! can_boot || guest_boots
expect "apt purges the package" logged apt-purge.log inside apt-get -y -qq purge chronova
expect "the log stays after apt's purge" inside test -s /var/lib/chronova/log.db
expect "dpkg installs the package in a fresh Debian" logged dpkg.log inside dpkg -i /one.deb
inside touch /etc/chronova/purge-data
expect "apt purges the package with its data" logged apt-purge.log inside apt-get -y -qq purge chronova
expect "such a purge by apt removes the log" inside test ! -e /var/lib/chronova

# --------------------------------------------------------------------------------------------------------- the OCI image

command -v buildah >/dev/null || cannot "buildah is not installed"
oci() { buildah --root "$WORK/store" --runroot "$WORK/run" --storage-driver vfs "$@"; }
expect "the OCI image is built" bash "$(dirname "$0")/../../ops/packaging/oci.sh" "$PACKAGE" "$WORK/chronova.oci"
CONTAINER=$(oci from "oci-archive:$WORK/chronova.oci")
same "its program runs as the service's user" "$(oci run --isolation chroot "$CONTAINER" sh -c 'id -un; chronova --version' | tr '\n' ' ')" \
  "chronova $("$CHRONOVA_BIN" --version) "
same "its data folder is the user's alone" "$(oci run --isolation chroot --user root "$CONTAINER" stat -c '%a %U %G' /var/lib/chronova)" "700 chronova chronova"
oci rm "$CONTAINER" >/dev/null
[ -z "$LACKS" ] || cannot "$LACKS"
verdict
