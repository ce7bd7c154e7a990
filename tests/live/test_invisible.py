# SPDX-License-Identifier: MIT
"""What a program can see of itself is what it sees without cairn."""

import os
import unittest

from support import LiveTest, program


class Invisible(LiveTest):
    def test_state(self):
        """Environment, tasks, timers, limits, descriptors, alternate stack, errno."""
        self.survives([program("invisible"), "one argument", "", "--two", "-o"])

    def test_with_other_trackers(self):
        argv = [program("invisible"), "an argument"]
        for preload in {}, {"LD_PRELOAD": program("plugin_alpha.so")}:
            native = self.native(argv, env={**os.environ, **preload})
            self.assertIn("auxiliary: 6\n", native.text)
            for options in ("--track", "encode"), ("--track", "calls"), ("-e", "alloc"):
                with self.subTest(options=options, preload=preload):
                    run, _ = self.record(argv, *options, env={**os.environ, **preload})
                    self.assert_same(run, native)

    def test_environment_of_env(self):
        self.survives(["/usr/bin/env"], samples=0)

    def test_a_small_environment(self):
        self.survives([program("invisible")], env={"ONLY": "this"})

    def test_a_preload_of_the_users_own(self):
        """Another library in LD_PRELOAD stays there, and works."""
        environment = {**os.environ, "LD_PRELOAD": program("plugin_alpha.so")}
        self.survives([program("invisible")], env=environment)

    def test_environment_through_a_shell(self):
        script = "env; env -i sh -c 'env; echo \"$LD_PRELOAD\"'; unset LD_PRELOAD; sh -c env"
        self.survives(["/bin/sh", "-c", script], samples=0)

    def test_standard_input(self):
        self.survives(["/usr/bin/sort", "-r"], samples=0, stdin=b"b\na\nc\n")

    def test_closed_standard_streams(self):
        for script in ("exec <&- >&-; '%s' numbers >numbers.out; cat numbers.out >&2",
                       "exec 0<&-; '%s' numbers"):
            with self.subTest(script=script):
                self.survives(["/bin/sh", "-c", script % program("limits")], samples=0)


if __name__ == "__main__":
    unittest.main()
