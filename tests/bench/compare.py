#!/usr/bin/env python3
"""compare.py THEIRS.json OURS.json: prints two results of the same measurements side by side.

The output is a table for docs/performance.md.
"""
import json
import sys

theirs, ours = (json.load(open(path)) for path in sys.argv[1:3])
T, O = theirs["metrics"], ours["metrics"]


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


print("| what | %s | %s | times better |" % ("Nova Zed", ours.get("label", "ours")))
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
