# SPDX-License-Identifier: MIT
"""What was sampled when: `cairn record --timeline`, and the parts of a recording that --from and --to choose."""

import signal
import subprocess
import unittest

from support import CAIRN, LiveTest, Run, program

HUNDRED = [f"{i}%" for i in (0, 13, 37, 50, 88)]


def costs(profile, *options):
    """The cost in each metric that was recorded, and by path."""
    report = profile.report("--min", "0", *options)
    metrics = [at for at, metric in enumerate(report["metrics"]) if metric["name"] != "waiting"]
    return [sum(node["self"][at] for node in report["nodes"]) for at in metrics]


class Parts(LiveTest):
    def life(self, argv, *options, status=0):
        run, profile = self.record(argv, "--timeline", *options)
        self.assertEqual(run.status, status, run.words)
        return profile

    def assert_parts_add_up(self, profile):
        whole = costs(profile)
        self.assertGreater(whole[0], 0)
        self.assertEqual(costs(profile, "--from", "0"), whole)
        parts = [costs(profile, "--from", begin, *(["--to", end] if end else []))
                 for begin, end in zip(HUNDRED, HUNDRED[1:] + [None])]
        self.assertEqual([sum(part) for part in zip(*parts)], whole)
        timeline = profile.info["timeline"]
        self.assertEqual(timeline["lost"], 0)
        self.assertGreaterEqual(timeline["charges"], profile.samples)
        return parts

    def test_cpu(self):
        profile = self.life([program("shares")])
        self.assertGreater(len([part for part in self.assert_parts_add_up(profile) if part[0]]), 2)
        # Paths are those of the whole.
        for node in profile.report("--min", "0", "--from", "50%")["nodes"]:
            self.assertIn(node["function"], {other.function for other in profile.nodes})
        self.check_lanes(profile)
        folded = subprocess.run([CAIRN, "export", "-f", "folded", profile.path, "--to", "50%"], capture_output=True, check=True)
        self.assertEqual(sum(int(line.rsplit(b" ", 1)[1]) for line in folded.stdout.splitlines()),
                         costs(profile, "--to", "50%")[0])

    def check_lanes(self, profile):
        """Threads by time: the same cost, but for the start-up of the process, which has no thread."""
        lanes = profile.report("--view", "timeline")
        [lane] = lanes["lanes"]
        self.assertEqual(lane["total"], sum(lane["costs"]))
        self.assertLessEqual(lane["total"], profile.info["cost_ns"])
        self.assertGreater(lane["total"], 0.8 * profile.info["cost_ns"])
        self.assertEqual([name is None for name in lane["functions"]], [cost == 0 for cost in lane["costs"]])
        self.assertEqual(lanes["functions"][0]["function"], "burn")
        text = Run([CAIRN, "report", "--view", "timeline", "--depth", "1", "--width", "80", profile.path]).text
        self.assertIn("share_lower", text)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])

    def test_waiting_beside_cpu(self):
        self.assert_parts_add_up(self.life([program("waits")], "-e", "cpu", "-e", "wall"))

    def test_wall_time_of_encoded_contexts(self):
        self.assert_parts_add_up(self.life([program("sleeps")], "-e", "wall", "--track", "encode"))

    def test_threads_that_share_a_tree(self):
        self.assert_parts_add_up(self.life([program("threads"), "short"]))

    def test_children(self):
        profile = self.life([program("processes"), "fork"])
        self.assertGreater(profile.info["processes"], 1)
        self.assert_parts_add_up(profile)

    def test_killed(self):
        self.assert_parts_add_up(self.life([program("ends"), "kill"], status=128 + signal.SIGKILL))

    def test_at_ten_thousand_a_second(self):
        self.assert_parts_add_up(self.life([program("shares")], "-F", "10000"))


class Words(LiveTest):
    def refused(self, *argv, status=2):
        run = Run([CAIRN, *argv], cwd=self.folder)
        self.assertEqual(run.status, status, run.words)
        self.assertEqual(len(run.words.strip().splitlines()), 1, run.words)
        return run.words

    def test_one_line_where_there_is_none(self):
        _, profile = self.record(["true"])
        self.assertIsNone(profile.info["timeline"])
        for command in (["report"], ["export", "-f", "folded"], ["report", "--view", "timeline"]):
            self.assertIn("has no timeline: record with", self.refused(*command, profile.path, "--from", "1s"))
        run = Run([CAIRN, "report", "--view", "timeline", "--focus", "main", profile.path])
        self.assertEqual(run.status, 2)
        self.assertIn("shows whole threads", run.words)

    def test_what_is_no_time(self):
        _, profile = self.record(["true"], "--timeline")
        for text in ("", "x", "-1", "1d", "1 s", "nan"):
            run = Run([CAIRN, "report", profile.path, "--from", text])
            self.assertEqual(run.status, 2, text)
            self.assertIn("--from takes a time", run.words)
        self.assertIn("--from must lie before --to", self.refused("report", profile.path, "--from", "2s", "--to", "1s"))

    def test_what_has_no_timeline(self):
        for options in (["-e", "alloc"], ["-e", "calls"], ["-e", "cpu", "-e", "alloc"], ["--track", "calls"],
                        ["--tree", "hot"], ["--tree", "bounded"], ["--tree", "functions"]):
            run = Run([CAIRN, "record", "--timeline", *options, "true"], cwd=self.folder)
            self.assertEqual(run.status, 2, options)
            self.assertIn("--timeline", run.words)

    def test_merging_leaves_it_out(self):
        _, profile = self.record([program("shares")], "--timeline")
        merged = self.file("merged.cairn")
        subprocess.run([CAIRN, "merge", "-q", "-o", merged, profile.path, profile.path], check=True)
        notes = subprocess.run([CAIRN, "info", merged], capture_output=True, text=True, check=True).stdout
        self.assertIn("timelines are left out of merged profiles", " ".join(notes.split()))
        self.assertIn("has no timeline", self.refused("report", merged, "--from", "1s"))


if __name__ == "__main__":
    unittest.main()
