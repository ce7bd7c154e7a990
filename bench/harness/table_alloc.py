# SPDX-License-Identifier: MIT
"""Allocations: cairn -e alloc beside heaptrack, over native, and both beside valgrind's sums."""

import glob
import os
import re

from . import profilers, workloads
from .measure import median, rounds_together, run, spread

BAR = 0.2  # of heaptrack's overhead
SAMPLED_BAR = 0.03  # of native, for each million blocks a second
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
SMALL_LUA = """local t = {}
for i = 1, 20000 do t[i % 500] = 'x' .. i .. ('y'):rep(i % 90) end
print(#table.concat(t, ' ', 1, 499))
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
        profilers.Cairn("sampled", "cairn -e alloc:512k", place.cairn, "-e", "alloc:512k"),
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
    times, facts = {tool.name: [] for tool in tools}, {}
    for results, outputs in rounds_together(place, tools, argv, env, rounds, seed):
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


def _small_programs(place):
    """Programs that do the same under valgrind."""
    sqlite, lua = workloads.find("sqlite3"), workloads.find("lua5.4")
    script = place.at("inputs", "small.sql")
    with open(script, "w", encoding="ascii") as file:
        file.write(SMALL_SQL)
    return ([("sqlite3", [sqlite, ":memory:", f".read {script}"])] if sqlite else []) + (
        [("lua5.4", [lua, "-e", SMALL_LUA])] if lua else [])


def _valgrind(place):
    valgrind, programs = workloads.find("valgrind"), _small_programs(place)
    return [dict(_sums(place, valgrind, argv), name=name) for name, argv in programs] if valgrind else None


def _sums(place, valgrind, argv):
    errors = run([valgrind, "--run-libc-freeres=no", *argv], place.work).errors
    found = re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks\n.*total heap usage: "
                      r"([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", errors)
    theirs = [int(number.replace(",", "")) for number in found.groups()] if found else None
    ours = {}
    for tool in _tools(place):
        if isinstance(tool, profilers.Cairn) and tool.name != "sampled":
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
    for sums in _compared(data):
        live, blocks, allocs, frees, total = sums["valgrind"]
        yield ""
        yield (f"valgrind's sums of a small run of {sums['name']}: {allocs:,} blocks of {total:,} bytes allocated, {frees:,} freed, "
               f"{live:,} bytes in {blocks:,} blocks left; cairn's are "
               + ("the same." if _same(sums) else f"others: {sums['cairn']}."))


def _compared(data):
    """The programs that valgrind has run; older results have one."""
    sums = data.get("sums") or []
    return [each for each in ([dict(sums, name="sqlite3")] if isinstance(sums, dict) else sums) if each["valgrind"]]


def _same(sums):
    return all(ours == sums["valgrind"] for ours in sums["cairn"].values())


def _per_million(row):
    """Overhead of samples over native, for each million blocks a second."""
    native = median(row["times"]["native"])
    rate = row["facts"]["walk"]["alloc"]["allocations"] / native / 1e6
    return rate, _extra(row, "sampled") / native / rate


def bars(data):
    for name, title in (("walk", "allocations at 1/5 of heaptrack's overhead"),
                        ("encode", "the same with contexts as numbers")):
        rows = [row for row in data["rows"] if row["name"] in BARRED and _share(row, name) is not None]
        if rows:
            worst = max(rows, key=lambda row: _share(row, name))
            yield title, _share(worst, name) <= BAR, f"worst: {worst['name']} {_share(worst, name):.2f}"
    rows = [row for row in data["rows"] if "sampled" in row["times"] and _per_million(row)[0] >= 0.5]
    if rows:
        worst = max(rows, key=lambda row: _per_million(row)[1])
        share = _per_million(worst)[1]
        yield (f"alloc:512k at {100 * SAMPLED_BAR:.0f} % for a million blocks a second", share <= SAMPLED_BAR,
               f"worst: {worst['name']} {100 * share:.1f} %")
    compared = _compared(data)
    if compared:
        wrong = [sums["name"] for sums in compared if not _same(sums)]
        yield ("sums of allocations equal valgrind's", not wrong,
               f"not: {', '.join(wrong)}" if wrong else f"{', '.join(sums['name'] for sums in compared)}, to the byte")
    wrong = sum((row["facts"]["encode"].get("encode") or {}).get("mismatches", 0) for row in data["rows"]
                if "encode" in row["facts"])
    yield "no number that a walk contradicts, of allocations", wrong == 0, f"{wrong}"
