# SPDX-License-Identifier: MIT
"""`cairn record` itself: what it says, when it samples, and that the profile is there at any time."""

import json
import os
import signal
import subprocess
import time
import unittest

from support import CAIRN, LiveTest, Profile, Run, program, shares


class Words(LiveTest):
    def record_loudly(self, *options):
        return Run([CAIRN, "record", *options, program("shares")], cwd=self.folder)

    def test_the_summary_says_what_was_got(self):
        """Samples, losses, complete contexts, cost, and the next command; nothing on stdout."""
        run = self.record_loudly()
        self.assertEqual(run.status, 0)
        self.assertNotIn(b"cairn", run.out)
        for word in ("samples", "lost", "complete", "cost", "cairn report", "cairn.out"):
            self.assertIn(word, run.words)
        self.assertTrue(all(line.startswith("cairn: ") for line in run.words.splitlines()))
        self.assertTrue(os.path.exists(self.file("cairn.out")))

    def test_quiet_says_nothing(self):
        self.assertEqual(self.record_loudly("-q").words, "")

    def test_summary_as_json(self):
        summary = json.loads(self.record_loudly("--json").words)
        info = Profile(self.file("cairn.out")).info
        for key in ("samples", "samples_lost", "processes", "threads"):
            self.assertEqual(summary[key], info[key], key)

    def test_info_agrees_with_the_tree(self):
        def life():
            run = self.record_loudly("-F", "4000")
            self.assertEqual(run.status, 0)
            return Profile(self.file("cairn.out"))

        profile = self.steadily(life, shares()(lambda profile: self.assertGreater(profile.info["events"][0]["rate_achieved"], 3000)))
        event = profile.info["events"][0]
        self.assertEqual((event["name"], event["unit"], event["period"]), ("cpu", "ns", 250000))
        self.assertEqual(event["rate_requested"], 4000)
        self.assertEqual(profile.info["command"], [program("shares")])
        self.assertEqual(profile.info["node_bytes"], 24)
        walks = profile.info["walks"]
        self.assertEqual(walks["complete"] + walks["marker"] + walks["truncated"], profile.samples)
        self.assertGreater(profile.info["frames_per_sample"]["stack"],
                           profile.info["frames_per_sample"]["walked"])
        self.assertGreater(profile.info["handler_ns"]["p99"], 0)
        self.assertEqual(profile.info["file_bytes"], os.path.getsize(profile.path))


class When(LiveTest):
    # A program that computes for one second of CPU time.
    second = [program("signals"), "sigprof"]

    def test_duration_ends_the_recording(self):
        def judge(recorded):
            # How much it computes within that time is the machine's affair: a part of all.
            self.assertGreater(recorded[1].samples, 0)
            self.assertLess(recorded[1].total, 0.9e9)

        self.steadily(lambda: self.record(self.second, "--duration", "0.3"), judge)

    def test_delay_leaves_out_the_beginning(self):
        def judge(recorded):
            run, profile = recorded
            self.assertGreater(profile.samples, 0)
            # However little of the 0.6 s it was given among many others, that is missing.
            used = int(run.text.split()[1])
            with shares():
                self.assertLess(profile.total, used - 5e6)

        self.steadily(lambda: self.record(self.second, "--delay", "0.6"), judge)

    def test_a_period_is_kept(self):
        for options in (("-c", "2ms"), ("-e", "cpu:2ms"), ("-F", "500")):
            with self.subTest(options=options):
                _, profile = self.record([program("shares")], *options)
                self.assertEqual(profile.info["events"][0]["period"], 2000000)

                def judge(recorded):
                    samples = recorded[1].samples
                    periods = recorded[1].total / recorded[1].info["events"][0]["period"]
                    with shares():
                        self.assertAlmostEqual(samples, periods, delta=0.1 * samples + 5)

                self.steadily(lambda: self.record([program("shares")], *options), judge)

    def test_memory_limit(self):
        """Beyond it, samples count to the deepest known ancestor; the loss is told, the sum is right."""
        argv = [program("recursion"), "200000"]
        native = self.native(argv)
        for marker in ("--marker=on", "--marker=off"):
            with self.subTest(marker=marker):
                path = self.file("profile")
                run = Run([CAIRN, "record", "-o", path, "--memory", "1M", "-F", "100", marker,
                           *argv], cwd=self.folder)
                self.assertEqual((run.status, run.out), (native.status, native.out))
                self.assertIn("memory", run.words)
                profile = Profile(path)
                self.assertLessEqual(profile.info["tree_bytes"], 1 << 20)
                with shares():
                    self.assertGreater(profile.total, 0.1e9)


class Interrupted(LiveTest):
    """Signals to cairn, and the death of cairn."""

    SIGNALS = signal.SIGTERM, signal.SIGHUP, signal.SIGINT

    def setUp(self):
        super().setUp()
        # Whoever runs the tests may ignore some, as nohup does: that would be inherited.
        for number in self.SIGNALS:
            self.addCleanup(signal.signal, number, signal.signal(number, signal.SIG_DFL))

    def start(self, *options):
        """A program that computes for 20 s of CPU time, or until a file `stop` is there."""
        path = self.file("profile")
        process = subprocess.Popen([CAIRN, "record", "-q", "-o", path, *options,
                                    program("backtraces"), "watched"], cwd=self.folder,
                                   stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 120)
        self.addCleanup(self.file, "stop", "")
        return process, int(process.stdout.readline()), path

    def wait_for_cpu(self, pid, seconds):
        """Until the program has computed for so long."""
        ticks = seconds * os.sysconf("SC_CLK_TCK")
        for _ in range(3000):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                words = file.read().rpartition(")")[2].split()
            if int(words[11]) + int(words[12]) >= ticks:
                return
            time.sleep(0.02)
        self.fail(f"{pid} does not compute")

    def wait_for_profile(self, path, total):
        """Until so much is in it, which is a second later than it happens."""
        for _ in range(60):
            profile = Profile(path)
            if profile.total > total:
                return profile
            time.sleep(1)
        return self.fail(f"{profile.total} after a minute")

    def test_signals_are_passed_on(self):
        for number in self.SIGNALS:
            with self.subTest(signal=number):
                process, pid, path = self.start()
                self.wait_for_cpu(pid, 0.2)
                process.send_signal(number)
                self.assertEqual(process.wait(120), 128 + number)
                self.assertFalse(os.path.exists(f"/proc/{pid}"))
                self.assertGreater(Profile(path).total, 0.1e9)

    def test_readable_while_it_is_written(self):
        _, _, path = self.start()
        profile = self.wait_for_profile(path, 0.5e9)
        with shares():
            self.assertGreater(profile.share("watched_bottom"), 0.9)

    def test_killed_recorder(self):
        """All of cairn is killed: the profile holds all but the last second, the program goes on."""
        process, pid, path = self.start()
        self.wait_for_profile(path, 0.5e9)
        children = Run(["ps", "-o", "pid=,comm=", "--ppid", str(process.pid)]).text.split()
        for recorder in (int(word) for word in children[::2]):
            if recorder != pid:
                os.kill(recorder, signal.SIGKILL)
        process.kill()
        process.wait()
        time.sleep(0.2)
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        self.assertGreater(Profile(path).total, 0.5e9)
        self.file("stop", "")
        for _ in range(600):
            if not os.path.exists(f"/proc/{pid}"):
                break
            time.sleep(0.1)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    unittest.main()
