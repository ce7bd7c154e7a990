# SPDX-License-Identifier: MIT
"""Signal handlers of the program: long ones, nested ones, on other stacks."""

import unittest

from support import LiveTest, program, shares

GRAPH = {
    "main": "run_plain run_alternate run_small",
    "run_plain": "run_all",
    "run_alternate": "run_all",
    "run_small": "program_work",
    "run_all": "program_work",
    "program_work": "burn outer_handler reentrant_handler",
    "outer_handler": "handler_recursion inner_handler",
    "inner_handler": "handler_recursion",
    "reentrant_handler": "reentrant_handler handler_work",
    "tick_handler": "handler_recursion",
    "handler_recursion": "handler_recursion handler_work",
    "handler_work": "burn",
    "*": "tick_handler",
}


class Handlers(LiveTest):
    def check(self, profile):
        # 300 rounds of 200 units; 150 of outer and inner (100 units each); 150 times five nested.
        own = profile.below("main", "burn") - profile.below("tick_handler")
        work = 300 * 200 + 150 * 200 + 750 * 100
        for path, units in ((("outer_handler",), 150 * 200), (("inner_handler",), 150 * 100),
                            (("reentrant_handler",), 750 * 100)):
            share = (profile.below("program_work", *path, "burn")
                     - profile.below("program_work", *path, "tick_handler")) / own
            with shares():
                self.assertAlmostEqual(share, units / work, delta=profile.tolerance(0.5) + 0.03)
        self.assertGreater(profile.below("tick_handler"), 0)

    def test_on_the_same_stack(self):
        self.survives([program("handlers"), "plain"], GRAPH, judge=self.check)

    def test_on_an_alternate_stack(self):
        self.survives([program("handlers"), "alternate"], GRAPH, judge=self.check)

    def test_on_a_small_alternate_stack(self):
        def judge(profile):
            self.assert_share(profile, 1 / 3, "program_work", "tick_handler", slack=0.03)

        self.survives([program("handlers"), "small"],
                      {**GRAPH, "program_work": "burn tick_handler"}, judge=judge)


if __name__ == "__main__":
    unittest.main()
