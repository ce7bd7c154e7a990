# SPDX-License-Identifier: MIT
"""From addresses to functions, lines and inlined frames, in a large C++ program with debug information, beside `perf report`."""

import os
import shutil
import subprocess

from .measure import median

RATE, ROUNDS_OF_PROGRAM = "4000", "120"
BAR = 10.0  # times as fast as perf


def _program(place):
    path = place.program("templates")
    source = os.path.join(place.source, "programs", "templates.cc")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run(["g++", "-std=c++17", "-O2", "-g", "-o", path, source], check=True)
    return path


def _cpu(argv, **environment):
    """CPU seconds of a command and all that it starts."""
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, argv)
    return usage.ru_utime + usage.ru_stime


def measure(place, options, say):
    """None without perf."""
    if not shutil.which("perf") or not shutil.which("g++"):
        say("  perf or g++ is not installed")
        return None
    program = _program(place)
    perf, cairn, cache = place.at("symbols.perf"), place.at("symbols.out"), place.at("symbols-cache")
    subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", RATE, "-o", perf, program, ROUNDS_OF_PROGRAM], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([place.cairn, "record", "-q", "-F", RATE, "-o", cairn, "--", program, ROUNDS_OF_PROGRAM], check=True,
                   stdout=subprocess.DEVNULL)
    addresses = subprocess.run(["perf", "script", "-i", perf, "-F", "ip"], capture_output=True, text=True, check=True).stdout.split()
    ask_perf = ["perf", "report", "-i", perf, "--stdio", "--no-children", "-F", "overhead"]
    ask_cairn = [place.cairn, "report", "--no-debuginfod", "--json", "--min", "0", cairn]
    shutil.rmtree(cache, ignore_errors=True)
    _cpu(ask_cairn, CAIRN_CACHE=cache)
    found = {"perf, functions": [], "perf, lines": [], "cairn": [], "cairn, again": []}
    for _ in range(options.rounds):
        found["perf, functions"].append(_cpu([*ask_perf, "-F", "overhead,symbol"]))
        found["perf, lines"].append(_cpu([*ask_perf, "-F", "overhead,srcline"]))
        found["cairn"].append(_cpu(ask_cairn, CAIRN_CACHE="off"))
        found["cairn, again"].append(_cpu(ask_cairn, CAIRN_CACHE=cache))
    row = {name: median(seconds) for name, seconds in found.items()}
    say("  " + ", ".join(f"{name}: {seconds:.2f} s" for name, seconds in row.items()))
    return {"rounds": options.rounds, "bytes": os.path.getsize(program), "addresses": len(set(addresses)), "seconds": row}


def render(data):
    yield "## Names of addresses"
    yield ""
    yield (f"CPU seconds of reports on a C++ program of {data['bytes'] / 1e6:.0f} MB with debug information (`bench/programs/templates.cc`); "
           f"medians over {data['rounds']} runs. perf names the {data['addresses']:,} addresses that it has sampled. cairn names as many, "
           "all their callers, and the functions inlined at each.")
    yield ""
    yield "| | seconds |"
    yield "|---|---:|"
    for name, what in (("perf, functions", "`perf report`: functions"), ("perf, lines", "`perf report -F srcline`: lines"),
                       ("cairn", "`cairn report --json`: functions, lines, inlined functions"),
                       ("cairn, again", "the same, with the lines that it remembers")):
        yield f"| {what} | {data['seconds'][name]:.2f} |"


def bars(data):
    ratio = data["seconds"]["perf, lines"] / data["seconds"]["cairn"]
    yield (f"lines of a large C++ program {BAR:.0f} times as fast as perf report", ratio >= BAR, f"{ratio:.0f} times")
