#!/bin/bash
# A real guest migrates from one host to another over TLS only; the script captures the traffic between the hosts. The
# capture contains neither a word in the guest's memory nor a word on its disk. The guest's screen listens on all
# addresses, and accepts only TLS with certificates of both sides (VeNCrypt). The short run also turns TLS off for the
# host's VNC servers: the running guest keeps TLS until its reboot.
#
# With CHRONOVA_SOAK=1 also: the capture of a move without TLS contains the word in the memory and, with local storage,
# the word on the disk. The captures of later live and cold migrations with TLS contain neither. A migration to a host
# with certificates of another authority, or without any, fails: the server stays on its host, and migrates after the
# host has the right certificates. A migration that is too slow is aborted. A migration uses the address of a named
# interface, or is refused if that address is unknown. At its end, the long run starts `encrypted.sh shared`, which does
# the same with shared storage.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
FLEET_WIRE=TLS FLEET_OPTIONS=--root-link
export TESTBED_VNC_TLS=1
HOUSE_CONF=$(printf '[vnc]\nserver_listen = 0.0.0.0')
fleet_open "encrypted-${1:-local}" en 10.75 2 "${1:-local}"
house_furnish
ONE=$NAME-one
# Unique words that are put into the guest's memory and on its disk.
MEMORY=memory-$RANDOM$RANDOM DISK=disk-$RANDOM$RANDOM
counting >/dev/null
echo "# $MEMORY" >>"$WORK/tick"
INBOUND='live_migration_inbound_addr = %s-moves'
SECRET=('live_migration_scheme = tls' 'live_migration_with_native_tls = true' "$INBOUND")

boot "$ONE" --config-drive True --user-data "$WORK/tick"
ready "$ONE" "the guest is booted"
within 60 "the guest counts" ticks_on "$ONE" 2
FIRST=$(place "$ONE")
SECOND=$(other "$FIRST")
expect "the guest writes a word on its disk" mark_at "$FIRST" "$ID" "$DISK"

leaves() { os server migrate --live-migration --host "$1" "$ONE" --os-compute-api-version 2.79; } # host
goes_to() { # host
  local from; from=$(place "$ONE")
  expect "a live migration from $from to $1 is requested" leaves "$1"
  within 180 "the server is ACTIVE on $1" is_at "$ONE" "$1"
  within 20 "the guest runs on $1" runs_on "$1" "$ID"
  same "the guest runs on no other host" "$(runs "$ID")" 1
  same "nothing of the server is left on $from" "$(left_on "$from" "$ID")" ""
  counts_on "$ONE"
}
screen_answers() { # host
  local screen address=${1}_IP
  screen=$(on "$1" vncdisplay "$ID" | sed 's/.*://')
  expect "the screen answers on the new host" hosts ctl timeout 20 bash -c "exec 3<>/dev/tcp/${!address}/$((5900 + screen)) && head -c 4 <&3 | grep -q ^RFB"
}

# ----------------------------------------------------------------------------------------------------- captured traffic

# Starts capturing before the control plane restarts, so that the capture has the control plane's connections from their
# beginning.
wire_open() {
  : >"$WORK/wire"
  bash "$HERE/hosts.sh" ctl python3 "$HERE/wire.py" "$MEMORY" "$DISK" >"$WORK/wire" 2>&1 &
  WIRE=$!
  wait_for 20 grep -q '^reading' "$WORK/wire" || bad "the capture starts" "$(cat "$WORK/wire")"
}
wire_close() {
  kill $WIRE
  wait $WIRE
  same "the capture lost no packets" "$(grep -E '^(lost|holes|Traceback)' "$WORK/wire")" ""
  # Only connections of the stopped control plane may be older than the capture.
  same "the capture has every connection between hosts from its start" "$(of older | awk -F'\t' '$2 !~ /^10\.231\.0\.2:/ && $3 !~ /^10\.231\.0\.2:/')" ""
}
of() { grep "^$1"$'\t' "$WORK/wire"; } # verdict
# Counts the connections with this verdict (plain or tls) from one migration address to these ports of another. Counts
# only connections with at least this many bytes.
between() { of "$1" | awk -F'\t' -v least="$2" -v ports="$3" '$2 ~ /^10\.233\./ && $3 ~ "^10\\.233\\..*:(" ports ")$" && $4 + $5 >= least' | wc -l; } # verdict, bytes, ports
MIB=1048576
QEMU='49[0-9][0-9][0-9]' LIBVIRT=16514
seen() { cut -f 6 "$WORK/wire" | tr ',' '\n' | grep -E '^(memory|disk)-' | sort -u | paste -sd ' '; }

