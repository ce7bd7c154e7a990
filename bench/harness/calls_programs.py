# SPDX-License-Identifier: MIT
"""Programs for the calls tracker, each built four ways: as it is, with the bytes that `cairn cc` adds before each function
instead of in it, by `cairn cc`, and for gprof.

The real ones come as Debian source packages into the work folder; nothing of them is kept here."""

import dataclasses
import glob
import os
import random
import shutil
import subprocess

from . import inputs, workloads

PACKAGES = ("lua5.4", "bzip2", "zlib", "sqlite3", "tcc", "mawk", "minisat2")
KINDS = ("native", "shifted", "cairn", "gprof")
CACHE_LINE, FUNCTION_ALIGNMENT = 64, 16

LUA = """
local size = tonumber(arg[1])
local function tree(depth) if depth == 0 then return {} end return {tree(depth - 1), tree(depth - 1)} end
local function check(t) if t[1] then return 1 + check(t[1]) + check(t[2]) end return 1 end
local total = 0
for i = 1, size do total = total + check(tree(12)) end
local count = {}
for i = 1, size do
  for line in io.lines(arg[2]) do
    for word in line:gmatch("%a+") do count[word] = (count[word] or 0) + #line:sub(1, 3):upper() end
  end
end
local keys = {}
for k in pairs(count) do keys[#keys + 1] = k end
table.sort(keys, function(a, b) return count[a] > count[b] or count[a] == count[b] and a < b end)
print(total, keys[1], count[keys[1]], table.concat(keys, " ", 1, 9))
"""

SQL = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
INSERT INTO item SELECT i, 'item ' || (i * 7919 % {rows}), i % 97, (i * 31 % 1000) / 10.0 FROM n;
CREATE INDEX by_name ON item(name);
SELECT kind, count(*), round(sum(price), 2), min(name) FROM item GROUP BY kind ORDER BY 3 DESC LIMIT 9;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name WHERE a.kind < 40;
SELECT count(DISTINCT substr(name, 6, 3)) FROM item WHERE name LIKE '%42%';
"""

AWK = r"""
function fold(word) { return length(word) < 4 ? word : fold(substr(word, 2)) }
{ for (i = 1; i <= NF; i++) { count[$i]++; ends[fold($i)]++ } gsub(/e[a-z]/, "<&>"); size += length($0) }
END { for (word in count) if (count[word] > most) most = count[word]
      for (word in ends) kinds++
      print NR, size, most, kinds }
"""


@dataclasses.dataclass
class Program:
    name: str
    paths: dict  # by kind of build
    arguments: list
    short: list = None  # the same with less work, for tools that are very slow
    long: list = None  # and with more, some seconds of it, for what is left to chance
    stdin: str = os.devnull
    tells_time: bool = False  # what it prints is never the same
    places: list = None  # paths, with the code in several places; None: in one

    def paths_in(self, turn):
        return self.places[turn % len(self.places)] if self.places else self.paths


def compiler(place, kind, name):
    # g++ before 13 cannot link what that makes of functions in sections of their own.
    shift = "-falign-functions=32" if name == "g++" else "-fpatchable-function-entry=5,5"
    return {"native": [name], "shifted": [name, shift],
            "cairn": [place.cairn, "cc", name], "gprof": [name, "-pg"]}[kind]


def _is_current(place, kind, target, newest=0):
    """True if there is such a program, and neither its sources nor what `cairn cc` makes of them have changed since."""
    assembler = os.path.join(os.path.dirname(place.cairn), "cairn-as")
    if kind == "cairn" and os.path.exists(assembler):
        newest = max(newest, os.path.getmtime(assembler))
    return os.path.exists(target) and os.path.getmtime(target) >= newest


def build(place, name, sources, *flags, compiler_name="gcc", kinds=KINDS):
    """The same sources and flags, by each kind of build."""
    paths = {}
    for kind in kinds:
        paths[kind] = target = place.program(f"calls-{name}-{kind}")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        newest = max([os.path.getmtime(source) for source in sources])
        if not _is_current(place, kind, target, newest):
            command = [*compiler(place, kind, compiler_name), "-w", "-O2", "-no-pie", *sources, *flags]
            subprocess.run([*command, "-o", target], check=True)
    return paths


def _make(place, name, folder):
    """By the package's own configure and make."""
    paths = {}
    for kind in KINDS:
        paths[kind] = target = place.program(f"calls-{name}-{kind}")
        if not _is_current(place, kind, target):
            tree = place.at("builds", f"{name}-{kind}")
            shutil.rmtree(tree, ignore_errors=True)
            shutil.copytree(folder, tree)
            subprocess.run(["./configure"], cwd=tree, check=True, capture_output=True)
            words = " ".join(compiler(place, kind, "gcc"))
            subprocess.run(["make", "-s", f"CC={words} -no-pie", "CFLAGS=-O2", name], cwd=tree,
                           check=True, capture_output=True)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(tree, name), target)
    return paths


def input_file(place, name, content):
    path = place.at("inputs", name)
    data = content if isinstance(content, bytes) else content.encode()
    if not os.path.exists(path) or open(path, "rb").read() != data:
        with open(path, "wb") as file:
            file.write(data)
    return path


def _formula(variables, seed):
    """Random 3-SAT where it is hard."""
    source = random.Random(seed)
    clauses = [" ".join(str(v if source.random() < 0.5 else -v)
                        for v in source.sample(range(1, variables + 1), 3)) + " 0"
               for _ in range(int(variables * 4.26))]
    return f"p cnf {variables} {len(clauses)}\n" + "\n".join(clauses) + "\n"


def _text(place, megabytes):
    with open(place.at("inputs", "text"), "rb") as file:
        return input_file(place, f"calls-text{megabytes}", file.read(int(megabytes * (1 << 20))))


