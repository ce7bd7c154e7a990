# SPDX-License-Identifier: MIT
"""Trees that forget: fixed memory, every hot context found, every count within its bounds."""

import json
import math
import os
import subprocess
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, shares

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")
MANY = ("60000", "9")  # paths and their depth: 600,000 calls in some 150,000 contexts
CALLS = 60000 * 10 + 1


class HotTest(LiveTest):
    def build(self, *, followed):
        target = self.file("followed" if followed else "plain")
        run = Run([*((CAIRN, "cc") if followed else ()), "gcc", "-O2", "-g",
                   "-fno-optimize-sibling-calls", "-o", target,
                   os.path.join(SOURCES, "contexts.c")])
        self.assertEqual(run.status, 0, run.words)
        return target

    def calls(self, program, *options):
        run, profile = self.record([program, *MANY], "-e", "calls", *options, timeout=240)
        self.assertEqual(run.status, 0, run.words)
        return profile

    def counts(self, profile, *options):
        """{path: (count, error)} of all contexts that a report has, by functions and call lines."""
        report = profile.report("--min", "0", *options)
        paths, counts = {}, {}
        for node in report["nodes"]:
            path = paths.get(node["parent"], ()) + ((node["function"], node["call_line"]),)
            paths[node["id"]] = path
            error = node["error"][0] if node["error"] else 0
            counts[path] = (node["self"][0], error)
        return report, counts

    def compare(self, exact, approx, *options):
        done = subprocess.run([CAIRN, "compare", exact.path, approx.path, "--json", *options],
                              capture_output=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def whole(self, profile, *options):
        """All that a report speaks of: what it shows, and what is outside."""
        report = profile.report("--min", "0", *options)
        shown = report["nodes"][0]["total"][0]
        self.assertEqual(shown + report["outside"], report["whole"] + report["made_up"])
        return report["whole"]

    def refuse(self, *options, says):
        """Misused: one line that says what would work, status 2, and nothing was run."""
        run = Run([CAIRN, "record", *options, "touch", "ran"], cwd=self.folder)
        self.assertEqual(run.status, 2, run.words)
        self.assertEqual(len(run.words.splitlines()), 1, run.words)
        self.assertIn(says, run.words)
        self.assertEqual(os.listdir(self.folder), [])


class ExactAgainstHot(HotTest):
    PHI = 1e-3

    def check_bounds(self, miner):
        program = self.build(followed=True)
        exact = self.calls(program)
        hot = self.calls(program, "--tree", f"hot:{self.PHI}", "--miner", miner)
        _, truth = self.counts(exact)
        report, counts = self.counts(hot)
        self.assertEqual(sum(count for count, _ in truth.values()), CALLS)
        self.assertEqual(report["phi"], self.PHI)
        least = math.floor(self.PHI * CALLS)
        missing = [path for path, (count, _) in truth.items()
                   if count >= least and counts.get(path, (0, 0))[0] < least]
        self.assertEqual(missing, [], "hot contexts that were not found")
        self.assertGreater(sum(count >= least for count, _ in truth.values()), 50)
        for path, (count, error) in counts.items():
            if count == 0:
                continue  # there for the sake of others alone
            true = truth[path][0]
            self.assertTrue(count - error <= true <= count, f"{path}: {count} -{error}, {true}")
            self.assertLessEqual(error, self.PHI / 5 * CALLS)
        return exact, hot

    def test_space_saving(self):
        exact, hot = self.check_bounds("space-saving")
        self.assertEqual(self.whole(hot), CALLS)
        self.assertEqual(hot.info["tree"], "hot:0.001,0.0002")
        use = hot.info["hot"]
        self.assertEqual((use["counters"], use["counters_used"], use["total"]), (5000, 5000, CALLS))
        self.assertEqual(use["error_bound"], CALLS // 5000)
        self.assertLessEqual(use["largest_error"], use["error_bound"])
        self.assertLessEqual(use["floor"], use["error_bound"])
        # A node has 32 bytes; ancestors and edges take no more than as much again.
        self.assertLess(hot.info["tree_bytes"], 5000 * 64 + (256 << 10))
        self.assertLess(hot.info["tree_bytes"] * 8, exact.info["tree_bytes"])
        compared = self.compare(exact, hot)
        self.assertEqual(compared["phi"], self.PHI)
        self.assertEqual(compared["false_negatives"], 0)
        self.assertEqual(compared["hot_edge_coverage"]["0.01"], 1)
        self.assertEqual(compared["scale"], 1)
        # What a report shows is compared, or all that has a counter.
        shown, monitored = compared["approx"], self.compare(exact, hot, "--monitored")["approx"]
        _, counts = self.counts(hot)
        self.assertEqual(shown["contexts"], sum(count > 0 for count, _ in counts.values()))
        self.assertEqual(shown["contexts"] + shown["pruned"], 5000)
        self.assertEqual((monitored["contexts"], monitored["pruned"]), (5000, 0))
        self.assertEqual(shown["total"], monitored["total"])

    def test_lossy_counting(self):
        exact, hot = self.check_bounds("lossy")
        self.assertEqual(hot.info["tree"], "hot:0.001,0.0002,lossy")
        self.assertEqual(self.compare(exact, hot)["false_negatives"], 0)

    def test_sticky_sampling(self):
        program = self.build(followed=True)
        exact = self.calls(program)
        hot = self.calls(program, "--tree", f"hot:{self.PHI}", "--miner", "sticky")
        self.assertEqual(hot.info["tree"], "hot:0.001,0.0002,sticky")
        # Right with a probability of 99.99 %, for each hot context.
        self.assertLessEqual(self.compare(exact, hot)["false_negatives"], 1)

    def test_phi_of_a_report(self):
        """More may be left out than was recorded, and never less."""
        program = self.build(followed=True)
        exact = self.calls(program)
        hot = self.calls(program, "--tree", f"hot:{self.PHI}")
        least = math.floor(0.01 * CALLS)
        _, truth = self.counts(exact, "--phi", "0.01")
        report, counts = self.counts(hot, "--phi", "0.01")
        hottest = {path for path, (count, _) in truth.items() if count >= least}
        self.assertGreater(len(hottest), 3)
        self.assertLessEqual(hottest, set(counts))
        self.assertGreater(report["outside"], 0)
        self.assertEqual(self.whole(hot, "--phi", "0.01"), CALLS)
        refused = Run([CAIRN, "report", hot.path, "--phi", "1e-4"])
        self.assertEqual(refused.status, 2)
        self.assertIn("--phi takes 0.001 and more", refused.words)
        self.assertEqual(len(refused.words.splitlines()), 1)

    def test_bursts_fill_a_hot_tree(self):
        """Calls in bursts go into a hot tree, too."""
        program = self.build(followed=True)
        hot = self.calls(program, "--tree", "hot:0.01", "--burst", "2ms/500us")
        self.assertEqual(hot.info["tree"], "hot:0.01,0.002")

    def test_the_text_says_what_is_left_out(self):
        # A hot context that comes late has to take over a counter that counted others before.
        run, hot = self.record([self.build(followed=True), *MANY, "0", "5000"], "-e", "calls",
                               "--tree", "hot:1e-3")
        self.assertEqual(run.status, 0, run.words)
        text = Run([CAIRN, "report", hot.path]).text
        self.assertIn("contexts with at least 0.1 % of the total, and their callers", text)
        self.assertIn("lies outside of them", text)
        self.assertRegex(text, r"0\.8 % (±|\+-)0\.0\d .*f7")
        info = Run([CAIRN, "info", hot.path]).text
        self.assertIn("5,000 of 5,000 counters in use", info)
        self.assertIn("by space-saving", info)


class WhileItRuns(HotTest):
    def test_a_changing_tree_is_read_all_the_time(self):
        """A tree that changes all the time can be read all the time, and is exact in the end."""
        path, stop = self.file("growing.cairn"), self.file("stop")
        program = self.build(followed=True)
        recorder = subprocess.Popen(
            [CAIRN, "record", "-q", "-o", path, "-e", "calls", "--tree", "hot:1e-3", "--", program,
             "1000", "9", "0", "0", stop], stdout=subprocess.PIPE, text=True)
        wholes, tries = set(), 0
        while recorder.poll() is None:
            tries += 1
            if len(wholes) == 3 or tries == 1000:
                self.file("stop", "")
            done = subprocess.run([CAIRN, "report", path, "--json", "--min", "0"],
                                  capture_output=True, timeout=120)
            if done.returncode != 0:  # not yet there, or there is no name for anything yet
                continue
            report = json.loads(done.stdout)
            self.assertEqual([note for note in report["notes"] if "damaged" in note], [])
            if report["whole"] and len(wholes) < 3:
                wholes.add(report["whole"])
        paths = int(recorder.communicate()[0].split()[0])
        self.assertEqual(recorder.returncode, 0)
        self.assertEqual(self.whole(Profile(path)), paths * 10 + 1)
        self.assertEqual(len(wholes), 3)
        # What moves while it is read may be seen twice, or not at all.
        self.assertLess(max(wholes), paths * 11)


class Samples(HotTest):
    RECURSE = "sub f { my $n = shift; return $n < 2 ? $n : f($n - 1) + f($n - 2) } f(25)"
    SNAKE = "f = lambda n: n if n < 2 else f(n - 1) + f(n - 2)\nf(27)"

    def check_sum(self, argv, *options):
        run, profile = self.record(argv, "-F", "5000", *options)
        self.assertEqual(run.status, 0, run.words)
        self.assertGreater(profile.samples, 30)
        self.assertEqual(profile.info["samples_unplaced"], 0)
        self.assertEqual(self.whole(profile), profile.info["cost_ns"])
        return profile

    @installed("perl")
    def test_perl(self):
        self.steadily(lambda: self.check_sum(["perl", "-e", self.RECURSE], "--tree", "hot"),
                      shares()(lambda profile: self.assertGreater(profile.below("main", "perl_run"), profile.info["cost_ns"] / 2)))

    @installed("python3")
    def test_python(self):
        for miner in ("space-saving", "lossy", "sticky"):
            with self.subTest(miner=miner):
                self.check_sum(["python3", "-S", "-c", self.SNAKE], "--tree", "hot:1e-3",
                               "--miner", miner)

    @installed("perl")
    def test_marker_off(self):
        self.check_sum(["perl", "-e", self.RECURSE], "--tree", "hot:0.01", "--marker", "off")

    @installed("perl")
    def test_bounded_trees_take_samples(self):
        for options in (("bounded",), ("bounded:2", "--tree-memory", "16k"),
                        ("bounded:3", "--tree-memory", "16k", "--purge", "all"), ("functions",)):
            with self.subTest(options=options):
                profile = self.check_sum(["perl", "-e", self.RECURSE], "--tree", *options)
                self.assertTrue(profile.info["tree"].startswith(options[0]))

    def test_cut_paths_are_told(self):
        """Paths deeper than K are cut, and a report says so."""
        program = self.build(followed=False)
        profile = self.check_sum([program, "4000", "40", "500"], "--tree", "bounded:3")
        text = Run([CAIRN, "report", profile.path]).text
        self.assertIn("(detached)", text)
        self.assertIn("the callers of f are not known", text)

    def test_a_small_buffer_loses_no_cost(self):
        """A small buffer forgets contexts, and no cost."""
        program = self.build(followed=False)
        for purge in ("age", "all"):
            with self.subTest(purge=purge):
                profile = self.check_sum([program, "40000", "12", "200"], "--tree", "bounded:16",
                                         "--tree-memory", "16k", "--purge", purge)
                self.assertGreater(profile.info["purged"], 0)

    def test_sampled_calls(self):
        """Stack samples at every N-th call go into any tree."""
        program = self.build(followed=True)
        for tree in ("hot:0.01", "bounded", "functions"):
            with self.subTest(tree=tree):
                run, profile = self.record([program, *MANY], "-e", "calls:59", "--tree", tree)
                self.assertEqual(run.status, 0, run.words)
                self.assertGreater(profile.samples, CALLS // 59 - 100)
                self.assertGreater(self.whole(profile), 0)


class FixedMemory(HotTest):
    """--memory on a full tree is a promise: it goes on as a hot one, and loses nothing."""

    def record_aloud(self, argv, *options):
        path = self.file("limited.cairn")
        run = Run([CAIRN, "record", "-o", path, "--memory", "1M", *options, "--json", "--", *argv],
                  cwd=self.folder, timeout=240)
        self.assertEqual(run.status, 0, run.words)
        return json.loads(run.words), Profile(path)

    def check_note(self, said, profile):
        self.assertTrue(said["memory_limit_reached"])
        notes = [note for note in profile.info["notes"] if "memory limit was reached" in note]
        self.assertEqual(len(notes), 1, profile.info["notes"])
        self.assertEqual(profile.info["tree"], "full")
        self.assertLessEqual(profile.info["tree_bytes"], 1 << 20)

    def test_samples_stay_within_the_memory(self):
        program = self.build(followed=False)
        # Deep paths: a tenth of the samples would fill the tree, however fast the machine is.
        said, profile = self.record_aloud([program, "50000", "100", "500"], "-F", "10000")
        self.check_note(said, profile)
        # All are there; where not even one path more finds room, a caller has them.
        self.assertLess(said["samples_unplaced"], said["samples"] / 50)
        self.assertEqual(said["samples_lost"], 0)
        self.assertEqual(self.whole(profile), profile.info["cost_ns"])

    def test_calls_stay_within_the_memory(self):
        program = self.build(followed=True)
        said, profile = self.record_aloud([program, *MANY], "-e", "calls")
        self.check_note(said, profile)
        self.assertEqual(said["samples_unplaced"], 0)
        self.assertEqual(said["calls"], CALLS)
        self.assertEqual(self.whole(profile), CALLS)
        exact = self.calls(program)
        _, truth = self.counts(exact)
        _, counts = self.counts(profile)
        for path, (count, error) in counts.items():
            if count:
                true = truth[path][0]
                self.assertTrue(count - error <= true <= count, f"{path}: {count} -{error}, {true}")


class Misuse(HotTest):
    def test_shares_that_are_none_are_refused(self):
        for share in ("0", "1", "-1", "2", "nan", "much", ""):
            with self.subTest(share=share):
                self.refuse("--tree", f"hot:{share}", says="hot:")
                self.refuse("--tree", f"hot:1e-4,{share}", says="hot:")
        self.refuse("--tree", "hot:1e-4,1e-4", says="smaller than PHI, 0.0001")
        self.refuse("--tree", "hot:1e-4,1e-3", says="2e-05")
        self.refuse("--tree", "hot:1e-12", says="the smallest EPS is 1e-08")

    def test_too_little_memory_is_refused(self):
        self.refuse("--tree", "hot", "--memory", "1M", says="--memory 4M would do")
        run, _ = self.record(["true"], "--tree", "hot", "--memory", "4M")
        self.assertEqual(run.status, 0, run.words)

    def test_depths_that_are_none_are_refused(self):
        for depth in ("0", "-1", "1.5", "many", ""):
            with self.subTest(depth=depth):
                self.refuse("--tree", f"bounded:{depth}", says="from 1 to 4096")
        self.refuse("--tree", "bounded", "--tree-memory", "1k", says="--tree-memory 16k at least")
        self.refuse("--tree", "bounded", "--tree-memory", "9M", "--memory", "1M", says="--memory 10M")
        self.refuse("--tree", "bounded", "--purge", "some", says="age or all")

    def test_what_does_not_go_together(self):
        self.refuse("--tree", "oak", says="oak")
        self.refuse("--tree", "functions:3", says="no number")
        self.refuse("--miner", "lossy", says="--tree hot")
        self.refuse("--tree", "hot", "--miner", "gold", says="gold")
        self.refuse("--purge", "all", says="--tree bounded")
        self.refuse("--tree-memory", "1M", says="--tree bounded")
        for tree in ("bounded", "functions"):
            self.refuse("--tree", tree, "--track", "calls", says="for samples")
            self.refuse("--tree", tree, "-e", "calls", says="for samples")

    def test_shares_of_a_report_that_are_none_are_refused(self):
        run, profile = self.record(["true"])
        for phi in ("0", "1", "-1", "much", ""):
            with self.subTest(phi=phi):
                run = Run([CAIRN, "report", profile.path, "--phi", phi])
                self.assertEqual(run.status, 2)
                self.assertIn("--phi", run.words)


if __name__ == "__main__":
    unittest.main()
