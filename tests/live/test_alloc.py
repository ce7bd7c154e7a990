#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`-e alloc`: every block is counted where it is allocated, and nothing else changes."""

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from collections import defaultdict

from support import CAIRN, LiveTest, Profile, Run, installed, program

METRICS = ["alloc", "allocs", "freed", "frees", "live", "live-blocks", "peak", "peak-blocks", "live-age",
           "temporary", "mapped", "unmapped"]


class Allocations:
    """A recording with `-e alloc`, beside what another library in the same run has counted."""

    def __init__(self, folder, argv, *options, counted=True, work=None, preload=None,
                 event="alloc"):
        path = os.path.join(folder, "alloc.out")
        sums = os.path.join(folder, "sums")
        with open(sums, "wb") as file:
            file.write(bytes(4096))
        environment = dict(os.environ)
        if counted:
            environment.update(LD_PRELOAD=program("count_allocs.so"), COUNT_ALLOCS=sums)
        if preload:
            environment.update(LD_PRELOAD=preload)
        self.run = Run([CAIRN, "record", "-q", "-e", event, "-o", path, *options, "--", *argv],
                       cwd=work or folder, env=environment)
        self.profile = Profile(path)
        self.sums = self.profile.info["alloc"]
        with open(sums, "rb") as file:
            self.blocks, self.bytes, self.frees = struct.unpack("QQQ", file.read(24))

    def by_function(self, *options):
        """What functions have allocated themselves: values by metric."""
        report = self.profile.report("--view", "flat", "--min", "0", *options)
        names = [metric["name"] for metric in report["metrics"]]
        found = defaultdict(lambda: dict.fromkeys(names, 0))
        for node in report["nodes"]:
            for name, value in zip(names, node["self"]):
                found[node["function"]][name] += value
        return found

    def by_path(self, inner, outer):
        """The same for what `inner` does when `outer` calls it."""
        report = self.profile.report("--min", "0", "--no-inlines")
        names = [metric["name"] for metric in report["metrics"]]
        functions = {node["id"]: node for node in report["nodes"]}
        found = dict.fromkeys(names, 0)
        for node in report["nodes"]:
            caller = functions.get(node["parent"])
            if node["function"] == inner and caller and caller["function"] == outer:
                for name, value in zip(names, node["self"]):
                    found[name] += value
        return found


class AllocTest(unittest.TestCase):
    TRACKERS = (("--track", "walk"), ("--track", "walk", "--marker=off"), ("--track", "encode"),
                ("--track", "calls"))

    steadily = LiveTest.steadily

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-alloc-")
        self.addCleanup(shutil.rmtree, self.folder)

    def record(self, argv, *options, **more):
        return Allocations(self.folder, argv, *options, **more)

    def assert_same_sums(self, recorded):
        self.assertEqual(recorded.sums["allocations"], recorded.blocks)
        self.assertEqual(recorded.sums["allocated"], recorded.bytes)
        self.assertEqual(recorded.sums["frees"] + recorded.sums["unknown_frees"], recorded.frees)
        self.assertEqual(recorded.sums["live"],
                         recorded.sums["allocated"] - recorded.sums["freed"])
        self.assertEqual(recorded.sums["without_room"], 0)

    def each_tracker(self, mode, check):
        for options in self.TRACKERS:
            with self.subTest(options=options):
                name = "allocs-calls" if "calls" in options else "allocs"
                recorded = self.record([program(name), mode], *options)
                self.assertEqual(recorded.run.status, 0, recorded.run.words)
                self.assert_same_sums(recorded)
                check(recorded)

    def assert_values(self, found, **expected):
        for name, value in expected.items():
            self.assertEqual(found[name.replace("_", "-")], value, name)


