# SPDX-License-Identifier: MIT
"""Programs that nobody here wrote: output and status identical, contexts complete."""

import contextlib
import os
import random
import unittest

from support import LiveTest, Run, installed, shares


def numbers(count, seed=1):
    source = random.Random(seed)
    return [source.randrange(1_000_000) for _ in range(count)]


def text(lines, seed=2):
    source = random.Random(seed)
    words = ["".join(source.choices("abcdefghijklmnop", k=source.randrange(2, 9))) for _ in range(800)]
    return "\n".join(" ".join(source.choices(words, k=8)) for _ in range(lines)) + "\n"


class RealPrograms(LiveTest):
    def life(self, argv, names=(), samples=200, rate="10000", complete=0.999, **how):
        """Some function that must show, if the binary has names at all, is in `names`."""
        profiles = self.survives(argv, samples=samples, complete=complete,
                                 options=("-F", rate), **how)
        for profile in profiles:
            seen = {node.name for node in profile.nodes}
            for name in names:
                self.assertIn(name, seen)
        return profiles

    @installed("sqlite3")
    def test_sqlite3(self):
        script = ("create table t(a integer primary key, b integer, c text);"
                  "with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)"
                  " insert into t select i, i * 7919 % 10007, hex(i * 31) from n;"
                  "create index tb on t(b);"
                  "select count(*), sum(length(c)), max(b) from t where b between 100 and 9000;"
                  "select b, count(*) from t group by b order by 2 desc, 1 limit 5;"
                  "select count(*) from t x join t y on x.b = y.a where x.a < 20000;")
        self.life(["sqlite3", ":memory:", script], ("sqlite3_step",))

    @installed("perl")
    def test_perl(self):
        script = ('my %h; srand(1); my $s = 7; for my $i (1 .. 150000) { $s = ($s * 1103515245 + '
                  '12345) % 2147483648; $h{$s % 5000} .= chr(65 + $s % 26); } my $n = 0; for my $k '
                  '(sort { $a <=> $b } keys %h) { $n++ while $h{$k} =~ /A[B-M]+/g; } print "$n\\n"; '
                  'eval { die { code => 3 } }; exit $@->{code};')
        self.life(["perl", "-e", script], ("perl_run", "Perl_runops_standard"))

    @installed("/usr/bin/python3")
    def test_python3(self):
        script = ("import json, re, collections\n"
                  "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
                  "class Node:\n"
                  "    def __init__(self, n): self.kids = [Node(n - 1) for _ in range(3)] if n else []\n"
                  "    def count(self): return 1 + sum(k.count() for k in self.kids)\n"
                  "print(fib(23), Node(8).count())\n"
                  "data = [{'i': i, 's': str(i) * 3} for i in range(15000)]\n"
                  "print(len(json.dumps(json.loads(json.dumps(data)))))\n"
                  "print(len(re.findall(r'(\\d)\\1', json.dumps(data))))\n"
                  "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    print(error)\n"
                  "raise SystemExit(4)\n")
        self.life(["/usr/bin/python3", "-c", script], ("Py_RunMain",))

    @installed("lua5.4")
    def test_lua(self):
        script = ("local t = {} for i = 1, 200000 do t[i] = (i * 7919) % 100003 end table.sort(t) "
                  "local function ack(m, n) if m == 0 then return n + 1 elseif n == 0 then return "
                  "ack(m - 1, 1) else return ack(m - 1, ack(m, n - 1)) end end "
                  "print(t[1], t[#t], ack(2, 200)) "
                  "local co = coroutine.wrap(function() for i = 1, 50000 do coroutine.yield(i) end end) "
                  "local s = 0 for i = 1, 50000 do s = s + co() end print(s) "
                  "local n = 0 for i = 1, 50000 do if not pcall(error, 'x') then n = n + 1 end end "
                  "print(n, #string.rep('ab', 100000):gsub('a', 'cc')) os.exit(6)")
        self.life(["lua5.4", "-e", script])

    @installed("git")
    def test_git(self):
        """A repository made here: log, and a repack with threads and child processes."""
        environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": self.folder,
                       "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
                       "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
                       "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z"}
        stream = ["reset refs/heads/main\n"]
        source = random.Random(3)
        for i in range(400):
            content = text(30, seed=source.randrange(40))
            stream.append(f"commit refs/heads/main\ncommitter a <a@b> {1000000000 + i} +0000\n"
                          f"data 8\ncommit{i % 10}\n\nM 644 inline file{i % 25}\n"
                          f"data {len(content)}\n{content}\n")
        repository = self.file("repository")
        self.assertEqual(Run(["git", "init", "-q", "-b", "main", repository], env=environment).status, 0)
        loaded = Run(["git", "-C", repository, "fast-import", "--quiet"], env=environment,
                     stdin="".join(stream).encode())
        self.assertEqual(loaded.status, 0, loaded.words)
        self.life(["git", "-C", repository, "log", "--stat", "-p", "--all"], env=environment)
        for profile in self.life(["git", "-C", repository, "-c", "pack.threads=2", "-c",
                                  "gc.auto=0", "gc", "-q", "--aggressive", "--prune=now"],
                                 env=environment, samples=50):
            self.assertGreater(profile.info["processes"], 2)

    @installed("gcc")
    def test_cc1(self):
        """gcc runs cc1: two megabytes of tables, deep recursion, many allocations."""
        functions = "".join(
            f"int f{i}(int a, int b) {{ int s = {i}; for (int j = 0; j < a; j++) {{ if (j % {i % 7 + 2})"
            f" s += b * j; else s ^= a << (j & 7); switch (s % 5) {{ case 0: s++; break; case 1: s ="
            f" s * {i} + b; break; case 2: s -= a; default: b += s; }} }} return s"
            f"{f' + f{i - 1}(b, s)' if i else ''}; }}\n" for i in range(120))
        path = self.file("generated.c", functions)
        self.life(["gcc", "-O2", "-S", "-o", "-", path])

    @installed("xz")
    def test_xz(self):
        data = text(60000).encode()
        self.life(["xz", "-T2", "-1", "--block-size=500KiB", "-c"], stdin=data)
        packed = Run(["xz", "-c"], stdin=data).out
        self.life(["xz", "-d", "-c"], stdin=packed, samples=50)

    @installed("zstd")
    def test_zstd(self):
        data = text(150000).encode()
        path = self.file("input", data)
        self.life(["zstd", "-T2", "-9", "-q", "-c", path])

    @installed("bzip2")
    def test_bzip2(self):
        self.life(["bzip2", "-c"], stdin=text(40000).encode())

    @installed("gzip")
    def test_gzip(self):
        self.life(["gzip", "-9", "-n", "-c"], stdin=text(40000).encode())

    def test_sort(self):
        data = "".join(f"{n}\n" for n in numbers(400000)).encode()
        self.life(["sort", "-n", "--parallel=2"], stdin=data)

    @installed("gdb")
    def test_gdb(self):
        """gdb starts, reads the symbols of a large program, and answers."""
        python = os.path.realpath("/usr/bin/python3")
        self.life(["gdb", "-nx", "--batch", "-ex", "info functions Unicode_As", "-ex", "quit 3", python])

    @installed("grep")
    def test_grep_that_finds_nothing(self):
        self.life(["grep", "-E", "(a|b)*zzz$"], stdin=text(300000).encode(), samples=20)


