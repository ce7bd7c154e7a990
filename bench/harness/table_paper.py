# SPDX-License-Identifier: MIT
"""The tables of the csprof paper (Froyd, Mellor-Crummey, Fowler: Low-overhead call path profiling of
unmodified, optimized code, ICS 2005) with our numbers beside the paper's."""

import collections
import json
import os
import re
import subprocess
from statistics import mean

from . import paper_programs, profilers, workloads
from .measure import median, run_together, spread

PAPER_DILATION = (("gprof, Linux", "3"), ("gprof, OS X", "4"), ("hiprof, Tru64", "14"),
                  ("VTune, Windows", "31"))
PAPER_TABLE2 = (("164.gzip", "53 %", "", "4.2 %", ""), ("186.crafty", "140 %", "", "5.1 %", ""), ("253.perlbmk", "165 %", "", "2.5 %", ""),
                ("256.bzip2", "113 %", "", "1.1 %", ""), ("177.mesa, real numbers", "67 %", "", "3.0 %", ""),
                ("179.art, real numbers", "2.1 %", "", "1.5 %", ""), ("183.equake, real numbers", "0.75 %", "", "7.0 %", ""))
# Minimum, median, mean, maximum.
PAPER_TABLE3 = {"integer": {"csprof": (0.74, 2.9, 8.0, 51), "gprof": (7.6, 15, 23, 120)},
                "real": {"csprof": (0.37, 3.6, 5.0, 18), "gprof": (0.33, 2.4, 4.1, 15)}}
BAR_POINTS = 2.0


def _shares_by_gprof(program, gmon):
    """How gprof divides the time of c, and of what it calls, between its callers."""
    text = subprocess.run(["gprof", "-b", "-q", program, gmon], capture_output=True, text=True,
                          check=True).stdout
    for block in text.split("-----------------------------------------------"):
        lines = [line for line in block.splitlines() if line.strip()]
        primary = next((i for i, line in enumerate(lines) if re.match(r"\[\d+\]", line)), None)
        if primary is None or not re.search(r"\sc \[\d+\]$", lines[primary]):
            continue
        shares = {}
        for line in lines[:primary]:
            found = re.match(r"\s+([\d.]+)\s+([\d.]+)\s+(\d+)/\d+\s+(\w+) \[", line)
            if found:
                shares[found.group(4)] = (float(found.group(1)) + float(found.group(2)), int(found.group(3)))
        total = sum(cost for cost, _ in shares.values()) or 1
        return {name: {"share": cost / total, "calls": calls} for name, (cost, calls) in shares.items()}
    return {}


def _shares_by_cairn(cairn, output):
    """Time and returns of c below a and below b, from the tree."""
    text = subprocess.run([cairn, "report", "--json", "--min", "0", output], capture_output=True, check=True)
    nodes = json.loads(text.stdout)["nodes"]
    by_id = {node["id"]: node for node in nodes}
    found = {}
    for node in nodes:
        parent = by_id.get(node["parent"])
        if node["function"] == "c" and parent and parent["function"] in ("a", "b"):
            facts = found.setdefault(parent["function"], {"cost": 0, "returns": 0})
            facts["cost"] += node["total"][0]
            facts["returns"] += node["returns"] or 0
    total = sum(facts["cost"] for facts in found.values()) or 1
    return {name: {"share": facts["cost"] / total, "returns": facts["returns"]}
            for name, facts in found.items()}


