// SPDX-License-Identifier: MIT
#include "profile/reader.h"
#include "profile/creations.h"
#include "profile/live_age.h"
#include "profile/loader.h"
#include "profile/place_names.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void *profile_fail(char **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (error && vasprintf(error, format, arguments) < 0)
        *error = NULL;
    va_end(arguments);
    return NULL;
}

__attribute__((format(printf, 2, 3))) static void note(struct loader *loader, const char *format,
                                                       ...)
{
    struct profile *profile = loader->profile;
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    // A profile that was read damaged and then written says so already.
    for (unsigned i = 0; length >= 0 && i < profile->note_count; i++) {
        if (strcmp(profile->notes[i], text) == 0) {
            free(text);
            return;
        }
    }
    if (length < 0 || !profile_grow((void **)&profile->notes, profile->note_count,
                                    profile->note_count + 1u, sizeof *profile->notes)) {
        if (length >= 0)
            free(text);
        loader->out_of_memory = true;
    } else {
        profile->notes[profile->note_count++] = text;
    }
}

static void fill_text(struct loader *loader, char **text, const char *fallback)
{
    if (!*text && !(*text = strdup(fallback)))
        loader->out_of_memory = true;
}

static void fill_command(struct loader *loader, char ***command)
{
    if (!*command && !(*command = calloc(1, sizeof **command)))
        loader->out_of_memory = true;
}

static void fill_modules(struct loader *loader)
{
    struct profile *profile = loader->profile;
    unsigned count = loader->top_module + 1;
    if (count < MODULE_FIRST_FILE)
        count = MODULE_FIRST_FILE;
    if (count > profile->module_count) {
        if (!profile_grow((void **)&profile->modules, profile->module_count, count,
                          sizeof *profile->modules)) {
            loader->out_of_memory = true;
            return;
        }
        profile->module_count = count;
    }
    static const char *const reserved[MODULE_FIRST_FILE] = {"[unknown]", "[anonymous]", "[vdso]"};
    for (unsigned i = 0; i < profile->module_count; i++)
        fill_text(loader, &profile->modules[i].path,
                  i < MODULE_FIRST_FILE ? reserved[i] : "[lost module]");
}

static void fill_trees(struct loader *loader)
{
    struct profile *profile = loader->profile;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct profile_tree *tree = &profile->trees[i];
        if (tree->count > 0)
            continue;
        if (!profile_grow_tree(tree, 1, profile->metric_count)) {
            loader->out_of_memory = true;
            return;
        }
        tree->nodes[0] = (struct profile_node){PROFILE_NO_PARENT, 0, tree->start};
        tree->count = 1;
    }
}

// Users of a profile may rely on its shape, even if parts were lost: names are never NULL, each
// tree has a process and a root, each place a module.
static void fill_gaps(struct loader *loader)
{
    struct profile *profile = loader->profile;
    fill_text(loader, &profile->tracker, "unknown");
    fill_text(loader, &profile->tree_kind, "unknown");
    fill_command(loader, &profile->command);
    if (profile->metric_count == 0) {
        profile->metrics = calloc(1, sizeof *profile->metrics);
        loader->out_of_memory |= !profile->metrics;
        profile->metric_count = profile->metrics ? 1 : 0;
    }
    for (unsigned i = 0; i < profile->metric_count; i++) {
        fill_text(loader, &profile->metrics[i].name, "unknown");
        fill_text(loader, &profile->metrics[i].unit, "");
        fill_text(loader, &profile->metrics[i].source, "unknown");
    }
    if (profile->process_count == 0 && profile->tree_count > 0) {
        if (!profile_grow((void **)&profile->processes, 0, 1, sizeof *profile->processes)) {
            loader->out_of_memory = true;
            return;
        }
        profile->processes[0].merged_into = PROFILE_NOT_MERGED;
        profile->process_count = 1;
    }
    for (unsigned i = 0; i < profile->process_count; i++) {
        struct profile_process *process = &profile->processes[i];
        fill_command(loader, &process->command);
        // One step leads to a process that has trees: no chains, no circles.
        if (process->merged_into >= profile->process_count || process->merged_into == i ||
            profile->processes[process->merged_into].merged_into != PROFILE_NOT_MERGED)
            process->merged_into = PROFILE_NOT_MERGED;
    }
    for (uint32_t i = 0; i < profile->rank_count; i++)
        fill_text(loader, &profile->ranks[i].name, "");
    fill_modules(loader);
    fill_trees(loader);
    creations_check(profile);
    place_names_sort(profile);
}

