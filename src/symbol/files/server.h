// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_SERVER_H
#define CAIRN_SYMBOL_FILES_SERVER_H

// Debug files from the servers that $DEBUGINFOD_URLS names. libdebuginfod is loaded only if it
// names some.

#include "symbol/files/object.h"

struct server;

typedef void server_progress(void *context, const char *module, unsigned done, unsigned total);

// NULL if there is no server to ask, or no library to ask it with.
struct server *server_connect(server_progress *progress, void *context);
void server_disconnect(struct server *server);

// Asks for the debug file of a build id, and opens it. Gives up, for good, when all the waiting of
// this run adds up to more than a user should be made to wait.
bool server_fetch(struct server *server, const uint8_t *build_id, unsigned bytes,
                  const char *module, struct object *debug);
// It gave up waiting.
bool server_gave_up(const struct server *server);

#endif
