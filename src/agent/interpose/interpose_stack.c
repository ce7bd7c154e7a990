// SPDX-License-Identifier: MIT
// Calls of the program that trackers must know of: libraries that go, and looks at the
// stack.

#include "agent/interpose/dl_interpose.h"
#include "agent/session/real.h"
#include "agent/thread/thread.h"
#include "loadmap/loadmap.h"
#include "patch/sites.h"
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

INTERPOSED int dlclose(void *handle)
{
    if (!agent.armed || trackers_see_unloading())
        return REAL(dlclose)(handle);
    loadmap_before_unload();
    int result = REAL(dlclose)(handle);
    loadmap_after_unload();
    trackers_forget_places();
    return result;
}

// Jumps that leave frames behind: the tracker's state is to be that of where they land.
#define JUMPS(name)                                                                                \
    static __typeof__(&name) real_##name(void)                                                     \
    {                                                                                              \
        return REAL(name);                                                                         \
    }                                                                                              \
    INTERPOSED __attribute__((noreturn, optimize("no-omit-frame-pointer"))) void name(             \
        struct __jmp_buf_tag buffer[1], int value)                                                 \
    {                                                                                              \
        tracker_jump(buffer, __builtin_frame_address(0));                                          \
        real_##name()(buffer, value);                                                              \
        __builtin_unreachable();                                                                   \
    }

extern void __longjmp_chk(struct __jmp_buf_tag buffer[1], int value) __attribute__((noreturn));

JUMPS(longjmp)
JUMPS(_longjmp)
JUMPS(siglongjmp)
JUMPS(__longjmp_chk)

// A signal's handler may jump: it must find them known.
__attribute__((constructor(101))) static void look_up_jumps(void)
{
    real_longjmp();
    real__longjmp();
    real_siglongjmp();
    real___longjmp_chk();
}

// No destructor runs on this way out.
INTERPOSED void _exit(int status)
{
    agent_finish();
    REAL(_exit)(status);
    __builtin_unreachable();
}

INTERPOSED void _Exit(int status)
{
    _exit(status);
}

// While the program looks at its own stack, there is no marker on it. Without these the marker's
// pseudo frame would be one line more in a backtrace.
static struct walker *clear_stack(void)
{
    struct walker *walker = walk_current;
    if (!walker)
        return NULL;
    walk_suspend(walker);
    return walker;
}

static void release_stack(struct walker *walker)
{
    if (walker)
        walk_resume(walker);
}

INTERPOSED int backtrace(void **buffer, int size)
{
    const bool patched = sites_exist();
    if (size <= 0)
        return 0;
    struct walker *walker = clear_stack();
    // One more than asked for: the first is the frame of this very function. And one for each if
    // there are stubs between them.
    const int most = patched ? 2 * size + 4 : size + 1;
    void **frames = alloca((size_t)most * sizeof *frames);
    int count = REAL(backtrace)(frames, most), own = 0;
    release_stack(walker);
    if (patched) {
        count = (int)sites_clean_backtrace(frames, count > 0 ? (size_t)count : 0);
        // libc leaves out one frame for itself, which has been that of a stub.
        while (own < count - 1 && !dl_interpose_is_ours(frames[own]))
            own++;
    }
    count = count - own - 1 < size ? count - own - 1 : size;
    if (count > 0)
        memcpy(buffer, frames + own + 1, (size_t)count * sizeof *buffer);
    return count > 0 ? count : 0;
}

// The same for programs that ask the unwinder itself. Its first frame, which is ours, is kept from
// the program.
struct trace {
    __typeof__(&_Unwind_GetIP) get_ip;
    _Unwind_Trace_Fn function;
    void *argument;
    bool begun;
};

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *argument)
{
    struct trace *trace = argument;
    struct stub_place place;
    if (!trace->begun) {
        trace->begun = true;
        return _URC_NO_REASON;
    }
    if (sites_exist() && sites_locate(trace->get_ip(context), &place))
        return _URC_NO_REASON; // the next frame is that of its site
    return trace->function(context, trace->argument);
}

// The unwinder that the caller would have without us: that of the program, or if only a library
// which was opened for itself alone has one, that library's.
static void *unwinder_of(const void *caller, const char *name)
{
    struct link_map *map;
    Dl_info info;
    return dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) ? dlsym(map, name) : NULL;
}

#define UNWINDER_OF(caller, name)                                                                  \
    ({                                                                                             \
        __typeof__(&name) known = REAL(name);                                                      \
        known ? known : (__typeof__(&name))unwinder_of(caller, #name);                             \
    })

INTERPOSED _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn function, void *argument)
{
    const void *caller = (const void *)sites_true_pc((uintptr_t)__builtin_return_address(0));
    struct trace trace = {.function = function, .argument = argument};
    trace.get_ip = UNWINDER_OF(caller, _Unwind_GetIP);
    __typeof__(&_Unwind_Backtrace) real = UNWINDER_OF(caller, _Unwind_Backtrace);
    if (!real || !trace.get_ip)
        return _URC_END_OF_STACK;
    struct walker *walker = clear_stack();
    _Unwind_Reason_Code reason = real(on_frame, &trace);
    release_stack(walker);
    return reason;
}

// Asked for each stub that an exception goes by: dladdr() would look through all symbols.
static bool are_of_one_library(const void *one, const void *other)
{
    struct module_ref module;
    Dl_info first, second;
    bool unloading;
    loadmap_enter();
    const bool known = loadmap_find((uintptr_t)one, &module, &unloading);
    loadmap_leave();
    if (known)
        return (uintptr_t)other >= module.start && (uintptr_t)other < module.end;
    return dladdr(one, &first) && dladdr(other, &second) && first.dli_fbase == second.dli_fbase;
}

// Personality routines may look at their frame by it (LuaJIT's finds its state so). Behind a stub
// it is odd (stub_cfi.h), and nowhere else. The unwinder itself may ask here, too, and must get the
// odd value: it distinguishes the stub from the frame by that.
INTERPOSED _Unwind_Word _Unwind_GetCFA(struct _Unwind_Context *context)
{
    const void *caller = (const void *)sites_true_pc((uintptr_t)__builtin_return_address(0));
    __typeof__(&_Unwind_GetCFA) real = UNWINDER_OF(caller, _Unwind_GetCFA);
    const _Unwind_Word cfa = real ? real(context) : 0;
    return cfa & 1 && !are_of_one_library(caller, (const void *)real) ? cfa - 1 : cfa;
}
