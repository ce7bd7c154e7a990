// SPDX-License-Identifier: MIT
// Counts allocations, independently of cairn: preloaded, it stands between the program and libc,
// and behind cairn's agent where that is loaded too. The sums of all processes are in the file that
// COUNT_ALLOCS names: allocations, bytes allocated, frees. The tool itself does not count.

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

void *memalign(size_t alignment, size_t size);
void *pvalloc(size_t size);

struct sums {
    _Atomic uint64_t blocks, bytes, frees;
};

static struct sums early; // before the file is there
static struct sums *sums = &early;
static int begun;

static int is_tool(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *name = strrchr(path, '/');
    return name && !strcmp(name, "/cairn");
}

__attribute__((constructor)) static void begin(void)
{
    begun = 1;
    const char *path = is_tool() ? NULL : getenv("COUNT_ALLOCS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (page == MAP_FAILED)
        return;
    struct sums *shared = page;
    shared->blocks += early.blocks;
    shared->bytes += early.bytes;
    shared->frees += early.frees;
    sums = shared;
}

// What the agent does before it begins is none of the program's doing; then it hides its variable.
// At first libc itself has none.
static int counts(void)
{
    return begun ? sums != &early : environ && !getenv("CAIRN_SESSION");
}

static void *count(void *block, size_t size)
{
    if (block && counts()) {
        sums->blocks++;
        sums->bytes += size;
    }
    return block;
}

static struct {
    __typeof__(&malloc) malloc;
    __typeof__(&calloc) calloc;
    __typeof__(&realloc) realloc;
    __typeof__(&free) free;
    __typeof__(&posix_memalign) posix_memalign;
    __typeof__(&aligned_alloc) aligned_alloc;
    __typeof__(&memalign) memalign;
    __typeof__(&valloc) valloc;
    __typeof__(&pvalloc) pvalloc;
} next;

#define FIND(name) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name)

// All at once: later, dlsym() may free what it kept of an error.
static void find(void)
{
    FIND(malloc);
    FIND(calloc);
    FIND(realloc);
    FIND(free);
    FIND(posix_memalign);
    FIND(aligned_alloc);
    FIND(memalign);
    FIND(valloc);
    FIND(pvalloc);
}

#define REAL(name) ((next.name ? (void)0 : find()), next.name)

SEEN void *malloc(size_t size)
{
    return count(REAL(malloc)(size), size);
}

SEEN void *calloc(size_t number, size_t size)
{
    return count(REAL(calloc)(number, size), number * size);
}

SEEN void *realloc(void *block, size_t size)
{
    void *moved = REAL(realloc)(block, size);
    if (block && (moved || !size) && counts())
        sums->frees++;
    return count(moved, size);
}

SEEN void free(void *block)
{
    if (block && counts())
        sums->frees++;
    REAL(free)(block);
}

SEEN int posix_memalign(void **block, size_t alignment, size_t size)
{
    int error = REAL(posix_memalign)(block, alignment, size);
    if (!error)
        count(*block, size);
    return error;
}

SEEN void *aligned_alloc(size_t alignment, size_t size)
{
    return count(REAL(aligned_alloc)(alignment, size), size);
}

SEEN void *memalign(size_t alignment, size_t size)
{
    return count(REAL(memalign)(alignment, size), size);
}

SEEN void *valloc(size_t size)
{
    return count(REAL(valloc)(size), size);
}

SEEN void *pvalloc(size_t size)
{
    return count(REAL(pvalloc)(size), size);
}
