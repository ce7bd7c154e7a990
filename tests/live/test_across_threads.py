# SPDX-License-Identifier: MIT
"""Threads below the calls that created them: `cairn report --across-threads`."""

import os
import shutil
import unittest

from support import CAIRN, LiveTest, Run, nodes_of, program, shares

START = ["_start", "__libc_start_main", "__libc_start_call_main"]


class AcrossTest(LiveTest):
    def life(self, mode, *options):
        run, profile = self.record([program("created_threads"), mode], *options)
        self.assertEqual(run.status, 0, run.words)
        return profile

    def across(self, profile, *options):
        return nodes_of(profile.report("--across-threads", "--min", "0", "--no-sites", *options))

    def paths(self, profile, *options):
        """Paths of functions with the cost below them, from main() on, without inlined ones, libc's and the kernel's."""
        found = {}
        for node in self.across(profile, *options):
            path = []
            at = node
            while at is not None and at.parent is not None:
                if at.module == "created_threads" and not at.inlined and at.name not in START:
                    path.insert(0, at.name)
                at = at.parent
            if node.module == "created_threads" and not node.inlined:
                found[";".join(path)] = max(found.get(";".join(path), 0), node.total)
        return found


class Creators(AcrossTest):
    def test_a_routine_is_told_apart_by_who_created_its_thread(self):
        def judge(profile):
            paths = self.paths(profile)
            one, other = paths["main;run_two;left;create;worker;work;burn"], paths["main;run_two;right;create;worker;work;burn"]
            with shares():
                self.assertAlmostEqual(one / (one + other), 0.75, delta=profile.tolerance(0.75) + 0.03)
            # What created the threads has their cost, and that of nobody else.
            self.assertGreaterEqual(paths["main;run_two;left"], one)
            self.assertLess(paths["main;run_two;right"], one)
            # Without the option the two are one.
            self.assertEqual({tuple(node.path()[1:]) for node in profile.named("worker")}, {("clone3", "start_thread", "worker")})
            self.assertEqual(sum(node.total for node in profile.named("clone3") if node.parent.parent is None),
                             sum(node.total for node in self.across(profile) if node.name == "clone3"))

        self.steadily(lambda: self.life("two", "-F", "4000"), judge)

    def test_threads_of_threads_with_every_tracker_and_tree(self):
        for options in ((), ("--marker", "off"), ("--track", "encode"), ("--tree", "hot"), ("--tree", "bounded"),
                        ("--track", "encode", "--tree", "hot"), ("-e", "wall"), ("--per-thread",)):
            with self.subTest(options=options):
                profile = self.life("nested", "-F", "2000", *options)
                paths = self.paths(profile)
                self.assertIn("main;run_nested;work;burn", paths)
                self.assertIn("main;run_nested;spawn;create;child;work;burn", paths)
                self.assertIn("main;run_nested;spawn;create;child;create;worker;work;burn", paths)
                self.assertFalse([path for path in paths if path.startswith(("child", "worker"))], paths)

    def test_where_calls_are_followed(self):
        profile = self.life("nested", "--track", "calls")
        paths = self.paths(profile)
        self.assertEqual(paths["main;run_nested;spawn;create;child;create;worker;work;burn"], 1)
        self.assertFalse([path for path in paths if path.startswith(("child", "worker"))], paths)

    def test_allocations_of_a_thread(self):
        run, profile = self.record(["xz", "-T2", "-0", "-k", "-c", self.file("text", "some words\n" * 300000)], "-e", "alloc")
        self.assertEqual(run.status, 0)
        roots = [node for node in self.across(profile, "--metric", "alloc") if node.parent is not None and node.parent.parent is None]
        self.assertNotIn("clone3", {node.name for node in roots})

    def test_threads_of_c11(self):
        self.assertIn("main;run_c11;create_c11;c11_worker;work;burn", self.paths(self.life("c11")))

    def test_a_thread_that_forks(self):
        paths = self.paths(self.life("fork"))
        self.assertIn("main;run_fork;fork_in_thread;create;forking;in_child;work;burn", paths)
        self.assertIn("main;run_fork;fork_in_thread;create;forking;in_child;create;worker;work;burn", paths)

    def test_what_pthread_create_does_stays(self):
        argv = [program("created_threads"), "odd"]
        run, profile = self.record(argv)
        self.assert_same(run, self.native(argv))
        self.assertIn("main;run_odd;detached;work;burn", self.paths(profile))

    def test_a_chain_of_threads_is_nested_so_far(self):
        profile = self.life("chain", "-F", "4000")
        deepest = max(path.count("chained") for path in self.paths(profile))
        self.assertGreater(deepest, 20)
        self.assertLessEqual(deepest, 33)
        # All of them, and what is beyond, below the first.
        burns = [node for node in self.across(profile) if node.name == "burn"]
        self.assertTrue(burns)
        for node in burns:
            self.assertEqual(node.path()[1], "_start")

    def test_more_creators_than_are_kept(self):
        profile = self.life("many", "-F", "4000")
        creators = {tuple(tree["created_by"]) for tree in profile.info["tree_list"] if tree["created_by"]}
        self.assertGreater(len(creators), 60)
        self.assertLessEqual(len(creators), 128)
        hot = self.life("many", "-F", "4000", "--tree", "hot")
        self.assertLessEqual(len({tuple(tree["created_by"]) for tree in hot.info["tree_list"] if tree["created_by"]}), 16)

    def test_info_tells_who_created_a_thread(self):
        trees = {tree["start"]: tree["created_by"] for tree in self.life("nested").info["tree_list"]}
        self.assertIsNone(trees["main thread"])
        self.assertEqual(trees["child"][-4:], ["main", "run_nested", "spawn", "create"])
        self.assertEqual(trees["worker"][-5:], ["create", "clone3", "start_thread", "child", "create"])


