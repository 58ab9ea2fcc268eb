#!/bin/bash
# One mixed soak: two real libvirt hosts and, beside them, simulated fleets. Clients send random operations on servers,
# volumes and images. Meanwhile the control plane is killed and stopped, hosts lose power or the network, libvirtds
# restart or freeze, the disk under the event log fills up, and the control plane's clock steps. Then the faults stop,
# and all records must agree: the acknowledged requests, the APIs, the hosts, Placement, quota, the pool of volumes and
# the log.
#
#   tests/soak/hour.sh [REPORT]     writes REPORT (default: docs/hour.md)
#
# CHRONOVA_BIN, CHRONOVA_DEV_BIN  the programs; CHRONOVA_IMAGE the guest image; `openstack` is on the PATH
# CHRONOVA_HOUR_SECONDS           the duration in seconds (default: 3600)
# CHRONOVA_HOUR_SEED              the seed of the clients, the faults and the simulated fleets (default: random; the
#                                 report has it)
#
# The script has its own hosts, ports and folders, so it may run beside other scripts. As root. Exit status as in
# house.sh.
set -uo pipefail
SOAK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP_REPORT=${1:-}
SECONDS_LONG=${CHRONOVA_HOUR_SECONDS:-3600} SEED=${CHRONOVA_HOUR_SEED:-$RANDOM}
export TESTBED_ID=${TESTBED_ID:-hr}
. "$SOAK/../testbed/fleet.sh"
. "$SOAK/../testbed/clock.sh"
REPORT=${TOP_REPORT:-$TOP/docs/hour.md}
BEGAN=$(date -u '+%F %H:%M') RANDOM=$SEED

# The control plane and this script run in the network namespace of the hosts, so they cannot reach another testbed.
if [ "${HOUR_INSIDE:-}" != "$TESTBED_ID" ]; then
  [ "$(id -u)" = 0 ] || cannot "needs root, for hosts in namespaces"
  [ -x "${CHRONOVA_BIN:-}" ] && [ -x "${CHRONOVA_DEV_BIN:-}" ] || cannot "CHRONOVA_BIN and CHRONOVA_DEV_BIN name no programs"
  hosts down >/dev/null 2>&1
  trap 'hosts down >/dev/null 2>&1' EXIT
  hosts up 2 >"/tmp/hour-up.$$" 2>&1 || { tail -n 5 "/tmp/hour-up.$$"; rm -f "/tmp/hour-up.$$"; cannot "the hosts do not start here"; }
  rm -f "/tmp/hour-up.$$"
  HOUR_INSIDE=$TESTBED_ID CHRONOVA_HOUR_SEED=$SEED nsenter --net="/run/netns/tb$TESTBED_ID-fab" bash "$0" "$@"
  exit $?
fi

STATE=${TESTBED_STATE:-/var/tmp/tb-$TESTBED_ID} STORAGE=local
. "$STATE/hosts.env"
export HYPERVISORS="$h1_TCP $h2_TCP"
# The commit in the report does not tell whether both programs are of that commit, so the report has their times, too.
built() { date -u -r "$1" '+%F %H:%M UTC'; } # file
PROGRAMS="\`chronova\` of $(built "$CHRONOVA_BIN"), \`chronova-dev\` of $(built "$CHRONOVA_DEV_BIN")"
printf '%4d s  programs: %s\n' $SECONDS "$PROGRAMS"
HOUSE_CONF=$(printf '%s\n' '[volume]' 'shared = true' "pool_path = $STATE/shared/volumes" 'quota_volumes = 100' 'quota_snapshots = 100' \
  '[quota]' 'instances = 100' 'cores = 200' 'ram = 100000' '[DEFAULT]' 'shutdown_timeout = 5' 'running_deleted_instance_action = reap')

# Gives the control plane a separate disk for its data, and a clock that can step.
house_first() {
  REAL_BIN=$CHRONOVA_BIN
  truncate -s 3G "$WORK/disk" && mkfs.ext4 -q "$WORK/disk" && mkdir "$DATA" && mount -o loop "$WORK/disk" "$DATA" && chmod 700 "$DATA" \
    || { umount "$DATA" 2>/dev/null; cannot "no separate disk can be mounted"; }
  rmdir "$DATA/lost+found"
  clock_build "$WORK/clock.so" || cannot "the clock cannot be built"
  clock_ahead "$WORK/clock" 0
  printf '#!/bin/sh\nCLOCK_AHEAD=%s LD_PRELOAD=%s exec %s "$@"\n' "$WORK/clock" "$WORK/clock.so" "$REAL_BIN" >"$WORK/chronova"
  chmod +x "$WORK/chronova"
  CHRONOVA_BIN=$WORK/chronova
}
house_last() {
  [ -z "${CHAOS:-}" ] || kill -- "-$CHAOS" 2>/dev/null
  [ -z "${CLIENTS:-}" ] || kill "$CLIENTS" 2>/dev/null
  for _ in $(seq 20); do umount "$DATA" 2>/dev/null && break; mountpoint -q "$DATA" || break; sleep 0.5; done
  mountpoint -q "$DATA" || [ $FAILED != 0 ] || rm -rf "$WORK"
}

