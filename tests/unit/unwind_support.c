// SPDX-License-Identifier: MIT
#include "unwind_support.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unwind.h>

struct unwind_bounds own_bounds(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    return (struct unwind_bounds){(uintptr_t)low, (uintptr_t)low + bytes};
}

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "frames walked at once differ from those walked one by one: %s\n", what);
    abort();
}

static void same_frame(const struct walk *walk, unsigned i, const struct unwind_frame *frame)
{
    must(i < walk->count, "more of them");
    must(frame->pc == walk->pc[i], "pc");
    must(frame->place == walk->place[i], "place");
    must(frame->function == walk->function[i], "function");
    must((frame->flags & ~FRAME_BY_WORDS) == walk->flags[i], "flags");
}

// What the way from a frame to its caller depends on.
static void same_words(const struct unwind_frame *one, const struct unwind_frame *other)
{
    must(one->bp == other->bp, "frame pointer");
    must(one->flags & other->flags & FRAME_BY_WORDS && one->fp_offset == other->fp_offset, "words");
    must(!one->fp_offset || ((const uintptr_t *)one->cfa)[one->fp_offset] == one->bp,
         "the saved frame pointer");
}

// The same walk by several frames at once.
static void walk_in_runs(const struct walk *walk, const void *ucontext, struct unwind_bounds bounds,
                         size_t most)
{
    struct unwind_cursor cursor;
    struct unwind_frame left[16];
    enum verdict verdict = VERDICT_COMPLETE;
    unsigned at = 0;
    unwind_start(&cursor, ucontext, bounds);
    for (;;) {
        size_t ran = unwind_run(&cursor, left, most);
        for (size_t i = 0; i < ran; i++, at++) {
            same_frame(walk, at, &left[i]);
            must(left[i].cfa == walk->cfa[at], "CFA");
            must(left[i].ra_slot == left[i].cfa - 8, "slot");
            same_words(&left[i], &walk->left[at]);
        }
        must(ran == 0 || (left[ran - 1].pc == cursor.left.pc &&
                          left[ran - 1].ra_slot == cursor.left.ra_slot),
             "the last one");
        same_frame(walk, at, &cursor.frame);
        if (at + 1 >= WALK_MOST)
            return;
        if (unwind_step(&cursor, &verdict) != UNWIND_OK)
            break;
        must(cursor.left.cfa == walk->cfa[at++], "CFA after a step");
    }
    must(at + 1 == walk->count && verdict == walk->verdict, "the end");
}

void walk_ours(struct walk *walk, const void *ucontext, struct unwind_bounds bounds)
{
    struct unwind_cursor cursor;
    unwind_start(&cursor, ucontext, bounds);
    walk->count = 0;
    for (;;) {
        unsigned i = walk->count++;
        walk->pc[i] = cursor.frame.pc;
        walk->flags[i] = cursor.frame.flags;
        walk->function[i] = cursor.frame.function;
        walk->place[i] = cursor.frame.place;
        if (i > 0) {
            walk->cfa[i - 1] = cursor.left.cfa;
            walk->left[i - 1] = cursor.left;
        }
        if (walk->count == WALK_MOST || unwind_step(&cursor, &walk->verdict) != UNWIND_OK)
            break;
    }
    walk_in_runs(walk, ucontext, bounds, 16);
    walk_in_runs(walk, ucontext, bounds, 3);
}

struct reference_state {
    struct walk *walk;
    uintptr_t pc;
    int started;
};

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument)
{
    struct reference_state *state = argument;
    int before;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    if (!state->started && !(before && pc == state->pc))
        return _URC_NO_REASON;
    state->started = 1;
    if (pc && state->walk->count < WALK_MOST)
        state->walk->pc[state->walk->count++] = pc;
    return _URC_NO_REASON;
}

void walk_reference(struct walk *walk, uintptr_t pc)
{
    struct reference_state state = {walk, pc, 0};
    walk->count = 0;
    walk->verdict = VERDICT_COMPLETE;
    _Unwind_Backtrace(take_frame, &state);
}

int walk_difference(const struct walk *ours, const struct walk *reference)
{
    for (unsigned i = 0; i < ours->count && i < reference->count; i++)
        if (ours->pc[i] != reference->pc[i])
            return (int)i;
    if (ours->count != reference->count)
        return (int)(ours->count < reference->count ? ours->count : reference->count);
    return -1;
}

void walk_print(const char *name, const struct walk *walk)
{
    fprintf(stderr, "%s: %u frames, %s\n", name, walk->count, verdict_name(walk->verdict));
    for (unsigned i = 0; i < walk->count && i < 40; i++) {
        Dl_info info = {0};
        dladdr((void *)walk->pc[i], &info);
        fprintf(stderr, "  %2u %#lx %s %s+%#lx\n", i, (unsigned long)walk->pc[i],
                info.dli_fname ? info.dli_fname : "?", info.dli_sname ? info.dli_sname : "?",
                (unsigned long)(walk->pc[i] - (uintptr_t)info.dli_saddr));
    }
}

uintptr_t interrupted_pc(const void *ucontext)
{
    return (uintptr_t)((const ucontext_t *)ucontext)->uc_mcontext.gregs[REG_RIP];
}
