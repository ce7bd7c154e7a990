// SPDX-License-Identifier: MIT

// A profile as it is, and the names of its functions with it: they hold when the program has
// changed, and on other machines.

#include "base/memory.h"
#include "export/export.h"
#include "profile/place_names.h"
#include "profile/write_records.h"
#include <errno.h>

// Whether its name is known by the module alone, and by its offset there.
static bool is_named_by_module(const struct profile *profile, place_t place)
{
    const unsigned module = place_module(place);
    return module >= MODULE_FIRST_FILE && module < profile->module_count &&
           !profile_is_kernel(profile->modules[module].path) && !place_names_find(profile, place);
}

static bool keep_name(struct profile *profile, place_t place, const struct symbol *symbol)
{
    struct profile_place kept = {.offset = place_offset(place), .line_count = symbol->count};
    kept.lines = memory_array(symbol->count, sizeof *kept.lines);
    for (unsigned i = 0; i < symbol->count; i++)
        kept.lines[i] = (struct profile_line){
            .function = (char *)symbol->frames[i].function,
            .file = (char *)(symbol->frames[i].file ? symbol->frames[i].file : ""),
            .line = symbol->frames[i].line,
        };
    const bool added = place_names_add(profile, &kept, place, symbol->function);
    free(kept.lines);
    return added;
}

// Puts what was found into the profile itself. False: out of memory.
static bool keep_names(const struct functions *functions, struct profile *profile)
{
    const size_t count = functions_place_count(functions);
    const struct symbol **found = memory_array(count, sizeof(void *));
    place_t *places = memory_array(count, sizeof *places);
    for (size_t i = 0; i < count; i++) {
        const struct symbol *symbol = functions_symbol(functions, i, &places[i]);
        if (symbol && symbol->function && is_named_by_module(profile, places[i]))
            found[i] = symbol;
    }
    // Only now: the names of a profile are looked up in order.
    bool kept = true;
    for (size_t i = 0; i < count; i++)
        if (found[i])
            kept = kept && keep_name(profile, places[i], found[i]);
    free(found);
    free(places);
    place_names_sort(profile);
    return kept;
}

static int write_cairn(FILE *out, const struct export_input *input)
{
    struct profile *profile = input->analysis->profile;
    struct batch batch = {0};
    int error = keep_names(input->analysis->functions, profile) ? 0 : -ENOMEM;
    if (!error) {
        write_profile(&batch, profile);
        error = batch.out.failed ? -ENOMEM : 0;
    }
    if (!error)
        fwrite(batch.out.data, 1, batch.out.size, out);
    batch_free(&batch);
    return error;
}

const struct export_format export_cairn = {
    .name = "cairn",
    .summary = "cairn itself: all of the profile, with the names of its functions",
    .keeps_all = true,
    .several_metrics = true,
    .binary = true,
    .write = write_cairn,
};
