# SPDX-License-Identifier: MIT
"""A profile that cannot be written: what fits is kept, the last line says what happened, nobody is left behind."""

import json
import os
import resource
import shutil
import signal
import subprocess
import unittest

from support import CAIRN, LiveTest, Profile, Run, program

CHILDREN = 40
UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def can_mount():
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
                          check=False).returncode == 0


def left_behind(word):
    """Processes that have a word in their arguments or environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if word.encode() in file.read() and int(pid) != os.getpid():
                    found.append(pid)
        except OSError:
            pass  # it has ended
    return found


class DiskTest(LiveTest):
    def many(self):
        """A script that runs children with arguments that no compressor makes smaller: 12 kB in any profile."""
        words = " ".join(os.urandom(150).hex() for _ in range(CHILDREN))
        path = self.file("many", f"for word in {words}; do "
                         "sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done' $word; done\n")
        return f". '{path}'; "


@unittest.skipUnless(can_mount(), "no file system can be mounted")
class FullDisk(DiskTest):
    def run_on(self, size, script, *options, keep="true"):
        """Records a script on a disk of that size, and copies the profile to where it can be read."""
        disk = self.file("disk")
        os.makedirs(disk, exist_ok=True)
        outer = f"mount -t tmpfs -o size={size} none '{disk}' && cd '{disk}' || exit 99; " \
                f"{keep}; \"$@\"; s=$?; cp out '{self.folder}'; exit $s"
        run = Run([*UNSHARE, "sh", "-c", outer, "sh", CAIRN, "record", *options, "-o", "out",
                   "sh", "-c", script], cwd=self.folder)
        self.assertEqual(left_behind(self.folder), [])
        return run

    def assert_incomplete(self, run, status):
        self.assertEqual(run.status, status, run.words)
        self.assertRegex(run.words.splitlines()[-1],
                         r"^cairn: out is incomplete: the disk is full; it holds the first .* of .*record again$")
        self.assertNotIn("still run", run.words)
        self.assertIn(f" {CHILDREN + 1} processes", run.words)
        profile = Run([CAIRN, "info", "--json", self.file("out")])
        self.assertEqual(profile.status, 0, profile.words)
        self.assertIn("cut off", Run([CAIRN, "info", self.file("out")]).text)

    def test_status_is_the_commands(self):
        self.assert_incomplete(self.run_on("4k", self.many() + "exit 7"), 7)
        self.assert_incomplete(self.run_on("4k", self.many()), 0)

    def test_strict_fails_on_a_full_disk(self):
        self.assert_incomplete(self.run_on("4k", self.many() + "exit 7", "--strict"), 2)
        run = self.run_on("4M", "exit 7", "--strict")
        self.assertEqual(run.status, 7, run.words)

    def test_quiet_and_json(self):
        run = self.run_on("4k", self.many(), "-q")
        self.assertEqual(run.status, 0)
        self.assertIn("the disk is full", run.words)
        summary = json.loads(self.run_on("4k", self.many(), "--json").words)
        self.assertEqual((summary["complete"], summary["error"], summary["processes"]), (False, "the disk is full", CHILDREN + 1))

    def test_room_comes_back(self):
        """What could not be written is kept, and written when there is room."""
        fill = "dd if=/dev/zero of=fill bs=4096 count=31 2>/dev/null"
        script = self.many() + "sleep 2; " + self.many() + "rm fill"
        run = self.run_on("128k", script, "--strict", keep=fill)
        self.assertEqual(run.status, 0, run.words)
        self.assertIn("the disk is full; trying again", run.words)
        self.assertNotIn("incomplete", run.words)
        profile = Profile(self.file("out"))
        self.assertEqual(profile.info["processes"], 2 * CHILDREN + 3)
        self.assertTrue(profile.info.get("complete", True))
        self.assertNotIn("cut off", Run([CAIRN, "info", profile.path]).text)

    def test_full_before_it_starts(self):
        run = self.run_on("4k", "touch ran", keep="dd if=/dev/zero of=fill bs=4096 count=1 2>/dev/null; touch out")
        self.assertEqual(run.status, 2)
        self.assertEqual(run.words, "cairn: cannot write to out: No space left on device; name another file with -o FILE\n")


    def test_other_writers(self):
        """A file that cannot be replaced stays as it was, and nothing is left beside it."""
        run, profile = self.record([program("shares")])
        self.assertEqual(run.status, 0)
        disk = self.file("disk")
        os.makedirs(disk)
        for argv in (["export", "-f", "folded", "-o", "out", profile.path], ["merge", "-o", "out", profile.path],
                     ["compare", profile.path, profile.path, "--svg", "out"]):
            script = f"mount -t tmpfs -o size=8k none '{disk}' && cd '{disk}' && echo old >out || exit 99; " \
                     "dd if=/dev/zero of=fill bs=4096 count=1 2>/dev/null; \"$@\" >/dev/null; " \
                     "echo \"$? $(ls -A | tr '\\n' ' ')$(cat out)\""
            run = Run([*UNSHARE, "sh", "-c", script, "sh", CAIRN, *argv])
            self.assertEqual(run.text, "1 fill out old\n", run.words)
            self.assertRegex(run.words, "^cairn: .*: cannot write out: No space left on device\n$")


class Folders(LiveTest):
    def record(self, script, *options):
        os.makedirs(self.file("folder"), exist_ok=True)
        return Run([CAIRN, "record", *options, "-o", "folder/out", "sh", "-c", script], cwd=self.folder)

    def test_folder_is_removed(self):
        for options, status in (((), 7), (("--strict",), 2)):
            run = self.record("rm -r folder; exit 7", *options)
            self.assertEqual(run.status, status)
            self.assertRegex(run.words.splitlines()[-1], "^cairn: folder/out is lost: its folder is gone; name another")
            self.assertFalse(os.path.exists(self.file("folder")))

    def test_file_is_removed(self):
        """It is written again: all of it is still at hand."""
        run = self.record("rm folder/out; exit 7", "--strict")
        self.assertEqual(run.status, 7, run.words)
        self.assertEqual(Profile(self.file("folder/out")).info["processes"], 2)

    def test_another_file_has_its_name(self):
        run = self.record("mv folder/out folder/moved; echo precious >folder/out; exit 7")
        self.assertEqual(run.status, 7)
        self.assertRegex(run.words.splitlines()[-1], "^cairn: folder/out is lost: another file has its name now")
        with open(self.file("folder/out"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious\n")
        self.assertNotIn("cut off", Run([CAIRN, "info", self.file("folder/moved")]).text)


class FileSizeLimit(DiskTest):
    def limited(self, limit, argv):
        """Runs a command with a limit that it cannot raise."""
        def lower():
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

        done = subprocess.run(argv, cwd=self.folder, preexec_fn=lower, capture_output=True, check=False, timeout=120)
        return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stderr.decode()

    def test_too_small(self):
        status, words = self.limited((100000, 100000), [CAIRN, "record", "-o", "out", "touch", "ran"])
        self.assertEqual(status, 2, words)
        self.assertRegex(words, r"^cairn: the file size limit \(ulimit -f\) leaves no room .*--memory\n$")
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_room_for_some(self):
        """Processes that find no room are counted, and the limit is blamed."""
        few = 4 << 20
        status, words = self.limited((few, few), [CAIRN, "record", "--memory", "1M", "-o", "out", "sh", "-c", self.many()])
        self.assertEqual(status, 0, words)
        profile = Profile(self.file("out"))
        recorded = profile.info["processes"]
        self.assertLess(recorded, 5)
        self.assertGreater(recorded, 0)
        self.assertRegex(words, r"\d+ processes were not recorded: the file size limit \(ulimit -f\)")
        self.assertNotIn("setuid", words)
        self.assertTrue(any("not recorded: the file size limit" in note for note in profile.info["notes"]))

    def test_the_programs_own_limit(self):
        """A program that exceeds the limit is ended by SIGXFSZ, or told so if it ignores that."""
        ignored = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_{}); "
        for limit in ((3 << 20, 3 << 20), (1 << 20, resource.RLIM_INFINITY)):
            for name in ("DFL", "IGN"):
                script = ignored.format(name) + "\ntry:\n  for i in range(9): " \
                    "os.write(file, b'x' * 500000)\nexcept OSError as error: os._exit(error.errno)"
                script = "import os; file = os.open('big', os.O_CREAT | os.O_WRONLY | os.O_TRUNC); " + script
                native = self.limited(limit, ["python3", "-c", script])
                recorded = self.limited(limit, [CAIRN, "record", "-q", "--memory", "1M", "-o", "out", "python3", "-c", script])
                self.assertEqual(recorded, native)
                self.assertEqual(native[0], 128 + signal.SIGXFSZ if name == "DFL" else 27)


if __name__ == "__main__":
    unittest.main()
