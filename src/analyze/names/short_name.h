// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_NAMES_SHORT_NAME_H
#define CAIRN_ANALYZE_NAMES_SHORT_NAME_H

// The name of a function in fewer columns, by stages. The part that distinguishes functions stays
// longest:
//
//   full        void shop::sort<std::less<int> >(std::vector<int>&, std::less<int>)
//   parameters  shop::sort<std::less<int> >
//   arguments   shop::sort<…>
//   two parts   shop::sort
//   last part   sort
//
// Names of C++, Rust, D, Ada and Go are understood; any other name is the same at every stage.

#include <stdbool.h>

enum name_stage {
    NAME_FULL,
    NAME_WITHOUT_PARAMETERS,
    NAME_WITHOUT_ARGUMENTS,
    NAME_TWO_PARTS,
    NAME_LAST_PART,
    NAME_STAGES
};

// To be freed.
char *short_name(const char *name, enum name_stage stage, bool unicode);

// "module+0x1f00": a function without a name, by its first address.
bool name_is_address(const char *name);

// True for functions that run before the program's own code, at the root of each path: `_start`,
// `clone3`, `std::thread::_Invoker<…>::…`, `std::rt::lang_start`. Only what is called by such a
// function, or by nothing, is start-up code.
bool name_is_startup(const char *name);

// A function of the standard library of C++ or Rust, which compilers put into every program.
bool name_is_standard(const char *name);

#endif
