# SPDX-License-Identifier: MIT
"""Profiles beside each other, and on top of each other."""

import json
import os
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

from support import CAIRN, LiveTest, Profile, Run, installed, program, shares

PERL = r"""
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
my %h; my $text = join " ", map { "word" . ($_ % 97) } 1 .. 20000;
for (1 .. 150) { $h{$_}++ for split / /, $text; }
my @sorted = sort { $a cmp $b } map { "$_" } 1 .. 60000;
fib(22);
"""


class Together(LiveTest):
    def compare(self, exact, approx, *options):
        run = Run([CAIRN, "compare", exact.path, approx.path, "--json", *options], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        return json.loads(run.out)

    def merge(self, *profiles, options=()):
        path = self.file("merged.cairn")
        run = Run([CAIRN, "merge", "-q", "-o", path, *options, *[p.path for p in profiles]])
        self.assertEqual((run.status, run.words), (0, ""))
        return Profile(path)

    def assert_perfect(self, result):
        self.assertEqual(result["overlap"], 1)
        self.assertEqual(result["weighted_overlap"], 1)
        self.assertEqual(set(result["hot_edge_coverage"].values()), {1})
        self.assertEqual(result["uncovered"]["max_pct"], 0)
        self.assertEqual(result["false_positives"] + result["false_negatives"], 0)
        self.assertEqual(result["counter_error"]["max_pct"], 0)
        self.assertEqual(result["correlation"]["pearson"], 1)
        self.assertEqual(result["distortion"], 0)

    def assert_covers(self, result):
        """Each edge with a tenth of the hottest one's time is in both trees: no machine is busy enough for one sample
        to weigh that much, in a place that the other run never came to."""
        self.assertEqual(result["hot_edge_coverage"]["0.1"], 1)


class Compare(Together):
    def test_json_has_the_keys_that_scripts_use(self):
        """What scripts rely on is there."""
        _, profile = self.record([program("shares")], "-F", "4000")
        result = self.compare(profile, profile)
        self.assert_perfect(result)
        self.assertLessEqual({"0.1", "0.01"}, set(result["hot_edge_coverage"]))
        self.assertLessEqual({"max_pct", "avg_pct"}, set(result["uncovered"]))
        self.assertLessEqual({"max_pct", "avg_pct"}, set(result["counter_error"]))
        self.assertEqual(set(result["correlation"]), {"pearson", "spearman", "edges"})
        self.assertEqual(result["exact"]["total"] + result["exact"]["outside"], profile.total)
        chosen = self.compare(profile, profile, "--threshold", "0.5,0.25", "--edges", "3")
        self.assertEqual(set(chosen["hot_edge_coverage"]), {"0.5", "0.25"})
        self.assertEqual(chosen["correlation"]["edges"], 3)
        self.assertEqual(len(chosen["hottest_edges"]), 3)

    def test_two_runs(self):
        """Runs at different addresses, with marker and without, have the same contexts."""
        def two():
            _, exact = self.record([program("shares")], "-F", "4000")
            _, approx = self.record([program("shares")], "-F", "4000", "--marker=off")
            return self.compare(exact, approx)

        def judge(result):
            self.assert_covers(result)
            with shares():
                self.assertGreater(result["overlap"], 0.99)
                self.assertGreater(result["weighted_overlap"], 0.85)
                self.assertGreater(result["correlation"]["pearson"], 0.98)
                self.assertLess(result["distortion"], 15)

        result = self.steadily(two, judge)
        paths = [edge["path"] for edge in result["hottest_edges"][:4]]
        self.assertTrue(all(path.endswith("share_leaf;burn") or "share_" in path for path in paths),
                        paths)

    @installed("perl")
    def test_two_runs_of_perl(self):
        script = self.file("work.pl", PERL)

        def two():
            _, exact = self.record(["perl", script], "-F", "10000")
            _, approx = self.record(["perl", script], "-F", "10000")
            return self.compare(exact, approx)

        @shares()
        def judge(result):
            self.assertGreater(result["overlap"], 0.9)
            self.assertEqual(result["hot_edge_coverage"]["0.1"], 1)
            self.assertGreater(result["correlation"]["pearson"], 0.9)

        self.steadily(two, judge)

    def test_few_samples(self):
        """What differs by chance is not shown as if it were the program's doing."""
        _, exact = self.record([program("shares")], "-F", "4000")
        _, few = self.record([program("shares")], "-F", "20")
        result = self.compare(exact, few)
        self.assertEqual((result["exact"]["few_samples"], result["approx"]["few_samples"]), (False, True))
        lines = [line for line in Run([CAIRN, "compare", exact.path, few.path]).text.splitlines() if "few samples" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("Of the approximation there are few samples: "), lines)

    def test_text_and_picture(self):
        _, exact = self.record([program("shares")], "-F", "4000")
        _, approx = self.record([program("shares")], "-F", "1000")
        picture = self.file("bars.svg")
        run = Run([CAIRN, "compare", exact.path, approx.path, "--svg", picture])
        self.assertEqual((run.status, run.words), (0, ""))
        for words in ("degree of overlap", "hot edge coverage", "uncovered", "false positives",
                      "counter error", "correlation", "distortion", "burn"):
            self.assertIn(words, run.text)
        pairs = ElementTree.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}g")
        self.assertEqual(len(pairs), min(40, self.compare(exact, approx)["exact"]["contexts"]))
        self.assertEqual(os.listdir(self.folder).count("bars.svg"), 1)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith(".cairn-")])


