# SPDX-License-Identifier: MIT
"""Running one command and saying what it cost: CPU of the whole tree, wall time, output, memory."""

import contextlib
import ctypes
import dataclasses
import hashlib
import os
import random
import shutil
import signal
import statistics
import struct
import threading
import time


@dataclasses.dataclass
class Run:
    status: int  # exit status, or 128 + signal
    cpu: float  # user + system seconds of the command and all that it waited for
    wall: float
    digest: str  # of what it wrote to stdout
    errors: str  # what it wrote to stderr
    peak: int = 0  # bytes, only from run_watched()
    foreign: float = 0.0  # CPU seconds that others used meanwhile


def _spawn(argv, cwd, env, out_path, err_path, in_path=os.devnull, prepare=lambda: None):
    """A child with its own stdin, stdout and stderr. fork+exec by hand: no shell, no helper
    process whose time would count."""
    pid = os.fork()
    if pid:
        return pid
    try:
        prepare()
        os.chdir(cwd)
        for path, flags, fd in ((in_path, os.O_RDONLY, 0),
                                (out_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1),
                                (err_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2)):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, fd)
            if opened > 2:
                os.close(opened)
        os.execve(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _exit_status(raw):
    return 128 + os.WTERMSIG(raw) if os.WIFSIGNALED(raw) else os.WEXITSTATUS(raw)


def _finish(raw, usage, began, out_path, err_path, peak=0, digest=_digest):
    return Run(status=_exit_status(raw), cpu=usage.ru_utime + usage.ru_stime,
               wall=time.monotonic() - began, digest=digest(out_path), errors=_text(err_path),
               peak=peak)


def run(argv, work, env=None, cwd=None, stdin=os.devnull):
    """Runs argv (argv[0] is a path) to its end."""
    out_path, err_path = os.path.join(work, "stdout"), os.path.join(work, "stderr")
    busy = _busy()
    began = time.monotonic()
    pid = _spawn(argv, cwd or work, dict(os.environ, **(env or {})), out_path, err_path, stdin)
    _, raw, usage = os.wait4(pid, 0)
    busy = _busy() - busy
    result = _finish(raw, usage, began, out_path, err_path)
    result.foreign = max(0.0, busy - result.cpu)
    return result


SCHED_SETATTR = 314
TURN_NS = 10_000_000


def _take_long_turns():
    """Turns that are long enough for what a switch costs, where the kernel lets choose them."""
    attributes = struct.pack("<IIQiIQQQ", 48, 0, 0, 0, 0, TURN_NS, 0, 0)
    ctypes.CDLL(None).syscall(SCHED_SETATTR, 0, attributes, 0)


def _take_turns():
    """In long turns on one processor."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    _take_long_turns()


def _kill_families(pids):
    for pid in pids:
        for member in _family(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


@contextlib.contextmanager
def _time_limit(running, seconds):
    """Kills what is still running (a dict by process id) after that long, with all that it started; None: never."""
    timer = threading.Timer(seconds, lambda: _kill_families(list(running))) if seconds else None
    if timer:
        timer.start()
    try:
        yield
    finally:
        if timer:
            timer.cancel()


def _own_folder(work, number):
    path = os.path.join(work, f"run-{number}")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def run_together(commands, work, apart=False, spread_out=False, limit=None, digest=_digest):
    """Runs them all at once, in turns on one processor: {name: Run} of {name: (argv, env, stdin)}, in an order of start
    as given. What others do, and how fast the machine happens to be, changes by the second and by a tenth and more; so it
    is the same for all of them, and the ratios of their CPU times are steady to half a percent. apart: each in an empty
    folder of its own, its stdout being `stdout` there; spread_out: on all processors, for programs with threads; limit: killed
    after so many seconds; digest: of what it has written, by the path of its stdout."""
    began, running, done, paths = time.monotonic(), {}, {}, {}
    for number, (name, (argv, env, stdin)) in enumerate(commands.items()):
        folder = _own_folder(work, number) if apart else work
        paths[name] = [os.path.join(folder, what if apart else f"{what}-{number}") for what in ("stdout", "stderr")]
        pid = _spawn(argv, folder, dict(os.environ, **(env or {})), *paths[name], stdin,
                     _take_long_turns if spread_out else _take_turns)
        running[pid] = name
    with _time_limit(running, limit):
        while running:
            pid, raw, usage = os.wait4(-1, 0)
            name = running.pop(pid)
            done[name] = _finish(raw, usage, began, *paths[name], digest=digest)
    return done


def rounds_together(place, tools, argv, env, rounds, seed):
    """All tools at once, in another order each round: what each did, and its profile, by names; the first is `native`."""
    order = random.Random(seed)
    for _ in range(rounds):
        outputs = {tool.name: place.profile(tool.name) for tool in tools}
        commands = {}
        for tool in order.sample(tools, len(tools)):
            command, more = tool.command(argv, outputs[tool.name])
            commands[tool.name] = (command, dict(env, **more), os.devnull)
        yield run_together(commands, place.work), outputs


def _busy():
    """CPU seconds that the whole machine has worked, to the hundredth."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _wait_for_quiet(seconds):
    """Waits until others leave the machine alone, for at most that long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = _busy()
        time.sleep(0.2)
        if _busy() - before <= 0.02:
            return


class Patience:
    """What others do at the same time shows in every number. A run that was disturbed is done again,
    as long as the patience lasts; how often that did not help is told."""

    FOREIGN = 0.04  # CPU seconds of others for each second of the run

    def __init__(self, seconds):
        self.left = seconds
        self.runs = self.disturbed = 0

    def run(self, argv, work, env=None, cwd=None, stdin=os.devnull):
        self.runs += 1
        began = time.monotonic()
        while True:
            _wait_for_quiet(min(self.left, 20))
            result = run(argv, work, env, cwd, stdin)
            spent, began = time.monotonic() - began - result.wall, time.monotonic()
            quiet = result.foreign <= 0.03 + self.FOREIGN * result.wall
            self.left -= max(0.0, spent - 0.3) + (0 if quiet else result.wall)
            if quiet or self.left <= 0:
                self.disturbed += not quiet
                return result


def _family(root):
    """The process root and all its descendants that live now."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                pass  # it ended just now
    family, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return family


def _memory(pid):
    """The process's share of the memory it uses: pages that two processes use count half to each."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # it ended just now
    return 0


def run_watched(argv, work, env=None, cwd=None, interval=0.02):
    """As run(), and watches how much memory the whole tree takes at its peak. The watching disturbs:
    do not use its times."""
    out_path, err_path = os.path.join(work, "stdout"), os.path.join(work, "stderr")
    began = time.monotonic()
    pid = _spawn(argv, cwd or work, dict(os.environ, **(env or {})), out_path, err_path)
    peak = 0
    while True:
        peak = max(peak, sum(_memory(member) for member in _family(pid)))
        done, raw, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return _finish(raw, usage, began, out_path, err_path, peak)
        time.sleep(interval)


def median(values):
    return statistics.median(values)


def spread(values):
    """Half the distance of the quartiles, over the median."""
    if len(values) < 3:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle
