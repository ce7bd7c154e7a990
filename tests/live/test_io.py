#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`-e io`: every operation on files, pipes and sockets is counted, and nothing else changes."""

import glob
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import CAIRN, Profile, Run, installed, program

METRICS = ["io", "read", "written", "io-ops", "io-time"]
READING = {"read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"}
WRITING = {"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"}
THROUGH = {"sendfile", "splice", "copy_file_range"}


class IoTest(unittest.TestCase):
    TRACKERS = (("--track", "walk"), ("--track", "walk", "--marker=off"), ("--track", "encode"),
                ("--track", "calls"))

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-io-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "io.out")

    def record(self, argv, *options, work=None, stdin=b""):
        run = Run([CAIRN, "record", "-q", "-e", "io", "-o", self.path, *options, "--", *argv],
                  cwd=work or self.folder, stdin=stdin)
        self.assertEqual(run.status, 0, run.words)
        return run, Profile(self.path)

    def totals(self, profile):
        """Sums of all metrics over the tree."""
        report = profile.report("--min", "0")
        names = [metric["name"] for metric in report["metrics"]]
        return {name: sum(node["self"][i] for node in report["nodes"])
                for i, name in enumerate(names)}

    def by_path(self, profile, inner, outer):
        """What `inner` does itself when `outer` calls it, whichever file that is with."""
        report = profile.report("--min", "0", "--no-inlines")
        names = [metric["name"] for metric in report["metrics"]]
        functions = {node["id"]: node for node in report["nodes"]}
        found = dict.fromkeys(names, 0)
        for node in report["nodes"]:
            above = node
            if node["module"] == "[file]":
                node = functions[node["parent"]]
            caller = functions.get(node["parent"])
            if node["function"] == inner and caller and caller["function"] == outer:
                for name, value in zip(names, above["self"]):
                    found[name] += value
        return found

    def files(self, profile):
        """{file: {metric: value}}"""
        report = profile.report("--view", "files", "--min", "0")
        names = [metric["name"] for metric in report["metrics"]]
        return {row["function"]: dict(zip(names, row["self"])) for row in report["nodes"]}


