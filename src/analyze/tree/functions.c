// SPDX-License-Identifier: MIT

#include "analyze/tree/functions.h"
#include "analyze/index/hash_index.h"
#include "analyze/names/names.h"
#include "base/memory.h"
#include "base/text/text.h"

struct asked_place {
    place_t place;
    uint32_t process; // 0 unless the place belongs to no file
};

// Every node asks for two places, so a look at one slot has to do.
struct place_slot {
    struct asked_place asked;
    uint32_t number; // + 1; 0: free
};

struct functions {
    const struct profile *profile;
    struct symbols *symbols;
    bool *module_is_agent;
    uint32_t kernel; // the first module that is the kernel; MODULE_NONE: there is none
    uint32_t python; // that of functions of Python; likewise
    uint32_t java;   // and of methods of Java

    struct hash_index by_key; // (name, module) to function
    struct function *functions;
    size_t function_count, function_capacity;

    struct hash_index by_file;
    char **files;
    size_t file_count, file_capacity;

    struct place_slot *by_place; // open addressing
    size_t place_slots;          // a power of two
    struct asked_place *asked;
    struct spot *spots; // as many as asked
    size_t asked_count, asked_capacity;
    size_t resolved; // of asked

    struct located *located;
    size_t located_count, located_capacity;

    struct names *names; // made when they are asked for
};

struct functions *functions_new(const struct profile *profile, struct symbols *symbols)
{
    struct functions *functions = memory_array(1, sizeof *functions);
    functions->profile = profile;
    functions->symbols = symbols;
    functions->module_is_agent = memory_array(profile->module_count, sizeof(bool));
    for (unsigned i = MODULE_FIRST_FILE; i < profile->module_count; i++) {
        const char *path = profile->modules[i].path;
        functions->module_is_agent[i] = path && profile_is_agent(path);
        if (profile_is_kernel(path) && !functions->kernel)
            functions->kernel = i;
        if (profile_is_python(path))
            functions->python = i;
        else if (profile_is_runtime(path))
            functions->java = i;
    }
    functions_intern(functions, "", MODULE_NONE); // number 0: none
    functions->files =
        memory_grown(functions->files, &functions->file_capacity, 1, sizeof *functions->files);
    functions->files[functions->file_count++] = NULL;
    functions->located = memory_grown(functions->located, &functions->located_capacity, 1,
                                      sizeof *functions->located);
    functions->located[functions->located_count++] = (struct located){0};
    return functions;
}

