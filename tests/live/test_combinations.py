#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of docs/events.md: each combination of event, tracker and tree does what its cell says."""

import os
import re
import unittest

from support import CAIRN, LiveTest, Profile, Run, program

DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "events.md")
# As the table has them, and as they are recorded.
EVENTS = {"cpu": "cpu", "wall": "wall", "alloc": "alloc", "alloc:BYTES": "alloc:4k", "io": "io", "lock": "lock", "offcpu": "offcpu",
          "perf's events": "page-faults", "calls": "calls", "calls:N": "calls:7"}
# Stack samples at calls need hooks that are compiled in.
PROGRAMS = {"calls:N": "every_event-calls"}
TRACKERS = ["walk", "encode", "calls"]


def table():
    """{(event, tracker, tree): cell} of "One event"."""
    with open(DOCUMENT, encoding="utf-8") as file:
        part = file.read().split("\n## One event\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    trees = [title.strip("`") for title in rows[0][2:]]
    cells, events = {}, []
    for row in rows[2:]:
        events = [name.strip().strip("`") for name in row[0].split(",")] if row[0] else events
        for event in events:
            for tracker in row[1].split(","):
                for tree, cell in zip(trees, row[2:]):
                    cells[event, tracker.strip(), tree] = cell
    return cells


def verdict(cells, event, tracker, tree):
    """The cell; that of another event if it leads there."""
    cell = cells[event, tracker, tree]
    other = re.match(r"as `(.*?)`", cell)
    return verdict(cells, other.group(1), tracker, tree) if other else cell


class Combinations(LiveTest):
    def test_the_table_has_all(self):
        cells = table()
        self.assertEqual(set(cells), {(event, tracker, tree) for event in EVENTS for tracker in TRACKERS
                                      for tree in ("full", "hot", "bounded", "functions")})
        for place in cells:
            self.assertRegex(verdict(cells, *place), r"^(yes|no)\b", place)

    def life(self, event, tracker, tree):
        path = self.file("profile")
        run = Run([CAIRN, "record", "-q", "-o", path, "-e", EVENTS[event], "--track", tracker, "--tree", tree, "--",
                   program(PROGRAMS.get(event, "every_event"))], cwd=self.folder)
        return run, path

    def check_recorded(self, cell, event, tracker, tree):
        run, path = self.life(event, tracker, tree)
        self.assertEqual((run.status, run.out, run.words), (0, b"", ""))
        profile = Profile(path)
        self.assertEqual((profile.info["tracker"], profile.info["tree"].split(":")[0]), (tracker, tree))
        report = profile.report("--min", "0", "--no-debuginfod")
        self.assertGreater(sum(node["self"][0] for node in report["nodes"]), 0)
        if tree != "full":  # One metric, and the edges of bounded trees.
            self.assertEqual(len([metric for metric in report["metrics"] if not metric["name"].endswith(" edges")]), 1)
        if "with calls" in cell:
            self.assertGreater(sum(node["calls"] or 0 for node in report["nodes"]), 1000)

    def check_refused(self, event, tracker, tree):
        run, path = self.life(event, tracker, tree)
        self.assertEqual((run.status, run.out, run.words.count("\n")), (2, b"", 1), run.words)
        self.assertFalse(os.path.exists(path))

    def test_each_cell_holds(self):
        cells = table()
        for place in sorted(cells):
            with self.subTest(place=place):
                cell = verdict(cells, *place)
                if cell.startswith("yes"):
                    self.check_recorded(cell, *place)
                    os.unlink(self.file("profile"))
                else:
                    self.check_refused(*place)


if __name__ == "__main__":
    unittest.main(verbosity=2)
