# SPDX-License-Identifier: MIT
"""Processes that are named instead of a file: `cairn top PID`, `cairn top -p PID` and `cairn view -p PID`."""

import glob
import json
import os
import signal
import subprocess
import time
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, program
from test_attach import children, status
from test_top import WAIT, Screen, until


class WatchTest(LiveTest):
    def end(self, process, pid=None):
        os.kill(pid or process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=WAIT)
        self.assertEqual((process.returncode, out), (0, "0 wrong\n"))

    def cairn(self, *words, expected=0):
        run = Run([CAIRN, *map(str, words)], cwd=self.folder, env={**os.environ, "TMPDIR": self.folder})
        self.assertEqual(run.status, expected, run.words)
        return run

    def top(self, *words):
        return json.loads(self.cairn("top", "--json", "--interval", "0.1", *words).out)

    def assert_left(self, pid, before):
        """The process is as it was, and nothing lies about."""
        until(lambda: status(pid, "SigCgt", "SigBlk", "SigIgn") == before, lambda: (before, status(pid, "SigCgt", "SigBlk", "SigIgn")))
        until(lambda: not glob.glob(self.file("cairn-*")), lambda: glob.glob(self.file("cairn-*")))


class Watch(WatchTest):
    def test_a_recording_is_found_by_its_processes(self):
        path = self.file("of its own.out")
        record = self.start(CAIRN, "record", "-q", "-o", path, program("attached"))
        recorder, = children(record.pid)
        recorded, = children(recorder)
        until(lambda: Run([CAIRN, "info", path]).status == 0, lambda: path)
        for pid in (record.pid, recorder, recorded):
            found = self.top(pid)
            self.assertEqual((found["state"], found["command"]), ("running", [program("attached")]))
        # A file of that name comes first.
        os.rename(Profile(path).path, self.file(str(recorded)))
        self.assertEqual(self.top(recorded)["command"], [program("attached")])
        os.rename(self.file(str(recorded)), path)
        self.end(record, recorded)

    def test_an_attached_recording_is_found(self):
        process = self.start(program("attached"), "alone")
        record = subprocess.Popen([CAIRN, "record", "-q", "-p", str(process.pid), "-o", "attached.out"], cwd=self.folder)
        self.addCleanup(record.wait)
        self.addCleanup(record.kill)
        found = until(lambda: Run([CAIRN, "top", "--json", "--interval", "0.1", str(process.pid)], cwd=self.folder).out, lambda: process.pid)
        self.assertEqual(json.loads(found)["state"], "running")
        self.assertEqual(self.top(record.pid)["state"], "running")
        # Nobody else can record it meanwhile.
        self.assertIn("is profiled already", self.cairn("top", "-p", process.pid, "--once", expected=2).words)
        record.send_signal(signal.SIGINT)
        record.wait(WAIT)
        self.assertIn(f"'cairn top -p {process.pid}' begins one", self.cairn("top", "--once", process.pid, expected=2).words)
        self.end(process)

    def test_top_records_while_it_watches(self):
        process = self.start(program("attached"), "alone")
        before = status(process.pid, "SigCgt", "SigBlk", "SigIgn")
        found = self.top("-p", process.pid)
        self.assertEqual(found["state"], "running")
        self.assert_left(process.pid, before)
        self.assertIn("functions by cpu", self.cairn("top", "--once", "-p", process.pid).text)
        self.assert_left(process.pid, before)
        self.end(process)

    def test_view_records_for_a_while(self):
        process = self.start(program("attached"), "alone")
        before = status(process.pid, "SigCgt", "SigBlk", "SigIgn")
        run = self.cairn("view", "-p", process.pid, "--duration", "0.5", "--no-debuginfod", "--json", "-o", "page.html")
        self.assertIn(f"recording {process.pid}; Ctrl-C ends it", run.words)
        self.assertGreater(json.loads(run.out)["contexts"], 3)
        self.assert_left(process.pid, before)
        # Ctrl-C ends the recording, and shows what it has.
        view = subprocess.Popen([CAIRN, "view", "-p", str(process.pid), "--duration", "1000", "--no-debuginfod", "-o", "page.html"],
                                cwd=self.folder, env={**os.environ, "TMPDIR": self.folder}, stderr=subprocess.PIPE, text=True)
        self.addCleanup(view.kill)
        self.assertIn("recording", view.stderr.readline())
        time.sleep(0.3)
        view.send_signal(signal.SIGINT)
        self.assertEqual((view.wait(WAIT), view.stderr.read()), (0, ""))
        view.stderr.close()
        self.assert_left(process.pid, before)
        self.end(process)

    def test_a_process_that_ends_first(self):
        process = self.start(program("attached"), "alone")
        view = subprocess.Popen([CAIRN, "view", "-p", str(process.pid), "--duration", "1000", "--no-debuginfod", "-o", "page.html"],
                                cwd=self.folder, env={**os.environ, "TMPDIR": self.folder}, stderr=subprocess.PIPE, text=True)
        self.addCleanup(view.kill)
        self.assertIn("recording", view.stderr.readline())
        self.end(process)
        self.assertEqual((view.wait(WAIT), view.stderr.read()), (0, ""))
        view.stderr.close()
        self.assertTrue(os.path.exists(self.file("page.html")))
        self.assertEqual(glob.glob(self.file("cairn-*")), [])

    def test_a_tool_that_is_killed_leaves_the_process(self):
        process = self.start(program("attached"), "alone")
        before = status(process.pid, "SigCgt", "SigBlk", "SigIgn")
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            view = subprocess.Popen([CAIRN, "view", "-p", str(process.pid), "--duration", "1000", "-o", "page.html"], cwd=self.folder,
                                    env={**os.environ, "TMPDIR": self.folder}, stderr=subprocess.PIPE, text=True)
            self.addCleanup(view.kill)
            self.assertIn("recording", view.stderr.readline())
            view.send_signal(number)
            self.assertEqual(view.wait(WAIT), -number)
            view.stderr.close()
            self.assert_left(process.pid, before)
        self.end(process)

    def test_one_line_where_it_cannot_be(self):
        for words, expected in ((("top", "--once", "-p", "4194303"), "there is no process"), (("top", "--once", "-p", "x"), "is not a process"),
                                (("top", "--once", "-p", "1", "a.out"), "not both"), (("view", "-p", "1", "a.out"), "not both"),
                                (("view", "--base", "a.out", "-p", "1"), "not both"), (("view", "--duration", "3"), "--duration takes -p"),
                                (("view", "-p", "1", "--duration", "soon", "-o", "x"), "--duration takes a number"),
                                (("top", "--once", "4194303"), "no recording of a process 4194303")):
            said = self.cairn(*words, expected=2).words
            self.assertIn(expected, said)
            self.assertEqual(len(said.strip().splitlines()), 1, said)
        self.assertEqual(glob.glob(self.file("cairn-*")), [])


