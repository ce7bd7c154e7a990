// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_STATE_OFFSETS_H
#define CAIRN_TRACK_ENCODE_STATE_OFFSETS_H

// Where the hooks in assembler find things. The C side asserts each (hooks.c).

// In struct encode_state.
#define STATE_ID 0
#define STATE_DEPTH 8
#define STATE_LIMIT 12
#define STATE_STACK 16
#define STATE_OVER 28
#define STATE_VALIDITY 32
#define STATE_STACK_LOW 48
#define STATE_STACK_BYTES 56
#define STATE_COUNTDOWN 64
#define STATE_WORDS 80
#define STATE_BASE 88

// Hooks go the slow path from this validity on.
#define VALIDITY_STALE 2

// In struct cc_entry.
#define ENTRY_ID 0
#define ENTRY_EDGE 8
#define ENTRY_COUNT 12
#define ENTRY_SHIFT 4 // its size, as a power of two
#define ENTRY_BYTES (1 << ENTRY_SHIFT)

// In struct encode, and in struct encode_words.
#define ENCODE_WANTED 0
#define WORDS_FIRST (8 << 19)

// The bits of a word (encode/state.h).
#define WORD_BIT_REPEATS 32
#define WORD_BIT_LONG 62

// encode_table maps a stub's address and a target to one word: the upper part of their hash, and
// the edge.
#define TABLE_BITS 16
#define TABLE_EDGE_BITS 24
#define TABLE_FACTOR 0x9e3779b97f4a7c15
#define TABLE_TARGET_FACTOR 0xff51afd7ed558ccd
#define TABLE_FOLD 29

#ifndef __ASSEMBLER__
#include <stdbool.h>
#include <stdint.h>

static inline uint64_t encode_table_hash(uintptr_t stub, uintptr_t target)
{
    const uint64_t hash = (stub ^ target * TABLE_TARGET_FACTOR) * TABLE_FACTOR;
    return hash ^ hash >> TABLE_FOLD;
}

static inline uint64_t encode_table_word(uint64_t hash, uint32_t edge)
{
    return hash >> TABLE_EDGE_BITS << TABLE_EDGE_BITS | edge;
}
#endif

#endif
