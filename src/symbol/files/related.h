// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_RELATED_H
#define CAIRN_SYMBOL_FILES_RELATED_H

// Files that debug information refers to: the one with what several programs have in common (dwz),
// and those that the tree of a unit was split off into (.dwo). libdw would open any file that is
// named, wait for pipes, and unpack everything. So the first is opened here, and the others are
// looked at before libdw may open them.

#include "symbol/files/object.h"
#include "symbol/files/unpacking.h"
#include <elfutils/libdw.h>

struct related {
    const struct object *object; // that refers to them
    struct unpacking unpacking;  // of all files together
    Dwarf *common;               // the common file; NULL: not open
    Elf *common_elf;
    int common_fd;
    Dwarf *nothing; // stands for the files that those files may refer to
    Elf *nothing_elf;
    bool package_seen, package_allowed;
    struct related_file *seen;
    size_t seen_count, seen_capacity;
};

void related_open(struct related *related, const struct object *object);
void related_close(struct related *related); // after dwarf_end()

// Gives `dwarf` the common file that it refers to, if it does. False if there is none that fits.
bool related_link_common(struct related *related, Dwarf *dwarf);

// Whether libdw may look for the file that a skeleton unit names. It need not be there.
bool related_allows_split(struct related *related, Dwarf_Die *skeleton);
// Keeps libdw from opening what a file that it has opened refers to.
void related_seal(struct related *related, Dwarf *dwarf);

#endif
