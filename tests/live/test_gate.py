# SPDX-License-Identifier: MIT
"""A gate fails on what exceeds a base, and on nothing else."""

import glob
import json
import os
import re
import tempfile
import unittest

from support import CAIRN, LiveTest, Run, installed, program

ECHO = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(int(sys.argv[1]))"


class Gate(LiveTest):
    def base(self, argv, *options):
        path = self.file("base.out")
        run = Run([CAIRN, "record", "-q", *options, "-o", path, *argv])
        self.assertEqual(run.status, 0, run.words)
        return path

    def gate(self, *argv, status=0):
        left = set(glob.glob(tempfile.gettempdir() + "/cairn-gate-*"))
        run = Run([CAIRN, "gate", *argv], cwd=self.folder)
        self.assertEqual(run.status, status, run.words + run.text)
        self.assertLessEqual(set(glob.glob(tempfile.gettempdir() + "/cairn-gate-*")), left)
        return run

    def test_calls(self):
        """Calls are exact: the same again passes, and one path that is called more often fails."""
        base = self.base([program("regression-1"), "20"], "--track", "calls")
        self.assertEqual(self.gate(base, "--", program("regression-2"), "20").words, f"no path exceeds {base}\n")
        run = self.gate(base, "-o", "new.out", "--", program("regression-4"), "20", status=1)
        self.assertEqual(len(run.words.splitlines()), 2)
        self.assertRegex(run.words, r"calls: 72,040, 36,020 in the base: main (→|>) report\n1 path costs too much\n")
        self.assertEqual(run.out, b"")
        answer = json.loads(self.gate(base, "new.out", "--json", status=1).text)
        self.assertEqual((answer["ok"], len(answer["rows"]), answer["limits"]), (False, 1, []))
        row = answer["rows"][0]
        self.assertEqual((row["path"][-1], row["metric"], row["delta"]), ("report", "calls", 36020))
        self.gate(base, "new.out", "--above", "100%")
        self.gate(base, "new.out", "--above", "99.9", status=1)
        self.assertEqual(self.gate("new.out", base).text, "no path exceeds new.out\n")

    @installed("gcc")
    def test_a_base_that_lost_its_names(self):
        """After a build in place, the base has no names: that is said before what seems new."""
        source = self.file("grow.c", "#include <stdlib.h>\nvoid *volatile kept;\n__attribute__((noipa)) void grow(int n) { while (n--) kept = malloc(9); }\n"
                                     "int main(void) { grow(N); return 0; }\n")
        build = ["gcc", "-g", "-O1", "-o", self.file("grow"), source]
        self.assertEqual(Run([*build, "-DN=5"]).status, 0)
        base = self.base([self.file("grow")], "-e", "alloc")
        kept = self.file("kept.out")
        self.assertEqual(Run([CAIRN, "export", "-f", "cairn", "-o", kept, base]).status, 0)
        self.assertEqual(Run([*build, "-DN=6"]).status, 0)
        run = self.gate(base, "-o", "new.out", "--", self.file("grow"), status=1)
        self.assertRegex(" ".join(run.words.split()), rf"^Note: {re.escape(base)}: {re.escape(self.file('grow'))} has changed since the recording")
        self.assertEqual(len(json.loads(self.gate(base, "new.out", "--json", status=1).text)["notes"]), 1)
        self.assertTrue(Run([CAIRN, "diff", base, self.file("new.out")]).text.startswith("Note: "))
        run = self.gate(kept, "new.out", status=1)
        self.assertNotIn("Note", run.text)
        self.assertIn("grow", run.text)
        self.assertEqual(json.loads(self.gate(kept, "new.out", "--json", status=1).text)["notes"], [])

    @installed("gcc")
    def test_address_space(self):
        """The call that maps more is another one if there was less room before it: no cost of that call."""
        source = self.file("map.c", "#include <stdlib.h>\n#include <sys/mman.h>\n"
                                    "__attribute__((noipa)) void first(int n) { mmap(0, n ? 1 << 20 : 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }\n"
                                    "int main(int count, char **words) { (void)words; first(count > 1); return 0; }\n")
        self.assertEqual(Run(["gcc", "-O1", "-o", self.file("map"), source]).status, 0)
        base = self.base([self.file("map")], "-e", "alloc")
        self.gate(base, "-o", "new.out", "--", self.file("map"), "more")
        self.gate(base, "new.out", "--metric", "mapped", status=1)

    @installed("perl")
    def test_allocations(self):
        """Bytes and blocks are exact, in a real program too."""
        script = self.file("work.pl", "my @kept; for (1 .. $ARGV[0]) { push @kept, 'x' x 1000; } my $all = join '', @kept;")
        os.environ["PERL_HASH_SEED"] = "0"
        self.addCleanup(os.environ.pop, "PERL_HASH_SEED")
        base = self.base(["perl", script, "500"], "-e", "alloc")
        self.gate(base, "--", "perl", script, "500")
        run = self.gate(base, "--", "perl", script, "501", status=1)
        self.assertIn("Perl_pp_", run.words)
        self.gate(base, "--above", "5", "--", "perl", script, "501")
        self.gate(base, "--max", "Perl_runops_standard: 0 allocs", status=1)
        self.gate(base, "--max", "Perl_runops_standard: 100000 allocs", "--max", "main;no_such: 0 bytes")
        run = self.gate(base, "--max", "main;no_such: 0 bytes", "--max", "main;Perl_runops_*: 100000 allocs")
        self.assertEqual(run.text, "main;no_such: 0, for no function that was recorded is named no_such\nno path exceeds its limit\n")
        limits = json.loads(self.gate(base, "--json", "--max", "main;no_such: 0 bytes", "--max", "main: 100000 allocs").text)["limits"]
        self.assertEqual([limit["unknown"] for limit in limits], ["no_such", None])

    @installed("gcc")
    @installed("make")
    def test_the_examples_of_the_document(self):
        """Their commands pass while nothing has changed, and fail when a path is called more often."""
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "gate.md"), encoding="utf-8") as file:
            text = file.read()
        jobs = [re.findall(r"(?m)^ +- (?:run: )?((?:make|cairn gate) .*?)(?: +#.*)?$", block)
                for block in re.findall(r"(?s)```yaml\n(.*?)```", text)]
        base = re.findall(r"(?m)^\$ ((?:make|cairn) .*)$", text.split("## In a CI job")[1])
        self.assertEqual([len(commands) for commands in (*jobs, base)], [2, 2, 3])
        os.mkdir(self.file("ci"))
        self.file("ci/input", "7\n")
        self.file("Makefile", "app: app.c\n\t$(CC) -O1 -o $@ app.c\n")
        self.source(1)
        environment = dict(os.environ, PATH=os.path.dirname(CAIRN) + ":" + os.environ["PATH"])

        def shell(commands):
            return Run(["sh", "-ec", "\n".join(commands)], cwd=self.folder, env=environment)

        self.assertEqual(shell(base).status, 0)
        for job in jobs:
            for times, status in ((1, 0), (2, 1)):
                self.source(times)
                run = shell(["rm -f app", *job])
                self.assertEqual(run.status, status, run.words)
            self.assertRegex(run.words, r"calls: 14, 7 in the base: main (→|>) work")

    def source(self, times):
        self.file("app.c", "#include <stdio.h>\n__attribute__((noipa)) void work(void) {}\n"
                  "int main(int count, char **words)\n{\n    int rounds = 0;\n    FILE *input = count > 1 ? fopen(words[1], \"r\") : 0;\n"
                  "    if (!input || fscanf(input, \"%d\", &rounds) != 1)\n        return 2;\n"
                  f"    for (int i = 0; i < {times} * rounds; i++)\n        work();\n    return 0;\n}}\n")

    def test_time(self):
        """Sampled time fails beyond noise alone."""
        base = self.base([program("regression-1")], "-F", "5000")
        run = self.gate(base, "--metric", "cpu", "--", program("regression-4"), status=1)
        self.assertIn("report", run.words)
        self.assertNotIn("encode_block", run.words)

    def test_the_command_is_left_alone(self):
        """Its output is its own; one that fails is no new version."""
        os.environ["PYTHONHASHSEED"] = "0"
        self.addCleanup(os.environ.pop, "PYTHONHASHSEED")
        base = self.base(["python3", "-c", ECHO, "0"], "-e", "alloc")
        run = self.gate(base, "--above", "100000", "--", "python3", "-c", ECHO, "0")
        self.assertEqual(run.text, "out\n")
        self.assertTrue(run.words.startswith("err\n"), run.words)
        run = self.gate(base, "--", "python3", "-c", ECHO, "7", status=1)
        self.assertIn("ended with status 7", run.words)
        run = self.gate(base, "--", "/no/such/program", status=1)
        self.assertIn("no/such/program", run.words)

    def test_bad_input(self):
        base = self.base([program("regression-1"), "1"], "--track", "calls")
        damaged = self.file("damaged.out", "no profile")
        for argv, words in (((), "name the profile"), ((base,), "nothing to compare"), ((damaged, base), "damaged.out"),
                            ((base, base, base), "one profile too many"), ((base, base, "--", "true"), "too many"),
                            ((base, "--"), "name the command"), ((base, base, "-o", "x"), "there is none"),
                            ((base, "--max", "parse"), "is not a limit"), ((base, "--max", "parse: 0 allocs"), "has no allocs"),
                            ((base, base, "--above", "much"), "percentage"),
                            ((base, "--", "true"), "different programs")):
            with self.subTest(argv=argv):
                run = self.gate(*argv, status=2)
                self.assertIn(words, run.words)
                self.assertEqual((run.out, len(run.words.splitlines())), (b"", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
