# Sets a Debian 12 machine up for Chronova; sourced by ops/up.sh and ops/test.sh, run as root.
#
#   setup_packages THEME...           installs the missing Debian packages of build, client, host, guest, testbed,
#                                     openstack, neutron, cinder, store, served, horizon, broker, cluster, nova, node, package,
#                                     foreign
#   setup_client [NAME==VERSION...]   installs the `openstack` client and the named packages in .venv
#   setup_dashboard_tools             installs into tests/browser/node_modules the tools that check the dashboard
#   setup_rust                        checks that the Rust toolchain is new enough, or says how to get one
#   install_program FROM TO           copies a program without its debug information, which goes to TO.debug
#   libvirt_start DIR                 starts virtlogd and libvirtd if none runs, and records in DIR what it started
#   libvirt_stop DIR                  stops exactly what libvirt_start recorded in DIR
#
# A function whose work is already done changes nothing. A function that fails prints a sentence on standard error and
# returns non-zero.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$TOP/.venv
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

# ------------------------------------------------------------------------------------------------------------- packages

PACKAGES_BUILD=(gcc g++ binutils libc6-dev pkg-config libvirt-dev ca-certificates git curl procps)
# python3-venv makes the client's environment.
PACKAGES_CLIENT=(python3 python3-venv)
PACKAGES_HOST=(libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-system libvirt-daemon-config-nwfilter
  libvirt-clients qemu-system-x86 qemu-system-common qemu-system-data qemu-utils qemu-block-extra
  dnsmasq-base iproute2 iptables nftables dmidecode)
# The tools with which tests/testbed/make-image.sh builds a guest image.
PACKAGES_GUEST=(busybox-static syslinux syslinux-common mtools dosfstools fdisk cpio kmod lz4 qemu-utils)
# The tools with which tests/testbed/hosts.sh builds further compute hosts. sqlite3 reads a log while the server writes
# it. The event store's tests start their own PostgreSQL. Chromium shows the dashboard, and a guest's screen with
# spice-html5. Prometheus answers the queries of the Grafana dashboard.
PACKAGES_TESTBED=(util-linux postgresql-15 mariadb-server sqlite3 openssl valgrind gcc libc6-dev swtpm swtpm-tools ovmf bridge-utils
  chromium chromium-driver spice-html5 prometheus)

# The tools that check the dashboard's types and lint run on Node. A machine that has npm keeps its Node.
PACKAGES_NODE=(nodejs npm)

# Build the Debian package and the OCI image. debootstrap makes a fresh Debian.
PACKAGES_PACKAGE=(dpkg-dev adduser debootstrap buildah)

# Real services of OpenStack, for tests/testbed/{keystone,glance,barbican}.sh. uWSGI runs them.
PACKAGES_OPENSTACK=(keystone glance-api barbican-api uwsgi-plugin-python3)

# Horizon, for tests/testbed/horizon.sh.
PACKAGES_HORIZON=(openstack-dashboard uwsgi-plugin-python3)

# Neutron, its database, and OVN with Open vSwitch as its data plane, for tests/testbed/neutron.sh. Neutron's metadata
# agent needs haproxy.
PACKAGES_NEUTRON=("${PACKAGES_OPENSTACK[@]}" mariadb-server python3-pymysql neutron-api neutron-rpc-server openvswitch-switch
  ovn-central ovn-host ethtool haproxy)

# A message broker, and a client of it, for tests/real/notifications.sh.
PACKAGES_BROKER=(rabbitmq-server python3-kombu)

# A replicated database, for tests/testbed/cluster.sh. Only a long run uses it. Without python3-etcd, Patroni does not
# know etcd.
PACKAGES_CLUSTER=(postgresql-15 patroni python3-etcd etcd-server etcd-client iptables iproute2 openssl curl)

# Cinder and its database, and Ceph, for tests/testbed/{cinder,ceph}.sh. The host's QEMU and libvirt use Ceph's disks.
PACKAGES_CINDER=("${PACKAGES_OPENSTACK[@]}" mariadb-server python3-pymysql cinder-api cinder-scheduler cinder-volume ceph-mon
  ceph-mgr ceph-osd ceph-common python3-rbd python3-rados qemu-block-extra libvirt-daemon-driver-storage-rbd)

# Ceph and its gateway for clients of S3, for tests/soak/s3.sh.
PACKAGES_STORE=(ceph-mon ceph-mgr ceph-osd ceph-common radosgw)

# Servers that give files of this machine to the hosts as volumes, for tests/testbed/{tgt,ganesha}.sh. QEMU connects to
# them without help of its host.
PACKAGES_SERVED=(tgt nfs-ganesha nfs-ganesha-vfs rpcbind)

