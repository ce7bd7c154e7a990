# SPDX-License-Identifier: MIT
"""Small files that ask for much: the tool takes memory and time by the size of what it is given."""

import os
import resource
import subprocess
import unittest

from support import CAIRN, LiveTest, program

MEGABYTE = 1 << 20


class Bombs(LiveTest):
    """The limits stand for those of the machine: of memory, and against waiting for ever."""

    def run_tool(self, *arguments, megabytes=600, seconds=60):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes * MEGABYTE,) * 2)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

        return subprocess.run([CAIRN, *arguments], preexec_fn=limit, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False, cwd=self.folder)

    def refuse(self, *arguments, says, **limits):
        run = self.run_tool(*arguments, **limits)
        words = run.stderr.decode()
        self.assertEqual(run.returncode, 2, words)
        self.assertEqual(len(words.splitlines()), 1, words)
        self.assertIn(says, words)
        self.assertEqual(run.stdout, b"")

    def make(self, kind, count, *more):
        path = self.file(f"{kind}-{count}")
        subprocess.run([program("odd_profiles"), kind, str(count), path, *more], check=True)
        return path

    def test_profiles_that_unpack_to_all_memory(self):
        for kind, count, most in (("nodes", 40_000_000, 20_000), ("trees", 1_000_000, 2 * MEGABYTE),
                                  ("processes", 1_500_000, 2 * MEGABYTE),
                                  ("notes", 60_000_000, 20_000), ("words", 60_000_000, 20_000),
                                  ("maps", 20_000, 100_000)):
            path = self.make(kind, count)
            self.assertLess(os.path.getsize(path), most)
            for command in ("report", "info"):
                with self.subTest(kind=kind, command=command):
                    self.refuse(command, path, says="made to take all memory", megabytes=1000)

    def test_what_a_small_file_may_unpack_to(self):
        """Within the limits, everything is linear."""
        path = self.make("nodes", 1_500_000)
        self.assertLess(os.path.getsize(path), 20_000)
        for arguments in (("report",), ("report", "--view", "callers"), ("report", "--by", "function"),
                          ("report", "--json"), ("info",)):
            with self.subTest(arguments=arguments):
                run = self.run_tool(*arguments, path)
                self.assertEqual(run.returncode, 0, run.stderr)

    def test_honest_recursion_is_read(self):
        """However alike its nodes are, what a recording writes is within the limits."""
        path = self.make("recursion", 3_000_000)
        run = self.run_tool("report", path, megabytes=2000)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, b"")

    def test_modules_that_nobody_tells_of(self):
        path = self.make("module", 65_000)
        self.assertLess(os.path.getsize(path), 1000)
        run = self.run_tool("compare", path, path)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_files_that_are_no_profiles(self):
        """The first bytes decide: the rest is not read."""
        path = self.file("large")
        with open(path, "wb") as file:
            file.write(b"no profile")
            file.truncate(2 << 30)
        fifo = self.file("fifo")
        os.mkfifo(fifo)
        for name in (path, fifo, "/dev/zero", "/dev/null", "/dev/stdin"):
            with self.subTest(name=name):
                self.refuse("report", name, says="is not a cairn profile", megabytes=300)
        self.refuse("report", self.folder, says="directory")


if __name__ == "__main__":
    unittest.main()
