// SPDX-License-Identifier: MIT

#include "analyze/compare/module_match.h"
#include "base/memory.h"
#include "base/text/text.h"

const char *module_file_name(const struct profile_module *module)
{
    return module->path ? last_part(module->path) : "";
}

bool module_is_program(const struct profile_module *module)
{
    const char *name = module_file_name(module), *library = strstr(name, ".so");
    return *name && *name != '[' && !(library && (library[3] == '\0' || library[3] == '.'));
}

unsigned module_count_programs(const struct profile *profile)
{
    unsigned count = 0;
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        count += module_is_program(&profile->modules[i]);
    return count;
}

static bool same_path(const struct profile_module *one, const struct profile_module *other)
{
    return one->path && other->path && strcmp(one->path, other->path) == 0;
}

bool module_same_build(const struct profile_module *one, const struct profile_module *other)
{
    if (one->build_id_bytes == 0 && other->build_id_bytes == 0)
        return same_path(one, other);
    return one->build_id_bytes == other->build_id_bytes &&
           memcmp(one->build_id, other->build_id, one->build_id_bytes) == 0;
}

// A file name without its version: that many bytes of it, and ".so" if it has that.
struct stem {
    const char *name;
    size_t length;
    bool library;
};

// Digits and dots at the end are a version if a dot or a dash is among them or before them:
// "python3.11", "app-2", but not "cc1".
static struct stem stem_of(const struct profile_module *module)
{
    const char *name = module_file_name(module), *library = strstr(name, ".so");
    struct stem stem = {.name = name, .length = strlen(name)};
    if (library && (library[3] == '\0' || library[3] == '.')) {
        stem.library = true;
        stem.length = (size_t)(library - name);
    }
    size_t end = stem.length;
    while (end > 0 && (name[end - 1] == '.' || (name[end - 1] >= '0' && name[end - 1] <= '9')))
        end--;
    const bool dotted = memchr(name + end, '.', stem.length - end) != NULL;
    if (end < stem.length && end > 1 && (name[end - 1] == '-' || name[end - 1] == '_'))
        stem.length = end - 1;
    else if (dotted && end > 0)
        stem.length = end;
    return stem;
}

static bool same_stem(const struct profile_module *one, const struct profile_module *other)
{
    const struct stem a = stem_of(one), b = stem_of(other);
    return a.length > 0 && a.length == b.length && a.library == b.library &&
           memcmp(a.name, b.name, a.length) == 0;
}

// The properties that two modules may have in common.
enum { SAME_STEM = 1, SAME_NAME = 2, SAME_PATH = 4, SAME_ID = 8 };

static unsigned common_parts(const struct profile_module *one, const struct profile_module *other)
{
    return (one->build_id_bytes && module_same_build(one, other) ? SAME_ID : 0) |
           (same_path(one, other) ? SAME_PATH : 0) |
           (strcmp(module_file_name(one), module_file_name(other)) == 0 ? SAME_NAME : 0) |
           (same_stem(one, other) ? SAME_STEM : 0);
}

// The best of these comes first. Modules of the same path have the same name.
static const unsigned likenesses[] = {
    SAME_ID | SAME_PATH | SAME_NAME, SAME_ID | SAME_NAME, SAME_ID,
    SAME_PATH | SAME_NAME,           SAME_NAME,           SAME_STEM,
};
enum { LIKENESSES = sizeof likenesses / sizeof *likenesses };

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
    if (parts & SAME_PATH) {
        hash = hash_bytes(hash, module->path, strlen(module->path));
    } else if (parts & SAME_NAME) {
        hash = hash_bytes(hash, module_file_name(module), strlen(module_file_name(module)));
    } else if (parts & SAME_STEM) {
        const struct stem stem = stem_of(module);
        hash = hash_bytes(hash, stem.name, stem.length);
    }
    return hash_index_mix(hash);
}

static bool has_parts(const struct profile_module *module, unsigned parts)
{
    return (module->build_id_bytes || !(parts & SAME_ID)) &&
           (module->path || !(parts & SAME_PATH)) &&
           (parts != SAME_STEM || stem_of(module).length > 0);
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

void module_index_add(struct module_index *index, unsigned number)
{
    const struct profile_module *module = &index->profile->modules[number];
    for (unsigned kind = 0; kind < LIKENESSES; kind++)
        if (has_parts(module, likenesses[kind]) && find_alike(index, module, likenesses[kind]) == 0)
            hash_index_add(&index->by_parts, hash_parts(module, likenesses[kind]), number);
}

void module_index_start(struct module_index *index, const struct profile *profile)
{
    *index = (struct module_index){.profile = profile};
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        module_index_add(index, i);
}

unsigned module_index_find(const struct module_index *index, const struct profile_module *module)
{
    unsigned found = 0;
    for (unsigned kind = 0; kind < LIKENESSES && found == 0; kind++)
        if (has_parts(module, likenesses[kind]))
            found = find_alike(index, module, likenesses[kind]);
    return found;
}

void module_index_free(struct module_index *index)
{
    hash_index_free(&index->by_parts);
}

static void list_programs(FILE *out, const struct profile *profile)
{
    unsigned count = 0;
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++)
        if (module_is_program(&profile->modules[i]) && count++ < 3)
            fprintf(out, "%s%s", count > 1 ? ", " : "", module_file_name(&profile->modules[i]));
    if (count > 3)
        fprintf(out, " and %u more", count - 3);
    if (count == 0)
        fputs("none that was recorded", out);
}

char *module_different_programs(const struct profile *one, const struct profile *other)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    fputs("these are profiles of different programs: the first ran ", out);
    list_programs(out, one);
    fputs(", the second ", out);
    list_programs(out, other);
    fclose(out);
    return memory_checked(text);
}
