# SPDX-License-Identifier: MIT
"""The encode table for the reader: the DACCE paper's Figure 8, Table 1, Figures 9 and 10, and what else is promised."""

import statistics

from . import encode_contexts, encode_figures as figures, encode_pictures
from .encode_measure import REASONS
from .measure import median

# Table 1 of the paper: PCCE's nodes, edges, max id, ccStack/s, depth of ccStack; DACCE's; encodings, their cost in µs, calls/s.
PAPER = {
    "400.perlbench": (1468, 21065, "overflow", 4969345, 0.20, 684, 3911, "1.4E+11", 3095100, 0.20, 23, 1747514, 29205101),
    "401.bzip2": (122, 321, "833", 0, 0.00, 50, 109, "61", 38753, 0.05, 5, 3475, 7687097),
    "403.gcc": (3944, 50690, "overflow", 0, 2.94, 1931, 11518, "7.0E+13", 315406, 0.00, 110, 2866850, 14710894),
    "445.gobmk": (2273, 13687, "3.4E+15", 246782, 2.42, 1378, 4808, "2.4E+11", 250321, 2.47, 76, 1732161, 13355556),
    "456.hmmer": (249, 1618, "56401", 3082, 0.00, 70, 174, "42", 481, 0.02, 2, 1420, 1872530),
    "464.h264ref": (398, 2698, "1.8E+07", 424979, 0.00, 201, 1048, "34293", 5310, 0.00, 10, 84556, 7080183),
    "483.xalancbmk": (12535, 40392, "3.8E+14", 4375862, 6.91, 2170, 7321, "1422838", 596197, 6.01, 27, 3551342, 25341805),
    "435.gromacs": (619, 2919, "351721", 0, 0.00, 154, 402, "1553", 5132, 0.01, 8, 4742, 919287),
    "453.povray": (1644, 12056, "8.7E+16", 270387, 0.84, 548, 2201, "548645", 69109, 0.76, 6, 113456, 34335309),
    "vips": (5395, 25302, "7.7E+11", 0, 0.00, 482, 1555, "26117", 3865, 0.00, 5, 3271, 855060),
}
NOT_KNOWN = "–"
SHARES = ("plain", "added", "indirect", "no number")


def _percent(share, digits=0):
    return NOT_KNOWN if share is None else f"{100 * share:.{digits}f} %"


def _count(number):
    return NOT_KNOWN if number is None else f"{number:,.0f}"


def _real(number, digits=2):
    return NOT_KNOWN if number is None else f"{number:.{digits}f}"


def _id(text):
    return f"{int(text):,}" if int(text) < 10 ** 7 else f"{int(text):.1E}"


def _with(data, part, rows="rows"):
    return [row for row in data.get(rows, []) if row.get(part)]


