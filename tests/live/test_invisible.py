# SPDX-License-Identifier: MIT
"""What a program can see of itself is what it sees without cairn."""

import os
import statistics
import unittest

from support import LiveTest, installed, program


class Invisible(LiveTest):
    def test_the_program_finds_its_state_as_it_left_it(self):
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

    def test_memory_that_is_unmapped_stays_so(self):
        """The agent maps nothing where the program has just unmapped something."""
        argv = [program("holes")]
        native = self.native(argv)
        self.assertEqual((native.status, native.text), (0, "0 holes were filled\n"))
        for options in (), ("--track", "encode"), ("--track", "calls"), ("-e", "alloc"):
            with self.subTest(options=options):
                self.assert_same(self.record(argv, *options)[0], native)

    @installed("faketime")
    def test_a_library_that_fakes_the_time(self):
        """It is asked nothing before it is ready, and tells the program its time, not us."""
        argv = ["faketime", "2008-12-24 08:15:42", "sh", "-c", "date +%Y-%m-%d; perl -e 'print((localtime)[5])'; exit 4"]
        native = self.native(argv)
        self.assertEqual((native.status, native.text), (4, "2008-12-24\n108"))
        for options in ("-F", "10000"), ("-e", "wall"), ("--track", "encode"), ("--track", "calls"), ("-e", "alloc"):
            with self.subTest(options=options):
                run, profile = self.record(argv, *options)
                self.assert_same(run, native)
                self.assertLess(profile.info["duration_ns"], 1e11)

    def test_an_allocator_that_is_not_ready(self):
        """Nothing is allocated before main() but what is without us."""
        argv = [program("own_allocator")]
        native = self.native(argv)
        self.assertEqual((native.status, native.text), (0, "done\n"))
        for options in ("-F", "1000"), ("-e", "wall"), ("--track", "encode"), ("--track", "calls"), ("-e", "alloc"), ("-e", "alloc", "-e", "cpu", "--track", "encode"):
            with self.subTest(options=options):
                self.assert_same(self.record(argv, *options)[0], native)

    TREES = """(define (tree d) (if (= d 0) '() (cons (tree (- d 1)) (tree (- d 1)))))
               (define (grow n) (if (> n 0) (begin (tree 14) (grow (- n 1)))))
               (grow 40)
               (display (assq-ref (gc-stats) 'gc-times))"""

    @installed("guile")
    def test_a_collector_that_knows_no_types(self):
        """It looks through all memory that is called writable, and collects the less often the more there is."""
        argv = ["guile", "--no-auto-compile", "-c", self.TREES]
        # One run in ten has a few more, natively too: by where its memory lies.
        native = statistics.median(int(self.native(argv).text) for _ in range(5))
        self.assertGreater(native, 20)
        for options in ("-F", "1000"), ("--track", "encode"), ("--track", "calls", "--calls-by", "program"), ("-e", "alloc"), ("--tree", "hot"):
            with self.subTest(options=options):
                runs = [self.record(argv, *options)[0] for _ in range(5)]
                self.assertEqual([run.status for run in runs], [0] * 5)
                self.assertAlmostEqual(statistics.median(int(run.text) for run in runs), native, delta=native / 10)

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
