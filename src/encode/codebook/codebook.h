// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_CODEBOOK_CODEBOOK_H
#define CAIRN_ENCODE_CODEBOOK_CODEBOOK_H

// All that is needed to decode the contexts of a process: its call graph, the dictionaries by
// stamp, the interned stacks. It is read from what serial.h wrote; any bytes are safe.

#include "encode/codebook/serial.h"

struct codebook {
    struct pool *pool;
    struct graph graph;
    struct series dictionaries; // struct dictionary *, in the order of their stamps
    uint32_t dictionary_count;
    uint64_t dictionary_bytes, dictionary_limit; // more is refused: few bytes can ask for many
    struct intern intern;
    size_t intern_bytes;
    uint32_t first_node; // handles count nodes from here: those below are of the process' parent
};

void codebook_init(struct codebook *codebook, struct pool *pool); // a pool of its own
void codebook_free(struct codebook *codebook);                    // and closes the pool

// Adds whole sections. 0, -ENOMEM, -EBADMSG: what came before the damage is kept.
int codebook_read(struct codebook *codebook, const uint8_t *data, size_t size);

// NULL: there is none.
const struct dictionary *codebook_dictionary(const struct codebook *codebook, uint32_t stamp);

#endif