class Contexts(AllocTest):
    """Programs of which each block is known."""

    def test_every_allocation_has_its_path(self):
        def check(recorded):
            self.assertEqual(recorded.sums["without_context"], 0)
            self.assert_values(recorded.by_path("take", "by_first"), alloc=75000, allocs=75,
                               freed=75000, frees=75, live=0, live_blocks=0)
            self.assert_values(recorded.by_path("take", "by_second"), alloc=250, allocs=25,
                               freed=250, frees=25, live=0)
            if recorded.profile.info["tracker"] == "calls":
                self.assert_values(recorded.by_path("take", "by_first"), calls=75)
            functions = recorded.by_function()
            self.assert_values(functions["leak"], alloc=2100, allocs=7, freed=0, live=2100,
                               live_blocks=7)
            self.assert_values(functions["grow"], alloc=10230, allocs=10, freed=10230, frees=10)
            self.assert_values(functions["every_way"], allocs=7,
                               alloc=300 + 100 + 256 + 10 + 100 + 10 + 77, live=0)

        self.each_tracker("paths", check)

    def test_allocations_have_lines(self):
        recorded = self.record([program("allocs"), "paths"])
        lines = {line["line"] for node in recorded.profile.report("--lines")["nodes"]
                 if node["function"] == "grow" for line in node["lines"]}
        with open(os.path.join(os.path.dirname(__file__), "../programs/allocs.c")) as source:
            expected = [number for number, text in enumerate(source, 1)
                        if "realloc(block, size)" in text]
        self.assertEqual(lines, {expected[0]})

    def test_the_peak_is_that_of_the_path(self):
        # In the second of three rounds: 50 blocks of 4,000 beside 10 of 1,000.
        def check(recorded):
            first, second = (recorded.by_path("take", name) for name in ("by_first", "by_second"))
            self.assert_values(first, allocs=300, peak=10 * 1000, peak_blocks=10, live=0)
            self.assert_values(second, allocs=150, peak=50 * 4000, peak_blocks=50, live=0)
            self.assertEqual(recorded.sums["peak"], 210000)

        self.each_tracker("peak", check)

    def test_blocks_of_threads_are_all_counted(self):
        # 3 rounds of 4 threads of 5,000 blocks; 1 in 10 is never freed, the others by another thread.
        def check(recorded):
            each = [16 + i % 64 for i in range(5000)]
            kept = sum(each[i] for i in range(0, 5000, 10))
            self.assert_values(recorded.by_path("take", "by_first"), alloc=12 * sum(each),
                               allocs=60000, frees=54000, freed=12 * (sum(each) - kept),
                               live=12 * kept, live_blocks=6000)
            self.assert_values(recorded.by_path("take", "by_second"), alloc=12 * 32000,
                               allocs=12000, frees=12000, live=0, temporary=12000)
            self.assert_values(recorded.by_path("take", "by_first"), temporary=0)

        self.each_tracker("threads", check)

    def test_temporary_blocks(self):
        """Freed before their thread has allocated another one."""
        def check(recorded):
            self.assert_values(recorded.by_path("take", "by_first"), allocs=150, frees=150, temporary=100)
            self.assert_values(recorded.by_path("take", "by_second"), allocs=50, frees=50, temporary=50)
            self.assert_values(recorded.by_function()["grow"], allocs=10, temporary=10)
            self.assertGreaterEqual(recorded.sums["temporary"], 160)

        self.each_tracker("temporary", check)

    def test_mappings(self):
        """What the program itself maps counts where it does; the data segment, too."""
        def check(recorded):
            functions = recorded.by_function()
            self.assert_values(functions["map"], mapped=10 * 3 * 4096, unmapped=0, alloc=0)
            self.assert_values(functions["remap"], mapped=2 * 4096, unmapped=2 * 4096)
            self.assert_values(functions["unmap"], mapped=0, unmapped=8 * 3 * 4096)
            self.assert_values(functions["move_break"], mapped=65536, unmapped=16384)
            # The library that counts beside cairn maps a page.
            self.assertEqual(recorded.sums["mapped"], (30 + 2 + 1) * 4096 + 65536)
            self.assertEqual(recorded.sums["unmapped"], (24 + 2) * 4096 + 16384)

        self.each_tracker("mappings", check)

    def test_children_count_for_themselves(self):
        # A child has what it allocates itself; what it frees of its parent's is not known.
        def check(recorded):
            self.assertEqual(recorded.profile.info["processes"], 4)
            self.assertEqual(recorded.sums["unknown_frees"], 60)
            self.assert_values(recorded.by_path("take", "by_first"), allocs=20, frees=20, live=0)
            self.assert_values(recorded.by_path("take", "by_second"), allocs=33, frees=30,
                               live=3 * 70, live_blocks=3)

        self.each_tracker("forks", check)

    def test_allocations_in_handlers_have_contexts(self):
        # Handlers allocate, and some leave by siglongjmp.
        def check(recorded):
            self.assertEqual(recorded.sums["without_context"], 0)
            self.assert_values(recorded.by_path("take", "by_first"), allocs=10, frees=10)
            self.assert_values(recorded.by_path("take", "by_second"), allocs=20, live=10000)
            paths = {tuple(node.path()[-3:]) for node in recorded.profile.named("take")}
            self.assertIn(("on_signal", "by_second", "take"), paths)

        self.each_tracker("handlers", check)

    def test_deep_paths_are_whole(self):
        def check(recorded):
            self.assert_values(recorded.by_path("take", "by_first"), allocs=200, frees=200)
            deepest = max(node.path().count("deep") for node in recorded.profile.nodes)
            self.assertEqual(deepest, 199 * 20 + 1)

        self.each_tracker("depths", check)

    def test_encode_follows_allocations_in_turns(self):
        # Phases that allocate much, and those that call much: numbers tell the blocks of both.
        recorded = self.record([program("allocs"), "turns"], "--track", "encode")
        self.assertEqual(recorded.run.status, 0, recorded.run.words)
        self.assert_same_sums(recorded)
        self.assert_values(recorded.by_path("take", "by_first"), allocs=1350000, alloc=13500000, frees=1350000)
        self.assert_values(recorded.by_path("take", "by_second"), allocs=450000, alloc=9000000, frees=450000)
        encode = recorded.profile.info["encode"]
        self.assertEqual(encode["mismatches"], 0)
        self.assertGreater(encode["verified"], 0, encode)
        self.assertGreater(encode["samples_decoded"], 1700000, encode)

    def test_trackers_agree(self):
        trees = []
        def check(recorded):
            # Where calls are followed, nothing is known of what comes before the first of them.
            trees.append({(tuple(path[path.index("paths"):]), node.line, node.own)
                          for node, path in ((node, node.path()) for node in recorded.profile.nodes)
                          if node.own})

        self.each_tracker("paths", check)
        self.assertEqual(trees[0], trees[1])
        self.assertEqual(trees[0], trees[2])
        self.assertEqual(trees[0], trees[3])


