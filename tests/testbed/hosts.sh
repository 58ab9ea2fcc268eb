#!/bin/bash
# hosts.sh up N [--dhcp] [--root-link] | down | status | exec H CMD.. | ctl CMD.. | restart H | freeze H | thaw H
#          | crash H | boot H | cut H | heal H | userfault H on|off | certify H ours|foreign|none [PART]
#
# N compute hosts on one machine. Each host has its own network, mount, uts, ipc and pid namespaces. It has its own
# libvirtd, /etc/libvirt, /etc/pki, /var/lib/libvirt, /run/libvirt, host name and host UUID. It also has an address for
# management (10.231.0.x, hN) and one for incoming migrations (10.233.0.x, hN-moves). Until `certify` changes them, all
# certificates of libvirtd and QEMU come from one authority. Both ends of every TLS connection are verified.
#
#   up N              starts N hosts (default: 2), and writes $STATE/hosts.json and $STATE/hosts.env (shell variables
#                     h1_UNIX, h1_TCP, h1_TLS, h1_IP)
#     --dhcp          also answers DHCP on the guests' network
#     --root-link     also lets this machine itself reach 10.231.0.x
#   down              ends every process of the hosts (by pid namespace), and removes the network namespaces and the
#                     testbed's directory
#   status            lists the hosts
#   exec H CMD..      runs CMD in host H
#   ctl CMD..         runs CMD in the controller's network namespace
#   restart H         restarts the host's libvirtd; the guests continue to run
#   freeze H, thaw H  stops the host's libvirtd; continues it
#   crash H, boot H   ends the host as a power failure does; starts it again
#   cut H, heal H     takes the host's management link down; takes it up again
#   userfault H ..    sets whether the host lets QEMU handle page faults, which post-copy needs; see the shim
#   certify H ..      gives the host's QEMU (with PART libvirt: its libvirtd) certificates of the testbed's authority
#                     (ours), of another authority (foreign), or none. QEMU reads its certificates for every migration.
#                     libvirtd reads its server certificate only at its start
#
# Environment:
#   TESTBED_ID        one short word for each testbed (default: a)
#   TESTBED_STATE     the testbed's directory (default: /var/tmp/tb-$TESTBED_ID). Its path is short, because paths of
#                     sockets have at most 107 bytes
#   TESTBED_CACHE     a directory that keeps libvirtd's knowledge of QEMU for the next testbed
#                     (default: /var/tmp/chronova-testbed)
#   TESTBED_LVM       "GROUP MIB": each host has a volume group of that name and size; see lvm.sh
#   TESTBED_PLAIN_TAPS  if set, the guests' tap devices have no header of virtio-net; see the shim
#   TESTBED_VNC_TLS     if set, guests' VNC servers accept only TLS (VeNCrypt) with certificates of both sides
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
ID=${TESTBED_ID:-a}
STATE=${TESTBED_STATE:-/var/tmp/tb-$ID}
CACHE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}
SELF=$(realpath "$0")
. "$(dirname "$SELF")/still_runs.sh"
FABRIC=tb$ID-fab      # the controller's network namespace, with the bridges of all networks
MANAGEMENT=10.231.0   # host i is .10+i, the controller .1
GUESTS=10.232.0       # the guests' wire, bridged as br-int on every host
MOVES=10.233.0        # addresses for incoming migrations; host i is .10+i

host_ip() { echo "$MANAGEMENT.$((10 + ${1#h}))"; }
moves_ip() { echo "$MOVES.$((10 + ${1#h}))"; }
host_uuid() {
  printf 'testbed-%s-%s' "$ID" "$1" | md5sum \
    | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-4\3-8\4-\5/'
}
host_mac() { printf '02:%s' "$(printf '%s-%s-%s' "$ID" "$1" "$2" | md5sum | sed -E 's/^(..)(..)(..)(..)(..).*/\1:\2:\3:\4:\5/')"; }
uri_unix() { echo "qemu+unix:///system?socket=$STATE/$1/run/libvirt-sock"; }
hosts() { (cd "$STATE" && ls -d h[0-9]* | sort -V); }
alive() { [ -s "$STATE/$1/init.pid" ] && still_runs -p "$(cat "$STATE/$1/init.pid")"; }
answers() { virsh -q -c "$(uri_unix "$1")" version >/dev/null 2>"$STATE/$1/probe.log"; }
need() { [ -d "$STATE/$1" ] || { echo "hosts.sh: no host $1 in $STATE" >&2; exit 1; }; }