class Options(AcrossTest):
    def test_views_lists_and_exports_agree(self):
        profile = self.life("nested", "-F", "4000")
        total = self.across(profile)[0].total
        flat = {node["function"]: node["total"][0] for node in profile.report("--across-threads", "--by", "function")["nodes"]}
        paths = self.paths(profile)
        self.assertEqual(flat["spawn"], paths["main;run_nested;spawn"])
        self.assertEqual(flat["main"], paths["main"])
        callers = nodes_of(profile.report("--across-threads", "--view", "callers", "--focus", "^worker$"))
        names = [node.name for node in callers]
        self.assertIn("spawn", names)
        folded = Run([CAIRN, "export", "-f", "folded", "--across-threads", profile.path]).text.splitlines()
        self.assertEqual(sum(int(line.rpartition(" ")[2]) for line in folded), total)
        self.assertTrue(any(";spawn;create;clone3;start_thread;child;create;clone3;start_thread;worker;" in line for line in folded))

    def test_some_threads(self):
        profile = self.life("nested", "-F", "4000")
        paths = self.paths(profile, "--thread", "worker")
        self.assertEqual(paths["main"], paths["main;run_nested;spawn;create;child;create"])
        self.assertNotIn("main;run_nested;work", paths)

    def test_merged_profiles_know_it_still(self):
        one, other = self.life("nested", "-F", "4000"), self.life("two", "-F", "4000")
        merged = self.file("merged.out")
        self.assertEqual(Run([CAIRN, "merge", "-o", merged, one.path, other.path]).status, 0)
        folded = Run([CAIRN, "export", "-f", "folded", "--across-threads", merged]).text
        self.assertIn(";run_nested;spawn;create;clone3;start_thread;child;", folded)
        self.assertIn(";run_two;left;create;clone3;start_thread;worker;", folded)

    def test_start_up_code_of_threads_is_left_out_on_a_terminal(self):
        profile = self.life("nested", "-F", "4000")
        for view in ("tree", "callers"):
            run = Run(["script", "-qec", f"stty cols 100; {CAIRN} report --across-threads --view {view} {profile.path}", "/dev/null"],
                      env={**os.environ, "PAGER": "cat"})
            self.assertIn("worker", run.text)
            self.assertNotIn("start_thread", run.text)
            self.assertIn("each thread below the call that created it", run.text)

    def test_apart_and_below_at_once_is_refused(self):
        profile = self.life("two")
        for options in (["report", "--per-thread"], ["report", "--by", "thread"], ["export", "-f", "folded", "--per-thread"]):
            run = Run([CAIRN, options[0], profile.path, *options[1:], "--across-threads"])
            self.assertEqual(run.status, 2)
            self.assertIn("--across-threads", run.words)

    def test_what_does_not_know_creators_says_so(self):
        profile = self.life("two", "--tree", "functions")
        run = Run([CAIRN, "report", profile.path, "--across-threads"])
        self.assertEqual(run.status, 0)
        self.assertIn("does not tell which calls created its threads", run.words)


class Real(AcrossTest):
    def check(self, *argv):
        if not shutil.which(argv[0]):
            self.skipTest(f"{argv[0]} is not installed")
        run, profile = self.record(list(argv))
        self.assert_same(run, self.native(list(argv)))
        self.assertGreater(profile.info["threads"], 1)
        known = [tree for tree in profile.info["tree_list"] if tree["start"] != "main thread"]
        self.assertTrue(known)
        for tree in known:
            self.assertTrue(tree["created_by"], tree)
        nodes = self.across(profile)
        self.assertEqual(nodes[0].total, profile.nodes[0].total)
        self.assertFalse([node for node in nodes if node.parent is not None and node.parent.parent is None and node.name == "clone3"])

    def text(self):
        return self.file("text", "".join(f"{i * 7919 % 100003} {i}\n" for i in range(200000)))

    def test_xz(self):
        self.check("xz", "-T2", "-1", "-k", "-c", self.text())

    def test_sort(self):
        self.check("sort", "--parallel=4", "-S", "100M", self.text())

    def test_pigz(self):
        self.check("pigz", "-p", "3", "-c", self.text())

    def test_zstd(self):
        self.check("zstd", "-q", "-T2", "-12", "-c", self.text())

    def test_ripgrep(self):
        for part in range(8):
            self.file(f"part{part}", "".join(f"{i * 31 % 1009} words and words {i}\n" for i in range(60000)))
        self.check("rg", "--sort", "none", "-j", "3", "-c", "--no-filename", "w.*7.*9", self.folder)


if __name__ == "__main__":
    unittest.main()
