# SPDX-License-Identifier: MIT
"""Programs that ask cairn about themselves."""

import unittest

from support import CAIRN, LiveTest, Run, program

SHARES = {"alpha": 0.5, "beta": 0.3, "hidden": 0.2}


class Item:
    """What the program was told of a context, an edge or a function."""

    def __init__(self, words):
        self.value, self.total, self.error, self.depth = map(int, words[1:5])
        self.path = words[5].split("<")

    @property
    def name(self):
        return self.path[0]


def items(run, head):
    """The items that the program wrote down, in its order."""
    lines = [line.split() for line in run.words.splitlines()]
    return [Item(line) for line in lines if line and line[0] == head and len(line) == 6]


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
        self.assertAlmostEqual(share, expected, delta=tolerance, msg=what)

    def assert_shares(self, run, samples):
        functions = {item.name: item for item in items(run, "function")}
        whole = sum(item.value for item in functions.values())
        for name, share in SHARES.items():
            self.assert_near(functions[name].value / whole, share, samples, name)


class AskTest(ApiTest):
    """What is hot right now."""

    def check_answers(self, run, full=True):
        samples = number(run, "totals", 2)
        self.assertGreater(samples, 200)
        self.assert_shares(run, samples)
        # The same answers by context, by edge and by function, the hottest first.
        for kind in ("context", "edge", "function"):
            found = items(run, kind)
            values = [item.value for item in found]
            self.assertEqual(values, sorted(values, reverse=True), kind)
            self.assertEqual(number(run, kind + "-visited"), len(found))
            for item in found:
                self.assertGreaterEqual(item.total, item.value)
        self.assertEqual(items(run, "first")[0].name, "alpha")
        self.assertEqual(number(run, "first-visited"), 1)
        # alpha was called from two places.
        by_place = sorted(item.value for item in items(run, "edge") if item.name == "alpha")
        self.assertEqual(len(by_place), 2)
        self.assert_near(by_place[0] / sum(by_place), 0.4, samples / 2, "alpha by day")
        paths = {(item.name, item.path[1]): item for item in items(run, "context")}
        self.assertIn(("alpha", "by_day"), paths)
        self.assertIn(("beta", "by_night"), paths)
        if full:
            for item in items(run, "context"):
                self.assertEqual(item.depth, len(item.path))
                self.assertEqual(item.path[-1], "_start")
                self.assertEqual(item.error, 0)

    def test_of_itself(self):
        self.check_answers(self.run_program("api", "ask"))

    def test_totals_are_the_cpu_time(self):
        run = self.run_program("api", "ask")
        told = sum(item.value for item in items(run, "context"))
        self.assertLessEqual(told, number(run, "totals"))
        self.assertGreater(told, 0.95 * number(run, "totals"))

    def test_without_a_marker(self):
        self.check_answers(self.run_program("api", "ask", "rate=4000 marker=off"))

    def test_with_every_source(self):
        for source in ("sigtrap", "signal"):
            with self.subTest(source=source):
                self.check_answers(self.run_program("api", "ask", "rate=4000 source=" + source))

    def test_under_record(self):
        """Linked or not, a program that is recorded asks about that recording."""
        for name in ("api", "api-alone"):
            with self.subTest(name=name):
                run, profile = self.record([program(name), "ask"], "-F", "4000")
                self.assertEqual(run.status, 0, run.words)
                self.check_answers(run)
                # What it was told is what the profile has.
                told = {item.name: item.value for item in items(run, "function")}
                for function in SHARES:
                    self.assertAlmostEqual(profile.below(function) / told[function], 1, delta=0.05)

    def test_without_cairn(self):
        """A program that was built without libcairn, and is run without: every call does nothing."""
        for mode in ("ask", "threads", "pause", "fork", "storm", "signals"):
            with self.subTest(mode=mode):
                run = self.run_program("api-alone", mode)
                self.assertFalse(items(run, "function"))
        run = self.run_program("api-fixed", "ask")
        self.assertEqual(number(run, "function-visited"), 0)


class StartTest(ApiTest):
    """Start and stop."""

    def test_threads_that_run_already(self):
        run = self.run_program("api", "threads")
        functions = {item.name: item for item in items(run, "function")}
        for name in ("alpha", "beta", "gamma_work"):
            self.assertIn(name, functions)
        values = [functions[name].value for name in ("alpha", "beta", "gamma_work")]
        self.assertLess(max(values), 2 * min(values)) # the same work each, all of it seen

    def test_pauses(self):
        run = self.run_program("api", "pause")
        functions = {item.name: item.value for item in items(run, "function")}
        # Six times the work of gamma, in the pauses: a tick may end each, no more.
        self.assertLess(functions.get("beta", 0), 0.2 * functions["gamma_work"])
        self.assert_near(functions["alpha"] / (functions["alpha"] + functions["gamma_work"]),
                         2 / 3, 100, "alpha")

    def test_pauses_under_record(self):
        run, profile = self.record([program("api"), "pause"], "-F", "4000")
        self.assertEqual(run.status, 0, run.words)
        self.assertLess(profile.below("beta"), 0.2 * profile.below("gamma_work"))
        self.assertGreater(profile.below("alpha"), profile.below("gamma_work"))

    def test_children(self):
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
        for tree in ("full",):
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


if __name__ == "__main__":
    unittest.main()
