#!/bin/bash
# Runs the tests of tempest.api.compute against a control plane on a simulated fleet.
#
#   tests/real/tempest.sh [REGEX]   the tests with matching ids; without REGEX the short selection of
#                                   tests/tempest/short.txt, or with CHRONOVA_SOAK=1 all tests
#
# CHRONOVA_BIN    the binary to test
# TEMPEST_VENV    a Python environment that has tempest, or gets it (default: .venv-tempest in the repository)
# TEMPEST_RESULT  a file that gets one line per test
# TEMPEST_SECONDS the time limit in seconds (default: 1100)
# TEMPEST_WORKERS the number of parallel tests (default: 1). With more, tests that move a host to another availability
#                 zone fail, because they need a host without servers of other tests.
# TEMPEST_VOLUMES true: also run the tests that need volumes
#
# With other hosts than simulated ones:
#
# TEMPEST_HYPERVISORS  the value of the option `hypervisors`
# TEMPEST_HOSTS        the number of these hosts
# TEMPEST_IMAGE        a qcow2 file that boots in TEMPEST_RAM MiB
# TEMPEST_PASSES       the list of tests that must pass
# TEMPEST_SETTINGS     other values for settings in tempest.conf: KEY=VALUE...
#
# tests/tempest/passes.txt lists the tests that must pass, passes-volumes.txt those that need volumes; both may only
# grow. exceptions.txt lists the tests that cannot pass, with reasons. Exit status: 0 passed, 77 cannot run here, 1 a
# listed test does not pass, or a test fails without a listed reason.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
own=$top/tests/tempest
HOSTS=${TEMPEST_HOSTS:-4}
skip() { echo "tempest: $1"; exit 77; }
[ -x "${CHRONOVA_BIN:-}" ] || skip "CHRONOVA_BIN names no program"

. "$top/tests/testbed/tempest.sh"
tempest_install || skip "tempest cannot be installed"

. "$top/tests/testbed/still_runs.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/chronova-tempest.XXXXXX")
house=
close() {
  local status=$?
  if [ -n "$house" ]; then
    kill "$house" 2>/dev/null
    for _ in $(seq 100); do still_runs -p "$house" || break; sleep 0.1; done
    kill -9 "$house" 2>/dev/null
  fi
  # The folder of a failed run stays, because it has the error messages.
  case $status in 0 | 77) rm -rf "$work" ;; *) echo "the files of this run: $work" ;; esac
}
trap close EXIT
trap 'exit 1' TERM INT

. "$top/tests/testbed/free_port.sh"
port=$(free_port) || skip "no port is free"
url=http://127.0.0.1:$port
FILTERS=ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
printf '%s\n' '[chronova]' "hypervisors = ${TEMPEST_HYPERVISORS:-sim://$HOSTS}" '[filter_scheduler]' \
  "enabled_filters = $FILTERS,SameHostFilter,DifferentHostFilter" >"$work/chronova.conf"
# Tempest assumes that every host reaches every volume.
[ "${TEMPEST_VOLUMES:-false}" = false ] || printf '%s\n' '[volume]' 'shared = true' >>"$work/chronova.conf"
# A guest that is still booting ignores its power button, so a stop waits for the whole timeout.
[ -z "${TEMPEST_HYPERVISORS:-}" ] || printf '%s\n' '[DEFAULT]' 'shutdown_timeout = 10' >>"$work/chronova.conf"
"$CHRONOVA_BIN" serve --data-dir "$work/data" --listen "127.0.0.1:$port" --config-file "$work/chronova.conf" \
  >"$work/chronova.log" 2>&1 </dev/null &
house=$!
for _ in $(seq 300); do curl -fsS -m 5 -o /dev/null "$url/healthz" 2>/dev/null && break; sleep 0.2; done
curl -fsS -m 5 -o /dev/null "$url/healthz" || { tail -n 30 "$work/chronova.log"; echo "tempest: the control plane does not start"; exit 1; }

tempest_furnish "$work" "$work/data/clouds.yaml" URL="$url" HOSTS=$HOSTS VOLUMES="${TEMPEST_VOLUMES:-false}" LIVE_MIGRATION=true \
  IMAGE_FILE="${TEMPEST_IMAGE:-}" RAM="${TEMPEST_RAM:-64}" || exit 1
# shellcheck disable=SC2086 # one word for each setting
tempest_set "$work" ${TEMPEST_SETTINGS:-}

selected=(--regex '^tempest\.api\.compute') part=()
if [ $# -gt 0 ]; then
  selected=(--regex "$1") part=(part)
elif [ -z "${CHRONOVA_SOAK:-}" ]; then
  selected=(--regex "$(grep -v '^#' "$own/short.txt" | paste -sd '|')") part=(part)
fi
tempest_run "$work" "${selected[@]}" || exit 1
cat "${TEMPEST_PASSES:-$own/passes.txt}" >"$work/passes.txt"
[ "${TEMPEST_VOLUMES:-false}" = false ] || cat "$own/passes-volumes.txt" >>"$work/passes.txt"
tempest_verdict "$work" "$work/passes.txt" "${part[@]}"
status=$?
[ -z "${TEMPEST_RESULT:-}" ] || cp "$work/result.txt" "$TEMPEST_RESULT"
exit $status
