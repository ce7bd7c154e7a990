# SPDX-License-Identifier: MIT
"""Every call is followed: counts and contexts are those that the program itself counts."""

import os
import re
import time
import unittest
from collections import defaultdict

from support import CAIRN, LiveTest, Run, compilers, shares

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")
# What main() calls through a table: they stand for main.
MODES = set("figure6 stale wandering recursion jumps threads small_stacks coroutine_mode coroutines_large "
            "coroutines_small handlers handlers_elsewhere install storm forking "
            "forking_unseen vforking tail_calls libraries".split())
# Inlined, where anything is; -finstrument-functions tells of them all the same.
HELPERS = {"main", "count_truth", "tell_truth", "next_random", "run_mode", "thread_cpu_ns"}


def true_edges(text):
    """What a program says of itself: {(caller, callee): calls}."""
    edges = defaultdict(int)
    for line in text.splitlines():
        caller, callee, count = line.split()
        edges[caller, callee] += int(count)
    return edges


def followed(node):
    return not node.inlined and node.calls


class CallsTest(LiveTest):
    def build(self, source, *flags, compiler="gcc", name=None, through=(CAIRN, "cc")):
        """Compiles one of our programs; the path of what comes out."""
        target = self.file(name or os.path.splitext(source)[0])
        run = Run([*through, *compiler.split(), "-g", "-w", "-I", SOURCES, "-D_GNU_SOURCE",
                   "-fno-optimize-sibling-calls", *(flags or ("-O2",)), "-o", target,
                   os.path.join(SOURCES, source), "-pthread"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        return target

    def follow(self, argv, *options, **how):
        how.setdefault("timeout", 240)
        return self.record(argv, "--track", "calls", *options, **how)

    def follow_plugin(self):
        """The profile of a program that loads a library 20 times."""
        self.build("calls_plugin.c", "-O2", "-shared", "-fPIC", name="libcalls_plugin.so")
        run, profile = self.follow([self.build("calls.c"), "libraries"])
        edges = self.edges(profile)
        self.assertEqual(edges["main", "plugin_main"], 20)
        self.assertEqual(edges["plugin_main", "recurse"], 20)
        self.assertEqual(edges["recurse", "recurse"], 190)
        self.assertEqual(run.status, 0)
        return profile

    def edges(self, profile, modes=MODES):
        """{(caller, callee): calls} of a profile; what a mode calls, main calls."""
        edges = defaultdict(int)
        for node in profile.nodes[1:]:
            if not followed(node) or node.name in modes | HELPERS:
                continue
            caller = node.parent
            # main may have been entered before the first burst.
            while caller is not None and (caller.inlined or
                                          not caller.calls and caller.parent and caller.name != "main"):
                caller = caller.parent
            name = caller.name if caller and caller.parent else ""
            edges["main" if name in modes else name, node.name] += node.calls
        return edges

    def assert_true(self, run, profile, unknown=()):
        """The edges are those that the program tells of; callers in `unknown` may be anybody."""
        self.assert_edges(run, self.edges(profile), unknown)
        self.assertEqual(profile.info["samples_lost"], 0)

    def assert_edges(self, run, seen, unknown):
        self.assertEqual(run.status, 0, run.words)
        truth = true_edges(run.text)
        for caller, callee in list(truth):
            if caller in unknown:
                count = truth.pop((caller, callee))
                got = sum(seen.pop(edge) for edge in list(seen) if edge[1] == callee)
                self.assertEqual(got, count, callee)
        self.assertEqual(dict(seen), dict(truth))


class Contexts(CallsTest):
    def mode(self, mode, *flags, unknown=("anybody",), compiler="gcc"):
        program = self.build("calls.c", *flags, compiler=compiler)
        run, profile = self.follow([program, mode])
        self.assert_true(run, profile, unknown)
        return profile

    def test_figure_6(self):
        """ACCT's program: a calls b 10 times, which calls c 1,000 times."""
        profile = self.mode("figure6")
        self.assertEqual(profile.info["tracker"], "calls")
        (b,), (c,) = profile.named("b"), profile.named("c")
        self.assertEqual((b.calls, c.calls), (10, 1000))
        self.assertEqual(c.path()[-3:], ["a", "b", "c"])
        self.assertIsNone(b.returns)
        seconds = profile.info["duration_ns"] / 1e9
        counted = sum(node.calls or 0 for node in profile.nodes)
        self.assertAlmostEqual(profile.info["calls_per_s"] * seconds, counted, delta=counted / 100)

    def test_of_a_wide_tree(self):
        """Each of very many contexts, told in two parts, of which the second says all of the first again, or hardly any."""
        program = self.build("wide.c", "-O2", "-fno-ipa-icf")
        for again in ("all", "first"):
            run, profile = self.follow([program, again])
            self.assertEqual(run.status, 0, run.words)
            seen = [node for node in profile.nodes if node.calls and node.name in ("first", "second", "third")]
            paths = defaultdict(int)
            for node in seen:
                paths[tuple(node.path())] += node.calls
            self.assertEqual(len(paths), sum(3 ** depth for depth in range(11)))
            outer = min(paths, key=len)
            self.assertEqual(paths.pop(outer), 2)
            self.assertEqual(set(paths.values()), {2 if again == "all" else 1})
            self.assertTrue(profile.info["complete"])

    def test_where_slots_are_stale(self):
        """Arguments on the stack, callbacks of functions that are not instrumented, alloca."""
        profile = self.mode("stale")
        for node in profile.some("compare"):
            self.assertIn("sort", node.parent.name, node.path())

    def test_of_callbacks(self):
        """Whom libc calls hangs below whoever has asked it to, at any depth, in any order, and after a longjmp out of it."""
        program = self.build("calls_callbacks.c")
        for argv in [program], [program, "storm"]:
            run, profile = self.follow(argv)
            self.assert_true(run, profile, ("anybody",))

    def test_by_generated_code(self):
        """Whom code without unwind tables calls hangs below whoever has called that."""
        run, profile = self.follow([self.build("calls_generated.c")])
        self.assert_true(run, profile)

    def test_of_every_build(self):
        for compiler, flags in (("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-O2"), ("gcc", "-O3"),
                                ("gcc", "-O2 -fno-omit-frame-pointer"),
                                ("gcc", "-O2 -fno-pie -no-pie"), ("gcc", "-O2 -fcf-protection"),
                                ("gcc", "-O2 -ffunction-sections -Wl,--gc-sections"),
                                ("gcc", "-O2 -flto"), ("gcc", "-Os"), ("gcc", "-O2 -fno-plt"),
                                ("clang", "-O0"), ("clang", "-O2"), ("clang", "-O2 -no-pie"),
                                ("clang", "-O2 -fcf-protection")):
            if compiler == "clang" and not os.path.exists("/usr/bin/clang"):
                continue
            with self.subTest(compiler=compiler, flags=flags):
                for mode in ("stale", "wander"):
                    self.mode(mode, *flags.split(), compiler=compiler)

    def test_twice_the_same(self):
        """A deterministic program has the same tree in two runs."""
        program = self.build("calls.c")
        trees = []
        for _ in range(2):
            _, profile = self.follow([program, "wander"])
            trees.append([(node.path(), node.line or 0, node.calls or 0, node.own)
                          for node in profile.nodes])
        self.assertEqual(*map(sorted, trees))
        self.assertGreater(len(trees[0]), 200)

    def test_of_deep_recursion(self):
        profile = self.mode("recursion")
        depth, node = 0, max(profile.named("recurse"), key=lambda node: -node.total)
        while node is not None:
            depth += node.name == "recurse"
            node = node.parent
        self.assertEqual(depth, 100000)

    def test_in_bursts(self):
        """Hooks come and go while threads run through them: the program is as ever, contexts are true."""
        program = self.build("calls.c", "-O2")
        for mode in ("threads", "jumps", "handlers"):
            truth = true_edges(self.native([program, mode]).text)
            for burst in ("2ms/500us", "2ms/500us,adaptive:3"):
                with self.subTest(mode=mode, burst=burst):
                    def life():
                        run, profile = self.follow([program, mode], "--burst", burst)
                        self.assertEqual(run.status, 0, run.words)
                        self.assertEqual(true_edges(run.text).keys(), truth.keys())
                        return self.edges(profile)

                    def judge(seen):
                        total = sum(seen.values())
                        self.assertGreater(total, 1000)
                        # The start routine of a thread was called when nobody followed.
                        wrong = {edge: calls for edge, calls in seen.items()
                                 if edge not in truth and edge != ("", "wander")}
                        # The call that a burst begins in may stand below a caller that is not followed.
                        self.assertLessEqual(sum(wrong.values()), 0.01 * total + 50, wrong)

                    self.steadily(life, judge)

    def test_bursts_are_fair(self):
        """Following slows code that does little but call: its calls count for the more. Counts are those of all calls."""
        program = self.build("fair.c", "-O2")
        truth = {name: int(count) for name, count in
                 (line.split() for line in self.native([program]).text.splitlines())}

        def record():
            run, profile = self.follow([program], "--burst", "5ms/500us")
            self.assertEqual(run.status, 0, run.words)
            return profile

        def judge(profile):
            for name, count in truth.items():
                seen = sum(node.calls for node in profile.named(name))
                with shares():
                    self.assertGreater(seen, 0.6 * count, name)
                    self.assertLess(seen, count / 0.6, name)

        self.steadily(record, judge)

    def test_bursts_of_threads_that_change_what_they_do(self):
        """Functions become busy and idle again while others run: their entries are switched one by one, in company."""
        functions, threads = 48, 3
        path, program = self.file("busy.c"), self.file("busy")
        with open(path, "w", encoding="ascii") as file:
            file.write("#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n")
            for i in range(functions):
                file.write(f"__attribute__((noipa)) static long f{i}(long x) {{ return x + {i}; }}\n")
            file.write("static long (*const all[])(long) = {" + ", ".join(f"f{i}" for i in range(functions)) + "};\n" + f"""
                static void *work(void *first)
                {{
                    long sum = 0;
                    for (long round = 0; round < {functions}; round++) // one is busy, all others are called now and then
                        for (long i = 0; i < 120000; i++)
                            sum += all[((long)first + (i % 64 ? round : i / 64)) % {functions}](i);
                    return (void *)sum;
                }}
                int main(void)
                {{
                    pthread_t thread[{threads}];
                    void *sum;
                    long total = 0;
                    for (long i = 0; i < {threads}; i++)
                        if (pthread_create(&thread[i], NULL, work, (void *)(i * 7)))
                            return 1;
                    for (long i = 0; i < {threads}; i++)
                        total += pthread_join(thread[i], &sum) ? 0 : (long)sum;
                    printf("%ld\\n", total);
                }}""")
        built = Run([CAIRN, "cc", "gcc", "-O2", "-pthread", "-o", program, path], cwd=self.folder)
        self.assertEqual(built.status, 0, built.words)
        native = self.native([program])
        for burst in ("2ms/200us", "1ms/100us,adaptive:4"):
            def life():
                run, profile = self.follow([program], "--burst", burst)
                self.assertEqual((run.status, run.text), (0, native.text), run.words)
                named = [profile.named(f"f{i}") for i in range(functions)]
                self.assertLessEqual({node.parent.name for nodes in named for node in nodes}, {"work"})
                return sum(1 for nodes in named if nodes)

            # Which of them run during a burst is chance.
            @shares()
            def judge(seen):
                self.assertGreater(seen, functions / 2)

            self.steadily(life, judge)

    def test_bursts_of_a_large_program(self):
        """Its entries take a while to be written: the clock ticks before they all are."""
        count, path = 4000, self.file("large.c")
        with open(path, "w", encoding="ascii") as file:
            file.write("static volatile long sum;\n")
            for i in range(count):
                file.write(f"__attribute__((noipa)) static void f{i}(void) {{ sum += {i}; }}\n")
            file.write("int main(void) {" + "".join(f"f{i}();" for i in range(count)) +
                       f" return sum != {sum(range(count))}; }}\n")
        program = self.file("large")
        built = Run([CAIRN, "cc", "gcc", "-O1", "-o", program, path], cwd=self.folder)
        self.assertEqual(built.status, 0, built.words)
        for _ in range(20):
            run, _ = self.follow([program], "--burst", "200us/100us")
            self.assertEqual(run.status, 0, run.words)

    def test_bursts_leave_the_protection_of_code(self):
        """Much code is written at once: afterwards it is protected as before, whatever that was."""
        count, path = 800, self.file("protected.c")
        with open(path, "w", encoding="ascii") as file:
            file.write("#define _GNU_SOURCE\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n"
                       "static volatile long sum;\n")
            for i in range(count):
                file.write(f"__attribute__((noipa, aligned(64))) static void f{i}(void) {{ sum += {i}; }}\n")
            file.write("static void (*const all[])(void) = {" + ", ".join(f"f{i}" for i in range(count)) + "};\n" + """
                static void kinds(uintptr_t code, char *kind)
                {
                    char line[512];
                    FILE *maps = fopen("/proc/self/maps", "r");
                    unsigned long low, high;
                    while (fgets(line, sizeof line, maps))
                        if (sscanf(line, "%lx-%lx %4s", &low, &high, kind) == 3 && code >= low && code < high)
                            break;
                    fclose(maps);
                }
                int main(int count, char **words)
                {
                    (void)words;
                    char first[8], last[8];
                    const uintptr_t page = (uintptr_t)all[400] & -4096ul;
                    if (count > 1) // some of it, which makes more than one mapping of it
                        mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
                    kinds(page, first);
                    for (int i = 0; i < 40000; i++) {
                        for (unsigned f = 0; f < sizeof all / sizeof *all; f++)
                            all[f]();
                        if (i % 2000)
                            continue;
                        kinds(page, last);
                        if (strcmp(first, last))
                            printf("%s became %s\\n", first, last);
                    }
                    puts(last);
                }""")
        program = self.file("protected")
        built = Run([CAIRN, "cc", "gcc", "-O1", "-o", program, path], cwd=self.folder)
        self.assertEqual(built.status, 0, built.words)
        for words, kind in (((), "r-xp\n"), (("all",), "rwxp\n")):
            def life():
                run, profile = self.follow([program, *words], "--burst", "1ms/100us")
                self.assertEqual((run.status, run.text), (0, kind), run.words)
                return sum(node.calls for node in profile.named("f7"))

            self.steadily(life, lambda calls: self.assertGreater(calls, 0))

    def test_of_folded_recursion(self):
        """Kept in one context, with all its calls."""
        program = self.build("calls.c", "-O2")
        run, profile = self.follow([program, "recursion"], "--fold-recursion")
        self.assertEqual(run.status, 0)
        truth = true_edges(run.text)
        nodes = profile.some("recurse")
        for node in nodes:
            self.assertEqual(node.path().count("recurse"), 1)
        self.assertEqual(sum(node.calls for node in nodes),
                         sum(count for (_, callee), count in truth.items() if callee == "recurse"))

    def test_of_jumps(self):
        self.mode("jumps")

    def test_of_exceptions(self):
        for flags in (("-O2",), ("-O0",)):
            with self.subTest(flags=flags):
                program = self.build("calls_exceptions.cpp", *flags, compiler="g++")
                run, profile = self.follow([program])
                self.assertEqual(run.status, 0)
                seen = {edge: calls for edge, calls in self.edges(profile).items()
                        if not edge[1].startswith("_GLOBAL") and "~" not in edge[1]}
                truth = true_edges(run.text)
                # The destructor, where it is a function of its own, stands between.
                seen = {("throws_through" if "~" in caller else caller, callee): calls
                        for (caller, callee), calls in seen.items()}
                self.assertEqual(seen, dict(truth))

    def test_of_threads(self):
        profile = self.mode("threads", unknown=("thread_main_caller",))
        self.assertEqual(profile.info["threads"], 19)

    def test_of_threads_with_small_stacks(self):
        self.mode("small-stacks", unknown=("thread_main_caller",))

    def test_of_coroutines(self):
        for mode in ("coroutines", "coroutines-small"):
            with self.subTest(mode):
                profile = self.mode(mode, unknown=("coroutine_caller",))
                for node in profile.some("yields"):
                    path = node.path()
                    self.assertEqual(path[1:2] if path[1] == "coroutine" else
                                     path[path.index("coroutine"):][:1], ["coroutine"], path)
                    self.assertNotIn("main", path)

    def test_of_handlers(self):
        """A handler stands below what it interrupts, on whatever stack it runs."""
        for mode in ("handlers", "handlers-elsewhere"):
            with self.subTest(mode):
                profile = self.mode(mode)
                for node in profile.some("handles"):
                    path = [name for name in node.path() if name in ("raises", "handles")]
                    self.assertEqual(path, ["raises"] * (len(path) - 1) + ["handles"])

    def test_of_handlers_at_any_moment(self):
        """Not one call is lost, though handlers come in the middle of a hook."""
        program = self.build("calls.c")
        run, profile = self.follow([program, "storm"])
        self.assert_true(run, profile, unknown=("anybody",))
        self.assertGreater(sum(node.calls for node in profile.named("interrupts")), 100)

    def test_of_forks(self):
        """The child's calls are its own, below the functions that its parent was in."""
        program = self.build("calls.c")
        run, profile = self.follow([program, "fork"])
        edges = self.edges(profile)
        self.assertEqual(edges["forks", "leaf"], 1000)
        self.assertEqual(edges["forks", "other_leaf"], 1)
        self.assertEqual(edges["forks", "forks"], 3)
        for node in profile.some("leaf"):
            self.assertEqual(node.path()[-5:], ["forks"] * 4 + ["leaf"])

    def test_of_vforks(self):
        """Whoever waits for a child that ran on its stack goes on where it was."""
        self.mode("vfork")

    def test_of_forks_past_us(self):
        """A child that was made by a bare system call does not write to its parent's tree."""
        self.mode("fork-unseen")

    def test_of_tail_calls(self):
        program = self.build("calls.c")
        _, profile = self.follow([program, "tail-calls"])
        edges = self.edges(profile)
        self.assertEqual(edges["main", "jumps_away"], 1000)
        self.assertEqual(edges["main", "last"], 1000)

    def test_of_libraries_loaded_later(self):
        profile = self.follow_plugin()
        self.assertEqual(self.edges(profile)["plugin_constructor", "plugin_starts"], 20)

    def test_of_arguments(self):
        """Whatever register an argument is in, it arrives."""
        for compiler in compilers("gcc", "clang"):
            for level in ("-O0", "-O1", "-O2", "-O3"):
                with self.subTest(compiler=compiler, level=level):
                    program = self.build("calls_registers.c", level, compiler=compiler)
                    run, profile = self.follow([program])
                    self.assert_same(run, self.native([program]))
                    self.assertEqual(run.status, 0)
                    self.assertEqual(sum(node.calls for node in profile.named("doubles")), 3)

    def test_with_instrumented_functions(self):
        """Programs that somebody built with -finstrument-functions."""
        for flags in (("-O0",), ("-O2",)):
            for mode in ("figure6", "stale", "wander", "recursion"):
                with self.subTest(flags=flags, mode=mode):
                    program = self.build("calls.c", *flags, "-finstrument-functions", through=(),
                                         name="calls")
                    run, profile = self.follow([program, mode])
                    self.assert_edges(run, self.edges(profile), ("anybody",))


class Windows(CallsTest):
    """Calls are followed after a delay, and for a duration: all of them then, and no other."""

    def assert_window(self, program, *options, outer):
        """When it opens and closes is a matter of time, and of who gets the processor: see steadily().

        A program that calls outer() before the first of the times given is over does so before the window opens,
        or before it closes.
        """
        first = next(float(option) for option in options if re.fullmatch(r"[0-9.]+", option))

        def life():
            begun = time.monotonic()
            run, profile = self.follow([program], *options)
            self.assertEqual(run.status, 0, run.words)
            count = {name: sum(node.calls or 0 for node in profile.named(name)) for name in ("outer", "middle", "leaf")}
            # The first and the last may be there in part.
            self.assertLess(abs(count["leaf"] - 10 * count["middle"]), 20)
            for node in profile.named("leaf"):
                if node.calls:
                    self.assertEqual(node.path()[-4:], ["main", "outer", "middle", "leaf"])
            rounds, called = run.text.split()
            return int(rounds), float(called) - begun, count

        def judge(recorded):
            rounds, called, count = recorded
            if called < first:
                self.assertEqual(count["outer"], outer)
            with shares(): # of the time that it is open
                self.assertLess(called, first)
                self.assertGreater(count["middle"], 0)
                self.assertLess(count["middle"], rounds)

        self.steadily(life, judge)

    def test_of_calls(self):
        program = self.build("window.c")
        self.assert_window(program, "--delay", "0.7", outer=0)
        self.assert_window(program, "--duration", "0.7", outer=1)
        self.assert_window(program, "--delay", "0.5", "--duration", "0.5", outer=0)

    def test_beside_time(self):
        self.assert_window(self.build("window.c"), "-e", "cpu", "--delay", "0.7", outer=0)

    def test_of_functions_that_tell(self):
        program = self.build("window.c", "-O2", "-finstrument-functions", through=())
        self.assert_window(program, "--delay", "0.7", outer=0)

    def test_that_never_opens(self):
        program = self.build("window.c")
        run = Run([CAIRN, "record", "--track", "calls", "--delay", "60", "-o", self.file("none"), "--", program],
                  cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertIn("ended within the --delay", run.words)


class CpuTime(CallsTest):
    def test_reads_the_cursor(self):
        """Samples on followed contexts: cost per call."""
        program = self.build("calls.c")

        def life():
            run, profile = self.follow([program, "storm"], "-e", "cpu")
            metrics = [metric["name"] for metric in profile.report()["metrics"]]
            self.assertEqual(metrics, ["cpu", "calls"])
            truth = true_edges(run.text)
            wander = sum(count for edge, count in truth.items() if edge[1] == "wander")
            self.assertEqual(sum(node.calls for node in profile.named("wander")), wander)
            return profile

        self.steadily(life, self.check_wander)

    def check_wander(self, profile):
        self.assertGreater(profile.samples, 50)
        self.assert_complete(profile)
        with shares():
            self.assertGreater(profile.share("wander"), 0.8)

    def test_costs_what_it_costs(self):
        """The same shares as a walk finds."""
        program = self.build("shares.c")

        def judge(profiles):
            walked, followed_ = profiles
            names = {node.name for node in walked.nodes if node.own > walked.total / 20}
            self.assertTrue(names)
            for name in names:
                with shares():
                    self.assertAlmostEqual(walked.share(name), followed_.share(name), delta=0.05, msg=name)

        for tree in "full", "hot":
            with self.subTest(tree=tree):
                self.steadily(lambda: (self.record([program])[1],
                                       self.follow([program], "-e", "cpu", "--tree", tree)[1]), judge)

    def test_hot_contexts_of_time(self):
        """The one count of a context in a hot tree is that of the event."""
        program = self.build("calls.c")

        def life():
            _, profile = self.follow([program, "storm"], "-e", "cpu", "--tree", "hot")
            report = profile.report("--min", "0")
            self.assertEqual([metric["name"] for metric in report["metrics"]], ["cpu"])
            # A sample that came early weighs little, and its context is not hot.
            self.assertEqual(profile.total + report["outside"], profile.info["cost_ns"])
            return profile

        self.steadily(life, self.check_wander)


if __name__ == "__main__":
    unittest.main()
