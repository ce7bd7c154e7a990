// SPDX-License-Identifier: MIT
// Damaged programs must give notes, never a crash or a hang.
//
//   fuzz_elf SECONDS          mutates programs that it compiles first; the same mutations each time
//   fuzz_elf FILE...          just these files
// or, with -DWITH_LIBFUZZER and clang's -fsanitize=fuzzer, an ordinary libFuzzer target.

#include "../random.h"
#include "make_gotable.h"
#include "symbol/symbol.h"
#include <fcntl.h>
#include <gelf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int memory_file = -1;

static void look_at(const char *path, size_t size)
{
    struct profile_module modules[MODULE_FIRST_FILE + 1] = {0};
    modules[MODULE_FIRST_FILE].path = (char *)path;
    struct profile profile = {.module_count = MODULE_FIRST_FILE + 1, .modules = modules};
    struct symbols_options options = {.inlines = true};
    struct symbols *symbols = symbols_new(&profile, &options);
    if (!symbols)
        abort();
    size_t step = size / 256 + 1;
    for (size_t offset = 0; offset < size; offset += step)
        symbols_want(symbols, 0, place_make(MODULE_FIRST_FILE, offset));
    symbols_want(symbols, 0, place_make(MODULE_FIRST_FILE, PLACE_OFFSET_UNKNOWN));
    symbols_resolve(symbols);
    for (size_t offset = 0; offset < size; offset += step) {
        place_t place = place_make(MODULE_FIRST_FILE, offset);
        const struct symbol *symbol = symbols_at(symbols, 0, place);
        for (unsigned i = 0; i < symbol->count; i++)
            if (!symbol->frames[i].function)
                abort();
        if (symbol->count == 0)
            abort();
    }
    symbols_free(symbols);
}

static void examine(const uint8_t *data, size_t size)
{
    if (memory_file < 0)
        memory_file = memfd_create("damaged", MFD_CLOEXEC);
    if (memory_file < 0 || ftruncate(memory_file, 0) != 0 ||
        pwrite(memory_file, data, size, 0) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory_file);
    look_at(path, size);
}

#ifdef WITH_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    examine(data, size);
    return 0;
}
#else

struct sample {
    uint8_t *data;
    size_t size;
    // Parts worth damaging: headers, and the sections that we read.
    struct {
        size_t start, size;
    } parts[64];
    unsigned part_count;
};

static void add_part(struct sample *sample, size_t start, size_t size)
{
    if (sample->part_count < 64 && start < sample->size && size > 0) {
        sample->parts[sample->part_count].start = start;
        sample->parts[sample->part_count].size =
            size < sample->size - start ? size : sample->size - start;
        sample->part_count++;
    }
}

static void find_parts(struct sample *sample)
{
    elf_version(EV_CURRENT);
    Elf *elf = elf_memory((char *)sample->data, sample->size);
    GElf_Ehdr header;
    if (!elf || !gelf_getehdr(elf, &header))
        abort();
    add_part(sample, 0, sizeof(Elf64_Ehdr));
    add_part(sample, header.e_phoff, (size_t)header.e_phnum * header.e_phentsize);
    add_part(sample, header.e_shoff, (size_t)header.e_shnum * header.e_shentsize);
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr part;
        const char *name =
            gelf_getshdr(section, &part) ? elf_strptr(elf, header.e_shstrndx, part.sh_name) : NULL;
        if (name && part.sh_type != SHT_NOBITS && strcmp(name, ".text") != 0 &&
            strcmp(name, ".comment") != 0)
            add_part(sample, part.sh_offset, part.sh_size);
    }
    elf_end(elf);
}

static void load(struct sample *sample, const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0)
        abort();
    sample->size = (size_t)status.st_size;
    sample->data = malloc(sample->size);
    if (!sample->data || fread(sample->data, 1, sample->size, file) != sample->size)
        abort();
    fclose(file);
}

