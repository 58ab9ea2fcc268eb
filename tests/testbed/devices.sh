# A control plane with the compute hosts of device-host.sh, which it reaches by SSH, and functions to query both; sourced by
# scripts of tests/soak. All functions of fleet.sh work on these hosts, too.
#
#   devices_open NAME ID NET HOSTS   starts HOSTS hosts (testbed ID) and a control plane, with HOUSE_CONF as in house.sh
#   devices COMMAND...               runs device-host.sh
#   shell H COMMAND...               runs a line of shell on host H as root
#   here H CHECK...                  `devices exec`
#
# The hosts are d1, d2...; they and the control plane end with the script. With DEVICES_KEEP=1, a script uses hosts that
# run already, and leaves its hosts running. That saves time during the work on a script.

. "$(dirname "${BASH_SOURCE[0]}")/fleet.sh"

devices() { bash "$HERE/device-host.sh" "$@"; }
shell() { local host=$1; shift; devices exec "$host" sh -c "$*"; }

# The functions of fleet.sh call these functions.
hosts() { devices "$@"; }
on() { local host=$1; shift; devices exec "$host" virsh -q -c qemu:///system "$@" 2>/dev/null; } # host, virsh command
all_hosts() { (cd "$STATE" && ls -d d[0-9]); }
at() { devices inside "$@"; } # host, uuid, command

devices_open() { # name, testbed, first two numbers of its networks, number of hosts
  local up uri
  [ "$(id -u)" = 0 ] || cannot "needs root, for the disks of the hosts"
  needs_programs package debootstrap
  needs_programs host qemu-system-x86_64 qemu-img ssh
  export TESTBED_ID=${TESTBED_ID:-$2}
  STATE=${TESTBED_DEVICES:-/var/tmp/dh-$TESTBED_ID}
  STORAGE=local
  export CHRONOVA_IMAGE=${CHRONOVA_IMAGE:-${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest.qcow2}
  if [ -z "${DEVICES_KEEP:-}" ] || [ ! -e "$STATE/hosts.env" ]; then
    devices down >/dev/null 2>&1
    trap devices_close EXIT
    up=$(mktemp)
    devices up "$4" >"$up" 2>&1 || { tail -n 15 "$up"; rm -f "$up"; cannot "the hosts do not start here"; }
    rm -f "$up"
  fi
  . "$STATE/hosts.env"
  HYPERVISORS=
  for ((host = 1; host <= $4; host++)); do uri=d${host}_SSH; HYPERVISORS+="${!uri} "; done
  # The hosts are slow.
  HOUSE_CONF=$(printf '[DEFAULT]\nreport_interval = 10\nservice_down_time = 60\nshutdown_timeout = 90\n[chronova]\ndriver_timeout = 600\n%s' "${HOUSE_CONF:-}")
  INSIDE_SECONDS=300
  export INSIDE_SECONDS
  house_open "$1" "$3"
}
devices_close() { [ -n "${DEVICES_KEEP:-}" ] || devices down >/dev/null 2>&1; }
house_last() { devices_close; }

# ------------------------------------------------------------------------------------------------------------- devices

# Prints the driver to which a device of a host is bound.
driver_of() { shell "$1" "basename \$(readlink /sys/bus/pci/devices/$2/driver) 2>/dev/null"; } # host, address
driver_is() { [ "$(driver_of "$1" "$2")" = "$3" ]; }
# The addresses of the devices that a guest has, as its definition names them.
passed_to() { on "$1" dumpxml --inactive "$2" | tr -d '\n' | grep -oE "<hostdev mode='subsystem' type='pci'.*</hostdev>" \
  | grep -oE "<source> *<address domain='0x[0-9a-f]*' bus='0x[0-9a-f]*' slot='0x[0-9a-f]*' function='0x[0-9a-f]'/>" \
  | sed -E "s/.*domain='0x(.*)' bus='0x(.*)' slot='0x(.*)' function='0x(.)'.*/\1:\2:\3.\4/"; } # host, uuid
# With sector_write and sector_read, a guest writes and reads a sector of a namespace. sector_of reads the sector in the
# namespace's file.
sector_write() { at "$1" "$2" "echo $3 | dd of=/dev/${5:-nvme0n1} bs=512 seek=$4 conv=fsync 2>/dev/null"; } # host, uuid, word, sector, disk
sector_read() { at "$1" "$2" "dd if=/dev/${4:-nvme0n1} bs=512 skip=$3 count=1 iflag=direct 2>/dev/null | tr -d '\\0' | head -n 1"; } # host, uuid, sector, disk
sector_of() { dd if="$STATE/$1/$2.img" bs=512 skip="$3" count=1 2>/dev/null | tr -d '\0' | head -n 1; } # host, file, sector
# Prints vendor and product of each device of this class that the guest sees.
guest_devices() { at "$1" "$2" "for d in /sys/bus/pci/devices/*; do case \$(cat \$d/class) in 0x$3*) echo \$(cat \$d/vendor):\$(cat \$d/device);; esac; done" | grep -E '^0x' | paste -sd ' '; } # host, uuid, class

# ----------------------------------------------------------------------------------------------------------- Placement

provider() { os resource provider list --name "$1" -f value -c uuid 2>/dev/null; } # name
used() { os resource provider usage show "$(provider "$1")" -f value -c resource_class -c usage 2>/dev/null | sort | paste -sd ' '; } # name
used_is() { [ "$(used "$1")" = "$2" ]; } # name, usage
stock() { os resource provider inventory list "$(provider "$1")" -f value -c resource_class -c total 2>/dev/null | sort | paste -sd ' '; } # name

# ------------------------------------------------------------------------------------------------------------- servers

# Makes a server without ports, and sets ID. Options may name the host.
make() { # name, flavor, options...
  local name=$1 flavor=$2; shift 2
  os server create --flavor "$NAME-$flavor" --image "$NAME" --nic none --config-drive True --os-compute-api-version 2.74 "$@" "$name" >"$WORK/make-$name" 2>&1 \
    || bad "$name is requested" "$(tail -n 20 "$WORK/make-$name")"
  ID=$(get server "$name" id)
  SERVERS+=("$ID")
}
built() { case $(status_of "$1") in ACTIVE | ERROR) return 0 ;; esac; return 1; } # server
stands() { # server, host: waits until it is ACTIVE there and its guest is booted
  wait_for 900 built "$1"
  same "$1 is ACTIVE on $2" "$(status_of "$1") $(place "$1")" "ACTIVE $2"
  [ "$(status_of "$1")" = ACTIVE ] || get server "$1" fault
  ready "$1" "the guest of $1 is booted" "${3:-1}"
}
fault() { get server "$1" fault; }
deleted() { expect "$1 is deleted" os server delete --wait "$1"; } # server
to_host() { os server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server
# The events of the newest action of a server.
reason() { os server event show "$1" "$(os server event list "$1" --os-compute-api-version 2.84 -f value -c 'Request ID' | head -n 1)" --os-compute-api-version 2.84 -f json 2>/dev/null; } # server