# Nova and Placement, for tests/testbed/nova.sh. The code of nova-compute is in python3-nova. genisoimage makes config
# drives.
PACKAGES_NOVA=("${PACKAGES_NEUTRON[@]}" "${PACKAGES_BROKER[@]}" nova-api nova-conductor nova-scheduler placement-api python3-nova
  python3-libvirt genisoimage)

# Emulators of other architectures, and UEFI for aarch64, for tests/real/foreign.sh.
PACKAGES_FOREIGN=(qemu-system-arm qemu-efi-aarch64 qemu-system-ppc qemu-system-misc)

package_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# Prints NAME=VERSION. On a machine with an emulator and libvirtd, a package of QEMU or libvirt gets the installed
# version. Any other package gets the version of the distribution's own suite, not of backports. All of QEMU must come
# from one suite: qemu-utils of backports breaks qemu-system-common of stable, and apt then REMOVES the emulator. The
# same is true of libvirt-dev and libvirt0.
package_pin() {
  local name=$1 sibling='' version=''
  case $name in libvirt-*) sibling=libvirt0 ;; qemu-*) sibling=qemu-system-x86 ;; esac
  if [ -n "$sibling" ] && host_complete && package_installed "$sibling"; then
    version=$(dpkg-query -W -f='${Version}' "$sibling")
    apt-cache madison "$name" | awk '{print $3}' | grep -qxF "$version" || version=
  fi
  [ -n "$version" ] || version=$(apt-cache madison "$name" 2>/dev/null | awk '$3 !~ /bpo/ { print $3; exit }')
  echo "$name${version:+=$version}"
}

# Whether the machine has an emulator and libvirtd. Such a machine keeps them, whatever their suite. Each name has its
# own check, because `command -v` with several names succeeds as soon as one of them exists.
host_complete() {
  local program
  for program in libvirtd virtlogd virsh qemu-system-x86_64 qemu-img dnsmasq; do
    command -v "$program" >/dev/null || return 1
  done
}

setup_packages() { # themes...
  local theme name wanted=() missing=() pinned=0 log=${TMPDIR:-/tmp}/chronova-apt.log
  for theme in "$@"; do
    case $theme in
      build) wanted+=("${PACKAGES_BUILD[@]}") ;;
      client) wanted+=("${PACKAGES_CLIENT[@]}") ;;
      host) host_complete || { wanted+=("${PACKAGES_HOST[@]}"); pinned=1; } ;;
      guest) wanted+=("${PACKAGES_GUEST[@]}") ;;
      testbed) wanted+=("${PACKAGES_TESTBED[@]}") ;;
      node) command -v npm >/dev/null || wanted+=("${PACKAGES_NODE[@]}") ;;
      package) wanted+=("${PACKAGES_PACKAGE[@]}") ;;
      broker) wanted+=("${PACKAGES_BROKER[@]}") ;;
      cluster) wanted+=("${PACKAGES_CLUSTER[@]}") ;;
      openstack) wanted+=("${PACKAGES_OPENSTACK[@]}") ;;
      horizon) wanted+=("${PACKAGES_HORIZON[@]}") ;;
      neutron) wanted+=("${PACKAGES_NEUTRON[@]}") ;;
      cinder) wanted+=("${PACKAGES_CINDER[@]}") ;;
      store) wanted+=("${PACKAGES_STORE[@]}") ;;
      served) wanted+=("${PACKAGES_SERVED[@]}") ;;
      nova) wanted+=("${PACKAGES_NOVA[@]}") ;;
      foreign) wanted+=("${PACKAGES_FOREIGN[@]}") ;;
      *) echo "setup_packages: no theme $theme" >&2; return 2 ;;
    esac
  done
  for name in "${wanted[@]}"; do
    # On a machine that keeps its own emulator, any version of qemu-utils will do.
    package_installed "$name" || missing+=("$name")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || { echo "these packages are missing, and only root can install them: ${missing[*]}" >&2; return 1; }
  # A package that brings a daemon must not start it here.
  local apt=(env RUNLEVEL=1 apt-get -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3
    -o Dpkg::Options::=--force-confold)
  # Fetches the package lists again if they are older than a day.
  if [ -z "$(find /var/lib/apt/lists -name '*_Packages*' -mmin -1440 -print -quit 2>/dev/null)" ]; then
    "${apt[@]}" update >"$log" 2>&1 || { tail -5 "$log" >&2; return 1; }
  fi
  local chosen=()
  for name in "${missing[@]}"; do chosen+=("$(package_pin "$name")"); done
  if [ $pinned = 1 ]; then # the whole set, so that all of QEMU and libvirt is of one suite
    for name in "${PACKAGES_HOST[@]}" qemu-utils libvirt-dev; do chosen+=("$(package_pin "$name")"); done
  fi
  "${apt[@]}" --allow-downgrades install "${chosen[@]}" >"$log" 2>&1 || { tail -20 "$log" >&2; return 1; }
}

# ---------------------------------------------------------------------------------------------------- client, toolchain

CLIENT=(python-openstackclient osc-placement)

