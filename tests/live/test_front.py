# SPDX-License-Identifier: MIT
"""`cairn record` stands where the program would stand: signals sent to it reach the program, once; it can be
recorded itself; and what it cannot follow, it names."""

import os
import shutil
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, program

class Nested(LiveTest):
    def test_record_under_record(self):
        """The inner one has the program, the outer one all else; each says so."""
        inner, outer = self.file("inner"), self.file("outer")
        run = Run([CAIRN, "record", "-o", outer, "--", CAIRN, "record", "-o", inner, "--", program("shares")])
        self.assertEqual(run.status, 0, run.words)
        lines = [line for line in run.words.splitlines() if "itself recorded" in line]
        self.assertEqual(len(lines), 1, run.words)
        self.assertIn(f"{program('shares')} is recorded here, and not there", lines[0])
        self.assertGreater(Profile(inner).share("share_leaf"), 0.9)
        profile = Profile(outer)
        self.assertEqual(profile.share("share_leaf"), 0)
        self.assertTrue(any("another 'cairn record'" in note for note in profile.info["notes"]))


class Namespaces(LiveTest):
    def notes(self, *argv):
        run, profile = self.record(argv)
        if run.status:
            self.skipTest(f"not permitted here: {run.words}")
        self.assertEqual(profile.share("share_leaf"), 0)
        return profile.info["notes"]

    @installed("bwrap")
    def test_bwrap(self):
        """With a /proc of its own, the agent's memory is out of reach: a note says so."""
        notes = self.notes("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "--proc", "/proc",
                           program("shares"))
        self.assertTrue(any("bwrap" in note and "not profiled" in note for note in notes), notes)

    @installed("bwrap")
    def test_bwrap_without_the_agents_folder(self):
        folders = [word for name in ("usr", "lib", "lib64", "bin") if os.path.exists("/" + name)
                   for word in ("--ro-bind", "/" + name, "/" + name)]
        copy = shutil.copy(program("shares"), self.file("shares"))
        notes = self.notes("bwrap", *folders, "--ro-bind", copy, "/shares", "--proc", "/proc", "/shares")
        self.assertTrue(any("not profiled" in note for note in notes), notes)

    @installed("unshare")
    def test_pid_namespace(self):
        how = ["-pf", "--mount-proc"] if os.geteuid() == 0 else ["-rpf", "--mount-proc"]
        notes = self.notes("unshare", *how, program("shares"))
        self.assertTrue(any("not profiled" in note for note in notes), notes)


if __name__ == "__main__":
    unittest.main()
