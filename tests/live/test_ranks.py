# SPDX-License-Identifier: MIT
"""Parallel jobs: each rank writes a profile of its own, and all of them make one."""

import os
import re
import socket
import unittest

from support import CAIRN, LiveTest, Profile, Run, installed

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
        return profiles

    @installed("mpicc.openmpi", "mpirun.openmpi")
    def test_open_mpi(self):
        self.job("mpicc.openmpi", "mpirun.openmpi", "--oversubscribe")

    @installed("mpicc.mpich", "mpirun.mpich")
    def test_mpich(self):
        self.job("mpicc.mpich", "mpirun.mpich")


if __name__ == "__main__":
    unittest.main(verbosity=2)
