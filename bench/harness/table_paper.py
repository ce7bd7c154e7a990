# SPDX-License-Identifier: MIT
"""The tables of the csprof paper (Froyd, Mellor-Crummey, Fowler: Low-overhead call path profiling of
unmodified, optimized code, ICS 2005) with our numbers beside the paper's."""

import glob
import json
import os
import re
import subprocess

from . import profilers, workloads
from .measure import median

PAPER_DILATION = (("gprof, Linux", "3"), ("gprof, OS X", "4"), ("hiprof, Tru64", "14"),
                  ("VTune, Windows", "31"))
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


def _build(place, name, sources, flags):
    """The same sources twice: as they are, and with gprof's instrumentation."""
    paths = []
    for suffix, more in (("", ()), ("-pg", ("-pg",))):
        target = place.program(f"source-{name}{suffix}")
        if not os.path.exists(target):
            subprocess.run(["cc", "-w", "-O2", "-g", "-no-pie", *more, *flags, *sources, "-lm", "-o", target],
                           check=True)
        paths.append(target)
    return paths


def _source_programs(place, say):
    packages = ("lua5.4", "bzip2", "zlib")
    folders = workloads.fetch(place, packages, say)
    if len(folders) < len(packages):
        return []
    lua, bzip2, zlib = os.path.join(folders["lua5.4"], "src"), folders["bzip2"], folders["zlib"]
    lua_files = [path for path in glob.glob(lua + "/*.c") if not path.endswith("/luac.c")]
    bzip2_files = [os.path.join(bzip2, f"{name}.c") for name in
                   ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")]
    zlib_files = glob.glob(zlib + "/*.c") + [zlib + "/test/minigzip.c"]
    text = place.at("inputs", "text")
    return [
        ("Lua 5.4", _build(place, "lua", lua_files, ["-DLUA_USE_POSIX"]),
         [place.at("inputs", "work.lua"), text], "253.perlbmk: 165 · 2.5"),
        ("bzip2", _build(place, "bzip2", bzip2_files, ["-D_FILE_OFFSET_BITS=64"]), ["-c", text],
         "256.bzip2: 113 · 1.1"),
        ("zlib (minigzip)", _build(place, "minigzip", zlib_files,
                                   ["-I", zlib, "-DHAVE_UNISTD_H", "-DHAVE_STDARG_H"]), ["-c", text],
         "164.gzip: 53 · 4.2"),
    ]


def _calls(program, gmon):
    text = subprocess.run(["gprof", "-b", "-p", program, gmon], capture_output=True, text=True, check=True).stdout
    return sum(int(found) for found in re.findall(r"^ *[\d.]+ +[\d.]+ +[\d.]+ +(\d+) ", text, re.M))


def _against_gprof(place, options, say):
    tool = profilers.Cairn("cairn", "cairn", place.cairn, "-F", "1000")
    rows = []
    for name, (plain, counted), arguments, paper in _source_programs(place, say):
        times = {"native": [], "gprof": [], "cairn": []}
        same = True
        for _ in range(options.rounds):
            native = options.patience.run([plain, *arguments], place.work)
            other = options.patience.run([counted, *arguments], place.work)
            ours = options.patience.run(tool.command([plain, *arguments], place.profile())[0], place.work)
            same &= native.digest == other.digest == ours.digest
            for key, result in (("native", native), ("gprof", other), ("cairn", ours)):
                times[key].append(result.cpu)
        over = {key: median([tool_time / native for tool_time, native in zip(times[key], times["native"])]) - 1
                for key in ("gprof", "cairn")}
        rows.append({"name": name, "native": median(times["native"]), "over": over, "same": same,
                     "calls": _calls(counted, place.at("gmon.out")), "paper": paper})
        say(f"  {name}: gprof {over['gprof'] * 100:+.1f} %, cairn {over['cairn'] * 100:+.1f} %, same {same}")
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
    yield ("*Table 2.* Overhead over native CPU time; the paper's own row for a program of the same kind: "
           "gprof · csprof in percent. (The paper's csprof: 2 to 7 % at 1 kHz.)")
    yield ""
    if not data["programs"]:
        yield "The sources could not be fetched (`scripts/fetch-source`), so there is nothing to compare."
        return
    yield "| program from source | native | calls | gprof | cairn 1 kHz | the paper |"
    yield "|---|---:|---:|---:|---:|---:|"
    for row in data["programs"]:
        yield (f"| {row['name']} | {row['native']:.2f} s | {row['calls']:.3g} | {row['over']['gprof'] * 100:+.1f} % | "
               f"{row['over']['cairn'] * 100:+.1f} % | {row['paper']} |")


def bars(data):
    figure = data["figure1"]
    ours = figure["cairn"]
    points = abs(ours["a"]["share"] - 0.5) * 100
    yield (f"Figure 1: 50 : 50 within {BAR_POINTS:.0f} points", points <= BAR_POINTS,
           f"{points:.2f} points off, {figure['worst'] * 100:.2f} in the worst run")
    yield ("Figure 1: more returns of c below b than below a", ours["b"]["returns"] > ours["a"]["returns"],
           f"{ours['a']['returns']:.0f} : {ours['b']['returns']:.0f}")
    if data["programs"]:
        closest = max(data["programs"], key=lambda row: row["over"]["cairn"] - row["over"]["gprof"])
        yield ("cheaper than gprof", closest["over"]["cairn"] < closest["over"]["gprof"],
               f"closest: {closest['name']} {closest['over']['cairn'] * 100:+.1f} % against "
               f"{closest['over']['gprof'] * 100:+.1f} %")