def _figure1(place, options, say):
    # With tail calls the last call of c would be made by a jump, and a and b be gone from the stack.
    flags = ("-fno-optimize-sibling-calls",)
    plain = workloads.compile_c(place, "figure1.c", "figure1", *flags)
    counted = workloads.compile_c(place, "figure1.c", "figure1-pg", *flags, "-pg", "-no-pie")
    tool = profilers.Cairn("cairn", "cairn", place.cairn, "-F", "1000")
    times = {"native": [], "gprof": [], "cairn": []}
    splits = []
    for _ in range(options.rounds):
        times["native"].append(options.patience.run([plain], place.work).cpu)
        times["gprof"].append(options.patience.run([counted], place.work).cpu)
        output = place.profile()
        times["cairn"].append(options.patience.run(tool.command([plain], output)[0], place.work).cpu)
        splits.append(_shares_by_cairn(place.cairn, output))
    by_gprof = _shares_by_gprof(counted, place.at("gmon.out"))
    dilation = {name: median([tool / native for tool, native in zip(times[name], times["native"])])
                for name in ("gprof", "cairn")}
    ours = {name: {key: median([split.get(name, {}).get(key, 0) for split in splits])
                   for key in ("share", "returns")} for name in ("a", "b")}
    say(f"  figure 1: dilation {dilation}, cairn {ours}, gprof {by_gprof}")
    return {"native": median(times["native"]), "dilation": dilation, "cairn": ours, "gprof": by_gprof,
            "worst": max((abs(split.get("a", {}).get("share", 0) - 0.5) for split in splits))}


def _calls(program, gmon):
    text = subprocess.run(["gprof", "-b", "-p", program, gmon], capture_output=True, text=True, check=True).stdout
    return sum(int(found) for found in re.findall(r"^ *[\d.]+ +[\d.]+ +[\d.]+ +(\d+) ", text, re.M))


def _plain(name):
    """Without parameters, and without what compilers add to the names of a function's parts."""
    return re.sub(r"\.(part|isra|constprop|cold|lto_priv)\b.*", "", name.split("(")[0].strip())


def _flat_by_gprof(program, gmon):
    text = subprocess.run(["gprof", "-b", "-p", program, gmon], capture_output=True, text=True, check=True).stdout
    # Without calls, two columns are empty.
    lines = re.findall(r"^ *[\d.]+ +[\d.]+ +([\d.]+) +(?:\d+ +[\d.]+ +[\d.]+ +)?(\S.*)$", text, re.M)
    return collections.Counter({_plain(name): float(seconds) for seconds, name in lines if float(seconds) > 0})


def _flat_by_cairn(cairn, program, output):
    """Of the program's own functions, as gprof sees no others."""
    text = subprocess.run([cairn, "report", "--view", "flat", "--json", "--no-inlines", "--kernel", "no", "--min", "0", output],
                          capture_output=True, check=True).stdout
    return sum((collections.Counter({_plain(node["function"]): node["self"][0] / 1e9}) for node in json.loads(text)["nodes"]
                if node["module"] == os.path.basename(program) and node["function"]), collections.Counter())


def _flat_by_perf(program, data):
    """The reference, as DCPI was the paper's: the processor's clock, no instrumentation, nothing unwound."""
    text = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym,dso"], capture_output=True, text=True, errors="replace",
                          check=True).stdout
    found = collections.Counter()
    for name, module in re.findall(r"^\s*[0-9a-f]+ (.*) \((.*)\)$", text, re.M):
        if os.path.basename(module) == os.path.basename(program):
            found[_plain(name)] += 1
    return found


def _distortion(flat, reference):
    """The paper's measure: per cent of the time that lies elsewhere, over all functions."""
    shares = [{name: 100 * value / sum(each.values()) for name, value in each.items()} for each in (flat, reference)]
    return sum(abs(shares[0].get(name, 0) - shares[1].get(name, 0)) for name in {*shares[0], *shares[1]})


