#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""perf's events by name: what the kernel counts for a thread, in the contexts that caused it."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import CAIRN, Profile, Run, installed, program

HARDWARE = os.path.exists("/sys/bus/event_source/devices/cpu")
# In a thread, by the agent (its own memory) and by libraries.
BESIDE = 150


class CountersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-counters-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "profile")

    def record(self, argv, *options):
        run = Run([CAIRN, "record", "-q", "-o", self.path, *options, "--", *argv], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        return run, Profile(self.path)

    def sums(self, profile, *names):
        """{metric: sum} of what has these functions on its path; of all without names."""
        report = profile.report("--min", "0")
        above, found = {}, {metric["name"]: 0 for metric in report["metrics"]}
        for node in report["nodes"]:
            above[node["id"]] = above.get(node["parent"], set()) | {node["function"]}
            if set(names) <= above[node["id"]]:
                for name, value in zip(found, node["self"]):
                    found[name] += value
        return found

    def refused(self, *options):
        """The one line about it; the command has not run."""
        run = Run([CAIRN, "record", "-o", self.path, *options, "--", "touch", "ran"], cwd=self.folder)
        self.assertEqual(run.status, 2, run.words)
        self.assertEqual(run.words.count("\n"), 1, run.words)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "ran")))
        return run.words

    def check_rights(self, event, verb):
        """A user without the right is refused, and is told of the setting."""
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as setting:
            if int(setting.read()) < 2:
                self.skipTest("everybody has the right")
        run = subprocess.run([CAIRN, "record", "-o", "/dev/null", "-e", event, "--", "true"],
                             capture_output=True, text=True, user=65534, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, f"cannot {verb} {event} here: .*perf_event_paranoid")
        self.assertEqual(run.stderr.count("\n"), 1)
        return run.stderr


class Sums(CountersTest):
    def kernel(self, run):
        """Faults and switches of all threads, as the kernel told the program."""
        lines = [[int(word) for word in line.split()] for line in run.text.splitlines()]
        return sum(line[0] for line in lines), sum(line[1] for line in lines), len(lines)

    def test_each_one(self):
        """With a period of one there is nothing to chance: each fault lies where it happened."""
        run, profile = self.record([program("counted")], "-e", "page-faults:1", "-e", "context-switches:1")
        faults, switches, threads = self.kernel(run)
        found = self.sums(profile, "work")
        self.assertEqual(threads, 4)
        self.assertGreaterEqual(found["page-faults"], faults)
        self.assertLess(found["page-faults"], faults + BESIDE * threads)
        for name, pages in (("touch_few", 500), ("touch_many", 4500)):
            value = self.sums(profile, "work", name)["page-faults"]
            self.assertGreaterEqual(value, pages * threads)
            self.assertLess(value, pages * threads + BESIDE)
        slept = self.sums(profile, "sleep_often")["context-switches"]
        self.assertGreaterEqual(slept, 40 * threads)
        # Those on their way at the end of the function count behind it, and on a crowded machine there are some before
        # the program first asks the kernel, and after it last did.
        self.assertLessEqual(abs(self.sums(profile, "work")["context-switches"] - switches), 6 * threads)

    def test_sampled(self):
        """A sample weighs what was counted since the last one: the sum is the kernel's at any period."""
        for event in ("page-faults:37", "page-faults", "minor-faults:1000"):
            with self.subTest(event=event):
                run, profile = self.record([program("counted")], "-e", event)
                faults, _, threads = self.kernel(run)
                name = event.split(":")[0]
                total = self.sums(profile)[name]
                self.assertGreaterEqual(total, faults)
                self.assertLess(total, faults + BESIDE * (threads + 1))
                if event.endswith(":37"):
                    for function, pages in (("touch_few", 500), ("touch_many", 4500)):
                        value = self.sums(profile, "work", function)[name]
                        self.assertLess(abs(value - pages * threads), 37 * threads + BESIDE)

    def test_processes(self):
        """Forks, and programs that others start."""
        run, profile = self.record(["sh", "-c", f"{program('counted')}; (exec {program('counted')})"],
                                   "-e", "page-faults:1")
        faults, _, threads = self.kernel(run)
        self.assertEqual(threads, 8)
        found = self.sums(profile, "work")["page-faults"]
        self.assertGreaterEqual(found, faults)
        self.assertLess(found, faults + BESIDE * threads)

    @installed("perf")
    def test_perf_says_the_same(self):
        """Of a program that nobody here wrote."""
        argv = ["/usr/bin/python3", "-S", "-E", "-c", "x = [str(i) for i in range(300000)]"]
        stat = subprocess.run(["perf", "stat", "-x,", "-e", "page-faults", *argv], capture_output=True,
                              text=True, timeout=60)
        counted = int(stat.stderr.splitlines()[-1].split(",")[0])
        _, profile = self.record(argv, "-e", "page-faults")
        # Faults of the kernel's start of the program lie before the recording, the agent's in it.
        self.assertLess(abs(self.sums(profile)["page-faults"] - counted), 0.05 * counted + 400)