wire_open
with "${SECRET[@]}"
goes_to "$SECOND"
wire_close
same "no traffic of the move was plain" "$(of plain)" ""
same "neither word could be read" "$(seen)" ""
expect "the guest's memory went by TLS" [ "$(between tls $((8 * MIB)) "$QEMU")" -ge 1 ]
[ "$STORAGE" = shared ] || like "the disk went by TLS" "$(of tls | cut -f 7)" 'IHAVEOPT'
like "the control plane's traffic used TLS" "$(of tls | cut -f 2-3)" "^10\.231\.0\.2:[0-9]+.10\.231\.0\.1[12]:$LIBVIRT$"
SCREEN=$(on "$SECOND" dumpxml "$ID")
like "the guest's screen listens on all addresses after the move" "$SCREEN" "<listen type='address' address='0.0.0.0'/>"
screen_answers "$SECOND"

# ----------------------------------------------------------------------------------------------- the screen, by VeNCrypt

# Prints the greeting of the guest's screen, with the name that QEMU gives it, or the status of a refused console. The
# viewer names its version, chooses no security, and begins the session.
screen() {
  local url; url=$(os console url show --novnc "$ONE" -f value -c url 2>/dev/null)
  python3 "$HERE/websocket.py" "ws://127.0.0.1:$PORT/console?token=$(sed -E 's/.*token(=|%3D)//' <<<"$url")" 20 \
    --say 'RFB 003.008\n\x01\x01' --until 'QEMU (' 2>&1 | tr -d '\0'
}
schemes() { # schemes, authority of the hosts, `anonymous` for a gateway without a certificate
  local own=("vencrypt_client_cert = $STATE/pki/client/clientcert.pem" "vencrypt_client_key = $STATE/pki/client/clientkey.pem")
  [ "${3:-}" != anonymous ] || own=()
  with "${SECRET[@]}" '[vnc]' "auth_schemes = $1" "vencrypt_ca_certs = $STATE/pki/${2:-ours}/cacert.pem" "${own[@]}"
}
schemes vencrypt
like "the gateway opens the screen by VeNCrypt" "$(screen)" 'QEMU \('
schemes none
same "without VeNCrypt the screen is not opened" "$(screen)" 502
schemes vencrypt,none foreign
same "the screen of a host with a certificate of an unknown authority is not opened" "$(screen)" 502
schemes vencrypt ours anonymous
unlike "the host shows its screen to no gateway without a certificate" "$(screen)" 'QEMU \('

# The host's VNC servers need TLS no longer.
plain_screens() {
  sed -i '/^vnc_tls/d' "$STATE/$SECOND/etc/qemu.conf"
  expect "the host's libvirtd starts again without TLS for screens" hosts restart "$SECOND"
  schemes none
  same "the running guest keeps TLS for its screen" "$(screen)" 502
  expect "the server is rebooted hard" os server reboot --hard --wait "$ONE"
  like "the rebooted guest has a screen without TLS" "$(screen)" 'QEMU \('
  schemes vencrypt,none
  like "a gateway with both schemes opens it, too" "$(screen)" 'QEMU \('
  schemes vencrypt
  same "a gateway with vencrypt alone does not" "$(screen)" 502
}
long_run || { plain_screens; expect "the server is deleted" os server delete --wait "$ONE"; verdict; }
FIRST=$SECOND SECOND=$(other "$SECOND")

