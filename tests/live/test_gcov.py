# SPDX-License-Identifier: MIT
"""Call counts of real programs are those that gcov finds, which counts in quite another way."""

import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import unittest
from collections import defaultdict

import sources
from support import CAIRN, LiveTest, Run, installed

# One function in the source is one function in the binary, and every call is made: what counts in
# one build must not be optimised away in the other.
FLAGS = ("-g -w -O1 -fno-inline -fno-partial-inlining -fno-ipa-pure-const -fno-ipa-cp -fno-ipa-sra "
         "-fno-ipa-icf -fno-ipa-reference -fno-optimize-sibling-calls").split()

LUA = r"""
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local words = {}
for i = 1, 2000 do words[#words + 1] = string.format("%05d-%s", (i * 7919) % 2003, ("x"):rep(i % 17)) end
table.sort(words, function(a, b) return a < b end)
local text = table.concat(words, " "):gsub("%d+", function(d) return #d end)
local object = setmetatable({}, {__index = function(_, key) return key .. "!" end})
local sum = 0
for i = 1, 3000 do sum = sum + #object["k" .. i % 100] end
local co = coroutine.wrap(function() for i = 1, 500 do coroutine.yield(i) end end)
for i = 1, 500 do sum = sum + co() end
for i = 1, 300 do local ok = pcall(error, "failure " .. i) sum = sum + (ok and 0 or 1) end
print(fib(19), #text, sum, load("return 6 * 7")())
"""


class CountsOfGcov(LiveTest):
    def build(self, files, compiler, name, *flags):
        folder = self.file(name)
        os.makedirs(folder)
        run = Run([*compiler, *FLAGS, *flags, "-o", "program", *files, "-lm", "-ldl"], cwd=folder,
                  timeout=200)
        self.assertEqual(run.status, 0, run.words)
        return folder, os.path.join(folder, "program")

    def gcov_counts(self, folder):
        """{function: executions} of all that the program has run."""
        notes = glob.glob(os.path.join(folder, "*.gcda"))
        self.assertTrue(notes)
        subprocess.run(["gcov", "--json-format", *notes], cwd=folder, check=True, capture_output=True)
        counts = defaultdict(int)
        for path in glob.glob(os.path.join(folder, "*.gcov.json.gz")):
            with gzip.open(path, "rt") as file:
                for source in json.load(file)["files"]:
                    for function in source["functions"]:
                        counts[function["name"]] += function["execution_count"]
        return {name: count for name, count in counts.items() if count}

    def callgrind_counts(self, argv):
        """{function: calls}, as a simulated processor sees them."""
        path = self.file("callgrind.out")
        Run(["valgrind", "--tool=callgrind", "--compress-strings=no", "--separate-recs=1",
             f"--callgrind-out-file={path}", *argv], cwd=self.folder)
        counts, called = defaultdict(int), None
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith("cfn="):
                    called = line[4:].strip().split("'")[0]
                elif line.startswith("calls="):
                    counts[called] += int(line[6:].split()[0])
        return counts

    @staticmethod
    def our_counts(profile):
        counts = defaultdict(int)
        for node in profile.nodes:
            if node.calls:
                counts[re.sub(r"\.(constprop|isra|part|cold)\.\d+$", "", node.name)] += node.calls
        return dict(counts)

    def compare(self, files, arguments, *flags, stdin=b"", functions, unlike=()):
        # Names of one length: a program may keep its own as a string, and strings have lengths.
        covered, covered_program = self.build(files, ["gcc"], "covered", "--coverage", *flags)
        _, program = self.build(files, [CAIRN, "cc", "gcc"], "tracked", *flags)
        native = self.native([covered_program, *arguments], stdin=stdin)
        run, profile = self.record([program, *arguments], "--track", "calls", stdin=stdin)
        self.assertEqual(native.status, 0, native.words)
        self.assert_same(run, native)
        truth, seen = self.gcov_counts(covered), self.our_counts(profile)
        # gcov takes a jump back to the first line, or the second return of setjmp, for a call.
        for name in unlike:
            self.assertGreater(truth[name], seen[name])
        if unlike and shutil.which("valgrind"):
            counts = self.callgrind_counts([program, *arguments])
            truth.update({name: counts[name] for name in unlike})
        else:
            truth.update({name: seen[name] for name in unlike})
        wrong = {name: (count, seen.get(name, 0)) for name, count in truth.items()
                 if seen.get(name, 0) != count}
        self.assertEqual(wrong, {}, "gcov's count and ours")
        self.assertEqual(set(seen) - set(truth), set())
        self.assertGreater(len(truth), functions)
        self.assertEqual(profile.info["samples_lost"], 0)
        print(f"{len(truth)} functions, {sum(truth.values())} calls: as gcov counts them", flush=True)

    def source(self, package):
        folder = sources.fetch(package)
        if not folder:
            self.skipTest(f"the source of {package} cannot be had here")
        return folder

    @installed("gcov")
    def test_of_lua(self):
        folder = self.source("lua5.4")
        files = [path for path in glob.glob(os.path.join(folder, "src", "*.c"))
                 if os.path.basename(path) != "luac.c"]
        self.file("lua5.4-deb-multiarch.h", '#define DEB_HOST_MULTIARCH "here"\n')
        # The seed of its hash is the time otherwise, and the address of a variable; and where a string
        # is cached depends on its address.
        self.compare(files, [self.file("script.lua", LUA)], "-DLUA_USE_POSIX", "-I", self.folder,
                     "-Dluai_makeseed(L)=42u", "-DSTRCACHE_N=1", "-DSTRCACHE_M=2", functions=300,
                     unlike={"luaV_execute", "luaD_rawrunprotected"})

    @installed("gcov")
    def test_of_bzip2(self):
        folder = self.source("bzip2")
        files = [os.path.join(folder, name + ".c") for name in
                 ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib",
                  "bzip2")]
        text = b"".join(b"%d bottles of beer on the wall, %d\n" % (i % 991, i * i % 127)
                        for i in range(40000))
        self.compare(files, ["-c", "-9"], stdin=text, functions=30)


if __name__ == "__main__":
    unittest.main()
