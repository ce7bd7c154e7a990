// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_CODEBOOK_H
#define CAIRN_ENCODE_CODEBOOK_H

// All that is needed to decode the contexts of a process: its call graph, the dictionaries by
// stamp, the interned stacks. In the process it is built as the program runs; after its death it is
// read from what serial.h wrote. Any bytes are safe.

#include "encode/serial.h"

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

// Keeps a dictionary, whose stamp is newer than all others. 0, -ENOMEM, -EINVAL.
int codebook_keep(struct codebook *codebook, struct dictionary *dictionary);

// Signal-safe, while another thread keeps more.
const struct dictionary *codebook_dictionary(const struct codebook *codebook, uint32_t stamp);

// The path of a context (id, handle, place of its function), in the way of context_decode();
// *origin: where its thread comes from, to be decoded in turn if origin->handle is not 0. `stack`
// is scratch.
int64_t codebook_decode(const struct codebook *codebook, uint64_t id, uint64_t handle,
                        uint32_t function, struct cc_entry *stack, uint32_t stack_limit,
                        uint32_t *path, uint32_t limit, struct intern_origin *origin);

#endif
