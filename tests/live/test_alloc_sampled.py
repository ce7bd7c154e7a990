#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`-e alloc:BYTES`: blocks are sampled, and the truth lies in the interval that is printed."""

import json
import os
import shutil
import statistics
import unittest

from support import CAIRN, Profile, Run, program
from test_alloc import METRICS, Allocations, AllocTest

PERIOD = 64 << 10


class Sampled(AllocTest):
    TREES = (("walk", "full"), ("encode", "full"), ("calls", "full"), ("walk", "hot"), ("walk", "bounded"),
             ("walk", "functions"), ("encode", "hot"), ("calls", "hot"))

    def sample(self, argv, *options, period=PERIOD, **more):
        """With the exact numbers of another library in the same run."""
        return Allocations(self.folder, argv, *options, event=f"alloc:{period}", **more)

    def by_caller(self, recorded, caller):
        """What take() allocates for a caller: {metric: (value, error)}."""
        report = recorded.profile.report("--min", "0", "--no-inlines")
        names = [metric["name"] for metric in report["metrics"]]
        nodes = {node["id"]: node for node in report["nodes"]}
        for node in report["nodes"]:
            above = nodes.get(node["parent"])
            if node["function"] == "take" and above and above["function"] == caller:
                return dict(zip(names, zip(node["self"], node["error"])))
        self.fail(f"{caller} is not there")


class Intervals(Sampled):
    def test_truth_lies_in_the_interval(self):
        """20 recordings of two contexts, and their sums: 60 pairs of bytes and blocks, of which 3 should be off.

        A profiler that is right fails in one of 1,000 tests.
        """
        exact = self.record([program("allocs"), "mix"])
        truths = {caller: exact.by_path("take", caller) for caller in ("by_first", "by_second")}
        off, widths = {"bytes": 0, "blocks": 0}, {"allocated": [], "allocations": []}
        for _ in range(20):
            recorded = self.sample([program("allocs"), "mix"], counted=False)
            sums, errors = recorded.sums, recorded.sums["error"]
            off["bytes"] += abs(sums["allocated"] - exact.sums["allocated"]) > errors["allocated"]
            off["blocks"] += abs(sums["allocations"] - exact.sums["allocations"]) > errors["allocations"]
            for name, width in widths.items():
                width.append(errors[name] / sums[name])
            for caller, truth in truths.items():
                found = self.by_caller(recorded, caller)
                for kind, name in (("bytes", "alloc"), ("blocks", "allocs")):
                    value, error = found[name]
                    off[kind] += abs(value - truth[name]) > error
        # An interval that says nothing would hold the truth, too. A single one may be wide: where a tiny block was
        # sampled, which stands for thousands.
        self.assertLess(statistics.median(widths["allocated"]), 0.05)
        self.assertLess(statistics.median(widths["allocations"]), 0.2)
        self.assertLessEqual(off["bytes"], 10)
        self.assertLessEqual(off["blocks"], 10)

    def test_each_tracker_and_tree(self):
        for tracker, tree in self.TREES:
            with self.subTest(tracker=tracker, tree=tree):
                name = "allocs-calls" if tracker == "calls" else "allocs"
                recorded = self.sample([program(name), "mix"], "--track", tracker, "--tree", tree)
                self.assertEqual(recorded.run.status, 0, recorded.run.words)
                # Four standard deviations more than half of the interval that is told.
                sums, error = recorded.sums, recorded.sums["error"]
                self.assertLess(abs(sums["allocated"] - recorded.bytes), 3 * error["allocated"])
                if tree == "full":
                    self.assertLess(abs(sums["allocations"] - recorded.blocks), 3 * error["allocations"])
                    self.assertEqual(sums["live"], sums["allocated"] - sums["freed"])
                    self.assertGreaterEqual(sums["peak"], sums["live"])
                    # 1 in 50 is never freed.
                    self.assertLess(abs(sums["live"] - recorded.bytes / 50), 3 * error["live"])
                else:
                    self.assertIsNone(sums["allocations"])
                self.assertEqual(sums["unknown_frees"], 0)

    def test_temporary_blocks(self):
        """49 of 50 large blocks are freed before another one is allocated, and no small one is."""
        recorded = self.sample([program("allocs"), "mix"], counted=False)
        value, error = self.by_caller(recorded, "by_second")["temporary"]
        self.assertLess(abs(value - 49000), 3 * error)
        self.assertEqual(self.by_caller(recorded, "by_first")["temporary"][0], 0)

    def test_threads_and_children(self):
        """Blocks that other threads free, and a child's own."""
        for mode in ("threads", "forks"):
            with self.subTest(mode=mode):
                recorded = self.sample([program("allocs"), mode], period=512)
                sums, error = recorded.sums, recorded.sums["error"]
                self.assertEqual(recorded.run.status, 0, recorded.run.words)
                if mode == "threads":
                    self.assertLess(abs(sums["allocated"] - recorded.bytes), 2 * error["allocated"])
                    kept = 12 * sum(16 + i % 64 for i in range(0, 5000, 10))
                    found = recorded.by_path("take", "by_first")["live"]
                    self.assertLess(abs(found - kept), 3 * error["live"])

    def test_small_distances_count_all(self):
        """Blocks that are much larger than the distance are all sampled, and exact."""
        recorded = self.sample([program("allocs"), "peak"], period=16)
        exact = self.record([program("allocs"), "peak"])
        for name in ("allocated", "freed", "allocations"):
            self.assertAlmostEqual(recorded.sums[name] / exact.sums[name], 1, delta=0.02, msg=name)
        found = recorded.by_path("take", "by_first")
        self.assert_values(found, alloc=300000, allocs=300, freed=300000, live=0, peak=10000)

    def test_one_byte_is_each_block(self):
        recorded = self.sample([program("allocs"), "paths"], period=1)
        self.assertIsNone(recorded.sums["error"])
        self.assertEqual(recorded.sums["allocations"], recorded.blocks)

    def test_beside_a_clock(self):
        recorded = self.sample([program("allocs"), "mix"], "-e", "cpu")
        error = recorded.sums["error"]["allocated"]
        self.assertLess(abs(recorded.sums["allocated"] - recorded.bytes), 3 * error)
        self.assertGreater(recorded.profile.info["cost_ns"], 0)
        self.assertEqual(recorded.profile.info["node_bytes"], 16 + 12 * 8)