def _lua(place, folder):
    files = [path for path in glob.glob(folder + "/src/*.c") if not path.endswith("/luac.c")]
    script, text = input_file(place, "calls.lua", LUA), _text(place, 1)
    # The seed of its hashes: else two runs differ.
    paths = build(place, "lua", files, "-DLUA_USE_POSIX", "-Dluai_makeseed(L)=42", "-lm")
    return Program("lua", paths, [script, "18", text], [script, "1", text], [script, "126", text])


def _sqlite(place, folder):
    if not os.path.exists(folder + "/shell.c"):
        subprocess.run(["./configure"], cwd=folder, check=True, capture_output=True)
        subprocess.run(["make", "-s", "sqlite3.c", "shell.c"], cwd=folder, check=True, capture_output=True)
    paths = build(place, "sqlite3", [folder + "/sqlite3.c", folder + "/shell.c"],
                   "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-lm")
    script, short = (input_file(place, f"calls-{rows}.sql", SQL.format(rows=rows)) for rows in (700000, 40000))
    long = input_file(place, "calls-long.sql", (SQL.format(rows=700000) + "DROP TABLE item;\n") * 6)
    return Program("sqlite3", paths, *([":memory:", f".read {each}"] for each in (script, short, long)))


def _bzip2(place, folder):
    files = [f"{folder}/{name}.c" for name in ("blocksort", "huffman", "crctable", "randtable", "compress",
                                               "decompress", "bzlib", "bzip2")]
    text = _text(place, 15)
    return Program("bzip2", build(place, "bzip2", files, "-D_FILE_OFFSET_BITS=64"), ["-c", text], long=["-c", *[text] * 6])


def _minigzip(place, folder):
    paths = build(place, "minigzip", glob.glob(folder + "/*.c") + [folder + "/test/minigzip.c"], "-I", folder,
                   "-DHAVE_UNISTD_H", "-DHAVE_STDARG_H")
    text = _text(place, 18)
    with open(text, "rb") as file:
        long = input_file(place, "calls-text-long", file.read() * 8)
    return Program("zlib", paths, ["-c", text], long=["-c", long])


def _tcc(place, folder):
    if not os.path.exists(folder + "/config.h"):
        subprocess.run(["./configure"], cwd=folder, check=True, capture_output=True)
    source = place.at("inputs", "calls-huge.c")
    if not os.path.exists(source):
        inputs.make_c_file(source, 60000)
    paths = build(place, "tcc", [folder + "/tcc.c"], "-DONE_SOURCE=1", "-DTCC_TARGET_X86_64", "-I", folder, "-lm",
                   "-ldl", "-lpthread")
    return Program("tcc", paths, ["-c", source, "-o", place.at("calls.o")])


def _mawk(place, folder):
    script, text = input_file(place, "calls.awk", AWK), _text(place, 15)
    return Program("mawk", _make(place, "mawk", folder), ["-f", script, text], long=["-f", script, *[text] * 6])


def _minisat(place, folder):
    files = [folder + "/minisat/core/Main.cc", folder + "/minisat/core/Solver.cc",
             *glob.glob(folder + "/minisat/utils/*.cc")]
    paths = build(place, "minisat", files, "-fpermissive", "-std=gnu++11", "-I", folder,
                   "-D__STDC_LIMIT_MACROS", "-D__STDC_FORMAT_MACROS", "-lz", compiler_name="g++")
    short, long = (input_file(place, name, _formula(variables, 7))
                   for name, variables in (("calls.cnf", 260), ("calls-long.cnf", 300)))
    return Program("minisat (C++)", paths, ["-verb=0", short], long=["-verb=0", long])


def real(place, say):
    """Those whose sources could be fetched."""
    makers = {"lua5.4": _lua, "sqlite3": _sqlite, "bzip2": _bzip2, "zlib": _minigzip, "tcc": _tcc,
              "mawk": _mawk, "minisat2": _minisat}
    programs = []
    for package, folder in workloads.fetch(place, PACKAGES, say).items():
        try:
            programs.append(makers[package](place, folder))
        except subprocess.CalledProcessError as error:
            say(f"  {package} was not built: {(error.stderr or b'').decode(errors='replace')[-300:]}")
    return programs


def _in_places(place, name, source, *flags, **how):
    """A program of few functions runs as they happen to lie: fib() has 62 bytes, which are in one cache line or two,
    and takes a fifth longer in two. So each kind of build is there with all code 0, 16, 32 and 48 bytes further on."""
    source = os.path.join(place.source, "programs", source)
    builds = []
    for shift in range(0, CACHE_LINE, FUNCTION_ALIGNMENT):
        before = input_file(place, f"before-{shift}.s", f'\t.text\n\t.p2align 4\n\t.skip {shift}\n'
                            '\t.section .note.GNU-stack, "", @progbits\n') if shift else None
        builds.append(build(place, f"{name}-{shift}" if shift else name, [before, source] if before else [source], *flags, **how))
    return builds


def small(place):
    """Programs that do little but call."""
    made = lambda name, places, *work, **more: Program(name, places[0], *work, places=places, **more)
    return [
        made("go", _in_places(place, "go", "go.c"), ["25000"], long=["125000"]),
        made("connect4", _in_places(place, "connect4", "connect4.c"), ["14"], long=["16"]),
        made("fib", _in_places(place, "fib", "fib.c"), ["43"], long=["46"]),
        made("figure1", _in_places(place, "figure1", "figure1.c", "-fno-optimize-sibling-calls"), []),
        made("callbacks", _in_places(place, "callbacks", "callbacks.c"), ["8000000"]),
        made("shapes (C++)", _in_places(place, "shapes", "shapes.cc", compiler_name="g++"), ["200"], long=["1200"]),
    ]
