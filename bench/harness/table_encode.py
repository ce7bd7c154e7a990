# SPDX-License-Identifier: MIT
"""DACCE's figures (Li, Wang, Wu, Hsu, Xu: Dynamic and adaptive calling context encoding, CGO 2014): what it costs to keep
contexts as numbers, Table 1, Figures 9 and 10, and whether the numbers say the truth."""

import json
import math
import os
import re
import shutil
import subprocess

from . import inputs, profilers, workloads
from .measure import median, run, run_together, spread

NAMES = ("perl", "python3", "lua5.4", "sqlite3", "cc1", "bzip2", "xz -T1", "git")
VERIFY_RUNS = 40
QUIET = "1"  # Hz: as good as no sampling
ASKED = "1000"
TIMES = 3  # as much work in the longer runs, and rounds of these at most
MEAN_BAR, WORST_BAR, DECODE_BAR, SAMPLES_BAR = 1.02, 1.10, 1e6, 10000
PICTURES = "pictures"
# Table 1 of the paper, DACCE's columns: nodes, edges, maxID, ccStack/s, depth of the ccStack, encodings, their cost in µs, calls/s.
PAPER = (("400.perlbench", 684, 3911, "1.4E+11", 3095100, 0.20, 23, 1747514, 29205101),
         ("401.bzip2", 50, 109, "61", 38753, 0.05, 5, 3475, 7687097),
         ("403.gcc", 1931, 11518, "7.0E+13", 315406, 0.00, 110, 2866850, 14710894),
         ("445.gobmk", 1378, 4808, "2.4E+11", 250321, 2.47, 76, 1732161, 13355556),
         ("458.sjeng", 54, 232, "2945", 233, 0.00, 23, 19560, 18248384),
         ("471.omnetpp", 506, 4135, "8654", 149146, 0.04, 11, 205585, 11656043),
         ("483.xalancbmk", 2170, 7321, "1422838", 596197, 6.01, 27, 3551342, 25341805),
         ("453.povray", 548, 2201, "548645", 69109, 0.76, 6, 113456, 34335309))
THROWS = """#include <cstdio>
#include <stdexcept>
#include <vector>
struct guard { int *n; ~guard() { ++*n; } };
__attribute__((noinline)) int leaf(int i, int *n) {
    guard g{n};
    volatile unsigned x = i;
    for (int k = 0; k < 300; k++) x = x * 1664525u + 1013904223u;
    if (i % 7 == 0) throw std::runtime_error("seventh");
    return (int)(x >> 24);
}
__attribute__((noinline)) int middle(int i, int *n) { guard g{n}; return leaf(i, n) + leaf(i + 1, n); }
__attribute__((noinline)) int top(int i, int *n) {
    try { return middle(i, n); } catch (const std::runtime_error &) { return middle(i - i % 7 + 1, n); }
}
int main() {
    long sum = 0; int n = 0;
    for (int i = 0; i < 2500000; i++) sum += top(i, &n);
    std::printf("%ld %d\\n", sum, n);
}
"""
PLUGIN = """int plugin(int i) { volatile unsigned x = i; for (int k = 0; k < 2000; k++) x = x * 1664525u + NUMBER; return (int)(x >> 20); }
"""
LOADS = """#include <dlfcn.h>
#include <stdio.h>
__attribute__((noinline)) static int use(const char *path, int i) {
    void *library = dlopen(path, RTLD_NOW);
    int (*plugin)(int) = library ? (int (*)(int))dlsym(library, "plugin") : NULL;
    int sum = 0;
    for (int k = 0; plugin && k < 100; k++) sum ^= plugin(i + k);
    if (library) dlclose(library);
    return sum;
}
int main(int argc, char **argv) {
    long sum = 0;
    for (int i = 0; i < 12000; i++) sum += use(argv[1 + i % (argc - 1)], i);
    printf("%ld\\n", sum);
    return 0;
}
"""


