#!/bin/bash
# ops/up.sh             from a fresh Debian 12 to a running server: installs, builds, starts, boots one guest
# ops/up.sh --package   the same, but builds and installs the Debian package, and runs its program
# ops/up.sh down        stops only what `ops/up.sh` has started; the data stays
#
# As root. A second run changes nothing and is quick. Settings, from the environment (with their defaults):
#   CHRONOVA_DATA    data directory                      (/var/lib/chronova)
#   CHRONOVA_LISTEN  HOST:PORT of the APIs               (127.0.0.1:8774)
#   CHRONOVA_PROFILE quick: builds faster; release: for production, takes about twice as long to build  (quick)
set -uo pipefail
. "$(dirname "$0")/setup.sh"

DATA=${CHRONOVA_DATA:-/var/lib/chronova}
LISTEN=${CHRONOVA_LISTEN:-127.0.0.1:8774}
RUN=$DATA/run
CONF=$DATA/chronova.conf
PROFILE=${CHRONOVA_PROFILE:-quick}
BUILT=${CARGO_TARGET_DIR:-$TOP/target}/$PROFILE/chronova
BIN=$DATA/bin/chronova
IMAGE=$DATA/demo-image.qcow2
export OS_CLIENT_CONFIG_FILE=$DATA/clouds.yaml OS_CLOUD=chronova

CRATES=(chronova) PACKAGE=
if [ "${1:-}" = --package ]; then
  PACKAGE=1 BIN=/usr/bin/chronova CRATES=(chronova chronova-dev)
  shift
fi

# ------------------------------------------------------------------------------------------------------------- progress

STEPS=11 STEP=0 BEGUN=$SECONDS
step() { STEP=$((STEP + 1)); printf '[%2d/%d] %s\n' "$STEP" "$STEPS" "$*"; }
say() { printf '        %s\n' "$*"; }
die() { printf '\nup.sh: %s\n' "$*" >&2; exit 1; }

# Runs a command and writes its output to a log. A terminal shows the seconds that have passed.
watched() { # log, command...
  local log=$1 pid begun=$SECONDS; shift
  "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    [ -t 1 ] && printf '\r        %3d s  %-60.60s' $((SECONDS - begun)) "$(tail -n 1 "$log" 2>/dev/null | tr -d '\r')"
    sleep 1
  done
  [ -t 1 ] && printf '\r%-80s\r' ''
  wait "$pid" || { tail -n 25 "$log" >&2; return 1; }
  say "done in $((SECONDS - begun)) s"
}

openstack() { "$VENV/bin/openstack" "$@"; }

# The value of one field of a resource, or nothing if there is no such resource.
field() { openstack "$1" show "$2" -f value -c "$3" 2>/dev/null; } # noun (quoted words), name, field

# ----------------------------------------------------------------------------------------------------------- the server

server_pid() {
  local pid
  pid=$(cat "$RUN/chronova.pid" 2>/dev/null)
  # Another process may have the number by now. The server's command line names the data directory.
  runs_as "$pid" chronova && tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF "$DATA" && echo "$pid"
}
# Where nothing waits for orphans, an ended process stays as a zombie, which has no program.
has_ended() { [ ! -e "/proc/$1/exe" ]; } # pid

# With a certificate in its configuration, the server speaks https.
healthy() {
  curl -fsS -m 5 -o /dev/null "http://$LISTEN/healthz" 2>/dev/null || curl -fsSk -m 5 -o /dev/null "https://$LISTEN/healthz" 2>/dev/null
}

server_start() {
  local pid
  if pid=$(server_pid) && healthy; then
    say "already running (process $pid)"
    return 0
  fi
  [ -n "$pid" ] && die "the server (process $pid) runs but does not answer http://$LISTEN/healthz; see $DATA/chronova.log"
  healthy && die "something else answers on $LISTEN; set CHRONOVA_LISTEN to another address"
  if [ ! -e "$CONF" ]; then
    printf '%s\n' '# Written by ops/up.sh at the first start; yours to change. All options: docs/configuration.md' \
      '[DEFAULT]' '# Names that no guest of an earlier data directory has on this host.' \
      'instance_name_template = instance-%(uuid)s' '[chronova]' 'hypervisors = qemu:///system' >"$CONF"
  fi
  "$BIN" config check "$CONF" >"$RUN/config-check" 2>&1 || { cat "$RUN/config-check" >&2; die "$CONF has errors"; }
  setsid "$BIN" serve --data-dir "$DATA" --listen "$LISTEN" --config-file "$CONF" \
    >>"$DATA/chronova.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$RUN/chronova.pid"
  local left=600
  until healthy; do
    kill -0 "$pid" 2>/dev/null || { tail -n 20 "$DATA/chronova.log" >&2; die "the server ended at start"; }
    left=$((left - 1)); [ $left -gt 0 ] || die "no answer from http://$LISTEN/healthz within 60 s; see $DATA/chronova.log"
    sleep 0.1
  done
  say "process $pid, log $DATA/chronova.log"
}

