# SPDX-License-Identifier: MIT
"""The numbers are true: they are compared with what the program and the kernel measured themselves."""

import math
import os
import shutil
import subprocess
import sys
import unittest

from support import CAIRN, MARKERS, LiveTest, Profile, Run, installed, nodes_of, program, shares


class Figure1(LiveTest):
    """The csprof paper's program: a and b spend the same below c, but b calls it twice as often."""

    def test_time_and_returns(self):
        argv = [program("figure1")]
        for marker in MARKERS:
            with self.subTest(marker=marker):
                def life():
                    run, profile = self.record(argv, "-F", "4000", marker)
                    self.assertEqual(run.status, 0)
                    return profile

                def judge(profile):
                    self.assert_complete(profile)
                    self.assert_calls(profile, "figure1", {"main": "a b", "a": "c", "b": "c", "c": "d"})
                    time_in_a, time_in_b = profile.below("a", "c"), profile.below("b", "c")
                    with shares():
                        self.assertAlmostEqual(time_in_a / (time_in_a + time_in_b), 0.5, delta=0.02)
                    if marker == "--marker=on":
                        returns = {name: sum(node.returns or 0 for node in profile.named("c")
                                             if node.parent.name == name) for name in "ab"}
                        # c is sampled in each of its calls, so each of its returns is seen.
                        self.assertEqual(returns, {"a": 16, "b": 32})

                self.steadily(life, judge)


class Endings(LiveTest):
    """Returns are counted in whatever way a frame ends."""

    def test_jumps_and_exceptions_count_as_returns(self):
        run, profile = self.record([program("endings")], "-F", "4000")
        self.assertEqual(run.status, 0)
        for way in ("by_return", "outer_by_jump", "inner_by_jump", "by_direct_jump",
                    "outer_by_exception", "inner_by_exception"):
            with self.subTest(way=way):
                returns = sum(node.returns or 0 for node in profile.named(way))
                self.assertEqual(returns, 20)


JSON = """
#include <cstdio>
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <string>
int main()
{
    std::string text = "[0";
    for (int i = 0; i < 20000; i++) {
        char item[200];
        std::snprintf(item, sizeof item, ",{\\"id\\":%d,\\"name\\":\\"n%d\\",\\"list\\":[%d.%d,true,null,{\\"deep\\":[[%d]]}]}",
                      i, i * 7919, i, i % 97, i);
        text += item;
    }
    text += "]";
    size_t bytes = 0;
    for (int i = 0; i < 30; i++) {
        rapidjson::Document document;
        document.Parse(text.c_str());
        rapidjson::StringBuffer buffer;
        rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
        document.Accept(writer);
        bytes += buffer.GetSize();
    }
    std::printf("%zu\\n", bytes);
}
"""


@installed("perf", "g++")
class BesidePerf(LiveTest):
    """perf copies stacks and unwinds them later, by a library of others: the shares of paths are the same."""

    def shares_of(self, profile):
        """{function, or (caller, function): share of the samples that have it on their path}, of the program's own."""
        found, total = {}, 0
        for node in nodes_of(profile.report("--min", "0", "--no-sites", "--no-inlines")):
            path, at = [], node
            while at is not None:
                path.append(at)
                at = at.parent
            names = [(each.module, each.name) for each in reversed(path)]
            if not node.own or ("json", "main") not in names:
                continue
            total += node.own
            names = names[names.index(("json", "main")):]
            pairs = [pair for pair in zip(names, names[1:]) if pair[0][0] == pair[1][0] == "json"]
            for item in {*(name for name in names if name[0] == "json"), *pairs}:
                found[item] = found.get(item, 0) + node.own
        return {item: own / total for item, own in found.items()}

    def test_paths_have_the_shares_that_perf_sees(self):
        program, data, script, theirs = map(self.file, ("json", "perf.data", "perf.txt", "perf.cairn"))
        subprocess.run(["g++", "-O1", "-g", "-fno-inline", "-fno-optimize-sibling-calls", "-o", program,
                        self.file("json.cpp", JSON)], check=True)

        def both():
            _, ours = self.record([program], "-F", "2000")
            subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf,16384", "-o", data, program],
                           check=True, capture_output=True)
            with open(script, "wb") as out:
                subprocess.run(["perf", "script", "--no-inline", "-i", data], stdout=out, stderr=subprocess.DEVNULL, check=True)
            subprocess.run([CAIRN, "import", "-q", "-o", theirs, script], check=True)
            return ours, Profile(theirs)

        def judge(profiles):
            ours, theirs = profiles
            mine, yours = self.shares_of(ours), self.shares_of(theirs)
            self.assertGreater(min(ours.samples, theirs.samples, 10 * len(yours)), 1000)
            for item in {*mine, *yours}:
                one, other = mine.get(item, 0), yours.get(item, 0)
                with shares():
                    self.assertAlmostEqual(one, other, msg=item, delta=math.hypot(ours.tolerance(one), theirs.tolerance(other)))

        self.steadily(both, judge)