# --------------------------------------------------------------------------------------------------------- certificates

make_authority() { # directory
  mkdir -p "$1"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "/CN=testbed-$ID-$(basename "$1")" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$1/ca.key" -out "$1/cacert.pem" 2>/dev/null
}

# libvirt requires keyEncipherment in a server's key usage.
make_certificate() { # authority, common name, alternative names, usage, certificate, key
  local work; work=$(mktemp -d)
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/O=testbed/CN=$2" \
    -keyout "$6" -out "$work/request" 2>/dev/null
  printf '%s\n' "subjectAltName=$3" keyUsage=critical,digitalSignature,keyEncipherment \
    "extendedKeyUsage=$4" basicConstraints=CA:FALSE >"$work/extensions"
  openssl x509 -req -in "$work/request" -CA "$1/cacert.pem" -CAkey "$1/ca.key" -set_serial "0x$(openssl rand -hex 8)" \
    -days 3650 -extfile "$work/extensions" -out "$5" 2>/dev/null
  rm -r "$work"
}

# The layout below /etc/pki follows libvirt's documentation of TLS.
certify() { # H, ours|foreign|none, qemu|libvirt
  local h=$1 P=$STATE/$1/pki part=${3:-qemu} authority=$STATE/pki/$2 names
  names="DNS:$h,DNS:$h-moves,DNS:localhost,IP:$(host_ip "$h"),IP:$(moves_ip "$h"),IP:127.0.0.1"
  case $part in
    qemu) set -- "$P/qemu/ca-cert.pem" "$P/qemu/server-cert.pem" "$P/qemu/server-key.pem" "$P/qemu/client-cert.pem" "$P/qemu/client-key.pem" ;;
    libvirt) set -- "$P/CA/cacert.pem" "$P/libvirt/servercert.pem" "$P/libvirt/private/serverkey.pem" "$P/libvirt/clientcert.pem" "$P/libvirt/private/clientkey.pem" ;;
    *) echo "hosts.sh: certificates are of qemu or libvirt, not $part" >&2; exit 2 ;;
  esac
  mkdir -p "$P/CA" "$P/qemu" "$P/libvirt/private"
  rm -f "$@"
  [ "$authority" != "$STATE/pki/none" ] || return 0
  [ -s "$authority/ca.key" ] || { echo "hosts.sh: no authority $authority" >&2; exit 2; }
  cp "$authority/cacert.pem" "$1"
  make_certificate "$authority" "$h" "$names" serverAuth "$2" "$3"
  make_certificate "$authority" "$h" "$names" clientAuth "$4" "$5"
}

# The certificates of the controller, in the layout that `pkipath` takes.
certify_controller() {
  local dir=$STATE/pki/client
  mkdir -p "$dir"
  cp "$STATE/pki/ours/cacert.pem" "$dir/cacert.pem"
  make_certificate "$STATE/pki/ours" client DNS:client clientAuth "$dir/clientcert.pem" "$dir/clientkey.pem"
}

# ---------------------------------------------------------------------------------------------------------------- hosts

