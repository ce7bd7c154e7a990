# SPDX-License-Identifier: MIT
"""Bounded trees: a few frames a sample, a fixed buffer, and nothing is lost without being counted."""

import unittest

from support import MARKERS, LiveTest, installed, program, shares

DETACHED = "(detached)"

# Parses and compiles: several times the contexts that the smallest buffer has room for.
PARSE = ("import ast, decimal, json, re\n"
         "for module in (re, ast, decimal, json):\n"
         "    tree = ast.parse(open(module.__file__).read())\n"
         "    compile(tree, 'module', 'exec')\n"
         "    print(len(json.dumps(ast.dump(tree))))\n")


class BoundedTest(LiveTest):
    def bounded(self, argv, *options, depth=16, rate="1000", **how):
        run, profile = self.record(argv, "--tree", f"bounded:{depth}", "-F", rate, *options, **how)
        self.assertEqual(profile.info["tree"], f"bounded:{depth}")
        return run, profile

    def weighed(self, argv, judge, *options, native=None, **how):
        """A recording of which the judge says what shares it has: see steadily()."""
        def life():
            run, profile = self.bounded(argv, *options, **how)
            self.assertEqual(run.status, 0, run.words)
            if native is not None:
                self.assert_same(run, native)
            self.assert_whole(profile)
            return run, profile

        return self.steadily(life, lambda recorded: judge(*recorded))[1]

    def assert_whole(self, profile):
        """What is shown and what was purged is all that was charged."""
        report = profile.report("--min", "0")
        shown = sum(node["self"][0] for node in report["nodes"])
        self.assertEqual(shown + report["purged"], report["whole"])
        return report["purged"]

    def cost(self, profile, name):
        """Of contexts with this function: (those that hang from the root, those that are detached)."""
        costs = [0, 0]
        for node in profile.nodes:
            path = node.path()
            if name in path:
                costs[DETACHED in path] += node.own
        return costs


class Depth(BoundedTest):
    def test_deep_recursion(self):
        """However deep the stack, no sample walks more than K frames, and the nearest are right."""
        argv = [program("recursion"), "20000"]
        native = self.native(argv)
        for marker in MARKERS:
            for depth in (1, 16, 50):
                with self.subTest(marker=marker, depth=depth):
                    def judge(_, profile):
                        self.assert_sampled(profile, 100)
                        attached, detached = self.cost(profile, "burn")
                        with shares():
                            self.assertGreater(detached, 0.95 * profile.total)
                            self.assertLess(attached, 0.05 * profile.total)
                        if depth > 2:
                            with shares():
                                self.assertGreater(profile.below("bottom", "burn"), 0.95 * profile.total)

                    profile = self.weighed(argv, judge, marker, native=native, depth=depth)
                    self.assertLessEqual(profile.info["frames_per_sample"]["walked"], depth)
                    if depth > 2:
                        self.assert_calls(profile, "recursion", {
                            "": "even_depth odd_depth bottom burn dive",
                            "dive": "even_depth", "even_depth": "odd_depth bottom",
                            "odd_depth": "even_depth", "bottom": "burn"})

    def test_shallow_stacks_are_whole(self):
        """Where K frames reach the root, contexts and shares are those of the full tree."""
        for marker in MARKERS:
            with self.subTest(marker=marker):
                def judge(run, profile):
                    spent = [line.rsplit(" ", 1) for line in run.text.splitlines()]
                    total = sum(int(ns) for _, ns in spent)
                    for path, ns in spent:
                        names = []
                        for part in path.split(";"):
                            name, _, times = part.partition("*")
                            names += [name] * int(times or 1)
                        if "share_recursive" not in names:
                            self.assert_share(profile, int(ns) / total, *names, slack=0.02)
                    self.assert_complete(profile)
                    self.assertFalse(profile.named(DETACHED))

                self.weighed([program("shares")], judge, marker, depth=32)

    def test_contexts_after_a_gap(self):
        """A plunge of more than K frames is detached; what comes after it on the old stack is not."""
        for marker in MARKERS:
            with self.subTest(marker=marker):
                def judge(_, profile):
                    near, near_detached = self.cost(profile, "near")
                    bottom, bottom_detached = self.cost(profile, "bottom")
                    # The clock may tick on the way down, or where the stem grows.
                    self.assertGreater(near, 20 * near_detached)
                    self.assertGreater(bottom_detached, 20 * bottom)
                    self.assert_share(profile, 0.48, "near", slack=0.03)

                profile = self.weighed([program("depths")], judge, marker)
                stems = {node.path().count("stem") for node in profile.named("near")
                         if DETACHED not in node.path()}
                self.assertEqual(stems, {40})

    def test_new_calls_weigh(self):
        """The weight of an edge tells a function that is called often from one that takes long."""
        def judge(_, profile):
            report = profile.report("--min", "0")
            self.assertEqual([metric["unit"] for metric in report["metrics"]], ["ns", "edge"])
            edges = {}
            for data in report["nodes"]:
                own, edge = edges.get(data["function"], (0, 0))
                edges[data["function"]] = (own + data["total"][0], edge + data["self"][1])
            # burn() is called anew for each sample; near() is called once in three milliseconds.
            self.assertGreater(edges["burn"][1], 0.8 * edges["burn"][0])
            self.assertLess(edges["near"][1], 0.7 * edges["near"][0])

        self.weighed([program("depths")], judge, "--marker=on")


