# SPDX-License-Identifier: MIT
"""Contexts as numbers: programs behave as they would without, and every number says what a walk of the stack says."""

import math
import os
import unittest

from support import CAIRN, LiveTest, Run, installed, program, shares

LUA = """
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(fib(24))
local t = {}
for i = 1, 40000 do t[i] = tostring(i * 7 % 1000) end
table.sort(t)
print(t[1], #t, pcall(error, "x"))
"""
PERL = """
sub f { my $n = shift; return $n < 2 ? $n : f($n - 1) + f($n - 2) } print f(17), "\\n";
my %h; $h{$_ % 977} .= $_ for 1 .. 30000; print scalar(keys %h), "\\n";
for (1 .. 2000) { eval { die "x\\n" if $_ % 2; 1 } or $c++ } print "$c\\n";
my @s = sort { $a <=> $b } map { ($_ * 7919) % 10007 } 1 .. 10000; print "$s[0] $s[-1]\\n";
"""
SQL = """
create table t(a, b);
with recursive c(x) as (values(1) union all select x + 1 from c where x < 20000)
  insert into t select x, x * x % 1000 from c;
select b, count(*) from t group by b order by 2 desc, 1 limit 5;
select sum(a) from t where b in (select b from t where a < 100);
"""


class EncodeTest(LiveTest):
    def encode(self, argv, *options, stdin=b"", verify=True, same_output=True):
        """Runs a program natively and by numbers; what the profile says of the numbers."""
        plain = Run(argv, cwd=self.folder, stdin=stdin)
        out = self.file("encode.out")
        check = ("--verify",) if verify else ()
        run = Run([CAIRN, "record", "-q", "-F", "5000", "--track", "encode", *check, *options, "-o", out, "--", *argv],
                  cwd=self.folder, stdin=stdin)
        self.assertEqual(run.status, plain.status, run.words)
        if same_output:
            self.assertEqual(run.out, plain.out)
        self.assertEqual(run.err, plain.err)
        self.profile = self.read(out)
        self.assertEqual(self.profile.info["tracker"], "encode")
        return self.profile.info["encode"]

    def assert_right(self, argv, least, judge=None, verify=True, **how):
        """No number is wrong, in any recording. How many there are is chance, where encoding waits for exceptions to be caught
        or for a thread to get its turn: one of three recordings is to have enough, and to please the judge."""
        self.assertGreater(least, 0)  # where none is compared, none can be wrong

        def life():
            counts = self.encode(argv, verify=verify, **how)
            self.assertEqual(counts["mismatches"], 0, counts)
            told = counts["samples_decoded"] + counts["samples_confirmed"] + counts["samples_walked"]
            self.assertLessEqual(told, self.profile.samples)
            return counts

        def enough(counts):
            if verify:
                with shares(): # of the samples: how many met the program itself
                    self.assertGreaterEqual(counts["verified"], least, counts)
            if judge is not None:
                judge(counts)

        return self.steadily(life, enough)

    def assert_decoded_mostly(self, counts):
        self.assertGreater(counts["samples_decoded"], counts["samples_walked"], counts)

    def assert_told_by_numbers(self, counts):
        """Most samples are."""
        self.assertGreater(counts["samples_decoded"] + counts["samples_confirmed"], counts["samples_walked"], counts)

    def read(self, path):
        from support import Profile
        return Profile(path)


