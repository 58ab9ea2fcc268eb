# A control plane with the compute hosts of hosts.sh, and functions to query both; sourced by the scripts in tests/real
# that move guests.
#
#   fleet_open NAME ID NET HOSTS [shared]   starts HOSTS hosts (testbed ID) and a control plane, with HOUSE_CONF as in
#                                           house.sh. With `shared`, the servers' disks are on storage that all hosts
#                                           have
#   hosts COMMAND...                        runs hosts.sh
#
#   FLEET_OPTIONS   options of `hosts.sh up`
#   FLEET_WIRE      how the control plane connects to libvirtd: UNIX (default), TCP or TLS
#
# Volumes are on storage that all hosts have.
# The hosts are h1, h2...; they and the control plane end with the script.

. "$(dirname "${BASH_SOURCE[0]}")/house.sh"

hosts() { bash "$HERE/hosts.sh" "$@"; }

fleet_open() { # name, testbed, first two numbers of its networks, number of hosts, storage
  [ "$(id -u)" = 0 ] || cannot "needs root, for hosts in namespaces"
  local up uri; up=$(mktemp)
  export TESTBED_ID=${TESTBED_ID:-$2}
  STATE=${TESTBED_STATE:-/var/tmp/tb-$TESTBED_ID}
  STORAGE=${5:-local}
  hosts down >/dev/null 2>&1
  trap 'hosts down >/dev/null 2>&1' EXIT
  # shellcheck disable=SC2086
  hosts up "$4" ${FLEET_OPTIONS:-} >"$up" 2>&1 || { tail -n 5 "$up"; rm -f "$up"; cannot "the hosts do not start here"; }
  rm -f "$up"
  . "$STATE/hosts.env"
  HYPERVISORS=
  for ((host = 1; host <= $4; host++)); do uri=h${host}_${FLEET_WIRE:-UNIX}; HYPERVISORS+="${!uri} "; done
  HOUSE_CONF=$(printf '[volume]\nshared = true\npool_path = %s/shared/volumes\n%s' "$STATE" "${HOUSE_CONF:-}")
  [ "$STORAGE" = local ] || HOUSE_CONF=$(printf '%s\n[DEFAULT]\ninstances_path = %s/shared/instances' "${HOUSE_CONF:-}" "$STATE")
  house_open "$1" "$3"
}
house_last() { hosts down >/dev/null 2>&1; }

# ------------------------------------------------------------------------------------------------- queries of the hosts

uri_of() { local uri=${1}_UNIX; echo "${!uri}"; }
on() { local host=$1; shift; virsh -q -c "$(uri_of "$host")" "$@" 2>/dev/null; } # host, virsh command
all_hosts() { (cd "$STATE" && ls -d h[0-9]* | sort -V); }
other() { all_hosts | grep -vx "$1" | head -n 1; } # the first host but this one
runs_on() { [ "$(on "$1" domstate "$2" | head -n 1)" = running ]; } # host, uuid
# The number of hosts on which the guest runs. It must never be two.
runs() { for host in $(all_hosts); do on "$host" list --uuid | grep -x "$1"; done | wc -l; } # uuid
# Lists a server's guest and disks on a host. With shared storage, the only listed disks are copies that were set aside.
left_on() { # host, uuid
  local part="^$2_"
  [ "$STORAGE" = local ] || part="^$2_kept"
  on "$1" list --all --uuid | grep -x "$2"
  on "$1" pool-refresh chronova >/dev/null
  on "$1" vol-list chronova | awk '{print $1}' | grep "$part"
}
# Lists what all hosts still have of a deleted server.
rest_of() { for host in $(all_hosts); do files_on "$host" "$1"; on "$host" list --all --uuid | grep -x "$1"; done; } # uuid
disk_of() { on "$1" pool-refresh chronova >/dev/null; on "$1" vol-dumpxml "$2_disk" chronova | sed -n "s/.*<capacity unit='bytes'>\(.*\)<.*/\1/p"; } # host, uuid
files_on() { on "$1" pool-refresh chronova >/dev/null; on "$1" vol-list chronova | awk '{print $1}' | grep "^$2_"; } # host, uuid