house_open hour 10.76
within 60 "both hosts are up" eval 'host_stands h1 up && host_stands h2 up'
house_furnish
os flavor create --vcpus 1 --ram 192 --disk 1 "$NAME-larger" >"$WORK/larger" 2>&1 || bad "the larger flavor is made" "$(cat "$WORK/larger")"
PASSWORD=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml" | head -n 1)
python3 - "$WORK/cloud.json" "$URL" "$PASSWORD" "$(get network "$NAME" id)" "$(get image "$NAME" id)" "$(get flavor "$NAME" id)" \
  "$(get flavor "$NAME-larger" id)" "$(uri_of h1)" "$(uri_of h2)" "$STATE/shared/volumes" <<'PYTHON'
import json, sys
path, url, password, network, image, small, large, h1, h2, volumes = sys.argv[1:]
json.dump({"url": url, "password": password, "network": network, "image": image, "flavors": [small, large],
           "hosts": {"h1": h1, "h2": h2}, "volumes": volumes}, open(path, "w"))
PYTHON
traffic() { python3 "$SOAK/traffic.py" "$1" "$WORK" "${@:2}"; }

# ----------------------------------------------------------------------------------------------------------- the faults

declare -A DONE
alive() { still_runs -p "${HOUSE:-0}"; }
# The control plane ends by itself if it cannot continue, for example on a full disk. This function starts it again, as
# a supervisor does.
supervise() { alive || { wait "${HOUSE:-}" 2>/dev/null; DONE["start after it ended by itself"]=$((${DONE["start after it ended by itself"]:-0} + 1)); house_start || house_start; }; }
pass_time() { # seconds: waits, and supervises the control plane meanwhile
  local until=$((SECONDS + $1))
  while [ $SECONDS -lt $until ]; do supervise; sleep 1; done
}
fault() {
  local host=h$((RANDOM % 2 + 1)) step
  DONE[$1]=$((${DONE[$1]:-0} + 1))
  printf '%4d s  fault: %s\n' $SECONDS "$1"
  case $1 in
    "kill of the control plane") house_kill; sleep $((RANDOM % 5)); house_start || house_start ;;
    "stop of the control plane") house_stop; house_start || house_start ;;
    "power failure of a host")
      hosts crash $host >/dev/null 2>&1
      touch "$WORK/without-power"
      pass_time $((20 + RANDOM % 20))
      rm -f "$WORK/without-power"
      pass_time 5
      hosts boot $host >/dev/null 2>&1 || bad "$host boots" ;;
    "network failure of a host") hosts cut $host; pass_time $((10 + RANDOM % 20)); hosts heal $host ;;
    "restart of a libvirtd") hosts restart $host >/dev/null 2>&1 || bad "libvirtd of $host restarts" ;;
    "freeze of a libvirtd") hosts freeze $host; pass_time $((8 + RANDOM % 15)); hosts thaw $host ;;
    "full disk")
      fallocate -l "$(($(df --output=avail -B1 "$DATA" | tail -n 1) - 65536))" "$DATA/filler" 2>/dev/null
      dd if=/dev/zero of="$DATA/filler2" bs=4k 2>/dev/null
      pass_time 12
      rm -f "$DATA/filler" "$DATA/filler2" ;;
    "step of the clock")
      step=$((RANDOM % 2 ? 40 + RANDOM % 80 : -(40 + RANDOM % 80)))
      [ $((RANDOM % 5)) != 0 ] || step=3700
      AHEAD=$((${AHEAD:-0} + step)); clock_ahead "$WORK/clock" $AHEAD ;;
  esac
}
FAULTS=("kill of the control plane" "power failure of a host" "network failure of a host" "step of the clock" "full disk"
  "restart of a libvirtd" "freeze of a libvirtd" "kill of the control plane" "stop of the control plane" "step of the clock")

# --------------------------------------------------------------------------------------- the clients and the faults run

END=$((SECONDS + SECONDS_LONG))
# Simulated fleets, one after the other: thousands of operations with the faults that real hosts cannot have.
setsid bash -c '
  end=$((SECONDS + $1)) seed=$2 n=0
  while [ $SECONDS -lt $end ] || [ $n = 0 ]; do
    timeout 1500 nice -n 10 "$3" chaos --seed $((seed + n)) --operations 1000 --hosts 30 >"$4/chaos-$((seed + n))" 2>&1
    echo "$((seed + n)) $?" >>"$4/chaos"
    n=$((n + 1))
  done' chaos "$SECONDS_LONG" "$SEED" "$CHRONOVA_DEV_BIN" "$WORK" &
