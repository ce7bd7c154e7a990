// SPDX-License-Identifier: MIT
// The functions by which programs allocate. Their work is done by the next definition in line: the
// program's own allocator, a preloaded one, or libc's.
//
// operator new and strdup() come through malloc(), by the same search for symbols.

#include "agent/interpose/events/alloc.h"
#include "agent/session/agent.h"
#include "agent/thread/counted.h"
#include "loadmap/lookup.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *memalign(size_t alignment, size_t size);
void *pvalloc(size_t size);

static struct {
    __typeof__(&malloc) malloc;
    __typeof__(&calloc) calloc;
    __typeof__(&realloc) realloc;
    __typeof__(&free) free;
    __typeof__(&posix_memalign) posix_memalign;
    __typeof__(&aligned_alloc) aligned_alloc;
    __typeof__(&memalign) memalign;
    __typeof__(&valloc) valloc, pvalloc;
    bool ready;
} real;

// Memory for dlsym() itself, on the way to the real ones; never given back.
static struct {
    _Alignas(16) char bytes[4096];
    size_t used;
    bool open;
} before;

static void *take_before(size_t size)
{
    const size_t rounded = (size + 15) & ~(size_t)15;
    if (size > sizeof before.bytes || before.used + rounded > sizeof before.bytes) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = before.bytes + before.used;
    before.used += rounded;
    return block;
}

static bool is_from_before(const void *block)
{
    return (uintptr_t)block - (uintptr_t)before.bytes < sizeof before.bytes;
}

static void find_all(void *(*find)(const char *name))
{
    real.malloc = (__typeof__(real.malloc))find("malloc");
    real.calloc = (__typeof__(real.calloc))find("calloc");
    real.realloc = (__typeof__(real.realloc))find("realloc");
    real.free = (__typeof__(real.free))find("free");
    real.posix_memalign = (__typeof__(real.posix_memalign))find("posix_memalign");
    real.aligned_alloc = (__typeof__(real.aligned_alloc))find("aligned_alloc");
    real.memalign = (__typeof__(real.memalign))find("memalign");
    real.valloc = (__typeof__(real.valloc))find("valloc");
    real.pvalloc = (__typeof__(real.pvalloc))find("pvalloc");
    real.ready = real.malloc && real.calloc && real.realloc && real.free;
}

bool alloc_work_by(void *(*find)(const char *name))
{
    find_all(find);
    return real.ready;
}

static void *find_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

// The loader calls first, long before there are threads.
static __attribute__((noinline, cold)) bool find_real(void)
{
    if (before.open)
        return false;
    const int saved_errno = errno;
    before.open = true;
    find_all(find_next);
    before.open = false;
    errno = saved_errno;
    return true;
}

static inline bool is_ready(void)
{
    return __builtin_expect(real.ready, 1) || find_real();
}

// An allocator may do the work of one of these by another, which leads here again: the block is
// counted once, by the function that the program called. The frame of that; 0: none.
static __thread uintptr_t outer;

// A frame that a longjmp has left behind does not count, as far as that can be seen.
static inline bool is_inner(const void *frame)
{
    return __builtin_expect(outer != 0, 0) && (uintptr_t)frame < outer;
}

#define FRAME __builtin_frame_address(0)

static bool probed; // malloc() was called before blocks were counted

// The rest of a function that allocates by `call`.
#define ALLOCATE(call, size)                                                                       \
    ({                                                                                             \
        const bool inner = is_inner(FRAME);                                                        \
        if (!inner)                                                                                \
            outer = (uintptr_t)FRAME;                                                              \
        void *allocated = (call);                                                                  \
        if (!inner) {                                                                              \
            outer = 0;                                                                             \
            const enum counted_mode mode = counted_mode(LIVE_EVENT_ALLOC);                         \
            if (allocated && mode)                                                                 \
                alloc_given(mode, allocated, (size), FRAME);                                       \
        }                                                                                          \
        allocated;                                                                                 \
    })

INTERPOSED void *malloc(size_t size)
{
    if (!is_ready())
        return take_before(size);
    void *block = real.malloc(size);
    const enum counted_mode mode = counted_mode(LIVE_EVENT_ALLOC);
    if (block && mode) {
        if (!is_inner(FRAME))
            alloc_given(mode, block, size, FRAME);
    } else {
        probed = true;
    }
    return block;
}

INTERPOSED void *calloc(size_t count, size_t size)
{
    if (!is_ready()) // and zeroed it is
        return take_before(count * size);
    return ALLOCATE(real.calloc(count, size), count * size);
}

INTERPOSED void free(void *block)
{
    if (__builtin_expect(is_from_before(block), 0) || !is_ready())
        return;
    const enum counted_mode mode = counted_mode(LIVE_EVENT_ALLOC);
    if (block && mode && !is_inner(FRAME) && alloc_may_know(mode, block))
        alloc_freed(alloc_take(block, FRAME), FRAME);
    real.free(block);
}

static void *move_from_before(const void *block, size_t size)
{
    char *moved = malloc(size);
    const char *end = before.bytes + sizeof before.bytes, *from = block;
    for (size_t i = 0; moved && i < size && from + i < end; i++)
        moved[i] = from[i];
    return moved;
}

