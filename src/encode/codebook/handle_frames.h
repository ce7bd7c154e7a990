// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_CODEBOOK_HANDLE_FRAMES_H
#define CAIRN_ENCODE_CODEBOOK_HANDLE_FRAMES_H

// From a context as it was handed out, an id and a handle, to the frames that a stack walk would
// have seen there:
//
//   frames[0]            the function that the thread began in; its site is 0
//   frames[1 .. count)   functions, each with the place it was called from: outermost first
//   point                the place in the last of them where the context was asked for
//
// A function of 0 stands for frames that are not known. If the thread has a creator whose context
// is known, that is a context to be told in turn.

#include "encode/codebook/codebook.h"

struct handle_frames {
    // Room that the caller provides, for at most `limit` frames; stack entries likewise.
    uint32_t limit;
    struct cc_entry *stack;
    uint32_t *path;
    struct walked *frames;
    // The result.
    uint32_t count;
    place_t point;
    uint64_t creator_id, creator_handle; // 0: none
};

// 0; -EBADMSG: no such context; -ESTALE: it is one of the process that this one was forked from;
// -ENOSPC: more frames than there is room for.
int codebook_frames(const struct codebook *codebook, uint64_t id, uint64_t handle,
                    struct handle_frames *part);

#endif