class Files(IoTest):
    """Files are told apart, and pipes and sockets from them."""

    CODE = """
import os, socket
first, second = socket.socketpair()
ends = os.pipe()
def use(path, size, times):
    for i in range(times):
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(fd, b"x" * size)
        os.close(fd)
use("large", 5000, 30)
use("small", 10, 7)
os.write(ends[1], b"p" * 700); os.read(ends[0], 700)
first.send(b"s" * 300); second.recv(300)
with open("stream", "w") as file:
    file.write("z" * 100)
fd = os.open("small", os.O_RDONLY)
other = os.open("large", os.O_RDONLY)
os.dup2(other, fd)
os.read(fd, 40)
"""

    def test_each_has_its_own(self):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                _, profile = self.record(["/usr/bin/python3", "-S", "-E", "-c", self.CODE], *options)
                files = self.files(profile)
                folder = os.path.realpath(self.folder)
                large, small = files[os.path.join(folder, "large")], files[os.path.join(folder, "small")]
                self.assertEqual((large["written"], large["read"]), (5000 * 30, 40))
                self.assertEqual((small["written"], small["io-ops"]), (70, 15))
                self.assertEqual((files["[pipe]"]["written"], files["[pipe]"]["read"]), (700, 700))
                self.assertEqual((files["[socket]"]["written"], files["[socket]"]["read"]), (300, 300))
                self.assertEqual(files[os.path.join(folder, "stream")]["written"], 100)
                # A child of a frame for each: no byte is in no file.
                self.assertEqual(sum(file["io"] for file in files.values()), self.totals(profile)["io"])
        text = Run([CAIRN, "report", "--view", "files", "--min", "0", self.path]).text
        self.assertLess(text.index("large"), text.index("[socket]"))

    def test_reads_and_writes_alone(self):
        """-e read and -e write are the two halves of -e io."""
        argv = ["/usr/bin/python3", "-S", "-E", "-c", self.CODE]
        sums = {}
        for options in (["-e", "io"], ["-e", "read"], ["-e", "write"], ["-e", "read", "-e", "write"]):
            run = Run([CAIRN, "record", "-q", "-o", self.path, *options, "--", *argv], cwd=self.folder)
            self.assertEqual(run.status, 0, run.words)
            sums[" ".join(options[1::2])] = self.totals(Profile(self.path))
        self.assertEqual(sums["read"]["read"], sums["io"]["read"])
        self.assertEqual(sums["read"]["io"], sums["io"]["read"])
        self.assertEqual(sums["read"]["written"], 0)
        self.assertEqual(sums["write"]["written"], sums["io"]["written"])
        self.assertEqual(sums["write"]["read"], 0)
        self.assertEqual(sums["read write"]["io-ops"], sums["io"]["io-ops"])
        for options in (["-e", "read", "-e", "read"], ["-e", "io", "-e", "read"], ["-e", "read:5"]):
            run = Run([CAIRN, "record", "-o", self.path, *options, "--", "true"])
            self.assertEqual((run.status, run.words.count("\n")), (2, 1), run.words)

    def test_many_files(self):
        """A process names a thousand; the sums are right all the same."""
        code = "for i in range(1500):\n    with open(f'f{i}', 'w') as file:\n        file.write('x' * 10)"
        _, profile = self.record(["/usr/bin/python3", "-S", "-E", "-c", code])
        files = self.files(profile)
        self.assertGreater(files["[other files]"]["written"], 4000)
        self.assertEqual(sum(file["written"] for file in files.values()), 15000)
        self.assertLess(len(files), 1100)

    @installed("strace")
    def test_strace_says_the_same(self):
        """Bytes of real programs, file by file."""
        data = os.path.join(self.folder, "data")
        with open(data, "wb") as file:
            file.write(bytes(range(256)) * 4000)
        for argv in (["xz", "-kc", data], ["sqlite3", os.path.join(self.folder, "x.db"),
                                           "create table t(a); insert into t select value from generate_series(1,3000);"]):
            if not shutil.which(argv[0]):
                continue
            with self.subTest(argv=argv[0]):
                database = os.path.join(self.folder, "x.db")
                log = os.path.join(self.folder, "log")
                Run(["strace", "-f", "-y", "-e", "trace=read,write,pread64,pwrite64", "-o", log, *argv])
                if os.path.exists(database):
                    os.remove(database)
                _, profile = self.record(argv)
                told = {}
                with open(log, encoding="utf-8", errors="replace") as file:
                    for line in file:
                        call = re.search(r"(p?)(read|write)(?:64)?\(\d+<([^>]*)>.*\) = (\d+)$", line)
                        if call and call[3].startswith(self.folder):
                            key = call[3], "read" if call[2] == "read" else "written"
                            told[key] = told.get(key, 0) + int(call[4])
                self.assertGreater(len(told), 0)
                files = self.files(profile)
                for (path, metric), value in told.items():
                    self.assertEqual(files[path][metric], value, path)

    def test_none(self):
        _, _ = self.record(["true"])
        cpu = os.path.join(self.folder, "cpu")
        Run([CAIRN, "record", "-q", "-o", cpu, "--", "true"])
        run = Run([CAIRN, "report", "--view", "files", cpu])
        self.assertNotEqual(run.status, 0)
        self.assertIn("-e io", run.words)


