#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make deb` makes two packages that Debian's own checks accept, and that work from the folder they are unpacked in."""

import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import Run, installed

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = ("cairn", "libcairn-agent")


@installed("dh", "dpkg-buildpackage", "dpkg-deb", "make")
class DebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cairn-deb-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        run = Run(["make", "--no-print-directory", "-C", SOURCE, "deb", "BUILD=" + cls.top], timeout=1500)
        if run.status:
            raise AssertionError(run.text + run.words)
        cls.files = {os.path.basename(path).split("_")[0]: path for path in glob.glob(cls.top + "/deb/*.deb")}
        cls.root = cls.top + "/root"
        for path in cls.files.values():
            subprocess.run(["dpkg-deb", "-x", path, cls.root], check=True)
        cls.cairn = cls.root + "/usr/bin/cairn"

    def field(self, package, name):
        return Run(["dpkg-deb", "-f", self.files[package], name]).text.strip()

    def run_it(self, *words, **how):
        run = Run([self.cairn, *words], cwd=self.top, **how)
        self.assertEqual(run.status, 0, run.text + run.words)
        return run

    def test_there_are_two_packages(self):
        self.assertEqual(sorted(self.files), sorted(PACKAGES))
        version = self.run_it("--version").text.split()[1]
        for package in PACKAGES:
            self.assertEqual(self.field(package, "Version"), version)
            self.assertIn("libc6 (>=", self.field(package, "Depends"))
            with gzip.open(f"{self.root}/usr/share/doc/{package}/changelog.gz", "rt", encoding="utf-8") as changes:
                self.assertIn("# Changes", changes.read())
            self.assertTrue(os.path.exists(f"{self.root}/usr/share/doc/{package}/copyright"))
        self.assertIn(f"libcairn-agent (= {version})", self.field("cairn", "Depends"))
        self.assertIn("libdw1", self.field("cairn", "Depends"))

    def test_the_agent_alone_is_enough_for_programs_that_are_linked_with_it(self):
        listed = Run(["dpkg-deb", "-c", self.files["libcairn-agent"]]).text
        for name in ("usr/include/cairn.h", "/cairn/libcairn.so", "/pkgconfig/cairn.pc", "/man3/cairn.3.gz"):
            self.assertIn(name, listed)
        self.assertNotIn("bin/", listed)

    def test_pages_are_compressed(self):
        pages = glob.glob(self.root + "/usr/share/man/man[135]/*")
        sources = glob.glob(SOURCE + "/docs/man/*.[135]")
        self.assertEqual(sorted(os.path.basename(path) for path in pages),
                         sorted(os.path.basename(path) + ".gz" for path in sources))

    def test_hardening_does_not_reach_the_agent(self):
        """The checks that packages are built with call libc, which nothing on the sampling path may do."""
        for path in glob.glob(self.root + "/usr/lib/*/cairn/libcairn*.so"):
            self.assertNotRegex(Run(["nm", "-D", "--undefined-only", path]).text, r"__stack_chk_fail|__\w+_chk\b")
        self.assertRegex(Run(["nm", "-D", "--undefined-only", self.cairn]).text, r"__\w+_chk\b")

    def test_records_and_attaches_from_a_folder(self):
        self.run_it("record", "-q", "-o", "one.out", "--", "perl", "-e", "$x += $_ * $_ for 1 .. 3e6")
        self.assertGreater(json.loads(self.run_it("info", "--json", "one.out").text)["samples"], 10)
        self.assertIn("Perl_runops", self.run_it("report", "one.out").text)
        with subprocess.Popen(["perl", "-e", "$| = 1; print 1; while (1) { $x += 1 }"], stdout=subprocess.PIPE) as loop:
            try:
                loop.stdout.read(1)
                self.run_it("record", "-q", "-o", "two.out", "-p", str(loop.pid), "--duration", "1")
            finally:
                loop.kill()
        self.assertGreater(json.loads(self.run_it("info", "--json", "two.out").text)["samples"], 10)

    def test_knows_nothing_of_the_folder_it_was_built_in(self):
        for place, _, names in os.walk(self.root):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    self.assertIsNone(re.search(rb"/tmp\.\w{10}|" + re.escape(SOURCE.encode()), file.read()), name)

    @installed("lintian")
    def test_lintian_finds_nothing(self):
        run = Run(["lintian", "--allow-root", "--fail-on", "error,warning", *self.files.values()], timeout=600)
        self.assertEqual((run.status, run.text), (0, ""), run.words)


if __name__ == "__main__":
    unittest.main()