class Trees(AllocTest):
    """Trees that forget know what is allocated, and processes what is live."""

    def test_each_kind_of_tree_has_the_same_sums(self):
        full = self.record([program("allocs"), "peak"])
        for kind, tracker in (("hot", "walk"), ("bounded", "walk"), ("functions", "walk"),
                              ("hot", "encode"), ("hot", "calls")):
            with self.subTest(kind=kind, tracker=tracker):
                name = "allocs-calls" if tracker == "calls" else "allocs"
                recorded = self.record([program(name), "peak"], "--tree", kind, "--track", tracker)
                self.assertEqual(recorded.sums["allocated"], full.sums["allocated"])
                self.assertEqual(recorded.sums["allocations"], full.sums["allocations"])
                self.assertEqual(recorded.sums["live"], full.sums["live"])
                self.assertEqual(recorded.sums["peak"], full.sums["peak"])
                self.assertIsNone(recorded.sums["freed"])
                self.assertEqual(recorded.profile.total, full.profile.total)

    def test_little_memory(self):
        # The least there is: what finds no room is counted, sums stay right.
        script = "my @kept = map { [$_] } 1 .. 200000; print scalar @kept"
        recorded = self.record(["perl", "-e", script], "--memory", "1M")
        self.assertEqual(recorded.run.text, "200000")
        self.assertEqual(recorded.sums["allocations"], recorded.blocks)
        self.assertEqual(recorded.sums["allocated"], recorded.bytes)
        self.assertGreater(recorded.sums["without_room"], 0)


