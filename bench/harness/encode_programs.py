# SPDX-License-Identifier: MIT
"""The programs of the encode table: those of the DACCE paper that Debian has, others that call much, and ours that do little
but call. Each does its work in units, as many as it is told to, in one process."""

import dataclasses
import hashlib
import os
import re
import typing

from . import encode_inputs, inputs, workloads


@dataclasses.dataclass
class Program:
    name: str
    path: str
    words: typing.Callable  # from a number of units to the arguments
    paper: str = None  # its row in the paper's Table 1
    threads: int = 1
    env: dict = dataclasses.field(default_factory=dict)
    stdin: typing.Callable = lambda units: os.devnull
    varies: bytes = None  # lines of its output that are never the same begin so (regular expression)
    files: tuple = ()  # that it writes beside its stdout
    recursive: bool = True  # it calls itself, directly or not; only told of ours

    def argv(self, units):
        return [self.path, *self.words(units)]

    def digest(self, out_path):
        """Of its output, as far as that is the same in each run."""
        content = hashlib.sha256()
        for path in (out_path, *(os.path.join(os.path.dirname(out_path), name) for name in self.files)):
            if not os.path.exists(path):
                content.update(b"missing")
                continue
            with open(path, "rb") as file:
                if self.varies:
                    content.update(b"".join(line for line in file if not re.match(self.varies, line)))
                else:
                    content.update(hashlib.file_digest(file, "sha256").digest())
        return content.hexdigest()[:16]


def _files(place):
    """Scripts and fixed inputs, in a folder of their own."""
    folder = place.at("encode-inputs")
    os.makedirs(folder, exist_ok=True)
    return lambda *name: os.path.join(folder, *name)


def _text(place, megabytes):
    def make(path):
        with open(place.at("inputs", "text"), "rb") as file:
            encode_inputs.write(path, file.read(int(megabytes * (1 << 20))))
    return encode_inputs.keep(place.at("encode-inputs", f"text{megabytes}"), make)


def _gromacs(at):
    gmx = workloads.find("gmx")
    if not gmx or not os.path.exists(encode_inputs.WATER):
        return None, None
    return gmx, encode_inputs.simulation(at("gromacs"), gmx)


