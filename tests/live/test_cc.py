# SPDX-License-Identifier: MIT
"""`cairn cc` is the compiler, in every way that Makefiles and configure scripts use one."""

import os
import shutil
import unittest

from support import CAIRN, LiveTest, Run, compilers, installed, program

SOURCE = """
#include <stdio.h>
int twice(int number) __attribute__((noinline));
int twice(int number) { return 2 * number; }
int main(int argc, char **argv) { (void)argv; printf("%d\\n", twice(argc)); return 3; }
"""
PLACES = """
#include <cstdio>
#define KEPT __attribute__((noipa))
struct Base { KEPT int f(int x) { return x + 1; } KEPT virtual int g(int x) { return x * 2; } };
struct Derived : Base { KEPT int g(int x) override { return x * 3; } };
KEPT __attribute__((aligned(64))) int page(int x) { return x; }
KEPT __attribute__((aligned(8))) int eighth(int x) { return x; }
int main()
{
    int (Base::*plain)(int) = &Base::f, (Base::*chosen)(int) = &Base::g;
    Derived object;
    printf("%d %d %d %d\\n", (object.*plain)(1), (object.*chosen)(2), (int)((unsigned long)page % 64),
           (int)((unsigned long)eighth % 8));
    return page(1) + eighth(2);
}
"""
ASSEMBLER = ".globl number\nnumber: mov $7, %eax\nret\n.section .note.GNU-stack,\"\",@progbits\n"


