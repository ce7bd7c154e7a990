// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_DIFF_SIDES_H
#define CAIRN_CMD_DIFF_SIDES_H

// The profiles that `cairn diff` and `cairn gate` compare, and the options that judge them.

#include "analyze/diff/diff.h"
#include "cmd/line/command.h"

#define SIDES_CONFIDENCE 99 // per cent
#define SIDES_SPREAD 0.05

struct sides {
    struct diff_input *inputs;
    unsigned count;
    size_t capacity;
};

// Opens the profiles of a side: names with commas between them, or one file whose name has commas.
// 0, or STATUS_MISUSE after a complaint.
int sides_add(struct sides *sides, const char *list, enum diff_side side,
              const struct analysis_options *options);
void sides_free(struct sides *sides);

// Values of options. 0, or STATUS_MISUSE after a complaint.
int sides_confidence(const struct command *command, const char *text, double *percent);
int sides_spread(const struct command *command, const char *text, double *spread); // from per cent

#endif
