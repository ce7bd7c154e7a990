# SPDX-License-Identifier: MIT
"""Parallel jobs: each rank writes a profile of its own, and all of them make one."""

import json
import os
import re
import socket
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed, shares

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")

# Rank N works N + 1 times as long as rank 0.
MPI_PROGRAM = """
#include <mpi.h>
__attribute__((noinline)) static void work(long rounds)
{
    for (volatile long i = 0; i < rounds; i++)
        ;
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    work(500000000L * (rank + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


def environment(**variables):
    """That of this test, without the rank of a job that it may itself be a part of."""
    return {**{name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}, **variables}


class Names(LiveTest):
    def record(self, pattern, **variables):
        return Run([CAIRN, "record", "-q", "-o", pattern, "true"], cwd=self.folder, env=environment(**variables))

    def written(self, pattern, **variables):
        """The one file that a recording makes."""
        before = set(os.listdir(self.folder))
        run = self.record(pattern, **variables)
        self.assertEqual((run.status, run.words), (0, ""))
        name, = set(os.listdir(self.folder)) - before
        return name

    def test_parts_of_a_name(self):
        self.assertEqual(self.written("a-%h-%%.out"), f"a-{socket.gethostname()}-%.out")
        self.assertRegex(self.written("b-%p"), r"\Ab-\d+\Z")
        self.assertRegex(self.written("c-%t"), r"\Ac-2\d{7}-\d{6}\Z")

    def test_the_rank_is_what_the_launcher_says(self):
        for number, variable in enumerate(RANK_VARIABLES):
            self.assertEqual(self.written(f"{variable}-%r", **{variable: str(number + 7)}), f"{variable}-{number + 7}")
        # What is no number is none of a launcher's.
        self.assertEqual(self.written("n-%r", PMI_RANK="../x", SLURM_PROCID="3"), "n-3")

    def test_what_a_name_cannot_have(self):
        for pattern, says in (("x-%r", "no rank here"), ("x-%z", "before p (process)"), ("x-%", "before p (process)")):
            run = self.record(pattern)
            self.assertEqual((run.status, os.listdir(self.folder)), (2, []))
            self.assertRegex(run.words, rf"\Acairn: record: -o {re.escape(pattern)}: .*{re.escape(says)}.*\n\Z")


# Rank N allocates N + 1 blocks, from two lines of one function, and in a recursion N deep. All ranks are even elsewhere.
ALLOCATING_PROGRAM = """
#include <stdlib.h>
__attribute__((noinline)) static void *block(void) { return malloc(1000); }
__attribute__((noinline)) static void uneven(int rank)
{
    block();
    for (int i = 0; i < rank; i++)
        block();
}
__attribute__((noinline)) static void deep(int rank)
{
    block();
    if (rank)
        deep(rank - 1);
    __asm__ volatile("");
}
__attribute__((noinline)) static void even(void) { block(); }
__attribute__((noinline)) static void last(int rank) { if (rank == 2) block(); }
int main(int argc, char **argv)
{
    int rank = atoi(argv[1]);
    uneven(rank);
    deep(rank);
    even();
    last(rank);
    return 0;
}
"""


class Spread(LiveTest):
    """How the cost of each row is spread over ranks."""

    RANKS = 3

    def setUp(self):
        super().setUp()
        with open(self.file("job.c"), "w", encoding="utf-8") as file:
            file.write(ALLOCATING_PROGRAM)
        run = Run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-o", self.file("job"), self.file("job.c")])
        self.assertEqual(run.status, 0, run.words)
        self.files = [self.file(f"rank-{rank}.out") for rank in range(self.RANKS)]
        for rank, path in enumerate(self.files):
            run = Run([CAIRN, "record", "-q", "-e", "alloc", "-o", path, self.file("job"), str(rank)])
            self.assertEqual(run.status, 0, run.words)

    def merge(self, name, *files):
        run = Run([CAIRN, "merge", "-q", "-o", self.file(name), *files])
        self.assertEqual((run.status, run.words), (0, ""))
        return self.file(name)

    def report(self, path, *options):
        run = Run([CAIRN, "report", "--json", *options, path])
        self.assertEqual(run.status, 0, run.words)
        return json.loads(run.text)

    @staticmethod
    def rows(report, value):
        """By path: the sum over the nodes with that path, which are several only if calls from different lines are apart."""
        paths, rows = {}, {}
        for node in report["nodes"]:
            # The root of a merged profile is named by one of the commands. Rows of modules are no functions.
            name = None if node.get("kind") == "root" else (node["function"], node["module"], node["line"])
            paths[node["id"]] = path = paths.get(node["parent"], ()) + (name,)
            rows.setdefault(path, []).append(value(node))
        return rows

    def test_it_is_that_of_the_single_profiles_in_all_views(self):
        merged = self.merge("all.out", *self.files)
        views = ([], ["--no-sites"], ["--lines"], ["--fold-recursion=yes"], ["--view", "callers", "--min", "0"], ["--view", "flat"],
                 ["--by", "line"], ["--by", "module"], ["--focus", "deep"], ["--through", "deep", "--without", "uneven"],
                 ["--ignore", "uneven"], ["--view", "callers", "--focus", "block"])
        for view in views:
            with self.subTest(view=view):
                singles = [self.rows(self.report(path, *view, "--sort", "total"), lambda node: node["total"][0]) for path in self.files]
                report = self.report(merged, *view, "--sort", "total", "--spread")
                self.assertEqual(report["ranks"], self.files)
                spreads = self.rows(report, lambda node: node["spread"])
                self.assertGreater(len(spreads), 2)
                for path, spread in spreads.items():
                    if len(spread) > 1:
                        continue  # calls from several lines: no single row to compare with
                    totals = [sum(single.get(path, [0])) for single in singles]
                    mean = sum(totals) / self.RANKS
                    self.assertEqual((spread[0]["min"], spread[0]["max"]), (min(totals), max(totals)), path)
                    self.assertAlmostEqual(spread[0]["mean"], mean, 5)
                    self.assertAlmostEqual(spread[0]["imbalance"], max(totals) / mean - 1 if mean else 0, 5)
                    self.assertEqual(spread[0]["max_in"], self.files[totals.index(max(totals))])

    def test_a_known_imbalance(self):
        report = self.report(self.merge("all.out", *self.files), "--no-sites", "--spread")
        spread = {node["function"]: node["spread"] for node in report["nodes"]}
        self.assertEqual([spread["uneven"][part] for part in ("min", "mean", "max", "imbalance")], [1000, 2000, 3000, 0.5])
        self.assertEqual([spread["even"][part] for part in ("min", "mean", "max", "imbalance")], [1000, 1000, 1000, 0])
        self.assertEqual([spread["last"][part] for part in ("min", "max", "imbalance")], [0, 1000, 2])

    def test_ranks_of_a_merged_profile_stay(self):
        once = self.report(self.merge("all.out", *self.files), "--spread")
        twice = self.report(self.merge("twice.out", self.merge("two.out", *self.files[:2]), self.files[2]), "--spread")
        self.assertEqual(once, twice)

    def test_more_ranks_than_have_columns_at_a_time(self):
        merged = self.merge("many.out", *[self.files[number % self.RANKS] for number in range(600)])
        spread = {node["function"]: node["spread"] for node in self.report(merged, "--no-sites", "--spread")["nodes"]}
        self.assertEqual([spread["uneven"][part] for part in ("min", "mean", "max", "imbalance")], [1000, 2000, 3000, 0.5])

    def test_the_text_fits_a_terminal(self):
        run = Run([CAIRN, "report", "--spread", "--width", "80", self.merge("all.out", *self.files)])
        self.assertEqual(run.status, 0)
        head, = [line.split() for line in run.text.splitlines() if "imbalance  " in line]
        self.assertEqual(head, ["total", "min", "mean", "max", "imbalance", "function"])
        row, = [line.split() for line in run.text.splitlines() if "uneven" in line]
        self.assertEqual(row[2:9], ["1.00", "kB", "2.00", "kB", "3.00", "kB", "50.0"], run.text)
        self.assertLessEqual(max(map(len, run.text.splitlines())), 80)
        self.assertRegex(" ".join(run.text.split()), r"rank-2\.out has the most of all: ")

    def test_what_has_none(self):
        merged = self.merge("all.out", *self.files)
        sums = Run([CAIRN, "merge", "-q", "--no-spread", "-o", self.file("sums.out"), *self.files])
        self.assertEqual(sums.status, 0)
        for path, options, says in ((self.files[0], (), "no profile of several"), (self.file("sums.out"), (), "no profile of several"),
                                    (merged, ("--view", "processes"), "not of processes or locks"), (merged, ("--phi", "0.1"), "hot trees")):
            run = Run([CAIRN, "report", "--spread", *options, path])
            self.assertEqual((run.status, run.text), (2, ""))
            self.assertRegex(run.words, rf"\Acairn: report: --spread: .*{says}.*\n\Z")


class Many(LiveTest):
    def test_thousands_of_like_processes_are_read_back(self):
        """They compress to almost nothing, and a reader believes that of no file."""
        _, profile = self.record(["sh", "-c", "for i in $(seq 80); do /bin/true; done"])
        folder = self.file("copies")
        os.mkdir(folder)
        copies = [os.path.join(folder, str(i)) for i in range(600)]
        for copy in copies:
            os.symlink(profile.path, copy)
        path = self.file("many.out")
        run = Run([CAIRN, "merge", "-o", path, *copies])
        self.assertEqual(run.status, 0, run.words)
        merged = Profile(path)
        self.assertEqual(merged.info["processes"], 600 * profile.info["processes"])
        self.assertEqual(merged.info["cost_ns"], 600 * profile.info["cost_ns"])


class Jobs(LiveTest):
    """Real ones, with each MPI that Debian has."""

    RANKS = 3

    def job(self, compiler, launcher, *options):
        with open(self.file("job.c"), "w", encoding="utf-8") as file:
            file.write(MPI_PROGRAM)
        run = Run([compiler, "-O1", "-o", self.file("job"), self.file("job.c")])
        self.assertEqual(run.status, 0, run.words)
        run = Run([launcher, *options, "-n", str(self.RANKS), CAIRN, "record", "-q", "-o", "rank-%r.out", self.file("job")],
                  cwd=self.folder, env=environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        self.assertEqual(run.status, 0, run.words)
        profiles = [Profile(self.file(f"rank-{rank}.out")) for rank in range(self.RANKS)]
        work = [sum(node.total for node in profile.nodes if node.name == "work") for profile in profiles]
        # Each works more than the one before, by about as much as that.
        self.assertEqual(work, sorted(work))
        self.assertGreater(work[-1], 1.5 * work[0])
        self.check_spread([profile.path for profile in profiles])
        return profiles

    def check_spread(self, files):
        """Work of 1, 2 and 3: the most exceeds the mean by half."""
        merged = self.file("all.out")
        self.assertEqual(Run([CAIRN, "merge", "-q", "-o", merged, *files]).status, 0)
        nodes = json.loads(Run([CAIRN, "report", "--json", "--no-sites", "--spread", merged]).text)["nodes"]
        spread, = [node["spread"] for node in nodes if node["function"] == "work"]
        self.assertEqual(spread["max_in"], files[-1])
        with shares():
            self.assertAlmostEqual(spread["imbalance"], 0.5, delta=0.1)

    @installed("mpicc.openmpi", "mpirun.openmpi")
    def test_open_mpi(self):
        self.job("mpicc.openmpi", "mpirun.openmpi", "--oversubscribe")

    @installed("mpicc.mpich", "mpirun.mpich")
    def test_mpich(self):
        self.job("mpicc.mpich", "mpirun.mpich")


if __name__ == "__main__":
    unittest.main(verbosity=2)