def _json(*command):
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def _compile(place, name, source, compiler, *flags):
    path, target = place.at(name + (".cc" if compiler == "c++" else ".c")), place.program(name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(source)
    subprocess.run([compiler, "-O2", "-g", *flags, path, "-o", target, "-ldl"], check=True)
    return target


def _programs(place):
    by_name = {program.name: program.argv for program in workloads.all_workloads(place)[0]}
    if "xz -T2" in by_name:
        by_name["xz -T1"] = [by_name["xz -T2"][0], "-T1", "-3", "-c", place.at("inputs", "text5")]
    return by_name


REPEATING = {"perl": ("encode-repeat.pl", 'my ($n, $file) = splice @ARGV, 0, 2; do $file for 1 .. $n;\n'),
             "python3": ("encode-repeat.py", "import sys\nn, path = int(sys.argv.pop(1)), sys.argv.pop(1)\n"
                         "code = compile(open(path).read(), path, 'exec')\nfor _ in range(n): exec(code, {'__name__': '__main__'})\n"),
             "lua5.4": ("encode-repeat.lua", "local n, file = tonumber(table.remove(arg, 1)), table.remove(arg, 1)\n"
                        "for i = 1, n do dofile(file) end\n")}


def _longer(place, name, argv):
    """The same work several times over in one process; of git, whose measured run is the longer one, a part: (argv, longer)."""
    if name in REPEATING:
        file, text = REPEATING[name]
        with open(place.at(file), "w", encoding="ascii") as out:
            out.write(text)
        return argv, [argv[0], place.at(file), str(TIMES), *argv[1:]]
    if name == "sqlite3":
        return argv, [*argv, *["DROP TABLE item;", argv[-1]] * (TIMES - 1)]
    if name == "cc1":
        inputs.make_c_file(place.at("many-more.c"), 115 * TIMES)
        return argv, [place.at("many-more.c") if word.endswith("many.c") else word for word in argv]
    if name == "git":
        return [*argv[:-1], "-n", str(450 // TIMES), argv[-1]], argv
    return argv, [*argv, *[argv[-1]] * (TIMES - 1)]  # bzip2, xz: the same file again


def _verified_programs(place, by_name):
    """Ten programs: of the eight, xz with threads; one that throws, one that loads and unloads libraries."""
    chosen = [(name, by_name[name]) for name in (*NAMES[:6], "xz -T2", "git") if name in by_name]
    if shutil.which("c++"):
        chosen.append(("throws (C++)", [_compile(place, "encode-throws", THROWS, "c++")]))
    plugins = [_compile(place, f"encode-plugin{number}.so", PLUGIN.replace("NUMBER", str(number)), "cc", "-shared", "-fPIC")
               for number in (1, 2, 3)]
    chosen.append(("plugins (dlopen)", [_compile(place, "encode-loads", LOADS, "cc"), *plugins]))
    return chosen


def _rounds(place, rounds, argv):
    """Native and encoded, taking turns: when hardly anybody asks for a context, and when somebody does, by walks for comparison.
    Their times, whether all output is the same, and what part of the samples the numbers told."""
    tools = {"encode": profilers.Cairn("encode", "encode", place.cairn, "--track", "encode", "-F", QUIET),
             "walk_asked": profilers.Cairn("walk", "walk", place.cairn, "-F", ASKED),
             "encode_asked": profilers.Cairn("encode", "encode", place.cairn, "--track", "encode", "-F", ASKED)}
    times, same = {"native": [], **{name: [] for name in tools}}, True
    for number in range(rounds):
        order = list(times) if number % 2 == 0 else list(reversed(times))
        results = run_together({name: (argv if name == "native" else tools[name].command(argv, place.profile(name))[0], {},
                                       os.devnull) for name in order}, place.work)
        for name, result in results.items():
            times[name].append(result.cpu)
        same &= len({(result.status, result.digest) for result in results.values()}) == 1
    info = tools["encode_asked"].info(place.at("profile-encode_asked"))
    return times, same, (info["encode"]["samples_decoded"] + info["encode"]["samples_confirmed"]) / max(info["samples"], 1)


def _lengths(place, options, name, argv, times):
    """Times of a short run and of a long one, the one that is measured anyway being one of them."""
    rounds = min(options.rounds, TIMES)
    short, long = _longer(place, name, argv)
    return [times if command == argv else _rounds(place, rounds, command)[0] for command in (short, long)]


def _calls_a_second(place, argv, seconds):
    """By a run that follows every call; None where that cannot be done."""
    output = place.profile()
    done = run([place.cairn, "record", "-q", "--track", "calls", "-e", "calls", "-o", output, "--", *argv], place.work)
    if done.status or not os.path.exists(output):
        return None
    nodes = _json(place.cairn, "report", "--json", "--min", "0", output)["nodes"]
    return sum(node.get("calls") or 0 for node in nodes) / max(seconds, 1e-9)


def _numbers(place, argv):
    """Table 1, from a run that is sampled, and all samples of which are decoded."""
    tool = profilers.Cairn("encode", "encode", place.cairn, "--track", "encode", "-F", "1000", "--verify")
    output = place.profile()
    run(tool.command(argv, output)[0], place.work)
    return tool.info(output)["encode"]


def _verify(place, name, argv, least):
    """Runs until so many numbers were compared: mismatches, and whether the output is the same."""
    tool = profilers.Cairn("encode", "encode", place.cairn, "--track", "encode", "-F", "5000", "--verify")
    native = run(argv, place.work)
    sums = {"name": name, "samples": 0, "told": 0, "verified": 0, "mismatches": 0, "runs": 0, "same": True}
    while sums["verified"] < least and sums["runs"] < VERIFY_RUNS:
        output = place.profile()
        result = run(tool.command(argv, output)[0], place.work)
        info = tool.info(output)
        encode = info["encode"]
        sums["runs"] += 1
        sums["samples"] += info["samples"]
        sums["told"] += encode["samples_decoded"] + encode["samples_confirmed"]
        sums["verified"] += encode["verified"]
        sums["mismatches"] += encode["mismatches"]
        sums["same"] &= (result.status, result.digest) == (native.status, native.digest)
    return sums


def _start(place, options):
    """What programs that do nothing cost, and a site that is patched."""
    tool = profilers.Cairn("encode", "encode", place.cairn, "--track", "encode", "-F", QUIET)
    plain = profilers.Cairn("walk", "walk", place.cairn, "-F", QUIET)
    found = []
    for name, *rest in (("true",), ("perl", "-e", "0"), ("python3", "-S", "-c", "pass"), ("git", "--version")):
        path, times = workloads.find(name), {"native": [], "walk": [], "encode": []}
        if not path:
            continue
        for _ in range(max(options.rounds, 5)):
            for column, command in (("native", [path, *rest]), ("walk", plain.command([path, *rest], place.profile())[0]),
                                    ("encode", tool.command([path, *rest], place.at("start-profile"))[0])):
                times[column].append(run(command, place.work).cpu)
        found.append({"name": " ".join((name, *rest)), "sites": tool.info(place.at("start-profile"))["encode"]["sites_patched"],
                      **{column: median(values) for column, values in times.items()}})
    return found


def _decoding(place):
    path = os.path.join(place.build, "bench", "decode_contexts")
    if not os.access(path, os.X_OK):
        return None
    text = subprocess.run([path], capture_output=True, text=True, check=True).stdout
    lines = text.splitlines()
    column = lines[0].replace("max id", "max-id").replace("M ctx/s", "rate").split().index("rate")
    return [float(line.split()[column]) for line in lines[1:]]


# ---- pictures

def _svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>{body}</svg>\n')


def _line(points, colour):
    return (f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="'
            + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')


def _plot(title, lines, x_label, log_x=False):
    """Lines of (name, colour, [(x, y)]), each scaled to its own largest y; steps, not slopes."""
    width, height, left, bottom = 360, 230, 40, 200
    most = max((x for _, _, points in lines for x, _ in points), default=1) or 1
    scale = (lambda x: math.log2(x + 1) / math.log2(most + 1)) if log_x else (lambda x: x / most)
    body = f'<text x="{left}" y="16" font-size="13">{title}</text>'
    body += f'<line x1="{left}" y1="{bottom}" x2="345" y2="{bottom}" stroke="#888"/><line x1="{left}" y1="30" x2="{left}" y2="{bottom}" stroke="#888"/>'
    body += f'<text x="{left}" y="222">0</text><text x="345" y="222" text-anchor="end">{most:,.0f} {x_label}</text>'
    for number, (name, colour, points) in enumerate(lines):
        top = max((y for _, y in points), default=1) or 1
        path, before = [], None
        for x, y in points:
            at = left + scale(x) * 305
            if before is not None:
                path.append((at, before))
            before = bottom - y / top * 160
            path.append((at, before))
        if path:
            path.append((345, path[-1][1]))
        body += _line(path, colour)
        body += f'<text x="{left + 6}" y="{34 + 13 * number}" fill="{colour}">{name}</text>'
    return _svg(width, height, body)


def _progress_picture(name, progress):
    lines = []
    for key, colour in (("nodes", "#1b6ca8"), ("edges", "#c0392b"), ("max_id", "#27824a")):
        points = [(step["samples"], int(step[key])) for step in progress]
        last = f"{points[-1][1]:,}" if points[-1][1] < 10 ** 9 else f"{points[-1][1]:.1e}"
        lines.append((f"{key.replace('_', ' ')} (to {last})", colour, points))
    return _plot(f"{name}: progress of the encoding", lines, "samples")


def _cumulative(counts):
    total, sum_, points = sum(counts) or 1, 0, []
    for number, count in enumerate(counts):
        sum_ += count
        points.append((0 if number == 0 else 2 ** number - 1, 100 * sum_ / total))
        if sum_ == total:
            break
    return points


def _depth_picture(name, numbers):
    lines = [("stack, % of samples not deeper", "#1b6ca8", _cumulative(numbers["stack_depths"])),
             ("ccStack", "#c0392b", _cumulative(numbers["ccstack_depths"]))]
    return _plot(f"{name}: depth", lines, "(powers of two)", log_x=True)


def _file(name):
    return re.sub(r"\W+", "-", name).strip("-")


def _draw(folder, row):
    numbers = row["numbers"]
    os.makedirs(folder, exist_ok=True)
    for kind, svg in (("progress", _progress_picture(row["name"], numbers["progress"]) if numbers["progress"] else None),
                      ("depth", _depth_picture(row["name"], numbers) if sum(numbers["stack_depths"]) else None)):
        if svg:
            with open(os.path.join(folder, f"encode-{kind}-{_file(row['name'])}.svg"), "w", encoding="utf-8") as file:
                file.write(svg)


# ---- the table

def measure(place, options, say):
    by_name = _programs(place)
    folder = place.at(PICTURES) if options.quick or options.programs else os.path.join(place.source, PICTURES)
    wanted = lambda name: not options.programs or name.split()[0] in options.programs
    rows, verified = [], []
    for name in NAMES:
        if name not in by_name or not wanted(name):
            continue
        times, same, told = _rounds(place, options.rounds, by_name[name])
        row = {"name": name, "times": times, "same": same, "told": told, "numbers": _numbers(place, by_name[name]),
               "lengths": _lengths(place, options, name, by_name[name], times),
               "calls_per_s": None if options.quick else _calls_a_second(place, by_name[name], median(times["native"]))}
        rows.append(row)
        _draw(folder, row)
        say(f"  {name}: {_ratio(row):.3f}")
    for name, argv in _verified_programs(place, by_name):
        if wanted(name):
            verified.append(_verify(place, name, argv, 500 if options.quick else SAMPLES_BAR))
            say(f"  {name}: {verified[-1]['verified']} verified, {verified[-1]['mismatches']} mismatches")
    return {"rounds": options.rounds, "rows": rows, "verified": verified, "start": _start(place, options),
            "decoding": _decoding(place)}


def _ratio(row, column="encode"):
    return median([mine / native for mine, native in zip(row["times"][column], row["times"]["native"])])


def _mean(rows, column="encode", of=_ratio):
    return math.exp(sum(math.log(of(row, column)) for row in rows) / len(rows))


def _steady(row, column="encode"):
    """What the second and third time of the same work cost, as a ratio to native: without the start, and what is done once."""
    spent = [median(times["native"]) * _ratio({"times": times}, column) for times in row["lengths"]]
    native = [median(times["native"]) for times in row["lengths"]]
    return (spent[1] - spent[0]) / (native[1] - native[0])


def _alone(row, _column=None):
    """Numbers without the sampling: what they cost beyond walks at the same rate."""
    return 1 + _steady(row, "encode_asked") - _steady(row, "walk_asked")


def _asked(rows, column):
    """Older results do not have it."""
    return f"{_mean(rows, column):.3f}" if all(column in row["times"] for row in rows) else "–"


def _long(rows, of=_steady):
    """Older results do not have it."""
    return f"{_mean(rows, of=of):.3f}" if all("lengths" in row for row in rows) else "–"


def _percent(part):
    return "–" if part is None else f"{100 * part:.0f} %"


def _count(number):
    return "–" if number is None else f"{number:,.0f}"


def _id(text):
    return f"{int(text):,}" if int(text) < 10 ** 7 else f"{int(text):.1E}"


def _table_1(data):
    yield ("Table 1 of the paper: functions and edges met, the largest number, pushes on ccStack a second, average depth of the "
           "stack and of ccStack at a sample, encodings and what they cost together, calls a second (in a run that counts them).")
    yield ""
    yield "| program | nodes | edges | max id | ccStack/s | stack depth | ccStack depth | encodings | cost, µs | calls/s |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in data["rows"]:
        numbers = row["numbers"]
        yield (f"| {row['name']} | {numbers['nodes']:,} | {numbers['edges']:,} | {_id(numbers['max_id'])} | "
               f"{numbers['ccstack_per_s']:,.0f} | {numbers['stack_depth_avg']:.1f} | {numbers['ccstack_depth_avg']:.2f} | "
               f"{numbers['reencodings']} | {numbers['reencode_us']:,} | {_count(row['calls_per_s'])} |")
    for name, nodes, edges, most, pushes, depth, stamps, cost, calls in PAPER:
        yield (f"| *paper: {name}* | {nodes:,} | {edges:,} | {most} | {pushes:,} | | {depth:.2f} | {stamps} | {cost:,} | "
               f"{calls:,} |")


def render(data):
    yield "## Contexts as numbers"
    yield ""
    yield (f"CPU time with `--track encode` as a ratio to native, medians of {data['rounds']} rounds in which all columns run at once, taking turns on one processor. *Not asked*: without "
           "sampling (one sample a second, which is walked). Functions have their calls followed once contexts are asked for often; so that is what a program pays for being ready to be asked, "
           "and next to nothing of it is encoded. *Asked*: at 1 kHz, by walks and by numbers, sampling included; there all that is hot is encoded, and *told* is the part of the samples that numbers told. "
           f"*Steady*: the same of what a run of {TIMES} times the work takes more than a short one, so without the start and what is done once. *Numbers alone*: what numbers cost steadily beyond walks at the same rate, "
           "that is, calls and returns that keep the number. The paper has 2 % on average for this, without sampling, all functions encoded, of programs that run for minutes.")
    yield ""
    yield "| program | native | ± | not asked | … steady | asked, by walks | asked, by numbers | told | numbers alone, steady |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for row in data["rows"]:
        native = row["times"]["native"]
        yield (f"| {row['name']} | {median(native):.2f} s | {spread(native) * 100:.1f} % | {_ratio(row):.3f}"
               f"{'' if row['same'] else ' ✗'} | {_long([row])} | {_asked([row], 'walk_asked')} | {_asked([row], 'encode_asked')} | "
               f"{_percent(row.get('told'))} | {_long([row], _alone)} |")
    if data["rows"]:
        yield (f"| mean | | | {_mean(data['rows']):.3f} | {_long(data['rows'])} | {_asked(data['rows'], 'walk_asked')} | "
               f"{_asked(data['rows'], 'encode_asked')} | | {_long(data['rows'], _alone)} |")
    yield ""
    yield from _table_1(data)
    yield ""
    yield "Starting and ending, CPU time:"
    yield ""
    yield "| program | native | by walks | by numbers | sites |"
    yield "|---|---:|---:|---:|---:|"
    for row in data["start"]:
        yield (f"| {row['name']} | {1000 * row['native']:.1f} ms | {1000 * row['walk']:.1f} ms | {1000 * row['encode']:.1f} ms | "
               f"{row['sites']:,} |")
    yield ""
    yield "Finding the sites of functions and patching them, in the runs of Table 1, where all that is asked for is encoded:"
    yield ""
    yield "| program | sites | CPU time | µs a site |"
    yield "|---|---:|---:|---:|"
    for row in data["rows"]:
        numbers = row["numbers"]
        if "look_us" in numbers:
            yield (f"| {row['name']} | {numbers['sites_patched']:,} | {numbers['look_us'] / 1000:.1f} ms | "
                   f"{numbers['look_us'] / max(numbers['sites_patched'], 1):.1f} |")
    if data["decoding"]:
        yield ""
        yield f"Decoding, over graphs of up to 20,000 functions: {min(data['decoding']):.1f} million contexts a second at least."
    yield ""
    yield "Numbers compared with walks (`--verify`, 5 kHz; a number that was not believed is walked, and not compared):"
    yield ""
    yield "| program | samples | told by numbers | compared | mismatches | output |"
    yield "|---|---:|---:|---:|---:|---|"
    for row in data["verified"]:
        yield (f"| {row['name']} | {row['samples']:,} | {100 * row['told'] / max(row['samples'], 1):.0f} % | {row['verified']:,} | "
               f"{row['mismatches']} | {'same' if row['same'] else '**differs**'} |")
    yield ""
    yield "Figures 9 (progress) and 10 (depth of the stack and of ccStack, cumulative):"
    yield ""
    for row in data["rows"]:
        if row["numbers"]["progress"]:
            yield f"![progress of {row['name']}]({PICTURES}/encode-progress-{_file(row['name'])}.svg)"
        if sum(row["numbers"]["stack_depths"]):
            yield f"![depth of {row['name']}]({PICTURES}/encode-depth-{_file(row['name'])}.svg)"


def bars(data):
    if data["rows"]:
        worst = max(data["rows"], key=_ratio)
        yield "contexts as numbers: 2 % on average without sampling", _mean(data["rows"]) <= MEAN_BAR, f"{_mean(data['rows']):.3f}, nothing being encoded unasked"
        yield "… 10 % at worst", _ratio(worst) <= WORST_BAR, f"{worst['name']} {_ratio(worst):.3f}"
        if all("lengths" in row for row in data["rows"]):
            alone, worst = _mean(data["rows"], of=_alone), max(data["rows"], key=_alone)
            yield "… 2 % on average where all that is hot is encoded, steadily", alone <= MEAN_BAR, f"{alone:.3f}"
            yield "… 10 % at worst there", _alone(worst) <= WORST_BAR, f"{worst['name']} {_alone(worst):.3f}"
    if data["decoding"]:
        yield "a million contexts decoded a second", min(data["decoding"]) * 1e6 >= DECODE_BAR, f"{min(data['decoding']):.1f} million"
    if data["verified"]:
        wrong = sum(row["mismatches"] for row in data["verified"])
        few = min(row["verified"] for row in data["verified"])
        yield (f"no number that a walk contradicts, in {len(data['verified'])} programs", wrong == 0 and few >= SAMPLES_BAR,
               f"{wrong}, of {few:,} compared in each at least")
        yield "their outputs are the same", all(row["same"] for row in data["verified"]), ""