# A preloaded shim changes four behaviours of libvirtd and QEMU.
#
# libvirtd refuses a live migration with disks on a local file system. But $STATE/shared is the same directory on every
# host, so the shim makes statfs() report NFS for it. (From 10.9 on, shared_filesystems in qemu.conf does that.)
#
# libvirtd gives every guest whole mebibytes of memory. An emulating QEMU before 9.0 has a bug with such sizes in
# cpu_physical_memory_sync_dirty_bitmap (the branch for multiples of 64 pages). While it collects dirty pages, it does
# not re-arm the notification of the next write. A migrated guest then misses some of its last writes, and sometimes
# hangs or oopses (lost_writes.py shows it). The shim makes the memory 8 KiB smaller, so QEMU checks page by page and
# avoids the bug.
#
# With TESTBED_PLAIN_TAPS the guests' tap devices have no header of virtio-net. Then QEMU offers guests no checksum and
# segmentation offload, which user-space Open vSwitch (neutron.sh) does not complete.
#
# QEMU inherits the shim from libvirtd. If the host has `userfault off`, the shim refuses QEMU's request to handle page
# faults.
make_shim() {
  cat >"$STATE/shim.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#define SHIM(NAME, TYPE) \
  int NAME(const char *path, struct TYPE *buffer) { \
    static int (*real)(const char *, struct TYPE *); \
    if (!real) real = (int (*)(const char *, struct TYPE *))dlsym(RTLD_NEXT, #NAME); \
    int result = real(path, buffer); \
    const char *shared = getenv("TESTBED_SHARED"); \
    if (result == 0 && shared && !strncmp(path, shared, strlen(shared))) buffer->f_type = 0x6969; \
    return result; \
  }
SHIM(statfs, statfs)
SHIM(statfs64, statfs64)

long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_userfaultfd && access("/etc/libvirt/no-userfaultfd", F_OK) == 0) {
    errno = EPERM;
    return -1;
  }
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

int ioctl(int file, unsigned long request, ...) {
  static int (*real)(int, unsigned long, ...);
  if (!real) real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
  va_list list;
  va_start(list, request);
  void *argument = va_arg(list, void *);
  va_end(list);
  const char *plain = getenv("TESTBED_PLAIN_TAPS");
  if (request == TUNSETIFF && plain && *plain) ((struct ifreq *)argument)->ifr_flags &= ~IFF_VNET_HDR;
  return real(file, request, argument);
}

/* A guest's QEMU is started with "-m MIB" and {"qom-type":"memory-backend-ram","id":"pc.ram","size":BYTES}. For
   a guest with a NUMA node, the "id" is "ram-node0", and more follows the size, such as the host nodes of the memory. */
int execve(const char *path, char *const arguments[], char *const environment[]) {
  int (*real)(const char *, char *const[], char *const[]) = (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
  static const char emulator[] = "/qemu-system-x86_64";
  static const char *const backends[] = {
    "{\"qom-type\":\"memory-backend-ram\",\"id\":\"pc.ram\",\"size\":",
    "{\"qom-type\":\"memory-backend-ram\",\"id\":\"ram-node0\",\"size\":",
  };
  enum { MOST = 1024, LESS = 8192 };
  static char *changed[MOST], memory[64], object[512];
  const char *backend = 0, *rest = 0;
  size_t length = strlen(path), count = 0, at_memory = 0, at_object = 0;
  unsigned long long mebibytes = 0, bytes = 0;
  if (length >= sizeof emulator && !strcmp(path + length - (sizeof emulator - 1), emulator)) {
    for (; arguments[count] && count < MOST - 1; count++) {
      const char *argument = changed[count] = arguments[count];
      char *end = 0;
      if (count && !strcmp(arguments[count - 1], "-m")) {
        mebibytes = strtoull(argument + (strncmp(argument, "size=", 5) ? 0 : 5), &end, 10);
        if (!*end || !strcmp(end, "k")) at_memory = count;
        if (*end == 'k') mebibytes >>= 10;
      }
      for (int kind = 0; kind < 2; kind++) {
        if (strncmp(argument, backends[kind], strlen(backends[kind]))) continue;
        bytes = strtoull(argument + strlen(backends[kind]), &end, 10);
        if (*end == '}' || *end == ',') at_object = count, backend = backends[kind], rest = end;
      }
    }
    if (at_memory && at_object && !arguments[count] && bytes == mebibytes << 20 && bytes > LESS) {
      snprintf(memory, sizeof memory, "%lluk", (bytes - LESS) >> 10);
      snprintf(object, sizeof object, "%s%llu%s", backend, bytes - LESS, rest);
      changed[at_memory] = memory;
      changed[at_object] = object;
      changed[count] = 0;
      arguments = changed;
    }
  }
  return real(path, arguments, environment);
}
C
  gcc -O1 -shared -fPIC -D_LARGEFILE64_SOURCE -o "$STATE/shim.so" "$STATE/shim.c" -ldl
}

