# SPDX-License-Identifier: MIT
"""A recording that is watched while it runs: `cairn top`."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from collections import defaultdict

from support import CAIRN, LiveTest, Profile, Run, installed, nodes_of

WAIT = 90  # seconds, for what comes within two


def until(ask, what):
    """The first answer that is one."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"not within {WAIT} s: {what()}")


class Screen:
    """A shell on a terminal of its own, and what stands on it."""

    def __init__(self, case, command, columns=80, lines=24):
        # A server of its own: one that is told to end takes a moment.
        self.socket = tempfile.mktemp(prefix="tmux-", dir=case.folder)
        case.addCleanup(self.run, "kill-server", check=False)
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", case.folder,
                 f"LANG=C.UTF-8; export LANG; {command}; echo status $?; stty -a; sleep 1000")

    def run(self, *words, check=True):
        return subprocess.run(["tmux", "-S", self.socket, *words], check=check, capture_output=True, text=True).stdout

    def text(self):
        return self.run("capture-pane", "-p")

    def see(self, words):
        return until(lambda: words in self.text() and self.text(), lambda: f"{words} in\n{self.text()}")

    def type(self, *keys):
        self.run("send-keys", *keys)

    def say(self, words):
        self.run("send-keys", "-l", words)


class Once(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.record_for_all("shares")

    def top(self, *options):
        run = Run([CAIRN, "top", *options, self.profile.path], env={**os.environ, "COLUMNS": "80"})
        self.assertEqual(run.status, 0, run.words)
        return run.text

    def test_json_has_the_numbers_of_the_report(self):
        top = json.loads(self.top("--json"))
        self.assertEqual((top["state"], top["metric"], top["samples"]), ("ended", "cpu", self.profile.samples))
        self.assertEqual(top["whole"], self.profile.total)
        rows = {row["function"]: row for row in top["functions"]}
        own = defaultdict(int)
        for node in nodes_of(self.profile.report("--no-inlines", "--min", "0")):
            own[node.function] += node.own
        for name, row in rows.items():
            if name.startswith("share_"):
                self.assertEqual(row["self"], own[name])
        self.assertGreater(rows["burn"]["self"], 0.8 * top["whole"])
        self.assertGreaterEqual(rows["main"]["total"], rows["share_leaf"]["total"])

    def test_views(self):
        for view, words in (("functions", "functions by cpu"), ("tree", "call tree by cpu"), ("callers", "callers by cpu")):
            text = self.top("--once", "--view", view)
            self.assertIn(words, text)
            self.assertIn("burn", text)
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        self.assertRegex(self.top("--once", "--view", "tree"), r" - main\n.*   [-+] share_")

    def test_one_line_where_it_cannot_be(self):
        for options, words in ((["top", self.profile.path], "takes a terminal"),
                               (["top", "--once", "nothing.cairn"], "there is no profile nothing.cairn"),
                               (["top", "--once", "--metric", "wall", self.profile.path], "no metric 'wall'"),
                               (["top", "--once", "--interval", "0", self.profile.path], "--interval takes seconds")):
            run = Run([CAIRN, *options], cwd=self.folder)
            self.assertEqual((run.status, len(run.words.strip().splitlines())), (2, 1), run.words)
            self.assertIn(words, run.words)


@installed("tmux")
class Watched(LiveTest):
    """One recording, of a program that runs until it is told to end."""

    def setUp(self):
        super().setUp()
        self.recorder = subprocess.Popen([CAIRN, "record", "-q", "-o", "live.cairn", "--", "sh", "-c", "while :; do :; done # " + 80 * "x"],
                                         cwd=self.folder)
        self.addCleanup(self.end)
        until(lambda: (self.once() or {}).get("samples"), self.once)

    def end(self):
        if self.recorder.poll() is None:
            self.recorder.send_signal(signal.SIGTERM)
        self.recorder.wait(WAIT)

    def once(self):
        run = Run([CAIRN, "top", "--json", "--interval", "0.1", "live.cairn"], cwd=self.folder)
        return json.loads(run.out) if run.status == 0 else None

    def assert_restored(self, screen, status):
        text = screen.see(f"status {status}")
        text = screen.see("isig")
        for setting in (" icanon", " echo "):
            self.assertIn(setting, text.replace("\n", " ").replace(";", " "))

    def test_a_life(self):
        one, other = self.once(), self.once()
        self.assertEqual((one["state"], other["state"]), ("running", "running"))
        self.assertGreater(other["duration_ns"], one["duration_ns"])
        self.assertLess(other["whole_now"], other["whole"])
        self.assertGreater(other["samples_per_s"], 0)

        screen = Screen(self, f"{CAIRN} top live.cairn")
        first = screen.see("running for").splitlines()[:1]
        until(lambda: screen.text().splitlines()[:1] != first, screen.text)  # it goes on by itself
        text = screen.see("functions by cpu now")
        # The line of keys stays: nothing is written over it while symbols are read.
        self.assertEqual(text.splitlines()[-1].split()[-2:], ["q", "quit"])
        screen.type("v")
        screen.see("call tree by cpu now")
        screen.type("t")
        screen.see("call tree by cpu in all")
        screen.type("?")
        screen.see("Keys of cairn top")
        screen.type("x")
        screen.see("call tree by cpu in all")
        screen.type("/")
        screen.say("nobody")
        screen.type("Enter")
        screen.see("nothing is like that")
        screen.type("Escape")
        until(lambda: "nothing is like that" not in screen.text(), screen.text)
        screen.type("s")
        screen.see("saved as live.cairn.1")
        self.assertGreater(Profile(self.file("live.cairn.1")).samples, 0)
        screen.run("resize-window", "-x", "50", "-y", "12")
        text = until(lambda: len(screen.text().splitlines()) <= 12 and "…" in screen.text() and screen.text(), screen.text)
        self.assertLessEqual(max(map(len, text.splitlines())), 50)
        screen.run("resize-window", "-x", "80", "-y", "24")
        screen.type("Space")
        screen.see("paused")
        screen.type("Space")
        self.end()
        screen.see("the recording has ended")
        screen.see("ended after")
        screen.type("q")
        self.assert_restored(screen, 0)

    def test_signals_leave_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGSEGV):
            screen = Screen(self, f"sh -c 'echo $$ > pid; exec {CAIRN} top live.cairn'")
            screen.see("running for")
            with open(self.file("pid"), encoding="ascii") as file:
                os.kill(int(file.read()), number)
            self.assert_restored(screen, 128 + number)


if __name__ == "__main__":
    unittest.main()
