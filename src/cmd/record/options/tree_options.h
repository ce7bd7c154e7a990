// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_OPTIONS_TREE_OPTIONS_H
#define CAIRN_CMD_RECORD_OPTIONS_TREE_OPTIONS_H

// `cairn record --tree` and related options: which contexts are kept, and in how much memory. Only
// here are phi and epsilon fractions; the agent counts in whole numbers.

#include "live/live.h"
#include <stdbool.h>

struct record_options;

struct tree_options_given {
    enum live_tree_kind kind;
    double phi, epsilon; // of a hot tree
    enum live_miner miner;
    unsigned depth; // K of a bounded tree
    enum live_purge purge;
    uint64_t bytes; // of a bounded tree's buffer
    bool miner_given, purge_given, bytes_given;
};

// The default of `cairn record`.
void default_tree(struct tree_options_given *tree);

// Each: PROCEED, or the exit status after a message to the user.
int set_tree(struct tree_options_given *tree, const char *text);
int set_miner(struct tree_options_given *tree, const char *text);
int set_purge(struct tree_options_given *tree, const char *text);
int set_tree_memory(struct tree_options_given *tree, const char *text);

// Whether it all goes together, with the event, the tracker and the memory too.
int combine_tree(const struct record_options *options);

// How a profile names the kind of its trees: "full", "hot:0.0001,2e-05", "bounded:16", ...
struct tree_name {
    char text[64];
};
struct tree_name tree_name(const struct tree_options_given *tree);

// The part of the session's options that is about trees.
void fill_tree_options(struct live_options *live, const struct tree_options_given *tree);

#endif
