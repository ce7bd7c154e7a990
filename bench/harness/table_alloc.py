# SPDX-License-Identifier: MIT
"""Allocations: cairn -e alloc beside heaptrack, over native, and both beside valgrind's sums."""

import glob
import os
import random
import re

from . import profilers, workloads
from .measure import median, run, run_together, spread

BAR = 0.2  # of heaptrack's overhead
BARRED = ("sqlite3", "python3", "python3, PYTHONMALLOC=malloc")
SCRIPT = """
words = {}
for i in range(250000):
    word = str(i * 7919 % 40009)
    words.setdefault(word, []).append(i)
print(len(words), sum(len(lists) for lists in words.values()))
print(len("".join(sorted(words))))
rows = [{"name": "row%d" % i, "text": "x" * (i % 600)} for i in range(20000)]
print(sum(len(row["text"]) for row in rows))
"""
SMALL_SQL = """create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<5000) insert into t select i, 'row '||i from n;
select count(*), sum(a) from t where b like '%7%';
"""


class Heaptrack(profilers.Profiler):
    """What it starts to interpret and compress its trace counts as well: it is waited for."""

    def __init__(self):
        super().__init__("heaptrack", "heaptrack")
        self.path = workloads.find("heaptrack")

    def available(self):
        return self.path and os.path.exists(self.path)

    def command(self, argv, output):
        return [self.path, "-o", output, *argv], {}

    def files(self, output):
        return glob.glob(output + "*")


def _tools(place):
    wanted = [
        profilers.Profiler("native", "native"),
        profilers.Cairn("walk", "cairn -e alloc", place.cairn, "-e", "alloc"),
        profilers.Cairn("encode", "… --track encode", place.cairn, "-e", "alloc", "--track", "encode"),
        Heaptrack(),
    ]
    return [tool for tool in wanted if tool.available()]


def _programs(place):
    by_name = {program.name: program for program in workloads.all_workloads(place)[0]}
    script = place.at("inputs", "alloc.py")
    with open(script, "w", encoding="ascii") as file:
        file.write(SCRIPT)
    python = [by_name["python3"].argv[0], "-S", script] if "python3" in by_name else None
    wanted = [(name, by_name[name].argv, {}) for name in ("sqlite3",) if name in by_name]
    if python:
        wanted.append(("python3", python, {}))
        wanted.append(("python3, PYTHONMALLOC=malloc", python, {"PYTHONMALLOC": "malloc"}))
    wanted += [(name, by_name[name].argv, {}) for name in ("perl", "git", "cc1", "lua5.4") if name in by_name]
    return wanted


def _rounds(place, tools, argv, env, rounds, seed):
    """All tools at once, taking turns."""
    order = random.Random(seed)
    times, facts = {tool.name: [] for tool in tools}, {}
    for _ in range(rounds):
        outputs = {tool.name: place.profile(tool.name) for tool in tools}
        commands = {}
        for tool in order.sample(tools, len(tools)):
            command, more = tool.command(argv, outputs[tool.name])
            commands[tool.name] = (command, dict(env, **more), os.devnull)
        results = run_together(commands, place.work)
        native = results["native"]
        for tool in tools:
            result, output = results[tool.name], outputs[tool.name]
            times[tool.name].append(result.cpu)
            fact = facts.setdefault(tool.name, {"same": True})
            # heaptrack writes to stdout itself.
            fact["same"] &= result.status == native.status and (
                tool.name == "heaptrack" or result.digest == native.digest)
            fact["bytes"] = sum(os.path.getsize(path) for path in tool.files(output))
            if isinstance(tool, profilers.Cairn):
                info = tool.info(output)
                fact["alloc"] = info["alloc"]
                fact["complete"] = info["walks"]["complete_pct"]
                fact["encode"] = {key: info["encode"].get(key, 0) for key in (
                    "samples_decoded", "samples_confirmed", "samples_walked", "mismatches")
                } if "encode" in info else None
    return times, facts


def _valgrind(place):
    """The sums of a program that does the same under valgrind."""
    valgrind, sqlite = workloads.find("valgrind"), workloads.find("sqlite3")
    if not valgrind or not sqlite:
        return None
    script = place.at("inputs", "small.sql")
    with open(script, "w", encoding="ascii") as file:
        file.write(SMALL_SQL)
    argv = [sqlite, ":memory:", f".read {script}"]
    errors = run([valgrind, "--run-libc-freeres=no", *argv], place.work).errors
    found = re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks\n.*total heap usage: "
                      r"([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", errors)
    theirs = [int(number.replace(",", "")) for number in found.groups()] if found else None
    ours = {}
    for tool in _tools(place):
        if isinstance(tool, profilers.Cairn):
            output = place.profile()
            run(tool.command(argv, output)[0], place.work)
            sums = tool.info(output)["alloc"]
            ours[tool.name] = [sums[key] for key in ("live", "live_blocks", "allocations", "frees", "allocated")]
    return {"valgrind": theirs, "cairn": ours}