void functions_free(struct functions *functions)
{
    if (!functions)
        return;
    for (size_t i = 0; i < functions->function_count; i++)
        free((char *)functions->functions[i].name);
    for (size_t i = 0; i < functions->file_count; i++)
        free(functions->files[i]);
    hash_index_free(&functions->by_key);
    hash_index_free(&functions->by_file);
    free(functions->by_place);
    free(functions->functions);
    free(functions->files);
    free(functions->asked);
    free(functions->spots);
    free(functions->located);
    names_free(functions->names);
    free(functions->module_is_agent);
    free(functions);
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

// The kernel of another boot is another module, of the same functions.
static uint32_t same_module(const struct functions *functions, uint32_t module)
{
    const struct profile *profile = functions->profile;
    return functions->kernel && module < profile->module_count &&
                   profile_is_kernel(profile->modules[module].path)
               ? functions->kernel
               : module;
}

static bool is_entry(const char *name)
{
    return strncmp(name, "entry_SYSCALL_64", 16) == 0 || strcmp(name, "do_syscall_64") == 0 ||
           strcmp(name, "x64_sys_call") == 0;
}

// apart: of functions of the same name and module, a number for each.
static uint32_t intern(struct functions *functions, const char *name, uint32_t module,
                       uint32_t apart)
{
    module = same_module(functions, module);
    uint64_t hash = hash_index_mix(hash_text(name) + module + ((uint64_t)apart << 32));
    struct hash_index_cursor cursor = hash_index_find(&functions->by_key, hash);
    for (uint32_t found; hash_index_next(&functions->by_key, &cursor, &found);) {
        const struct function *function = &functions->functions[found];
        if (function->module == module && function->apart == apart &&
            strcmp(function->name, name) == 0)
            return found;
    }
    functions->functions =
        memory_grown(functions->functions, &functions->function_capacity,
                     functions->function_count + 1, sizeof *functions->functions);
    uint32_t number = (uint32_t)functions->function_count++;
    functions->functions[number] = (struct function){
        .name = memory_text(name),
        .module = module,
        .apart = apart,
        .agent = module < functions->profile->module_count && functions->module_is_agent[module],
        .runtime =
            module != MODULE_NONE && (module == functions->python || module == functions->java),
        .kernel = module != MODULE_NONE && module == functions->kernel,
        .entry = module != MODULE_NONE && module == functions->kernel && is_entry(name),
    };
    hash_index_add(&functions->by_key, hash, number);
    return number;
}

uint32_t functions_intern(struct functions *functions, const char *name, uint32_t module)
{
    return intern(functions, name, module, 0);
}

void functions_define(struct functions *functions, uint32_t function, uint32_t file, uint32_t line)
{
    struct function *known = &functions->functions[function];
    if (known->file == 0 || (known->line == 0 && line != 0)) {
        known->file = file;
        known->line = line;
    }
}

static uint32_t file_number(struct functions *functions, const char *path)
{
    if (!path || !*path)
        return 0;
    uint64_t hash = hash_index_mix(hash_text(path));
    struct hash_index_cursor cursor = hash_index_find(&functions->by_file, hash);
    for (uint32_t found; hash_index_next(&functions->by_file, &cursor, &found);)
        if (strcmp(functions->files[found], path) == 0)
            return found;
    functions->files = memory_grown(functions->files, &functions->file_capacity,
                                    functions->file_count + 1, sizeof *functions->files);
    uint32_t number = (uint32_t)functions->file_count++;
    functions->files[number] = memory_text(path);
    hash_index_add(&functions->by_file, hash, number);
    return number;
}

static struct place_slot *find_slot(struct place_slot *slots, size_t count,
                                    struct asked_place asked)
{
    size_t at = hash_index_mix(asked.place ^ (uint64_t)asked.process << 40) & (count - 1);
    while (slots[at].number &&
           (slots[at].asked.place != asked.place || slots[at].asked.process != asked.process))
        at = (at + 1) & (count - 1);
    return &slots[at];
}

static void add_slots(struct functions *functions)
{
    const size_t count = functions->place_slots ? functions->place_slots * 2 : 1024;
    struct place_slot *slots = memory_array(count, sizeof *slots);
    for (size_t i = 0; i < functions->asked_count; i++)
        *find_slot(slots, count, functions->asked[i]) =
            (struct place_slot){functions->asked[i], (uint32_t)i + 1};
    free(functions->by_place);
    functions->by_place = slots;
    functions->place_slots = count;
}

// Only code of no file means something else in another process.
static struct asked_place asked_for(uint32_t process, place_t place)
{
    return (struct asked_place){place, place_module(place) == MODULE_ANONYMOUS ? process : 0};
}

static void ask(struct functions *functions, struct asked_place asked)
{
    if (functions->asked_count * 2 >= functions->place_slots)
        add_slots(functions);
    struct place_slot *slot = find_slot(functions->by_place, functions->place_slots, asked);
    if (slot->number)
        return;
    functions->asked = memory_grown(functions->asked, &functions->asked_capacity,
                                    functions->asked_count + 1, sizeof *functions->asked);
    functions->asked[functions->asked_count++] = asked;
    *slot = (struct place_slot){asked, (uint32_t)functions->asked_count};
}

void functions_want(struct functions *functions, uint32_t process, place_t place)
{
    unsigned module = place_module(place);
    // The agent's own frames are left out by their module: their names are not needed.
    if (place_is_known(place) && module < functions->profile->module_count &&
        !functions->module_is_agent[module])
        ask(functions, asked_for(process, place));
}

// NULL: it has the name that its module gives it.
static const char *name_of_time(place_t place)
{
    switch (place) {
    case PLACE_STARTUP:
        return FUNCTION_STARTUP;
    case PLACE_EXIT:
        return FUNCTION_EXIT;
    case PLACE_STARTUP_KERNEL:
        return FUNCTION_KERNEL;
    default:
        return NULL;
    }
}

static struct spot resolve_spot(struct functions *functions, const struct asked_place *asked)
{
    const struct symbol *symbol = symbols_at(functions->symbols, asked->process, asked->place);
    struct spot spot = {.first = (uint32_t)functions->located_count};
    if (!symbol)
        return spot;
    spot.begin = symbol->function;
    spot.count = symbol->count;
    functions->located =
        memory_grown(functions->located, &functions->located_capacity,
                     functions->located_count + symbol->count, sizeof *functions->located);
    for (unsigned i = 0; i < symbol->count; i++) {
        const struct symbol_frame *frame = &symbol->frames[i];
        const char *name = name_of_time(asked->place);
        if (!name)
            name = frame->function;
        // The kernel returns from a signal handler through this function of libc; it has no caller.
        if (strcmp(name, "__restore_rt") == 0 || strcmp(name, "__kernel_rt_sigreturn") == 0)
            name = SIGNAL_HANDLER;
        const uint32_t file = file_number(functions, frame->file);
        const unsigned module = place_module(asked->place);
        // All files of Python are one module.
        const uint32_t apart = module && module == functions->python ? file : 0;
        functions->located[functions->located_count++] = (struct located){
            .function = intern(functions, name, module, apart),
            .file = file,
            .line = frame->line,
        };
    }
    return spot;
}

void functions_resolve(struct functions *functions)
{
    for (size_t i = functions->resolved; i < functions->asked_count; i++)
        symbols_want(functions->symbols, functions->asked[i].process, functions->asked[i].place);
    symbols_resolve(functions->symbols);
    functions->spots = memory_checked(
        realloc(functions->spots, (functions->asked_count + 1) * sizeof *functions->spots));
    for (; functions->resolved < functions->asked_count; functions->resolved++)
        functions->spots[functions->resolved] =
            resolve_spot(functions, &functions->asked[functions->resolved]);
}

size_t functions_place_count(const struct functions *functions)
{
    return functions->resolved;
}

const struct symbol *functions_symbol(const struct functions *functions, size_t number,
                                      place_t *place)
{
    const struct asked_place *asked = &functions->asked[number];
    *place = asked->place;
    return symbols_at(functions->symbols, asked->process, asked->place);
}

uint32_t functions_number(const struct functions *functions, uint32_t process, place_t place)
{
    if (!place_is_known(place) || functions->place_slots == 0)
        return 0;
    const uint32_t number =
        find_slot(functions->by_place, functions->place_slots, asked_for(process, place))->number;
    return number <= functions->resolved ? number : 0;
}

const struct spot *functions_spot(const struct functions *functions, uint32_t number)
{
    return number && functions->spots[number - 1].count ? &functions->spots[number - 1] : NULL;
}

const struct spot *functions_look_up(const struct functions *functions, uint32_t process,
                                     place_t place)
{
    return functions_spot(functions, functions_number(functions, process, place));
}

const struct located *functions_located(const struct functions *functions, const struct spot *spot)
{
    return functions->located + spot->first;
}

const struct located *functions_line(const struct functions *functions, uint32_t number)
{
    return &functions->located[number];
}

// The last one that begins there or before: those without lines stand before it.
const struct spot *functions_line_spot(const struct functions *functions, uint32_t number,
                                       place_t *place)
{
    size_t low = 0, high = number ? functions->resolved : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (functions->spots[middle].first <= number)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low ? functions->asked[low - 1].place : 0;
    return low ? &functions->spots[low - 1] : NULL;
}

const struct function *functions_get(const struct functions *functions, uint32_t function)
{
    return &functions->functions[function];
}

uint32_t functions_count(const struct functions *functions)
{
    return (uint32_t)functions->function_count;
}

const char *functions_file(const struct functions *functions, uint32_t file)
{
    return functions->files[file];
}

uint32_t functions_file_count(const struct functions *functions)
{
    return (uint32_t)functions->file_count;
}

const char *functions_module_name(const struct functions *functions, uint32_t module)
{
    if (module == MODULE_NONE)
        return NULL;
    if (module == MODULE_ANONYMOUS)
        return "[jit]";
    if (module == MODULE_VDSO)
        return "[vdso]";
    if (module >= functions->profile->module_count || !functions->profile->modules[module].path)
        return NULL;
    return last_part(functions->profile->modules[module].path);
}

const struct names *functions_names(struct functions *functions)
{
    if (!functions->names)
        functions->names = names_new(functions->profile);
    return functions->names;
}
