# SPDX-License-Identifier: MIT
"""Hot functions and the bounded tree (Whaley: A portable sampling-based profiler for Java virtual machines,
2000): what they cost and how well two runs agree. The paper's Figures 13 and 14."""

import json
import math
import os
import subprocess
from statistics import mean, stdev

from . import profilers, workloads
from .measure import median

DEPTH = 16
PERIODS = ("1ms", "10ms", "50ms")
TREES = {"functions": "functions", "bounded": f"bounded:{DEPTH}"}
TITLES = {"functions": "hot functions (Figure 13)", "bounded": f"bounded tree, K = {DEPTH} (Figure 14)"}
PROGRAMS = ("sqlite3", "perl", "python3", "java", "xz")  # one runs in a virtual machine, one in threads
SET_SECONDS = 10  # of CPU time, as in the paper
QUICK_SECONDS = 1
OVERHEAD, PRECISION = 0.02, 0.95

# (overhead, precision) at each period, on one processor (P3-550-S) and on two (P3-500-D).
PAPER = {
    "functions": (
        ("spec, one processor", (1.0252, .9892), (1.0055, .9611), (1.0036, .9113)),
        ("cm30, one processor", (1.0371, .9995), (1.0029, .9991), (0.9945, .9973)),
        ("pbob, one processor", (1.0134, .9987), (1.0088, .9959), (1.0019, .9904)),
        ("spec, two processors", (1.0110, .9962), (1.0046, .9617), (1.0030, .8934)),
        ("cm30, two processors", (1.0165, .9999), (1.0040, .9990), (1.0048, .9983)),
        ("pbob, two processors", (1.0103, .9955), (1.0090, .9952), (1.0046, .9453)),
    ),
    "bounded": (
        ("spec, one processor", (1.0471, .9347), (1.0374, .8715), (1.0346, .8422)),
        ("cm30, one processor", (1.0590, .9989), (1.0225, .9950), (1.0142, .9887)),
        ("pbob, one processor", (1.0583, .9146), (1.0437, .8832), (1.0224, .8428)),
        ("spec, two processors", (1.0313, .9368), (1.0228, .8765), (1.0201, .8336)),
        ("cm30, two processors", (1.0225, .9998), (1.0156, .9930), (1.0112, .9858)),
        ("pbob, two processors", (1.0389, .8802), (1.0249, .8696), (1.0262, .8201)),
    ),
}

# Student's t for 95 %, by degrees of freedom; beyond, that of the normal distribution.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL = 1.960

REPEAT = 'n=$1; shift; while [ "$n" -gt 0 ]; do "$@" || exit; n=$((n - 1)); done'


def half_interval(values):
    """Half of the mean's confidence interval."""
    freedom = len(values) - 1
    t = STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
    return t * stdev(values) / math.sqrt(len(values))


def correlation(one, other):
    """Pearson's, over all items that either of the sets has."""
    items = sorted(set(one) | set(other))
    if len(items) < 2:
        return 1.0
    pairs = [(one.get(item, 0), other.get(item, 0)) for item in items]
    middle = [mean(values) for values in zip(*pairs)]
    covariance = sum((x - middle[0]) * (y - middle[1]) for x, y in pairs)
    deviations = [math.sqrt(sum((pair[side] - middle[side]) ** 2 for pair in pairs)) for side in (0, 1)]
    return covariance / (deviations[0] * deviations[1]) if all(deviations) else 0.0


def weights(report):
    """{(what, names from the root down): weight}. As in the paper, nodes and edges are the same if the names on
    their paths are; what is inlined belongs to the function that it is inlined into."""
    paths, found = {None: ()}, {}
    for node in report["nodes"]:
        path = paths[node["parent"]]
        if node.get("kind") != "inlined":
            path += (node["function"],)
        paths[node["id"]] = path
        for number, what in ((0, "node"), (1, "edge"))[:len(node["self"])]:
            if node["self"][number]:
                found[what, path] = found.get((what, path), 0) + node["self"][number]
    return found


