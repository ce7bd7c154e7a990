# SPDX-License-Identifier: MIT
"""Text in profiles, programs and arguments is shown, and never obeyed: no command prints a character that could
move a cursor, turn text around, forge a line, or break the format that it is printed in."""

import csv
import json
import os
import re
import shutil
import unicodedata
import unittest
from xml.etree import ElementTree

from foreign import Otlp, Pprof
from support import CAIRN, LiveTest, Run, program
from test_terminal import COLOUR, Terminal

# C0 and DEL, C1 as a character and as a byte, bytes that are no UTF-8, directions, what cannot be seen, tags.
EVIL = ("e\033[31m\033]0;title\007\b\r\x7f\u009b2J\u202eright\u2066\u200b\ufeff\u2028\U000e0041".encode()
        + b"\x9b\xff\xc3\xed\xa0\x80;'<&\">%s%n ]]> -->\nFORGED\tend")
# What a file may be called, as far as the kernel lists it without escapes.
EVIL_NAME = EVIL.replace(b"\n", b"").replace(b"/", b"")
HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}
PID = "2000000000"  # beyond all that the kernel gives out


class HostileNames(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        names = "/tmp/perf-%s.map" % PID
        cls.addClassCleanup(lambda: os.path.exists(names) and os.unlink(names))
        with open(names, "wb") as file:
            for at in range(1, 7):
                file.write(b"%x 80 %d%s\n" % (at * 0x100, at, EVIL.replace(b"\n", b"\r")))
        cls.made = case.file("made")
        run = Run([program("hostile_profile"), cls.made, PID, EVIL])
        case.assertEqual(run.status, 0, run.words)
        cls.recorded = case.file("recorded")
        folder = os.path.join(os.fsencode(case.folder), EVIL_NAME)
        os.mkdir(folder)
        cls.program = os.path.join(folder, EVIL_NAME[:40])
        with open(program("shares"), "rb") as file:
            binary = file.read()
        # Names of functions and of source files have the same length then as before.
        for name, evil in ((b"share_leaf", b"s\033[1m;\nl\xff\x9b"), (b"share_recursive", b"\xe2\x80\xae\xc2\x9b\033]0;evil\007\r"),
                           (b"shares.c", b"\033[2Jx.c\n"), (b"share_left", b"l\xf3\xa0\x81\x81\t\xe2\x80\x8b\b")):
            case.assertEqual(len(name), len(evil))
            case.assertIn(name + b"\0", binary)
            binary = binary.replace(name + b"\0", evil + b"\0")
        with open(cls.program, "wb") as file:
            file.write(binary)
        os.chmod(cls.program, 0o755)
        cls.recording = Run([CAIRN, "record", "-o", cls.recorded, cls.program, EVIL, b"-x"])
        case.assertEqual(cls.recording.status, 0, cls.recording.words)

    def assert_harmless(self, data):
        """Every character can be seen, and lines are cairn's own."""
        text = data.decode("utf-8")
        bad = sorted({hex(ord(letter)) for letter in text
                      if letter not in "\n\t" and unicodedata.category(letter) in HIDDEN})
        self.assertFalse(bad, text)
        self.assertFalse([line for line in text.splitlines() if line.startswith(("FORGED", "[2J"))], text)

    def cairn(self, *arguments, status=(0,)):
        with self.subTest(arguments=arguments):
            run = Run([CAIRN, *arguments], cwd=self.folder)
            self.assertIn(run.status, status, run.words)
            self.assert_harmless(run.out)
            self.assert_harmless(run.err)
            if "--json" in arguments and run.status == 0:
                json.loads(run.err if arguments[0] == "record" else run.out)
            return run
        return None

    def each(self, *arguments, **how):
        for path in (self.made, self.recorded):
            self.cairn(*arguments, path, **how)

    def test_record_is_harmless(self):
        self.assert_harmless(self.recording.err)
        out = os.path.join(os.fsencode(self.folder), b"out" + EVIL_NAME[:60])
        out = out.replace(b"%", b"%%") # record -o takes patterns
        for argv in (("-o", out, "true"), ("-o", out, "--json", "true"), ("-o", out, "-F", "1", "true")):
            self.cairn("record", *argv)
        self.cairn("record", "-o", out + b"/x", "true", status=(2,))
        self.cairn("record", EVIL, status=(127,))
        self.cairn("record", os.path.dirname(self.program), status=(126,))
        self.cairn("record", b"--" + EVIL, "true", status=(2,))

    def test_report_is_harmless(self):
        for how in (("--view", "tree"), ("--view", "callers"), ("--view", "flat"), ("--by", "line"), ("--by", "module"),
                    ("--by", "thread"), ("--by", "process"), ("--by", "program"), ("--view", "processes"),
                    ("--process", EVIL), ("--lines", "--sites"), ("--per-process",),
                    ("--per-thread=tid",), ("--wide", "--no-fold"), ("--through", "F|s"), ("--json",),
                    ("--view", "flat", "--json"), ("--phase", "."), ("--metric", EVIL), ("--metric", "x"),
                    ("--focus", EVIL), ("--thread", EVIL), ("--phase", EVIL), ("--min", EVIL)):
            self.each("report", *how, status=(0, 2))

    def test_report_shows_what_is_there(self):
        run = self.cairn("report", self.made)
        for shown in (r"\x1b[31m", r"\u009b2J", r"\u202eright", r"\xff", r"\x0aFORGED"):
            self.assertIn(shown, run.text)
        run = self.cairn("report", self.recorded)
        self.assertIn(r"s\x1b[1m;\x0al\xff\x9b", run.text)
        # Programs get what is there, but for bytes that are no text.
        report = json.loads(self.cairn("report", self.made, "--json").out)
        self.assertEqual(report["metrics"][0]["name"], EVIL.decode(errors="replace"))

    def test_terminal_is_harmless(self):
        for path in (self.made, self.recorded):
            terminal = Terminal([CAIRN, "report", path, "--no-debuginfod"], self.folder)
            self.assertEqual(terminal.end(), 0)
            own = terminal.seen.replace("\r\033[K", "")
            self.assert_harmless(re.sub(r"reading symbols: .*? \(\d+ of \d+\)", "", COLOUR.sub("", own)).encode())

    def test_info_is_harmless(self):
        self.each("info")
        self.each("info", "--json")

    def test_compare_is_harmless(self):
        for path in (self.made, self.recorded):
            picture = self.file("bars.svg")
            self.cairn("compare", path, path, "--svg", picture)
            with open(picture, "rb") as file:
                self.assert_harmless(file.read())
            ElementTree.parse(picture)
            self.cairn("compare", path, path, "--json")
            self.cairn("compare", path, path, "--metric", EVIL, status=(0, 2))
        self.cairn("compare", self.made, self.recorded, status=(2,))

    def test_versions_are_harmless(self):
        """diff and gate, of profiles whose every function changed."""
        for path in (self.made, self.recorded):
            self.cairn("merge", "-o", "twice", path, path)
            for how in ((), ("--by", "function"), ("--normalize",), ("--json",), ("--width", "40")):
                self.cairn("diff", path, path, *how)
                self.cairn("diff", path, "twice", *how)
            self.cairn("diff", path, path, "--metric", EVIL, status=(0, 2))
            self.cairn("gate", path, path)
            self.cairn("gate", path, "--max", EVIL + b": 0 x", status=(0, 1, 2))
            self.cairn("gate", path, "--max", EVIL, "--json", status=(2,))
            self.cairn("gate", path, "--above", EVIL, path, status=(2,))
        self.cairn("diff", self.made, self.recorded, status=(2,))
        self.cairn("gate", self.made, EVIL, status=(2,))

    def test_annotate_is_harmless(self):
        for path in (self.made, self.recorded):
            nodes = json.loads(self.cairn("report", path, "--json").out)["nodes"]
            for name in {node["function"] for node in nodes}:
                for how in ((), ("--asm",), ("--json",), ("--asm", "--json")):
                    self.cairn("annotate", name.encode(errors="replace") or b".", path, *how, status=(0, 2))
            self.cairn("annotate", ".", path, "--source", EVIL)
            self.cairn("annotate", EVIL, path, status=(0, 2))

    def test_merge_is_harmless(self):
        self.cairn("merge", "-o", "merged", self.made, self.made)
        self.cairn("merge", "-o", "merged", self.made, self.recorded)
        self.cairn("info", "merged")
        self.cairn("report", "merged")
        self.cairn("merge", "-o", b"no/" + EVIL_NAME, self.made, status=(1,))
        self.cairn("merge", "-o", "merged", EVIL, status=(2,))

    def test_export_is_harmless(self):
        """A line for each path: what tells names from each other, and from their count, is in none of them."""
        for path in (self.made, self.recorded):
            run = self.cairn("export", "-f", "folded", path)
            whole = sum(node["self"][0] for node in json.loads(self.cairn("report", path, "--json").out)["nodes"])
            lines = run.text.splitlines()
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), whole)
            for line in lines:
                self.assertNotIn("", line.rsplit(" ", 1)[0].split(";"))
        # One of six functions is on each further line.
        depths = [len(line.rsplit(" ", 1)[0].split(";")) for line in
                  self.cairn("export", "-f", "folded", self.made).text.splitlines()]
        self.assertEqual(sorted(set(depths)), [1, 2, 3, 4, 5, 6])
        self.cairn("export", "-f", EVIL, self.made, status=(2,))

    def test_foreign_formats_are_valid(self):
        """Whatever the names are, each format is what its readers expect."""
        for path in (self.made, self.recorded):
            whole = sum(node["self"][0] for node in json.loads(self.cairn("report", path, "--json").out)["nodes"])
            self.assertEqual(Pprof(Run([CAIRN, "export", "-f", "pprof", path]).out).total(0), whole)
            speedscope = json.loads(self.cairn("export", "-f", "speedscope", path).text)
            self.assertEqual(speedscope["profiles"][0]["endValue"], whole)
            json.loads(self.cairn("export", "-f", "firefox", path).text)
            lines = self.cairn("export", "-f", "callgrind", path).text.splitlines()
            for line in lines[lines.index("positions: line"):]:
                self.assertRegex(line, r"^$|^\d+( \d+)+$|^calls=\d+ \d+$|^c?(ob|fl|fi|fe|fn)=\(\d+\)( .*)?$"
                                       r"|^(positions|events?|summary|totals):")
            self.assertEqual(lines[-1], f"totals: {whole}")
            self.assertEqual(sum(sample[3] for sample in Otlp(Run([CAIRN, "export", "-f", "otlp", path]).out).samples), whole)
            table = list(csv.reader(self.cairn("export", "-f", "csv", path).text.splitlines(), strict=True))
            self.assertEqual(sum(int(row[9]) for row in table[1:]), whole)
            graph = self.cairn("export", "-f", "dot", path)
            if shutil.which("dot"):
                drawn = Run(["dot", "-Tsvg"], stdin=graph.out)
                self.assertEqual((drawn.status, drawn.words), (0, ""))
                ElementTree.fromstring(drawn.out)

    def test_decode_is_harmless(self):
        copy = os.path.join(os.path.dirname(self.program), b"asking")
        shutil.copy(program("asking"), copy)
        with open(copy, "r+b") as file:
            binary = file.read().replace(b"step3\0", b"\033;\n\xc2\x9b\0").replace(b"\0walk\0", b"\0w\xff\x1b;\0")
            file.seek(0)
            file.write(binary)
        run = Run([CAIRN, "record", "-q", "-o", "asked", copy, "plain", "1", "200"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        values = sorted(set(re.findall(rb"c:[0-9a-f.]+", run.out)))[:20]
        self.assertGreater(len(values), 3)
        for how in ((), ("--folded",), ("--json",)):
            self.cairn("decode", "asked", *how, *values)
        self.cairn("decode", self.made, "c:1.2.3.4.5", status=(1, 2))
        self.cairn("decode", "asked", b"c:" + EVIL, status=(1, 2))

    def test_commands_is_harmless(self):
        for command in ("report", "info", "export", "compare", "merge", "decode", "record", "list", "cc", "help"):
            self.cairn(command, b"--" + EVIL, status=(0, 1, 2, 127))
            self.cairn(command, EVIL, status=(0, 1, 2, 127))
        self.cairn(EVIL, status=(2,))


if __name__ == "__main__":
    unittest.main()
