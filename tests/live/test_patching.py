# SPDX-License-Identifier: MIT
"""Programs whose every call site leads through a stub do what they did, and look as they did."""

import collections
import json
import os
import re
import shutil
import subprocess
import unittest

from disassembly import Disassembly
from support import LiveTest, Run, installed, program

KINDS = ("plain", "table", "hook")
STAYS = ("named", "reads", "middle", "unknown", "prefixed", "conditional", "short", "table",
         "undecoded")
# Kinds of sites, as the library numbers them.
CALL, CALL_INDIRECT, TAIL, TAIL_INDIRECT = range(4)
TRAP = 4  # among the forms of sites

PERL = r"""
my %h; for my $i (1..5000) { $h{$i % 97} .= "x$i"; }
print join(",", map { length $h{$_} } sort keys %h), "\n";
eval { die "oops\n" }; print $@;
print sort { $a <=> $b } map { ($_ * 7919) % 1009 } 1..300;
my $x = `echo hi`; print $x; printf "%.3f\n", 3.14159; print "aab" =~ /^(a+)b$/ ? $1 : "";
"""
PYTHON = r"""
import hashlib, json, re, subprocess, threading, zlib
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
print(f(15), hashlib.sha256(b"x" * 9999).hexdigest(), json.dumps({i: i * i for i in range(99)}))
r = []
t = [threading.Thread(target=lambda k=k: r.append(f(12) + k)) for k in range(4)]
[x.start() for x in t]; [x.join() for x in t]; print(sorted(r))
print(subprocess.check_output(["echo", "child"]), len(zlib.compress(b"abc" * 9999)))
try: raise ValueError("v")
except ValueError as e: print(e, re.sub("(a+)b", "x", "aabaaab"))
"""
SQL = """create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where
x<5000) insert into t select x, x*x%1009 from c; create index i on t(b);
select count(*), sum(b), group_concat(b) from (select distinct b from t order by b limit 50);"""
LUA = """local t = {} for i = 1, 5000 do t[i] = tostring(i) end table.sort(t)
print(#table.concat(t), pcall(error, "x"), string.rep("a", 9):gsub("a+", string.upper))"""
C = """#include <stdio.h>
struct s { int a[9]; }; static int f(int x) { return x < 2 ? x : f(x - 1) + f(x - 2); }
int main(void) { struct s v = {{f(20)}}; printf("%d %zu\\n", v.a[0], sizeof v); return 0; }"""


