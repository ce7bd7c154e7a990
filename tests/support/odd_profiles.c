// SPDX-License-Identifier: MIT
// Writes a profile that no recording makes: odd_profiles KIND COUNT FILE [MODULE].
//
//   nodes, trees, processes, notes, words, maps   COUNT records of that kind, all alike, so that a
//                                                 small file unpacks to very much
//   recursion   as nodes, but as a recording writes it
//   module      names module COUNT, and tells of no other
//   large       COUNT contexts of a program with many functions, in the order of their first calls
//   calls       the same by their calls: every node is a frame

#include "make_profile.h"
#include "profile/chunks/output.h"
#include "profile/write_records.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

enum { PAYLOAD = 16 << 20 };

static void check(bool sound, const char *what)
{
    if (sound)
        return;
    fprintf(stderr, "odd_profiles: %s\n", what);
    exit(1);
}

// A chunk as docs/format.md has it, however small it becomes: chunk_put() would add filler.
static void put_chunk(struct bytes *out, enum chunk_type type, struct bytes *payload)
{
    if (payload->size == 0)
        return;
    static const uint8_t mark[4] = {0xc4, 'c', 'k', 0xa1};
    struct bytes packed = {.capacity = ZSTD_compressBound(payload->size)};
    packed.data = malloc(packed.capacity);
    check(packed.data, "no memory");
    packed.size = ZSTD_compress(packed.data, packed.capacity, payload->data, payload->size, 3);
    check(!ZSTD_isError(packed.size), "cannot compress");
    const size_t start = out->size;
    bytes_put(out, mark, sizeof mark);
    bytes_put_fixed(out, type, 2);
    bytes_put_fixed(out, CHUNK_ZSTD, 2);
    bytes_put_fixed(out, packed.size, 4);
    bytes_put_fixed(out, payload->size, 4);
    check(!out->failed, "no memory");
    const uint64_t seed = XXH3_64bits(out->data + start, 16);
    bytes_put_fixed(out, XXH3_64bits_withSeed(packed.data, packed.size, seed), 8);
    bytes_put(out, packed.data, packed.size);
    bytes_free(&packed);
    payload->size = 0;
}

static void put_numbers(struct bytes *out, uint64_t number, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bytes_put_varint(out, number);
}

// Sections of one chain of frames, of the same function.
static void put_nodes(struct bytes *out, uint64_t total)
{
    struct bytes payload = {0};
    const uint64_t most = PAYLOAD / 8;
    for (uint64_t first = 0; first < total; first += most) {
        const unsigned each = (unsigned)(total - first < most ? total - first : most);
        bytes_put_varint(&payload, 0);
        bytes_put_varint(&payload, first);
        put_numbers(&payload, each, 1);
        put_numbers(&payload, 1, 1);
        bytes_put_varint(&payload, first > 0);
        put_numbers(&payload, 1, each - 1);                 // parents
        put_numbers(&payload, MODULE_FIRST_FILE + 1, each); // modules of functions
        put_numbers(&payload, 1, each);                     // their offsets
        put_numbers(&payload, 0, each);                     // sites
        put_numbers(&payload, 1, each);                     // values
        put_chunk(out, CHUNK_NODES, &payload);
    }
    bytes_free(&payload);
}

static void put_record(struct bytes *out, const char *kind, uint64_t index)
{
    if (strcmp(kind, "trees") == 0) { // of process 0; no thread, no sums, verdicts or times
        bytes_put_varint(out, index);
        put_numbers(out, 0, 7);
    } else if (strcmp(kind, "processes") == 0) {
        bytes_put_varint(out, index);
        put_numbers(out, 0, 10);
    } else if (strcmp(kind, "maps") == 0) { // what number 65,534 means in each process
        bytes_put_varint(out, index);
        bytes_put_varint(out, 0);
        bytes_put_varint(out, MODULE_LIMIT - 1);
        bytes_put_varint(out, 0);
    } else { // an empty note, or word
        bytes_put_varint(out, 0);
    }
}