# ------------------------------------------------------------------------------------------------------- the demo guest

image_make() {
  if [ -n "$(field image demo id)" ]; then say "image demo is there"; return 0; fi
  if [ ! -s "$IMAGE" ]; then
    watched "$RUN/image.log" bash "$TOP/tests/testbed/make-image.sh" "$IMAGE" || die "the guest image could not be built"
  fi
  openstack image create --disk-format qcow2 --container-format bare --file "$IMAGE" --public demo \
    >"$RUN/image-create.log" 2>&1 || { cat "$RUN/image-create.log" >&2; die "the image could not be uploaded"; }
  say "image demo uploaded ($(($(stat -c %s "$IMAGE") / 1048576)) MiB)"
}

flavor_and_network() {
  if [ -n "$(field flavor demo id)" ]; then say "flavor demo is there"; else
    openstack flavor create --vcpus 1 --ram 192 --disk 1 demo >/dev/null || die "the flavor could not be made"
    say "flavor demo: 1 CPU, 192 MiB, 1 GiB"
  fi
  if [ -n "$(field network demo id)" ]; then say "network demo is there"; else
    openstack network create demo >/dev/null || die "the network could not be made"
    # libvirt refuses a network with addresses that this host already uses. An earlier demo may use some.
    local second=66 taken
    taken=$(ip -4 -o addr)
    while grep -qF " 10.$second." <<<"$taken"; do second=$((second + 1)); done
    openstack subnet create --network demo --subnet-range "10.$second.0.0/24" demo >/dev/null || die "the subnet could not be made"
    say "network demo: 10.$second.0.0/24"
  fi
}

server_boot() {
  local status
  status=$(field server demo status)
  case $status in
    ACTIVE) say "server demo is ACTIVE" ;;
    SHUTOFF) openstack server start demo || die "server demo does not start"
      wait_for 180 eval '[ "$(field server demo status)" = ACTIVE ]' || die "server demo is not ACTIVE"
      say "server demo was stopped; started" ;;
    '') openstack server create --wait --flavor demo --image demo --network demo --config-drive True demo >"$RUN/server-create.log" 2>&1 \
        || { cat "$RUN/server-create.log" >&2; "$BIN" inspect --data-dir "$DATA" demo >&2; die "server demo could not be booted; the reason is printed above"; }
      say "server demo is ACTIVE" ;;
    *) die "server demo is $status; look at: openstack server show demo" ;;
  esac
}

ready_line() { openstack console log show demo 2>/dev/null | tr -d '\r' | grep -a GUEST-READY | tail -n 1 | grep .; }

console_show() {
  # A guest without hardware virtualisation takes 10 to 60 seconds to boot, more on a busy machine.
  local begun=$SECONDS line
  until line=$(ready_line); do
    [ $((SECONDS - begun)) -lt 300 ] || die "no GUEST-READY on the console of demo within 300 s"
    [ -t 1 ] && printf '\r        %3d s' $((SECONDS - begun))
    sleep 1
  done
  [ -t 1 ] && printf '\r'
  say "$line"
}

# Builds the Debian package and installs it with what it depends on.
package_install() {
  local log=$RUN/package.log
  rm -f "$RUN"/chronova*.deb
  bash "$TOP/ops/packaging/deb.sh" "$BUILT" "${BUILT}-dev" "$RUN" >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "the package could not be built"; }
  # This script starts the server itself, with its own data directory.
  RUNLEVEL=1 apt-get -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 --reinstall install "$RUN"/chronova_*.deb >>"$log" 2>&1 \
    || { tail -n 5 "$log" >&2; die "the package could not be installed"; }
  say "$(dpkg-query -W -f '${Package} ${Version}, ${Installed-Size} KiB' chronova)"
}

