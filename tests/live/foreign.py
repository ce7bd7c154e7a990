# SPDX-License-Identifier: MIT
"""Other people's tools, as tests use them to read what cairn writes: those that Debian has, and packages of npm,
which are fetched once and kept."""

import gzip
import hashlib
import http.client
import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))

PACKAGES = {
    "profiler-cli": ("https://registry.npmjs.org/@firefox-devtools/profiler-cli/-/profiler-cli-0.10.0.tgz",
                     "41a25d3ef0c1131f5286eb098489f2868d7b9a627424023fc6e7aff9a33f85e2"),
    "speedscope": ("https://registry.npmjs.org/speedscope/-/speedscope-1.25.0.tgz",
                   "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03"),
}


ATTEMPTS = 4  # a busy mirror or network answers one of them


def fetch(address, digest):
    """A file that has this digest. Skips the test where it cannot be had."""
    for attempt in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                archive = answer.read()
            break
        # An answer that ends too early is no OSError.
        except (OSError, http.client.HTTPException) as error:
            if attempt + 1 == ATTEMPTS:
                raise unittest.SkipTest(f"{address}: {error}") from None
            time.sleep(2 ** attempt)
    if hashlib.sha256(archive).hexdigest() != digest:
        raise AssertionError(f"{address} is another file than it was")
    return archive


def package(name):
    """The folder of a package of npm, fetched once for all tests. Skips the test where it cannot be had."""
    address, digest = PACKAGES[name]
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cairn-tests")
    folder = os.path.join(cache, digest[:16])
    if not os.path.isdir(folder):
        archive = fetch(address, digest)
        os.makedirs(cache, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as made:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(made, filter="data")
            try:
                os.rename(os.path.join(made, "package"), folder)
            except OSError:
                pass  # another test was quicker
    return folder


def read_with_speedscope(*paths):
    """What speedscope's own importer makes of files: a list of profiles for each."""
    done = subprocess.run(["node", os.path.join(HERE, "read_with_speedscope.js"), package("speedscope"), *paths],
                          capture_output=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"speedscope: {done.stderr.decode()}")
    return json.loads(done.stdout)


class FirefoxProfiler:
    """A session of the Firefox Profiler's command line on a file."""

    def __init__(self, case, path):
        self.command = ["node", os.path.join(package("profiler-cli"), "dist", "profiler-cli.js")]
        self.environment = dict(os.environ, HOME=case.folder)
        case.addCleanup(self.run, "stop", "--all")
        self.run("load", path)
        # It leaves a server behind, which may not have begun yet.
        until = time.monotonic() + 60
        while self.run("thread", "list", "--json").returncode:
            if time.monotonic() > until:
                raise AssertionError("the Firefox Profiler does not load " + path)
            time.sleep(0.2)

    def run(self, *words):
        return subprocess.run([*self.command, *words], env=self.environment, capture_output=True, timeout=60)

    def ask(self, *words):
        done = self.run(*words, "--json")
        if done.returncode:
            raise AssertionError(done.stderr.decode())
        return json.loads(done.stdout)


def fields(message):
    """The fields of a protocol buffer: (number, value) in their order; bytes for what has a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 1:
            yield tag >> 3, int.from_bytes(message[at:at + 8], "little")
            at += 8
        elif tag & 7 == 2:
            length = varint()
            assert at + length <= len(message)
            yield tag >> 3, message[at:at + length]
            at += length
        else:
            raise AssertionError(f"type {tag & 7}")


def group(message):
    """The same by their numbers: {number: [value, ...]}."""
    values = {}
    for number, value in fields(message):
        values.setdefault(number, []).append(value)
    return values


def numbers(packed):
    """A packed list of numbers."""
    values, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            value = shift = 0
    return values


class Pprof:
    """A profile.proto, with all references looked up: one that leads nowhere fails."""

    def __init__(self, data):
        top = group(gzip.decompress(data))
        self.strings = [text.decode("utf-8") for text in top[6]]
        assert self.strings[0] == ""
        self.types = [tuple(self.text(group(one), n) for n in (1, 2)) for one in top[1]]
        self.default = self.text(top, 14)
        mappings = {one[1][0]: one for one in map(group, top.get(3, []))}
        self.mappings = [(self.text(one, 5), self.text(one, 6)) for one in mappings.values()]
        functions = {one[1][0]: one for one in map(group, top.get(5, []))}
        locations = {}
        for one in map(group, top.get(4, [])):
            mapping = mappings[one[2][0]] if 2 in one else None
            if mapping and 3 in one:
                assert mapping.get(2, [0])[0] <= one[3][0] < mapping[3][0]
            lines = []
            for line in map(group, one[4]):
                function = functions[line[1][0]]
                lines.append((self.text(function, 2), self.text(function, 4), line.get(2, [0])[0]))
            # Where in the file.
            offset = one[3][0] - mapping.get(2, [0])[0] if mapping and 3 in one else None
            locations[one[1][0]] = (self.text(mapping, 5) if mapping else "", offset, lines)
        self.samples = []
        for one in map(group, top[2]):
            labels = {}
            for label in map(group, one.get(3, [])):
                labels[self.text(label, 1)] = self.text(label, 2) or label.get(3, [0])[0]
            stack = [locations[number] for number in numbers(one[1][0])]
            self.samples.append((stack, numbers(one[2][0]), labels))
        self.duration, self.time = top.get(10, [0])[0], top.get(9, [0])[0]
        self.period = top.get(12, [0])[0]

    def text(self, message, number):
        return self.strings[message.get(number, [0])[0]]

    def total(self, metric):
        return sum(values[metric] for _, values, _ in self.samples)


class Otlp:
    """ProfilesData of OpenTelemetry: its samples as (metric, unit, names of the stack, value, attributes, resource)."""

    def __init__(self, data):
        top = group(data)
        dictionary = group(top[2][0])
        strings = [text.decode("utf-8") for text in dictionary[5]]
        functions, locations, stacks = ([group(one) for one in dictionary[table]] for table in (3, 2, 7))
        attributes = [self.attribute(group(one), strings) for one in dictionary[6]]
        # Number 0 of each table is empty.
        assert strings[0] == "" and not (dictionary[1][0] or dictionary[4][0] or functions[0] or locations[0] or stacks[0])
        assert all(location.get(1, [0])[0] < len(dictionary[1]) for location in locations)
        self.samples = []
        for resource_profiles in map(group, top[1]):
            resource = {one[1][0].decode(): self.value(one[2][0]) for one in map(group, group(resource_profiles[1][0])[1])}
            for profile in map(group, group(resource_profiles[2][0])[2]):
                kind = group(profile[1][0])
                for sample in map(group, profile.get(2, [])):
                    stack = [strings[functions[group(line)[1][0]][1][0]]
                             for location in numbers(stacks[sample[1][0]][1][0])
                             for line in locations[location][3]]
                    self.samples.append((strings[kind[1][0]], strings[kind[2][0]], stack, numbers(sample[4][0])[0],
                                         dict(attributes[number] for number in numbers(sample[2][0])), resource))

    @staticmethod
    def value(message):
        value = group(message)
        return value[1][0].decode("utf-8") if 1 in value else value.get(3, [0])[0]

    def attribute(self, message, strings):
        return (strings[message[1][0]], self.value(message[2][0])) if message else None
