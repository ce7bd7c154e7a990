# SPDX-License-Identifier: MIT
"""DACCE's figures (Li, Wang, Wu, Hsu, Xu: Dynamic and adaptive calling context encoding, CGO 2014): what it costs to keep
contexts as numbers, Table 1, Figures 9 and 10, and whether the numbers say the truth."""

import glob
import os

from . import encode_contexts, encode_figures as figures, encode_measure, encode_pictures, encode_programs, workloads
from .encode_render import render  # noqa: F401 (bench/run asks every table for it)

AVERAGE_BAR, MEDIAN_BAR, WORST_BAR = 1.03, 1.02, 1.15
THREADED_BAR, LENGTH_BAR = 5, 10  # programs; seconds
CALL_BAR, PUSH_BAR = 1.5, 1  # ns; a second: less than one is none
OTHER_BAR = 100  # a second: edges are met in the long run, too
TOLD_BAR, SAMPLES_BAR = 0.95, 10000
SITE_BAR, SITES_BAR = 1.0, 1000  # µs a site; sites: few of them show what is done once
BLOCKS_BAR = 1e6  # a second: those that are judged
STARTED = (("true",), ("perl", "-e", "0"), ("python3", "-S", "-c", "pass"), ("git", "--version"), ("gmx", "-quiet", "--version"))


def _try(row, part, measure, say):
    """One part of what is measured of a program. The other ones do not depend on it."""
    try:
        row[part] = None
        row[part] = measure()
    except (encode_measure.Failed, OSError, ValueError) as error:
        row.setdefault("failed", []).append(str(error))
        say(f"  {row['name']}, {part}: {error}")


def _measured(place, options, program, tools, parts, say):
    """Those parts of one program."""
    row = {"name": program.name, "threads": program.threads, "paper": program.paper, "recursive": program.recursive}
    try:
        units = encode_measure.amounts(place, program, options.quick)
    except encode_measure.Failed as error:
        say(f"  {program.name}: {error}")
        return {**row, "failed": [str(error)]}
    measures = {"steady": lambda: encode_measure.steady(place, program, units, options.rounds),
                "calls": lambda: encode_measure.calls(place, program, units, tools) if tools.weigh else None,
                "shares": lambda: encode_measure.shares(place, program, units, tools) if row["calls"] and tools.share and tools.ask else None,
                "verify": lambda: encode_measure.verify(place, program, units, 500 if options.quick else SAMPLES_BAR),
                "alloc": lambda: encode_measure.allocations(place, program, units, options.rounds)}
    for part in parts:
        _try(row, part, measures[part], say)
    say(f"  {program.name}: " + "; ".join(_said(row)))
    return row


def _said(row):
    if row.get("steady"):
        ns = figures.ns_per_call(row)
        yield f"steady {figures.ratio(row):.3f}" + (f", {ns:.2f} ns a call" if ns is not None else "")
        yield f"{figures.steady_pushes(row):,.0f} pushes/s"
    if row.get("verify"):
        yield f"{row['verify']['samples']} samples, {row['verify']['mismatches']} mismatches"
    if row.get("alloc"):
        yield f"allocations: walks +{figures.alloc_extra(row, 'walk'):.2f} s, numbers +{figures.alloc_extra(row, 'encode'):.2f} s"
    yield from (f"FAULT: {fault}" for fault in figures.faults(row))


def _draw(place, options, rows):
    folder = os.path.join(place.work if options.quick else place.source, encode_pictures.FOLDER)
    if not options.programs:
        for path in glob.glob(os.path.join(folder, "encode-*.svg")):
            os.unlink(path)
    for row in rows:
        if row.get("verify"):
            encode_pictures.draw(folder, row["name"], row["verify"]["encode"])


def measure(place, options, say):
    wanted = lambda name: not options.programs or name in options.programs or name.split()[0].rstrip(":,") in options.programs
    programs, missing = encode_programs.real(place)
    tools = encode_measure.Tools(place, say)
    each = lambda programs, parts: [_measured(place, options, program, tools, parts, say) for program in programs if wanted(program.name)]
    rows = each(programs, ("steady", "calls", "shares", "verify"))
    _draw(place, options, rows)
    small = each(encode_programs.small(place), ("steady", "calls"))
    allocating = each(encode_programs.allocating(place), ("alloc",))
    started = [[workloads.find(name), *rest] for name, *rest in STARTED if workloads.find(name)]
    return {"rounds": options.rounds, "rows": rows, "small": small, "allocating": allocating, "missing": missing,
            "start": [] if options.programs else encode_measure.starting(place, started, options.rounds),
            "contexts": None if options.programs else encode_contexts.measure(place, options, say)}