class OwnPrograms(EncodeTest):
    def test_figure_1(self):
        self.assert_right([program("figure1")], least=100,
                          judge=lambda counts: self.assertGreaterEqual(counts["reencodings"], 1))

    def test_recursion_is_decoded_right(self):
        self.assert_right([program("recursion"), "1000"], least=100, judge=self.assert_told_by_numbers)  # in a thread

    def test_deep_recursion(self):
        """Numbers tell stacks of 65,536 frames; deeper ones are walked."""
        self.assert_right([program("recursion"), "30000"], least=15)
        self.encode([program("recursion"), "100000"])

    def test_frames_that_are_older_than_what_is_known_of_them(self):
        """Whether they are depends on who is sampled first: several recordings."""
        for _ in range(6):
            self.assert_right([program("overtaken")], least=20)

    def test_tail_calls(self):
        self.assert_right([program("tailcalls")], least=100)

    def test_open_functions_that_call_themselves(self):
        """A state that is computed from the stack has their ids, too: below them, leaf functions alone are climbed out of."""
        def judge(counts):
            self.assertGreater(counts["samples_from_leaf"], counts["samples_climbed"], counts)

        self.assert_right([program("open_recursion")], least=100, judge=judge)

    def test_no_end_of_jumps(self):
        """What a function leads to by jumps is met together with it: 3,000 calls."""
        self.assert_right([program("chain")], least=100,
                          judge=lambda counts: self.assertGreater(counts["sites_patched"], 3000))

    def test_jumps_through_a_variable(self):
        self.assert_right([program("switched")], least=100, judge=self.assert_told_by_numbers)

    def assert_told_by_leaves(self, counts):
        """No sample has to climb out of anything else, but for beginning and end."""
        with shares():
            self.assertGreater(counts["samples_direct"] + counts["samples_from_leaf"], 0.8 * self.profile.samples, counts)

    def test_calls_by_pointers_to_member_functions(self):
        """The function that calls ends in a jump, to where a table of virtual functions says."""
        self.assert_right([program("members")], least=100, judge=self.assert_told_by_leaves)

    def test_a_call_with_many_targets(self):
        """Each of 1,296 targets gets a number: pushes are those from before it was known."""
        rounds = 8000
        self.assert_right([program("many_targets"), str(rounds)], least=50,
                          judge=lambda counts: self.assertLess(counts["pushes"], rounds * 1296 / 5, counts))

    def test_a_program_that_settles(self):
        """Once it has met all that it calls, it is not encoded anew for recursion, and nothing but that pushes."""
        first, second = self.file("first.cairn"), self.file("second.cairn")
        self.record([program("steady"), first, second], "-F", "1", "--track", "encode")
        before, after = (self.read(path).info["encode"] for path in (first, second))
        pushed = {reason: after[reason] - before[reason]
                  for reason in ("pushes_recursion", "pushes_overflow", "pushes_armless", "pushes_new")}
        self.assertGreater(before["pushes_new"], 0)
        self.assertGreater(pushed.pop("pushes_recursion"), 1000000, after)
        self.assertEqual(set(pushed.values()), {0}, pushed)
        self.assertEqual(after["reencodings"], before["reencodings"])

    def test_functions_that_share_a_body(self):
        """One falls through into the other, which is called by itself, too: who runs then may have been entered by either."""
        self.assert_right([program("fallthrough")], least=200, judge=self.assert_told_by_numbers)

    def test_assembly_without_tables(self):
        """What calls it has a number, and both callers of that have their share."""
        graph = {"main": "short_way long_way", "short_way": "work", "long_way": "work", "work": "bare saving"}

        def judge(counts):
            self.assert_told_by_leaves(counts)
            self.assertEqual(counts["mismatches"], 0)
            self.assert_calls(self.profile, "without_tables", graph)
            for function in "bare", "saving":
                self.assert_share(self.profile, 1 / 8, "short_way", "work", function, slack=0.03)
                self.assert_share(self.profile, 3 / 8, "long_way", "work", function, slack=0.03)

        self.steadily(lambda: self.encode([program("without_tables")]), judge)

    def test_longjmp_is_decoded_right(self):
        for mode in "handler", "alternate", "timer":
            with self.subTest(mode):
                self.assert_right([program("jumps"), mode], least=20)

    def test_jumps_by_the_million(self):
        """Coroutines that yield by longjmp: what the jump costs us must not look like the work of the function that jumps."""
        for options in ("--track", "walk"), ("--track", "encode"), ("--track", "encode", "--verify"):
            with self.subTest(options):
                run, profile = self.record([program("jumps"), "often"], "-F", "4000", *options)
                self.assertEqual(run.status, 0, run.words)
                with shares():
                    self.assertLess(profile.share("often_yield"), 0.25)
                    self.assertAlmostEqual(profile.share("often_long") / profile.share("often_short"), 3, delta=1.2)
                if "encode" in options:
                    self.assertEqual(profile.info["encode"]["mismatches"], 0)
                if "--verify" in options:
                    self.assertGreater(profile.info["encode"]["verified"], 300)

    def test_longjmp_in_a_handler(self):
        """Which interrupts each instruction of a call and its return: those of stubs and hooks, too."""
        for mode in ("alone", "within"), ("threads", "within"), ("threads", "out"):
            with self.subTest(mode):
                def life():
                    run, profile = self.record([program("interrupted"), *mode], "-F", "5000", "--track", "encode", "--verify")
                    if run.status == 77:
                        self.skipTest("nobody may trace here")
                    self.assertEqual(run.status, 0, run.words)
                    counts = profile.info["encode"]
                    self.assertEqual(counts["mismatches"], 0, counts)
                    return counts

                self.steadily(life, lambda counts: self.assertGreater(counts["verified"], 100, counts))

    def test_longjmp_by_the_compiler(self):
        """__builtin_longjmp is a few instructions that nobody hears of: the state is wrong until a sample sees it."""
        self.steadily(lambda: self.encode([program("jumps"), "plain"]),
                      lambda counts: self.assertLess(counts["mismatches"], counts["verified"] / 2))

    def test_exceptions_are_decoded_right(self):
        for mode in "plain", "nested", "rethrow", "destructors", "threads", "foreign", "uncaught":
            with self.subTest(mode):
                self.assert_right([program("exceptions"), mode], least=20)

    def test_exceptions_that_nobody_counts(self):
        """The runtime is part of the program, and does not say when one was caught: return addresses stay as they are."""
        for mode in "plain", "nested", "rethrow", "destructors", "threads", "foreign", "uncaught":
            with self.subTest(mode):
                self.assert_right([program("exceptions-static-runtime"), mode], least=100)

    def test_exceptions_between_functions_that_are_followed_and_others(self):
        for runtime in "", "-static-runtime":
            for mode in "quick-throws", "quick-catches", "towers", "threads", "cancelled":
                with self.subTest(mode + runtime):
                    argv = [program("throws" + runtime), mode]
                    if mode == "cancelled":
                        self.encode(argv)  # over before there are numbers
                    else:
                        self.assert_right(argv, least=30 if runtime else 5)

    def test_handlers_are_decoded_right(self):
        for mode in "blocked", "sigtrap", "signalfd":
            with self.subTest(mode):
                self.assert_right([program("signals"), mode], least=100)
        self.assert_right([program("handlers"), "small"], least=50)

    def test_threads_are_decoded_right(self):
        for mode, least in ("detached", 1), ("outlive", 10):
            with self.subTest(mode):
                counts = self.assert_right([program("threads"), mode], least=least)
                self.assertEqual(counts["stopped"], 0)

    def test_threads_whose_stacks_are_too_small_for_hooks(self):
        """They are walked: no number is there to be compared."""
        counts = self.encode([program("threads"), "small"])
        self.assertEqual((counts["stopped"], counts["mismatches"]), (0, 0))
        self.assertGreater(self.profile.samples, 100)
        self.assertLess(counts["verified"], self.profile.samples / 10)

    def test_threads_that_libc_makes(self):
        """Some of them run the program's code with our signals blocked: no trap may be met there."""
        self.assert_right([program("hidden_threads")], least=30)

    def test_processes_are_decoded_right(self):
        for mode in "fork", "vfork", "spawn", "system", "popen", "exec":
            with self.subTest(mode):
                self.assert_right([program("processes"), mode], least=10, same_output=False)

    @installed("dash")
    def test_a_shell_that_vforks(self):
        """A child of vfork calls, in the memory of the thread that waits for it, and never returns from there."""
        script = ("i=0; while [ $i -lt 20 ]; do true; /bin/true; echo $i > /dev/null; x=`echo $i`; /bin/true; "
                  "y=b; i=$((i+1)); done; echo $i $x $y")
        argv = ["dash", "-c", script]
        native = self.native(argv)
        for options in ("-e", "alloc"), ("-e", "cpu", "-F", "10000"):
            with self.subTest(options=options):
                def life():
                    run, profile = self.record(argv, "--track", "encode", "--verify", *options)
                    self.assert_same(run, native)
                    counts = profile.info["encode"]
                    self.assertEqual(counts["mismatches"], 0)
                    return counts

                # Of the CPU time of a short script.
                self.steadily(life, lambda counts: self.assertGreater(counts["verified"], 5, counts))

    def test_coroutines_are_decoded_right(self):
        for mode in "switch", "small":
            with self.subTest(mode):
                self.assert_right([program("coroutines"), mode], least=10)

    def test_libraries_that_come_and_go(self):
        plugins = [program(f"plugin_{name}.so") for name in ("alpha", "beta", "gamma")]
        self.assert_right([program("libraries"), *plugins], least=500)

    def test_no_room_for_code(self):
        """Samples ask libc for the time, too: no trap may be left where a jump has no room."""
        self.assert_right([program("crowded")], least=50)

    def test_no_file_can_be_opened(self):
        """No code can be written then: no return address may lead to code that was to be."""
        self.assert_right([program("no_descriptors")], least=10)

    def test_the_loader_is_told_in_secret(self):
        argv = ["/bin/sh", "-c", "env"]
        self.encode(argv, same_output=False)
        run = Run([CAIRN, "record", "-q", "--track", "encode", "-o", self.file("e.out"), "--", *argv])
        self.assertNotIn("LD_BIND_NOW", run.text)
        os.environ["LD_BIND_NOW"] = "mine"
        try:
            run = Run([CAIRN, "record", "-q", "--track", "encode", "-o", self.file("e.out"), "--", *argv])
        finally:
            del os.environ["LD_BIND_NOW"]
        self.assertIn("LD_BIND_NOW=mine", run.text)


