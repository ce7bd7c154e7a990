# SPDX-License-Identifier: MIT
"""Comes into programs under load and leaves them, again and again, and looks at what the load got.

    attach_loads.py ROUNDS [NAME...] [--event EVENT]

For each program that is installed: the load begins, `cairn record -p` runs ROUNDS times, and the load ends. No request may be lost
or answered wrongly. A line for each says how long threads were stopped, and the median time of a request before and afterwards.
"""

import argparse
import glob
import http.client
import os
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from support import CAIRN, program

CLIENTS = 4
READY_S = 60
MEASURE_S = 0.5  # of requests, before the first recording and after the last one

# They compute, check what they have computed, and wait, until their stdin ends.
PYTHON = """
import sys, threading, zlib
ended, wrong = threading.Event(), 0
def compute(i):
    global wrong
    data = bytes(range(256)) * (10 + i)
    expected = zlib.crc32(data)
    while not ended.wait(0.001):
        wrong += any(zlib.crc32(data) != expected for _ in range(50))
        try:
            [][i]
            wrong += 1
        except IndexError:
            pass
threads = [threading.Thread(target=compute, args=(i,)) for i in range(4)]
for thread in threads: thread.start()
print("ready", flush=True)
sys.stdin.read()
ended.set()
for thread in threads: thread.join()
print(wrong, "wrong")
"""
NODE = """
const { createHash } = require("crypto"), { exec } = require("child_process");
let wrong = 0, ended = false;
const sum = () => { let s = 0; for (let i = 0; i < 300000; i++) s += i % 7; return s; };
const hash = () => createHash("sha256").update("cairn".repeat(1000)).digest("hex");
const [firstSum, firstHash] = [sum(), hash()];
setInterval(() => { wrong += sum() !== firstSum || hash() !== firstHash; try { null.x; wrong++; } catch (e) {} }, 1);
setInterval(() => exec("echo child", (error, out) => { if (!ended) wrong += error !== null || out !== "child\\n"; }), 100);
process.stdin.on("end", () => { ended = true; console.log(wrong + " wrong"); process.exitCode = 0; process.exit(); }).resume();
console.log("ready");
"""
JAVA = """
import java.util.zip.CRC32;
public class Load {
    static volatile boolean ended;
    static final java.util.concurrent.atomic.AtomicInteger wrong = new java.util.concurrent.atomic.AtomicInteger();
    static long sum(byte[] data) { CRC32 sum = new CRC32(); sum.update(data); return sum.getValue(); }
    static void compute(int i) {
        byte[] data = new byte[100000 + i];
        for (int k = 0; k < data.length; k++) data[k] = (byte) (k * 31);
        long expected = sum(data);
        while (!ended) {
            if (sum(data.clone()) != expected) wrong.incrementAndGet();
            try { Object nothing = null; nothing.hashCode(); wrong.incrementAndGet(); } catch (NullPointerException e) { }
            try { Thread.sleep(1); } catch (InterruptedException e) { wrong.incrementAndGet(); }
        }
    }
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) { int n = i; threads[i] = new Thread(() -> compute(n)); threads[i].start(); }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        ended = true;
        for (Thread thread : threads) thread.join();
        System.out.println(wrong + " wrong");
    }
}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def wait_for(what):
    limit = time.monotonic() + READY_S
    while True:
        try:
            if what():
                return
        except OSError:
            pass
        if time.monotonic() > limit:
            raise AssertionError("it does not start")
        time.sleep(0.05)


class Load:
    """A program that checks itself: it says "ready", and at the end of its stdin "0 wrong"."""

    def __init__(self, *words, stop=None):
        self.words, self.stop_signal = words, stop
        self.process = None
        self.times = []

    def prepare(self, folder):
        return [os.path.join(folder, word) if word == "Load.java" else word for word in self.words]

    def start(self, folder):
        words = self.prepare(folder)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("it does not start")

    def pids(self):
        return [self.process.pid]

    def begin_measure(self):
        self.times = []

    def finish(self):
        """What is wrong, or None."""
        if self.stop_signal:
            self.process.send_signal(self.stop_signal)
        out, _ = self.process.communicate(timeout=60)
        return None if (self.process.returncode, out) == (0, "0 wrong\n") else f"status {self.process.returncode}, {out!r}"

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class JavaLoad(Load):
    def prepare(self, folder):
        with open(os.path.join(folder, "Load.java"), "w", encoding="utf-8") as out:
            out.write(JAVA)
        return super().prepare(folder)


class Server(Load):
    """A server, and clients that check each answer."""

    def __init__(self):
        super().__init__()
        self.ended = threading.Event()
        self.requests, self.wrong, self.clients = 0, [], []

    def begin_clients(self):
        for i in range(CLIENTS):
            client = threading.Thread(target=self.run_client, args=(i,), daemon=True)
            self.clients.append(client)
            client.start()

    def run_client(self, number):
        try:
            connection = self.connect()
            count = 0
            while not self.ended.is_set():
                count += 1
                begin = time.perf_counter()
                right = self.request(connection, number, count)
                self.times.append(time.perf_counter() - begin)
                if not right:
                    self.wrong.append(f"answer {count} of client {number}")
            self.requests += count
        except (OSError, http.client.HTTPException) as error:
            self.wrong.append(repr(error))

    def end_clients(self):
        self.ended.set()
        for client in self.clients:
            client.join(60)
            if client.is_alive():
                self.wrong.append("a request without an answer")

    def finish(self):
        self.end_clients()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        return f"status {status}" if status else "; ".join(self.wrong[:3]) or None


class Redis(Server):
    def start(self, folder):
        self.path = os.path.join(folder, "redis")
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", folder],
                                        stdout=subprocess.DEVNULL)
        wait_for(self.connect)
        self.begin_clients()

    def connect(self):
        one = socket.socket(socket.AF_UNIX)
        one.connect(self.path)
        return one

    def request(self, connection, number, count):
        connection.sendall(b"INCR client%d\r\n" % number)
        return connection.recv(64) == b":%d\r\n" % count


class Nginx(Server):
    def start(self, folder):
        self.port = free_port()
        self.page = os.urandom(20000).hex().encode()
        with open(os.path.join(folder, "page"), "wb") as out:
            out.write(self.page)
        configuration = os.path.join(folder, "nginx.conf")
        with open(configuration, "w", encoding="utf-8") as out:
            out.write(f"""{'user root;' if os.geteuid() == 0 else ''} daemon off; worker_processes 2; pid {folder}/pid; error_log stderr crit;
