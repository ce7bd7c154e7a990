# SPDX-License-Identifier: MIT
"""Programs whose runtime knows its stacks better than we do: they never meet what is not theirs."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import unittest

from support import CAIRN, MARKERS, LiveTest, Run, installed, program, shares

# Each way in which cairn would otherwise change return addresses.
WAYS = (*((marker, "-F", "10000") for marker in MARKERS),
        ("--track", "encode", "--verify", "-F", "4000"), ("--track", "calls"), ("-e", "alloc"),
        ("-e", "alloc", "-e", "cpu", "--track", "encode"))


def assert_outside(test, argv):
    """The agent cannot enter: samples are taken from outside, and the program does what it does."""
    native = test.native(argv)
    run, profile = test.record(argv)
    test.assert_same(run, native)
    test.assertTrue(any("sampled from outside" in note for note in profile.info["notes"]), profile.info["notes"])


class RuntimeTest(LiveTest):
    def assert_untouched(self, argv, judge, **how):
        """The same as without cairn, each way. The profiles of walks, whose shares of time please the judge: see steadily()."""
        native = self.native(argv, **how)
        self.assertEqual(native.status, 0, native.words)
        walked = []
        for options in WAYS:
            with self.subTest(options=options):
                def life():
                    run, profile = self.record(argv, *options, **how)
                    self.assert_same(run, native)
                    if "--track" in options:
                        self.assertTrue(any("not patched" in note for note in profile.info["notes"]),
                                        profile.info["notes"])
                    return profile

                if "-F" in options and "--track" not in options:
                    walked.append(self.steadily(life, judge))
                else:
                    life()
        return walked


class Mechanisms(RuntimeTest):
    def test_return_addresses_are_the_programs(self):
        def judge(profile):
            with shares():
                self.assertGreater(profile.share("deeper", "burn"), 0.5)
            self.assert_complete(profile)

        self.assert_untouched([program("own_returns")], judge)

    def test_without_a_library(self):
        """Nothing of ours can run there: time is sampled from outside. Among others, such a program is left alone."""
        argv = [program("no_library")]
        assert_outside(self, argv)
        run = Run([CAIRN, "record", "-e", "wall", "-o", self.file("none"), *argv])
        self.assertEqual(run.status, 2)
        self.assertIn("C library", run.words)
        self.assertEqual(run.text, "")
        argv = ["sh", "-c", f"{argv[0]}; exit 3"]
        native = self.native(argv)
        self.assertEqual((native.status, native.text), (3, "done\n"))
        for options in WAYS:
            with self.subTest(options=options):
                run, profile = self.record(argv, *options)
                self.assert_same(run, native)
                self.assertTrue(any("C library" in note for note in profile.info["notes"]))


    def left_alone(self, compiler, word):
        """A program that the agent would keep from running: refused, and not shown the agent where another starts it."""
        source, binary = self.file("other.c"), self.file("other")
        with open(source, "w", encoding="ascii") as file:
            file.write('#include <stdio.h>\nint main(void) { puts("here"); return 5; }\n')
        if subprocess.run([*compiler, "-O1", "-o", binary, source], capture_output=True, check=False).returncode:
            self.skipTest(f"not to be had here: {' '.join(compiler)}")
        script = self.file("script")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!{binary}\n")
        os.chmod(script, 0o755)
        run = Run([CAIRN, "record", "-e", "wall", "-o", self.file("none"), binary])
        self.assertEqual(run.status, 2)
        self.assertIn(word, run.words)
        # By exec, by fork and exec, by spawn and by a name in PATH.
        for argv in (["sh", "-c", f"exec {binary}"], ["sh", "-c", f"{binary}; {script}; exit 3"],
                     [sys.executable, "-c", f"import os, sys; sys.exit(os.waitpid(os.posix_spawn('{binary}', ['x'], os.environ), 0)[1] >> 8)"],
                     ["env", f"PATH={self.folder}", "other"]):
            native = self.native(argv)
            self.assertIn("here", native.text)
            for options in WAYS:
                with self.subTest(argv=argv, options=options):
                    run, profile = self.record(argv, *options)
                    self.assert_same(run, native)
                    self.assertTrue(any(word in note for note in profile.info["notes"]), profile.info["notes"])

    @installed("musl-gcc")
    def test_on_another_library(self):
        self.left_alone(["musl-gcc"], "musl")

    @installed("gcc")
    def test_sanitizer_that_must_be_first(self):
        self.left_alone(["gcc", "-fsanitize=address"], "AddressSanitizer")


class Real(RuntimeTest):
    def setUp(self):
        super().setUp()
        self.dice = random.Random(7)
        self.words = [f"word{self.dice.randrange(4000)}" for _ in range(5000)]

    @installed("spamoracle")
    def test_ocaml(self):
        """Collects garbage all the time, and looks at each frame when it does."""
        mails = self.file("mails")
        with open(mails, "w", encoding="ascii") as file:
            for number in range(300):
                file.write(f"From a@b Mon Jan  1 00:00:00 2024\nFrom: a@b\nSubject: {number}\n\n")
                for _ in range(20):
                    file.write(" ".join(self.dice.choices(self.words, k=10)) + "\n")
                file.write("\n")
        database = self.file("database")

        argv = ["sh", "-c", f"rm -f {database}; spamoracle -f {database} add -good {mails} && "
                f"spamoracle -f {database} list 'word1.*'"]

        def judge(profile):
            self.assertTrue([node for node in profile.nodes if node.name.startswith("camlDatabase")])
            self.assertGreater(profile.info["walks"]["complete_pct"], 90)

        self.assert_untouched(argv, judge)

    @installed("gron")
    def test_go(self):
        """Has stacks that it moves, and threads that it interrupts by signals."""
        numbers = [{"word": word, "numbers": [self.dice.random() for _ in range(4)]}
                   for word in self.words]
        path = self.file("numbers.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(numbers, file)

        def judge(profile):
            with shares():
                self.assertGreater(profile.below("runtime.goexit", "main.main", "main.gron"),
                                   0.3 * profile.total)
            names = {node.function for node in profile.nodes}
            self.assertTrue({"main.statementsFromJSON", "main.(*statements).fill",
                             "encoding/json.(*Decoder).Decode"} <= names)
            # But for what C code there is, which starts threads: it is stripped.
            unnamed = sum(node.own for node in profile.nodes if node.function.startswith("gron+0x"))
            with shares():
                self.assertLess(unnamed, 0.05 * profile.total)
            self.assertGreater(profile.info["walks"]["complete_pct"], 98)

        for profile in self.assert_untouched(["gron", path], judge):
            # Stripped, and without unwind tables: names, lines and frames come from a table of Go's.
            module, = (module for module in profile.info["modules"] if module["path"].endswith("/gron"))
            self.assertIn(module["symbols"], ("table", "dwarf"))


class Documented(LiveTest):
    """What docs/languages.md tells to type."""

    def write(self, name, text):
        with open(self.file(name), "w", encoding="ascii") as file:
            file.write(text)
        return self.file(name)

    def assert_hot(self, argv, function):
        """Most of the time is in a function that only the language's runtime can name."""
        def life():
            run, profile = self.record(argv, "-F", "1000")
            self.assertEqual(run.status, 0, run.words)
            self.addCleanup(self.remove_maps, profile)
            return profile

        def is_below(node):
            return node is not None and (function in node.function or is_below(node.parent))

        @shares()
        def judge(profile):
            self.assertGreater(sum(node.own for node in profile.nodes if is_below(node)), 0.5 * profile.total)

        return self.steadily(life, judge)

    @staticmethod
    def remove_maps(profile):
        for process in profile.info["process_list"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/tmp/perf-{process['pid']}.map")

    @installed("go", "gcc")
    def test_go_by_the_c_linker(self):
        source = self.write("main.go", "package main\nfunc fib(n int) int {\n\tif n < 2 {\n\t\treturn n\n\t}\n"
                            "\treturn fib(n-1) + fib(n-2)\n}\nfunc main() { println(fib(36)) }\n")
        env = dict(os.environ, GOCACHE=self.file("cache"), GO111MODULE="off")
        subprocess.run(["go", "build", "-o", self.file("alone"), source], check=True, env=env)
        subprocess.run(["go", "build", "-ldflags", "-linkmode=external", "-o", self.file("linked"), source],
                       check=True, env=env)
        assert_outside(self, [self.file("alone")])
        run = Run([CAIRN, "record", "-e", "wall", "-o", self.file("none"), self.file("alone")])
        self.assertEqual(run.status, 2)
        self.assertIn("go build -ldflags -linkmode=external", run.words)
        self.assert_hot([self.file("linked")], "main.fib")

    @installed("node")
    def test_node_without_a_map(self):
        """The report says what would give names, and only then."""
        script = self.write("work.js", "let s = 0; for (let i = 0; i < 3e8; i++) s = (s * 31 + i) % 65521;"
                            " console.log(s);")
        for options, told in (((), True), (("--perf-basic-prof",), False)):
            run, profile = self.record(["node", *options, script], "-F", "1000")
            self.assertEqual(run.status, 0, run.words)
            self.addCleanup(self.remove_maps, profile)
            report = Run([CAIRN, "report", profile.path])
            self.assertEqual("record with node --perf-basic-prof" in " ".join((report.text + report.words).split()), told)

    def test_python_with_a_map(self):
        found = filter(None, (shutil.which(f"python3.{version}") for version in range(12, 20)))
        python = next((path for path in found if Run([path, "-c", "0"]).status == 0), None)
        if not python:
            self.skipTest("no Python that writes maps")
        script = self.write("work.py", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(30)\n")
        self.assert_hot([python, "-X", "perf", script], "py::fib")


if __name__ == "__main__":
    unittest.main()
