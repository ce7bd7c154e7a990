# SPDX-License-Identifier: MIT
"""The hot tree beside the full one (D'Elia, Demetrescu, Finocchi: Mining hot calling contexts in small
space, 2016): how large, how accurate, how fast."""

import concurrent.futures
import json
import os
import subprocess

from . import calls_programs, hot_programs
from .measure import median, run, run_together, spread

PHI = 1e-4
PHIS = (1e-3, 1e-5, 1e-7)
FULL_MEMORY = "6G"
LARGE = 10_000_000  # contexts: of this size two programs at least must be
SPACE_MOST, SPACE_WORST = 0.01, 0.04
FALSE_MOST, ERROR_MOST, BURST_ERROR = 0.05, 2.0, 15.0
BURST, ADAPTIVE = "20ms/2ms", "20ms/2ms,adaptive"
BURST_EVERY = 0.02  # seconds of CPU time
BURST_RUNS = 3  # short ones
LEAST_BURSTS, MOST_BURSTS = 800, 6400  # of long ones laid together
SLOWER = 1.10
STREAM_CALLS, STREAM_CONTEXTS = 10 ** 9, 10 ** 8
PAPER_TABLE1 = (("firefox", 6756, 145883, 30294063, 625133218), ("gimp", 5146, 93372, 26107261, 805947134),
                ("oocalc", 30807, 394913, 48310585, 551472065), ("vlc", 5692, 47481, 3295907, 125436877),
                ("botan", 3388, 27114, 308550, 26272804980), ("crafty", 107, 516, 36434095, 10403074070))
PAPER_TABLE2 = (("audacity", 112, 9181, 233362, 13131115), ("gimp", 96, 15330, 963708, 26107261),
                ("ice-labyrinth", 93, 9413, 529945, 2160052), ("oocalc", 136, 13414, 1339752, 48310585))


def _json(place, *command):
    return json.loads(subprocess.run([place.cairn, *command, "--json"], capture_output=True, check=True).stdout)


def _command(place, output, program, *options, arguments=None):
    return [place.cairn, "record", "-q", "--track", "calls", "-e", "calls", *options, "-o", output, "--",
            program.paths["cairn"], *(arguments or program.arguments)]


def _tree_bytes(place, profile):
    return _json(place, "info", profile)["tree_bytes"]


def _accuracy(place, exact, approx, tau):
    """Hot edges are those with tau times the weight of the hottest: the paper's smallest such threshold that
    φ can cover, but not below 0.01."""
    tau = f"{tau:.6g}"
    found = _json(place, "compare", exact, approx, "--phi", str(PHI), "--threshold", tau)
    return {"missed": found["false_negatives"], "false": found["false_positives"],
            "hot": found["exact"]["hot_contexts"],
            "error_avg": found["counter_error"]["avg_pct"], "error_max": found["counter_error"]["max_pct"],
            "false_error": found["false_positive_error"]["avg_pct"],
            "total": found["approx"]["total"] / max(1, found["exact"]["total"]),
            "coverage": next(iter(found["hot_edge_coverage"].values())), "overlap": found["overlap"],
            "uncovered_max": found["uncovered"]["max_pct"], "uncovered_avg": found["uncovered"]["avg_pct"]}


