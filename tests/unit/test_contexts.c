// SPDX-License-Identifier: MIT
// Contexts that a program asked for: as text, from the live memory through the profile to frames,
// and what damage does to them.

#include "analyze/decoding.h"
#include "encode/codebook/context_text.h"
#include "encode/codebook/handle_frames.h"
#include "encode/codebook/serial.h"
#include "encoded_call.h"
#include "make_pool.h"
#include "make_profile.h"
#include "merge_from_memory.h"
#include "profile/contexts.h"
#include "profile/reader.h"
#include "recorder_fixture.h"

// ---- text

static void test_the_text_of_a_context_leads_back_to_it(void **unused)
{
    (void)unused;
    unsigned unnoticed = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct context_text value = {.process = (uint32_t)next_random(),
                                     .id = next_random() >> next_random() % 64,
                                     .handle = next_random() >> next_random() % 64},
                            read;
        char text[CONTEXT_TEXT_BYTES + 8];
        size_t length;
        if (!(uint32_t)value.handle)
            value.handle++;
        context_text_format(&value, text, CONTEXT_TEXT_BYTES);
        assert_in_range(strlen(text), 10, CONTEXT_TEXT_BYTES - 1);
        assert_int_equal(context_text_parse(text, strlen(text), &read, &length),
                         CONTEXT_TEXT_SOUND);
        assert_int_equal(length, strlen(text));
        assert_true(read.process == value.process && read.id == value.id &&
                    read.handle == value.handle);
        // What was cut off, or goes on, is not taken for another one.
        assert_int_not_equal(context_text_parse(text, strlen(text) - 1, &read, &length),
                             CONTEXT_TEXT_SOUND);
        strcat(text, "0");
        assert_true(context_text_parse(text, strlen(text), &read, &length) == CONTEXT_TEXT_DAMAGED);
        text[strlen(text) - 1] = 0;
        char *at = &text[2 + next_random() % (strlen(text) - 2)];
        const char digit = "0123456789abcdef"[next_random() % 16];
        if (*at == '.' || *at == digit)
            continue;
        *at = digit;
        unnoticed += context_text_parse(text, strlen(text), &read, &length) == CONTEXT_TEXT_SOUND;
    }
    assert_in_range(unnoticed, 0, 30); // one in 256 has the same sum
}

static void test_text_without_room(void **unused)
{
    (void)unused;
    const struct context_text value = {.process = 0x12345678, .id = 1, .handle = 7},
                              unknown = {.id = 3};
    struct context_text read;
    char text[CONTEXT_TEXT_BYTES] = "xxx";
    size_t length;
    context_text_format(&value, text, 0);
    assert_string_equal(text, "xxx");
    context_text_format(&value, text, 6);
    assert_string_equal(text, "c:123");
    context_text_format(&unknown, text, sizeof text);
    assert_string_equal(text, "c:?");
    assert_int_equal(context_text_parse("c:?x", 4, &read, &length), CONTEXT_TEXT_UNKNOWN);
    assert_int_equal(length, 3);
    static const char *const none[] = {
        "",          "c", "c:", "d:12345678.1.1.1.11", "c:1234567.1.1.1.11", "c:123456789.1.1.1.11",
        "c:12345678"};
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(context_text_parse(none[i], strlen(none[i]), &read, &length),
                         CONTEXT_TEXT_NONE);
    // A node that is never handed out.
    assert_int_equal(context_text_parse("c:12345678.1.1.0.11", 19, &read, &length),
                     CONTEXT_TEXT_DAMAGED);
}

// ---- through the profile

enum { CHAIN = 6, MODULE = 3 };

// A process whose functions call each other in a row, and one of them itself.
struct asking {
    struct fake_process process;
    struct pool pool;
    struct graph graph;
    struct numbering numbering;
    struct intern intern;
    uint32_t told_functions, told_edges;
    uint32_t origin;
};

static place_t function_at(uint32_t number)
{
    return place_make(MODULE, 0x1000 + number * 0x100);
}

static place_t site_in(uint32_t number)
{
    return function_at(number) + 0x20;
}

