// SPDX-License-Identifier: MIT

// Where names for functions and lines come from: debug files on this machine, or from servers.

#include "cmd/doctor/names.h"
#include "base/memory.h"
#include "cmd/doctor/check.h"
#include "symbol/files/debug_file.h"
#include "symbol/files/object.h"
#include "symbol/files/package.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_lines(const struct object *object)
{
    return object_has_section(object, ".debug_info") || object_has_section(object, ".zdebug_info");
}

enum file_names file_names(const char *path)
{
    struct object object, debug = {.elf = NULL};
    if (object_open(&object, path))
        return NAMES_NONE;
    enum file_names names = object_has_section(&object, ".gopclntab") ? NAMES_AND_LINES
                            : object_has_section(&object, ".symtab")  ? NAMES_ALL
                                                                      : NAMES_EXPORTED;
    if (has_lines(&object)) {
        names = NAMES_AND_LINES;
    } else if (debugfile_by_id(&debug, object.build_id, object.build_id_bytes) ||
               debugfile_by_link(&debug, &object)) {
        names = has_lines(&debug) ? NAMES_AND_LINES : NAMES_ALL;
        object_close(&debug);
    }
    object_close(&object);
    return names;
}

char *packages_with_names(const char *const *paths, size_t count)
{
    char **owners = memory_array(count, sizeof *owners);
    char *list = NULL;
    size_t bytes;
    FILE *out = open_memstream(&list, &bytes);
    package_owners(paths, owners, count);
    bool archived = false;
    for (size_t i = 0; i < count; i++) {
        bool said = !owners[i];
        for (size_t before = 0; before < i && !said; before++)
            said = owners[before] && !strcmp(owners[before], owners[i]);
        // Debian's policy: packages of debug information are made from each package, and end in
        // -dbgsym; glibc alone has one that is older than the policy.
        const bool is_libc = owners[i] && !strcmp(owners[i], "libc6");
        if (!said)
            fprintf(out, " %s%s", owners[i], is_libc ? "-dbg" : "-dbgsym");
        archived |= !said && !is_libc;
    }
    if (archived)
        fputs(" # from the debug archive", out);
    fclose(out);
    for (size_t i = 0; i < count; i++)
        free(owners[i]);
    free(owners);
    return list;
}

// The server that a distribution runs for its own packages.
static const char *server_of_distribution(void)
{
    static const struct {
        const char *id, *address;
    } servers[] = {
        {"debian", "https://debuginfod.debian.net"},
        {"ubuntu", "https://debuginfod.ubuntu.com"},
        {"fedora", "https://debuginfod.fedoraproject.org"},
        {"arch", "https://debuginfod.archlinux.org"},
        {"opensuse", "https://debuginfod.opensuse.org"},
    };
    FILE *file = fopen("/etc/os-release", "re");
    const char *address = "https://debuginfod.elfutils.org";
    char line[256];
    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
            if (!strncmp(line, "ID", 2) && strstr(line, servers[i].id))
                address = servers[i].address;
    if (file)
        fclose(file);
    return address;
}

static void check_servers(struct checks *checks)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
#ifdef HAVE_DEBUGINFOD
    if (urls && *urls) {
        checks_add(checks, "debuginfod", CHECK_OK, "missing debug files are fetched from %s", urls);
        return;
    }
    struct check *check = checks_add(checks, "debuginfod", CHECK_LIMITED,
                                     "no server is asked for missing debug files");
    check_remedy(check, "export DEBUGINFOD_URLS=%s", server_of_distribution());
#else
    (void)urls;
    struct check *check = checks_add(checks, "debuginfod", CHECK_LIMITED,
                                     "this cairn was built without libdebuginfod: no server is "
                                     "asked for debug files");
    check_remedy(check, "apt install libdebuginfod-dev, and build cairn again");
#endif
}

static void check_libc(struct checks *checks)
{
    Dl_info libc;
    if (!dladdr(dlsym(RTLD_DEFAULT, "getenv"), &libc) || !libc.dli_fname)
        return;
    const char *path = libc.dli_fname;
    if (file_names(path) == NAMES_AND_LINES) {
        checks_add(checks, "libc", CHECK_OK, "has debug information: names and lines");
        return;
    }
    const char *const paths[] = {path};
    char *packages = packages_with_names(paths, 1);
    struct check *check =
        checks_add(checks, "libc", CHECK_LIMITED,
                   "no debug information: its own functions show as libc.so.6+0x…");
    if (*packages)
        check_remedy(check, "sudo apt install%s", packages);
    free(packages);
}

void check_names(struct checks *checks)
{
    check_servers(checks);
    check_libc(checks);
}
