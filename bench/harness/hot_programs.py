# SPDX-License-Identifier: MIT
"""Programs whose calling context trees are large: games, as in the HCCT paper."""

import glob
import os
import re
import shutil
import subprocess

from . import calls_programs, workloads
from .calls_programs import Program

PACKAGES = ("gnugo", "phalanx")


def gnugo(place, folder, kinds):
    """Plays forty moves with itself."""
    paths = {}
    for kind in kinds:
        paths[kind] = target = place.program(f"hot-gnugo-{kind}")
        if not os.path.exists(target):
            tree = place.at("builds", f"gnugo-{kind}")
            shutil.rmtree(tree, ignore_errors=True)
            shutil.copytree(folder, tree)
            compiler = " ".join(calls_programs.compiler(place, kind, "gcc"))
            subprocess.run(["./configure", f"CC={compiler}", "CFLAGS=-O2 -w -fcommon -no-pie", "--without-curses",
                            "--without-readline"], cwd=tree, check=True, capture_output=True)
            subprocess.run(["make", "-s", "-j2"], cwd=tree, check=True, capture_output=True)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(os.path.join(tree, "interface", "gnugo"), target)
    return Program("gnugo", paths, ["--quiet", "--benchmark", "40", "--seed", "1", "--level", "4", "--boardsize", "13"])


def phalanx(place, folder, kinds=calls_programs.KINDS, plies=16):
    """Thinks so many plies ahead, once; without its dice, and with variables that it forgets to set at 0, so that two runs
    are alike, and two builds."""
    main = folder + "/phalanx.c"
    with open(main, encoding="latin-1") as file:
        text = file.read()
    steady = re.sub(r"srand\(.*\);", "srand(1);", text)
    if steady != text:
        with open(main, "w", encoding="latin-1") as file:
            file.write(steady)
    paths = calls_programs.build(place, "phalanx-set", glob.glob(folder + "/*.c"), "--std=gnu89", "-D_GNU_SOURCE", "-DGNUFUN",
                                 "-ftrivial-auto-var-init=zero", kinds=kinds)
    program = Program("phalanx", paths, ["-b-", "-l-", "-c-", "-x-", "-o-", "-p-"], tells_time=True)
    program.stdin = calls_programs.input_file(place, f"phalanx{plies}", f"depth {plies}\ngo\n")
    return program


def chess(place, say):
    """A chess program with less to think about, if its sources could be fetched."""
    return [phalanx(place, folder, plies=13) for folder in workloads.fetch(place, ["phalanx"], say).values()]


def large(place, say):
    """Those whose sources could be fetched."""
    makers = {"gnugo": gnugo, "phalanx": phalanx}
    programs = []
    for package, folder in workloads.fetch(place, PACKAGES, say).items():
        try:
            programs.append(makers[package](place, folder, ("native", "cairn")))
        except subprocess.CalledProcessError as error:
            say(f"  {package} was not built: {(error.stderr or b'').decode(errors='replace')[-300:]}")
    return programs
