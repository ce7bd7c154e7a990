#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The agent's large tables lie where its program headers say nothing of writing (src/base/gc_hidden.h), and take no room in its file."""

import os
import subprocess
import sys
import unittest

AGENT = sys.argv.pop()
MOST_WRITABLE = 256 << 10


def segments():
    """(bytes in the file, bytes in memory, flags) of what is loaded."""
    text = subprocess.run(["readelf", "-lW", AGENT], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            yield int(words[4], 16), int(words[5], 16), "".join(words[6:-1])


class Unseen(unittest.TestCase):
    def test_little_is_writable(self):
        writable = [memory for _, memory, flags in segments() if "W" in flags]
        self.assertEqual(len(writable), 1)
        self.assertLess(writable[0], MOST_WRITABLE)

    def test_tables_are_in_memory_alone(self):
        memory = sum(memory for _, memory, _ in segments())
        in_file = sum(in_file for in_file, _, _ in segments())
        self.assertGreater(memory - in_file, 8 << 20)
        self.assertLess(in_file, os.path.getsize(AGENT))


unittest.main(verbosity=2)
