// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_OPTIONS_OUTPUT_NAME_H
#define CAIRN_CMD_RECORD_OPTIONS_OUTPUT_NAME_H

// Names of profiles with parts that differ between machines, ranks and runs: "app-%h-%r.out".

// Replaces %p (process), %h (host), %r (rank), %t (time) and %% in a pattern. To be freed. NULL and
// *error, one line to be freed: another letter, or a rank where there is none.
char *output_name(const char *pattern, char **error);

// The rank of this process in a parallel job, as its launcher has put it into the environment, or
// NULL.
const char *output_rank(void);

#endif
