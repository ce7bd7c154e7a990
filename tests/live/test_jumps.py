# SPDX-License-Identifier: MIT
"""longjmp and siglongjmp across marked frames, out of signal handlers too."""

import unittest

from support import LiveTest, program, shares

GRAPH = {
    "main": "run_plain run_handler run_alternate run_timer",
    "run_plain": "jump_plain jump_signal_mask jump_builtin jump_none",
    "jump_plain": "jump_descend",
    "jump_signal_mask": "jump_descend",
    "jump_builtin": "jump_descend",
    "jump_none": "jump_descend",
    "jump_descend": "jump_descend jump_leaf",
    "run_handler": "escape_many",
    "run_alternate": "escape_many",
    "escape_many": "escape_once check_mask_is_empty",
    "escape_once": "interrupted",
    "interrupted": "interrupted jump_leaf escape",
    "run_timer": "escape_by_timer check_mask_is_empty",
    "escape_by_timer": "compute_forever",
    "compute_forever": "compute_forever jump_leaf",
    "jump_leaf": "burn",
    "escape": "jump_leaf",
}
# A timer's handler stands on whatever it interrupts.
TIMER = {**GRAPH, "*": "escape"}


class Jumps(LiveTest):
    def life(self, mode, graph=GRAPH, **how):
        return self.survives([program("jumps"), mode], graph, **how)

    def test_out_of_deep_frames(self):
        def judge(profile):
            self.assert_share(profile, 0.25, "run_plain", "jump_plain", slack=0.03)
            self.assert_share(profile, 0.25, "run_plain", "jump_builtin", slack=0.03)

        self.life("plain", judge=judge)

    def test_numbers_are_known_where_a_jump_lands(self):
        """Three samples in four are told by number here; if jumps were not followed, one in three."""
        argv = [program("jumps"), "plain"]
        native = self.native(argv)
        run, profile = self.record(argv, "--track", "encode", "--verify", "-F", "4000")
        self.assert_same(run, native)
        encode = profile.info["encode"]
        self.assertGreater(profile.samples, 200)
        self.assertGreater(encode["verified"], 50, encode)
        self.assertEqual(encode["mismatches"], 0)
        self.assertLess(encode["samples_walked"], profile.samples / 2, encode)

    def test_out_of_handlers(self):
        def judge(profile):
            # 400 handlers of one leaf, against 400 descents of 1 to 10 leaves: 1 in 6.5.
            self.assert_share(profile, 1 / 6.5, "interrupted", "escape", slack=0.02)

        self.life("handler", judge=judge)

    def test_out_of_handlers_on_another_stack(self):
        def judge(profile):
            self.assert_share(profile, 1 / 6.5, "interrupted", "escape", slack=0.02)

        self.life("alternate", judge=judge)

    def test_out_of_handlers_at_any_instruction(self):
        def judge(profile):
            with shares():
                self.assertGreater(profile.share("compute_forever", "jump_leaf"), 0.9)

        self.life("timer", TIMER, judge=judge)


if __name__ == "__main__":
    unittest.main()
