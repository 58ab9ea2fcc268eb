#!/bin/bash
# Searches, target by target, for input that breaks a parser. libFuzzer chooses the next inputs by the code that earlier
# inputs reached, so it reaches more code than the random input of tests/tests/fuzz.rs. This script and that test have
# the same targets.
#
#   fuzz/run.sh [TARGET...]       all targets, or those that are named
#
# CHRONOVA_FUZZ_SECONDS  how long each target is searched (default: 120)
#
# The script uses stable Rust, so it runs without a sanitizer (`-s none`), which would need nightly. The searched code
# has no unsafe code. A search starts with the seeds of the tests and with earlier findings, and stores its corpus in
# fuzz/corpus. New findings go beside the earlier ones (tests/golden/fuzz), where every later test run tries them. Exit
# status: 0 nothing found, 77 cannot run here, 1 a finding.
set -uo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top/fuzz" || exit 1
seconds=${CHRONOVA_FUZZ_SECONDS:-120}
targets=("$@")
[ $# -gt 0 ] || targets=(policy query user_data configuration requests)
command -v cargo-fuzz >/dev/null || { echo "there is no cargo-fuzz"; exit 77; }
command -v c++ >/dev/null || { echo "there is no compiler of C++, which libFuzzer is written in"; exit 77; }

logs=$(mktemp -d "${TMPDIR:-/tmp}/chronova-fuzz.XXXXXX")
corpus=$top/fuzz/corpus
# Writes the seed inputs and the dictionary of each search.
CHRONOVA_FUZZ_CORPUS=$corpus cargo test --quiet --manifest-path "$top/Cargo.toml" --locked -p chronova-tests --test api \
  -- --exact fuzz::the_seed_corpus_is_written >"$logs/seeds.log" 2>&1 || { tail -n 30 "$logs/seeds.log"; exit 1; }
# Builds in a subfolder of CARGO_TARGET_DIR if that is set, because code with coverage counters must not mix with other
# builds.
options=(--dev --sanitizer none --fuzz-dir "$top/fuzz")
[ -z "${CARGO_TARGET_DIR:-}" ] || options+=(--target-dir "$CARGO_TARGET_DIR/fuzz")
cargo fuzz build "${options[@]}" >"$logs/build.log" 2>&1 || { tail -n 40 "$logs/build.log"; exit 1; }

found=0
for target in "${targets[@]}"; do
  artifacts=$logs/$target
  mkdir -p "$artifacts" "$corpus/$target" "$top/tests/golden/fuzz/$target"
  cargo fuzz run "${options[@]}" "$target" "$corpus/$target" "$top/tests/golden/fuzz/$target" -- \
    -max_total_time="$seconds" -timeout=60 -rss_limit_mb=6144 -max_len=65536 -dict="$corpus/$target.dict" \
    -artifact_prefix="$artifacts/" -print_final_stats=1 >"$logs/$target.log" 2>&1
  status=$?
  for artifact in "$artifacts"/*; do
    [ -f "$artifact" ] || continue
    name=$(sha256sum "$artifact" | cut -c 1-12)
    cp "$artifact" "$top/tests/golden/fuzz/$target/$name"
    echo "$target: $(basename "$artifact" | sed 's/-.*//'), kept as tests/golden/fuzz/$target/$name"
    found=1
  done
  rmdir "$top/tests/golden/fuzz/$target" 2>/dev/null
  if [ $status != 0 ]; then
    found=1
    grep -vE '^#[0-9]' "$logs/$target.log" | tail -n 40
    continue
  fi
  tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target.log" | tail -n 1)
  reached=$(grep -oE 'cov: [0-9]+' "$logs/$target.log" | tail -n 1)
  echo "$target: ${tried:-0} inputs in $seconds s, ${reached:-cov: 0}, nothing found"
done
[ $found = 1 ] && echo "logs: $logs" || rm -rf "$logs"
exit $found