events {{ }} http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
server {{ listen 127.0.0.1:{self.port}; root {folder}; }} }}""")
        self.process = subprocess.Popen(["nginx", "-c", configuration])
        wait_for(lambda: socket.create_connection(("127.0.0.1", self.port)).close() or True)
        self.begin_clients()

    def pids(self):
        return [self.process.pid, *children(self.process.pid)]

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, connection, number, count):
        connection.request("GET", "/page")
        return connection.getresponse().read() == self.page


class Postgres(Load):
    """pgbench says how many transactions have failed, and the sums of all tables are equal."""

    def start(self, folder):
        self.folder = os.path.join(folder, "data")
        os.makedirs(self.folder)
        self.user = pwd.getpwnam("postgres").pw_uid if os.geteuid() == 0 else None
        if self.user:
            os.chmod(folder, 0o755)
            os.chown(self.folder, self.user, -1)
        self.log = open(os.path.join(folder, "pgbench"), "w+", encoding="utf-8")  # pylint: disable=consider-using-with
        self.run("initdb", "-D", self.folder, "--no-sync", "-A", "trust")
        self.process = subprocess.Popen(self.command("postgres", "-D", self.folder, "-k", self.folder, "-h", ""), user=self.user,
                                        cwd=self.folder, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.ask("select 1") == "1")
        self.run("pgbench", "-i", "-q", "-h", self.folder, "postgres")
        self.bench = subprocess.Popen(self.command("pgbench", "-n", "-c", str(CLIENTS), "-T", "100000", "-P", "1", "-h", self.folder,
                                                   "postgres"), user=self.user, cwd=self.folder, stdout=self.log, stderr=self.log)
        wait_for(lambda: len(self.pids()) > CLIENTS + 4)

    def command(self, name, *words):
        return [sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1] + "/" + name, *words]

    def run(self, *words):
        subprocess.run(self.command(*words), user=self.user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def ask(self, query):
        return subprocess.run(self.command("psql", "-h", self.folder, "-At", "-c", query, "postgres"), user=self.user, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()

    def pids(self):
        return [self.process.pid, *children(self.process.pid)]

    def finish(self):
        self.bench.send_signal(signal.SIGINT)
        self.bench.wait(60)
        self.log.seek(0)
        said = self.log.read().splitlines()
        odd = [line for line in said if not (line.startswith("progress:") and line.endswith(" 0 failed")) and not
               line.startswith("pgbench (")]
        sums = self.ask("select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)"
                        " and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)")
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(60)
        self.log.close()
        return None if (status, sums, odd) == (0, "t", []) and len(said) > 1 else f"status {status}, sums {sums}, {odd[:3]}"

    def kill(self):
        self.bench.kill()
        self.bench.wait()
        super().kill()


LOADS = {
    "redis": (("redis-server",), Redis),
    "postgresql": (("psql",), Postgres),
    "nginx": (("nginx",), Nginx),
    "python3": ((), lambda: Load("python3", "-c", PYTHON)),
    "java": (("java", "javac"), lambda: JavaLoad("java", "Load.java")),
    "node": (("node",), lambda: Load("node", "-e", NODE)),
    "500 threads": ((), lambda: Load(program("attach_states"), "crowd", stop=signal.SIGTERM)),
    "100 threads": ((), lambda: Load(program("attach_states"), "many", stop=signal.SIGTERM)),
    "longjmp": ((), lambda: Load(program("attach_states"), "jumping", stop=signal.SIGTERM)),
    "exceptions": ((), lambda: Load(program("attach_states"), "exceptions", stop=signal.SIGTERM)),
}


def is_installed(name):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return all(shutil.which(one, path=path) for one in LOADS[name][0])


def handlers(pid):
    """But for that of SIGCHLD, which node has while it has children."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) & ~(1 << (signal.SIGCHLD - 1))


