# SPDX-License-Identifier: MIT
"""One step of unwinding, warm and cold, beside the peers: what bench/unwind_micro prints."""

import os
import re
import subprocess

from .measure import median

BAR_COLD = 5.0


def measure(place, options, say):
    """None if the program is not built."""
    program = os.path.join(place.build, "bench", "unwind_micro")
    built = subprocess.run(["ninja", "-C", place.build, "bench/unwind_micro"], capture_output=True,
                           text=True, check=False)
    if built.returncode or not os.access(program, os.X_OK):
        say(f"  bench/unwind_micro cannot be built (it needs libunwind-dev): {built.stdout.strip()[-200:]}")
        return None
    found = {}
    for _ in range(options.rounds):
        text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            match = re.match(r"(cold|warm), (.+?)  +(.+?)  +([\d.]+) ns/frame", line)
            if match:
                found.setdefault((match.group(2), match.group(1)), {}).setdefault(
                    match.group(3), []).append(float(match.group(4)))
    rows = [{"code": code, "state": state, "ns": {name: median(values) for name, values in by_name.items()}}
            for (code, state), by_name in found.items()]
    for row in rows:
        say(f"  {row['state']}, {row['code']}: {row['ns']}")
    return {"rounds": options.rounds, "rows": rows}


def render(data):
    yield "## One unwind step"
    yield ""
    yield ("ns a frame. Warm: the same stack again; cold: every place for the first time (`bench/unwind_micro.c`; "
           f"medians within a run, and over {data['rounds']} runs).")
    yield ""
    names = list(data["rows"][0]["ns"])
    yield "| code compiled with | | " + " | ".join(names) + " |"
    yield "|---|---|" + "---:|" * len(names)
    for row in data["rows"]:
        yield f"| {row['code']} | {row['state']} | " + " | ".join(
            f"{row['ns'][name]:.1f}" for name in names) + " |"


def _peer(row):
    return next(value for name, value in row["ns"].items() if "unw_backtrace" in name)


def bars(data):
    for row in data["rows"]:
        ours, theirs = row["ns"]["cairn"], _peer(row)
        if row["state"] == "warm":
            yield (f"a warm step not slower than unw_backtrace ({row['code']})", ours <= theirs,
                   f"{ours:.1f} against {theirs:.1f} ns")
        else:
            yield (f"a cold step {BAR_COLD:.0f} times faster than unw_backtrace ({row['code']})",
                   ours * BAR_COLD <= theirs, f"{theirs / ours:.1f} times: {ours:.0f} against {theirs:.0f} ns")
