#!/bin/bash
# tests/cost/count.sh   counts the instructions of requests and compares them with tests/cost/instructions.txt
#
# Runs `chronova-dev cost` under callgrind. CHRONOVA_DEV_BIN is a debug build, because the committed figures are from a
# debug build. The count does not depend on the machine's load. The script counts a few rounds of requests, then more
# rounds; the difference excludes start and end. Fails if a round takes more instructions than the committed figure and
# a tenth of it. CHRONOVA_BLESS=1 writes the new figure instead; commit it with the reason. Exits 0 (at most a tenth
# more), 1 (more, or the count failed), 77 (cannot run here; the last line says why).
set -uo pipefail
cd "$(dirname "$0")" || exit 2
BIN=${CHRONOVA_DEV_BIN:-../../target/debug/chronova-dev}
KNOWN=${CHRONOVA_COST:-instructions.txt}
FEW=10 MANY=60 MOST=10 # rounds, rounds, percent
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
[ -x "$BIN" ] || { echo "no program at $BIN"; exit 77; }
[ -n "${CHRONOVA_BLESS:-}" ] || [ -s "$KNOWN" ] || { echo "no figure yet: CHRONOVA_BLESS=1 writes it"; exit 77; }

work=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cost.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Prints the instructions of this number of rounds, including start and end.
count() { # rounds
  valgrind --tool=callgrind --callgrind-out-file="$work/out" "$BIN" cost --runs 1 --times "$1" --dir "$work" \
    >/dev/null 2>"$work/said" || { tail -n 20 "$work/said" >&2; return 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/said"
}

few=$(count $FEW) && many=$(count $MANY) && [ -n "$few" ] && [ -n "$many" ] || { echo "the program cannot be counted"; exit 1; }
round=$(((many - few) / (MANY - FEW)))
if [ -n "${CHRONOVA_BLESS:-}" ]; then
  printf '# Instructions of one round of the requests of `chronova-dev cost`, debug build; written by CHRONOVA_BLESS=1\n%d\n' \
    "$round" >"$KNOWN"
fi
known=$(grep -v '^#' "$KNOWN")
more=$(awk -v new="$round" -v old="$known" 'BEGIN { printf "%+.1f", 100 * (new - old) / old }')
echo "a round of requests takes $round instructions: $more % compared with the $known that are known"
# Compares whole numbers, because a percentage would be rounded.
[ $((100 * (round - known))) -le $((MOST * known)) ] || { echo "that is more than $MOST % more"; exit 1; }
[ $((100 * (round - known))) -ge $((-MOST * known)) ] || echo "less: worth writing down (CHRONOVA_BLESS=1)"