class NearMain(EncodeTest):
    """What stands between main and the rest of a program does not keep numbers from telling that."""

    def assert_decoded(self, *mode):
        self.assert_right([program("near_main"), *mode], least=30, judge=self.assert_decoded_mostly)

    def test_clean_up(self):
        self.assert_decoded("cleanup")  # calls _Unwind_Resume, which reads its return address

    def test_clean_up_after_exceptions(self):
        self.assert_right([program("near_main"), "cleanup", "throws"], least=50)

    def test_left_as_soon_as_entered(self):
        self.assert_decoded("entered")  # never on a stack

    def test_left_before_it_was_looked_at(self):
        self.assert_decoded("older")

    def test_called_by_the_agent(self):
        self.assert_decoded("agent")


class Stress(EncodeTest):
    """All is encoded anew hundreds of times a second. ENCODE_STRESS_SECONDS=60 makes it last."""
    SECONDS = os.environ.get("ENCODE_STRESS_SECONDS", "3")
    PLUGINS = [program(f"plugin_{name}.so") for name in ("alpha", "beta", "gamma")]

    def assert_survives(self, argv, judge):
        def life():
            run, profile = self.record(argv, "-F", "2000", "--track", "encode", "--verify", "--reencode-always",
                                       timeout=int(self.SECONDS) + 300)
            self.assertEqual(run.status, 0, run.words)
            self.assertIn(" 0 wrong", run.words)
            counts = profile.info["encode"]
            self.assertEqual(counts["mismatches"], 0, counts)
            self.assertEqual(counts["stopped"], 0)
            return counts

        def enough(counts):
            self.assertGreater(counts["verified"], 100, counts)
            self.assertGreater(counts["reencodings"], 30, counts)
            judge(counts)

        self.steadily(life, enough)

    def test_threads_in_code_that_changes(self):
        """Eight threads, and some that come and go."""
        self.assert_survives([program("encode_stress"), self.SECONDS, "8", *self.PLUGINS], lambda counts: None)

    def test_threads_in_libraries_that_come_and_go(self):
        """All work is done in libraries, by threads that live as long as these. Numbers tell most samples without climbing out
        of the library first."""
        def judge(counts):
            inside = counts["samples_direct"] + counts["samples_from_leaf"]
            self.assertGreater(inside, counts["samples_climbed"] + counts["samples_walked"], counts)

        self.assert_survives([program("reloaded"), self.SECONDS, "2", "3", *self.PLUGINS], judge)


