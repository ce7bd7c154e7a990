# SPDX-License-Identifier: MIT
"""Real programs: total CPU, samples, memory and profile size of each profiler over native."""

import os
import random

from . import profilers, workloads
from .measure import Run, median, run, run_together, run_watched, spread

BAR_TOTAL = 1.025
BAR_BEYOND_EMPTY = 0.005


# What runs at once, each time beside a native run: what is to be compared closely, together.
GROUPS = (("again",), ("empty", "cairn"), ("cairn250", "cairn-timer", "gperftools"), ("perf-fp", "perf-dwarf"))
COMPARED = (("perf-fp", "cairn"), ("perf-dwarf", "cairn"), ("gperftools", "cairn250"), ("gperftools", "cairn-timer"))
MORE_ROUNDS = 2  # times as many, where two of one group cannot be told apart


def _one(place, profiler, argv, runner):
    output = place.profile()
    command, env = profiler.command(argv, output)
    return runner(command, place.work, env=env), output


def _fixed_times(place, tools, rounds):
    """What starting and ending costs: CPU seconds of a program that does nothing, one after the other."""
    true = [workloads.find("true")]
    times = {tool.name: [] for tool in tools}
    for _ in range(rounds):
        for tool in tools:
            times[tool.name].append(_one(place, tool, true, run)[0].cpu)
    return times


def _time_rounds(place, tools, argv, rounds, seed):
    """CPU seconds by tool, round by round, and of the native run beside each."""
    order = random.Random(seed)
    row = {"times": {"native": []}, "beside": {}, "facts": {"native": {"same": True}}}
    for number in range(rounds):
        for group in GROUPS:
            _round(place, [tool for tool in tools if tool.name in ("native", *group)], argv, order, row,
                   last=number == rounds - 1)
    # A program that takes longer or shorter by itself hides which of two tools costs less.
    for group in GROUPS:
        members = [tool for tool in tools if tool.name in ("native", *group)]
        left = MORE_ROUNDS * rounds
        while left and any(_is_open(row, ours, peer) for peer, ours in COMPARED
                           if {peer, ours} <= {tool.name for tool in members}):
            _round(place, members, argv, order, row, last=False)
            left -= 1
    return row


def _round(place, members, argv, order, row, last):
    times, beside, facts = row["times"], row["beside"], row["facts"]
    outputs = {tool.name: place.profile(tool.name) for tool in members}
    results = run_together({tool.name: (*tool.command(argv, outputs[tool.name]), os.devnull)
                            for tool in order.sample(members, len(members))}, place.work)
    native = results["native"]
    times["native"].append(native.cpu)
    for tool in members[1:]:
        result = results[tool.name]
        times.setdefault(tool.name, []).append(result.cpu)
        beside.setdefault(tool.name, []).append(native.cpu)
        mine = facts.setdefault(tool.name, {"same": True, "samples": []})
        if (result.status, result.digest) != (native.status, native.digest):
            mine["same"] = False
            mine["why"] = f"status {result.status}: {result.errors.strip()[-200:]}"
        _count(tool, result, outputs[tool.name], mine, last)


def _differences(row, ours, peer):
    """What ours costs beyond the peer's, which ran at the same time, as a share of native; by round."""
    return [(mine - other) / native for mine, other, native in
            zip(row["times"][ours], row["times"][peer], row["beside"][ours])]


def _is_open(row, ours, peer):
    """True if the rounds are too few to tell which one costs less."""
    differences = _differences(row, ours, peer)
    return abs(median(differences)) < 2 * spread(differences) / len(differences) ** 0.5


def _count(tool, result: Run, output, facts, last):
    """Samples of each run where that is cheap to learn; of the last one otherwise. What the handler took, of all of
    them: one run in which the processor was taken away from it must not stand for the others."""
    if not facts["same"] or (isinstance(tool, profilers.Cairn) and tool.name != "cairn" and not last):
        return
    samples = tool.samples(result, output)
    if samples is not None:
        facts["samples"].append(samples)
    facts["bytes"] = sum(os.path.getsize(path) for path in tool.files(output))
    if isinstance(tool, profilers.Cairn) and tool.name != "empty":
        info = tool.info(output)
        facts.setdefault("handler", []).append(
            {**info["handler_ns"], "share": info["handler_ns"]["mean"] * info["samples"] / info["cost_ns"]})
        facts["info"] = {key: info[key] for key in ("walks", "handler_ns", "frames_per_sample",
                                                    "samples_lost", "nodes", "cost_ns")}
        facts["rate"] = info["events"][0]["rate_achieved"]


def _watch_memory(place, tools, argv, rounds, facts):
    for tool in tools:
        if tool.name in ("again", "empty", "cairn250", "cairn-timer"):
            continue
        facts[tool.name]["peak"] = median(
            [_one(place, tool, argv, run_watched)[0].peak for _ in range(rounds)])


