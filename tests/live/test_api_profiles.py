# SPDX-License-Identifier: MIT
"""Programs that name their phases, and write down what was recorded of them so far."""

import errno
import os
import random
import unittest

from support import CAIRN, Profile, Run, installed, nodes_of, program, shares
from test_api import SHARES, ApiTest, items, number


class PhaseTest(ApiTest):
    """Spans that the program names."""

    def shares(self, path, phase):
        nodes = nodes_of(Profile(path).report("--min", "0", "--phase", phase))
        whole = sum(node.own for node in nodes)
        shares = {}
        for node in nodes:
            shares[node.name] = shares.get(node.name, 0) + node.own / whole
        return shares

    def check(self, record):
        def life():
            path = record()
            self.check_phases(path)
            return path

        @shares()
        def judge(path):
            # A sample at the edge of a span may be of the one or the other.
            self.assertGreater(self.shares(path, "early")["beta"], 0.9)
            self.assertGreater(self.shares(path, "request")["beta"], 0.9)
            self.assertGreater(self.shares(path, "query")["gamma_work"], 0.9)
            startup = self.shares(path, "startup")
            self.assertAlmostEqual(startup["alpha"], 0.5, delta=0.15)
            self.assertAlmostEqual(startup["hidden"], 0.5, delta=0.15)

        self.steadily(life, judge)

    def check_phases(self, path):
        info = Profile(path).info
        self.assertEqual({tree["phase"] for tree in info["tree_list"]},
                         {"early", "startup", "request", "query", None})
        run = Run([CAIRN, "report", path, "--phase", "dinner"])
        self.assertNotEqual(run.status, 0)
        self.assertIn("no phase matches 'dinner'; the profile has", run.words)

    def test_phases_are_in_every_kind_of_tree(self):
        for options in ((), ("--tree", "hot:1e-3"), ("--tree", "bounded:16"), ("--per-thread",)):
            with self.subTest(options=options):
                def record():
                    run, profile = self.record([program("api-alone"), "phases"], "-F", "4000", *options)
                    self.assertEqual(run.status, 0, run.words)
                    return profile.path

                self.check(record)

    def test_merged_phases_stay_apart(self):
        """Trees of different phases stay apart."""
        def merge():
            _, one = self.record([program("api"), "phases"], "-F", "4000")
            _, other = self.record([program("api"), "phases"], "-F", "4000")
            both = self.file("both")
            run = Run([CAIRN, "merge", "-o", both, one.path, other.path])
            self.assertEqual(run.status, 0, run.words)
            return both

        self.check(merge)

    @installed("gcc")
    def test_followed_calls(self):
        """Where every call is followed, a phase begins and ends at once."""
        tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        binary = self.file("followed")
        run = Run([CAIRN, "cc", "gcc", "-O2", "-D_GNU_SOURCE", "-Wno-unused-function",
                   "-I", os.path.join(tests, "../include"), "-I", os.path.join(tests, "programs"),
                   os.path.join(tests, "programs/api.c"), "-o", binary, "-lpthread"])
        self.assertEqual(run.status, 0, run.words)
        run, profile = self.record([binary, "phases"], "--track", "calls")
        self.assertEqual(run.status, 0, run.words)
        for phase, name, calls in (("early", "beta", 20), ("request", "beta", 20),
                                   ("query", "gamma_work", 10), ("startup", "alpha", 20),
                                   ("startup", "hidden", 20)):
            nodes = nodes_of(profile.report("--min", "0", "--phase", phase))
            self.assertEqual(sum(node.own for node in nodes if node.name == name), calls, phase)

    def test_no_phases(self):
        _, profile = self.record([program("api-alone"), "signals"])
        run = Run([CAIRN, "report", profile.path, "--phase", "any"])
        self.assertIn("this profile has no phases", run.words)


class SnapshotTest(ApiTest):
    """What was recorded so far, in a file."""

    def check(self, snapshot):
        def life():
            run = snapshot()
            return run, self.check_snapshot(run, self.file("snapshot.cairn"))

        def judge(taken):
            run, profile = taken
            # The recording was paused: the last snapshot is what the program was told then. A sample
            # may have come in between.
            told = {item.name: item.value for item in items(run, "function")}
            for name, share in SHARES.items():
                with shares():
                    self.assertAlmostEqual(profile.below(name) / told[name], 1, delta=0.02)
                self.assert_share(profile, share, name, slack=0.03)

        return self.steadily(life, judge)[1]

    def check_snapshot(self, run, path):
        profile = Profile(path)
        self.assertEqual(profile.info["command"][1], "snapshot")
        self.assertEqual(number(run, "foreign"), -errno.EEXIST)
        self.assertEqual(number(run, "nowhere"), -errno.ENOENT)
        self.assertEqual(os.listdir(self.folder).count("snapshot.cairn"), 1)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith(".new")])
        return profile

    def test_of_itself(self):
        for tree in ("full", "bounded:16", "functions"):
            with self.subTest(tree=tree):
                profile = self.check(lambda: self.run_program("api", "snapshot", "rate=4000 tree=" + tree))
                self.assertEqual(profile.info["tree"], tree)
                for node in profile.some("beta"):
                    self.assertTrue(tree == "functions" or "by_night" in node.path())

    def test_under_record(self):
        def snapshot():
            run, _ = self.record([program("api-alone"), "snapshot"], "-F", "4000")
            self.assertEqual(run.status, 0, run.words)
            return run

        self.check(snapshot)

    def test_a_snapshot_is_exported(self):
        self.run_program("api", "snapshot")
        run = Run([CAIRN, "export", "--format", "folded", "-o", "-", "snapshot.cairn"],
                  cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertIn("by_night;beta", run.text)

    def test_a_damaged_snapshot_never_crashes_a_reader(self):
        """A damaged snapshot is read as far as it goes, or refused: never a crash."""
        self.run_program("api", "snapshot")
        with open(self.file("snapshot.cairn"), "rb") as file:
            whole = file.read()
        chance = random.Random(7)
        for attempt in range(60):
            data = bytearray(whole)
            if attempt % 3 == 0:
                data = data[:chance.randrange(8, len(data))]
            for _ in range(chance.randrange(1, 40)):
                data[chance.randrange(8, len(data))] = chance.choice((0, 1, 0x7f, 0xff,
                                                                      chance.randrange(256)))
            run = Run([CAIRN, "info", self.file("damaged", bytes(data))], cwd=self.folder)
            self.assertIn(run.status, (0, 1, 2), run.words)
            self.assertLessEqual(len(run.words.splitlines()), 3)


if __name__ == "__main__":
    unittest.main()
