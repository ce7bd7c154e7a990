#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Profiles of every released version are read, and say today what they said then: tests/profiles/VERSION."""

import glob
import json
import os
import sys
import tempfile
import unittest

from support import CAIRN, Run

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "profiles")

# Of `info --json`: what was recorded. Names of functions depend on the files that this machine has.
FACTS = ("format", "command", "tracker", "tree", "processes", "threads", "start_realtime_ns", "duration_ns", "complete",
         "samples", "samples_lost", "samples_unplaced", "cost_ns", "nodes", "notes")


def cairn(*words):
    run = Run([CAIRN, *words])
    if run.status:
        raise AssertionError(f"cairn {' '.join(words)}: {run.text}{run.words}")
    return run.text


def facts(path):
    """What a profile says, whichever machine reads it."""
    info = json.loads(cairn("info", "--json", path))
    report = json.loads(cairn("report", "--json", "--metric", "all", "--min", "0", "--no-debuginfod", path))
    root = next(node for node in report["nodes"] if node["parent"] is None)
    names = [metric["name"] for metric in report["metrics"]]
    told = {name: info[name] for name in FACTS}
    told["events"] = [[event["name"], event["unit"], event["period"]] for event in info["events"]]
    told["modules"] = sorted(module["path"] + " " + (module["build_id"] or "") for module in info["modules"])
    told["trees"] = sorted([tree["threads"], tree["nodes"], tree["samples"], tree["cost_ns"]]
                           for tree in info["tree_list"])
    told["process_list"] = [[process["pid"], process["command"], process["samples"]]
                            for process in info["process_list"]]
    told["totals"] = dict(zip(names, root["total"]))
    told["calls"] = sum(node["calls"] or 0 for node in report["nodes"])
    if info["timeline"]:
        early = json.loads(cairn("report", "--json", "--to", "50%", "--no-debuginfod", path))
        told["early"] = next(node for node in early["nodes"] if node["parent"] is None)["total"]
    return told


def profiles(version):
    return {os.path.basename(path): path for path in sorted(glob.glob(os.path.join(version, "*.out")))}


class Released(unittest.TestCase):
    def versions(self):
        found = sorted(glob.glob(os.path.join(FOLDER, "*", "")))
        self.assertTrue(found)
        for version in found:
            with open(os.path.join(version, "expected.json"), encoding="utf-8") as file:
                yield version, json.load(file)

    def test_the_first_version_has_all_kinds(self):
        kinds = profiles(os.path.join(FOLDER, "0.1.0"))
        self.assertLessEqual({"walk.out", "calls.out", "encode.out", "alloc.out", "io.out", "lock.out", "hot.out",
                              "bounded.out", "functions.out", "timeline.out", "merged.out"}, set(kinds))

    def test_profiles_say_what_they_said(self):
        for version, expected in self.versions():
            self.assertEqual(set(profiles(version)), set(expected))
            for name, path in profiles(version).items():
                with self.subTest(profile=path):
                    self.maxDiff = None
                    self.assertEqual(facts(path), expected[name])

    def test_each_can_be_exported_and_merged(self):
        with tempfile.TemporaryDirectory() as folder:
            for version, expected in self.versions():
                for name, path in profiles(version).items():
                    with self.subTest(profile=path):
                        self.assertGreater(len(cairn("export", "-f", "csv", "--no-debuginfod", path).splitlines()), 1)
                        merged = os.path.join(folder, "merged.out")
                        cairn("merge", "-q", "-o", merged, path, path)
                        info = json.loads(cairn("info", "--json", merged))
                        self.assertEqual(info["samples"], 2 * expected[name]["samples"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--expect"]:
        with open(os.path.join(sys.argv[2], "expected.json"), "w", encoding="utf-8") as output:
            told = {name: facts(path) for name, path in profiles(sys.argv[2]).items()}
            output.write(json.dumps(told, indent=1, sort_keys=True) + "\n")
    else:
        unittest.main()