def _table(head, rows, left=1):
    """Lines of a table; the first columns are texts, the others numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * left + "---:|" * (len(head) - left)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _figure_8(data):
    yield (f"**Figure 8**: CPU time with `--track encode` and without sampling, as a ratio to native; medians of {data['rounds']} rounds, native and encoded at "
           "once, taking turns. *First*: a run of about a second, start included. *Steady*: what a run of some ten seconds more takes, compared with the "
           "same of native runs. Calls are counted in a run that follows them all. *Plain* calls run as they were compiled (number 0, leaf functions, "
           "code that takes no part), *added* ones have a number other than 0, *indirect* ones a number that is found by the target; calls of *no number* push, or are not followed: all by the "
           "last numbering of a run in which contexts are asked for now and then. *Pushed* calls are counted in the steady state. The paper has 1.02 on average for DACCE and 1.025 for PCCE, without numbers for each program.")
    yield ""
    rows = _with(data, "steady")
    cells = [[row["name"] + ("" if not figures.faults(row) else " ✗"), str(row["threads"]),
              f"{figures.native_seconds(row):.1f} s", f"{figures.extra(row, 'short'):.3f}",
              f"{figures.ratio(row):.3f}", _count(figures.calls_per_second(row)), _real(figures.ns_per_call(row)),
              *(_percent(figures.share_of_calls(row, kind), 1) for kind in SHARES), _percent(figures.pushed_share(row), 1)] for row in rows]
    if rows:
        average, middle, _ = figures.summary(rows)
        cells.append(["average", "", "", "", f"{average:.3f}", *[""] * 7])
        cells.append(["median", "", "", "", f"{middle:.3f}", *[""] * 7])
    yield from _table(["program", "threads", "native", "first", "steady", "calls/s", "ns a call", *SHARES, "pushed"], cells)
    beside = [row for row in rows if row.get("paper") in PAPER and figures.calls_per_second(row)]
    if beside:
        ours = statistics.mean(figures.calls_per_second(row) for row in beside)
        theirs = statistics.mean(PAPER[row["paper"]][-1] for row in beside)
        yield ""
        yield (f"The overhead is what a call costs times how often the program calls. Those that the paper has, too, call {ours / 1e6:,.0f} million times a second "
               f"here on average, and {theirs / 1e6:,.0f} million times there, where 2 % are {0.02 / theirs * 1e9:.1f} ns a call. The median here is "
               f"{statistics.median(figures.ns_per_call(row) for row in beside):.1f} ns.")


def _table_1(data):
    yield ("**Table 1**: functions and edges, the largest number, pushes a second, average depth of ccStack; encodings, what they cost together, and "
           "calls a second. *PCCE* numbers the complete graph, known beforehand from a run that follows all calls (the paper's: from the program's text). "
           "Depths are those at samples, of 4 kHz. Rows of the paper's programs are in italics.")
    yield ""
    head = ["program", "PCCE: nodes", "edges", "max id", "ccStack/s", "depth", "DACCE: nodes", "edges", "max id", "ccStack/s", "depth",
            "encodings", "cost, µs", "calls/s"]
    cells = []
    for row in _with(data, "steady"):
        numbers, graph, depth = row["steady"]["encode"], (row.get("calls") or {}).get("pcce"), (row.get("verify") or {}).get("encode", {})
        rate = figures.calls_per_second(row)
        before = [f"{graph['nodes']:,}", f"{graph['edges']:,}", _id(graph["max_id"]), _count(graph["pushed"] * (rate or 0)),
                  f"{graph['ccstack_depth']:.2f}"] if graph else [NOT_KNOWN] * 5
        cells.append([row["name"], *before, f"{numbers['nodes']:,}", f"{numbers['edges']:,}", _id(numbers["max_id"]),
                      _count(figures.steady_pushes(row)), _real(depth.get("ccstack_depth_avg")), _count(numbers.get("reencodings")),
                      _count(numbers.get("reencode_us")), _count(rate)])
        if row.get("paper") in PAPER:
            cells.append([f"*{row['paper']}*", *(text if isinstance(text, str) else f"{text:,}" if isinstance(text, int) else f"{text:.2f}"
                                                 for text in PAPER[row["paper"]])])
    yield from _table(head, cells)


def _pushes(data):
    yield ("**Pushes that are left** after the first second, a second: of recursion, of numbers that would overflow, of indirect calls whose target has no "
           "arm (armless), and others: of edges that are new.")
    yield ""
    yield from _table(["program", "all", *REASONS, "others", "with the complete graph"],
                      [[row["name"], _count(figures.steady_pushes(row)), *(_count(figures.steady_pushes(row, reason)) for reason in REASONS),
                        _count(figures.other_pushes(row)),
                        _count(row["calls"]["pcce"]["pushed"] * figures.calls_per_second(row) if row.get("calls") else None)]
                       for row in _with(data, "steady") + _with(data, "steady", "small")])


def _small(data):
    yield ("**Programs that do little but call** (`bench/programs`), in the steady state: nanoseconds a call beyond native, and pushes a second after "
           "the first second. Recursion has to push, unless it repeats.")
    yield ""
    yield from _table(["program", "recursive", "native ns a call", "steady", "calls/s", "ns a call beyond", "pushes/s"],
                      [[row["name"], "yes" if row["recursive"] else "no", _real(1e9 / figures.calls_per_second(row) if row.get("calls") else None),
                        f"{figures.ratio(row):.3f}", _count(figures.calls_per_second(row)), _real(figures.ns_per_call(row)),
                        _count(figures.steady_pushes(row))] for row in _with(data, "steady", "small")], left=2)


def _verified(data):
    yield ("**Numbers beside walks** (`--verify`, 4 kHz). *Direct*: the number told the context of the sample; *from leaf*: after climbing out of leaf "
           "functions, which have no number; *climbed*: after climbing otherwise. *Undecoded*: no number was met that decodes.")
    yield ""
    rows = _with(data, "verify")
    part = lambda found, key: None if found[key] is None else found[key] / max(found["samples"], 1)
    yield from _table(["program", "samples", "told by numbers", "direct", "from leaf", "climbed", "compared", "mismatches", "undecoded"],
                      [[row["name"], f"{found['samples']:,}", _percent(found["told"] / max(found["samples"], 1), 1),
                        *(_percent(part(found, key), 1) for key in ("samples_direct", "samples_from_leaf", "samples_climbed")),
                        f"{found['verified']:,}", str(found["mismatches"]), str(found["undecoded"])]
                       for row in rows for found in [row["verify"]]])


def _allocations(data):
    yield (f"**Every allocation**, by numbers (`-e alloc --track encode`) and by remembered walks (`-e alloc`): CPU time beyond native, medians of "
           f"{data['rounds']} rounds, all three at once. Programs of less than a million blocks a second are not judged.")
    yield ""
    yield from _table(["program", "native", "blocks/s", "by walks", "by numbers", "numbers : walks"],
                      [[row["name"], f"{median(row['alloc']['times']['native']):.2f} s", _count(figures.alloc_rate(row)),
                        f"+{figures.alloc_extra(row, 'walk'):.2f} s", f"+{figures.alloc_extra(row, 'encode'):.2f} s",
                        _real(figures.alloc_extra(row, "encode") / max(figures.alloc_extra(row, "walk"), 1e-9))]
                       for row in _with(data, "alloc", "allocating")])


def _starting(data):
    yield "**Starting and ending**, CPU time; and **call sites** that were found and patched, in the runs of Figure 8:"
    yield ""
    yield from _table(["program", "native", "by walks", "by numbers", "sites"],
                      [[row["name"], *(f"{1000 * row[key]:.1f} ms" for key in ("native", "walk", "encode")), _count(row["sites"])]
                       for row in data["start"]])
    yield ""
    yield from _table(["program", "sites", "CPU time", "µs a site"],
                      [[row["name"], _count(numbers.get("sites_patched")), _real((numbers.get("look_us") or 0) / 1000, 1) + " ms",
                        _real(figures.us_per_site(row))] for row in _with(data, "steady") for numbers in [row["steady"]["encode"]]])


def _pictures(data):
    yield "**Figures 9** (progress of the encoding) and **10** (depth of the stack and of ccStack, cumulative), at 4 kHz:"
    yield ""
    for row in _with(data, "verify"):
        yield from encode_pictures.links(row["name"], row["verify"]["encode"])


def render(data):
    yield "## Contexts as numbers"
    if data.get("remark"):
        yield ""
        yield data["remark"]
    missing = data.get("missing")
    faults = [(row["name"], fault) for row in data.get("rows", []) + data.get("small", []) + data.get("allocating", [])
              for fault in figures.faults(row)]
    parts = [(_with(data, "steady"), _figure_8), (_with(data, "steady"), _table_1), (_with(data, "verify"), _pictures),
             (_with(data, "steady", "small"), _small), (_with(data, "steady"), _pushes), (_with(data, "verify"), _verified), (_with(data, "alloc", "allocating"), _allocations),
             (data.get("start"), _starting)]
    for known, part in parts:
        if known:
            yield ""
            yield from part(data)
    if data.get("contexts"):
        yield ""
        yield from encode_contexts.render(data["contexts"])
    if missing:
        yield ""
        yield f"Not installed: {', '.join(missing)}."
    if faults:
        yield ""
        yield "What went wrong (✗):"
        yield ""
        for name, fault in faults:
            yield f"- {name}: {' '.join(fault.split())}"
