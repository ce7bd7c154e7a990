// SPDX-License-Identifier: MIT
// Feeds the profile reader what it must survive. Built with libFuzzer (-DWITH_LIBFUZZER, clang
// -fsanitize=fuzzer) it explores; without, it runs for argv[1] seconds of deterministic mutations.
//
// A flipped bit nearly always stops at a chunk's checksum, so half of the mutations change a
// payload and sum it again: what a malicious writer would do.

#include "../random.h"
#include "make_profile.h"
#include "profile/encode.h"
#include "profile/fold.h"
#include "profile/merge.h"
#include "profile/reader.h"
#include "profile/totals.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// What everybody who uses a profile relies on.
static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_place(const struct profile *profile, place_t place)
{
    check(place_module(place) < profile->module_count);
}

static void check_tree(const struct profile *profile, const struct profile_tree *tree)
{
    check(tree->process < profile->process_count && tree->count > 0);
    check_place(profile, tree->start);
    check(tree->nodes[0].parent == PROFILE_NO_PARENT);
    for (uint32_t i = 0; i < tree->count; i++) {
        check_place(profile, tree->nodes[i].site);
        check_place(profile, tree->nodes[i].function);
        volatile uint64_t touched = tree->values[(size_t)i * profile->metric_count];
        (void)touched;
        if (i == 0)
            continue;
        uint32_t parent = tree->nodes[i].parent;
        check(parent < i);
        check(parent == 0 || tree->nodes[parent].function != 0); // statements have no children
    }
}

static void check_profile(const struct profile *profile)
{
    volatile uint64_t sum = 0;
    check(profile->command && profile->tracker && profile->tree_kind);
    check(profile->metric_count > 0 && profile->module_count >= MODULE_FIRST_FILE);
    for (unsigned i = 0; i < profile->metric_count; i++)
        check(profile->metrics[i].name && profile->metrics[i].unit && profile->metrics[i].source);
    for (unsigned i = 0; i < profile->module_count; i++)
        check(profile->modules[i].path && profile->modules[i].build_id_bytes <= 32);
    for (unsigned i = 0; i < profile->process_count; i++)
        check(profile->processes[i].command &&
              (profile->processes[i].merged_into == PROFILE_NOT_MERGED ||
               profile->processes[profile->processes[i].merged_into].merged_into ==
                   PROFILE_NOT_MERGED));
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_contexts *contexts = &profile->processes[i].contexts;
        for (unsigned j = 0; j < contexts->module_count; j++)
            check(contexts->modules[j] < profile->module_count);
        for (size_t j = 0; j < contexts->bytes; j++)
            sum += contexts->sections[j];
    }
    for (unsigned i = 0; i < profile->tree_count; i++)
        check_tree(profile, &profile->trees[i]);
    for (unsigned i = 0; i < profile->note_count; i++)
        check(profile->notes[i] != NULL);
}

// What was read can be added to itself, also if it is taken to be a profile of calls.
static void check_merge(const struct profile *profile)
{
    struct profile calls = *profile;
    calls.tracker = "calls";
    const struct profile *both[][2] = {{profile, profile}, {profile, &calls}, {&calls, &calls}};
    for (unsigned i = 0; i < 3; i++) {
        char *why = NULL;
        struct profile *merged = profile_merge(both[i], 2, MERGE_BY_PROGRAM, &why);
        check(merged ? !why : why != NULL);
        if (merged)
            check_profile(merged);
        profile_free(merged);
        free(why);
    }
}

static void examine(const uint8_t *data, size_t size)
{
    char *error = NULL;
    struct profile *profile = profile_parse(data, size, WRITER_NONE, "fuzz", &error);
    check(profile ? !error : error != NULL);
    free(error);
    if (!profile)
        return;
    check_profile(profile);
    struct profile_totals totals;
    profile_sum(profile, &totals);
    // What was read can be written, and what was written reads the same way.
    struct batch batch = {.level = 1};
    encode_profile(&batch, profile);
    struct profile *again =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "fuzz", NULL);
    check(again != NULL && again->tree_count == profile->tree_count);
    for (unsigned i = 0; i < again->process_count; i++)
        check(again->processes[i].contexts.bytes == profile->processes[i].contexts.bytes);
    for (unsigned i = 0; i < again->tree_count; i++)
        check(again->trees[i].count == profile->trees[i].count);
    profile_free(again);
    batch_free(&batch);
    check_merge(profile);
    bool *apart = calloc((size_t)profile->process_count + 1, sizeof *apart);
    uint32_t *map = calloc((size_t)profile->tree_count + 1, sizeof *map);
    check(profile_fold(profile, 1, apart, map) == 0);
    check_profile(profile);
    free(apart);
    free(map);
    profile_free(profile);
}

#ifdef WITH_LIBFUZZER