CHAOS=$!
traffic run "$SECONDS_LONG" "$SEED" >"$WORK/clients" 2>&1 &
CLIENTS=$!
turn=0
while [ $SECONDS -lt $END ]; do
  pass_time $((8 + RANDOM % 10))
  [ $SECONDS -lt $END ] || break
  fault "${FAULTS[$((turn % ${#FAULTS[@]}))]}"
  turn=$((turn + 1))
done
while still_runs -p $CLIENTS; do supervise; sleep 1; done
wait $CLIENTS
same "the clients ended without an error" $? 0
[ ! -s "$WORK/clients" ] || bad "the clients printed no error" "$(tail -n 20 "$WORK/clients")"
CLIENTS=

# -------------------------------------------------------------------------------------------- comparison of all records

within 90 "both hosts are up after the faults" eval 'host_stands h1 up && host_stands h2 up'
expect "no work is under way any more" traffic settle
books() { # subcommand of traffic.py
  traffic "$1" >"$WORK/books-$1" 2>&1
  local status=$?
  cat "$WORK/books-$1"
  return $status
}
expect "all records agree" books check
expect "everything is deleted, and nothing is left" books clear
house_stop
"$REAL_BIN" audit verify --data-dir "$DATA" --config-file "$CONF" >"$WORK/verify" 2>&1
same "audit verify finds no fault in the log" $? 0
EVENTS=$(sed -n 's/^events  *\([0-9]*\) in \([0-9]*\) streams.*/\1 events in \2 streams, whole/p' "$WORK/verify")
wait $CHAOS
CHAOS=
same "no simulated fleet has a finding" "$(awk '$2 != 0' "$WORK/chaos")" ""

# ----------------------------------------------------------------------------------------------------------- the report

COMMIT=${CHRONOVA_HOUR_COMMIT:-$(git -C "$TOP" rev-parse --short=12 HEAD)}
python3 - "$WORK" "$REPORT" "$BEGAN" "$COMMIT" "$SECONDS_LONG" "$SEED" "$FAILED" "${EVENTS:-}" "$PROGRAMS" \
  "$(for fault in "${!DONE[@]}"; do printf '%s\t%s\n' "$fault" "${DONE[$fault]}"; done | sort)" <<'PYTHON'
import json, os, re, sys
work, report, began, commit, seconds, seed, failed, events, programs, faults = sys.argv[1:]
read = lambda name: open(os.path.join(work, name), errors="replace").read() if os.path.exists(os.path.join(work, name)) else ""
book = json.loads(read("book.json"))
out = ["# An hour of everything", "",
       "`tests/soak/hour.sh` wrote this page. Clients use two real libvirt hosts, while the faults below happen; simulated",
       "fleets run beside them. At the end, the acknowledged requests, the APIs, the hosts, Placement, quota, the pool of",
       "volumes and the log must agree. `CHRONOVA_HOUR_SECONDS` sets the length of a run in seconds.", "",
       *([] if int(seconds) >= 3600 else [f"**This was a trial of {seconds} seconds, not the hour.**", ""]),
       "| | |", "|---|---|", f"| began | {began} UTC |", f"| commit | {commit} |", f"| programs | {programs} |",
       f"| seconds | {seconds} |", f"| seed | {seed} |",
       f"| result | {'ok' if failed == '0' else failed + ' checks failed'} |", f"| event log | {events or 'not counted'} |", "",
       "## Faults", "", "| fault | times |", "|---|---|"]
out += [f"| {line.split(chr(9))[0]} | {line.split(chr(9))[1]} |" for line in faults.splitlines() if line]
kinds = ("accepted", "refused", "unavailable", "no answer", "failed")
out += ["", "## Requests", "", "| operation | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
for name, counts in sorted(book["counts"].items()):
    out.append(f"| {name} | " + " | ".join(str(counts.get(kind, 0)) for kind in kinds) + " |")
sums = [sum(counts.get(kind, 0) for counts in book["counts"].values()) for kind in kinds]
out.append("| **all** | " + " | ".join(map(str, sums)) + " |")
out += ["", "## Books", ""]
for part in ("check", "clear"):
    for line in filter(str.strip, read("books-" + part).splitlines()):
        out.append(f"  * `{line.strip()}`" if line.startswith(" ") else f"* {line[6:]}: {line[:4].strip()}")
runs = [line.split() for line in read("chaos").splitlines()]
out += ["", "## Simulated fleets", "",
        f"{len(runs)} runs of `chronova-dev chaos --operations 1000 --hosts 30`, seeds {runs[0][0]} to {runs[-1][0]}:"
        f" {sum(code == '0' for _, code in runs)} without a finding." if runs else "None ended."]
open(report, "w").write("\n".join(out) + "\n")
PYTHON
echo "report: $REPORT"
verdict
