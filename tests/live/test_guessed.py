# SPDX-License-Identifier: MIT
"""A path through code without unwind tables is called guessed, not complete, and is still the likeliest one."""

import subprocess
import unittest

from support import CAIRN, LiveTest, Run, installed, shares

TABLES = """
int work(int), told(int);
__attribute__((noinline))
int told(int n) { return work(n) + 1; }
int main(void) { int sum = 0; for (int i = 0; i < 3000; i++) sum += told(i); return sum == 7; }
"""
NO_TABLES = """
__attribute__((noinline)) static int spin(int n) {
    volatile int sum = n;
    for (int i = 0; i < 100000; i++) sum = sum * 31 + i;
    return sum;
}
int work(int n);
int work(int n) { volatile int room[24]; room[n & 7] = spin(n); return room[n & 7] + 1; }
"""

class Guessed(LiveTest):
    def compile(self, how, *more):
        program = self.file("program")
        objects = []
        for name, text, flags in (("tables", TABLES, ()), ("none", NO_TABLES, how)):
            source = self.file(name + ".c", text)
            objects.append(self.file(name + ".o"))
            subprocess.run(["gcc", "-O2", "-g", *flags, "-c", "-o", objects[-1], source], check=True)
        subprocess.run(["gcc", *more, "-o", program, *objects], check=True)
        return program

    def judge(self, how, judge):
        program = self.compile(how)

        def life():
            run, profile = self.record([program])
            self.assertEqual(run.status, 0, run.words)
            return profile

        return self.steadily(life, judge)

    @installed("gcc")
    def test_code_with_tables_is_complete(self):
        def judge(profile):
            self.assertEqual(profile.info["walks"]["guessed"], 0)
            self.assertGreater(profile.info["walks"]["complete_pct"], 99)

        self.judge(("-fasynchronous-unwind-tables",), judge)

    @installed("gcc")
    def test_code_without_tables_is_guessed(self):
        for frames in ("-fomit-frame-pointer", "-fno-omit-frame-pointer"):
            with self.subTest(frames):
                @shares()
                def judge(profile):
                    walks = profile.info["walks"]
                    self.assertGreater(walks["guessed_pct"], 95)
                    self.assertLess(walks["complete_pct"], 5)
                    self.assertEqual(sum(walks["reasons"].values()), walks["truncated"])
                    self.assertGreater(profile.share("main", "told", "work", "spin"), 0.9)

                self.judge(("-fno-asynchronous-unwind-tables", "-fno-exceptions", frames), judge)

    @installed("gcc")
    def test_the_summary_and_the_report_say_so(self):
        program = self.compile(("-fno-asynchronous-unwind-tables",))
        run = Run([CAIRN, "record", "-o", self.file("said"), "--", program])
        self.assertRegex(run.words, r"complete contexts, \d+\.\d\d % guessed")
        self.assertRegex(Run([CAIRN, "info", self.file("said")]).text, r"% guessed: [\d,]+ led through")
        self.assertRegex(Run([CAIRN, "report", self.file("said")]).text, r"Guessed: [\d.]+ % of the paths")


if __name__ == "__main__":
    unittest.main()