static size_t mutate(const struct sample *sample, uint8_t *data)
{
    static const uint64_t nasty[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, UINT64_MAX};
    memcpy(data, sample->data, sample->size);
    unsigned changes = 1 + (unsigned)(next_random() % 8);
    for (unsigned i = 0; i < changes; i++) {
        unsigned part = (unsigned)(next_random() % sample->part_count);
        size_t at = sample->parts[part].start + next_random() % sample->parts[part].size;
        uint64_t value = nasty[next_random() % 8];
        size_t width = (size_t)1 << next_random() % 4;
        if (width > sample->size - at)
            width = 1;
        if (next_random() % 2)
            memcpy(data + at, &value, width);
        else
            data[at] = (uint8_t)next_random();
    }
    return next_random() % 16 ? sample->size : next_random() % sample->size;
}

static uint64_t current;

static void on_hang(int signal)
{
    (void)signal;
    fprintf(stderr, "fuzz_elf: mutation %llu hangs\n", (unsigned long long)current);
    abort();
}

extern void __asan_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void on_death(void)
{
    fprintf(stderr, "fuzz_elf: mutation %llu\n", (unsigned long long)current);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Go's own table of functions, where the program has its code.
static void write_table(const char *folder)
{
    unsigned char bytes[MADE_BYTES];
    char path[64];
    size_t size = make_gotable(GOTABLE_1_20, bytes);
    snprintf(path, sizeof path, "%s/table", folder);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static unsigned make_samples(struct sample *samples, unsigned limit)
{
    static const char script[] =
        "set -e; cd \"$FOLDER\"; set -- " SYMBOL_TEST_SOURCES "/inlines.c " SYMBOL_TEST_SOURCES
        "/main.c; gcc -O2 -g \"$@\" -o 0; gcc -O2 -g -gdwarf-4 -no-pie \"$@\" -o 1; gcc -O2 -g "
        "-gz=zlib \"$@\" -o 2; strip -o 3 0; cp 3 4; objcopy --only-keep-debug 0 mini; strip "
        "--strip-debug mini; if xz -kf mini; then objcopy --add-section .gnu_debugdata=mini.xz 4; "
        "fi; objcopy --add-section .gopclntab=table 3 5";
    char folder[] = "/tmp/cairn-fuzz-XXXXXX", path[64];
    if (!mkdtemp(folder))
        abort();
    setenv("FOLDER", folder, 1);
    write_table(folder);
    if (system(script) != 0)
        abort();
    unsigned count = 0;
    for (; count < limit; count++) {
        snprintf(path, sizeof path, "%s/%u", folder, count);
        load(&samples[count], path);
        find_parts(&samples[count]);
    }
    if (system("rm -rf \"$FOLDER\"") != 0)
        abort();
    return count;
}

int main(int count, char **arguments)
{
    signal(SIGALRM, on_hang);
    if (__asan_set_death_callback)
        __asan_set_death_callback(on_death);
    double seconds = count > 1 ? atof(arguments[1]) : 5;
    if (seconds <= 0) {
        for (int i = 1; i < count; i++) {
            struct sample sample = {0};
            load(&sample, arguments[i]);
            examine(sample.data, sample.size);
            free(sample.data);
        }
        return 0;
    }
    uint64_t first = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
    struct sample samples[6] = {0};
    unsigned sample_count = make_samples(samples, 6);
    double end = now() + seconds;
    for (current = first; now() < end; current++) {
        const struct sample *sample = &samples[current % sample_count];
        uint8_t *data = malloc(sample->size);
        if (!data)
            abort();
        random_state = (current + 1) * UINT64_C(0x9e3779b97f4a7c15);
        size_t size = mutate(sample, data);
        if (getenv("FUZZ_KEEP")) {
            FILE *file = fopen(getenv("FUZZ_KEEP"), "wb");
            if (file && fwrite(data, 1, size, file) == size)
                fclose(file);
        }
        alarm(20);
        examine(data, size);
        alarm(0);
        free(data);
    }
    printf("%llu damaged programs, no crash\n", (unsigned long long)(current - first));
    for (unsigned i = 0; i < sample_count; i++)
        free(samples[i].data);
    return 0;
}
#endif
