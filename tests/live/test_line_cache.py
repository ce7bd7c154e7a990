# SPDX-License-Identifier: MIT
"""What was read of large debug information is kept: the next report does not read it again."""

import os
import stat
import struct
import subprocess
import unittest

from support import CAIRN, LiveTest, installed

SOURCE = """
static inline long step(long i) { return i ^ i >> 3; }
int main(void) { long sum = 0; for (volatile long i = 0; i < 300000000; i++) sum += step(i); return sum == 1; }
"""


def section(path, name):
    """Offset and size of a section of a 64-bit ELF file."""
    with open(path, "rb") as file:
        data = file.read()
    table, = struct.unpack_from("<Q", data, 0x28)
    each, count, names = struct.unpack_from("<HHH", data, 0x3a)
    strings, = struct.unpack_from("<Q", data, table + names * each + 0x18)
    for header in range(table, table + count * each, each):
        start = strings + struct.unpack_from("<I", data, header)[0]
        if data[start:data.index(b"\0", start)] == name:
            return struct.unpack_from("<QQ", data, header + 0x18)
    raise AssertionError(name)


@installed("gcc", "objcopy")
class LineCache(LiveTest):

    def setUp(self):
        super().setUp()
        self.program, large = self.file("spin"), self.file("large")
        subprocess.run(["gcc", "-g", "-O2", "-Wl,--build-id", "-o", self.program, self.file("spin.c", SOURCE)],
                       check=True)
        with open(large, "wb") as file:
            file.truncate(9 << 20)
        subprocess.run(["objcopy", "--add-section", f".large={large}", self.program], check=True)
        _, self.profile = self.record([self.program], "-F", "500")
        self.cache = os.path.join(self.folder, "cache")

    def report(self, switch="on"):
        environment = os.environ | {"XDG_CACHE_HOME": self.cache, "CAIRN_CACHE": switch}
        run = subprocess.run([CAIRN, "report", "--lines", "--json", self.profile.path], env=environment,
                             capture_output=True, check=True)
        return run.stdout

    def damage(self):
        """Fills the debug information with nonsense; size and time stay."""
        status = os.stat(self.program)
        start, size = section(self.program, b".debug_info")
        with open(self.program, "r+b") as file:
            file.seek(start)
            file.write(b"\xff" * size)
        os.utime(self.program, ns=(status.st_atime_ns, status.st_mtime_ns))

    def test_the_second_report_reads_no_debug_information(self):
        first = self.report()
        self.assertIn(b"spin.c", first)
        kept = os.path.join(self.cache, "cairn")
        self.assertEqual(stat.S_IMODE(os.stat(kept).st_mode), 0o700)
        self.assertEqual(len(os.listdir(kept)), 1)
        self.damage()
        self.assertEqual(self.report(), first)
        self.assertNotEqual(self.report(switch="off"), first)

    def test_the_cache_is_not_believed_blindly(self):
        first = self.report()
        kept = os.path.join(self.cache, "cairn")
        path = os.path.join(kept, *os.listdir(kept))
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) - 3)
            file.write(b"X")
        self.assertEqual(self.report(), first)
        os.truncate(path, 100)
        self.assertEqual(self.report(), first)
        os.utime(self.program)
        self.damage()  # with the new time, so that what is kept is of another file
        self.assertNotEqual(self.report(), first)

    def test_what_is_damaged_is_not_kept(self):
        self.damage()
        self.report()
        self.assertFalse(os.path.exists(self.cache))

    def test_switched_off(self):
        self.report(switch="off")
        self.assertFalse(os.path.exists(self.cache))


if __name__ == "__main__":
    unittest.main()
