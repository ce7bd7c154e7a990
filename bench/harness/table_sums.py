# SPDX-License-Identifier: MIT
"""Does the profile add up? The CPU time that cairn charges, beside what getrusage() says."""

import json
import os

from . import profilers, workloads
from .measure import median, run

RATES = (1000, 10000)
BAR = 0.01


def _program(place, program, rate, rounds):
    """Profiled under a wrapper that asks getrusage() for the program and for itself."""
    tool = profilers.Cairn("cairn", "cairn", place.cairn, "-F", str(rate))
    account = place.at("account.json")
    errors, seconds = [], []
    for _ in range(rounds):
        output = place.profile()
        command, _env = tool.command([place.program("account"), account, *program.argv], output)
        run(command, place.work)
        with open(account, encoding="ascii") as file:
            used = json.load(file)
        os.unlink(account)
        truth = used["self"] + used["command"]
        errors.append(tool.info(output)["cost_ns"] / 1e9 / truth - 1)
        seconds.append(truth)
    return {"error": sorted(errors, key=abs)[len(errors) // 2], "worst": max(errors, key=abs),
            "cpu": median(seconds)}


def _charged_by_thread(info):
    """Per-thread sums by the order of thread ids: the program's main thread, then its two."""
    trees = sorted(info["tree_list"], key=lambda tree: tree["tid"])
    return [tree["cost_ns"] for tree in trees]


def _threads(place, rate, rounds, scale):
    """Each thread of the program that lives in system calls, by its own account."""
    tool = profilers.Cairn("cairn", "cairn", place.cairn, "-F", str(rate), "--per-thread")
    errors = {"read_long": [], "write_short": []}
    for _ in range(rounds):
        output = place.profile()
        command, _env = tool.command([place.program("syscalls"), str(scale)], output)
        run(command, place.work)
        with open(place.at("stdout"), encoding="ascii") as file:
            used = json.load(file)
        charged = _charged_by_thread(tool.info(output))
        for number, name in enumerate(errors, start=1):
            errors[name].append(charged[number] / used[name] - 1 if len(charged) > number else -1.0)
    return {name: sorted(values, key=abs)[len(values) // 2] for name, values in errors.items()}


def measure(place, options, say):
    workloads.compile_c(place, "account.c", "account")
    syscalls = workloads.compile_c(place, "syscalls.c", "syscalls", "-pthread")
    scale = 300 if options.quick else 1500
    programs, _ = workloads.all_workloads(place)
    programs.append(workloads.Workload("system calls", [syscalls, str(scale)], "bench/programs/syscalls.c"))
    if options.programs:
        programs = [program for program in programs if program.name.split()[0] in options.programs]
    rows = []
    for program in programs:
        row = {"name": program.name,
               "rates": {str(rate): _program(place, program, rate, options.sum_rounds) for rate in RATES}}
        rows.append(row)
        say(f"  {program.name}: " + ", ".join(f"{rate} Hz {facts['error'] * 100:+.2f} %"
                                              for rate, facts in row["rates"].items()))
    threads = {str(rate): _threads(place, rate, options.sum_rounds, scale) for rate in RATES}
    say(f"  threads: {threads}")
    return {"rounds": options.sum_rounds, "rows": rows, "threads": threads}


def render(data):
    yield "## Do the sums come out?"
    yield ""
    yield ("CPU time that the profile holds over user and system time by `getrusage()`, in the same run: "
           f"median of {data['rounds']} (and the worst).")
    yield ""
    yield "| program | CPU | 1 kHz | 10 kHz |"
    yield "|---|---:|---:|---:|"
    for row in data["rows"]:
        cells = [f"{row['rates'][str(rate)]['error'] * 100:+.2f} % ({row['rates'][str(rate)]['worst'] * 100:+.2f} %)"
                 for rate in RATES]
        yield f"| {row['name']} | {row['rates'][str(RATES[0])]['cpu']:.2f} s | " + " | ".join(cells) + " |"
    for name, title in (("read_long", "… its thread of long reads"), ("write_short", "… its thread of short writes")):
        yield f"| {title} | | " + " | ".join(
            f"{data['threads'][str(rate)][name] * 100:+.2f} %" for rate in RATES) + " |"


def bars(data):
    for rate in RATES:
        row = max(data["rows"], key=lambda row: abs(row["rates"][str(rate)]["error"]))
        value = row["rates"][str(rate)]["error"]
        yield f"sums within 1 % of getrusage at {rate:,} Hz", abs(value) <= BAR, f"worst: {row['name']} {value * 100:+.2f} %"
    worst = max((value for by_name in data["threads"].values() for value in by_name.values()), key=abs)
    yield "sums within 1 % per thread, system calls", abs(worst) <= BAR, f"worst: {worst * 100:+.2f} %"
