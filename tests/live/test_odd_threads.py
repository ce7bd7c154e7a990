# SPDX-License-Identifier: MIT
"""Threads that have asked the kernel for odd things run as they do without cairn."""

import os
import unittest

from support import MARKERS, STORM, LiveTest, program

WAYS = (*((marker, *STORM) for marker in MARKERS), ("--source", "timer"), ("-e", "wall"), ("-e", "alloc", "-e", "cpu"),
        ("--track", "encode", "--verify", "-F", "5000"), ("--track", "calls"))


class OddThreads(LiveTest):
    def lives(self, *argv):
        """The same as without cairn, each way. {options: profile}"""
        native = self.native(argv)
        if native.status == 98:
            self.skipTest("not here: " + native.words)
        self.assertEqual(native.status, 0, native.words)
        profiles = {}
        for options in WAYS:
            with self.subTest(options=options):
                run, profiles[options] = self.record(argv, *options)
                self.assert_same(run, native)
        return profiles

    def test_without_the_time_stamp_counter(self):
        profile = self.lives(program("odd_threads"), "no-counter")[WAYS[0]]
        self.assert_share(profile, 0.25, "run_no_counter", "odd_work", slack=0.05)
        self.assert_share(profile, 0.25, "work_in_thread", "odd_work", slack=0.05)

    def test_bursts_without_the_time_stamp_counter(self):
        argv = [program("odd_threads-calls"), "no-counter"]
        run, _ = self.record(argv, "--track", "calls", "--burst", "10ms/100us")
        self.assert_same(run, self.native(argv))

    def test_system_calls_that_become_signals(self):
        profile = self.lives(program("odd_threads"), "dispatched")[WAYS[0]]
        self.assertGreater(profile.below("run_dispatched", "free_work"), 0)
        self.assertEqual(profile.below("odd_work"), 0)
        self.assertTrue(any("caught the system calls" in note for note in profile.info["notes"]), profile.info["notes"])

    def test_system_calls_of_others_that_become_signals(self):
        """Those of the libraries are spared: samples go on."""
        profile = self.lives(program("odd_threads"), "spared")[WAYS[0]]
        self.assertGreater(profile.below("run_spared", "odd_work"), 0)

    def test_thread_local_variables_of_another(self):
        """They share what would follow their calls: nobody but the owner is followed."""
        profile = self.lives(program("odd_threads"), "sharing")["--track", "calls"]
        self.assertEqual([node.calls for node in profile.named("leaf")], [40000])

    @unittest.skipUnless(os.path.exists(program("split_stack")), "the compiler has no split stacks")
    def test_split_stacks(self):
        profile = self.lives(program("split_stack"))["--track", "calls"]
        burns = [node.calls for node in profile.nodes if node.path()[-2:] == ["recurse", "burn"]]
        self.assertEqual(sum(burns), 400)


if __name__ == "__main__":
    unittest.main()
