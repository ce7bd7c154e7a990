// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_INSTRUMENTED_H
#define CAIRN_CMD_INSTRUMENTED_H

// Whether a program was built so that its calls can be followed.

// Looks at the program and the libraries that it is linked with. 0, or the exit status after the
// user has been told. Scripts pass: what matters is what they start.
int check_instrumented(const char *path);

#endif
