// SPDX-License-Identifier: MIT

// `cairn --version`

#include "cmd/commit.h"
#include "cmd/line/command.h"
#include "profile/chunks/chunk.h"
#include <stdio.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

int print_version(void)
{
    puts("cairn " CAIRN_VERSION);
    if (COMMIT[0] != '$')
        puts("from commit " COMMIT);
    printf("profiles: format %d.%d, and all before it\n", FORMAT_MAJOR, FORMAT_MINOR);
    puts("built by " COMPILER " for " BUILT_FOR);
    puts("with " BUILT_WITH);
    if (*BUILT_WITHOUT)
        puts("without " BUILT_WITHOUT);
    return finish_output(NULL);
}
