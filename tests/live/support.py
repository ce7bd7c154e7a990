# SPDX-License-Identifier: MIT
"""Runs a program with and without cairn, and looks at the tree that comes out.

A test says what the program really did, as a call graph: which function may stand below which. No
frame of the tree may contradict it, and the shares of the paths must be those that the program spent.
"""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from collections import defaultdict

CAIRN = os.environ.get("CAIRN", "cairn")
PROGRAMS = os.environ.get("CAIRN_PROGRAMS", ".")

# The storm that hostile programs are put through.
STORM = ("-F", "10000")
MARKERS = ("--marker=on", "--marker=off")

# What the compiler and the linker put into every program: may be seen anywhere.
START_UP = set("_init _fini __do_global_dtors_aux frame_dummy register_tm_clones "
               "deregister_tm_clones __cpu_indicator_init get_available_features [plt]".split())


def program(name):
    """The path of one of our own test programs."""
    return os.path.join(PROGRAMS, name)


def compilers(*names):
    """Those of them that are installed: one at least."""
    found = [name for name in names if shutil.which(name)]
    if not found:
        raise AssertionError("not installed: " + ", ".join(names))
    return found


def installed(*names):
    """Skips a test where a program is missing."""
    missing = [name for name in names if not shutil.which(name)]
    return unittest.skipIf(missing, "not installed: " + ", ".join(missing))


# Of LiveTest.steadily().
BEHIND = 3
MOST_RECORDINGS = 9


class ShareOff(AssertionError):
    """A share of time that was measured is not the one that was spent."""


@contextlib.contextmanager
def shares():
    """Around checks of shares of time: all that steadily() tries again. Everything else fails at the first time."""
    try:
        yield
    except AssertionError as error:
        raise ShareOff(str(error)) from error


class Run:
    """What a program did, as seen from outside."""

    def __init__(self, argv, cwd=None, stdin=b"", env=None, timeout=120):
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)
        try:
            self.out, self.err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise AssertionError(f"still running after {timeout} s: {' '.join(argv)}") from None
        # As a shell shows it: a signal N is 128 + N.
        status = process.returncode
        self.status = status if status >= 0 else 128 - status

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def words(self):
        return self.err.decode(errors="replace")


class Node:
    """One function in one context."""

    def __init__(self, data, parent):
        self.function = data["function"] or "?"
        # C++ names come with their parameters: cut them off, but keep "operator()" and the like.
        self.name = self.function.split("(", 1)[0].split("::")[-1] or self.function
        self.module = os.path.basename(data["module"] or "")
        self.line = data.get("line")
        self.own = data["self"][0]
        self.total = data["total"][0]
        self.calls, self.returns = data.get("calls"), data.get("returns")
        self.inlined = data.get("kind") == "inlined"
        self.parent = parent
        self.children = []
        if parent is not None:
            parent.children.append(self)

    def path(self):
        """Names from the root down to this node, of functions that were really called."""
        names, node = [], self
        while node is not None:
            if not node.inlined:
                names.append(node.name)
            node = node.parent
        return names[::-1]

    def caller(self, module):
        """The nearest frame above that belongs to a module: what lies between is somebody else's."""
        node = self.parent
        while node is not None and (node.inlined or node.module != module):
            node = node.parent
        return node


