# SPDX-License-Identifier: MIT
"""`cairn import` makes profiles of other tools' files: what they hold comes through, all commands read the result,
and a damaged file is refused with a line that says where."""

import gzip
import json
import os
import unittest
from collections import Counter

from foreign import Pprof
from support import CAIRN, LiveTest, Run, installed, program

PERF = """# captured by hand

perl  4321/4321  [002]  1234.567890:     250000 cpu-clock:u:
\t    55d0c0ffee12 Perl_pp_add+0x12 (/usr/bin/perl)
  pp_hot.c:99
\t    55d0c0ffee34 S_inner+0x4 (inlined)
\t    55d0c0ffee34 main+0x34 (/usr/bin/perl)
\t    7f00c0ffee12 __libc_start_call_main+0x7a (/usr/lib/libc.so.6)

perl  4321/4321  [002]  1234.568140:     250000 cpu-clock:u:
\tffffffffb1a2c3d4 do_sys_poll+0x24 ([kernel.kallsyms])
\t    55d0c0ffee34 main+0x34 (/usr/bin/perl)

my worker 2  4321/4322  [001]  1234.569140:          1 sched:sched_switch: prev_comm=x
\t    7f0000000099 [unknown] ([unknown])
\t    7f0000000123 void std::f<int (*)(char)>(int)+0x1f (/tmp/a b/lib x.so)

swapper     0/0     [000]  1234.570000:     100 cycles:P:  ffffffff81000000 native_safe_halt+0xe ([kernel.kallsyms])
"""

SPEEDSCOPE = {
    "$schema": "https://www.speedscope.app/file-format-schema.json",
    "profiles": [
        {"type": "sampled", "name": "first", "unit": "milliseconds", "startValue": 0, "endValue": 3,
         "samples": [[0, 1], [0], []], "weights": [1.5, 1, 0.5]},
        {"type": "evented", "name": "second", "unit": "milliseconds", "startValue": 1, "endValue": 4,
         "events": [{"type": "O", "frame": 0, "at": 1}, {"type": "O", "frame": 1, "at": 2},
                    {"type": "C", "frame": 1, "at": 3.5}, {"type": "C", "frame": 0, "at": 4}]}],
    "shared": {"frames": [{"name": "outer \u00e9\U0001f600", "file": "x.js", "line": 3}, {"name": "<b>\"inner\"\\"}]}}

CALLGRIND = """# callgrind format
events: Ir Dr
positions: line

fl=(1) a.c
fn=(1) main
10 100 7
cfn=(2) f
calls=3 20
+2 300 30
cfn=(3) g
calls=1 30
* 50 5

fn=(2)
20 200 20
cfn=(3)
calls=6 30
21 100 10

fn=(3)
30 150 15

totals: 450 42
"""


def tree(path, *options, modules=True):
    """The metrics that have costs, and those of each path that has any: {names: values}."""
    report = json.loads(Run([CAIRN, "report", "--json", "--min", "0", "--no-sites", *options, path]).out)
    costs, paths = Counter(), {None: ()}
    for node in report["nodes"]:
        name = (node["function"], node["module"]) if modules else node["function"]
        paths[node["id"]] = paths[node["parent"]] + (() if node["parent"] is None else (name,))
        if node["parent"] is not None and any(node["self"]):
            costs[paths[node["id"]]] = tuple(node["self"])
    used = [at for at in range(len(report["metrics"])) if any(values[at] for values in costs.values())]
    return ([(report["metrics"][at]["name"], report["metrics"][at]["unit"]) for at in used],
            {path: tuple(values[at] for at in used) for path, values in costs.items()})