class Merge(Together):
    def test_runs_add_up(self):
        _, one = self.record([program("shares")], "-F", "4000")
        _, other = self.record([program("shares")], "-F", "4000")
        both = self.merge(one, other)
        self.assertEqual(both.total, one.total + other.total)
        self.assertEqual(both.samples, one.samples + other.samples)
        self.assertEqual(both.info["processes"], 2)
        self.assertEqual(len(both.info["events"]), 1)
        self.assertTrue(both.info["complete"])
        for path in (("share_upper", "share_left"), ("share_lower", "share_right", "burn")):
            self.assertEqual(both.below(*path), one.below(*path) + other.below(*path))
        # Each is most of what it is a half of.
        for half in (one, other):
            self.assertEqual(self.compare(half, both)["overlap"], 1)
        # Twice the same is the same.
        self.assert_perfect(self.compare(one, self.merge(one, one)))

    def test_metrics_stand_side_by_side(self):
        _, cpu = self.record([program("shares")], "-F", "4000")
        _, wall = self.record([program("shares")], "-e", "wall", "-F", "4000")
        both = self.merge(cpu, wall)
        self.assertEqual([event["name"] for event in both.info["events"]], ["cpu", "wall"])
        for metric, alone in ((0, cpu), (1, wall)):
            total = sum(node["self"][metric] for node in both.report("--min", "0")["nodes"])
            self.assertEqual(total, alone.total)
        self.assertEqual(self.compare(cpu, both)["overlap"], 1)
        self.assertEqual(self.compare(both, wall, "--metric", "wall")["weighted_overlap"], 1)

    def test_threads_and_processes(self):
        _, one = self.record([program("threads"), "small"], "-F", "10000")
        self.assertGreater(len(one.info["tree_list"]), 1)
        both = self.merge(one, one)
        self.assertEqual(both.total, 2 * one.total)
        apart = self.merge(one, one, options=["--apart"])
        self.assertEqual(apart.total, 2 * one.total)
        self.assertEqual(len(apart.info["tree_list"]), 2 * len(one.info["tree_list"]))

    def test_memory_does_not_grow_with_the_profiles(self):
        """Of many ranks, one profile at a time is read."""
        path, peaks = self.file("rank.cairn"), []
        subprocess.run([program("odd_profiles"), "calls", "50000", path, CAIRN], check=True)
        for count in (2, 40):
            with subprocess.Popen([CAIRN, "merge", "-q", "-o", self.file("all.cairn"), *[path] * count]) as child:
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            peaks.append(usage.ru_maxrss)
        self.assertLess(peaks[1], 1.2 * peaks[0])
        self.assertEqual(Profile(self.file("all.cairn")).total, 40 * Profile(path).total)

    def test_output_may_be_an_input(self):
        _, one = self.record([program("shares")], "-F", "1000")
        total = one.total
        for _ in range(2):
            run = Run([CAIRN, "merge", "-o", one.path, one.path, one.path])
            self.assertEqual(run.status, 0, run.words)
        self.assertEqual(Profile(one.path).total, 4 * total)


