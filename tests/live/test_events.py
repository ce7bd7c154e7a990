#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Several events in one recording: each has the numbers that it has alone."""

import os
import re
import shutil
import struct
import sys
import tempfile
import unittest

import test_alloc
from support import CAIRN, LiveTest, Profile, Run, installed, program, shares

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")
BLOCKS = [*test_alloc.METRICS]
TRACKERS = (("--track", "walk"), ("--track", "walk", "--marker=off"), ("--track", "encode"),
            ("--track", "calls"))


class EventsTest(unittest.TestCase):
    steadily = LiveTest.steadily

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-events-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "profile")

    def record(self, argv, *options, env=None):
        run = Run([CAIRN, "record", "-q", "-o", self.path, *options, "--", *argv], cwd=self.folder,
                  env=env)
        return run, Profile(self.path)

    def lived(self, argv, *options):
        run, profile = self.record(argv, *options)
        self.assertEqual(run.status, 0, run.words)
        return run, profile

    def count(self, argv, *options):
        """Records it, with another library in it that counts blocks: run, profile, its sums."""
        sums = os.path.join(self.folder, "sums")
        with open(sums, "wb") as file:
            file.write(bytes(4096))
        env = dict(os.environ, LD_PRELOAD=program("count_allocs.so"), COUNT_ALLOCS=sums)
        run, profile = self.record(argv, *options, env=env)
        with open(sums, "rb") as file:
            blocks, size, frees = struct.unpack("QQQ", file.read(24))
        return run, profile, {"allocations": blocks, "allocated": size, "frees": frees}

    def totals(self, profile):
        """Sums of all metrics over the tree."""
        report = profile.report("--min", "0")
        names = [metric["name"] for metric in report["metrics"]]
        return {name: sum(node["self"][i] for node in report["nodes"])
                for i, name in enumerate(names)}


class CpuAndAlloc(EventsTest):
    SQL = ("create table t(a integer primary key, b text); with recursive n(i) as (select 1 union "
           "all select i+1 from n where i<60000) insert into t select i, 'row '||i from n; "
           "select count(*), sum(a) from t where b like '%7%';")

    def check(self, argv):
        native = Run(argv, cwd=self.folder)
        for options in TRACKERS:
            with self.subTest(argv=argv[0], options=options):
                def life():
                    run, profile, counted = self.count(argv, "-e", "cpu", "-e", "alloc", "-F", "4000", *options)
                    self.assertEqual((run.status, run.out), (native.status, native.out), run.words)
                    self.assert_counted(profile, counted)
                    return profile

                def judge(profile):
                    self.assertGreater(profile.samples, 20)
                    self.assertGreater(profile.info["walks"]["complete_pct"], 99.5)

                self.steadily(life, judge)

    def assert_counted(self, profile, counted):
        """Sums are exact, whatever the clock does."""
        names = [metric["name"] for metric in profile.report()["metrics"]]
        self.assertEqual(names[:1 + len(BLOCKS)], ["cpu", *BLOCKS])
        alloc = profile.info["alloc"]
        for name, value in counted.items():
            more = alloc["unknown_frees"] if name == "frees" else 0
            self.assertEqual(alloc[name] + more, value, name)
        self.assertEqual(alloc["mismatches"], 0)
        totals = self.totals(profile)
        self.assertEqual(totals["alloc"], counted["allocated"])
        self.assertEqual(totals["cpu"], profile.info["cost_ns"])
        self.assertEqual(profile.info["node_bytes"], 104)

    @installed("sqlite3")
    def test_sqlite3(self):
        self.check(["sqlite3", ":memory:", self.SQL])

    def test_python3(self):
        self.check(["/usr/bin/python3", "-S", "-c",
                    "print(sum(len(str(i)) for i in range(200000)), sorted({i % 97 for i in range(99999)})[5])"])

    @installed("perl")
    def test_perl(self):
        self.check(["perl", "-e",
                    'my %h; $h{$_ % 1000} .= "x$_" for 1..300000; print length join "", %h'])


