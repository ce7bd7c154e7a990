# SPDX-License-Identifier: MIT
"""Misuse and damage: one clear line that says what to do, the right status, nothing overwritten."""

import os
import shutil
import subprocess
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, program, shares


def head_sum(head):
    """The checksum of a file head: the low half of XXH3-64 over its 12 bytes (docs/format.md)."""
    secret = bytes.fromhex("7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e")

    def word(data, offset):
        return int.from_bytes(data[offset:offset + 8], "little")

    mask = (1 << 64) - 1
    low = word(head, 0) ^ word(secret, 0) ^ word(secret, 8)
    high = word(head, len(head) - 8) ^ word(secret, 16) ^ word(secret, 24)
    product = low * high
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    value = len(head) + swapped + high + ((product & mask) ^ (product >> 64)) & mask
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & mask
    return (value ^ value >> 32).to_bytes(8, "little")[:4]


class BadInput(LiveTest):
    def refuse(self, *arguments, status=2, says=(), cwd=None, env=None):
        """Runs cairn, which must refuse with this status and one line that holds these words."""
        run = Run([CAIRN, *arguments], cwd=cwd or self.folder, env=env)
        self.assertEqual(run.status, status, run.words)
        lines = run.words.splitlines()
        self.assertGreaterEqual(len(lines), 1, "not a word")
        self.assertLessEqual(len(lines), 2, run.words)
        self.assertTrue(lines[0].startswith("cairn"), run.words)
        for word in (says,) if isinstance(says, str) else says:
            self.assertIn(word, run.words)
        self.assertEqual(run.out, b"")
        return run


