// SPDX-License-Identifier: MIT
#include "encode_walks.h"
#include "encoded_call.h"
#include "make_pool.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seeded;

void walk_seed(uint64_t seed)
{
    seeded = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t walk_random(uint64_t below)
{
    seeded ^= seeded << 13;
    seeded ^= seeded >> 7;
    seeded ^= seeded << 17;
    return (seeded >> 11) % below;
}

static place_t entry_of(unsigned function)
{
    return place_make(MODULE_FIRST_FILE + function % 3, function * 0x100);
}

static place_t site_of(unsigned function, unsigned site)
{
    return entry_of(function) + 5 + site * 7;
}

static void make_site(struct walk_program *program, struct walk_site *site)
{
    static const enum edge_kind kinds[] = {EDGE_CALL,        EDGE_CALL,       EDGE_CALL,
                                           EDGE_CALL,        EDGE_INDIRECT,   EDGE_INDIRECT,
                                           EDGE_SILENT_JUMP, EDGE_SILENT_CALL};
    site->kind = kinds[walk_random(sizeof kinds / sizeof kinds[0])];
    site->targets = site->kind == EDGE_INDIRECT ? 1 + (unsigned)walk_random(WALK_TARGETS) : 1;
    for (unsigned i = 0; i < site->targets; i++)
        site->target[i] = (unsigned)walk_random(program->functions);
}

static void make_program(struct walk_program *program)
{
    // Some are so small that they do little but recurse.
    program->functions = 1 + (unsigned)walk_random(walk_random(4) ? WALK_FUNCTIONS : 4);
    bool layered = walk_random(2), few = walk_random(2);
    for (unsigned f = 0; f < program->functions; f++) {
        struct walk_function *function = &program->function[f];
        // Those where threads begin lead somewhere.
        function->sites = f < 3 ? WALK_SITES / 2 + (unsigned)walk_random(WALK_SITES / 2)
                                : (unsigned)walk_random(WALK_SITES + 1);
        for (unsigned s = 0; s < function->sites; s++) {
            make_site(program, &function->site[s]);
            // Where silent jumps are few, they make simple groups.
            bool silent = function->site[s].kind == EDGE_SILENT_JUMP ||
                          function->site[s].kind == EDGE_SILENT_CALL;
            if (silent && few && walk_random(8))
                function->site[s].kind = EDGE_CALL;
            // Half of the programs call mostly downward, as real ones do: there are many contexts.
            struct walk_site *site = &function->site[s];
            if (layered && f + 1 < program->functions && walk_random(8))
                site->target[0] = f + 1 + (unsigned)walk_random(program->functions - f - 1);
        }
    }
}

void walk_start(struct walk_program *program, unsigned id_bits)
{
    memset(program, 0, sizeof *program);
    make_program(program);
    program->threads = 1 + (unsigned)walk_random(WALK_THREADS);
    program->thread = calloc(program->threads, sizeof *program->thread);
    program->dictionaries = calloc(1, sizeof *program->dictionaries);
    graph_init(&program->graph, &test_pool);
    program->options = (struct numbering_options){.id_bits = id_bits};
    assert_int_equal(numbering_make(&program->numbering, &program->graph, &program->options), 0);
    program->dictionaries[0] = program->numbering.dictionary;
    for (unsigned i = 0; i < program->threads; i++) {
        struct walk_thread *thread = &program->thread[i];
        thread->state.stack = thread->stack;
        thread->state.limit = walk_random(8) ? WALK_PATH : (uint32_t)walk_random(6);
        walk_restart(program, thread);
    }
}

void walk_end(struct walk_program *program)
{
    numbering_free(&program->numbering);
    for (uint32_t i = 0; i <= program->options.stamp; i++)
        dictionary_free(&program->graph, program->dictionaries[i]);
    free(program->dictionaries);
    free(program->thread);
    test_pool_free();
}

bool walk_is_true(const struct graph *graph, const uint32_t *path, uint32_t count, uint32_t root,
                  uint32_t function, const uint32_t *truth, uint32_t truth_count)
{
    uint32_t at = root, met = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_edge *edge = graph_edge(graph, path[i]);
        if (edge->caller != at)
            return false;
        at = edge->callee;
        if (edge_is_silent(edge))
            continue;
        if (met == truth_count || truth[met++] != path[i])
            return false;
    }
    return met == truth_count && at == function;
}

