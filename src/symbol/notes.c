// SPDX-License-Identifier: MIT
#include "symbol/notes.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "symbol/files/debug_file.h"
#include "symbol/files/package.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void notes_add(struct notes *notes, const char *text)
{
    const char *kept = pool_string(notes->pool, text);
    for (size_t i = 0; i < notes->count; i++)
        if (notes->list[i] == kept)
            return;
    notes->list =
        memory_grown(notes->list, &notes->capacity, notes->count + 1, sizeof *notes->list);
    notes->list[notes->count++] = kept;
}

static void note_changed(struct notes *notes, const struct module *module)
{
    char then[2 * BUILD_ID_LIMIT + 1];
    debugfile_hex(module->recorded->build_id, module->recorded->build_id_bytes, then);
    notes_add(notes, pool_format(notes->pool,
                                 "%s has changed since the recording (build id %s then): record "
                                 "again, or put the old file at /usr/lib/debug/.build-id/%.2s/%s; "
                                 "'cairn export -f cairn' keeps names beforehand",
                                 module->recorded->path, then, then, then + 2));
}

// Without a build id only the time shows that a file may have changed.
static void note_modified(struct notes *notes, const struct module *module,
                          const struct profile *profile)
{
    struct stat status;
    if (module->main.build_id_bytes || module->main.fd < 0 || profile->start_realtime_ns == 0 ||
        fstat(module->main.fd, &status) != 0)
        return;
    uint64_t end_s = (profile->start_realtime_ns + profile->duration_ns) / 1000000000;
    if ((uint64_t)status.st_mtim.tv_sec > end_s)
        notes_add(notes, pool_format(notes->pool,
                                     "%s was modified after the recording, and has no build id to "
                                     "compare: its names may be wrong",
                                     module->recorded->path));
}

void notes_on_module(struct notes *notes, const struct module *module,
                     const struct profile *profile)
{
    const char *path = module->recorded->path ? module->recorded->path : "?";
    if (lines_damaged(module->lines))
        notes_add(notes, pool_format(notes->pool,
                                     "%s: its debug information is damaged: some lines are missing",
                                     module->lines && module->debug.path && !module->main.path
                                         ? module->debug.path
                                         : path));
    if (lines_missing(module->lines))
        notes_add(notes, pool_format(notes->pool,
                                     "%s: its debug file %s is missing: inlined functions are not "
                                     "shown",
                                     path, lines_missing(module->lines)));
    if (module->trouble == MODULE_FINE)
        note_modified(notes, module, profile);
    // Names like "[heap]" and "/memfd:code" never were files.
    if (module->trouble == MODULE_FINE || module->used_separate_file || module->vdso ||
        path[0] != '/' || strncmp(path, "/memfd:", 7) == 0)
        return;
    if (module->trouble == MODULE_CHANGED)
        note_changed(notes, module);
    else if (module->trouble == MODULE_DAMAGED)
        notes_add(notes, pool_format(notes->pool,
                                     "%s: not an ELF file, or damaged: its functions have no names",
                                     path));
    else
        notes_add(notes, pool_format(notes->pool, "%s: %s: its functions have no names", path,
                                     strerror(-module->error)));
}

// A stripped file still has names for what it exports, and shows numbers for all else.
static bool has_few_names(const struct module *module)
{
    return module->unnamed * 2 > module->asked;
}

static const char *advice(struct text_pool *pool, const struct module *module, const char *package)
{
    if (!package)
        return has_few_names(module) ? "compile it with -g, and do not strip it"
                                     : "compile it with -g";
    if (strcmp(package, "libc6") == 0)
        return "install libc6-dbg";
    const char *urls = getenv("DEBUGINFOD_URLS");
    return pool_format(pool, "install %s-dbgsym (from the debug archive)%s", package,
                       urls && *urls ? "" : ", or set DEBUGINFOD_URLS");
}

void notes_on_lines(struct notes *notes, const struct module *const *modules, size_t count)
{
    const char **paths = memory_array(count, sizeof *paths);
    char **packages = memory_array(count, sizeof *packages);
    for (size_t i = 0; i < count; i++)
        paths[i] = modules[i]->recorded->path;
    package_owners(paths, packages, count);
    for (size_t i = 0; i < count; i++) {
        notes_add(notes, pool_format(notes->pool, "no %s %s: %s",
                                     has_few_names(modules[i])
                                         ? "line numbers, nor names for most functions, in"
                                         : "line numbers for",
                                     modules[i]->short_name,
                                     advice(notes->pool, modules[i], packages[i])));
        free(packages[i]);
    }
    free(packages);
    free(paths);
}

void notes_on_map(struct notes *notes, const char *path, enum perfmap_answer why)
{
    notes_add(notes,
              pool_format(notes->pool, "the names of generated code in %s are not used: %s", path,
                          why == PERFMAP_FOREIGN
                              ? "the file belongs to another user (chown it if they are right)"
                              : "the file is too large"));
}

// Runtimes that write the names of their code, if they are asked to. Versions may follow: php8.2.
static const struct runtime {
    const char *program, *remedy;
} runtimes[] = {
    {"node", "node --perf-basic-prof"},
    {"nodejs", "nodejs --perf-basic-prof"},
    {"java", "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit (JDK 17 or later)"},
    {"dotnet", "DOTNET_PerfMapEnabled=1 in the environment"},
    {"php", "php -d opcache.jit_debug=0x10"},
    {"ruby", "ruby --yjit-perf"},
    {"python", "python3 -X perf (3.12 or later)"},
    {"erl", "erl +JPperf true"},
    {"beam.smp", "erl +JPperf true"},
};

static const char *remedy_for(const char *program)
{
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        const size_t length = strlen(runtimes[i].program);
        if (strncmp(program, runtimes[i].program, length) == 0 &&
            !program[length + strspn(program + length, "0123456789.-")])
            return runtimes[i].remedy;
    }
    return NULL;
}

void notes_on_generated(struct notes *notes, char *const *command)
{
    const char *program = command && command[0] ? last_part(command[0]) : "a program";
    const char *remedy = remedy_for(program);
    notes_add(notes, remedy ? pool_format(notes->pool,
                                          "generated code of %s has no names ([jit]): record with "
                                          "%s",
                                          program, remedy)
                            : pool_format(notes->pool,
                                          "generated code of %s has no names ([jit]): it has "
                                          "written no /tmp/perf-PID.map",
                                          program));
}

void notes_free(struct notes *notes)
{
    free(notes->list);
    memset(notes, 0, sizeof *notes);
}
