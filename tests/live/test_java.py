# SPDX-License-Identifier: MIT
"""Methods of Java are frames, interpreted, compiled and inlined, between those of C."""

import json
import os
import shutil
import subprocess
import unittest

from class_files import Classes
from support import CAIRN, LiveTest, Run, installed, shares

# Each method leaves no doubt who calls it. Frames of all sizes, recursion, calls by name and through a native method,
# exceptions, and what the collector moves.
PATHS = """
import java.lang.reflect.Method;
import java.util.Arrays;

public class Paths {
    static class Node {
        Node left, right; int value;
        int size() { return 1 + (left == null ? 0 : left.size()) + (right == null ? 0 : right.size()); }
    }
    static Node tree(int depth) {
        Node node = new Node();
        node.value = depth;
        if (depth > 0) { node.left = tree(depth - 1); node.right = tree(depth - 1); }
        return node;
    }
    static int leaf(int n) {
        int s = n;
        for (int i = 0; i < 40; i++)
            s = s * 31 + i;
        return s;
    }
    static int left(int n) { int s = 0; for (int i = 0; i < 10; i++) s += leaf(n + i); return s; }
    static int right(int n) { int s = 1; for (int i = 0; i < 10; i++) s ^= leaf(n * i); return s; }
    static int both(int n) { return left(n) + right(n + 1) * 3; }
    static long wide(int a, long b, double c, int d, int e, int f, long g, int h, int i, double j) {
        long room[] = {a, b, d, e, f, g, h, i};
        return room[h & 7] + leaf(a) + (long) c + (long) j;
    }
    static int thrown(int n) { if (n % 3 == 0) throw new IllegalStateException(); return leaf(n); }
    static int caught(int n) { try { return thrown(n); } catch (IllegalStateException e) { return leaf(n + 1); } }
    interface Shape { int area(int n); }
    static class Square implements Shape { public int area(int n) { return leaf(n) + 1; } }
    static class Circle implements Shape { public int area(int n) { return leaf(n) + 2; } }
    static class Line implements Shape { public int area(int n) { return leaf(n) + 3; } }
    static final Shape[] shapes = {new Square(), new Circle(), new Line()};
    static int drawn(int n) { return shapes[n % 3].area(n); }
    static int sum(int n) { return Arrays.stream(new int[] {n, n + 1, n + 2}).map(Paths::both).sum(); }
    public static int called(int n) { return leaf(n); }
    static int parse(int n) {
        char[] text = new char[64];
        Arrays.fill(text, (char) ('0' + n % 10));
        return new String(text).hashCode() + Integer.parseInt(new String(text, 0, 8));
    }
    static int many(int n, Method method) throws Exception {
        int s = 0;
        for (int i = 0; i < 20; i++)
            s += both(i + n) * both(n - i) + caught(i) + drawn(n + i) + sum(i) + parse(i)
                + (int) wide(n, i, 1.5, n, i, n, i, n, i, 2.5) + (int) method.invoke(null, i);
        return s + tree(6).size();
    }
    public static void main(String[] words) throws Exception {
        Method method = Paths.class.getMethod("called", int.class);
        int s = 0, rounds = Integer.parseInt(words[0]);
        for (int i = 0; i < rounds; i++) s += many(i, method);
        System.out.println(s);
    }
}
"""
LOOP = [number for number, line in enumerate(PATHS.splitlines(), 1) if "s = s * 31 + i;" in line and "{" not in line][0]
CALLERS = {"leaf": {"left", "right", "wide", "thrown", "caught", "area", "called"}, "left": {"both"}, "right": {"both"},
           "both": {"many", "sum"}, "many": {"main"}, "main": set(), "tree": {"tree", "many"}, "size": {"size", "many"},
           "wide": {"many"}, "thrown": {"caught"}, "caught": {"many"}, "area": {"drawn"}, "drawn": {"many"},
           "sum": {"many"}, "called": {"many"}, "parse": {"many"}}