wire_open
with 'live_migration_scheme = tls' "$INBOUND"
goes_to "$SECOND"
wire_close
expect "without native TLS the guest's memory is sent in plain text" [ "$(between plain $((8 * MIB)) "$QEMU")" -ge 1 ]
like "the plain traffic is QEMU's migration stream" "$(of plain | cut -f 7)" '^QEVM'
like "a word of the memory is readable" "$(of plain | grep QEVM | cut -f 6)" "$MEMORY"
case $STORAGE in
  local) like "a word of the disk is readable" "$(of plain | grep IHAVEOPT | cut -f 6)" "$DISK" ;;
  shared) same "no other traffic is plain" "$(of plain | grep -vc QEVM)" 0 ;;
esac
expect "the hosts' libvirtds still use TLS" [ "$(between tls 4096 $LIBVIRT)" = 1 ]
ARRIVED=$(on "$SECOND" dumpxml "$ID")
like "the guest's screen listens on all addresses after the second move" "$ARRIVED" "<listen type='address' address='0.0.0.0'/>"
screen_answers "$SECOND"

wire_open
with "${SECRET[@]}"
goes_to "$FIRST"
goes_to "$SECOND"
expect "a cold migration is requested" os server migrate --host "$FIRST" "$ONE" --os-compute-api-version 2.91
within 120 "the server waits for the confirmation of its cold migration" at_rest "$ONE" VERIFY_RESIZE
same "the server is on the other host" "$(place "$ONE")" "$FIRST"
expect "the cold migration is confirmed" os server migration confirm "$ONE"
within 60 "the server is ACTIVE after the confirmation" at_rest "$ONE" ACTIVE
wire_close
same "no traffic of the three moves was plain" "$(of plain)" ""
same "neither word could be read in the three moves" "$(seen)" ""
expect "the guest's memory went by TLS twice" [ "$(between tls $((8 * MIB)) "$QEMU")" -ge 2 ]
[ "$STORAGE" = shared ] || like "the disk was sent by TLS, too, in NBD" "$(of tls | cut -f 7)" 'IHAVEOPT'
same "libvirtd's own traffic used TLS" "$(between tls 4096 $LIBVIRT)" 2
like "the control plane's traffic used TLS during the three moves" "$(of tls | cut -f 2-3)" "^10\.231\.0\.2:[0-9]+.10\.231\.0\.1[12]:$LIBVIRT$"
same "no other network carried a migration" "$(of tls | awk -F'\t' '$3 !~ /:16514$/ && $3 !~ /^10\.233\./')" ""

# ----------------------------------------------------------------------------------------- a migration that is too slow

ready "$ONE" "the guest is booted again" 2
same "the disk moved with the guest" "$(marker_at "$FIRST" "$ID")" "$DISK"
within 60 "the guest counts after its second boot" ticks_on "$ONE" 2
counts_on() { # like counts_on of fleet.sh, for a guest that was booted twice
  local seen; seen=$(last_tick "$1")
  within 40 "the guest continues to count" ticks_on "$1" "$((seen + 2))"
  same "the guest was not restarted" "$(boots_at "$(place "$1")" "$ID")" 2
}
stays() { # pattern of the expected reason
  within 120 "the migration is over" migration_over "$ONE"
  within 30 "the server is ACTIVE on its old host" is_at "$ONE" "$FIRST"
  same "the guest runs on its old host only" "$(runs_on "$FIRST" "$ID" && runs "$ID")" 1
  same "nothing of the server is on $SECOND" "$(left_on "$SECOND" "$ID")" ""
  like "the event shows the reason" "$(reason)" "$1"
  same "the server's allocation is unchanged" "$(os resource provider allocation show "$ID" -f value -c resource_provider)" "$HOLDS"
  same "the migration has no allocation" "$(os resource provider allocation show "$(uuid_of "$ONE")" -f value)" ""
  counts_on "$ONE"
}
reason() { # prints the details of the events of the last live migration
  local request
  request=$(os server event list "$ONE" --os-compute-api-version 2.84 -f value -c 'Request ID' -c Action | awk '$2 == "live-migration" {print $1; exit}')
  os server event show "$ONE" "$request" --os-compute-api-version 2.84 -f json 2>/dev/null \
    | python3 -c 'import json, sys; print(*(event.get("details") for event in json.load(sys.stdin)["events"]), sep="\n")'
}
HOLDS=$(os resource provider allocation show "$ID" -f value -c resource_provider)
same "the server has an allocation on one host" "$(wc -l <<<"$HOLDS")${HOLDS:+ by its id}" "1 by its id"

