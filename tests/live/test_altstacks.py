# SPDX-License-Identifier: MIT
"""Samples take no room of the program's stacks, which may have none to spare."""

import unittest

from support import MARKERS, STORM, LiveTest, program

WAYS = (*((marker, *STORM) for marker in MARKERS), ("--source", "timer"), ("-e", "wall"), ("-e", "alloc", "-e", "cpu"),
        ("--track", "encode", "--verify", "-F", "5000"), ("--track", "calls"))


class AlternateStacks(LiveTest):
    def stays(self, mode, ways=WAYS):
        """The same as without cairn, each way."""
        argv = [program("altstacks"), mode]
        native = self.native(argv)
        self.assertEqual(native.status, 0, native.words)
        profiles = []
        for options in ways:
            with self.subTest(options=options):
                run, profile = self.record(argv, *options)
                self.assert_same(run, native)
                profiles.append(profile)
        return profiles

    def test_of_the_usual_size(self):
        for profile in self.stays("usual")[:2]:
            self.assert_complete(profile)
            self.assert_share(profile, 0.5, "use_stack", "on_stack_handler", "work", slack=0.05)

    def test_no_larger_than_needed(self):
        for profile in self.stays("exact")[:2]:
            self.assert_complete(profile)
            self.assert_share(profile, 0.5, "use_stack", "on_stack_handler", "work", slack=0.05)

    def test_of_threads(self):
        self.stays("threads")

    def test_unmapped_while_registered(self):
        self.stays("unmapped")

    def test_smaller_than_the_kernel_needs(self):
        self.stays("too-small")

    def test_coroutines(self):
        """But the hooks of calls need 5 KB, and a program does not say how large such a stack is."""
        self.stays("coroutines", WAYS[:-1])

    def test_what_the_program_sees(self):
        self.stays("shown")


if __name__ == "__main__":
    unittest.main()