class Profile:
    """A recorded profile, read through `cairn info` and `cairn report`."""

    def __init__(self, path):
        self.path = path
        self.info = self._json("info", path)
        self._nodes = None

    @staticmethod
    def _json(*arguments):
        done = subprocess.run([CAIRN, *arguments, "--json"], capture_output=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"cairn {arguments[0]}: {done.returncode}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def report(self, *options):
        return self._json("report", self.path, *options)

    @property
    def nodes(self):
        """All nodes, parents before children. The first is the root."""
        if self._nodes is None:
            self._nodes = nodes_of(self.report("--min", "0"))
        return self._nodes

    @property
    def total(self):
        return sum(node.own for node in self.nodes)

    @property
    def samples(self):
        return self.info["samples"]

    @property
    def incomplete(self):
        return self.info["walks"]["truncated"]

    def named(self, name):
        return [node for node in self.nodes if node.name == name]

    def some(self, name):
        """One at least: what is said of each of them is said of something."""
        found = self.named(name)
        if not found:
            raise AssertionError(f"no {name} in the profile")
        return found

    def below(self, *names):
        """Weight of all samples in whose path these names follow each other, others between them or not."""
        return sum(node.own for node in self.nodes if follows(node.path(), names))

    def share(self, *names):
        total = self.total
        return self.below(*names) / total if total else 0.0

    def tolerance(self, share, sigmas=4.5):
        """How far a share may be off by chance alone, and a little more."""
        samples = max(self.samples, 1)
        return sigmas * math.sqrt(max(share * (1 - share), 0.0001) / samples) + 0.005

    def edges(self, module):
        """Who was seen to call whom within a module: {(caller, callee): weight}; "" is the root."""
        weights = defaultdict(int)
        for node in self.nodes:
            if node.module == module and not node.inlined:
                caller = node.caller(module)
                weights[caller.name if caller else "", node.name] += node.total
        return weights


def nodes_of(report):
    by_id, nodes = {}, []
    for data in report["nodes"]:
        node = Node(data, by_id.get(data["parent"]))
        by_id[data["id"]] = node
        nodes.append(node)
    return nodes


def in_rhythm(options, attempt):
    """The rate that is asked for, if there is one, an eighth lower with each attempt."""
    options = list(options)
    if attempt and "-F" in options:
        at = options.index("-F") + 1
        options[at] = str(int(int(options[at]) * (7 / 8) ** attempt))
    return options


def follows(path, names):
    position = 0
    for name in path:
        if position < len(names) and name == names[position]:
            position += 1
    return position == len(names)


class LiveTest(unittest.TestCase):
    """A test case with a folder of its own, and the checks that all live tests share."""

    maxDiff = 4000
    attempt = 0  # of those that steadily() makes

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-live-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    @classmethod
    def for_all(cls):
        """A case to record by once, for all tests of a class: its folder is there until the last one ends."""
        case = LiveTest()
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        return case

    @classmethod
    def record_for_all(cls, name):
        """A profile of a test program, cls.profile, for all tests of a class."""
        case = cls.for_all()
        run, cls.profile = case.record([program(name)])
        case.assertEqual(run.status, 0, run.words)

    def start(self, *argv):
        """A program that says when it is ready."""
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def file(self, name, content=None):
        """The path of a file in the test's folder, made with this content if there is some."""
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as output:
                output.write(content.encode() if isinstance(content, str) else content)
        return path

    def native(self, argv, **how):
        how.setdefault("cwd", self.folder)
        return Run(argv, **how)

    def record(self, argv, *options, **how):
        """Runs a program under cairn: (what it did, its profile)."""
        how.setdefault("cwd", self.folder)
        self.recordings = getattr(self, "recordings", 0) + 1
        path = self.file(f"{self.recordings}.cairn")
        options = in_rhythm(options, self.attempt)
        run = Run([CAIRN, "record", "-q", "-o", path, *options, "--", *argv], **how)
        if not os.path.exists(path):
            self.fail(f"no profile, status {run.status}: {run.words}")
        return run, Profile(path)

    def assert_same(self, run, native):
        """Output and exit status are what they are without cairn."""
        self.assertEqual((run.status, run.words, run.out), (native.status, native.words, native.out))

    def assert_complete(self, profile, share=0.999):
        """Walks that did not reach the root are one in a thousand at most, each time.

        A sample can hit an instruction for which no table is true, in code that nobody here compiled. Four samples did
        in a thousand recordings, on a machine with five times as much to do as processors. Where a program executes
        many such instructions, its test says so, and how many samples hit them.
        """
        samples = profile.samples
        self.assertLessEqual(profile.incomplete, max(1, math.ceil(samples * (1 - share))),
                             f"of {samples} walks: {profile.info['walks']}")

    def assert_sampled(self, profile, samples):
        """There is enough to judge by."""
        self.assertGreaterEqual(profile.samples, samples)
        self.assertEqual(profile.info["tracker"], "walk")

    def assert_calls(self, profile, module, graph, share=0.001):
        """Every frame of a module stands below one that may call it, each time.

        The graph maps callers to what they call; "" stands for the root, "*" for any caller. Of all weight a thousandth
        is allowed below others: one sample or two, as with those that are incomplete.
        """
        allowed = {(caller, callee) for caller, callees in graph.items()
                   for callee in callees.split()}
        allowed |= {("", "_start"), ("_start", "main"), ("", "main")}
        anywhere = START_UP | {callee for caller, callee in allowed if caller == "*"}
        # Entries of the linkage table belong to the module, too: they lead to what is called.
        wrong = {edge: weight for edge, weight in profile.edges(module).items()
                 if edge not in allowed and edge[1] not in anywhere
                 and not edge[1].endswith("@plt")}
        total = profile.total
        self.assertLessEqual(sum(wrong.values()), total * share,
                             f"of {total}, calls that the program does not make: {wrong}")

    def assert_share(self, profile, expected, *names, slack=0.0):
        share = profile.share(*names)
        with shares():
            self.assertAlmostEqual(share, expected, delta=profile.tolerance(expected) + slack,
                                   msg=f"share of {' … '.join(names)}, {profile.samples} samples")

    def steadily(self, record, judge):
        """What is said of shares of time, within shares(), is decided by a sequential test; all else holds each time.

        A virtual machine's processor can be taken away in the middle of a sample, which then weighs
        as much as dozens of others. And a loop that takes as long as the time between two samples is
        hit in the same places all the time: so each recording has another rate.

        Wald's test of how often a share is off: it ends when the recordings that hold are one ahead,
        or those that do not BEHIND. If chance spoils one in twenty, it fails once in 7,000 times.
        A profiler that is wrong in seven of ten recordings fails in 59 % of the tests, one that is in
        nine of ten in 89 % (34 % and 73 % if one of three recordings were enough).
        """
        ahead = 0
        try:
            for self.attempt in range(MOST_RECORDINGS):
                recorded = record()
                try:
                    judge(recorded)
                    ahead += 1
                except ShareOff as error:
                    ahead -= 1
                    off = error
                if ahead > 0:
                    return recorded
                if ahead == -BEHIND:
                    break
            raise off
        finally:
            self.attempt = 0

    def hostile(self, argv, graph=None, samples=100, complete=0.999, options=STORM, judge=None, **how):
        """Native once, then in the storm with the marker on and off. Yields the profiles.

        What else a test says of a profile is its judge(profile): see steadily().
        """
        native = self.native(argv, **how)
        for marker in MARKERS:
            with self.subTest(marker=marker):
                def life():
                    run, profile = self.record(argv, *options, marker, **how)
                    self.assert_same(run, native)
                    return profile

                def weigh(profile):
                    self.assert_complete(profile, complete)
                    self.assert_sampled(profile, samples)
                    if graph is not None:
                        self.assert_calls(profile, os.path.basename(argv[0]), graph)
                    if judge is not None:
                        judge(profile)

                yield self.steadily(life, weigh)

    def survives(self, argv, *arguments, **how):
        """Like hostile(), for those who do not look at the profiles any closer."""
        return list(self.hostile(argv, *arguments, **how))
