# SPDX-License-Identifier: MIT
"""What one sample costs over stack depth: cairn with and without its marker, and two libraries that
walk the whole stack, in the same program, by the same signals."""

import json
import os

from . import profilers, workloads
from .measure import median

DEPTHS = (10, 100, 1000, 10000)
BAR = 1.5


def _library_rate(name, depth):
    """A walk must fit well into the period, or the program does not come to work between."""
    return 1000 if depth < 1000 or (name == "unw_backtrace" and depth < 10000) else 100


def _cairn(place, run, marker, depth, rounds):
    tool = profilers.Cairn("cairn", "cairn", place.cairn, "-F", "1000", "--marker", marker)
    output = place.profile()
    command, _ = tool.command([place.program("deep"), str(depth), str(rounds)], output)
    result = run(command, place.work)
    info = tool.info(output)
    return {"status": result.status, "mean": info["handler_ns"]["mean"],
            "p50": info["handler_ns"]["p50"], "samples": info["samples"],
            "stack": info["frames_per_sample"]["stack"], "walked": info["frames_per_sample"]["walked"]}


def _library(place, run, program, name, depth, rounds):
    times = place.at("times.json")
    result = run([program, str(depth), str(rounds), str(_library_rate(name, depth)), times], place.work)
    with open(times, encoding="ascii") as file:
        facts = json.load(file)
    os.unlink(times)
    return {"status": result.status, "mean": facts["mean"], "p50": facts["p50"],
            "samples": facts["samples"], "stack": facts["frames"], "walked": facts["frames"]}


def measure(place, options, say):
    glibc = workloads.compile_c(place, "deep.c", "deep-glibc", "-DSTACK_OF=1")
    libunwind = workloads.compile_c(place, "deep.c", "deep-libunwind", "-DSTACK_OF=2",
                                    libraries=["-lunwind"])
    work = 150000 if options.quick else 350000
    # The first sample of a thread walks all of its stack, once: the mean is that of a run of some seconds.
    longer = work if options.quick else 10 * work
    run = options.patience.run
    contestants = {
        "cairn, marker on": lambda depth: _cairn(place, run, "on", depth, longer),
        "cairn, marker off": lambda depth: _cairn(place, run, "off", depth, work),
        "unw_backtrace": lambda depth: _library(place, run, libunwind, "unw_backtrace", depth, work),
        "backtrace": lambda depth: _library(place, run, glibc, "backtrace", depth, work),
    }
    results = {name: {depth: [] for depth in DEPTHS} for name in contestants}
    for _ in range(options.rounds):
        for depth in DEPTHS:
            for name, sample in contestants.items():
                results[name][depth].append(sample(depth))
    merged = {name: {str(depth): {key: median([each[key] for each in runs]) for key in runs[0]}
                     for depth, runs in by_depth.items()} for name, by_depth in results.items()}
    for name, by_depth in merged.items():
        say(f"  {name}: " + ", ".join(f"{depth}: {facts['p50'] / 1000:.2f} µs"
                                      for depth, facts in by_depth.items()))
    return {"rounds": options.rounds, "results": merged}


def render(data):
    yield "## One sample, over stack depth"
    yield ""
    yield ("Time in the signal handler, mean · median in µs, and frames walked of frames on the stack. A hot "
           "leaf comes and goes on top of the given depth (`bench/programs/deep.c`). cairn's times are from "
           "`cairn info --json`, the mean includes the first sample, which walks the whole stack; the libraries are called from a handler of the same signals in the same "
           f"program. Medians of {data['rounds']} runs.")
    yield ""
    yield "| depth | " + " | ".join(data["results"]) + " |"
    yield "|---:|" + "---:|" * len(data["results"])
    for depth in map(str, DEPTHS):
        cells = []
        for by_depth in data["results"].values():
            facts = by_depth[depth]
            cells.append(f"{facts['mean'] / 1000:.2f} · {facts['p50'] / 1000:.2f} "
                         f"({facts['walked']:.0f} of {facts['stack']:.0f})")
        yield f"| {int(depth):,} | " + " | ".join(cells) + " |"


def bars(data):
    by_depth = data["results"]["cairn, marker on"]
    for key in ("mean", "p50"):
        value = by_depth[str(DEPTHS[-1])][key] / by_depth[str(DEPTHS[0])][key]
        yield (f"a sample at depth 10,000 ≤ {BAR} × depth 10, marker on ({key})", value <= BAR, f"{value:.2f} ×")
