# SPDX-License-Identifier: MIT
"""Programs for the csprof paper's Tables 2 and 3, each as it is and with gprof's instrumentation: those of the calls table, two
games, and three that do little but compute with real numbers."""

import glob
import os
import random
import shutil
import subprocess

from . import calls_programs, hot_programs, workloads
from .calls_programs import Program, build, input_file

REAL_NUMBERS = ("qhull", "libsvm", "lame")
KINDS = ("native", "gprof")


def _points(count, dimensions):
    source = random.Random(5)
    lines = (" ".join(f"{source.gauss(0, 1):.6f}" for _ in range(dimensions)) for _ in range(count))
    return f"{dimensions}\n{count}\n" + "\n".join(lines) + "\n"


def _qhull(place, folder):
    """The convex hull of points in six dimensions."""
    sources = [*glob.glob(folder + "/src/libqhull/*.c"), folder + "/src/qhull/unix.c"]
    paths = build(place, "qhull", sources, "-I", folder + "/src", "-lm", kinds=KINDS)
    return Program("qhull", paths, ["Fx", "TI", input_file(place, "paper-points", _points(60000, 6))])


def _svm_data(count, features):
    source = random.Random(6)
    def line():
        values = [source.uniform(-1, 1) for _ in range(features)]
        label = 1 if sum(value * value for value in values) > features / 3 else -1
        return f"{label:+d} " + " ".join(f"{number}:{value:.5f}" for number, value in enumerate(values, 1))
    return "\n".join(line() for _ in range(count)) + "\n"


def _libsvm(place, folder):
    """Trains a support vector machine."""
    paths = build(place, "libsvm", [folder + "/svm.cpp", folder + "/svm-train.c"], "-lm", compiler_name="g++", kinds=KINDS)
    return Program("libsvm (C++)", paths, ["-q", "-m", "1", input_file(place, "paper-svm", _svm_data(14000, 12)), "/dev/stdout"])


def _wave(seconds):
    """A chord with noise, as 16-bit samples."""
    source, rate = random.Random(7), 44100
    noise = [source.randrange(-2000, 2000) for _ in range(rate)]
    chord = [[int(6000 * (1 if step * pitch // rate % 2 else -1)) for step in range(rate)] for pitch in (440, 554)]
    second = b"".join((noise[step] + chord[0][step] + chord[1][step]).to_bytes(2, "little", signed=True) for step in range(rate))
    return second * seconds


def _lame(place, folder):
    """Encodes sound as MP3."""
    paths = {}
    for kind in KINDS:
        paths[kind] = target = place.program(f"paper-lame-{kind}")
        if not os.path.exists(target):
            tree = place.at("builds", f"lame-{kind}")
            shutil.rmtree(tree, ignore_errors=True)
            shutil.copytree(folder, tree)
            words = " ".join(calls_programs.compiler(place, kind, "gcc"))
            subprocess.run(["./configure", "--disable-shared", "--disable-nasm", "--disable-decoder", f"CC={words} -no-pie",
                            "CFLAGS=-O2 -w"], cwd=tree, check=True, capture_output=True)
            subprocess.run(["make", "-s", "-j2"], cwd=tree, check=True, capture_output=True)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(os.path.join(tree, "frontend", "lame"), target)
    return Program("lame", paths, ["--quiet", "-r", "-m", "m", "-q", "0", input_file(place, "paper-wave", _wave(40)), "-"])


def programs(place, say):
    """Those whose sources could be fetched; which of them compute with real numbers."""
    makers = {"gnugo": lambda place, folder: hot_programs.gnugo(place, folder, KINDS),
              "phalanx": lambda place, folder: hot_programs.phalanx(place, folder, KINDS, 13),
              "qhull": _qhull, "libsvm": _libsvm, "lame": _lame}
    found, real = calls_programs.real(place, say), set()
    for package, folder in workloads.fetch(place, makers, say).items():
        try:
            found.append(makers[package](place, folder))
        except subprocess.CalledProcessError as error:
            say(f"  {package} was not built: {(error.stderr or b'').decode(errors='replace')[-300:]}")
            continue
        if package in REAL_NUMBERS:
            real.add(found[-1].name)
    return found, real
