# SPDX-License-Identifier: MIT
"""Programs that ask cairn about themselves."""

import os
import unittest

from support import CAIRN, LiveTest, Run, program, shares


def example(name):
    return os.path.join(os.environ.get("CAIRN_EXAMPLES", program("../../examples")), name)


SHARES = {"alpha": 0.5, "beta": 0.3, "hidden": 0.2}


class Item:
    """What the program was told of a context, an edge or a function."""

    def __init__(self, words):
        self.value, self.total, self.error, self.weight, self.depth = map(int, words[1:6])
        self.path = words[6].split("<")

    @property
    def name(self):
        return self.path[0]


def items(run, head):
    """The items that the program wrote down, in its order."""
    lines = [line.split() for line in run.words.splitlines()]
    return [Item(line) for line in lines if line and line[0] == head and len(line) == 7]


def number(run, head, position=1):
    for line in run.words.splitlines():
        words = line.split()
        if words and words[0] == head:
            return int(words[position])
    raise AssertionError(f"no word of {head}: {run.words}")


class ApiTest(LiveTest):
    def run_program(self, name, *arguments):
        run = Run([program(name), *arguments], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertEqual(run.text, f"done {arguments[0]}\n")
        return run

    def assert_near(self, share, expected, samples, what):
        tolerance = 4.5 * (expected * (1 - expected) / samples) ** 0.5 + 0.02
        with shares():
            self.assertAlmostEqual(share, expected, delta=tolerance, msg=what)

    def assert_shares(self, run, samples):
        functions = {item.name: item for item in items(run, "function")}
        whole = sum(item.value for item in functions.values())
        for name, share in SHARES.items():
            self.assert_near(functions[name].value / whole, share, samples, name)


class AskTest(ApiTest):
    """What is hot right now."""

    def answers(self, ask, full=True):
        """What ask() was told: facts each time, shares of time steadily."""
        def life():
            run = ask()
            self.check_answers(run, full)
            return run

        return self.steadily(life, lambda run: self.check_shares(run, full))

    def check_shares(self, run, full=True):
        samples = number(run, "totals", 2)
        self.assertGreater(samples, 200)
        self.assert_shares(run, samples)
        by_place = sorted(item.value for item in items(run, "edge") if item.name == "alpha")
        self.assert_near(by_place[0] / sum(by_place), 0.4, samples / 2, "alpha by day")
        with shares():
            self.assertEqual(items(run, "first")[0].name, "alpha")
        if full:
            for item in items(run, "context"):
                self.assertEqual(item.path[-1], "_start")

    def check_answers(self, run, full):
        # The same answers by context, by edge and by function, the hottest first.
        for kind in ("context", "edge", "function"):
            found = items(run, kind)
            values = [item.value for item in found]
            self.assertEqual(values, sorted(values, reverse=True), kind)
            self.assertEqual(number(run, kind + "-visited"), len(found))
            for item in found:
                self.assertGreaterEqual(item.total, item.value)
        self.assertEqual(number(run, "first-visited"), 1)
        # alpha was called from two places.
        self.assertEqual(sum(item.name == "alpha" for item in items(run, "edge")), 2)
        paths = {(item.name, item.path[1]): item for item in items(run, "context")}
        self.assertIn(("alpha", "by_day"), paths)
        self.assertIn(("beta", "by_night"), paths)
        if full:
            for item in items(run, "context"):
                self.assertEqual(item.depth, len(item.path))
                self.assertEqual(item.error, 0)

    def test_of_itself(self):
        self.answers(lambda: self.run_program("api", "ask"))

    def test_totals_are_the_cpu_time(self):
        def life():
            run = self.run_program("api", "ask")
            told = sum(item.value for item in items(run, "context"))
            self.assertLessEqual(told, number(run, "totals"))
            return told / number(run, "totals")

        self.steadily(life, shares()(lambda share: self.assertGreater(share, 0.95)))

    def test_without_a_marker(self):
        self.answers(lambda: self.run_program("api", "ask", "rate=4000 marker=off"))

    def test_with_every_source(self):
        for source in ("sigtrap", "signal"):
            with self.subTest(source=source):
                self.answers(lambda: self.run_program("api", "ask", "rate=4000 source=" + source))

    def shared(self, options):
        return self.steadily(lambda: self.run_program("api", "ask", options),
                             lambda run: self.assert_shares(run, number(run, "totals", 2)))

    def test_bounded_trees(self):
        """Edges have weights: how often a call was new."""
        run = self.shared("rate=4000 tree=bounded:16")
        weights = [item.weight for item in items(run, "edge")]
        self.assertEqual(weights, sorted(weights, reverse=True))
        self.assertGreater(weights[0], 0)

    def test_hot_trees(self):
        for miner in ("space-saving", "lossy", "sticky"):
            with self.subTest(miner=miner):
                self.answers(lambda: self.run_program("api", "ask", "rate=4000 tree=hot:1e-3 miner=" + miner),
                             full=False)

    def test_functions_alone(self):
        run = self.shared("rate=4000 tree=functions")
        self.assertTrue(all(item.depth == 1 for item in items(run, "context")))

    def test_under_record(self):
        """Linked or not, a program that is recorded asks about that recording."""
        for name in ("api", "api-alone"):
            with self.subTest(name=name):
                def ask():
                    run, self.profile = self.record([program(name), "ask"], "-F", "4000")
                    self.assertEqual(run.status, 0, run.words)
                    return run

                # What it was told is what the profile has.
                told = {item.name: item.value for item in items(self.answers(ask), "function")}
                for function in SHARES:
                    self.assertAlmostEqual(self.profile.below(function) / told[function], 1, delta=0.05)

    def test_from_cpp(self):
        run = Run([program("api-cpp")], cwd=self.folder)
        self.assertEqual((run.status, run.text), (0, "busy\n"))

    def test_without_cairn(self):
        """A program that was built without libcairn, and is run without: every call does nothing."""
        for mode in ("ask", "threads", "pause", "fork", "storm", "signals", "purge", "watch", "phases"):
            with self.subTest(mode=mode):
                run = self.run_program("api-alone", mode)
                self.assertFalse(items(run, "function"))
        run = self.run_program("api-fixed", "ask")
        self.assertEqual(number(run, "function-visited"), 0)
        run = Run([program("api-alone"), "refuse", "rate=100"], cwd=self.folder)
        self.assertEqual(run.words, "-38 not linked with libcairn, and not run by 'cairn record'\n")


class PurgeTest(ApiTest):
    """What was is forgotten."""

    def check(self, run):
        before, after = items(run, "before"), items(run, "after")
        self.assertNotIn("beta", {item.name for item in before})
        self.assertNotIn("alpha", {item.name for item in after})
        self.assertEqual(sum(item.name == "alpha" for item in before), 6)
        self.assertEqual(sum(item.name == "beta" for item in after), 6)
        self.assertFalse({"alpha", "beta"} & {item.name for item in items(run, "at-once")})

    def test_full_trees_start_afresh(self):
        run = self.run_program("api", "purge")
        self.check(run)
        # Two trees that take turns, not one for each purge.
        self.assertLess(number(run, "totals", 3), 20000)

    def test_bounded_trees_start_afresh(self):
        self.check(self.run_program("api", "purge", "rate=4000 tree=bounded:16"))

    def test_under_record(self):
        """The program starts afresh, the profile keeps all."""
        def life():
            run, profile = self.record([program("api"), "purge"], "-F", "4000")
            self.assertEqual(run.status, 0, run.words)
            self.check(run)
            return profile

        def judge(profile):
            self.assert_share(profile, 0.5, "alpha", slack=0.02)
            self.assert_share(profile, 0.5, "beta", slack=0.02)

        self.steadily(life, judge)


class WatchTest(ApiTest):
    """Thresholds."""

    def check(self, watch):
        def life():
            run = watch()
            self.check_facts(run)
            return run

        self.steadily(life, self.check_watched)

    def check_watched(self, run):
        """Which of them spend 50 ms of the 300."""
        functions = items(run, "watched-function")
        self.assertEqual(sorted(item.name for item in functions), ["alpha", "beta"])
        for item in functions:
            with shares():
                self.assertLess(item.value, 60000000) # told at once: a sample is 250 us
        paths = [tuple(item.path[:2]) for item in items(run, "watched-context")]
        self.assertEqual(sorted(paths[:3]), [("alpha", "by_day"), ("alpha", "by_night"),
                                             ("beta", "by_night")])
        self.assertEqual(number(run, "polled"), 5)
        self.assertEqual(number(run, "child-polled"), 1)

    def check_facts(self, run):
        functions, contexts = items(run, "watched-function"), items(run, "watched-context")
        for item in functions + contexts:
            self.assertGreaterEqual(item.value, 50000000)
        self.assertFalse(items(run, "never"))
        # The child is told of its contexts alone.
        self.assertEqual(len(functions) + len(contexts), number(run, "polled") + number(run, "child-polled"))
        self.assertGreater(number(run, "polled", 3), 0) # the descriptor rang
        # A child has its own counts and its own descriptor.
        self.assertEqual(number(run, "child-rung"), 1)
        self.assertEqual(number(run, "parent-rung"), 0)

    def test_of_itself(self):
        for tree in ("full", "hot:1e-3", "bounded:16"):
            with self.subTest(tree=tree):
                self.check(lambda: self.run_program("api", "watch", "rate=4000 tree=" + tree))

    def test_under_record(self):
        def watch():
            run, _ = self.record([program("api-alone"), "watch"], "-F", "4000")
            self.assertEqual(run.status, 0, run.words)
            return run

        self.check(watch)


class StartTest(ApiTest):
    """Start and stop."""

    def test_threads_that_run_already(self):
        def judge(run):
            functions = {item.name: item for item in items(run, "function")}
            values = [functions[name].value for name in ("alpha", "beta", "gamma_work")]
            with shares():
                self.assertLess(max(values), 2 * min(values)) # the same work each, all of it seen

        self.steadily(lambda: self.run_program("api", "threads"), judge)

    def test_nothing_is_seen_in_pauses(self):
        def judge(run):
            functions = {item.name: item.value for item in items(run, "function")}
            # Six times the work of gamma, in the pauses: a tick may end each, no more.
            with shares():
                self.assertLess(functions.get("beta", 0), 0.2 * functions["gamma_work"])
            self.assert_near(functions["alpha"] / (functions["alpha"] + functions["gamma_work"]),
                             2 / 3, 100, "alpha")

        self.steadily(lambda: self.run_program("api", "pause"), judge)

    def test_pauses_under_record(self):
        def life():
            run, profile = self.record([program("api"), "pause"], "-F", "4000")
            self.assertEqual(run.status, 0, run.words)
            return profile

        def judge(profile):
            with shares():
                self.assertLess(profile.below("beta"), 0.2 * profile.below("gamma_work"))
                self.assertGreater(profile.below("alpha"), profile.below("gamma_work"))

        self.steadily(life, judge)

    def test_children_go_on_in_memory_of_their_own(self):
        """A child of fork goes on recording, in memory of its own."""
        run = self.run_program("api", "fork")
        self.assertEqual(number(run, "child-running"), 1)
        child = {item.name: item.value for item in items(run, "child")}
        parent = {item.name: item.value for item in items(run, "parent")}
        self.assertIn("beta", child)
        self.assertNotIn("alpha", child)
        self.assertIn("alpha", parent)
        self.assertNotIn("beta", parent)

    def test_children_that_are_left_out(self):
        """follow-fork=no: the child does not record until it starts by itself."""
        run = self.run_program("api", "fork", "rate=4000 follow-fork=no")
        self.assertEqual(number(run, "child-running"), 0)
        self.assertFalse(items(run, "child"))
        again = {item.name: item.value for item in items(run, "again")}
        self.assertIn("gamma_work", again)
        self.assertNotIn("beta", again)

    def test_all_at_once(self):
        for tree in ("full", "hot:1e-3", "bounded:16", "functions"):
            with self.subTest(tree=tree):
                self.run_program("api", "storm", "rate=10000 tree=" + tree)
        run = Run([CAIRN, "record", "-q", "-F", "10000", "-o", self.file("storm"), "--",
                   program("api"), "storm"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)

    def test_signals_of_the_program(self):
        self.run_program("api", "signals")

    def test_what_is_refused(self):
        wrong = {
            "rate=0": "from 1 to 10000",
            "rate=20000": "from 1 to 10000",
            "period=1us": "from 100us to 1s",
            "tree=hot:2": "below 1",
            "tree=hot:0": "above 0",
            "tree=hot:1e-4,1e-3": "smaller than phi",
            "tree=hot:1e-4,1e-4": "smaller than phi",
            "tree=hot:1e-9": "5e-8",
            "tree=hot:1e-6 memory=1M": "memory is too small",
            "tree=bounded:0": "from 1 to 4096",
            "tree=bounded:4096 tree-memory=16k": "tree-memory is too small",
            "tree=maple": "trees are",
            "memory=1k": "from 1M",
            "event=calls": "by cairn record",
            "event=rain": "cpu and wall",
            "colour=red": "unknown option 'colour'",
            "rate=100 period=1ms": "one of them",
        }
        run = Run([program("api"), "refuse", *wrong], cwd=self.folder)
        lines = run.words.splitlines()
        self.assertEqual(len(lines), len(wrong))
        for line, (options, words) in zip(lines, wrong.items()):
            self.assertTrue(line.startswith("-22 "), options)
            self.assertIn(words, line)


class ExampleTest(LiveTest):
    """The interpreter that asks what to optimise."""

    def test_the_hot_function_is_chosen(self):
        native = self.native([example("interpreter-alone")])
        self.assertEqual((native.status, native.words), (0, ""))

        def life():
            run = self.native([example("interpreter")])
            self.assertEqual((run.status, run.out), (0, native.out))
            self.assertRegex(run.words, r"\Aoptimised steps: \d+ % of \d+ ms\n")
            return run

        self.steadily(life, shares()(lambda run: self.assertGreater(int(run.words.split()[2]), 60)))

    def test_under_record(self):
        run, _ = self.record([example("interpreter-alone")], "-F", "2000")
        self.assertEqual(run.status, 0)
        self.assertTrue(run.words.startswith("optimised steps: "), run.words)


if __name__ == "__main__":
    unittest.main()
