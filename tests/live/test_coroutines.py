# SPDX-License-Identifier: MIT
"""Coroutines: stacks that come, wander between threads, and go."""

import unittest

from support import LiveTest, program, shares

BODY = {
    "coroutine_body": "coroutine_descend setcontext",
    "switched_body": "coroutine_descend",
    "coroutine_descend": "coroutine_descend coroutine_leaf yield_context yield_switch",
    "coroutine_leaf": "burn",
}
# The root of a coroutine is its own: nobody called it. The threads' own frames do next to nothing.
GRAPH = {**BODY, "": "coroutine_body switched_body switched_start wander", "switched_start": "switched_body",
         "*": "run_freed run_small run_migrate run_switch run_crowd create destroy resume "
              "resume_switch current_coroutine yield_context yield_switch switch_stacks wander"}

# swapcontext() loads the stack pointer eight instructions before it puts the return address there, and its table
# does not say so; and in the ten behind those, a coroutine that begins has a caller that has not called yet. Both
# together: a sample in six thousand.
CONTEXTS = 0.998


class Coroutines(LiveTest):
    def life(self, mode, body, **how):
        def judge(profile):
            with shares():
                self.assertGreater(profile.share(body, "coroutine_descend", "coroutine_leaf", "burn"), 0.5)
            # Six levels, the same work at each.
            for depth in range(1, 7):
                weight = sum(node.own for node in profile.named("burn")
                             if node.path().count("coroutine_descend") == depth)
                with shares():
                    self.assertAlmostEqual(weight / profile.below("coroutine_leaf", "burn"), 1 / 6,
                                           delta=profile.tolerance(1 / 6) + 0.03)

        self.survives([program("coroutines"), mode], GRAPH, judge=judge, **how)

    def test_freed_after_use(self):
        self.life("freed", "coroutine_body", complete=CONTEXTS)

    def test_small_stacks(self):
        self.life("small", "coroutine_body", complete=CONTEXTS)

    def test_migrating_between_threads(self):
        self.life("migrate", "coroutine_body", complete=CONTEXTS)

    def test_switches_that_no_library_knows(self):
        self.life("switch", "switched_body")


if __name__ == "__main__":
    unittest.main()
