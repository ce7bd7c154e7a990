# SPDX-License-Identifier: MIT
"""What the kernel does for a program is told by the system call, below the function that made it."""

import os
import subprocess
import unittest

from support import CAIRN, LiveTest, Profile, follows, nodes_of, program, shares


class Shares(LiveTest):
    """The program says how much time each kind of call took."""

    def recorded(self, *options):
        run, profile = self.record([program("system_calls")], *options)
        self.assertEqual(run.status, 0, run.words)
        spent = {name: int(ns) for name, ns in map(str.split, run.text.splitlines())}
        times = spent.pop("user"), spent.pop("system")
        spent_shares = {name: ns / sum(spent.values()) for name, ns in spent.items()}
        spent_shares["system"] = times[1] / sum(times)
        return profile, spent_shares

    def judge(self, recorded):
        profile, spent_shares = recorded
        self.assert_sampled(profile, 200)
        # What does_read() does beside the call is some instructions.
        self.assert_share(profile, spent_shares["read"], "does_read", "read", "sys_read", slack=0.02)
        self.assert_share(profile, spent_shares["getrandom"], "does_getrandom", "getrandom", "sys_getrandom", slack=0.02)
        self.assert_share(profile, spent_shares["nothing"], "does_nothing", slack=0.02)
        self.assertEqual(profile.below("does_nothing", "sys_read"), 0)
        # The kernel counts by its tick: with a second of 250, to some per cent.
        kernel = sum(node.own for node in profile.nodes if node.module == "[kernel]") / profile.total
        with shares():
            self.assertAlmostEqual(kernel, spent_shares["system"], delta=profile.tolerance(kernel) + 0.06)

    def test_calls_are_named_by_the_code_that_makes_them(self):
        self.steadily(lambda: self.recorded("-F", "2000"), self.judge)

    def test_calls_of_another_clock(self):
        """Signals of a timer come when a call ends, too."""
        self.steadily(lambda: self.recorded("--source", "timer"), self.judge)

    def test_calls_whose_number_no_code_tells(self):
        def judge(recorded):
            profile, spent_shares = recorded
            self.assert_share(profile, spent_shares["some"], "does_some", "syscall", "system call", slack=0.02)
            if profile.info["kernel"] == "frames": # the kernel's function tells it
                self.assert_share(profile, spent_shares["some"], "does_some", "system call", "sys_getrandom", slack=0.05)
        self.steadily(lambda: self.recorded("-F", "2000"), judge)


def kernel_only(node):
    """The function, and what called it, as far as it is of the kernel."""
    names = []
    while node is not None and node.module == "[kernel]":
        names.append(node.name)
        node = node.parent
    return names[::-1]


