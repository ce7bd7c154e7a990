# SPDX-License-Identifier: MIT
"""What `cairn export` writes is read by the tools that it is for, and they see what cairn sees: all costs agree
to the unit."""

import csv
import json
import os
import re
import shutil
import subprocess
import unittest
from collections import Counter, defaultdict

from foreign import FirefoxProfiler, Otlp, Pprof, package, read_with_speedscope
from support import CAIRN, LiveTest, Run, installed, program

PERL = ("sub f { my $n = shift; return $n < 2 ? 1 : f($n - 1) + f($n - 2) } my %h;"
        "$h{$_ % 977} .= 'x' for 1 .. 150000; print f(20), scalar(sort { $a <=> $b } map { rand } 1 .. 20000)")
SQL = ("create table t(a, b); insert into t select value, value * 7 from generate_series(1, 500);"
       "select sum(a * b) from t where a in (select b from t);")


class Truth:
    """What `cairn report --json` says: cost by the name of a function, alone and with all below it."""

    def __init__(self, path, *options):
        report = json.loads(Run([CAIRN, "report", "--json", "--min", "0", *options, path]).out)
        self.metrics = [metric["name"] for metric in report["metrics"]]
        self.units = [metric["unit"] for metric in report["metrics"]]
        self.own = [Counter() for _ in self.metrics]
        self.inclusive = [Counter() for _ in self.metrics]
        self.calls = Counter()
        self.modules, self.total, above = defaultdict(set), None, {}
        for node in report["nodes"]:
            names = above.get(node["parent"], frozenset())
            if node["parent"] is None:
                self.total = node["total"]
            else:
                for i, value in enumerate(node["self"]):
                    self.own[i][node["function"]] += value
                    if node["function"] not in names:
                        self.inclusive[i][node["function"]] += node["total"][i]
                self.modules[node["function"]].add(node["module"])
                self.calls[node["function"]] += node["calls"] or 0
                names |= {node["function"]}
            above[node["id"]] = names


def positive(counter):
    return {name: value for name, value in counter.items() if value}


