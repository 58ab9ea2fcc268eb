#!/usr/bin/env bash
# Runs the behaviour tests of the reference implementation (gabbi files) against the Placement API.
#
#   tests/real/gabbi.sh [options of run-gabbits.py, such as --only REGEX]
#
# CHRONOVA_CONTRACT  folder with the contract data (default: shared/contract beside the repository)
# CHRONOVA_BIN       the binary to test (default: built here)
# GABBI_PYTHON       a Python with gabbi 4.x (default: python3, or a new virtual environment)
#
# tests/real/gabbi/known-failures.json lists tests that are known to fail. The list may only shrink. So the run fails if
# a listed test passes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
contract=${CHRONOVA_CONTRACT:-$root/../shared/contract}
runner=$contract/placement/run-gabbits.py
known=$here/gabbi/known-failures.json

# Exit status 77 means that the tests did not run; the last line of the output gives the reason.
skip() { echo "gabbi: $1"; exit 77; }
[ -f "$runner" ] || skip "no contract data at $contract (set CHRONOVA_CONTRACT)"

. "$root/tests/testbed/still_runs.sh"
work=$(mktemp -d)
cleanup() {
    if [ -f "$work/pid" ]; then
        pid=$(cat "$work/pid")
        kill "$pid" 2>/dev/null || true
        # The server writes its checkpoint before it ends.
        for _ in $(seq 100); do still_runs -p "$pid" || break; sleep 0.05; done
    fi
    rm -rf "$work"
}
trap cleanup EXIT

python=${GABBI_PYTHON:-python3}
if ! "$python" -c 'import gabbi' 2>/dev/null; then
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet gabbi || skip "gabbi cannot be installed"
    python=$work/venv/bin/python
fi

binary=${CHRONOVA_BIN:-}
if [ -z "$binary" ]; then
    (cd "$root" && cargo build --quiet -p chronova)
    target=$(cd "$root" && cargo metadata --format-version 1 --no-deps | "$python" -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')
    binary=$target/debug/chronova
fi

. "$root/tests/testbed/free_port.sh"
port=$(free_port) main=$(free_port)
export GABBI_POLICIES=$contract/placement/policies.json GABBI_WORK=$work GABBI_BINARY=$binary GABBI_PORT=$port GABBI_MAIN=$main
args=(--url "http://127.0.0.1:$port" --reset "$here/gabbi/reset.sh" --details "$work/result.json")
status=0
"$python" "$runner" "${args[@]}" "$@" "$contract/placement/gabbits" || status=$?
[ -f "$work/result.json" ] || exit "$status"
[ -z "${GABBI_RESULT:-}" ] || cp "$work/result.json" "$GABBI_RESULT"
"$python" "$here/gabbi/compare.py" "$work/result.json" "$known"
