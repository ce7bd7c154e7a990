# SPDX-License-Identifier: MIT
"""Every call of a program that was never prepared is followed, by its call sites."""

import os
import unittest
from collections import defaultdict

import test_calls
from support import CAIRN, Run
from support import program as test_program
from test_calls import HELPERS, MODES, CallsTest, true_edges

# The kernel calls handlers, and coroutines begin by a return: nobody notices. What they call is counted.
UNNOTICED = {"handles", "interrupts", "coroutine"}
# Of the compiler, in each program.
STARTUP = {"frame_dummy", "register_tm_clones", "deregister_tm_clones"}


class SitesTest(CallsTest):
    """The same programs as those built with 'cairn cc', compiled as anybody would."""

    def build(self, source, *flags, compiler="gcc", name=None, through=()):
        return super().build(source, *flags, compiler=compiler, name=name, through=through)

    def own(self, node):
        return node.module.split(".so")[0] in ("calls", "libcalls_plugin", "calls_callbacks", "calls_exceptions",
                                               "calls_generated", "calls_registers")

    def edges(self, profile, modes=MODES):
        """As with entries: what libraries do in between is left out."""
        edges = defaultdict(int)
        for node in profile.nodes[1:]:
            if node.inlined or not node.calls or not self.own(node) or node.name in modes | HELPERS | STARTUP:
                continue
            caller = node.parent
            while caller is not None and caller.parent and (caller.inlined or not self.own(caller)):
                caller = caller.parent
            name = caller.name if caller and caller.parent else ""
            if not name.startswith("_") and not node.name.startswith("_"):
                edges["main" if name in modes or name in HELPERS else name, node.name] += node.calls
        return edges

    def assert_edges(self, run, seen, unknown):
        self.assertEqual(run.status, 0, run.words)
        truth = {edge: calls for edge, calls in true_edges(run.text).items() if edge[1] not in UNNOTICED}
        for caller, callee in list(truth):
            if caller in unknown:
                count = truth.pop((caller, callee))
                got = sum(seen.pop(edge) for edge in list(seen) if edge[1] == callee)
                self.assertEqual(got, count, callee)
        self.assertEqual(dict(seen), dict(truth))


