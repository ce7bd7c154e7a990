// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_OWN_CODE_H
#define CAIRN_ANALYZE_REPORT_OWN_CODE_H

// Which functions were written for the program, rather than for a library that it uses.

#include "analyze/tree/functions.h"

// False for functions of system libraries, and for those of the standard libraries of C++ and Rust,
// which compilers put into the program itself.
bool is_own_code(const struct functions *functions, const struct profile *profile,
                 const struct function *function);

#endif
