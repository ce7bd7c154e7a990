# SPDX-License-Identifier: MIT
"""Small files that ask for much: the tool takes memory and time by the size of what it is given."""

import os
import resource
import struct
import subprocess
import unittest
import zlib

from support import CAIRN, LiveTest, installed, program

MEGABYTE = 1 << 20


def mark_compressed(path, name):
    """Sets the flag of one section of a 64-bit ELF file."""
    with open(path, "r+b") as file:
        data = file.read()
        table, = struct.unpack_from("<Q", data, 0x28)
        each, count, names = struct.unpack_from("<HHH", data, 0x3a)
        strings, = struct.unpack_from("<Q", data, table + names * each + 0x18)
        for header in range(table, table + count * each, each):
            start = strings + struct.unpack_from("<I", data, header)[0]
            if data[start:data.index(b"\0", start)] == name:
                flags, = struct.unpack_from("<Q", data, header + 8)
                file.seek(header + 8)
                file.write(struct.pack("<Q", flags | 0x800))  # SHF_COMPRESSED


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

    def measure(self, *arguments):
        """What the tool writes, and how much memory it has taken at most."""
        with subprocess.Popen([CAIRN, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            text = process.stdout.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return text, usage.ru_maxrss

    def make(self, kind, count, *more):
        path = self.file(f"{kind}-{count}")
        subprocess.run([program("odd_profiles"), kind, str(count), path, *more], check=True)
        return path

    def test_profiles_that_unpack_to_all_memory(self):
        for kind, count, most in (("nodes", 10_000_000, 20_000), ("trees", 1_000_000, 2 * MEGABYTE),
                                  ("processes", 1_500_000, 2 * MEGABYTE),
                                  ("notes", 20_000_000, 20_000), ("words", 20_000_000, 20_000),
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

    def test_memory_for_many_contexts(self):
        """At most 110 bytes for each."""
        path = self.make("large", 2_200_000)
        for arguments in (("report",), ("report", "--view", "callers")):
            with self.subTest(arguments=arguments):
                self.assertLess(self.measure(*arguments, path)[1] * 1000, 2_200_000 * 110)

    def test_honest_recursion_is_read(self):
        """However alike its nodes are, what a recording writes is within the limits."""
        path = self.make("recursion", 2_000_000)
        run = self.run_tool("report", path, megabytes=2000)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, b"")

    def test_modules_that_nobody_tells_of(self):
        path = self.make("module", 65_000)
        self.assertLess(os.path.getsize(path), 1000)
        run = self.run_tool("compare", path, path)
        self.assertEqual(run.returncode, 0, run.stderr)

    @installed("gcc", "objcopy")
    def test_debug_information_that_unpacks_to_all_memory(self):
        """The function is named by its symbol, and what its lines would take is not taken."""
        source = self.file("spin.c", "int main(void) { for (volatile long i = 0; i < 300000000; i++); }")
        path, section = self.file("spin"), self.file("section")
        subprocess.run(["gcc", "-g", "-O0", "-o", path, source], check=True)
        size, packer = 700 * MEGABYTE, zlib.compressobj(1)
        with open(section, "wb") as file:
            file.write(struct.pack("<IIQQ", 1, 0, size, 1))  # Elf64_Chdr
            for _ in range(0, size, MEGABYTE):
                file.write(packer.compress(bytes(MEGABYTE)))
            file.write(packer.flush())
        subprocess.run(["objcopy", "--add-section", f".debug_loclists={section}", path], check=True)
        mark_compressed(path, b".debug_loclists")
        _, profile = self.record([path], "-F", "500")
        text, kilobytes = self.measure("report", profile.path)
        self.assertIn("main", text)
        self.assertIn("its debug information is damaged", text)
        self.assertLess(kilobytes, 200_000)

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