# Runs a command in a guest over its serial console on that host. mark_at and marker_at write and read a word on the
# guest's disk (see lifecycle.sh).
at() { local host=$1; shift; INSIDE_URI=$(uri_of "$host") inside "$@"; } # host, uuid, command
mark_at() { at "$1" "$2" "mkdir -p /m && mount -t vfat /dev/vda1 /m && echo $3 >/m/marker && sync && dd if=/dev/null of=/m/marker conv=notrunc,fsync 2>/dev/null && umount /m && sync"; } # host, uuid, word
marker_at() { at "$1" "$2" "mkdir -p /m && mount -t vfat /dev/vda1 /m && cat /m/marker 2>/dev/null; umount /m" 2>/dev/null | tail -n 1; } # host, uuid
boots_at() { at "$1" "$2" "mkdir -p /m && mount -t vfat /dev/vda1 /m && cat /m/boots 2>/dev/null; umount /m" 2>/dev/null | tail -n 1; } # host, uuid

# ----------------------------------------------------------------------------------------- queries of the control plane

place() { get server "$1" OS-EXT-SRV-ATTR:host; }
at_rest() { is "$1" "$2" && [ "$(get server "$1" OS-EXT-STS:task_state)" = None ]; } # server, status
is_at() { at_rest "$1" ACTIVE && [ "$(place "$1")" = "$2" ]; } # server, host
host_stands() { [ "$(os hypervisor list -f value -c 'Hypervisor Hostname' -c State 2>/dev/null | awk -v host="$1" '$1 == host {print $2}')" = "$2" ]; } # host, state
moves_of() { os server migration list --server "$1" --os-compute-api-version 2.59 --sort-column Id --sort-ascending -f value "${@:2}"; } # server, columns
number_of() { moves_of "$1" -c Id | tail -n 1; }
# The client finds a migration by its UUID only.
uuid_of() { moves_of "$1" -c UUID | tail -n 1; }
migration_is() { [ "$(moves_of "$1" -c Status | tail -n 1)" = "$2" ]; } # server, status
migration_over() { ! moves_of "$1" -c Status | tail -n 1 | grep -qE 'accepted|queued|preparing|running|migrating|finishing|finished'; }

# -------------------------------------------------------------------------------------------------------------- flavors

# Makes the flavor $NAME-name with a disk of 1 GiB.
flavor() { # name, MiB, CPUs, extra specs...
  local name=$1 memory=$2 cpus=$3 spec options=(); shift 3
  for spec in "$@"; do options+=(--property "$spec"); done
  os flavor create --vcpus "$cpus" --ram "$memory" --disk 1 "${options[@]}" "$NAME-$name" >"$WORK/flavor-$name" 2>&1 \
    || bad "the flavor $name is made" "$(cat "$WORK/flavor-$name")"
}

# ------------------------------------------------------------------------------------------------- a volume of a server

# give_volume attaches a volume to a server as its second disk. write_on and read_on let the guest write and read a word
# in a sector of the volume that no file system uses. With an empty name of the disk, nothing is read or written.
give_volume() { # server
  os volume create --size 1 "$NAME-volume" >"$WORK/volume" 2>&1 || bad "a volume is requested" "$(tail -n 5 "$WORK/volume")"
  within 60 "a volume is available" volume_is available
  expect "the volume is attached" os server add volume "$1" "$NAME-volume" >"$WORK/attached"
  within 60 "the volume is in use" volume_is in-use
}
volume_is() { [ "$(get volume "$NAME-volume" status)" = "$1" ]; }
attached_to() { os volume show "$1" -f json -c attachments 2>/dev/null | grep -oE '"server_id": "[^"]*"' | cut -d '"' -f 4; } # volume
write_on() { at "$1" "$2" "echo $3 | dd of=/dev/${4-vdb} bs=512 seek=200 conv=fsync 2>/dev/null"; } # host, uuid, word, disk
read_on() { at "$1" "$2" "dd if=/dev/${3-vdb} bs=512 skip=200 count=1 iflag=direct 2>/dev/null | head -n 1"; } # host, uuid, disk
drop_volume() {
  within 60 "the volume is available again" volume_is available
  os volume delete "$NAME-volume"
  within 60 "the volume is deleted" no_volume "$NAME-volume"
  same "no file of the volume is left" "$(ls "$STATE/shared/volumes" 2>/dev/null)" ""
}