# The operator's commands read the log while the server runs.
log_show() {
  local lines
  printf '\n$ chronova inspect demo\n'
  "$BIN" inspect --data-dir "$DATA" demo >"$RUN/inspect" || die "chronova inspect demo failed"
  sed -n '1,40p' "$RUN/inspect"
  lines=$(wc -l <"$RUN/inspect"); [ "$lines" -le 40 ] || say "... $((lines - 40)) more lines"
  printf '\n$ chronova audit --kind instance.\n'
  "$BIN" audit --data-dir "$DATA" --kind instance. >"$RUN/audit" || die "the log cannot be read"
  tail -n 3 "$RUN/audit" | sed -E 's/^(.{160}).*/\1.../'
  printf '\n$ chronova rebuild\n'
  "$BIN" rebuild --data-dir "$DATA" || die "the read models differ from what the log says"
}

# ------------------------------------------------------------------------------------------------------------- commands

up() {
  [ "$(id -u)" = 0 ] || die "run this as root: it installs packages and starts libvirtd"
  mkdir -p "$RUN" && chmod 0700 "$DATA" "$RUN" || die "cannot make $DATA"
  step "Packages"; setup_packages build client host guest ${PACKAGE:+package} || die "packages are missing"
  step "Rust toolchain"; setup_rust || exit 1
  step "OpenStack client in .venv"; setup_client || die "the client could not be installed"
  step "Build with the profile $PROFILE (several minutes the first time)"
  watched "$RUN/build.log" cargo build --profile "$PROFILE" --locked --manifest-path "$TOP/Cargo.toml" "${CRATES[@]/#/--package=}" \
    || die "the build failed; all of it is in $RUN/build.log"
  if [ -n "$PACKAGE" ]; then package_install; else install_program "$BUILT" "$BIN" || die "$BIN cannot be written"; fi
  step "libvirt"; libvirt_start "$RUN" || die "no libvirtd"
  say "$(virsh -q -c qemu:///system version 2>/dev/null | tail -n 1)"
  step "Chronova on http://$LISTEN"; server_start
  [ -s "$OS_CLIENT_CONFIG_FILE" ] || die "the server has written no $OS_CLIENT_CONFIG_FILE"
  step "Guest image"; image_make
  step "Flavor and network"; flavor_and_network
  step "One server"; server_boot
  step "Its console"; console_show
  step "What the event log tells"; log_show
  printf '\n$ openstack server list\n'; openstack server list
  cat <<T

Up in $((SECONDS - BEGUN)) s. What to type next:

  export OS_CLIENT_CONFIG_FILE=$OS_CLIENT_CONFIG_FILE PATH=$VENV/bin:\$PATH
  openstack --os-cloud chronova server create --wait --flavor demo --image demo --network demo second
  openstack --os-cloud chronova server event list demo
  $BIN inspect --data-dir $DATA demo
  $BIN audit --data-dir $DATA --follow
  bash ops/up.sh down
T
}

down() {
  local pid networks=''
  if pid=$(server_pid); then
    networks=$(openstack network list -f value -c ID 2>/dev/null)
    if healthy && [ "$(field server demo status)" = ACTIVE ]; then
      openstack server stop demo && wait_for 90 eval '[ "$(field server demo status)" != ACTIVE ]'
      say "server demo stopped"
    fi
    kill "$pid"
    wait_for 240 has_ended "$pid" || die "the server (process $pid) does not stop"
    rm -f "$RUN/chronova.pid"
    say "Chronova stopped (process $pid)"
  else
    rm -f "$RUN/chronova.pid"
    say "Chronova was not running"
  fi
  networks_stop $networks
  if [ -s "$RUN/libvirtd.pid" ] || [ -s "$RUN/libvirt-units" ]; then
    libvirt_stop "$RUN" || die "libvirt does not stop"
    say "libvirt stopped"
  fi
}

# The bridges and DHCP servers of our networks outlive libvirtd, so this function stops them. The server starts them
# again. If any guest still runs, the function leaves them running.
networks_stop() { # ids...
  local id
  [ -z "$(virsh -q -c qemu:///system list --name 2>/dev/null | grep .)" ] || return 0
  for id in "$@"; do
    virsh -q -c qemu:///system net-destroy "chronova-${id:0:8}" >/dev/null 2>&1 && say "network chronova-${id:0:8} stopped"
  done
}

case ${1:-up} in
  up) up ;;
  down) down ;;
  *) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
