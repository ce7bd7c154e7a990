// SPDX-License-Identifier: MIT
// Runs a command and writes what getrusage() says of it, and of ourselves, to a file: the reference
// for the sum of all samples when both are profiled together.
//
//   account FILE COMMAND [ARG...]

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    int status = 0;
    if (argc < 3)
        return 2;
    pid_t pid = vfork();
    if (pid == 0) {
        execv(argv[2], argv + 2);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 2;
    FILE *file = fopen(argv[1], "w");
    if (!file)
        return 2;
    fprintf(file, "{\"self\": %.6f, \"command\": %.6f}\n", seconds(RUSAGE_SELF),
            seconds(RUSAGE_CHILDREN));
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
