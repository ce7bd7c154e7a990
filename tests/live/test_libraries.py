# SPDX-License-Identifier: MIT
"""Libraries that are loaded, used and unloaded in a loop, at the same address."""

import unittest

from support import LiveTest, program

PLUGINS = ("alpha", "beta", "gamma")


class Libraries(LiveTest):
    def test_different_ones_at_the_same_address(self):
        argv = [program("libraries"), *(program(f"plugin_{name}.so") for name in PLUGINS)]

        def judge(profile):
            for name in PLUGINS:
                # A third of the plugins' work each; half of it is called back into the program.
                plugin = profile.below("plugin_run", f"{name}_outer", f"{name}_inner", "burn")
                back = profile.below(f"{name}_inner", "called_back", "burn")
                own = profile.below("plugin_run", "burn")
                self.assertAlmostEqual(plugin / own, 1 / 3, delta=profile.tolerance(1 / 3) + 0.02)
                self.assertAlmostEqual(back / plugin, 0.5, delta=profile.tolerance(0.5) * 2 + 0.02)
            self.assertGreater(profile.share("plugin_run"), 0.5)

        # While a library goes, nothing is known of the code at its address: those walks stop early.
        for profile in self.survives(argv, complete=0.9, judge=judge):
            for name in PLUGINS:
                for other in PLUGINS:
                    if other != name:
                        self.assertEqual(profile.below(f"{name}_outer", f"{other}_inner"), 0)
                for node in profile.named(f"{name}_inner"):
                    self.assertEqual(node.module, f"plugin_{name}.so")


if __name__ == "__main__":
    unittest.main()
