// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_BUILD_H
#define CAIRN_ANALYZE_BUILD_H

// From the trees of a profile, which know addresses, to the tree that people look at.

#include "analyze/calltree.h"
#include "analyze/pattern.h"

#define NO_PATH "<no call path>"
#define NO_MODULE "<no module>" // of what is no code
#define DETACHED "(detached)"   // stands for the callers of what a walk was cut at

enum thread_split { THREADS_MERGED, THREADS_BY_START, THREADS_APART };

struct build_options {
    bool per_process;
    enum thread_split threads;
    bool sites; // see struct calltree
    bool lines;
    bool without_kernel; // its cost goes to those it worked for
    // Frames that match are left out: their cost goes to their callers.
    struct pattern **ignore;
    unsigned ignore_count;
    uint32_t process;      // a pid; 0: all
    uint32_t tid;          // 0: all
    struct pattern *phase; // by its name; NULL: all, and what is in none
    struct pattern
        *thread; // by the name of the start routine ("main thread" for the first); NULL: all
};

// Asks for everything the trees mention and resolves it. Once, before trees are built.
void build_resolve(struct functions *functions, const struct profile *profile,
                   const struct build_options *options);

// The merged tree, summed. Its root is named by the command.
struct calltree *build_calltree(struct functions *functions, const struct profile *profile,
                                const struct build_options *options);

// Whether a tree belongs to what the options choose.
bool build_selects(struct functions *functions, const struct profile *profile,
                   const struct profile_tree *tree, const struct build_options *options);

#endif