SOURCE = r"""
volatile long count;
#define KEEP __attribute__((noinline, noclone))
KEEP void spin(int n) { for (int i = 0; i < n; i++) count++; }
KEEP void c(int n) { spin(n); count++; }
KEEP void b(int n) { for (int i = 0; i < 10; i++) c(n); count++; }
KEEP void a(int n) { for (int i = 0; i < 10; i++) b(n); spin(n * 100); count++; }
KEEP void again(int deep, int n) { if (deep) again(deep - 1, n); else a(n); count++; }
int main(void)
{
    for (int i = 0; i < 30; i++) { a(10000); again(3, 20000); b(50000); }
    return 0;
}
"""


@installed("gcc")
class Calls(Together):
    """The exact tree, and the sampled one of the same program."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.binary = binary = case.file("nested")
        run = Run([CAIRN, "cc", "gcc", "-O2", "-g", "-o", binary, case.file("nested.c", SOURCE)])
        case.assertEqual(run.status, 0, run.words)
        _, cls.calls = case.record([binary], "--track", "calls")
        _, cls.again = case.record([binary], "--track", "calls")
        _, cls.both = case.record([binary], "--track", "calls", "-e", "cpu", "-F", "4000")
        _, cls.time = case.record([binary], "-F", "4000")

    def test_two_exact_runs_are_equal(self):
        self.assert_perfect(self.compare(self.calls, self.again))
        self.assert_perfect(self.compare(self.calls, self.both))

    def test_walked_tree_is_projected(self):
        """_start and libc are not in the tree of calls; everything else is where it should be."""
        def judge(profiles):
            both, time = profiles
            for exact, approx in ((both, time), (time, both)):
                result = self.compare(exact, approx, "--metric", "cpu")
                with shares():
                    self.assertGreater(result["overlap"], 0.99)
                    self.assertGreater(result["weighted_overlap"], 0.85)
                self.assert_covers(result)
                walked = "approx" if approx is time else "exact"
                self.assertGreater(result[walked]["left_out"], 0)

        self.steadily(lambda: (self.record([self.binary], "--track", "calls", "-e", "cpu", "-F", "4000")[1],
                               self.record([self.binary], "-F", "4000")[1]), judge)

    def test_cost_per_call(self):
        """Time of three runs and calls of one: the time of a call is that of one run."""
        self.steadily(lambda: self.costs(self.record([self.binary], "-F", "4000")[1]), self.check_costs)

    @shares()
    def check_costs(self, cost):
        """100 times as much work in each of those calls; of either there are some forty samples."""
        ratio = cost["main", "a", "spin"][0] / cost["main", "a", "b", "c", "spin"][0]
        self.assertGreater(ratio, 20)
        self.assertLess(ratio, 500)

    def costs(self, time):
        """{path: cost per call}, of calls that are known."""
        merged = self.merge(self.calls, time, time, time)
        report = merged.report("--min", "0", "--no-sites", "--no-inlines")
        self.assertEqual([metric["name"] for metric in report["metrics"]], ["cpu", "calls"])
        by_id, calls, cost = {}, {}, {}
        for node in report["nodes"]:
            path = by_id.get(node["parent"], ()) + (node["function"],)
            by_id[node["id"]] = path
            if "main" in path:
                path = path[path.index("main"):]
                calls[path], cost[path] = node["calls"], node["per_call"]
                if node["calls"]:
                    self.assertAlmostEqual(node["per_call"][0],
                                           node["total"][0] / 3 / node["calls"], delta=0.1)
        self.assertEqual(calls["main",], 1)
        self.assertEqual(calls["main", "a"], 30)
        self.assertEqual(calls["main", "a", "b", "c", "spin"], 3000)
        self.assertEqual(calls["main", "a", "spin"], 30)
        self.assertEqual(calls["main", "b", "c"], 300)
        self.assertEqual(calls["main", "again", "again", "again", "again", "a"], 30)
        return cost

    def test_metrics_differ(self):
        run = Run([CAIRN, "compare", self.calls.path, self.time.path])
        self.assertEqual(run.status, 2)
        self.assertIn("no metric in common", run.words)


FIGURE_6 = r"""
volatile long count;
#define KEEP __attribute__((noinline, noclone))
KEEP void c(void) { count++; }
KEEP void b(void) { for (int i = 0; i < 100; i++) c(); count++; }
KEEP void a(void) { for (int i = 0; i < 10; i++) b(); count++; }
int main(void) { for (int i = 0; i < 1000; i++) a(); return 0; }
"""


@installed("gcc")
class Strategies(Together):
    """Which edges a sample at a call counts for: ACCT's Figure 6, a thousand times."""

    def setUp(self):
        super().setUp()
        self.binary = self.file("figure6")
        run = Run([CAIRN, "cc", "gcc", "-O2", "-o", self.binary, self.file("6.c", FIGURE_6)])
        self.assertEqual(run.status, 0, run.words)
        _, self.exact = self.record([self.binary], "--track", "calls")

    def edges(self, *options):
        """How good the approximation is, and its weights of a>b and b>c by the exact ones."""
        run, approx = self.record([self.binary], *options)
        self.assertEqual(run.status, 0, run.words)
        result = self.compare(self.exact, approx)
        edges = {(edge["caller"], edge["function"]): edge for edge in result["hottest_edges"]}
        self.assertEqual(edges["a", "b"]["exact"], 10_000)
        self.assertEqual(edges["b", "c"]["exact"], 1_000_000)
        return result, edges["b", "c"]["approx"] / max(1, edges["a", "b"]["approx"] or 0)

    def weights(self, *options):
        """What the approximation has for main>a, a>b and b>c, as it was recorded."""
        run, approx = self.record([self.binary], *options)
        self.assertEqual(run.status, 0, run.words)
        result = self.compare(self.exact, approx, "--scale", "1")
        edges = {edge["function"]: edge["approx"] or 0 for edge in result["hottest_edges"]}
        return result, [edges[name] for name in "abc"]

    def test_a_sample_at_every_call_is_the_exact_tree(self):
        result, weights = self.weights("-e", "calls:1")
        self.assertEqual(weights, [1000, 10_000, 1_000_000])
        self.assert_perfect(result)
        result, weights = self.weights("-e", "calls-by-function:1")
        self.assertEqual(weights, [1000, 10_000, 1_000_000])
        self.assert_perfect(result)

    def test_each_function_has_a_counter_of_its_own(self):
        """Of each, one in 59 is sampled, less what decays: no function is passed over."""
        _, weights = self.weights("-e", "calls-by-function:59")
        for weight, calls in zip(weights, (1000, 10_000, 1_000_000)):
            self.assertEqual(weight % 59, 0)
            self.assertLessEqual(weight, calls)
            self.assertGreater(weight, 0.8 * calls)

    def test_random_periods_have_the_mean_that_was_asked_for(self):
        """One call in seven is sampled: five deviations of that on either side."""
        for event in ("calls:7", "calls-by-function:7"):
            with self.subTest(event=event):
                _, (_, second, third) = self.weights("-e", event, "--random-periods")
                self.assertAlmostEqual(second, 10_000, delta=1300)
                self.assertAlmostEqual(third, 1_000_000, delta=13_000)

    def test_last_edge_is_right(self):
        for period in (59, 307):
            with self.subTest(period=period):
                result, ratio = self.edges("-e", f"calls:{period}")
                self.assertGreater(ratio, 60)
                self.assertLess(ratio, 160)
                self.assertGreater(result["weighted_overlap"], 0.98)
                self.assertGreater(result["correlation"]["pearson"], 0.99)
                self.assertLess(result["distortion"], 4)

    def test_all_new_edges_are_wrong(self):
        result, ratio = self.edges("-e", "calls:307", "--weights", "all-new")
        self.assertLess(ratio, 2)
        self.assertEqual(result["overlap"], 1)
        self.assertLess(result["weighted_overlap"], 0.6)
        self.assertGreater(result["distortion"], 80)