def _finish(place, program, command):
    """Runs it, beside others: CPU seconds. What it writes is nobody's business."""
    with open(program.stdin, "rb") as stdin:
        child = subprocess.Popen(command, cwd=place.work, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return usage.ru_utime + usage.ru_stime


def _merge(place, name, parts):
    """Recordings laid together, which are parts no more: the profile, of how many runs and bursts."""
    merged = place.at(f"hot-{name}")
    subprocess.run([place.cairn, "merge", "-o", merged, *(path for path, _, _ in parts)], capture_output=True, check=True)
    for path, _, _ in parts:
        os.unlink(path)
    return merged, sum(runs for _, runs, _ in parts), sum(bursts for _, _, bursts in parts)


def _record_bursts(place, program, name, burst, arguments, least=1):
    """Runs in bursts, laid together until there are that many."""
    parts = []
    while sum(bursts for _, _, bursts in parts) < least:
        path = place.at(f"hot-{name}-{len(parts)}")
        cpu = _finish(place, program, _command(place, path, program, "--tree", f"hot:{PHI}", "--burst", burst,
                                               arguments=arguments))
        parts.append((path, 1, max(1, round(cpu / BURST_EVERY))))
    return _merge(place, name, parts)


def _record_long(place, program, pool, name, arguments, least):
    """The same, two at a time: nothing here is timed. What is to come, in two halves."""
    return [pool.submit(_record_bursts, place, program, f"{name}-{side}", BURST, arguments, least // 2) for side in "ab"]


def _judge(place, exact, tau, recorded):
    profile, runs, bursts = recorded
    found = {**_accuracy(place, exact, profile, tau), "runs": runs, "bursts": bursts}
    found["total"] /= runs
    return found


def _go_on(place, program, pool, arguments, exact, tau, recorded):
    """Twice as many bursts, again and again, until the error is as small as it must be: what was found each time."""
    found = [_judge(place, exact, tau, recorded)]
    while found[-1]["error_avg"] > BURST_ERROR and found[-1]["bursts"] < MOST_BURSTS:
        more = _record_long(place, program, pool, f"more-{len(found)}", arguments, recorded[2])
        recorded = _merge(place, f"longer-{len(found)}", [recorded, *(half.result() for half in more)])
        found.append(_judge(place, exact, tau, recorded))
    os.unlink(recorded[0])
    return found


def _bursts(place, program, exact, tau):
    """Which phases a burst meets is chance: short runs, of which the median counts, and one that goes on for long, as all
    of the paper's do. That has other hot contexts, so exact counts of its own."""
    arguments, long_exact = program.long or program.arguments, place.at("hot-exact-long") if program.long else exact
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counting = pool.submit(_finish, place, program, _command(place, long_exact, program, "--memory", FULL_MEMORY,
                                                                 arguments=arguments)) if program.long else None
        halves = _record_long(place, program, pool, "long", arguments, LEAST_BURSTS)
        others = [pool.submit(_record_bursts, place, program, f"short-{number}", BURST, program.arguments)
                  for number in range(BURST_RUNS)]
        adaptive = pool.submit(_record_bursts, place, program, "adaptive", ADAPTIVE, arguments).result()
        others = [each.result() for each in others]
        if counting:
            counting.result()
        found = {"short": [_judge(place, exact, tau, each) for each in others],
                 "adaptive": _judge(place, long_exact, tau, adaptive),
                 "long": _go_on(place, program, pool, arguments, long_exact, tau,
                                _merge(place, "longer-0", [half.result() for half in halves]))}
    for path in (*(each[0] for each in others), adaptive[0], *([long_exact] if counting else [])):
        os.unlink(path)
    return found


def _short_error(row):
    return median([each["error_avg"] for each in row["in_bursts"]["short"]])


def _long_error(row):
    return row["in_bursts"]["long"][-1]["error_avg"]


def _program(place, options, program):
    exact, hot = place.at("hot-exact"), place.at("hot-tree")
    full = _command(place, exact, program, "--memory", FULL_MEMORY)
    mined = _command(place, hot, program, "--tree", f"hot:{PHI}")
    times = {"native": [], "full": [], "hot": []}
    commands = {"native": [program.paths["native"], *program.arguments], "full": full, "hot": mined}
    for number in range(options.rounds):
        order = [*commands, *commands][number % 3:number % 3 + 3]
        results = run_together({name: (commands[name], {}, program.stdin) for name in order}, place.work)
        for name, result in results.items():
            times[name].append(result.cpu)
    facts = json.loads(subprocess.run([os.path.join(place.build, "bench", "context_counts"), exact,
                                       *map(str, PHIS)], capture_output=True, check=True).stdout)
    tau = max(0.01, PHI * facts["calls"] / facts["hottest"])
    row = {"name": program.name, **facts, "hot_bytes": _tree_bytes(place, hot),
           "full_bytes": _tree_bytes(place, exact), "tau": tau, "accuracy": None if program.tells_time else _accuracy(place, exact, hot, tau),
           "ratio": {name: median([mine / native for mine, native in zip(times[name], times["native"])])
                     for name in ("full", "hot")},
           "hot_over_full": median([mine / other for mine, other in zip(times["hot"], times["full"])]),
           "spread": spread(times["native"]), "raw": times}
    # What goes by the clock is another program each time: there is no truth to compare with.
    if not program.tells_time:
        row["in_bursts"] = _bursts(place, program, exact, tau)
    for path in (exact, hot):
        os.unlink(path)
    return row


def _stream(place, say):
    """A day's worth of calls through one hot tree: bench/hot_stream checks budget and bounds by itself."""
    target = "bench/hot_stream"
    built = subprocess.run(["ninja", "-C", place.build, target], capture_output=True, text=True, check=False)
    if built.returncode:
        say(f"  {target} cannot be built: {built.stdout.strip()[-200:]}")
        return None
    done = subprocess.run([os.path.join(place.build, target), str(STREAM_CALLS), str(STREAM_CONTEXTS)],
                          capture_output=True, text=True, check=False)
    return {"ok": done.returncode == 0, "text": done.stdout.strip().splitlines()}


def measure(place, options, say):
    subprocess.run(["ninja", "-C", place.build, "bench/context_counts"], capture_output=True, check=True)
    programs = (calls_programs.real(place, say) + hot_programs.large(place, say) +
                calls_programs.small(place))
    if options.programs:
        programs = [program for program in programs if program.name in options.programs]
    rows = []
    for program in programs:
        rows.append(row := _program(place, options, program))
        found = row["accuracy"]
        say(f"  {row['name']}: {row['contexts']:,} contexts, {row['calls']:,} calls; hot tree "
            f"{row['hot_bytes'] / row['full_bytes']:.2%} of the bytes, over full {row['hot_over_full']:.3f}" +
            (f", missed {found['missed']}, false {found['false']}, error {found['error_avg']:.3f} %; bursts {_short_error(row):.1f} %, "
             f"{_long_error(row):.1f} % of {row['in_bursts']['long'][-1]['bursts']}, adaptive {row['in_bursts']['adaptive']['error_avg']:.1f} %"
             if found else ""))
    return {"rounds": options.rounds, "programs": rows, "stream": _stream(place, say)}


def _render_bursts(rows):
    yield ("In bursts of 2 ms every 20 ms, into a hot tree: *error* is that of the counters of contexts that are hot in truth, on average (one that is "
           "missing has 100 %), after counters were divided by the share of all calls that was counted, as in the paper. *Count* is that sum, over the truth: what "
           "the counts are without dividing. A context that is hot in a phase of 50 ms is met by two or three bursts, and its error is that of chance: the more "
           "bursts, the less. So a program is run with more work, and again, laid together by `cairn merge`, until there are "
           f"{LEAST_BURSTS} bursts or more, 16 seconds (the paper's run for minutes), and as long as the error is above {BURST_ERROR:g} % until there are twice as many, up to two minutes of them, a row for each. Its exact counts are those of the same work. *Short* is the run of the tables above, the median of {BURST_RUNS}. *Adaptive* takes one burst in twenty "
           "of those that begin in a context that was seen. *False* are contexts that are only taken to be hot, and their error: such a one is cold, so chance alone makes it many times too hot.")
    yield ""
    yield ("| program | bursts | error | max | hot contexts | missed | false | their error | count | adaptive: error | short: bursts | error |")
    yield "|---|" + "---:|" * 11
    for row in rows:
        adaptive, short = row["in_bursts"]["adaptive"], row["in_bursts"]["short"]
        others = f"{adaptive['error_avg']:.1f} % | {median([each['bursts'] for each in short]):,} | {_short_error(row):.1f} %"
        for number, long in enumerate(row["in_bursts"]["long"]):
            yield (f"| {row['name']} | {long['bursts']:,} | {long['error_avg']:.1f} % | {long['error_max']:.0f} % | {long['hot']:,} | {long['missed']} | "
                   f"{long['false']} | {long['false_error']:.0f} % | {long['total']:.2f} | {'| | ' if number else others} |")


def render(data):
    yield "## Hot contexts in small space"
    yield ""
    yield ("The programs of the calls table, every call followed, in a full tree and in a hot one "
           f"(φ = {PHI:g}, ε = φ/5, Space Saving). Times: medians of {data['rounds']} rounds in which all three run at once, "
           "taking turns on one processor.")
    yield ""
    yield "HCCT's Table I (numbers of nodes), ours and some of the paper's:"
    yield ""
    yield "| program | call graph | call sites | CCT | call tree |"
    yield "|---|---:|---:|---:|---:|"
    for row in data["programs"]:
        yield f"| {row['name']} | {row['functions']:,} | {row['sites']:,} | {row['contexts']:,} | {row['calls']:,} |"
    for name, *numbers in PAPER_TABLE1:
        yield f"| *{name} (paper)* | " + " | ".join(f"{number:,}" for number in numbers) + " |"
    yield ""
    yield "HCCT's Table II (nodes of the exact hot tree):"
    yield ""
    yield "| program | " + " | ".join(f"φ = {phi:g}" for phi in PHIS) + " | CCT |"
    yield "|---|" + "---:|" * (len(PHIS) + 1)
    for row in data["programs"]:
        yield f"| {row['name']} | " + " | ".join(f"{count:,}" for count in row["hot"]) + f" | {row['contexts']:,} |"
    for name, *numbers in PAPER_TABLE2:
        yield f"| *{name} (paper)* | " + " | ".join(f"{number:,}" for number in numbers) + " |"
    yield ""
    yield ("Space (peak bytes of the trees, edges included), accuracy against the exact tree, and time. *Missed* and *false* "
           "count contexts on the wrong side of φ, of those that are hot; *error* is that of the counters of hot contexts; *coverage* is "
           "that of edges with at least τ times the hottest one's weight, where τ is 0.01, or φN over that weight if this is more "
           "(below it, the paper's guarantee ends). phalanx goes by the clock: two runs of it differ.")
    yield ""
    yield ("| program | full | hot | share | hot contexts | missed | false | error avg | max | τ | coverage | full / native | "
           "hot / native | hot / full |")
    yield "|---|" + "---:|" * 13
    for row in data["programs"]:
        found = row["accuracy"]
        accuracy = (f"{found['hot']:,} | {found['missed']} | {found['false']} | {found['error_avg']:.3f} % | "
                    f"{found['error_max']:.2f} % | {row['tau']:.3f} | {found['coverage']:.3f}" if found else "– | " * 6 + "–")
        yield (f"| {row['name']} | {row['full_bytes'] / 1e6:.1f} MB | {row['hot_bytes'] / 1e6:.2f} MB | "
               f"{row['hot_bytes'] / row['full_bytes']:.2%} | {accuracy} | {row['ratio']['full']:.2f} | "
               f"{row['ratio']['hot']:.2f} | {row['hot_over_full']:.3f} |")
    yield ""
    yield from _render_bursts([row for row in data["programs"] if row.get("in_bursts")])
    yield ""
    yield ("The paper: space below 1 % for most and 4.1 % at worst; no hot context missed; false positives 0–5 % for most, below "
           "10 % at worst; average error above 4 % only for crafty, below 2 % for most; with bursts 6.9–17.3 %; the hot tree 16 % "
           "slower than the full one.")
    if data["stream"]:
        yield ""
        yield f"A day in a minute: {STREAM_CALLS:,} synthetic calls over {STREAM_CONTEXTS:,} contexts through one hot tree:"
        yield ""
        for line in data["stream"]["text"]:
            yield f"- {line}"


def bars(data):
    rows = data["programs"]
    large = [row for row in rows if row["contexts"] >= LARGE]
    yield ("HCCT's tables: at least eight programs, two with over ten million contexts", len(rows) >= 8 and len(large) >= 2,
           f"{len(rows)}, {len(large)}")
    share = {row["name"]: row["hot_bytes"] / row["full_bytes"] for row in rows}
    # Where the whole tree is smaller than the counters that φ asks for, there is nothing to save.
    mined = [row for row in rows if row["contexts"] > 5 / PHI]
    small = sum(share[row["name"]] <= SPACE_MOST for row in mined)
    worst = max(mined, key=lambda row: share[row["name"]], default=None)
    if worst:
        yield (f"hot tree at φ = {PHI:g}: at most {SPACE_MOST:.0%} of the full one's bytes for most, {SPACE_WORST:.0%} at worst "
               "(programs with more contexts than counters)",
               2 * small > len(mined) and share[worst["name"]] <= SPACE_WORST,
               f"{small} of {len(mined)}; worst: {worst['name']} {share[worst['name']]:.2%}")
    known = [row for row in rows if row["accuracy"]]
    yield ("every hot context found", not any(row["accuracy"]["missed"] for row in known),
           f"{sum(row['accuracy']['missed'] for row in known)} missed of {sum(row['accuracy']['hot'] for row in known):,}")
    few = sum(row["accuracy"]["false"] <= FALSE_MOST * max(1, row["accuracy"]["hot"]) for row in known)
    yield f"false positives at most {FALSE_MOST:.0%} for most", 2 * few > len(known), f"{few} of {len(known)}"
    near = sum(row["accuracy"]["error_avg"] <= ERROR_MOST for row in known)
    yield f"average counter error at most {ERROR_MOST:g} % for most", 2 * near > len(known), f"{near} of {len(known)}"
    yield ("hot-edge coverage 100 % for τ ≥ 0.01, where φN is that small", all(row["accuracy"]["coverage"] >= 1 for row in known),
           f"lowest {min(row['accuracy']['coverage'] for row in known):.4f}")
    burst = [row for row in known if row.get("in_bursts")]
    if burst:
        worst = max(burst, key=_long_error)
        above = [row for row in burst if _long_error(row) > BURST_ERROR]
        later = [row for row in burst if len(row["in_bursts"]["long"]) > 1]
        yield (f"with bursts, in two minutes of them at most: average error at most {BURST_ERROR:g} %", not above,
               f"median {median([_long_error(row) for row in burst]):.1f} %, worst: {worst['name']} {_long_error(worst):.1f} %; 16 seconds do for all" +
               "".join(f" but {row['name']} ({row['in_bursts']['long'][0]['error_avg']:.1f} % then, {row['in_bursts']['long'][-1]['bursts'] * BURST_EVERY:.0f} seconds in all)"
                       for row in later))
    slow = [row for row in rows if row["hot_over_full"] > SLOWER]
    yield (f"hot tree at most {SLOWER - 1:.0%} slower than the full one", not slow,
           f"median {median([row['hot_over_full'] for row in rows]):.3f}" +
           ("; slower: " + ", ".join(f"{row['name']} {row['hot_over_full']:.2f}" for row in slow) if slow else ""))
    if large:
        yield ("hot tree faster than a full one that falls out of cache", all(row["hot_over_full"] < 1 for row in large),
               ", ".join(f"{row['name']} {row['hot_over_full']:.2f}" for row in large))
    if data["stream"]:
        yield "a day in a minute: within budget and bounds", data["stream"]["ok"], data["stream"]["text"][-1]