class WholePaths(BoundedTest):
    """A number tells the whole path: K bounds what a sample adds to the tree, not what it knows."""

    ENCODE = ("--track", "encode")

    def test_paths_become_whole(self):
        """What is deeper than K and comes again hangs from the root, where a walk leaves it detached."""
        for depth in (1, 4, 16):
            with self.subTest(depth=depth):
                def judge(_, profile):
                    near, near_detached = self.cost(profile, "near")
                    self.assertGreater(near, 0.5 * (near + near_detached))

                profile = self.weighed([program("depths")], judge, *self.ENCODE, depth=depth)
                stems = {node.path().count("stem") for node in profile.named("near")
                         if DETACHED not in node.path()}
                self.assertEqual(stems, {40})

    def test_shallow_stacks_are_whole(self):
        def judge(_, profile):
            self.assert_complete(profile)
            self.assertFalse(profile.named(DETACHED))

        self.weighed([program("shares")], judge, *self.ENCODE, depth=32)

    def test_beginnings_are_whole(self):
        """Before the program's first function the loader calls: whose first one nobody has called."""
        samples = 0
        for _ in range(3):
            _, profile = self.bounded(["true"], *self.ENCODE, depth=32, rate="10000")
            samples += profile.samples
            self.assertFalse(profile.named(DETACHED))
        self.assertGreater(samples, 0)

    def test_hostile_programs_have_whole_paths(self):
        for argv in ([program("handlers"), "plain"], [program("handlers"), "alternate"],
                     [program("jumps"), "handler"], [program("recursion"), "20000"]):
            native = self.native(argv)
            with self.subTest(argv=argv):
                self.weighed(argv, lambda _, profile: self.assertGreater(profile.samples, 50), *self.ENCODE, native=native,
                             depth=3, rate="10000")

    @installed("/usr/bin/python3")
    def test_purging_keeps_whole_paths(self):
        argv = ["/usr/bin/python3", "-c", PARSE]
        native = self.native(argv)
        for purge in ("age", "all"):
            with self.subTest(purge=purge):
                run, profile = self.bounded(argv, *self.ENCODE, "--purge", purge, "--tree-memory",
                                            "16k", "--verify", depth=16, rate="4000")
                self.assert_same(run, native)
                self.assertGreater(self.assert_whole(profile), 0)
                self.assertGreater(profile.info["encode"]["verified"], 100)
                self.assertEqual(profile.info["encode"]["mismatches"], 0)

    @installed("sqlite3")
    def test_blocks_far_from_the_marker_have_whole_paths(self):
        """Every block is a sample, from places that are hardly ever near the marker of the last one."""
        argv = ["sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i+1 from n "
                "where i<20000) select sum(length(i||'x')) from n;"]
        native = self.native(argv)
        for options in (self.ENCODE, ("--track", "walk")):
            with self.subTest(options=options):
                run, profile = self.record(argv, "-e", "alloc", "--tree", "bounded:6", *options)
                self.assert_same(run, native)
                self.assert_whole(profile)
                self.assertGreater(profile.info["walks"]["complete_pct"], 90)