def _one_against_gprof(place, options, program):
    """All at once, taking turns. Profiles of all rounds are added up: gprof has a hundred samples a second."""
    output, data = place.at("paper-cairn"), {name: place.at(f"paper-{name}") for name in ("perf", "again")}
    plain, counted = [program.paths[kind] for kind in ("native", "gprof")]
    commands = {"native": [plain, *program.arguments], "gprof": [counted, *program.arguments],
                "cairn": [place.cairn, "record", "-q", "-F", "1000", "-o", output, "--", plain, *program.arguments],
                **{name: [workloads.find("perf"), "record", "-q", "-e", "cpu-clock", "-F", "1000", "-o", path, plain, *program.arguments]
                   for name, path in data.items()}}
    times, same = {name: [] for name in commands}, True
    flat = {name: collections.Counter() for name in ("gprof", "cairn", "perf", "again")}
    names = list(commands)
    for number in range(options.rounds):
        turns = [names[(number + step) % len(names)] for step in range(len(names))]
        results = run_together({name: (commands[name], {}, program.stdin) for name in turns}, place.work, apart=True)
        gmon = os.path.join(place.work, f"run-{turns.index('gprof')}", "gmon.out")
        for name, result in results.items():
            times[name].append(result.cpu)
        same &= program.tells_time or len({results[name].digest for name in ("native", "gprof", "cairn")}) == 1
        flat["gprof"] += _flat_by_gprof(counted, gmon)
        flat["cairn"] += _flat_by_cairn(place.cairn, plain, output)
        for name, path in data.items():
            flat[name] += _flat_by_perf(plain, path)
    ratios = {name: [mine / native for mine, native in zip(times[name], times["native"])] for name in ("gprof", "cairn")}
    return {"name": program.name, "native": median(times["native"]), "same": same, "calls": _calls(counted, gmon),
            "over": {name: median(values) - 1 for name, values in ratios.items()},
            "ratios": ratios, "noise": spread(times["native"]),
            "distortion": {name: _distortion(flat[name], flat["perf"]) for name in ("gprof", "cairn", "again")}}


def _against_gprof(place, options, say):
    if not workloads.find("perf"):
        say("  perf is not installed: nothing to compare flat profiles with")
        return []
    programs, real_numbers = paper_programs.programs(place, say)
    if options.programs:
        programs = [program for program in programs if program.name in options.programs]
    rows = []
    for program in programs[:1] if options.quick else programs:
        row = {**_one_against_gprof(place, options, program), "real_numbers": program.name in real_numbers}
        rows.append(row)
        say(f"  {row['name']}: gprof {row['over']['gprof'] * 100:+.1f} %, cairn {row['over']['cairn'] * 100:+.1f} %, same {row['same']}; "
            f"distortion {row['distortion']['gprof']:.1f}, {row['distortion']['cairn']:.1f}")
    return rows


def measure(place, options, say):
    return {"rounds": options.rounds, "figure1": _figure1(place, options, say),
            "programs": _against_gprof(place, options, say)}


def render(data):
    figure = data["figure1"]
    yield "## The csprof paper's tables"
    yield ""
    yield ("*Figure 1 and Table 1.* The time below `c` belongs half to `a`, which calls it twice, and half to "
           "`b`, which calls it four times. gprof counts calls and divides the time by them. cairn's returns "
           "are counted where a sample stands, so they are no numbers of calls; that `b` calls more often shows. "
           f"Native: {figure['native']:.2f} s, medians of {data['rounds']} interleaved runs.")
    yield ""
    yield "| | a's share of c | b's share | returns of c below a : b | dilation |"
    yield "|---|---:|---:|---:|---:|"
    ours, theirs = figure["cairn"], figure["gprof"]
    yield (f"| cairn 1 kHz | {ours['a']['share'] * 100:.1f} % | {ours['b']['share'] * 100:.1f} % | "
           f"{ours['a']['returns']:.0f} : {ours['b']['returns']:.0f} | {figure['dilation']['cairn']:.3f} |")
    if theirs:
        yield (f"| gprof, here | {theirs['a']['share'] * 100:.1f} % | {theirs['b']['share'] * 100:.1f} % | "
               f"{theirs['a']['calls']} : {theirs['b']['calls']} (calls) | {figure['dilation']['gprof']:.2f} |")
    for name, factor in PAPER_DILATION:
        split = "| 33 % | 67 % " if name.startswith("gprof") else "| about 50 % | about 50 % " if "VTune" in name else "| | "
        yield f"| {name} (paper) {split}| | {factor} |"
    yield ""
    yield from _render_programs(_complete(data))


def _complete(data):
    """Rows of earlier results have no reference to be compared with."""
    return [row for row in data["programs"] if "distortion" in row]