class BlocksUnderAClock(test_alloc.Contexts):
    """Programs of which each block is known, while a clock ticks as fast as it can."""

    # These have no more to say than the others, but take long.
    test_depths = test_lines = test_turns = test_trackers_agree = test_kinds = None

    def record(self, argv, *options, **more):
        recorded = super().record(argv, "-e", "cpu", "-e", "wall", "-F", "10000", *options, **more)
        report = recorded.profile.report("--min", "0")
        names = [metric["name"] for metric in report["metrics"]]
        cost = sum(node["self"][names.index("cpu")] for node in report["nodes"])
        self.assertEqual(cost, recorded.profile.info["cost_ns"])
        return recorded


class CpuAndWall(EventsTest):
    def below(self, profile, *names):
        """{metric: sum} of what has these functions on its path."""
        report = profile.report("--min", "0")
        nodes, found = {}, {metric["name"]: 0 for metric in report["metrics"]}
        for node in report["nodes"]:
            above = nodes.get(node["parent"], set())
            nodes[node["id"]] = above | {node["function"]}
            if set(names) <= nodes[node["id"]]:
                for name, value in zip(found, node["self"]):
                    found[name] += value
        return found

    def test_cpu_time_is_what_the_kernel_charged(self):
        def judge(recorded):
            run, profile = recorded
            charged = {name: int(value) for name, value in map(str.split, run.text.splitlines())}
            with shares():
                self.assertAlmostEqual(self.totals(profile)["cpu"] / charged["rusage"], 1, delta=0.01)
            for name in ("compute", "long_calls", "short_calls", "page_faults"):
                found = self.below(profile, "work", name)
                with shares():
                    self.assertAlmostEqual(found["cpu"] / charged[name], 1, delta=0.01)
                    self.assertGreater(found["wall"], 0.99 * found["cpu"])

        _, profile = self.steadily(lambda: self.lived([program("cputime")], "-e", "cpu", "-e", "wall"), judge)
        self.assertEqual(profile.info["node_bytes"], 32)
        self.assertEqual([event["name"] for event in profile.info["events"]], ["cpu", "wall"])

    def test_waits_are_wall_time_alone(self):
        def judge(recorded):
            run, profile = recorded
            for line in run.text.splitlines():
                path, value = line.split()
                # A sleep is seen when it ends: each may be off by a period or two.
                found = self.below(profile, *path.split(";"))
                with shares():
                    self.assertAlmostEqual(found["wall"] / 1e9, int(value) / 1e9,
                                           delta=0.02 + int(value) / 1e9 * 0.03, msg=path)
            slept, busy = self.below(profile, "sleep_short"), self.below(profile, "busy")
            with shares():
                self.assertLess(slept["cpu"], 0.1 * slept["wall"])
                self.assertGreater(busy["cpu"], slept["cpu"])

        self.steadily(lambda: self.lived([program("sleeps")], "-e", "wall", "-e", "cpu"), judge)

    @unittest.skipUnless(os.geteuid() == 0, "only who has rights can give them up")
    def test_rights_that_are_given_up(self):
        """Waiting is seen by a right that servers drop: threads that come later are missed, and that is said."""
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as setting:
            if int(setting.read()) < 2:
                self.skipTest("everybody has the right")
        server = ("import os, threading, time\nos.setuid(65534)\n"
                  "thread = threading.Thread(target=time.sleep, args=(0.1,))\nthread.start()\nthread.join()")
        _, profile = self.lived([sys.executable, "-c", server], "-e", "wall")
        self.assertIn("gave up its rights", " ".join(profile.info["notes"]))
        _, profile = self.lived([sys.executable, "-c", server], "-e", "cpu")
        self.assertNotIn("gave up its rights", " ".join(profile.info["notes"]))


