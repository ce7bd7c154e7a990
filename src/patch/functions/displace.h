// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_DISPLACE_H
#define CAIRN_PATCH_FUNCTIONS_DISPLACE_H

// Room for a jump where there is no padding. A jump of two bytes reaches into a long instruction of
// the same function. That instruction, the victim, moves elsewhere, so another jump can lie in it:
//
//   site:    eb ──────────────────┐                 `inside` bytes from the start
//   victim:  48 8d 3d 10 20 30 00 │                 lea …(%rip), %rdi
//            e9 11 e9 22 33       │                 to the door, an island: on to the moved lea
//                  e9 22 33 44 55 ◄                 to the island of the site
//
// The two jumps share bytes. So some bytes of the first distance are fixed, and the second distance
// must have those of the first jump: island_take() finds places for both.
//
// Why this is safe:
// - The victim is one instruction. No other begins in it and no jump leads there, since all of the
//   function was decoded. So a thread, a return address or an interrupted context is at its first
//   byte or not in it at all. It is written like a site of five bytes: one trap at the first byte.
// - The second jump is written before anything leads to it. Once written, both stay for good: a
//   thread may be held up between the two jumps from a site for any time, even when the site has
//   its original code again.
// - The victim does not move the stack pointer and cannot fault. So unwind rules of its old place
//   hold at the new one, and no handler sees the other address in a fault.

#include "patch/stubs/site.h"
#include "patch/x86_64/decode.h"

#define VICTIM_LEAST (JUMP_BYTES + 1)
#define DISPLACED_MOST (2 * JUMP_BYTES) // bytes that are written over it

struct displacement {
    uintptr_t victim; // the instruction
    uint8_t length, inside;
    unsigned char code[DISPLACED_MOST]; // written over it, once it has a new place
    struct stub *_Atomic stub;          // its new place; NULL: none yet
    unsigned char *_Atomic door;        // the island that leads there
};

// True if the instruction can be a victim, but for who jumps into it. Branches can, if they stay in
// their function: others may be patched as calls.
bool displace_can(const struct instruction *in);

// How far into a victim of this length the second jump lies.
unsigned displace_how_far(unsigned length);

// Where that is.
static inline uintptr_t displace_inside(const struct displacement *displacement)
{
    return displacement->victim + displacement->inside;
}

// Bytes to be written over the victim: of both jumps.
static inline size_t displace_bytes(const struct displacement *displacement)
{
    return displacement->inside + (size_t)JUMP_BYTES;
}

// True if the victim has been led away: it was no jump.
static inline bool displace_is_done(const struct displacement *displacement)
{
    return *(const unsigned char *)displacement->victim == 0xe9;
}

// Makes the victim's new place, within reach of [low, high), and takes room for the island of its
// site. Nothing leads there. False: there is no memory at the distances that it takes.
bool displace_prepare(struct site *site, uintptr_t low, uintptr_t high);

// Writes the way from the victim to its new place, but for its beginning. 0 or -errno.
int displace_open_door(const struct displacement *displacement);

#endif
