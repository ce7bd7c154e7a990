# SPDX-License-Identifier: MIT
"""What it costs to follow every call, in full and in bursts, beside gprof, uftrace and callgrind."""

import json
import os
import shutil
import subprocess

from . import calls_programs, hot_programs, workloads
from .measure import median, run_together, spread

COLUMNS = ("native", "shifted", "off", "empty", "full", "sites", "bursts", "gprof")
NAMES = {"shifted": "native, shifted", "off": "built, not recorded", "empty": "empty hooks", "full": "every call", "sites": "every call, by sites", "bursts": "bursts 20 ms/2 ms", "gprof": "gprof",
         "uftrace": "uftrace", "callgrind": "callgrind"}
BURST_BAR = 1.1
NOISE = 0.02
PAPER = (("every call (CCT)", "2.45 (most: 3.56; without three programs that ran out of memory)"),
         ("bursts 20 ms/2 ms (hot CCT)", "1.58 (most: 2.62)"), ("empty hooks", "1.21"))


def _command(place, paths, column, arguments, output):
    path = paths[{"native": "native", "shifted": "shifted", "callgrind": "native", "sites": "native", "gprof": "gprof",
                  "uftrace": "gprof"}.get(column, "cairn")]
    record = [place.cairn, "record", "-q", "--track", "calls", "-e", "calls", "-o", output]
    before = {"empty": record + ["--empty-handler", "--"], "full": record + ["--"],
              "sites": record + ["--calls-by", "program", "--"], "bursts": record + ["--burst", "20ms/2ms", "--"],
              "uftrace": [workloads.find("uftrace"), "record", "--no-libcall", "-d", output],
              "callgrind": [workloads.find("valgrind"), "-q", "--tool=callgrind",
                            f"--callgrind-out-file={output}"]}
    return [*before.get(column, []), path, *arguments]


def _calls(place, output):
    """How many calls the profile has, in how many contexts, and whether it is all there."""
    text = subprocess.run([place.cairn, "report", "--json", "--min", "0", output], capture_output=True, check=True)
    nodes = json.loads(text.stdout)["nodes"]
    return sum(node["calls"] or 0 for node in nodes), len(nodes)


def _rounds(place, program, columns, arguments, rounds):
    """All columns at once, taking turns; every round begins with another one, and has the code in another place."""
    times = {column: [] for column in columns}
    same, facts = True, {}
    for number in range(rounds):
        outputs = {column: place.profile(column) for column in columns}
        shutil.rmtree(place.at("calls-data"), ignore_errors=True)
        outputs["uftrace"] = place.at("calls-data")
        turns = [columns[(number + step) % len(columns)] for step in range(len(columns))]
        paths = program.paths_in(number)
        results = run_together({column: (_command(place, paths, column, arguments, outputs[column]), {}, program.stdin)
                                for column in turns}, place.work)
        for column, result in results.items():
            times[column].append(result.cpu)
        same &= len({(result.status, None if program.tells_time else result.digest) for result in results.values()}) == 1
        if not facts:
            facts["calls"], facts["contexts"] = _calls(place, outputs["full"])
    ratios = {column: [mine / native for mine, native in zip(times[column], times["native"])]
              for column in columns if column != "native"}
    return {"name": program.name, "native": median(times["native"]), "noise": spread(times["native"]),
            "ratio": {column: median(values) for column, values in ratios.items()},
            "spread": {column: spread(values) for column, values in ratios.items()},
            "same": same, "raw": times, **facts}


def measure(place, options, say):
    programs = calls_programs.real(place, say) + hot_programs.chess(place, say)
    real = {program.name for program in programs}
    programs += calls_programs.small(place)
    if options.programs:
        programs = [program for program in programs if program.name in options.programs]
    rows, slow = [], []
    for program in programs:
        row = _rounds(place, program, COLUMNS, program.arguments, options.rounds)
        row["real"] = program.name in real
        rows.append(row)
        say(f"  {program.name}: {row['native']:.2f} s, " +
            ", ".join(f"{NAMES[column]} {ratio:.3f}" for column, ratio in row["ratio"].items()) +
            ("" if row["same"] else ", OUTPUT DIFFERS"))
    peers = [name for name, tool in (("uftrace", "uftrace"), ("callgrind", "valgrind")) if workloads.find(tool)]
    for program in programs:
        if program.short and peers:
            row = _rounds(place, program, ("native", "full", "sites", "gprof", *peers), program.short,
                          min(3, options.rounds))
            slow.append(row)
            say(f"  {program.name}, short: {row['native']:.2f} s, " +
                ", ".join(f"{NAMES[column]} {ratio:.1f}" for column, ratio in row["ratio"].items()))
    shutil.rmtree(place.at("calls-data"), ignore_errors=True)
    return {"rounds": options.rounds, "programs": rows, "slow": slow, "load": os.getloadavg()[0]}


