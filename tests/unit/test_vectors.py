#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hooks and the marker's stub run between the program's instructions, where any register may hold a value. What they
call without saving vector registers must be our own code, which touches none: libc and the loader do as they like."""

import collections
import re
import subprocess
import sys
import unittest

AGENT = sys.argv.pop()

# What *.S in src/track calls without saving them, and the functions of trees that calls_enter_known() finds in a table.
ENTRIES = ("marker_returned", "calls_enter_known", "encode_before_known", "encode_table_known", "encode_tail_known",
           "encode_table_after", "full_call", "hot_call", "bounded_no_call", "hot_child", "bounded_no_child", "full_charge")

GOES_ON = "syscall"

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
TARGET = re.compile(r"\b(?:call|j[a-z]+)\s+(?:[0-9a-f]+ <([^>+]+)[^>]*>|\*0x[0-9a-f]+\(%rip\)\s+# [0-9a-f]+ <(.+)>)")
VECTORS = re.compile(r"%[xyz]?mm[0-9]|%st\b")


def disassemble():
    """{function: functions that it calls or jumps to}, and those that touch a vector register."""
    calls, touching, function = collections.defaultdict(set), set(), None
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", AGENT], capture_output=True, text=True, check=True)
    for line in text.stdout.splitlines():
        if found := FUNCTION.match(line):
            function = found[1]
            calls[function]  # known, whatever it calls
        elif found := TARGET.search(line):
            calls[function].add(found[1] or found[2])
        elif VECTORS.search(line):
            touching.add(function)
    return calls, touching


def paths(calls, entry):
    """{function: how it is reached from the entry}"""
    found, waiting = {entry: entry}, [entry]
    while waiting:
        function = waiting.pop()
        for target in calls.get(function, ()):
            if target not in found:
                found[target] = f"{found[function]} > {target}"
                waiting.append(target)
    return found


class Vectors(unittest.TestCase):
    def test_nothing_else_is_called(self):
        calls, touching = disassemble()
        # It would be seen: ours of that name, which goes on to libc's.
        self.assertIn(GOES_ON, paths(calls, "loadmap_find"))
        for entry in ENTRIES:
            with self.subTest(entry=entry):
                self.assertIn(entry, calls)
                reached = paths(calls, entry)
                self.assertEqual([how for name, how in reached.items() 
                                  if name not in calls or name in touching or name == GOES_ON], [])


if __name__ == "__main__":
    unittest.main()
