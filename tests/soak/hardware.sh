#!/bin/bash
# Real guests get from real hosts what flavors and images request: huge pages, locked memory, memory in files, sockets and
# cores, queues of a network card, machine types, an optional secure boot, new persistent memory after a resize, processors
# for the emulator and for real time, shares and quotas of a processor, and an empty console log. A host without an emulator
# gives a clear fault. Huge pages and the quotas are those of this machine's kernel.
#
#   hardware.sh [PART...]   runs only these parts: secure, pages, locked, plain, pmem, isolate, realtime, cpu, files,
#                           emulator (default: all)
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
PARTS=" ${*:-secure pages locked plain pmem isolate realtime cpu files emulator} "
part() { [[ $PARTS == *" $1 "* ]]; }
UEFI=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-uefi.qcow2
RESERVED=/proc/sys/vm/nr_hugepages
FREE=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
MACHINE=('hw_machine_type = x86_64=q35' 'pmem_namespaces = tiny:ns0')
INSIDE_SECONDS=150
export INSIDE_SECONDS
[ "$(nproc)" -ge 2 ] || cannot "this machine has one processor: the emulator's own processor needs two"
if part secure; then
  [ -n "$(find /usr/share/qemu/firmware -name '*secure-enrolled*' 2>/dev/null)" ] || cannot "no UEFI firmware with enrolled keys"
  [ -s "$UEFI" ] && [ -z "$(find "$HERE/make-image.sh" "$HERE/guest" -newer "$UEFI" -print -quit)" ] \
    || bash "$HERE/make-image.sh" "$UEFI" --uefi >/dev/null 2>&1 || cannot "the guest image with UEFI cannot be built"
fi
own_pools() { v pool-list --all --name | awk 'NF {print $1}'; }
# Only this machine's own libvirtd has control groups. In the configuration it is the third host.
OWN=
if part cpu; then
  libvirt_answers || cannot "no libvirtd answers at qemu:///system"
  OWN=$(v hostname)
  POOLS_BEFORE=$(own_pools)
fi
HOUSE_CONF=$(printf '%s\n' '[chronova]' 'pmem_path = /var/lib/libvirt' 'pmem_sizes = tiny=64' 'pmem_is_persistent = false' \
  "host_cpus = h2 dedicated=0-1${OWN:+; $OWN shared=0}" '[libvirt]' "${MACHINE[@]}")

# Before the control plane starts. The mount is in the namespace of h1 alone, whose libvirtd looks for it at its start.
house_first() {
  [ -z "$OWN" ] || sed -i 's|^hypervisors = .*|& qemu:///system|' "$CONF"
  if part pages || part files; then
    PAGES_BEFORE=$(cat $RESERVED)
    [ "$PAGES_BEFORE" -ge 256 ] || echo 256 >$RESERVED
    [ -d /dev/hugepages ] || { mkdir /dev/hugepages; MADE_FOLDER=1; }
    hosts exec h1 mount -t hugetlbfs hugetlbfs /dev/hugepages
    hosts restart h1
  fi
}
house_last() {
  hosts down >/dev/null 2>&1
  [ -z "${PAGES_BEFORE:-}" ] || echo "$PAGES_BEFORE" >$RESERVED
  [ -z "${MADE_FOLDER:-}" ] || rmdir /dev/hugepages
  # Later scripts use this machine's libvirtd with other options. The pool `chronova` is the same for all.
  [ -z "$OWN" ] || for pool in $(own_pools | grep -vxF -e chronova -f <(echo "$POOLS_BEFORE")); do v pool-destroy "$pool"; v pool-undefine "$pool"; done >/dev/null
}
fleet_open hardware hw 10.97 2
[ -z "${PAGES_BEFORE:-}" ] || [ "$(cat $FREE)" -ge 256 ] || cannot "the kernel has no 512 MiB of memory for huge pages"
house_furnish
within 60 "the hosts are up" host_is up
[ -z "$OWN" ] || expect "this machine's own host is for one part alone" os compute service set --disable "$OWN" nova-compute

