// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_LEAF_FORMS_H
#define CAIRN_TESTS_LEAF_FORMS_H

extern const struct leaf_forms {
    void (*leaf)(void), (*one_up)(void), (*two_up)(void), (*three_up)(void), (*four_up)(void),
        (*jumps)(void), (*system_call)(void), (*itself)(void), (*there)(void), (*and_back)(void),
        (*through_pointer)(void), (*jump_through_pointer)(void), (*above_pointer)(void),
        (*jump_to_pointer)(void), (*jumps_from_high)(void), (*above_shared)(void);
    // Without unwind tables.
    void (*bare)(void), (*bare_above_bare)(void), (*bare_above_leaf)(void),
        (*bare_through_pointer)(void), (*bare_falls)(void);
} leaf_forms __attribute__((visibility("default")));

#endif
