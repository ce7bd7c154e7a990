# SPDX-License-Identifier: MIT
"""Threads and processes by name: their own, those of pools, and what tells processes of one program apart."""

import json
import os
import re
import unittest

from support import CAIRN, LiveTest, Run, installed, program


class Names(LiveTest):
    def report(self, profile, *options):
        run = Run([CAIRN, "report", profile.path, "--json", *options])
        self.assertEqual(run.status, 0, run.words)
        return json.loads(run.text)

    def by_name(self, profile, *options):
        """What each name has, as a share of the whole."""
        report = self.report(profile, "--by", "thread", *options)
        return {row["function"]: row["total"][0] / report["whole"] for row in report["nodes"]}

    def refused(self, *command):
        run = Run([CAIRN, *command])
        self.assertEqual(run.status, 2, run.words)
        return run.words

    def test_threads_have_their_own_names(self):
        """Whoever gives them, and however; and those without one have that of their start routine."""
        for options in ((), ("-e", "wall"), ("--tree", "hot:1e-3"), ("--per-thread",)):
            with self.subTest(options=options):
                _, profile = self.record([program("named_threads"), "pool"], *options)
                shares = self.by_name(profile)
                self.assertEqual(set(shares), {"main thread", "worker-*", "loader", "from-outside", "start"})
                apart = {re.sub(r" \[\d+\]$", "", name) for name in self.by_name(profile, "--per-thread=tid")}
                self.assertEqual(apart, {"main thread", "worker-1", "worker-2", "worker-10", "loader", "from-outside",
                                         "start"})
                threads = {row["name"]: row["threads"] for row in self.report(profile)["thread_names"]}
                self.assertEqual(threads, {"main thread": 1, "worker-*": 3, "loader": 1, "from-outside": 1, "start": 1})

    def test_shares_are_those_of_the_names(self):
        """Six threads and main do the same work: what is counted under a name is what its threads did."""
        _, profile = self.record([program("named_threads"), "pool"])
        for name, share in self.by_name(profile).items():
            self.assertAlmostEqual(share, 3 / 7 if name == "worker-*" else 1 / 7, delta=0.04, msg=name)

    def test_threads_that_take_turns(self):
        """They share trees, but only with threads of their pool, or with others that have no name."""
        _, profile = self.record([program("named_threads"), "turns"])
        shares = self.by_name(profile, "--min", "1")
        self.assertEqual(set(shares), {"alpha-*", "beta-*", "start"})
        for name, share in shares.items():
            self.assertAlmostEqual(share, 1 / 3, delta=0.02, msg=name)
        self.assertLess(len(profile.info["tree_list"]), 7)

    def test_a_name_for_each_thread(self):
        """A tree for each of two thousand names would be too many: the last ones share one."""
        _, profile = self.record([program("named_threads"), "unique"], "-F", "10000")
        names = {tree["name"] for tree in profile.info["tree_list"]}
        self.assertIn("job aaa", names)
        self.assertNotIn("job xyc", names)
        self.assertLess(len(profile.info["tree_list"]), 600)
        self.assertEqual(profile.info["threads"], 2001)

    def test_names_that_change(self):
        _, profile = self.record([program("named_threads"), "changing"])
        shares = self.by_name(profile)
        self.assertEqual(set(shares), {"main thread (conductor)", "first", "second"})
        self.assertAlmostEqual(shares["first"], shares["second"], delta=0.05)
        chosen = self.report(profile, "--thread", "main")
        self.assertAlmostEqual(chosen["whole"] / self.report(profile)["whole"], shares["main thread (conductor)"])

    def test_where_calls_are_followed(self):
        """A thread moves to the tree of its name at once, and no call is lost."""
        _, profile = self.record([program("named_threads-calls"), "changing"], "--track", "calls")
        report = self.report(profile, "--per-thread")
        works = [node for node in report["nodes"] if node["function"] == "work"]
        self.assertEqual(sum(node["calls"] for node in works), 3)

    def test_threads_are_chosen_by_name(self):
        _, profile = self.record([program("named_threads"), "pool"])
        whole = self.report(profile)["whole"]
        for pattern, share in (("worker-1", 2 / 7), ("^worker-1$", 1 / 7), ("worker", 3 / 7), ("^start$", 6 / 7),
                               ("main", 1 / 7), ("loader|main thread", 2 / 7)):
            chosen = self.report(profile, "--thread", pattern)["whole"]
            self.assertAlmostEqual(chosen / whole, share, delta=0.05, msg=pattern)
        for command in ("report", "export"):
            format_ = ("-f", "folded") if command == "export" else ()
            words = self.refused(command, profile.path, *format_, "--thread", "nobody")
            self.assertIn("no thread matches 'nobody'; the profile has ", words)
            self.assertIn("worker-* (3)", words)

    def test_folded_paths_begin_with_the_thread(self):
        _, profile = self.record([program("named_threads"), "pool"])
        run = Run([CAIRN, "export", "-f", "folded", profile.path, "--per-thread", "--per-process=program"])
        firsts = {tuple(line.split(";")[:2]) for line in run.text.splitlines()}
        self.assertIn(("named_threads", "worker-*"), firsts)
        self.assertEqual({first for first, _ in firsts}, {"named_threads"})
        run = Run([CAIRN, "export", "-f", "folded", profile.path, "--thread", "loader"])
        self.assertEqual({line.split(";")[0] for line in run.text.splitlines() if "burn" in line}, {"clone3"})

    def test_old_profiles_have_none(self):
        """Names are in a part of the file that older readers pass over, and files without it are read."""
        corpus = os.path.join(os.path.dirname(__file__), "..", "fuzz", "corpus", "profile", "procs")
        run = Run([CAIRN, "info", "--json", corpus])
        self.assertEqual(run.status, 0, run.words)
        self.assertEqual({tree["name"] for tree in json.loads(run.text)["tree_list"]}, {None})


