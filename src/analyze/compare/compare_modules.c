// SPDX-License-Identifier: MIT

#include "analyze/compare/compare_modules.h"
#include "analyze/hash_index.h"
#include "base/memory.h"
#include "base/text/text.h"

static const char *file_name(const struct profile_module *module)
{
    return module->path ? last_part(module->path) : "";
}

static bool is_agent(const struct profile_module *module)
{
    return module->path && profile_is_agent(module->path);
}

// By its name: "app", but not "libx.so", "libx.so.6" or "x.cpython-311.so".
static bool is_program(const struct profile_module *module)
{
    const char *name = file_name(module), *library = strstr(name, ".so");
    return *name && *name != '[' && !(library && (library[3] == '\0' || library[3] == '.'));
}

static bool same_path(const struct profile_module *one, const struct profile_module *other)
{
    return one->path && other->path && strcmp(one->path, other->path) == 0;
}

// Without build ids, the same file is taken to have stayed as it was.
static bool same_build(const struct profile_module *one, const struct profile_module *other)
{
    if (one->build_id_bytes == 0 && other->build_id_bytes == 0)
        return same_path(one, other);
    return one->build_id_bytes == other->build_id_bytes &&
           memcmp(one->build_id, other->build_id, one->build_id_bytes) == 0;
}

// The properties that two modules may have in common.
enum { SAME_NAME = 1, SAME_PATH = 2, SAME_ID = 4 };

static unsigned common_parts(const struct profile_module *one, const struct profile_module *other)
{
    return (one->build_id_bytes && same_build(one, other) ? SAME_ID : 0) |
           (same_path(one, other) ? SAME_PATH : 0) |
           (strcmp(file_name(one), file_name(other)) == 0 ? SAME_NAME : 0);
}

// The best of these comes first. Modules of the same path have the same name.
static const unsigned likenesses[] = {
    SAME_ID | SAME_PATH | SAME_NAME, SAME_ID | SAME_NAME, SAME_ID, SAME_PATH | SAME_NAME, SAME_NAME,
};
enum { LIKENESSES = sizeof likenesses / sizeof *likenesses };

// The modules of a profile by what they may have in common with others: the first that has it.
struct module_index {
    const struct profile *profile;
    struct hash_index by_parts;
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    for (const unsigned char *at = bytes, *end = at + count; at < end; at++)
        hash = (hash ^ *at) * 0x100000001b3;
    return hash;
}

static uint64_t hash_parts(const struct profile_module *module, unsigned parts)
{
    uint64_t hash = hash_bytes(0xcbf29ce484222325, &parts, sizeof parts);
    if (parts & SAME_ID)
        hash = hash_bytes(hash, module->build_id, module->build_id_bytes);
    if (parts & SAME_PATH)
        hash = hash_bytes(hash, module->path, strlen(module->path));
    else if (parts & SAME_NAME)
        hash = hash_bytes(hash, file_name(module), strlen(file_name(module)));
    return hash_index_mix(hash);
}

static bool has_parts(const struct profile_module *module, unsigned parts)
{
    return (module->build_id_bytes || !(parts & SAME_ID)) && (module->path || !(parts & SAME_PATH));
}

// The first module that has these parts in common with the one that is given; 0: none.
static unsigned find_alike(const struct module_index *index, const struct profile_module *module,
                           unsigned parts)
{
    struct hash_index_cursor cursor = hash_index_find(&index->by_parts, hash_parts(module, parts));
    for (uint32_t found; hash_index_next(&index->by_parts, &cursor, &found);)
        if ((common_parts(module, &index->profile->modules[found]) & parts) == parts)
            return found;
    return 0;
}

static void index_modules(struct module_index *index, const struct profile *profile)
{
    *index = (struct module_index){.profile = profile};
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++) {
        const struct profile_module *module = &profile->modules[i];
        for (unsigned kind = 0; kind < LIKENESSES; kind++)
            if (has_parts(module, likenesses[kind]) &&
                find_alike(index, module, likenesses[kind]) == 0)
                hash_index_add(&index->by_parts, hash_parts(module, likenesses[kind]), i);
    }
}

