// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_FUNCTIONS_H
#define CAIRN_ANALYZE_TREE_FUNCTIONS_H

// Names of places in the program. Functions are numbered, so that trees compare and hash numbers
// instead of names. The same name in the same module is the same function, called or inlined, at
// any address.

#include "profile/profile.h"
#include "symbol/symbol.h"

#define FUNCTION_NONE 0 // also the number of "no file"
#define SIGNAL_HANDLER "<signal handler>"

struct function {
    const char *name;
    uint32_t
        module; // index in profile->modules; MODULE_NONE for what is no code (a process, a thread)
    uint32_t apart; // from others of that name and module: of Python, the file
    uint32_t file;  // where it is defined, 0 if not known
    uint32_t line;
    bool agent;   // belongs to libcairn.so: not a part of the program
    bool runtime; // of a program in Python or Java
    bool kernel;  // of the kernel, or a system call
    bool entry;   // of the kernel: leads to every system call, and says nothing
};

// One function at a place, with the line in it.
struct located {
    uint32_t function;
    uint32_t file; // a number for functions_file()
    uint32_t line;
};

// All functions at a place.
struct spot {
    place_t begin; // where the real function begins by its symbol; 0: not known
    uint32_t count;
    uint32_t first; // of its lines, that of the innermost inlined function; the real one's is last
};

struct functions;

// Both must outlive the table.
struct functions *functions_new(const struct profile *profile, struct symbols *symbols);
void functions_free(struct functions *functions);

// First all places are asked for, then they are resolved at once, then looked up.
void functions_want(struct functions *functions, uint32_t process, place_t place);
void functions_resolve(struct functions *functions);
const struct spot *functions_look_up(const struct functions *functions, uint32_t process,
                                     place_t place);

// All places that were resolved, each once, and what was found there; NULL: nothing.
size_t functions_place_count(const struct functions *functions);
const struct symbol *functions_symbol(const struct functions *functions, size_t number,
                                      place_t *place);

// The same in two steps: a number for a place, 0 if it is not known, and what it stands for.
uint32_t functions_number(const struct functions *functions, uint32_t process, place_t place);
const struct spot *functions_spot(const struct functions *functions, uint32_t number);

// Rows of a process that are no functions of its program (PLACE_STARTUP and so on).
#define FUNCTION_STARTUP "<start-up>"
#define FUNCTION_EXIT "<exit>"
#define FUNCTION_KERNEL "[kernel]"

static inline bool place_is_known(place_t place)
{
    return place != 0 && place_offset(place) != PLACE_OFFSET_UNKNOWN;
}

const struct located *functions_located(const struct functions *functions, const struct spot *spot);
// A line by its number in spots; number 0 is no line.
const struct located *functions_line(const struct functions *functions, uint32_t number);
// The spot that a line belongs to, and its place; NULL for number 0.
const struct spot *functions_line_spot(const struct functions *functions, uint32_t number,
                                       place_t *place);
const struct function *functions_get(const struct functions *functions, uint32_t function);
uint32_t functions_count(const struct functions *functions);
// The number of a function, given when it is new.
uint32_t functions_intern(struct functions *functions, const char *name, uint32_t module);
// Notes where a function is defined, if that was not known.
void functions_define(struct functions *functions, uint32_t function, uint32_t file, uint32_t line);

const char *functions_file(const struct functions *functions, uint32_t file); // NULL for 0
uint32_t functions_file_count(const struct functions *functions);
const char *functions_module_name(const struct functions *functions,
                                  uint32_t module); // last part of its path

// The names of the threads and processes of the profile.
const struct names *functions_names(struct functions *functions);

#endif
