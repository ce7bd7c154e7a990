# SPDX-License-Identifier: MIT
"""`cairn doctor` says what works and what to type about the rest, as whoever asks and wherever that is.

Restrictions are simulated: settings by files that are mounted over /proc/sys, containers by seccomp filters.
"""

import json
import os
import subprocess
import sys
import unittest

from support import CAIRN, LiveTest, Run, installed, program

SETTINGS = "/proc/sys/kernel/"
SYSTEM_CALLS = {"perf_event_open": 298, "membarrier": 324}

# Runs the rest of its arguments where some system calls fail with an error.
FILTERED = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
numbers, error = [int(word) for word in sys.argv[1].split(',')], int(sys.argv[2])
code = [(0x20, 0, 0, 0)]
for number in numbers:
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error)]
code += [(0x06, 0, 0, 0x7fff0000)]
text = b''.join(struct.pack('HBBI', *one) for one in code)
buffer = ctypes.create_string_buffer(text, len(text))
program = struct.pack('HxxxxxxP', len(code), ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[3], sys.argv[3:])
"""

# Runs its arguments as a debugger would.
TRACED = """
import ctypes, os, signal, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
child = os.fork()
if child == 0:
    ptrace(0, 0, 0, 0) # PTRACE_TRACEME
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        sys.exit(os.WEXITSTATUS(status))
    number = os.WSTOPSIG(status)
    ptrace(7, child, None, ctypes.c_void_p(0 if number == signal.SIGTRAP else number)) # PTRACE_CONT
