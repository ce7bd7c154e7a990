# SPDX-License-Identifier: MIT
"""What is measured of one program for the encode table: its cost in the steady state, its calls, and its numbers beside walks."""

import json
import math
import os
import subprocess

from . import profilers, workloads
from .measure import median, run_together

QUIET = "1"  # Hz: as good as no sampling
OFTEN = "4000"
CALLS_MEMORY = "2G"  # for the exact tree
EXACT = "calls"  # its profile
VERIFY_RUNS = 30
SHARE_RUNS = 3
PATIENCE = (60, 40)  # seconds, and seconds for each second of a native run, until a run is given up


class Failed(Exception):
    """A run that did not end as it does natively; says how."""


class Amounts:
    """Units of work: `short` for the first second and `long` for that and ten more, `often` for samples. Quick: for less."""

    def __init__(self, unit, quick):
        first, more, sampled = (0.15, 0.5, 0.3) if quick else (1, 10, 3)
        self.unit = unit  # CPU seconds, natively
        self.short = max(1, round(first / unit))
        self.long = self.short + max(1, math.ceil(more / unit))
        self.often = max(1, math.ceil(sampled / unit))
        self.calls = [max(1, round(min(first, 0.5) / unit)) * times for times in (1, 2)]


def _limit(native_seconds):
    return PATIENCE[0] + PATIENCE[1] * native_seconds


def _together(place, program, units, commands, limit, stdin=None):
    """Runs of the program at once: commands by name."""
    return run_together({name: (command, dict(program.env, **env), stdin or program.stdin(units))
                         for name, (command, env) in commands.items()},
                        place.work, apart=True, spread_out=program.threads > 1, limit=limit, digest=program.digest)


def native(place, program, units):
    result = _together(place, program, units, {"native": (program.argv(units), {})}, 600)["native"]
    if result.status:
        raise Failed(f"natively: exit status {result.status}: {result.errors.strip()[-120:]}")
    return result


def amounts(place, program, quick):
    """How much work takes how long."""
    few, more = native(place, program, 1).cpu, native(place, program, 3).cpu
    return Amounts(max((more - few) / 2, 0.005), quick)


def _encode(place, *options):
    return profilers.Cairn("encode", "encode", place.cairn, "--track", "encode", *options)


def _ended(result, expected, what):
    """How a run ended that should have ended as another one; None: it did."""
    if result.status != expected.status:
        return f"{what}: exit status {result.status}: {result.errors.strip()[-120:]}"
    return None if result.digest == expected.digest else f"{what}: other output"


def _info(tool, output):
    try:
        return tool.info(output)
    except RuntimeError:
        return None


REASONS = ("recursion", "overflow", "armless")  # why calls push in the long run


def _pushes(info):
    """Of a whole run: all, and by what cairn says of their reasons."""
    encode = info["encode"]
    reasons = {reason: encode.get(f"pushes_{reason}") for reason in REASONS}
    counted = encode.get("pushes", encode.get("ccstack_per_s", 0) * info["duration_ns"] / 1e9)
    return {"all": max(counted, sum(count or 0 for count in reasons.values())), **reasons}


def steady(place, program, units, rounds):
    """Native and encoded at once, a short run and a long one, taking turns."""
    tool, times, faults, infos = _encode(place, "-F", QUIET), {}, set(), {}
    for number in range(rounds):
        for length in ("short", "long"):
            count = getattr(units, length)
            output = place.profile(length)
            commands = {"native": (program.argv(count), {}), "encode": tool.command(program.argv(count), output)}
            order = list(commands) if number % 2 == 0 else list(reversed(commands))
            results = _together(place, program, count, {name: commands[name] for name in order}, _limit(count * units.unit))
            for name, result in results.items():
                times.setdefault(length, {}).setdefault(name, []).append(result.cpu)
            fault = _ended(results["encode"], results["native"], f"encoded, {count} units")
            if fault:
                faults.add(fault)
            infos[length] = _info(tool, output)
    if not all(info and "encode" in info for info in infos.values()):
        raise Failed("; ".join(sorted(faults)) or "no profile of the encoded run")
    wall = {length: info["duration_ns"] / 1e9 for length, info in infos.items()}
    return {"units": [units.short, units.long], "times": times, "faults": sorted(faults),
            "encode": infos["long"]["encode"], "notes": infos["long"]["notes"],
            "pushes": [_pushes(infos["short"]), _pushes(infos["long"])], "wall": [wall["short"], wall["long"]]}


class Tools:
    """Small programs of bench/ that read profiles, and one that programs are made to load; None: could not be built."""

    def __init__(self, place, say):
        self.weigh = workloads.build_tool(place, "encode_profile", say)
        self.share = workloads.build_tool(place, "encode_shares", say)
        self.ask = workloads.build_tool(place, "ask_sometimes.so", say)


def calls(place, program, units, tools):
    """Exact calls of a unit of work, and the numbering of the complete graph. The profile is kept for shares()."""
    totals, graph = [], None
    for count in units.calls:
        output = place.profile(EXACT)
        command = [place.cairn, "record", "-q", "--track", "calls", "-e", "calls", "--memory", CALLS_MEMORY, "-o", output,
                   "--", *program.argv(count)]
        expected = native(place, program, count)
        done = _together(place, program, count, {"calls": (command, {})}, _limit(count * units.unit))["calls"]
        fault = _ended(done, expected, f"calls followed, {count} units")
        if fault:
            raise Failed(fault)
        graph = json.loads(subprocess.run([tools.weigh, output], capture_output=True, check=True).stdout)
        totals.append(graph["calls"])
    return {"calls_per_unit": (totals[1] - totals[0]) / (units.calls[1] - units.calls[0]), "pcce": graph}


