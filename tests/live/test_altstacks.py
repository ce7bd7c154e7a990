# SPDX-License-Identifier: MIT
"""Samples take no room of the program's stacks, which may have none to spare."""

import unittest

from support import MARKERS, STORM, LiveTest, program

WAYS = (*((marker, *STORM) for marker in MARKERS), ("--source", "timer"), ("-e", "wall"), ("-e", "alloc", "-e", "cpu"),
        ("--track", "encode", "--verify", "-F", "5000"), ("--track", "calls"))
HOOKS = (("--track", "calls"), ("--track", "calls", "--burst", "1ms/100us"), ("-e", "calls:7"))


class AlternateStacks(LiveTest):
    def stays(self, mode, ways=WAYS, name="altstacks"):
        """The same as without cairn, each way."""
        argv = [program(name), mode]
        native = self.native(argv)
        self.assertEqual(native.status, 0, native.words)
        profiles = []
        for options in ways:
            with self.subTest(options=options):
                run, profile = self.record(argv, *options)
                self.assert_same(run, native)
                profiles.append(profile)
        return profiles

    def assert_counted(self, profile, expected):
        """So many calls of one function by another."""
        counted = {names: sum(node.calls for node in profile.nodes if node.path()[-2:] == list(names))
                   for names in expected}
        self.assertEqual(counted, expected)

    def handles(self, mode):
        *sampled, counted = self.stays(mode)
        for profile in sampled[:2]:
            self.assert_complete(profile)
            self.assert_share(profile, 0.5, "use_stack", "on_stack_handler", "work", slack=0.05)
        self.assert_counted(counted, {("use_stack", "work"): 150, ("on_stack_handler", "work"): 150})

    def test_of_the_usual_size(self):
        self.handles("usual")

    def test_no_larger_than_needed(self):
        self.handles("exact")

    def test_of_threads(self):
        self.stays("threads")

    def test_unmapped_while_registered(self):
        self.stays("unmapped")

    def test_smaller_than_the_kernel_needs(self):
        self.stays("too-small")

    def test_coroutines_stay_as_they_are(self):
        for profile in (self.stays("coroutines")[-1], self.stays("coroutines", HOOKS, "altstacks-calls")[0]):
            self.assert_counted(profile, {("coroutine_body", "work"): 320, ("work", "burn"): 320})

    def test_used_up_by_a_thread(self):
        for profile in (self.stays("deep")[-1], self.stays("deep", HOOKS, "altstacks-calls")[0]):
            self.assert_counted(profile, {("call_at_the_end", "work"): 100, ("work", "burn"): 100})

    def test_what_the_program_sees(self):
        self.stays("shown")


if __name__ == "__main__":
    unittest.main()