class Import(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        sql = "create table t(a); insert into t select value from generate_series(1, 200); select sum(a) from t;"
        cls.recorded = {}
        for name, options, command in (("threads", ("-F", "1000"), [program("named_threads"), "pool"]),
                                       ("alloc", ("-e", "cpu", "-e", "alloc"), ["sh", "-c", "perl -e '$x{$_}=1 for 1..9999'; true"]),
                                       ("calls", ("--track", "calls"), ["sqlite3", ":memory:", sql])):
            run, profile = case.record(command, *options)
            case.assertEqual(run.status, 0, run.words)
            cls.recorded[name] = profile.path

    def imported(self, content, *options):
        """The path of what becomes of a file."""
        path, made = self.file("foreign", content), self.file("made.cairn")
        run = Run([CAIRN, "import", "-q", "-o", made, *options, path])
        self.assertEqual((run.status, run.words), (0, ""))
        return made

    def export(self, name, format, *options):
        run = Run([CAIRN, "export", "-f", format, *options, self.recorded[name]])
        self.assertEqual((run.status, run.words), (0, ""))
        return run.out

    def test_pprof_and_back(self):
        """Paths, modules, metrics, threads, processes, lines and addresses: nothing is lost."""
        for name, path in self.recorded.items():
            made = self.imported(self.export(name, "pprof"))
            for options in ((), ("--per-thread=tid", "--per-process=pid"), ("--view", "flat", "--by", "line")):
                self.assertEqual(tree(made, *options), tree(path, *options))
            first, again = (Pprof(Run([CAIRN, "export", "-f", "pprof", file]).out) for file in (path, made))
            self.assertEqual(*(Counter(map(str, pprof.samples)) for pprof in (first, again)))
            self.assertEqual(*((sorted(pprof.mappings), pprof.time, pprof.duration, pprof.period) for pprof in (first, again)))

    def test_speedscope_and_back(self):
        for name, path in self.recorded.items():
            made = self.imported(self.export(name, "speedscope", "--per-thread"))
            metrics, costs = tree(made, modules=False)
            recorded_metrics, recorded = tree(path, modules=False)
            self.assertEqual([metric for metric, _ in metrics], [metric for metric, _ in recorded_metrics])
            self.assertEqual(costs, recorded)

    def test_folded_and_back(self):
        made = self.imported(self.export("threads", "folded"), "--metric", "cpu", "--unit", "ns")
        self.assertEqual(tree(made, modules=False), tree(self.recorded["threads"], modules=False))

    def test_callgrind_and_back(self):
        """It has no paths; but what each function costs itself is there, in each metric."""
        for name, path in self.recorded.items():
            made, sums = self.imported(self.export(name, "callgrind")), []
            for profile in (made, path):
                own = Counter()
                for names, values in tree(profile)[1].items():
                    for metric, value in enumerate(values):
                        own[names[-1], metric] += value
                sums.append(+own)
            self.assertEqual(*sums)

    def test_callgrind_paths(self):
        made = self.imported(CALLGRIND)
        metrics, costs = tree(made, modules=False)
        self.assertEqual(metrics, [("Ir", "count"), ("Dr", "count"), ("calls", "calls")])
        # g costs 150; 100 of 150 is called by f, which is called by main alone.
        self.assertEqual(costs, {("main",): (100, 7, 0), ("main", "f"): (200, 20, 3), ("main", "f", "g"): (100, 10, 6),
                                 ("main", "g"): (50, 5, 1)})
        run = Run([CAIRN, "report", "--view", "flat", "--by", "line", "--json", made])
        self.assertEqual({(node["file"], node["line"]): node["self"][0] for node in json.loads(run.out)["nodes"]
                          if node["self"][0]}, {("a.c", 10): 100, ("a.c", 20): 200, ("a.c", 30): 150})

    @installed("valgrind")
    def test_valgrind(self):
        """A file of callgrind itself: the total, and each function's own cost, are those that callgrind_annotate has."""
        out = self.file("callgrind.out")
        run = Run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--cache-sim=no", "true"])
        self.assertEqual(run.status, 0, run.words)
        with open(out, "rb") as file:
            made = self.imported(file.read())
        metrics, costs = tree(made)
        with open(out, encoding="utf-8") as file:
            total = next(int(line.split()[1]) for line in file if line.startswith(("summary:", "totals:")))
        self.assertEqual(sum(values[0] for values in costs.values()), total)
        self.assertEqual([metric for metric, _ in metrics], ["Ir", "calls"])

    def test_perf_script(self):
        made = self.imported(PERF)
        metrics, costs = tree(made)
        self.assertEqual(metrics, [("cpu-clock", "ns"), ("sched:sched_switch", "count"), ("cycles", "count")])
        perl, kernel = "perl", "[kernel]"
        self.assertEqual(costs, {
            (("__libc_start_call_main", "libc.so.6"), ("main", perl), ("S_inner", perl), ("Perl_pp_add", perl)): (250000, 0, 0),
            (("main", perl), ("do_sys_poll", kernel)): (250000, 0, 0),
            (("void std::f<int (*)(char)>(int)", "lib x.so"), ("[unknown]", None)): (0, 1, 0),
            (("native_safe_halt", kernel),): (0, 0, 100)})
        _, threads = tree(made, "--per-process=pid", "--per-thread=tid", modules=False)
        self.assertEqual({path[:2] for path in threads},
                         {("perl [4321]", "main thread [4321]"), ("perl [4321]", "my worker 2 [4322]"),
                          ("swapper", "main thread")})
        inlined = json.loads(Run([CAIRN, "report", "--json", "--min", "0", made]).out)["nodes"]
        self.assertEqual([node["kind"] for node in inlined if node["function"] == "S_inner"], ["inlined"])

    def test_speedscope(self):
        made = self.imported(json.dumps(SPEEDSCOPE))
        outer, inner = (frame["name"] for frame in SPEEDSCOPE["shared"]["frames"])
        metrics, costs = tree(made, "--per-thread=name", modules=False)
        self.assertEqual(metrics, [("time", "ns")])
        self.assertEqual(costs, {("first", outer): (1000000,), ("first", outer, inner): (1500000,),
                                 ("second", outer): (1500000,), ("second", outer, inner): (1500000,)})

    def test_formats_are_guessed(self):
        for content, format in ((self.export("threads", "pprof"), "pprof"), (json.dumps(SPEEDSCOPE), "speedscope"),
                                (CALLGRIND, "callgrind"), (PERF, "perf"), ("a;b 1\n", "folded")):
            path = self.file("foreign", content)
            answer = Run([CAIRN, "import", "--json", "-o", self.file("made.cairn"), path])
            self.assertEqual(json.loads(answer.out)["format"], format)
            packed = self.file("packed", content if isinstance(content, bytes) else gzip.compress(content.encode()))
            answer = Run(["sh", "-c", f"{CAIRN} import --json -o made.cairn - < {packed}"], cwd=self.folder)
            self.assertEqual(json.loads(answer.out)["format"], format)

    def test_all_commands_read_it(self):
        made = self.imported(self.export("threads", "pprof"))
        merged = self.file("merged.cairn")
        for command in (["report", made], ["info", made], ["export", "-f", "folded", made], ["compare", made, made],
                        ["diff", made, made], ["merge", "-q", "-o", merged, made, made],
                        ["merge", "-q", "-o", merged, made, self.imported(PERF)]):
            run = Run([CAIRN, *command])
            self.assertEqual(run.status, 0, run.words)
        one, two = self.imported("a;b 1\nc 2\n"), self.file("second.cairn")
        Run([CAIRN, "import", "-q", "-o", two, self.file("foreign", "a;b 4\nd 8\n")])
        Run([CAIRN, "merge", "-q", "-o", merged, one, two])
        self.assertEqual(tree(merged, modules=False)[1], {("a", "b"): (5,), ("c",): (2,), ("d",): (8,)})

    def test_files_that_need_no_import(self):
        """A profile of cairn is one already, and a file that is not there cannot be one."""
        own = self.imported("a;b 1\n")
        for path, words in ((own, "a profile of cairn's own"), (self.file("missing"), "cannot read ")):
            run = Run([CAIRN, "import", "-o", self.file("unwritten"), path])
            self.assertEqual((run.status, run.words.count("\n")), (2, 1))
            self.assertIn(words, run.words)
            self.assertFalse(os.path.exists(self.file("unwritten")))

    def test_damaged_files(self):
        pprof = gzip.decompress(self.export("threads", "pprof"))
        for content, options, words in (
                (b"", (), "no format that cairn can import"),
                (b"nothing of the kind", (), "no format that cairn can import"),
                ("a;b 1\na;c\n", (), "line 2 does not end with a count"),
                (pprof[:-1], ("-f", "pprof"), "a field reaches beyond the end"),
                (b"\x0a\x00" + b"\x12\x04\x0a\x02\xff\xff", ("-f", "pprof"), ""),
                ("{}", ("-f", "speedscope"), "it has no profiles"),
                (json.dumps(SPEEDSCOPE)[:-9], ("-f", "speedscope"), "damaged JSON at byte"),
                (json.dumps(SPEEDSCOPE).replace("second", "second\\u"), ("-f", "speedscope"), "damaged JSON at byte"),
                (json.dumps(SPEEDSCOPE).replace("[0, 1]", "[0, 7]"), (), "frame 7 is not there"),
                (CALLGRIND.replace("20 200", "20 x"), (), "line 16: more costs than events"),
                (CALLGRIND.replace("(1) main", "(9)"), (), "line 6: a number stands for a name that was not given"),
                (PERF + "\nwhat is this\n", (), "is no sample of perf script"),
                (gzip.compress(b"a;b 1\n" * 999)[:-20], (), "damaged, or unpacks to far more than its size"),
                (gzip.compress(b"a;b 1\n" * 99999999)[:400000], (), "damaged, or unpacks to far more than its size")):
            path = self.file("foreign", content)
            run = Run([CAIRN, "import", "-o", self.file("no.cairn"), *options, path])
            self.assertEqual(run.status, 2, run.words)
            self.assertEqual(run.words.count("\n"), 1)
            self.assertIn(words, run.words)
            self.assertFalse(os.path.exists(self.file("no.cairn")))

    def test_what_a_file_may_take(self):
        """A small file that stands for a very large tree is refused; an honest deep recursion is read."""
        deep = ";".join(["f"] * 200000) + " 1\n"
        made = self.imported(deep)
        self.assertEqual(Run([CAIRN, "report", "--fold-recursion", made]).status, 0)
        bomb = gzip.compress(b"".join(b";".join([b"f"] * 2000 + [b"%d" % i, b"g" * 10]) + b" 1\n" for i in range(3000)))
        run = Run([CAIRN, "import", "-q", "-o", made, self.file("bomb", bomb)])
        self.assertIn(run.status, (0, 2))
        names = "".join("%s%d;%s 1\n" % ("n" * 100000, i, "<script>") for i in range(3))
        self.assertEqual(Run([CAIRN, "report", self.imported(names)]).status, 0)


if __name__ == "__main__":
    unittest.main()
