# SPDX-License-Identifier: MIT
"""Programs that forbid themselves system calls (seccomp) do not die of ours."""

import unittest

from support import MARKERS, STORM, LiveTest, program

WAYS = (*((marker, *STORM) for marker in MARKERS), ("--source", "timer"), ("-F", "5000", "--tree", "hot"), ("-e", "wall"),
        ("--track", "encode", "--verify", "-F", "5000"), ("--track", "calls"), ("-e", "alloc", "-e", "cpu"))


class Confined(LiveTest):
    def lives(self, mode):
        """The same as without cairn, each way. (options, profile)"""
        argv = [program("confined"), mode]
        native = self.native(argv)
        if native.status in (99, 128 + 31):
            self.skipTest("no filters here: " + native.words)
        profiles = []
        for options in WAYS:
            with self.subTest(options=options):
                run, profile = self.record(argv, *options)
                self.assert_same(run, native)
                profiles.append((options, profile))
        self.assertEqual(len(profiles), len(WAYS))
        return profiles

    def left(self, mode):
        """What came before is there, and a note says why no more is."""
        for options, profile in self.lives(mode):
            with self.subTest(options=options):
                notes = profile.info["notes"]
                self.assertTrue(any("not profiled from then on" in note for note in notes), notes)
                if options[-2:] == STORM[-2:]:
                    self.assertGreater(profile.below("free_work"), 0)
                    self.assertEqual(profile.below("run_strict", "confined_work") + profile.below("run_few", "confined_work"), 0)

    def test_strict_mode(self):
        self.left("strict")

    def test_few_calls(self):
        self.left("few")

    def test_all_threads_at_once(self):
        self.left("all-threads")

    def test_no_new_clocks(self):
        """Samples go on, but not in threads that begin."""
        for options, profile in self.lives("some"):
            with self.subTest(options=options):
                if options[-2:] == STORM[-2:]:
                    self.assertGreater(profile.below("run_some", "confined_work"), 0)
                    self.assertEqual(profile.below("work_in_thread"), 0)
                    self.assertTrue(any("were not sampled" in note for note in profile.info["notes"]), profile.info["notes"])

    def test_the_next_program(self):
        """It inherits the filter, and is not shown the agent."""
        for options, profile in self.lives("exec"):
            with self.subTest(options=options):
                self.assertEqual(profile.info["processes"], 1)
                if options[-2:] == STORM[-2:]:
                    self.assertGreater(profile.below("free_work"), 0)

    def test_pending_signals_may_not_be_asked_for(self):
        for options, profile in self.lives("signals"):
            with self.subTest(options=options):
                self.assertTrue(any("pending" in note for note in profile.info["notes"]), profile.info["notes"])

    def test_the_counter_may_not_be_read(self):
        for options, profile in self.lives("counter"):
            with self.subTest(options=options):
                if options[-2:] == STORM[-2:]:
                    self.assertGreater(profile.below("run_counter", "confined_work"), 0)

    def test_what_the_kernel_refuses(self):
        for options, profile in self.lives("refused"):
            with self.subTest(options=options):
                if options[-2:] == STORM[-2:]:
                    self.assertGreater(profile.below("run_refused", "confined_work"), 0)


if __name__ == "__main__":
    unittest.main()
