#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`cairn record -p -e alloc|io|lock`: what a program that runs already allocates, reads, writes and locks."""

import os
import signal
import subprocess
import unittest
from collections import defaultdict

from support import CAIRN, LiveTest, Profile, program

THREADS = 2


def caught_and_threads(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return int(lines["SigCgt"], 16) & 1 << (signal.SIGTRAP - 1), int(lines["Threads"])


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def by_function(profile):
    """What functions have caused themselves: values by metric."""
    report = profile.report("--view", "flat", "--min", "0", "--no-inlines", "--metric", "all")
    names = [metric["name"] for metric in report["metrics"]]
    found = defaultdict(lambda: dict.fromkeys(names, 0))
    for node in report["nodes"]:
        for name, value in zip(names, node["self"]):
            found[node["function"]][name] += value
    return found


class AttachEvents(LiveTest):
    def start(self, *argv, **environment):
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                   env={**os.environ, **environment})
        for stream in (process.stdin, process.stdout):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def rounds(self, process, count):
        for _ in range(count):
            process.stdin.write("round\n")
            self.assertEqual(process.stdout.readline(), "done\n")

    def end(self, process):
        out, _ = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (0, "0 wrong\n"))

    def begin(self, process, threads, *options):
        """The thread that loads the agent ends when all is in place."""
        path = os.path.join(self.folder, "attached.out")
        record = subprocess.Popen([CAIRN, "record", "-p", str(process.pid), "-o", path, *options],
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(record.stderr.close)
        self.addCleanup(record.kill)
        while record.poll() is None:
            caught, now = caught_and_threads(process.pid)
            if caught and now == threads + 1:
                break
        return record, path

    def leave(self, record, path):
        record.send_signal(signal.SIGINT)
        said = record.communicate(timeout=60)[1]
        self.assertEqual(record.returncode, 0, said)
        return Profile(path)

    def recorded(self, process, threads, count, *options):
        record, path = self.begin(process, threads, *options)
        self.rounds(process, count)
        return self.leave(record, path)

    def check_blocks(self, profile, rounds):
        found = by_function(profile)
        self.assertEqual((found["take"]["allocs"], found["take"]["alloc"]), (110 * rounds, 100100 * rounds))
        self.assertEqual((found["leak"]["allocs"], found["leak"]["live"]), (5 * rounds, 1500 * rounds))
        self.assertEqual((found["grow"]["allocs"], found["grow"]["alloc"]), (10 * rounds, 10230 * rounds))
        self.assertEqual(found["take"]["frees"], 110 * rounds)
        copies = found["strdup"] if "strdup" in found else found["__strdup"]
        self.assertEqual((copies["allocs"], copies["alloc"], copies["live"]), (3 * rounds, 39 * rounds, 0))

    def test_blocks(self):
        for binding in ("lazy", "now", "fixed"):
            for threads in (0, THREADS):
                with self.subTest(binding=binding, threads=threads):
                    process = self.start(program("attached_events-" + binding), str(threads))
                    for again in range(3):
                        profile = self.recorded(process, threads, 4, "-e", "alloc")
                        self.check_blocks(profile, 4 * (threads + 1))
                        self.assertEqual(profile.info["alloc"]["unknown_frees"], 50 if again == 0 else 0)
                        self.assertEqual(profile.info["alloc"]["without_context"], 0)
                        self.rounds(process, 1)
                    self.end(process)

    def test_other_allocators(self):
        """Blocks go back to the allocator that they came from."""
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"):
            library = os.path.join("/usr/lib/x86_64-linux-gnu", name)
            if not os.path.exists(library):
                continue
            for binding in ("lazy", "fixed"):
                with self.subTest(library=name, binding=binding):
                    process = self.start(program("attached_events-" + binding), str(THREADS), LD_PRELOAD=library)
                    for _ in range(2):
                        self.check_blocks(self.recorded(process, THREADS, 4, "-e", "alloc"), 4 * (THREADS + 1))
                        self.rounds(process, 1)
                    self.end(process)

    def test_children_count_for_themselves(self):
        process = self.start(program("attached_events-lazy"), str(THREADS), "forks")
        for _ in range(2):
            self.check_blocks(self.recorded(process, THREADS, 3, "-e", "alloc"), 3 * (THREADS + 2))
            profile = self.recorded(process, THREADS, 3, "-e", "io")
            self.assertEqual(sum(node.total for node in profile.named("print_it")), 700 * 3 * (THREADS + 2))
            self.assertEqual(profile.info["notes"], [])
        self.end(process)

    def test_programs_that_are_started(self):
        """They have the agent that the event takes from their start."""
        process = self.start("/bin/sh", "-c", "echo ready; while read line; do /bin/echo done; done; echo 0 wrong")
        profile = self.recorded(process, 0, 3, "-e", "alloc")
        self.end(process)
        self.assertEqual(profile.info["processes"], 4)
        self.assertEqual(profile.info["notes"], [])

    def test_killed_tools(self):
        """Events go on without effect, until the next recording ends."""
        process = self.start(program("attached_events-now"), str(THREADS))
        for event in ("alloc", "io", "lock"):
            record, path = self.begin(process, THREADS, "-e", event)
            for pid in [*children(record.pid), record.pid]:
                os.kill(pid, signal.SIGKILL)
            record.wait()
            self.rounds(process, 3)
            path = os.path.join(self.folder, "next.out")
            subprocess.run([CAIRN, "record", "-q", "-p", str(process.pid), "-o", path, "--duration", "0.1"],
                           check=True, timeout=60)
        self.check_blocks(self.recorded(process, THREADS, 4, "-e", "alloc"), 4 * (THREADS + 1))
        self.end(process)

    def test_threads_have_their_own_trees(self):
        process = self.start(program("attached_events-lazy"), str(THREADS))
        profile = self.recorded(process, THREADS, 2, "-e", "alloc")
        self.end(process)
        self.assertEqual(profile.info["threads"], THREADS + 1)
        total = {name: sum(node.total for node in profile.named(name)) for name in ("work", "main")}
        self.assertEqual(total["work"], total["main"] * THREADS)

    def test_blocks_that_are_sampled(self):
        process = self.start(program("attached_events-lazy"), str(THREADS))
        for _ in range(2):
            profile = self.recorded(process, THREADS, 200, "-e", "alloc:16k")
            report = profile.report("--view", "flat", "--min", "0", "--no-inlines")
            found = {node["function"]: (node["self"][0], node["error"][0]) for node in report["nodes"]}
            value, error = found["take"]
            # Three standard deviations more than an interval of 95 %.
            self.assertLess(abs(value - 100100 * 200 * (THREADS + 1)), 2.5 * error)
            self.assertLess(error, 0.1 * value)
        self.end(process)

    def test_files(self):
        for binding in ("lazy", "now"):
            for threads in (0, THREADS):
                with self.subTest(binding=binding, threads=threads):
                    process = self.start(program("attached_events-" + binding), str(threads))
                    for _ in range(2):
                        profile = self.recorded(process, threads, 4, "-e", "io")
                        total = {name: sum(node.total for node in profile.named(name)) for name in ("write_it", "print_it")}
                        rounds = 4 * (threads + 1)
                        self.assertEqual(total, {"write_it": 2000 * rounds, "print_it": 700 * rounds})
                        self.rounds(process, 1)
                    self.end(process)

    def test_locks(self):
        for binding in ("lazy", "now"):
            for threads in (0, THREADS):
                with self.subTest(binding=binding, threads=threads):
                    process = self.start(program("attached_events-" + binding), str(threads))
                    for _ in range(2):
                        profile = self.recorded(process, threads, 4, "-e", "lock")
                        self.assertEqual(by_function(profile)["lock_it"]["acquired"], 10 * 4 * (threads + 1))
                        self.rounds(process, 1)
                    self.end(process)


if __name__ == "__main__":
    unittest.main()
