# SPDX-License-Identifier: MIT
"""Tail calls, frames of unusual shape, and very deep recursion."""

import unittest

from support import LiveTest, program, shares


class StackShapes(LiveTest):
    def test_tail_calls(self):
        # A function that was jumped to stands where the one that jumped stood.
        chain = "tail_first tail_second tail_third tail_leaf"
        graph = {
            "main": "caller_of_chain caller_of_indirect caller_of_pair",
            "caller_of_chain": chain,
            "caller_of_pair": chain + " tail_even tail_odd",
            "caller_of_indirect": chain + " tail_indirect burn",
            "tail_even": "tail_leaf",
            "tail_odd": "tail_leaf",
            "tail_indirect": "burn",
            "tail_first": "tail_leaf",
            "tail_second": "burn",
            "tail_third": "burn",
            "tail_leaf": "burn",
        }
        self.survives([program("tailcalls")], graph)

    def test_alloca_and_realignment(self):
        shapes = ("with_alloca with_array with_alignment with_both with_realigned_entry "
                  "with_variable_arguments")
        graph = {"main": "all_shapes", "all_shapes": shapes, "shape_leaf": "burn"}
        for shape in shapes.split():
            graph[shape] = shape + " shape_leaf must_be_aligned"

        def judge(profile):
            for shape in shapes.split():
                self.assert_share(profile, 1 / 6, "all_shapes", shape, slack=0.03)

        self.survives([program("stackshapes")], graph, judge=judge)

    def test_recursion_20000_deep(self):
        graph = {"": "dive", "dive": "even_depth", "even_depth": "odd_depth bottom",
                 "odd_depth": "even_depth", "bottom": "burn"}

        def judge(profile):
            deepest = max(profile.named("bottom"), key=lambda node: node.total)
            self.assertEqual(sum(name in ("even_depth", "odd_depth") for name in deepest.path()),
                             20001)
            with shares():
                self.assertGreater(deepest.total / profile.total, 0.9)

        self.survives([program("recursion"), "20000"], graph, options=("-F", "1000"), judge=judge)

    def test_rate_that_cannot_be_kept(self):
        """Walks that take longer than the period: the program still gets its share of the time."""
        argv = [program("recursion"), "20000"]
        native = self.native(argv)

        def life():
            run, profile = self.record(argv, "-F", "10000", "--marker=off")
            self.assert_same(run, native)
            return profile

        self.steadily(life, self.assert_complete)

    def test_recursion_a_million_deep(self):
        argv = [program("recursion"), "1000000"]
        native = self.native(argv)

        def life():
            run, profile = self.record(argv, "-F", "1000")
            self.assert_same(run, native)
            return profile

        def judge(profile):
            self.assert_complete(profile)
            self.assertGreater(profile.info["nodes"], 1000000)
            self.assertGreater(profile.info["frames_per_sample"]["stack"], 500000)

        self.steadily(life, judge)

    def test_return_addresses_of_calls_that_are_over(self):
        """Of generated code without tables, a search finds them. What leads to no end from there was not called by them."""
        for marker in "--marker=on", "--marker=off":
            def life():
                _, profile = self.record([program("stale")], "-F", "2000", marker)
                generated = [node for node in profile.nodes if node.name == "[jit]"]
                for node in generated:
                    self.assertNotIn("deeper", node.path())
                return sum(node.own for node in generated)

            self.steadily(life, lambda own: self.assertGreater(own, 0))


if __name__ == "__main__":
    unittest.main()
