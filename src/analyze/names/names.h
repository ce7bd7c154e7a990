// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_NAMES_NAMES_H
#define CAIRN_ANALYZE_NAMES_NAMES_H

// Names for people of the threads and processes of a profile.
//
// A thread has the name that the program gave it. Threads of a pool, whose names differ in a number
// alone, have one in common: worker-*. A name that is the program's own says nothing, and
// every thread has that unless it is given another.
//
// The name of a process is its program and the arguments that distinguish it from others of that
// program:
//
//   /usr/lib/gcc/cc1 -quiet -O2 foo.c -o /tmp/cc1.s        cc1 … foo.c … cc1.s
//   /usr/lib/gcc/cc1 -quiet -O2 bar.c -o /tmp/cc2.s        cc1 … bar.c … cc2.s
//
// Of a path, the name of the file is enough, unless others end in the same. If there are none, or
// no other process, it is the whole command.

#include "profile/profile.h"

struct names;

struct names *names_new(const struct profile *profile);
void names_free(struct names *names);

// Of the threads of a tree, an index into the profile's: their own name, and the pool's if there is
// one. NULL: the program gave none.
const char *names_thread(const struct names *names, uint32_t tree);
const char *names_pool(const struct names *names, uint32_t tree);

// Of a process, an index into the profile's.
const char *names_program(const struct names *names, uint32_t process);
const char *names_process(const struct names *names, uint32_t process);

// All words of its command, after the program. To be freed.
char *names_command(const struct names *names, uint32_t process);

#endif