class Hostile(BoundedTest):
    def test_handlers_and_jumps(self):
        """A sample that is cut off does not see what is at work further up: the marker's stub, say."""
        for argv in ([program("handlers"), "plain"], [program("handlers"), "alternate"],
                     [program("jumps"), "handler"]):
            native = self.native(argv)
            for marker in MARKERS:
                with self.subTest(argv=argv, marker=marker):
                    self.weighed(argv, lambda _, profile: self.assert_sampled(profile, 100), marker, native=native,
                                 depth=3, rate="10000")


class Memory(BoundedTest):
    @installed("/usr/bin/python3")
    def test_a_full_buffer_forgets_and_sums_stay_right(self):
        """A full buffer forgets, by age or whole: the program does not notice and sums stay right."""
        argv = ["/usr/bin/python3", "-c", PARSE]
        native = self.native(argv)
        for purge in ("age", "all"):
            for marker in MARKERS:
                with self.subTest(purge=purge, marker=marker):
                    run, profile = self.bounded(argv, marker, "--purge", purge, "--tree-memory",
                                                "16k", rate="5000")
                    self.assert_same(run, native)
                    self.assert_sampled(profile, 100)
                    self.assertGreater(self.assert_whole(profile), 0)
                    self.assertEqual(profile.info["samples_lost"], 0)

    @installed("/usr/bin/python3")
    def test_python(self):
        """A program with deep and wide stacks in the default buffer: nothing need be forgotten."""
        script = ("def down(n):\n"
                  "    return down(n - 1) if n else sum(i * i for i in range(30000))\n"
                  "for i in range(40): down(i * 20 % 800)\n"
                  "print(sorted(map(str, range(100000)))[5])\n")
        argv = ["/usr/bin/python3", "-c", script]
        native = self.native(argv)
        for marker in MARKERS:
            with self.subTest(marker=marker):
                run, profile = self.bounded(argv, marker, rate="5000")
                self.assert_same(run, native)
                self.assert_sampled(profile, 50)
                self.assertEqual(self.assert_whole(profile), 0)


class Functions(BoundedTest):
    def test_functions_have_one_counter_each(self):
        """One counter per function, and no contexts."""
        def count():
            run, profile = self.record([program("shares")], "--tree", "functions", "-F", "1000")
            self.assertEqual(run.status, 0, run.words)
            return profile

        # Twelve questions for the time go with each turn of 130 units: a twentieth of all, or some more.
        profile = self.steadily(count, shares()(lambda profile: self.assertGreater(profile.named("burn")[0].own, 0.9 * profile.total)))
        self.assertEqual(profile.info["tree"], "functions")
        self.assertLessEqual(profile.info["frames_per_sample"]["walked"], 1)
        self.assert_whole(profile)
        burn = profile.named("burn")
        self.assertEqual(len(burn), 1)
        for node in profile.nodes:
            self.assertLessEqual(len(node.path()), 2)

    def test_deep_recursion(self):
        def life():
            run, profile = self.record([program("recursion"), "100000"], "--tree", "hot-functions")
            self.assertEqual(run.status, 0, run.words)
            return profile

        def judge(profile):
            self.assert_sampled(profile, 100)
            with shares():
                self.assertGreater(profile.share("burn"), 0.95)

        self.steadily(life, judge)


if __name__ == "__main__":
    unittest.main()