static void leave(struct asking *asking, const struct dictionary *dictionary)
{
    struct serial out = {0};
    struct live_sections *sections = NULL;
    ref_t ref = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        serial_graph(&out, &asking->graph, asking->told_functions, asking->told_edges);
        if (dictionary)
            serial_dictionary(&out, dictionary);
        if (pass)
            break;
        ref = arena_alloc(&asking->process.arena, sizeof *sections + out.size);
        assert_true(ref != 0);
        sections = arena_at(&asking->process.arena, ref);
        sections->bytes = (uint32_t)out.size;
        out = (struct serial){sections->data, 0, out.size};
    }
    live_push(&asking->process.process->contexts.sections, &sections->next, ref);
    asking->told_functions = asking->graph.function_count;
    asking->told_edges = asking->graph.edge_count;
}

static void start_asking(struct asking *asking, struct fake_live *live, pid_t pid, uint32_t first)
{
    memset(asking, 0, sizeof *asking);
    asking->process = new_process(live, pid, "asking");
    asking->pool = make_pool();
    graph_init(&asking->graph, &asking->pool);
    for (uint32_t i = 0; i < CHAIN; i++)
        graph_add_function(&asking->graph, function_at(i));
    for (uint32_t i = 0; i + 1 < CHAIN; i++)
        graph_add_edge(&asking->graph, site_in(i), i, i + 1, EDGE_CALL);
    graph_add_edge(&asking->graph, site_in(CHAIN - 1), CHAIN - 1, CHAIN - 1, EDGE_CALL);
    const struct numbering_options options = {.stamp = 2, .id_bits = ID_BITS};
    assert_int_equal(numbering_make(&asking->numbering, &asking->graph, &options), 0);
    struct live_contexts *contexts = &asking->process.process->contexts;
    const size_t bytes = intern_bytes(1 << 16);
    const ref_t ref = arena_alloc(&asking->process.arena, bytes);
    assert_int_equal(intern_init(&asking->intern, arena_at(&asking->process.arena, ref), bytes), 0);
    contexts->first = first;
    contexts->capacity = asking->intern.capacity;
    atomic_store(&contexts->nodes, ref);
    atomic_store(&contexts->asked, 1);
    leave(asking, asking->numbering.dictionary);
    asking->origin = intern_origin(&asking->intern, &(struct intern_origin){0, 0, GRAPH_NONE, 0});
}

static void end_asking(struct asking *asking)
{
    dictionary_free(&asking->graph, asking->numbering.dictionary);
    numbering_free(&asking->numbering);
    graph_free(&asking->graph);
    pool_close(&asking->pool);
    assert_int_equal(asking->pool.mapped, 0);
    fake_process_free(&asking->process);
}

// The context in the last function, which has called itself so many times.
static uint64_t ask(struct asking *asking, uint32_t repeated, uint64_t *id)
{
    struct cc_entry stack[4];
    struct context_state state = {.stack = stack, .limit = 4};
    for (uint32_t edge = 0; edge + 1 < CHAIN; edge++)
        encoded_call(&state, &asking->numbering, edge);
    for (uint32_t i = 0; i < repeated; i++)
        encoded_call(&state, &asking->numbering, CHAIN - 1);
    assert_int_equal(state.over, 0);
    const uint32_t node = intern_stack(&asking->intern, asking->origin, stack, state.depth);
    const uint32_t point =
        intern_point(&asking->intern, node, function_at(CHAIN - 1) + 0x55, CHAIN - 1);
    assert_true(point != 0);
    *id = state.id;
    return (uint64_t)2 << 32 | (asking->process.process->contexts.first + point);
}

// A context that was walked: two frames, perhaps with something unknown above them.
static uint64_t ask_walking(struct asking *asking, bool cut, uint64_t creator_id, uint64_t creator)
{
    uint32_t node = intern_origin(
        &asking->intern, &(struct intern_origin){creator_id, creator, GRAPH_NONE, GRAPH_NONE});
    if (cut)
        node = intern_frame(&asking->intern, node, 0, 0);
    node = intern_frame(&asking->intern, node, cut ? site_in(9) : 0, function_at(10));
    node = intern_frame(&asking->intern, node, site_in(10), function_at(11));
    node = intern_point(&asking->intern, node, function_at(11) + 0x33, GRAPH_NONE);
    return asking->process.process->contexts.first + node;
}