static inline __attribute__((always_inline)) void *reallocate(void *block, size_t size,
                                                              const void *frame)
{
    if (__builtin_expect(is_from_before(block), 0) || !is_ready())
        return move_from_before(block, size);
    const enum counted_mode mode = counted_mode(LIVE_EVENT_ALLOC);
    if (!mode || is_inner(frame))
        return real.realloc(block, size);
    // Taken out first: as soon as it is moved, another thread may have the old one.
    struct block_taken taken = {.known = false};
    const bool may_be_known = block && alloc_may_know(mode, block);
    if (may_be_known)
        taken = alloc_take(block, frame);
    outer = (uintptr_t)frame;
    void *moved = real.realloc(block, size);
    outer = 0;
    if (!moved && size) {
        alloc_put_back(block, taken, frame);
        return NULL;
    }
    if (may_be_known)
        alloc_freed(taken, frame);
    if (moved)
        alloc_given(mode, moved, size, frame);
    return moved;
}

INTERPOSED void *realloc(void *block, size_t size)
{
    return reallocate(block, size, FRAME);
}

INTERPOSED void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return reallocate(block, bytes, FRAME);
}

INTERPOSED int posix_memalign(void **block, size_t alignment, size_t size)
{
    if (!is_ready())
        return ENOMEM;
    int error = 0;
    ALLOCATE((error = real.posix_memalign(block, alignment, size)) ? NULL : *block, size);
    return error;
}

INTERPOSED void *aligned_alloc(size_t alignment, size_t size)
{
    return is_ready() ? ALLOCATE(real.aligned_alloc(alignment, size), size) : NULL;
}

INTERPOSED void *memalign(size_t alignment, size_t size)
{
    return is_ready() ? ALLOCATE(real.memalign(alignment, size), size) : NULL;
}

INTERPOSED void *valloc(size_t size)
{
    return is_ready() ? ALLOCATE(real.valloc(size), size) : NULL;
}

INTERPOSED void *pvalloc(size_t size)
{
    return is_ready() ? ALLOCATE(real.pvalloc(size), size) : NULL;
}

// Where ours are, whatever the program's own names lead to: programs that are not independent of
// their position have an entry of their PLT stand for a function.
#define OURS(name)                                                                                 \
    extern __typeof__(name) our_##name                                                             \
        __attribute__((alias(#name), visibility("hidden"), copy(name)))

OURS(malloc);
OURS(calloc);
OURS(realloc);
OURS(free);
OURS(posix_memalign);
OURS(aligned_alloc);
OURS(memalign);
OURS(valloc);
OURS(pvalloc);
OURS(reallocarray);

static unsigned copy(uintptr_t *to, unsigned most, const uintptr_t *from, unsigned count)
{
    const unsigned copied = count < most ? count : most;
    memcpy(to, from, copied * sizeof *to);
    return copied;
}

const char *const alloc_names[ALLOC_FUNCTIONS] = {
    "malloc",        "calloc",   "realloc", "free",    "posix_memalign",
    "aligned_alloc", "memalign", "valloc",  "pvalloc", "reallocarray",
};

unsigned alloc_functions(uintptr_t *functions, unsigned most)
{
    const uintptr_t all[ALLOC_FUNCTIONS] = {
        (uintptr_t)our_malloc,       (uintptr_t)our_calloc,         (uintptr_t)our_realloc,
        (uintptr_t)our_free,         (uintptr_t)our_posix_memalign, (uintptr_t)our_aligned_alloc,
        (uintptr_t)our_memalign,     (uintptr_t)our_valloc,         (uintptr_t)our_pvalloc,
        (uintptr_t)our_reallocarray,
    };
    return copy(functions, most, all, sizeof all / sizeof *all);
}

unsigned alloc_real_functions(uintptr_t *functions, unsigned most)
{
    if (!is_ready())
        return 0;
    const uintptr_t all[] = {
        (uintptr_t)real.malloc,   (uintptr_t)real.calloc,         (uintptr_t)real.realloc,
        (uintptr_t)real.free,     (uintptr_t)real.posix_memalign, (uintptr_t)real.aligned_alloc,
        (uintptr_t)real.memalign, (uintptr_t)real.valloc,         (uintptr_t)real.pvalloc,
    };
    return copy(functions, most, all, sizeof all / sizeof *all);
}

bool alloc_reaches_us(void)
{
    __typeof__(&malloc) programs_malloc = (__typeof__(&malloc))dlsym(RTLD_DEFAULT, "malloc");
    __typeof__(&free) programs_free = (__typeof__(&free))dlsym(RTLD_DEFAULT, "free");
    probed = false;
    // The program's own may not be ready to be called.
    if (programs_malloc && programs_free && !lookup_in_executable("malloc"))
        programs_free(programs_malloc(1));
    return probed;
}

bool alloc_misses_new(void)
{
    Dl_info allocator, new;
    const void *operator_new = lookup_symbol(RTLD_NEXT, "_Znwm");
    return operator_new && is_ready() && dladdr((const void *)real.malloc, &allocator) &&
           dladdr(operator_new, &new) && allocator.dli_fbase == new.dli_fbase;
}