class RealPrograms(EncodeTest):
    @installed("bzip2")
    def test_bzip2(self):
        self.assert_right(["bzip2", "-c", os.path.realpath("/bin/bash")], least=100, judge=self.assert_decoded_mostly)

    @installed("bzip2")
    def test_without_verification(self):
        self.assert_right(["bzip2", "-c", os.path.realpath("/bin/bash")], least=1, verify=False, judge=self.assert_decoded_mostly)

    @installed("perl")
    def test_perl(self):
        self.assert_right(["perl", "-e", PERL], least=20)

    @installed("lua5.4")
    def test_lua(self):
        self.assert_right(["lua5.4", "-e", LUA], least=20)

    @installed("sqlite3")
    def test_sqlite(self):
        self.assert_right(["sqlite3", ":memory:"], least=20, stdin=SQL.encode())

    @installed("xz")
    def test_xz_with_threads(self):
        self.assert_right(["xz", "-T2", "-1", "-c", os.path.realpath("/bin/bash")], least=100,
                          judge=self.assert_told_by_numbers)

    @installed("xz")
    def test_xz_alone(self):
        """All of the compressor is behind a call of two bytes without padding nearby."""
        def judge(counts):
            told = counts["samples_decoded"] + counts["samples_confirmed"]
            self.assertGreater(told, 3 * counts["samples_walked"], counts)

        self.assert_right(["xz", "-T1", "-1", "-c", os.path.realpath("/bin/bash")], least=100, judge=judge)

    @installed("rg")
    def test_rust(self):
        """Its alternate stack for signals has eight kilobytes, and our samples are taken on it."""
        words = b"".join(b"%d %x return %o\n" % (n, n * 7919, n * 31) for n in range(1000000))
        self.assert_right(["rg", "-c", r"(\w+ ){2}(re)+turn 7.*1$", self.file("words", words)], least=20)

    @installed("git")
    def test_git(self):
        Run(["git", "init", "-q", "repository"], cwd=self.folder)
        self.assert_right(["git", "-C", "repository", "hash-object", *[os.path.realpath("/bin/bash")] * 20], least=100)

    def assert_told(self, share, argv, **how):
        """That many samples are told by a number, without climbing but out of leaf functions."""
        def judge(counts):
            with shares():
                self.assertGreater(counts["samples_direct"] + counts["samples_from_leaf"], share * self.profile.samples, counts)

        self.assert_right(argv, least=300, judge=judge, **how)

    @installed("bzip2")
    def test_most_samples_of_bzip2_are_told(self):
        self.assert_told(0.9, ["bzip2", "-c", *[os.path.realpath("/bin/bash")] * 3])

    @installed("perl")
    def test_most_samples_of_perl_are_told(self):
        self.assert_told(0.7, ["perl", "-e", PERL.replace("f(17)", "f(27)").replace("30000", "900000")])

    @installed("lua5.4")
    def test_most_samples_of_lua_are_told(self):
        self.assert_told(0.5, ["lua5.4", "-e", LUA.replace("fib(24)", "fib(31)").replace("40000", "400000")])

    @installed("sqlite3")
    def test_most_samples_of_sqlite_are_told(self):
        self.assert_told(0.7, ["sqlite3", ":memory:"], stdin=SQL.replace("20000", "600000").encode())

    @installed("xz")
    def test_most_samples_of_threads_are_told(self):
        self.assert_told(0.7, ["xz", "-T2", "-2", "--block-size=256KiB", "-c", os.path.realpath("/bin/bash")])