static void check_asked(struct decoding *decoding, uint32_t process, uint32_t repeated, uint64_t id,
                        uint64_t handle, unsigned module)
{
    struct decoded decoded;
    assert_int_equal(decoding_tell(decoding, process, id, handle, &decoded), 0);
    assert_int_equal(decoded.count, CHAIN + repeated);
    for (uint32_t i = 0; i < decoded.count; i++) {
        const uint32_t number = i < repeated ? CHAIN - 1 : CHAIN - 1 - (i - repeated);
        const place_t inside = (i ? site_in(number) : function_at(CHAIN - 1) + 0x55) - 1;
        assert_true(decoded.frames[i].function ==
                    place_make(module, place_offset(function_at(number))));
        assert_true(decoded.frames[i].inside == place_make(module, place_offset(inside)));
        assert_int_equal(decoded.frames[i].thread, 0);
    }
}

static void test_through_the_profile(void **unused)
{
    (void)unused;
    struct fake_live live = fake_live_new(1 << 20, 2);
    struct asking asking;
    start_asking(&asking, &live, getpid(), 0);
    fake_sample(&asking.process, fake_thread(&asking.process, 0), (uint64_t[]){16}, 1, 20, 10);
    struct recorder *recorder = open_recorder(&live);
    uint64_t id[20], handle[20];
    for (uint32_t i = 0; i < 20; i++) {
        handle[i] = ask(&asking, i, &id[i]);
        if (i == 10) // the graph grows
            leave(&asking, NULL);
        if (i % 3 == 0)
            assert_int_equal(recorder_update(recorder), 0);
        struct profile *profile = read_back(); // while it is being written
        struct decoding *decoding = decoding_new(profile);
        for (uint32_t j = 0; j <= i / 3 * 3; j++)
            check_asked(decoding, 0, j, id[j], handle[j], MODULE);
        decoding_free(decoding);
        profile_free(profile);
    }
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    struct decoding *decoding = decoding_new(profile);
    const struct profile_process *process = &profile->processes[0];
    assert_true(decoding_has_any(decoding));
    assert_int_equal(decoding_process(decoding, live_process_key(process->pid, process->start_ns)),
                     0);
    assert_int_equal(decoding_process(decoding, 1), DECODING_NONE);
    assert_int_equal(decoding_process_of(decoding, 0), 0);
    assert_int_equal(decoding_process_of(decoding, process->pid), 0);
    assert_int_equal(decoding_process_of(decoding, 1), DECODING_NONE);
    for (uint32_t i = 0; i < 20; i++)
        check_asked(decoding, 0, i, id[i], handle[i], MODULE);
    // What nobody was given.
    struct decoded decoded;
    assert_int_equal(decoding_tell(decoding, 0, id[3] + 1, handle[3], &decoded), -ENOENT);
    assert_int_equal(decoding_tell(decoding, 0, id[3], handle[3] + (UINT64_C(1) << 32), &decoded),
                     -ENOENT);
    assert_int_equal(decoding_tell(decoding, 0, id[3], handle[3] - 1, &decoded), -ENOENT);
    assert_int_equal(decoding_tell(decoding, 0, 0, 4711, &decoded), -ENOENT);
    decoding_free(decoding);
    profile_free(profile);
    end_asking(&asking);
    fake_live_free(&live);
}