def _render_programs(rows):
    yield ("*Table 2.* Overhead over native CPU time, the four runs taking turns on one processor; medians with the least and the most, and by how much "
           "native runs differ. The paper's programs are those of SPEC CPU2000; ours come from Debian's sources. *Distortion* is that of the "
           "next table.")
    yield ""
    if not rows:
        yield "Not measured: `bench/run --only paper` does, where sources can be fetched (`scripts/fetch-source`)."
        return
    yield "| program from source | native | ± | calls | gprof | least … most | cairn 1 kHz | least … most | distortion: gprof | cairn | perf, again |"
    yield "|---|" + "---:|" * 10
    for row in rows:
        cells = [f"{row['over'][name] * 100:+.1f} % | {(min(row['ratios'][name]) - 1) * 100:+.1f} … {(max(row['ratios'][name]) - 1) * 100:+.1f} %"
                 for name in ("gprof", "cairn")]
        yield (f"| {row['name']}{' *' if row['real_numbers'] else ''} | {row['native']:.2f} s | {row['noise'] * 100:.1f} % | {row['calls']:.3g} | " +
               " | ".join(cells) + f" | {row['distortion']['gprof']:.1f} | {row['distortion']['cairn']:.1f} | {row['distortion']['again']:.1f} |")
    for name, *cells in PAPER_TABLE2:
        yield f"| *{name} (paper)* | | | " + " | ".join(f"{cell} |" for cell in cells) + " | | |"
    yield ""
    yield "(* computes with real numbers.)"
    yield ""
    yield ("*Table 3.* Distortion: the sum over the program's own functions of how far their shares of the time are from those of the reference, in per cent. "
           "The reference is perf's cpu-clock on the native program, 1,000 samples a second (the paper: DCPI), all rounds added up. Two samplings of the "
           "same program differ by chance alone, the more the more functions there are: so perf is compared with itself, too. gprof has a tenth of the samples.")
    yield ""
    yield "| | csprof (paper) | cairn | perf, again | gprof (paper) | gprof, here |"
    yield "|---|---:|---:|---:|---:|---:|"
    for what, real, paper in (("integer", False, PAPER_TABLE3["integer"]), ("real numbers", True, PAPER_TABLE3["real"])):
        ours = {name: [row["distortion"][name] for row in rows if row["real_numbers"] == real] for name in ("cairn", "again", "gprof")}
        if not ours["cairn"]:
            continue
        for number, (word, of) in enumerate((("minimum", min), ("median", median), ("mean", mean), ("maximum", max))):
            yield (f"| {what}: {word} | {paper['csprof'][number]} | {of(ours['cairn']):.1f} | {of(ours['again']):.1f} | {paper['gprof'][number]} | {of(ours['gprof']):.1f} |")


def bars(data):
    figure = data["figure1"]
    ours = figure["cairn"]
    points = abs(ours["a"]["share"] - 0.5) * 100
    yield (f"Figure 1: 50 : 50 within {BAR_POINTS:.0f} points", points <= BAR_POINTS,
           f"{points:.2f} points off, {figure['worst'] * 100:.2f} in the worst run")
    yield ("Figure 1: more returns of c below b than below a", ours["b"]["returns"] > ours["a"]["returns"],
           f"{ours['a']['returns']:.0f} : {ours['b']['returns']:.0f}")
    rows = _complete(data)
    if not rows:
        return
    real = sum(row["real_numbers"] for row in rows)
    yield ("Table 2: at least twelve programs, three with real numbers", len(rows) >= 12 and real >= 3, f"{len(rows)}, {real}")
    cheaper = [row for row in rows if row["over"]["cairn"] < row["over"]["gprof"]]
    closest = max(rows, key=lambda row: row["over"]["cairn"] - row["over"]["gprof"])
    yield ("Table 2: cheaper than gprof", len(cheaper) == len(rows),
           f"{len(cheaper)} of {len(rows)}; closest: {closest['name']} {closest['over']['cairn'] * 100:+.1f} % against "
           f"{closest['over']['gprof'] * 100:+.1f} %")
    truer = sum(row["distortion"]["cairn"] < row["distortion"]["gprof"] for row in rows)
    yield ("Table 3: less distorted than gprof, in the median", median([row["distortion"]["cairn"] for row in rows]) <
           median([row["distortion"]["gprof"] for row in rows]),
           f"median {median([row['distortion']['cairn'] for row in rows]):.1f} against {median([row['distortion']['gprof'] for row in rows]):.1f}, "
           f"in {truer} of {len(rows)} programs")