with "${SECRET[@]}" 'live_migration_bandwidth = 2' 'live_migration_completion_timeout = 1'
expect "a slow migration with a short timeout is requested" leaves "$SECOND"
stays 'was aborted'
same "the migration is cancelled" "$(moves_of "$ONE" -c Status | tail -n 1)" cancelled
LATE=$(sed 's/\x1b\[[0-9;]*m//g' "$WORK/chronova.log" | grep -a 'has run longer than live_migration_completion_timeout allows')
like "the log warns of the late migration, with the server and the seconds" "$LATE" "WARN.*server=$ID seconds=[1-9]"
same "the log warns once" "$(wc -l <<<"$LATE")" 1

# -------------------------------------------------------------------------- certificates of another authority, and none

with "${SECRET[@]}"
refused() { # pattern of the expected reason
  expect "a migration to $SECOND is requested" leaves "$SECOND"
  stays "$1"
  same "the migration failed" "$(moves_of "$ONE" -c Status | tail -n 1)" error
}
wire_open
expect "$SECOND gets certificates of another authority" hosts certify "$SECOND" foreign
refused 'certificate'
expect "$SECOND loses its certificates" hosts certify "$SECOND" none
refused '/etc/pki/qemu|credentials|TLS'
expect "$SECOND gets the right certificates, the libvirtd of $FIRST those of another authority" eval 'hosts certify "$SECOND" ours && hosts certify "$FIRST" foreign libvirt'
refused 'certificate|TLS|qemu\+tls'
kill $WIRE; wait $WIRE
same "nothing was sent in plain text" "$(of plain)$(seen)" ""
expect "the libvirtd of $FIRST gets the right certificates again" hosts certify "$FIRST" ours libvirt
goes_to "$SECOND"
expect "the migration is completed" migration_is "$ONE" completed

# ------------------------------------------------------------------------------------- the address of a named interface

FIRST=$SECOND SECOND=$(other "$SECOND")
HOLDS=$(os resource provider allocation show "$ID" -f value -c resource_provider)
with 'live_migration_scheme = tls' 'live_migration_with_native_tls = true' '[chronova]' 'live_migration_interface = moves0'
# A libvirt with the netcf backend knows the addresses of interfaces; a libvirt with the udev backend does not.
if on "$SECOND" iface-dumpxml moves0 | grep -q '<ip address'; then
  wire_open
  goes_to "$SECOND"
  wire_close
  expect "the guest's memory went over the named interface" [ "$(between tls $((8 * MIB)) "$QEMU")" -ge 1 ]
else
  like "a migration over an interface without a known address is refused" "$(leaves "$SECOND" 2>&1)" '400.*no address of interface moves0'
  stays "no address of interface moves0 .live_migration_interface.; set live_migration_inbound_addr"
fi

expect "the server is deleted" os server delete --wait "$ONE"
for host in h1 h2; do same "nothing of the server is left on $host" "$(files_on $host "$ID"; on $host list --all --uuid)" ""; done
[ -n "${1:-}" ] || [ $FAILED != 0 ] || { trap - EXIT; (exit 0); house_close; exec bash "$0" shared; }
verdict