make_host() { # H: directories, configuration, certificate
  local h=$1 H=$STATE/$1
  mkdir -p "$H"/{etc/qemu,lib,run,log,cache,local,pki,swtpm-ca,swtpm-log}
  # A host does not get the packet filters of this machine's guests.
  [ ! -d /etc/libvirt/nwfilter ] || { cp -r /etc/libvirt/nwfilter "$H/etc/" && rm -f "$H"/etc/nwfilter/chronova-*.xml; }
  certify "$h" ours qemu
  certify "$h" ours libvirt
  cat >"$H/etc/libvirtd.conf" <<C
host_uuid = "$(host_uuid "$h")"
listen_tcp = 1
listen_tls = 1
listen_addr = "0.0.0.0"
auth_tcp = "none"
auth_tls = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0777"
tls_no_verify_certificate = 0
max_clients = 500
max_workers = 40
max_client_requests = 20
log_level = ${TESTBED_LOG_LEVEL:-3}
log_outputs = "${TESTBED_LOG_LEVEL:-3}:file:/var/log/libvirt/libvirtd.log"
ovs_timeout = 30
C
  # No cgroups, no security driver and no virtlogd, because the hosts would share them.
  cat >"$H/etc/qemu.conf" <<C
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
vnc_listen = "0.0.0.0"
spice_listen = "0.0.0.0"
migration_host = "$(host_ip "$h")"
migration_address = "0.0.0.0"
default_tls_x509_cert_dir = "/etc/pki/qemu"
default_tls_x509_verify = 1
swtpm_user = "root"
swtpm_group = "root"
max_core = 0
shared_filesystems = [ "$STATE/shared" ]
C
  if [ -n "${TESTBED_VNC_TLS:-}" ]; then
    cp -r "$H/pki/qemu" "$H/pki/libvirt-vnc"
    printf '%s\n' 'vnc_tls = 1' 'vnc_tls_x509_cert_dir = "/etc/pki/libvirt-vnc"' 'vnc_tls_x509_verify = 1' >>"$H/etc/qemu.conf"
  fi
  printf '%s = /var/lib/swtpm-localca%s\n' statedir '' signingkey /signkey.pem issuercert /issuercert.pem \
    certserial /certserial >"$H/swtpm-localca.conf"
}

