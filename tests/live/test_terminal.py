# SPDX-License-Identifier: MIT
"""What people see who sit at a terminal: colours if they want them, lines that fit, keys that work."""

import codecs
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

from support import CAIRN, LiveTest, Run, installed, program

COLUMNS = 70
COLOUR = re.compile(r"\033\[[0-9;]*m")
# What the environment may say of how to print.
SETTINGS = ("NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LC_ALL", "LC_CTYPE", "PAGER", "CAIRN_PAGER", "LESS")


def piped(*argv, cwd, **environment):
    """Runs cairn where nobody watches."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return Run([CAIRN, *argv], cwd=cwd, env={**kept, "LANG": "C.UTF-8", **environment})


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, argv, cwd, columns=COLUMNS, **environment):
        self.seen = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a letter may come in two parts
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                # Whoever runs the tests in the background may have them ignore the key.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                os.chdir(cwd)
                kept = {name: value for name, value in os.environ.items()
                        if name not in SETTINGS}
                os.execvpe(argv[0], argv, {**kept, "LANG": "C.UTF-8", "TERM": "xterm", "CAIRN_PAGER": "",
                                           **environment})
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
            # Both may come in two parts, letters and ends of lines.
            self.seen = (self.seen + self.decoder.decode(data)).replace("\r\n", "\n")
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
        cls.record_for_all("shares")

    def report(self, *options, **environment):
        terminal = Terminal([CAIRN, "report", self.profile.path, *options], self.folder, **environment)
        self.assertEqual(terminal.end(), 0)
        return terminal.seen

    def test_a_terminal_has_colours(self):
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

    def widest(self, *options, **environment):
        run = piped("report", self.profile.path, *options, cwd=self.folder, **environment)
        self.assertEqual(run.status, 0, run.words)
        return max(map(len, COLOUR.sub("", run.text).split("\n\n")[1].splitlines()))

    def test_a_pipe_cuts_nothing(self):
        """In a pipe nothing is cut, unless a width is asked for."""
        full = self.widest()
        self.assertGreater(full, 80)
        self.assertLessEqual(self.widest(COLUMNS="80"), 80)
        self.assertLessEqual(self.widest("--width", "80"), 80)
        self.assertLessEqual(self.widest("--width=72", COLUMNS="80"), 72)
        self.assertEqual(self.widest("--width=0", COLUMNS="80"), full)
        self.assertEqual(self.widest(COLUMNS="wide"), full)
        for width in ("", "wide", "-1", "39", "10001", "1e2"):
            run = piped("report", self.profile.path, "--width", width, cwd=self.folder)
            self.assertEqual((run.status, run.text), (2, ""))
            self.assertIn("--width takes 40 to 10000 columns", run.words)

    def test_color_decides_over_the_environment(self):
        """--color decides over the environment, and that over whether it is a terminal."""
        def is_coloured(*options, **environment):
            run = piped("report", self.profile.path, *options, cwd=self.folder, **environment)
            self.assertEqual(run.status, 0, run.words)
            return bool(COLOUR.search(run.text))
        self.assertFalse(is_coloured())
        self.assertTrue(is_coloured("--color=always"))
        self.assertTrue(is_coloured(CLICOLOR_FORCE="1"))
        self.assertFalse(is_coloured(CLICOLOR_FORCE="0"))
        self.assertFalse(is_coloured(CLICOLOR_FORCE="1", NO_COLOR="1"))
        self.assertFalse(is_coloured("--color=never", CLICOLOR_FORCE="1"))
        self.assertTrue(is_coloured("--color", "always", NO_COLOR="1"))
        self.assertNotRegex(self.report("--color=never"), COLOUR)
        self.assertFalse(COLOUR.search(piped("report", self.profile.path, "--json", "--color=always",
                                             cwd=self.folder).text))
        run = piped("info", self.profile.path, "--color=sometimes", cwd=self.folder)
        self.assertEqual(run.status, 2)
        self.assertIn("auto, always or never", run.words)

    def test_ascii_where_the_locale_has_no_more(self):
        text = self.report(LANG="C")
        self.assertTrue(text.isascii(), text)
        self.assertIn("`-", text)

    def test_nothing_while_it_runs(self):
        """The terminal is the program's until it ends: all that it writes is there as it wrote it."""
        text = "".join(f"{i} of 25, and no new line; " for i in range(25))
        self.file("write", "for i in $(seq 0 24); do printf '%s of 25, and no new line; ' $i; sleep 0.1; done; echo\n")
        terminal = Terminal([CAIRN, "record", "-o", "written.out", "sh", "write"], self.folder)
        self.assertEqual(terminal.end(), 0)
        shown, _, words = terminal.seen.partition("\n")
        self.assertEqual(shown, text)
        self.assertIn("next: cairn report written.out", words)
        self.assertNotIn("\033", words)

    def test_words_fit(self):
        """What cairn says of a recording wraps at words; a number stays with its percent sign."""
        terminal = Terminal([CAIRN, "record", "-o", "fits.out", program("shares")], self.folder, columns=42)
        self.assertEqual(terminal.end(), 0)
        self.assertLessEqual(max(map(len, terminal.seen.splitlines())), 42, terminal.seen)
        self.assertNotRegex(terminal.seen, r"(?m)^\s*%")
        self.assertRegex(" ".join(terminal.seen.split()), r"cairn: 100\.00 % complete contexts; cost of ")

    def test_what_commands_print_fits(self):
        """In 80 columns lines are wrapped, and nothing of what `info` says is cut; in a pipe each value is a line."""
        for command in (["info", self.profile.path], ["list"], ["doctor"]):
            run = piped(*command, cwd=self.folder, COLUMNS="80", LC_ALL="C")
            self.assertEqual([line for line in run.text.splitlines() if len(line) > 80], [])
        narrow = piped("info", self.profile.path, cwd=self.folder, COLUMNS="80").text.split("\n\n")[0]
        wide = piped("info", self.profile.path, cwd=self.folder).text.split("\n\n")[0]
        self.assertGreater(len(narrow.splitlines()), len(wide.splitlines()))
        self.assertEqual(narrow.split()[narrow.split().index("recorded"):], wide.split()[wide.split().index("recorded"):])

    def test_nothing_is_said_of_no_samples(self):
        path = os.path.join(self.folder, "short.out")
        # It computes for a millisecond, and the clock ticks once a second: one sample is rare.
        for _ in range(5):
            piped("record", "-F", "1", "-o", path, "true", cwd=self.folder)
            text = piped("info", path, cwd=self.folder).text
            if re.search(r"^samples +0,", text, re.M):
                break
        self.assertRegex(text, r"(?m)^samples +0,")
        self.assertNotRegex(text, r"(?m)^(contexts|stack depth|handler)")

    def test_misuse_fits(self):
        terminal = Terminal([CAIRN, "record", "-e", "cpuu", "true"], self.folder, columns=50)
        self.assertEqual(terminal.end(), 2)
        self.assertLessEqual(max(map(len, terminal.seen.splitlines())), 50, terminal.seen)

    def test_ctrl_c_ends_the_program_and_not_the_recording(self):
        """Ctrl-C ends the program, not the recording of it."""
        self.file("loop", "echo begun\nwhile :; do :; done\n")
        terminal = Terminal([CAIRN, "record", "-o", "cut.out", "sh", "loop"], self.folder)
        terminal.read(until="begun")
        terminal.type(b"\x03")
        self.assertEqual(terminal.end(), 130)
        self.assertIn("next: cairn report cut.out", terminal.seen)
        run = Run([CAIRN, "report", "cut.out"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)


# A pager that shows what it was given, and with which settings.
PAGER = """#!/bin/sh
echo "paged by $0 $*, LESS=$LESS"
cat
"""
# A pager that the user leaves after the first line.
IMPATIENT = """#!/bin/sh
read -r line
echo "only: $line"
"""


class PagerTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.record_for_all("shares")

    def setUp(self):
        super().setUp()
        for name, text in (("mine", PAGER), ("other", PAGER), ("impatient", IMPATIENT)):
            os.chmod(self.file(name, text), 0o755)

    def see(self, *argv, status=0, **environment):
        """What a terminal shows; a variable that is None is not set."""
        settings = {"CAIRN_PAGER": None, **environment}
        unset = [f"--unset={name}" for name, value in settings.items() if value is None]
        given = [f"{name}={value}" for name, value in settings.items() if value is not None]
        terminal = Terminal(["env", *unset, *given, CAIRN, *argv], self.folder)
        self.assertEqual(terminal.end(), status, terminal.seen)
        return terminal.seen

    def test_long_output_goes_to_the_pager(self):
        for arguments in (["report", self.profile.path], ["info", self.profile.path], ["list"], ["help"],
                          ["help", "record"], ["report", "--help"], ["--help"],
                          ["compare", self.profile.path, self.profile.path],
                          ["report", "--json", self.profile.path]):
            with self.subTest(arguments=arguments):
                plain = self.see(*arguments, CAIRN_PAGER="")
                self.assertNotIn("paged", plain)
                seen = self.see(*arguments, PAGER="./mine now")
                # What is said of progress is erased before the pager starts.
                progress, _, shown = seen.partition("paged by ./mine now, LESS=FRX\n")
                self.assertRegex(progress, r"^(\r.*\033\[K)?$")
                self.assertEqual(progress + shown, plain)

    def test_pagers_are_asked_in_order(self):
        path = self.profile.path
        self.assertIn("paged by ./mine", self.see("info", path, CAIRN_PAGER="./mine", PAGER="./other"))
        self.assertIn("LESS=S", self.see("info", path, CAIRN_PAGER="./mine", LESS="S"))
        for none in ("", "cat"):
            self.assertNotIn("paged", self.see("info", path, CAIRN_PAGER=none, PAGER="./other"))
            self.assertNotIn("paged", self.see("info", path, PAGER=none))
        for options in (["info", "--no-pager", path], ["--no-pager", "info", path]):
            self.assertNotIn("paged", self.see(*options, PAGER="./other"))
        self.assertNotIn("paged", self.see("info", path, PAGER="./other", TERM="dumb"))
        # A shell runs what is more than words.
        self.assertIn("found: samples", self.see("info", path, PAGER="sed -n 's/.*samples.*/found: samples/p'"))

    def test_not_where_nobody_watches(self):
        run = piped("info", self.profile.path, cwd=self.folder, PAGER="./mine")
        self.assertNotIn("paged", run.text)

    def test_colours_and_width_stay(self):
        seen = self.see("report", self.profile.path, PAGER="./mine")
        self.assertRegex(seen, COLOUR)
        rows = COLOUR.sub("", seen).split("\n\n")[1].splitlines()
        self.assertLessEqual(max(map(len, rows)), COLUMNS)

    def test_left_early(self):
        """The user has seen enough: that is no error, and nothing is said of it."""
        seen = self.see("report", "--json", self.profile.path, PAGER="./impatient")
        self.assertTrue(seen.endswith("only: {\n"), seen)

    def test_without_a_pager_that_starts(self):
        plain = self.see("info", self.profile.path, CAIRN_PAGER="")
        self.assertEqual(self.see("info", self.profile.path, PAGER="/no/such/pager -x"), plain)
        self.assertEqual(self.see("info", self.profile.path, PATH="/nowhere"), plain)
        seen = self.see("info", self.profile.path, PAGER="/no/such/pager 'and more'", status=1)
        self.assertIn("use --no-pager", seen)

    def test_errors_are_seen(self):
        seen = self.see("report", "--metric", "moonshine", self.profile.path, PAGER="./mine", status=2)
        self.assertIn("cairn: report: ", seen)
        self.assertNotIn("paged", self.see("report", "/no/such/profile", PAGER="./mine", status=2))

    @installed("less")
    def test_less(self):
        """What fits the screen is shown and done with; the keys of less work on the rest."""
        seen = self.see("help", "help", PAGER="less")
        self.assertIn("Lists the commands", seen)
        for interrupt in (False, True):
            terminal = Terminal([CAIRN, "report", "--json", "--min=0", self.profile.path], self.folder,
                                CAIRN_PAGER="less -FRX")
            terminal.read(until=":\033[K")
            if interrupt:  # less stays, and so does cairn with it
                os.kill(terminal.pid, signal.SIGINT)
            terminal.type(b"q")
            self.assertEqual(terminal.end(), -signal.SIGINT if interrupt else 0)


if __name__ == "__main__":
    unittest.main()
