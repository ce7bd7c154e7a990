# SPDX-License-Identifier: MIT
"""Kills both processes of `cairn record -p` while they come into a program or leave it.

    attach_kills.py COUNT [SEED]     so many kills at random, over all states of the program

The library kill_at counts the calls with which cairn looks at the program or changes it, and kills before one of them. Whatever
the number is, the program ends with status 0 and right results. The calls in FAILING may fail with EINTR: the kernel fails them
where a stop interrupts them, and cairn is killed before it can have them made again.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time

from support import CAIRN, program

STATES = ("sleeper", "epoll", "vectors", "fork", "exceptions", "coroutine", "coroutines", "interrupted", "locked", "many",
          "jumping")
FAILING = re.compile(r"(epoll_wait|recv|semtimedop|epoll_pwait2|sigtimedwait): Interrupted system call")
LIBC_SIGNALS = 3 << 31  # it handles them as soon as there are threads
LIKELY_CALLS = 250  # of a recording, which has the fewest in a program of one thread: kills at random come before


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


class Victim:
    """A program in one of the states."""

    def __init__(self, state):
        self.state = state
        self.process = subprocess.Popen([program("attach_states"), state], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.process.stdout.readline()
        self.handlers = self.caught()

    def caught(self):
        caught = re.search(r"SigCgt:\s*(\w+)", read(f"/proc/{self.process.pid}/status")).group(1)
        return int(caught, 16) & ~LIBC_SIGNALS

    def is_traced(self):
        folder = f"/proc/{self.process.pid}/task"
        return any("TracerPid:\t0\n" not in read(f"{folder}/{task}/status") and os.path.exists(f"{folder}/{task}")
                   for task in os.listdir(folder))

    def record(self, number, duration="0.02"):
        """Whether cairn came to its end before the call of that number. 0: it is not killed."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "LD_PRELOAD": program("kill_at.so"), "KILL_AT": str(number)}
            done = subprocess.run([CAIRN, "record", "-q", "-p", str(self.process.pid), "--duration", duration,
                                   "-o", os.path.join(folder, "killed.out")],
                                  env=environment, capture_output=True, text=True, timeout=120, check=False)
        if self.process.poll() is not None:
            raise AssertionError(f"{self.state}: ended with {self.process.returncode} at call {number}: "
                                 + self.process.stderr.read())
        if "try again" in done.stderr:  # what a killed tool has begun is not done yet: end() sees whether it ever is
            return False
        if done.returncode not in (0, -9):
            raise AssertionError(f"{self.state}: cairn says at call {number}: {done.stderr}")
        while self.is_traced():  # the kernel is about to see to it
            time.sleep(0.001)
        return done.returncode == 0

    def end(self):
        """Leaves it in good order, and looks at what it has done."""
        self.record(0, "0.1")
        if self.caught() != self.handlers:
            raise AssertionError(f"{self.state}: signal handlers are {self.caught():x}, not {self.handlers:x}")
        self.process.terminate()
        out, complaints = self.process.communicate(timeout=60)
        unknown = [line for line in complaints.splitlines() if not FAILING.fullmatch(line)]
        expected = 1 if complaints else 0
        if unknown or self.process.returncode != expected or (not complaints and out != "0 wrong\n"):
            raise AssertionError(f"{self.state}: status {self.process.returncode}, {out}{complaints}")

    def stop(self):
        self.process.kill()
        self.process.communicate()


def sweep(state, first, step):
    """Kills before each step-th call, until cairn comes to its end. How often that was.

    Where an answer is long in coming, most calls look for it, one like the other: a crowded machine may make thousands of them.
    """
    victim = Victim(state)
    try:
        number, kills = first, 0
        while not victim.record(number):
            number += step if number < LIKELY_CALLS else number // 4
            kills += 1
        victim.end()
        return kills
    finally:
        victim.stop()


def kill_at_random(count, seed):
    """A line for each state."""
    choose = random.Random(seed)
    for i, state in enumerate(STATES):
        victim = Victim(state)
        killed = 0
        most = LIKELY_CALLS
        share = count // len(STATES) + (i < count % len(STATES))
        try:
            while killed < share:
                number = choose.randint(1, most)
                if victim.record(number):
                    most = max(1, number - 1)
                else:
                    killed += 1
            victim.end()
        finally:
            victim.stop()
        print(f"attach: {killed} kills in state {state}", flush=True)


if __name__ == "__main__":
    kill_at_random(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
