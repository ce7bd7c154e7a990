# SPDX-License-Identifier: MIT
"""Functions of Python are frames, with file and line, between those of C."""

import os
import shutil
import unittest

from support import CAIRN, LiveTest, Run, installed, shares

PYTHON = "/usr/bin/python3"
FRAMES = """
import sys

def leaf(n):
    s = 0
    for i in range(n):
        s += i * i % 7          # line 7
    return s

def left(n):
    return leaf(n) + 1

class Node:
    def count(self, n):
        return left(n) + leaf(n * 2)

def key(x):
    return -leaf(40 + x % 3)

def sorts(n):
    return sorted(range(n), key=key)[0]

def main():
    total = 0
    for i in range(int(sys.argv[1])):
        total += Node().count(200) + sorts(40)
    print(total)

main()
"""
# Each function, and those that call it.
CALLERS = {"<module>": set(), "main": {"<module>"}, "Node.count": {"main"}, "sorts": {"main"}, "left": {"Node.count"},
           "key": {"sorts"}, "leaf": {"left", "Node.count", "key"}}
# Frames that come and go in all ways that there are, in threads.
HOSTILE = """
import gc, sys, threading
sys.setrecursionlimit(100000)

def deep(n):
    return 0 if n == 0 else deep(n - 1) + 1

def gen(n):
    for i in range(n):
        try:
            if i % 3 == 0:
                raise ValueError(i)
            yield i
        except ValueError:
            yield -i

async def waits(n):
    return sum(i for i in range(n))

def makes(n):
    total = 0
    for i in range(n):
        names = {}
        exec(f"def f{i % 5}(x):\\n    return x + {i}\\nr = f{i % 5}(1)", names)
        total += names["r"]
    return total

class Odd:
    def __del__(self):
        deep(5)
    def __getattr__(self, name):
        return deep(3)

def gr\u00fcn(n):
    return deep(n)

def work(done):
    total = 0
    for i in range(30):
        total += deep(1200) + sum(gen(300)) + makes(30) + gr\u00fcn(20)
        task = waits(50)
        try:
            task.send(None)
        except StopIteration as end:
            total += end.value
        odd = Odd()
        total += odd.missing
        del odd
        total += sorted(range(100), key=lambda x: -deep(x % 7))[0]
    done.append(total)

done = []
threads = [threading.Thread(target=work, args=(done,)) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
print(done)
"""


@installed(PYTHON)
class Python(LiveTest):
    def setUp(self):
        super().setUp()
        version = Run([PYTHON, "-c", "import sys; print(sys.version_info[:2] in ((3, 11), (3, 12)))"]).text.strip()
        if version != "True":
            self.skipTest("frames of this version are not known")

    def steady(self, judge, *options):
        script = self.file("frames.py", FRAMES)

        def life():
            run, profile = self.record([PYTHON, script, "6000"], "-F", "1000", *options)
            self.assertEqual(run.status, 0, run.words)
            return profile

        return self.steadily(life, judge)

    @staticmethod
    def own(profile, *options):
        """What costs by the functions of this script on its path."""
        report = profile._json("report", profile.path, *options)  # pylint: disable=protected-access
        nodes = {node["id"]: node for node in report["nodes"]}
        for node in report["nodes"]:
            path, at = [], node
            while at is not None:
                if at["module"] == "[python]" and (at["file"] or "").endswith("frames.py"):
                    path.append(at["function"])
                at = nodes.get(at["parent"])
            yield path[::-1], node["self"][0]

    def test_paths_are_those_of_the_program(self):
        for options in ((), ("--marker", "off"), ("--tree", "hot")):
            with self.subTest(options=options):
                @shares()
                def judge(profile):
                    wrong = total = named = 0
                    for path, own in self.own(profile):
                        total += own
                        named += own if len(path) > 2 else 0
                        wrong += own if any(above not in CALLERS[below] for above, below in zip(path, path[1:])) else 0
                    self.assertEqual(wrong, 0)
                    self.assertGreater(named, 0.8 * total)

                self.steady(judge, *options)

    def test_lines_and_c_functions(self):
        @shares()
        def judge(profile):
            run = Run([CAIRN, "annotate", "leaf", profile.path])
            self.assertEqual(run.status, 0, run.words)
            self.assertRegex(run.text, r"(?m)^ *\d+\.\d %.*s \+= i \* i % 7")
            self.assertGreater(profile.below("main", "sorts", "key", "leaf"), 0.1 * profile.total)
            self.assertEqual([node for node in profile.nodes if "EvalFrameDefault" in node.function and
                              any(child.parent is node and child.function in CALLERS for child in profile.nodes)], [])

        self.steady(judge)

    def test_native_shows_the_interpreter(self):
        @shares()
        def judge(profile):
            shown = Run([CAIRN, "report", "--native", "--json", profile.path]).text
            self.assertIn("_PyEval_EvalFrameDefault", shown)
            self.assertNotIn("[python]", shown)
            sums = [sum(own for _, own in self.own(profile, *options)) for options in ((), ("--native",))]
            self.assertEqual(*sums)
            self.assertNotIn("frames.py", Run([CAIRN, "export", "-f", "folded", "--native", profile.path]).text)

        self.steady(judge)

    def test_frames_that_come_and_go(self):
        script = self.file("hostile.py", HOSTILE)
        native = Run([PYTHON, script])
        self.assertEqual(native.status, 0, native.words)
        for options in (("-F", "10000"), ("-F", "5000", "--marker", "off"), ("-e", "alloc"), ("--tree", "bounded"),
                        ("--track", "encode"), ("-e", "wall", "-F", "4000")):
            with self.subTest(options=options):
                run, profile = self.record([PYTHON, script], *options)
                self.assert_same(run, native)
                if "-e" not in options and "--t" not in options[0]:
                    names = {node.function for node in profile.nodes}
                    self.assertTrue({"work", "deep", "makes"} <= names, names)

    def test_functions_of_one_name_in_two_files(self):
        other = "def spin(n):\n    return sum(i * i for i in range(n))\n"
        for name in ("one", "two"):
            self.file(name + ".py", other)
        script = self.file("both.py", "import one, two\nfor i in range(60):\n    one.spin(20000)\n    two.spin(20000)\n")

        def life():
            run, profile = self.record([PYTHON, script], "-F", "1000")
            self.assertEqual(run.status, 0, run.words)
            return profile

        @shares()
        def judge(profile):
            report = profile._json("report", profile.path)  # pylint: disable=protected-access
            files = {os.path.basename(node["file"]) for node in report["nodes"] if node["function"] == "spin"}
            self.assertEqual(files, {"one.py", "two.py"})

        self.steadily(life, judge)

    def test_merged_profiles_keep_the_names(self):
        def judge(profile):
            merged = self.file("merged")
            self.assertEqual(Run([CAIRN, "merge", "-o", merged, profile.path, profile.path]).status, 0)
            self.assertIn("Node.count", Run([CAIRN, "export", "-f", "folded", merged]).text)

        self.steady(judge)


class Unknown(LiveTest):
    def test_a_version_that_is_not_known(self):
        python = shutil.which("python3.13") or shutil.which("python3.14")
        if not python or Run([python, "-c", "0"]).status:
            self.skipTest("no such version")
        run, profile = self.record([python, "-c", "print(sum(i * i for i in range(3000000)))"])
        self.assertEqual(run.status, 0, run.words)
        self.assertIn("a Python whose frames are not known", " ".join(profile.info["notes"]))
        self.assertNotIn("[python]", [module["path"] for module in profile.info["modules"]])


if __name__ == "__main__":
    unittest.main()
