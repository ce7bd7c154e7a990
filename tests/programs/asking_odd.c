// SPDX-License-Identifier: MIT
// Asks for contexts around jumps out of functions that nobody is told of (__builtin_longjmp), and
// knows the answers.

#include "common.h"
#include <cairn.h>

static void *landing[5];
static uintptr_t entered[64]; // functions, outermost first
static int depth;
static long asked, wrong, unknown;

#define ENTER(function) entered[depth++] = (uintptr_t)(function)

static NOIPA void check(struct cairn_context context)
{
    struct cairn_frame frames[64];
    asked++;
    if (!context.handle) {
        unknown++;
        return;
    }
    const int count = cairn_decode(context, frames, 64);
    int same = count == depth;
    for (int i = 0; i < count && same; i++)
        same = frames[i].function == entered[depth - 1 - i];
    wrong += !same;
}

static NOIPA void leaf(void)
{
    ENTER(leaf);
    check(cairn_context());
    depth--;
}

static NOIPA void fall(int left)
{
    ENTER(fall);
    leaf();
    if (left == 0)
        __builtin_longjmp(landing, 1);
    fall(left - 1);
    depth--;
}

static NOIPA void climb(int left)
{
    ENTER(climb);
    if (left)
        climb(left - 1);
    else
        leaf();
    leaf();
    depth--;
}

static NOIPA void land(int far)
{
    ENTER(land);
    const int here = depth;
    if (__builtin_setjmp(landing) == 0)
        fall(far);
    depth = here;
    leaf();
    climb(far % 4);
    check(cairn_context());
    depth--;
}

int main(void)
{
    ENTER(main);
    for (int i = 0; i < 3000; i++) {
        land(i % 7);
        leaf();
        if (i % 3 == 0)
            climb(i % 5);
    }
    printf("asked %ld wrong %ld unknown %ld\n", asked, wrong, unknown);
    return wrong != 0;
}
