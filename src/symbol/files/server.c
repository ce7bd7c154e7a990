// SPDX-License-Identifier: MIT
#include "symbol/files/server.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Without any byte the first counts, with a download under way the second. Seconds, of all files
// together.
enum { PATIENCE_SILENT = 5, PATIENCE_TOTAL = 60 };

struct client; // debuginfod_client

struct server {
    void *library;
    struct client *client;
    void (*end)(struct client *);
    int (*find_debuginfo)(struct client *, const unsigned char *, int, char **);
    server_progress *progress;
    void *context;
    const char *module; // being asked for
    double waited;      // in earlier requests
    double started, last_data;
    long last_done;
    bool gave_up;
};

// libdebuginfod hands one pointer back to the progress function only with a call of its own, which
// older versions lack: one tool asks one server at a time.
static struct server *asking;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Called while a request is under way; not 0: stop it.
static int on_progress(struct client *client, long done, long total)
{
    (void)client;
    struct server *server = asking;
    double moment = now();
    if (total > 0 && done != server->last_done) {
        server->last_done = done;
        server->last_data = moment;
    }
    if (moment - server->last_data > PATIENCE_SILENT ||
        server->waited + moment - server->started > PATIENCE_TOTAL) {
        server->gave_up = true;
        return 1;
    }
    if (server->progress)
        server->progress(server->context, server->module, (unsigned)(done > 0 ? done >> 10 : 0),
                         (unsigned)(total > 0 ? total >> 10 : 0));
    return 0;
}

struct server *server_connect(server_progress *progress, void *context)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!urls || !*urls)
        return NULL;
    void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return NULL;
    struct client *(*begin)(void) = (struct client * (*)(void)) dlsym(library, "debuginfod_begin");
    void (*set_progress)(struct client *, int (*)(struct client *, long, long)) =
        (void (*)(struct client *, int (*)(struct client *, long, long)))dlsym(
            library, "debuginfod_set_progressfn");
    struct server *server = calloc(1, sizeof *server);
    if (server) {
        server->library = library;
        server->end = (void (*)(struct client *))dlsym(library, "debuginfod_end");
        server->find_debuginfo = (int (*)(struct client *, const unsigned char *, int,
                                          char **))dlsym(library, "debuginfod_find_debuginfo");
        server->progress = progress;
        server->context = context;
    }
    if (!server || !begin || !set_progress || !server->end || !server->find_debuginfo ||
        !(server->client = begin())) {
        dlclose(library);
        free(server);
        return NULL;
    }
    set_progress(server->client, on_progress);
    return server;
}

void server_disconnect(struct server *server)
{
    if (!server)
        return;
    server->end(server->client);
    // Not dlclose: curl and what it loads do not like to be unloaded.
    free(server);
}

bool server_fetch(struct server *server, const uint8_t *build_id, unsigned bytes,
                  const char *module, struct object *debug)
{
    if (!server || server->gave_up || bytes == 0)
        return false;
    char *path = NULL;
    asking = server;
    server->module = module;
    server->started = server->last_data = now();
    server->last_done = 0;
    int fd = server->find_debuginfo(server->client, build_id, (int)bytes, &path);
    server->waited += now() - server->started;
    asking = NULL;
    bool opened = fd >= 0 && path && object_open(debug, path) == 0;
    if (opened &&
        (debug->build_id_bytes != bytes || memcmp(debug->build_id, build_id, bytes) != 0)) {
        object_close(debug);
        opened = false;
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return opened;
}

bool server_gave_up(const struct server *server)
{
    return server && server->gave_up;
}
