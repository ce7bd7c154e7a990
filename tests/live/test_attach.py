# SPDX-License-Identifier: MIT
"""`cairn record -p`: comes into a process that runs, and leaves it as it was."""

import os
import shutil
import signal
import subprocess
import time
import unittest

from attach_kills import STATES, sweep
from attach_loads import is_installed, run_load
from support import CAIRN, LiveTest, Profile, program


def status(pid, *fields):
    """These lines of /proc/PID/status, for each thread."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
                lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        except OSError:
            continue
        found[int(task)] = {field: lines[field] for field in fields}
    return found


def children(pid):
    """The recorder of a `cairn record`."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


class Attach(LiveTest):
    def attach(self, process, *options, expected=0):
        path = os.path.join(self.folder, "attached.out")
        done = subprocess.run([CAIRN, "record", "-p", str(process.pid), "-o", path, *options],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, expected, done.stderr)
        return Profile(path) if expected == 0 else done.stderr

    def end(self, process):
        process.terminate()
        out, _ = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (0, "0 wrong\n"))

    def test_a_program_of_one_thread(self):
        process = self.start(program("attached"), "alone")
        before = status(process.pid, "SigCgt", "SigBlk", "SigIgn")
        for _ in range(2):
            profile = self.attach(process, "--duration", "0.3")
            self.assertEqual(status(process.pid, "SigCgt", "SigBlk", "SigIgn"), before)
        self.end(process)
        self.assertEqual(profile.info["samples_lost"], 0)
        paths = {tuple(node.path()[-3:]) for node in profile.nodes}
        self.assertIn(("compute", "long_one", "work"), paths)

    def test_threads_and_children(self):
        process = self.start(program("attached"))
        for _ in range(2):
            profile = self.attach(process, "--duration", "0.3")
            self.assertTrue(all(one["SigCgt"][-5:-3] == "04" for one in
                                status(process.pid, "SigCgt").values()))
        self.end(process)
        names = {node.name for node in profile.nodes}
        self.assertLessEqual({"compute_deeply", "deep", "compute", "long_one"}, names)
        self.assertGreater(profile.info["processes"], 1)

    def test_shares_are_those_of_the_program(self):
        process = self.start(program("attached"), "alone")
        profile = self.attach(process, "--duration", "0.5")
        total = {name: sum(node.total for node in profile.nodes if node.name == name)
                 for name in ("long_one", "short_one")}
        self.assertGreater(total["long_one"], total["short_one"])
        self.assertGreater(profile.info["walks"]["complete_pct"], 99)
        self.end(process)

    def waiting_of(self, process, *options):
        """Wall time by function: of the second recording, which finds the agent there."""
        for _ in range(2):
            profile = self.attach(process, "--duration", "0.5", *options)
        report = profile.report("--metric", "all")
        wall = [metric["name"] for metric in report["metrics"]].index("wall")
        found = {}
        for node in report["nodes"]:
            found[node["function"]] = found.get(node["function"], 0) + node["total"][wall]
        return found

    def test_threads_that_wait_are_found_where_they_wait(self):
        """Those that wait all the time have no tick: they are asked when cairn goes."""
        process = self.start(program("attached"))
        for options in (("-e", "wall"), ("-e", "cpu", "-e", "wall")):
            with self.subTest(options=options):
                total = self.waiting_of(process, *options)
                for name in ("wait_for_the_end", "sleep_a_while", "poll_nothing", "wait_for_events", "wait_for_semaphore"):
                    self.assertGreater(total.get(name, 0), 0.4e9, name)
        self.assertTrue(all(one["SigCgt"][-5:-3] == "04" for one in status(process.pid, "SigCgt").values()))
        self.end(process)

    def test_waiting_ends_as_it_would_have(self):
        for state in ("sleeper", "interrupted", "many", "vfork"):
            with self.subTest(state=state):
                self.stays_as_it_was(state, 2, "-e", "wall")

    def stays_as_it_was(self, state, times=3, *options):
        process = self.start(program("attach_states"), state)
        for _ in range(times):
            self.attach(process, "--duration", "0.1", *options)
        self.end(process)

    def test_computing_goes_on_as_it_was(self):
        for state in ("vectors", "exceptions", "fork"):
            with self.subTest(state=state):
                self.stays_as_it_was(state)

    def test_no_call_fails_and_no_sleep_ends_early(self):
        for state in ("sleeper", "epoll", "interrupted", "many"):
            with self.subTest(state=state):
                self.stays_as_it_was(state)

    def test_small_stacks_are_not_written_to(self):
        for state in ("coroutine", "coroutines"):
            with self.subTest(state=state):
                self.stays_as_it_was(state)

    def test_the_thread_that_is_stopped_may_hold_a_lock_that_the_loader_waits_for(self):
        self.stays_as_it_was("locked")

    def test_threads_that_do_not_stop_are_left_alone(self):
        self.stays_as_it_was("vfork")

    def test_a_thread_that_is_confined(self):
        process = self.start(program("attach_states"), "confined")
        while not any(one["Seccomp"] == "2" for one in status(process.pid, "Seccomp").values()):
            time.sleep(0.01)
        self.assertIn("a thread of it, is confined", self.refused(process.pid, "--tree", "hot"))
        self.end(process)

    def attached_for_long(self):
        process = self.start(program("attached"), "alone")
        path = os.path.join(self.folder, "attached.out")
        record = subprocess.Popen([CAIRN, "record", "-p", str(process.pid), "-o", path],
                                  stderr=subprocess.PIPE, text=True)
        self.wait_for_agent(process.pid)
        time.sleep(0.1)
        return process, record, path

    def test_the_end_of_the_process_ends_the_recording(self):
        process, record, _ = self.attached_for_long()
        self.end(process)
        self.assertIn("next: cairn report", record.communicate(timeout=30)[1])
        self.assertEqual(record.returncode, 0)

    def wait_for_agent(self, pid):
        while True:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                if int(file.read().split("SigCgt:\t")[1].split()[0], 16) & 1 << (signal.SIGTRAP - 1):
                    return

    def test_control_c_ends_the_recording(self):
        process, record, path = self.attached_for_long()
        record.send_signal(signal.SIGINT)
        record.communicate(timeout=30)
        self.assertEqual(record.returncode, 0)
        self.assertGreater(len(Profile(path).nodes), 1)
        self.end(process)

    def test_killed_tools_harm_nobody(self):
        process = self.start(program("attached"))
        path = os.path.join(self.folder, "killed.out")
        for i in range(6):
            record = subprocess.Popen([CAIRN, "record", "-q", "-p", str(process.pid), "-o", path],
                                      stderr=subprocess.DEVNULL)
            time.sleep(0.05 * i)
            recorders = children(record.pid)
            for victim in ([record.pid], recorders, [record.pid, *recorders])[i % 3]:
                os.kill(victim, signal.SIGKILL)
            record.kill()
            record.wait()
            for recorder in recorders:  # one that lives on leaves the program first
                while os.path.exists(f"/proc/{recorder}"):
                    time.sleep(0.01)
            self.assertIsNone(process.poll())
        self.attach(process, "--duration", "0.3")
        self.assertTrue(all(one["SigCgt"][-5:-3] == "04" for one in
                            status(process.pid, "SigCgt").values()))
        self.end(process)

    def test_a_tool_that_is_killed_before_any_of_its_calls_harms_nobody(self):
        for i, state in enumerate(STATES):
            with self.subTest(state=state):
                self.assertGreater(sweep(state, 1 + i, 9 if state != "many" else 31), 5)

    def test_loads_get_what_they_ask_for(self):
        """`make torture` does more of them, two hundred times."""
        for name in ("python3", "java", "longjmp", "500 threads"):
            with self.subTest(load=name):
                if is_installed(name):
                    run_load(name, 2)
                    run_load(name, 1, ("-e", "wall"))

    def refused(self, pid, *options):
        done = subprocess.run([CAIRN, "record", "-p", str(pid), "-o",
                               os.path.join(self.folder, "refused.out"), *options],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_what_cannot_be_entered(self):
        self.assertIn("there is no process", self.refused(4194303))
        self.assertIn("is not a process", self.refused("x"))
        self.assertIn("not both", self.refused(1, "true"))
        with subprocess.Popen([program("static"), "stays"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as static:
            self.assertIn("statically linked", self.refused(static.pid, "--tree", "hot"))
        zombie = subprocess.Popen(["true"])
        while status(zombie.pid, "State")[zombie.pid]["State"][0] != "Z":
            time.sleep(0.01)
        self.assertIn("has ended", self.refused(zombie.pid))
        zombie.wait()
        process = self.start(program("attached"), "alone")
        self.assertIn("-p cannot record -e offcpu", self.refused(process.pid, "-e", "offcpu"))
        self.assertIn("-p cannot record -e page-faults", self.refused(process.pid, "-e", "page-faults"))
        self.assertIn("by walking stacks", self.refused(process.pid, "--track", "calls"))
        process.send_signal(signal.SIGSTOP)
        while status(process.pid, "State")[process.pid]["State"][0] != "T":
            time.sleep(0.01)
        self.assertIn("is stopped", self.refused(process.pid))
        process.send_signal(signal.SIGCONT)
        self.end(process)

    def elsewhere(self, *words, shell):
        """A copy of the program, which does not need what the shell hides, in namespaces of its own."""
        copy = shutil.copy(program("attached"), self.folder)
        return self.start("unshare", *words, "sh", "-c", f"{shell}exec {copy} alone")

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("unshare"), "needs root, and unshare")
    def test_a_service_with_folders_of_its_own(self):
        process = self.elsewhere("-m", shell="mount -t tmpfs none /mnt; ")
        self.assertNotEqual(os.readlink(f"/proc/{process.pid}/ns/mnt"), os.readlink("/proc/self/ns/mnt"))
        profile = self.attach(process, "--duration", "0.3")
        self.end(process)
        self.assertIn(("compute", "long_one", "work"), {tuple(node.path()[-3:]) for node in profile.nodes})

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("unshare"), "needs root, and unshare")
    def test_what_does_not_see_the_agent_or_the_tool(self):
        hidden = self.elsewhere("-m", shell=f"mount -t tmpfs none {os.path.dirname(os.path.realpath(CAIRN))}; ")
        self.assertIn("sees other files", self.refused(hidden.pid))
        self.end(hidden)
        apart = self.elsewhere("-m", shell="mount -t tmpfs none /proc; ")
        self.assertIn("a /proc of its own", self.refused(apart.pid))
        self.end(apart)

    def test_one_recording_at_a_time(self):
        process = self.start(CAIRN, "record", "-q", "-o", os.path.join(self.folder, "first.out"),
                             program("attached"), "alone")
        pids = [pid for child in children(process.pid) for pid in children(child)]
        self.assertEqual(len(pids), 1)
        self.assertIn("is profiled already", self.refused(pids[0]))
        os.kill(pids[0], signal.SIGTERM)
        self.assertEqual(process.communicate(timeout=30)[0], "0 wrong\n")


if __name__ == "__main__":
    unittest.main()