def _report(place, profile):
    done = subprocess.run([place.cairn, "report", profile, "--min", "0", "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def _repeated(place, program, seconds, patience):
    """The program as often as it takes to fill a set."""
    once = patience.run(program.argv, place.work).cpu
    return ["/bin/sh", "-c", REPEAT, "sh", str(max(1, round(seconds / max(once, 0.01)))), *program.argv]


def _tools(place):
    tools = {("native", ""): profilers.Profiler("native", "native")}
    for period in PERIODS:
        event = ("-e", f"cpu:{period}")
        tools["empty", period] = profilers.Cairn("empty", "empty", place.cairn, *event, "--empty-handler")
        for name, tree in TREES.items():
            tools[name, period] = profilers.Cairn(name, name, place.cairn, *event, "--tree", tree)
    return tools


def _program(place, options, program):
    tools = _tools(place)
    command = _repeated(place, program, QUICK_SECONDS if options.quick else SET_SECONDS, options.patience)
    times = {key: [] for key in tools}
    sets, handlers, right = {}, {}, True
    digest = None
    for number in range(max(2, options.rounds)):
        order = list(tools)
        shift = number * 3 % len(order)
        for key in order[shift:] + order[:shift]:
            output = place.profile()
            argv, env = tools[key].command(command, output)
            run = options.patience.run(argv, place.work, env)
            times[key].append(run.cpu)
            digest = digest or run.digest
            right = right and run.digest == digest and run.status == 0
            if key[0] in TREES:
                sets.setdefault(key, []).append(weights(_report(place, output)))
                info = tools[key].info(output)
                share = info["handler_ns"]["mean"] * info["samples"] / info["cost_ns"]
                handlers.setdefault(key, []).append(share)
    cells = {}
    for key in sets:
        found = [max(correlation(one, other), 1e-9) for one, other in zip(sets[key], sets[key][1:])]
        ratios = lambda base: [mine / other for mine, other in zip(times[key], times[base])]
        over = ratios(("native", ""))
        cells["/".join(key)] = {
            "overhead": mean(over), "interval": half_interval(over), "beyond": median(ratios(("empty", key[1]))) - 1,
            "handler": median(handlers[key]), "items": median([len(found) for found in sets[key]]),
            "precision": math.exp(sum(map(math.log, found)) / len(found))}
    return {"name": program.name, "what": program.what, "seconds": median(times["native", ""]), "right": right,
            "cells": cells}


def measure(place, options, say):
    programs, _ = workloads.all_workloads(place)
    wanted = options.programs or PROGRAMS
    rows = []
    for program in programs:
        if program.name.split()[0] not in wanted:
            continue
        rows.append(row := _program(place, options, program))
        for name in TREES:
            say(f"  {row['name']}, {name}: " + "; ".join(
                f"{period} {cell['overhead']:.3f}, handler {cell['handler']:.2%}, precision {cell['precision']:.4f}"
                for period in PERIODS for cell in [row["cells"][f"{name}/{period}"]]))
    if os.path.exists(place.at("profile")):
        os.unlink(place.at("profile"))
    return {"rounds": max(2, options.rounds), "programs": rows, "runs": options.patience.runs,
            "disturbed": options.patience.disturbed}


def _cells(data):
    return [cell for row in data["programs"] for cell in row["cells"].values()]


def _with_interval(cell):
    return f"{cell['overhead']:.3f} ± {cell['interval']:.3f}" if "interval" in cell else f"{cell['overhead']:.3f}"


def render(data):
    yield "## Hot functions and the bounded tree"
    yield ""
    middle = "mean and 95 % by Student's t" if all("interval" in cell for cell in _cells(data)) else "median"
    yield ("Each program again and again for ten seconds of CPU time makes a set, which begins with an empty buffer, as the paper's do "
           f"after a purge every ten seconds; *overhead* is total CPU over native, {middle}, *handler* the "
           "share of time spent in our handler (what is beyond an empty one), *precision* the correlation of the sets of two "
           "runs: functions by their cost, or contexts and edges by their weights, the same if the names on their paths are. "
           f"{data['rounds']} interleaved rounds; {data['disturbed']} of {data['runs']} runs were disturbed by others. The paper's "
           "machines had 500 and 550 MHz.")
    for name in TREES:
        yield ""
        yield f"PCCT's {TITLES[name]}:"
        yield ""
        yield "| program | " + " | ".join(f"{period}: overhead | handler | precision" for period in PERIODS) + " |"
        yield "|---|" + "---:|" * (3 * len(PERIODS))
        for row in data["programs"]:
            cells = [row["cells"][f"{name}/{period}"] for period in PERIODS]
            yield f"| {row['name']} | " + " | ".join(
                f"{_with_interval(cell)} | {cell['handler']:.2%} | {cell['precision']:.4f}" for cell in cells) + " |"
        for title, *cells in PAPER[name]:
            yield f"| *{title} (paper)* | " + " | ".join(
                f"{overhead:.3f} | | {precision:.4f}" for overhead, precision in cells) + " |"


def bars(data):
    if not data["programs"]:
        return
    yield ("functions, bounded tree: output and exit status are the same", all(row["right"] for row in data["programs"]),
           ", ".join(row["name"] for row in data["programs"] if not row["right"]) or "all")
    for name in TREES:
        cells = [(row["name"], row["cells"][f"{name}/1ms"]) for row in data["programs"]]
        program, cell = max(cells, key=lambda pair: pair[1]["handler"])
        yield (f"{name}: at most 2 % beyond the empty handler at 1 ms, by handler time", cell["handler"] <= OVERHEAD,
               f"worst: {program} {cell['handler']:.2%}")
        beyond = median([cell["beyond"] for _, cell in cells])
        yield (f"{name}: at most 2 % beyond the empty handler at 1 ms, difference of runs, over all programs",
               beyond <= OVERHEAD, f"median {beyond:+.2%}")
        program, cell = min(cells, key=lambda pair: pair[1]["precision"])
        yield (f"{name}: precision at least {PRECISION} at 1 ms", cell["precision"] >= PRECISION,
               f"worst: {program} {cell['precision']:.4f}")