class Harmless(AllocTest):
    def test_allocators_keep_their_promises(self):
        native = Run([program("allocs"), "promises"])
        self.assertEqual(native.text, "done\n")
        def check(recorded):
            self.assertEqual(recorded.run.text, native.text)

        self.each_tracker("promises", check)

    def test_address_space_limit(self):
        command = ["sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", program("allocs"), "paths"]
        recorded = self.record(command)
        self.assertEqual(recorded.run.status, 0, recorded.run.words)
        self.assert_same_sums(recorded)

    def test_options_of_time_are_refused(self):
        for options in (("-F", "100"), ("-c", "1ms"), ("--burst", "20ms/2ms")):
            run = Run([CAIRN, "record", "-e", "alloc", *options, "true"])
            self.assertEqual(run.status, 2)

    def test_other_events_see_no_malloc(self):
        """Only this event stands between a program and its allocator."""
        folder = os.path.dirname(CAIRN)
        symbols = subprocess.run(["nm", "-D", "--defined-only", os.path.join(folder, "libcairn.so")],
                                 capture_output=True, text=True).stdout.split()
        self.assertNotIn("malloc", symbols)


class Allocators(AllocTest):
    """A program keeps its allocator, whichever it is."""

    FOLDER = "/usr/lib/x86_64-linux-gnu"

    def test_preloaded_allocators_are_seen(self):
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"):
            library = os.path.join(self.FOLDER, name)
            if not os.path.exists(library):
                continue
            with self.subTest(library=name):
                native = Run([program("allocs"), "threads"], env=dict(os.environ, LD_PRELOAD=library))
                recorded = self.record([program("allocs"), "threads"], preload=library)
                self.assertEqual(recorded.run.status, native.status)
                found = recorded.by_path("take", "by_first")
                self.assert_values(found, allocs=60000, frees=54000, live_blocks=6000)

    @installed("gcc")
    def test_linked_allocators_are_seen(self):
        source = os.path.join(os.path.dirname(__file__), "../programs/allocs.c")
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4"):
            if not os.path.exists(os.path.join(self.FOLDER, name)):
                continue
            for event in ("alloc", "alloc:512"):
                with self.subTest(library=name, event=event):
                    binary = os.path.join(self.folder, "linked")
                    build = Run(["gcc", "-O1", "-g", "-D_GNU_SOURCE", "-fno-builtin", "-o", binary, source, "-pthread",
                                 "-Wl,--no-as-needed", f"-l:{name}"])
                    self.assertEqual(build.status, 0, build.words)
                    recorded = self.record([binary, "threads"], counted=False, event=event)
                    self.assertEqual(recorded.run.status, 0, recorded.run.words)
                    found = recorded.by_path("take", "by_first")
                    if event == "alloc":
                        self.assert_values(found, allocs=60000, frees=54000, live_blocks=6000)
                    else: # 12 times 5000 blocks of 16 to 79 bytes
                        self.assertAlmostEqual(found["alloc"] / (60000 * 47.5), 1, delta=0.1)

    def test_allocator_by_its_address(self):
        """It is libc's, wherever a pointer to it points."""
        recorded = self.record([program("malloc_by_address")], counted=False)
        self.assertEqual((recorded.run.status, recorded.run.text), (0, "done\n"))
        self.assertEqual(recorded.profile.info["notes"], [])
        self.assertGreaterEqual(recorded.sums["allocations"], 100)

    def test_of_the_executable(self):
        recorded = self.record([program("own_allocator")], counted=False)
        self.assertEqual(recorded.run.status, 0)
        self.assertEqual(recorded.sums["allocations"], 0)
        self.assertTrue(any("inside of its executable" in note
                            for note in recorded.profile.info["notes"]))


