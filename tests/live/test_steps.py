# SPDX-License-Identifier: MIT
"""A signal's handler may come after any instruction, of the program and of ours: the processor steps through both, and
the handler calls functions. STEPS_ROUNDS=48 in the environment makes it come at more of them."""

import os
import unittest
from collections import defaultdict

import test_calls
import test_calls_sites
import test_encode

FUNCTIONS = set("left right alpha beta delta recurses hops lands sorts compare".split())
HELPERS = {"main", "judge", "note"}
ROUNDS = os.environ.get("STEPS_ROUNDS")


class Findings:
    """What the handler says of the contexts that it has interrupted: how often it was sure, and how often it was there at most."""

    def __init__(self, text):
        self.sure, self.most = defaultdict(int), defaultdict(int)
        self.edges = []
        for line in text.splitlines():
            context, other, count = line.split()
            if not line.startswith("/"):
                self.edges.append(line)
                continue
            for one in {context, other}:
                self.most[one] += int(count)
            if context == other:
                self.sure[context] += int(count)


class Calls:
    """Every call is counted once, in its context; those of the handler, too."""

    def assert_steps(self, rounds, how):
        run, profile = self.follow([self.build("steps.c"), ROUNDS or rounds, how])
        self.assertEqual(run.status, 0, run.words)
        self.assertEqual(profile.info["samples_lost"], 0)
        findings = Findings(run.text)
        run.out = "\n".join(findings.edges).encode()
        self.assert_edges(run, self.edges(profile, test_calls.MODES | HELPERS), ("anybody", "start"))
        seen = defaultdict(int)
        for node in profile.some("touch"):
            path = node.path()
            self.assertEqual(path[-2], "acts")
            seen["/" + "/".join(name for name in path if name in FUNCTIONS)] += node.calls
        wrong = [(context, findings.sure[context], seen[context], findings.most[context])
                 for context in set(seen) | set(findings.most)
                 if not findings.sure[context] <= seen[context] <= findings.most[context]]
        self.assertEqual(wrong, [])
        self.assertGreater(len(seen), 20)

    def calls_after_jumps(self, rounds, how, stride):
        run, profile = self.follow([self.build("steps.c"), str(rounds), how, "jumps", str(stride)])
        self.assertEqual(run.status, 0, run.words)
        calls = defaultdict(int)
        for node in profile.nodes:
            path = node.path()
            if node.name in FUNCTIONS and node.calls and "after" in path:
                calls["/".join(name for name in path[path.index("after"):] if name in FUNCTIONS)] += node.calls
        return calls

    def test_after_a_handler_has_jumped_out_of_a_hook(self):
        for rounds, how, stride in (150, "alone", 1), (20, "threads", 201):
            once = self.calls_after_jumps(1, how, 1)
            self.assertGreater(len(once), 20)
            with self.subTest(how):
                self.assertEqual(self.calls_after_jumps(rounds, how, stride),
                                 {context: count * rounds for context, count in once.items()})

    def test_that_are_known(self):
        self.assert_steps("8", "alone")

    def test_that_are_new(self):
        self.assert_steps("2", "threads")


class Entries(Calls, test_calls.CallsTest):
    pass


class Sites(Calls, test_calls_sites.SitesTest):
    def own(self, node):
        return node.module == "steps"


class Numbers(test_encode.EncodeTest, test_calls_sites.SitesTest):
    """Handlers in stubs and hooks leave the number as they have found it."""

    def assert_steps(self, how):
        program = self.build("steps.c")

        def life():
            counts = self.encode([program, ROUNDS or "4", how, "2000000"], "-F", "10000", same_output=False)
            self.assertEqual(counts["mismatches"], 0, counts)
            return counts

        self.steadily(life, lambda counts: self.assertGreater(counts["verified"], 100, counts))

    def test_each_instruction_alone(self):
        self.assert_steps("alone")

    def test_with_threads(self):
        self.assert_steps("threads")


if __name__ == "__main__":
    unittest.main()