# ----------------------------------------------------------------------------------- a guest that counts on its console

# User data that makes the guest count on its console.
counting() { printf '#!/bin/sh\ntouch /run/tick\n' >"$WORK/tick"; echo "$WORK/tick"; }
ticks() { console "$1" | grep -aoE 'GUEST-TICK [0-9]+' | awk '{print $2}'; }
last_tick() { ticks "$1" | tail -n 1; }
ticks_on() { local now; now=$(last_tick "$1"); [ "${now:-0}" -gt "${2:-0}" ]; } # server, count
# Prints gaps in the count. Without gaps, the guest lost no output and did not restart.
gaps() { ticks "$1" | awk 'NR > 1 && $1 != before + 1 {print "after " before " came " $1} {before = $1}'; }
# Checks that the same guest continues to count.
counts_on() { # server
  local seen; seen=$(last_tick "$1")
  within 40 "the guest continues to count" ticks_on "$1" "$((seen + 2))"
  same "the guest counted without a gap" "$(gaps "$1")" ""
  same "the guest did not boot again" "$(count_said "$1" 'GUEST-READY')" 1
}

# ------------------------------------------------------------------------------- options and times of the control plane

with() { # options of [libvirt], with which the control plane is started again
  house_stop
  sed -i '/^\[libvirt\]$/,$d' "$CONF"
  printf '%s\n' '[libvirt]' "$@" >>"$CONF"
  house_start || bad "the control plane starts again" "$(tail -n 20 "$WORK/chronova.log")"
  within 60 "the hosts are up again" host_is up
}
# Prints the milliseconds in the last log line that matches.
took() { sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -a "$1" | tail -n 1 | grep -oE 'milliseconds=[0-9]+' | cut -d= -f2; }
# Prints the control plane's share of the last live migration of a server, in milliseconds: the time from the request to
# the end according to the server's events, without libvirt's call. Also prints the time of each step.
overhead() { # server
  local request
  request=$(os server event list "$1" --os-compute-api-version 2.79 -f value -c 'Request ID' -c Action | awk '$2 == "live-migration" {print $1; exit}')
  os server event show "$1" "$request" --os-compute-api-version 2.79 -f json 2>/dev/null | python3 -c '
import datetime, json, sys
call = int(sys.argv[1])
at = lambda text: datetime.datetime.fromisoformat(text.rstrip("Z"))
events = sorted(json.load(sys.stdin)["events"], key=lambda event: event["finish_time"])
whole = [event for event in events if event["event"] == "compute_live_migration"][0]
before = at(whole["start_time"])
steps = []
for event in events:
    name, now = ("the rest" if event is whole else event["event"]), at(event["finish_time"])
    steps.append("%s %d" % (name, (now - before).total_seconds() * 1000 - (call if name == "migrate" else 0)))
    before = now
took = (before - at(whole["start_time"])).total_seconds() * 1000
print("%d ms beside %d of libvirt: %s" % (took - call, call, ", ".join(steps)))' \
    "$(took "the hosts' migration has ended")"
}
median() { sort -n | awk '{all[NR] = $1} END {print all[int((NR + 1) / 2)]}'; }
