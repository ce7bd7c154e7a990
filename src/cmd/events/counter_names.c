// SPDX-License-Identifier: MIT
#include "cmd/events/counter_names.h"
#include "base/text/nearest.h"
#include <linux/perf_event.h>
#include <string.h>
#include <strings.h>

#define SOFTWARE(number) .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_##number
#define HARDWARE(number) .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_##number

const struct counter_name counter_names[] = {
    {.name = "page-faults",
     .other = "faults",
     SOFTWARE(PAGE_FAULTS),
     .unit = "faults",
     .meaning = "pages of memory that were not there when they were touched",
     .rest = LIVE_REST_FAULTS},
    {.name = "minor-faults",
     SOFTWARE(PAGE_FAULTS_MIN),
     .unit = "faults",
     .meaning = "page faults that needed no reading from disk",
     .rest = LIVE_REST_MINOR_FAULTS},
    {.name = "major-faults",
     SOFTWARE(PAGE_FAULTS_MAJ),
     .unit = "faults",
     .meaning = "page faults that waited for the disk",
     .rest = LIVE_REST_MAJOR_FAULTS},
    {.name = "context-switches",
     .other = "cs",
     SOFTWARE(CONTEXT_SWITCHES),
     .unit = "switches",
     .meaning = "how often a thread left the processor",
     .rest = LIVE_REST_SWITCHES,
     .is_in_kernel = true},
    {.name = "cpu-migrations",
     .other = "migrations",
     SOFTWARE(CPU_MIGRATIONS),
     .unit = "migrations",
     .meaning = "how often a thread came to another processor",
     .is_in_kernel = true},
    {.name = "cpu-clock",
     SOFTWARE(CPU_CLOCK),
     .unit = "ns",
     .meaning = "time on the processor, by the processor's clock",
     .rest = LIVE_REST_CPU},
    {.name = "task-clock",
     SOFTWARE(TASK_CLOCK),
     .unit = "ns",
     .meaning = "time on the processor, by the thread's clock",
     .rest = LIVE_REST_CPU},
    {.name = "alignment-faults",
     SOFTWARE(ALIGNMENT_FAULTS),
     .unit = "faults",
     .meaning = "unaligned memory that the kernel had to see to"},
    {.name = "emulation-faults",
     SOFTWARE(EMULATION_FAULTS),
     .unit = "faults",
     .meaning = "instructions that the kernel had to emulate"},
    {.name = "cycles",
     .other = "cpu-cycles",
     HARDWARE(CPU_CYCLES),
     .unit = "cycles",
     .meaning = "cycles of the processor"},
    {.name = "instructions",
     HARDWARE(INSTRUCTIONS),
     .unit = "instructions",
     .meaning = "instructions that were completed"},
    {.name = "cache-references",
     HARDWARE(CACHE_REFERENCES),
     .unit = "references",
     .meaning = "accesses to the last cache"},
    {.name = "cache-misses",
     HARDWARE(CACHE_MISSES),
     .unit = "misses",
     .meaning = "accesses to the last cache that went on to memory"},
    {.name = "branches",
     .other = "branch-instructions",
     HARDWARE(BRANCH_INSTRUCTIONS),
     .unit = "branches",
     .meaning = "branches that were completed"},
    {.name = "branch-misses",
     HARDWARE(BRANCH_MISSES),
     .unit = "misses",
     .meaning = "branches that were predicted wrongly"},
    {.name = "bus-cycles", HARDWARE(BUS_CYCLES), .unit = "cycles", .meaning = "cycles of the bus"},
    {.name = "stalled-cycles-frontend",
     .other = "idle-cycles-frontend",
     HARDWARE(STALLED_CYCLES_FRONTEND),
     .unit = "cycles",
     .meaning = "cycles without instructions to issue"},
    {.name = "stalled-cycles-backend",
     .other = "idle-cycles-backend",
     HARDWARE(STALLED_CYCLES_BACKEND),
     .unit = "cycles",
     .meaning = "cycles that waited for results"},
    {.name = "ref-cycles",
     HARDWARE(REF_CPU_CYCLES),
     .unit = "cycles",
     .meaning = "cycles at a constant frequency"},
};

const size_t counter_name_count = sizeof counter_names / sizeof *counter_names;

const struct counter_name *counter_name_find(const char *name)
{
    for (size_t i = 0; i < counter_name_count; i++)
        if (!strcmp(name, counter_names[i].name) ||
            (counter_names[i].other && !strcmp(name, counter_names[i].other)))
            return &counter_names[i];
    return NULL;
}

struct cache_word {
    const char *text;
    uint64_t value;
};

// Takes a word of a table from the beginning of a name. False: it begins with none.
static bool take_word(const char **name, const struct cache_word *words, uint64_t *value)
{
    for (; words->text; words++) {
        const size_t length = strlen(words->text);
        if (strncasecmp(*name, words->text, length))
            continue;
        *name += length;
        *value = words->value;
        return true;
    }
    return false;
}

bool counter_name_cache(const char *name, uint64_t *config)
{
    static const struct cache_word caches[] = {{"L1-dcache-", PERF_COUNT_HW_CACHE_L1D},
                                               {"L1-icache-", PERF_COUNT_HW_CACHE_L1I},
                                               {"LLC-", PERF_COUNT_HW_CACHE_LL},
                                               {"dTLB-", PERF_COUNT_HW_CACHE_DTLB},
                                               {"iTLB-", PERF_COUNT_HW_CACHE_ITLB},
                                               {"branch-", PERF_COUNT_HW_CACHE_BPU},
                                               {"node-", PERF_COUNT_HW_CACHE_NODE},
                                               {NULL, 0}},
                                   operations[] = {{"load", PERF_COUNT_HW_CACHE_OP_READ},
                                                   {"store", PERF_COUNT_HW_CACHE_OP_WRITE},
                                                   {"prefetch", PERF_COUNT_HW_CACHE_OP_PREFETCH},
                                                   {NULL, 0}};
    uint64_t cache, operation;
    if (!take_word(&name, caches, &cache) || !take_word(&name, operations, &operation))
        return false;
    const bool misses = !strcmp(name, "-misses");
    if (!misses && strcmp(name, "s") != 0 && strcmp(name, "es") != 0)
        return false;
    *config =
        cache | operation << 8 |
        (uint64_t)(misses ? PERF_COUNT_HW_CACHE_RESULT_MISS : PERF_COUNT_HW_CACHE_RESULT_ACCESS)
            << 16;
    return true;
}

const char *counter_name_near(const char *name, const char *const *others)
{
    const char *words[64];
    size_t count = 0;
    for (; others && *others && count < 20; others++)
        words[count++] = *others;
    for (size_t i = 0; i < counter_name_count && count + 3 < 64; i++) {
        words[count++] = counter_names[i].name;
        if (counter_names[i].other)
            words[count++] = counter_names[i].other;
    }
    words[count] = NULL;
    return nearest_word(name, words);
}
