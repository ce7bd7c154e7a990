// SPDX-License-Identifier: MIT
#include "profile/queries/module_table.h"
#include "profile/loader.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int module_table_start(struct module_table *table)
{
    *table = (struct module_table){.slot_count = 64};
    table->slots = calloc(table->slot_count, sizeof *table->slots);
    if (!table->slots ||
        !profile_grow((void **)&table->modules, 0, MODULE_FIRST_FILE, sizeof *table->modules))
        return -ENOMEM;
    table->count = table->written = MODULE_FIRST_FILE;
    return 0;
}

void module_table_free(struct module_table *table)
{
    for (unsigned i = 0; i < table->count; i++)
        free(table->modules[i].path);
    free(table->modules);
    free(table->slots);
    *table = (struct module_table){0};
}

static bool is_module(const struct profile_module *module, const char *path, size_t path_bytes,
                      const uint8_t *build_id, unsigned build_id_bytes)
{
    return module->build_id_bytes == build_id_bytes &&
           memcmp(module->build_id, build_id, build_id_bytes) == 0 &&
           strlen(module->path) == path_bytes && memcmp(module->path, path, path_bytes) == 0;
}

static uint16_t *free_slot(struct module_table *table, uint64_t hash)
{
    unsigned at = (unsigned)hash & (table->slot_count - 1);
    while (table->slots[at])
        at = (at + 1) & (table->slot_count - 1);
    return &table->slots[at];
}

static uint64_t hash_module(const char *path, size_t path_bytes, const uint8_t *build_id,
                            unsigned build_id_bytes)
{
    return XXH3_64bits_withSeed(path, path_bytes, XXH3_64bits(build_id, build_id_bytes));
}

static bool make_room(struct module_table *table)
{
    if (table->count >= MODULE_LIMIT - 1 ||
        !profile_grow((void **)&table->modules, table->count, table->count + 1u,
                      sizeof *table->modules))
        return false;
    if (table->count < table->slot_count / 2)
        return true;
    uint16_t *slots = calloc(table->slot_count * 2, sizeof *slots);
    if (!slots)
        return false;
    free(table->slots);
    table->slots = slots;
    table->slot_count *= 2;
    for (unsigned i = MODULE_FIRST_FILE; i < table->count; i++) {
        const struct profile_module *module = &table->modules[i];
        uint64_t hash = hash_module(module->path, strlen(module->path), module->build_id,
                                    module->build_id_bytes);
        *free_slot(table, hash) = (uint16_t)i;
    }
    return true;
}

unsigned module_table_id(struct module_table *table, const char *path, size_t path_bytes,
                         const uint8_t *build_id, unsigned build_id_bytes)
{
    path_bytes = strnlen(path, path_bytes);
    uint64_t hash = hash_module(path, path_bytes, build_id, build_id_bytes);
    for (unsigned at = (unsigned)hash & (table->slot_count - 1); table->slots[at];
         at = (at + 1) & (table->slot_count - 1))
        if (is_module(&table->modules[table->slots[at]], path, path_bytes, build_id,
                      build_id_bytes))
            return table->slots[at];
    char *copy = strndup(path, path_bytes);
    if (!copy || !make_room(table)) {
        free(copy);
        return MODULE_NONE;
    }
    struct profile_module *module = &table->modules[table->count];
    module->path = copy;
    memcpy(module->build_id, build_id, build_id_bytes);
    module->build_id_bytes = build_id_bytes;
    *free_slot(table, hash) = (uint16_t)table->count;
    return table->count++;
}