def _asked(place, program, units, tools):
    """The profile of a run in which contexts are asked for now and then, and the number of its encodings."""
    tool, output, count = _encode(place, "-F", QUIET), place.profile("shares"), units.often
    command, _ = tool.command(program.argv(count), output)
    done = _together(place, program, count, {"asked": (command, {"LD_PRELOAD": tools.ask})}, _limit(count * units.unit))["asked"]
    fault = _ended(done, native(place, program, count), f"encoded, with bench/ask_sometimes.so, {count} units")
    if fault:
        raise Failed(fault)
    return output, (_info(tool, output) or {}).get("encode", {}).get("reencodings", 0)


def shares(place, program, units, tools):
    """What the last numbering makes of the exact calls that calls() has counted; None: nobody happened to ask under it."""
    for _ in range(SHARE_RUNS):
        output, encodings = _asked(place, program, units, tools)
        told = subprocess.run([tools.share, place.at(f"profile-{EXACT}"), output], capture_output=True, check=False)
        found = json.loads(told.stdout) if told.returncode == 0 else None
        if found and found["stamp"] >= encodings:
            return found
    return None


SAMPLES = ("samples_direct", "samples_from_leaf", "samples_climbed")  # missing in older profiles


def verify(place, program, units, least):
    """Runs until so many samples were taken: how their contexts were told, and whether walks say the same."""
    tool, expected = _encode(place, "-F", OFTEN, "--verify"), native(place, program, units.often)
    sums, faults, encode = dict.fromkeys(("samples", "told", "verified", "mismatches", "undecoded", "runs"), 0), set(), {}
    split = dict.fromkeys(SAMPLES, 0)
    while sums["samples"] < least and sums["runs"] < VERIFY_RUNS:
        output = place.profile("verify")
        result = _together(place, program, units.often, {"verify": tool.command(program.argv(units.often), output)},
                           _limit(units.often * units.unit))["verify"]
        fault = _ended(result, expected, f"encoded at {OFTEN} Hz with --verify, {units.often} units")
        if fault:
            faults.add(fault)
        info = _info(tool, output)
        sums["runs"] += 1
        if not info or "encode" not in info:
            break
        encode = info["encode"]
        sums["samples"] += info["samples"]
        sums["told"] += encode.get("samples_decoded", 0) + encode.get("samples_confirmed", 0)
        sums["verified"] += encode.get("verified", 0)
        sums["mismatches"] += encode.get("mismatches", 0)
        sums["undecoded"] += encode.get("samples_undecoded", 0)
        for key in SAMPLES:
            split[key] = None if split[key] is None or key not in encode else split[key] + encode[key]
    return {**sums, **split, "faults": sorted(faults), "encode": encode}


def allocations(place, program, units, rounds):
    """Every block by remembered walks and by numbers, at once with a native run."""
    tools = {"walk": profilers.Cairn("walk", "walk", place.cairn, "-e", "alloc"), "encode": _encode(place, "-e", "alloc")}
    times, faults, infos, count = {}, set(), {}, units.often
    for number in range(rounds):
        outputs = {name: place.profile(name) for name in tools}
        commands = {"native": (program.argv(count), {}),
                    **{name: tool.command(program.argv(count), outputs[name]) for name, tool in tools.items()}}
        order = list(commands) if number % 2 == 0 else list(reversed(commands))
        results = _together(place, program, count, {name: commands[name] for name in order}, _limit(count * units.unit))
        for name, result in results.items():
            times.setdefault(name, []).append(result.cpu)
            fault = _ended(result, results["native"], f"-e alloc by {name}, {count} units")
            if fault:
                faults.add(fault)
        infos = {name: _info(tool, outputs[name]) for name, tool in tools.items()}
    if not all(infos.values()):
        raise Failed("; ".join(sorted(faults)) or "no profile of allocations")
    return {"times": times, "faults": sorted(faults), "blocks": infos["walk"]["alloc"]["allocations"],
            "blocks_encode": infos["encode"]["alloc"]["allocations"], "mismatches": infos["encode"]["encode"].get("mismatches", 0)}


def starting(place, paths, rounds):
    """What programs cost that do nothing, and a call site that is patched."""
    found = []
    tools = {"walk": profilers.Cairn("walk", "walk", place.cairn, "-F", QUIET), "encode": _encode(place, "-F", QUIET)}
    for argv in paths:
        times, output = {}, place.profile("start")
        for _ in range(max(rounds, 3)):
            results = run_together({"native": (argv, {}, os.devnull),
                                    **{name: (*tool.command(argv, output if name == "encode" else place.profile(name)), os.devnull)
                                       for name, tool in tools.items()}}, place.work, limit=PATIENCE[0])
            for name, result in results.items():
                times.setdefault(name, []).append(result.cpu)
        info = _info(tools["encode"], output)
        found.append({"name": " ".join([os.path.basename(argv[0]), *argv[1:]]), "sites": info and info["encode"].get("sites_patched"),
                      **{name: median(values) for name, values in times.items()}})
    return found
