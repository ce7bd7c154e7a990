# SPDX-License-Identifier: MIT
"""Small files that ask for much: the tool takes memory and time by the size of what it is given."""

import lzma
import os
import resource
import shutil
import struct
import subprocess
import unittest
import zlib

from support import CAIRN, LiveTest, installed, program

MEGABYTE = 1 << 20


def section_headers(data):
    """Where the header of each section of a 64-bit ELF file is, by name."""
    table, = struct.unpack_from("<Q", data, 0x28)
    each, count, names = struct.unpack_from("<HHH", data, 0x3a)
    strings, = struct.unpack_from("<Q", data, table + names * each + 0x18)
    found = {}
    for header in range(table, table + count * each, each):
        start = strings + struct.unpack_from("<I", data, header)[0]
        found[data[start:data.index(b"\0", start)]] = header
    return found


def mark_compressed(path, name):
    """Sets the flag of one section of a 64-bit ELF file."""
    with open(path, "r+b") as file:
        data = file.read()
        header = section_headers(data)[name]
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
                              capture_output=True, check=False, cwd=self.folder, timeout=300)

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

    def compile(self, *options):
        path = self.file("spin")
        source = self.file("spin.c", "int main(void) { for (volatile long i = 0; i < 300000000; i++); }")
        subprocess.run(["gcc", "-O0", *options, "-o", path, source], check=True, cwd=self.folder)
        return path

    def bomb(self, path, name, head=None):
        """Adds a section to a file that is small, and unpacks to all memory."""
        section, size, packer = self.file("section"), 400 * MEGABYTE, zlib.compressobj(1)
        with open(section, "wb") as file:
            file.write(head or struct.pack("<IIQQ", 1, 0, size, 1))  # Elf64_Chdr
            for _ in range(0, size, MEGABYTE):
                file.write(packer.compress(bytes(MEGABYTE)))
            file.write(packer.flush())
        subprocess.run(["objcopy", "--add-section", f"{name}={section}", path], check=True)
        if not head:
            mark_compressed(path, name.encode())

    def assert_modest(self, profile, says="its debug information is damaged"):
        """The function is named by its symbol, and what its lines would take is not taken."""
        text, kilobytes = self.measure("report", profile.path)
        self.assertIn("main", text)
        if says:
            self.assertIn(says, text)
        self.assertLess(kilobytes, 200_000)

    @installed("gcc", "objcopy")
    def test_debug_information_that_unpacks_to_all_memory(self):
        path = self.compile("-g")
        self.bomb(path, ".debug_loclists")
        self.assert_modest(self.record([path], "-F", "500")[1])

    @installed("gcc", "objcopy")
    def test_sections_that_share_their_bytes(self):
        """They do not make a file larger than it is."""
        path, cheap = self.compile("-g"), self.file("cheap")
        with open(cheap, "wb") as file:
            file.write(struct.pack("<IIQQ", 1, 0, 1, 1) + bytes(400_000))
        for number in range(60):
            subprocess.run(["objcopy", "--add-section", f".cheap{number}={cheap if not number else self.file('x', 'x')}",
                            path], check=True)
        self.bomb(path, ".debug_loclists")
        with open(path, "r+b") as file:
            data = file.read()
            headers = section_headers(data)
            for number in range(60):
                file.seek(headers[b".cheap%d" % number] + 8)
                file.write(struct.pack("<Q", 0x800))  # SHF_COMPRESSED
                first = headers[b".cheap0"] + 0x18
                file.seek(headers[b".cheap%d" % number] + 0x18)
                file.write(data[first:first + 16])  # its offset and size
        self.assert_modest(self.record([path], "-F", "500")[1])

    @installed("gcc", "objcopy")
    def test_debug_information_that_was_compressed_the_old_way(self):
        path = self.compile("-g")
        self.bomb(path, ".zdebug_loclists", b"ZLIB" + struct.pack(">Q", 400 * MEGABYTE))
        self.assert_modest(self.record([path], "-F", "500")[1])

    @installed("gcc", "objcopy", "strip")
    def test_embedded_symbols_that_unpack_to_all_memory(self):
        path, section, packer = self.compile("-rdynamic"), self.file("section"), lzma.LZMACompressor(preset=0)
        with open(section, "wb") as file:
            for _ in range(400):
                file.write(packer.compress(bytes(MEGABYTE)))
            file.write(packer.flush())
        subprocess.run(["strip", path], check=True)
        subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={section}", path], check=True)
        self.assert_modest(self.record([path], "-F", "500")[1], says=None)

    @installed("gcc", "objcopy")
    def test_split_debug_information(self):
        """A file that the program refers to is bounded as the program is, and pipes are not waited for."""
        path = self.compile("-g", "-gsplit-dwarf", "-dumpdir", "")
        split, = [name for name in os.listdir(self.folder) if name.endswith(".dwo")]
        split = os.path.join(self.folder, split)
        _, profile = self.record([path], "-F", "500")
        self.assertNotIn("damaged", self.measure("report", profile.path)[0])
        self.bomb(split, ".debug_loclists.dwo")
        self.assert_modest(profile)
        os.remove(split)
        os.mkfifo(split)
        run = self.run_tool("report", profile.path)
        self.assertIn(b"its debug information is damaged", run.stdout + run.stderr)

    @installed("gcc", "objcopy")
    def test_line_programs_of_many_rows(self):
        """Each byte of one can make a row of a hundred bytes."""
        path, section = self.compile("-g"), self.file("section")
        subprocess.run(["objcopy", "--dump-section", f".debug_line={section}", path], check=True)
        with open(section, "rb") as file:
            program = file.read()
        length, = struct.unpack_from("<I", program)
        rows = 60 * MEGABYTE
        end = 4 + length - 3  # the end of the sequence
        with open(section, "wb") as file:
            file.write(struct.pack("<I", length + rows) + program[4:end] + b"\1" * rows + program[end:])
        subprocess.run(["objcopy", "--update-section", f".debug_line={section}", path], check=True)
        subprocess.run(["objcopy", "--compress-debug-sections", path], check=True)
        self.assertLess(os.path.getsize(path), MEGABYTE)
        _, profile = self.record([path], "-F", "500")
        self.assert_modest(profile)

    @installed("gcc", "objcopy", "dwz")
    def test_common_debug_information(self):
        path, other, common = self.compile("-g"), self.file("other"), self.file("common")
        shutil.copy(path, other)
        subprocess.run(["dwz", "-m", common, path, other], check=True, cwd=self.folder)
        _, profile = self.record([path], "-F", "500")
        self.assertIn("spin.c", self.measure("report", "--lines", profile.path)[0])
        self.bomb(common, ".debug_loclists")
        self.assert_modest(profile, says=None)
        os.remove(common)
        os.mkfifo(common)
        run = self.run_tool("report", profile.path)
        self.assertIn(b"main", run.stdout)

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
