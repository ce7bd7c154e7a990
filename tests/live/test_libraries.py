# SPDX-License-Identifier: MIT
"""Libraries that are loaded, used and unloaded in a loop, at the same address."""

import shutil
import unittest

from support import LiveTest, program, shares

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
                with shares():
                    self.assertAlmostEqual(plugin / own, 1 / 3, delta=profile.tolerance(1 / 3) + 0.02)
                    self.assertAlmostEqual(back / plugin, 0.5, delta=profile.tolerance(0.5) * 2 + 0.02)
            with shares():
                self.assertGreater(profile.share("plugin_run"), 0.5)

        # While a library goes, nothing is known of the code at its address: those walks stop early.
        for profile in self.survives(argv, complete=0.9, judge=judge):
            for name in PLUGINS:
                for other in PLUGINS:
                    if other != name:
                        self.assertEqual(profile.below(f"{name}_outer", f"{other}_inner"), 0)
                for node in profile.some(f"{name}_inner"):
                    self.assertEqual(node.module, f"plugin_{name}.so")

    def test_a_thousand_of_them(self):
        """Each one costs as much as the last: trackers look at what is new, not at all that there is."""
        count, runs = 1000, 3
        for i in range(count):
            shutil.copyfile(program("plugin_alpha.so"), self.file(f"{i}.so"))
        argv = [program("many_libraries"), self.folder, str(count)]

        expected = self.native(argv).text.split()[0]

        def cpu(*options):
            """The least that the program has used, and the last profile."""
            least = None
            for _ in range(runs):
                run, profile = self.record(argv, *options, timeout=120)
                total, used = run.text.split()
                self.assertEqual((run.status, total), (0, expected))
                least = int(used) if least is None else min(least, int(used))
            return least, profile

        walk, _ = cpu("--track", "walk")
        encode, _ = cpu("--track", "encode")
        calls, profile = cpu("--track", "calls", "-e", "calls")
        # Where each library costs as much as there are others, these are in the dozens and hundreds.
        self.assertLess(encode, 6 * walk)
        self.assertLess(calls, 6 * walk)
        for name in ("plugin_run", "alpha_outer", "alpha_inner", "called_back"):
            self.assertEqual(sum(node.calls for node in profile.named(name)), count, name)


if __name__ == "__main__":
    unittest.main()
