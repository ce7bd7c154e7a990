// SPDX-License-Identifier: MIT
#include "outside/mirror.h"
#include "loadmap/image.h"
#include "outside/elf_file.h"
#include "outside/frame_index.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
#define LARGEST (UINT64_C(4) << 30) // of a file that is mirrored
#define MIRRORS_MOST (MODULE_PYTHON - MODULE_FIRST_FILE)

struct goer { // the table of a Go program
    uintptr_t base;
    struct gotable table;
};

static struct {
    struct mirror **all; // in the order of their ids, so of their addresses too
    unsigned count;
    uintptr_t next; // free address
    struct goer *goers;
    unsigned goer_count;
} mirrors = {.next = MIRROR_REGION};

static bool grow(void **list, size_t count, size_t size)
{
    if (count & (count - 1)) // room for the next power of two
        return true;
    void *more = realloc(*list, (count ? 2 * count : 1) * size);
    if (more)
        *list = more;
    return more != NULL;
}

// A file may be cut while it is mapped: what is gone reads as zero, as if its tables were damaged.
static void replace_page(int signal, siginfo_t *info, void *context)
{
    (void)context;
    const uintptr_t address = (uintptr_t)info->si_addr;
    const int kept = errno;
    if (address - MIRROR_REGION < MIRROR_REGION_BYTES &&
        mmap((void *)(address & ~(PAGE - 1)), PAGE, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
        errno = kept;
        return;
    }
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal, &standard, NULL); // the same instruction faults again
}

static void watch_for_cuts(void)
{
    static bool watched;
    struct sigaction action = {.sa_sigaction = replace_page, .sa_flags = SA_SIGINFO};
    if (!watched)
        sigaction(SIGBUS, &action, NULL);
    watched = true;
}

// Zeroes, with a page that cannot be read behind them.
static void *reserve(uint64_t bytes)
{
    void *memory = mmap((void *)mirrors.next, bytes, PROT_READ,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED || mirrors.next + bytes + PAGE > MIRROR_REGION + MIRROR_REGION_BYTES)
        return NULL;
    mirrors.next += ((bytes + PAGE - 1) & ~(PAGE - 1)) + PAGE;
    return memory;
}

void *mirror_stack(size_t bytes)
{
    void *memory = reserve(bytes);
    return memory && !mprotect(memory, bytes, PROT_READ | PROT_WRITE) ? memory : NULL;
}

// The pages in front of the extent are for an index that the linker has not made.
static bool map_segments(struct mirror *mirror, const struct elf_file *file, int fd, size_t front)
{
    const uint64_t low = file->low & ~(PAGE - 1), bytes = file->high - low;
    char *extent = bytes <= LARGEST ? reserve(bytes + front) : NULL;
    if (!extent)
        return false;
    mirror->bias = (uintptr_t)extent + front - low;
    for (unsigned i = 0; i < file->header_count; i++) {
        const Elf64_Phdr *load = &file->headers[i];
        const uint64_t lead = load->p_vaddr & (PAGE - 1);
        if (load->p_type != PT_LOAD || !load->p_filesz)
            continue;
        if (mmap((void *)(mirror->bias + load->p_vaddr - lead), load->p_filesz + lead, PROT_READ,
                 MAP_PRIVATE | MAP_FIXED, fd, (off_t)(load->p_offset - lead)) == MAP_FAILED)
            return false;
    }
    return true;
}

// As the linker writes it for programs that are not static (.eh_frame_hdr). Where the tables are
// unusual it has no entries, and the unwinder looks through them.
struct index_head {
    uint8_t version, section_encoding, count_encoding, entry_encoding;
    uint8_t section[8]; // not aligned
    uint32_t count;
    struct index_entry {
        int32_t function, fde; // from the head on
    } entries[];
};

