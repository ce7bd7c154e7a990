# SPDX-License-Identifier: MIT
"""Reading large profiles: CPU time and memory of each command, by the nodes of the profile."""

import os
import subprocess
import sys

from .measure import median

NODES = (1_000_000, 2_000_000, 5_000_000, 10_200_000)
COMMANDS = {
    "report": ["report"],
    "callers": ["report", "--view", "callers"],
    "JSON": ["report", "--json"],
    "folded": ["export", "-f", "folded"],
    "compare": ["compare"],
}
BAR_REPORT = 5.0  # s
BAR_MEMORY = 1e9  # bytes, of a report
BAR_OTHERS = 10.0  # s
BAR_GROWTH = 1.25  # of the time per node, from a million nodes to all
RANKS = (10, 100, 1000)  # profiles merged
RANK_NODES = 100_000  # of each


def _profile(place, nodes):
    """Contexts of calls, so that every node is one of the report's, with the names and lines of cairn itself."""
    subprocess.run(["ninja", "-C", place.build, "tests/programs/odd_profiles"], stdout=subprocess.DEVNULL, check=True)
    path = os.path.join(place.work, f"reading-{nodes}.out")
    subprocess.run([os.path.join(place.build, "tests", "programs", "odd_profiles"), "calls", str(nodes), path, place.cairn], check=True)
    return path


def _read(place, words, profile):
    """CPU seconds and bytes at most."""
    return _run([place.cairn, *words, profile] + ([profile] if words == ["compare"] else []))


# The peak of a process counts the memory of the one that started it: so a small one does, not the harness.
STARTER = """
import os, sys
child = os.fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
"""


def _run(argv):
    done = subprocess.run([sys.executable, "-I", "-S", "-c", STARTER, *argv], stdout=subprocess.PIPE, check=True, text=True)
    status, cpu, memory = done.stdout.split()
    if status != "0":
        raise subprocess.CalledProcessError(int(status), argv)
    return float(cpu), int(memory)


def _merge(place, options, say):
    """As many profiles as a parallel job has ranks. That they are alike costs no less: each is read and looked up."""
    profile, merged, rows = _profile(place, RANK_NODES), os.path.join(place.work, "reading-merged.out"), []
    for count in RANKS[:2] if options.quick else RANKS:
        runs = [_run([place.cairn, "merge", "-q", "-o", merged, *[profile] * count]) for _ in range(options.rounds)]
        rows.append({"profiles": count, "cpu": median([cpu for cpu, _ in runs]), "memory": median([memory for _, memory in runs])})
        say(f"  {count} profiles merged: {rows[-1]['cpu']:.1f} s, {rows[-1]['memory'] / 1e6:.0f} MB")
    os.unlink(profile)
    os.unlink(merged)
    return rows


def measure(place, options, say):
    rows = []
    for nodes in NODES[:1] if options.quick else NODES:
        profile = _profile(place, nodes)
        runs = {name: [] for name in COMMANDS}
        for _ in range(options.rounds):
            for name, words in COMMANDS.items():
                runs[name].append(_read(place, words, profile))
        os.unlink(profile)
        rows.append({"nodes": nodes, "cpu": {name: median([cpu for cpu, _ in each]) for name, each in runs.items()},
                     "memory": {name: median([memory for _, memory in each]) for name, each in runs.items()}})
        say(f"  {nodes / 1e6:g} million nodes: " + ", ".join(f"{name} {cpu:.1f} s" for name, cpu in rows[-1]["cpu"].items()))
    return {"rounds": options.rounds, "rows": rows, "merged": _merge(place, options, say)}


def render(data):
    yield "## Reading large profiles"
    yield ""
    yield ("CPU seconds and peak memory of each command on a profile of so many contexts, every one of them a node of the report "
           f"(`odd_profiles calls`; medians over {data['rounds']} runs). `compare` reads two.")
    yield ""
    yield "| million nodes | " + " | ".join(COMMANDS) + " |"
    yield "|---:|" + "---:|" * len(COMMANDS)
    for row in data["rows"]:
        yield (f"| {row['nodes'] / 1e6:g} | "
               + " | ".join(f"{row['cpu'][name]:.1f} s, {row['memory'][name] / 1e6:.0f} MB" for name in COMMANDS) + " |")
    if not data.get("merged"):
        return
    yield ""
    yield f"`merge`, of so many profiles of {RANK_NODES:,} contexts, as of the ranks of a parallel job:"
    yield ""
    yield "| profiles | CPU | peak memory |"
    yield "|---:|---:|---:|"
    for row in data["merged"]:
        yield f"| {row['profiles']:,} | {row['cpu']:.1f} s | {row['memory'] / 1e6:.0f} MB |"


def _merge_bar(few, many):
    slower = many["cpu"] / many["profiles"] / (few["cpu"] / few["profiles"])
    return (f"merge of {many['profiles']:,} profiles: the time grows as they do, the memory does not",
           slower <= BAR_GROWTH and many["memory"] <= BAR_GROWTH * few["memory"],
           f"{slower:.2f} times as long for each as of {few['profiles']}, {many['memory'] / few['memory']:.2f} times the memory: {many['memory'] / 1e6:.0f} MB")


def bars(data):
    if data.get("merged"):
        yield _merge_bar(data["merged"][0], data["merged"][-1])
    first, last = data["rows"][0], data["rows"][-1]
    size = f"{last['nodes'] / 1e6:g} million nodes"
    cpu, memory = last["cpu"]["report"], last["memory"]["report"]
    yield (f"a report of {size} takes {BAR_REPORT:.0f} s and 1 GB", cpu <= BAR_REPORT and memory <= BAR_MEMORY,
           f"{cpu:.1f} s, {memory / 1e6:.0f} MB")
    others = {name: seconds for name, seconds in last["cpu"].items() if name != "report"}
    slowest = max(others, key=others.get)
    yield (f"all other views of {size} take {BAR_OTHERS:.0f} s", others[slowest] <= BAR_OTHERS, f"{slowest}: {others[slowest]:.1f} s")
    growth = {name: last["cpu"][name] / last["nodes"] / (first["cpu"][name] / first["nodes"]) for name in COMMANDS}
    worst = max(growth, key=growth.get)
    yield ("the time of reading grows as the nodes do", growth[worst] <= BAR_GROWTH, f"{worst}: {growth[worst]:.2f} times as long per node")