image() { # name, file, format, properties...
  local name=$1 file=$2 format=$3 property options=(); shift 3
  for property in "$@"; do options+=(--property "$property"); done
  os image create --disk-format "$format" --container-format bare --file "$file" --public "${options[@]}" "$NAME-$name" \
    >"$WORK/image-$name" 2>&1 || bad "the image $name is made" "$(cat "$WORK/image-$name")"
}
# Requests a server on a host, and sets ID.
ask_for() { # name, host, flavor, options...
  local name=$1 host=$2 flavor=$3; shift 3
  boot "$NAME-$name" --no-wait --flavor "$NAME-$flavor" --host "$host" --os-compute-api-version 2.74 "$@"
}
built() { case $(status_of "$1") in ACTIVE | ERROR) return 0 ;; esac; return 1; } # server
ends_in() { # server, status
  wait_for 300 built "$NAME-$1"
  same "the server $1 is $2" "$(status_of "$NAME-$1")" "$2"
}
deleted() { expect "the server $1 is deleted" os server delete --wait "$NAME-$1"; }
fault() { get server "$NAME-$1" fault; }
# The newest action of a server, with its events.
newest() { os server event show "$NAME-$1" "$(os server event list "$NAME-$1" -f value -c 'Request ID' | head -n 1)" -f json --os-compute-api-version 2.84 2>/dev/null; }
defined() { on "$1" dumpxml "$2" | tr -d '\n'; } # host, uuid
# The socket of each of the guest's processors, and the vendor's number of its board's first device.
sockets() { at "$1" "$2" 'cat /sys/devices/system/cpu/cpu*/topology/physical_package_id' | paste -sd ' '; } # host, uuid
board() { at "$1" "$2" 'cat /sys/bus/pci/devices/0000:00:00.0/device'; } # host, uuid
I440FX=0x1237 Q35=0x29c0

# ------------------------------------------------------- an optional secure boot: its guest boots beside the other parts

if part secure; then
  flavor uefi 512 1
  image uefi "$UEFI" qcow2 hw_firmware_type=uefi hw_machine_type=q35 os_secure_boot=optional
  ask_for secure h1 uefi --image "$NAME-uefi"; SECURE=$ID
fi

# ----------------------------------------------------------------------------------------------------------- huge pages

if part pages; then
  BEFORE=$(cat $FREE)
  flavor pages 160 2 hw:mem_page_size=large hw:cpu_sockets=1 hw:cpu_cores=2
  flavor many 400 1 hw:mem_page_size=2MB
  like "libvirt counts the huge pages of the host's cell" "$(on h1 capabilities | tr -d '\n')" "<pages unit='KiB' size='2048'>$(cat $RESERVED)</pages>"
  ask_for pages h1 pages; PAGED=$ID
  ends_in pages ACTIVE
  like "the definition has huge pages" "$(defined h1 "$PAGED")" "<memoryBacking> *<hugepages> *<page size='2048' unit='KiB' nodeset='0'/> *</hugepages>"
  same "the kernel has given the guest its huge pages" "$(cat $FREE)" $((BEFORE - 80))
  ask_for many h1 many
  ends_in many ERROR
  like "its fault says that no host has so many huge pages" "$(fault many)" 'No valid host was found'
  ready "$NAME-pages" "the guest with huge pages is booted"
  same "the guest has the socket and the cores of its flavor" "$(sockets h1 "$PAGED")" "0 0"
  deleted many
  deleted pages
  within 30 "the kernel has the huge pages again" eval '[ "$(cat $FREE)" = '"$BEFORE"' ]'
fi

# -------------------------------------------------------------------------------------------------------- locked memory

if part locked; then
  flavor locked 160 2 hw:mem_page_size=small hw:locked_memory=true hw:cpu_max_sockets=1
  image pc "$CHRONOVA_IMAGE" qcow2 hw_machine_type=pc os_secure_boot=optional
  ask_for locked h1 locked --image "$NAME-pc"; LOCKED=$ID
  ends_in locked ACTIVE
  like "the definition locks the memory" "$(defined h1 "$LOCKED")" "<memoryBacking>( *<[^>]*>)* *<locked/>"
  KIB=$(awk '/^VmLck/ {print $2}' "/proc/$(qemu_of "$LOCKED")/status")
  expect "the kernel keeps all memory of the guest in RAM" [ "${KIB:-0}" -ge 160000 ]
  ready "$NAME-locked" "the guest with locked memory is booted"
  same "the guest has no more sockets than its flavor allows" "$(sockets h1 "$LOCKED")" "0 0"
  like "the machine type is that of the image" "$(defined h1 "$LOCKED")" "<type arch='x86_64' machine='pc-i440fx"
  same "the guest sees that board" "$(board h1 "$LOCKED")" $I440FX
  unlike "an optional secure boot is off for a guest without UEFI" "$(defined h1 "$LOCKED")" "secure='yes'|<smm "
  deleted locked
fi

# ----------------------------------------------------------------------- the operator's machine type, and a silent guest