def record(pids, folder, options):
    """How long threads were stopped, in ms; None: a process has ended before it was recorded, or did not get a processor."""
    times = os.path.join(folder, "stops")
    open(times, "w", encoding="ascii").close()
    done = subprocess.run([CAIRN, "record", "-q", "-p", ",".join(map(str, pids)), "--duration", "0.05", "-o",
                           os.path.join(folder, "attached.out"), *options], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "LD_PRELOAD": program("stop_times.so"), "STOP_TIMES": times})
    if done.returncode == 2 and ("try again" in done.stderr or any(not os.path.exists(f"/proc/{pid}") for pid in pids)):
        return None
    if done.returncode:
        raise AssertionError(f"cairn record -p ends with {done.returncode}: {done.stderr}")
    with open(times, encoding="ascii") as file:
        return [int(line) / 1e6 for line in file]


def median_request_us(load):
    load.begin_measure()
    time.sleep(MEASURE_S)
    return statistics.median(load.times) * 1e6 if load.times else None


def run_load(name, rounds, options=()):
    """Raises an error if anything of the program or its load is not as it was. The line to print."""
    load = LOADS[name][1]()
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory() as folder:
        try:
            load.start(folder)
            time.sleep(0.2)
            caught = handlers(load.process.pid)
            before, stops, done = median_request_us(load), [], 0
            while done < rounds:
                if load.process.poll() is not None:
                    raise AssertionError(f"{name}: ended with {load.process.returncode} after {done} rounds")
                found = record(load.pids(), folder, options)
                stops += found or []
                done += found is not None
            after = median_request_us(load)
            if handlers(load.process.pid) != caught:
                raise AssertionError(f"{name}: its signal handlers are others")
            wrong = load.finish()
            if wrong:
                raise AssertionError(f"{name}: {wrong}")
        finally:
            load.kill()
    line = f"{name}: {rounds} rounds, stops of {statistics.median(stops):.2f} ms (median), {max(stops):.1f} ms (longest)"
    return line + (f", requests {load.requests}, {before:.0f} us before, {after:.0f} us afterwards" if before else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--event", default="cpu")
    options = parser.parse_args()
    failed = 0
    for name in options.names or LOADS:
        if not is_installed(name):
            print(f"{name}: not installed", flush=True)
            continue
        try:
            print(run_load(name, options.rounds, ("-e", options.event)), flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
