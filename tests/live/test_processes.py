# SPDX-License-Identifier: MIT
"""One profile for a whole tree of processes, however they were made."""

import os
import shutil
import subprocess
import unittest

from support import CAIRN, STORM, LiveTest, Profile, Run, installed, program, shares

WORK = {
    "": "main forking_thread",
    "forking_thread": "fork_child process_work",
    "main": "run_fork run_threaded_fork run_vfork run_spawn run_system run_popen run_daemon run_exec child_work "
            "run_environment run_empty_environment process_work",
    "run_fork": "fork_child process_work",
    "fork_child": "child_work fork_child",
    "run_vfork": "process_work vfork_and_exec vfork_and_exit",
    "run_spawn": "process_work",
    "run_system": "process_work",
    "run_exec": "process_work",
    "run_environment": "child_work",
    "become_daemon": "daemon_work",
    "daemon_work": "process_work",
    "child_work": "process_work",
    "process_work": "burn",
    "*": "wait_for child_arguments become_daemon run_system run_popen run_environment "
         "run_empty_environment",
}


class Processes(LiveTest):
    def test_short_programs_touch_few_pages(self):
        """Most of what it costs to start with the agent is pages: some 36 of them, of 51 without."""
        argv = [program("processes"), "short"]
        native = int(self.native(argv).text.split()[1])
        run, _ = self.record(argv)
        self.assertLess(int(run.text.split()[1]), native + 48)

    def life(self, mode, paths, processes):
        """The children's work shows in the same profile, and all of them are counted."""
        for profile in self.works(mode, paths, 20):
            self.assertEqual(profile.info["processes"], processes)

    def works(self, mode, paths, samples):
        """More than these shares lie below these paths."""
        def judge(profile):
            for path, share in paths.items():
                with shares():
                    self.assertGreater(profile.share(*path), share, path)

        return self.survives([program("processes"), mode], WORK, samples=samples, judge=judge)

    def test_fork_is_followed(self):
        self.life("fork", {("fork_child", "child_work", "burn"): 0.3, ("run_fork", "process_work"): 0}, 1 + 100 + 13)

    def test_children_of_fork_are_told_from_new_programs(self):
        """A shell forks for a group of commands, and again, before it executes one."""
        _, profile = self.record(["sh", "-c", "(:; :); /bin/true; :"])
        listed = [(process["command"][0], process["forked"]) for process in profile.info["process_list"]]
        self.assertEqual(sorted(set(listed)), [("/bin/true", False), ("sh", False), ("sh", True)])
        self.assertEqual(listed.count(("sh", False)), 1)
        self.assertEqual(listed.count(("/bin/true", False)), 1)

    def test_fork_in_threads(self):
        self.life("threaded-fork", {("fork_child", "child_work", "burn"): 0.2, ("forking_thread", "process_work"): 0}, 1 + 60)

    def test_vfork_and_exec(self):
        # Each image is a process of the profile; a vfork that does not exec lives in its parent's.
        self.life("vfork", {("main", "child_work", "burn"): 0.1}, 1 + 30)

    def test_child_that_nobody_tells_of(self):
        """What it does is not seen, but what its own children do."""
        for options in (STORM, ("--marker=off", *STORM), ("--source", "timer"), ("--track", "encode"), ("--track", "calls"), ("-e", "alloc")):
            with self.subTest(options=options):
                native = self.native([program("processes"), "untold"])
                self.assertEqual((native.status, native.text), (0, "untold 6\n"))
                run, profile = self.record([program("processes"), "untold"], *options)
                self.assert_same(run, native)
                self.assertEqual(profile.info["processes"], 2)

    def test_chain_of_forks_with_every_tracker(self):
        """Where children are not followed, too: what the agent does before a fork must be undone there."""
        native = self.native([program("processes"), "chain"])
        self.assertEqual(native.text, "chain 6\n")
        for tracker in ("walk", "calls", "encode"):
            for follow, processes in (("yes", 7), ("no", 1)):
                with self.subTest(tracker=tracker, follow=follow):
                    run, profile = self.record([program("processes"), "chain"], "--track", tracker, "--follow-fork", follow, timeout=60)
                    self.assert_same(run, native)
                    self.assertEqual(profile.info["processes"], processes)

    def test_children_do_not_wait_for_threads_of_their_parent(self):
        native = self.native([program("processes"), "ways"])
        for tracker in ("walk", "calls", "encode"):
            with self.subTest(tracker=tracker):
                run, _ = self.record([program("processes"), "ways"], "--track", tracker, timeout=60)
                self.assert_same(run, native)

    def test_posix_spawn_is_followed(self):
        self.life("spawn", {("main", "child_work", "burn"): 0.1}, 1 + 30)

    def test_system_is_followed(self):
        # The shell may or may not fork for a list of two commands; ours forks for the first.
        for profile in self.works("system", {("main", "child_work", "burn"): 0}, 20):
            self.assertGreaterEqual(profile.info["processes"], 1 + 10 + 10)

    def test_popen_is_followed(self):
        for profile in self.works("popen", {("main", "child_work", "burn"): 0}, 20):
            self.assertGreaterEqual(profile.info["processes"], 1 + 10 + 10)

    def test_daemon_is_followed(self):
        def judge(profile):
            with shares():
                self.assertGreater(profile.share("daemon_work", "process_work", "burn"), 0.5)

        self.survives([program("processes"), "daemon"], WORK, judge=judge)

    def test_exec_is_followed(self):
        self.works("exec", {("run_exec", "process_work"): 0, ("main", "child_work"): 0}, 8)

    def test_exec_with_an_empty_environment(self):
        for profile in self.works("empty-environment", {("run_environment", "child_work"): 0}, 8):
            # Two forks, and what they and their parent become.
            self.assertEqual(profile.info["processes"], 1 + 2 + 3)

    def test_shell_pipeline(self):
        script = ("seq 1 60000 | sort -n -r | gzip -1 | gzip -d | cksum; "
                  "(exit 3) | cat; exit 5")
        for profile in self.survives(["/bin/sh", "-c", script], samples=50):
            modules = {os.path.basename(module["path"]) for module in profile.info["modules"]}
            self.assertLessEqual({"sort", "gzip"}, modules)

    def test_forks_are_left_alone_when_asked(self):
        native = self.native([program("processes"), "fork"])
        run, profile = self.record([program("processes"), "fork"], *STORM, "--follow-fork=no")
        self.assert_same(run, native)
        self.assertEqual(profile.info["processes"], 1)
        self.assertEqual(profile.below("child_work"), 0)
        self.assertGreater(profile.below("run_fork", "process_work"), 0)


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class OutOfReach(LiveTest):
    """A program whose loader could not open the agent would be told so on its stderr: it is started without."""

    def check(self, argv, tool=CAIRN):
        native = self.native(argv)
        self.assertEqual((native.status, native.words), (4, ""))
        for options in (STORM, ("--track", "encode"), ("--track", "calls"), ("-e", "alloc")):
            with self.subTest(options=options):
                path = self.file("profile")
                run = Run([tool, "record", "-q", "-o", path, *options, *argv])
                self.assert_same(run, native)
                notes = Profile(path).info["notes"]
                self.assertTrue(any("reached" in note for note in notes), notes)

    @installed("setpriv")
    def test_another_user(self):
        """Capabilities that a process has kept are gone with the exec."""
        os.chmod(self.folder, 0o700)
        for name in ("cairn", "libcairn.so", "libcairn-alloc.so"):
            shutil.copy(os.path.join(os.path.dirname(CAIRN), name), self.folder)
        self.check(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c", "cat /dev/null; exit 4"],
                   self.file("cairn"))

    def test_another_root(self):
        needed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
        for path in ["/bin/sh"] + [word for word in needed.split() if word.startswith("/")]:
            os.makedirs(self.file("root") + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, self.file("root") + path)
        self.check(["chroot", self.file("root"), "/bin/sh", "-c", "exit 4"])


if __name__ == "__main__":
    unittest.main()
