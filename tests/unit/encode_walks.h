// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_ENCODE_WALKS_H
#define CAIRN_TESTS_ENCODE_WALKS_H

// Programs that only call: random functions with call sites of every kind, threads that walk
// through them, and the true path of each thread, beside what the encoding makes of it.

#include "encode/decode.h"

enum {
    WALK_PATH = 4096, // longest true path
    WALK_FRAMES = 512,
    WALK_SITES = 8,
    WALK_TARGETS = 12,
    WALK_FUNCTIONS = 48,
    WALK_THREADS = 3,
};

struct walk_site {
    enum edge_kind kind;
    unsigned targets;
    unsigned target[WALK_TARGETS];
};

struct walk_function {
    unsigned sites;
    struct walk_site site[WALK_SITES];
};

struct walk_frame {
    uint32_t edge;     // the call
    uint32_t before;   // length of the path when it was made
    uint32_t function; // that made it
};

struct walk_thread {
    struct context_state state;
    struct cc_entry stack[WALK_PATH];
    uint32_t path[WALK_PATH]; // the truth, without silent edges
    uint32_t count;
    struct walk_frame frame[WALK_FRAMES];
    uint32_t frames;
    uint32_t function; // the current one
};

struct walk_program {
    struct walk_function function[WALK_FUNCTIONS];
    unsigned functions, threads;
    struct graph graph;
    struct numbering numbering;
    struct numbering_options options;
    struct dictionary **dictionaries; // by stamp
    struct walk_thread *thread;
    bool unsettled; // there are silent edges that the encoding does not know
    bool calls_silently;
    // What happened.
    uint64_t checked, deepest, encodings, overflows, repeats, pushes, signals, silent, jumps_out,
        without_room, undecoded;
};

uint64_t walk_random(uint64_t below);
void walk_seed(uint64_t seed);

void walk_start(struct walk_program *program, unsigned id_bits);
void walk_end(struct walk_program *program);
void walk_step(struct walk_program *program, struct walk_thread *thread, unsigned call_percent);
void walk_restart(struct walk_program *program, struct walk_thread *thread);
void walk_reencode(struct walk_program *program);
void walk_jump_out(struct walk_program *program, struct walk_thread *thread); // as longjmp does

// Whether a decoded path is the true one. Silent jumps are left out of that: which of them were
// taken is not always known, but they must lead on.
bool walk_is_true(const struct graph *graph, const uint32_t *path, uint32_t count, uint32_t root,
                  uint32_t function, const uint32_t *truth, uint32_t truth_count);

// Aborts the test if what the encoding says is not the truth. False: it says nothing, since there
// was no room on ccStack, or the encoding does not know all silent edges.
bool walk_check(struct walk_program *program, struct walk_thread *thread);

#endif
