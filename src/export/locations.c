// SPDX-License-Identifier: MIT

#include "export/locations.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "profile/place_names.h"

// Where a module was loaded is not known, nor does it matter: modules get addresses in the order in
// which they are met, so far apart that none reaches the next one.
#define MAPPING_BITS 40
#define KERNEL_START UINT64_C(0xffff800000000000)
#define KERNEL_BITS UINT64_C(0xffff000000000000)

void locations_open(struct locations *locations, const struct analysis *analysis)
{
    *locations = (struct locations){.analysis = analysis};
    locations->mapping_of =
        memory_array(analysis->profile->module_count, sizeof *locations->mapping_of);
    locations->mappings =
        memory_grown(NULL, &locations->mapping_capacity, 1, sizeof *locations->mappings);
    locations->functions =
        memory_grown(NULL, &locations->function_capacity, 1, sizeof *locations->functions);
    locations->function_keys =
        memory_grown(NULL, &locations->key_capacity, 1, sizeof *locations->function_keys);
    locations->list = memory_grown(NULL, &locations->capacity, 1, sizeof *locations->list);
    locations->mappings[0] = (struct location_mapping){0};
    locations->functions[0] = (struct location_function){0};
    locations->list[0] = (struct location){0};
    locations->mapping_count = locations->function_count = locations->count = 1;
    locations_string(locations, "");
}

void locations_close(struct locations *locations)
{
    for (size_t i = 0; i < locations->string_count; i++)
        free(locations->strings[i]);
    hash_index_free(&locations->by_text);
    hash_index_free(&locations->by_function);
    hash_index_free(&locations->by_location);
    free(locations->callers);
    free(locations->stack);
    free(locations->strings);
    free(locations->mappings);
    free(locations->functions);
    free(locations->function_keys);
    free(locations->lines);
    free(locations->list);
    free(locations->mapping_of);
}

uint32_t locations_string(struct locations *locations, const char *text)
{
    text = text_safe(text);
    uint64_t hash = 0;
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    hash = hash_index_mix(hash);
    struct hash_index_cursor cursor = hash_index_find(&locations->by_text, hash);
    for (uint32_t found; hash_index_next(&locations->by_text, &cursor, &found);)
        if (strcmp(locations->strings[found], text) == 0)
            return found;
    locations->strings = memory_grown(locations->strings, &locations->string_capacity,
                                      locations->string_count + 1, sizeof *locations->strings);
    locations->strings[locations->string_count] = memory_text(text);
    hash_index_add(&locations->by_text, hash, (uint32_t)locations->string_count);
    return (uint32_t)locations->string_count++;
}

static bool is_kernel(const struct locations *locations, uint32_t module)
{
    return profile_is_kernel(locations->analysis->profile->modules[module].path);
}

static uint32_t mapping(struct locations *locations, uint32_t module)
{
    if (module == MODULE_NONE || module >= locations->analysis->profile->module_count)
        return 0;
    if (locations->mapping_of[module])
        return locations->mapping_of[module];
    locations->mappings = memory_grown(locations->mappings, &locations->mapping_capacity,
                                       locations->mapping_count + 1, sizeof *locations->mappings);
    const uint32_t number = (uint32_t)locations->mapping_count++;
    struct location_mapping new = {.module = module, .start = (uint64_t)number << MAPPING_BITS};
    if (module == MODULE_ANONYMOUS)
        new.start = 0;
    else if (is_kernel(locations, module))
        new.start = KERNEL_START;
    new.limit = new.start;
    locations->mappings[number] = new;
    locations->mapping_of[module] = number;
    return number;
}

// System calls have numbers instead of addresses.
static uint64_t address(struct locations *locations, place_t place, struct location_mapping *in)
{
    if (!in->module || !place_is_known(place))
        return 0;
    const struct profile_place *named = place_names_find(locations->analysis->profile, place);
    const uint64_t offset = named ? named->offset : place_offset(place);
    const bool kernel = is_kernel(locations, in->module);
    if (named ? !offset : kernel && offset < PLACE_CALLS)
        return 0;
    const uint64_t address = kernel && !named ? offset | KERNEL_BITS : in->start + offset;
    if (address >= in->limit)
        in->limit = address + 1;
    return address;
}

// A function with lines in several files is one function for each of them.
static uint32_t function(struct locations *locations, uint32_t number, uint32_t file)
{
    const struct functions *functions = locations->analysis->functions;
    const struct function *known = functions_get(functions, number);
    const uint64_t hash = hash_index_mix((uint64_t)number << 32 | file);
    struct hash_index_cursor cursor = hash_index_find(&locations->by_function, hash);
    for (uint32_t found; hash_index_next(&locations->by_function, &cursor, &found);)
        if (locations->function_keys[found].function == number &&
            locations->function_keys[found].file == file)
            return found;
    locations->functions =
        memory_grown(locations->functions, &locations->function_capacity,
                     locations->function_count + 1, sizeof *locations->functions);
    locations->function_keys =
        memory_grown(locations->function_keys, &locations->key_capacity,
                     locations->function_count + 1, sizeof *locations->function_keys);
    const uint32_t new = (uint32_t)locations->function_count++;
    const char *path = functions_file(functions, file);
    locations->functions[new] = (struct location_function){
        .name = locations_string(locations, known->name),
        .file = path ? locations_string(locations, path) : 0,
        .line = file == known->file ? known->line : 0,
    };
    locations->function_keys[new].function = number;
    locations->function_keys[new].file = file;
    hash_index_add(&locations->by_function, hash, new);
    return new;
}

