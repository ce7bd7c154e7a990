// SPDX-License-Identifier: MIT
#include "profile/timeline.h"
#include <string.h>

// The numbers before the columns; a section in memory begins with its thread.
struct section_head {
    uint32_t tid;
    uint64_t lost, count;
    uint64_t bytes[3]; // of the columns
};

static bool take_head(struct cursor *cursor, struct section_head *head)
{
    head->tid = cursor_varint32(cursor);
    head->lost = cursor_varint(cursor);
    head->count = cursor_varint(cursor);
    for (unsigned i = 0; i < 3; i++)
        head->bytes[i] = cursor_varint(cursor);
    return !cursor->failed;
}

static struct cursor take_column(struct cursor *cursor, uint64_t bytes)
{
    const uint8_t *at = bytes <= cursor_left(cursor) ? cursor_bytes(cursor, bytes) : NULL;
    cursor->failed |= !at && bytes;
    return at ? (struct cursor){at, at + bytes, false} : (struct cursor){cursor->at, cursor->at, 0};
}

bool timeline_next_section(struct timeline_cursor *cursor)
{
    struct section_head head;
    if (cursor_left(&cursor->sections) == 0 || !take_head(&cursor->sections, &head))
        return false;
    cursor->times = take_column(&cursor->sections, head.bytes[0]);
    cursor->charged = take_column(&cursor->sections, head.bytes[1]);
    cursor->weights = take_column(&cursor->sections, head.bytes[2]);
    cursor->left = head.count;
    cursor->lost += head.lost;
    cursor->tid = head.tid;
    cursor->node = 0;
    cursor->time = 0;
    memset(cursor->last, 0, sizeof cursor->last);
    memset(cursor->weight, 0, sizeof cursor->weight);
    return !cursor->sections.failed;
}

struct timeline_cursor timeline_begin(const struct profile *profile,
                                      const struct profile_tree *tree)
{
    const struct profile_charges *charges = &tree->charges;
    return (struct timeline_cursor){
        .profile = profile,
        .nodes = tree->count,
        .sections = {charges->sections, charges->sections + charges->bytes, false},
    };
}

// The next charge of a section; its metric is 0 or 1.
static struct timeline_charge decode(struct timeline_cursor *cursor)
{
    cursor->time += cursor_varint(&cursor->times);
    const uint64_t charged = cursor_varint(&cursor->charged),
                   code = cursor_varint(&cursor->weights);
    const unsigned metric = charged & 1;
    cursor->node += (uint32_t)unzigzag(charged >> 1);
    if (code != WEIGHT_AGAIN)
        cursor->weight[metric] =
            code == WEIGHT_ELAPSED ? cursor->time - cursor->last[metric] : code - WEIGHT_PLAIN;
    cursor->last[metric] = cursor->time;
    return (struct timeline_charge){.time_ns = cursor->time,
                                    .weight = cursor->weight[metric],
                                    .node = cursor->node,
                                    .tid = cursor->tid,
                                    .metric = metric};
}

static bool columns_failed(const struct timeline_cursor *cursor)
{
    return cursor->times.failed || cursor->charged.failed || cursor->weights.failed;
}

bool timeline_next(struct timeline_cursor *cursor, struct timeline_charge *charge)
{
    while (cursor->left == 0)
        if (!timeline_next_section(cursor))
            return false;
    cursor->left--;
    *charge = decode(cursor);
    // Nodes whose chunk was lost: the root stands for them.
    if (charge->node >= cursor->nodes)
        charge->node = 0;
    charge->metric = cursor->profile->timeline.metrics[charge->metric];
    return !columns_failed(cursor);
}

bool timeline_section_is_sound(const struct timeline_cursor *section, unsigned metrics,
                               uint32_t nodes)
{
    struct timeline_cursor cursor = *section;
    for (; cursor.left; cursor.left--) {
        const struct timeline_charge charge = decode(&cursor);
        if (columns_failed(&cursor) || charge.metric >= metrics || charge.node >= nodes)
            return false;
    }
    return !cursor_left(&cursor.times) && !cursor_left(&cursor.charged) &&
           !cursor_left(&cursor.weights);
}
