// SPDX-License-Identifier: MIT
#include "cmd/replace.h"
#include "base/memory.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int replace_file(const char *path, int (*write)(FILE *out, const void *content),
                 const void *content)
{
    struct stat status;
    const bool beside = stat(path, &status) != 0 || S_ISREG(status.st_mode);
    char *name = NULL;
    if (asprintf(&name, "%s.%ld.tmp", path, (long)getpid()) < 0)
        memory_checked(NULL);
    FILE *out = fopen(beside ? name : path, "w");
    int error = out ? 0 : -errno;
    if (out) {
        error = write(out, content);
        if (fclose(out) != 0 && error == 0)
            error = -errno;
        if (error == 0 && beside && rename(name, path) != 0)
            error = -errno;
        if (error && beside)
            unlink(name);
    }
    free(name);
    return error;
}