def _cost_bars(rows):
    average, middle, (name, worst) = figures.summary(rows)
    yield "contexts as numbers, everything encoded, steady: 1.03 on average", average <= AVERAGE_BAR, f"{average:.3f}"
    yield "… 1.02 in the median", middle <= MEDIAN_BAR, f"{middle:.3f}"
    yield "… 1.15 at worst", worst <= WORST_BAR, f"{name} {worst:.3f}"
    threaded = sum(row["threads"] > 1 for row in rows)
    shortest = min(rows, key=figures.native_seconds)
    yield (f"… of {THREADED_BAR} threaded programs at least, over {LENGTH_BAR} s each",
           threaded >= THREADED_BAR and figures.native_seconds(shortest) >= 0.9 * LENGTH_BAR,
           f"{threaded} of {len(rows)}; shortest: {shortest['name']} {figures.native_seconds(shortest):.1f} s")


def _call_bars(rows):
    known = [row for row in rows if figures.ns_per_call(row) is not None]
    if known:
        worst = max(known, key=figures.ns_per_call)
        yield "programs that do little but call: 1.5 ns a call beyond native", figures.ns_per_call(worst) <= CALL_BAR, \
            f"{worst['name']} {figures.ns_per_call(worst):.2f} ns"
    loops = [row for row in rows if not row["recursive"]]
    if loops:
        worst = max(loops, key=figures.steady_pushes)
        yield "no push in a loop without recursion, after a second", figures.steady_pushes(worst) < PUSH_BAR, \
            f"{worst['name']} {figures.steady_pushes(worst):,.0f} a second"


def _push_bars(rows):
    known = [row for row in rows if figures.other_pushes(row) is not None]
    if known:
        worst = max(known, key=figures.other_pushes)
        yield (f"pushes after a second are of recursion, overflow and targets without an arm, but for {OTHER_BAR} a second",
               figures.other_pushes(worst) <= OTHER_BAR, f"{worst['name']} {figures.other_pushes(worst):,.0f} others")


def _truth_bars(rows):
    shares = [(figures.told_share(row), row["name"]) for row in rows]
    if any(share is None for share, _ in shares):
        yield "95 % of samples told by their number, climbing out of leaf functions at most", False, "not counted"
    else:
        share, name = min(shares)
        yield "95 % of samples told by their number, climbing out of leaf functions at most", share >= TOLD_BAR, f"{name} {100 * share:.1f} %"
    wrong, fewest = sum(row["verify"]["mismatches"] for row in rows), min(row["verify"]["samples"] for row in rows)
    compared = min(row["verify"]["verified"] / max(row["verify"]["samples"], 1) for row in rows)
    yield (f"no number that a walk contradicts, in {len(rows)} programs", wrong == 0 and fewest >= SAMPLES_BAR,
           f"{wrong}, of {fewest:,} samples in each at least, {100 * compared:.0f} % of which were compared at least")


def bars(data):
    rows, small = ([row for row in data.get(key, []) if row.get("steady")] for key in ("rows", "small"))
    if rows:
        yield from _cost_bars(rows)
    if small:
        yield from _call_bars(small)
    yield from _push_bars(rows + small)
    verified = [row for row in data.get("rows", []) if row.get("verify")]
    if verified:
        yield from _truth_bars(verified)
    everything = data.get("rows", []) + data.get("small", []) + data.get("allocating", [])
    if everything:
        wrong = [row["name"] for row in everything if figures.faults(row)]
        yield "programs end and write as they do natively", not wrong, ", ".join(wrong) or f"{len(everything)} of {len(everything)}"
    judged = [row for row in data.get("allocating", []) if row.get("alloc") and figures.alloc_rate(row) >= BLOCKS_BAR]
    if judged:
        dearness = lambda row: figures.alloc_extra(row, "encode") / max(figures.alloc_extra(row, "walk"), 1e-9)
        worst = max(judged, key=dearness)
        yield "allocations by number cost no more than by remembered walks", dearness(worst) <= 1, f"{worst['name']} {dearness(worst):.2f} times"
    patched = [row for row in rows if (row["steady"]["encode"].get("sites_patched") or 0) >= SITES_BAR and figures.us_per_site(row) is not None]
    if patched:
        worst = max(patched, key=figures.us_per_site)
        yield f"a call site is patched in 1 µs, where {SITES_BAR:,} are", figures.us_per_site(worst) <= SITE_BAR, f"{worst['name']} {figures.us_per_site(worst):.2f} µs"
    if data.get("contexts"):
        yield from encode_contexts.bars(data["contexts"])