class Processes(LiveTest):
    """gcc on several files, as make runs it."""

    @installed("make", "gcc")
    def setUp(self):
        super().setUp()
        for name in "foo", "bar":
            with open(os.path.join(self.folder, name + ".c"), "w", encoding="ascii") as file:
                file.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
                file.writelines(f"int {name}{i}(int x) {{ printf(\"%d\", x); return x * {i}; }}\n" for i in range(200))
        with open(os.path.join(self.folder, "Makefile"), "w", encoding="ascii") as file:
            file.write("all: foo.o bar.o\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n")
        _, self.profile = self.record(["make", "-s", "-C", self.folder])

    def report(self, *options):
        return json.loads(Run([CAIRN, "report", self.profile.path, "--json", *options]).text)

    def test_arguments_that_differ_tell_them_apart(self):
        names = [process["name"] for process in self.profile.info["process_list"] if process["program"] == "cc1"]
        # Three dots where the locale has no better ones.
        self.assertEqual([re.sub(r"\bcc\w+\.s\b", "FILE", name.replace("…", "...")) for name in sorted(names)],
                         ["cc1 ... bar.c ... FILE", "cc1 ... foo.c ... FILE"])

    def test_each_under_its_parent(self):
        nodes = self.report("--view", "processes")["nodes"]
        self.assertEqual({node["kind"] for node in nodes[1:]}, {"process"})

        def programs(node):
            return [] if node["parent"] is None else programs(nodes[node["parent"]]) + [node["function"].split()[0]]

        paths = [programs(node) for node in nodes if node["function"].startswith("cc1 ")]
        self.assertEqual(paths, [["make", "gcc", "cc1"]] * 2)
        make = next(node for node in nodes if node["function"].startswith("make "))
        self.assertEqual(make["total"], nodes[0]["total"])
        self.assertLess(make["self"][0], make["total"][0])
        # Children are within their parents, and all cost is somebody's own.
        self.assertEqual(sum(node["self"][0] for node in nodes), nodes[0]["total"][0])

    def test_by_program(self):
        rows = {row["function"]: row["total"][0] for row in self.report("--by", "program", "--min", "0")["nodes"]}
        self.assertGreaterEqual(set(rows), {"make", "gcc", "cc1", "as"})
        processes = self.profile.info["process_list"]
        self.assertEqual(rows["cc1"], sum(each["cost_ns"] for each in processes if each["program"] == "cc1"))
        told = {row["name"]: row["processes"] for row in self.report()["programs"]}
        self.assertEqual(told["cc1"], 2)

    def test_processes_are_chosen_by_name(self):
        whole, programs = self.report()["whole"], self.report()["programs"]
        chosen = self.report("--process", "^cc1 ")["whole"]
        self.assertEqual(chosen, next(row["cost"] for row in programs if row["name"] == "cc1"))
        one = self.report("--process", "^cc1 .*foo.c")["whole"]
        self.assertTrue(0 < one < chosen < whole)
        run = Run([CAIRN, "report", self.profile.path, "--process", "cc1plus"])
        self.assertEqual(run.status, 2)
        self.assertIn("no process matches 'cc1plus'; the profile has cc1 (2), ", run.words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
