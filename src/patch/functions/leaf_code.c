// SPDX-License-Identifier: MIT
#include "patch/functions/leaf_code.h"
#include "base/gc_hidden.h"
#include "patch/functions/functions.h"
#include "patch/stubs/bump_allocator.h"

#define STRETCHES 256
#define BYTES_MOST (UINT64_C(64) << 10) // that are decoded

// Straight code: from where a way leads to, up to a return or a jump. Under the lock.
static struct stretch {
    uintptr_t start, end; // end: the start, until it is decoded
} stretches[STRETCHES] GC_HIDDEN;
static unsigned stretch_count;

// Whether a way leads there that is known, or is noted now. False: there are too many.
static bool note_way(uintptr_t to)
{
    for (unsigned i = 0; i < stretch_count; i++)
        if (to == stretches[i].start || (to > stretches[i].start && to < stretches[i].end))
            return true;
    if (stretch_count == STRETCHES)
        return false;
    stretches[stretch_count++] = (struct stretch){to, to};
    return true;
}

static bool goes_on(const struct instruction *in)
{
    return in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL;
}

static bool is_covered(uintptr_t pc)
{
    return functions_at(pc) != NULL;
}

// Decodes a stretch to its end. False: it leads to where nobody knows, or is not decoded.
static bool follow(struct stretch *stretch, const struct module_ref *module, uint64_t *left)
{
    struct instruction in = {.flow = FLOW_NEXT};
    uintptr_t pc = stretch->start;
    if (is_covered(pc))
        return false;
    for (; goes_on(&in); stretch->end = pc += in.length) {
        if (pc < module->code_start || pc >= module->code_end ||
            !decode((const unsigned char *)pc, module->code_end - pc, &in) || in.length > *left)
            return false;
        *left -= in.length;
        const bool direct = in.flow == FLOW_BRANCH || in.flow == FLOW_JUMP || in.flow == FLOW_CALL;
        if (direct ? !note_way(decode_target(&in, pc))
                   : in.flow != FLOW_NEXT && in.flow != FLOW_RETURN && in.flow != FLOW_STOP)
            return false;
    }
    // Code that goes on into a function with a table ends there.
    return !is_covered(pc - in.length);
}

static bool is_leaf_code(uintptr_t address)
{
    const struct patch_module *module = functions_module(address);
    uint64_t left = BYTES_MOST;
    // Elsewhere, the answer would have to be forgotten with the code.
    if (!module || module->refused || !module->ref.permanent)
        return false;
    stretch_count = 0;
    note_way(address);
    for (unsigned i = 0; i < stretch_count; i++)
        if (!follow(&stretches[i], &module->ref, &left))
            return false;
    return true;
}

bool leaf_code_is(uintptr_t address)
{
    static struct address_index known; // what was asked, and the answer
    static char yes, no;
    const char *answer = address ? index_find(&known, address) : &no;
    if (!answer) {
        answer = !functions_at(address) && is_leaf_code(address) ? &yes : &no;
        if (functions_module(address) && functions_module(address)->ref.permanent)
            index_put(&known, address, (void *)answer);
    }
    return answer == &yes;
}
