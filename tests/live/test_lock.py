#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`-e lock`: waits for locks and threads, by context; who held the lock; and nothing else changes."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, program, shares

METRICS = ["lock", "contended", "acquired", "blame", "sync", "syncs"]


class LockTest(unittest.TestCase):
    steadily = LiveTest.steadily
    TRACKERS = (("--track", "walk"), ("--track", "walk", "--marker=off"), ("--track", "encode"),
                ("--track", "calls"))

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-lock-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "lock.out")

    def record(self, argv, *options, work=None):
        run = Run([CAIRN, "record", "-q", "-e", "lock", "-o", self.path, *options, "--", *argv],
                  cwd=work or self.folder)
        self.assertEqual(run.status, 0, run.words)
        return run, Profile(self.path)

    def below(self, profile, name):
        """Sums of a function, with all that it calls."""
        report = profile.report("--min", "0", "--no-inlines")
        found = dict.fromkeys([metric["name"] for metric in report["metrics"]], 0)
        functions = {node["id"]: node for node in report["nodes"]}
        for node in report["nodes"]:
            at = node
            while at and at["function"] != name:
                at = functions.get(at["parent"])
            if at:
                for metric, value in zip(found, node["self"]):
                    found[metric] += value
        return found

    def pairs(self, profile):
        """Functions of waiters and of holders: how long, how often."""
        report = profile.report("--view", "blame", "--min", "0", "--no-inlines")
        parents = {node["id"]: node for node in report["nodes"]}
        found = []
        for node in report["nodes"]:
            path, at = [], node
            while at:
                path.insert(0, at["function"])
                at = parents.get(at["parent"])
            if node["self"][1]:
                between = path.index("(held by)")
                found.append((node["self"][0], node["self"][1], path[:between], path[between:]))
        return sorted(found, reverse=True)

    def assert_close(self, value, expected):
        """Of two clocks, the program's begins earlier and ends later."""
        self.assertLessEqual(value, expected)
        with shares():
            self.assertGreater(value, 0.95 * expected)


class Contexts(LockTest):
    """A program of which each wait is known, by its own clock."""

    def test_each_lock_is_counted(self):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                run, profile = self.record([program("locks"), "counts"], *options)
                locks, syncs = map(int, run.text.split())
                sums = profile.info["lock"]
                self.assertEqual((sums["acquired"], sums["syncs"]), (locks, syncs))
                self.assertEqual((sums["contended"], sums["wait_ns"], sums["sync_ns"]), (0, 0, 0))
                self.assertEqual(self.below(profile, "take_mutexes")["acquired"], 500)
                self.assertEqual(self.below(profile, "take_rwlocks")["acquired"], 500)
                self.assertEqual(self.below(profile, "take_semaphores")["syncs"], 100)

    def test_waits_are_blamed_on_the_holder(self):
        def judge(recorded):
            run, profile = recorded
            of_long, of_short = map(int, run.text.split())
            for name, holder, expected in (("wait_for_long", "hold_long", of_long),
                                           ("wait_for_short", "hold_short", of_short)):
                waiter = self.below(profile, name)
                self.assert_close(waiter["lock"], expected)
                self.assertLessEqual(waiter["contended"], 20)
                # Each wait is blamed on the one who has caused it, and on nobody else.
                self.assertEqual(self.below(profile, holder)["blame"], waiter["lock"])
            sums = profile.info["lock"]
            self.assertEqual(sums["blame_ns"], sums["wait_ns"])

        for options in self.TRACKERS:
            with self.subTest(options=options):
                self.steadily(lambda: self.record([program("locks"), "blame"], *options), judge)

    def test_waiters_and_holders_are_shown_together(self):
        run, profile = self.record([program("locks"), "blame"])
        waits = {}
        for ns, times, waiter, holder in self.pairs(profile):
            waiter = [name for name in waiter if name.startswith("wait_for_")]
            holder = [name for name in holder if name.startswith("hold_")]
            waits[waiter[0], holder[1]] = ns, times
        self.assertEqual(set(waits), {("wait_for_long", "hold_long"),
                                      ("wait_for_short", "hold_short")})
        sums = profile.info["lock"]
        self.assertEqual(sum(ns for ns, _ in waits.values()), sums["blame_ns"])
        self.assertEqual(sum(count for _, count in waits.values()), sums["contended"])
        text = Run([CAIRN, "report", "--view", "blame", self.path]).text
        self.assertIn("wait_for_long › wait_for_it › (held by)", text.replace("-->", "›"))

    def test_without_waits_there_is_nobody_to_blame(self):
        _, profile = self.record([program("locks"), "counts"])
        run = Run([CAIRN, "report", "--view", "blame", self.path])
        self.assertEqual((run.status, run.words.count("\n")), (2, 1))
        self.assertIn("no waits for locks", run.words)

    def test_waits_for_threads(self):
        def judge(recorded):
            run, profile = recorded
            names = ("wait_for_condition", "wait_for_semaphore", "wait_for_end")
            for name, expected in zip(names, map(int, run.text.split())):
                found = self.below(profile, name)
                self.assertEqual((found["syncs"], found["lock"]), (1, 0))
                self.assert_close(found["sync"], expected)

        for options in self.TRACKERS:
            with self.subTest(options=options):
                self.steadily(lambda: self.record([program("locks"), "sync"], *options), judge)

    def test_a_crowd(self):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                run, profile = self.record([program("locks"), "crowd"], *options)
                self.assertEqual(run.text, "160001\n")
                found = self.below(profile, "add")
                self.assertEqual(found["acquired"], 160000)
                self.assertEqual(profile.info["lock"]["acquired"], 160001)
                # Somebody is blamed for each wait.
                sums = profile.info["lock"]
                self.assertEqual(sums["blame_ns"], sums["wait_ns"])

    def test_remembered_contexts_are_right(self):
        for options in (("--track", "walk"), ("--track", "encode")):
            with self.subTest(options=options):
                _, profile = self.record([program("locks"), "crowd"], "--verify", *options)
                self.assertEqual(profile.info["lock"]["mismatches"], 0)
                if "encode" in options:
                    self.assertGreater(profile.info["encode"]["verified"], 1000)
                    self.assertEqual(profile.info["encode"]["mismatches"], 0)

    def test_trees(self):
        """Trees that forget know the time alone."""
        for tree in ("hot", "bounded:8", "functions"):
            with self.subTest(tree=tree):
                def judge(recorded):
                    run, profile = recorded
                    report = profile.report("--min", "0")
                    self.assert_close(sum(node["self"][0] for node in report["nodes"]),
                                      sum(map(int, run.text.split())))

                self.steadily(lambda: self.record([program("locks"), "blame"], "--tree", tree), judge)