class Frames(LiveTest):
    """Where perf allows it, the kernel's own frames stand below the call."""

    def recorded(self, argv, *options):
        run, profile = self.record(argv, *options)
        self.assertEqual(run.status, 0, run.words)
        if profile.info["kernel"] != "frames":
            self.skipTest(profile.info.get("kernel_note", "no frames of the kernel"))
        return profile

    def test_frames_below_the_call(self):
        profile = self.recorded([program("system_calls")], "-F", "2000")
        below = [kernel_only(node) for node in profile.nodes if node.module == "[kernel]" and node.own]
        reads = [names for names in below if names[:1] == ["sys_read"]]
        self.assertTrue(any("vfs_read" in names for names in reads), reads)
        # What leads to each call is not shown, nor a call below itself.
        self.assertFalse([names for names in below if "do_syscall_64" in names or "entry_SYSCALL_64" in names])
        self.assertFalse([names for names in below if names[:2] == ["sys_read", "sys_read"]])

    def test_all_cost_is_there(self):
        """Ticks of one long call share its weight: no more is charged than the thread has used, and no less."""
        run, profile = self.record([program("system_calls")], "-F", "10000")
        self.assertEqual(run.status, 0, run.words)
        self.assertEqual(profile.total, profile.info["cost_ns"])
        # The program says its processor time just before its end.
        spent = sum(int(ns) for name, ns in map(str.split, run.text.splitlines()) if name in ("user", "system"))
        self.assertAlmostEqual(profile.total / spent, 1, delta=0.05)
        without = nodes_of(profile.report("--min", "0", "--kernel", "no"))
        self.assertEqual(sum(node.own for node in without), profile.total)

    def test_page_faults(self):
        """What the kernel does without being asked stands below the function that it interrupted."""
        source = self.file("touch.c", """
            #include <stdlib.h>
            #include <sys/mman.h>
            __attribute__((noipa)) void touches(void)
            {
                size_t bytes = 64 << 20;
                char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                madvise(memory, bytes, MADV_NOHUGEPAGE);
                for (size_t i = 0; i < bytes; i += 4096)
                    memory[i] = 1;
                munmap(memory, bytes);
            }
            int main(void)
            {
                for (int i = 0; i < 20; i++)
                    touches();
                return 0;
            }""")
        subprocess.run(["cc", "-O1", "-o", self.file("touch"), source], check=True)
        profile = self.recorded([self.file("touch")], "-F", "2000")
        with shares():
            self.assertGreater(profile.share("touches", "asm_exc_page_fault"), 0.2)
            self.assertGreater(profile.share("touches", "munmap", "sys_munmap"), 0.01)

    def test_names_survive_a_merge(self):
        paths = [self.recorded([program("system_calls")]).path for _ in range(2)]
        merged = self.file("merged.cairn")
        subprocess.run([CAIRN, "merge", "-o", merged, *paths], check=True, capture_output=True, timeout=60)
        paths = [node.path() for node in Profile(merged).named("vfs_read")]
        self.assertEqual(len(paths), len({tuple(path) for path in paths}))
        self.assertTrue([path for path in paths if follows(path, ("does_read", "sys_read"))], paths)

    @unittest.skipIf(os.geteuid(), "needs root to give rights to somebody else")
    def test_more_threads_than_may_lock_a_page(self):
        """Where there is no page for call chains, a thread is sampled without, and runs as it would."""
        source = self.file("many.c", """
            #include <fcntl.h>
            #include <pthread.h>
            #include <time.h>
            #include <unistd.h>
            enum { THREADS = 600, CPU_NS = 2000000 };
            static pthread_barrier_t all;
            static void *reads(void *zero)
            {
                char buffer[65536];
                struct timespec now;
                pthread_barrier_wait(&all);
                do {
                    for (int i = 0; i < 20; i++)
                        if (read((int)(long)zero, buffer, sizeof buffer) != sizeof buffer)
                            _exit(1);
                    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
                } while (now.tv_sec == 0 && now.tv_nsec < CPU_NS);
                pthread_barrier_wait(&all);
                return NULL;
            }
            int main(void)
            {
                pthread_t threads[THREADS];
                long zero = open("/dev/zero", O_RDONLY);
                pthread_barrier_init(&all, NULL, THREADS);
                for (int i = 0; i < THREADS; i++)
                    if (pthread_create(&threads[i], NULL, reads, (void *)zero))
                        _exit(2);
                for (int i = 0; i < THREADS; i++)
                    pthread_join(threads[i], NULL);
                return 0;
            }""")
        subprocess.run(["cc", "-O1", "-pthread", "-o", self.file("many"), source], check=True)
        os.chmod(self.folder, 0o777)
        path, rights = self.file("many.cairn"), "+perfmon,+syslog"
        run = self.native(["prlimit", "--memlock=0", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                           "--inh-caps=" + rights, "--ambient-caps=" + rights, "--bounding-set=-all," + rights,
                           CAIRN, "record", "-q", "-F", "10000", "-o", path, "--", self.file("many")])
        self.assertEqual((run.status, run.words), (0, ""))
        profile = Profile(path)
        self.assertEqual((profile.info["kernel"], profile.info["threads"]), ("frames", 601))
        with shares():
            self.assertGreater(profile.share("reads", "sys_read"), 0.2)  # of 600 threads, most is their beginning and end
        self.assertGreater(profile.below("sys_read", "vfs_read"), 0)

    def test_an_ordinary_user_is_told_what_to_type(self):
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="utf-8") as file:
            if os.geteuid() or int(file.read()) != 2:
                self.skipTest("not root at perf_event_paranoid 2")
        os.chmod(self.folder, 0o777)
        path = self.file("user.cairn")
        run = self.native(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CAIRN, "record", "-q", "-o",
                           path, "--", program("system_calls")])
        self.assertEqual(run.status, 0, run.words)
        info = Profile(path).info
        self.assertEqual(info["kernel"], "calls")
        self.assertIn("sudo sysctl kernel.perf_event_paranoid=1", info["kernel_note"])


