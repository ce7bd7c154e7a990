#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The time off the processor, by context and by cause."""

import os
import unittest

from support import CAIRN, Profile, Run, program
from test_counters import CountersTest

CAUSES = {"wait_asleep": "offcpu-sleep", "wait_for_lock": "offcpu-lock", "wait_for_pipe": "offcpu-io",
          "wait_for_processor": "offcpu-queue"}


def may_watch():
    """Switches are watched by a right."""
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as setting:
        return os.geteuid() == 0 or int(setting.read()) < 2


@unittest.skipUnless(may_watch(), "takes kernel.perf_event_paranoid=1, or CAP_PERFMON")
class OffCpu(CountersTest):
    def check(self, run, profile):
        """Within 5 % of what the program has measured, and a millisecond of the clocks' own."""
        for line in run.text.splitlines():
            name, ns = line.split()
            found = self.sums(profile, name)
            with self.subTest(name=name):
                self.assertLess(abs(found["offcpu"] - int(ns)), 0.05 * int(ns) + 1e6)
                # Threads that wait for something may be preempted as well.
                causes = found[CAUSES[name]] + found["offcpu-queue"] * (name != "wait_for_processor")
                self.assertGreater(causes, 0.95 * found["offcpu"])
        whole = self.sums(profile)
        self.assertGreaterEqual(whole["offcpu"], sum(whole[cause] for cause in CAUSES.values()))

    def test_known_waits(self):
        run, profile = self.record([program("offcpu")], "-e", "offcpu")
        self.check(run, profile)
        self.assertEqual(self.sums(profile)["offcpu"], profile.info["cost_ns"])
        self.assertGreater(self.sums(profile)["waits"], 8 * 5)

    def test_beside_others(self):
        """Wall time less CPU time is the same, and the kernel's count of switches is that of waits."""
        run, profile = self.record([program("offcpu")], "-e", "offcpu", "-e", "wall", "-e", "cpu",
                                   "-e", "context-switches:1", "-e", "alloc")
        self.check(run, profile)
        for name in ("wait_asleep", "wait_for_pipe"):
            found = self.sums(profile, name)
            self.assertLess(abs(found["wall"] - found["offcpu"]), 0.1 * found["wall"] + 2e6)
        found = self.sums(profile)
        self.assertLess(abs(found["waits"] - found["context-switches"]), 0.1 * found["waits"] + 10)

    def test_waits_to_the_end(self):
        """A thread that waits when the process ends has waited until then."""
        code = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); time.sleep(0.3)"
        _, profile = self.record(["/usr/bin/python3", "-S", "-E", "-c", code], "-e", "offcpu")
        slept = sum(thread for thread in [self.sums(profile)["offcpu"]])
        self.assertGreater(slept, 2 * 0.29e9)
        self.assertLess(slept, 2 * 60e9 / 10)

    def test_trackers_and_trees(self):
        for options in (("--track", "encode"), ("--track", "calls"), ("--tree", "hot:0.01"), ("--tree", "bounded"),
                        ("--tree", "functions")):
            with self.subTest(options=options):
                run, profile = self.record([program("offcpu")], "-e", "offcpu", *options)
                asleep = int(run.text.split()[1])
                total = self.sums(profile)["offcpu"]
                self.assertGreater(total, 5 * asleep)
                if options[1] != "functions":
                    self.assertLess(abs(self.sums(profile, "wait_asleep")["offcpu"] - asleep), 0.1 * asleep + 1e6)


class Refused(CountersTest):
    def test_misuse(self):
        self.assertIn("no period", self.refused("-e", "offcpu:1ms"))
        self.assertIn("twice", self.refused("-e", "offcpu", "-e", "offcpu"))

    @unittest.skipUnless(os.geteuid() == 0, "takes two users")
    def test_rights(self):
        self.assertIn("use -e lock -e io", self.check_rights("offcpu", "record"))

    def test_listed(self):
        text = Run([CAIRN, "list"]).text
        self.assertIn("offcpu", text)


del CountersTest

if __name__ == "__main__":
    unittest.main(verbosity=2)
