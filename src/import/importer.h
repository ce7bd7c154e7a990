// SPDX-License-Identifier: MIT
#ifndef CAIRN_IMPORT_IMPORTER_H
#define CAIRN_IMPORT_IMPORTER_H

// A profile that grows out of another tool's file. Nothing in a file is believed: what it may take
// is bounded by its size.
//
// A place is known by its names alone. Its number stands for the functions at it, as a location of
// pprof does: one function, and those that are inlined there.
//
//   uint32_t place = importer_place(importer, &(struct import_place){...});
//   uint32_t node = importer_call(importer, tree, parent, place of the call in the caller, place);
//   importer_cost(importer, tree, node, place, values);

#include "analyze/index/hash_index.h"
#include "profile/profile.h"

enum {
    IMPORT_METRICS = PROFILE_MOST_METRICS,
    IMPORT_NONE = -1, // number of a node above all, and of a place that is not known
};

struct import_line {
    const char *function;
    const char *file; // NULL: not known
    uint32_t line;    // in the function; 0: not known
    uint32_t first;   // line of the function; 0: not known
};

struct import_place {
    const char *module;              // path; NULL: not known
    uint64_t offset;                 // in it; 0: not known
    const char *build_id;            // in hex; NULL: not known
    const struct import_line *lines; // innermost inlined function first
    uint32_t line_count;
};

struct importer_place {
    place_t place, begin;
};

struct importer {
    struct profile *profile;
    const char *format;
    uint64_t budget;
    char *error;                  // why the file cannot be imported: one line, without its name
    double scale[IMPORT_METRICS]; // from the file's unit to the profile's
    struct importer_place *places;
    size_t place_count, place_capacity;
    size_t module_capacity, process_capacity, tree_capacity, names_capacity;
    size_t *node_capacity; // by tree
    struct hash_index by_names, by_module, by_thread, by_edge;
    bool negative; // values below 0 were left out
};

void importer_start(struct importer *importer, const char *format, size_t bytes);

// The profile, complete; NULL if there was an error, or if nothing was in it.
struct profile *importer_finish(struct importer *importer);

// Gives up, for the first reason that is given. Always false.
bool importer_fail(struct importer *importer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Takes so many bytes of memory. False: that is more than a file of its size may take.
bool importer_charge(struct importer *importer, uint64_t bytes);

// A note for the user.
void importer_note(struct importer *importer, const char *text);

// The command that was profiled, as one text.
void importer_command(struct importer *importer, const char *command);

// The number of a metric, made if it is new; IMPORT_NONE: there are too many. All must be known
// before the first thread.
int importer_metric(struct importer *importer, const char *name, const char *unit);

// The number of a tree: that of a thread of a process in a phase. IMPORT_NONE: too many.
struct import_thread {
    const char *process, *thread, *phase; // NULL: not known
    uint32_t pid, tid;
};
int importer_thread(struct importer *importer, const struct import_thread *thread);

// Places and nodes; IMPORT_NONE after an error.
int64_t importer_place(struct importer *importer, const struct import_place *place);
int64_t importer_call(struct importer *importer, int tree, int64_t parent, int64_t caller,
                      int64_t place);

// Adds values, by metric, to a node at a place in it. False after an error.
bool importer_cost(struct importer *importer, int tree, int64_t node, int64_t place,
                   const double *values);

// The same for a whole path, outermost place first.
bool importer_path(struct importer *importer, int tree, const int64_t *places, size_t count,
                   const double *values);

#endif
