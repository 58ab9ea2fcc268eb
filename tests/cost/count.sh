#!/bin/bash
# tests/cost/count.sh   counts the instructions of requests, boots and deletes
#
# Runs `chronova-dev cost` under callgrind and compares with tests/cost/instructions.txt. CHRONOVA_DEV_BIN is a debug
# build, because the committed figures are of one. The count does not depend on the machine's load. Each part does a few
# rounds and then more; the difference excludes what is done once. Fails when a round of any part takes over a tenth
# more instructions than committed. CHRONOVA_BLESS=1 writes the new figures instead; commit them with the reason. Exits
# 0 (no increase), 1 (an increase, or the count failed), 77 (cannot run here; the last line says why).
set -uo pipefail
cd "$(dirname "$0")" || exit 2
BIN=${CHRONOVA_DEV_BIN:-../../target/debug/chronova-dev}
KNOWN=${CHRONOVA_COST:-instructions.txt}
PARTS=(requests list candidates boot delete) # in the order of `chronova-dev cost`
FEW=5 MANY=25 MOST=10                        # rounds, rounds, percent
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
[ -x "$BIN" ] || { echo "no program at $BIN"; exit 77; }
[ -n "${CHRONOVA_BLESS:-}" ] || [ -s "$KNOWN" ] || { echo "no figures yet: CHRONOVA_BLESS=1 writes them"; exit 77; }

work=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cost.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The profiler writes a file whenever the program enters this function. Each part enters it three times: before the few
# rounds, after them, and after the many.
valgrind --tool=callgrind --callgrind-out-file="$work/out" --dump-before='*end_stretch*' "$BIN" cost --runs 1 \
  --times $FEW $MANY --dir "$work" >/dev/null 2>"$work/said" ||
  { tail -n 20 "$work/said" >&2; echo "the program cannot be counted"; exit 1; }
files=$(find "$work" -name 'out.*' | wc -l) wanted=$((3 * ${#PARTS[@]}))
[ "$files" = $wanted ] || { echo "the profiler wrote $files files, expected $wanted"; exit 1; }
total() { sed -n 's/^totals: \([0-9]*\).*/\1/p' "$work/out.$1"; }

new="# Instructions of one round of each part of \`chronova-dev cost\`, debug build; written by CHRONOVA_BLESS=1"
status=0
for at in "${!PARTS[@]}"; do
  part=${PARTS[$at]} few=$(total $((3 * at + 2))) many=$(total $((3 * at + 3)))
  round=$(((many - few) / (MANY - FEW)))
  [ $round -gt 0 ] || { echo "$part: nothing was counted"; exit 1; }
  new+=$'\n'"$part $round"
  [ -z "${CHRONOVA_BLESS:-}" ] || continue
  known=$(sed -n "s/^$part \([0-9]*\)$/\1/p" "$KNOWN")
  [ -n "$known" ] || { echo "$part: no figure yet: CHRONOVA_BLESS=1 writes it"; status=1; continue; }
  change=$((100 * (round - known) / known))
  echo "$part: a round takes $round instructions, $change % more than the $known that are known"
  [ $change -le $MOST ] || { echo "$part: that is more than $MOST % more"; status=1; }
  [ $change -ge -$MOST ] || echo "$part: less: worth writing down (CHRONOVA_BLESS=1)"
done
[ -z "${CHRONOVA_BLESS:-}" ] || { echo "$new" >"$KNOWN"; cat "$KNOWN"; }
exit $status
