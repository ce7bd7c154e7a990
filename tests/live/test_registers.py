# SPDX-License-Identifier: MIT
"""Results come back through marked frames in whatever registers carry them."""

import unittest

from support import LiveTest, program, shares


class Registers(LiveTest):
    def assert_returned(self, profile, names, least):
        """The storm has really hit: marked frames of these functions returned through the stub."""
        if profile.info["walks"]["marker"]:
            self.assertGreater(sum(node.returns or 0 for name in names
                                   for node in profile.named(name)), least)

    def everywhere(self, name, graph, judge):
        """As a program, and as a plugin, of which the loader has to be asked."""
        self.survives([program(name)], graph, judge=lambda profile: judge(profile, "main"))
        graph = {**graph, "main": "plugin_main", "plugin_main": graph["main"]}
        self.survives([program("plugged"), program(f"plugged_{name}.so")], graph,
                      judge=lambda profile: judge(profile, "plugin_main"))

    def test_results_of_every_class(self):
        gives = ("give_integer give_int128 give_double give_long_double give_complex "
                 "give_long_complex").split()
        graph = {"main": "check_scalars check_structs check_ymm check_zmm",
                 "check_scalars": " ".join(gives),
                 "check_structs": "give_pair give_mixed give_large give_xmm",
                 "check_ymm": "give_ymm", "check_zmm": "give_zmm", "result_work": "burn"}
        for callees in list(graph.values())[1:5]:
            for name in callees.split():
                graph[name] = name + " result_work"

        def judge(profile, _main):
            for name in gives:
                with shares():
                    self.assertGreater(profile.share("check_scalars", name, "result_work"), 0.04, name)
            # Five frames of them return after a sample, whether one of them was ever the leaf or not.
            self.assert_returned(profile, gives, 2 * profile.samples)

        self.everywhere("results", graph, judge)

    def test_no_register_changes_on_the_way_back(self):
        graph = {"main": "register_probe burn", "register_probe": "register_nest",
                 "register_nest": "register_leaf", "*": "fill_ymm fill_zmm"}

        def judge(profile, main):
            self.assert_returned(profile, ("register_leaf", "register_nest"), 500)
            with shares():
                self.assertGreater(
                    profile.share(main, "register_probe", "register_nest", "register_leaf"), 0.8)

        self.everywhere("registers", graph, judge)

    def test_unaligned_accesses_that_trap(self):
        """The handler does what it likes, and the program goes on with its flags as they were."""
        self.survives([program("aligned")], {"main": "work", "work": "burn"})


if __name__ == "__main__":
    unittest.main()