def real(place):
    """The programs that are installed, and the names of those that are not."""
    at, find = _files(place), workloads.find
    scaled = lambda name, make, per=1: lambda units: encode_inputs.keep(at(f"{name}-{units}"), lambda path: make(path, units * per))
    text = _text(place, 18)
    script = lambda name, content: encode_inputs.write(at(name), content)
    source = scaled("many.c", inputs.make_c_file, 12)
    items = scaled("shop.xml", encode_inputs.documents)
    queries = scaled("queries.fa", lambda path, count: encode_inputs.proteins(path, count, 3))
    database = encode_inputs.keep(at("database.fa"), lambda path: encode_inputs.proteins(path, 1500, 4))
    film = scaled("film.y4m", encode_inputs.film, 30)
    picture = scaled("picture.ppm", encode_inputs.image, 3000)
    moves = scaled("games.gtp", encode_inputs.games)
    git, repository = find("git"), place.at("inputs", "repository")
    patches = scaled("commits", lambda path, units: encode_inputs.commits(path, units, git, repository))
    gmx, water = _gromacs(at)
    wanted = [
        Program("perl", find("perl"), lambda n: [script("work.pl", encode_inputs.PERL), str(n), text], "400.perlbench",
                env={"PERL_HASH_SEED": "0"}),
        Program("bzip2", find("bzip2"), lambda n: ["-c", *[_text(place, 2)] * n], "401.bzip2"),
        Program("cc1", workloads.cc1(), lambda n: ["-quiet", "-O2", source(n), "-o", "/dev/stdout"], "403.gcc"),
        Program("gnugo", find("gnugo"), lambda n: ["--mode", "gtp", "--level", "5", "--seed", "7"], "445.gobmk", stdin=moves),
        Program("hmmer", find("phmmer"), lambda n: ["--cpu", "2", "--noali", queries(n), database], "456.hmmer", threads=2,
                varies=rb"# (CPU time|Mc/sec)"),
        Program("xalan", find("Xalan"), lambda n: [items(n), script("shop.xsl", encode_inputs.STYLESHEET)], "483.xalancbmk"),
        Program("povray", find("povray"), lambda n: ["-D", "-GA", "+WT2", "+W160", "+H120", "+KFI1", f"+KFF{n}", "+FP", "+O-",
                                                     "+I" + script("scene.pov", encode_inputs.SCENE)], "453.povray", threads=2,
                varies=rb".*# Render Date"),
        Program("gromacs", gmx, lambda n: ["-quiet", "mdrun", "-s", water, "-ntmpi", "1", "-ntomp", "2", "-nb", "cpu", "-reprod",
                                           "-pin", "off", "-nsteps", str(200 * n), "-c", "end.gro"], "435.gromacs", threads=2,
                env={"OMP_WAIT_POLICY": "passive", "GMX_MAXBACKUP": "-1"}, files=("end.gro",)),
        Program("x264", find("x264"), lambda n: ["--quiet", "--preset", "slower", "--qp", "26", "--threads", "2", "-o", "film.264", film(n)],
                "464.h264ref", threads=2, files=("film.264",)),
        Program("vips", find("vips"), lambda n: ["affine", picture(n), "small.ppm", "0.9 0 0 0.9", "--interpolate", "bicubic"],
                "vips", threads=2, env={"VIPS_CONCURRENCY": "2"},
                varies=rb"#vips2ppm", files=("small.ppm",)),
        Program("lua5.4", find("lua5.4", "lua"), lambda n: [script("work.lua", encode_inputs.LUA), str(n), text]),
        Program("sqlite3", find("sqlite3"), lambda n: [":memory:", *[".read " + script("work.sql", encode_inputs.SQL)] * n]),
        Program("python3", find("python3"), lambda n: [script("work.py", encode_inputs.PYTHON), str(n), text],
                env={"PYTHONHASHSEED": "0"}),
        Program("git", git, lambda n: ["-C", repository, "diff-tree", "-p", "--stdin"], stdin=patches),
        Program("xz", find("xz"), lambda n: ["-T2", "-2", "--block-size=512KiB", "-c", *[_text(place, 1)] * n], threads=2),
        Program("zstd", find("zstd"), lambda n: ["-T2", "-9", "-B512KiB", "-q", "-c", *[_text(place, 2)] * n], threads=2),
        Program("pbzip2", find("pbzip2"), lambda n: ["-p2", "-b2", "-c", *[_text(place, 2)] * n], "401.bzip2", threads=2),
    ]
    present = [program for program in wanted if program.path]
    return present, [program.name for program in wanted if not program.path]


def small(place):
    """Programs of bench/programs that do little but call."""
    made = lambda source, *flags, **more: workloads.compile_c(place, source, os.path.splitext(source)[0], *flags, **more)
    loops = made("loops.c", libraries=["-pthread"])
    loop = lambda name, kind, times, **more: Program(name, loops, lambda n: [kind, str(times * n)], recursive=False, **more)
    return [
        loop("loop: direct calls", "direct", 1000000),
        loop("loop: 3 targets", "few", 3000000),
        loop("loop: 64 targets", "many", 3000000),
        loop("loop: two threads", "threads", 3000000, threads=2),
        Program("go", made("go.c"), lambda n: [str(1000 * n)]),
        Program("connect4", made("connect4.c"), lambda n: ["9", str(n)]),
        Program("fib", made("fib.c"), lambda n: ["30", str(n)]),
        Program("qsort()", made("callbacks.c"), lambda n: ["300000", str(n)], recursive=False),
        Program("shapes (C++)", made("shapes.cc", compiler="c++"), lambda n: [str(3 * n)]),
    ]


def allocating(place):
    """Programs that allocate often."""
    by_name = {program.name: program for program in real(place)[0]}
    shapes = [program for program in small(place) if program.name.startswith("shapes")]
    chosen = [by_name[name] for name in ("perl", "lua5.4", "sqlite3", "xalan") if name in by_name]
    if "python3" in by_name:
        python = by_name["python3"]
        chosen.append(dataclasses.replace(python, name="python3, PYTHONMALLOC=malloc", env=dict(python.env, PYTHONMALLOC="malloc")))
    return chosen + shapes
