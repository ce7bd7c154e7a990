# SPDX-License-Identifier: MIT
"""Programs that close all descriptors, or have none left, or no memory."""

import contextlib
import os
import tempfile
import unittest

from support import CAIRN, MARKERS, STORM, LiveTest, Profile, Run, program, shares


@contextlib.contextmanager
def control_group(limit):
    """A group of our own below that of this process; skips the test where there can be none."""
    folder = None
    with open("/proc/self/cgroup", encoding="ascii") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                folder, name = "/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes"
            elif not controllers and folder is None:
                folder, name = "/sys/fs/cgroup" + path, "memory.max"
    try:
        group = tempfile.mkdtemp(prefix="cairn-", dir=folder)
    except OSError as error:
        raise unittest.SkipTest(f"no control group can be made: {error}") from None
    try:
        try:
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(str(limit))
        except OSError as error:
            raise unittest.SkipTest(f"memory cannot be limited: {error}") from None
        yield group
    finally:
        os.rmdir(group)


class Limits(LiveTest):
    def life(self, mode, judge=None, **how):
        def weigh(profile):
            with shares():
                self.assertGreater(profile.share("limit_thread", "limit_work", "burn"), 0.5)
            if judge is not None:
                judge(profile)

        return self.survives([program("limits"), mode], judge=weigh, **how)

    def test_descriptor_numbers(self):
        self.life("numbers")

    def test_all_descriptors_closed(self):
        def judge(profile):
            # Half of the work is done in threads that start when nothing is left open.
            with shares():
                self.assertGreater(profile.share("start_thread", "limit_thread"), 0.25)

        self.life("close-all", judge=judge)

    def test_no_descriptor_left(self):
        self.life("descriptor-limit", samples=20)  # by a timer, which ticks with the kernel

    def test_no_memory_left(self):
        self.life("memory-limit")

    def test_limits_set_before_the_program_starts(self):
        for limit in ("-v 1000000", "-v 200000", "-n 20", "-n 4", "-s 256", "-l 0", "-u 40000"):
            with self.subTest(limit=limit):
                script = f"ulimit {limit}; exec '{program('limits')}' work"
                native = self.native(["/bin/sh", "-c", script])
                run, profile = self.record(["/bin/sh", "-c", script], "-F", "10000")
                self.assert_same(run, native)
                # With hardly any memory there may be no room for us; then `info` says so.
                if profile.below("limit_work", "burn") == 0:
                    self.assertTrue(profile.info["notes"], "no sample and no reason")

    def same_limits(self, run, native, less=0):
        """The same words, and as much memory as without us."""
        self.assertEqual(run.status, native.status)
        for mine, theirs in zip(run.text.splitlines(), native.text.splitlines(), strict=True):
            if theirs.startswith("taken: "):
                expected = int(theirs.split()[1])
                # A piece more or less is what the agent has taken of a page here and there.
                self.assertAlmostEqual(int(mine.split()[1]), expected, delta=2 + less * expected)
            else:
                self.assertEqual(mine, theirs)

    def test_limits_are_about_the_programs_memory(self):
        """Address space and data of ours are not the program's, which is told what it has set."""
        ways = (STORM, ("--track", "encode", "-F", "5000"), ("--track", "calls", "--calls-by", "program"), ("-e", "alloc"), ("--tree", "hot", "-F", "5000"))
        for mode in "space-limit", "data-limit":
            native = self.native([program("limits"), mode])
            self.assertEqual(native.status, 0, native.words)
            for options in ways:
                with self.subTest(mode=mode, options=options):
                    run, _ = self.record([program("limits"), mode], *options)
                    self.same_limits(run, native)

    def test_a_soft_limit_of_no_data(self):
        native = self.native([program("limits"), "no-data"])
        self.assertNotIn("taken: 0", native.text)
        self.same_limits(self.record([program("limits"), "no-data"], *STORM)[0], native)

    def test_limits_set_before_the_recorder_starts(self):
        """A soft limit is the command's alone; a hard one is the recorder's, too, and leaves the agent little."""
        command = f"'{program('limits')}' space-limited"
        for limit, less in (("-S -v 65536", 0), ("-v 65536", 0.4), ("-S -d 65536", 0)):
            with self.subTest(limit=limit):
                native = self.native(["/bin/sh", "-c", f"ulimit {limit}; exec {command}"])
                output = os.path.join(self.folder, "limited.out")
                run = Run(["/bin/sh", "-c", f"ulimit {limit}; exec '{CAIRN}' record -q -o '{output}' -F 5000 {command}"])
                self.same_limits(run, native, less)
                self.assertGreater(Profile(output).below("limit_work", "burn"), 0)

    def test_limit_of_the_control_group(self):
        """The trees take a part of what the group may have, so that neither program nor recorder is killed."""
        with control_group(128 << 20) as group:
            output = os.path.join(self.folder, "group.out")
            command = [program("limits"), "many-contexts"]
            script = f"echo $$ > '{group}/cgroup.procs'; exec \"$@\""
            run = Run(["/bin/sh", "-c", script, "sh", CAIRN, "record", "-q", "-o", output, "--track", "calls", "--calls-by", "program", *command])
            self.assert_same(run, self.native(command))
            profile = Profile(output)
            notes = " ".join(profile.info["notes"])
            self.assertIn("control group", notes)
            self.assertIn("only hot contexts were kept", notes)

    def test_locked_memory(self):
        """mlockall() is about the program's memory, and not about ours, which no user may lock that much of."""
        ways = (*((marker, *STORM) for marker in MARKERS), ("--track", "encode", "--verify", "-F", "5000"), ("--track", "calls", "--calls-by", "program"),
                ("-e", "alloc", "-e", "cpu"), ("--tree", "hot", "-F", "5000"))
        for mode in "enough", "little", "none":
            argv = [program("locked"), mode]
            native = self.native(argv)
            self.assertEqual(native.status, 0)
            for options in ways:
                with self.subTest(mode=mode, options=options):
                    run, profile = self.record(argv, *options)
                    self.assert_same(run, native)
                    if options[-2:] == STORM[-2:]:
                        self.assertGreater(profile.below("locked_thread", "locked_work"), 0)


if __name__ == "__main__":
    unittest.main()
