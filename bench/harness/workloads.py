# SPDX-License-Identifier: MIT
"""The programs that are measured: what nobody here wrote, and one that is deep."""

import dataclasses
import glob
import os
import shutil
import subprocess

from . import inputs


@dataclasses.dataclass
class Workload:
    name: str
    argv: list
    what: str  # one line for the reader: what is run


@dataclasses.dataclass
class Place:
    """Where things are."""
    source: str  # bench/
    build: str
    work: str

    @property
    def cairn(self):
        return os.path.join(self.build, "cairn")

    def at(self, *parts):
        return os.path.join(self.work, *parts)

    def profile(self, name=""):
        """Where the next profile goes; what an earlier tool left there is gone. With a name, for one of several that run
        at once."""
        for path in glob.glob(self.at(f"profile{name and '-' + name}*")):
            os.unlink(path)
        return self.at(f"profile{name and '-' + name}")

    def program(self, name):
        return os.path.join(self.work, "programs", name)


def fetch(place, packages, say):
    """Sources of Debian packages: the folders of those that could be had."""
    script = os.path.join(place.source, os.pardir, "scripts", "fetch-source")
    folders = {}
    for package in packages:
        done = subprocess.run([script, place.at("sources"), package], capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"  {done.stderr.strip()}")
        else:
            folders[package] = place.at("sources", package)
    return folders


def find(*names):
    """The first of these programs that is installed. The system's own, not one of a version manager:
    those are scripts that start another one."""
    for name in names:
        for folder in ("/usr/bin", "/bin", "/usr/local/bin", "/usr/games"):
            if os.access(os.path.join(folder, name), os.X_OK):
                return os.path.join(folder, name)
    return shutil.which(names[0])


def cc1():
    gcc = find("gcc", "cc")
    if not gcc:
        return None
    path = subprocess.run([gcc, "-print-prog-name=cc1"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return path if os.path.isabs(path) else None


def _read_symbols(path):
    return ["-ex", f"file {path}", "-ex", "maint expand-symtabs", "-ex", "info line main", "-ex", "file"]


def compile_c(place, source, name, *flags, libraries=(), compiler="cc"):
    """Compiles one of bench/programs; the result is kept while the source is older."""
    target, path = place.program(name), os.path.join(place.source, "programs", source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target) or os.path.getmtime(target) < os.path.getmtime(path):
        subprocess.run([compiler, "-D_GNU_SOURCE", "-g", "-O2", *flags, path, "-o", target, *libraries], check=True)
    return target


def build_tool(place, name, say):
    """The path of one of the small benchmarks, built; None if it cannot be."""
    built = subprocess.run(["ninja", "-C", place.build, f"bench/{name}"], capture_output=True, text=True, check=False)
    if built.returncode:
        say(f"  bench/{name} cannot be built: {built.stdout.strip()[-200:]}")
    return None if built.returncode else os.path.join(place.build, "bench", name)


def prepare(place):
    """Inputs and compiled programs."""
    os.makedirs(place.at("inputs"), exist_ok=True)
    inputs.make_all(place.at("inputs"), find("git"))
    compile_c(place, "deep.c", "deep")
    javac = find("javac")
    if javac and not os.path.exists(place.at("inputs", "Work.class")):
        subprocess.run([javac, "-d", place.at("inputs"), place.at("inputs", "Work.java")], check=True)


def all_workloads(place):
    """Those that can run here, and the names of those that cannot."""
    at = lambda name: place.at("inputs", name)
    text = at("text")
    wanted = [
        ("sqlite3", find("sqlite3"), [":memory:", f".read {at('work.sql')}"],
         "400,000 rows: insert, index, group, join"),
        ("perl", find("perl"), [at("work.pl"), text], "words and pairs, recursion"),
        ("python3", find("python3"), [at("work.py"), text], "trees, regular expressions, JSON"),
        ("lua5.4", find("lua5.4", "lua"), [at("work.lua"), text], "trees, words, sort"),
        ("git", find("git"), ["-C", at("repository"), "--no-pager", "log", "-p", "main"],
         "log -p of 450 commits"),
        ("cc1", cc1(), ["-quiet", "-O2", at("many.c"), "-o", "/dev/stdout"], "gcc -O2, 115 functions"),
        ("xz -T2", find("xz"), ["-T2", "-3", "--block-size=1MiB", "-c", at("text5")], "5 MB"),
        ("zstd -T2", find("zstd"), ["-T2", "-10", "-q", "-c", text], "18 MB"),
        ("bzip2", find("bzip2"), ["-c", text], "18 MB"),
        ("node", find("node"), [at("work.js"), text], "trees, words, JSON"),
        ("java", find("java"), ["-XX:+UseSerialGC", "-cp", place.at("inputs"), "Work", text], "trees, regular expressions"),
        ("javac", find("javac"), ["-J-XX:+UseSerialGC", "-d", place.at("javac"), at("Many.java")], "nested calls and lambdas"),
        ("gdb", find("gdb"), ["--batch", "-nx", *_read_symbols(place.cairn) * 30],
         "start, read all symbols of cairn 30 times"),
        ("deep 2,000", place.program("deep"), ["2000", "700000"], "bench/programs/deep.c"),
    ]
    present = [Workload(name, [path, *rest], what) for name, path, rest, what in wanted if path]
    return present, [name for name, path, _, _ in wanted if not path]
