#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A profile of each interval, in a folder or at a server: together they are the whole, whatever happens meanwhile."""

import glob
import gzip
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.parse

from support import CAIRN, LiveTest, Run, installed

UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def busy(seconds):
    """A program that computes for so long, and prints when it begins."""
    return ["perl", "-e", "use Time::HiRes 'time'; $| = 1; print 'begun'; my $end = time + shift; "
            "while (time < $end) { $x += $_ for 1 .. 1000 }", str(seconds)]


class Server:
    """Takes what is posted, and answers with a status that can be changed."""

    def __init__(self, port=0):
        self.requests, self.status, self.silent = [], 200, False
        self.troubles = [] # the answers to the first requests
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self): # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.troubles.pop(0) if outer.troubles else outer.status
                outer.requests.append((self.path, dict(self.headers), body, status))
                if outer.silent:
                    time.sleep(3600)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_): # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def taken(self):
        return [body for _, _, body, status in self.requests if status == 200]

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}{path}"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Continuous(LiveTest):
    def every(self, target, *words, every="1", env=None, status=0, **how):
        """Records with intervals: (the summary, what was run)."""
        run = Run([CAIRN, "record", "--json", "--every", every, "-o", target, *words], cwd=self.folder, env=env, **how)
        self.assertEqual(run.status, status, run.text + run.words)
        return json.loads(run.words), run

    def cost(self, path):
        """The sum over all contexts, those that are not hot included."""
        run = Run([CAIRN, "export", "-f", "folded", "--no-debuginfod", path])
        self.assertEqual(run.status, 0, run.words)
        return sum(int(line.rsplit(" ", 1)[1]) for line in run.text.splitlines())

    def cost_of_pprof(self, content):
        path = self.file("one.pb.gz", content)
        run = Run([CAIRN, "import", "-q", "-f", "pprof", "-o", self.file("one.out"), path])
        self.assertEqual(run.status, 0, run.words)
        return self.cost(self.file("one.out"))

    def intervals(self, folder, ending):
        return sorted(glob.glob(f"{folder}/*-*.{ending}"))

    def assert_nothing_left(self, folder):
        self.assertEqual([name for name in os.listdir(folder) if name.startswith((".", "cairn-intervals"))], [])


