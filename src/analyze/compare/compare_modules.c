// SPDX-License-Identifier: MIT

#include "analyze/compare/compare_modules.h"
#include "analyze/compare/module_match.h"
#include "base/memory.h"

static bool is_agent(const struct profile_module *module)
{
    return module->path && profile_is_agent(module->path);
}

void module_map_free(struct module_map *map)
{
    free(map->number);
    free(map->same_build);
    *map = (struct module_map){0};
}

int module_maps_new(struct common_modules *common, struct module_map maps[2],
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
    common->names = memory_array(MODULE_FIRST_FILE + exact->module_count + approx->module_count,
                                 sizeof *common->names);
    common->names[MODULE_ANONYMOUS] = "[jit]";
    common->names[MODULE_VDSO] = "[vdso]";
    common->count = MODULE_FIRST_FILE;
    for (unsigned i = MODULE_FIRST_FILE; i < exact->module_count; i++) {
        common->names[common->count] = module_file_name(&exact->modules[i]);
        maps[EXACT].number[i] = common->count++;
    }
    struct module_index index;
    module_index_start(&index, exact);
    for (unsigned i = MODULE_FIRST_FILE; i < approx->module_count; i++) {
        const struct profile_module *module = &approx->modules[i];
        unsigned other = module_index_find(&index, module);
        if (other == 0) {
            common->names[common->count] = module_file_name(module);
            maps[APPROX].number[i] = common->count++;
            continue;
        }
        maps[APPROX].number[i] = maps[EXACT].number[other];
        bool same = module_same_build(module, &exact->modules[other]);
        maps[APPROX].same_build[i] = same;
        maps[EXACT].same_build[other] |= same;
        if (!is_agent(module)) {
            common->same_builds += same;
            common->by_names += !same;
        }
        common_programs += module_is_program(module);
    }
    module_index_free(&index);
    bool libraries_only = module_count_programs(exact) == 0 || module_count_programs(approx) == 0;
    bool any_common = common->same_builds + common->by_names > 0;
    if (libraries_only ? any_common : common_programs > 0)
        return 0;
    *error = module_different_programs(exact, approx);
    for (unsigned side = 0; side < 2; side++)
        module_map_free(&maps[side]);
    return -1;
}
