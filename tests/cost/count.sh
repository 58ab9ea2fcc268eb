#!/bin/bash
# tests/cost/count.sh   how many instructions requests take, compared with tests/cost/instructions.txt
#
# Counts with callgrind what `chronova bench cost` does (CHRONOVA_BIN, a debug build: the figures are of one), which is the
# same on every machine and under any load. Fails when something takes more than a tenth more than what is committed.
# CHRONOVA_BLESS=1 writes the figures down instead; commit them with the reason.
# Exits 0 (as it was), 1 (more, or not to be counted), 77 (cannot run here; the last line says why).
set -uo pipefail
cd "$(dirname "$0")" || exit 2
BIN=${CHRONOVA_BIN:-../../target/debug/chronova}
MOST=10 # percent
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
[ -x "$BIN" ] || { echo "no program at $BIN"; exit 77; }

work=$(mktemp -d "${TMPDIR:-/tmp}/chronova-cost.XXXXXX")
trap 'rm -rf "$work"' EXIT

valgrind --tool=callgrind --callgrind-out-file="$work/count" --toggle-collect='*counted_stretch*' \
  --dump-after='*counted_stretch*' "$BIN" bench cost --runs 1 --json --dir "$work" >"$work/report" 2>"$work/said" \
  || { tail -n 20 "$work/said"; echo "the program cannot be counted"; exit 1; }

# One dump per line of the report, in order; "totals:" is what was counted since the one before.
python3 - "$work" "$MOST" "${CHRONOVA_BLESS:-}" <<'PYTHON'
import glob, json, re, sys
work, most, bless = sys.argv[1], float(sys.argv[2]), sys.argv[3]
lines = json.load(open(work + "/report"))["lines"]
dumps = sorted(glob.glob(work + "/count.*"), key=lambda name: int(name.rsplit(".", 1)[1]))
totals = [int(re.search(r"^totals: (\d+)", open(name).read(), re.M).group(1)) for name in dumps]
totals = [total for total in totals if total > 0]
if len(totals) != len(lines):
    sys.exit("%d counts for %d kinds of work" % (len(totals), len(lines)))
found = {line["name"]: total // line["runs"][0]["operations"] for line, total in zip(lines, totals)}
if bless:
    head = "# Instructions of one request, or of one event, in a debug build. Written by CHRONOVA_BLESS=1 tests/cost/count.sh\n"
    open("instructions.txt", "w").write(head + "".join("%-24s %12d\n" % one for one in found.items()))
known = dict(line.split() for line in open("instructions.txt") if not line.startswith("#"))
worse = 0
for name, count in found.items():
    if name not in known:
        print("%-24s %12d  NEW: not in instructions.txt" % (name, count)); worse += 1
        continue
    change = 100.0 * (count - int(known[name])) / int(known[name])
    word = "MORE THAN %g %%" % most if change > most else "less: worth blessing" if change < -most else ""
    worse += change > most
    print("%-24s %12d  %+6.1f %%  %s" % (name, count, change, word))
sys.exit(1 if worse else 0)
PYTHON