static void test_walked_and_created(void **unused)
{
    (void)unused;
    struct fake_live live = fake_live_new(1 << 20, 2);
    struct asking asking;
    start_asking(&asking, &live, getpid(), 0);
    uint64_t id;
    const uint64_t creator = ask(&asking, 1, &id);
    const uint64_t thread = ask_walking(&asking, false, id, creator);
    const uint64_t cut = ask_walking(&asking, true, 0, 0);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    struct decoding *decoding = decoding_new(profile);
    struct decoded decoded;
    assert_int_equal(decoding_tell(decoding, 0, 0, thread, &decoded), 0);
    assert_int_equal(decoded.count, 2 + CHAIN + 1);
    assert_true(decoded.frames[0].function == function_at(11));
    assert_true(decoded.frames[0].inside == function_at(11) + 0x32);
    assert_true(decoded.frames[1].inside == site_in(10) - 1);
    for (uint32_t i = 0; i < decoded.count; i++)
        assert_int_equal(decoded.frames[i].thread, i >= 2);
    assert_true(decoded.frames[decoded.count - 1].function == function_at(0));
    assert_int_equal(decoding_tell(decoding, 0, 0, cut, &decoded), 0);
    assert_int_equal(decoded.count, 3);
    assert_true(decoded.frames[1].function == function_at(10) && decoded.frames[2].function == 0);
    // Those have neither id nor stamp.
    assert_int_equal(decoding_tell(decoding, 0, 1, cut, &decoded), -ENOENT);
    assert_int_equal(decoding_tell(decoding, 0, 0, cut | UINT64_C(1) << 32, &decoded), -ENOENT);
    decoding_free(decoding);
    profile_free(profile);
    end_asking(&asking);
    fake_live_free(&live);
}

static void test_a_child_knows_its_parents_contexts(void **unused)
{
    (void)unused;
    struct fake_live live = fake_live_new(1 << 20, 3);
    struct asking parent, child;
    uint64_t id, own;
    start_asking(&parent, &live, getpid(), 0);
    const uint64_t before = ask(&parent, 2, &id);
    start_asking(&child, &live, getpid(), parent.intern.used);
    child.process.process->forked = 1;
    child.process.process->parent_pid = parent.process.process->pid;
    child.process.process->start_ns = parent.process.process->start_ns + 5;
    const uint64_t after = ask(&child, 3, &own);
    assert_true(before != after);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(profile->process_count, 2);
    struct decoding *decoding = decoding_new(profile);
    struct decoded decoded;
    check_asked(decoding, 1, 3, own, after, MODULE);
    check_asked(decoding, 1, 2, id, before, MODULE); // its parent's
    assert_int_equal(decoding_tell(decoding, 0, own, after, &decoded), -ENOENT);
    assert_int_equal(decoding_process_of(decoding, 0), DECODING_NONE); // which of them?
    decoding_free(decoding);
    profile_free(profile);
    end_asking(&parent);
    end_asking(&child);
    fake_live_free(&live);
}

// Modules have other numbers in a merged profile.
static void test_contexts_follow_modules_into_a_merged_profile(void **unused)
{
    (void)unused;
    struct fake_live live = fake_live_new(1 << 20, 2);
    struct asking asking;
    uint64_t id;
    start_asking(&asking, &live, getpid(), 0);
    const uint64_t handle = ask(&asking, 2, &id);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back(), *other = make_profile("cpu", "ns", 1000000);
    const unsigned module = make_module(other, "/bin/other");
    const unsigned tree = make_tree(other, make_process(other, 100, 1, "other"), 0);
    make_statement(other, tree,
                   make_frame(other, tree, 0, place_make(module, 4), place_make(module, 1)),
                   place_make(module, 5), 7);
    char *error = NULL;
    struct profile *both[] = {other, profile};
    struct profile *merged = profile_merge(&(struct merge_source){2, merge_from_memory, both, NULL},
                                           MERGE_BY_PROGRAM, &error);
    assert_non_null(merged);
    struct decoding *decoding = decoding_new(merged);
    check_asked(decoding, 1, 2, id, handle, MODULE + 1);
    decoding_free(decoding);
    profile_free(merged);
    profile_free(other);
    profile_free(profile);
    end_asking(&asking);
    fake_live_free(&live);
}

// ---- damage

static void ignore(void *context, unsigned process, place_t place)
{
    (void)context;
    (void)process;
    (void)place;
}

// What follows a record that was lost is not taken for what it is not.
static void test_lost_record(void **unused)
{
    (void)unused;
    static const uint8_t bytes[30] = {1, 2, 3};
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    make_process(profile, 100, 1, "app");
    struct batch batch = {.level = 1};
    write_profile(&batch, profile);
    contexts_put_sections(&batch, 0, 0, bytes, 10);
    contexts_put_sections(&batch, 0, 10, bytes, 5);
    contexts_put_sections(&batch, 0, 20, bytes, 10); // five are missing
    contexts_put_sections(&batch, 0, 30, bytes, 10);
    batch_flush(&batch);
    char *error = NULL;
    struct profile *read =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "lost", &error);
    assert_non_null(read);
    assert_int_equal(read->processes[0].contexts.bytes, 15);
    assert_true(read->processes[0].contexts.cut);
    profile_free(read);
    batch_free(&batch);
    profile_free(profile);
}