class Folder(Continuous):
    def test_intervals_are_the_whole(self):
        folder = self.file("profiles")
        summary, _ = self.every(folder, *busy(3.5))
        found = self.intervals(folder, "pb.gz")
        self.assertGreaterEqual(len(found), 2)
        self.assertEqual(len(found), summary["intervals"]["delivered"])
        total = 0
        for path in found:
            self.assertRegex(os.path.basename(path), r"^perl-\d{8}T\d{6}Z-\d{4}\.pb\.gz$")
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path, "rb") as file:
                total += self.cost_of_pprof(file.read())
        self.assertEqual(total, self.cost(folder + "/cairn.out"))
        self.assertEqual(total, summary["cost_ns"])
        self.assert_nothing_left(folder)

    def test_intervals_as_profiles_of_our_own(self):
        for number, (options, command) in enumerate(((("-F", "5000"), busy(2.5)), (("--tree", "hot"), busy(2.5)),
                                 (("--tree", "hot:0.01", "-F", "5000"), ["python3", "-c", DEEP]),
                                 (("--tree", "functions"), busy(2.5)), (("-e", "alloc"), busy(2.5)),
                                 (("--track", "encode"), busy(2.5)),
                                 ((), ["sh", "-c", "end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do perl -e '$x++ for 1 .. 3e5'; done"]))):
            with self.subTest(options=options):
                folder = self.file(f"own{number}")
                summary, _ = self.every(folder, "-f", "cairn", *options, *command)
                found = self.intervals(folder, "out")
                self.assertGreaterEqual(len(found), 2)
                infos = [json.loads(Run([CAIRN, "info", "--json", path]).text) for path in found]
                self.assertEqual(sum(info["samples"] for info in infos), summary["samples"])
                self.assertEqual(sum(self.cost(path) for path in found), self.cost(folder + "/cairn.out"))
                ends = [(info["start_realtime_ns"], info["start_realtime_ns"] + info["duration_ns"]) for info in infos]
                for (_, end), (start, _) in zip(ends, ends[1:]):
                    self.assertLessEqual(end, start)

    def test_functions_are_those_of_the_time(self):
        """The first part runs f, the last one g: no interval at the ends has both."""
        script = self.file("phases.py", PHASES)
        folder = self.file("phases")
        self.every(folder, "-f", "cairn", "python3", script)
        names = [Run([CAIRN, "export", "-f", "folded", "--no-debuginfod", path]).text
                 for path in self.intervals(folder, "out")]
        self.assertIn("first_half", names[0])
        self.assertNotIn("second_half", names[0])
        last = [text for text in names if "_half" in text][-1]
        self.assertIn("second_half", last)
        self.assertNotIn("first_half", last)

    def test_a_running_process(self):
        folder = self.file("attached")
        with subprocess.Popen(busy(60), stdout=subprocess.PIPE) as loop:
            try:
                loop.stdout.read(5)
                summary, _ = self.every(folder, "-f", "cairn", "-p", str(loop.pid), "--duration", "3.5")
            finally:
                loop.kill()
        found = self.intervals(folder, "out")
        self.assertGreaterEqual(len(found), 2)
        self.assertEqual(sum(json.loads(Run([CAIRN, "info", "--json", path]).text)["samples"] for path in found),
                         summary["samples"])
        self.assertGreater(summary["samples"], 0)

    def test_a_program_that_ends_at_once_and_one_that_idles(self):
        folder = self.file("short")
        summary, _ = self.every(folder, "true")
        self.assertEqual(summary["intervals"]["delivered"] + summary["intervals"]["empty"], 1)
        summary, _ = self.every(folder, "sleep", "3.5")
        self.assertGreater(summary["intervals"]["empty"], 0)
        self.assert_nothing_left(folder)

    def test_a_full_disk_loses_nothing(self):
        if Run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]).status:
            self.skipTest("no file system can be mounted")
        disk = self.file("disk")
        os.mkdir(disk)
        # The disk is full until a file is removed, which is while the program runs.
        script = (f"mount -t tmpfs -o size=200k none '{disk}' && cd '{disk}' || exit 99; mkdir out; "
                  "dd if=/dev/zero of=out/full bs=1k count=300 2>/dev/null; (sleep 3; rm out/full) & "
                  f"\"$@\"; s=$?; cp -r out '{self.folder}/copy'; exit $s")
        run = Run([*UNSHARE, "sh", "-c", script, "sh", CAIRN, "record", "--every", "1", "-f", "cairn", "-o", "out",
                   *busy(5.5)], cwd=self.folder)
        if "cannot write to" in run.words:
            return # not even the head of the profile has found room: said at once, and nothing was recorded
        self.assertEqual(run.status, 0, run.words)
        self.assertRegex(run.words, r"cannot write")
        copy = self.file("copy")
        found = self.intervals(copy, "out")
        self.assertEqual(sum(self.cost(path) for path in found), self.cost(copy + "/cairn.out"))


