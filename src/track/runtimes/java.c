// SPDX-License-Identifier: MIT
#include "track/runtimes/java.h"
#include "track/runtimes/java_layout.h"
#include "track/runtimes/java_method.h"
#include "track/runtimes/java_step.h"
#include <stdatomic.h>

#define KNOWN_VERSION 17

// Set by the thread that goes from one to the next. Readers that see LOADED also see `machine`, and
// those that see RUNNING the layout.
enum machine_state { NO_MACHINE, MACHINE_LOADED, MACHINE_READ, MACHINE_RUNNING, MACHINE_UNKNOWN };
static _Atomic unsigned state;

static struct {
    uintptr_t base;
    size_t bytes;
    void (*note)(const char *text);
} machine;

static const struct unwind_runtime runtime;

void java_note_module(const struct module_info *module, void (*note)(const char *text))
{
    if (module->id < MODULE_FIRST_FILE ||
        atomic_load_explicit(&state, memory_order_relaxed) != NO_MACHINE ||
        !java_layout_is_machine(module->base, module->bytes))
        return;
    machine.base = module->base;
    machine.bytes = module->bytes;
    machine.note = note;
    atomic_store_explicit(&state, MACHINE_LOADED, memory_order_release);
    atomic_store_explicit(&unwind_runtime, &runtime, memory_order_release);
}

// Texts that are told once; what is lacking is for a developer of the machine.
static void give_up(void)
{
    machine.note(
        "a Java virtual machine runs whose frames are not known (those of OpenJDK 17 are): "
        "its methods have no names, and paths through them are guessed");
    atomic_store_explicit(&state, MACHINE_UNKNOWN, memory_order_release);
    atomic_store_explicit(&unwind_runtime, NULL, memory_order_release);
}

// Generated code was met: the machine has set itself up, or is about to.
static bool begin_machine(void)
{
    unsigned found = MACHINE_LOADED;
    if (!atomic_compare_exchange_strong_explicit(&state, &found, MACHINE_READ, memory_order_acq_rel,
                                                 memory_order_acquire))
        return found == MACHINE_RUNNING;
    if (java_layout_read(machine.base, machine.bytes) ||
        *(const int32_t *)java_layout[JAVA_VERSION] != KNOWN_VERSION) {
        give_up();
        return false;
    }
    atomic_store_explicit(&state, MACHINE_RUNNING, memory_order_release);
    return true;
}

bool java_is_hotspot(uintptr_t pc)
{
    loadmap_place(pc); // so that its module has been met
    return atomic_load_explicit(&state, memory_order_acquire) != NO_MACHINE &&
           pc - machine.base < machine.bytes && java_layout_is_hotspot(machine.base, machine.bytes);
}

bool java_is_running(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == MACHINE_RUNNING;
}

static bool owns(uintptr_t pc)
{
    return java_is_running() && java_code_holds(pc);
}

static enum unwind_leave leave(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    return java_is_running() || begin_machine() ? java_leave(cursor, caller) : UNWIND_FOREIGN;
}

static const struct unwind_runtime runtime = {.owns = owns, .leave = leave};

struct java_frames java_frames(const struct unwind_cursor *cursor)
{
    const struct unwind_generated *generated = &cursor->generated;
    struct java_frames frames = {.scopes = {.stream = 0}};
    struct java_code code;
    frames.single = (struct runtime_frame){generated->function, generated->line, 0};
    if (generated->function || !java_code_at(generated->pc, &code) ||
        (code.kind != JAVA_COMPILED && code.kind != JAVA_NATIVE))
        return frames;
    frames.scopes = java_scopes(&code, generated->pc, generated->interrupted);
    if (!frames.scopes.stream)
        java_method_frame(java_code_method(&code), 0, &frames.single);
    return frames;
}

bool java_next(struct java_frames *frames, struct runtime_frame *frame)
{
    struct java_scope scope;
    if (frames->single.function) {
        *frame = frames->single;
        frames->single.function = 0;
        return true;
    }
    while (java_scopes_next(&frames->scopes, &scope))
        if (java_method_frame(scope.method, scope.position, frame))
            return true;
    return false;
}
