// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_SELECTION_H
#define CAIRN_CMD_SELECTION_H

// Options that choose threads and processes, and keep them apart: --process, --thread,
// --per-process, --per-thread, --across-threads; and --kernel. All return 0, or STATUS_MISUSE after
// a complaint.

#include "analyze/build.h"
#include "cmd/cmd.h"

// A number, or a pattern of names.
int selection_process(const struct command *command, const char *text, struct build_options *build);
int selection_thread(const struct command *command, const char *text, struct build_options *build);

// NULL: the default.
int selection_per_process(const struct command *command, const char *text,
                          struct build_options *build);
int selection_per_thread(const struct command *command, const char *text,
                         struct build_options *build);

// yes or no: whether what the kernel does is shown.
int selection_kernel(const struct command *command, const char *text, struct build_options *build);

// Threads below their creators, or apart: not both.
int selection_check(const struct command *command, const struct build_options *build);

// Says so if threads are to be shown below their creators, and these are not known.
void selection_warn(const struct command *command, const struct profile *profile,
                    const struct build_options *build);

void selection_free(struct build_options *build);

// A regular expression, in the place of what *pattern was.
int selection_pattern(const struct command *command, const char *option, const char *text,
                      struct pattern **pattern);

// A number above 0.
int selection_number(const struct command *command, const char *option, const char *text,
                     uint32_t *number);

#endif
