// SPDX-License-Identifier: MIT

#include "export/page/page_code.h"
#include "base/memory.h"
#include <stdlib.h>

enum { MOST_PIECES = 400, MOST_INSTRUCTIONS = 400000 };

// A node of the profile that has cost at a place.
struct costly_place {
    place_t begin, place; // of the function, and of the instruction
    uint32_t tree, node;
};

struct costly_places {
    struct costly_place *places;
    size_t count, capacity;
};

static bool has_cost(const struct profile *profile, const struct profile_tree *tree, uint32_t node)
{
    for (unsigned m = 0; m < profile->metric_count; m++)
        if (tree->values[(size_t)node * profile->metric_count + m])
            return true;
    return false;
}

static void collect_tree(struct costly_places *found, const struct analysis *analysis,
                         uint32_t number)
{
    const struct profile_tree *tree = &analysis->profile->trees[number];
    for (uint32_t i = 1; i < tree->count; i++) {
        const place_t place = tree->nodes[i].site;
        if (tree->nodes[i].function || !place_is_known(place) ||
            !has_cost(analysis->profile, tree, i))
            continue;
        const struct spot *spot = functions_look_up(analysis->functions, tree->process, place);
        if (!spot || spot->begin == 0)
            continue;
        found->places =
            memory_grown(found->places, &found->capacity, found->count + 1, sizeof *found->places);
        found->places[found->count++] = (struct costly_place){spot->begin, place, number, i};
    }
}

static int compare_places(const void *left, const void *right)
{
    const struct costly_place *a = left, *b = right;
    return a->begin != b->begin ? (a->begin > b->begin) - (a->begin < b->begin)
                                : (a->place > b->place) - (a->place < b->place);
}

static int compare_pieces(const void *left, const void *right)
{
    const struct page_piece *a = left, *b = right;
    return a->code.self != b->code.self
               ? (a->code.self < b->code.self) - (a->code.self > b->code.self)
           : a->code.module != b->code.module
               ? (a->code.module > b->code.module) - (a->code.module < b->code.module)
               : (a->code.begin > b->code.begin) - (a->code.begin < b->code.begin);
}

static void add_piece(struct page_code *code, const struct analysis *analysis,
                      const struct costly_place *places, size_t count)
{
    const struct profile *profile = analysis->profile;
    const uint32_t process = profile->trees[places->tree].process;
    const struct spot *spot = functions_look_up(analysis->functions, process, places->place);
    struct page_piece piece = {
        .function = functions_located(analysis->functions, spot)[spot->count - 1].function,
        .code = {.module = place_module(places->begin),
                 .process = process,
                 .begin = place_offset(places->begin)},
    };
    piece.code.places = memory_array(count, sizeof *piece.code.places);
    for (size_t i = 0; i < count; i++) {
        const struct profile_tree *tree = &profile->trees[places[i].tree];
        const uint64_t self = tree->values[(size_t)places[i].node * profile->metric_count];
        piece.code.places[piece.code.count++] =
            (struct annotated_place){.offset = place_offset(places[i].place), .self = self};
        piece.code.self += self;
    }
    code->pieces = memory_grown(code->pieces, &code->piece_capacity, code->piece_count + 1,
                                sizeof *code->pieces);
    code->pieces[code->piece_count++] = piece;
}

// Reads the code of the costliest functions, as far as there is any; forgets the others.
static void read_pieces(struct page_code *code, struct analysis *analysis)
{
    size_t kept = 0;
    for (size_t i = 0; i < code->piece_count; i++) {
        struct page_piece *piece = &code->pieces[i];
        char *error = NULL;
        if (kept == MOST_PIECES || code->instructions >= MOST_INSTRUCTIONS ||
            code_lines_open(&piece->lines, analysis, &piece->code, &error) < 0) {
            free(error);
            free(piece->code.places);
            continue;
        }
        code->instructions += (uint32_t)piece->lines.code.count;
        code->pieces[kept++] = *piece;
    }
    code->piece_count = kept;
}

static int compare_beginnings(const void *left, const void *right)
{
    const struct annotated_code *a = &((const struct page_piece *)left)->code,
                                *b = &((const struct page_piece *)right)->code;
    return a->module != b->module ? (a->module > b->module) - (a->module < b->module)
                                  : (a->begin > b->begin) - (a->begin < b->begin);
}

static void sort(void *array, size_t count, size_t each, int (*compare)(const void *, const void *))
{
    if (count > 1)
        qsort(array, count, each, compare);
}

static void number_pieces(struct page_code *code)
{
    uint32_t first = 0;
    sort(code->pieces, code->piece_count, sizeof *code->pieces, compare_beginnings);
    for (size_t i = 0; i < code->piece_count; i++) {
        code->pieces[i].first = first;
        first += (uint32_t)code->pieces[i].lines.code.count;
    }
}

// The instruction that holds a place; false: none does.
static bool find_instruction(const struct page_piece *piece, place_t place, uint32_t *number)
{
    const struct disassembly *code = &piece->lines.code;
    const uint64_t offset = place_offset(place);
    size_t begin = 0, end = code->count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (code->instructions[middle].offset <= offset)
            begin = middle + 1;
        else
            end = middle;
    }
    if (begin == 0 ||
        offset >= code->instructions[begin - 1].offset + code->instructions[begin - 1].length)
        return false;
    *number = piece->first + (uint32_t)begin - 1;
    return true;
}

static void add_address(struct page_code *code, const struct analysis *analysis,
                        const struct build_image *images, const struct costly_place *place)
{
    const struct page_piece key = {
        .code = {.module = place_module(place->begin), .begin = place_offset(place->begin)}};
    const struct page_piece *piece =
        code->piece_count
            ? bsearch(&key, code->pieces, code->piece_count, sizeof key, compare_beginnings)
            : NULL;
    uint32_t instruction;
    if (!piece || !images[place->tree].nodes ||
        !find_instruction(piece, place->place, &instruction))
        return;
    const struct profile *profile = analysis->profile;
    code->addresses = memory_grown(code->addresses, &code->address_capacity,
                                   code->address_count + 1, sizeof *code->addresses);
    code->addresses[code->address_count++] = (struct page_address){
        .node = images[place->tree].nodes[place->node],
        .instruction = instruction,
        .line = images[place->tree].lines[place->node],
        .values = profile->trees[place->tree].values + (size_t)place->node * profile->metric_count,
        .tree = place->tree,
        .from = place->node,
    };
}

struct page_code page_code_collect(struct analysis *analysis, const struct build_image *images)
{
    struct page_code code = {0};
    struct costly_places found = {0};
    for (unsigned t = 0; t < analysis->profile->tree_count; t++)
        collect_tree(&found, analysis, t);
    sort(found.places, found.count, sizeof *found.places, compare_places);
    for (size_t i = 0, next; i < found.count; i = next) {
        for (next = i; next < found.count && found.places[next].begin == found.places[i].begin;)
            next++;
        add_piece(&code, analysis, &found.places[i], next - i);
    }
    sort(code.pieces, code.piece_count, sizeof *code.pieces, compare_pieces);
    read_pieces(&code, analysis);
    number_pieces(&code);
    for (size_t i = 0; i < found.count; i++)
        add_address(&code, analysis, images, &found.places[i]);
    free(found.places);
    return code;
}

void page_code_free(struct page_code *code)
{
    for (size_t i = 0; i < code->piece_count; i++) {
        free(code->pieces[i].code.places);
        code_lines_close(&code->pieces[i].lines);
    }
    free(code->pieces);
    free(code->addresses);
    *code = (struct page_code){0};
}