class Contexts(SitesTest, test_calls.Contexts):
    test_in_bursts = test_bursts_are_fair = test_bursts_of_a_large_program = test_bursts_leave_the_protection_of_code = test_with_instrumented_functions = None

    def test_of_every_build(self):
        for compiler, flags in (("gcc", "-O0"), ("gcc", "-O3"), ("gcc", "-Os"),
                                ("gcc", "-O2 -fno-pie -no-pie"), ("gcc", "-O2 -fcf-protection -fno-plt"),
                                ("gcc", "-O2 -mindirect-branch=thunk"), ("clang", "-O2")):
            if compiler == "clang" and not os.path.exists("/usr/bin/clang"):
                continue
            with self.subTest(compiler=compiler, flags=flags):
                for mode in ("stale", "wander"):
                    self.mode(mode, *flags.split(), compiler=compiler)

    def test_by_generated_code(self):
        """Its calls are not noticed, but those of the functions that it has called are."""
        run, profile = self.follow([self.build("calls_generated.c")])
        truth = true_edges(run.text)
        self.assertEqual(self.edges(profile), {("main", "first"): 1000, ("main", "second"): 1000, ("second", "leaf"): 1000,
                                               ("nested", "other_leaf"): truth["nested", "other_leaf"]})

    def test_of_arguments(self):
        """Whatever register an argument is in, it arrives."""
        program = self.build("calls_registers.c", "-O2")
        run, profile = self.follow([program])
        self.assert_same(run, self.native([program]))
        self.assertEqual(run.status, 0)
        self.assertEqual(sum(node.calls for node in profile.named("doubles")), 3)

    def test_of_handlers_at_any_moment(self):
        """Not one call is lost, though handlers come in the middle of a hook."""
        run, profile = self.follow([self.build("calls.c"), "storm"])
        self.assert_true(run, profile)
        self.assertGreater(self.edges(profile)["interrupts", "leaf"], 100)

    def test_of_libraries_loaded_later(self):
        """Patched at the first call into them: after their constructors."""
        profile = self.follow_plugin()
        self.assertEqual(sum(node.calls for node in profile.named("dlclose")), 20)

    def test_of_jumps_through_a_variable(self):
        """By a function that looks like an entry of the PLT: they go where the variable leads, each time."""
        run, profile = self.follow([test_program("switched")])
        self.assertEqual(run.text, self.native([test_program("switched")]).text)
        counts = [sum(node.calls for node in profile.named(name)) for name in ("one", "two")]
        self.assertEqual(counts, [int(word) for word in run.text.split()])

    def test_whose_calls(self):
        """Those of libc's own code are followed if asked for, and callbacks in any case."""
        program = self.build("calls.c")
        names = {}
        for whom in "program", "libraries", "all":
            run, profile = self.follow([program, "stale"], "--calls-by", whom)
            self.assert_true(run, profile, ("anybody",))
            names[whom] = {node.name for node in profile.nodes if node.calls}
            self.assertGreater(profile.info["call_sites"]["callbacks"], -1 if whom == "all" else 100)
        self.assertEqual(names["program"], names["libraries"])
        self.assertIn("qsort", names["program"])
        self.assertNotIn("msort_with_tmp", names["program"])
        self.assertLess(names["program"], names["all"])

    def test_libraries_of_the_program_may_have_names_of_libc(self):
        """Their calls are followed with the libraries', those of libc's own parts are not."""
        self.file("util.c", "int leaf(int x) { return x + 1; }\nint util(int x) { return leaf(x) + 1; }\n")
        self.file("main.c", "#include <math.h>\n#include <stdlib.h>\nint util(int);\n"
                  "int main(int argc, char **argv) { return util(argc) + (int)cosh(atof(argv[1])) - 5; }\n")
        for words in (("util.c", "-shared", "-fPIC", "-o", "libutil.so"),
                      ("main.c", "-o", "main", "-L.", "-lutil", "-lm", "-Wl,-rpath,$ORIGIN")):
            made = Run(["gcc", "-O0", *words], cwd=self.folder)
            self.assertEqual(made.status, 0, made.words)
        run, profile = self.follow([self.file("main"), "0"], "--calls-by", "libraries")
        self.assertEqual(run.status, 0, run.words)
        followed = {tuple(node.path()[-2:]) for node in profile.nodes if node.calls}
        self.assertLessEqual({("main", "util"), ("util", "leaf")}, followed)
        self.assertIn("atof", {callee for _, *callees in followed for callee in callees})
        self.assertFalse([path for path in followed if path[0] in ("atof", "strtod", "cosh")], followed)

    def test_of_what_a_script_runs(self):
        """Nobody knows beforehand what that is."""
        script = self.file("script", f"#!/bin/sh\n{self.build('calls.c')} stale\n")
        os.chmod(script, 0o755)
        run, profile = self.follow([script])
        self.assert_true(run, profile, ("anybody",))

    def test_of_nothing_but_entries(self):
        run = self.native([CAIRN, "record", "-o", self.file("none"), "--track", "calls", "--calls-by", "entries",
                           self.build("calls.c"), "figure6"])
        self.assertEqual(run.status, 0)
        self.assertIn("--calls-by", run.words)

    def test_as_with_entries(self):
        """A program built with 'cairn cc' has the same calls as one that was not."""
        programs = self.build("calls.c"), self.build("calls.c", name="calls", through=(CAIRN, "cc"))
        edges = []
        for program in programs:
            _, profile = self.follow([program, "wander"])
            edges.append(self.edges(profile))
        self.assertEqual(*edges)


class CpuTime(SitesTest, test_calls.CpuTime):
    pass


if __name__ == "__main__":
    unittest.main()
