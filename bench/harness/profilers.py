# SPDX-License-Identifier: MIT
"""cairn and its peers: how each is started, and how many samples it took."""

import glob
import json
import os
import re
import struct
import subprocess

from .workloads import find

GPERFTOOLS = "/usr/lib/x86_64-linux-gnu/libprofiler.so.0"


class Profiler:
    """Runs nothing itself: command() says what to run, samples() reads what came out."""

    def __init__(self, name, title):
        self.name, self.title = name, title

    def available(self):
        return True

    def command(self, argv, output):
        """(argv, environment) that profiles argv into output."""
        return argv, {}

    def samples(self, run, output):
        """Samples taken, or None if that cannot be told."""
        return None

    def files(self, output):
        return [output] if os.path.exists(output) else []


class Cairn(Profiler):
    def __init__(self, name, title, cairn, *options):
        super().__init__(name, title)
        self.cairn, self.options = cairn, options

    def command(self, argv, output):
        return [self.cairn, "record", "-q", *self.options, "-o", output, "--", *argv], {}

    def info(self, output):
        done = subprocess.run([self.cairn, "info", "--json", output], capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cairn info: {done.stderr.decode(errors='replace').strip()}")
        return json.loads(done.stdout)

    def samples(self, run, output):
        return self.info(output)["samples"] if "--empty-handler" not in self.options else None


class Perf(Profiler):
    """Started directly, and without its BPF events: they cost it more than the samples do."""

    def __init__(self, name, title, *options):
        super().__init__(name, title)
        self.path, self.options = find("perf"), options

    def available(self):
        return self.path and os.path.exists(self.path)

    def command(self, argv, output):
        return [self.path, "record", "--no-bpf-event", *self.options, "-o", output, "--", *argv], {}

    def samples(self, run, output):
        found = re.search(r"\((~?)(\d+) samples\)", run.errors)
        return int(found.group(2)) if found else None


class Gperftools(Profiler):
    def __init__(self, name, title, rate):
        super().__init__(name, title)
        self.rate = rate

    def available(self):
        return os.path.exists(GPERFTOOLS)

    def command(self, argv, output):
        return argv, {"LD_PRELOAD": GPERFTOOLS, "CPUPROFILE": output,
                      "CPUPROFILE_FREQUENCY": str(self.rate)}

    def files(self, output):
        return glob.glob(output + "*")

    def samples(self, run, output):
        """The file is words: a header of 5, then (count, depth, pc...) until (0, 1, 0)."""
        total = 0
        for path in self.files(output):
            with open(path, "rb") as file:
                data = file.read()
            words = struct.unpack(f"<{len(data) // 8}Q", data[:len(data) // 8 * 8])
            at = 5
            while at + 2 < len(words) and words[at]:
                total += words[at]
                at += 2 + words[at + 1]
        return total


def all_profilers(place):
    cairn = place.cairn
    wanted = [
        Profiler("native", "native"),
        Profiler("again", "native again"),
        Cairn("cairn", "cairn 1 kHz", cairn, "-F", "1000"),
        Cairn("empty", "bare signals 1 kHz", cairn, "-F", "1000", "--empty-handler"),
        Cairn("cairn250", "cairn 250 Hz", cairn, "-F", "250"),
        Cairn("cairn-timer", "cairn 250 Hz, by timer", cairn, "-F", "250", "--source", "timer"),
        Perf("perf-fp", "perf -g", "-F", "1000", "-g"),
        Perf("perf-dwarf", "perf dwarf", "-F", "1000", "--call-graph", "dwarf"),
        Gperftools("gperftools", "gperftools", 1000),
    ]
    return [profiler for profiler in wanted if profiler.available()]