class CpuTime(LiveTest):
    """The sum of all samples is what the kernel charged, within 1 %, thread by thread."""

    def check(self, *options, slack=0.0):
        self.compare(lambda: self.record([program("cputime")], *options), options, slack)

    def compare(self, record, options, slack=0.0):
        def life():
            run, profile = record()
            self.assertEqual(run.status, 0, run.words)
            return profile, {name: int(value) for name, value in map(str.split, run.text.splitlines())}

        def judge(recorded):
            profile, charged = recorded
            self.assert_complete(profile)
            for name in ("compute", "long_calls", "short_calls", "page_faults"):
                # What the thread does before and after its function is some microseconds.
                with shares():
                    self.assertAlmostEqual(profile.below("work", name) / charged[name], 1, delta=0.01 + slack,
                                           msg=f"{name} {options}")
            with shares():
                self.assertAlmostEqual(profile.total / charged["rusage"], 1, delta=0.01, msg=options)

        self.steadily(life, judge)

    def test_at_1_khz(self):
        self.check("-F", "1000")

    def test_at_10_khz(self):
        self.check("-F", "10000")

    def test_at_10_khz_without_marker(self):
        self.check("-F", "10000", "--marker=off")

    def test_by_threads(self):
        """With --per-thread the report tells them apart by number, and the sums are the same."""
        self.check("-F", "1000", "--per-thread")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_as_an_ordinary_user(self):
        """No samples inside of the kernel may be asked for: its time weighs on the next one."""
        os.chmod(self.folder, 0o777)
        for name in (CAIRN, os.path.join(os.path.dirname(CAIRN), "libcairn.so"), program("cputime")):
            shutil.copy(name, self.folder)
        path = self.file("profile")

        def record():
            run = Run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", self.file("cairn"),
                       "record", "-q", "-o", path, "-F", "4000", self.file("cputime")], cwd=self.folder)
            return run, Profile(path)

        # The next one may be beside the function, and a thread that is hardly ever outside of the kernel has few: only
        # the sum is as exact as ever.
        self.compare(record, "nobody", slack=0.6)

    def test_other_sources(self):
        """Where perf events are not allowed, timers give fewer samples but the same sums."""
        self.check("-F", "1000", "--source", "signal")
        # A timer ticks with the kernel, and its signal waits for the end of a system call: one sample beside the
        # function is 4 ms of 300, or as long as the longest call.
        self.check("-F", "1000", "--source", "timer", slack=0.15)


class StartUp(LiveTest):
    """What a program uses before and after its own code is named, and adds up with the rest to the kernel's books."""

    CHILD = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
             "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(round((used.ru_utime + used.ru_stime) * 1e9))")
    LARGE = ["clang", "--version"]  # its loader works longer than itself

    @installed("clang")
    def test_the_loader_by_its_functions(self):
        _, profile = self.record(self.LARGE)
        startup, = profile.named("<start-up>")
        with shares():
            self.assertGreater(startup.total / profile.total, 0.2)
        loader = sum(node.total for node in startup.children if node.module.startswith("ld-linux"))
        self.assertGreater(loader / startup.total, 0.1)
        self.assertIn("<exit>", [node.name for node in profile.nodes])
        self.assertNotIn("libcairn.so", {node.module for node in profile.nodes})
        text = subprocess.run([CAIRN, "report", "--min", "0", profile.path], capture_output=True).stdout.decode()
        self.assertIn("<start-up>: ", text)
        folded = subprocess.run([CAIRN, "export", "-f", "folded", profile.path], capture_output=True).stdout.decode()
        self.assertIn("\n<start-up>;", "\n" + folded)

    @installed("clang")
    def test_each_program_image_has_its_own(self):
        argv = [sys.executable, "-S", "-c", self.CHILD, "sh", "-c", "exec clang --version"]

        def life():
            run, profile = self.record(argv)
            self.assertEqual(run.status, 0, run.words)
            return run, profile

        def judge(recorded):
            run, profile = recorded
            # Under one number, as the shell executes it.
            clang = [process for process in profile.info["process_list"] if process["command"][0] == "clang"]
            self.assertEqual(len(clang), 1)
            images = [process for process in profile.info["process_list"] if process["pid"] == clang[0]["pid"]]
            with shares():
                self.assertAlmostEqual(sum(process["cost_ns"] for process in images) / int(run.text), 1, delta=0.02)
            roots = nodes_of(profile.report("--min", "0", "--per-process"))
            for process in images:
                if not process["forked"]:
                    startup = [node for node in roots if node.name == "<start-up>" and f"[{process['pid']}]" in node.parent.function]
                    self.assertGreater(startup[0].total, 0)

        self.steadily(life, judge)

    @installed("clang")
    def test_without_perf_events_the_sum_is_known(self):
        path = self.file("forbidden")
        run = Run([program("without_perf"), CAIRN, "record", "-q", "-o", path, *self.LARGE])
        self.assertEqual(run.status, 0, run.words)
        profile = Profile(path)
        startup, = profile.named("<start-up>")
        self.assertEqual(startup.children, [])
        with shares():
            self.assertGreater(startup.total / profile.total, 0.2)

    def test_programs_that_the_agent_cannot_enter(self):
        """They run as ever, and what they cost is nobody's start-up."""
        run, profile = self.record(["sh", "-c", program("static") + "; exit 7"])
        self.assertEqual(run.status, 7)
        self.assertEqual(len([node for node in profile.nodes if node.name == "<start-up>"]), 1)