class Harmless(LockTest):
    def test_programs_behave_as_without(self):
        for options in self.TRACKERS:
            for events in ((), ("-e", "cpu", "-e", "alloc", "-e", "io")):
                with self.subTest(options=options, events=events):
                    run, _ = self.record([program("locks"), "harmless"], *events, *options)
                    self.assertEqual(run.text, "harmless\n")

    def test_options_of_time_are_refused(self):
        for options in (("-F", "100"), ("-c", "1ms"), ("-e", "lock"), ("-e", "calls:59")):
            run = Run([CAIRN, "record", "-e", "lock", *options, "true"])
            self.assertEqual(run.status, 2, options)


class Views(LockTest):
    def test_metrics_and_formats(self):
        _, profile = self.record([program("locks"), "counts"])
        self.assertEqual([metric["name"] for metric in profile.report()["metrics"]], METRICS)
        text = Run([CAIRN, "export", "-f", "folded", "--metric", "acquired", self.path]).text
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()), 1000)
        # Nobody has waited, but there is something to see.
        self.assertIn("there is no lock at all; there is 1,000 of acquired, ", Run([CAIRN, "report", self.path]).text)
        merged = os.path.join(self.folder, "merged")
        self.assertEqual(Run([CAIRN, "merge", "-o", merged, self.path, self.path]).status, 0)
        self.assertEqual(Profile(merged).info["lock"]["acquired"], 2000)

    def test_pprof_has_the_types_of_go(self):
        """Its profiles of blocks and mutexes: how often, and for how long."""
        _, profile = self.record([program("locks"), "blame"])
        path = os.path.join(self.folder, "locks.pb.gz")
        run = Run([CAIRN, "export", "-f", "pprof", "-o", path, self.path])
        self.assertEqual(run.status, 0, run.words)
        back = os.path.join(self.folder, "back.out")
        Run([CAIRN, "import", "-q", "-f", "pprof", "-o", back, path])
        metrics = Profile(back).report("--min", "0")
        names = [metric["name"] for metric in metrics["metrics"]]
        sums = {name: sum(node["self"][i] for node in metrics["nodes"]) for i, name in enumerate(names)}
        self.assertEqual(sums["delay"], profile.info["lock"]["wait_ns"])
        self.assertEqual(sums["contentions"], profile.info["lock"]["contended"])
        self.assertGreater(sums["contentions"], 0)


