# SPDX-License-Identifier: MIT
"""ACCT's figures (Arnold, Sweeney: Approximating the calling context tree via sampling, 1999): a stack
sample at every N-th call, with both ways to weigh edges, beside the exact tree."""

import json
import os
import subprocess

from . import calls_programs

PERIODS = (59, 307, 1559)
WEIGHTS = ("last", "all-new")
RANDOM = "last, random"  # periods that vary; last
BAR = 0.99
PICTURES = "pictures"  # beside RESULTS.md
FIGURE6 = """
#define ALONE __attribute__((noipa))
static volatile long sink;
ALONE static void c(void) { sink++; }
ALONE static void b(void) { for (int i = 0; i < 100; i++) c(); }
ALONE static void a(void) { for (int i = 0; i < 10; i++) b(); }
int main(void) { a(); return 0; }
"""


def _json(place, *command):
    return json.loads(subprocess.run([place.cairn, *command, "--json"], capture_output=True, check=True).stdout)


def _record(place, output, command, *options):
    subprocess.run([place.cairn, "record", "-q", *options, "-o", output, "--", *command], check=True,
                   cwd=place.work, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def _program(place, program, picture_folder):
    command = [program.paths["cairn"], *(program.short or program.arguments)]
    exact, sampled = place.at("acct-exact"), place.at("acct-sampled")
    _record(place, exact, command, "--track", "calls", "-e", "calls")
    rows = []
    for period in PERIODS:
        for weights in (*WEIGHTS, RANDOM):
            how = ("--random-periods",) if weights == RANDOM else ("--weights", weights)
            _record(place, sampled, command, "-e", f"calls:{period}", *how)
            picture = f"acct-{program.name}-{period}-{weights.replace(', ', '-')}.svg"
            found = _json(place, "compare", exact, sampled, "--edges", "40", "--svg",
                          os.path.join(picture_folder, picture))
            rows.append({"period": period, "weights": weights, "picture": picture, "overlap": found["overlap"],
                         "weighted_overlap": found["weighted_overlap"], **found["correlation"],
                         "coverage": found["hot_edge_coverage"].get("0.01")})
    return {"name": program.name, "rows": rows, "contexts": found["exact"]["contexts"],
            "calls": found["exact"]["total"]}


def _edges(place, output):
    """How much b and c, a's and b's callees, were counted."""
    nodes = _json(place, "report", "--min", "0", output)["nodes"]
    weight = lambda name: sum(node["self"][0] for node in nodes if node["function"] == name)
    return weight("b"), weight("c")


def _figure6(place):
    source, program, output = place.at("acct-figure6.c"), place.program("acct-figure6"), place.at("acct-profile")
    with open(source, "w", encoding="ascii") as file:
        file.write(FIGURE6)
    subprocess.run([place.cairn, "cc", "gcc", "-O2", "-fno-optimize-sibling-calls", source, "-o", program], check=True)
    _record(place, output, [program], "--track", "calls", "-e", "calls")
    found = {"exact": _edges(place, output)}
    for period in (7, 59):
        for weights in WEIGHTS:
            _record(place, output, [program], "-e", f"calls:{period}", "--weights", weights)
            found[f"{period} {weights}"] = _edges(place, output)
    return found


def measure(place, options, say):
    rows = []
    pictures = place.work if options.quick or options.programs else os.path.join(place.source, PICTURES)
    os.makedirs(pictures, exist_ok=True)
    for program in calls_programs.real(place, say):
        if program.name in ("lua", "sqlite3", "bzip2"):
            rows.append(_program(place, program, pictures))
            for row in rows[-1]["rows"]:
                say(f"  {program.name} {row['period']} {row['weights']}: pearson {row['pearson']:.4f}, spearman "
                    f"{row['spearman']:.4f}, overlap {row['overlap']:.4f}, weighted {row['weighted_overlap']:.4f}")
    figure = _figure6(place)
    say(f"  figure 6: {figure}")
    return {"programs": rows, "figure6": figure}


def render(data):
    yield "## A stack sample at every N-th call"
    yield ""
    yield ("ACCT's Figures 2 to 5 as numbers: the 40 hottest edges of the exact tree (Figure 1) and of the approximation. "
           "*Overlap* is that of contexts, *weighted* that of shares of weight in all contexts; coverage is that of edges "
           "with at least 1 % of the hottest one's weight. The pictures are below." +
           (" *Random*: with periods that vary." if any(row["weights"] == RANDOM for program in data["programs"] for row in program["rows"])
            else ""))
    yield ""
    yield "| program | every | weights | Pearson | Spearman | overlap | weighted overlap | hot-edge coverage |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|"
    for program in data["programs"]:
        for row in program["rows"]:
            yield (f"| {program['name']} ({program['calls']:,} calls, {program['contexts']:,} contexts) | {row['period']:,} | "
                   f"{row['weights']} | {row['pearson']:.4f} | {row['spearman']:.4f} | {row['overlap']:.4f} | "
                   f"{row['weighted_overlap']:.4f} | {row['coverage']:.3f} |")
    for program in data["programs"]:
        yield ""
        yield (f"{program['name']}: each of the 40 hottest edges as a light bar (exact) and a dark one (sampled).")
        yield ""
        for row in program["rows"]:
            if "picture" in row:
                yield f"![every {row['period']:,}th call, {row['weights']}]({PICTURES}/{row['picture']})"
    yield ""
    yield ("Figure 6: a calls b 10 times, and each b calls c 100 times. Weights of the edges a→b and b→c, which are 1 : 100:")
    yield ""
    yield "| | a→b | b→c |"
    yield "|---|---:|---:|"
    for name, (b, c) in data["figure6"].items():
        label = "every call, exact" if name == "exact" else "every {}. call, {}".format(*name.split())
        yield f"| {label} | {b:,} | {c:,} |"


def bars(data):
    rows = [(program["name"], row) for program in data["programs"] for row in program["rows"]
            if row["period"] == 59 and row["weights"] == "last"]
    if rows:
        name, worst = min(rows, key=lambda pair: pair[1]["pearson"])
        yield (f"every 59th call, last: correlation of the 40 hottest edges at least {BAR}", worst["pearson"] >= BAR,
               f"worst: {name} {worst['pearson']:.4f}")
    figure = data["figure6"]
    yield "ACCT's Figure 6: exactly 10 and 1,000", tuple(figure["exact"]) == (10, 1000), "{} and {}".format(*figure["exact"])
    share = lambda name: figure[name][0] / max(1, figure[name][1])
    yield ("ACCT's Figure 6: last is right (1 : 100), all-new is not, every 7th call",
           share("7 last") < 0.03 < share("7 all-new"),
           f"last {figure['7 last'][0]} : {figure['7 last'][1]}, all-new {figure['7 all-new'][0]} : {figure['7 all-new'][1]}")