class WithCalls(EventsTest):
    def calls(self, profile):
        """{path: calls}"""
        report = profile.report("--min", "0", "--no-inlines")
        paths, found = {}, {}
        for node in report["nodes"]:
            paths[node["id"]] = path = (*paths.get(node["parent"], ()), node["function"])
            if node["calls"]:
                found[path] = found.get(path, 0) + node["calls"]
        return found

    def test_cost_and_calls(self):
        """The csprof paper's program, in one run: as much time below a as below b, half the calls."""
        argv = [program("figure1")]
        _, alone = self.record(argv, "-e", "calls")
        exact = self.calls(alone)
        self.assertGreater(len(exact), 3)
        _, profile = self.record(argv, "-e", "cpu", "-e", "calls")
        self.assertEqual(profile.info["tracker"], "calls")
        self.assertEqual(profile.info["node_bytes"], 24)
        self.assertEqual(self.calls(profile), exact)
        self.assertEqual(self.totals(profile)["cpu"], profile.info["cost_ns"])
        _, profile = self.record(argv, "-e", "calls", "-e", "alloc", "-e", "wall")
        self.assertEqual(self.calls(profile), exact)
        self.assertEqual(list(self.totals(profile)), ["calls", *BLOCKS, "wall"])

    def test_samples_at_calls(self):
        """A clock and every N-th call, both with stack samples: each has what it has alone."""
        folded = Run([CAIRN, "cc", "gcc", "-O1", "-w", "-o", "calls", os.path.join(SOURCES, "figure1.c")],
                     cwd=self.folder)
        self.assertEqual(folded.status, 0, folded.words)
        argv = [os.path.join(self.folder, "calls")]
        _, exact = self.record(argv, "-e", "calls")
        calls = self.totals(exact)["calls"]
        run, profile = self.record(argv, "-e", "cpu", "-e", "calls:1009")
        self.assertEqual(run.status, 0, run.words)
        totals = self.totals(profile)
        self.assertEqual(totals["cpu"], profile.info["cost_ns"])
        self.assertAlmostEqual(totals["calls"], calls, delta=1009 * (1 + profile.info["samples_lost"]))


class TrueCost(EventsTest):
    """Followed calls take much longer than others, but no function is charged with that."""

    KINDS = {"sites": None, "entries": ("-O2",), "reports": ("-O2", "-finstrument-functions")}
    # Of the whole. Functions that report themselves call us twice, and wait for both.
    DELTA = {"sites": 0.03, "entries": 0.03, "reports": 0.12}

    def build(self, name, flags):
        if flags is None:
            return program(name)
        path = os.path.join(self.folder, name)
        compiler = ["gcc"] if len(flags) > 1 else [CAIRN, "cc", "gcc"]
        built = Run([*compiler, "-w", *flags, "-o", path, os.path.join(SOURCES, name + ".c")])
        self.assertEqual(built.status, 0, built.words)
        return path

    def below_main(self, profile):
        """{path below main: share of all time that is below main}, and the number of samples."""
        report = profile.report("--min", "0", "--kernel=no", "--no-inlines")
        time = [metric["name"] for metric in report["metrics"]].index("cpu")
        paths, found = {}, {}
        for node in report["nodes"]:
            above = paths.get(node["parent"], ())
            paths[node["id"]] = (*above, node["function"]) if above or node["function"] == "main" else ()
        for node in report["nodes"]:
            path = paths[node["id"]]
            for length in range(1, len(path) + 1):
                found[path[1:length]] = found.get(path[1:length], 0) + node["self"][time]
        whole = found.pop(())
        return {path: cost / whole for path, cost in found.items()}, profile.samples

    def recorded(self, argv):
        """The truth, from a profile of time merged with one of calls; and both in one run."""
        rate = str(9973 - 101 * self.attempt)
        paths = [os.path.join(self.folder, name) for name in ("time", "calls", "both")]
        for path, options in zip(paths, (("-F", rate), ("--track", "calls"))):
            run = Run([CAIRN, "record", "-q", "-o", path, *options, "--", *argv])
            self.assertEqual(run.status, 0, run.words)
        merged = Run([CAIRN, "merge", "-o", paths[2], *paths[:2]])
        self.assertEqual(merged.status, 0, merged.words)
        run, profile = self.record(argv, "--track", "calls", "-e", "cpu", "-F", rate)
        self.assertEqual(run.status, 0, run.words)
        # Exact, whatever shares are: nothing is lost, and nothing counted twice.
        self.assertEqual(self.totals(profile)["cpu"], profile.info["cost_ns"])
        self.assertGreater(profile.info["hook_ns"], 0)
        self.assertGreater(profile.info["hook_samples"], 0)
        self.assertEqual(profile.report()["hook_ns"], profile.info["hook_ns"])
        return Profile(paths[2]), profile

    def judge(self, recorded, chosen, delta):
        (truth, many), (found, samples) = map(self.below_main, recorded)
        for path in filter(chosen, {*truth, *found}):
            was, now = truth.get(path, 0), found.get(path, 0)
            spread = max(was * (1 - was), 0.01)
            chance = 3 * (spread / many + spread / samples) ** 0.5
            with shares():
                self.assertAlmostEqual(now, was, delta=delta + chance, msg=path)

    def check(self, name, chosen):
        for kind, flags in self.KINDS.items():
            with self.subTest(name=name, kind=kind):
                argv = [self.build(name, flags)]
                self.steadily(lambda argv=argv: self.recorded(argv),
                              lambda recorded, kind=kind: self.judge(recorded, chosen, self.DELTA[kind]))

    def test_small_function(self):
        self.check("small_leaf", lambda path: True)

    def test_figure_1(self):
        """Which of two neighbours an instruction runs in cannot be told (limits.md): d is part of c here."""
        self.check("figure1", lambda path: path[-1] != "d")

    def test_says_so(self):
        run = Run([CAIRN, "record", "-o", self.path, "--track", "calls", "-e", "cpu", "--", program("small_leaf")])
        self.assertRegex(run.words, "hooks on calls took another .*s, which no function is charged with")
        for command in ("info", "report"):
            said = Run([CAIRN, command, self.path])
            self.assertRegex(" ".join(said.text.split()), "(?i)hooks", command)
        alone = Run([CAIRN, "record", "-o", self.path, "--", program("small_leaf")])
        self.assertNotIn("hooks", alone.words)
        self.assertEqual(Profile(self.path).info["hook_ns"], 0)

    def test_system_calls_through_us(self):
        """syscall() is a function of the agent's, but what the kernel does in it is the program's."""
        def judge(recorded):
            run, profile = recorded
            spent = {name: int(value) for name, value in map(str.split, run.text.splitlines())}
            nodes, found = {}, 0
            report = profile.report("--min", "0")
            time = [metric["name"] for metric in report["metrics"]].index("cpu")
            for node in report["nodes"]:
                within = node["function"] == "does_some" or nodes.get(node["parent"], False)
                nodes[node["id"]] = within
                found += node["self"][time] * within
            with shares():
                self.assertAlmostEqual(found / spent["some"], 1, delta=0.1)

        self.steadily(lambda: self.lived([program("system_calls")], "-e", "cpu", "--track", "calls"), judge)


