// SPDX-License-Identifier: MIT

// Stands in for commands whose file is not in the tree yet; a real definition wins over these.

#include "cmd/cmd.h"

static int run_pending(int argc, char **argv)
{
    (void)argc;
    complain("%s: not built yet", argv[0]);
    return STATUS_MISUSE;
}

#define PENDING(word)                                                                              \
    __attribute__((weak)) const struct command command_##word = {                                  \
        .name = #word, .summary = "(not built yet)", .help = "", .run = run_pending}

PENDING(record);
PENDING(report);
PENDING(info);
PENDING(export);
PENDING(list);