// Whatever the bytes are, decoding ends, and touches nothing that is not there.
static void test_damaged_sections(void **unused)
{
    (void)unused;
    struct fake_live live = fake_live_new(1 << 20, 2);
    struct asking asking;
    uint64_t id[8], handle[8], walked;
    start_asking(&asking, &live, getpid(), 0);
    for (uint32_t i = 0; i < 8; i++)
        handle[i] = ask(&asking, i, &id[i]);
    walked = ask_walking(&asking, true, id[2], handle[2]);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    struct profile_contexts *contexts = &profile->processes[0].contexts;
    uint8_t *sound = memcpy(malloc(contexts->bytes), contexts->sections, contexts->bytes);
    const size_t bytes = contexts->bytes;
    unsigned told = 0, lost = 0;
    for (unsigned round = 0; round < 3000; round++) {
        memcpy(contexts->sections, sound, bytes);
        contexts->bytes = round % 3 ? bytes : next_random() % bytes;
        for (uint64_t flips = round % 3 ? 1 + next_random() % 4 : 0; flips > 0; flips--)
            contexts->sections[next_random() % bytes] = (uint8_t)next_random();
        struct decoding *decoding = decoding_new(profile);
        struct decoded decoded;
        decoding_places(decoding, ignore, NULL);
        for (uint32_t i = 0; i < 8; i++) {
            const int status = decoding_tell(decoding, 0, id[i], handle[i], &decoded);
            assert_true(status == 0 || status == -ENOENT || status == -EBADMSG);
            told += status == 0;
            lost += status != 0;
        }
        decoding_tell(decoding, 0, 0, walked, &decoded);
        decoding_free(decoding);
    }
    assert_true(told > 1000 && lost > 1000);
    free(sound);
    profile_free(profile);
    end_asking(&asking);
    fake_live_free(&live);
}

// The program may have written over its slice.
static void test_scribbled_contexts(void **unused)
{
    (void)unused;
    for (unsigned round = 0; round < 100; round++) {
        struct fake_live live = fake_live_new(1 << 18, 2);
        struct asking asking;
        uint64_t id;
        start_asking(&asking, &live, getpid(), 0);
        struct recorder *recorder = open_recorder(&live);
        for (unsigned step = 0; step < 4; step++) {
            ask(&asking, step, &id);
            assert_int_equal(recorder_update(recorder), 0);
            struct live_contexts *contexts = &asking.process.process->contexts;
            uint8_t *target = (uint8_t *)contexts;
            size_t range = sizeof *contexts;
            if (round % 2) {
                target = (uint8_t *)asking.intern.node;
                range = asking.intern.used * sizeof *asking.intern.node;
            }
            for (unsigned flips = 0; step > 1 && flips < 6; flips++)
                target[next_random() % range] = (uint8_t)next_random();
        }
        recorder_close(recorder);
        struct profile *profile = read_back();
        struct decoding *decoding = decoding_new(profile);
        struct decoded decoded;
        for (uint64_t node = 0; node < 20; node++)
            decoding_tell(decoding, 0, id, UINT64_C(2) << 32 | node, &decoded);
        decoding_free(decoding);
        profile_free(profile);
        end_asking(&asking);
        fake_live_free(&live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_of_a_context_leads_back_to_it),
        cmocka_unit_test(test_text_without_room),
        cmocka_unit_test(test_through_the_profile),
        cmocka_unit_test(test_walked_and_created),
        cmocka_unit_test(test_a_child_knows_its_parents_contexts),
        cmocka_unit_test(test_contexts_follow_modules_into_a_merged_profile),
        cmocka_unit_test(test_lost_record),
        cmocka_unit_test(test_damaged_sections),
        cmocka_unit_test(test_scribbled_contexts),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
