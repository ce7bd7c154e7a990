// SPDX-License-Identifier: MIT
#include "profile_fixture.h"
#include "make_profile.h"
#include "profile/write_records.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct profile *sample_profile(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/usr/bin/app"),
             libc = make_module(profile, "/lib/libc.so.6");
    memset(profile->modules[libc].build_id, 0xab, 20);
    profile->modules[libc].build_id_bytes = 20;
    for (unsigned i = 0; i < 3; i++) {
        unsigned process = make_process(profile, 100 + i, 99, i ? "child" : "app");
        profile->processes[process].forked = i == 1;
        profile->processes[process].tree_bytes = 4096 * i;
        profile->processes[process].agent_bytes = 77;
        unsigned tree = make_tree(profile, process, i ? place_make(libc, 0x500) : 0);
        uint32_t frame = 0;
        for (unsigned depth = 0; depth < 50; depth++) {
            frame = make_frame(profile, tree, frame, place_make(app, 0x1005 + depth * 64),
                               depth == 7 ? place_make(app, PLACE_OFFSET_UNKNOWN)
                                          : place_make(app, 0x1000 + depth * 64));
            profile->trees[tree].values[frame] = depth;
            make_statement(profile, tree, frame, place_make(libc, 0x20 + depth), 1000000 + depth);
        }
        make_statement(profile, tree, frame, 0, 17); // unplaced
        profile->trees[tree].stats.handler_histogram[40] = 5;
        profile->trees[tree].stats.lost = i;
        if (i)
            strcpy(profile->trees[tree].name, i == 1 ? "worker-*" : "fifteen letters");
    }
    // The last two trees are of threads that the main thread, and a thread, have created.
    uint32_t step = make_creation(profile, PROFILE_NO_PARENT, 0, place_make(app, 0x1000));
    step = make_creation(profile, step, place_make(app, 0x1040), 0);
    profile->trees[1].creator = step + 1;
    step = make_creation(profile, step, 0, place_make(libc, PLACE_OFFSET_UNKNOWN));
    profile->trees[2].creator = make_creation(profile, step, place_make(libc, 0x540), 0) + 1;
    make_note(profile, "a note");
    return profile;
}

static void assert_same_text(const char *a, const char *b)
{
    assert_string_equal(a ? a : "(null)", b ? b : "(null)");
}

static void assert_same_command(char **a, char **b)
{
    for (; *a && *b; a++, b++)
        assert_string_equal(*a, *b);
    assert_true(!*a && !*b);
}

static void assert_same_tree(const struct profile_tree *a, const struct profile_tree *b,
                             unsigned metrics)
{
    assert_int_equal(a->process, b->process);
    assert_int_equal(a->tid, b->tid);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->creator, b->creator);
    assert_true(a->start == b->start && a->threads == b->threads && a->count == b->count);
    for (uint32_t i = 0; i < a->count; i++)
        assert_true(a->nodes[i].parent == b->nodes[i].parent &&
                    a->nodes[i].site == b->nodes[i].site &&
                    a->nodes[i].function == b->nodes[i].function);
    assert_memory_equal(a->values, b->values, a->count * metrics * sizeof *a->values);
    assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
}

void assert_same(const struct profile *a, const struct profile *b)
{
    assert_same_command(a->command, b->command);
    assert_same_text(a->tracker, b->tracker);
    assert_same_text(a->tree_kind, b->tree_kind);
    assert_true(a->start_realtime_ns == b->start_realtime_ns && a->duration_ns == b->duration_ns);
    assert_true(a->complete == b->complete && a->metric_count == b->metric_count);
    for (unsigned i = 0; i < a->metric_count; i++) {
        assert_same_text(a->metrics[i].name, b->metrics[i].name);
        assert_same_text(a->metrics[i].unit, b->metrics[i].unit);
        assert_same_text(a->metrics[i].source, b->metrics[i].source);
        assert_true(a->metrics[i].period == b->metrics[i].period);
        assert_true(a->metrics[i].rate_requested == b->metrics[i].rate_requested);
    }
    assert_int_equal(a->module_count, b->module_count);
    for (unsigned i = 0; i < a->module_count; i++) {
        assert_same_text(a->modules[i].path, b->modules[i].path);
        assert_int_equal(a->modules[i].build_id_bytes, b->modules[i].build_id_bytes);
        assert_memory_equal(a->modules[i].build_id, b->modules[i].build_id, 32);
    }
    assert_int_equal(a->process_count, b->process_count);
    for (unsigned i = 0; i < a->process_count; i++) {
        const struct profile_process *p = &a->processes[i], *q = &b->processes[i];
        assert_true(p->pid == q->pid && p->parent_pid == q->parent_pid && p->forked == q->forked);
        assert_true(p->ended == q->ended && p->start_ns == q->start_ns && p->end_ns == q->end_ns);
        assert_true(p->tree_bytes == q->tree_bytes && p->agent_bytes == q->agent_bytes);
        assert_true(p->samples == q->samples && p->cost_ns == q->cost_ns);
        assert_true(p->thread_starts == q->thread_starts && p->merged_into == q->merged_into);
        assert_same_command(p->command, q->command);
    }
    assert_int_equal(a->creation_count, b->creation_count);
    for (unsigned i = 0; i < a->creation_count; i++) {
        const struct profile_creation *p = &a->creations[i], *q = &b->creations[i];
        assert_true(p->parent == q->parent && p->site == q->site && p->function == q->function);
    }
    assert_int_equal(a->tree_count, b->tree_count);
    for (unsigned i = 0; i < a->tree_count; i++)
        assert_same_tree(&a->trees[i], &b->trees[i], a->metric_count);
    assert_int_equal(a->note_count, b->note_count);
    for (unsigned i = 0; i < a->note_count; i++)
        assert_same_text(a->notes[i], b->notes[i]);
}

struct bytes encoded(const struct profile *profile)
{
    struct batch batch = {.level = 3};
    write_profile(&batch, profile);
    struct bytes bytes = batch.out;
    batch.out = (struct bytes){0};
    batch_free(&batch);
    return bytes;
}

bool says(const struct profile *profile, const char *words)
{
    for (unsigned i = 0; i < profile->note_count; i++)
        if (strstr(profile->notes[i], words))
            return true;
    return false;
}
