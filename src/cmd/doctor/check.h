// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_DOCTOR_CHECK_H
#define CAIRN_CMD_DOCTOR_CHECK_H

// The results of `cairn doctor`: a list of checks, each with a mark, a finding, and a command that
// helps.

#include <stdbool.h>
#include <stddef.h>

enum check_mark {
    CHECK_OK,
    CHECK_LIMITED, // it works, with less than there could be
    CHECK_NO,      // it does not work
};

struct check {
    const char *name; // one word or two
    enum check_mark mark;
    bool essential; // nothing can be recorded where this does not work
    char *finding;
    char *remedy; // NULL: there is nothing to do, or nothing that helps
};

struct checks {
    struct check *list;
    size_t count, capacity;
};

struct check *checks_add(struct checks *checks, const char *name, enum check_mark mark,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
void check_remedy(struct check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void checks_free(struct checks *checks);

// True unless something essential does not work.
bool checks_pass(const struct checks *checks);

// For people, as wide as the style says (80 columns if it does not); and for programs.
struct text_style;
void checks_print(const struct checks *checks, const struct text_style *style);
void checks_print_json(const struct checks *checks);

// Checks of this machine and of this user's rights.
void check_machine(struct checks *checks);
// Which events can be recorded, and how.
void check_events(struct checks *checks);
// Where names for functions and lines come from.
void check_names(struct checks *checks);

// Checks a program that the agent can enter: its language, and its names.
struct launch;
void check_program(struct checks *checks, const struct launch *launch);

#endif
