// SPDX-License-Identifier: MIT
#include "encode_walks.h"
#include "make_pool.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state;

void walk_seed(uint64_t seed)
{
    state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t walk_random(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
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
    static const enum edge_kind kinds[] = {
        EDGE_CALL, EDGE_CALL,          EDGE_CALL,    EDGE_CALL,        EDGE_INDIRECT,   EDGE_TAIL,
        EDGE_TAIL, EDGE_TAIL_INDIRECT, EDGE_OUTSIDE, EDGE_SILENT_JUMP, EDGE_SILENT_CALL};
    site->kind = kinds[walk_random(sizeof kinds / sizeof kinds[0])];
    bool many = site->kind == EDGE_INDIRECT || site->kind == EDGE_TAIL_INDIRECT;
    site->targets = many ? 1 + (unsigned)walk_random(WALK_TARGETS) : 1;
    for (unsigned i = 0; i < site->targets; i++)
        site->target[i] = (unsigned)walk_random(program->functions);
}

// Whether a function may leave by a tail call, which whoever called it would have to notice.
static bool may_leave(const struct walk_program *program, unsigned number, uint64_t *seen)
{
    const struct walk_function *function = &program->function[number];
    if (*seen & UINT64_C(1) << number)
        return false;
    *seen |= UINT64_C(1) << number;
    for (unsigned s = 0; s < function->sites; s++) {
        const struct walk_site *site = &function->site[s];
        if (site->kind == EDGE_TAIL || site->kind == EDGE_TAIL_INDIRECT ||
            (site->kind == EDGE_SILENT_JUMP && may_leave(program, site->target[0], seen)))
            return true;
    }
    return false;
}

// In functions that are called by calls which cannot be patched, jumps are not, either.
static void calm_silent_calls(struct walk_program *program)
{
    for (unsigned f = 0; f < program->functions; f++) {
        for (unsigned s = 0; s < program->function[f].sites; s++) {
            struct walk_site *site = &program->function[f].site[s];
            uint64_t seen = 0;
            if (site->kind == EDGE_SILENT_CALL && may_leave(program, site->target[0], &seen))
                site->kind = EDGE_CALL;
        }
    }
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
    calm_silent_calls(program);
}

void walk_start(struct walk_program *program, unsigned id_bits)
{
    memset(program, 0, sizeof *program);
    make_program(program);
    program->threads = 1 + (unsigned)walk_random(WALK_THREADS);
    program->thread = calloc(program->threads, sizeof *program->thread);
    program->dictionaries = calloc(1, sizeof *program->dictionaries);
    graph_init(&program->graph, &test_pool);
    program->options = (struct numbering_options){.id_bits = id_bits, .chain_targets = 4};
    program->options.save_unseen_tails = walk_random(2) ? walk_random(10) : 0;
    assert_int_equal(numbering_start(&program->numbering, &program->graph, &program->options), 0);
    program->dictionaries[0] = program->numbering.dictionary;
    for (unsigned i = 0; i < program->threads; i++) {
        struct walk_thread *thread = &program->thread[i];
        thread->machine.stack = thread->stack;
        thread->machine.tail_stack = thread->tail_stack;
        thread->machine.limit = WALK_PATH;
        thread->machine.tail_limit = WALK_FRAMES;
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
        if (edge->caller != at && !edge_keeps_function(edge))
            return false;
        at = edge->callee;
        if (edge_is_silent(edge))
            continue;
        if (met == truth_count || truth[met++] != path[i])
            return false;
    }
    return met == truth_count && at == function;
}

void walk_check(struct walk_program *program, struct walk_thread *thread)
{
    static uint32_t path[WALK_PATH];
    struct context context = context_of(&thread->machine, thread->function);
    int64_t count =
        context_decode(&program->graph, program->numbering.dictionary, &context, path, WALK_PATH);
    assert_true(count >= 0);
    assert_true(walk_is_true(&program->graph, path + WALK_PATH - count, (uint32_t)count,
                             thread->machine.root, thread->function, thread->path, thread->count));
    program->checked++;
    if (thread->count > program->deepest)
        program->deepest = thread->count;
    const struct machine *machine = &thread->machine;
    const struct cc_entry *top = machine->depth ? &machine->stack[machine->depth - 1] : NULL;
    if (top && top->count && !edge_keeps_function(graph_edge(&program->graph, top->edge)))
        program->repeats++;
}

static void translate_all(struct walk_program *program, const struct dictionary *old)
{
    static uint32_t path[WALK_PATH];
    for (unsigned i = 0; i < program->threads; i++) {
        struct walk_thread *thread = &program->thread[i];
        int64_t count = context_translate(&thread->machine, thread->function, old,
                                          &program->numbering, path, WALK_PATH);
        assert_true(count >= thread->count);
        walk_check(program, thread);
    }
}

static void cover(struct walk_program *program)
{
    enum cover cover;
    assert_int_equal(numbering_cover(&program->numbering, &cover), 0);
    program->saves += cover == COVER_SAVES;
    program->stale += cover == COVER_STALE;
    if (cover == COVER_SAVES)
        translate_all(program, program->numbering.dictionary);
    else if (cover == COVER_STALE)
        walk_reencode(program);
}

static unsigned number_of(const struct walk_program *program, uint32_t function)
{
    return (unsigned)(place_offset(graph_function(&program->graph, function)->entry) / 0x100);
}

// How many tail calls of a function have not been met yet, as the patcher knows.
static void count_tails(struct walk_program *program, uint32_t function)
{
    const struct walk_function *known = &program->function[number_of(program, function)];
    uint32_t unseen = 0;
    for (unsigned s = 0; s < known->sites; s++) {
        place_t place = site_of(number_of(program, function), s);
        if (known->site[s].kind == EDGE_TAIL || known->site[s].kind == EDGE_TAIL_INDIRECT)
            unseen += graph_find_site(&program->graph, place) == GRAPH_NONE;
    }
    graph_function(&program->graph, function)->unseen_tails = unseen;
}

// A function is looked at before it runs: its silent jumps are known, and what they lead to.
static uint32_t meet_function(struct walk_program *program, unsigned number)
{
    uint32_t function = graph_find_function(&program->graph, entry_of(number));
    if (function != GRAPH_NONE)
        return function;
    function = graph_add_function(&program->graph, entry_of(number));
    count_tails(program, function);
    const struct walk_function *known = &program->function[number];
    for (unsigned s = 0; s < known->sites; s++) {
        if (known->site[s].kind != EDGE_SILENT_JUMP && known->site[s].kind != EDGE_SILENT_CALL)
            continue;
        uint32_t target = meet_function(program, known->site[s].target[0]);
        assert_true(graph_add_edge(&program->graph, site_of(number, s), function, target,
                                   known->site[s].kind) != GRAPH_NONE);
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
    if (program->graph.edge_count > known) {
        count_tails(program, caller);
        cover(program);
    }
    return edge;
}

void walk_restart(struct walk_program *program, struct walk_thread *thread)
{
    thread->count = thread->frames = 0;
    machine_reset(&thread->machine);
    thread->function = thread->machine.root;
    unsigned root = (unsigned)walk_random(program->functions < 3 ? program->functions : 3);
    uint32_t function = meet_function(program, root);
    graph_set_root(&program->graph, function);
    cover(program);
    thread->machine.root = thread->function = function;
}

static void do_tail(struct walk_program *program, struct walk_thread *thread, uint32_t edge)
{
    const struct graph_edge *record = graph_edge(&program->graph, edge);
    if (record->kind == EDGE_SILENT_JUMP) { // nobody is told
        thread->function = record->callee;
        program->silent++;
        return;
    }
    assert_int_equal(machine_tail(&thread->machine, &program->numbering, edge), 0);
    if (record->flags & EDGE_LOOPS) {
        // Only the real call survives.
        thread->count = thread->frames ? thread->frame[thread->frames - 1].before + 1 : 0;
        program->loops++;
    }
    thread->path[thread->count++] = edge;
    thread->function = record->callee;
}

static void do_return(struct walk_program *program, struct walk_thread *thread)
{
    const struct walk_frame *frame = &thread->frame[--thread->frames];
    if (!edge_is_silent(graph_edge(&program->graph, frame->edge)))
        machine_return(&thread->machine, &program->numbering, frame->edge);
    thread->count = frame->before;
    thread->function = frame->function;
}

static void do_call(struct walk_program *program, struct walk_thread *thread, uint32_t edge)
{
    const struct graph_edge *record = graph_edge(&program->graph, edge);
    thread->frame[thread->frames++] = (struct walk_frame){edge, thread->count, thread->function};
    if (edge_is_silent(record)) { // nobody is told
        thread->function = record->callee;
        program->silent++;
        return;
    }
    int status = record->kind == EDGE_OUTSIDE
                     ? machine_enter(&thread->machine, &program->numbering, edge, thread->function)
                     : machine_call(&thread->machine, &program->numbering, edge);
    assert_int_equal(status, 0);
    thread->path[thread->count++] = edge;
    thread->function = record->callee;
}

// Any function may be interrupted: its handler has one edge, wherever that happens.
static void do_signal(struct walk_program *program, struct walk_thread *thread)
{
    unsigned handler = (unsigned)walk_random(program->functions);
    do_call(program, thread,
            meet_edge(program, entry_of(handler), thread->function, handler, EDGE_OUTSIDE));
    program->signals++;
}

void walk_step(struct walk_program *program, struct walk_thread *thread, unsigned call_percent)
{
    unsigned number = number_of(program, thread->function);
    const struct walk_function *function = &program->function[number];
    bool room = thread->frames < WALK_FRAMES && thread->count + 1 < WALK_PATH;
    if (room && walk_random(40) == 0) {
        do_signal(program, thread);
    } else if (function->sites == 0 || !room || walk_random(100) >= call_percent) {
        if (thread->frames > 0)
            do_return(program, thread);
    } else {
        unsigned s = (unsigned)walk_random(function->sites);
        const struct walk_site *site = &function->site[s];
        unsigned callee = site->target[walk_random(site->targets)];
        uint32_t edge =
            meet_edge(program, site_of(number, s), thread->function, callee, site->kind);
        if (edge_is_tail(graph_edge(&program->graph, edge)))
            do_tail(program, thread, edge);
        else
            do_call(program, thread, edge);
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
    const struct dictionary *old = program->numbering.dictionary;
    numbering_free(&program->numbering);
    program->options.stamp++;
    assert_int_equal(numbering_make(&program->numbering, &program->graph, &program->options), 0);
    program->dictionaries = realloc(program->dictionaries, (program->options.stamp + 1ull) *
                                                               sizeof *program->dictionaries);
    program->dictionaries[program->options.stamp] = program->numbering.dictionary;
    program->encodings++;
    program->overflows += program->numbering.cut;
    translate_all(program, old);
}

static bool is_silent_frame(const struct walk_program *program, const struct walk_frame *frame)
{
    return edge_is_silent(graph_edge(&program->graph, frame->edge));
}

// The path that resync found has the same calls, but may have other tail calls between them, and
// which silent edges were taken is not always known.
static void accept_path(struct walk_program *program, struct walk_thread *thread,
                        const uint32_t *path, uint32_t count)
{
    uint32_t frame = 0;
    thread->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_edge *edge = graph_edge(&program->graph, path[i]);
        if (edge_is_silent(edge))
            continue;
        if (!edge_is_tail(edge)) {
            while (frame < thread->frames && is_silent_frame(program, &thread->frame[frame]))
                thread->frame[frame++].before = thread->count;
            // The code that is returned to undoes what the path has done.
            assert_true(frame < thread->frames);
            assert_int_equal(thread->frame[frame].edge, path[i]);
            thread->frame[frame++].before = thread->count;
        }
        thread->path[thread->count++] = path[i];
    }
    while (frame < thread->frames && is_silent_frame(program, &thread->frame[frame]))
        thread->frame[frame++].before = thread->count;
    assert_int_equal(frame, thread->frames);
}

// Also meets what no edge explains.
static void resync(struct walk_program *program, struct walk_thread *thread,
                   const struct walked *walk, uint32_t count)
{
    static uint32_t path[WALK_PATH];
    static struct walked again[WALK_PATH];
    struct machine *machine = &thread->machine;
    uint32_t unknown;
    int status = machine_resync(machine, &program->numbering, walk, count, &unknown);
    if (status == -ENOENT) {
        // What this thread's state was is lost: others are regenerated if need be, this one is
        // below.
        uint32_t kept = thread->count, function = thread->function;
        thread->count = 0;
        thread->function = machine->root;
        machine_reset(machine);
        place_t caller = unknown > 0 ? walk[unknown - 1].function
                                     : graph_function(&program->graph, machine->root)->entry;
        assert_true(resync_explain(&program->graph, &walk[unknown], caller) != GRAPH_NONE);
        cover(program);
        thread->count = kept;
        thread->function = function;
        status = machine_resync(machine, &program->numbering, walk, count, &unknown);
        program->unexplained++;
    }
    assert_int_equal(status, 0);
    struct context context = context_of(machine, thread->function);
    int64_t found =
        context_decode(&program->graph, program->numbering.dictionary, &context, path, WALK_PATH);
    assert_true(found >= 0);
    const uint32_t *begin = path + WALK_PATH - found;
    uint32_t seen = path_to_walk(&program->graph, begin, (uint32_t)found, again);
    if (program->graph.silent_count == 0) {
        assert_int_equal(seen, count);
        for (uint32_t i = 0; i < count; i++)
            assert_true(walk[i].site == again[i].site && walk[i].function == again[i].function);
    }
    accept_path(program, thread, begin, (uint32_t)found);
    program->resyncs++;
}

// A walk does not see the tail calls of the root. True: there were some.
static bool root_is_gone(const struct walk_program *program, const struct walk_thread *thread)
{
    return thread->count > 0 && edge_is_tail(graph_edge(&program->graph, thread->path[0]));
}

// What the stack of a thread looks like.
static uint32_t walk_stack(const struct walk_program *program, const struct walk_thread *thread,
                           struct walked *walk)
{
    for (uint32_t i = 0; i < thread->frames; i++) {
        const struct graph_edge *edge = graph_edge(&program->graph, thread->frame[i].edge);
        uint32_t function =
            i + 1 < thread->frames ? thread->frame[i + 1].function : thread->function;
        walk[i].site = graph_site(&program->graph, edge->site)->place;
        walk[i].function = graph_function(&program->graph, function)->entry;
        walk[i].called = thread->frame[i].edge;
        if (edge->kind == EDGE_CALL && walk_random(2))
            walk[i].called = GRAPH_NONE; // the site says it all
    }
    return thread->frames;
}

void walk_jump_out(struct walk_program *program, struct walk_thread *thread)
{
    static struct walked walk[WALK_FRAMES];
    // Cuts frames away, as longjmp and exceptions do: what they had pushed is still there.
    for (uint64_t away = walk_random(thread->frames + 1ull); away > 0; away--) {
        const struct walk_frame *frame = &thread->frame[--thread->frames];
        thread->count = frame->before;
        thread->function = frame->function;
    }
    if (root_is_gone(program, thread))
        walk_restart(program, thread);
    else
        resync(program, thread, walk, walk_stack(program, thread, walk));
}

// The function may be new; its own silent jumps are told as soon as it is known.
static uint32_t meet_slipped(struct walk_program *program, struct walk_thread *thread,
                             unsigned callee)
{
    walk_check(program, thread);
    uint32_t function = meet_function(program, callee);
    cover(program);
    return function;
}

void walk_slip_away(struct walk_program *program, struct walk_thread *thread)
{
    static struct walked walk[WALK_FRAMES];
    if (thread->frames == 0 || root_is_gone(program, thread) ||
        edge_is_silent(graph_edge(&program->graph, thread->frame[thread->frames - 1].edge)))
        return;
    uint32_t count = walk_stack(program, thread, walk);
    unsigned callee = (unsigned)walk_random(program->functions);
    walk[count - 1].function = entry_of(callee);
    thread->function = meet_slipped(program, thread, callee);
    resync(program, thread, walk, count);
}