SELDOM = r"""
#include <unistd.h>
volatile long count;
#define KEEP __attribute__((noinline, noclone))
KEEP void seldom(void) { count++; }
KEEP void often(void) { count++; }
int main(void)
{
    for (int i = 0; i < 150; i++) {
        seldom();
        for (int j = 0; j < 1000; j++) often();
        usleep(5000);
    }
    return 0;
}
"""


@installed("gcc")
class Decay(Together):
    def test_functions_that_are_seldom_called_do_not_fire(self):
        """Twenty calls in each tenth of a second: these are halved before they are 59."""
        binary = self.file("decay")
        run = Run([CAIRN, "cc", "gcc", "-O2", "-o", binary, self.file("decay.c", SELDOM)])
        self.assertEqual(run.status, 0, run.words)
        _, profile = self.record([binary], "-e", "calls-by-function:59")
        self.assertEqual(profile.named("seldom"), [])
        weight = sum(node.own for node in profile.named("often"))
        self.assertLessEqual(weight, 150_000)
        self.assertGreater(weight, 0.8 * 150_000)


class BadInput(Together):
    def refuse(self, *arguments, says, status=2):
        run = Run([CAIRN, *arguments], cwd=self.folder)
        self.assertEqual(run.status, status, run.words)
        self.assertEqual(run.out, b"")
        self.assertEqual(run.words.count("\n"), 1, run.words)
        self.assertIn(says, run.words)

    def test_compare_refuses_bad_input(self):
        _, one = self.record([program("shares")], "-F", "1000")
        _, other = self.record([program("recursion")], "-F", "1000")
        _, wall = self.record([program("shares")], "-e", "wall", "-F", "1000")
        foreign = self.file("foreign", "not a profile at all")
        self.refuse("compare", says="two profiles")
        self.refuse("compare", one.path, says="two profiles")
        self.refuse("compare", one.path, one.path, one.path, says="two profiles")
        self.refuse("compare", one.path, self.file("missing"), says="there is no profile")
        self.refuse("compare", foreign, one.path, says="foreign")
        self.refuse("compare", one.path, other.path, says="different programs")
        self.refuse("compare", one.path, wall.path, says="no metric in common")
        self.refuse("compare", one.path, one.path, "--metric", "bytes", says="no metric 'bytes'")
        self.refuse("compare", one.path, one.path, "--threshold", "2", says="'2'")
        self.refuse("compare", one.path, one.path, "--phi", "x", says="'x'")
        self.refuse("compare", one.path, one.path, "--edges", "0", says="'0'")
        self.refuse("compare", one.path, one.path, "--nonsense", says="--nonsense")
        run = Run([CAIRN, "compare", one.path, one.path, "--svg", "/nonexistent/x.svg"])
        self.assertEqual(run.status, 1)
        self.assertIn("/nonexistent/x.svg", run.words)

    def test_merge_refuses_bad_input(self):
        _, one = self.record([program("shares")], "-F", "1000")
        out = self.file("out")
        self.refuse("merge", one.path, says="-o")
        self.refuse("merge", "-o", out, says="name the profiles to merge")
        self.refuse("merge", "-o", out, one.path, self.file("missing"), says="no profile")
        self.refuse("merge", "-o", out, self.file("foreign", "x" * 100), says="foreign")
        self.assertFalse(os.path.exists(out))
        self.refuse("merge", "-o", "/nonexistent/out", one.path, says="/nonexistent/out", status=1)


if __name__ == "__main__":
    unittest.main()