@installed("tmux")
class WatchedProcess(WatchTest):
    """The keys of `cairn top -p`."""

    def test_keys(self):
        process = self.start(program("attached"), "alone")
        before = status(process.pid, "SigCgt", "SigBlk", "SigIgn")
        screen = Screen(self, f"TMPDIR=. {CAIRN} top -p {process.pid} --view tree")
        screen.see("call tree by cpu now")
        # One below the other: main, compute, long_one.
        text = until(lambda: "long_one" in screen.text() and screen.text(), screen.text)
        rows = [line for line in text.splitlines() if " main" in line]
        self.assertIn(" - main", rows[0])
        screen.type("Home")
        screen.type("Enter")  # closes it
        until(lambda: " + main" in screen.text() and "long_one" not in screen.text(), screen.text)
        screen.type("Enter")
        until(lambda: " - main" in screen.text(), screen.text)
        screen.type("m")  # there is one metric: it stays
        screen.see("call tree by cpu now")
        screen.type("s")
        screen.see("saved as cairn.out.1")
        self.assertGreater(Profile(self.file("cairn.out.1")).samples, 0)
        screen.type("q")
        screen.see("status 0")
        self.assert_left(process.pid, before)
        self.end(process)

    def test_the_next_metric(self):
        record = self.start(CAIRN, "record", "-q", "-e", "wall", "-e", "cpu", "-o", self.file("two.out"), program("attached"), "alone")
        recorder, = children(record.pid)
        recorded, = children(recorder)
        until(lambda: Run([CAIRN, "info", self.file("two.out")]).status == 0, lambda: "two.out")
        screen = Screen(self, f"{CAIRN} top {recorded}")
        screen.see("functions by wall now")
        screen.type("m")
        screen.see("functions by cpu now")
        screen.type("m")
        screen.see("functions by wall now")
        screen.type("q")
        screen.see("status 0")
        self.end(record, recorded)

    def test_a_terminal_that_goes_away(self):
        process = self.start(program("attached"), "alone")
        before = status(process.pid, "SigCgt", "SigBlk", "SigIgn")
        screen = Screen(self, f"TMPDIR=. {CAIRN} top -p {process.pid}")
        screen.see("functions by cpu now")
        screen.run("kill-server")
        self.assert_left(process.pid, before)
        self.end(process)


if __name__ == "__main__":
    unittest.main()
