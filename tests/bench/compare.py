#!/usr/bin/env python3
"""compare.py --theirs RESULT.json... --ours RESULT.json...: prints results of the same measurements side by side.

Each figure is the median over the results of one side. The output is a table for docs/performance.md.
"""
import argparse
import json
import statistics

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--theirs", nargs="+", required=True)
parser.add_argument("--ours", nargs="+", required=True)
arguments = parser.parse_args()


def medians(paths):
    """The metrics of all results: for each metric its numbers, and for each number the median."""
    results = [json.load(open(path))["metrics"] for path in paths]
    found = {}
    for key in results[0]:
        sides = [result.get(key) or {} for result in results]
        numbers = [what for what, value in sides[0].items() if isinstance(value, (int, float))]
        found[key] = {what: statistics.median(side[what] for side in sides if what in side) for what in numbers}
    return found


T, O = medians(arguments.theirs), medians(arguments.ours)
label = json.load(open(arguments.ours[0])).get("label", "ours")


def number(value):
    if value is None:
        return "-"
    if value >= 100:
        return "{:,.0f}".format(value)
    return "{:.3g}".format(value)


def row(name, key, what, unit, less_is_better=True):
    before, after = (side.get(key, {}).get(what) for side in (T, O))
    if before is None and after is None:
        return
    ratio = "-"
    if before and after:
        factor = before / after if less_is_better else after / before
        ratio = "{:,.0f}x".format(factor) if factor >= 10 else "{:.1f}x".format(factor)
    shown = ["{} {}".format(number(value), unit).strip() for value in (before, after)]
    print("| {} | {} | {} | {} |".format(name, *shown, ratio))


print("| what | %s | %s | times better |" % ("Nova Zed", label))
print("|---|---|---|---|")
for key in O:
    for side in (T, O):
        side.setdefault(key, {})
    if "rps" in O[key]:
        row(key + " p50", key, "p50_ms", "ms")
        row(key + " p99", key, "p99_ms", "ms")
        row(key + " throughput", key, "rps", "/s", False)
        row(key + " CPU per request", key, "server_cpu_ms_per_request", "ms")
    elif key.startswith("boot") or key.startswith("delete"):
        row(key + " until accepted, p50", key, "post_202_p50_ms" if key.startswith("boot") else "delete_204_p50_ms", "ms")
        row(key + " until done, p50", key, "active_p50_ms" if key.startswith("boot") else "gone_p50_ms", "ms")
        row(key + " per second", key, "boots_per_s" if key.startswith("boot") else "deletes_per_s", "", False)
        row(key + " CPU each", key, "server_cpu_ms_per_boot" if key.startswith("boot") else "server_cpu_ms_per_delete", "ms")
    elif key.startswith("memory"):
        row(key + " (PSS)", key, "total_pss_mb", "MB")
    elif key == "idle_cpu_percent":
        row("CPU when idle", key, "total", "%")
    elif key == "cold_start":
        for what in ("token_201_s", "compute_get_flavors_200_s", "computes_up_s", "first_server_active_s"):
            row("cold start: " + what[:-2], key, what, "s")
    else:
        row(key + " per second", key, "per_s", "", False)
