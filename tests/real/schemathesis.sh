#!/bin/bash
# Schemathesis generates valid and invalid requests from the control plane's own documents (GET /openapi.json), and
# sends them to a control plane with a simulated fleet. No answer may be a server error, and a request without a token
# must be refused. Every answer has the headers and the body that the document describes.
#
#   tests/real/schemathesis.sh [SERVICE[@VERSION]...]
#
# The default is compute. With CHRONOVA_SOAK=1 it is compute, placement, network, volume, image and identity, the first
# two in several versions.
#
# CHRONOVA_BIN           the binary to test
# SCHEMATHESIS_VENV      a Python environment that has schemathesis, or gets it (default: .venv-schemathesis)
# SCHEMATHESIS_EXAMPLES  the most generated requests per operation in the phase `fuzzing` (default: 1; with
#                        CHRONOVA_SOAK=1: 60)
# SCHEMATHESIS_SEED      the seed of a long run, which prints its seed; short runs have a fixed seed
#
# Exit status: 0 passed, 77 cannot run here, 1 a check failed.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
sim_open schemathesis '[chronova]' 'hypervisors = sim://3'

venv=$(realpath -m "${SCHEMATHESIS_VENV:-$TOP/.venv-schemathesis}")
if ! "$venv/bin/schemathesis" --version 2>/dev/null | grep -q '4\.32\.5'; then
  python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check schemathesis==4.32.5 \
    || cannot "schemathesis cannot be installed"
fi

options=(--checks not_a_server_error,ignored_auth,response_schema_conformance,response_headers_conformance
  --workers 1 --no-shrink --no-color
  --suppress-health-check all --warnings off --request-timeout 60 --continue-on-failure)
if [ -n "${CHRONOVA_SOAK:-}" ]; then
  seed=${SCHEMATHESIS_SEED:-$(date +%s)}
  echo "SCHEMATHESIS_SEED=$seed"
  options+=(--phases coverage,fuzzing --max-examples "${SCHEMATHESIS_EXAMPLES:-60}" --seed "$seed" --generation-database none)
  names=(compute compute@2.1 compute@2.35 compute@2.60 placement placement@1.10 network volume image identity)
else
  options+=(--phases fuzzing --max-examples "${SCHEMATHESIS_EXAMPLES:-1}" --seed 1 --generation-deterministic)
  names=(compute)
fi
[ $# = 0 ] || names=("$@")

password=$(sed -n 's/^ *password: "\{0,1\}\([^"]*\).*/\1/p' "$DATA/clouds.yaml")
python3 "$HERE/schemathesis.py" "$URL" "$password" "$WORK" "${names[@]}" >"$WORK/services" 2>"$WORK/furnish.err" \
  || { bad "resources to query are created" "$(cat "$WORK/furnish.err")"; exit 1; }
while read -r name address; do
  # Schemathesis stores its notes in the working directory.
  if (cd "$WORK" && "$venv/bin/schemathesis" --config-file "$WORK/$name.toml" run "$WORK/$name.json" --url "$address" "${options[@]}" \
    >"$WORK/$name.log" 2>&1 </dev/null); then
    ok "$name: $(grep -E 'cases? generated|[0-9]+ generated' "$WORK/$name.log" | tail -n 1 | sed 's/^ *//')"
  else
    bad "$name" "$(grep -E 'Server error|violates schema|does not conform|Missing|\[[0-9]{3}\]|curl -X|API accepts|FAILURES|ERROR' "$WORK/$name.log" | cut -c 1-300)"
    cp "$WORK/$name.log" "${TMPDIR:-/tmp}/schemathesis-$name.log"
    echo "        all of it: ${TMPDIR:-/tmp}/schemathesis-$name.log"
  fi
  still_runs -p "$HOUSE" || { bad "the control plane still runs" "$(tail -n 20 "$WORK/chronova.log")"; break; }
done <"$WORK/services"
verdict