def measure(place, options, say):
    tools = profilers.all_profilers(place)
    programs, missing = workloads.all_workloads(place)
    if options.programs:
        programs = [program for program in programs if program.name.split()[0] in options.programs]
    rows = []
    true_times = _fixed_times(place, tools, max(options.rounds, 5))
    say("  true: " + ", ".join(f"{name} {median(times) * 1000:.1f} ms" for name, times in true_times.items()))
    for seed, program in enumerate(programs):
        row = _time_rounds(place, tools, program.argv, options.rounds, seed)
        _watch_memory(place, tools, program.argv, options.memory_rounds, row["facts"])
        rows.append({"name": program.name, "what": program.what, **row})
        say(f"  {program.name}: " + ", ".join(f"{name} {ratio(row, name):.3f}" for name in row["beside"]))
    return {"rounds": options.rounds, "tools": [[tool.name, tool.title] for tool in tools],
            "fixed": true_times, "rows": rows, "missing": missing}


def ratios(row, name):
    """A tool's CPU time over that of the native run beside it, by round."""
    return [tool / native for tool, native in zip(row["times"][name], row["beside"][name])]


def ratio(row, name):
    return median(ratios(row, name))


def _per_sample(data, row, name):
    """CPU microseconds that one sample costs; what starting and ending costs is taken off."""
    samples = row["facts"][name].get("samples")
    if not samples or not median(samples):
        return None
    extra = median([tool - native for tool, native in zip(row["times"][name], row["beside"][name])])
    return (extra - _fixed(data, name)) / median(samples) * 1e6


def _rate(row, name):
    samples = row["facts"][name].get("samples")
    return median(samples) / median(row["times"]["native"]) if samples else None


def _size(count):
    if count is None:
        return "–"
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= scale:
            return f"{count / scale:.1f} {unit}" if abs(count) < 10 * scale else f"{count / scale:.0f} {unit}"
    return f"{count:.0f} B"


def _number(value, form):
    return "–" if value is None else format(value, form)


def _fixed(data, name):
    return median(data["fixed"][name]) - median(data["fixed"]["native"])


def _mark(row, name, text):
    return text if row["facts"][name]["same"] else f"{text} ✗"


def _total_table(data):
    tools = [tool for tool in data["tools"] if tool[0] not in ("native", "again")]
    lines = ["| program | native CPU | native again | " + " | ".join(title for _, title in tools) + " |",
             "|---|---:|---:|" + "---:|" * len(tools)]
    for row in data["rows"]:
        cells = [_mark(row, name, f"{ratio(row, name):.3f} ± {spread(ratios(row, name)):.3f}")
                 for name in ("again", *(name for name, _ in tools))]
        lines.append(f"| {row['name']} | {median(row['times']['native']):.2f} s | " + " | ".join(cells) + " |")
    lines.append(f"| starting and ending (`true`) | {median(data['fixed']['native']) * 1000:.1f} ms | | " +
                 " | ".join(f"+{_fixed(data, name) * 1000:.0f} ms" for name, _ in tools) + " |")
    return lines


def _sample_table(data):
    tools = [tool for tool in data["tools"] if tool[0] not in ("native", "again", "empty")]
    lines = ["| program | " + " | ".join(title for _, title in tools) +
             " | complete contexts | handler mean | p50 | beyond bare signals: measured | by handler time |",
             "|---|" + "---:|" * len(tools) + "---:|---:|---:|---:|---:|"]
    for row in data["rows"]:
        info = row["facts"]["cairn"].get("info")
        cells = [f"{_number(_rate(row, name), '.0f')} · {_number(_per_sample(data, row, name), '.0f')} µs"
                 for name, _ in tools]
        if not info:
            lines.append(f"| {row['name']} | " + " | ".join(cells) + " | – | – | – | – | – |")
            continue
        lines.append(f"| {row['name']} | " + " | ".join(cells) +
                     f" | {info['walks']['complete_pct']:.2f} %"
                     f" | {_handler(row, 'mean') / 1000:.1f} µs | {_handler(row, 'p50') / 1000:.1f} µs"
                     f" | {median(beyond_empty_rounds(row)) * 100:+.2f} % | {handler_share(row) * 100:.2f} % |")
    return lines


def _memory_table(data):
    tools = [tool for tool in data["tools"] if tool[0] not in ("native", "again", "empty", "cairn250", "cairn-timer")]
    lines = ["| program | native | " + " | ".join(title for _, title in tools) + " |",
             "|---|---:|" + "---:|" * len(tools)]
    for row in data["rows"]:
        native = row["facts"]["native"]["peak"]
        cells = []
        for name, _ in tools:
            facts = row["facts"][name]
            extra = facts["peak"] - native
            cells.append(f"{'+' if extra >= 0 else '−'}{_size(abs(extra))} · {_size(facts.get('bytes'))}")
        lines.append(f"| {row['name']} | {_size(native)} | " + " | ".join(cells) + " |")
    return lines


