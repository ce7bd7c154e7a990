// SPDX-License-Identifier: MIT

#include "import/importer.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "profile/loader.h"
#include "profile/place_names.h"
#include <math.h>
#include <stdarg.h>
#include <xxhash.h>

enum { NODE_BYTES = 2 * (sizeof(struct profile_node) + sizeof(struct hash_index_slot)) };

// Hashes lie above the system calls and below the offsets that have a meaning of their own.
#define HASH_OFFSET (UINT64_C(1) << 46)

void importer_start(struct importer *importer, const char *format, size_t bytes)
{
    *importer =
        (struct importer){.format = format, .budget = MEMORY_FREE + (uint64_t)MEMORY_RATIO * bytes};
    struct profile *profile = importer->profile = memory_array(1, sizeof *profile);
    profile->format = 1;
    profile->tracker = memory_text("import");
    profile->tree_kind = memory_text("full");
    profile->metrics = memory_array(IMPORT_METRICS, sizeof *profile->metrics);
    profile->modules =
        memory_grown(NULL, &importer->module_capacity, MODULE_FIRST_FILE, sizeof *profile->modules);
    static const char *const reserved[] = {"[unknown]", "[anonymous]", "[vdso]"};
    for (unsigned i = 0; i < MODULE_FIRST_FILE; i++)
        profile->modules[i] = (struct profile_module){.path = memory_text(reserved[i])};
    profile->module_count = MODULE_FIRST_FILE;
}

bool importer_fail(struct importer *importer, const char *format, ...)
{
    if (importer->error)
        return false;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&importer->error, format, arguments) < 0)
        memory_checked(NULL);
    va_end(arguments);
    return false;
}

bool importer_charge(struct importer *importer, uint64_t bytes)
{
    if (bytes > importer->budget)
        return importer_fail(importer, "it would take too much memory for its size");
    importer->budget -= bytes;
    return true;
}

void importer_note(struct importer *importer, const char *text)
{
    struct profile *profile = importer->profile;
    for (unsigned i = 0; i < profile->note_count; i++)
        if (strcmp(profile->notes[i], text) == 0)
            return;
    profile->notes = memory_checked(
        realloc(profile->notes, (profile->note_count + (size_t)1) * sizeof *profile->notes));
    profile->notes[profile->note_count++] = memory_text(text);
}

// The next word of a command line, as analysis_command() writes them. To be freed.
static char *take_word(const char **text)
{
    const char *at = *text;
    char *word = memory_checked(malloc(strlen(at) + 1)), *to = word;
    bool quoted = false;
    for (; *at && (quoted || *at != ' '); at++) {
        if (*at == '\'')
            quoted = !quoted;
        else if (!quoted && *at == '\\' && at[1])
            *to++ = *++at;
        else
            *to++ = *at;
    }
    *to = '\0';
    *text = at + strspn(at, " ");
    return word;
}

static char **split_command(const char *text)
{
    char **words = NULL;
    size_t count = 0, capacity = 0;
    do {
        words = memory_grown(words, &capacity, count + 2, sizeof *words);
        words[count++] = take_word(&text);
    } while (*text);
    words[count] = NULL;
    return words;
}

void importer_command(struct importer *importer, const char *command)
{
    if (!importer->profile->command && *command)
        importer->profile->command = split_command(command);
}

struct import_unit {
    const char *name, *ours;
    double scale;
};

