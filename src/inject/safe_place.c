// SPDX-License-Identifier: MIT
#include "inject/safe_place.h"
#include "inject/process.h"
#include <elfutils/libdwfl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define MOST_FRAMES 4096

struct safe_place {
    Dwfl *dwfl;
    bool attached;
    unsigned frames;
    bool unsafe;
    pid_t pid;
};

// No debug information is looked for: the symbols of the files are enough.
static int find_nothing(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                        const char *file, const char *link, GElf_Word check, char **found)
{
    (void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)check,
        (void)found;
    return -1;
}

struct safe_place *safe_place_open(pid_t pid)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = find_nothing};
    struct safe_place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->pid = pid;
    place->dwfl = dwfl_begin(&callbacks);
    place->attached = place->dwfl && !dwfl_linux_proc_report(place->dwfl, pid) &&
                      !dwfl_report_end(place->dwfl, NULL, NULL) &&
                      !dwfl_linux_proc_attach(place->dwfl, pid, true);
    return place;
}

void safe_place_close(struct safe_place *place)
{
    if (!place)
        return;
    if (place->dwfl)
        dwfl_end(place->dwfl);
    free(place);
}

static bool is_named(const char *module, const char *prefix)
{
    const char *slash = module ? strrchr(module, '/') : NULL;
    return slash && !strncmp(slash + 1, prefix, strlen(prefix));
}

// The stub that the marker leads to: its code says so of itself (marker_x86_64.S).
static bool is_marker(const struct safe_place *place, uint64_t pc)
{
    static const unsigned char signature[8] = {0x63, 0x61, 0x69, 0x72, 0x6e, 0x90, 0x90, 0xcc};
    unsigned char found[8];
    return process_read(place->pid, (pc & -UINT64_C(256)) + 8, found, sizeof found) &&
           !memcmp(found, signature, sizeof found);
}

// One that the program calls in place of libc's, as read(), and that waits for that. Other
// functions do its own work, before and afterwards.
static bool is_interposed(Dwfl_Module *module, uint64_t pc)
{
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name = dwfl_module_addrinfo(module, pc, &offset, &symbol, NULL, NULL, NULL);
    return name && GELF_ST_BIND(symbol.st_info) == STB_GLOBAL && offset < symbol.st_size;
}

// The loader, and code of the agent's: a handler or an event that is at work.
static bool is_taboo(const struct safe_place *place, Dwfl_Module *module, const char *file,
                     uint64_t pc, bool returns)
{
    return is_named(file, "ld-linux") || is_named(file, "ld-2.") ||
           (is_named(file, "libcairn") &&
            !(returns && (is_marker(place, pc) || is_interposed(module, pc - 1))));
}

// Names end with NULL.
static bool is_one_of(const char *function, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(function, *names))
            return true;
    return false;
}

static bool begins_as_one_of(const char *function, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (!strncmp(function, *prefixes, strlen(*prefixes)))
            return true;
    return false;
}

// Libraries that are allocators: some of their functions jump into others that have any name, so
// no symbol tells them apart. One that is not listed is known by the names that programs call.
static bool is_allocator(const char *module)
{
    static const char *const names[] = {"libjemalloc", "libtcmalloc", "libmimalloc",
                                        "libsnmalloc", "libhoard",    "libtbbmalloc",
                                        "libscalloc",  "librpmalloc", NULL};
    const char *slash = module ? strrchr(module, '/') : NULL;
    return slash && begins_as_one_of(slash + 1, names);
}

// The names that any module calls an allocator by, one of its own as well.
static bool allocates(const char *function)
{
    static const char *const names[] = {"malloc",         "free",
                                        "calloc",         "realloc",
                                        "reallocarray",   "memalign",
                                        "valloc",         "pvalloc",
                                        "posix_memalign", "aligned_alloc",
                                        "cfree",          "je_malloc",
                                        "je_free",        "je_calloc",
                                        "je_realloc",     NULL},
                             *const operators[] = {"_Znw", "_Zna", "_Zdl", "_Zda", NULL};
    return is_one_of(function, names) || begins_as_one_of(function, operators);
}