class Compiler(LiveTest):
    def cc(self, *arguments, **how):
        return Run([CAIRN, "cc", *arguments], cwd=self.folder, **how)

    def assert_compiles(self, *arguments):
        run = self.cc(*arguments)
        self.assertEqual((run.status, run.words), (0, ""), arguments)
        return run

    def calls_of(self, argv):
        run, profile = self.record(argv, "--track", "calls")
        self.assertEqual(run.status, 3)
        calls = {}
        for node in profile.nodes:
            if node.calls:
                calls[node.name] = calls.get(node.name, 0) + node.calls
        return calls

    def setUp(self):
        super().setUp()
        self.file("main.c", SOURCE)

    def test_makes_programs_whose_calls_are_followed(self):
        for compiler in ("gcc", "g++", "cc", "c++", "clang", "clang++", "gcc-12", "/usr/bin/gcc",
                         "x86_64-linux-gnu-gcc"):
            if not shutil.which(compiler):
                continue
            with self.subTest(compiler):
                words = ["-x", "c"] if compiler == "clang++" else []
                self.assert_compiles(compiler, "-Wall", "-Wextra", "-Werror", "-O2", *words, "main.c",
                                     "-o", "program")
                self.assertEqual(self.calls_of([self.file("program")]), {"main": 1, "twice": 1})
                self.assertEqual(self.native([self.file("program")]).text, "2\n")

    def test_compiles_and_links_apart(self):
        for compiler in compilers("gcc", "clang"):
            with self.subTest(compiler):
                self.assert_compiles(compiler, "-Werror", "-c", "main.c", "-o", "main.o")
                self.assert_compiles(compiler, "-Werror", "main.o", "-o", "program")
                self.assertEqual(self.calls_of([self.file("program")]), {"main": 1, "twice": 1})

    def test_answers_as_the_compiler_does(self):
        for compiler in compilers("gcc", "clang"):
            for question in (["--version"], ["-dumpversion"], ["-dumpmachine"], ["-E", "main.c"],
                             ["-M", "main.c"], ["-MM", "main.c"], ["-print-prog-name=ld"],
                             ["-fsyntax-only", "main.c"], ["-dM", "-E", "-x", "c", "/dev/null"]):
                with self.subTest(compiler=compiler, question=question):
                    native = Run([compiler, *question], cwd=self.folder)
                    run = self.cc(compiler, *question)
                    self.assert_same(run, native)

    def test_fails_as_the_compiler_does(self):
        self.file("wrong.c", "int main(void) { return nothing; }\n")
        native = Run(["gcc", "-c", "wrong.c"], cwd=self.folder)
        self.assert_same(self.cc("gcc", "-c", "wrong.c"), native)
        self.assert_same(self.cc("gcc"), Run(["gcc"], cwd=self.folder))

    def test_takes_source_from_a_pipe_and_arguments_from_a_file(self):
        run = self.cc("gcc", "-x", "c", "-", "-o", "piped", stdin=SOURCE.encode())
        self.assertEqual((run.status, run.words), (0, ""))
        self.file("arguments", "-O2 main.c -o listed")
        self.assert_compiles("gcc", "@arguments")
        for name in ("piped", "listed"):
            self.assertEqual(self.calls_of([self.file(name)]), {"main": 1, "twice": 1})

    @installed("gcc", "g++", "nm")
    def test_leaves_code_where_it_was(self):
        """What follows the no-op is aligned as without it; what must be aligned is, and pointers to members work."""
        source = self.file("places.cc", PLACES)
        for flags, boundary in (("-O2", 16), ("-O2 -g", 16), ("-O2 -fcf-protection", 16), ("-O2 -falign-functions=32", 32),
                                ("-O2 -ffunction-sections", 16), ("-Os", 0), ("-O0", 0)):
            with self.subTest(flags):
                self.assert_compiles("g++", "-Werror", *flags.split(), source, "-o", "program")
                run = self.native([self.file("program")])
                self.assertEqual((run.status, run.text), (3, "2 6 0 0\n"))
                self.assertEqual(self.calls_of([self.file("program")]),
                                 {"main": 1, "f": 1, "g": 1, "page": 1, "eighth": 1})
                symbols = Run(["nm", self.file("program")]).text.splitlines()
                places = {line.split()[2]: int(line.split()[0], 16) for line in symbols if len(line.split()) == 3}
                self.assertEqual(places["_ZN4Base1fEi"] % 2, 0)
                if boundary:
                    self.assertEqual((places["_ZN4Base1fEi"] + 6) % boundary, 0)

    @installed("gcc", "nm")
    def test_leaves_code_where_it_was_in_its_cache_line(self):
        """In files with many functions, some of which change sections on their own, too."""
        elsewhere = r'__asm__(".pushsection .data.mine; .byte 1; .popsection");'
        functions = [f"__attribute__((noipa)) long f{i}(long x) {{ {elsewhere if i % 7 == 3 else ''} " +
                     f"for (long j = 0; j < x; j++) {{ {'g(x + j);' * (i % 5 + 1)} }} return x * {i * i * 31 + 3}; }}"
                     for i in range(40)]
        self.file("many.c", "__attribute__((noipa)) void g(long x) { (void)x; }\n" + "\n".join(functions) +
                  "\nint main(void) { return 0" + "".join(f" & f{i}(1)" for i in range(40)) + "; }\n")
        for flags in ("-O2", "-O2 -fcf-protection", "-O3", "-O2 -falign-functions=32"):
            with self.subTest(flags):
                places = []
                # gcc saves other registers if hooks may come.
                self.assert_compiles("gcc", "-Werror", "-fno-ipa-ra", *flags.split(), "many.c", "-o", "ours")
                Run(["gcc", "-fno-ipa-ra", *flags.split(), "many.c", "-o", "plain"], cwd=self.folder)
                for name in ("ours", "plain"):
                    symbols = Run(["nm", self.file(name)]).text.splitlines()
                    places.append({line.split()[2]: int(line.split()[0], 16) for line in symbols if line[17:18] == "T"})
                ours, plain = places
                self.assertEqual([name for name in plain if name[0] in "fg" and (ours[name] + 6 - plain[name]) % 64], [])
                self.assertEqual(self.native([self.file("ours")]).status, 0)

    def test_leaves_assembler_alone(self):
        self.file("number.s", ASSEMBLER)
        self.file("number2.S", "#define NOTHING\n" + ASSEMBLER)
        for compiler in compilers("gcc", "clang"):
            for source in ("number.s", "number2.S"):
                with self.subTest(compiler=compiler, source=source):
                    self.assert_compiles(compiler, "-Werror", "-c", source, "-o", "ours.o")
                    Run([compiler, "-c", source, "-o", "plain.o"], cwd=self.folder)
                    with open(self.file("ours.o"), "rb") as ours, \
                            open(self.file("plain.o"), "rb") as plain:
                        self.assertEqual(ours.read(), plain.read())
        self.assert_compiles("gcc", "-S", "main.c", "-o", "main.s")
        self.assert_compiles("gcc", "main.s", "-o", "program")
        self.assertEqual(self.calls_of([self.file("program")]), {"main": 1, "twice": 1})

    def test_links_functions_that_several_files_have(self):
        """Templates: the linker keeps one of each, and one entry for it."""
        template = """#include <map>
            #include <string>
            #include <vector>
            template <class T> __attribute__((noinline)) T twice(T value)
            { __asm__ volatile(""); return value + value; }
            __attribute__((noinline)) int other(std::map<std::string, std::vector<int>> &words);
            """
        self.file("first.cc", template + """int main() {
            std::map<std::string, std::vector<int>> words;
            words["a"].push_back(twice(2)); words["b"].push_back(3);
            return other(words) - twice(1); }""")
        self.file("second.cc", template + """int other(std::map<std::string, std::vector<int>> &words) {
            words["c"].push_back(twice(1)); return (int)words.size() + twice(1); }""")
        for compiler in compilers("g++", "clang++"):
            for flags in ((), ("-pipe",), ("-O2", "-ffunction-sections", "-Wl,--gc-sections"),
                          ("-flto", "-O1")):
                with self.subTest(compiler=compiler, flags=flags):
                    if compiler == "clang++" and "-flto" in flags:
                        continue
                    for name in ("first", "second"):
                        self.assert_compiles(compiler, *(flag for flag in flags if "-Wl" not in flag),
                                             "-c", name + ".cc", "-o", name + ".o")
                    self.assert_compiles(compiler, *flags, "first.o", "second.o", "-o", "program")
                    calls = self.calls_of([self.file("program")])
                    self.assertEqual(calls.get("other"), 1, calls)
                    self.assertEqual(sum(count for name, count in calls.items() if "twice" in name), 4)

    @installed("make")
    def test_in_a_makefile(self):
        self.file("Makefile", "program: main.o\n\t$(CC) $(LDFLAGS) -o $@ $^\n")
        run = Run(["make", f"CC={CAIRN} cc gcc", "CFLAGS=-O2"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertEqual(self.calls_of([self.file("program")]), {"main": 1, "twice": 1})

    @installed("ccache")
    def test_behind_ccache(self):
        environment = {**os.environ, "CCACHE_DIR": self.file("ccache")}
        for _ in range(2):
            run = self.cc("ccache", "gcc", "-c", "main.c", "-o", "main.o", env=environment)
            self.assertEqual((run.status, run.words), (0, ""))
        self.assert_compiles("gcc", "main.o", "-o", "program")
        self.assertEqual(self.calls_of([self.file("program")]), {"main": 1, "twice": 1})

    def test_refuses_in_one_line(self):
        old = self.file("old-cc", '#!/bin/sh\ncase "$*" in *patchable*) echo "unrecognized" >&2; exit 1;; '
                        'esac\nexec gcc "$@"\n')
        os.chmod(old, 0o755)
        for words, status, said in (([], 2, "name the compiler"), (["-O2", "gcc"], 2, "compiler comes first"),
                                    (["no-such-compiler"], 127, "cannot run no-such-compiler"),
                                    (["ls", "-l"], 2, "does not know the compiler ls"),
                                    (["gcc", "-m32", "-c", "main.c"], 2, "another machine"),
                                    ([old, "-c", "main.c"], 2, "does not know")):
            with self.subTest(words):
                run = self.cc(*words)
                self.assertEqual(run.status, status)
                self.assertEqual(run.words.count("\n"), 1, run.words)
                self.assertIn(said, run.words)
                self.assertEqual(run.text, "")
                self.assertFalse(os.path.exists(self.file("main.o")))


class Refusals(LiveTest):
    def refused(self, *words):
        path = self.file("out")
        run = Run([CAIRN, "record", "-o", path, *words], cwd=self.folder)
        self.assertEqual(run.status, 2, run.words)
        self.assertEqual(run.words.count("\n"), 1, run.words)
        self.assertEqual(run.text, "")
        self.assertFalse(os.path.exists(path))
        return run.words

    def test_of_programs_that_are_not_instrumented(self):
        """What needs entries says so; all else goes by call sites (test_calls_sites.py)."""
        self.assertIn("cairn cc", self.refused("-e", "calls:100", program("figure1")))
        self.assertIn("cairn cc", self.refused("-e", "calls", "--burst", "2ms/1ms", "/bin/true"))

    def test_of_bursts_that_never_came(self):
        """A program that ends before the first of them: that is the reason, not how it was built."""
        self.file("short.c", "int main(void) { return 0; }\n")
        run = Run([CAIRN, "cc", "gcc", "-o", "short", "short.c"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        run = Run([CAIRN, "record", "-e", "calls", "--burst", "1s/1ms", "./short"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertIn("1.00 ms out of each 1.00 s", run.words)
        self.assertNotIn("cairn cc", run.words)

    def test_of_what_does_not_go_together(self):
        self.assertIn("-F", self.refused("-e", "calls", "-F", "100", "true"))
        self.assertIn("period", self.refused("--track", "calls", "-c", "1000000", "true"))
        self.assertIn("--track calls", self.refused("-e", "calls", "--track", "walk", "true"))
        self.assertIn("--track calls", self.refused("--calls-by", "all", "true"))
        self.assertIn("libraries", self.refused("--track", "calls", "--calls-by", "nobody", "true"))
        self.assertIn("--burst", self.refused("-e", "calls", "--calls-by", "all", "--burst", "2ms/1ms", "true"))

    def test_not_of_libraries_that_are(self):
        """A program that is not, but a library of it is: that one is followed."""
        self.file("library.c", "int leaf(int x) { return x + 1; }\n"
                  "int library(int x) { int y = leaf(x); __asm__ volatile(\"\"); return y; }\n")
        self.file("main.c", "int library(int);\nint main(void) { return library(1) + library(1) - 1; }\n")
        for words in (([CAIRN, "cc", "gcc"], "-O1", "-fno-inline", "-shared", "-fPIC", "library.c", "-o",
                       "liblibrary.so"),
                      (["gcc"], "main.c", "-o", "main", "-L.", "-llibrary", "-Wl,-rpath,$ORIGIN")):
            run = Run([*words[0], *words[1:]], cwd=self.folder)
            self.assertEqual((run.status, run.words), (0, ""))
        run, profile = self.record([self.file("main")], "--track", "calls")
        self.assertEqual(run.status, 3)
        counts = {node.name: 0 for node in profile.nodes}
        for node in profile.nodes:
            counts[node.name] += node.calls or 0
        self.assertEqual((counts["library"], counts["leaf"]), (2, 2))


if __name__ == "__main__":
    unittest.main()