static void add_line(struct locations *locations, uint32_t node, uint32_t number)
{
    const uint32_t called = locations->tree->nodes[node].function;
    const struct located *located = functions_line(locations->analysis->functions, number);
    const struct function *known = functions_get(locations->analysis->functions, called);
    const struct location_line line = {
        .function = function(locations, called, located->file ? located->file : known->file),
        .line = located->line,
    };
    locations->lines = memory_grown(locations->lines, &locations->line_capacity,
                                    locations->line_count + 1, sizeof *locations->lines);
    locations->lines[locations->line_count++] = line;
}

// The function that a node was inlined into, or the node itself.
static uint32_t called_node(const struct calltree *tree, uint32_t node)
{
    while (tree->nodes[node].kind == CALL_INLINED)
        node = tree->nodes[node].parent;
    return node;
}

// Takes the last lines back if another location has them already.
static uint32_t intern(struct locations *locations, struct location location)
{
    const struct location_line *lines = locations->lines + location.first_line;
    uint64_t hash = hash_index_mix(location.address + location.mapping);
    for (uint32_t i = 0; i < location.line_count; i++)
        hash = hash_index_mix(hash + ((uint64_t)lines[i].function << 32 | lines[i].line));
    struct hash_index_cursor cursor = hash_index_find(&locations->by_location, hash);
    for (uint32_t found; hash_index_next(&locations->by_location, &cursor, &found);) {
        const struct location *known = &locations->list[found];
        if (known->address != location.address || known->mapping != location.mapping ||
            known->line_count != location.line_count ||
            memcmp(locations->lines + known->first_line, lines,
                   location.line_count * sizeof *lines) != 0)
            continue;
        locations->line_count = location.first_line;
        return found;
    }
    locations->list = memory_grown(locations->list, &locations->capacity, locations->count + 1,
                                   sizeof *locations->list);
    locations->list[locations->count] = location;
    hash_index_add(&locations->by_location, hash, (uint32_t)locations->count);
    return (uint32_t)locations->count++;
}

// A line of a node, and those of all that it was inlined into.
static uint32_t locate(struct locations *locations, uint32_t node, uint32_t number)
{
    const struct calltree *tree = locations->tree;
    const struct functions *functions = locations->analysis->functions;
    struct location location = {.first_line = (uint32_t)locations->line_count};
    place_t place;
    functions_line_spot(functions, number, &place);
    const uint32_t module = place_module(place);
    location.mapping = mapping(
        locations, module ? module : calltree_function(tree, called_node(tree, node))->module);
    location.address = address(locations, place, &locations->mappings[location.mapping]);
    add_line(locations, node, number);
    for (; tree->nodes[node].kind == CALL_INLINED; node = tree->nodes[node].parent)
        add_line(locations, tree->nodes[node].parent, tree->nodes[node].call_line);
    location.line_count = (uint32_t)locations->line_count - location.first_line;
    return intern(locations, location);
}

void locations_of_tree(struct locations *locations, const struct calltree *tree)
{
    free(locations->callers);
    locations->tree = tree;
    locations->callers = memory_array(tree->count, sizeof *locations->callers);
}

static void push(struct locations *locations, size_t *count, uint32_t location)
{
    locations->stack = memory_grown(locations->stack, &locations->stack_capacity, *count + 1,
                                    sizeof *locations->stack);
    locations->stack[(*count)++] = location;
}

const uint32_t *locations_stack(struct locations *locations, const struct call_line *line,
                                size_t *count)
{
    const struct calltree *tree = locations->tree;
    *count = 0;
    push(locations, count, locate(locations, line->node, line->line));
    for (uint32_t node = called_node(tree, line->node); node != 0;) {
        const uint32_t caller = tree->nodes[node].parent;
        if (caller == 0)
            break;
        if (!locations->callers[node])
            locations->callers[node] = locate(locations, caller, tree->nodes[node].call_line);
        push(locations, count, locations->callers[node]);
        node = called_node(tree, caller);
    }
    return locations->stack;
}

bool locations_has_cost(const struct calltree *tree, size_t line, const unsigned *metrics,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (tree->line_values[line * tree->metrics + metrics[i]])
            return true;
    return false;
}

struct location_id locations_build_id(const struct locations *locations, uint32_t module)
{
    struct location_id id = {.text = ""};
    const struct profile_module *recorded = &locations->analysis->profile->modules[module];
    for (unsigned i = 0; i < recorded->build_id_bytes && i < 32; i++)
        snprintf(id.text + 2 * (size_t)i, 3, "%02x", recorded->build_id[i]);
    return id;
}

const char *locations_file(const struct locations *locations, uint32_t module)
{
    const char *path = locations->analysis->profile->modules[module].path;
    const char *name = functions_module_name(locations->analysis->functions, module);
    return module >= MODULE_FIRST_FILE && path ? path : name ? name : "";
}