class Servers(LockTest):
    """The most contended lock of a server that nobody here wrote, and who holds it."""

    CLIENTS = 50

    def connect(self, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(path)
        self.addCleanup(connection.close)
        return connection

    def ask(self, connections, *requests):
        """Sends all before it waits for an answer."""
        for connection in connections:
            connection.sendall("\r\n".join([*requests, ""]).encode())
        return b"".join(connection.recv(1 << 16) for connection in connections).decode()

    def states(self, pid, name):
        """Of threads of that name, as ps shows them."""
        found = []
        for status in glob.glob(f"/proc/{pid}/task/*/stat"):
            with open(status, encoding="ascii") as file:
                found += re.findall(rf"\({name}\w+\) (\w)", file.read())
        return "".join(found)

    @installed("redis-server")
    def test_redis(self):
        """A thread for I/O waits for a mutex of its own, which the main thread holds while it needs no help."""
        path = os.path.join(self.folder, "socket")
        server = subprocess.Popen(
            [CAIRN, "record", "-q", "-e", "lock", "-o", self.path, "--", "redis-server", "--port", "0",
             "--unixsocket", path, "--save", "", "--dir", self.folder, "--io-threads", "4",
             "--io-threads-do-reads", "yes"], stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(server.wait)
        self.addCleanup(lambda: server.poll() is None and os.killpg(server.pid, signal.SIGKILL))
        while not os.path.exists(path):
            self.assertIsNone(server.poll(), "the server has ended")
            time.sleep(0.01)
        clients = [self.connect(path) for _ in range(self.CLIENTS)]
        pid = re.search(r"process_id:(\d+)", self.ask(clients[:1], "INFO server"))[1]
        while self.states(pid, "io_thd_") != "SSS":
            time.sleep(0.01)
        while "io_threads_active:1" not in self.ask(clients, "INFO server"):
            pass
        self.assertEqual(self.ask(clients, "PING"), "+PONG\r\n" * self.CLIENTS)
        clients[0].sendall(b"SHUTDOWN NOSAVE\r\n")
        self.assertEqual(server.wait(), 0)

        pairs = self.pairs(Profile(self.path))
        self.assertIn("IOThreadMain", pairs[0][2])
        self.assertTrue({"initThreadedIO", "stopThreadedIO"} & set(pairs[0][3]), pairs[0])
        # A wait of each of the three threads, at least, and no other holder.
        waits = [pair for pair in pairs if "IOThreadMain" in pair[2]]
        self.assertGreaterEqual(sum(times for _, times, _, _ in waits), 3)
        for _, _, _, holder in waits:
            self.assertTrue({"initThreadedIO", "stopThreadedIO"} & set(holder), holder)


class RealPrograms(LockTest):
    """Four events in one run: programs that nobody here wrote do the same as without."""

    ALL = ("-e", "cpu", "-e", "alloc", "-e", "io")
    THREADS = ("import threading, queue\n"
               "q, lock, found = queue.Queue(5), threading.Lock(), []\n"
               "def work():\n"
               "    while (i := q.get()) is not None:\n"
               "        with lock: found.append(i * i)\n"
               "threads = [threading.Thread(target=work) for _ in range(4)]\n"
               "for t in threads: t.start()\n"
               "for i in range(2000): q.put(i)\n"
               "for t in threads: q.put(None)\n"
               "for t in threads: t.join()\n"
               "print(sum(found), len(found))")

    def check(self, argv, prepare=lambda work: None):
        work = os.path.join(self.folder, "work")
        os.makedirs(work)
        prepare(work)
        native = Run(argv, cwd=work)
        self.assertEqual(native.status, 0, native.words)
        for tracker in ("walk", "encode"):
            with self.subTest(tracker=tracker):
                shutil.rmtree(work)
                os.makedirs(work)
                prepare(work)
                run, profile = self.record(argv, *self.ALL, "--track", tracker, work=work)
                self.assertEqual((run.out, run.words), (native.out, native.words))
                self.assertEqual({"alloc", "io", "lock"} - set(profile.info), set())
                self.assertGreater(profile.info["walks"]["complete_pct"], 99.5)
                yield profile

    def test_python3(self):
        for profile in self.check(["/usr/bin/python3", "-S", "-B", "-c", self.THREADS]):
            self.assertGreater(profile.info["lock"]["syncs"], 100)

    @installed("sqlite3")
    def test_sqlite3(self):
        sql = ("create table t(a integer primary key, b text); with recursive n(i) as (select 1 "
               "union all select i+1 from n where i<20000) insert into t select i, 'row '||i from "
               "n; create index i on t(b); select count(*), sum(a) from t where b like '%7%';")
        for profile in self.check(["sqlite3", "file.db", sql]):
            self.assertGreater(profile.info["lock"]["acquired"], 10)

    @installed("git")
    def test_git(self):
        def prepare(work):
            for i in range(30):
                with open(os.path.join(work, f"file{i}"), "w") as file:
                    file.write(f"{i}\n" * 500)
            Run(["git", "init", "-q", work])
            Run(["git", "add", "."], cwd=work)
        for profile in self.check(["git", "-c", "grep.threads=4", "grep", "-c", "2"], prepare):
            self.assertGreater(profile.info["lock"]["acquired"], 10)

    @installed("pigz")
    def test_pigz(self):
        def prepare(work):
            with open(os.path.join(work, "text"), "w") as file:
                file.writelines(f"{i * i % 9973} some line\n" for i in range(100000))
        for profile in self.check(["pigz", "-nc", "-p", "4", "text"], prepare):
            self.assertGreater(profile.info["lock"]["syncs"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