if part plain; then
  flavor plain 160 2 hw:vif_multiqueue_enabled=true
  ask_for plain h1 plain; PLAIN=$ID
  truncate -s 16M "$WORK/blank.raw"
  image blank "$WORK/blank.raw" raw
  ask_for silent h1 plain --image "$NAME-blank"
  ends_in silent ACTIVE
  ready "$NAME-plain" "the guest without wishes is booted"
  like "the machine type is that of the operator" "$(defined h1 "$PLAIN")" "<type arch='x86_64' machine='pc-q35"
  same "the guest sees the board of the operator" "$(board h1 "$PLAIN")" $Q35
  same "the guest has a socket for each CPU" "$(sockets h1 "$PLAIN")" "0 1"
  like "the guest's processor is a generic one" "$(at h1 "$PLAIN" 'grep -m 1 "^model name" /proc/cpuinfo')" 'QEMU Virtual CPU'
  same "the guest's network card is a generic one" "$(at h1 "$PLAIN" 'basename $(readlink /sys/class/net/eth0/device/driver)')" virtio_net
  like "the definition has a queue for each CPU" "$(defined h1 "$PLAIN")" "<driver [^>]*queues='2'"
  same "the guest's network card has a queue for each CPU" "$(at h1 "$PLAIN" 'ls -d /sys/class/net/eth0/queues/rx-* | wc -l')" 2
  # By now the firmware of the other guest has found nothing to boot.
  expect "the console log of a guest that writes nothing is shown" eval 'os console log show "$NAME-silent" >"$WORK/silent"'
  same "that console log is empty" "$(tr -d '\r\n' <"$WORK/silent")" ""
  deleted silent
  # As in Nova, a start makes the definition again, as a hard reboot does.
  expect "somebody changes the guest's definition" on h1 desc "$PLAIN" --config --title --new-desc outside
  expect "the server is stopped" eval 'os server stop "$NAME-plain" && wait_for 120 at_rest "$NAME-plain" SHUTOFF'
  expect "the server is started" eval 'os server start "$NAME-plain" && wait_for 120 at_rest "$NAME-plain" ACTIVE'
  unlike "the guest's definition is made again at the start" "$(on h1 dumpxml --inactive "$PLAIN")" '<title>outside</title>'
  ready "$NAME-plain" "the guest is booted from its disk" 2
  deleted plain
fi

# ----------------------------------------------------------------------------------- persistent memory is not moved along

# The first word in the file that is the guest's persistent memory.
kept_word() { head -c 4 "$STATE/$1/lib/${2}_pmem0" 2>/dev/null | tr -d '\0'; } # host, uuid
if part pmem; then
  flavor pmem-two 176 1 hw:pmem=tiny
  # h2 has no processor for a guest without dedicated ones, so this guest begins on h2 and needs one there.
  flavor pmem-one 160 1 hw:pmem=tiny hw:cpu_policy=dedicated
  ask_for pmem h2 pmem-one; PMEM=$ID
  ends_in pmem ACTIVE
  expect "a word is written into the guest's persistent memory" eval 'printf kept | dd of="$STATE/h2/lib/${PMEM}_pmem0" conv=notrunc,fsync 2>/dev/null'
  expect "a resize to another flavor with persistent memory is requested" os server resize --flavor "$NAME-pmem-two" "$NAME-pmem"
  within 120 "the resized server waits for its confirmation" at_rest "$NAME-pmem" VERIFY_RESIZE
  same "the resized server is on the other host" "$(place "$NAME-pmem")" h1
  same "the resized guest has persistent memory" "$(stat -c %s "$STATE/h1/lib/${PMEM}_pmem0" 2>/dev/null)" $((64 << 20))
  same "its persistent memory has not the word" "$(kept_word h1 "$PMEM")" ""
  same "the old persistent memory keeps the word for a revert" "$(kept_word h2 "$PMEM")" kept
  expect "the resize is reverted" os server resize revert "$NAME-pmem"
  within 120 "the server is ACTIVE on its first host" is_at "$NAME-pmem" h2
  same "the guest has its word again" "$(kept_word h2 "$PMEM")" kept
  within 30 "the other host keeps no persistent memory" eval '! ls "$STATE/h1/lib" | grep -q _pmem'
  deleted pmem
fi

# ------------------------------------------------------------------------------------ a processor for the emulator alone