static size_t index_bytes(const struct frame_index *index)
{
    const size_t bytes = sizeof(struct index_head) + index->count * sizeof(struct index_entry);
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

static void make_index(struct mirror *mirror, const struct elf_file *file,
                       const struct frame_index *index)
{
    struct module_ref *ref = &mirror->ref;
    const uintptr_t section = mirror->bias + file->eh_frame;
    const size_t front = index_bytes(index);
    struct index_head *head = (struct index_head *)(ref->start - front);
    if (!file->eh_frame || file->has_index || mprotect(head, front, PROT_READ | PROT_WRITE))
        return;
    *head = (struct index_head){1, 0x00, 0xff, 0xff, {0}, (uint32_t)index->count};
    memcpy(head->section, &section, sizeof section);
    if (index->count) {
        head->count_encoding = 0x03; // four bytes
        head->entry_encoding = 0x3b; // four bytes with a sign, from the head on
    }
    for (size_t i = 0; i < index->count; i++) {
        const uint64_t function = mirror->bias + index->entries[i].function - (uintptr_t)head;
        const uint64_t fde = mirror->bias + index->entries[i].fde - (uintptr_t)head;
        head->entries[i] = (struct index_entry){(int32_t)function, (int32_t)fde};
    }
    ref->eh_frame_hdr = (const unsigned char *)head;
    ref->tables_start = (uintptr_t)head;
    ref->tables_end = section + file->eh_frame_bytes;
}

// Since Go 1.18 addresses in the table count from the begin of the code, which it names itself in a
// program that lies where it was linked to.
static void find_go_table(const struct mirror *mirror, const struct elf_file *file)
{
    struct goer goer = {.base = mirror->ref.base};
    if (mirror->ref.runtime != RUNTIME_GO ||
        !grow((void **)&mirrors.goers, mirrors.goer_count, sizeof goer))
        return;
    for (unsigned i = 0; i < file->header_count; i++) {
        const Elf64_Phdr *load = &file->headers[i];
        const uintptr_t start = mirror->bias + load->p_vaddr;
        if (load->p_type != PT_LOAD || load->p_flags & PF_X ||
            gotable_search(&goer.table, (const void *)start, load->p_filesz, start) == SIZE_MAX ||
            goer.table.layout < GOTABLE_1_18)
            continue;
        goer.table.text = mirror->bias + (goer.table.text ? goer.table.text : file->text);
        if (goer.table.text < mirror->ref.code_start || goer.table.text >= mirror->ref.code_end)
            continue;
        mirrors.goers[mirrors.goer_count++] = goer;
        return;
    }
}

const struct gotable *mirror_go_table(const struct module_ref *module)
{
    for (unsigned i = 0; i < mirrors.goer_count; i++)
        if (mirrors.goers[i].base == module->base)
            return &mirrors.goers[i].table;
    return NULL;
}

// Only code is translated. Its pages in the file may belong to another segment, too.
static void note_segments(struct mirror *mirror, const struct elf_file *file)
{
    mirror->segments = calloc(file->header_count + 1, sizeof *mirror->segments);
    for (unsigned i = 0; mirror->segments && i < file->header_count; i++)
        if (file->headers[i].p_type == PT_LOAD && file->headers[i].p_flags & PF_X)
            mirror->segments[mirror->segment_count++] =
                (struct mirror_segment){.offset = file->headers[i].p_offset,
                                        .bytes = file->headers[i].p_filesz,
                                        .address = file->headers[i].p_vaddr};
}

static void take_build_id(struct mirror *mirror, const struct image *image)
{
    mirror->build_id_bytes = image->build_id_bytes < MIRROR_BUILD_ID ? image->build_id_bytes : 0;
    memcpy(mirror->build_id, image->build_id, mirror->build_id_bytes);
}

// Without content: an address in it has a place, and nothing else.
static void leave_empty(struct mirror *mirror, const struct elf_file *file)
{
    const uint64_t low = file->low & ~(PAGE - 1);
    const bool fits = file->high > low && file->high - low <= LARGEST;
    void *extent = reserve(fits ? file->high - low : PAGE);
    mirror->ref.base = mirror->ref.start = extent ? (uintptr_t)extent : mirrors.next;
    mirror->ref.end = extent ? mirrors.next - PAGE : mirrors.next;
    mirror->bias = mirror->ref.start - low;
}

static void fill(struct mirror *mirror, const struct elf_file *file, int fd)
{
    struct image image;
    struct frame_index index = {.count = 0};
    const unsigned id = mirror->ref.id;
    note_segments(mirror, file);
    if (file->is_wide && !file->has_index)
        frame_index_read(&index, file, fd);
    if (!file->is_wide || !map_segments(mirror, file, fd, index_bytes(&index))) {
        mirror->is_narrow = file->is_narrow;
        leave_empty(mirror, file);
        free(index.entries);
        return;
    }
    image_from_headers(&image, mirror->bias, file->headers, file->header_count);
    mirror->ref = image.ref;
    mirror->ref.id = id;
    mirror->ref.permanent = 1;
    take_build_id(mirror, &image);
    make_index(mirror, file, &index);
    free(index.entries);
    find_go_table(mirror, file);
}

// The kernel keeps a file open that a process runs, whatever has become of its name.
static int open_file(const struct mirrored_file *file)
{
    char path[64 + PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)file->pid,
             (unsigned long long)file->start, (unsigned long long)file->end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)file->pid, file->path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) // it has ended
        fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    // A volume may have two numbers: that of the file says enough, with its kind.
    if (fd >= 0 &&
        (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_ino != file->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct mirror *new_mirror(const struct mirrored_file *file)
{
    if (mirrors.count == MIRRORS_MOST ||
        !grow((void **)&mirrors.all, mirrors.count, sizeof *mirrors.all))
        return NULL;
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return NULL;
    mirror->ref.id = MODULE_FIRST_FILE + mirrors.count;
    mirror->device = file->device;
    mirror->inode = file->inode;
    mirror->path = strdup(file->path);
    mirrors.all[mirrors.count++] = mirror;
    watch_for_cuts();
    return mirror;
}

static const Elf64_Phdr *vdso_headers(uintptr_t vdso)
{
    return (const Elf64_Phdr *)(vdso + ((const Elf64_Ehdr *)vdso)->e_phoff);
}

// All processes see the same one: a copy of ours will do.
static void fill_from_own_vdso(struct mirror *mirror)
{
    struct image image;
    const uintptr_t own = getauxval(AT_SYSINFO_EHDR);
    struct elf_file empty = {.header_count = 0};
    char *copy = NULL;
    if (own) {
        image_from_headers(&image, own, vdso_headers(own), ((const Elf64_Ehdr *)own)->e_phnum);
        copy = reserve(image.ref.end - own);
    }
    if (!copy || mprotect(copy, image.ref.end - own, PROT_READ | PROT_WRITE)) {
        leave_empty(mirror, &empty);
        return;
    }
    memcpy(copy, (const void *)own, image.ref.end - own);
    image_from_headers(&image, (uintptr_t)copy, vdso_headers((uintptr_t)copy),
                       ((const Elf64_Ehdr *)copy)->e_phnum);
    mirror->bias = (uintptr_t)copy;
    mirror->ref = image.ref;
    mirror->ref.permanent = 1;
    take_build_id(mirror, &image);
    mirror->segments = calloc(1, sizeof *mirror->segments);
    if (mirror->segments)
        mirror->segments[mirror->segment_count++].bytes = image.ref.end - image.ref.start;
}

static const struct mirror *find(const struct mirrored_file *file)
{
    for (unsigned i = 0; i < mirrors.count; i++) {
        const struct mirror *mirror = mirrors.all[i];
        if (mirror->inode == file->inode && mirror->device == file->device && mirror->path &&
            !strcmp(mirror->path, file->path))
            return mirror;
    }
    return NULL;
}

const struct mirror *mirror_of(const struct mirrored_file *file)
{
    const struct mirror *known = find(file);
    if (known || (!file->inode && strcmp(file->path, "[vdso]") != 0))
        return known;
    struct mirror *mirror = new_mirror(file);
    if (!mirror)
        return NULL;
    if (!file->inode) {
        fill_from_own_vdso(mirror);
        mirror->ref.id = MODULE_VDSO;
        return mirror;
    }
    struct elf_file content = {.header_count = 0};
    const int fd = open_file(file);
    if (fd >= 0)
        elf_file_read(&content, fd);
    mirror->is_data = fd >= 0 && !content.is_elf;
    fill(mirror, &content, fd);
    if (fd >= 0)
        close(fd);
    return mirror;
}

bool mirror_shift(const struct mirror *mirror, uint64_t start, uint64_t offset, uintptr_t *shift)
{
    for (unsigned i = 0; i < mirror->segment_count; i++) {
        const struct mirror_segment *segment = &mirror->segments[i];
        const uint64_t lead = segment->offset & (PAGE - 1);
        if (offset + lead < segment->offset ||
            offset - (segment->offset - lead) >= segment->bytes + lead)
            continue;
        *shift =
            mirror->bias + segment->address - lead + (offset - (segment->offset - lead)) - start;
        return true;
    }
    *shift = mirror->ref.start + offset - start;
    return !mirror->segment_count && mirror->ref.start;
}

const struct mirror *mirror_at(uintptr_t address)
{
    unsigned low = 0, high = mirrors.count;
    while (low < high) { // the first that ends behind the address
        const unsigned middle = low + (high - low) / 2;
        if (mirrors.all[middle]->ref.end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct mirror *mirror = low < mirrors.count ? mirrors.all[low] : NULL;
    return mirror && address >= mirror->ref.start && address < mirror->ref.end ? mirror : NULL;
}