static void put_records(struct bytes *out, const char *kind, enum chunk_type type, uint64_t count)
{
    struct bytes payload = {0};
    if (strcmp(kind, "words") == 0) { // one process with a command of so many words
        put_numbers(&payload, 0, 1);
        put_numbers(&payload, 16, 1);
        put_numbers(&payload, 0, 9);
        bytes_put_varint(&payload, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        put_record(&payload, kind, i);
        if (payload.size >= PAYLOAD && type != CHUNK_PROCESSES)
            put_chunk(out, type, &payload);
    }
    put_chunk(out, type, &payload);
    bytes_free(&payload);
}

static void write_alike(const char *kind, uint64_t count, const char *path)
{
    struct batch batch = {0};
    struct profile *profile = make_profile("calls", "calls", 1);
    make_module(profile, "/bin/no-such-program");
    make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    write_profile(&batch, profile);
    if (strcmp(kind, "nodes") == 0) {
        batch.payload[CHUNK_ANEW].size = 0;
        write_anew(&batch, 0);
        put_chunk(&batch.out, CHUNK_ANEW, &batch.payload[CHUNK_ANEW]);
        put_nodes(&batch.out, count);
    } else if (strcmp(kind, "trees") == 0) {
        put_records(&batch.out, kind, CHUNK_TREES, count);
    } else if (strcmp(kind, "processes") == 0 || strcmp(kind, "words") == 0) {
        put_records(&batch.out, kind, CHUNK_PROCESSES, count);
    } else if (strcmp(kind, "notes") == 0) {
        put_records(&batch.out, kind, CHUNK_NOTES, count);
    } else if (strcmp(kind, "maps") == 0) {
        put_records(&batch.out, "processes", CHUNK_PROCESSES, count);
        put_records(&batch.out, kind, CHUNK_CONTEXTS, count);
    } else {
        check(false, "no such kind");
    }
    check(!batch.out.failed && output_replace(path, &batch.out) == 0, "cannot write");
    batch_free(&batch);
    profile_free(profile);
}

static void add_module(uint64_t number, const char *path)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/bin/no-such-program");
    unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t frame = make_frame(profile, tree, 0, 0, place_make(app, 0x100));
    make_statement(profile, tree, frame, place_make((unsigned)number, 0x120), 1000000);
    check(profile_write(profile, path) == 0, "cannot write");
    profile_free(profile);
}

static void write_recursion(uint64_t count, const char *path)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/bin/no-such-program");
    unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t frame = 0;
    for (uint64_t i = 0; i < count; i++)
        frame = make_frame(profile, tree, frame, place_make(app, 0x123), place_make(app, 0x100));
    make_statement(profile, tree, frame, place_make(app, 0x120), 1000000);
    check(profile_write(profile, path) == 0, "cannot write");
    profile_free(profile);
}

// Functions of 256 bytes, each of which calls up to eight others, further down.
enum { FUNCTIONS = 4000, FUNCTION_BYTES = 256, CALLS = 8, DEEPEST = 60 };

struct program {
    struct profile *profile;
    unsigned module, tree;
    bool calls; // each has a count, and no statement
    uint64_t wanted;
    uint16_t callee[FUNCTIONS][CALLS];
};

static place_t code(const struct program *program, unsigned function, unsigned offset)
{
    return place_make(program->module, 0x10000 + function * (uint64_t)FUNCTION_BYTES + offset);
}

static bool goes_on(const struct program *program)
{
    return program->profile->trees[program->tree].count < program->wanted;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the contexts are
static void call(struct program *program, uint32_t parent, unsigned depth, unsigned function,
                 place_t site)
{
    uint32_t frame =
        make_frame(program->profile, program->tree, parent, site, code(program, function, 0));
    const uint64_t chance = next_random();
    if (program->calls)
        program->profile->trees[program->tree].values[frame] = 1 + (chance >> 40);
    for (unsigned i = 0; i < 2 && !program->calls && goes_on(program); i++)
        if (chance >> i & 1)
            make_statement(program->profile, program->tree, frame,
                           code(program, function, 4 + 4 * i), 1000000 + (chance >> 40));
    for (unsigned i = 0; i < CALLS && depth < DEEPEST && goes_on(program); i++)
        if ((chance >> (4 + 2 * i) & 3) == 0 || depth < 8)
            call(program, frame, depth + 1, program->callee[function][i],
                 code(program, function, 20 + 10 * i));
}

static void write_large(uint64_t count, const char *path, const char *module, bool calls)
{
    static struct program program;
    program.wanted = count;
    program.calls = calls;
    program.profile =
        calls ? make_profile("calls", "calls", 1) : make_profile("cpu", "ns", 1000000);
    if (calls)
        make_text(&program.profile->tracker, "calls");
    program.module = make_module(program.profile, module);
    program.tree = make_tree(program.profile, make_process(program.profile, 1, 0, "app"), 0);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        for (unsigned j = 0; j < CALLS; j++)
            program.callee[i][j] = (uint16_t)(next_random() % FUNCTIONS);
    for (unsigned i = 0; goes_on(&program); i++)
        call(&program, 0, 1, i % FUNCTIONS, 0);
    check(profile_write(program.profile, path) == 0, "cannot write");
    profile_free(program.profile);
}

int main(int argc, char **argv)
{
    check(argc == 4 || argc == 5, "usage: odd_profiles KIND COUNT FILE [MODULE]");
    const char *kind = argv[1], *path = argv[3];
    const uint64_t count = strtoull(argv[2], NULL, 10);
    if (strcmp(kind, "module") == 0)
        add_module(count, path);
    else if (strcmp(kind, "recursion") == 0)
        write_recursion(count, path);
    else if (strcmp(kind, "large") == 0 || strcmp(kind, "calls") == 0)
        write_large(count, path, argc == 5 ? argv[4] : "/bin/no-such-program", *kind == 'c');
    else
        write_alike(kind, count, path);
    return 0;
}
