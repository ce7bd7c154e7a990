// SPDX-License-Identifier: MIT

#include "cmd/record/options/output_name.h"
#include "base/memory.h"
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Open MPI; MPICH, Intel MPI and others with Hydra; Slurm; PMIx. Open MPI below Slurm sets both.
static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                             "SLURM_PROCID", NULL};

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

const char *output_rank(void)
{
    for (int i = 0; rank_variables[i]; i++) {
        const char *rank = getenv(rank_variables[i]);
        if (rank && is_number(rank))
            return rank;
    }
    return NULL;
}

static void put_host(FILE *to)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    for (const char *at = host; *at; at++)
        putc(*at == '/' ? '_' : *at, to);
}

static void put_time(FILE *to)
{
    char text[32];
    const time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    fputs(text, to);
}

// Addresses have octets in hexadecimal: "%20". No letter of ours is a hexadecimal digit.
static bool is_octet(const char *at)
{
    return isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
}

__attribute__((format(printf, 2, 3))) static bool fail(char **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(error, format, arguments) < 0)
        *error = NULL;
    va_end(arguments);
    return false;
}

// at: a percent sign.
static bool put_part(FILE *to, const char *at, const char *pattern, char **error)
{
    const char *rank = output_rank();
    switch (at[1]) {
    case '%':
        putc('%', to);
        return true;
    case 'p':
        fprintf(to, "%d", (int)getpid());
        return true;
    case 'h':
        put_host(to);
        return true;
    case 't':
        put_time(to);
        return true;
    case 'r':
        if (!rank)
            return fail(error,
                        "-o %s: there is no rank here (OMPI_COMM_WORLD_RANK, PMI_RANK or "
                        "SLURM_PROCID): start cairn by mpirun or srun",
                        pattern);
        fputs(rank, to);
        return true;
    }
    return fail(error,
                "-o %s: a percent sign stands before p (process), h (host), r (rank) or t (time); "
                "write %%%% for the sign itself",
                pattern);
}

char *output_name(const char *pattern, char **error)
{
    char *name = NULL;
    size_t size = 0;
    const bool address = strstr(pattern, "://") != NULL;
    FILE *to = memory_checked(open_memstream(&name, &size));
    bool good = true;
    for (const char *at = pattern; *at && good; at++) {
        if (*at != '%' || (address && is_octet(at)))
            putc(*at, to);
        else if ((good = put_part(to, at, pattern, error)))
            at++;
    }
    fclose(to);
    memory_checked(name);
    if (good)
        return name;
    free(name);
    return NULL;
}