"""


class DoctorTest(LiveTest):
    def doctor(self, *arguments, before=(), status=None, env=None):
        run = Run([*before, CAIRN, "doctor", *arguments, "--json"], cwd=self.folder,
                  env=dict(os.environ, **env) if env else None)
        self.assertIn(run.status, (0, 1) if status is None else (status,), run.text + run.words)
        answer = json.loads(run.text)
        self.assertEqual(answer["ok"], run.status == 0)
        for check in answer["checks"]:
            self.assertIn(check["mark"], ("ok", "limited", "no"))
            self.assertTrue(check["finding"])
            if check["mark"] == "ok":
                self.assertIsNone(check["remedy"], check)
        return {check["name"]: check for check in answer["checks"]}

    def mounted(self, *options):
        """Words that run a command where something else is mounted."""
        words = ["bwrap", "--dev-bind", "/", "/", *options]
        if Run([*words, "true"]).status:
            self.skipTest("mounts are not permitted here")
        return words

    def with_file(self, path, text):
        """Words that run a command where a file says something else."""
        with open(self.file("instead"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.mounted("--bind", self.file("instead"), path)

    def filtered(self, error, *names):
        numbers = ",".join(str(SYSTEM_CALLS[name]) for name in names)
        return [sys.executable, "-c", FILTERED, numbers, str(error)]


def user(*more):
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *more]


class Machine(DoctorTest):
    def test_everything_is_said(self):
        checks = self.doctor()
        for name in ("cpu", "wall", "alloc", "io", "lock", "calls", "agent", "memory file", "memory", "locked pages", "ptrace",
                     "record -p", "marker", "kernel", "user", "debuginfod", "libc"):
            self.assertIn(name, checks)
        listed = {event["name"]: event for event in json.loads(Run([CAIRN, "list", "--json"]).text)["events"]}
        self.assertEqual(checks["cpu"]["mark"] != "no", listed["cpu"]["works"])
        self.assertEqual(checks["wall"]["mark"] == "ok", listed["wall"]["works"])
        self.assertIn(listed["cpu"]["source"], checks["cpu"]["finding"])

    def test_processes(self):
        """As `cairn record -p` has it."""
        run = Run([CAIRN, "doctor", "4194303"])
        self.assertIn("there is no process 4194303", run.text)
        self.assertIn("Process 4194303 cannot be recorded here", run.text)
        self.assertEqual(run.status, 1)
        with subprocess.Popen([program("static"), "stays"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            run = Run([CAIRN, "doctor", str(process.pid)])
            process.kill()
        self.assertIn("statically linked", run.text)
        self.assertIn("sampled from outside", " ".join(run.text.split()))
        with subprocess.Popen(["sleep", "60"]) as process:
            run = Run([CAIRN, "doctor", str(process.pid)])
            process.kill()
        self.assertIn(f"process {process.pid} can be recorded", " ".join(run.text.split()))
        self.assertIn(f"cairn record -p {process.pid}\n", run.text)
        self.assertEqual(run.status, 0)

    def test_it_fits_the_terminal(self):
        """No line is wider than 80 columns, in pipes too, and none is cut in a word."""
        for program in ([], ["perl"], [sys.executable]):
            run = Run([CAIRN, "doctor", *program], env=dict(os.environ, LC_ALL="C.UTF-8"))
            self.assertLessEqual(max(len(line) for line in run.text.splitlines()), 80, run.text)
            self.assertTrue(all(line.startswith((" ", "ok ", "limited ", "no ", "Recording", "Programs")) or not line
                                for line in run.text.splitlines()), run.text)

    @installed("bwrap")
    def test_low_settings_are_named_with_their_remedy(self):
        """What is too low is named with the command that raises it."""
        checks = self.doctor(before=self.with_file(SETTINGS + "perf_event_max_sample_rate", "500\n"))
        self.assertEqual(checks["rate"]["mark"], "limited")
        self.assertIn("500 a second", checks["rate"]["finding"])
        self.assertEqual(checks["rate"]["remedy"], "sudo sysctl kernel.perf_event_max_sample_rate=100000")
        checks = self.doctor(before=self.with_file(SETTINGS + "perf_event_max_sample_rate", "100000\n"))
        self.assertEqual(checks["rate"]["mark"], "ok")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_ordinary_user(self):
        os.chmod(self.folder, 0o755)
        checks = self.doctor(before=user(), status=0)
        self.assertIn("ordinary user", checks["user"]["finding"])
        with open(SETTINGS + "perf_event_paranoid", encoding="utf-8") as file:
            paranoid = int(file.read())
        if paranoid > 1:
            for name in ("wall", "kernel"):
                self.assertNotEqual(checks[name]["mark"], "ok")
                self.assertEqual(checks[name]["remedy"], "sudo sysctl kernel.perf_event_paranoid=1")
            self.assertIn(f"kernel.perf_event_paranoid is {paranoid}", checks["wall"]["finding"])
            # 'list' and 'record' say the same.
            run = Run(user(CAIRN, "list"))
            self.assertIn("sudo sysctl kernel.perf_event_paranoid=1", " ".join(run.text.split()))
            run = Run(user(CAIRN, "record", "-e", "wall", "true"), cwd="/")
            self.assertIn("sudo sysctl kernel.perf_event_paranoid=1", run.words)
            self.assertEqual(run.status, 2)

    def test_a_filter_is_told_from_a_setting(self):
        """A filter that forbids perf events is told from a setting, and timers still record."""
        for error in (1, 38): # EPERM, ENOSYS
            checks = self.doctor(before=self.filtered(error, "perf_event_open"), status=0)
            self.assertEqual(checks["cpu"]["mark"], "limited")
            self.assertIn("timers", checks["cpu"]["finding"])
            self.assertIn("seccomp", checks["cpu"]["finding"])
            self.assertIn("seccomp=unconfined", checks["cpu"]["remedy"])
            self.assertEqual(checks["wall"]["mark"], "no")
            self.assertIn("seccomp filter", checks["container"]["finding"])
        checks = self.doctor(before=self.filtered(1, "membarrier"), status=0)
        self.assertEqual(checks["calls"]["mark"], "limited")
        self.assertIn("cairn cc", checks["calls"]["remedy"])

    @installed("bwrap")
    def test_names_of_the_kernel(self):
        """Addresses of zero are hidden ones."""
        if self.doctor()["kernel"]["mark"] != "ok":
            self.skipTest("hidden here anyway")
        checks = self.doctor(before=self.with_file("/proc/kallsyms", "0000000000000000 T _text\n" * 3))
        self.assertEqual(checks["kernel"]["mark"], "limited")
        self.assertEqual(checks["kernel"]["remedy"], "sudo sysctl kernel.kptr_restrict=0")

    @installed("bwrap")
    def test_memory_of_a_group(self):
        """Of either version of control groups."""
        groups = self.file("groups")
        os.makedirs(groups + "/memory")
        for name in ("memory.max", "memory/memory.limit_in_bytes"):
            with open(os.path.join(groups, name), "w", encoding="utf-8") as file:
                file.write("536870912\n")
        checks = self.doctor(before=self.mounted("--bind", groups, "/sys/fs/cgroup"), status=0)
        self.assertEqual(checks["memory"]["mark"], "limited")
        self.assertIn("call paths may take 33", checks["memory"]["finding"])
        self.assertIn("--tree hot", checks["memory"]["remedy"])

    def test_under_a_debugger(self):
        checks = self.doctor(before=[sys.executable, "-c", TRACED], status=1)
        self.assertEqual(checks["ptrace"]["mark"], "no")
        self.assertIn("cairn record -- strace", checks["ptrace"]["remedy"])

    def test_memory_limits_are_named(self):
        checks = self.doctor(before=["sh", "-c", "ulimit -v 4000000; exec \"$0\" \"$@\""])
        self.assertEqual(checks["memory"]["mark"], "limited")
        self.assertEqual(checks["memory"]["remedy"], "ulimit -v unlimited")

    @installed("bwrap")
    def test_without_proc(self):
        """Something essential is missing: the exit status says so."""
        words = self.mounted("--tmpfs", "/proc")
        checks = self.doctor(before=words, status=1)
        self.assertEqual(checks["memory file"]["mark"], "no")
        self.assertTrue(checks["memory file"]["essential"])
        run = Run([*words, CAIRN, "doctor"])
        self.assertIn("cannot be recorded here", run.text)

    def test_debuginfod(self):
        checks = self.doctor(env={"DEBUGINFOD_URLS": ""})
        self.assertEqual(checks["debuginfod"]["mark"], "limited")
        self.assertIn("export DEBUGINFOD_URLS=https://", checks["debuginfod"]["remedy"])
        checks = self.doctor(env={"DEBUGINFOD_URLS": "http://127.0.0.1:1"})
        self.assertEqual(checks["debuginfod"]["mark"], "ok")

    def test_misuse_is_named(self):
        for words, expected in ((["--jsn"], "no option --jsn"), (["true", "false"], "one program at a time"),
                                (["no-such-program"], "command not found"), (["/"], "is a directory")):
            run = Run([CAIRN, "doctor", *words])
            self.assertEqual((run.status, run.text), (2, ""), run.words)
            self.assertIn(expected, run.words)


class Programs(DoctorTest):
    def build(self, *flags, source="int main(void) { return 0; }\n", name="program"):
        with open(self.file("program.c"), "w", encoding="utf-8") as file:
            file.write(source)
        subprocess.run(["gcc", "-o", self.file(name), self.file("program.c"), *flags], check=True)
        return self.file(name)

    def test_names_of_a_build_are_said(self):
        """What a build has is said: lines, names, or the exported ones."""
        expected = {("-g",): ("ok", "lines"), (): ("limited", "no lines"), ("-s",): ("limited", "stripped")}
        for flags, (mark, words) in expected.items():
            checks = self.doctor(self.build(*flags), status=0)
            self.assertEqual(checks["program"]["mark"], "ok")
            self.assertEqual(checks["names"]["mark"], mark)
            self.assertIn(words, checks["names"]["finding"])
            if mark != "ok":
                self.assertIn("compile it with -g", checks["names"]["remedy"])

    @installed("perl")
    def test_packages_with_names_are_said(self):
        """A program of the distribution's: which packages have its names. A script is its interpreter's."""
        script = self.file("script")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/perl\n")
        os.chmod(script, 0o755)
        checks = self.doctor(script, status=0)
        self.assertIn("script of /usr/bin/perl", checks["program"]["finding"])
        self.assertIn("interpreter", checks["language"]["finding"])
        if checks["names"]["mark"] != "ok":
            self.assertIn("sudo apt install perl-base-dbgsym", checks["names"]["remedy"])

    def test_programs_that_cannot_be_entered(self):
        static = self.build("-static", name="static")
        checks = self.doctor(static, status=0)
        self.assertEqual(checks["program"]["mark"], "limited")
        self.assertIn("sampled from outside", checks["program"]["finding"])
        self.assertIn("statically linked", checks["program"]["finding"])
        self.assertIn("without -static", checks["program"]["remedy"])
        checks = self.doctor(static, before=[program("without_perf")], status=1)
        self.assertEqual(checks["program"]["mark"], "no")
        self.assertIn("statically linked", checks["program"]["finding"])
        self.assertIn("cannot be recorded here", Run([program("without_perf"), CAIRN, "doctor", static]).text)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_setuid_programs_are_refused(self):
        os.chmod(self.folder, 0o755)
        path = self.build(name="setuid")
        os.chmod(path, 0o4755)
        checks = self.doctor(path, before=user(), status=1)
        self.assertIn("it is setuid", checks["program"]["finding"])
        self.assertIn("copy of the file", checks["program"]["remedy"])

    @installed("musl-gcc")
    def test_musl(self):
        with open(self.file("musl.c"), "w", encoding="utf-8") as file:
            file.write("int main(void) { return 0; }\n")
        subprocess.run(["musl-gcc", "-o", self.file("musl"), self.file("musl.c")], check=True)
        self.assertIn("musl", self.doctor(self.file("musl"), status=0)["program"]["finding"])

    def test_the_program_is_not_run(self):
        """Nor is a loader of its own, which could be anything."""
        loader, mark = self.file("loader"), self.file("mark")
        with open(loader, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ntouch {mark}\n")
        os.chmod(loader, 0o755)
        checks = self.doctor(self.build("-Wl,--dynamic-linker=" + loader), status=0)
        self.assertNotIn("libraries", checks)
        self.assertFalse(os.path.exists(mark))
        self.assertIn("libraries", self.doctor(self.build(), status=0))

    @installed("node")
    def test_node(self):
        self.assertIn("--perf-basic-prof", self.doctor("node", status=0)["language"]["remedy"])


if __name__ == "__main__":
    unittest.main()
