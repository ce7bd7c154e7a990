#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/agent/session/sample_path.ld names functions that lie side by side. One that is renamed would drop out without a word."""

import fnmatch
import re
import subprocess
import sys
import unittest

AGENT = sys.argv.pop()
SCRIPT = sys.argv.pop()
SECTION = ".text.sampled"
PAGE_BYTES = 4096


def named():
    with open(SCRIPT, encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return [name for _, names in re.findall(r"\*(\w+)\.c\.o\(([^)]*)\)", text) for name in re.findall(r"\.text\.(\S+)", names)]


def run(*command):
    return subprocess.run([*command, AGENT], capture_output=True, text=True, check=True).stdout


def bounds():
    found = re.search(re.escape(SECTION) + r"\s+PROGBITS\s+(\w+)\s+\w+\s+(\w+)", run("readelf", "-SW"))
    start = int(found[1], 16)
    return start, start + int(found[2], 16)


class Sampled(unittest.TestCase):
    def test_all_that_is_named_is_there(self):
        start, end = bounds()
        inside = [words[2] for words in map(str.split, run("nm").splitlines())
                  if len(words) == 3 and start <= int(words[0], 16) < end]
        self.assertGreater(len(named()), 50)
        self.assertEqual([name for name in named() if not fnmatch.filter(inside, name)], [])

    def test_it_is_small(self):
        start, end = bounds()
        self.assertLessEqual(end - start, 6 * PAGE_BYTES)


unittest.main(verbosity=2)
