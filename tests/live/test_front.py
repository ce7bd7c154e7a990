# SPDX-License-Identifier: MIT
"""`cairn record` stands where the program would stand: signals sent to it reach the program, once; it can be
recorded itself; and what it cannot follow, it names."""

import os
import select
import shutil
import signal
import subprocess
import sys
import unittest

from support import CAIRN, LiveTest, Profile, Run, ShareOff, installed, program, shares

# A program that says which signals it gets. HUP, INT, QUIT and TERM are among them; KILL ends it.
LISTENER = """
import os, signal, sys
caught = [int(word) for word in sys.argv[1].split(',')]
def tell(number, frame):
    os.write(1, b'%d\\n' % number)
for number in caught:
    signal.signal(number, tell)
os.write(1, b'ready\\n')
if len(sys.argv) > 2:
    os.kill(0, signal.SIGUSR1)
while True:
    signal.pause()
"""

SIGNALS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
           signal.SIGALRM, signal.SIGABRT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGXCPU, signal.SIGVTALRM,
           signal.SIGWINCH, signal.SIGURG, signal.SIGIO, signal.SIGPWR, signal.SIGSYS, signal.SIGILL,
           signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGRTMIN + 4, signal.SIGRTMAX - 1]


class Signals(LiveTest):
    def listen(self, *more):
        process = subprocess.Popen(
            [CAIRN, "record", "-q", "-o", self.file("out"), sys.executable, "-c", LISTENER,
             ",".join(str(int(number)) for number in SIGNALS), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        self.assertEqual(self.line(process), b"ready")
        return process

    def line(self, process):
        """The next line; a program that says nothing is as good as dead."""
        text = b""
        while not text.endswith(b"\n"):
            self.assertTrue(select.select([process.stdout], [], [], 60)[0], text)
            byte = os.read(process.stdout.fileno(), 1)
            self.assertTrue(byte, f"ended: {process.poll()}, {text}")
            text += byte
        return text[:-1]

    def end(self, process):
        """Ends the program by a signal that it did not ask for."""
        os.kill(process.pid, signal.SIGPROF)
        self.assertEqual(process.wait(60), 128 + signal.SIGPROF)
        self.assertEqual(process.stdout.read(), b"")
        self.assertEqual(Profile(self.file("out")).info["processes"], 1)

    def test_all_are_passed_on(self):
        process = self.listen()
        for number in SIGNALS:
            os.kill(process.pid, number)
            self.assertEqual(self.line(process), b"%d" % number)
        self.end(process)

    def test_signals_to_the_process_group(self):
        """The program gets them itself, and not a second time; afterwards, all goes on."""
        process = self.listen()
        for number in SIGNALS:
            os.killpg(process.pid, number)
            self.assertEqual(self.line(process), b"%d" % number)
        for number in SIGNALS:
            os.kill(process.pid, number)
            self.assertEqual(self.line(process), b"%d" % number)
        self.end(process)

    def test_what_the_program_sends_is_not_sent_back(self):
        """A program may signal its whole process group, which cairn is in."""
        process = self.listen("group")
        self.assertEqual(self.line(process), b"%d" % signal.SIGUSR1)
        # Signals are passed on in the order of their numbers: a second one would come before this.
        os.kill(process.pid, signal.SIGUSR2)
        self.assertEqual(self.line(process), b"%d" % signal.SIGUSR2)
        self.end(process)

    def test_an_unhandled_signal_ends_the_program_and_not_the_profile(self):
        """What would have ended the program does so; the profile is complete."""
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            process = subprocess.Popen([CAIRN, "record", "-q", "-o", "out", "sh", "-c", "echo ready; exec sleep 60"],
                                       cwd=self.folder, stdout=subprocess.PIPE, start_new_session=True)
            self.addCleanup(process.stdout.close)
            self.assertEqual(self.line(process), b"ready")
            os.kill(process.pid, number)
            self.assertEqual(process.wait(60), 128 + number)
            self.assertTrue(Profile(self.file("out")).info["processes"])


class Nested(LiveTest):
    def test_record_under_record(self):
        """The inner one has the program, the outer one all else; each says so."""
        inner, outer = self.file("inner"), self.file("outer")
        run = Run([CAIRN, "record", "-o", outer, "--", CAIRN, "record", "-o", inner, "--", program("shares")])
        self.assertEqual(run.status, 0, run.words)
        lines = [line for line in run.words.splitlines() if "itself recorded" in line]
        self.assertEqual(len(lines), 1, run.words)
        self.assertIn(f"{program('shares')} is recorded here, and not there", lines[0])
        with shares():
            self.assertGreater(Profile(inner).share("share_leaf"), 0.9)
        profile = Profile(outer)
        self.assertEqual(profile.share("share_leaf"), 0)
        self.assertTrue(any("another 'cairn record'" in note for note in profile.info["notes"]))


class Namespaces(LiveTest):
    def notes(self, *argv):
        """What the profile notes; the recording says the same at its end."""
        run = Run([CAIRN, "record", "-o", "out", *argv], cwd=self.folder)
        if run.status:
            self.skipTest(f"not permitted here: {run.words}")
        profile = Profile(self.file("out"))
        self.assertEqual(profile.share("share_leaf"), 0)
        self.assertIn("it was not profiled", run.words)
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


class Judgement(LiveTest):
    """The sequential test that shares of time are judged by."""

    def recordings(self, outcomes):
        """How many recordings are made whose shares hold (1) or do not (0); negative: and the test fails."""
        left = iter(outcomes)
        self.made = 0

        def record():
            self.made += 1
            return next(left)

        try:
            self.steadily(record, shares()(lambda holds: self.assertEqual(holds, 1)))
        except ShareOff:
            return -self.made
        return self.made

    def test_shares_are_judged_by_who_is_ahead(self):
        for outcomes, made in (((1,), 1), ((0, 1, 1), 3), ((0, 0, 1, 1, 1), 5), ((0, 0, 0), -3),
                               ((0, 1, 0, 0), -5), ((0, 1) * 5, -9)):
            with self.subTest(outcomes=outcomes):
                self.assertEqual(self.recordings((*outcomes, 0)), made)

    def test_facts_fail_at_the_first_time(self):
        with self.assertRaises(AssertionError) as failure:
            self.steadily(lambda: self.fail("a fact"), lambda recorded: None)
        self.assertNotIsInstance(failure.exception, ShareOff)


if __name__ == "__main__":
    unittest.main()
