// SPDX-License-Identifier: MIT
// Records of the kernel's rings, with any stack and any registers in them, and files that are to be
// mirrored: nothing is read outside of them, and each walk ends.

#include "outside/elf_file.h"
#include "outside/foreign_walk.h"
#include "outside/frame_index.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_file(const uint8_t *data, size_t size)
{
    struct elf_file file;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return;
    struct frame_index index = {.count = 0};
    if (write(fd, data, size) == (ssize_t)size) {
        elf_file_read(&file, fd);
        frame_index_read(&index, &file, fd);
    }
    free(index.entries);
    close(fd);
}

// Walks lead through the code of this program.
static const struct space *own_space(void)
{
    static struct space space;
    if (!space.count)
        space_read(&space, getpid());
    return &space;
}

static void walk(const struct perf_record *sample)
{
    static struct foreign_path path;
    const struct space *space = own_space();
    struct perf_record found = *sample;
    foreign_walk(&path, sample, space, FOREIGN_WITH_KERNEL);
    // The same as if it had interrupted a function of ours.
    found.has_registers = RECORD_WIDE;
    found.registers[UNWIND_REGISTERS - 1] =
        (uintptr_t)LLVMFuzzerTestOneInput + sample->stack_bytes % 64;
    foreign_walk(&path, &found, space, FOREIGN_WITHOUT_KERNEL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t words[128];
    struct perf_record record;
    if (size && *data == 0x7f)
        read_file(data, size);
    if (size < RECORD_HEAD || size > sizeof words)
        return 0;
    memcpy(words, data, size);
    const size_t whole = size & ~(size_t)7;
    const uint16_t length = (uint16_t)whole;
    memcpy((char *)words + 6, &length, sizeof length);
    if (record_read(&record, words, whole) && record.kind == RECORD_SAMPLE)
        walk(&record);
    return 0;
}
