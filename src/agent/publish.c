// SPDX-License-Identifier: MIT
// What this process tells the recorder about itself.

#include "agent/publish.h"
#include "agent/session/agent.h"
#include "agent/thread/signal_stack.h"
#include "track/runtimes/java.h"
#include "track/tracker.h"
#include "track/walk/unmarkable.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MOST_COMMAND 4096 // bytes of a command line that is read

// Said once for each language.
static void note_runtime(enum module_runtime runtime)
{
    static _Atomic bool said[RUNTIME_OCAML + 1];
    const struct live_options *options = agent.session ? &agent.session->options : NULL;
    if (!options || atomic_exchange(&said[runtime], true))
        return;
    if (tracker_of((enum live_tracker)options->tracker)->patches)
        agent_note(runtime == RUNTIME_GO
                       ? "code in Go is not patched, as its runtime looks up return addresses: its "
                         "calls are not followed, its stacks are walked"
                       : "code in OCaml is not patched, as its runtime looks up return addresses: "
                         "its calls are not followed, its stacks are walked");
}

void publish_unwinder_note(void)
{
    const struct live_options *options = agent.session ? &agent.session->options : NULL;
    const struct tracker *chosen = options ? tracker_of((enum live_tracker)options->tracker) : NULL;
    const char *note = chosen && chosen->unwinder_note ? chosen->unwinder_note(options) : NULL;
    if (note)
        agent_note(note);
}

void publish_module(const struct module_info *info)
{
    size_t length = strlen(info->path);
    unmarkable_note_module(info);
    java_note_module(info, agent_note);
    if (info->runtime != RUNTIME_NONE)
        note_runtime(info->runtime);
    if (info->runtime == RUNTIME_GO)
        atomic_store_explicit(&signal_stack_is_shared, true, memory_order_relaxed);
    // A byte more: for readers in this process the path ends with a zero.
    ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_module) + length + 1);
    if (!ref)
        return;
    struct live_module *module = arena_at(&agent.arena, ref);
    module->id = info->id;
    module->base = info->base;
    module->bytes = info->bytes;
    module->build_id_bytes = info->build_id_bytes < sizeof module->build_id
                                 ? info->build_id_bytes
                                 : sizeof module->build_id;
    memcpy(module->build_id, info->build_id, module->build_id_bytes);
    module->path_bytes = (uint32_t)length;
    memcpy(module->path, info->path, length);
    live_push(&agent.process->modules, &module->next, ref);
}

// Each is kept once: notes of all children of a program would fill its memory.
static bool is_noted(const char *text, size_t length)
{
    // Acquire: records behind the head are whole.
    ref_t ref = atomic_load_explicit(&agent.process->notes, memory_order_acquire);
    for (const struct live_note *note; ref; ref = note->next) {
        note = arena_at(&agent.arena, ref);
        if (note->bytes == length && !memcmp(note->text, text, length))
            return true;
    }
    return false;
}

void agent_note(const char *text)
{
    size_t length = strlen(text);
    if (is_noted(text, length))
        return;
    ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_note) + length);
    if (!ref)
        return;
    struct live_note *note = arena_at(&agent.arena, ref);
    note->bytes = (uint32_t)length;
    memcpy(note->text, text, length);
    live_push(&agent.process->notes, &note->next, ref);
}

void publish_command(int argc, char **argv)
{
    size_t bytes = 0;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    ref_t ref = arena_alloc(&agent.arena, bytes);
    if (!ref)
        return;
    char *text = arena_at(&agent.arena, ref);
    for (int i = 0; i < argc; i++)
        text = stpcpy(text, argv[i]) + 1;
    agent.process->command_bytes = (uint32_t)bytes;
    agent.process->command = ref;
}

// Of a process that runs already: by now its arguments are what it has made of them, and may be no
// texts at all.
void publish_running_command(void)
{
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ref_t ref = file < 0 ? 0 : arena_alloc(&agent.arena, MOST_COMMAND);
    char *text = ref ? arena_at(&agent.arena, ref) : NULL;
    ssize_t length = text ? read(file, text, MOST_COMMAND - 1) : 0;
    if (file >= 0)
        close(file);
    // A title that is written over arguments ends in empty ones.
    while (length > 0 && !text[length - 1])
        length--;
    if (length <= 0)
        return;
    text[length] = 0;
    agent.process->command_bytes = (uint32_t)length + 1;
    agent.process->command = ref;
}

// A child has the parent's slice mapped; its modules are the child's too.
static void copy_modules(const struct arena *from, ref_t first)
{
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_module *module;
    for (ref_t ref = first; (module = live_listed(from, ref, sizeof *module, &left));
         ref = module->next) {
        char path[4096];
        size_t length = module->path_bytes < sizeof path ? module->path_bytes : sizeof path - 1;
        memcpy(path, module->path, length);
        path[length] = 0;
        publish_module(&(struct module_info){.id = module->id,
                                             .path = path,
                                             .base = module->base,
                                             .bytes = module->bytes,
                                             .build_id_bytes = module->build_id_bytes,
                                             .build_id = module->build_id});
    }
}

static void copy_command(const struct live_process *parent, const struct arena *from)
{
    const uint32_t bytes = parent->command_bytes; // once: the program may scribble over it
    const void *command = arena_find(from, parent->command, bytes);
    ref_t ref = command ? arena_alloc(&agent.arena, bytes) : 0;
    if (!ref)
        return;
    memcpy(arena_at(&agent.arena, ref), command, bytes);
    agent.process->command_bytes = bytes;
    agent.process->command = ref;
}

void publish_copy(const struct live_process *from, const struct arena *arena)
{
    copy_command(from, arena);
    copy_modules(arena, atomic_load_explicit(&from->modules, memory_order_acquire));
}
