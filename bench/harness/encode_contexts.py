# SPDX-License-Identifier: MIT
"""Contexts as values: what asking for one costs, and how many are decoded in a second."""

import os
import re
import subprocess
import time

from . import workloads
from .measure import median

LINES = 1_000_000
BAR_ASK = 5.0  # ns
BAR_DECODE = 1e6  # contexts a second


def _record(place, tracker, profile, *command):
    return subprocess.run([place.cairn, "record", "-q", "--track", tracker, "-o", profile, "--", *command],
                          capture_output=True, text=True, check=True).stdout


def _asking(place, program, profile):
    """ns by entries on ccStack, and of the text."""
    lines = re.findall(r"(\d+) entries: ([\d.]+) ns, as text ([\d.]+) ns", _record(place, "encode", profile, program))
    return {int(entries): float(ns) for entries, ns, _ in lines}, min(float(text) for _, _, text in lines)


def _decoding(place, profile, log, *options):
    """Contexts a second of CPU time, for a log of LINES."""
    before = os.times()
    with open(log, encoding="utf-8") as lines:
        subprocess.run([place.cairn, "decode", profile, "--no-debuginfod", *options], stdin=lines,
                       stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return LINES / (after.children_user + after.children_system - before.children_user - before.children_system)


def measure(place, options, say):
    program, core = workloads.build_tool(place, "ask_contexts", say), workloads.build_tool(place, "decode_contexts", say)
    if not program or not core:
        return None
    profile, log = os.path.join(place.work, "contexts.out"), os.path.join(place.work, "contexts.log")
    asked, text, walked, folded, core_rates = {}, [], [], [], []
    for _ in range(options.rounds):
        by_entries, as_text = _asking(place, program, profile)
        for entries, ns in by_entries.items():
            asked.setdefault(entries, []).append(ns)
        text.append(as_text)
        began = time.monotonic()
        words = _record(place, "walk", profile, program)
        walked.append(float(re.search(r"^0 entries: ([\d.]+) ns", words, re.M).group(1)))
        say(f"  asked: {by_entries} ns, walked: {walked[-1]:.0f} ns ({time.monotonic() - began:.0f} s)")
    with open(log, "w", encoding="utf-8") as file:
        file.write(_record(place, "encode", profile, program, str(LINES)))
    contexts = len({line.split(None, 1)[0] for line in open(log, encoding="utf-8")})
    for _ in range(options.rounds):
        folded.append(_decoding(place, profile, log, "--folded"))
        rows = re.findall(r"^ *(\d+) +(\d+) .*? ([\d.]+) +[\d.]+ +\d+ +\d+$",
                          subprocess.run([core], capture_output=True, text=True, check=True).stdout, re.M)
        core_rates.append([(int(functions), int(edges), float(rate)) for functions, edges, rate in rows])
    best = [max(rates, key=lambda row: row[2]) for rates in zip(*core_rates)]
    say(f"  decoded: {median(folded) / 1e6:.2f} million a second, by the core {best}")
    return {"rounds": options.rounds, "asked": {str(key): median(values) for key, values in asked.items()},
            "text": median(text), "walked": median(walked), "lines": LINES, "contexts": contexts,
            "decoded": median(folded), "core": best}


def render(data):
    yield ("**Contexts as values**: what `cairn_context()` costs a program that asks in a loop, ns, by the entries on its ccStack (`bench/ask_contexts.c`; "
           f"each the minimum of 60 loops, medians over {data['rounds']} runs). Under the walk tracker the stack is walked each time.")
    yield ""
    yield "| " + " | ".join("1 entry" if entries == "1" else f"{entries} entries" for entries in data["asked"]) + " | its text | walked |"
    yield "|" + "---:|" * (len(data["asked"]) + 2)
    yield "| " + " | ".join(f"{ns:.1f}" for ns in data["asked"].values()) + f" | {data['text']:.0f} | {data['walked']:.0f} |"
    yield ""
    yield (f"`cairn decode --folded` of a log of {data['lines']:,} lines with {data['contexts']:,} different contexts, 14 calls deep: "
           f"{data['decoded'] / 1e6:.2f} million contexts a second of CPU time, names and lines included. Decoding alone, over random "
           "call graphs of the sizes that programs have (`bench/decode_contexts.c`): "
           + ", ".join(f"{rate:.1f} million ({functions:,} functions, {edges:,} edges)" for functions, edges, rate in data["core"]) + ".")


def bars(data):
    yield (f"a context is read in {BAR_ASK:.0f} ns, with an empty ccStack", data["asked"]["0"] <= BAR_ASK, f"{data['asked']['0']:.1f} ns")
    yield ("a million contexts are decoded in a second", min([data["decoded"]] + [1e6 * rate for _, _, rate in data["core"]]) >= BAR_DECODE,
           f"{data['decoded'] / 1e6:.2f} million, from a log to names")
