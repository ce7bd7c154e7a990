# SPDX-License-Identifier: MIT
"""Hot contexts of programs that have far more contexts than a hot tree has counters: unmodified ones, followed by their call
sites, whose call trees are counted exactly and by each of the three miners. (D'Elia, Demetrescu, Finocchi: Mining hot calling
contexts in small space, 2016: Tables I and II, Figures 1, 4 and 7 to 12b.)"""

import glob
import json
import os
import subprocess
import sysconfig

from . import inputs, workloads

PHI = 1e-4
PHIS = (1e-3, 1e-4, 1e-5)
COUNTERS = 5 / PHI  # by default, epsilon is a fifth of phi
FACTOR = 10  # as many contexts as counters at least
MINERS = ("space-saving", "lossy", "sticky")
EPSILONS = (2, 5, 10, 20)  # parts of phi
THRESHOLDS = ("0.1", "0.05", "0.025", "0.01")
FALSE_MOST, ERROR_MOST, UNCOVERED_MOST = 0.10, 4.0, 12.0

DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" width="800" height="600"><defs><linearGradient id="fill">
<stop offset="0" stop-color="red"/><stop offset="1" stop-color="blue"/></linearGradient></defs>
<g fill="url(#fill)" stroke="black"><path d="M10 10 C 100 400 300 50 700 500 Z"/>
<text x="50" y="300" font-size="60">calling contexts</text><circle cx="300" cy="200" r="120"/></g></svg>"""


def _programs(place):
    """Name, what it does, command and environment; those that are not installed are left out."""
    folder = place.at("large-inputs")
    os.makedirs(folder, exist_ok=True)
    source, drawing = os.path.join(folder, "many.c"), os.path.join(folder, "drawing.svg")
    inputs.make_c_file(source, 12)
    with open(drawing, "w", encoding="utf-8") as file:
        file.write(DRAWING)
    modules = sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "json", "*.py")))
    find = workloads.find
    wanted = (
        ("cc1", "compiles C", [workloads.cc1(), "-quiet", "-O2", source, "-o", "/dev/null"], {}),
        ("clang", "compiles C", [find("clang"), "-O2", "-c", source, "-o", "/dev/null"], {}),
        ("python3", "compiles its own json", [find("/usr/bin/python3"), "-m", "compileall", "-q", "-f", *modules],
         {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": folder}),
        ("stockfish", "thinks ten plies ahead", [find("/usr/games/stockfish", "stockfish"), "bench", "16", "1", "10"], {}),
        ("inkscape", "draws a picture", [find("inkscape"), "--export-type=png", "-o", "/dev/null", drawing], {"HOME": folder}),
    )
    return [program for program in wanted if program[2][0]], [program[0] for program in wanted if not program[2][0]]


def _record(place, name, program, *options):
    path = place.at(f"large-{name}")
    subprocess.run([place.cairn, "record", "-q", "-e", "calls", *options, "-o", path, "--", *program[2]], cwd=place.work,
                   env={**os.environ, **program[3]}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return path


def _json(place, *command):
    return json.loads(subprocess.run([place.cairn, *command, "--json"], capture_output=True, check=True).stdout)


def _judged(place, exact, program, phi, *options):
    """One recording in a hot tree: what it has and what is wrong with it."""
    path = _record(place, "hot", program, *options)
    found = _json(place, "compare", exact, path, "--phi", str(phi), "--threshold", ",".join(THRESHOLDS))
    info = _json(place, "info", path)
    os.unlink(path)
    return {"bytes": info["tree_bytes"], "shown": found["approx"]["contexts"], "taken": found["approx"]["hot_contexts"],
            "hot": found["exact"]["hot_contexts"], "missed": found["false_negatives"], "false": found["false_positives"],
            "error_avg": found["counter_error"]["avg_pct"], "error_max": found["counter_error"]["max_pct"],
            "overlap": found["overlap"], "coverage": found["hot_edge_coverage"],
            "uncovered_max": found["uncovered"]["max_pct"], "uncovered_avg": found["uncovered"]["avg_pct"]}


def _facts(place, exact):
    tool = os.path.join(place.build, "bench", "context_counts")
    return json.loads(subprocess.run([tool, exact, *map(str, PHIS)], capture_output=True, check=True).stdout)


def _program(place, program):
    exact, again = _record(place, "exact", program, "--memory", "6G"), _record(place, "again", program, "--memory", "6G")
    repeated = _json(place, "compare", exact, again, "--phi", str(PHI))
    row = {"name": program[0], "does": program[1], **_facts(place, exact),
           "repeated": {"missed": repeated["false_negatives"], "false": repeated["false_positives"],
                        "error_avg": repeated["counter_error"]["avg_pct"]},
           "by_phi": [_judged(place, exact, program, phi, "--tree", f"hot:{phi:g}") for phi in PHIS],
           "by_epsilon": [_judged(place, exact, program, PHI, "--tree", f"hot:{PHI:g},{PHI / part:g}") for part in EPSILONS],
           "by_miner": [_judged(place, exact, program, PHI, "--tree", f"hot:{PHI:g}", "--miner", miner) for miner in MINERS]}
    os.unlink(exact)
    os.unlink(again)
    return row


def measure(place, options, say):
    subprocess.run(["ninja", "-C", place.build, "bench/context_counts"], capture_output=True, check=True)
    programs, missing = _programs(place)
    chosen = [program for program in programs if not options.programs or program[0] in options.programs]
    rows = []
    for program in chosen[:1] if options.quick else chosen:
        rows.append(row := _program(place, program))
        mined = row["by_miner"][0]
        say(f"  {row['name']}: {row['contexts']:,} contexts, {row['calls']:,} calls; missed {mined['missed']} of {mined['hot']}, "
            f"false {mined['false']}, error {mined['error_avg']:.2f} % (two exact runs {row['repeated']['error_avg']:.2f} %)")
    return {"programs": rows, "missing": missing} if rows else None


def _table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _percent(share):
    return f"{100 * share:.1f} %"


def render(data):
    rows = data["programs"]
    yield "## Hot contexts of large programs"
    yield ""
    yield (f"Unmodified programs of Debian, followed by their call sites (`record -e calls`), with more contexts than a hot tree has counters "
           f"(φ = {PHI:g}, ε = φ/5 where nothing else is said: {COUNTERS:,.0f}): " +
           ", ".join(f"{row['name']} {row['does']}" for row in rows) + ". What is compared is what a report shows. All of it is counts, not times. "
           "Two exact runs differ, too: by where memory lies, what a program hashes is in other orders.")
    yield ""
    if data["missing"]:
        yield "Not installed: " + ", ".join(data["missing"]) + "."
        yield ""
    yield "HCCT's Table I, and the skew of Figure 1: the share of all calls in the hottest contexts."
    yield ""
    yield from _table(["program", "call graph", "call sites", "CCT", "call tree", "0.01 %", "0.1 %", "1 %", "10 % hottest"],
                      ([row["name"], *(f"{row[key]:,}" for key in ("functions", "sites", "contexts", "calls")), *map(_percent, row["skew"])]
                       for row in rows))
    yield ("Table II (nodes of the exact hot tree) and Figure 7a (the share of all calls that is in it), over φ; Figure 4: the bytes of the mined tree, "
           "as a share of the full one's.")
    yield ""
    yield from _table(["program", *(f"{what}, φ = {phi:g}" for what in ("nodes", "overlap", "bytes") for phi in PHIS)],
                      ([row["name"], *(f"{count:,}" for count in row["hot"]), *map(_percent, row["overlap"]),
                        *(_percent(each["bytes"] / row["tree_bytes"]) for each in row["by_phi"])] for row in rows))
    yield (f"The three miners at φ = {PHI:g}, beside a second exact run. *Hot* are the truly hot contexts; *missed* those of them that are not found; *false* those "
           "that are taken to be hot; *cold* those that are shown as their callers (Figure 9). *Error* is that of the counters of hot contexts (Figure 11). *Uncovered* is "
           "the heat of contexts that are left out, as a share of the hottest (Figure 8). Coverage of edges with at least so much of the hottest one's heat "
           "(Figure 12b).")
    yield ""
    yield from _table(["program", "by", "hot", "missed", "false", "cold", "error avg", "max", "uncovered max", "avg",
                       *(f"τ = {threshold}" for threshold in THRESHOLDS), "bytes"],
                      (line for row in rows for line in _miner_rows(row)))
    yield f"Figure 10: false positives over ε, φ = {PHI:g}, as a share of the contexts that are shown."
    yield ""
    yield from _table(["program", *(f"ε = φ/{part}" for part in EPSILONS)],
                      ([row["name"], *(_percent(each["false"] / max(1, each["shown"])) for each in row["by_epsilon"])] for row in rows))
    yield ("Not here: Figures 5, 6 and 12a, as calls that are followed by call sites cannot be followed in bursts, and times belong to the table of programs that are "
           "built with the hooks (above).")


def _miner_rows(row):
    for miner, found in zip(MINERS, row["by_miner"]):
        yield [row["name"], miner, f"{found['hot']:,}", str(found["missed"]), str(found["false"]), f"{max(0, found['shown'] - found['taken']):,}",
               f"{found['error_avg']:.2f} %", f"{found['error_max']:.1f} %", f"{found['uncovered_max']:.1f} %", f"{found['uncovered_avg']:.4f} %",
               *(f"{found['coverage'][threshold]:.3f}" for threshold in THRESHOLDS), _percent(found["bytes"] / row["tree_bytes"])]
    again = row["repeated"]
    yield [row["name"], "*exact, again*", "", str(again["missed"]), str(again["false"]), "", f"{again['error_avg']:.2f} %", *[""] * (5 + len(THRESHOLDS) - 1)]


def bars(data):
    rows = data["programs"]
    large = [row for row in rows if row["contexts"] >= FACTOR * COUNTERS]
    yield (f"large programs: at least four with {FACTOR} times as many contexts as counters", len(large) >= 4,
           ", ".join(f"{row['name']} {row['contexts'] / COUNTERS:.0f}" for row in large))
    if not large:
        return
    mined = [(row, row["by_miner"][0]) for row in large]
    missed = sum(found["missed"] for _, found in mined)
    chance = sum(row["repeated"]["missed"] for row in large)
    yield ("large programs: no hot context missed, but for what two exact runs differ in", missed <= chance,
           f"{missed} of {sum(found['hot'] for _, found in mined):,}; two exact runs: {chance}")
    worst, found = max(mined, key=lambda pair: pair[1]["false"] / max(1, pair[1]["shown"]))
    yield (f"large programs: false positives at most {FALSE_MOST:.0%} of what is shown", found["false"] <= FALSE_MOST * found["shown"],
           f"worst: {worst['name']} {found['false'] / max(1, found['shown']):.1%}")
    worst, found = max(mined, key=lambda pair: pair[1]["error_avg"])
    yield (f"large programs: average counter error at most {ERROR_MOST:g} %", found["error_avg"] <= ERROR_MOST,
           f"worst: {worst['name']} {found['error_avg']:.2f} % (two exact runs {worst['repeated']['error_avg']:.2f} %)")
