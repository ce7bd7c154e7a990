# SPDX-License-Identifier: MIT
"""What the kernel does for a program is told by the system call, below the function that made it."""

import subprocess
import unittest

from support import CAIRN, LiveTest, nodes_of, program


class Shares(LiveTest):
    """The program says how much time each kind of call took."""

    def recorded(self, *options):
        run, profile = self.record([program("system_calls")], *options)
        self.assertEqual(run.status, 0, run.words)
        spent = {name: int(ns) for name, ns in map(str.split, run.text.splitlines())}
        return profile, {name: ns / sum(spent.values()) for name, ns in spent.items()}

    def judge(self, recorded):
        profile, shares = recorded
        self.assert_sampled(profile, 200)
        # What does_read() does beside the call is some instructions.
        self.assert_share(profile, shares["read"], "does_read", "read", "sys_read", slack=0.02)
        self.assert_share(profile, shares["getrandom"], "does_getrandom", "getrandom", "sys_getrandom", slack=0.02)
        self.assert_share(profile, shares["nothing"], "does_nothing", slack=0.02)
        self.assertEqual(profile.below("does_nothing", "sys_read"), 0)

    def test_calls_are_named_by_the_code_that_makes_them(self):
        self.steadily(lambda: self.recorded("-F", "2000"), self.judge)

    def test_calls_of_another_clock(self):
        """Signals of a timer come when a call ends, too."""
        self.steadily(lambda: self.recorded("--source", "timer"), self.judge)

    def test_calls_whose_number_no_code_tells(self):
        def judge(recorded):
            profile, shares = recorded
            self.assert_share(profile, shares["some"], "does_some", "syscall", "system call", slack=0.02)
        self.steadily(lambda: self.recorded("-F", "2000"), judge)


class Views(LiveTest):
    def setUp(self):
        super().setUp()
        _, self.profile = self.record([program("system_calls")])

    def test_kernel_no_gives_the_cost_to_the_caller(self):
        nodes = nodes_of(self.profile.report("--min", "0", "--kernel", "no"))
        self.assertEqual([node.name for node in nodes if node.module == "[kernel]"], [])
        self.assertEqual(sum(node.own for node in nodes), self.profile.total)
        own = sum(node.own for node in nodes if node.name == "read")
        self.assertEqual(own, self.profile.below("read"))

    def test_json_has_the_module(self):
        modules = {node.module for node in self.profile.nodes if node.name.startswith("sys_")}
        self.assertEqual(modules, {"[kernel]"})

    def test_folded_marks_the_kernel(self):
        folded = subprocess.run([CAIRN, "export", "-f", "folded", self.profile.path], capture_output=True,
                                text=True, check=True, timeout=60).stdout
        self.assertIn(";read;sys_read_[k]", folded)

    def test_kernel_takes_yes_or_no(self):
        done = subprocess.run([CAIRN, "report", "--kernel", "perhaps", self.profile.path], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--kernel 'perhaps' is not one of: yes, no", done.stderr)


class Switches(LiveTest):
    def test_record_without_the_kernel(self):
        _, profile = self.record([program("system_calls")], "--kernel", "no")
        self.assertEqual([node.name for node in profile.nodes if node.module == "[kernel]"], [])

    def test_waits_are_told_by_their_call(self):
        _, profile = self.record(["sh", "-c", "sleep 0.3"], "-e", "wall")
        self.assertGreater(sum(node.own for node in profile.named("sys_clock_nanosleep")), 250_000_000)

    def test_other_trackers(self):
        for tracker in "encode", "calls":
            with self.subTest(tracker=tracker):
                _, profile = self.record([program("system_calls")], "--track", tracker, "-e", "cpu")
                self.assertGreater(profile.below("does_read", "sys_read"), 0)

    def test_merged_profiles_have_one_kernel(self):
        paths = [self.record([program("system_calls")])[1].path for _ in range(2)]
        merged = self.file("merged.cairn")
        subprocess.run([CAIRN, "merge", "-o", merged, *paths], check=True, capture_output=True, timeout=60)
        report = subprocess.run([CAIRN, "report", "--by", "function", merged], check=True, capture_output=True,
                                text=True, timeout=60).stdout
        self.assertEqual(report.count("sys_read"), 1)


if __name__ == "__main__":
    unittest.main()