boot_host() { # H: network links, namespaces, libvirtd
  local h=$1 H=$STATE/$1 n=${1#h} wire outer init=''
  ! alive "$h" || return 0
  ip netns del "tb$ID-$h" 2>/dev/null || true
  ip netns add "tb$ID-$h"
  local inside=(ip -n "tb$ID-$h")
  "${inside[@]}" link set lo up
  for wire in m p v; do # m: management, p: the guests' wire, v: moves
    ip -n "$FABRIC" link del "$wire$n" 2>/dev/null || true
    # A rebooted host keeps its MAC address, because other hosts have it in their neighbour tables.
    ip -n "$FABRIC" link add "$wire$n" type veth peer name "x$wire" address "$(host_mac "$h" "$wire")" netns "tb$ID-$h"
    ip -n "$FABRIC" link set "$wire$n" master "br$wire" up
  done
  "${inside[@]}" link set xm name mgmt0
  "${inside[@]}" addr add "$(host_ip "$h")/24" dev mgmt0
  "${inside[@]}" link set mgmt0 up
  "${inside[@]}" link set xv name moves0
  "${inside[@]}" addr add "$(moves_ip "$h")/24" dev moves0
  "${inside[@]}" link set moves0 up
  "${inside[@]}" link set xp name phys0
  "${inside[@]}" link add br-int type bridge forward_delay 0
  "${inside[@]}" link set phys0 master br-int up
  "${inside[@]}" link set br-int up
  "${inside[@]}" route add default via "$MANAGEMENT.1" 2>/dev/null || true
  rm -rf "$H/init.pid" "$H/run"/*
  setsid nohup nsenter --net=/run/netns/"tb$ID-$h" unshare --mount --uts --ipc --pid --fork --kill-child \
    bash "$SELF" __init "$h" >"$H/init.log" 2>&1 </dev/null &
  outer=$!
  echo $outer >"$H/outer.pid"
  for _ in $(seq 300); do
    init=$(tr -d ' ' <"/proc/$outer/task/$outer/children" 2>/dev/null || true)
    [ -z "$init" ] || [ ! -S "$H/run/libvirt-sock" ] || break
    still_runs -p $outer || { echo "hosts.sh: $h did not start:" >&2; tail -n 5 "$H/init.log" >&2; return 1; }
    sleep 0.1
  done
  echo "$init" >"$H/init.pid"
  for _ in $(seq 300); do
    ! answers "$h" || return 0
    sleep 0.1
  done
  echo "hosts.sh: libvirtd of $h does not answer: $(cat "$H/probe.log")" >&2
  return 1
}

run_host() { # as pid 1 of host H's namespaces
  local h=$1 H=$STATE/$1 other
  mount --make-rprivate /
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  hostname "$h"
  echo '127.0.0.1 localhost' >"$H/hosts"
  for other in $(hosts); do printf '%s\n' "$(host_ip "$other") $other" "$(moves_ip "$other") $other-moves" >>"$H/hosts"; done
  mkdir -p /etc/libvirt /etc/pki /var/lib/libvirt /run/libvirt /var/log/libvirt /var/cache/libvirt /var/lib/swtpm-localca /var/log/swtpm
  mount --bind "$H/etc" /etc/libvirt
  mount --bind "$H/pki" /etc/pki
  mount --bind "$H/lib" /var/lib/libvirt
  mount --bind "$H/run" /run/libvirt
  mount --bind "$H/log" /var/log/libvirt
  mount --bind "$H/cache" /var/cache/libvirt
  mount --bind "$H/hosts" /etc/hosts
  mount --bind "$H/swtpm-ca" /var/lib/swtpm-localca
  mount --bind "$H/swtpm-log" /var/log/swtpm
  [ ! -e /etc/swtpm-localca.conf ] || mount --bind "$H/swtpm-localca.conf" /etc/swtpm-localca.conf
  # The path is the same on every host, but each host has its own directory there.
  mount --bind "$H/local" "$STATE/local"
  ulimit -n 65536 2>/dev/null || true
  # shellcheck disable=SC2086
  [ -z "${TESTBED_LVM:-}" ] || bash "$(dirname "$SELF")/lvm.sh" __host $TESTBED_LVM
  while :; do # bash as pid 1 also reaps orphaned processes
    rm -f /run/libvirt/libvirtd.pid
    TESTBED_SHARED=$STATE/shared LD_PRELOAD=$STATE/shim.so /usr/sbin/libvirtd --listen --pid-file /run/libvirt/libvirtd.pid &
    echo $! >"$H/libvirtd.pid"
    wait $! || true
    echo "libvirtd ended"
    sleep 0.3
  done
}

write_list() {
  local h ip separator=''
  : >"$STATE/hosts.env"
  {
    printf '{"id":"%s","state":"%s","shared":"%s","local":"%s","controller_netns":"%s","controller_ip":"%s","hosts":[' \
      "$ID" "$STATE" "$STATE/shared" "$STATE/local" "$FABRIC" "$MANAGEMENT.1"
    for h in $(hosts); do
      ip=$(host_ip "$h")
      printf '%s\n{"name":"%s","ip":"%s","uuid":"%s","pid":%s,"netns":"%s","bridge":"br-int","local_dir":"%s","log":"%s",' \
        "$separator" "$h" "$ip" "$(host_uuid "$h")" "$(cat "$STATE/$h/init.pid")" "tb$ID-$h" "$STATE/$h/local" \
        "$STATE/$h/log/libvirtd.log"
      printf '"uri_unix":"%s","uri_tcp":"qemu+tcp://%s/system","uri_tls":"qemu+tls://%s/system?pkipath=%s"}' \
        "$(uri_unix "$h")" "$ip" "$ip" "$STATE/pki/client"
      separator=,
      printf '%s\n' "${h}_UNIX=\"$(uri_unix "$h")\"" "${h}_TCP=\"qemu+tcp://$ip/system\"" \
        "${h}_TLS=\"qemu+tls://$ip/system?pkipath=$STATE/pki/client\"" "${h}_IP=$ip" >>"$STATE/hosts.env"
    done
    printf '\n]}\n'
  } >"$STATE/hosts.json"
}

# ------------------------------------------------------------------------------------------------------------- commands

up() {
  local count=${1:-2} dhcp=0 link=0 option i probes=$CACHE/qemu-probes waiting=()
  shift || true
  for option in "$@"; do
    case $option in
      --dhcp) dhcp=1 ;;
      --root-link) link=1 ;;
      *) echo "hosts.sh: no option $option" >&2; exit 2 ;;
    esac
  done
  [ "$count" -ge 1 ] && [ "$count" -le 40 ] || { echo "hosts.sh: N is 1 to 40" >&2; exit 2; }
  [ ! -e "$STATE/hosts.json" ] || { echo "hosts.sh: already up in $STATE (hosts.sh down first)" >&2; exit 1; }
  mkdir -p "$STATE"/{shared,local}
  chmod 755 "$STATE"
  trap 'echo "hosts.sh: up failed; clear away with: hosts.sh down" >&2' ERR
  make_fabric
  [ $link = 0 ] || make_root_link
  [ $dhcp = 0 ] || ip netns exec "$FABRIC" dnsmasq --conf-file=/dev/null --port=0 --interface=brp --bind-interfaces \
    --except-interface=lo --dhcp-range="$GUESTS.100,$GUESTS.250,1h" \
    --dhcp-option="121,169.254.169.254/32,$GUESTS.1,0.0.0.0/0,$GUESTS.1" --dhcp-leasefile="$STATE/leases" \
    --pid-file="$STATE/dnsmasq.pid" --log-facility="$STATE/dnsmasq.log" --no-ping
  make_authority "$STATE/pki/ours"
  make_authority "$STATE/pki/foreign"
  certify_controller
  make_shim
  # libvirtd probes QEMU's capabilities, which takes seconds, so its cache of them is kept. libvirtd itself discards
  # stale entries.
  for i in $(seq "$count"); do
    make_host "h$i"
    [ ! -d "$probes" ] || cp -a "$probes/." "$STATE/h$i/cache/"
  done
  boot_host h1
  if [ -d "$STATE/h1/cache/qemu" ]; then
    mkdir -p "$probes"
    cp -a "$STATE/h1/cache/." "$probes/"
  fi
  for i in $(seq 2 "$count"); do
    cp -a "$STATE/h1/cache/." "$STATE/h$i/cache/" 2>/dev/null || true
    boot_host "h$i" &
    waiting+=($!)
  done
  for i in "${waiting[@]}"; do wait "$i"; done
  write_list
  trap - ERR
  echo "$STATE/hosts.json"
}

make_fabric() {
  local bridge
  ip netns add "$FABRIC"
  ip -n "$FABRIC" link set lo up
  for bridge in brm brp brv; do
    ip -n "$FABRIC" link add $bridge type bridge forward_delay 0
    ip -n "$FABRIC" link set $bridge up
  done
  ip -n "$FABRIC" addr add "$MANAGEMENT.1/24" dev brm
  ip -n "$FABRIC" addr add "$GUESTS.1/24" dev brp
  ip -n "$FABRIC" addr add 169.254.169.254/32 dev brp # the address of a metadata server that `ctl` started
}

make_root_link() {
  ip -n "$FABRIC" link add rl type veth peer name "tb$ID-m" netns $$
  ip -n "$FABRIC" link set rl master brm up
  ip addr add "$MANAGEMENT.2/24" dev "tb$ID-m"
  ip link set "tb$ID-m" up
}

down() {
  local dir file name
  for dir in "$STATE"/h[0-9]*; do
    for file in init.pid outer.pid; do
      [ ! -s "$dir/$file" ] || kill -9 "$(cat "$dir/$file")" 2>/dev/null || true
    done
  done
  [ ! -s "$STATE/dnsmasq.pid" ] || kill "$(cat "$STATE/dnsmasq.pid")" 2>/dev/null || true
  for name in $(ip netns list 2>/dev/null | awk '{ print $1 }'); do
    case $name in "tb$ID-fab" | "tb$ID-h"[0-9]*) ip netns del "$name" ;; esac
  done
  ip link del "tb$ID-m" 2>/dev/null || true
  bash "$(dirname "$SELF")/lvm.sh" __gone "$STATE" || true
  for _ in $(seq 10); do
    rm -rf "$STATE" 2>/dev/null && break
    sleep 0.3
  done
  [ ! -e "$STATE" ] || { echo "hosts.sh: left over: $STATE" >&2; exit 1; }
  echo down
}

status() {
  local h guests
  [ -e "$STATE/hosts.json" ] || { echo "not up ($STATE)"; return 0; }
  for h in $(hosts); do
    if alive "$h"; then
      guests=$(timeout 10 virsh -q -c "$(uri_unix "$h")" list --all --name 2>/dev/null | grep -c . || true)
      echo "$h up ip=$(host_ip "$h") guests=$guests uri=$(uri_unix "$h")"
    else
      echo "$h down ip=$(host_ip "$h")"
    fi
  done
}

restart() {
  local h=$1 H=$STATE/$1 before
  before=$(cat "$H/libvirtd.pid")
  nsenter -t "$(cat "$H/init.pid")" -m -p -- kill "$before"
  for _ in $(seq 600); do
    [ "$(cat "$H/libvirtd.pid")" = "$before" ] || ! answers "$h" || return 0
    sleep 0.1
  done
  echo "hosts.sh: libvirtd of $h does not come back" >&2
  return 1
}

signal() { # H, signal
  nsenter -t "$(cat "$STATE/$1/init.pid")" -m -p -- kill "-$2" "$(cat "$STATE/$1/libvirtd.pid")"
}

crash() {
  local h=$1
  kill -9 "$(cat "$STATE/$h/init.pid")"
  for _ in $(seq 100); do
    alive "$h" || break
    sleep 0.1
  done
  rm -f "$STATE/$h/run/libvirt-sock"
}

command=${1:-status}
shift || true
case $command in
  up) up "$@" ;;
  down) down ;;
  status) status ;;
  exec) need "$1"; h=$1; shift; exec nsenter -t "$(cat "$STATE/$h/init.pid")" -m -u -i -n -p -- "$@" ;;
  ctl) exec ip netns exec "$FABRIC" "$@" ;;
  restart) need "$1"; restart "$1" ;;
  freeze) need "$1"; signal "$1" STOP ;;
  thaw) need "$1"; signal "$1" CONT ;;
  crash) need "$1"; crash "$1" ;;
  boot) need "$1"; boot_host "$1"; write_list ;;
  cut) need "$1"; ip -n "$FABRIC" link set "m${1#h}" down ;;
  heal) need "$1"; ip -n "$FABRIC" link set "m${1#h}" up ;;
  userfault) need "$1"; if [ "$2" = on ]; then rm -f "$STATE/$1/etc/no-userfaultfd"; else touch "$STATE/$1/etc/no-userfaultfd"; fi ;;
  certify) need "$1"; certify "$1" "$2" "${3:-qemu}" ;;
  __init) run_host "$1" ;;
  *) sed -n '2,/^set /s/^# \{0,1\}//p' "$SELF" >&2; exit 2 ;;
esac