// An input that begins with P is a list of payloads (type, two bytes of length, content) that
// become sound chunks: no mutation finds a checksum by itself.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] != 'P') {
        examine(data, size);
        return 0;
    }
    struct bytes file = {0};
    chunk_put_file_head(&file);
    for (size_t at = 1; at + 3 <= size;) {
        size_t length = data[at + 1] | (size_t)data[at + 2] << 8;
        if (length > size - at - 3)
            length = size - at - 3;
        struct bytes payload = {0};
        bytes_put(&payload, data + at + 3, length);
        chunk_put(&file, data[at] % (CHUNK_TYPES + 1), &payload, 1);
        bytes_free(&payload);
        if (data[at] >= 128)
            bytes_put(&file, "damage", 6);
        at += 3 + length;
    }
    examine(file.data, file.size);
    bytes_free(&file);
    return 0;
}

#else

static struct profile *seed_profile(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/usr/bin/app");
    for (unsigned i = 0; i < 4; i++) {
        unsigned process = make_process(profile, 100 + i, 99, i % 2 ? "a" : "b");
        unsigned tree = make_tree(profile, process, i ? place_make(app, 0x40) : 0);
        uint32_t frame = 0;
        for (unsigned depth = 0; depth < 12; depth++) {
            frame = make_frame(profile, tree, frame, place_make(app, depth * 32 + 5),
                               place_make(app, depth * 32));
            make_statement(profile, tree, frame, place_make(app, depth * 32 + 9), 1000);
        }
    }
    struct profile_contexts *contexts = &profile->processes[1].contexts;
    contexts->bytes = 40;
    contexts->sections = calloc(64, 1);
    contexts->modules = calloc(8, sizeof *contexts->modules);
    check(contexts->sections && contexts->modules);
    for (unsigned i = 0; i < contexts->bytes; i++)
        contexts->sections[i] = (uint8_t)(i * 7);
    contexts->module_count = 5;
    contexts->modules[3] = (uint16_t)app;
    contexts->first = 17;
    make_note(profile, "a note");
    return profile;
}

// What a recording of a tree that forgets appends: one tree told anew, with a value more per node.
static void append_anew(struct batch *batch)
{
    struct profile_node nodes[9] = {{PROFILE_NO_PARENT, 0, 0}};
    uint64_t values[18];
    const uint32_t indices[] = {1, 3};
    for (uint32_t i = 0; i < 18; i++)
        values[i] = i * 100;
    for (uint32_t i = 1; i < 9; i++)
        nodes[i] = (struct profile_node){(i - 1) / 2 * 2, place_make(3, i * 48 + 7),
                                         i % 2 ? 0 : place_make(3, i * 48)};
    encode_anew(batch, 1);
    encode_nodes(batch, 1, 0, 9, nodes, values, 2);
    batch_flush(batch);
    encode_values(batch, 1, 2, indices, values, 1);
    batch_flush(batch);
}

static void mutate(uint8_t *data, size_t size)
{
    static const uint8_t nasty[] = {0, 1, 0x7f, 0x80, 0xff};
    for (uint64_t count = 1 + next_random() % 4; count > 0 && size > 0; count--) {
        size_t at = next_random() % size;
        if (next_random() % 2)
            data[at] ^= (uint8_t)(1u << next_random() % 8);
        else
            data[at] = nasty[next_random() % sizeof nasty];
    }
}

// The chunks of a file with some payloads changed, in another order, twice, or left out, all sums
// right.
static struct bytes rebuild(const struct bytes *seed)
{
    struct bytes out = {0};
    chunk_put_file_head(&out);
    struct chunk_scan scan;
    struct chunk chunk;
    chunk_scan_start(&scan, seed->data, seed->size);
    while (chunk_next(&scan, &chunk)) {
        if (next_random() % 8 == 0)
            continue;
        struct bytes payload = {0};
        bytes_put(&payload, chunk.payload.at, cursor_left(&chunk.payload));
        if (next_random() % 2)
            mutate(payload.data, payload.size);
        if (next_random() % 8 == 0)
            payload.size = next_random() % (payload.size + 1);
        unsigned type =
            next_random() % 16 ? chunk.type : (unsigned)(next_random() % (CHUNK_TYPES + 1));
        for (uint64_t times = 1 + (next_random() % 8 == 0); times > 0; times--)
            chunk_put(&out, type, &payload, 1);
        if (next_random() % 8 == 0)
            bytes_put(&out, "damage", 6);
        bytes_free(&payload);
    }
    chunk_scan_end(&scan);
    return out;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    struct profile *profile = seed_profile();
    struct batch batch = {.level = 3};
    encode_profile(&batch, profile);
    append_anew(&batch);
    profile_free(profile);
    unsigned long runs = 0;
    for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end; runs++) {
        struct bytes input = {0};
        if (runs % 4 == 0) {
            bytes_put(&input, batch.out.data, batch.out.size);
            mutate(input.data, input.size);
        } else {
            input = rebuild(&batch.out);
        }
        if (runs % 16 == 0)
            input.size = next_random() % (input.size + 1);
        // Exactly as large, so that a read beyond the end is caught.
        uint8_t *copy = malloc(input.size ? input.size : 1);
        if (input.size)
            memcpy(copy, input.data, input.size);
        examine(copy, input.size);
        free(copy);
        bytes_free(&input);
    }
    batch_free(&batch);
    printf("%lu inputs\n", runs);
    return runs == 0;
}

#endif