class BadCommands(BadInput):
    """The command is not run, and no profile appears."""

    def refuse_to_record(self, *arguments, **how):
        run = self.refuse("record", *arguments, **how)
        self.assertFalse(os.path.exists(self.file("cairn.out")))
        self.assertFalse(os.path.exists(self.file("ran")))
        return run

    def test_no_such_command(self):
        self.refuse_to_record("--", "/no/such/program", status=127, says="/no/such/program")
        self.refuse_to_record("no-such-program-at-all", status=127, says="no-such-program-at-all")

    def test_not_executable(self):
        path = self.file("plain", "#!/bin/sh\ntouch ran\n")
        self.refuse_to_record(path, status=126, says=path)
        self.refuse_to_record(self.folder, status=126, says=self.folder)

    def test_not_a_program(self):
        path = self.file("damaged", b"\x7fELF" + bytes(100))
        os.chmod(path, 0o755)
        run = self.refuse("record", path, status=Run([CAIRN, "record", path]).status, says=path)
        self.assertIn(run.status, (2, 126))

    def test_static_program(self):
        """The agent cannot enter it, and from outside not all can be had."""
        run = self.refuse_to_record("-e", "alloc", program("static"), says="static")
        self.assertIn("link", run.words)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a file of another user's")
    def test_setuid_program(self):
        path = self.file("privileged")
        shutil.copy(program("figure1"), path)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the file system takes no setuid")
        self.refuse_to_record("-e", "wall", path, says="setuid")

    def test_no_command(self):
        self.refuse_to_record(says="command")
        self.refuse_to_record("--", says="command")

    def test_unknown_event(self):
        self.refuse_to_record("-e", "moonshine", "touch", "ran", says=("moonshine", "cairn list"))
        self.refuse_to_record("-e", "cpu", "-e", "cpu", "touch", "ran", says="given twice")

    def test_impossible_rate(self):
        for rate in ("0", "-5", "10001", "1e9", "fast", "", "nan", "inf", "0x10"):
            with self.subTest(rate=rate):
                self.refuse_to_record("-F", rate, "touch", "ran", says="-F")

    def test_impossible_period(self):
        for period in ("0", "1", "-1", "9999999999999999999999", "soon", "1h", ""):
            with self.subTest(period=period):
                self.refuse_to_record("-c", period, "touch", "ran", says="period")
        self.refuse_to_record("-F", "100", "-c", "1ms", "touch", "ran", says="exclude")
        self.refuse_to_record("-F", "100", "-e", "cpu:1ms", "touch", "ran", says="exclude")

    def test_impossible_memory(self):
        for size in ("0", "lots", "-1M", "1T", "99999999G", "3Q"):
            with self.subTest(size=size):
                self.refuse_to_record("--memory", size, "touch", "ran", says="--memory")

    def test_unknown_options(self):
        self.refuse_to_record("--no-such-option", "touch", "ran", says="--no-such-option")
        self.refuse_to_record("--marker=perhaps", "touch", "ran", says="perhaps")
        self.refuse_to_record("--follow-fork=maybe", "touch", "ran", says="maybe")
        self.refuse_to_record("-o", says="-o")
        self.refuse_to_record("--delay", "never", "touch", "ran", says="--delay")
        self.refuse_to_record("--duration", "-1", "touch", "ran", says="--duration")
        self.refuse_to_record("--delay", "1", "-e", "calls:7", "touch", "ran", says="not with calls:N")
        self.refuse_to_record("--delay", "1", "-e", "calls", "--burst", "20ms/2ms", "touch", "ran", says="exclude each other")
        self.refuse_to_record("--duration", "1", "-e", "calls", "--calls-by", "program", "touch", "ran", says="--calls-by")
        self.refuse_to_record("--track", "guess", "touch", "ran", says="guess")
        self.refuse_to_record("--tree", "oak", "touch", "ran", says="oak")

    def test_unwritable_output(self):
        self.refuse_to_record("-o", "/no/such/folder/profile", "touch", "ran",
                              says="/no/such/folder/profile")
        self.refuse_to_record("-o", self.folder, "touch", "ran", says=self.folder)

    def test_foreign_file_is_not_overwritten(self):
        """A file that is no profile stays what it is."""
        path = self.file("thesis.txt", "three years of work\n")
        self.refuse_to_record("-o", path, "touch", "ran", says=path)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "three years of work\n")

    def test_old_profile_stays_when_nothing_is_run(self):
        path = self.file("cairn.out")
        run, profile = self.record([program("figure1")])
        self.assertEqual(run.status, 0)
        os.rename(profile.path, path)
        with open(path, "rb") as file:
            before = file.read()
        self.refuse("record", "/no/such/program", status=127)
        self.refuse("record", "-F", "0", "true")
        self.refuse("record", "-e", "wall", program("static"))
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_agent_that_is_missing(self):
        environment = {**os.environ, "CAIRN_AGENT_PATH": "/no/such/agent.so"}
        self.refuse_to_record("touch", "ran", env=environment, says="/no/such/agent.so")

    def test_wall_time_of_ordinary_users(self):
        """To see a thread wait is to watch the kernel. Where only some may do that, the refusal says who, and CPU time works."""
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            if file.read().strip() != "2":
                self.skipTest("others have other rights here")
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        folder = self.file("anybody's")
        os.chmod(self.folder, 0o755)
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "profile")
        if Run([*user, "cat", CAIRN, program("shares")]).status:
            self.skipTest("others cannot read what was built")
        for events in ("-e", "wall"), ("-e", "cpu", "-e", "wall"):
            run = Run([*user, CAIRN, "record", *events, "-o", path, program("shares")], cwd=folder)
            self.assertEqual((run.status, run.out), (2, b""))
            for word in "wall", "perf_event_paranoid=1", "CAP_PERFMON", "-e cpu":
                self.assertIn(word, run.words)
        run = Run([*user, CAIRN, "record", "-o", path, program("shares")], cwd=folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertIn("perf-task-clock", Profile(path).info["events"][0]["source"])

    def test_no_permission_for_perf_events(self):
        """Without perf events, timers take the samples; the summary says so, and what would help."""
        path = self.file("profile")

        def life():
            run = Run([program("without_perf"), CAIRN, "record", "-o", path, program("shares")])
            self.assertEqual(run.status, 0)
            self.assertIn("perf_event_paranoid", run.words)
            profile = Profile(path)
            self.assertEqual(profile.info["events"][0]["source"], "posix-timer")
            self.assertGreater(profile.samples, 20)
            self.assertTrue(any("perf" in note for note in profile.info["notes"]))
            return profile

        self.steadily(life, shares()(lambda profile: self.assertGreater(profile.share("main", "share_leaf", "burn"), 0.8)))

    @installed("valgrind")
    def test_under_valgrind(self):
        """Our signals would be taken for valgrind's own: there are none, and a note says why."""
        path = self.file("profile")
        run = Run([CAIRN, "record", "-q", "-F", "10000", "-o", path, "valgrind", "-q", "--tool=none", program("figure1")])
        self.assertEqual(run.status, 0, run.words)
        self.assertTrue(any("valgrind" in note for note in Profile(path).info["notes"]))

    def test_unknown_subcommand(self):
        self.refuse("recrod", "true", says=("recrod", "record"))
        self.assertEqual(Run([CAIRN]).status, 2)


class BadProfiles(BadInput):
    """Readers say what is wrong with a file, and never crash."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        run, profile = case.record([program("shares")], "-F", "10000")
        case.assertEqual(run.status, 0)
        cls.samples = profile.samples
        with open(profile.path, "rb") as file:
            cls.good = file.read()

    def readers(self, path, **how):
        for command in (("report",), ("info",), ("report", "--json"), ("info", "--json"),
                        ("export", "-f", "folded")):
            with self.subTest(command=command):
                self.refuse(*command, path, **how)

    def test_a_missing_profile_is_named(self):
        self.readers("/no/such/profile", says="/no/such/profile")

    def test_no_default_profile(self):
        self.refuse("report", says=("cairn.out", "cairn record"))

    def test_an_empty_profile_is_called_empty(self):
        self.readers(self.file("empty", b""), says="empty")

    def test_a_file_that_is_no_profile_is_refused(self):
        self.readers(self.file("text", "this is no profile at all\n" * 100), says="text")
        self.readers("/bin/true", says="/bin/true")
        self.readers(self.folder, says=self.folder)
        self.readers("/dev/zero", says="/dev/zero")

    def test_nothing_but_a_head(self):
        """A file that ends before anything that was recorded is damaged, not an empty recording."""
        for size in (16, 24, 40):
            self.readers(self.file("cut", self.good[:size]), says="is damaged: nothing that was recorded can be read")

    def test_of_a_truncated_profile_what_is_whole_is_shown(self):
        """What is whole is shown, with one line on what is missing; or nothing is, with the reason."""
        for length in {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 200, len(self.good) // 3,
                       len(self.good) // 2, len(self.good) - 20, len(self.good) - 1}:
            with self.subTest(length=length):
                self.check_damaged(self.file("short", self.good[:length]))

    def test_a_flipped_bit_is_noticed_or_harmless(self):
        """A flipped bit anywhere is noticed, or is harmless; never a crash, never nonsense."""
        step = max(1, len(self.good) // 60)
        for position in range(0, len(self.good), step):
            with self.subTest(position=position):
                damaged = bytearray(self.good)
                damaged[position] ^= 1 << position % 8
                self.check_damaged(self.file("bad", bytes(damaged)))

    def test_zero_filled_tail(self):
        """A file system that crashed leaves zeros at the end."""
        self.check_damaged(self.file("tail", self.good + bytes(5000)))
        self.check_damaged(self.file("half", self.good[:len(self.good) // 2] + bytes(5000)))

    def check_damaged(self, path):
        run = Run([CAIRN, "info", path, "--json"])
        self.assertIn(run.status, (0, 2), run.words)
        if run.status == 0:
            self.assertNotIn("Sanitizer", run.words)
        else:
            self.assertIn(os.path.basename(path), run.words)
            self.assertEqual(len(run.words.splitlines()), 1, run.words)
        report = Run([CAIRN, "report", path])
        self.assertIn(report.status, (0, 2), report.words)

    def test_newer_format(self):
        """A reader that is too old for a profile says that it is."""
        head = self.good[:12]
        self.assertEqual(head_sum(head), self.good[12:16], "not as docs/format.md tells it")
        newer = head[:8] + (99).to_bytes(2, "little") + head[10:]
        self.readers(self.file("newer", newer + head_sum(newer) + self.good[16:]),
                     says="newer cairn")

    def test_changed_binary(self):
        """A binary that was built again since: its build id differs, and no wrong names are shown."""
        for name in ("first.c", "second.c"):
            self.file(name, "volatile unsigned long sum;\n"
                      + ("int padding(int x) { return x * 3 + 1; }\n" if name == "second.c" else "")
                      + f"__attribute__((noipa)) void work_{name[:-2]}(void)\n"
                      "{ for (unsigned long i = 0; i < 300000000; i++) sum += i; }\n"
                      f"int main(void) {{ work_{name[:-2]}(); return 0; }}\n")
        binary = self.file("changing")
        build = ["cc", "-O2", "-g", "-Wl,--build-id", "-o", binary]
        self.assertEqual(Run([*build, self.file("first.c")]).status, 0)
        _, profile = self.steadily(lambda: self.record([binary]),
                                   shares()(lambda recorded: self.assertGreater(recorded[1].share("work_first"), 0.9)))
        self.assertEqual(Run([*build, self.file("second.c")]).status, 0)
        report = Run([CAIRN, "report", profile.path])
        self.assertEqual(report.status, 0)
        self.assertNotIn("work_second", report.text)
        self.assertNotIn("padding", report.text)
        self.assertIn("changing has changed", report.text + report.words)

    def test_bad_views(self):
        path = self.file("good", self.good)
        self.refuse("report", path, "--view", "sideways", says="sideways")
        self.refuse("report", path, "--metric", "joy", says="joy")
        self.refuse("report", path, "--min", "lots", says="--min")
        self.refuse("report", path, "--depth", "-1", says="--depth")
        self.refuse("report", path, "--focus", "(", says="(")
        self.refuse("report", path, "--no-such-option", says="--no-such-option")
        self.refuse("report", path, path, path)
        self.refuse("export", "-f", "stone-tablet", path, says="stone-tablet")
        self.refuse("export", path, says="-f")

    def test_output_that_cannot_be_written(self):
        path = self.file("good", self.good)
        for command in (["report", path], ["info", path], ["export", "-f", "folded", path],
                        ["compare", path, path], ["list"], ["help"], ["help", "report"], ["--version"]):
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                done = subprocess.run([CAIRN, *command], stdout=full, stderr=subprocess.PIPE,
                                      timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, rb"^cairn: .*cannot write to stdout: No space .*\n$")


if __name__ == "__main__":
    unittest.main()