// What a walk of the stack would see is what the path says.
static void check_frames(const struct walk_program *program, const struct walk_thread *thread,
                         const uint32_t *path, uint32_t count)
{
    static struct walked frames[WALK_PATH];
    const struct graph *graph = &program->graph;
    assert_int_equal(path_to_walk(graph, path, count, frames), thread->frames);
    for (uint32_t i = 0; i < thread->frames; i++) {
        const struct graph_edge *edge = graph_edge(graph, thread->frame[i].edge);
        // Jumps have led from what was called to what runs.
        const uint32_t runs =
            i + 1 < thread->frames ? thread->frame[i + 1].function : thread->function;
        assert_true(frames[i].site == graph_site(graph, edge->site)->place);
        assert_true(frames[i].function == graph_function(graph, runs)->entry);
    }
}

bool walk_check(struct walk_program *program, struct walk_thread *thread)
{
    static uint32_t path[WALK_PATH];
    const struct context_state *state = &thread->state;
    struct encoded_context context = encoded_context_of(state, thread->function);
    program->checked++;
    if (thread->count > program->deepest)
        program->deepest = thread->count;
    program->repeats += state->depth && state->stack[state->depth - 1].count;
    if (state->over) {
        program->without_room++;
        return false;
    }
    int64_t count =
        context_decode(&program->graph, program->numbering.dictionary, &context, path, WALK_PATH);
    if (count < 0) {
        assert_int_equal(count, -EBADMSG);
        assert_true(program->unsettled);
        program->undecoded++;
        return false;
    }
    assert_true(walk_is_true(&program->graph, path + WALK_PATH - count, (uint32_t)count,
                             state->root, thread->function, thread->path, thread->count));
    // Which silent calls were made is not always known.
    if (!program->calls_silently)
        check_frames(program, thread, path + WALK_PATH - count, (uint32_t)count);
    return true;
}

// In the root.
static void begin(const struct walk_program *program, struct walk_thread *thread)
{
    context_reset(&thread->state,
                  dictionary_root(program->numbering.dictionary, thread->state.root));
}

// The state of a stack, computed from its frames.
static void replay(struct walk_program *program, struct walk_thread *thread)
{
    begin(program, thread);
    for (uint32_t i = 0; i < thread->frames; i++)
        if (!edge_is_silent(graph_edge(&program->graph, thread->frame[i].edge)))
            encoded_call(&thread->state, &program->numbering, thread->frame[i].edge);
}

static void settle(struct walk_program *program)
{
    if (program->unsettled && walk_random(2))
        walk_reencode(program);
}

static unsigned number_of(const struct walk_program *program, uint32_t function)
{
    return (unsigned)(place_offset(graph_function(&program->graph, function)->entry) / 0x100);
}

// A function is looked at before it runs: its silent edges are known, and what they lead to.
static uint32_t meet_function(struct walk_program *program, unsigned number)
{
    uint32_t function = graph_find_function(&program->graph, entry_of(number));
    if (function != GRAPH_NONE)
        return function;
    function = graph_add_function(&program->graph, entry_of(number));
    const struct walk_function *known = &program->function[number];
    for (unsigned s = 0; s < known->sites; s++) {
        if (known->site[s].kind != EDGE_SILENT_JUMP && known->site[s].kind != EDGE_SILENT_CALL)
            continue;
        uint32_t target = meet_function(program, known->site[s].target[0]);
        assert_true(graph_add_edge(&program->graph, site_of(number, s), function, target,
                                   known->site[s].kind) != GRAPH_NONE);
        program->unsettled = true;
        program->calls_silently |= known->site[s].kind == EDGE_SILENT_CALL;
    }
    return function;
}

static uint32_t meet_edge(struct walk_program *program, place_t site, uint32_t caller,
                          unsigned callee, enum edge_kind kind)
{
    uint32_t known = program->graph.edge_count;
    uint32_t function = meet_function(program, callee);
    uint32_t edge = graph_add_edge(&program->graph, site, caller, function, kind);
    assert_true(edge != GRAPH_NONE);
    if (program->graph.edge_count == known)
        return edge;
    // As the edges of functions that may be left in ways that nobody knows.
    if (kind < EDGE_SILENT_JUMP && walk_random(16) == 0)
        graph_edge(&program->graph, edge)->flags |= EDGE_UNENCODED;
    settle(program);
    return edge;
}

void walk_restart(struct walk_program *program, struct walk_thread *thread)
{
    thread->count = thread->frames = 0;
    unsigned root = (unsigned)walk_random(program->functions < 3 ? program->functions : 3);
    uint32_t function = meet_function(program, root);
    thread->state.root = thread->function = function;
    begin(program, thread);
    settle(program);
}