def render(data):
    yield "## Following calls"
    yield ""
    yield ("Programs built by `gcc -O2`, again with `-fpatchable-function-entry=5,5` (*native, shifted*: the bytes that `cairn cc` adds lie before each "
           "function and are never run; what the places of code alone change), by `cairn cc gcc -O2`, and by `gcc -O2 -pg`; total CPU time over that of the first "
           f"build, medians of {data['rounds']} rounds in which all columns run at once, taking turns on one processor, with half the "
           "distance of the quartiles. *By sites* is the first build, followed by its "
           "call sites (`--calls-by program`): calls of functions in libraries count, too.")
    if data.get("note"):
        yield ""
        yield data["note"]
    yield ""
    yield "| program | native | calls | contexts | native, shifted | built, not recorded | empty hooks | every call | ns a call | every call, by sites | bursts 20 ms/2 ms | gprof |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in data["programs"]:
        cell = lambda column: (f"{row['ratio'][column]:.3f}" +
                               (f" ± {row['spread'][column]:.3f}" if row["spread"] else "")
                               if column in row["ratio"] else "")
        each = (row["ratio"]["full"] - 1) * row["native"] / max(row["calls"], 1) * 1e9
        yield (f"| {row['name']}{'' if row['real'] else ' *'}{'' if row['same'] else ' (**output differs**)'} | "
               f"{row['native']:.2f} s | {row['calls']:,} | {row['contexts']:,} | {cell('shifted')} | {cell('off')} | {cell('empty')} | {cell('full')} | "
               f"{each:.1f} | {cell('sites')} | {cell('bursts')} | {cell('gprof')} |")
    yield ""
    yield ("\\* small programs of our own that do little but call; each round has their code 16 bytes further on, in all builds, because where it lies is up to "
           "a fifth of their time. `callbacks` is called by `qsort()`, which was not built "
           "to be followed. Contexts are those of the report, which takes the calls of one function by the same caller together. "
           "gprof keeps one caller of each function.")
    yield ""
    yield "The HCCT paper (Figure 6, gcc plug-in, other programs) has these means over native:"
    yield ""
    for what, factor in PAPER:
        yield f"- {what}: {factor}"
    if data["slow"]:
        tools = list(data["slow"][0]["ratio"])
        yield ""
        yield "The same with less work, for tools that are slow or write every call down:"
        yield ""
        yield "| program | native | calls | " + " | ".join(NAMES[tool] for tool in tools) + " |"
        yield "|---|---:|---:|" + "---:|" * len(tools)
        for row in data["slow"]:
            yield (f"| {row['name']} | {row['native']:.2f} s | {row['calls']:,} | " +
                   " | ".join(f"{row['ratio'][tool]:.2f}" for tool in tools) + " |")


def bars(data):
    rows = data["programs"]
    slower = [row for row in rows if row["ratio"]["full"] > row["ratio"]["gprof"]]
    yield ("every call: not slower than gprof, any program", not slower,
           "slower: " + ", ".join(f"{row['name']} {row['ratio']['full']:.2f} against {row['ratio']['gprof']:.2f}"
                                  for row in slower) if slower else f"all {len(rows)}")
    above = [row for row in rows if row["ratio"]["bursts"] > BURST_BAR]
    worst = max(rows, key=lambda row: row["ratio"]["bursts"])
    yield (f"bursts: at most {BURST_BAR} of native (the paper: 1.58)", not above,
           f"median {median([row['ratio']['bursts'] for row in rows]):.3f}, worst: {worst['name']} "
           f"{worst['ratio']['bursts']:.3f}" + (f"; {len(above)} of {len(rows)} above" if above else ""))
    native = lambda row: max(1, row["ratio"].get("shifted", 1))  # the slower of two native builds
    seen = [row for row in rows if row["ratio"]["off"] - native(row) > NOISE + row["spread"].get("off", 0)]
    yield ("built by cairn cc, not recorded: as native", not seen,
           f"median {median([row['ratio']['off'] for row in rows]):.3f}" +
           ("; not: " + ", ".join(f"{row['name']} {row['ratio']['off']:.3f}" for row in seen) if seen else ""))
    for row in data["slow"]:
        peers = {tool: row["ratio"][tool] for tool in ("uftrace", "callgrind") if tool in row["ratio"]}
        yield ("every call: at most half of " + " and ".join(peers) + f", {row['name']}",
               row["ratio"]["full"] <= min(peers.values()) / 2,
               f"{row['ratio']['full']:.1f} against " + " and ".join(f"{ratio:.1f}" for ratio in peers.values()))
    yield "programs run as without cairn", all(row["same"] for row in rows), f"{sum(row['same'] for row in rows)} of {len(rows)}"