class Hostile(AllocTest):
    """Programs that leave functions in strange ways, or live in strange places."""

    MODES = {"exceptions": ("nested", "destructors", "threads"), "coroutines": ("migrate", "switch"),
             "jumps": ("handler", "alternate"), "threads": ("cancel", "exit", "own-stacks"),
             "processes": ("threaded-fork", "vfork", "spawn"), "ends": ("quick", "abort", "segv"),
             "limits": ("close-all", "memory-limit")}

    def test_hostile_programs_run_as_without(self):
        for name, modes in self.MODES.items():
            for mode in modes:
                native = Run([program(name), mode])
                for tracker in ("walk", "encode"):
                    with self.subTest(program=name, mode=mode, tracker=tracker):
                        recorded = self.record([program(name), mode], "--track", tracker,
                                               counted=False)
                        self.assertEqual(recorded.run.status, native.status, recorded.run.words)
                        self.assertEqual(recorded.sums["mismatches"], 0)


class Cxx(AllocTest):
    SOURCE = """
#include <cstdlib>
#include <vector>
static int *kept[100];
__attribute__((noinline)) void make_arrays() { for (int *&one : kept) one = new int[1000]; }
int main() { make_arrays(); return kept[std::rand() % 100] == nullptr; }
"""

    def record_source(self, *options):
        binary = os.path.join(self.folder, "made")
        subprocess.run(["g++", "-O2", "-g", "-x", "c++", "-", "-o", binary], input=self.SOURCE.encode(), check=True)
        return Allocations(self.folder, [binary], *options)

    def test_blocks_of_operator_new_are_its_callers(self):
        found = self.record_source().by_function()
        self.assertEqual(found["make_arrays"]["alloc"], 100 * 4000)
        self.assertEqual([name for name in found if name.startswith("operator new")], [])

    def test_operator_new_is_a_function_where_time_is_shown(self):
        report = self.record_source("-e", "cpu").profile.report("--metric", "alloc", "--min", "0")
        self.assertTrue([node for node in report["nodes"] if node["function"].startswith("operator new")])


class Views(AllocTest):
    """Each metric can be shown, exported and merged."""

    def test_export_and_merge(self):
        recorded = self.record([program("allocs"), "peak"])
        path, both = recorded.profile.path, os.path.join(self.folder, "both")
        keys = dict(zip(METRICS, ("allocated", "allocations", "freed", "frees", "live",
                                  "live_blocks", "peak", "peak_blocks", "live_age", "temporary",
                                  "mapped", "unmapped")))
        for metric in METRICS:
            folded = Run([CAIRN, "export", "-f", "folded", "--metric", metric, path])
            self.assertEqual(folded.status, 0, folded.words)
            total = sum(int(line.rsplit(" ", 1)[1]) for line in folded.text.splitlines())
            self.assertEqual(total, recorded.sums[keys[metric]], metric)
            text = Run([CAIRN, "report", "--metric", metric, path])
            self.assertEqual(text.status, 0, text.words)
        merged = Run([CAIRN, "merge", "-o", both, path, path])
        self.assertEqual(merged.status, 0, merged.words)
        sums = Profile(both).info["alloc"]
        self.assertEqual(sums["allocated"], 2 * recorded.sums["allocated"])
        self.assertEqual(sums["frees"], 2 * recorded.sums["frees"])


