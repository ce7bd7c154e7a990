# SPDX-License-Identifier: MIT
"""What the measured data of the encode table say: the figures that are shown and judged."""

import statistics

from .encode_measure import REASONS
from .measure import median


def extra(row, length, column="encode"):
    """CPU time as a ratio to native, of the runs of that length."""
    times = row["steady"]["times"][length]
    return median([mine / native for mine, native in zip(times[column], times["native"])])


def _more(row, column):
    """What the long run of each round takes longer than the short one."""
    times = row["steady"]["times"]
    return [long - short for long, short in zip(times["long"][column], times["short"][column])]


def native_seconds(row):
    """CPU seconds of the steady state, natively."""
    return median(_more(row, "native"))


def ratio(row):
    """CPU time in the steady state as a ratio to native."""
    return median([mine / max(native, 1e-9) for mine, native in zip(_more(row, "encode"), _more(row, "native"))])


def steady_calls(row):
    """Calls in the steady state; None: not known."""
    short, long = row["steady"]["units"]
    return row["calls"]["calls_per_unit"] * (long - short) if row.get("calls") else None


def calls_per_second(row):
    calls = steady_calls(row)
    return calls / native_seconds(row) if calls else None


def ns_per_call(row):
    """Beyond native."""
    calls = steady_calls(row)
    return (ratio(row) - 1) * native_seconds(row) / calls * 1e9 if calls else None


def steady_pushes(row, reason="all"):
    """A second, after the first second; None where cairn does not say."""
    (short, long), wall = row["steady"]["pushes"], row["steady"]["wall"]
    if short[reason] is None or long[reason] is None:
        return None
    return max(0.0, long[reason] - short[reason]) / max(wall[1] - wall[0], 1e-9)


def other_pushes(row):
    """A second, after the first second, that are neither of recursion nor of overflow nor of targets without an arm."""
    reasons = [steady_pushes(row, reason) for reason in REASONS]
    return None if None in reasons else max(0.0, steady_pushes(row) - sum(reasons))


def pushed_share(row):
    """Of all calls in the steady state."""
    (short, long), calls = row["steady"]["pushes"], steady_calls(row)
    return max(0.0, long["all"] - short["all"]) / calls if calls else None


def share_of_calls(row, kind):
    """Plain, added, indirect or of no number, by the last numbering; None: not known."""
    return (row.get("shares") or {}).get(kind)


def told_share(row):
    """Samples whose number told the context, without any climbing but out of leaf functions; None where cairn does not say."""
    found = row["verify"]
    if found["samples_direct"] is None or found["samples_from_leaf"] is None or not found["samples"]:
        return None
    return (found["samples_direct"] + found["samples_from_leaf"]) / found["samples"]


def us_per_site(row):
    """To find call sites and patch them; None where cairn does not say."""
    numbers = row["steady"]["encode"]
    return numbers["look_us"] / numbers["sites_patched"] if numbers.get("look_us") is not None and numbers.get("sites_patched") else None


def faults(row):
    """All that went wrong with a program."""
    found = list(row.get("failed", []))
    for part in ("steady", "verify"):
        found += (row.get(part) or {}).get("faults", [])
    return found


def summary(rows):
    """(average, median, (name, ratio) of the worst) of the steady states."""
    ratios = [ratio(row) for row in rows]
    worst = max(rows, key=ratio)
    return statistics.fmean(ratios), median(ratios), (worst["name"], ratio(worst))


def alloc_extra(row, name):
    """CPU seconds beyond native."""
    times = row["alloc"]["times"]
    return median([mine - native for mine, native in zip(times[name], times["native"])])


def alloc_rate(row):
    """Blocks a second, natively."""
    return row["alloc"]["blocks"] / median(row["alloc"]["times"]["native"])
