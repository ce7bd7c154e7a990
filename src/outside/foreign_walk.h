// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_FOREIGN_WALK_H
#define CAIRN_OUTSIDE_FOREIGN_WALK_H

// The call path of a sample of another process, by the unwinder of the agent. It finds the stack
// that the kernel has copied, in which words that point into the stack or to code are changed to
// what they point to here (mirror.h). Deeper frames than the copy are not known.

#include "base/verdict.h"
#include "outside/records.h"
#include "outside/space.h"

#define FOREIGN_FRAMES 8192 // each takes a word of the stack at least

struct foreign_frame {
    place_t site, function; // as in an edge of a tree
};

struct foreign_path {
    struct foreign_frame frames[FOREIGN_FRAMES]; // youngest first
    size_t count;
    place_t statement; // the sampled instruction
    enum verdict verdict;
};

enum foreign_kernel { FOREIGN_WITHOUT_KERNEL, FOREIGN_WITH_KERNEL };

// The frames of the kernel, if they are wanted, and those of the program. False: there are none.
bool foreign_walk(struct foreign_path *path, const struct perf_record *sample,
                  const struct space *space, enum foreign_kernel kernel);

#endif