class Shares(LiveTest):
    """A program that spends CPU time in known paths and measures it itself."""

    @staticmethod
    def spent(run):
        return {name: int(value) for name, value in map(str.split, run.text.splitlines())}

    @staticmethod
    def seen(profile, path):
        names = []
        for part in path.split(";"):
            name, _, count = part.partition("*")
            names += [name] * int(count or 1)
        return sum(node.own for node in profile.nodes
                   if [part for part in node.path()
                       if part.startswith("share_") and part != "share_leaf"] == names
                   and "share_leaf" in node.path())

    def check(self, executable, *options, complete=0.999):
        with self.subTest(executable=executable, options=options):
            def judge(recorded):
                run, profile = recorded
                self.assert_complete(profile, complete)
                spent = self.spent(run)
                within = sum(spent.values())
                self.assertGreater(len(spent), 3)
                for path, value in spent.items():
                    with shares():
                        self.assertAlmostEqual(
                            self.seen(profile, path) / profile.below("share_leaf"), value / within,
                            delta=profile.tolerance(value / within) + 1 - complete, msg=path)

            self.steadily(lambda: self.record([program(executable)], *options), judge)

    def test_paths_have_the_shares_that_were_spent(self):
        for marker in MARKERS:
            for rate in ("1000", "10000"):
                self.check("shares", "-F", rate, marker)

    def test_paths_at_a_fixed_address(self):
        for marker in MARKERS:
            self.check("shares-fixed", "-F", "4000", marker)

    def test_paths_by_frame_pointers(self):
        """Without tables, frame pointers do; but a prologue or epilogue hides one frame."""
        for marker in MARKERS:
            self.check("shares-frame-pointers", "-F", "4000", marker, complete=0.99)

    def test_paths_with_nothing_to_go_by(self):
        """Neither tables nor frame pointers: return addresses are looked for."""
        for marker in MARKERS:
            self.check("shares-nothing", "-F", "4000", marker, complete=0.9)

    def test_marker_on_and_off_give_the_same_tree(self):
        def judge(profiles):
            on, off = ({tuple(node.path()): node.total / profile.total for node in profile.nodes}
                       for profile in profiles)
            samples = min(profile.samples for profile in profiles)
            for path in on.keys() | off.keys():
                share = max(on.get(path, 0), off.get(path, 0))
                # Two samples of the same truth: their difference has twice the variance.
                delta = 4.5 * math.sqrt(2 * max(share * (1 - share), 0.0001) / samples) + 0.01
                with shares():
                    self.assertAlmostEqual(on.get(path, 0), off.get(path, 0), delta=delta, msg=path)

        self.steadily(lambda: [self.record([program("shares")], "-F", "10000", marker)[1]
                               for marker in MARKERS], judge)

    def test_time_lies_on_the_lines_of_the_loop(self):
        """Statement nodes: nearly all of the time lies on the lines of the loop in burn."""
        def life():
            _, profile = self.record([program("shares")], "-F", "4000")
            flat = nodes_of(profile.report("--view", "flat", "--min", "0"))
            burn, = (node for node in flat if node.name == "burn")
            return burn.own / sum(node.own for node in flat)

        self.steadily(life, shares()(lambda share: self.assertGreater(share, 0.9)))


class WallTime(LiveTest):
    """Sleeping counts, too, and where it slept."""

    def test_sleeps_have_the_time_that_was_slept(self):
        for marker in MARKERS:
            with self.subTest(marker=marker):
                def life():
                    run, profile = self.record([program("sleeps")], "-e", "wall", "-F", "1000", marker)
                    self.assertEqual(run.status, 0, run.words)
                    self.assertEqual(profile.info["events"][0]["name"], "wall")
                    return run, profile

                def judge(recorded):
                    run, profile = recorded
                    self.assert_complete(profile)
                    for line in run.text.splitlines():
                        path, value = line.split()
                        # A sleep is seen when it ends: each may be off by a period or two.
                        with shares():
                            self.assertAlmostEqual(profile.below(*path.split(";")) / 1e9, int(value) / 1e9,
                                                   delta=0.02 + int(value) / 1e9 * 0.03, msg=path)

                self.steadily(life, judge)


if __name__ == "__main__":
    unittest.main()