def measure(place, options, say):
    tools = _tools(place)
    fixed, _ = _rounds(place, tools, [workloads.find("true")], {}, max(options.rounds, 3), 0)
    rows = []
    for seed, (name, argv, env) in enumerate(_programs(place)):
        if options.programs and name.split(",")[0] not in options.programs:
            continue
        times, facts = _rounds(place, tools, argv, env, options.rounds, seed)
        rows.append({"name": name, "times": times, "facts": facts})
        say(f"  {name}: " + ", ".join(
            f"{tool.name} +{_extra(rows[-1], tool.name):.3f} s" for tool in tools[1:]))
    return {"rounds": options.rounds, "tools": [[tool.name, tool.title] for tool in tools],
            "fixed": fixed, "rows": rows, "sums": _valgrind(place)}


def _extra(row, name):
    """CPU seconds of program and profiler beyond the native run of the same round."""
    return median([tool - native for tool, native in zip(row["times"][name], row["times"]["native"])])


def _share(row, name):
    """Of heaptrack's overhead."""
    if "heaptrack" not in row["times"] or _extra(row, "heaptrack") <= 0:
        return None
    return _extra(row, name) / _extra(row, "heaptrack")


def _cell(row, name):
    mark = "" if row["facts"][name]["same"] else " ✗"
    share = _share(row, name)
    of = f" ({share:.2f})" if share is not None and name != "heaptrack" else ""
    return f"+{_extra(row, name):.2f} s{of}{mark}"


def _told(fact):
    encode = fact.get("encode")
    if not encode:
        return "–"
    told = encode["samples_decoded"] + encode["samples_confirmed"]
    return f"{100 * told / max(told + encode['samples_walked'], 1):.1f} %"


def render(data):
    names = [tool for tool in data["tools"] if tool[0] != "native"]
    yield "## Allocations"
    yield ""
    yield (f"CPU time of program and profiler beyond native, medians of {data['rounds']} rounds in which all run at once, taking turns on one processor; in brackets, "
           "as a part of heaptrack's. A pair is a block's allocation and its end. *Told* is the part of blocks whose "
           "context the number told, with `--track encode`; the others were walked.")
    yield ""
    yield "| program | native | ± | blocks | " + " | ".join(title for _, title in names) + " | ns a pair | told |"
    yield "|---|---:|---:|---:|" + "---:|" * len(names) + "---:|---:|"
    for row in data["rows"]:
        native, alloc = row["times"]["native"], row["facts"]["walk"]["alloc"]
        pair = _extra(row, "walk") / max(alloc["allocations"], 1) * 1e9
        yield (f"| {row['name']} | {median(native):.2f} s | {spread(native) * 100:.1f} % | {alloc['allocations']:,} | " +
               " | ".join(_cell(row, name) for name, _ in names) + f" | {pair:.0f} | {_told(row['facts']['encode'])} |")
    yield ("| starting and ending (`true`) | | | | " + " | ".join(
        f"+{1000 * median([tool - native for tool, native in zip(data['fixed'][name], data['fixed']['native'])]):.0f} ms"
        for name, _ in names) + " | | |")
    sums = data.get("sums")
    if sums and sums["valgrind"]:
        live, blocks, allocs, frees, total = sums["valgrind"]
        yield ""
        yield (f"valgrind's sums of a small run of sqlite3: {allocs:,} blocks of {total:,} bytes allocated, {frees:,} freed, "
               f"{live:,} bytes in {blocks:,} blocks left; cairn's are "
               + ("the same." if all(ours == sums["valgrind"] for ours in sums["cairn"].values())
                  else f"others: {sums['cairn']}."))


def bars(data):
    for name, title in (("walk", "allocations at 1/5 of heaptrack's overhead"),
                        ("encode", "the same with contexts as numbers")):
        rows = [row for row in data["rows"] if row["name"] in BARRED and _share(row, name) is not None]
        if rows:
            worst = max(rows, key=lambda row: _share(row, name))
            yield title, _share(worst, name) <= BAR, f"worst: {worst['name']} {_share(worst, name):.2f}"
    sums = data.get("sums")
    if sums and sums["valgrind"]:
        same = all(ours == sums["valgrind"] for ours in sums["cairn"].values())
        yield "sums of allocations equal valgrind's", same, "sqlite3, to the byte" if same else str(sums)
    wrong = sum((row["facts"]["encode"].get("encode") or {}).get("mismatches", 0) for row in data["rows"]
                if "encode" in row["facts"])
    yield "no number that a walk contradicts, of allocations", wrong == 0, f"{wrong}"
