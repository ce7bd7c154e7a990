# SPDX-License-Identifier: MIT
"""The cost of each event, over native."""

from . import profilers, workloads
from .measure import median, rounds_together, spread

EVENTS = (("cpu", ["cpu"]), ("wall", ["wall"]), ("alloc", ["alloc"]), ("alloc:512k", ["alloc:512k"]), ("io", ["io"]),
          ("lock", ["lock"]), ("offcpu", ["offcpu"]), ("page-faults", ["page-faults"]),
          ("cpu, alloc, io, lock", ["cpu", "alloc", "io", "lock"]))
FILE_SQL = """pragma synchronous=off;
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<1500000) insert into t select i, 'row '||i from n;
create index i on t(b);
select count(*), sum(a) from t where b like '%7%';
"""


def _tools(place):
    return [profilers.Profiler("native", "native")] + [
        profilers.Cairn(name, f"`{name}`", place.cairn, *[word for event in events for word in ("-e", event)])
        for name, events in EVENTS]


def _programs(place):
    """With many operations on files, many blocks, and threads that wait for each other."""
    by_name = {program.name: program for program in workloads.all_workloads(place)[0]}
    wanted = [(name, by_name[name].argv) for name in ("python3", "git", "zstd -T2", "cc1") if name in by_name]
    sqlite, script = workloads.find("sqlite3"), place.at("inputs", "file.sql")
    with open(script, "w", encoding="ascii") as file:
        file.write(FILE_SQL)
    # "": a database in a file of its own, which is gone in the end.
    return ([("sqlite3, in a file", [sqlite, "", f".read {script}"])] if sqlite else []) + wanted


def _rounds(place, tools, argv, rounds, seed):
    times, same = {tool.name: [] for tool in tools}, {}
    for results, _ in rounds_together(place, tools, argv, {}, rounds, seed):
        for tool, result in results.items():
            times[tool].append(result.cpu)
            same[tool] = same.get(tool, True) and (result.status, result.digest) == (
                results["native"].status, results["native"].digest)
    return times, same


def measure(place, options, say):
    tools, rows = _tools(place), []
    fixed, _ = _rounds(place, tools, [workloads.find("true")], max(options.rounds, 3), 0)
    for seed, (name, argv) in enumerate(_programs(place)):
        if options.programs and name.split(",")[0] not in options.programs:
            continue
        times, same = _rounds(place, tools, argv, options.rounds, seed)
        rows.append({"name": name, "times": times, "same": same})
        say(f"  {name}: " + ", ".join(f"{tool.name} {_over(rows[-1], tool.name):+.1f} %" for tool in tools[1:]))
    return {"rounds": options.rounds, "tools": [[tool.name, tool.title] for tool in tools], "fixed": fixed, "rows": rows}


def _over(row, name):
    """Percent of the native run of the same round."""
    return median([100 * (tool / native - 1) for tool, native in zip(row["times"][name], row["times"]["native"])])


def render(data):
    names = [tool for tool in data["tools"] if tool[0] != "native"]
    yield "## The cost of each event"
    yield ""
    yield (f"CPU time of program and profiler beyond native, medians of {data['rounds']} rounds in which all run at once, "
           "taking turns on one processor. Start and end are included: with `cpu` and `wall`, where the kernel's frames are recorded, the "
           "tool reads the names of all functions of the kernel, once a recording, which takes some 55 ms.")
    yield ""
    yield "| program | native | ± | " + " | ".join(title for _, title in names) + " |"
    yield "|---|---:|---:|" + "---:|" * len(names)
    for row in data["rows"]:
        native = row["times"]["native"]
        yield (f"| {row['name']} | {median(native):.2f} s | {spread(native) * 100:.1f} % | " +
               " | ".join(f"{_over(row, name):+.1f} %{'' if row['same'][name] else ' ✗'}" for name, _ in names) + " |")
    yield ("| starting and ending (`true`) | | | " + " | ".join(
        f"+{1000 * median([tool - native for tool, native in zip(data['fixed'][name], data['fixed']['native'])]):.0f} ms"
        for name, _ in names) + " |")


def bars(data):
    others = [f"{row['name']} with {name}" for row in data["rows"] for name, same in row["same"].items() if not same]
    yield "the same output and status under each event", not others, ", ".join(others) or f"{len(data['rows'])} programs"
