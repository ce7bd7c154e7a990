# SPDX-License-Identifier: MIT
"""Faults that the program handles, and every way to end: the status is the program's, no sample is lost."""

import json
import os
import unittest

from support import CAIRN, MARKERS, LiveTest, Profile, Run, program, shares

FAULTS = {
    "main": "run_jump run_jump_alternate run_repair run_overflow",
    "run_jump": "jump_out",
    "run_jump_alternate": "jump_out",
    "jump_out": "fault_and_recover",
    "fault_and_recover": "fault_now",
    "fault_now": "fault_now fault_work fault_jump",
    "touch_pages": "fault_work fault_repair",
    "fault_work": "burn",
    "fault_jump": "fault_work",
    "fault_repair": "fault_work",
    "overflow_jump": "fault_work",
    "run_repair": "touch_pages",
    "run_overflow": "fault_work overflow",
    "overflow": "overflow overflow_jump",
}


class Faults(LiveTest):
    def life(self, mode, **how):
        return self.survives([program("faults"), mode], FAULTS, **how)

    def test_left_by_a_jump(self):
        def judge(profile):
            self.assert_share(profile, 1 / 5.5, "fault_now", "fault_jump", slack=0.03)

        self.life("jump", judge=judge)

    def test_left_by_a_jump_from_another_stack(self):
        def judge(profile):
            self.assert_share(profile, 1 / 5.5, "fault_now", "fault_jump", slack=0.03)

        self.life("jump-alternate", judge=judge)

    def test_repaired_faults_have_their_share(self):
        def judge(profile):
            within = profile.below("touch_pages", "burn")
            with shares():
                self.assertAlmostEqual(profile.below("fault_repair", "burn") / within, 0.5,
                                       delta=profile.tolerance(0.5) + 0.02)

        self.life("repair", judge=judge)

    def test_stack_overflow(self):
        # A sample at the very end of the stack has no room to be taken.
        self.life("overflow", samples=5, options=("-F", "1000"))


class Ends(LiveTest):
    """Each works for 0.2 s first: all of it must be in the profile."""

    def end(self, mode, status, function="main"):
        argv = [program("ends"), mode]
        native = self.native(argv)
        self.assertEqual(native.status, status)
        for marker in MARKERS:
            with self.subTest(marker=marker):
                def life():
                    run, profile = self.record(argv, "-F", "10000", marker)
                    self.assert_same(run, native)
                    return profile

                def judge(profile):
                    self.assert_complete(profile)
                    with shares():
                        self.assertGreater(profile.below(function, "work_before_end"), 190e6)

                self.steadily(life, judge)

    def test_complete_after_return(self):
        self.end("return", 3)

    def test_complete_after_exit(self):
        self.end("exit", 4)

    def test_immediate_exit(self):
        self.end("immediate", 5)

    def test_quick_exit(self):
        self.end("quick", 6)

    def test_exit_from_a_thread(self):
        self.end("thread", 7, "exit_from_thread")

    def test_complete_after_abort(self):
        self.end("abort", 128 + 6)

    def test_segmentation_fault(self):
        self.end("segv", 128 + 11)

    def test_complete_after_a_breakpoint(self):
        self.end("trap", 128 + 5)

    def test_complete_after_sigterm(self):
        self.end("terminate", 128 + 15)

    def test_complete_to_the_last_second_after_sigkill(self):
        self.end("kill", 128 + 9)


class Cores(LiveTest):
    """What a crash leaves behind is about the program."""

    WAYS = ((), ("--track", "encode"), ("--track", "calls", "--calls-by", "program"), ("-e", "alloc", "-e", "cpu"), ("--tree", "hot"))
    MORE = 16 << 20  # code and data of the agent, and what it has used

    def core_bytes(self, begin):
        """Of the file that is left by a crash, and away with it. None: this system puts them elsewhere."""
        begin()
        cores = [entry for entry in os.scandir(self.folder) if entry.name.startswith("core")]
        total = sum(core.stat().st_blocks * 512 for core in cores)
        for core in cores:
            os.unlink(core.path)
        return total if cores else None

    def test_a_core_is_not_larger_for_us(self):
        argv = ["/bin/sh", "-c", f"ulimit -c unlimited 2>/dev/null; exec '{program('ends')}' abort"]
        native = self.core_bytes(lambda: self.native(argv))
        for options in self.WAYS:
            with self.subTest(options=options):
                recorded = self.core_bytes(lambda: self.record(argv, *options))
                self.assertEqual(recorded is None, native is None)
                self.assertLess(recorded or 0, (native or 0) + self.MORE)

    def test_our_memory_is_in_no_core(self):
        """What would be in one, wherever it goes: memory of ours that is large is not."""
        def dumped(run):
            total = size = 0
            for line in run.text.splitlines():
                name, *words = line.split()
                if name == "Size:":
                    size = int(words[0]) << 10
                elif name == "VmFlags:" and not {"dd", "io"} & set(words) and "wr" in words:
                    total += size
            self.assertGreater(total, 0)
            return total

        argv = ["cat", "/proc/self/smaps"]
        native = dumped(self.native(argv))
        for options in self.WAYS:
            with self.subTest(options=options):
                self.assertLess(dumped(self.record(argv, *options)[0]), native + 2 * self.MORE)


class Books(LiveTest):
    """What the kernel does when a process is over counts as well, if somebody has waited for it."""

    def record_sums(self, mode, *options):
        path = self.file(f"{mode}.cairn")
        run = Run([CAIRN, "record", "--json", "-o", path, *options, "--", program("ends"), mode], cwd=self.folder)
        said = json.loads(run.words[run.words.index("{"):])
        profile = Profile(path)
        self.assertEqual(profile.info["cost_ns"], said["cost_ns"])
        self.assertEqual(profile.total, said["cost_ns"])
        return run, profile, said

    def test_of_the_command(self):
        for options in ((), ("--track", "encode"), ("--per-thread",)):
            with self.subTest(options=options):
                def life():
                    run, _, said = self.record_sums("memory", *options)
                    self.assertEqual(run.status, 8)
                    return said

                self.steadily(life, self.check_sums)

    def test_of_children(self):
        def life():
            run, profile, said = self.record_sums("children")
            self.assertEqual(run.status, 9)
            self.assertEqual(len(profile.info["process_list"]), 5)
            return said

        self.steadily(life, self.check_sums)

    @shares()
    def check_sums(self, said):
        self.assertAlmostEqual(said["cost_ns"] / said["cpu_ns"], 1, delta=0.01)


if __name__ == "__main__":
    unittest.main()