class Servers(Continuous):
    def fresh(self):
        """An environment whose temporary folder is the test's."""
        place = self.file("tmp")
        os.makedirs(place, exist_ok=True)
        return {**os.environ, "TMPDIR": place}

    def profile_in(self, body, headers):
        boundary = re.search(r"boundary=(\S+)", headers["Content-Type"]).group(1).encode()
        part = body.split(b"--" + boundary)[1]
        head, content = part.split(b"\r\n\r\n", 1)
        self.assertIn(b'name="profile"', head)
        return content[:-2]

    def test_pyroscope(self):
        with Server() as server:
            summary, _ = self.every(server.url(), *busy(3.5), env=self.fresh())
        self.assertEqual(summary["intervals"]["delivered"], len(server.requests))
        total, before = 0, 0
        for path, headers, body, _ in server.requests:
            parts = urllib.parse.urlparse(path)
            values = urllib.parse.parse_qs(parts.query)
            self.assertEqual((parts.path, values["name"], values["format"]), ("/ingest", ["perl"], ["pprof"]))
            self.assertLess(int(values["from"][0]), int(values["until"][0]))
            self.assertLessEqual(before, int(values["from"][0]))
            before = int(values["from"][0])
            total += self.cost_of_pprof(self.profile_in(body, headers))
        self.assertEqual(total, summary["cost_ns"])
        self.assertEqual(os.listdir(self.file("tmp")), [])

    def test_the_name_can_be_given(self):
        with Server() as server:
            self.every(server.url("/here/ingest?name=shop{env=test}"), *busy(1.2), env=self.fresh())
        path = urllib.parse.urlparse(server.requests[0][0])
        self.assertEqual(path.path, "/here/ingest")
        self.assertEqual(urllib.parse.parse_qs(path.query)["name"], ["shop{env=test}"])

    @installed("protoc")
    def test_opentelemetry(self):
        with Server() as server:
            self.every(server.url(), "-f", "otlp", *busy(2.5), env=self.fresh())
        for path, headers, body, _ in server.requests:
            self.assertEqual((path, headers["Content-Type"]), ("/v1development/profiles", "application/x-protobuf"))
            schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "otlp.proto")
            with open(schema, encoding="utf-8") as file:
                package = re.search(r"package (\S+);", file.read()).group(1)
            run = Run(["protoc", "-I", os.path.dirname(schema), "--decode", package + ".ProfilesData", schema],
                      stdin=body)
            self.assertEqual(run.status, 0, run.words)
            self.assertIn("resource_profiles", run.text)

    def test_another_path_gets_the_bare_profile(self):
        with Server() as server:
            self.every(server.url("/take/this"), *busy(1.2), env=self.fresh())
        self.assertTrue(all(path == "/take/this" for path, *_ in server.requests))
        self.assertTrue(gzip.decompress(server.requests[0][2]))

    def test_a_server_that_comes_later_gets_everything(self):
        port = free_port()
        command = [CAIRN, "record", "--every", "1", "-o", f"http://127.0.0.1:{port}/x", *busy(7)]
        with subprocess.Popen(command, cwd=self.folder, env=self.fresh(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as run:
            waiting = self.file("tmp/cairn-intervals-*/waiting/*")
            while run.poll() is None and not glob.glob(waiting):
                time.sleep(0.05)
            with Server(port) as server:
                words = run.communicate()[1].decode()
        self.assertEqual(run.returncode, 0, words)
        self.assertIn("cannot write an interval to", words)
        self.assertIn("Connection refused", words)
        self.assertIn("takes intervals again", words)
        cost = re.search(r"samples of ([\d.]+) (\w+) cpu time", words)
        scale = {"s": 1e9, "ms": 1e6}[cost.group(2)]
        total = sum(self.cost_of_pprof(body) for body in server.taken())
        self.assertAlmostEqual(total / (float(cost.group(1)) * scale), 1, delta=0.01)
        self.assertEqual(os.listdir(self.file("tmp")), [])

    def test_a_server_in_trouble_is_asked_again(self):
        with Server() as server:
            server.troubles = [503]
            summary, _ = self.every(server.url("/x"), *busy(7), env=self.fresh())
        self.assertEqual([status for *_, status in server.requests][:2], [503, 200])
        self.assertEqual(sum(self.cost_of_pprof(body) for body in server.taken()), summary["cost_ns"])
        self.assertEqual((summary["intervals"]["waiting"], summary["intervals"]["refused"]), (0, 0))

    def test_what_a_server_refuses_is_counted(self):
        with Server() as server:
            server.status = 400
            summary, _ = self.every(server.url("/x"), *busy(2.5), env=self.fresh())
            run = Run([CAIRN, "record", "--every", "1", "-o", server.url("/x"), *busy(1.5)], cwd=self.folder,
                      env=self.fresh())
        self.assertEqual(summary["intervals"]["refused"], len([1 for *_, s in server.requests if s == 400]) -
                         int(re.search(r"(\d+) intervals? w\w+ refused, and lost", run.words).group(1)))
        self.assertIn("HTTP/1.0 400", summary["intervals"]["problem"])
        self.assertIn("refuses an interval: HTTP/1.0 400", run.words)

    def test_without_a_server_all_intervals_are_kept(self):
        url = f"http://127.0.0.1:{free_port()}/x"
        summary, _ = self.every(url, *busy(3.5), env=self.fresh())
        intervals = summary["intervals"]
        self.assertEqual(intervals["delivered"], 0)
        found = sorted(glob.glob(intervals["folder"] + "/waiting/*.pb.gz"))
        self.assertEqual(len(found), intervals["waiting"])
        self.assertGreater(len(found), 1)
        total = 0
        for path in found:
            with open(path, "rb") as file:
                total += self.cost_of_pprof(file.read())
        self.assertEqual(total, summary["cost_ns"])

    def test_a_server_that_never_answers_does_not_hold_the_program_up(self):
        """Its intervals wait; those meanwhile are longer. The command ends before the server is given up."""
        with Server() as server:
            server.silent = True
            with subprocess.Popen([CAIRN, "record", "--json", "--every", "1", "-o", server.url("/x"), *busy(3.5)],
                                  cwd=self.folder, env=self.fresh(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as run:
                text, words = run.communicate()
        self.assertEqual((run.returncode, text), (0, b"begun"), words)
        intervals = json.loads(words)["intervals"]
        self.assertEqual(intervals["delivered"], 0)
        self.assertGreaterEqual(intervals["waiting"], 1)
        self.assertFalse(intervals["last_unmade"])

    def test_the_worker_may_be_killed(self):
        """Whoever kills it loses nothing: the interval becomes part of the next."""
        folder = self.file("killed")
        killed = 0
        with subprocess.Popen([CAIRN, "record", "--json", "--every", "1", "-f", "cairn", "-o", folder, *busy(5)],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            while run.poll() is None:
                for worker in workers_of(run.pid):
                    if killed < 2:
                        killed += 1
                        os.kill(worker, signal.SIGKILL)
                time.sleep(0.001)
            words = run.communicate()[1]
        summary = json.loads(words)
        found = self.intervals(folder, "out")
        self.assertEqual(sum(self.cost(path) for path in found), summary["cost_ns"], words)


def workers_of(front):
    """Processes that a recorder has forked and that have not become another program."""
    own = os.path.realpath(CAIRN)
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{parent}/stat", encoding="utf-8") as file:
                grandparent = int(file.read().rsplit(")", 1)[1].split()[1])
            if grandparent == front and os.path.realpath(f"/proc/{pid}/exe") == own:
                found.append(int(pid))
        except (OSError, ValueError):
            pass # it has ended
    return found


class Misuse(LiveTest):
    def test_what_does_not_go_together_is_said_before_the_command_runs(self):
        ordinary = self.file("ordinary", "x")
        for words, expected in ((("--every", "60"), "needs -o FOLDER"),
                                (("--every", "0.1", "-o", "x"), "a second or more"),
                                (("--every", "soon", "-o", "x"), "number of seconds"),
                                (("--every", "1", "-o", "https://host/"), "https is not supported"),
                                (("--every", "1", "-o", "ftp://host/"), "http://"),
                                (("--every", "1", "-o", "http://"), "names no host"),
                                (("--every", "1", "-o", "http://me:secret@host/"), "unencrypted"),
                                (("--every", "1", "-o", "http://host:port/"), "port"),
                                (("--every", "1", "-o", ordinary), "no folder"),
                                (("--every", "1", "-o", "/proc/x/y"), "/proc/x/y"),
                                (("--every", "1", "-o", "x", "--timeline"), "--timeline"),
                                (("--every", "1", "-o", "x", "--tree", "bounded"), "--tree"),
                                (("--every", "1", "-f", "cairn", "-o", "http://host/"), "pprof or otlp"),
                                (("--every", "1", "-f", "folded", "-o", "x"), "pprof, otlp or cairn"),
                                (("-f", "pprof"), "--every"),
                                (("-o", "http://host/"), "--every")):
            run = Run([CAIRN, "record", *words, "--", "touch", "it-ran"], cwd=self.folder)
            self.assertEqual(run.status, 2, (words, run.words))
            self.assertIn(expected, run.words)
            self.assertFalse(os.path.exists(self.file("it-ran")))


DEEP = """
import time
def down(n, kind):
    if n == 0:
        return sum(i * i for i in range(300))
    return (down if kind & 1 else again)(n - 1, kind >> 1)
def again(n, kind):
    return down(n, kind)
end = time.time() + 3.5
kind = 0
while time.time() < end:
    kind += 1
    down(12, kind)
"""

PHASES = """
import time
def first_half(end):
    while time.time() < end:
        sum(range(100))
def second_half(end):
    while time.time() < end:
        sum(range(100))
now = time.time()
first_half(now + 3)
second_half(now + 6)
"""


if __name__ == "__main__":
    unittest.main()