static void note_losses(struct loader *loader, const struct chunk_scan *scan,
                        enum profile_writer writer)
{
    struct profile *profile = loader->profile;
    if (scan->lost_places || !loader->has_session)
        profile->complete = false;
    if (scan->lost_places)
        note(loader,
             "damaged: %" PRIu64 " bytes in %u place%s could not be read and are missing here",
             scan->lost_bytes, scan->lost_places, scan->lost_places == 1 ? "" : "s");
    if (loader->lost_nodes || loader->lost_values)
        note(loader,
             "damaged: %" PRIu64 " contexts are unknown and %" PRIu64 " of their values lost",
             loader->lost_nodes, loader->lost_values);
    if (!loader->has_session)
        note(loader, "damaged: what was recorded, and by which event, is lost");
    if (scan->cut)
        profile->complete = false;
    if (writer == WRITER_OTHER)
        note(loader, "still being recorded: this is the profile so far");
    else if (writer == WRITER_NONE && !profile->complete && (scan->cut || !scan->lost_places))
        note(loader, "the recording was cut off: the rest is missing");
}

struct profile *profile_parse(const uint8_t *data, size_t size, enum profile_writer writer,
                              const char *name, char **error)
{
    enum head_verdict head = chunk_check_file_head(data, size);
    if (head == HEAD_FOREIGN)
        return profile_fail(error, PROFILE_FOREIGN, name);
    if (head == HEAD_NEWER)
        return profile_fail(error, "%s was written by a newer cairn: update cairn to read it",
                            name);
    struct chunk_scan scan;
    chunk_scan_start(&scan, data, size);
    struct loader loader = {.profile = calloc(1, sizeof(struct profile)),
                            .scan = &scan,
                            .memory_budget = (uint64_t)size * MEMORY_RATIO + MEMORY_FREE};
    if (!loader.profile)
        return profile_fail(error, "no memory to read %s", name);
    loader.profile->format = FORMAT_MAJOR;
    loader.profile->file_bytes = size;
    unsigned unknown = 0;
    struct chunk chunk;
    while (chunk_next(&scan, &chunk)) {
        unknown += chunk.type >= CHUNK_TYPES;
        if (chunk.type == CHUNK_TIMELINE)
            loader.profile->timeline.stored_bytes += chunk.stored;
        if (!loader_take(&loader, &chunk)) {
            scan.lost_bytes += chunk.stored;
            scan.lost_places++;
        }
        if (loader.out_of_memory || loader.too_large)
            break;
    }
    const bool empty = !loader.profile->metric_count && !loader.profile->process_count;
    fill_gaps(&loader);
    if (writer != WRITER_MYSELF)
        profile_find_ages(loader.profile);
    if (head == HEAD_DAMAGED)
        note(&loader, "damaged: the head of the file does not match its checksum");
    if (unknown)
        note(&loader, "%u parts that this version of cairn does not know were skipped", unknown);
    note_losses(&loader, &scan, writer);
    if (head == HEAD_DAMAGED)
        loader.profile->complete = false;
    bool failed = loader.out_of_memory || scan.out_of_memory;
    bool too_large = loader.too_large || scan.too_large;
    chunk_scan_end(&scan);
    if (!failed && !too_large && !empty)
        return loader.profile;
    profile_free(loader.profile);
    if (empty && !failed && !too_large)
        return profile_fail(
            error, "%s is damaged: nothing that was recorded can be read; record again", name);
    return failed ? profile_fail(error, "no memory to read %s", name)
                  : profile_fail(
                        error,
                        "%s unpacks to far more than a profile of its size holds: it is damaged, "
                        "or made to take all memory",
                        name);
}
