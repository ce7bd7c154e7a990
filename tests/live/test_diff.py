# SPDX-License-Identifier: MIT
"""What changed between two versions of a program, and why."""

import json
import os
import re
import unittest

from support import CAIRN, LiveTest, Run, installed, program, shares

PERL = r"""
my ($sorts, $length) = @ARGV; my $text = join " ", map { "word" . ($_ * 7919 % 997) } 1 .. 4000; my %h;
my $line = "abcdefghij" x (2500 * $length);
for my $round (1 .. 60) {
    my @words = split / /, $text;
    $h{$_}++ for @words;
    for (1 .. $sorts) { my @sorted = sort { $a cmp $b } @words; }
    my $count = 0; $count += ($line =~ tr/a-e//) for 1 .. 10;
}
"""


SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000)
    insert into t select i, 'row' || (i*7919%10007), i*0.5 from n;
"""


class Versions(LiveTest):
    """Builds of one program: 1 is the first, 2 the same again, 5 has both changes; see regression.c."""

    def time(self, version, attempt=0):
        path = self.file(f"time{version}-{attempt}.out")
        run = Run([CAIRN, "record", "-q", "-F", "10000", "-o", path, program(f"regression-{version}")])
        self.assertEqual((run.status, run.words), (0, ""))
        return path

    def merged(self, argv, name):
        """Time and calls of a program, as one profile."""
        paths = [self.file(f"{name}-{kind}.out") for kind in ("time", "calls", "both")]
        for path, options in zip(paths, (("-F", "10000"), ("--track", "calls"))):
            run = Run([CAIRN, "record", "-q", *options, "-o", path, *argv])
            self.assertEqual(run.status, 0, run.words)
        run = Run([CAIRN, "merge", "-q", "-o", paths[2], *paths[:2]])
        self.assertEqual((run.status, run.words), (0, ""))
        return paths[2]

    def diff(self, old, new, *options):
        run = Run([CAIRN, "diff", old, new, "--json", *options])
        self.assertEqual((run.status, run.words), (0, ""))
        result = json.loads(run.out)
        self.assert_adds_up(result)
        return result

    def assert_adds_up(self, result):
        rows = result["rows"]
        least = 1e-6 * max(result["old_total"], result["new_total"])
        self.assertAlmostEqual(sum(row["delta"] for row in rows), result["new_total"] - result["old_total"], delta=least)
        for row in rows:
            self.assertAlmostEqual(row["new"] - row["old"], row["delta"], delta=least)
            if row["delta_calls"] is not None:
                self.assertAlmostEqual(row["delta_calls"] + row["delta_per_call"], row["delta"], delta=least)
        self.assertEqual([abs(row["delta"]) for row in rows], sorted((abs(row["delta"]) for row in rows), reverse=True))

    @staticmethod
    def named(result):
        return {row["function"]: row for row in result["rows"] if row["significant"]}


class Diff(Versions):
    def test_a_slow_function_and_a_frequent_one(self):
        """Both are named, rightly split, and nothing else is."""
        def record():
            old = self.merged([program("regression-1")], "old")
            new = self.merged([program("regression-5")], "new")
            return old, new, self.diff(old, new)

        @shares()
        def judge(recorded):
            rows = self.named(recorded[2])
            self.assertEqual(set(rows), {"lookup", "report"})
            slow, often = rows["lookup"], rows["report"]
            self.assertEqual(slow["path"][-3:], ["main", "match", "lookup"])
            self.assertEqual((slow["old_calls"], slow["new_calls"], slow["delta_calls"]), (76800, 76800, 0))
            self.assertEqual(often["path"][-2:], ["main", "report"])
            self.assertEqual((often["old_calls"], often["new_calls"]), (150, 300))
            self.assertGreaterEqual(often["contexts"], 3)
            self.assertEqual(often["delta_calls"], often["old"])
            self.assertLess(abs(often["delta_per_call"]), 0.2 * often["delta"])

        old, new, _ = self.steadily(record, judge)
        text = Run([CAIRN, "diff", old, new, "--width", "80"]).text
        self.assertRegex(text, r"\Acpu rose from ")
        self.assertRegex(text.replace("\n", " "), r"(lookup|report) costs .* more .*; the path is main (→|>) (match|report)")
        self.assertRegex(text, r"(?m)^    main (→|>) report, with \d+ contexts below$")
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)
        # Rows that are noise stand apart, with and without colours.
        self.assertEqual(len(re.findall(r"(?m)^[+-]\S+ \w+ +[+-]", text.split("may be noise:")[0])), 2)
        counts = self.diff(old, new, "--metric", "calls")
        self.assertEqual(set(self.named(counts)), {"report"})
        self.assertEqual(self.named(counts)["report"]["delta"], 150 * (1 + 600 * 3))
        by_function = self.named(self.diff(old, new, "--by", "function", "--metric", "calls"))
        self.assertEqual(set(by_function), {"report", "format", "work", "hash"})

    def test_normalized_runs_of_different_lengths(self):
        """Twice as many rounds are the same shares; one function more often is not."""
        def calls(version, rounds):
            path = self.file(f"calls{version}-{rounds}.out")
            run = Run([CAIRN, "record", "-q", "--track", "calls", "-o", path, program(f"regression-{version}"), str(rounds)])
            self.assertEqual(run.status, 0, run.words)
            return path

        short, long, changed = calls(1, 30), calls(1, 60), calls(5, 60)
        plain = self.diff(short, long, "--metric", "calls")
        self.assertFalse(plain["normalized"])
        self.assertEqual(self.named(plain)["report"]["delta"], 30 * (1 + 600 * 3))
        same = self.diff(short, long, "--metric", "calls", "--normalize")
        self.assertTrue(same["normalized"])
        self.assertEqual((same["old_total"], same["new_total"]), (1, 1))
        self.assertEqual(self.named(same), {})
        text = Run([CAIRN, "diff", "--metric", "calls", "--normalize", short, long]).text
        self.assertIn("Shares of all calls", text)
        self.assertNotIn("costs", text)
        rows = self.named(self.diff(short, changed, "--metric", "calls", "--normalize"))
        # The share of `report` grows as if it alone had doubled; those of all others shrink by as much.
        old = rows["report"]["old"]
        self.assertAlmostEqual(rows["report"]["new"], 2 * old / (1 + old), delta=0.001)
        self.assertEqual([name for name, row in rows.items() if row["delta"] > 0], ["report"])
        # By functions, and of time: the same program for twice as long.
        self.assertEqual(self.named(self.diff(short, long, "--metric", "calls", "--normalize", "--by", "function")), {})
        paths = [self.file(f"time-{rounds}.out") for rounds in (100, 200)]
        for path, rounds in zip(paths, (100, 200)):
            run = Run([CAIRN, "record", "-q", "-F", "10000", "-o", path, program("regression-1"), str(rounds)])
            self.assertEqual(run.status, 0, run.words)
        # Which rows are significant by themselves, and which only together, below a caller, is up to the samples.
        grown = self.diff(*paths)
        significant = [row for row in grown["rows"] if row["significant"]]
        self.assertIn("lookup", [row["function"] for row in significant])
        self.assertGreater(sum(row["delta"] for row in significant), 0.8 * (grown["new_total"] - grown["old_total"]))
        shares_of_time = self.diff(*paths, "--normalize")
        self.assertEqual((shares_of_time["old_total"], shares_of_time["new_total"]), (1, 1))

    @installed("perl")
    def test_a_real_program(self):
        """perl sorts twice as often, and counts letters in longer lines: that is what it is said to do."""
        script = self.file("work.pl", PERL)
        os.environ["PERL_HASH_SEED"] = "0"  # else hashes cost more in some runs than in others
        self.addCleanup(os.environ.pop, "PERL_HASH_SEED")

        def record():
            return self.diff(self.merged(["perl", script, "1", "1"], "once"), self.merged(["perl", script, "2", "3"], "twice"))

        @shares()
        def judge(result):
            rows = self.named(result)
            self.assertIn("Perl_pp_sort", rows)
            # The lists that are sorted are assigned, and freed, too; no other instruction of perl's is named.
            named = {name for name in rows if name.startswith("Perl_pp_")}
            self.assertLessEqual(named, {"Perl_pp_sort", "Perl_pp_aassign"})
            sort = rows["Perl_pp_sort"]
            self.assertEqual((sort["old_calls"], sort["new_calls"]), (60, 120))
            self.assertEqual(sort["delta_calls"], sort["old"])
            self.assertLess(abs(sort["delta_per_call"]), 0.25 * sort["delta"])
            # As often as before, and each time three times the work.
            count = rows["Perl_do_trans"]
            self.assertEqual((count["old_calls"], count["new_calls"], count["delta_calls"]), (600, 600, 0))
            self.assertGreater(count["delta_per_call"], count["old"])

        self.steadily(record, judge)

    @installed("sqlite3")
    def test_a_query_that_runs_twice_as_often(self):
        """sqlite3 runs more statements: the path is named, and the calls are told."""
        def merged(times):
            script = self.file("script.sql", SQL + "select count(*) from t where b like '%99%';\n" * (10 * times))
            return self.merged(["sqlite3", "-init", script, ":memory:", ".exit"], f"sql{times}")

        def record():
            return self.diff(merged(1), merged(2))

        @shares()
        def judge(result):
            # Whichever function on the way to sqlite3_step is named: it is called once for each of ten more
            # queries, or twice, for the row and for the end of it.
            more = [row for row in self.named(result).values() if row["new_calls"] - row["old_calls"] in (10, 20)]
            self.assertNotEqual(more, [])
            self.assertTrue(all(row["delta_calls"] > 0.5 * row["delta"] > 0 for row in more), more)

        self.steadily(record, judge)

    def test_no_change_is_named(self):
        """Ten repetitions of the same program: at 99 %, two of ten would be named once in 250 times by chance."""
        def record():
            return [self.time(1 + attempt % 2, attempt) for attempt in range(11)]

        @shares()
        def judge(runs):
            named = [self.named(self.diff(old, new)) for old, new in zip(runs, runs[1:])]
            self.assertLessEqual(sum(1 for rows in named if rows), 1, named)

        runs = self.steadily(record, judge)
        self.assert_not_named(runs)

    def assert_not_named(self, runs):
        """Of five runs beside five."""
        several = self.diff(",".join(runs[:5]), ",".join(runs[5:10]))
        self.assertEqual((len(several["old"]), len(several["new"])), (5, 5))
        self.assertLessEqual(len(self.named(several)), 1)

    @installed("perl")
    def test_no_change_of_a_real_program_is_named(self):
        script = self.file("work.pl", PERL)
        os.environ["PERL_HASH_SEED"] = "0"
        self.addCleanup(os.environ.pop, "PERL_HASH_SEED")

        def record():
            paths = [self.file(f"perl-{attempt}.out") for attempt in range(11)]
            for path in paths:
                run = Run([CAIRN, "record", "-q", "-F", "10000", "-o", path, "--", "perl", script, "1", "1"])
                self.assertEqual((run.status, run.words), (0, ""))
            return paths

        @shares()
        def judge(runs):
            named = [self.named(self.diff(old, new)) for old, new in zip(runs, runs[1:])]
            self.assertLessEqual(sum(1 for rows in named if rows), 1, named)

        self.assert_not_named(self.steadily(record, judge))

    def test_bad_input(self):
        old = self.time(1)
        damaged = self.file("damaged.out", "no profile")
        _, alloc = self.record([program("regression-1"), "1"], "-e", "alloc")
        _, other = self.record([program("shares")])
        for argv, words in (((old, damaged), "damaged.out"), ((old, self.file("missing.out")), "missing.out"),
                            ((old, other.path), "different programs"),
                            ((old, alloc.path), "no metric in common"),
                            ((old, old, "--metric", "cpus"), "did you mean 'cpu'?"),
                            ((old,), "name two profiles"), ((old, old, old), "name two profiles"),
                            ((old, old, "--confidence", "100"), "percentage"),
                            ((old, old, "--by", "path"), "context or function")):
            with self.subTest(argv=argv):
                run = Run([CAIRN, "diff", *argv])
                self.assertEqual((run.status, run.out), (2, b""))
                self.assertIn(words, run.words)
                self.assertEqual(len(run.words.splitlines()), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