class Harmless(Sampled):
    def test_allocators_keep_their_promises(self):
        native = Run([program("allocs"), "promises"])
        for tracker in ("walk", "encode"):
            recorded = self.sample([program("allocs"), "promises"], "--track", tracker, period=64)
            self.assertEqual(recorded.run.text, native.text)

    def test_handlers(self):
        recorded = self.sample([program("allocs"), "handlers"], period=32)
        self.assertEqual(recorded.run.status, 0, recorded.run.words)


class Shown(Sampled):
    def test_text_names_the_interval(self):
        path = os.path.join(self.folder, "profile")
        run = Run([CAIRN, "record", "-e", "alloc:64k", "-o", path, "--", program("allocs"), "mix"])
        self.assertRegex(run.words, r"[\d,]+ blocks sampled, one every 65\.5 kB; ± holds in 95 of 100")
        self.assertRegex(run.words, r"MB ±[\d.]+ MB allocated in [\d,]+ ±[\d,]+ blocks, [\d.]+ MB live")
        info = Run([CAIRN, "info", path]).text
        self.assertRegex(info, r"event +alloc by malloc, a sample every 65\.5 kB; ± holds in 95 of 100")
        self.assertRegex(info, r"allocated +[\d.]+ MB ±[\d.]+ MB in [\d,]+ ±[\d,]+ blocks")
        self.assertRegex(info, r"live at end +[\d.]+ MB ±[\d.]+ MB in [\d,]+ ±[\d,]+ blocks")
        report = Run([CAIRN, "report", path]).text
        self.assertRegex(report, r"MB ±[\d.]+ MB of alloc in [\d,]+ sampled allocations")
        self.assertIn("because blocks were sampled", report)
        self.assertNotIn("variance", report + info)
        for metric in METRICS:
            self.assertEqual(Run([CAIRN, "report", "--metric", metric, path]).status, 0, metric)

    def test_merge_and_export(self):
        recorded = self.sample([program("allocs"), "mix"], counted=False)
        path, both = recorded.profile.path, os.path.join(self.folder, "both")
        self.assertEqual(Run([CAIRN, "merge", "-o", both, path, path]).status, 0)
        merged = Profile(both).info["alloc"]
        self.assertEqual(merged["allocated"], 2 * recorded.sums["allocated"])
        # Twice the variance: the error grows by the root of two.
        for name in ("allocated", "allocations"):
            self.assertAlmostEqual(merged["error"][name] / recorded.sums["error"][name], 2 ** 0.5, delta=0.02)
        for form in ("pprof", "csv", "folded"):
            export = Run([CAIRN, "export", "-f", form, "-o", both + "." + form, path])
            self.assertEqual(export.status, 0, export.words)
        with open(both + ".csv", encoding="utf-8") as file:
            self.assertNotIn("variance", file.read())

    def test_diff_of_the_same_is_no_change(self):
        paths = []
        for i in range(2):
            recorded = self.sample([program("allocs"), "mix"], counted=False)
            paths.append(os.path.join(self.folder, f"run{i}"))
            shutil.copy(recorded.profile.path, paths[-1])
        for metric in ("alloc", "allocs"):
            run = Run([CAIRN, "diff", "--json", "--metric", metric, "--confidence", "99.9", *paths])
            diff = json.loads(run.text)
            self.assertFalse(diff["exact"])
            self.assertEqual([row for row in diff["rows"] if row["significant"]], [])

    def test_bad_input(self):
        for event, word in (("alloc:0", "no distance"), ("alloc:x", "no distance"), ("alloc:", "no distance"),
                            ("alloc:2G", "no distance"), ("alloc:-5", "no distance"),
                            ("io:5", "no period"), ("alloc:5 -e alloc", "twice")):
            run = Run([CAIRN, "record", "-e", *event.split(), "-o", os.path.join(self.folder, "p"), "true"])
            self.assertEqual(run.status, 2, event)
            self.assertEqual(len(run.words.splitlines()), 1, run.words)
            self.assertIn(word, run.words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
