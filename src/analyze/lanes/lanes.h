// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_LANES_LANES_H
#define CAIRN_ANALYZE_LANES_LANES_H

// The timeline of a recording as lanes: one for each thread, in equal parts of time. Each part has
// its cost, and the function that cost most in it.
//
// A charge is laid over the time that it stands for, which ends when it was made. So a wait fills
// the parts in which the thread waited.

#include "analyze/analysis.h"
#include "base/text/text.h"

struct lane {
    uint32_t process, tid;
    char *name;                 // of the thread
    uint64_t first_ns, last_ns; // since the recording began: of its first and last charge
    uint64_t total;             // in the range
    uint64_t *costs;            // by part
    uint32_t *functions;        // by part; FUNCTION_NONE: no cost
};

struct lane_function {
    uint32_t function;
    uint64_t cost; // in all lanes
};

struct lanes {
    unsigned metric;
    struct time_range range;
    unsigned parts;
    uint64_t part_ns;
    size_t count, capacity;
    struct lane *lanes; // by process, then by their beginning
    size_t function_count, function_capacity;
    struct lane_function *functions; // the costliest first
};

struct lanes_options {
    const struct build_options *build; // which threads
    unsigned metric;                   // that has a timeline
    struct time_range range;           // its end may lie behind the recording's
    unsigned parts;
    uint32_t depth; // of functions: so many calls below main(), or where the thread began; 0: the
                    // innermost function
};

// Finds the names, too.
struct lanes lanes_make(struct analysis *analysis, const struct lanes_options *options);
void lanes_free(struct lanes *lanes);

void lanes_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                 const struct lanes *lanes);
void lanes_print_json(FILE *out, struct analysis *analysis, const struct lanes *lanes);

// Columns that the text has for parts.
unsigned lanes_columns(const struct text_style *style);

#endif
