// SPDX-License-Identifier: MIT
#include "encode/machine.h"
#include <errno.h>

void machine_reset(struct machine *machine)
{
    machine->id = 0;
    machine->depth = machine->tail_depth = 0;
}

static int push(struct machine *machine, const struct numbering *numbering, uint32_t edge,
                uint32_t count)
{
    if (machine->depth == machine->limit)
        return -ENOSPC;
    machine->stack[machine->depth++] = (struct cc_entry){machine->id, edge, count};
    machine->id = dictionary_base(numbering->dictionary) + numbering_code(numbering, edge)->add;
    return 0;
}

static struct cc_entry *top_of(const struct machine *machine)
{
    return machine->depth > 0 ? &machine->stack[machine->depth - 1] : NULL;
}

// What is done on the way into a function, all that is undone on the way back. `kept` goes into the
// entry of an edge from outside.
static int take(struct machine *machine, const struct numbering *numbering, uint32_t edge,
                uint32_t kept)
{
    const struct code *code = numbering_code(numbering, edge);
    if (code->action == ACTION_ADD) {
        machine->id += code->add;
        return 0;
    }
    struct cc_entry *top = top_of(machine);
    if (code->action == ACTION_REPEAT && top && top->id == machine->id && top->edge == edge &&
        top->count < UINT32_MAX) {
        top->count++;
        machine->id = dictionary_base(numbering->dictionary) + code->add;
        return 0;
    }
    bool keeps = graph_edge(numbering->graph, edge)->kind == EDGE_OUTSIDE;
    return push(machine, numbering, edge, keeps ? kept : 0);
}

int machine_enter(struct machine *machine, const struct numbering *numbering, uint32_t edge,
                  uint32_t function)
{
    if (!numbering_code(numbering, edge)->save)
        return take(machine, numbering, edge, function);
    if (machine->tail_depth == machine->tail_limit)
        return -ENOSPC;
    const struct cc_entry *top = top_of(machine);
    struct tc_entry saved = {machine->id, machine->depth, top ? top->count : 0, edge, 0};
    int status = take(machine, numbering, edge, function);
    if (status == 0)
        machine->tail_stack[machine->tail_depth++] = saved;
    return status;
}

int machine_call(struct machine *machine, const struct numbering *numbering, uint32_t edge)
{
    return machine_enter(machine, numbering, edge, graph_edge(numbering->graph, edge)->caller);
}

static void restore(struct machine *machine, const struct tc_entry *saved)
{
    machine->id = saved->id;
    machine->depth = saved->depth;
    if (saved->depth > 0)
        machine->stack[saved->depth - 1].count = saved->count;
}

void machine_return(struct machine *machine, const struct numbering *numbering, uint32_t edge)
{
    const struct code *code = numbering_code(numbering, edge);
    if (code->save) {
        restore(machine, &machine->tail_stack[--machine->tail_depth]);
        return;
    }
    if (code->action == ACTION_ADD) {
        machine->id -= code->add;
        return;
    }
    struct cc_entry *top = top_of(machine);
    machine->id = top->id;
    if (top->count > 0)
        top->count--;
    else
        machine->depth--;
}

// A circle of tail calls turns for ever on one frame of the stack. What it has piled up since the
// last real call is dropped, and the function called by that is kept in the entry.
static int loop(struct machine *machine, const struct numbering *numbering, uint32_t edge)
{
    uint32_t function = machine->root;
    if (machine->tail_depth == 0) {
        machine->id = 0;
        machine->depth = 0;
    } else {
        const struct tc_entry *saved = &machine->tail_stack[machine->tail_depth - 1];
        // If the call has pushed, its entry is still there.
        uint32_t kept = saved->depth < machine->depth ? machine->stack[saved->depth].count : 0;
        restore(machine, saved);
        int status = take(machine, numbering, saved->edge, kept);
        if (status < 0)
            return status;
        function = graph_edge(numbering->graph, saved->edge)->callee;
    }
    return push(machine, numbering, edge, function);
}

int machine_tail(struct machine *machine, const struct numbering *numbering, uint32_t edge)
{
    if (numbering_code(numbering, edge)->action == ACTION_LOOP)
        return loop(machine, numbering, edge);
    return take(machine, numbering, edge, 0);
}

int machine_replay(struct machine *machine, const struct numbering *numbering,
                   const uint32_t *edges, uint32_t count)
{
    uint32_t function = machine->root;
    machine_reset(machine);
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_edge *edge = graph_edge(numbering->graph, edges[i]);
        int status = edge_is_tail(edge) ? machine_tail(machine, numbering, edges[i])
                                        : machine_enter(machine, numbering, edges[i], function);
        if (status < 0)
            return status;
        function = edge->callee;
    }
    return 0;
}