class Views(LiveTest):
    def setUp(self):
        super().setUp()
        _, self.profile = self.record([program("system_calls")])

    def test_kernel_no_gives_the_cost_to_the_caller(self):
        nodes = nodes_of(self.profile.report("--min", "0", "--kernel", "no"))
        self.assertEqual([node.name for node in nodes if node.module == "[kernel]"], [])
        self.assertEqual(sum(node.own for node in nodes), self.profile.total)
        own = sum(node.own for node in nodes if node.name == "read")
        self.assertEqual(own, self.profile.below("read"))

    def test_json_has_the_module(self):
        modules = {node.module for node in self.profile.nodes if node.name.startswith("sys_")}
        self.assertEqual(modules, {"[kernel]"})

    def test_folded_marks_the_kernel(self):
        folded = subprocess.run([CAIRN, "export", "-f", "folded", self.profile.path], capture_output=True,
                                text=True, check=True, timeout=60).stdout
        self.assertIn(";read;sys_read_[k]", folded)

    def test_folded_without_the_kernel(self):
        lines = subprocess.run([CAIRN, "export", "-f", "folded", "--kernel", "no", self.profile.path],
                               capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
        self.assertEqual([line for line in lines if "_[k]" in line], [])
        read = sum(int(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0].endswith(";read"))
        self.assertEqual(read, self.profile.below("read"))
        self.assertEqual(sum(int(line.rpartition(" ")[2]) for line in lines), self.profile.total)

    def test_kernel_takes_yes_or_no(self):
        done = subprocess.run([CAIRN, "report", "--kernel", "perhaps", self.profile.path], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--kernel takes yes or no, not 'perhaps'", done.stderr)


class Switches(LiveTest):
    def test_record_without_the_kernel(self):
        _, profile = self.record([program("system_calls")], "--kernel", "no")
        self.assertEqual([node.name for node in profile.nodes if node.module == "[kernel]"], [])

    def test_waits_are_told_by_their_call(self):
        _, profile = self.record(["sh", "-c", "sleep 0.3"], "-e", "wall")
        self.assertGreater(sum(node.own for node in profile.named("sys_clock_nanosleep")), 250_000_000)

    def test_other_trackers(self):
        for tracker in "encode", "calls":
            with self.subTest(tracker=tracker):
                _, profile = self.record([program("system_calls")], "--track", tracker, "-e", "cpu")
                self.assertGreater(profile.below("does_read", "sys_read"), 0)

    def test_merged_profiles_have_one_kernel(self):
        paths = [self.record([program("system_calls")])[1].path for _ in range(2)]
        merged = self.file("merged.cairn")
        subprocess.run([CAIRN, "merge", "-o", merged, *paths], check=True, capture_output=True, timeout=60)
        calls = [node for node in Profile(merged).named("sys_read") if follows(node.path(), ("does_read",))]
        self.assertEqual(len(calls), 1)


if __name__ == "__main__":
    unittest.main()
