// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_BUILD_H
#define CAIRN_ANALYZE_TREE_BUILD_H

// From the trees of a profile, which know addresses, to the tree that people look at.

#include "analyze/tree/calltree.h"
#include "analyze/tree/pattern.h"

#define NO_PATH "<no call path>"
#define NO_MODULE "<no module>" // of what is no code
#define DETACHED "(detached)"   // stands for the callers of what a walk was cut at

// By name is as names/names.h has it: pools together, and the start routine of threads without a name.
enum thread_split { THREADS_MERGED, THREADS_BY_NAME, THREADS_BY_START, THREADS_APART };
enum process_split { PROCESSES_MERGED, PROCESSES_BY_PROGRAM, PROCESSES_APART };

struct build_options {
    enum process_split processes;
    enum thread_split threads;
    bool phases; // apart, below their threads; what is in none stays beside them
    bool sites;  // see struct calltree
    bool lines;
    // Sites and lines are apart by their places: all lines of the tree are numbers for
    // functions_line(), and files are 0.
    bool places;
    bool without_kernel; // its cost goes to those it worked for
    bool native;         // the interpreter's own frames instead of those of Python
    bool across_threads; // trees of threads hang below the calls that created these
    // Frames that match are left out: their cost goes to their callers.
    struct pattern **ignore;
    unsigned ignore_count;
    uint32_t process;      // a pid; 0: all
    uint32_t tid;          // 0: all
    struct pattern *phase; // by its name; NULL: all, and what is in none
    // By name, pool or start routine ("main thread" for the first); NULL: all.
    struct pattern *thread;
    struct pattern *process_name; // by name or command; NULL: all
};

// Something was chosen.
static inline bool build_is_part(const struct build_options *options)
{
    return options->process || options->tid || options->phase || options->thread ||
           options->process_name;
}

// Asks for everything the trees mention and resolves it. Once, before trees are built.
void build_resolve(struct functions *functions, const struct profile *profile,
                   const struct build_options *options);

// The same for the start routines of threads alone, where that is all that is shown.
void build_resolve_starts(struct functions *functions, const struct profile *profile);

// The merged tree, summed. Its root is named by the command.
struct calltree *build_calltree(struct functions *functions, const struct profile *profile,
                                const struct build_options *options);

// Where the costs of the nodes of a tree went: to which node of the call tree, and to which line in
// it (a number for functions_line()).
struct build_image {
    uint32_t *nodes, *lines; // by node of the profile's tree; NULL: the tree was not chosen
};

// The same; fills in an image for each tree of the profile.
struct calltree *build_calltree_images(struct functions *functions, const struct profile *profile,
                                       const struct build_options *options,
                                       struct build_image *images);
void build_images_free(struct build_image *images, unsigned trees);

// The same of one tree of the profile alone, chosen or not. *nodes, to be freed: by node of the
// profile, that of the call tree; NULL: not asked for.
struct calltree *build_thread_calltree(struct functions *functions, const struct profile *profile,
                                       const struct build_options *options, uint32_t tree,
                                       uint32_t **nodes);

// The name of the threads of a tree, or of their pool; that of the start routine for those that
// have none. It holds until the next call.
const char *build_thread_name(struct functions *functions, const struct profile *profile,
                              const struct profile_tree *tree, enum thread_split split);

// -1 and one line in *error, to be freed, if the options choose nothing: it says what there is.
// After names were found.
int build_check(struct functions *functions, const struct profile *profile,
                const struct build_options *options, char **error);

bool build_selects_process(struct functions *functions, const struct profile *profile,
                           uint32_t process, const struct build_options *options);

// Whether a tree belongs to what the options choose.
bool build_selects(struct functions *functions, const struct profile *profile,
                   const struct profile_tree *tree, const struct build_options *options);

#endif