class Views(EventsTest):
    def test_each_metric(self):
        """Each can be shown, exported, merged and compared."""
        argv = [program("allocs"), "peak"]
        _, profile = self.record(argv, "-e", "cpu", "-e", "wall", "-e", "alloc")
        totals = self.totals(profile)
        self.assertEqual(list(totals), ["cpu", "wall", *BLOCKS, "waiting"])
        self.assertEqual(totals.pop("waiting"), max(totals["wall"] - totals["cpu"], 0))
        alone = os.path.join(self.folder, "alone")
        Run([CAIRN, "record", "-q", "-e", "alloc", "-o", alone, "--", *argv])
        one = self.totals(Profile(alone))
        for name in BLOCKS:
            self.assertEqual(totals[name], one[name], name)
        for name, total in totals.items():
            folded = Run([CAIRN, "export", "-f", "folded", "--metric", name, self.path])
            self.assertEqual(folded.status, 0, folded.words)
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.text.splitlines()),
                             total, name)
            report = Run([CAIRN, "report", "--metric", name, self.path])
            self.assertEqual(report.status, 0)
            if total:
                others = ", ".join(other for other in totals if other != name)
                self.assertIn(f"Recorded, too: {others}, and so waiting", report.text)
        both = os.path.join(self.folder, "both")
        merged = Run([CAIRN, "merge", "-o", both, self.path, alone])
        self.assertEqual(merged.status, 0, merged.words)
        sums = self.totals(Profile(both))
        self.assertEqual(sums["alloc"], 2 * one["alloc"])
        self.assertEqual(sums["cpu"], totals["cpu"])
        compared = Run([CAIRN, "compare", alone, self.path, "--json", "--metric", "alloc"])
        self.assertEqual(compared.status, 0, compared.words)

    def test_many_metrics(self):
        """All are shown side by side, and come back from formats that have room for several."""
        self.record([program("allocs"), "peak"], "-e", "cpu", "-e", "wall", "-e", "alloc", "-e", "io", "-e", "lock")
        totals = self.totals(Profile(self.path))
        self.assertGreater(len(totals), 20)
        shown = Run([CAIRN, "report", "--no-pager", "--width", "0", "--metric", "all", "--by", "program", self.path])
        head = next(line for line in shown.text.splitlines() if re.search(r" program$", line)).split()
        self.assertEqual([name for name, total in totals.items() if total and name not in head], [])
        foreign, again = os.path.join(self.folder, "foreign"), os.path.join(self.folder, "again")
        for kind in ("pprof", "speedscope", "callgrind"):
            for command in (("export", "-f", kind, "-o", foreign, self.path), ("import", "-q", "-f", kind, "-o", again, foreign)):
                run = Run([CAIRN, *command])
                self.assertEqual(run.status, 0, run.words)
            # Pprof has names of its own for some of them.
            self.assertEqual(sorted(filter(None, self.totals(Profile(again)).values())), sorted(filter(None, totals.values())), kind)

    def test_ratios(self):
        """One metric over another, beside the one that rows are sorted by."""
        self.record([program("allocs"), "peak"], "-e", "alloc", "-e", "io")
        totals = self.totals(Profile(self.path))
        shown = Run([CAIRN, "report", "--no-pager", "--width", "300", "--metric", "alloc,allocs,alloc-size", self.path])
        self.assertEqual(shown.status, 0, shown.words)
        row = next(line for line in shown.text.splitlines() if "100.0 %" in line)
        size = re.findall(r"([\d.]+) (k|M|)B", row)[-1]
        scale = {"": 1, "k": 1e3, "M": 1e6}[size[1]]
        self.assertAlmostEqual(float(size[0]) * scale / (totals["alloc"] / totals["allocs"]), 1, delta=0.02)
        profile = Profile(self.path)
        for options in ((), ("--view", "flat"), ("--view", "callers"), ("--by", "thread")):
            report = profile.report(*options)
            metrics = [metric["name"] for metric in report["metrics"]]
            self.assertEqual([(ratio["name"], ratio["unit"]) for ratio in report["ratios"]],
                             [("alloc-size", "bytes"), ("age", "s"), ("io-size", "bytes"), ("io-latency", "ns")])
            for node in report["nodes"]:
                values = dict(zip(metrics, node["total"]))
                for ratio, of, over in zip(node["ratios"], ("alloc", "io", "io-time"), ("allocs", "io-ops", "io-ops")):
                    if values[over] == 0:
                        self.assertIsNone(ratio)
                    else:
                        self.assertAlmostEqual(ratio * values[over] / (values[of] or 1), 1 if values[of] else 0, places=5)
        for names, word in (("alloc-size", "sorts no rows"), ("alloc,ipc", "has not both")):
            run = Run([CAIRN, "report", "--metric", names, self.path])
            self.assertEqual((run.status, run.words.count("\n")), (2, 1), run.words)
            self.assertIn(word, run.words)

    def test_the_share_that_is_waiting(self):
        """Of wall time, whether `waiting` is asked for or not."""
        self.record(["sleep", "0.2"], "-e", "wall", "-e", "cpu")
        shown = Run([CAIRN, "report", "--no-pager", "--width", "300", "--metric", "wall,waiting-share", self.path])
        self.assertEqual(shown.status, 0, shown.words)
        row = next(line for line in shown.text.splitlines() if "100.0 %" in line)
        report = Profile(self.path).report()
        self.assertEqual(report["ratios"], [{"name": "waiting-share", "unit": "%"}])
        total = dict(zip((metric["name"] for metric in report["metrics"]), report["nodes"][0]["total"]))
        share = report["nodes"][0]["ratios"][0]
        self.assertAlmostEqual(share, 100 * total["waiting"] / total["wall"], places=5)
        self.assertIn(f"{share:.1f} %", row)

    def test_trees_that_make_no_sense_are_refused(self):
        for options, word in ((("-e", "cpu", "-e", "alloc", "--tree", "hot"), "--tree full"),
                              (("-e", "cpu:1ms", "-e", "wall:2ms"), "one clock")):
            run = Run([CAIRN, "record", "-o", self.path, *options, "--", "touch", "ran"], cwd=self.folder)
            self.assertEqual(run.status, 2)
            self.assertIn(word, run.words)
            self.assertEqual(run.words.count("\n"), 1)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "ran")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
