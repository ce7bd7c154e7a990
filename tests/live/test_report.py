# SPDX-License-Identifier: MIT
"""Views of one profile agree with each other, and with the program."""

import os
import unittest

from support import CAIRN, LiveTest, Run, nodes_of, program, shares


class Report(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        run, cls.profile = case.record([program("shares")], "-F", "4000")
        case.assertEqual(run.status, 0)

    def test_tree_sums(self):
        """A node's total is its own and its children's."""
        for node in self.profile.nodes:
            self.assertEqual(node.total, node.own + sum(child.total for child in node.children))
        self.assertIsNone(self.profile.nodes[0].parent)
        self.assertEqual(sum(node.parent is None for node in self.profile.nodes), 1)

    def test_flat_has_one_row_per_function(self):
        rows = nodes_of(self.profile.report("--view", "flat", "--min", "0"))
        self.assertEqual(sum(node.own for node in rows), self.profile.total)
        flat = {node.name: node for node in rows}
        for name in ("share_leaf", "share_left", "share_recursive", "main", "burn"):
            with self.subTest(function=name):
                self.assertEqual(flat[name].own,
                                 sum(node.own for node in self.profile.named(name)))
                # Recursion counts once.
                self.assertEqual(flat[name].total, self.profile.below(name))

    def test_callers_have_what_each_of_them_spent(self):
        nodes = nodes_of(self.profile.report("--view", "callers", "--min", "0"))
        burn = [node for node in nodes if node.name == "burn" and node.parent is nodes[0]]
        self.assertEqual(len(burn), 1)
        self.assertEqual([child.name for child in burn[0].children], ["share_leaf"])
        callers = {child.name: child.total for child in burn[0].children[0].children}
        self.assertEqual(set(callers), {"share_left", "share_right"})
        self.assertEqual(callers["share_right"], self.profile.below("share_right", "burn"))

    def test_few_samples(self):
        """Shares that a handful of samples tell are not shown as if they were exact."""
        _, few = self.record([program("shares")], "-F", "20")
        for profile, is_few in ((few, True), (self.profile, False)):
            lines = [line for line in Run([CAIRN, "report", profile.path]).text.splitlines()
                     if line.startswith("few samples: ")]
            found = profile.report()
            self.assertEqual(found["few_samples"], is_few, found["samples"])
            self.assertEqual(lines, [note for note in found["notes"] if note.startswith("few samples: ")])
            self.assertEqual([line.endswith("or record with -F 10000") for line in lines], [True] * is_few)

    def test_folded_text_sums_to_the_same(self):
        run = Run([CAIRN, "export", "-f", "folded", self.profile.path])
        self.assertEqual(run.status, 0, run.words)
        contexts = dict(line.rsplit(" ", 1) for line in run.text.splitlines())
        self.assertEqual(len(contexts), len(run.text.splitlines()))
        self.assertEqual(sum(map(int, contexts.values())), self.profile.total)
        right = sum(int(value) for path, value in contexts.items()
                    if "share_lower;share_right;share_leaf;burn" in path)
        self.assertEqual(right, self.profile.below("share_lower", "share_right", "share_leaf", "burn"))

    def test_fold_recursion(self):
        """A function is on a path once, and nothing is lost: neither cost nor who calls it."""
        name = "share_recursive"
        self.assertGreater(len(self.profile.named(name)), 1)
        nodes = nodes_of(self.profile.report("--min", "0", "--no-sites", "--fold-recursion"))
        self.assertEqual(nodes[0].total, self.profile.total)
        folded = [node for node in nodes if node.name == name]
        self.assertEqual(len(folded), 1)
        self.assertEqual(folded[0].total, self.profile.below(name))
        self.assertEqual(folded[0].own, sum(node.own for node in self.profile.named(name)))
        callers = nodes_of(self.profile.report("--min", "0", "--fold-recursion", "--view", "callers"))
        own = [node for node in callers if node.name == name and node.parent is callers[0]]
        self.assertEqual([node.total for node in own], [folded[0].total])
        self.assertEqual([node.name for node in own[0].children], [folded[0].parent.name])
        flat = self.profile.report("--min", "0", "--view", "flat")["nodes"]
        self.assertEqual(
            self.profile.report("--min", "0", "--view", "flat", "--fold-recursion")["nodes"], flat)
        run = Run([CAIRN, "export", "-f", "folded", "--fold-recursion", self.profile.path])
        paths = dict(line.rsplit(" ", 1) for line in run.text.splitlines())
        self.assertEqual(sum(map(int, paths.values())), self.profile.total)
        self.assertEqual({path.count(name) for path in paths}, {0, 1})

    def test_focus_ignore_through(self):
        def total(*options):
            return sum(node.own for node in nodes_of(self.profile.report("--min", "0", *options)))

        below = self.profile.below("share_upper")
        self.assertEqual(total("--through", "share_upper"), below)
        self.assertEqual(total("--without", "share_upper"), self.profile.total - below)
        # What is ignored is part of its callers.
        self.assertEqual(total("--ignore", "share_upper"), self.profile.total)
        ignored = nodes_of(self.profile.report("--min", "0", "--ignore", "share_upper"))
        self.assertNotIn("share_upper", {node.name for node in ignored})
        self.assertEqual(total("--focus", "^share_upper$"), below)

    def test_depth_and_min(self):
        shallow = nodes_of(self.profile.report("--depth", "3"))
        self.assertLess(len(shallow), len(self.profile.nodes))
        self.assertEqual(shallow[0].total, self.profile.total)
        large = nodes_of(self.profile.report("--min", "20"))
        for node in large:
            with shares():
                self.assertGreaterEqual(node.total, 0.2 * self.profile.total)

    def test_text_is_of_any_view(self):
        for options in ((), ("--view", "flat"), ("--view", "callers"), ("--depth", "4")):
            with self.subTest(options=options):
                run = Run([CAIRN, "report", self.profile.path, *options])
                self.assertEqual(run.status, 0, run.words)
                self.assertIn("burn" if options != ("--depth", "4") else "main", run.text)

    def test_source_lines(self):
        leaf = self.profile.named("share_leaf")[0]
        data = [node for node in self.profile.report("--min", "0")["nodes"]
                if node["function"] == "share_leaf"][0]
        self.assertTrue(data["file"].endswith("shares.c"))
        self.assertGreater(data["call_line"], 0)
        self.assertEqual(leaf.module, "shares")

    def test_stripped_binary(self):
        """Without symbols there are still modules and offsets, and exported names."""
        path = self.file("stripped")
        self.assertEqual(Run(["strip", "-s", "-o", path, program("shares")]).status, 0)
        def life():
            run, profile = self.record([path], "-F", "4000")
            self.assertEqual(run.status, 0)
            return profile

        profile = self.steadily(life, self.assert_complete)
        hot = max(profile.nodes, key=lambda node: node.own)
        self.assertEqual(hot.module, "stripped")
        self.assertRegex(hot.function, r"stripped\+0x[0-9a-f]+|0x[0-9a-f]+")
        self.assertIn("__libc_start_main", " ".join(node.function for node in profile.nodes))


class FoldedCalls(LiveTest):
    def test_folded_recursion(self):
        """Folded while it is recorded or when it is shown: the same tree, to the last call."""
        self.file("fold.c", """
            #include <stdlib.h>
            #define NOIPA __attribute__((noipa))
            NOIPA int leaf(int x) { return x & 1; }
            int odd(int n);
            NOIPA int even(int n) { return n == 0 ? leaf(3) : odd(n - 1) + leaf(n); }
            NOIPA int odd(int n) { return n == 0 ? leaf(5) : even(n - 1) + leaf(n); }
            NOIPA int down(int n) { return n == 0 ? even(4) : down(n - 1) + leaf(n); }
            int main(void) {
                int sum = 0;
                for (int i = 0; i < 100; i++)
                    sum += even(i % 7) + down(i % 5);
                return sum < 0;
            }""")
        run = Run([CAIRN, "cc", "gcc", "-O2", "-fno-optimize-sibling-calls", "-o", "fold", "fold.c"], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        target = os.path.join(self.folder, "fold")

        def paths(profile, *options):
            run = Run([CAIRN, "export", "-f", "folded", *options, profile.path])
            self.assertEqual(run.status, 0, run.words)
            return sorted(run.text.splitlines())

        _, whole = self.record([target], "--track", "calls")
        shown = paths(whole, "--fold-recursion")
        self.assertLess(len(shown), len(paths(whole)))
        _, folded = self.record([target], "--track", "calls", "--fold-recursion")
        self.assertEqual(paths(folded), shown)


if __name__ == "__main__":
    unittest.main()
