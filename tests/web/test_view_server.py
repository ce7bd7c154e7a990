# SPDX-License-Identifier: MIT
"""`cairn view` serves its page to this machine alone, below its token, and nothing else."""

import json
import os
import re
import signal
import socket
import subprocess
import unittest
import urllib.request

from support import CAIRN, LiveTest, Run

PAGE_BEGINS = b"<!DOCTYPE html>"


class Served:
    """A `cairn view` that runs."""

    def __init__(self, case, *arguments, env=None):
        self.process = subprocess.Popen([CAIRN, "view", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=case.folder,
                                        env=env)
        case.addCleanup(self.end)
        self.address = self.process.stdout.readline().decode().strip()
        if "--json" in arguments:
            self.address = json.loads(self.address + b"".join(iter(self.process.stdout.readline, b"}\n")).decode() + "}")["address"]
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", self.address)
        case.assertTrue(match, self.address)
        self.port, self.token = int(match[1]), match[2]

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(20)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        return status

    def ask(self, request):
        """The answer to raw bytes: its status, and all of it."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            connection.sendall(request)
            answer = b""
            while data := connection.recv(1 << 16):
                answer += data
        return int(answer.split(b" ", 2)[1]) if answer else None, answer

    def get(self, path=None, host=None, method="GET", more=""):
        path = f"/{self.token}/" if path is None else path
        host = f"127.0.0.1:{self.port}" if host is None else host
        return self.ask(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())


class ServerTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.path = case.record(["true"])[1].path

    def test_the_address_is_json_for_programs(self):
        served = Served(self, "--no-browser", "--json", self.path)
        self.assertEqual(served.get()[0], 200)
        self.assertEqual(served.end(), 0)

    def test_the_page_is_served(self):
        served = Served(self, "--no-browser", self.path)
        with urllib.request.urlopen(served.address, timeout=20) as answer:
            page, head = answer.read(), answer.headers
        self.assertTrue(page.startswith(PAGE_BEGINS))
        self.assertEqual((head["Cache-Control"], head["Referrer-Policy"], head["X-Content-Type-Options"], head["X-Frame-Options"]),
                         ("no-store", "no-referrer", "nosniff", "DENY"))
        written = self.file("page.html")
        self.assertEqual(Run([CAIRN, "view", "-o", written, self.path]).status, 0)
        with open(written, "rb") as file:
            self.assertEqual(file.read(), page)
        self.assertEqual(Run([CAIRN, "view", "-o", "-", self.path]).out, page)
        self.assertEqual(served.get(host=f"localhost:{served.port}")[0], 200)

    def test_everything_else_is_refused(self):
        served = Served(self, "--no-browser", self.path)
        token, port = served.token, served.port
        for path in ("/", "//", f"/{token}", f"/{token}/x", f"/{token}/?x", f"/{token[:-1]}/", f"/{'0' * 32}/", f"//{token}/",
                     "/etc/passwd", f"/{token}/../", f"/%2e/{token}/", "/favicon.ico"):
            self.assertEqual(served.get(path)[0], 404, path)
        for method in ("POST", "HEAD", "PUT", "DELETE", "OPTIONS", "get", "GETS", "X"):
            self.assertEqual(served.get(method=method)[0], 405, method)
        for host in ("example.com", f"example.com:{port}", "127.0.0.1", f"127.0.0.1:{port}0", f"127.0.0.1:{port}.example.com",
                     f"127.0.0.2:{port}", "", f"[::1]:{port}", f"127.0.0.1:{port}, example.com"):
            self.assertEqual(served.get(host=host)[0], 400, host)
        page, own = f"/{token}/", f"Host: 127.0.0.1:{port}\r\n"
        for request in (f"GET {page} HTTP/1.1\r\n\r\n", f"GET {page} HTTP/1.1\r\n{own}{own}\r\n", f"GET {page}\r\n{own}\r\n",
                        f"GET http://127.0.0.1:{port}{page} HTTP/1.1\r\n{own}\r\n", f"GET  {page} HTTP/1.1\r\n{own}\r\n",
                        f"{page}\r\n\r\n", "\r\n\r\n", f"GET {page} HTTP/1.1\r\n{own}\0\r\n\r\n",
                        "\x16\x03\x01\x02\r\n\r\n", f"GET {page} HTTP/1.1\r\n{own}" + "X: y\r\n" * 5000):
            status, answer = served.ask(request.encode())
            self.assertEqual(status, 400, request[:60])
            self.assertNotIn(PAGE_BEGINS, answer)
        self.assertEqual(served.get()[0], 200)

    def test_connections_that_say_nothing_hold_nobody_up(self):
        served = Served(self, "--no-browser", self.path)
        idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(8)]
        self.assertEqual(served.get()[0], 200)
        for connection in idle:
            connection.close()
        self.assertEqual(served.get()[0], 200)

    def test_it_listens_on_loopback_alone(self):
        served = Served(self, "--no-browser", self.path)
        with open("/proc/net/tcp", encoding="ascii") as file:
            listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
        self.assertEqual([address for address in listening if address.endswith(f":{served.port:04X}")], [f"0100007F:{served.port:04X}"])

    def test_tokens_are_new_each_time(self):
        self.assertNotEqual(Served(self, "--no-browser", self.path).token, Served(self, "--no-browser", self.path).token)

    def test_signals_end_it_in_good_order(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.assertEqual(Served(self, "--no-browser", self.path).end(number), 0)

    def test_a_port_in_use_is_one_line(self):
        served = Served(self, "--no-browser", self.path)
        run = Run([CAIRN, "view", "--no-browser", "--port", str(served.port), self.path])
        self.assertEqual((run.status, run.out), (1, b""))
        self.assertEqual(run.words, f"cairn: view: port {served.port} is in use: choose another, or leave out --port\n")

    def test_the_browser_gets_the_address(self):
        opened = self.file("opened")
        folder = os.path.dirname(self.file("bin/xdg-open")) if os.makedirs(self.file("bin")) is None else ""
        script = self.file("bin/xdg-open", f"#!/bin/sh\necho noise; echo noise >&2; printf %s \"$1\" >{opened}.new; mv {opened}.new {opened}\n")
        os.chmod(script, 0o755)
        environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "DISPLAY": ":9"}
        served = Served(self, self.path, env=environment)
        self.assertIn(b"opened in the browser", served.process.stderr.readline())
        while not os.path.exists(opened):
            pass
        with open(opened, encoding="ascii") as file:
            self.assertEqual(file.read(), served.address)
        os.unlink(opened)
        for change in ({"DISPLAY": "", "WAYLAND_DISPLAY": ""}, {"PATH": "/nowhere"}):
            served = Served(self, self.path, env={**environment, **change})
            self.assertIn(b"open this address", served.process.stderr.readline())
            self.assertEqual(served.get()[0], 200)

    def test_misuse_is_one_line(self):
        for arguments, status, words in ((("--port", "0"), 2, "not a positive number"), (("--port", "70000"), 2, "above 65535"),
                                         (("-o", "x.html", "--port", "80"), 2, "leave out -o"), (("no-such-file",), 2, "no-such-file"),
                                         (("-o", self.path, self.path), 2, "is the profile itself"),
                                         (("-o", "/no/such/folder/x.html", self.path), 1, "cannot write")):
            run = Run([CAIRN, "view", "--no-browser", *arguments], cwd=self.folder)
            self.assertEqual((run.status, run.out), (status, b""), run.words)
            self.assertIn(words, run.words)
            self.assertEqual(run.words.count("\n"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
