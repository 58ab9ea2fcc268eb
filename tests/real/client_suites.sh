#!/bin/bash
# Runs the functional tests of openstacksdk, python-openstackclient and python-novaclient against a control plane on a
# simulated fleet, with the users and resources of a DevStack.
#
#   tests/real/client_suites.sh [REGEX]   the tests with matching ids; without REGEX the selection of
#                                         tests/suites/short.txt, or with CHRONOVA_SOAK=1 all tests
#
# tests/suites/exceptions.txt lists the tests that fail, with reasons. A failure that is not listed fails the script,
# and so does a listed test that passes.
#
# CHRONOVA_BIN   the binary to test
# SUITES_VENV    a Python environment that has the clients, or gets them (default: .venv-suites in the repository)
# SUITES_RESULT  a file that gets one line per test
#
# Exit status: 0 passed, 77 cannot run here, 1 a check failed.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
own=$TOP/tests/suites
# The folders of services that Chronova has. Tests of other services skip themselves.
FOLDERS=(openstack.tests.functional.{compute,network,image,identity,block_storage,placement,examples,cloud}
  openstackclient.tests.functional novaclient.tests.functional)

venv=$(realpath -m "${SUITES_VENV:-$TOP/.venv-suites}")
if ! cmp -s "$own/requirements.txt" "$venv/installed.txt"; then
  python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$own/requirements.txt" \
    && cp "$own/requirements.txt" "$venv/installed.txt" || cannot "the clients cannot be installed"
fi

sim_open suites '[volume]' 'shared = true' '[chronova]' 'hypervisors = sim://3'
python3 "$own/furnish.py" "$DATA/clouds.yaml" "$WORK/clouds.yaml" 2>"$WORK/furnish.err" \
  || { bad "resources to query are created" "$(cat "$WORK/furnish.err")"; exit 1; }

# The tests of the commands start `openstack` and `nova` thousands of times. So these programs replace the two commands:
# they send their arguments to a process that has imported the client already.
mkdir "$WORK/bin"
unset OS_CLOUD
export OS_CLIENT_CONFIG_FILE=$WORK/clouds.yaml HOME=$WORK
for client in openstack nova; do
  "$venv/bin/python3" "$HERE/client.py" serve "$WORK/$client" $client >"$WORK/$client.log" 2>&1 &
  CLIENTS+=($!)
  printf '%s\n' '#!/bin/bash' "exec timeout 300 python3 -S -I '$HERE/client.py' run '$WORK/$client'"' "$@"' >"$WORK/bin/$client"
  chmod +x "$WORK/bin/$client"
done
house_last() { kill "${CLIENTS[@]}" 2>/dev/null; }
for client in openstack nova; do
  wait_for 60 test -S "$WORK/$client" || { bad "the client $client starts" "$(cat "$WORK/$client.log")"; exit 1; }
done

# Settings as in the projects' own CI.
export PATH=$WORK/bin:$PATH TOX_ENV_DIR=$WORK OS_NOVACLIENT_NETWORK=private OS_TEST_TIMEOUT=600 OS_LOG_CAPTURE=1 OS_STDOUT_CAPTURE=1 \
  OS_STDERR_CAPTURE=1 OPENSTACKSDK_FUNC_TEST_TIMEOUT=120 OPENSTACKSDK_EXAMPLE_CONFIG_KEY=functional
selected=() part=()
if [ $# -gt 0 ]; then
  selected=("$1") part=(part)
elif ! long_run; then
  selected=("$(grep -v '^#' "$own/short.txt" | paste -sd '|')") part=(part)
fi
cd "$WORK" || exit 1
# Tests of the SDK upload this file of its repository.
echo Contributing >CONTRIBUTING.rst
for folder in "${FOLDERS[@]}"; do
  begun=$SECONDS
  "$venv/bin/python3" "$own/run.py" "$folder" "$WORK/results" "$WORK/details" "${selected[@]}" >"$WORK/$folder.log" 2>&1 </dev/null \
    || bad "$folder runs to its end" "$(tail -n 20 "$WORK/$folder.log")"
  still_runs -p "$HOUSE" || { bad "the control plane still runs" "$(tail -n 20 "$WORK/chronova.log")"; break; }
  echo "$folder: $((SECONDS - begun)) s"
done
[ -z "${SUITES_RESULT:-}" ] || cp "$WORK/results" "$SUITES_RESULT"
[ -s "$WORK/results" ] || { bad "tests run"; exit 1; }
python3 "$own/verdict.py" "$WORK/results" "$own/exceptions.txt" "$TOP/docs/embedded-services.md" "${part[@]}" >"$WORK/verdict" 2>&1
expect "each failure is listed, and no listed test passes" [ $? = 0 ]
cat "$WORK/verdict"
verdict