setup_client() { # further packages, NAME==VERSION...
  local name has missing=()
  [ -x "$VENV/bin/openstack" ] || missing+=("${CLIENT[@]}")
  for name in "$@"; do
    has=$("$VENV/bin/pip" show "${name%%==*}" 2>/dev/null | sed -n 's/^Version: //p') || has=
    [ "$has" = "${name##*==}" ] || missing+=("$name")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  python3 -m venv "$VENV" && "$VENV/bin/pip" install --quiet --disable-pip-version-check "${missing[@]}"
}

# package-lock.json has the versions and checksums.
setup_dashboard_tools() {
  local place=$TOP/tests/browser
  [ "$place/node_modules/.package-lock.json" -nt "$place/package-lock.json" ] && return 0
  setup_packages node || return 1
  npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --loglevel=error
}

setup_rust() {
  local need have
  export PATH="$HOME/.cargo/bin:$PATH"
  need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$TOP/Cargo.toml")
  have=$(rustc --version 2>/dev/null | awk '{print $2}')
  if [ -n "$have" ] && printf '%s\n%s\n' "$need" "$have" | sort -V -C; then return 0; fi
  echo "Rust $need or newer is needed (found: ${have:-none}). Debian 12 has an older one: install rustup from" \
    "its site, then run this again." >&2
  return 1
}

# -------------------------------------------------------------------------------------------------------------- libvirt

libvirt_answers() { timeout 20 virsh -q -c qemu:///system hostname >/dev/null 2>&1; }

# Whether process $1 is alive and runs the program $2.
runs_as() { [ -n "$1" ] && [ "$(basename "$(readlink "/proc/$1/exe" 2>/dev/null)" 2>/dev/null)" = "$2" ]; }

# Copies a program. Debuggers, profilers and backtraces find TO.debug by a link in the copy. A copy that is newer than
# FROM is kept. Only its owner may read the copy, because it may be in the data folder.
install_program() { # from, to
  local from=$1 to=$2
  [ "$to" -nt "$from" ] && [ -e "$to.debug" ] && return 0
  mkdir -p -m 0700 "$(dirname "$to")" && objcopy --only-keep-debug "$from" "$to.debug" && chmod 0600 "$to.debug" \
    && objcopy --strip-all --add-gnu-debuglink="$to.debug" "$from" "$to.new" && chmod 0700 "$to.new" && mv -f "$to.new" "$to"
}

# Waits until a command succeeds: seconds, command...
wait_for() {
  local until=$((SECONDS + $1)); shift
  while ! "$@"; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.2
  done
}

# Without udev, /dev/kvm does not get the group of QEMU. Then libvirt does not trust its cached QEMU capabilities and
# probes them again (10 to 15 seconds) whenever it defines a guest.
kvm_permit() {
  [ -c /dev/kvm ] && [ ! -d /run/udev/data ] && getent group kvm >/dev/null || return 0
  chown root:kvm /dev/kvm && chmod 660 /dev/kvm
}

libvirt_start() { # DIR
  local dir=$1 unit name
  mkdir -p "$dir"
  if libvirt_answers; then return 0; fi
  kvm_permit 2>/dev/null || true
  if [ -d /run/systemd/system ]; then
    for unit in virtlogd.socket libvirtd.socket libvirtd.service; do
      systemctl is-active --quiet "$unit" && continue
      systemctl start "$unit" && echo "$unit" >>"$dir/libvirt-units"
    done
  else
    for name in virtlogd libvirtd; do # virtlogd first: it keeps the consoles' logs
      [ "$name" = virtlogd ] && [ -S /run/libvirt/virtlogd-sock ] && pgrep -x virtlogd >/dev/null && continue
      # A killed daemon leaves its socket.
      rm -f "/run/libvirt/$name-sock"
      mkdir -p /run/libvirt /var/log/libvirt
      "/usr/sbin/$name" --daemon --pid-file "$dir/$name.pid" >"$dir/$name.out" 2>&1 || { cat "$dir/$name.out" >&2; return 1; }
    done
  fi
  wait_for 60 libvirt_answers || { echo "libvirtd was started and does not answer; see /var/log/libvirt" >&2; return 1; }
}

libvirt_stop() { # DIR
  local dir=$1 name pid unit
  if [ -s "$dir/libvirt-units" ]; then
    tac "$dir/libvirt-units" | while read -r unit; do systemctl stop "$unit"; done
    rm -f "$dir/libvirt-units"
  fi
  for name in libvirtd virtlogd; do
    pid=$(cat "$dir/$name.pid" 2>/dev/null) || continue
    if runs_as "$pid" "$name"; then
      kill "$pid"
      wait_for 30 eval "! runs_as $pid $name" || { echo "$name ($pid) does not stop" >&2; return 1; }
    fi
    rm -f "$dir/$name.pid" "$dir/$name.out"
  done
}