class Suppressions(AllocTest):
    """Known leaks are left out."""

    def live(self, path, *options):
        report = Run([CAIRN, "report", "--json", "--metric", "live", *options, path])
        self.assertEqual(report.status, 0, report.words)
        parsed = json.loads(report.text)
        metric = [each["name"] for each in parsed["metrics"]].index("live")
        return {node["function"]: node["self"][metric] for node in parsed["nodes"] if node["self"][metric]}

    def suppressions(self, *lines):
        path = os.path.join(self.folder, "known.supp")
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def test_of_functions_files_and_modules(self):
        path = self.record([program("allocs"), "paths"], counted=False).profile.path
        self.assertEqual(self.live(path)["leak"], 2100)
        for line in ("leak:leak", "leak:^le*k$", "leak:*/allocs.c", "leak:^allocs$"):
            found = Run([CAIRN, "report", "--json", "--metric", "live", "--suppressions",
                         self.suppressions("# known", "", line), path])
            self.assertNotIn('"function": "leak"', found.text, line)
        for line in ("leak:^eak", "leak:leak.", "leak:le?k"):
            self.assertEqual(self.live(path, "--suppressions", self.suppressions(line))["leak"], 2100)
        text = Run([CAIRN, "report", "--suppressions", self.suppressions("leak:grow"), path]).text
        self.assertIn("only paths without", text)

    def test_of_the_start(self):
        """libstdc++ allocates 72,704 bytes for exceptions that meet a lack of memory."""
        path = self.record([program("exceptions"), "nested"], counted=False).profile.path
        everything = sum(self.live(path).values())
        rest = sum(self.live(path, "--suppressions", "startup").values())
        self.assertGreaterEqual(everything - rest, 72704)

    def test_bad_input(self):
        path = self.record([program("allocs"), "paths"], counted=False).profile.path
        for line, word in ((None, "No such file"), ("# nothing", "no line"), ("fun:main", "give leak:NAME"),
                           ("leak:", "give leak:NAME")):
            file = self.suppressions(line) if line else "/nowhere/known.supp"
            run = Run([CAIRN, "report", "--suppressions", file, path])
            self.assertEqual(run.status, 2)
            self.assertIn(word, run.words)
            self.assertEqual(len(run.words.splitlines()), 1)


class Ages(AllocTest):
    """A leak is told from a cache, and from what stays for good."""

    FUNCTIONS = ("cache", "leak_steadily", "keep_table")

    def test_of_live_blocks(self):
        for event in ("alloc", "alloc:16"):
            with self.subTest(event=event):
                recorded = self.record([program("allocs"), "ages"], event=event, counted=False)
                functions = recorded.by_function()
                ages = [functions[name]["live-age"] / functions[name]["live"] for name in self.FUNCTIONS]
                self.assertLess(ages[0], ages[1], ages)
                self.assertLess(ages[1], ages[2], ages)
                self.assertGreaterEqual(ages[0], 0)
                self.assertLessEqual(ages[2], round(recorded.profile.info["duration_ns"] / 1e9))
        text = Run([CAIRN, "report", "--metric", "live,age", "--view", "flat", "--width", "100",
                    recorded.profile.path]).text
        self.assertRegex(text, r" [0-9.]+ s .*keep_table")
        self.assertRegex(Run([CAIRN, "info", recorded.profile.path]).text, r"[0-9.]+ s old on average")

    def test_add_up_when_profiles_are_merged(self):
        recorded = self.record([program("allocs"), "ages"], counted=False)
        both = os.path.join(self.folder, "both.out")
        once = recorded.by_function()
        merged = Run([CAIRN, "merge", "-o", both, recorded.profile.path, recorded.profile.path])
        self.assertEqual(merged.status, 0, merged.words)
        recorded.profile = Profile(both)
        twice = recorded.by_function()
        for name in self.FUNCTIONS:
            self.assertEqual(twice[name]["live-age"], 2 * once[name]["live-age"], name)