static void do_return(struct walk_program *program, struct walk_thread *thread)
{
    const struct walk_frame *frame = &thread->frame[--thread->frames];
    if (!edge_is_silent(graph_edge(&program->graph, frame->edge)))
        encoded_return(&thread->state, &program->numbering, frame->edge);
    thread->count = frame->before;
    thread->function = frame->function;
}

static void do_call(struct walk_program *program, struct walk_thread *thread, uint32_t edge)
{
    const struct graph_edge *record = graph_edge(&program->graph, edge);
    if (record->kind != EDGE_SILENT_JUMP)
        thread->frame[thread->frames++] =
            (struct walk_frame){edge, thread->count, thread->function};
    thread->function = record->callee;
    if (edge_is_silent(record)) { // nobody is told
        program->silent++;
        return;
    }
    encoded_call(&thread->state, &program->numbering, edge);
    program->pushes += numbering_word(&program->numbering, edge) < 0;
    thread->path[thread->count++] = edge;
}

// A handler makes calls on the state that it finds, some of which nobody knows, and leaves it as it
// was.
static void do_signal(struct walk_program *program, struct walk_thread *thread)
{
    enum { CALLS = 6 };
    struct context_state before = thread->state;
    const struct cc_entry top =
        before.depth ? before.stack[before.depth - 1] : (struct cc_entry){0};
    int64_t words[CALLS];
    unsigned calls = (unsigned)walk_random(CALLS + 1);
    for (unsigned i = 0; i < calls; i++) {
        uint32_t edge = (uint32_t)walk_random(program->graph.edge_count + 1ull);
        bool known = edge < program->graph.edge_count;
        words[i] = known ? numbering_word(&program->numbering, edge) : WORD_PUSH | GRAPH_NONE;
        context_call(&thread->state, words[i], dictionary_base(program->numbering.dictionary));
    }
    while (calls > 0)
        context_return(&thread->state, words[--calls]);
    assert_memory_equal(&thread->state, &before, sizeof before);
    assert_true(!before.depth || memcmp(&top, &before.stack[before.depth - 1], sizeof top) == 0);
    program->signals++;
}

void walk_step(struct walk_program *program, struct walk_thread *thread, unsigned call_percent)
{
    unsigned number = number_of(program, thread->function);
    const struct walk_function *function = &program->function[number];
    bool room = thread->frames < WALK_FRAMES && thread->count + 1 < WALK_PATH;
    if (walk_random(40) == 0) {
        do_signal(program, thread);
    } else if (function->sites == 0 || !room || walk_random(100) >= call_percent) {
        if (thread->frames > 0)
            do_return(program, thread);
    } else {
        unsigned s = (unsigned)walk_random(function->sites);
        const struct walk_site *site = &function->site[s];
        unsigned callee = site->target[walk_random(site->targets)];
        do_call(program, thread,
                meet_edge(program, site_of(number, s), thread->function, callee, site->kind));
    }
    walk_check(program, thread);
}

void walk_reencode(struct walk_program *program)
{
    // Heat as from samples: some paths, most of them short of their root.
    for (unsigned i = 0; i < program->threads; i++) {
        const struct walk_thread *thread = &program->thread[i];
        for (uint32_t e = (uint32_t)walk_random(thread->count + 1ull); e < thread->count; e++)
            graph_edge(&program->graph, thread->path[e])->heat += 1 + walk_random(3);
    }
    numbering_free(&program->numbering);
    program->options.stamp++;
    assert_int_equal(numbering_make(&program->numbering, &program->graph, &program->options), 0);
    program->dictionaries = realloc(program->dictionaries, (program->options.stamp + 1ull) *
                                                               sizeof *program->dictionaries);
    program->dictionaries[program->options.stamp] = program->numbering.dictionary;
    program->unsettled = false;
    program->encodings++;
    program->overflows += program->numbering.cut;
    for (unsigned i = 0; i < program->threads; i++) {
        replay(program, &program->thread[i]);
        walk_check(program, &program->thread[i]);
    }
}

void walk_jump_out(struct walk_program *program, struct walk_thread *thread)
{
    // Cuts frames away, as longjmp and exceptions do: what they had pushed is still there.
    for (uint64_t away = walk_random(thread->frames + 1ull); away > 0; away--) {
        const struct walk_frame *frame = &thread->frame[--thread->frames];
        thread->count = frame->before;
        thread->function = frame->function;
    }
    replay(program, thread);
    program->jumps_out++;
}
