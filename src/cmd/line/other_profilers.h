// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_OTHER_PROFILERS_H
#define CAIRN_CMD_LINE_OTHER_PROFILERS_H

// Options that users of perf, pprof and other profilers type out of habit, and the ones to use
// instead. A command or option that cairn has is never looked up here. Every answer is what follows
// "there is no option -p: ", or NULL if there is nothing to say.

const char *instead_of_command(const char *name);
const char *instead_of_option(const char *command, const char *name); // without dashes
const char *instead_of_event(const char *name);

#endif
