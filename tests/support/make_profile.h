// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_MAKE_PROFILE_H
#define CAIRN_TESTS_MAKE_PROFILE_H

// Profiles for tests, put together by hand. Everything aborts when memory is out.
//
//   struct profile *p = make_profile("cpu", "ns", 1000000);
//   unsigned exe = make_module(p, "/bin/app");
//   unsigned process = make_process(p, 100, 1, "app");
//   unsigned tree = make_tree(p, process, 0);
//   uint32_t main = make_frame(p, tree, 0, place_make(exe, 0x10), place_make(exe, 0x100));
//   make_statement(p, tree, main, place_make(exe, 0x120), 5000000);
//   profile_write(p, "/tmp/x"); profile_free(p);

#include "profile/profile.h"

struct profile *make_profile(const char *metric, const char *unit, uint64_t period);
unsigned make_module(struct profile *profile, const char *path);
unsigned make_process(struct profile *profile, uint32_t pid, uint32_t parent_pid,
                      const char *program);

// A tree with its root (node 0). start: as in struct profile_tree.
unsigned make_tree(struct profile *profile, unsigned process, place_t start);

// A node; always a new one. Its index in the tree. Frames count returns in their first value.
uint32_t make_node(struct profile *profile, unsigned tree, uint32_t parent, place_t site,
                   place_t function);
uint32_t make_frame(struct profile *profile, unsigned tree, uint32_t parent, place_t site,
                    place_t function);

// A statement with its cost, counted as one complete sample in the stats of tree and process.
uint32_t make_statement(struct profile *profile, unsigned tree, uint32_t parent, place_t pc,
                        uint64_t cost);
// A step of a path on which threads were created, behind another one (PROFILE_NO_PARENT: none); its
// index. Function 0: the call.
uint32_t make_creation(struct profile *profile, uint32_t parent, place_t site, place_t function);
void make_note(struct profile *profile, const char *text);

// Sets a text, freeing what was there.
void make_text(char **text, const char *value);

#endif
