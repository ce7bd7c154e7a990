// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_CONTINUOUS_DESTINATION_H
#define CAIRN_CMD_CONTINUOUS_DESTINATION_H

// Where profiles of intervals go: a folder, or a server.

#include "cmd/continuous/http_post.h"
#include <stdbool.h>
#include <stdint.h>

enum interval_format { INTERVAL_PPROF, INTERVAL_OTLP, INTERVAL_CAIRN };

struct interval_destination {
    const char *name; // as the user gave it
    bool is_server;
    struct http_url url;
    enum interval_format format;
    char program[64]; // that is recorded, in letters that names of files may have
};

// NULL, or why a name is no destination.
const char *destination_parse(const char *name, struct interval_destination *destination);

// Its name is that of a command, without what names of files must not have.
void destination_name_program(struct interval_destination *destination, const char *command);

// The ending of a file in this format, as "pb.gz".
const char *interval_ending(enum interval_format format);

// An interval, as it waits to be delivered.
struct interval_file {
    unsigned number;
    uint64_t from, until; // seconds since 1970
};

enum delivery {
    DELIVERED,
    DELIVERY_LATER,   // it may be taken another time
    DELIVERY_REFUSED, // it never will be
};

// Puts the file at `path` into the folder, which takes it away from there, or sends it.
enum delivery destination_deliver(const struct interval_destination *destination, const char *path,
                                  const struct interval_file *interval,
                                  char reason[HTTP_REASON_BYTES]);

#endif