// Functions of libc that hold a lock of the allocator's, of the loader's or of threads.
static bool is_unsafe_in_libc(const char *function)
{
    static const char *const names[] = {"fork",
                                        "_Fork",
                                        "__fork",
                                        "vfork",
                                        "exit",
                                        "quick_exit",
                                        "sysmalloc",
                                        "systrim",
                                        "pthread_create",
                                        "pthread_exit",
                                        "pthread_getattr_np",
                                        "thrd_create",
                                        "allocate_stack",
                                        NULL},
                             *const prefixes[] = {"dl",
                                                  "_dl_",
                                                  "__dl_",
                                                  "malloc",
                                                  "_int_",
                                                  "__libc_dl",
                                                  "tcache",
                                                  "ptmalloc",
                                                  "arena_get",
                                                  "heap_trim",
                                                  "__malloc",
                                                  "__libc_malloc",
                                                  "__libc_calloc",
                                                  "__libc_free",
                                                  "__libc_realloc",
                                                  "__libc_memalign",
                                                  "__libc_fork",
                                                  "__run_exit",
                                                  "__run_fork",
                                                  "__run_prefork",
                                                  "__run_postfork",
                                                  "__cxa_",
                                                  "__register_atfork",
                                                  "__libc_thread_freeres",
                                                  "__nptl_dealloc",
                                                  "__nptl_free",
                                                  "__pthread_create",
                                                  "__libc_freeres",
                                                  NULL};
    return is_one_of(function, names) || begins_as_one_of(function, prefixes);
}

static bool is_unsafe(const char *module, const char *function)
{
    if (is_allocator(module))
        return true;
    if (!function)
        return false;
    const bool of_libc = is_named(module, "libc.so.6") || is_named(module, "libc-2.") ||
                         is_named(module, "libpthread");
    return allocates(function) || (of_libc && is_unsafe_in_libc(function));
}

// libdw takes an address above all modules for one of the last. Walks that end in a coroutine's first
// frame meet such addresses: words of the stack that are none.
static Dwfl_Module *module_of(const struct safe_place *place, uint64_t pc)
{
    Dwarf_Addr start = 0, end = 0;
    Dwfl_Module *module = dwfl_addrmodule(place->dwfl, pc);
    if (module)
        dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL);
    return pc >= start && pc < end ? module : NULL;
}

static int look_at_frame(Dwfl_Frame *frame, void *argument)
{
    struct safe_place *place = argument;
    Dwarf_Addr pc;
    bool activation;
    if (!dwfl_frame_pc(frame, &pc, &activation) || place->frames++ > MOST_FRAMES)
        return DWARF_CB_ABORT;
    Dwfl_Module *module = module_of(place, pc - !activation);
    const char *file =
        module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    const char *function = module ? dwfl_module_addrname(module, pc - !activation) : NULL;
    place->unsafe = is_taboo(place, module, file, pc, !activation) || is_unsafe(file, function);
    return place->unsafe ? DWARF_CB_ABORT : DWARF_CB_OK;
}

// Calls in which threads wait for something to come from outside. Waits for a lock are others: that
// lock may be an allocator's, whose data are then half changed.
static bool is_idle(const struct stopped *stopped)
{
    static const long idle[] = {
        SYS_epoll_wait,      SYS_epoll_pwait,  SYS_poll,      SYS_ppoll,
        SYS_select,          SYS_pselect6,     SYS_nanosleep, SYS_clock_nanosleep,
        SYS_accept,          SYS_accept4,      SYS_recvfrom,  SYS_recvmsg,
        SYS_wait4,           SYS_waitid,       SYS_pause,     SYS_rt_sigsuspend,
        SYS_rt_sigtimedwait, SYS_io_getevents, SYS_read};
    if (!stopped->in_call)
        return false;
    if (stopped->number == SYS_futex)
        return (stopped->registers.rsi & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (stopped->number == idle[i])
            return true;
    return false;
}

enum safety safe_place_judge(struct safe_place *place, const struct stopped *stopped)
{
    place->frames = 0;
    place->unsafe = false;
    const int walked = place->attached
                           ? dwfl_getthread_frames(place->dwfl, stopped->tid, look_at_frame, place)
                           : -1;
    if (place->unsafe)
        return PLACE_UNSAFE;
    return walked == 0 || is_idle(stopped) ? PLACE_SAFE : PLACE_UNKNOWN;
}