class HotTree(EncodeTest):
    """Nodes of a tree that forgets cannot be remembered: paths are placed anew."""

    def assert_same_paths(self, *options):
        """As a walk sees them: where each share of the time lies, and nothing outside of main()."""
        def both():
            counts = self.encode([program("shares")], *options, verify=False, same_output=False)
            self.assertEqual(counts["mismatches"], 0)
            return self.profile, self.record([program("shares")], "-F", "5000", *options)[1]

        def judge(profiles):
            by_number, by_walk = profiles
            counts = by_number.info["encode"]
            self.assertGreater(counts["samples_decoded"], by_number.samples / 2, counts)
            with shares():
                self.assertGreater(counts["verified"], 50, counts)  # one in 16 is, of those known before
            for path in {tuple(node.path()) for node in by_number.nodes + by_walk.nodes}:
                one, other = by_number.share(*path), by_walk.share(*path)
                with shares():
                    self.assertAlmostEqual(one, other, msg=path,
                                           delta=math.hypot(by_number.tolerance(one), by_walk.tolerance(other)))

        self.steadily(both, judge)

    def test_a_hot_tree_has_the_paths_of_a_walk(self):
        self.assert_same_paths("--tree", "hot")

    def test_full_until_memory_is_used_up(self):
        self.assert_same_paths("--memory", "1M")


class Misuse(LiveTest):
    def refused(self, *options):
        run = Run([CAIRN, "record", *options, "true"], cwd=self.folder)
        self.assertEqual(run.status, 2)
        self.assertEqual(run.words.count("\n"), 1, run.words)
        return run.words

    def test_what_does_not_go_together(self):
        self.assertIn("--verify goes with --track encode", self.refused("--verify"))
        self.assertIn("no contexts", self.refused("--track", "encode", "--tree", "functions"))
        self.assertIn("--encode-by goes with --track encode", self.refused("--encode-by", "all"))
        choices = self.refused("--track", "encode", "--encode-by", "libc")
        for name in "program", "libraries", "all":
            self.assertIn(name, choices)


class WhoTakesPart(EncodeTest):
    @installed("sqlite3")
    def test_each_choice_adds_functions_and_no_wrong_number(self):
        """More functions with each choice, no number wrong in any; a thread's functions of libc in the last one."""
        nodes = []
        for choice in "program", "libraries", "all":
            with self.subTest(choice):
                counts = self.encode(["sqlite3", ":memory:"], "--encode-by", choice, stdin=SQL.encode())
                self.assertEqual(counts["mismatches"], 0, counts)
                self.assertGreater(counts["verified"], 10, counts)
                nodes.append(counts["nodes"])
        self.assertEqual(nodes, sorted(set(nodes)))


if __name__ == "__main__":
    unittest.main()