// The module of the other profile that is the same; 0: none. The best of: the same build, the same
// path, the same file name.
static unsigned counterpart(const struct module_index *index, const struct profile_module *module)
{
    unsigned found = 0;
    for (unsigned kind = 0; kind < LIKENESSES && found == 0; kind++)
        if (has_parts(module, likenesses[kind]))
            found = find_alike(index, module, likenesses[kind]);
    return found;
}

static void list_programs(FILE *out, const struct profile *profile)
{
    unsigned count = 0;
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        if (is_program(&profile->modules[i]) && count++ < 3)
            fprintf(out, "%s%s", count > 1 ? ", " : "", file_name(&profile->modules[i]));
    if (count > 3)
        fprintf(out, " and %u more", count - 3);
}

static int different_programs(const struct profile *exact, const struct profile *approx,
                              char **error)
{
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(error, &bytes));
    fputs("these are profiles of different programs: the first ran ", out);
    list_programs(out, exact);
    fputs(", the second ", out);
    list_programs(out, approx);
    fclose(out);
    memory_checked(*error);
    return -1;
}

static unsigned count_programs(const struct profile *profile)
{
    unsigned count = 0;
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        count += is_program(&profile->modules[i]);
    return count;
}

void module_map_free(struct module_map *map)
{
    free(map->number);
    free(map->same_build);
    *map = (struct module_map){0};
}

int module_maps_new(struct alignment *alignment, struct module_map maps[2],
                    const struct profile *exact, const struct profile *approx, char **error)
{
    const struct profile *profiles[] = {exact, approx};
    unsigned common_programs = 0;
    for (unsigned side = 0; side < 2; side++) {
        maps[side].number = memory_array(profiles[side]->module_count, sizeof(uint32_t));
        maps[side].same_build = memory_array(profiles[side]->module_count, sizeof(bool));
        for (unsigned i = 0; i < MODULE_FIRST_FILE && i < profiles[side]->module_count; i++)
            maps[side].number[i] = i;
    }
    alignment->modules = memory_array(
        MODULE_FIRST_FILE + exact->module_count + approx->module_count, sizeof *alignment->modules);
    alignment->modules[MODULE_ANONYMOUS] = "[jit]";
    alignment->modules[MODULE_VDSO] = "[vdso]";
    alignment->module_count = MODULE_FIRST_FILE;
    for (unsigned i = MODULE_FIRST_FILE; i < exact->module_count; i++) {
        alignment->modules[alignment->module_count] = file_name(&exact->modules[i]);
        maps[EXACT].number[i] = alignment->module_count++;
    }
    struct module_index index;
    index_modules(&index, exact);
    for (unsigned i = MODULE_FIRST_FILE; i < approx->module_count; i++) {
        const struct profile_module *module = &approx->modules[i];
        unsigned other = counterpart(&index, module);
        if (other == 0) {
            alignment->modules[alignment->module_count] = file_name(module);
            maps[APPROX].number[i] = alignment->module_count++;
            continue;
        }
        maps[APPROX].number[i] = maps[EXACT].number[other];
        bool same = same_build(module, &exact->modules[other]);
        maps[APPROX].same_build[i] = same;
        maps[EXACT].same_build[other] |= same;
        if (!is_agent(module)) {
            alignment->same_builds += same;
            alignment->by_names += !same;
        }
        common_programs += is_program(module);
    }
    hash_index_free(&index.by_parts);
    bool libraries_only = count_programs(exact) == 0 || count_programs(approx) == 0;
    bool common = alignment->same_builds + alignment->by_names > 0;
    if (libraries_only ? common : common_programs > 0)
        return 0;
    int status = different_programs(exact, approx, error);
    for (unsigned side = 0; side < 2; side++)
        module_map_free(&maps[side]);
    alignment_free(alignment);
    return status;
}
