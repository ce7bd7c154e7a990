# SPDX-License-Identifier: MIT
"""Lines and instructions of a function with their cost."""

import json
import os
import re
import shutil
import subprocess
import unittest

from support import CAIRN, LiveTest, Run, installed, program

SOURCE = r"""
#include <stdlib.h>
static volatile unsigned long sink;

__attribute__((noipa)) unsigned long spin(unsigned long n)
{
	unsigned long value = n;   /* a tab */
    for (unsigned long i = 0; i < n; i++)
        value = value * 6364136223846793005u + 1; /* HOT */
    return value;
}

__attribute__((noipa)) void caller(void)
{
    sink += 1;
    sink += spin(200000000); /* CALL */
}

__attribute__((noipa)) void far(void)
{
    for (unsigned long i = 0; i < 50000000; i++)
        sink += i; /* FIRST */
""" + 60 * '    __asm__ volatile("nop");\n' + r"""
    for (unsigned long i = 0; i < 50000000; i++)
        sink ^= i; /* LAST */
}

int main(int count, char **words)
{
    (void)words;
    if (count > 1)
        far();
    else
        caller();
    return 0;
}
"""


@installed("gcc")
class Annotate(LiveTest):
    def setUp(self):
        super().setUp()
        self.source = self.file("spin.c", SOURCE)
        self.binary = self.file("bin/spin")
        os.makedirs(os.path.dirname(self.binary), exist_ok=True)
        subprocess.run(["gcc", "-O1", "-g", "-o", "bin/spin", "spin.c"], cwd=self.folder, check=True)
        self.recorded = self.recording("spin.out")

    def recording(self, name, *argv):
        path = self.file(name)
        run = Run([CAIRN, "record", "-q", "-F", "2000", "-o", path, self.binary, *argv])
        self.assertEqual(run.status, 0, run.words)
        return path

    def annotate(self, *argv, status=0):
        run = Run([CAIRN, "annotate", *argv], cwd="/")
        self.assertEqual(run.status, status, run.words)
        return run

    def line_of(self, mark):
        return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if mark in line)

    def test_lines(self):
        """Each line has its cost, and the text of the source is beside it."""
        answer = json.loads(self.annotate("spin", self.recorded, "--json").text)
        self.assertEqual(sum(line["self"] for line in answer["lines"]), answer["self"])
        self.assertLessEqual({line["line"] for line in answer["lines"]}, set(range(self.line_of("spin(unsigned"), self.line_of("caller(void)"))))
        run = self.annotate("spin", self.recorded, "--width", "80")
        self.assertRegex(run.text, r"\Aspin \(spin\): .* of cpu by itself, .* with all it calls\n")
        self.assertRegex(run.text, rf"(?m)^ +[0-9.]+ % +[0-9.]+ % +{self.line_of('HOT')}  +value = .*HOT")
        self.assertIn("__attribute__((noipa)) unsigned long spin(unsigned long n)", run.text)
        self.assertIn("        unsigned long value = n;   /* a tab */", run.text)
        self.assertIn(os.path.realpath(self.source), run.text)
        run = self.annotate("caller", self.recorded)
        self.assertRegex(run.text, rf"(?m)^ +(100\.0|9[0-9]\.[0-9]) % +{self.line_of('CALL')}  .*CALL")

    def test_lines_and_instructions_without_cost_are_one_row(self):
        recorded = self.recording("far.out", "far")
        for option, what in (("--width=60", "line"), ("--asm", "instruction")):
            text = self.annotate("far", recorded, option).text
            if "without Zydis" in text:
                continue
            self.assertRegex(text, rf"(?m)^ +[⋮:] \d+ {what}s$")
            self.assertNotIn("\\x", text)
        # What does not fit is wrapped between words.
        text = self.annotate("far", recorded, "--width", "40").text
        self.assertLessEqual(max(map(len, text.splitlines()[:3])), 40)

    def test_sources_elsewhere(self):
        """Without the source there are numbers; --source says where it is."""
        os.makedirs(self.file("away"), exist_ok=True)
        shutil.move(self.source, self.file("away/spin.c"))
        run = self.annotate("spin", self.recorded)
        self.assertEqual(run.text.count("not at hand"), 1)
        self.assertNotIn("value", run.text)
        self.assertRegex(run.text, rf"(?m)^ +[0-9.]+ % +[0-9.]+ % +{self.line_of('HOT')}$")
        run = self.annotate("spin", self.recorded, "--source", self.file("away"))
        self.assertIn("HOT", run.text)
        # Lines of a file that was written later may be others.
        self.assertNotIn("has changed", run.text)
        later = os.stat(self.recorded).st_mtime + 60
        os.utime(self.file("away/spin.c"), (later, later))
        self.assertIn("has changed", self.annotate("spin", self.recorded, "--source", self.file("away")).text)

    @installed("objdump")
    def test_instructions(self):
        """The instructions are those of objdump, and their costs add up to that of the function."""
        answer = json.loads(self.annotate("spin", self.recorded, "--asm", "--json").text)
        pieces = answer["code"]
        if pieces and "without Zydis" in pieces[0].get("error", ""):
            self.skipTest("built without Zydis")
        self.assertEqual(len(pieces), 1)
        ours = pieces[0]["instructions"]
        self.assertEqual(sum(one["self"] for one in ours), answer["self"])
        theirs = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=spin", self.binary],
                                capture_output=True, check=True, text=True).stdout
        theirs = re.findall(r"(?m)^ +([0-9a-f]+):\t(\S+)", theirs)
        self.assertEqual([one["address"] for one in ours], [int(address, 16) for address, _ in theirs])
        same = sum(ours_one["text"].split()[0].startswith(name[:3]) for ours_one, (_, name) in zip(ours, theirs))
        self.assertGreater(same, 0.7 * len(theirs))
        call = json.loads(self.annotate("caller", self.recorded, "--asm", "--json").text)["code"][0]["instructions"]
        self.assertIn("spin", [one["target"] for one in call if one["total"] > 0])
        text = self.annotate("caller", self.recorded, "--asm").text
        self.assertRegex(text, r"call 0x[0-9a-f]+ <spin>")
        # Another build has other instructions.
        subprocess.run(["gcc", "-O2", "-g", "-DOTHER", "-o", self.binary, self.source], check=True)
        text = self.annotate("spin", self.recorded, "--asm").text
        self.assertNotIn("ret", text)
        self.assertEqual(text.replace("\n", " ").count("has changed since the recording"), 1)

    def test_without_lines_there_are_instructions(self):
        subprocess.run(["gcc", "-O1", "-o", self.binary, self.source], check=True)
        recorded = self.recording("stripped.out")
        text = self.annotate("caller", recorded).text
        if "without Zydis" in text:
            self.skipTest("built without Zydis")
        self.assertIn("No lines are known", text)
        self.assertRegex(text, r"call 0x[0-9a-f]+ <spin>")
        self.assertEqual(text.split("own   total")[1], self.annotate("caller", recorded, "--asm").text.split("own   total")[1])
        answer = json.loads(self.annotate("caller", recorded, "--json").text)
        self.assertNotIn("code", answer)

    def test_calls_and_bad_input(self):
        counted = self.file("counted.out")
        run = Run([CAIRN, "record", "-q", "--track", "calls", "-o", counted, program("regression-1"), "2"])
        self.assertEqual(run.status, 0, run.words)
        answer = json.loads(self.annotate("report", counted, "--json").text)
        self.assertEqual((answer["metric"], answer["calls"]), ("calls", 2))
        damaged = self.file("damaged.out", "no profile")
        for argv, words in (((), "name the function"), (("spin", damaged), "damaged.out"), (("no_such", self.recorded), "no_such"),
                            (("spin", self.recorded, "--metric", "cpus"), "did you mean 'cpu'?"),
                            (("spin", self.recorded, self.recorded), "one profile at a time")):
            with self.subTest(argv=argv):
                run = self.annotate(*argv, status=2)
                self.assertIn(words, run.words)
                self.assertEqual((run.out, len(run.words.splitlines())), (b"", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
