// SPDX-License-Identifier: MIT
// Damaged tables of Go programs: nothing may be read outside of them, and every search must end.
// Small ones of each layout, and that of an installed program, if there is one.
//
//   fuzz_gotable [seconds [seed]]

#include "../random.h"
#include "base/gotable.h"
#include "make_gotable.h"
#include "symbol/object.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static size_t sum; // of what was found: so that nothing is left out by the compiler

static void ask(const struct gotable *table, uint64_t pc)
{
    struct gotable_function function;
    int32_t value;
    if (!gotable_find(table, pc, &function))
        return;
    const char *name = gotable_name(table, function.name);
    sum += name ? strlen(name) : 0;
    sum += gotable_is_named(table, function.name, "main.second");
    const uint32_t lists[] = {function.stack_list, function.line_list, function.inline_list,
                              function.file_list};
    for (unsigned i = 0; i < 4; i++)
        if (gotable_value(table, &function, lists[i], pc, &value)) {
            const char *file = gotable_file(table, &function, value);
            sum += file ? strlen(file) : 0;
        }
}

struct sample {
    unsigned char *bytes;
    size_t size;
};

static void damage(const struct sample *sample, unsigned char *bytes, bool header)
{
    static const uint64_t nasty[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, UINT64_MAX};
    size_t reach = header && sample->size > 96 ? 96 : sample->size;
    size_t at = next_random() % reach, width = (size_t)1 << next_random() % 4;
    uint64_t value = next_random() % 2 ? nasty[next_random() % 8] : next_random();
    if (width > sample->size - at)
        width = 1;
    memcpy(bytes + at, &value, width);
}

static void examine(const struct sample *sample)
{
    // Its own block, cut anywhere: what lies behind it is poisoned.
    size_t size = next_random() % 8 ? sample->size : next_random() % (sample->size + 1);
    unsigned char *bytes = malloc(size ? size : 1);
    struct sample cut = {bytes, size};
    if (!bytes)
        abort();
    memcpy(bytes, sample->bytes, size);
    unsigned changes = (unsigned)(next_random() % 6);
    for (unsigned i = 0; i < changes && size; i++)
        damage(&cut, bytes, next_random() % 2);
    struct gotable table;
    if (gotable_open(&table, bytes, size)) {
        for (uint64_t pc = 0; pc < MADE_TEXT + MADE_END + 8; pc += 5)
            ask(&table, pc);
        for (unsigned i = 0; i < 64; i++)
            ask(&table, next_random() >> (next_random() % 64));
    }
    free(bytes);
}

static bool load(struct sample *sample, const char *path)
{
    struct object object;
    GElf_Shdr header;
    if (object_open(&object, path) != 0)
        return false;
    Elf_Scn *section = object_section(&object, ".gopclntab", &header);
    Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
    if (data && data->d_size) {
        sample->size = data->d_size;
        sample->bytes = malloc(data->d_size);
        if (!sample->bytes)
            abort();
        memcpy(sample->bytes, data->d_buf, data->d_size);
    }
    object_close(&object);
    return sample->bytes != NULL;
}

static void on_hang(int signal)
{
    static const char words[] = "fuzz_gotable: a search does not end\n";
    (void)signal;
    if (write(2, words, sizeof words - 1) < 0)
        _exit(1);
    abort();
}

int main(int count, char **arguments)
{
    struct sample samples[5] = {0};
    unsigned sample_count = 0;
    for (; sample_count < 4; sample_count++) {
        samples[sample_count].bytes = malloc(MADE_BYTES);
        if (!samples[sample_count].bytes)
            abort();
        samples[sample_count].size =
            make_gotable((enum gotable_layout)sample_count, samples[sample_count].bytes);
    }
    if (load(&samples[4], "/usr/bin/gron") || load(&samples[4], "/usr/bin/fzf"))
        sample_count++;
    signal(SIGALRM, on_hang);
    time_t end = time(NULL) + (count > 1 ? atoi(arguments[1]) : 3);
    uint64_t runs = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
    for (; time(NULL) < end; runs++) {
        random_state = (runs + 1) * UINT64_C(0x9e3779b97f4a7c15);
        alarm(20);
        examine(&samples[runs % 64 ? next_random() % 4 : next_random() % sample_count]);
    }
    alarm(0);
    printf("%llu damaged tables, no crash (%zu)\n", (unsigned long long)runs, sum % 10);
    for (unsigned i = 0; i < sample_count; i++)
        free(samples[i].bytes);
    return 0;
}