# How the machine runs methods, and the rounds of the program that take it a second or so.
MODES = {"": 5000, "-Xint": 200, "-XX:TieredStopAtLevel=1": 5000, "-XX:-Inline": 4000}
# Classes that come and go, threads, deep stacks, signals that the machine handles for itself, and its own way to end.
HOSTILE = """
import java.lang.invoke.*;
import java.lang.reflect.Method;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

public class Hostile {
    static class Loader extends ClassLoader {
        Class<?> define(byte[] bytes) { return defineClass(null, bytes, 0, bytes.length); }
    }
    public static class Passing {
        public static int work(int n) { int s = n; for (int i = 0; i < 2000; i++) s = s * 31 + (s >>> 3); return s; }
    }
    static int deep(int n) { return n == 0 ? 0 : deep(n - 1) + 1; }
    static int endless(int n) { return endless(n + 1) + 1; }
    static int zero(int[] n) { try { return n.length; } catch (NullPointerException e) { return 3; } }
    static int divided(int n) { try { return 7 / n; } catch (ArithmeticException e) { return 5; } }
    static int task(int round, byte[] bytes) throws Throwable {
        int s = deep(1500);
        Method work = new Loader().define(bytes).getMethod("work", int.class);
        for (int i = 0; i < 30; i++) s += (int) work.invoke(null, i);
        try { s += endless(0); } catch (StackOverflowError e) { s += 11; }
        for (int i = 0; i < 200; i++) s += zero(i % 2 == 0 ? null : new int[i]) + divided(i % 2);
        MethodHandle handle = MethodHandles.lookup().findStatic(Hostile.class, "deep",
            MethodType.methodType(int.class, int.class));
        for (int i = 0; i < 50; i++) s += (int) handle.invokeExact(100);
        Function<Integer> f = n -> deep(n) + round;
        s += f.apply(50);
        List<String> words = new ArrayList<>();
        for (int i = 0; i < 2000; i++) words.add("w" + i * 7919 % 2000);
        Collections.sort(words);
        return s + words.get(5).hashCode();
    }
    interface Function<T> { T apply(T n); }
    public static void main(String[] words) throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of(words[0], "Hostile$Passing.class"));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 30; i++) { final int n = i; all.add(pool.submit(() -> {
            try { return task(n, bytes); } catch (Throwable e) { throw new Exception(e); } })); }
        long sum = 0;
        for (Future<Integer> one : all) { sum += one.get(); if (sum % 7 == 0) System.gc(); }
        for (int i = 0; i < 100; i++) { Thread t = new Thread(() -> deep(200)); t.start(); t.join(); }
        System.out.println(sum);
        System.err.println("threads " + (Thread.activeCount() >= 1) + " " + new Thread().getName());
        System.exit(3);
    }
}
"""
# The same frames, hundreds of them, are on the stack all the time.
DEEP = """
public class Deep {
    static int sum;
    static int leaf(int n) { int s = n; for (int i = 0; i < 500; i++) s = s * 31 + (s >>> 3); return s; }
    static int many(int n) { int s = 0; for (int i = 0; i < 20; i++) s += leaf(n + i); return s; }
    static int down(int depth, int rounds) {
        if (depth > 0)
            return down(depth - 1, rounds) + 1;
        for (int i = 0; i < rounds; i++)
            sum += many(i);
        return sum;
    }
    public static void main(String[] words) {
        int rounds = Integer.parseInt(words[0]);
        for (int i = 0; i < 3000; i++) down(300, 0);
        System.out.println(down(300, rounds) + down(300, rounds));
    }
}
"""
DOWN = [number for number, line in enumerate(DEEP.splitlines(), 1) if "down(depth - 1" in line][0]
# A machine of another kind: it has the entry point that all have, code that it generates, and perhaps tables as those of
# HotSpot, which lack almost everything or lead nowhere.
OTHER = """
#include <string.h>
#include <sys/mman.h>
#ifdef ROWS
struct row { const char *type, *name, *kind; long is_static; unsigned long offset; void *address; };
static int version = 11;
struct row rows[2] = {{"Abstract_VM_Version", "_vm_major_version", "int", 1, 0, &version}};
void *gHotSpotVMStructs = ROWS, *gHotSpotVMTypes = ROWS;
unsigned long gHotSpotVMStructEntryArrayStride = STRIDE, gHotSpotVMStructEntryTypeNameOffset = NAMES,
    gHotSpotVMStructEntryFieldNameOffset = NAMES + 8, gHotSpotVMStructEntryIsStaticOffset = NAMES + 24,
    gHotSpotVMStructEntryOffsetOffset = NAMES + 32, gHotSpotVMStructEntryAddressOffset = NAMES + 40,
    gHotSpotVMTypeEntryArrayStride = STRIDE, gHotSpotVMTypeEntryTypeNameOffset = NAMES,
    gHotSpotVMTypeEntrySizeOffset = NAMES + 32;
#endif
int JNI_GetCreatedJavaVMs(void), run(long n);
int JNI_GetCreatedJavaVMs(void) { return 0; }
int run(long n) {
    static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0x31, 0xc0, 0xc3};
    void *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    return ((int (*)(long))at)(n);
}
"""
TABLES = ((), ("rows", "48", "0"), ("rows", "0", "0"), ("(void *)16", "48", "0"), ("rows", "48", "(1UL << 46)"),
          ("rows", "48", "-8UL"))
