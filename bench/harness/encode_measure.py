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
VERIFY_RUNS = 5
VERIFY_STEP = 10  # times longer, at most: a first guess may be far out
VERIFY_MOST = 100  # seconds of a native run: threads that are switched often are sampled at a lower rate
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


def _verified(place, program, count, limit):
    """A run of so many units at 4 kHz: how it ended, if not as it should, and what cairn says of it."""
    tool, expected, output = _encode(place, "-F", OFTEN, "--verify"), native(place, program, count), place.profile("verify")
    result = _together(place, program, count, {"verify": tool.command(program.argv(count), output)}, limit)["verify"]
    return _ended(result, expected, f"encoded at {OFTEN} Hz with --verify, {count} units"), _info(tool, output)


def verify(place, program, units, least):
    """One run of so many samples: how their contexts were told, and whether walks say the same. Where a run turns out to be too
    short, a longer one takes its place: in several that are put together, beginnings, where little is told, would count as often."""
    count, faults, mismatches, info = units.often, set(), 0, None
    for _ in range(VERIFY_RUNS):
        fault, found = _verified(place, program, count, _limit(count * units.unit))
        if fault:
            faults.add(fault)
        if not found or "encode" not in found:
            break
        info, used = found, count
        mismatches += info["encode"].get("mismatches", 0)
        if info["samples"] >= least or count * units.unit >= VERIFY_MOST:
            break
        count = max(count + 1, math.ceil(count * min(1.2 * least / max(info["samples"], 1), VERIFY_STEP)))
    if not info:
        raise Failed("; ".join(sorted(faults)) or "no profile of the verified run")
    encode = info["encode"]
    return {"samples": info["samples"], "units": used, "told": encode.get("samples_decoded", 0) + encode.get("samples_confirmed", 0),
            "verified": encode.get("verified", 0), "mismatches": mismatches, "undecoded": encode.get("samples_undecoded", 0),
            **{key: encode.get(key) for key in SAMPLES}, "faults": sorted(faults), "encode": encode}


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