def _handler(row, what):
    return median([run[what] for run in row["facts"]["cairn"]["handler"]])


def beyond_empty_rounds(row):
    return [(full - empty) / native for full, empty, native in
            zip(row["times"]["cairn"], row["times"]["empty"], row["beside"]["cairn"])]


def handler_share(row):
    """Handler time as a share of the program's CPU time: what cairn's own code adds to bare signals,
    free of the noise of two runs."""
    return _handler(row, "share")


def render(data):
    yield "## Real programs"
    yield ""
    yield (f"Total CPU, user and system, of program and profiler together, over the program alone: medians over {data['rounds']} rounds, with "
           "half the distance of the quartiles. Each run has a native one beside it, with which it takes turns on one processor, so that "
           "both meet the same machine; *native again* shows what is noise. cairn at 250 Hz and gperftools run at once, up to "
           f"{(MORE_ROUNDS + 1) * data['rounds']} times where it is not clear which one costs less, and are compared run by run. *Bare signals* is cairn with an empty handler. What a switch costs is "
           "in it: perf events, cairn's among them, are taken off and put on again at each. "
           "✗: output or exit status differ from native.")
    yield ""
    yield from _total_table(data)
    yield ""
    yield ("Samples a second of native CPU time, and what each costs: CPU beyond native, less that of starting and ending, over samples. "
           "gperftools is asked for 1,000 a second and gets what its timer gives: compare it with cairn at "
           "250, by perf events, which tell a thread's time exactly and take an interrupt each, or by the same timer, which rides on the kernel's own. The last columns are cairn's at 1 kHz: what the walk and the tree add to bare signals as the "
           "difference of two runs that took turns, and as the handler's own time over the program's CPU "
           "time, medians of all rounds. The total above is for programs of about a second: perf spends its time at start and end "
           "whatever the length.")
    yield ""
    yield from _sample_table(data)
    yield ""
    yield ("Peak memory of the whole process tree (proportional set size, looked at every 20 ms) over native, "
           "and the size of the profile. Programs with a garbage collector vary by themselves.")
    yield ""
    yield from _memory_table(data)
    if data["missing"]:
        yield ""
        yield "Not installed here: " + ", ".join(data["missing"]) + "."


def _run_at_once(*names):
    return any(set(names) <= set(group) for group in GROUPS)


def _worst(rows, value):
    row = max(rows, key=value)
    return row["name"], value(row)


def bars(data):
    """(what, holds, how it came out) of each promise."""
    rows = data["rows"]
    names = [name for name, _ in data["tools"]]
    different = [row["name"] for row in rows for name in ("cairn", "cairn250", "cairn-timer", "empty")
                 if not row["facts"][name]["same"]]
    yield ("output and exit status under cairn are the same", not different,
           ", ".join(sorted(set(different))) or "all")
    rows = [row for row in rows if row["name"] not in different]
    if not rows:
        return
    name, value = _worst(rows, lambda row: ratio(row, "cairn"))
    floor, bare = _worst(rows, lambda row: ratio(row, "empty"))
    yield (f"total CPU at 1 kHz ≤ {BAR_TOTAL}", value <= BAR_TOTAL,
           f"worst: {name} {value:.3f}; bare signals alone: {floor} {bare:.3f}")
    for peer, ours in COMPARED:
        if peer not in names:
            continue
        ahead = [row for row in rows if row["facts"][peer]["same"]]
        beyond = ((lambda row: median(_differences(row, ours, peer))) if _run_at_once(ours, peer) else
                  (lambda row: ratio(row, ours) - ratio(row, peer)))
        name, value = _worst(ahead, beyond)
        yield (f"{ours} below {peer} on every program", value < 0,
               f"closest: {name} {value * 100:+.1f} points")
    name, value = _worst(rows, handler_share)
    yield (f"beyond bare signals < {BAR_BEYOND_EMPTY * 100} % on every program, by handler time",
           value < BAR_BEYOND_EMPTY, f"worst: {name} {value * 100:.2f} %")
    value = median([each for row in rows for each in beyond_empty_rounds(row)])
    yield (f"beyond bare signals < {BAR_BEYOND_EMPTY * 100} %, difference of runs, over all programs",
           value < BAR_BEYOND_EMPTY, f"median of all rounds: {value * 100:+.2f} %")
    jit = ("node", "java", "javac")
    worst = min((row for row in rows if row["name"] not in jit), default=None,
                key=lambda row: row["facts"]["cairn"]["info"]["walks"]["complete_pct"])
    if worst:
        share = worst["facts"]["cairn"]["info"]["walks"]["complete_pct"]
        yield "complete contexts ≥ 99.9 % (but for JIT code)", share >= 99.9, f"worst: {worst['name']} {share:.2f} %"