class Formats(LiveTest):
    """Recordings of real programs, in each format."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.paths, cls.truths, cls.made = {}, {}, case
        script = case.file("work.pl", PERL)
        for name, options, command in (
                ("walk", ("-F", "1000"), ["perl", script]),
                ("alloc", ("-e", "cpu", "-e", "alloc", "-F", "1000"), ["sh", "-c", f"perl {script}; perl -e 'print 1'"]),
                ("calls", ("--track", "calls"), ["sqlite3", ":memory:", SQL]),
                ("threads", ("-F", "1000", "--timeline"), [program("named_threads"), "pool"])):
            run, profile = case.record(command, *options)
            case.assertEqual(run.status, 0, run.words)
            cls.paths[name] = profile.path
            cls.truths[name] = Truth(profile.path)

    def export(self, name, format, *options):
        """The path of an export."""
        path = self.file(f"{name}.{format}")
        run = Run([CAIRN, "export", "-f", format, "-o", path, *options, self.paths.get(name, name)])
        self.assertEqual((run.status, run.words), (0, ""))
        return path

    def test_pprof_costs_and_references(self):
        for name, truth in self.truths.items():
            with open(self.export(name, "pprof"), "rb") as file:
                pprof = Pprof(file.read())
            self.assertEqual([metric for metric, _ in pprof.types], truth.metrics)
            self.assertEqual(pprof.default, truth.metrics[0])
            own = [Counter() for _ in truth.metrics]
            for stack, values, _ in pprof.samples:
                for i, value in enumerate(values):
                    own[i][stack[0][2][0][0]] += value
            for i, metric in enumerate(truth.metrics):
                self.assertEqual(positive(own[i]), positive(truth.own[i]), metric)
            self.assertGreater(pprof.duration, 0)
            self.assertGreater(pprof.time, 0)

    def test_pprof_modules_and_lines(self):
        with open(self.export("threads", "pprof"), "rb") as file:
            pprof = Pprof(file.read())
        files = dict(pprof.mappings)
        self.assertIn(program("named_threads"), files)
        self.assertRegex(files[program("named_threads")], "^[0-9a-f]{40}$")
        lines = [line for stack, _, _ in pprof.samples for mapping, offset, lines in stack
                 if mapping == program("named_threads") and offset for line in lines]
        self.assertTrue(any(file.endswith("named_threads.c") and line for _, file, line in lines))

    def test_pprof_labels(self):
        with open(self.export("threads", "pprof"), "rb") as file:
            pprof = Pprof(file.read())
        report = json.loads(Run([CAIRN, "report", "--json", "--min", "0", "--per-thread=tid", self.paths["threads"]]).out)
        threads = {node["function"]: node["total"][0] for node in report["nodes"] if node["kind"] == "thread"}
        seen = Counter()
        for _, values, labels in pprof.samples:
            seen[f'{labels["thread"]} [{labels["tid"]}]'] += values[0]
        self.assertEqual(dict(seen), positive(Counter(threads)))
        with open(self.export("alloc", "pprof"), "rb") as file:
            pprof = Pprof(file.read())
        self.assertEqual(len({labels["pid"] for _, _, labels in pprof.samples}), 3)
        self.assertIn("sh", " ".join(labels["process"] for _, _, labels in pprof.samples))

    def test_pprof_of_one_metric(self):
        with open(self.export("alloc", "pprof", "--metric", "freed"), "rb") as file:
            pprof = Pprof(file.read())
        truth = self.truths["alloc"]
        self.assertEqual(pprof.types, [("freed", "bytes")])
        self.assertEqual(pprof.total(0), truth.total[truth.metrics.index("freed")])

    @installed("go")
    def test_go_tool_pprof(self):
        for name, truth in self.truths.items():
            path = self.export(name, "pprof")
            for i, (metric, unit) in enumerate(zip(truth.metrics, truth.units)):
                if not truth.total[i] or i > 1:
                    continue
                unit = {"calls": "count"}.get(unit, unit)
                done = Run(["go", "tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", "-symbolize=none",
                            f"-sample_index={metric}", f"-unit={unit}", path],
                           env=dict(os.environ, HOME=self.folder, PPROF_TMPDIR=self.folder))
                self.assertEqual(done.status, 0, done.words)
                rows = done.text.split("cum%\n", 1)[1].splitlines()
                own, inclusive = Counter(), Counter()
                for row in rows:
                    flat, _, _, cumulative, _, function = row.split(None, 5)
                    function = function.removesuffix(" (inline)").removesuffix(" (partial-inline)")
                    own[function] += int(re.match("[0-9]+", flat)[0])
                    inclusive[function] += int(re.match("[0-9]+", cumulative)[0])
                self.assertEqual(positive(own), positive(truth.own[i]), metric)
                self.assertEqual(positive(inclusive), positive(truth.inclusive[i]), metric)

    @installed("protoc")
    def test_pprof_in_protoc(self):
        with open(self.export("alloc", "pprof"), "rb") as file:
            decoded = Run(["sh", "-c", "gzip -d | protoc --decode_raw"], stdin=file.read())
        self.assertEqual(decoded.status, 0, decoded.words)
        self.assertIn('6: "alloc"', decoded.text)

    @staticmethod
    def functions_of_several_files(path):
        names, function, several = {}, None, set()
        with open(path, encoding="utf-8") as file:
            for line in file:
                matched = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line)
                if matched:
                    names[matched[2]] = names.get(matched[2]) or matched[3].rsplit(":", 1)[-1]
                    function = names[matched[2]] if matched[1] == "fn" else function
                elif line.startswith("fi="):
                    several.add(function)
        return several

    @installed("callgrind_annotate")
    def test_callgrind_annotate(self):
        for name, truth in self.truths.items():
            path = self.export(name, "callgrind")
            for inclusive, costs in (("no", truth.own), ("yes", truth.inclusive)):
                done = Run(["callgrind_annotate", "--auto=no", "--threshold=100", "--show-percs=no",
                            f"--inclusive={inclusive}", path])
                self.assertEqual((done.status, done.words), (0, ""))
                head, _, rows = done.text.partition("file:function\n")
                totals = re.search(r"^([0-9., ]+)  ?PROGRAM TOTALS", head, re.M)[1]
                self.assertEqual([int(number.replace(",", "")) for number in totals.split()], truth.total)
                found = [Counter() for _ in truth.metrics]
                for row in rows.splitlines()[1:]:
                    matched = re.match(r"((?: *[0-9.][0-9,]*)+)  (.*?)(?: \[.*\])?$", row)
                    for i, number in enumerate(matched[1].split() if matched else ()):
                        found[i][matched[2].rsplit(":", 1)[-1]] += int(number.replace(",", "").replace(".", "0"))
                # Names of C++ have colons, too: both are cut alike.
                expected = Counter()
                for function, cost in costs[0].items():
                    expected[function.rsplit(":", 1)[-1]] += cost
                # To this tool, functions of one name in two modules are one function, and one with lines of
                # several files is several.
                left_out = self.functions_of_several_files(path) | {
                    function for function, modules in truth.modules.items() if len(modules) > 1}
                for function in left_out if inclusive == "yes" else ():
                    del found[0][function], expected[function]
                self.assertEqual(positive(found[0]), positive(expected), inclusive)

    def test_callgrind_counts_calls(self):
        truth, calls = self.truths["calls"], Counter()
        with open(self.export("calls", "callgrind"), encoding="utf-8") as file:
            names, callee = {}, None
            for line in file:
                matched = re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line)
                if matched and matched[2]:
                    names[matched[1]] = matched[2]
                if line.startswith("cfn="):
                    callee = names[matched[1]]
                elif line.startswith("calls="):
                    calls[callee] += int(line[6:].split()[0])
        self.assertGreater(len(calls), 100)
        for name, count in calls.items():
            # Where none was counted, the format has 1.
            self.assertIn(count - truth.calls[name], (0, 1, 2) if truth.calls[name] == 0 else (0,), name)

    @installed("node")
    def test_speedscope_importer(self):
        paths = [self.export(name, "speedscope") for name in self.paths]
        for (name, truth), profiles in zip(self.truths.items(), read_with_speedscope(*paths)):
            of_metric = {profile["name"]: profile for profile in profiles}
            for i, metric in enumerate(truth.metrics):
                if not truth.total[i]:
                    continue
                self.assertEqual(of_metric[metric]["total"], truth.total[i])
                self.assertEqual({function: found["self"] for function, found in of_metric[metric]["functions"].items()
                                  if found["self"]}, positive(truth.own[i]), (name, metric))

    @installed("node")
    def test_speedscope_importers_of_other_formats(self):
        """speedscope reads pprof and callgrind, too."""
        truth = self.truths["walk"]
        for profiles in read_with_speedscope(*(self.export("walk", format) for format in ("pprof", "folded"))):
            self.assertEqual(profiles[0]["total"], truth.total[0])

    def test_speedscope_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no python3-jsonschema")
        with open(os.path.join(package("speedscope"), "dist", "release", "file-format-schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        for name in ("walk", "threads"):
            with open(self.export(name, "speedscope", "--per-thread"), encoding="utf-8") as file:
                jsonschema.validate(json.load(file), schema)

    def test_speedscope_threads_are_profiles(self):
        with open(self.export("threads", "speedscope", "--per-thread=tid"), encoding="utf-8") as file:
            profiles = json.load(file)["profiles"]
        report = json.loads(Run([CAIRN, "report", "--json", "--min", "0", "--per-thread=tid", self.paths["threads"]]).out)
        self.assertEqual({profile["name"]: profile["endValue"] for profile in profiles},
                         {node["function"] + ": cpu": node["total"][0] for node in report["nodes"]
                          if node["kind"] == "thread" and node["total"][0]})

    def test_firefox_tables(self):
        for name, truth in self.truths.items():
            with open(self.export(name, "firefox"), encoding="utf-8") as file:
                profile = json.load(file)
            own = Counter()
            for thread in profile["threads"]:
                for table in ("samples", "stackTable", "frameTable", "funcTable", "resourceTable"):
                    for column in thread[table].values():
                        self.assertIn(len(column) if isinstance(column, list) else thread[table]["length"],
                                      (thread[table]["length"],))
                stacks, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
                # Callers stand before what they call.
                self.assertTrue(all(prefix is None or prefix < i for i, prefix in enumerate(stacks["prefix"])))
                for stack, weight in zip(thread["samples"]["stack"], thread["samples"]["weight"]):
                    function = functions["name"][frames["func"][stacks["frame"][stack]]]
                    own[thread["stringArray"][function]] += round(weight * 1e6) if truth.units[0] == "ns" else weight
            self.assertEqual(own, positive(truth.own[0]))

    @installed("node")
    def test_firefox_profiler(self):
        truth, own = self.truths["threads"], Counter()
        firefox = FirefoxProfiler(self, self.export("threads", "firefox"))
        threads = firefox.ask("thread", "list")["threads"]
        report = json.loads(Run([CAIRN, "report", "--json", "--min", "0", "--per-thread=tid", self.paths["threads"]]).out)
        names = {node["function"].rsplit(" [", 1)[0] for node in report["nodes"] if node["kind"] == "thread" and node["total"][0]}
        self.assertLessEqual({thread["name"] for thread in threads} - {"start-up and exit"}, names)
        for thread in threads:
            for function in firefox.ask("thread", "functions", "--limit", "0", "--thread", thread["threadHandle"])["functions"]:
                own[function["name"]] += round(function["selfSamples"] * 1e6)
        self.assertEqual(+own, positive(truth.own[0]))

    def test_chrome_slices(self):
        truth, tracks, names = self.truths["threads"], defaultdict(list), {}
        with open(self.export("threads", "chrome"), encoding="utf-8") as file:
            for event in json.load(file)["traceEvents"]:
                if event["ph"] == "X":
                    begin = round(event["ts"] * 1000)
                    tracks[event["tid"]].append((begin, -begin - round(event["dur"] * 1000), event["name"]))
                elif event["name"] == "thread_name":
                    names[event["tid"]] = event["args"]["name"]
        self.assertEqual(set(names), set(tracks))
        self.assertLessEqual({name for slices in tracks.values() for _, _, name in slices}, set(truth.inclusive[0]))
        for slices in tracks.values():
            around = []
            for begin, end, name in sorted(slices):
                while around and around[-1] <= begin:
                    around.pop()
                # Within the slice that it begins in.
                self.assertLessEqual(-end, min(around, default=-end), name)
                around.append(-end)
        # All that the threads did lies below the functions that threads begin in.
        whole = sum(-end - begin for slices in tracks.values() for begin, end, name in slices if name in ("clone3", "_start"))
        self.assertGreater(whole, 0.8 * truth.inclusive[0]["clone3"])
        run = Run([CAIRN, "export", "-f", "chrome", self.paths["walk"]])
        self.assertEqual((run.status, run.words.count("--timeline")), (2, 1))

    def test_otlp_costs_and_references(self):
        for name, truth in self.truths.items():
            with open(self.export(name, "otlp"), "rb") as file:
                otlp = Otlp(file.read())
            own = {metric: Counter() for metric in truth.metrics}
            for metric, _, stack, value, attributes, _ in otlp.samples:
                own[metric][stack[0]] += value
                self.assertIn("thread.id", attributes)
            for i, metric in enumerate(truth.metrics):
                self.assertEqual(positive(own[metric]), positive(truth.own[i]), metric)
        processes = {resource["process.pid"] for *_, resource in otlp.samples}
        self.assertEqual(len(processes), 1)

    @installed("protoc")
    def test_otlp_in_protoc(self):
        """Decoded by its schema: the same totals, and no field that the schema does not have."""
        here = os.path.dirname(os.path.abspath(__file__))
        for name, truth in self.truths.items():
            with open(self.export(name, "otlp"), "rb") as file:
                decoded = Run(["protoc", "-I", here, "--decode=otlp.ProfilesData", "otlp.proto"], stdin=file.read())
            self.assertEqual((decoded.status, decoded.words), (0, ""))
            self.assertNotRegex(decoded.text, r"(?m)^ *[0-9]+[:{ ]")
            strings = re.findall(r'(?m)^  string_table: "(.*)"$', decoded.text)
            totals = Counter()
            for profile in re.split(r"(?m)^    profiles \{$", decoded.text)[1:]:
                metric = re.search(r"sample_type \{\s*type_strindex: (\d+)", profile)[1]
                totals[strings[int(metric)]] += sum(map(int, re.findall(r"(?m)^ +values: (\d+)$", profile)))
            self.assertEqual(positive(totals), positive(dict(zip(truth.metrics, truth.total))))

    def test_cairn_keeps_all_and_names(self):
        """The same report, also when nothing can be asked for names any more."""
        for name, truth in self.truths.items():
            path = self.export(name, "cairn")
            kept, recorded = (json.loads(Run([CAIRN, "report", "--json", "--min", "0", one]).text) for one in (path, self.paths[name]))
            # Nobody looks into the modules again, and finds that debug information is missing.
            self.assertLessEqual(set(kept.pop("notes")), set(recorded.pop("notes")))
            self.assertEqual(kept, recorded)
            again = self.export(path, "cairn", "--no-debuginfod")
            with open(path, "rb") as first, open(again, "rb") as second:
                self.assertEqual(first.read(), second.read())
        self.assertIn("main thread", Run([CAIRN, "report", "--view", "timeline", self.export("threads", "cairn")]).text)
        for options in (("--metric", "cpu"), ("--kernel", "no"), ("--per-thread",), ("--no-inlines",), ("--from", "10%")):
            run = Run([CAIRN, "export", "-f", "cairn", "-o", self.file("x"), *options, self.paths["walk"]])
            self.assertEqual((run.status, run.words.count("keeps all of a profile")), (2, 1))

    @installed("gcc")
    def test_cairn_outlasts_the_program(self):
        source, binary = self.file("app.c"), self.file("app")

        def build(rounds):
            self.file("app.c", "volatile unsigned long sink;\n__attribute__((noipa)) void work(void) { sink++; }\n"
                      f"int main(void) {{ for (int i = 0; i < {rounds}; i++) work(); return 0; }}\n")
            subprocess.run(["gcc", "-g", "-O1", "-o", binary, source], check=True)
            path = self.file(f"app-{rounds}.out")
            self.assertEqual(Run([CAIRN, "record", "-q", "--track", "calls", "-o", path, binary]).status, 0)
            return path

        old = build(10)
        kept = self.export(old, "cairn")
        report = Run([CAIRN, "report", "--json", "--min", "0", old]).text
        new = build(30)
        self.assertNotIn('"work"', Run([CAIRN, "report", "--json", "--min", "0", old]).text)
        self.assertEqual(Run([CAIRN, "report", "--json", "--min", "0", kept]).text, report)
        rows = [row for row in json.loads(Run([CAIRN, "diff", "--json", kept, new]).text)["rows"] if row["significant"]]
        self.assertEqual([(row["function"], row["old"], row["new"]) for row in rows], [("work", 10, 30)])

    def test_csv(self):
        for name, truth in self.truths.items():
            report = json.loads(Run([CAIRN, "report", "--json", "--min", "0", self.paths[name]]).out)
            with open(self.export(name, "csv"), newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, strict=True))
            self.assertEqual(len(rows), len(report["nodes"]))
            for row, node in zip(rows, report["nodes"]):
                for column in ("id", "parent", "kind", "function", "module", "file", "line", "call_line"):
                    self.assertEqual(row[column], "" if node[column] is None else str(node[column]))
                for i, (metric, unit) in enumerate(zip(truth.metrics, truth.units)):
                    self.assertEqual(int(row[f"self {metric} ({unit})"]), node["self"][i])
                    self.assertEqual(int(row[f"total {metric} ({unit})"]), node["total"][i])

    @installed("dot")
    def test_dot(self):
        for name, truth in self.truths.items():
            done = Run(["dot", "-Tjson0", self.export(name, "dot")])
            self.assertEqual((done.status, done.words), (0, ""))
            graph = json.loads(done.out)
            shown = Counter(node["tooltip"] for node in graph["objects"])
            expected = Counter({function: len(truth.modules[function]) for function, cost in truth.inclusive[0].items()
                                if cost >= 0.005 * truth.total[0]})
            self.assertEqual({function for function in shown if len(truth.modules[function]) == 1},
                             {function for function in expected if len(truth.modules[function]) == 1})
            self.assertIn("edges", graph)


if __name__ == "__main__":
    unittest.main()
