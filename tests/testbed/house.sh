# A control plane on this machine's libvirtd, and functions to query it; sourced by the scripts in tests/real.
#
#   CHRONOVA_BIN, CHRONOVA_IMAGE   the binary, the guest image; `openstack` is on the PATH
#   HYPERVISORS                    the value of the option `hypervisors` (default: this machine's libvirt)
#   HOUSE_CONF                     further lines of the configuration file
#   HOUSE_CLOUDS                   a clouds.yaml that the script writes itself (default: the control plane's)
#   HOUSE_PATIENCE                 the seconds that a start of the control plane may take (default: 60)
#   house_first                    a function that runs before the control plane starts, for example to add to $CONF
#   CHRONOVA_CHECKS                a file that gets one line for each check: ok or FAIL, the script, the check
#
# Exit status of the scripts: 0 passed, 77 cannot run here (the last line says why), 1 a check failed.
# Each script has its own prefix of guests' names, which ops/up.sh does not use. Some scripts use the same addresses for
# their networks, so scripts that use this machine's libvirtd must not run at the same time.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../ops/setup.sh"
. "$HERE/console.sh"
. "$HERE/free_port.sh"
. "$HERE/still_runs.sh"
FAILED=0
VIRSH=(virsh -q -c qemu:///system)
v() { "${VIRSH[@]}" "$@" 2>/dev/null; }

# Ends a script that cannot run here, with the reason as one line. house_close repeats the reason as its last line.
cannot() {
  REASON=$(tr '\n' ' ' <<<"$*")
  echo "${REASON% }"
  [ $FAILED = 0 ] || exit 1 # a check has failed before
  exit 77
}

# Ends a script that needs a program that is not installed.
needs_programs() { # the packages' name for setup_packages, programs...
  local packages=$1 program; shift
  for program in "$@"; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || cannot "no $program here: setup_packages $packages of ops/setup.sh installs it"
  done
}

# --------------------------------------------------------------------------------------------------------------- checks

record() { [ -z "${CHRONOVA_CHECKS:-}" ] || printf '%s\ttests/real/%s\t%s\n' "$1" "$(basename "$0")" "$2" >>"$CHRONOVA_CHECKS"; } # outcome, check
ok() { record ok "$*"; printf '%4d s  ok    %s\n' $SECONDS "$*"; }
bad() { record FAIL "$1"; FAILED=$((FAILED + 1)); printf '%4d s  FAIL  %s\n' $SECONDS "$1"; shift; [ $# = 0 ] || printf '%s\n' "$@" | head -n 30 | cut -c 1-300 | sed 's/^/        /'; }
expect() { local what=$1; shift; if "$@"; then ok "$what"; else bad "$what" "$*"; fi; } # what, command...
same() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "got:    $2" "wanted: $3"; fi; } # what, got, wanted
like() { if grep -qE -- "$3" <<<"$2"; then ok "$1"; else bad "$1" "nothing like /$3/ in:" "$2"; fi; } # what, text, pattern
unlike() { if grep -qE -- "$3" <<<"$2"; then bad "$1" "/$3/ is in:" "$2"; else ok "$1"; fi; }
# Waits until the command succeeds. The seconds are those of a quiet machine: beside other work, it may take three times as
# long.
within() { # seconds, what, command...
  local seconds=$(($1 * 3)) what=$2; shift 2
  if wait_for "$seconds" "$@"; then ok "$what"; else bad "$what (within $seconds s)" "$*"; fi
}

# ---------------------------------------------------------------------------------------------------- the control plane

house_open() { # NAME, first two numbers of its networks
  NAME=$1 NET=$2
  [ -x "${CHRONOVA_BIN:-}" ] || cannot "CHRONOVA_BIN names no program"
  [ -s "${CHRONOVA_IMAGE:-}" ] || cannot "CHRONOVA_IMAGE names no guest image"
  command -v openstack >/dev/null || cannot "no openstack client on the PATH"
  [ -n "${HYPERVISORS:-}" ] || libvirt_answers || cannot "no libvirtd answers at qemu:///system"
  house_clear
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/chronova-$NAME.XXXXXX") DATA=$WORK/data CONF=$WORK/chronova.conf
  PORT=$(free_port) || cannot "no port is free"
  URL=http://127.0.0.1:$PORT
  printf '%s\n' '[DEFAULT]' "instance_name_template = $NAME-%08x" 'report_interval = 2' 'service_down_time = 6' \
    'shutdown_timeout = 30' '[chronova]' "hypervisors = ${HYPERVISORS:-qemu:///system}" ${HOUSE_CONF:+"$HOUSE_CONF"} >"$CONF"
  trap house_close EXIT
  trap 'exit 1' TERM INT
  export OS_CLIENT_CONFIG_FILE=${HOUSE_CLOUDS:-$DATA/clouds.yaml} OS_CLOUD=chronova
  local python
  python=$(dirname "$(readlink -f "$(command -v openstack)")")/python3
  "$python" "$HERE/client.py" serve "$WORK/client" >"$WORK/client.log" 2>&1 &
  CLIENT=$!
  wait_for 60 test -S "$WORK/client" || { bad "the client starts" "$(cat "$WORK/client.log")"; exit 1; }
  ! declare -F house_first >/dev/null || house_first
  house_start || { bad "the control plane starts" "$(tail -n 30 "$WORK/chronova.log")"; exit 1; }
  within 60 "the compute host is up" host_is up
}

# Removes the guests and networks that a killed run of the script left on this machine's libvirtd. libvirt starts such a
# network again with its daemon, and then refuses this run's network with the same addresses.
house_clear() {
  local name
  house_guests
  for name in $(v net-list --all --name | grep '^chronova-'); do
    v net-dumpxml "$name" | grep -q "<ip address='${NET//./\\.}\\." || continue
    v net-destroy "$name"; v net-undefine "$name"
  done >/dev/null
}

# Removes the guests of the script.
house_guests() {
  local name
  for name in $(v list --all --name | grep "^$NAME-"); do v destroy "$name"; v undefine --nvram --managed-save "$name"; done >/dev/null
}

house_start() {
  setsid "$CHRONOVA_BIN" serve --data-dir "$DATA" --listen "127.0.0.1:$PORT" --config-file "$CONF" >>"$WORK/chronova.log" 2>&1 </dev/null &
  HOUSE=$!
  wait_for "${HOUSE_PATIENCE:-60}" curl -fsS -m 5 -o /dev/null "$URL/healthz" 2>/dev/null
}

# Kills the control plane without a shutdown.
house_kill() { kill -9 "$HOUSE"; wait "$HOUSE" 2>/dev/null; HOUSE=; }

house_stop() {
  [ -n "${HOUSE:-}" ] || return 0
  kill "$HOUSE"
  wait_for 30 eval "! still_runs -p $HOUSE" || { kill -9 "$HOUSE"; bad "the control plane ends within 30 s of SIGTERM"; }
  wait "$HOUSE" 2>/dev/null
  HOUSE=
}

house_close() {
  local status=$? name
  [ -z "${CLIENT:-}" ] || kill "$CLIENT" 2>/dev/null
  house_stop
  # Removes leftovers of a failed check.
  house_guests
  for name in "${SERVERS[@]}"; do
    for volume in $(v vol-list chronova | awk '{print $1}' | grep "^${name}_"); do v vol-delete "$volume" chronova; done >/dev/null
  done
  for name in "${NETWORKS[@]}"; do v net-destroy "chronova-${name:0:8}"; v net-undefine "chronova-${name:0:8}"; done >/dev/null
  # The folder of a failed run stays, because it has the error messages.
  if [ $FAILED = 0 ] && [[ $status = 0 || $status = 77 ]]; then rm -rf "$WORK"; else echo "the files of this run: $WORK"; fi
  # The script's own clean-up.
  ! declare -F house_last >/dev/null || house_last
  [ $status != 77 ] || echo "${REASON% }"
}
SERVERS=() NETWORKS=()

# Whether this is a long run (`ops/test.sh --soak`). The short form of a script ends at its line `long_run || ...`.
long_run() { [ -n "${CHRONOVA_SOAK:-}" ]; }

# Ends a script.
verdict() {
  [ $FAILED = 0 ] || { echo "$FAILED checks failed"; exit 1; }
  echo "all as it must be, in $SECONDS s"
  exit 0
}

# -------------------------------------------------------------------------------------------------------------- queries

os() { python3 -S -I "$HERE/client.py" run "$WORK/client" "$@"; }
get() { os "$1" show "$2" -f value -c "$3" 2>/dev/null; } # noun, name, field
get2() { os "$1" "$2" show "$3" -f value -c "$4" 2>/dev/null; } # noun of two words, name, field
status_of() { get server "$1" status; }
is() { [ "$(status_of "$1")" = "$2" ]; } # server, status
gone() { ! os server show "$1" >/dev/null 2>&1; }
# Whether there is no such resource in the list of its kind. If the list fails, nobody knows, and the answer is no.
absent() { # id or name, options and kind...
  local name=$1 all; shift
  all=$(os "$@" list -f value -c ID -c Name 2>/dev/null) \
    && ! awk -v name="$name" '$1 == name || $2 == name {found = 1} END {exit !found}' <<<"$all"
}
no_volume() { absent "$1" volume; }
no_snapshot() { absent "$1" volume snapshot; }
host_is() { [ "$(os hypervisor list -f value -c State 2>/dev/null | sort -u)" = "$1" ]; }
service_is() { [ "$(os compute service list --service nova-compute -f value -c State 2>/dev/null)" = "$1" ]; }
console() { os console log show "$1" 2>/dev/null | tr -d '\r'; }
said() { console "$1" | grep -aqE -- "$2"; } # server, pattern
count_said() { console "$1" | grep -acE -- "$2"; }
# Waits until a guest is booted. The script ends if the server is in ERROR, because nothing that needs the guest can pass.
ready() { # server, what, boots
  [ "$(status_of "$1")" != ERROR ] || { bad "${2:-$1 is booted}" "$(get server "$1" fault)"; exit 1; }
  within 180 "${2:-$1 is booted}" said "$1" "GUEST-READY hostname=.* boots=${3:-1} "
}

# QEMU's process of a server's guest.
qemu_of() { pgrep -f "qemu-system.*-uuid $1" | head -n 1; } # uuid
domain_is() { [ "$(v domstate "$1" | head -n 1)" = "$2" ]; }

# A public image, a flavor and a network, all named after the script.
house_furnish() {
  os image create --disk-format qcow2 --container-format bare --file "$CHRONOVA_IMAGE" --public "$NAME" >"$WORK/image" 2>&1 \
    || bad "the image is uploaded" "$(cat "$WORK/image")"
  os flavor create --vcpus 1 --ram 160 --disk 1 "$NAME" >"$WORK/flavor" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor")"
  os network create "$NAME" >"$WORK/network" 2>&1 || bad "the network is made" "$(cat "$WORK/network")"
  os subnet create --network "$NAME" --subnet-range "$NET.1.0/24" "$NAME" >"$WORK/subnet" 2>&1 || bad "the subnet is made" "$(cat "$WORK/subnet")"
  NETWORKS+=("$(get network "$NAME" id)")
}

# Boots a server and stores its id in ID.
boot() { # name, options...
  local name=$1 wait=(--wait); shift
  [ "${1:-}" != --no-wait ] || { wait=(); shift; }
  os server create "${wait[@]}" --flavor "$NAME" --image "$NAME" --network "$NAME" "$@" "$name" >"$WORK/boot-$name" 2>&1 \
    || bad "$name is booted" "$(tail -n 20 "$WORK/boot-$name")"
  ID=$(get server "$name" id)
  SERVERS+=("$ID")
}

# Lists what the host still has of a server: its domain, its volumes, the network filter of its port, and the networks
# that name its MAC address. If libvirt does not answer, the list is not empty.
leftovers() { # uuid, port, MAC address
  v list --name >/dev/null || echo "libvirt does not answer"
  v list --all --uuid | grep -x "$1"
  v pool-refresh chronova >/dev/null
  v vol-list chronova | awk '{print $1}' | grep "^${1}_"
  [ -z "${2:-}" ] || v nwfilter-list | grep "$2"
  [ -z "${3:-}" ] || for network in $(v net-list --all --name | grep '^chronova-'); do v net-dumpxml "$network" | grep -i "$3"; done
}
