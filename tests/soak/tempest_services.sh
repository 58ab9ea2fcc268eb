#!/bin/bash
# Runs tempest against a control plane with a real Keystone, Glance, and Neutron with OVN, and guests on two real hosts. The
# first run has the tests of tempest.api.compute. The second has scenarios that reach guests by floating addresses and log
# in over SSH. The script prints the number of tests that pass, fail and are skipped, and the failed ones.
#
#   tests/soak/tempest_services.sh            all of them: three to eight hours
#   tests/soak/tempest_services.sh api REGEX  only tests with matching ids; `scenario REGEX` with log-ins
#
# TEMPEST_VENV    as in tests/real/tempest.sh
# TEMPEST_RESULT  a file that gets one line per test
# TEMPEST_SECONDS the time limit of each run in seconds (default: 14400)
#
# As root. The hosts reach this machine by its own address, so no other script with such hosts may run at the same time.
# Exit status as in house.sh; a test that fails without a reason in tests/tempest/exceptions.txt is a failed check.
set -uo pipefail
FLEET_OPTIONS=--root-link
. "$(dirname "$0")/../testbed/openstack.sh"
. "$TESTBED/tempest.sh"
RUNS=(api scenario)
declare -A TESTS=([api]='^tempest\.api\.compute'
  [scenario]='^tempest\.scenario\.test_(network_basic_ops|server_basic_ops|security_groups_basic_ops|minimum_basic|network_advanced_server_ops|server_advanced_ops)\.')
if [ $# -gt 0 ]; then RUNS=("$1") TESTS[$1]=${2:-${TESTS[$1]}}; fi
export TEMPEST_SECONDS=${TEMPEST_SECONDS:-14400} TEMPEST_WORKERS=1
tempest_install >/dev/null 2>&1 || cannot "tempest cannot be installed"
SSH_IMAGE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-ssh.qcow2
if [ ! -s "$SSH_IMAGE" ] || [ -n "$(find "$TESTBED/make-image.sh" "$TESTBED/guest" -newer "$SSH_IMAGE" -print -quit)" ]; then
  MADE=$(bash "$TESTBED/make-image.sh" "$SSH_IMAGE" --ssh 2>&1) || cannot "no guest image with an SSH server: $(tail -n 1 <<<"$MADE")"
fi

FILTERS=ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
HOUSE_CONF=$(printf '%s\n' '[filter_scheduler]' "enabled_filters = $FILTERS,SameHostFilter,DifferentHostFilter")
openstack_open tempest ts 10.91
# A guest that is still booting ignores its power button, so a stop waits for the whole timeout.
sed -i 's/^shutdown_timeout = .*/shutdown_timeout = 10/' "$CONF"
with
# Tempest pings with the program `ping`, which this machine may lack.
if ! command -v ping >/dev/null; then
  mkdir "$WORK/bin"
  printf '#!/bin/sh\nexec busybox ping "$@"\n' >"$WORK/bin/ping"
  chmod 755 "$WORK/bin/ping"
  PATH=$WORK/bin:$PATH
fi
# Floating addresses are on the hosts' wire, which the testbed's controller routes to. The routes end with the testbed.
hosts ctl sysctl -qw net.ipv4.ip_forward=1
expect "this machine has a route to floating addresses" ip route replace 10.232.0.0/24 via 10.231.0.1

FOLDER=$WORK/tempest
mkdir "$FOLDER"
tempest_furnish "$FOLDER" "$HOUSE_CLOUDS" URL="$URL" HOSTS=2 VOLUMES=false LIVE_MIGRATION=true IMAGE_FILE="$SSH_IMAGE" RAM=160 \
  PHYSICAL=physnet1 OUTSIDE=10.232.0.0/24,10.232.0.150,10.232.0.199 >"$WORK/furnish" 2>&1 \
  || { bad "the cloud is furnished for tempest" "$(tail -n 20 "$WORK/furnish")"; verdict; }
tempest_set "$FOLDER" "uri_v3=$KEYSTONE/v3" build_timeout=400 build_interval=2 shared_physical_network=false
: >"$WORK/no-list"

for RUN in "${RUNS[@]}"; do
  # The guest has neither curl nor blkid, with which tempest would read its metadata and its config drive. The guest
  # itself reads its key from the config drive, because it asks for metadata only once, right after its start.
  if [ "$RUN" = scenario ]; then
    tempest_set "$FOLDER" run_validation=true connect_method=floating config_drive=false
    sed -i '0,/^\[DEFAULT\]$/s//&\nforce_config_drive = true/' "$CONF"
    with
  fi
  expect "tempest runs ($RUN)" tempest_run "$FOLDER" --regex "${TESTS[$RUN]}"
  tempest_verdict "$FOLDER" "$WORK/no-list" part >"$WORK/verdict" 2>&1
  [ -z "${TEMPEST_RESULT:-}" ] || cat "$FOLDER/result.txt" >>"$TEMPEST_RESULT"
  grep -E '^(FAIL|INCOMPLETE) ' "$FOLDER/result.txt" | sed 's/^/        /'
  like "tempest ($RUN) gives results" "$(tail -n 1 "$WORK/verdict")" '^[1-9][0-9]* pass'
  same "tempest ($RUN): $(tail -n 1 "$WORK/verdict")" "$(grep -c '^fails without a known reason' "$WORK/verdict")" 0
done
verdict
