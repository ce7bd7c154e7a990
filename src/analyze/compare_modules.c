// SPDX-License-Identifier: MIT

#include "analyze/compare_modules.h"
#include "base/memory.h"

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

// The module of the other profile that is the same; 0: none. The best of: the same build, the same
// path, the same file name.
static unsigned counterpart(const struct profile *profile, const struct profile_module *module)
{
    unsigned best = 0, best_rank = 0;
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++) {
        const struct profile_module *other = &profile->modules[i];
        bool same_name = strcmp(file_name(module), file_name(other)) == 0;
        bool same_id = module->build_id_bytes && same_build(module, other);
        unsigned rank = 4 * same_id + 2 * same_path(module, other) + same_name;
        if (rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
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
    for (unsigned i = MODULE_FIRST_FILE; i < approx->module_count; i++) {
        const struct profile_module *module = &approx->modules[i];
        unsigned other = counterpart(exact, module);
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
