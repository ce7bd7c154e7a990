# SPDX-License-Identifier: MIT
"""Calls of real programs, as they are installed: as many of each function as callgrind counts."""

import os
import re
import shutil
import struct
import subprocess
import unittest
from collections import Counter

from support import LiveTest

FUNCTION = 2  # the type of a symbol


def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=True).stdout


def name_functions(source, target):
    """A copy of a stripped file with a name for each function that .eh_frame tells of, so that both sides call
    them the same; without one callgrind takes a tail call for a jump inside of the caller."""
    frames = output("readelf", "--debug-dump=frames", source)
    bounds = {int(start, 16): int(end, 16)
              for start, end in re.findall(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", frames)}
    start, size = next((int(line[1], 16), int(line[2], 16)) for line in re.findall(
        r"\s(\.text)\s+PROGBITS\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", output("readelf", "-SW", source)))
    named = {int(address, 16) for address in re.findall(r"^([0-9a-f]+) [TtWi]", output("nm", "-D", source), re.M)}
    options = target + ".options"
    with open(options, "w", encoding="ascii") as file:
        for address in bounds:
            if start <= address < start + size and address not in named:
                file.write(f"--add-symbol fn_{address:x}=.text:{address - start:#x},function,global\n")
    subprocess.run(["objcopy", "@" + options, source, target], check=True)
    with open(target, "rb") as file:
        data = bytearray(file.read())
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    for section in range(count):
        head = struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * section)
        for at in range(head[4], head[4] + head[5], 24) if head[1] == 2 else ():
            _, info, _, _, address, length = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == FUNCTION and length == 0 and address in bounds:
                struct.pack_into("<Q", data, at + 16, bounds[address] - address)
    with open(target, "wb") as file:
        file.write(data)


def plain(name):
    """Without parameters, and the number that callgrind adds to recursion."""
    return re.sub(r"'\d+$", "", name).split("(")[0].split("@")[0]


@unittest.skipUnless(shutil.which("valgrind") and shutil.which("objcopy"), "needs valgrind and binutils")
class Counts(LiveTest):
    def callgrind(self, argv, file, **how):
        """Calls of the functions in a file, but for those by the loader, and of main."""
        out = self.file("callgrind.out")
        subprocess.run(["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", "--dump-line=no",
                        "--compress-pos=no", "--callgrind-out-file=" + out, *argv], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
        calls, caller, callee, function = Counter(), "", None, ""
        with open(out, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.rstrip("\n").partition("=")
                if key == "ob":
                    caller = value
                elif key == "cob":
                    callee = value
                elif key == "cfn":
                    function = value
                elif key == "calls":
                    if os.path.basename(callee or caller) == file and "ld-linux" not in caller:
                        calls[plain(function)] += int(value.split()[0])
                    callee = None
        return calls

    def followed(self, argv, file, **how):
        run, profile = self.record(argv, "--track", "calls", **how)
        self.assert_same(run, self.native(argv, **how))
        calls = Counter()
        for node in profile.nodes:
            if node.module == file and node.calls and not node.inlined:
                calls[plain(node.function)] += node.calls
        return calls, profile

    def assert_counts(self, seen, truth, least):
        # Of the compiler and linker, and what libc calls before and after main.
        for counts in seen, truth:
            for name in [name for name in counts if name in ("_init", "_start", "_fini", "main", "(below main)")
                         or counts[name] == 1 and re.search("^fn_|0x", name)]:
                del counts[name]
        differ = {name: (seen[name], truth[name]) for name in set(seen) | set(truth)
                  if seen[name] != truth[name]}
        self.assertEqual(differ, {})
        self.assertGreater(len(truth), least)

    def assert_as_callgrind(self, name, *argv, least, library=None, **how):
        """Counts of all functions of a program, or of a library that it uses."""
        path = shutil.which(name)
        if not path:
            self.skipTest(f"no {name} here")
        program, file = self.file(name), name
        name_functions(os.path.realpath(path), program)
        if library:
            file = library
            found = re.search(rf"{re.escape(library)} => (\S+)", output("ldd", path)).group(1)
            name_functions(os.path.realpath(found), self.file(library))
            how["env"] = dict(how.get("env", os.environ), LD_LIBRARY_PATH=self.folder)
        seen, profile = self.followed([program, *argv], file, **how)
        self.assert_counts(seen, self.callgrind([program, *argv], file, **how), least)
        sites = profile.info["call_sites"]
        self.assertGreater(sites["patched"], 50)
        self.assertLess(sites["left"], sites["patched"] / 20)

    def test_of_bzip2(self):
        with open(self.file("input"), "w", encoding="ascii") as file:
            file.writelines(f"{i * i % 1009} {i}\n" for i in range(20000))
        self.assert_as_callgrind("bzip2", "-kc", "input", least=9, library="libbz2.so.1.0")

    def test_of_sqlite3(self):
        with open(self.file("script"), "w", encoding="ascii") as file:
            file.write("create table t(a integer primary key, b text);\n"
                       "with recursive n(i) as (select 1 union all select i+1 from n where i<500)\n"
                       "insert into t select i, 'x'||(i*7919%503) from n;\n"
                       "create index ib on t(b);\nselect count(*), min(b), max(b) from t;\n"
                       "select b, count(*) from t group by substr(b,1,2) order by 2 desc limit 3;\n"
                       "select a.a, b.a from t a join t b on a.b=b.b order by a.b limit 5;\n")
        self.assert_as_callgrind("sqlite3", "-init", "script", ":memory:", ".exit", least=300,
                                 library="libsqlite3.so.0")

    def test_of_git(self):
        who = dict(os.environ, GIT_AUTHOR_DATE="2020-01-01T00:00:00Z", GIT_COMMITTER_DATE="2020-01-01T00:00:00Z",
                   GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
        for words in (("init", "-q", "."), ("add", "note"), ("commit", "-qm", "one"), ("commit", "-qam", "two")):
            with open(self.file("note"), "a", encoding="ascii") as file:
                file.write(" ".join(words) + "\n")
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.folder, env=who,
                           check=True, stdout=subprocess.DEVNULL)
        self.assert_as_callgrind("git", "--no-pager", "log", "--stat", "-p", least=300, env=who)

    def test_of_a_program_in_cpp(self):
        with open(self.file("page.1"), "w", encoding="ascii") as file:
            file.write(".TH PAGE 1\n.SH NAME\npage\n" + ".PP\n\\fBsome\\fP words that fill a line\n" * 200)
        self.assert_as_callgrind("troff", "-man", "-Tascii", "page.1", least=200)

    def test_of_perl(self):
        """The environment takes calls, too, and is not the same: so what a longer loop adds."""
        script = "my %h; for my $i (1..$ARGV[0]) { $h{'k' . $i % 97} .= chr(65 + $i % 26); } " \
                 "print join(',', map { lc } sort { $h{$a} cmp $h{$b} || $a cmp $b } keys %h), \"\\n\"; " \
                 "for (1..$ARGV[0]) { eval { die \"x\\n\" }; s/x(.)/y$1/; }"
        how = {"env": dict(os.environ, PERL_HASH_SEED="0")}
        program = self.file("perl")
        name_functions(os.path.realpath(shutil.which("perl")), program)
        counts = []
        for turns in "400", "900":
            argv = [program, "-e", script, turns]
            counts.append((self.followed(argv, "perl", **how)[0], self.callgrind(argv, "perl", **how)))
        seen, truth = counts[1][0] - counts[0][0], counts[1][1] - counts[0][1]
        self.assert_counts(seen, truth, 30)


if __name__ == "__main__":
    unittest.main()
