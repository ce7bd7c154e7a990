# SPDX-License-Identifier: MIT
"""Threads: thousands of them, tiny ones, detached, cancelled, and those that outlive main."""

import unittest

from support import LiveTest, program, shares

GRAPH = {
    "": "short_thread detached_thread small_thread cancelled_thread exiting_thread "
        "outliving_thread c11_thread key_thread key_c11_thread early_thread",
    "main": "run_short run_detached run_small run_cancel run_exit run_outlive run_c11 "
            "run_own_stacks run_keys",
    "key_thread": "thread_descend",
    "key_c11_thread": "key_thread",
    "early_thread": "thread_descend",
    "c11_thread": "thread_descend",
    "short_thread": "thread_descend",
    "detached_thread": "thread_descend",
    "small_thread": "thread_descend",
    "outliving_thread": "thread_descend",
    "run_outlive": "thread_descend",
    "cancelled_thread": "cancelled_descend",
    "exiting_thread": "exiting_descend",
    "cancelled_descend": "cancelled_descend thread_leaf cleanup",
    "exiting_descend": "exiting_descend thread_leaf cleanup",
    "cleanup": "thread_leaf",
    "thread_descend": "thread_descend thread_leaf",
    "thread_leaf": "burn",
}


class Threads(LiveTest):
    def life(self, mode, routine, share, judge=None):
        def weigh(profile):
            with shares():
                self.assertGreater(profile.share(routine, "burn"), share)
            if judge is not None:
                judge(profile)

        return self.survives([program("threads"), mode], GRAPH, judge=weigh)

    def test_four_thousand_short_ones(self):
        for profile in self.life("short", "short_thread", 0.1):
            self.assertEqual(profile.info["threads"], 4001)

    def test_files_of_others_stay_open(self):
        """A thread's clock ticks before it is set up: what closes its descriptors must not do so twice."""
        self.survives([program("descriptors"), "4000"])

    def test_detached_threads_are_seen(self):
        for profile in self.life("detached", "detached_thread", 0.1):
            self.assertEqual(profile.info["threads"], 1001)

    def test_sixteen_kilobytes_of_stack(self):
        self.life("small", "small_thread", 0.9)

    def test_cancelled_threads_are_seen(self):
        # An asynchronous cancellation may hit any instruction, where cleanup unwinds from there.
        self.life("cancel", "cancelled_thread", 0.7)

    def test_ended_by_pthread_exit(self):
        def judge(profile):
            # Each level works once on the way down and once in its cleanup.
            cleanup = profile.below("cleanup", "burn")
            with shares():
                self.assertAlmostEqual(cleanup / profile.below("exiting_thread", "burn"), 0.5,
                                       delta=profile.tolerance(0.5) + 0.03)

        self.life("exit", "exiting_thread", 0.5, judge=judge)

    def test_outliving_main(self):
        self.life("outlive", "outliving_thread", 0.9)

    def test_made_as_c11_has_it(self):
        for profile in self.life("c11", "c11_thread", 0.9):
            self.assertEqual(profile.info["threads"], 5)

    def test_on_stacks_of_the_programs_own(self):
        self.life("own-stacks", "small_thread", 0.9)

    def test_all_keys_for_data_are_the_programs(self):
        for profile in self.life("keys", "key_thread", 0.7):
            self.assertEqual(profile.info["threads"], 63)
            self.assertEqual(profile.below("key_c11_thread", "burn"), profile.below("key_c11_thread", "key_thread", "burn"))

    def test_kept_apart_when_asked(self):
        def life():
            run, profile = self.record([program("threads"), "small"], "-F", "10000", "--per-thread")
            self.assertEqual(run.status, 0)
            self.assertEqual(profile.info["threads"], 21)
            return profile

        def judge(profile):
            self.assert_complete(profile)
            self.assert_calls(profile, "threads", GRAPH)

        self.steadily(life, judge)


if __name__ == "__main__":
    unittest.main()