class Patching(LiveTest):
    def patched(self, argv, stubs="plain", **more):
        """Runs a program with all its call sites patched."""
        env = dict(os.environ, LD_PRELOAD=program("patch_all.so"), PATCH_STUBS=stubs,
                   PATCH_REPORT=self.file("report"))
        env.update(more.pop("env", {}))
        return Run(argv, cwd=self.folder, env=env, **more)

    def same(self, argv, kinds=KINDS):
        """What the program does is the same with every kind of stub."""
        expected = Run(argv, cwd=self.folder)
        for kind in kinds:
            run = self.patched(argv, kind)
            self.assertEqual((run.status, run.out, run.err),
                             (expected.status, expected.out, expected.err), f"{kind}: {argv[:2]}")
        with open(self.file("report"), encoding="utf-8") as file:
            reports = [json.loads(line) for line in file]
        for report in reports:
            self.assertEqual(report["failed"], 0)
            self.assertGreater(report["patched"], 10000)  # libc alone has more
            self.assertGreater(report["patched"], 0.97 * sum(report["sites"]))
            self.assertLess(report["forms"][TRAP], 0.002 * sum(report["sites"]))
        return reports

    @installed("perl")
    def test_perl(self):
        self.same(["perl", "-e", PERL])

    @installed("sqlite3")
    def test_sqlite(self):
        self.same(["sqlite3", ":memory:", SQL])

    def test_python(self):
        self.same([shutil.which("python3", path="/usr/bin:/bin") or "python3", "-S", "-c", PYTHON])

    @installed("lua5.4")
    def test_lua(self):
        self.same(["lua5.4", "-e", LUA])

    @installed("bzip2")
    def test_bzip2(self):
        self.same(["sh", "-c", "head -c 200000 /bin/sh | bzip2 | bzip2 -d | md5sum"])

    @installed("xz")
    def test_threads_of_xz(self):
        self.same(["sh", "-c", "cat /bin/sh /bin/sh | xz -T2 -1 --block-size=64KiB | xz -d | md5sum"])

    @installed("git")
    def test_git(self):
        run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=m"]
        Run(run + ["init", "-q", "."], cwd=self.folder)
        for name in ("one", "two"):
            with open(self.file(name), "w", encoding="utf-8") as file:
                file.write("\n".join(str(i * len(name)) for i in range(999)))
            Run(run + ["add", name], cwd=self.folder)
            Run(run + ["commit", "-q", "-m", name], cwd=self.folder)
        self.same(["git", "log", "--stat", "-p"])
        self.same(["git", "fsck", "--full"], ("hook",))

    @installed("gcc")
    def test_gcc(self):
        with open(self.file("t.c"), "w", encoding="utf-8") as file:
            file.write(C)
        # The driver, the compiler proper and the assembler, each with all its sites.
        self.same(["sh", "-c", "gcc -O2 -o t t.c && ./t && cksum < t"], ("plain", "hook"))

    def dump(self, argv, only):
        """The sites of one module, and what stays there."""
        self.patched(argv, env={"PATCH_ONLY": only, "PATCH_DUMP": self.file("dump")})
        sites, stays = {}, {}
        with open(self.file("dump"), encoding="utf-8") as file:
            for line in file:
                word, address, *rest = line.split()
                numbers = tuple(int(field) for field in rest)
                (sites if word == "site" else stays)[int(address, 16)] = numbers
        return sites, stays

    def explain(self, argv, path, only):
        """Each call that a disassembler sees is a site, or there is a reason."""
        code, (sites, stays) = Disassembly(path), self.dump(argv, only)
        reasons = collections.Counter()
        for address, (indirect, length) in code.calls.items():
            if address in sites:
                self.assertEqual(sites[address][::2], (CALL_INDIRECT if indirect else CALL, length),
                                 hex(address))
                reasons["site"] += 1
            elif code.function_of(address) is None:
                reasons["no table"] += 1
            elif address in stays:
                reasons[STAYS[stays[address][0]]] += 1
            else:
                self.fail(f"{path}: the call at {address:x} is nowhere")
        found = {address for address, site in sites.items() if site[0] in (CALL, CALL_INDIRECT)}
        self.assertEqual(found - set(code.calls), set())
        # Hardly any is left alone, and those for what their targets are.
        self.assertGreater(reasons["site"], 0.985 * len(code.calls), reasons)
        self.assertLessEqual(set(reasons), {"site", "no table", "named", "reads"})
        self.assertLess(reasons["no table"], 10)
        self.explain_jumps(code, sites, stays)
        return reasons

    def explain_jumps(self, code, sites, stays):
        """The same for jumps that leave their function."""
        for address, site in sites.items():
            if site[0] == TAIL:
                self.assertTrue(code.leaves(address), hex(address))
                self.assertTrue(code.stack_is_empty(address), hex(address))
            elif site[0] == TAIL_INDIRECT:
                self.assertIn(address, code.indirect_jumps)
        for address, (_, target, linkage) in code.jumps.items():
            if address in sites or address in stays or not code.leaves(address):
                continue
            parts = not code.stack_is_empty(address) or (not linkage and (
                not code.stack_is_empty(target) or code.jumps_into_others(target) or
                code.are_parts(code.function_of(address), target)))
            self.assertTrue(parts, f"the jump at {address:x} is nowhere")
        for address, section in code.indirect_jumps.items():
            known = address in sites or address in stays or section.startswith(".plt")
            self.assertTrue(known or code.function_of(address) is None, hex(address))

    @installed("perl", "objdump")
    def test_calls_of_perl(self):
        reasons = self.explain(["perl", "-e1"], shutil.which("perl"), "main program")
        self.assertGreater(reasons["site"], 10000)
        self.assertGreater(reasons["named"], 0)  # perl lives on setjmp

    @installed("git", "objdump")
    def test_calls_of_git(self):
        self.assertGreater(
            self.explain(["git", "--version"], shutil.which("git"), "main program")["site"], 20000)

    @installed("objdump")
    def test_calls_of_libc(self):
        with open("/proc/self/maps", encoding="utf-8") as file:
            path = re.search(r"(/\S+/libc\.so\.6)$", file.read(), re.M)
        if not path:
            self.skipTest("another libc")
        self.explain(["/bin/true"], path[1], "/libc.so.6")

    def test_exceptions_pass_patched_calls(self):
        for name in ("exceptions", "exceptions-static-runtime"):
            for mode in ("plain", "nested", "rethrow", "destructors", "threads", "foreign"):
                self.same([program(name), mode], ("table",))
            self.assertEqual(self.patched([program(name), "uncaught"]).status, 134)

    def test_jumps_through_a_variable(self):
        self.same([program("switched")])

    def test_jumps_and_stacks(self):
        modes = {
            "jumps": ("plain", "handler", "alternate", "timer"),
            "coroutines": ("freed", "small", "migrate", "switch"),
            "threads": ("short", "detached", "small", "cancel", "exit", "outlive", "own-stacks"),
            "handlers": ("plain", "alternate", "small"),
        }
        for name, words in modes.items():
            for word in words:
                self.same([program(name), word], ("table",))
        for name in ("registers", "results", "tailcalls", "stackshapes"):
            self.same([program(name)], ("hook",))

    def test_careful_builds(self):
        for name in ("retpolines", "landing-pads"):
            self.same([program("exceptions-" + name), "foreign"], ("table", "hook"))
            self.same([program("tailcalls-" + name)], ("table", "hook"))
            self.lazily([program("tailcalls-" + name)])

    def test_backtraces_of_the_program(self):
        self.same([program("backtraces"), "digest"])

    @installed("gdb")
    def test_gdb(self):
        env = dict(os.environ, LD_PRELOAD=program("patch_all.so"))
        process = subprocess.Popen([program("backtraces"), "watched"], cwd=self.folder, env=env,
                                   stdout=subprocess.PIPE)
        try:
            pid = process.stdout.readline().decode().strip()
            debugger = Run(["gdb", "-nx", "--batch", "-p", pid, "-ex", "bt"], timeout=60)
            frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", debugger.text, re.M)
            ours = [name for name in frames if name.startswith("watched") or name == "main"]
            self.assertEqual(ours, ["watched_bottom"] + ["watched_middle"] * 11 + ["main"],
                             debugger.text)
        finally:
            with open(self.file("stop"), "w", encoding="utf-8"):
                pass
            process.stdout.read()
            self.assertEqual(process.wait(60), 0)
            process.stdout.close()

    def lazily(self, argv):
        """The same when functions are patched as they are reached."""
        expected = Run(argv, cwd=self.folder)
        env = dict(os.environ, LD_PRELOAD=program("patch_lazy.so"), PATCH_REPORT=self.file("lazy"))
        run = Run(argv, cwd=self.folder, env=env)
        self.assertEqual((run.status, run.out, run.err),
                         (expected.status, expected.out, expected.err), argv[:2])
        with open(self.file("lazy"), encoding="utf-8") as file:
            reports = [json.loads(line) for line in file]
        self.assertEqual(sum(report["errors"] for report in reports), 0)
        return max(report["settled"] for report in reports)

    @installed("perl", "sqlite3", "xz")
    def test_function_by_function(self):
        """Not with threads that block signals, as those of xz do, and all of them while they begin: one that meets a
        trap then is killed. The agent keeps SIGTRAP open where it can; the library of this test does not."""
        self.assertGreater(self.lazily(["perl", "-e", PERL]), 300)
        self.assertGreater(self.lazily(["sqlite3", ":memory:", SQL]), 1000)
        for mode in ("plain", "rethrow", "foreign"):
            self.lazily([program("exceptions"), mode])
        for mode in ("plain", "handler"):
            self.lazily([program("jumps"), mode])

    def test_patching_under_load_changes_nothing(self):
        run = Run([program("patch_stress"), "3", "8"], cwd=self.folder)
        done = dict(re.findall(r"(\w+) (\d+)", run.text))
        self.assertEqual((run.status, done.get("wrong")), (0, "0"), run.text)
        self.assertGreater(int(done["changes"]), 1000)
        self.assertGreater(int(done["rounds"]), 8)


GO = """
#include <stdio.h>
__asm__(".pushsection .note.go.buildid, \\"a\\", @note\\n"
        ".long 4, 4, 4\\n.ascii \\"Go\\\\0\\\\0\\"\\n.long 7\\n.popsection");
__attribute__((noipa)) int step(int value) { return value * 3 + 1; }
int main(void)
{
    int value = 1;
    for (int i = 0; i < 1000; i++)
        value = step(value);
    printf("%d\\n", value);
    return 0;
}
"""


class Refused(LiveTest):
    def test_what_go_has_compiled(self):
        for note in True, False:
            source = self.file("go.c", GO if note else GO.replace("Go", "No"))
            built = self.native(["cc", "-O2", "-o", "go", source])
            self.assertEqual(built.status, 0, built.words)
            native = self.native([self.file("go")])
            run, profile = self.record([self.file("go")], "--track", "calls")
            self.assert_same(run, native)
            self.assertEqual(bool(profile.named("step")), not note)


if __name__ == "__main__":
    unittest.main()