class Together(CountersTest):
    def test_trackers_and_trees(self):
        for tracker in ("walk", "encode", "calls"):
            for tree in ("full", "hot:0.01", "bounded", "functions"):
                if tree == "functions" and tracker != "walk" or tree == "bounded" and tracker == "calls":
                    continue
                with self.subTest(tracker=tracker, tree=tree):
                    run, profile = self.record([program("counted")], "-e", "page-faults:5", "--track", tracker,
                                               "--tree", tree)
                    self.assertEqual(run.status, 0)
                    # The agent's hooks and tables have faults of their own, which no function has.
                    self.assertGreater(self.sums(profile)["page-faults"], 19000)
                    if tree != "functions":
                        self.assertGreater(self.sums(profile, "touch_many")["page-faults"], 17000)

    def test_beside_others(self):
        run, profile = self.record([program("counted")], "-e", "page-faults:1", "-e", "cpu", "-e", "minor-faults:1",
                                   "-e", "alloc", "-e", "io", "-e", "lock")
        names = [metric["name"] for metric in profile.report()["metrics"]]
        self.assertEqual(names[:4], ["page-faults", "cpu", "minor-faults", "alloc"])
        found = self.sums(profile, "touch_many")
        self.assertGreaterEqual(found["page-faults"], 4 * 4500)
        self.assertLess(found["page-faults"], 4 * 4500 + BESIDE)
        self.assertLess(abs(found["page-faults"] - found["minor-faults"]), 20)
        self.assertEqual(self.sums(profile)["cpu"], profile.info["cost_ns"])
        self.assertEqual(self.sums(profile)["written"], len(run.text))

    def test_exported(self):
        _, profile = self.record([program("counted")], "-e", "page-faults:1", "-e", "task-clock")
        folded = Run([CAIRN, "export", "-f", "folded", "--metric", "page-faults", self.path])
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.text.splitlines()),
                         self.sums(profile)["page-faults"])
        report = Run([CAIRN, "report", "--metric", "page-faults,task-clock", self.path])
        self.assertEqual(report.status, 0)
        self.assertIn("touch_many", report.text)
        again = Run([CAIRN, "gate", self.path, "--above", "10000", "--", program("counted")], cwd=self.folder)
        self.assertIn(again.status, (0, 1), again.words)

    def test_unit_of_the_kernel(self):
        """A unit's terms by /sys: the software unit is everywhere."""
        _, profile = self.record([program("counted")], "-e", "software/config=2/:1")
        self.assertGreaterEqual(self.sums(profile, "touch_many")["software/config=2/"], 4 * 4500)


class Refused(CountersTest):
    def test_misuse(self):
        for options, words in (
                (["-e", "page-fault"], "did you mean 'page-faults'?"),
                (["-e", "branch-mises"], "did you mean 'branch-misses'?"),
                (["-e", "page-faults:0"], "from 1 on"),
                (["-e", "page-faults:-3"], "from 1 on"),
                (["-e", "page-faults:often"], "from 1 on"),
                (["-e", "task-clock:10"], "100000"),
                (["-e", "page-faults", "-e", "faults"], "twice"),
                (["-e", "page-faults:5", "-F", "100"], "exclude"),
                (["-e", "nosuch/event=1/"], "no unit 'nosuch'"),
                (["-e", "software/nosuch=1/"], "no term 'nosuch'"),
                (["-e", "software/config=2"], "slash"),
                (["-e", "page-faults", "-e", "cpu", "--tree", "hot"], "--tree full"),
                ([word for name in ("page-faults", "minor-faults", "major-faults", "context-switches",
                                    "cpu-migrations", "task-clock", "cpu-clock") for word in ("-e", name)],
                 "at most 6")):
            with self.subTest(options=options):
                self.assertIn(words, self.refused(*options))

    @unittest.skipIf(HARDWARE, "the processor counts here")
    def test_no_hardware(self):
        for name in ("cycles", "instructions", "cache-misses", "LLC-load-misses", "r01c2", "cycles:1000000"):
            self.assertEqual(self.refused("-e", name),
                             f"cairn: cannot count {name.split(':')[0]} here: no hardware counters; use -e cpu\n")
        self.assertIn("use -e cpu", self.refused("-e", "cpu/event=0x3c/"))

    @unittest.skipUnless(HARDWARE, "no hardware counters")
    def test_hardware(self):
        _, profile = self.record([program("shares")], "-e", "cycles", "-e", "instructions")
        found = self.sums(profile)
        self.assertGreater(found["cycles"], 0)
        self.assertGreater(found["instructions"], 0)

    @unittest.skipUnless(os.geteuid() == 0, "takes two users")
    def test_rights(self):
        self.check_rights("context-switches", "count")


class Listed(CountersTest):
    def test_list(self):
        told = json.loads(Run([CAIRN, "list", "--json"]).text)["events"]
        counters = {event["name"]: event for event in told if "reason" in event}
        self.assertTrue(counters["page-faults"]["works"])
        text = re.sub(r"\s+", " ", Run([CAIRN, "list"]).text)
        for name, event in counters.items():
            self.assertIn(name, text)
            run = Run([CAIRN, "record", "-q", "-o", self.path, "-e", name, "--", "true"], cwd=self.folder)
            self.assertEqual(run.status, 0 if event["works"] else 2, name)
            if not event["works"]:
                self.assertIn(event["reason"], run.words)
                self.assertIn(event["reason"], text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