class Contexts(IoTest):
    """A program of which each operation is known."""

    def test_every_operation_has_its_path(self):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                _, profile = self.record([program("io"), "paths"], *options)
                first, second = (self.by_path(profile, "put", name)
                                 for name in ("by_first", "by_second"))
                self.assertEqual([first[name] for name in METRICS[:4]], [375000, 0, 375000, 375])
                self.assertEqual([second[name] for name in METRICS[:4]], [1250, 0, 1250, 125])
                self.assertGreater(first["io-time"], 0)
                self.assertEqual(self.totals(profile)["io-ops"], 375 + 125 + 1)

    def test_every_function_is_seen(self):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                run, profile = self.record([program("io"), "all"], *options)
                read, written, operations = map(int, run.text.split())
                sums = profile.info["io"]
                self.assertEqual(sums["read"], read)
                self.assertEqual(sums["written"], written + len(run.text))
                self.assertEqual(sums["bytes"], sums["read"] + sums["written"])
                self.assertEqual(sums["operations"], operations + 1)

    def test_threads(self):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                _, profile = self.record([program("io"), "threads"], *options)
                self.assertEqual([profile.info["io"][name] for name in ("written", "operations")],
                                 [4 * 5000 * 100, 4 * 5001])

    def test_handlers(self):
        """A handler's operations count, whatever it has interrupted."""
        for options in self.TRACKERS:
            with self.subTest(options=options):
                run, profile = self.record([program("io"), "handlers"], *options)
                sums, handled = profile.info["io"], int(run.text)
                self.assertEqual(sums["operations"], 300000 + handled + 2)
                self.assertEqual(sums["written"], 3000000 + 7 * handled + len(run.text))

    def test_trees(self):
        """Trees that forget know the bytes."""
        for tree in ("hot", "bounded:8", "functions"):
            with self.subTest(tree=tree):
                _, profile = self.record([program("io"), "paths"], "--tree", tree)
                self.assertEqual(self.totals(profile)["io"], 376250)
                self.assertEqual(profile.info["io"]["operations"], 501)

    def test_remembered_contexts_are_right(self):
        for options in (("--track", "walk"), ("--track", "encode")):
            with self.subTest(options=options):
                _, profile = self.record([program("io"), "threads"], "--verify", *options)
                self.assertEqual(profile.info["io"]["mismatches"], 0)
                if "encode" in options:
                    self.assertGreater(profile.info["encode"]["verified"], 1000)
                    self.assertEqual(profile.info["encode"]["mismatches"], 0)
                else:
                    self.assertGreater(profile.info["io"]["verified"], 1000)


class Harmless(IoTest):
    def test_programs_behave_as_without(self):
        for options in self.TRACKERS:
            for events in ((), ("-e", "cpu"), ("-e", "alloc", "-e", "cpu", "-e", "wall")):
                with self.subTest(options=options, events=events):
                    run, _ = self.record([program("io"), "harmless"], *events, *options)
                    self.assertEqual(run.text, "harmless\n")

    def test_options_of_time_are_refused(self):
        for options in (("-F", "100"), ("-c", "1ms"), ("--burst", "20ms/2ms"), ("-e", "io"),
                        ("-e", "calls:59")):
            run = Run([CAIRN, "record", "-e", "io", *options, "true"])
            self.assertEqual(run.status, 2, options)
        self.assertEqual(Run([CAIRN, "record", "-e", "io:4k", "true"]).status, 2)

    def test_other_events_see_no_files(self):
        """Only this event stands between a program and its files."""
        for name, seen in (("libcairn.so", False), ("libcairn-alloc.so", False),
                           ("libcairn-io.so", True), ("libcairn-alloc-io.so", True)):
            path = os.path.join(os.path.dirname(CAIRN), name)
            symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True,
                                     text=True).stdout.split()
            self.assertEqual("read" in symbols, seen, name)
            self.assertEqual("malloc" in symbols, "alloc" in name, name)


class Views(IoTest):
    def test_metrics_and_formats(self):
        _, profile = self.record([program("io"), "paths"])
        self.assertEqual([metric["name"] for metric in profile.report()["metrics"]], METRICS)
        for metric in METRICS:
            text = Run([CAIRN, "export", "-f", "folded", "--metric", metric, self.path]).text
            total = sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())
            self.assertEqual(total, self.totals(profile)[metric], metric)
        merged = os.path.join(self.folder, "merged")
        self.assertEqual(Run([CAIRN, "merge", "-o", merged, self.path, self.path]).status, 0)
        self.assertEqual(Profile(merged).info["io"]["operations"], 2 * 501)