class RealPrograms(AllocTest):
    """Programs that nobody here wrote: the same sums as another library's, in the same run."""

    SQL = ("create table t(a integer primary key, b text); with recursive n(i) as (select 1 union "
           "all select i+1 from n where i<3000) insert into t select i, 'row '||i from n; "
           "select count(*), sum(a) from t where b like '%7%';")

    def check(self, argv, **more):
        work = more.get("work", self.folder)
        native = Run(argv, cwd=work)
        for options in (("--track", "walk"), ("--track", "encode")):
            with self.subTest(options=options):
                recorded = self.record(argv, *options, **more)
                self.assertEqual(recorded.run.status, native.status)
                self.assertEqual(recorded.run.out, native.out)
                self.assert_same_sums(recorded)
                self.assertEqual(recorded.sums["without_context"], 0)
                self.assert_verified(argv, options, work)
                self.assertGreater(recorded.profile.info["walks"]["complete_pct"], 99.9)
        return recorded

    def assert_verified(self, argv, options, work):
        """What is remembered of walks, and told by numbers, is what a walk says each time."""
        recorded = self.record(argv, *options, "--verify", counted=False, work=work)
        self.assertGreater(recorded.sums["verified"], 0)
        self.assertEqual(recorded.sums["mismatches"], 0)
        if "encode" in options:
            encode = recorded.profile.info["encode"]
            self.assertGreater(encode["verified"], 50)
            self.assertEqual(encode["mismatches"], 0)

    @installed("sqlite3")
    def test_sqlite3(self):
        self.check(["sqlite3", ":memory:", self.SQL])

    def test_python3(self):
        self.check(["/usr/bin/python3", "-S", "-c",
                    "print(sum(len(str(i)) for i in range(20000)), sorted({i % 97 for i in range(999)})[5])"])

    @installed("perl")
    def test_perl(self):
        self.check(["perl", "-e", 'my %h; $h{$_ % 1000} .= "x$_" for 1..20000; print length join "", %h'])

    @installed("git")
    def test_git(self):
        work = os.path.join(self.folder, "work")
        Run(["git", "init", "-q", work])
        for i in range(20):
            with open(os.path.join(work, f"file{i}"), "w") as file:
                file.write(f"{i}\n" * 50)
        self.check(["git", "status", "--short"], work=work)

    @installed("g++")
    def test_compiler(self):
        with open(os.path.join(self.folder, "a.cpp"), "w") as file:
            file.write("#include <string>\nint main() { return (int)std::string(3, 'a').size(); }\n")
        native = Run(["g++", "-c", "a.cpp", "-o", "native.o"], cwd=self.folder)
        self.assertEqual(native.status, 0, native.words)
        recorded = self.record(["g++", "-c", "a.cpp", "-o", "a.o"])
        self.assertEqual(recorded.run.status, 0)
        self.assert_same_sums(recorded)
        self.assertGreaterEqual(recorded.profile.info["processes"], 3)

    LUA = ("local t = {} for i = 1, 20000 do t[i % 500] = 'x' .. i .. ('y'):rep(i % 90) end "
           "print(#table.concat(t, ' ', 1, 499))")

    @installed("valgrind", "sqlite3", "lua5.4")
    def test_valgrind(self):
        """In programs that do the same under valgrind, its numbers are the same."""
        self.assert_as_valgrind(["sqlite3", ":memory:", self.SQL])
        self.assert_as_valgrind(["lua5.4", "-e", self.LUA])

    def assert_as_valgrind(self, argv):
        run = Run(["valgrind", "--run-libc-freeres=no", *argv], cwd=self.folder)
        numbers = [int(text.replace(",", "")) for text in re.findall(
            r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks\n.*total heap usage: ([\d,]+) "
            r"allocs, ([\d,]+) frees, ([\d,]+) bytes", run.words)[0]]
        sums = self.record(argv, counted=False).sums
        self.assertEqual([sums[name] for name in ("live", "live_blocks", "allocations", "frees",
                                                  "allocated")], numbers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
