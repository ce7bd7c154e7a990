# SPDX-License-Identifier: MIT
"""What sampling costs: as little as can be where threads wait often, and all that is known of it is told."""

import unittest

from support import CAIRN, LiveTest, Profile, Run, program, shares

ROUNDS = "15000"


class SwitchesTest(LiveTest):
    def setUp(self):
        super().setUp()
        _, profile = self.record([program("figure1")])
        if profile.info["events"][0]["source"] != "perf-task-clock":
            self.skipTest("no perf events here that raise SIGTRAP")

    def switches(self, units, *options):
        run, profile = self.record([program("switches"), ROUNDS, units], *options)
        self.assertEqual(run.status, 0, run.words)
        return int(run.out), profile

    def told(self, argv, *options):
        path = self.file("told.cairn")
        argv = ["sh", "-c", 'sleep 1; exec "$@"', "sh", *argv]  # what is shorter than a second is not followed by measurements
        run = Run([CAIRN, "record", "-F", "1000", "-o", path, *options, "--", *argv], cwd=self.folder)
        return run.words, Profile(path)

    def test_threads_that_wait_often_have_a_longer_period(self):
        """A perf event has a timer that is set and cancelled at each switch: more than the work between two of them."""
        count, profile = self.switches("0")
        self.assertLess(profile.info["switches"], count / 4)
        self.assertGreater(profile.info["samples_sparse"], 0)
        # What they have computed is all there, whatever a sample stands for: each of the two has its share.
        with shares():
            self.assertGreater(profile.share("ask"), 0.05)
            self.assertGreater(profile.share("answer"), 0.05)

    def test_a_thread_that_waits_no_more_has_its_period_again(self):
        _, profile = self.switches("1500000")
        computing = profile.below("compute") / 1e9
        info = profile.info
        self.assertGreater(info["samples"] - info["samples_sparse"], 0.3 * 1000 * computing)

    def test_a_source_that_was_asked_for_is_used(self):
        """All switches are counted then, but for what the program did after it had asked the kernel itself."""
        count, profile = self.switches("0", "--source", "sigtrap")
        self.assertEqual(profile.info["samples_sparse"], 0)
        self.assertGreater(profile.info["switches"], 0.95 * count)
        self.assertLess(profile.info["switches"], 1.05 * count + 100)

    def test_what_is_told(self):
        """Handlers are not the whole of it."""
        words, profile = self.told([program("switches"), ROUNDS, "0"], "--source", "sigtrap")
        cost = profile.info["sampling_cost_ns"]
        self.assertEqual(cost["total"], cost["handlers"] + cost["ticks"] + cost["switches"])
        self.assertEqual(cost["ticks"], cost["per_tick"] * profile.samples)
        self.assertEqual(cost["switches"], cost["per_switch"] * profile.info["switches"])
        self.assertGreater(cost["ticks"], 0)
        self.assertIn("cost of sampling: about ", words)
        told = Run([CAIRN, "info", self.file("told.cairn")]).text
        for part in "handlers", "interrupts and signals", "context switches":
            self.assertIn(part, told)

    def test_what_is_not_known_is_not_told(self):
        """Of timers, the time of the handlers is all that is known."""
        words, profile = self.told([program("switches"), "100", "100000"], "--source", "timer")
        self.assertIsNone(profile.info["sampling_cost_ns"])
        self.assertIn("cost of the handlers: ", words)
        self.assertNotIn("cost of sampling", words)


if __name__ == "__main__":
    unittest.main()