static const struct import_unit *known_unit(const char *name)
{
    static const struct import_unit units[] = {
        {"nanoseconds", "ns", 1},
        {"microseconds", "ns", 1e3},
        {"milliseconds", "ns", 1e6},
        {"seconds", "ns", 1e9},
        {"none", "count", 1},
        {"", "count", 1},
        // These have a meaning of their own.
        {PROFILE_ERROR, "count", 1},
        {PROFILE_EDGE, "count", 1},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

int importer_metric(struct importer *importer, const char *name, const char *unit)
{
    struct profile *profile = importer->profile;
    const struct import_unit *known = known_unit(unit);
    const char *ours = known ? known->ours : unit;
    if (strcmp(name, PROFILE_CALLS) == 0 && strcmp(ours, "count") == 0)
        ours = PROFILE_CALLS;
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (strcmp(profile->metrics[i].name, name) == 0 &&
            strcmp(profile->metrics[i].unit, ours) == 0)
            return (int)i;
    if (profile->metric_count == IMPORT_METRICS || profile->tree_count) {
        importer_fail(importer, "it has more than %d metrics", IMPORT_METRICS);
        return IMPORT_NONE;
    }
    importer->scale[profile->metric_count] = known ? known->scale : 1;
    profile->metrics[profile->metric_count] =
        (struct profile_metric){.name = memory_text(*name ? name : "samples"),
                                .unit = memory_text(ours),
                                .source = memory_text(importer->format)};
    return (int)profile->metric_count++;
}

static uint64_t hash_texts(const char *const *texts, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        seed = texts[i] ? XXH3_64bits_withSeed(texts[i], strlen(texts[i]), seed)
                        : hash_index_mix(seed + 1);
    return seed;
}

static unsigned read_build_id(const char *hex, uint8_t *id, size_t room)
{
    unsigned count = 0;
    for (unsigned byte; count < room && sscanf(hex, "%2x", &byte) == 1 && hex[1]; hex += 2)
        id[count++] = (uint8_t)byte;
    return *hex ? 0 : count;
}

static unsigned module_of(struct importer *importer, const struct import_place *place)
{
    struct profile *profile = importer->profile;
    const char *path = place->module;
    if (!path || !*path || strcmp(path, "[unknown]") == 0)
        return MODULE_NONE;
    if (strcmp(path, "[jit]") == 0)
        return MODULE_ANONYMOUS;
    struct profile_module module = {0};
    if (place->build_id)
        module.build_id_bytes =
            read_build_id(place->build_id, module.build_id, sizeof module.build_id);
    const uint64_t hash = XXH3_64bits_withSeed(
        path, strlen(path), XXH3_64bits(module.build_id, sizeof module.build_id));
    struct hash_index_cursor cursor = hash_index_find(&importer->by_module, hash);
    for (uint32_t found; hash_index_next(&importer->by_module, &cursor, &found);)
        if (strcmp(profile->modules[found].path, path) == 0 &&
            memcmp(profile->modules[found].build_id, module.build_id, sizeof module.build_id) == 0)
            return found;
    if (profile->module_count == MODULE_LIMIT ||
        !importer_charge(importer, 2 * sizeof module + strlen(path)))
        return MODULE_NONE;
    profile->modules = memory_grown(profile->modules, &importer->module_capacity,
                                    profile->module_count + (size_t)1, sizeof module);
    module.path = memory_text(path);
    profile->modules[profile->module_count] = module;
    hash_index_add(&importer->by_module, hash, profile->module_count);
    return profile->module_count++;
}

static struct profile_place *find_names(struct importer *importer, place_t place)
{
    struct profile *profile = importer->profile;
    struct hash_index_cursor cursor = hash_index_find(&importer->by_names, hash_index_mix(place));
    for (uint32_t found; hash_index_next(&importer->by_names, &cursor, &found);)
        if (profile->places[found].place == place)
            return &profile->places[found];
    return NULL;
}

// Calls are counted where a function begins.
static void note_begin(struct importer *importer, int64_t number)
{
    const struct importer_place *place = &importer->places[number];
    const struct profile_place *named = find_names(importer, place->place);
    struct profile_place *begin = find_names(importer, place->begin);
    if (named && begin && !begin->offset)
        begin->offset = named->offset;
}

// Gives a place its names, unless it has them.
static bool name_place(struct importer *importer, struct importer_place made,
                       const struct import_place *place)
{
    struct profile *profile = importer->profile;
    const struct import_line *lines = place->lines;
    const uint32_t count = place->line_count;
    if (find_names(importer, made.place))
        return true;
    uint64_t bytes = 2 * sizeof *profile->places;
    for (uint32_t i = 0; i < count; i++)
        bytes += sizeof *profile->places->lines + 64 + strlen(lines[i].function) +
                 (lines[i].file ? strlen(lines[i].file) : 0);
    if (!importer_charge(importer, bytes))
        return false;
    struct profile_place named = {
        .place = made.place, .begin = made.begin, .offset = place->offset};
    named.lines = memory_array(count, sizeof *named.lines);
    named.line_count = count;
    for (uint32_t i = 0; i < count; i++)
        named.lines[i] =
            (struct profile_line){.function = memory_text(lines[i].function),
                                  .file = memory_text(lines[i].file ? lines[i].file : ""),
                                  .line = lines[i].line};
    profile->places = memory_grown(profile->places, &importer->names_capacity,
                                   profile->place_count + (size_t)1, sizeof named);
    hash_index_add(&importer->by_names, hash_index_mix(made.place), profile->place_count);
    profile->places[profile->place_count++] = named;
    return true;
}

static place_t hashed_place(unsigned module, uint64_t hash)
{
    return place_make(module, HASH_OFFSET | (hash & (HASH_OFFSET - 1)));
}

int64_t importer_place(struct importer *importer, const struct import_place *place)
{
    const unsigned module = module_of(importer, place);
    const struct import_line *real = &place->lines[place->line_count - 1];
    const char *const names[] = {real->function, real->file};
    const place_t begin = hashed_place(module, hash_texts(names, 2, real->first));
    uint64_t hash = hash_index_mix(place->offset);
    for (uint32_t i = 0; i < place->line_count; i++) {
        const char *const of_line[] = {place->lines[i].function, place->lines[i].file};
        hash = hash_texts(of_line, 2, hash + place->lines[i].line);
    }
    const struct importer_place made = {hashed_place(module, hash), begin};
    const struct import_line first_line = {
        .function = real->function, .file = real->file, .line = real->first};
    const struct import_place entry = {.lines = &first_line, .line_count = 1};
    if (!name_place(importer, (struct importer_place){begin, begin}, &entry) ||
        !name_place(importer, made, place) || !importer_charge(importer, 2 * sizeof made))
        return IMPORT_NONE;
    importer->places = memory_grown(importer->places, &importer->place_capacity,
                                    importer->place_count + 1, sizeof made);
    importer->places[importer->place_count] = made;
    return (int64_t)importer->place_count++;
}

static uint32_t add_process(struct importer *importer, const struct import_thread *thread)
{
    struct profile *profile = importer->profile;
    for (uint32_t i = profile->process_count; i-- > 0;) {
        const struct profile_process *known = &profile->processes[i];
        if (known->pid == thread->pid &&
            (!thread->process || thread->pid || strcmp(known->command[0], thread->process) == 0))
            return i;
        if (profile->process_count - i > 4096)
            break; // an unreasonable file: processes may be there twice
    }
    profile->processes =
        memory_grown(profile->processes, &importer->process_capacity,
                     profile->process_count + (size_t)1, sizeof *profile->processes);
    profile->processes[profile->process_count] = (struct profile_process){
        .pid = thread->pid,
        .ended = true,
        .command = split_command(thread->process && *thread->process ? thread->process : "?"),
        .merged_into = PROFILE_NOT_MERGED,
    };
    return profile->process_count++;
}

#define MAIN_THREAD "main thread"

// "main thread", or "main thread (name)"; the name may have been cut.
static bool is_main_thread(const struct import_thread *thread)
{
    return !thread->thread || strncmp(thread->thread, MAIN_THREAD, sizeof MAIN_THREAD - 1) == 0;
}

// A main thread has no start routine; that of another one is called as the thread is.
static void name_thread(struct importer *importer, struct profile_tree *tree,
                        const struct import_thread *thread)
{
    const char *name = thread->thread ? thread->thread : "";
    if (is_main_thread(thread)) {
        name = strchr(name, '(') ? strchr(name, '(') + 1 : "";
        snprintf(tree->name, sizeof tree->name, "%.*s", (int)strcspn(name, ")"), name);
        return;
    }
    const struct import_line line = {.function = name};
    const int64_t place =
        importer_place(importer, &(struct import_place){.lines = &line, .line_count = 1});
    tree->start = place == IMPORT_NONE ? 0 : importer->places[place].begin;
    if (strlen(name) < sizeof tree->name)
        snprintf(tree->name, sizeof tree->name, "%s", name);
}

static bool is_thread(const struct importer *importer, uint32_t tree,
                      const struct import_thread *thread, uint64_t hash)
{
    // Names are part of the hash alone: two threads of one number and one hash are the same.
    const struct profile_tree *known = &importer->profile->trees[tree];
    return known->tid == thread->tid && known->stats.lost == hash;
}

int importer_thread(struct importer *importer, const struct import_thread *thread)
{
    struct profile *profile = importer->profile;
    const char *const names[] = {thread->process, thread->thread, thread->phase};
    const uint64_t hash = hash_texts(names, 3, (uint64_t)thread->pid << 32 | thread->tid);
    struct hash_index_cursor cursor = hash_index_find(&importer->by_thread, hash);
    for (uint32_t found; hash_index_next(&importer->by_thread, &cursor, &found);)
        if (is_thread(importer, found, thread, hash))
            return (int)found;
    if (!importer_charge(importer, 4 * sizeof *profile->trees +
                                       (thread->process ? 2 * strlen(thread->process) : 0)))
        return IMPORT_NONE;
    const uint32_t process = add_process(importer, thread);
    const size_t before = importer->tree_capacity;
    profile->trees = memory_grown(profile->trees, &importer->tree_capacity,
                                  profile->tree_count + (size_t)1, sizeof *profile->trees);
    if (importer->tree_capacity != before)
        importer->node_capacity = memory_checked(realloc(
            importer->node_capacity, importer->tree_capacity * sizeof *importer->node_capacity));
    importer->node_capacity[profile->tree_count] = 0;
    struct profile_tree tree = {.process = process, .tid = thread->tid, .threads = 1};
    tree.stats.lost = hash; // until the end
    name_thread(importer, &tree, thread);
    if (thread->phase)
        snprintf(tree.phase, sizeof tree.phase, "%s", thread->phase);
    profile->processes[process].thread_starts++;
    profile->trees[profile->tree_count] = tree;
    hash_index_add(&importer->by_thread, hash, profile->tree_count);
    return (int)profile->tree_count++;
}

static int64_t new_node(struct importer *importer, struct profile_tree *tree, uint32_t parent,
                        place_t site, place_t function)
{
    const unsigned metrics = importer->profile->metric_count;
    size_t *capacity = &importer->node_capacity[tree - importer->profile->trees];
    if (tree->count >= UINT32_MAX / 2 ||
        !importer_charge(importer, NODE_BYTES + 2 * metrics * sizeof *tree->values))
        return IMPORT_NONE;
    if (tree->count == *capacity) {
        tree->nodes =
            memory_grown(tree->nodes, capacity, tree->count + (size_t)1, sizeof *tree->nodes);
        tree->values =
            memory_checked(reallocarray(tree->values, *capacity * metrics, sizeof *tree->values));
    }
    tree->nodes[tree->count] = (struct profile_node){parent, site, function};
    memset(tree->values + (size_t)tree->count * metrics, 0, metrics * sizeof *tree->values);
    return tree->count++;
}

static int64_t child(struct importer *importer, int number, uint32_t parent, place_t site,
                     place_t function)
{
    struct profile_tree *tree = &importer->profile->trees[number];
    const uint64_t hash = hash_index_mix(hash_index_mix((uint64_t)number << 32 | parent) +
                                         hash_index_mix(site) * 3 + hash_index_mix(function));
    struct hash_index_cursor cursor = hash_index_find(&importer->by_edge, hash);
    for (uint32_t found; hash_index_next(&importer->by_edge, &cursor, &found);) {
        if (found >= tree->count)
            continue; // of another tree
        const struct profile_node *node = &tree->nodes[found];
        if (node->parent == parent && node->site == site && node->function == function)
            return found;
    }
    const int64_t made = new_node(importer, tree, parent, site, function);
    if (made != IMPORT_NONE)
        hash_index_add(&importer->by_edge, hash, (uint32_t)made);
    return made;
}

static bool has_root(struct importer *importer, int number)
{
    struct profile_tree *tree = &importer->profile->trees[number];
    return tree->count ||
           new_node(importer, tree, PROFILE_NO_PARENT, 0, tree->start) != IMPORT_NONE;
}

int64_t importer_call(struct importer *importer, int tree, int64_t parent, int64_t caller,
                      int64_t place)
{
    if (tree < 0 || place < 0 || importer->error || !has_root(importer, tree))
        return IMPORT_NONE;
    const place_t site = caller < 0 ? 0 : importer->places[caller].place + 1;
    return child(importer, tree, parent < 0 ? 0 : (uint32_t)parent, site,
                 importer->places[place].begin);
}

bool importer_cost(struct importer *importer, int number, int64_t node, int64_t place,
                   const double *values)
{
    const struct profile *profile = importer->profile;
    if (node < 0 || place < 0 || importer->error)
        return false;
    const int64_t statement =
        child(importer, number, (uint32_t)node, importer->places[place].place, 0);
    if (statement == IMPORT_NONE)
        return false;
    struct profile_tree *tree = &importer->profile->trees[number];
    for (unsigned i = 0; i < profile->metric_count; i++) {
        // Calls are counted in frames.
        const bool calls = profile_counts_calls(&profile->metrics[i]);
        const int64_t in = calls ? node : statement;
        const double value = round(values[i] * importer->scale[i]);
        importer->negative |= value < 0;
        if (calls && value > 0)
            note_begin(importer, place);
        if (value > 0)
            tree->values[(size_t)in * profile->metric_count + i] +=
                value < 0x1p63 ? (uint64_t)value : UINT64_C(1) << 63;
    }
    tree->stats.samples++;
    return true;
}

bool importer_path(struct importer *importer, int tree, const int64_t *places, size_t count,
                   const double *values)
{
    int64_t node = IMPORT_NONE;
    for (size_t i = 0; i < count; i++) {
        node = importer_call(importer, tree, node, i ? places[i - 1] : IMPORT_NONE, places[i]);
        if (node == IMPORT_NONE)
            return false;
    }
    return count == 0 || importer_cost(importer, tree, node, places[count - 1], values);
}

static void finish_trees(struct importer *importer)
{
    struct profile *profile = importer->profile;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct profile_tree *tree = &profile->trees[i];
        has_root(importer, (int)i);
        tree->stats.lost = 0;
        tree->stats.verdicts[VERDICT_COMPLETE] = tree->stats.samples;
        profile->processes[tree->process].samples += tree->stats.samples;
    }
}

struct profile *importer_finish(struct importer *importer)
{
    struct profile *profile = importer->profile;
    if (!importer->error && (profile->metric_count == 0 || profile->tree_count == 0))
        importer_fail(importer, "no samples are in it");
    if (!importer->error)
        finish_trees(importer);
    free(importer->places);
    free(importer->node_capacity);
    hash_index_free(&importer->by_names);
    hash_index_free(&importer->by_module);
    hash_index_free(&importer->by_thread);
    hash_index_free(&importer->by_edge);
    if (importer->error) {
        profile_free(profile);
        return NULL;
    }
    if (!profile->command)
        profile->command = split_command(profile->processes[0].command[0]);
    if (importer->negative)
        importer_note(importer, "values below 0 were left out: the file is a difference");
    place_names_sort(profile);
    profile->complete = true;
    return profile;
}
