# SPDX-License-Identifier: MIT
"""What people see who sit at a terminal: colours if they want them, lines that fit, keys that work."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata
import unittest

from support import CAIRN, LiveTest, Run, program

COLUMNS = 70
COLOUR = re.compile(r"\033\[[0-9;]*m")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, argv, cwd, **environment):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                # Whoever runs the tests in the background may have them ignore the key.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
                os.chdir(cwd)
                kept = {name: value for name, value in os.environ.items()
                        if name not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
                os.execvpe(argv[0], argv, {**kept, "LANG": "C.UTF-8", "TERM": "xterm", **environment})
            finally:
                os._exit(99)

    def read(self, until=None, timeout=120):
        """All that is written up to some text, or to the end."""
        end = time.monotonic() + timeout
        while until is None or until not in self.seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"nothing more after {timeout} s: {self.seen}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # the other side is gone
                break
            if not data:
                break
            self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return self.seen

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self):
        self.read()
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class TerminalTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        run, cls.profile = case.record([program("shares")])
        case.assertEqual(run.status, 0, run.words)

    def report(self, *options, **environment):
        terminal = Terminal([CAIRN, "report", self.profile.path, *options], self.folder, **environment)
        self.assertEqual(terminal.end(), 0)
        return terminal.seen

    def test_colours(self):
        self.assertRegex(self.report(), COLOUR)
        self.assertNotRegex(self.report(NO_COLOR="1"), COLOUR)
        # A terminal that knows no control sequences gets none, nor the progress that needs them.
        self.assertNotIn("\033", self.report(TERM="dumb"))

    def test_rows_fit(self):
        for options in ((), ("--view", "callers"), ("--view", "flat"), ("--lines",)):
            with self.subTest(options=options):
                text = re.sub(r"\r.*\033\[K", "", COLOUR.sub("", self.report(*options)))
                table = text.split("\n\n")[1]
                self.assertIn("burn", table)
                for row in table.splitlines():
                    wide = sum(not unicodedata.combining(letter) for letter in row)
                    self.assertLessEqual(wide, COLUMNS, row)

    def test_ascii(self):
        text = self.report(LANG="C")
        self.assertTrue(text.isascii(), text)
        self.assertIn("`-", text)

    def record_until_shown(self, **environment):
        """Records until a line of status was shown."""
        self.file("wait", "until test -e go; do sleep 0.05; done\necho went\n")
        terminal = Terminal([CAIRN, "record", "-o", "waited.out", "sh", "wait"], self.folder, **environment)
        terminal.read(until="[cairn] ")
        self.file("go", "")
        self.assertEqual(terminal.end(), 0)
        os.unlink(os.path.join(self.folder, "go"))
        self.assertIn("went", terminal.seen)
        return terminal.seen

    def test_status_line(self):
        self.assertRegex(self.record_until_shown(), COLOUR)
        self.assertNotRegex(self.record_until_shown(NO_COLOR="1"), COLOUR)

    def test_interrupt(self):
        """Ctrl-C ends the program, not the recording of it."""
        self.file("loop", "echo begun\nwhile :; do :; done\n")
        terminal = Terminal([CAIRN, "record", "-o", "cut.out", "sh", "loop"], self.folder)
        terminal.read(until="begun")
        terminal.type(b"\x03")
        self.assertEqual(terminal.end(), 130)
        self.assertIn("next: cairn report cut.out", terminal.seen)
        run = Run([CAIRN, "report", "cut.out"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)


if __name__ == "__main__":
    unittest.main()
