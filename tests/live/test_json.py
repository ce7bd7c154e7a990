# SPDX-License-Identifier: MIT
"""--json of the commands that write files: what they did, for programs."""

import json
import os
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, program


class JsonTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.record_for_all("shares")

    def answer(self, *argv):
        run = Run([CAIRN, *argv], cwd=self.folder)
        self.assertEqual((run.status, run.words), (0, ""))
        return json.loads(run.text)

    def test_merge_answers_in_json(self):
        answer = self.answer("merge", "--json", "-o", "both.out", self.profile.path, self.profile.path)
        info = Profile(self.file("both.out")).info
        self.assertEqual(answer, {"output": "both.out", "profiles": 2, "processes": 2,
                                  "nodes": info["nodes"], "metrics": ["cpu"]})

    def test_export_answers_in_json(self):
        answer = self.answer("export", "--json", "-f", "folded", "-o", "folded", self.profile.path)
        with open(self.file("folded"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(answer, {"format": "folded", "output": "folded", "metric": "cpu", "unit": "ns",
                                  "bytes": os.path.getsize(self.file("folded")), "contexts": len(lines),
                                  "total": sum(int(line.rsplit(" ", 1)[1]) for line in lines)})
        for output in ((), ("-o", "-")):
            run = Run([CAIRN, "export", "--json", "-f", "folded", *output, self.profile.path])
            self.assertEqual((run.status, run.out), (2, b""))
            self.assertIn("name it with -o OUT", run.words)

    @installed("gcc")
    def test_cc_answers_in_json(self):
        answer = self.answer("cc", "--json", "gcc", "-O2", "-c", "no-such-file.c")
        self.assertEqual(answer["compiler"], "gcc")
        self.assertEqual(answer["command"][:4], ["gcc", "-O2", "-c", "no-such-file.c"])
        self.assertIn(answer["flag"], answer["command"])


class PreviousProfile(LiveTest):
    def record(self, name, output="cairn.out", folder=None):
        run = Run([CAIRN, "record", "-o", output, "sh", "-c", f": {name}"], cwd=folder or self.folder)
        self.assertEqual(run.status, 0, run.words)

    def recorded(self, name):
        return Profile(self.file(name)).info["command"][-1]

    def test_is_kept(self):
        self.record("first")
        self.assertEqual(sorted(os.listdir(self.folder)), ["cairn.out"])
        self.record("second")
        self.record("third")
        self.assertEqual(sorted(os.listdir(self.folder)), ["cairn.out", "cairn.out.old"])
        self.assertEqual(self.recorded("cairn.out"), ": third")
        self.assertEqual(self.recorded("cairn.out.old"), ": second")
        self.record("named", "other")
        self.record("again", "other")
        self.assertEqual(self.recorded("other.old"), ": named")

    def test_what_is_no_profile_stays(self):
        """Neither a link nor somebody's file is replaced, at either name."""
        notes = self.file("cairn.out.old", "my notes")
        self.record("first")
        self.record("second")
        with open(notes, encoding="utf-8") as file:
            self.assertEqual(file.read(), "my notes")
        os.unlink(notes)
        os.symlink("elsewhere", notes)
        self.record("third")
        self.assertEqual(os.readlink(notes), "elsewhere")
        os.symlink("cairn.out", self.file("link"))
        self.record("fourth", "link")
        self.assertFalse(os.path.lexists(self.file("link.old")))
        self.assertEqual(self.recorded("cairn.out"), ": fourth")

    def test_nothing_is_kept_of_a_command_that_cannot_run(self):
        self.record("first")
        run = Run([CAIRN, "record", "/no/such/program"], cwd=self.folder)
        self.assertEqual(run.status, 127)
        self.assertEqual(sorted(os.listdir(self.folder)), ["cairn.out"])


if __name__ == "__main__":
    unittest.main()