# The processors on which the kernel lets QEMU's threads run: those of the guest's CPUs, or its main thread.
cpu_threads() { for task in /proc/"$(qemu_of "$1")"/task/*; do grep -q '^CPU [0-9]*/' "$task/comm" && awk '/Cpus_allowed_list/ {print $2}' "$task/status"; done | paste -sd,; } # uuid
main_thread() { awk '/Cpus_allowed_list/ {print $2}' "/proc/$(qemu_of "$1")/status"; } # uuid
if part isolate; then
  flavor isolate 160 1 hw:cpu_policy=dedicated hw:emulator_threads_policy=isolate
  ask_for isolate h2 isolate; ISOLATED=$ID
  ends_in isolate ACTIVE
  same "the guest and its emulator have two processors" "$(os resource provider allocation show "$ISOLATED" -f json 2>/dev/null | tr -d ' \n' | grep -oE '"PCPU":[0-9]+')" '"PCPU":2'
  GUESTS=$(cpu_threads "$ISOLATED") EMULATORS=$(main_thread "$ISOLATED")
  same "the emulator has a processor of its own" "$(printf '%s\n' "$GUESTS" "$EMULATORS" | sort | paste -sd ' ')" "0 1"
  ready "$NAME-isolate" "the guest beside its emulator is booted"
  deleted isolate
fi

# ------------------------------------------------------------------------------------------ a CPU that runs in real time

# The policies by which the kernel schedules the guest's CPUs, in the order of the CPUs.
policies() { # uuid
  for task in /proc/"$(qemu_of "$1")"/task/*; do
    grep -q '^CPU [0-9]*/' "$task/comm" || continue
    echo "$(sed -E 's/^CPU ([0-9]+).*/\1/' "$task/comm") $(chrt -p "${task##*/}" | sed -n 's/.*scheduling policy: //p')"
  done | sort -n | awk '{print $2}' | paste -sd ' '
}
if part realtime; then
  flavor realtime 160 2 hw:cpu_policy=dedicated hw:cpu_realtime=yes 'hw:cpu_realtime_mask=^0'
  ask_for realtime h2 realtime; REALTIME=$ID
  ends_in realtime ACTIVE
  same "the kernel schedules one CPU of the guest in real time" "$(policies "$REALTIME")" "SCHED_OTHER SCHED_FIFO"
  like "the guest's memory is locked and not shared" "$(defined h2 "$REALTIME")" "<memoryBacking>( *<[^>]*>)* *<nosharepages/> *<locked/>"
  ready "$NAME-realtime" "the guest with a CPU in real time is booted"
  deleted realtime
fi

# --------------------------------------------------------------------------------- shares and quotas of one processor

own() { INSIDE_URI=qemu:///system inside "$@"; } # uuid, command
busy() { own "$1" 'sh -c "while :; do :; done" >/dev/null 2>&1 & echo $! >/run/busy'; } # uuid
limits() { v schedinfo "$1" | awk -F ' *: *' '/^(cpu_shares|vcpu_period|vcpu_quota)/ {print $1 "=" $2}' | paste -sd ' '; } # uuid
# The period and the quota of the guest's CPU in its control group, of version 1 or 2.
kernel_limits() { # uuid
  local groups group; groups=$(cat "/proc/$(qemu_of "$1")/cgroup")
  group=$(sed -nE 's/^[0-9]+:cpu(,[a-z,]*)?:(.*)\/emulator$/\2/p' <<<"$groups")
  if [ -n "$group" ]; then
    cat "/sys/fs/cgroup/cpu$group/vcpu0/"cpu.cfs_{quota,period}_us | paste -sd ' '
  else
    group=$(sed -nE 's/^0::(.*)\/emulator$/\1/p' <<<"$groups")
    cat "/sys/fs/cgroup$group/vcpu0/cpu.max"
  fi
}
processor_time() { v domstats --vcpu "$1" | awk -F= '/vcpu\.0\.time=/ {print $2}'; } # uuid
# The parts of one processor that guests get in 20 seconds, in percent.
parts_of() { # uuids...
  local began ended guest i before=() after=()
  began=$(date +%s%N)
  for guest in "$@"; do before+=("$(processor_time "$guest")"); done
  sleep 20
  ended=$(date +%s%N)
  for guest in "$@"; do after+=("$(processor_time "$guest")"); done
  for i in "${!before[@]}"; do echo $(((after[i] - before[i]) * 100 / (ended - began))); done | paste -sd ' '
}
if part cpu; then
  os compute service set --enable "$OWN" nova-compute
  flavor most 160 1 quota:cpu_shares=768 quota:cpu_period=100000 quota:cpu_quota=75000
  flavor few 160 1 quota:cpu_shares=256 quota:cpu_period=100000 quota:cpu_quota=25000
  for name in first second; do ask_for $name "$OWN" most; declare "${name^^}=$ID"; done
  ask_for third "$OWN" few; THIRD=$ID
  for name in first second third; do ends_in $name ACTIVE; done
  same "libvirt has the shares, the period and the quota of the flavor" "$(limits "$FIRST")" "cpu_shares=768 vcpu_period=100000 vcpu_quota=75000"
  same "the kernel has the quota and the period" "$(kernel_limits "$FIRST")" "75000 100000"
  same "the kernel has those of the other flavor" "$(kernel_limits "$THIRD")" "25000 100000"
  for name in first second third; do ready "$NAME-$name" "the guest $name is booted"; done
  expect "two guests are busy" eval 'busy "$FIRST" && busy "$SECOND"'
  read -r A B <<<"$(parts_of "$FIRST" "$SECOND")"
  echo "        the two guests get $A % and $B % of the processor"
  expect "two guests that may take three quarters of a processor get the same" \
    [ "${A:-0}" -gt 0 -a $((${A:-0} * 5)) -ge $((${B:-0} * 4)) -a $((${B:-0} * 5)) -ge $((${A:-0} * 4)) ]
  expect "together they get no more than the processor" [ $((${A:-0} + ${B:-0})) -le 104 ]
  expect "the second guest rests, and the third is busy" eval 'own "$SECOND" "kill \$(cat /run/busy)" && busy "$THIRD"'
  read -r A C <<<"$(parts_of "$FIRST" "$THIRD")"
  echo "        the two guests get $A % and $C % of the processor"
  expect "a guest with a quota of a quarter gets no more" [ "${C:-0}" -gt 0 -a "${C:-100}" -le 27 ]
  expect "a guest with a quota of three quarters gets at least twice as much, and no more than its quota" \
    [ "${A:-0}" -ge $((${C:-100} * 2)) -a "${A:-100}" -le 78 ]
  for name in first second third; do deleted $name; done
  same "nothing is left of those servers on this machine" "$(leftovers "$FIRST")$(leftovers "$SECOND")$(leftovers "$THIRD")" ""
  os compute service set --disable "$OWN" nova-compute
fi

# ------------------------------------------------------------------------------------------- the end of the secure boot

if part secure; then
  ends_in secure ACTIVE
  # OVMF with a protected memory takes two minutes without KVM on a busy machine.
  within 300 "the guest with an optional secure boot is booted" said "$NAME-secure" 'GUEST-READY hostname=.* boots=1 '
  like "an optional secure boot is on where the host can have it" "$(at h1 "$SECURE" 'od -An -tx1 /sys/firmware/efi/efivars/SecureBoot-*')" '01 *$'
  deleted secure
fi

# ------------------------------------------------------------------------------ memory in files, and no huge pages there

if part files; then
  part pages || flavor pages 160 2 hw:mem_page_size=large hw:cpu_sockets=1 hw:cpu_cores=2
  part plain || flavor plain 160 2
  with "${MACHINE[@]}" 'file_backed_memory = 4096'
  ask_for both h1 pages
  ends_in both ERROR
  like "a host whose guests have memory in files refuses huge pages" "$(fault both)$(newest both)" 'huge pages do not work on this host'
  ask_for filed h1 plain; FILED=$ID
  ends_in filed ACTIVE
  like "a guest without huge pages has memory in a file of that host" "$(defined h1 "$FILED")" "<source type='file'/> *<access mode='shared'/>"
  like "the file is there" "$(find "$STATE/h1/lib/qemu/ram" -type f -size +100M)" '/ram/'
  deleted both
  deleted filed
fi

# ---------------------------------------------------------------------------------------------- a host without an emulator

EMULATOR=$(command -v qemu-system-x86_64)
if part emulator; then
  flavor dedicated 160 1 hw:cpu_policy=dedicated
  ask_for before h2 dedicated
  ends_in before ACTIVE
  expect "h2 loses its emulator" hosts exec h2 mount --bind "$STATE/h2/hosts" "$EMULATOR"
  ask_for without h2 dedicated
  ends_in without ERROR
  like "its fault says that the host could not build it" "$(fault without)" 'Exceeded maximum number of retries|[Ee]mulator|QEMU binary'
  like "its events have libvirt's words about the emulator" "$(newest without)" '[Ee]mulator|QEMU binary|qemu-system-x86_64'
  expect "h2 has its emulator again" hosts exec h2 umount "$EMULATOR"
  deleted without
  ask_for again h2 dedicated
  ends_in again ACTIVE
  deleted again
  deleted before
fi
verdict