LAUNCHER = """
#include <dlfcn.h>
int main(int count, char **words) {
    void *machine = dlopen(words[1], RTLD_NOW);
    int (*run)(long) = machine ? dlsym(machine, "run") : 0;
    return count == 2 && run ? run(500000000) : 1;
}
"""


def method(node):
    """The class and name of a method."""
    of, _, name = node.function.rpartition(".") if node.module == "[java]" else ("", "", "")
    return of, name


@installed("java", "javac")
class Java(LiveTest):
    def setUp(self):
        super().setUp()
        version = Run(["java", "-version"]).words
        if 'version "17' not in version:
            self.skipTest("frames of this version are not known")

    def compile(self, name, text):
        subprocess.run(["javac", "-d", self.folder, self.file(name + ".java", text)], check=True)

    def run_java(self, *words, options=("-F", "1000")):
        run, profile = self.record(["java", *words], *options)
        self.assertEqual(run.status, 0, run.words)
        return profile

    @staticmethod
    def own(profile):
        """The methods of the program on each path, and what was spent there."""
        for node in profile.nodes:
            path, at = [], node
            while at is not None:
                of, name = method(at)
                if of.startswith("Paths"):
                    path.append(name)
                at = at.parent
            yield [name for name in path[::-1] if name in CALLERS], node.own

    def judge_paths(self, profile):
        wrong = total = named = 0
        for path, own in self.own(profile):
            pairs = list(zip(path, path[1:]))
            total += own
            named += own if len(path) > 1 else 0
            wrong += own if any(above not in CALLERS[below] for above, below in pairs) else 0
        self.assertLess(wrong, 0.001 * total)
        self.assertGreater(named, 0.1 * total)
        walks = profile.info["walks"]
        cut = walks["guessed"] + walks["truncated"] - walks["reasons"].get("detached", 0) # of a bounded tree
        self.assertLess(cut, max(3, 0.01 * profile.samples), walks)

    def test_paths_are_those_of_the_program(self):
        self.compile("Paths", PATHS)
        for mode, rounds in MODES.items():
            with self.subTest(mode):
                @shares()
                def judge(profile):
                    self.judge_paths(profile)

                self.steadily(lambda: self.run_java(*mode.split(), "-cp", self.folder, "Paths", str(rounds)), judge)

    def test_trees_and_clocks(self):
        self.compile("Paths", PATHS)
        for options in (("--tree", "hot"), ("--tree", "bounded"), ("-e", "wall"), ("-e", "alloc")):
            with self.subTest(options):
                @shares()
                def judge(profile):
                    if "alloc" in options:
                        self.assertGreater(profile.total, 0)
                    elif "wall" in options:
                        self.assertGreater(profile.share("Paths.main", "Paths.many"), 0.01)
                    else:
                        self.judge_paths(profile)

                self.steadily(lambda: self.run_java("-cp", self.folder, "Paths", "3000", options=options), judge)

    def test_lines(self):
        self.compile("Paths", PATHS)
        # Of compiled code, a line is that of the next point where the machine can stop.
        for mode, least in (("-Xint", 0.8), ("-XX:TieredStopAtLevel=1", 0.3)):
            with self.subTest(mode):
                @shares()
                def judge(profile):
                    found = Run([CAIRN, "annotate", "--json", "Paths.leaf", profile.path])
                    lines = [(line["line"], line["file"], line["self"]) for line in json.loads(found.text)["lines"]]
                    self.assertEqual({file for _, file, _ in lines}, {"Paths.java"})
                    self.assertTrue({line for line, _, _ in lines} <= set(range(LOOP - 2, LOOP + 2)), lines)
                    hot = sum(own for line, _, own in lines if line in (LOOP - 1, LOOP))
                    self.assertGreater(hot, least * sum(own for _, _, own in lines))
                    annotated = Run([CAIRN, "annotate", "Paths.leaf", profile.path], cwd=self.folder)
                    self.assertRegex(annotated.text, r"(?m)^ *\d+\.\d %.*for \(int i = 0; i < 40; i\+\+\)$", annotated.words)

                self.steadily(lambda: self.run_java(mode, "-cp", self.folder, "Paths", str(MODES[mode] // 2)), judge)

    def test_frames_that_are_known_are_not_walked_again(self):
        self.compile("Deep", DEEP)
        for mode, rounds in (("-XX:TieredStopAtLevel=1", "50000"), ("", "50000"), ("-Xint", "5000")):
            for options in ((), ("--marker", "off")):
                with self.subTest(mode=mode, options=options):
                    profile = self.run_java(*mode.split(), "-cp", self.folder, "Deep", rounds, options=options)
                    frames = profile.info["frames_per_sample"]
                    self.assertGreater(frames["stack"], 150)
                    self.assertLess(frames["walked"], frames["stack"] / 4)
                    self.assertNotIn("unwinder", " ".join(profile.info["notes"]))
                    lines = [node["call_line"] for node in profile.report("--min", "0")["nodes"]
                             if node["function"] == "Deep.down"]
                    self.assertGreater(lines.count(DOWN), 200)
                    self.assertLessEqual(len(lines) - lines.count(DOWN), 3, lines) # from main

    def test_native_leaves_methods_out(self):
        self.compile("Paths", PATHS)
        profile = self.run_java("-cp", self.folder, "Paths", "1000")
        whole, native = (profile.report("--min", "0", *options) for options in ((), ("--native",)))
        self.assertIn("Paths.main", [node["function"] for node in whole["nodes"]])
        self.assertNotIn("[java]", [node["module"] for node in native["nodes"]])
        sums = [sum(node["self"][0] for node in report["nodes"]) for report in (whole, native)]
        self.assertEqual(*sums)

    def test_threads_of_the_machine_have_names(self):
        self.compile("Paths", PATHS)
        profile = self.run_java("-XX:+UseG1GC", "-Xmx32m", "-cp", self.folder, "Paths", "2000")
        text = Run([CAIRN, "info", profile.path, "--json"]).text + Run([CAIRN, "report", "--threads", profile.path]).text
        self.assertRegex(text, r"C[12] CompilerThre")

    def test_hostile_programs_are_what_they_were(self):
        self.compile("Hostile", HOSTILE)
        words = ["java", "-Xss512k", "-Xmx64m", "-cp", self.folder, "Hostile", self.folder]
        native = Run(words)
        self.assertEqual(native.status, 3, native.words)
        for options in (("-F", "10000"), ("-e", "alloc"), ("-e", "wall", "-F", "2000"), ("--tree", "bounded", "-F", "5000")):
            with self.subTest(options):
                run, profile = self.record(words, *options)
                self.assert_same(run, native)
                if "-e" not in options:
                    names = {node.function for node in profile.nodes}
                    self.assertTrue({"Hostile.deep", "Hostile.task"} <= names, names)

    @installed("jimage")
    def test_calls_of_a_compiler_are_in_its_bytecode(self):
        """Each method of javac that stands above another one calls it, or what is found at run time."""
        home = os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("javac"))))
        subprocess.run(["jimage", "extract", "--dir", self.file("jdk"), "--include", "regex:/jdk.compiler/.*",
                        os.path.join(home, "lib", "modules")], check=True)
        classes = Classes(self.file("jdk"))
        sources = [self.file("Paths.java", PATHS), self.file("Hostile.java", HOSTILE)]

        def life():
            run, profile = self.record(["javac", "-d", self.file("out"), *sources], "-F", "3000")
            self.assertEqual(run.status, 0, run.words)
            return profile

        @shares()
        def judge(profile):
            known, wrong = 0, 0
            for node in profile.nodes:
                calls = [classes.may_call(above.function, below.function) for above, below in self.calls(node)]
                known += node.own if True in calls or False in calls else 0
                wrong += node.own if False in calls else 0
            self.assertGreater(known, 0.05 * profile.total)
            self.assertLess(wrong, max(0.01 * known, 3 * 10 ** 9 / 3000))

        self.steadily(life, judge)

    @staticmethod
    def calls(node):
        """Methods on a path that stand directly above another one."""
        while node.parent is not None:
            if "." in method(node)[0] and "." in method(node.parent)[0]:
                yield node.parent, node
            node = node.parent

    def test_attached(self):
        self.compile("Paths", PATHS)
        with subprocess.Popen(["java", "-cp", self.folder, "Paths", "200000"], stdout=subprocess.PIPE) as process:
            try:
                path = self.file("attached")
                done = Run([CAIRN, "record", "-q", "-p", str(process.pid), "--duration", "1", "-o", path])
                self.assertEqual(done.status, 0, done.words)
            finally:
                process.kill()
        text = Run([CAIRN, "export", "-f", "folded", path]).text
        self.assertIn("Paths.main;Paths.many", text)


class Other(LiveTest):
    @installed("gcc")
    def test_a_machine_that_is_not_known(self):
        machine, launcher = self.file("libother.so"), self.file("launcher")
        subprocess.run(["gcc", "-O1", "-o", launcher, self.file("launcher.c", LAUNCHER)], check=True)
        for tables in TABLES:
            with self.subTest(tables):
                macros = [f"-D{name}={value}" for name, value in zip(("ROWS", "STRIDE", "NAMES"), tables)]
                subprocess.run(["gcc", "-O1", "-shared", "-fPIC", *macros, "-o", machine, self.file("other.c", OTHER)], check=True)
                self.judge_machine(launcher, machine)

    def judge_machine(self, launcher, machine):
        run, profile = self.record([launcher, machine])
        self.assertEqual(run.status, 0, run.words)
        self.assertEqual([note for note in profile.info["notes"] if "a Java virtual machine" in note],
                         [note for note in profile.info["notes"]])
        self.assertEqual(len(profile.info["notes"]), 1)
        self.assertNotIn("[java]", [module["path"] for module in profile.info["modules"]])
        self.assertGreater(profile.share("main", "run"), 0.9)


if __name__ == "__main__":
    unittest.main()