def traced(folder, argv, work, stdin):
    """Bytes read and written by a program, as strace sees them: those that the loader reads of
    libraries left out. A file is the loader's if its first bytes are those of ELF."""
    log = os.path.join(folder, "strace")
    run = Run(["strace", "-ff", "-s", "8", "-o", log, "-e",
               "trace=" + ",".join(READING | WRITING | THROUGH | {"close", "execve"}), *argv],
              cwd=work, stdin=stdin)
    read = written = 0
    for path in glob.glob(log + ".*"):
        libraries = set()
        with open(path, errors="replace") as lines:
            for line in lines:
                name = line.split("(", 1)[0]
                ended = re.search(r"\)\s+= (\d+)", line)
                if not ended:
                    continue
                file = line.split("(", 1)[1].split(",")[0].split(")")[0]
                amount = int(ended[1])
                if name == "close":
                    libraries.discard(file)
                elif name in READING:
                    if '"\\177ELF' in line:
                        libraries.add(file)
                    read += 0 if file in libraries else amount
                elif name in WRITING:
                    written += amount
                elif name in THROUGH:
                    read += amount
                    written += amount
    return run, read, written


class RealPrograms(IoTest):
    """Programs that nobody here wrote: the sums are those of strace."""

    SQL = ("create table t(a integer primary key, b text); with recursive n(i) as (select 1 union "
           "all select i+1 from n where i<3000) insert into t select i, 'row '||i from n; "
           "create index i on t(b); select count(*), sum(a) from t where b like '%7%';")

    EVENTS = ((), ("-e", "cpu", "-e", "alloc"))

    def check(self, argv, prepare=lambda: None, stdin=b""):
        work = os.path.join(self.folder, "work")
        os.makedirs(work)
        prepare()
        native, read, written = traced(self.folder, argv, work, stdin)
        self.assertEqual(native.status, 0, native.words)
        for tracker, events in itertools.product(("walk", "encode"), self.EVENTS):
            with self.subTest(tracker=tracker, events=events):
                shutil.rmtree(work)
                os.makedirs(work)
                prepare()
                run, profile = self.record(argv, "--track", tracker, *events, work=work, stdin=stdin)
                self.assertEqual((run.status, run.out), (native.status, native.out))
                self.assertEqual([profile.info["io"][name] for name in ("read", "written")],
                                 [read, written])
                self.assertGreater(profile.info["walks"]["complete_pct"], 99.9)

    def text(self, lines):
        path = os.path.join(self.folder, "work", "text")
        with open(path, "w") as file:
            file.writelines(f"{i * i % 9973} some line {i}\n" for i in range(lines))

    @installed("strace", "sqlite3")
    def test_sqlite3(self):
        self.check(["sqlite3", "file.db", self.SQL])

    @installed("strace", "xz")
    def test_xz(self):
        self.check(["xz", "-1", "-k", "-T1", "text"], lambda: self.text(50000))

    @installed("strace", "sort")
    def test_sort(self):
        self.check(["sort", "-n", "text"], lambda: self.text(20000))

    @installed("strace", "git")
    def test_git(self):
        def prepare():
            work = os.path.join(self.folder, "work")
            self.text(1000)
            os.utime(os.path.join(work, "text"), (1e9, 1e9)) # else git doubts its index
            Run(["git", "init", "-q", work])
            Run(["git", "add", "text"], cwd=work)
        self.check(["git", "diff", "--cached", "--no-color"], prepare)

    @installed("strace")
    def test_python3(self):
        self.check(["/usr/bin/python3", "-S", "-B", "-c",
                    "import sys, subprocess\n"
                    "lines = open('text').read().split()\n"
                    "open('out', 'wb').write(b'x' * 300000)\n"
                    "print(len(lines), subprocess.check_output(['cat', 'text'])[:5])"],
                   lambda: self.text(5000))

    @installed("strace", "perl")
    def test_perl(self):
        self.check(["perl", "-ne", "$n{$_ % 7}++; END { print map { qq($_ $n{$_}\\n) } sort keys %n }",
                    "text"], lambda: self.text(5000))


if __name__ == "__main__":
    unittest.main(verbosity=2)