class GeneratedCode(LiveTest):
    """Code that a run-time compiler made has no tables: say what is reached, and change nothing."""

    def reached(self, argv, least, **how):
        def judge(profile):
            walks = profile.info["walks"]
            print(f"{os.path.basename(argv[0])}: {walks}")
            self.assertGreaterEqual(walks["complete_pct"] + walks["guessed_pct"], least)
            self.assertGreater(walks["guessed"], 0)

        self.survives(argv, samples=200, complete=0.0, options=("-F", "10000"), judge=judge, **how)

    @installed("node")
    def test_node(self):
        script = ("function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }\n"
                  "let words = {}; for (let i = 0; i < 300000; i++) { const k = 'k' + (i * 7919) % 997;"
                  " words[k] = (words[k] || 0) + 1 }\n"
                  "console.log(fib(32), Object.keys(words).length, JSON.stringify(words).length)\n"
                  "try { null.x } catch (e) { console.log(e.name) }\n"
                  "new Promise(r => setTimeout(r, 50)).then(() => { console.log('later');"
                  " process.exit(7) })\n")
        self.reached(["node", "-e", script], 95)

    @installed("node")
    def test_node_with_a_map(self):
        """node --perf-basic-prof writes names for generated code: they show."""
        script = ("function hotFunction(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 65521;"
                  " return s }\nlet t = 0; for (let i = 0; i < 600; i++) t += hotFunction(300000);"
                  " console.log(t)")

        def life():
            run, profile = self.record(["node", "--perf-basic-prof", "-e", script], "-F", "1000",
                                       env={**os.environ, "TMPDIR": "/tmp"})
            self.assertEqual(run.status, 0, run.words)
            self.addCleanup(self.remove_maps, profile)
            return profile

        self.steadily(life, shares()(lambda profile: self.assertGreater(
            sum(node.own for node in profile.nodes if "hotFunction" in node.function) / profile.total, 0.5)))

    @staticmethod
    def remove_maps(profile):
        for process in profile.info["process_list"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/tmp/perf-{process['pid']}.map")

    @installed("java", "javac")
    def test_java(self):
        source = self.file("Work.java", """
            import java.util.*;
            public class Work {
                static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
                public static void main(String[] args) throws Exception {
                    Map<Integer, Integer> counts = new TreeMap<>();
                    for (int i = 0; i < 400000; i++) counts.merge(i * 7919 % 9973, 1, Integer::sum);
                    Thread[] threads = new Thread[4];
                    long[] sums = new long[4];
                    for (int t = 0; t < 4; t++) {
                        int me = t;
                        threads[t] = new Thread(() -> sums[me] = fib(27));
                        threads[t].start();
                    }
                    for (Thread thread : threads) thread.join();
                    int caught = 0;
                    for (int i = 0; i < 20000; i++)
                        try { Object o = null; o.hashCode(); } catch (NullPointerException e) { caught++; }
                    System.out.println(counts.size() + " " + sums[3] + " " + caught);
                    System.exit(8);
                }
            }""")
        compiled = Run(["javac", "-d", self.folder, source], timeout=60)
        self.assertEqual(compiled.status, 0, compiled.words)
        self.reached(["java", "-XX:+UseSerialGC", "-cp", self.folder, "Work"], 50)


if __name__ == "__main__":
    unittest.main()
