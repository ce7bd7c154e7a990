# SPDX-License-Identifier: MIT
"""What keeping the time of each sample costs: recordings with --timeline beside those without, taking turns."""

import random

from . import profilers, workloads
from .measure import median, run_together

RATE = "1000"
PROGRAMS = ("sqlite3", "perl", "python3", "lua5.4", "git", "bzip2")
BAR = 0.002  # of the CPU time of a recording without


def measure(place, options, say):
    tools = [profilers.Cairn("plain", "without", place.cairn, "-F", RATE),
             profilers.Cairn("timeline", "with", place.cairn, "-F", RATE, "--timeline")]
    order, rows = random.Random(1), []
    for program in workloads.all_workloads(place)[0]:
        if program.name not in PROGRAMS or (options.programs and program.name not in options.programs):
            continue
        row = {"name": program.name, "ratios": [], "handlers": {tool.name: [] for tool in tools}, "bytes": {}, "memory": {}}
        for _ in range(options.rounds):
            outputs = {tool.name: place.profile(tool.name) for tool in tools}
            runs = run_together({tool.name: (*tool.command(program.argv, outputs[tool.name]), "/dev/null")
                                 for tool in order.sample(tools, len(tools))}, place.work)
            row["ratios"].append(runs["timeline"].cpu / runs["plain"].cpu)
            for tool in tools:
                info = tool.info(outputs[tool.name])
                row["handlers"][tool.name].append(info["handler_ns"]["p50"])
                row["bytes"][tool.name], row["memory"][tool.name] = info["file_bytes"], info["agent_peak_bytes"]
            row["charges"], row["charge_bytes"] = info["timeline"]["charges"], info["timeline"]["bytes_per_charge"]
        rows.append(row)
        say(f"  {row['name']}: {100 * (median(row['ratios']) - 1):+.2f} %, {row['charge_bytes']:.1f} bytes a charge")
    return {"rounds": options.rounds, "rows": rows}


def render(data):
    yield "## Timelines"
    yield ""
    yield (f"CPU time of program and profiler with `--timeline` over that without, at {int(RATE):,} samples a second: medians of {data['rounds']} rounds, in "
           "which both run at once, taking turns on one processor. A second run of the same differs by half a per cent. The "
           "handler's time is the median of samples, the memory the agent's at its peak.")
    yield ""
    yield "| program | CPU time | handler without | with | bytes a charge | profile without | with | memory without | with |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in data["rows"]:
        plain, timeline = (median(row["handlers"][name]) for name in ("plain", "timeline"))
        yield (f"| {row['name']} | {100 * (median(row['ratios']) - 1):+.2f} % | {plain / 1000:.2f} µs | {timeline / 1000:.2f} µs | {row['charge_bytes']:.1f} "
               f"| {row['bytes']['plain'] / 1000:.1f} kB | {row['bytes']['timeline'] / 1000:.1f} kB "
               f"| {row['memory']['plain'] / 1e6:.2f} MB | {row['memory']['timeline'] / 1e6:.2f} MB |")


def bars(data):
    ratio = median([ratio for row in data["rows"] for ratio in row["ratios"]]) - 1
    yield (f"a timeline costs at most {100 * BAR:.1f} % of CPU time, median of all rounds", ratio <= BAR, f"{100 * ratio:+.2f} %")
