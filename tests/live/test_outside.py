#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that the agent cannot enter are sampled from outside: the same paths, the same shares."""

import os
import re
import subprocess
import unittest
from collections import Counter

from support import CAIRN, LiveTest, Profile, Run, installed, program, shares

# Two functions with known work, below one another, and nothing else of weight.
C_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
static volatile unsigned long sink;
__attribute__((noinline)) void spin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; sink++; }
__attribute__((noinline)) void heavy(unsigned long n) { spin(n / 2); for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void light(unsigned long n) { spin(n / 2); sink++; }
__attribute__((noinline)) void work(long rounds) { while (rounds--) { heavy(100000); light(100000); } sink++; }
__attribute__((noinline)) void deep(int depth, long rounds) { if (depth) deep(depth - 1, rounds); else work(rounds); sink++; }
int main(int count, char **words)
{
    deep(count > 2 ? atoi(words[2]) : 0, atol(words[1]));
    puts("done");
    return 5;
}
"""

GO_SOURCE = r"""
package main
import ("fmt"; "os"; "strconv"; "sync")
var sinks [2]uint64
//go:noinline
func spin(k, n int) { for i := 0; i < n; i++ { sinks[k] = sinks[k]*3 + uint64(i) } }
//go:noinline
func heavy(k, n int) { spin(k, n/2); for i := 0; i < n; i++ { sinks[k] = sinks[k]*5 + uint64(i) } }
//go:noinline
func light(k, n int) { spin(k, n/2); sinks[k]++ }
//go:noinline
func work(k, rounds int) { for ; rounds > 0; rounds-- { heavy(k, 100000); light(k, 100000) } }
func main() {
    rounds, _ := strconv.Atoi(os.Args[1])
    var all sync.WaitGroup
    for k := range sinks { all.Add(1); go func(k int) { defer all.Done(); work(k, rounds) }(k) }
    all.Wait()
    fmt.Println("done")
    os.Exit(5)
}
"""

RUST_SOURCE = r"""
use std::hint::black_box;
#[inline(never)] fn spin(n: u64) -> u64 { let mut s = 0u64; for i in 0..n { s = black_box(s.wrapping_add(i * i)); } s }
#[inline(never)] fn heavy(n: u64) -> u64 { let mut s = spin(n / 2); for i in 0..n { s = black_box(s ^ i); } s }
#[inline(never)] fn light(n: u64) -> u64 { spin(n / 2) + black_box(1) }
#[inline(never)] fn work(rounds: u64) -> u64 { let mut s = 0; for _ in 0..rounds { s ^= heavy(100000); s ^= light(100000); } s }
fn main() {
    let rounds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    black_box(work(rounds));
    println!("done");
    std::process::exit(5);
}
"""

CLOSE = 0.03  # of perf's shares, besides what is chance on either side: perf takes as many samples


class OutsideTest(LiveTest):
    def build(self, *compiler, name="burn", source=C_SOURCE, suffix=".c", env=None):
        path = self.file(name)
        done = subprocess.run([*compiler, "-o", path, self.file(name + suffix, source)], capture_output=True, text=True,
                              cwd=self.folder, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def static(self, **how):
        return self.build("gcc", "-O2", "-g", "-static", **how)

    def assert_outside(self, profile):
        self.assertTrue(any("sampled from outside" in note for note in profile.info["notes"]), profile.info["notes"])
        self.assertEqual(profile.info["events"][0]["source"], "perf-from-outside")

    def perf_shares(self, argv):
        """The part of the samples in each function, as perf sees it."""
        path = self.file("perf.data")
        Run(["perf", "record", "-q", "--no-bpf-event", "-e", "task-clock:u", "-c", "1000000", "-o", path, "--", *argv])
        done = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym"], capture_output=True, text=True, cwd=self.folder)
        counted = Counter(line.strip().partition(" ")[2] for line in done.stdout.splitlines() if line.strip())
        self.assertGreater(sum(counted.values()), 100, done.stderr)
        return {name: count / sum(counted.values()) for name, count in counted.items()}

    def own_share(self, profile, name):
        return sum(node.own for node in profile.nodes if self.function_above(node) == name) / profile.total

    @staticmethod
    def function_above(node):
        """The program's function that a node belongs to: the kernel's frames and inlined ones are below it."""
        while node is not None and (node.module == "[kernel]" or node.inlined):
            node = node.parent
        return node.name if node is not None else ""

    def assert_like_perf(self, path, prefix="", complete=True, rounds=5000):
        """Shares of functions are perf's, and paths are those of the program."""
        argv = [path, str(rounds)]
        native = self.native(argv)

        def judge(profile):
            self.assert_outside(profile)
            self.assert_sampled(profile, 100)
            if complete:
                self.assert_complete(profile, 0.98)
            theirs = self.perf_shares(argv)
            for name in ("spin", "heavy"):
                full = prefix + name
                perf = sum(share for seen, share in theirs.items() if re.sub(r"::h[0-9a-f]{16}$", "", seen).split("::")[-1] == full)
                with shares():
                    self.assertAlmostEqual(self.own_share(profile, full), perf, delta=CLOSE + 2 ** 0.5 * profile.tolerance(0.5),
                                           msg=full)
                self.assertGreater(perf, 0.2, theirs)
            # Below heavy and light the same function takes as much.
            for caller in ("heavy", "light"):
                self.assertGreater(profile.share(prefix + "work", prefix + caller, prefix + "spin"), 0.1)
            self.assertEqual(profile.below(prefix + "spin", prefix + "work"), 0)

        def life():
            run, profile = self.record(argv)
            self.assert_same(run, native)
            return profile

        return self.steadily(life, judge)


class Started(OutsideTest):
    @installed("perf")
    def test_static_c(self):
        profile = self.assert_like_perf(self.static())
        self.assertEqual(profile.info["processes"], 1)
        start = profile.some("_start")
        self.assertTrue(all(node.parent is profile.nodes[0] for node in start))

    @installed("perf", "musl-gcc")
    def test_static_musl(self):
        """musl has no unwind tables: its own frames are searched for."""
        profile = self.assert_like_perf(self.build("musl-gcc", "-O2", "-g", "-static"), complete=False)
        self.assertEqual(profile.incomplete, 0)

    @installed("perf", "musl-gcc")
    def test_dynamic_musl(self):
        self.assert_like_perf(self.build("musl-gcc", "-O2", "-g"), complete=False)

    @installed("perf", "go")
    def test_static_go(self):
        """Without cgo: two goroutines, on threads that Go makes itself."""
        path = self.build("go", "build", source=GO_SOURCE, suffix=".go", env={"CGO_ENABLED": "0"})
        self.assert_like_perf(path, prefix="main.")

    @installed("perf", "rustc")
    def test_static_rust(self):
        path = self.build("rustc", "-O", "-g", "-C", "target-feature=+crt-static", "--crate-name", "burn",
                          source=RUST_SOURCE, suffix=".rs")
        self.assert_like_perf(path)

    @installed("perf")
    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a file of another user's")
    def test_setuid(self):
        """Root records a program that becomes somebody else."""
        path = self.build("gcc", "-O2", "-g")
        os.chmod(self.folder, 0o755)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the file system takes no setuid")
        native = self.native([path, "6000"])
        run, profile = self.record([path, "6000"])
        self.assert_same(run, native)
        self.assert_outside(profile)
        self.assert_sampled(profile, 100)
        # perf loses a program that gains rights: a copy of the file does the same work.
        copy = self.file("copy")
        subprocess.run(["cp", "--no-preserve=mode", path, copy], check=True)
        os.chmod(copy, 0o755)
        theirs = self.perf_shares([copy, "6000"])
        for name in ("spin", "heavy"):
            self.assertAlmostEqual(self.own_share(profile, name), theirs[name], delta=CLOSE + 2 ** 0.5 * profile.tolerance(0.5))

    def test_time_is_that_of_the_kernel(self):
        """All CPU time between exec and the end is in the tree, whatever the rate."""
        path = self.static()
        before = os.times()
        run, profile = self.record([path, "6000"], "-F", "250")
        used = os.times()
        self.assertEqual(run.status, 5)
        most = (used.children_user + used.children_system - before.children_user - before.children_system) * 1e9
        native = os.times()
        Run([path, "6000"])
        after = os.times()
        least = (after.children_user - native.children_user) * 1e9
        self.assertLess(profile.total, most + 1e7)
        self.assertGreater(profile.total, least * 0.7)

    def test_deep_stacks_are_cut_and_counted(self):
        path = self.static()
        run, profile = self.record([path, "3000", "20000"])
        self.assertEqual(run.status, 5)
        self.assertGreater(profile.info["walks"]["reasons"].get("not-copied", 0), 0.9 * profile.samples)
        self.assertGreater(profile.share("deep", "deep", "work", "heavy"), 0.5)
        self.assertIn("not-copied", Run([CAIRN, "report", profile.path, "--no-pager"]).text)

    def test_children(self):
        """What it forks and starts is sampled, too: programs that the agent could enter as well."""
        launcher = self.build("gcc", "-O2", "-static", name="launcher", source=r"""
            #include <sys/wait.h>
            #include <unistd.h>
            int main(int count, char **words) {
                int status;
                if (fork() == 0)
                    execv(words[1], words + 1);
                wait(&status);
                return count > 1 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            }""")
        run, profile = self.record([launcher, self.build("gcc", "-O2", "-g"), "4000"])
        self.assertEqual(run.status, 5)
        self.assertGreater(profile.share("work", "heavy"), 0.5)
        self.assertNotIn("LD_PRELOAD", Run([CAIRN, "record", "-q", "-o", self.file("e"), launcher, "/usr/bin/env"]).text)
        run, profile = self.record([launcher, self.file("burn"), "4000"], "--follow-fork", "off")
        self.assertEqual(profile.below("work"), 0)

    def test_ordinary_users(self):
        """Smaller rings, and no kernel."""
        path = self.static()
        os.chmod(self.folder, 0o777)
        before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        output = self.file("user.cairn")
        run = Run([*before, CAIRN, "record", "-o", output, path, "4000"], cwd=self.folder)
        self.assertEqual(run.status, 5, run.words)
        profile = Profile(output)
        self.assert_outside(profile)
        self.assertGreater(profile.share("main", "deep", "work", "heavy"), 0.5)
        self.assertIn("cut short", run.words)
        self.assertNotIn("handlers", run.words)


class Running(OutsideTest):
    """-p and -a: what runs already."""

    def run_aside(self, *argv):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_cpu_time(self, process):
        """Until it has begun to work: then a recording of it has samples."""
        ticks = 0
        while ticks < 5:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                ticks = int(file.read().rpartition(")")[2].split()[11])

    def attach(self, *options):
        path = self.file("attached.cairn")
        run = Run([CAIRN, "record", "-q", "-o", path, *options], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        return Profile(path)

    def test_a_static_process(self):
        process = self.run_aside(self.static(), "10000000")
        self.wait_for_cpu_time(process)
        profile = self.attach("-p", str(process.pid), "--duration", "0.5")
        self.assert_outside(profile)
        self.assertIsNone(process.poll())
        self.assertEqual(profile.info["processes"], 1)
        self.assertGreater(profile.samples, 10)
        self.assertGreater(profile.share("main", "deep", "work", "heavy"), 0.5)

    @installed("go")
    def test_threads_of_go(self):
        """All threads of a process, which are there already."""
        path = self.build("go", "build", source=GO_SOURCE, suffix=".go", env={"CGO_ENABLED": "0"})
        process = self.run_aside(path, "10000000")
        self.wait_for_cpu_time(process)
        profile = self.attach("-p", str(process.pid), "--duration", "0.5")
        self.assert_outside(profile)
        self.assertGreater(profile.share("main.work", "main.heavy"), 0.5)

    def test_both_ways_at_once(self):
        """Of two processes, the agent enters one."""
        static, dynamic = self.static(), self.build("gcc", "-O2", "-g", name="dynamic")
        processes = [self.run_aside(path, "10000000") for path in (static, dynamic)]
        for process in processes:
            self.wait_for_cpu_time(process)
        profile = self.attach("-p", ",".join(str(process.pid) for process in processes), "--duration", "0.5")
        self.assertEqual(profile.info["processes"], 2)
        modules = {node.module for node in profile.some("heavy")}
        self.assertEqual(modules, {"burn", "dynamic"})

    @unittest.skipUnless(os.geteuid() == 0, "needs root to sample all processes")
    def test_the_whole_machine(self):
        """While a command runs: that, what ran before, each as a process of its own, and the kernel."""
        before = self.run_aside(self.static(), "10000000")
        self.wait_for_cpu_time(before)
        profile = self.attach("-a", "--", "sh", "-c", self.build("gcc", "-O2", "-g", name="dynamic") + " 4000; exit 0")
        self.assert_outside(profile)
        self.assertGreater(profile.info["processes"], 2)
        modules = {node.module for node in profile.some("heavy")}
        self.assertGreaterEqual(modules, {"burn", "dynamic"})
        self.assertTrue(any(node.module == "[kernel]" for node in profile.nodes))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_the_whole_machine_is_not_for_everybody(self):
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            paranoid = int(file.read())
        if paranoid <= 0:
            self.skipTest("here it is")
        os.chmod(self.folder, 0o777)
        run = Run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CAIRN, "record", "-a",
                   "-o", self.file("none"), "touch", self.file("ran")])
        self.assertEqual(run.status, 2, run.words)
        self.assertIn("sysctl kernel.perf_event_paranoid", run.words)
        self.assertFalse(os.path.exists(self.file("ran")))


class Refused(OutsideTest):
    def test_without_perf_events(self):
        run = Run([program("without_perf"), CAIRN, "record", "-o", self.file("none"), self.static(), "1"])
        self.assertEqual(run.status, 2)
        self.assertNotIn("done", run.text)
        for word in ("statically linked", "samples from outside", "perf_event_open"):
            self.assertIn(word, run.words)

    def test_other_events_and_trackers(self):
        path = self.static()
        for options, word in ((("-e", "wall"), "events other than cpu"), (("-e", "alloc"), "events other than cpu"),
                              (("--track", "calls"), "--track"), (("--tree", "hot"), "--tree"),
                              (("--timeline",), "--timeline"), (("-a", "-e", "wall"), "events other than cpu")):
            with self.subTest(options=options):
                run = Run([CAIRN, "record", *options, "-o", self.file("none"), path, "1"])
                self.assertEqual(run.status, 2, run.words)
                self.assertIn(word, run.words)
                self.assertNotIn("done", run.text)
        run = Run([CAIRN, "record", "-a", "-p", "1"])
        self.assertEqual(run.status, 2)
        self.assertIn("not both", run.words)


if __name__ == "__main__":
    unittest.main()
