// SPDX-License-Identifier: MIT
#include "cmd/record/from_outside.h"
#include "base/text/text.h"
#include "cmd/events/restriction.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

bool from_outside_fits(const struct record_options *options, const char **why)
{
    const struct {
        bool differs;
        const char *what;
    } wishes[] = {
        {options->tracker != LIVE_TRACKER_WALK, "--track"},
        {options->trees.kind != LIVE_TREE_FULL, "--tree"},
        {options->event_count != 1 || options->event != LIVE_EVENT_CPU, "events other than cpu"},
        {options->timeline, "--timeline"},
        {options->verify || options->empty_handler, "tests of the agent"},
    };
    for (unsigned i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (wishes[i].differs) {
            *why = wishes[i].what;
            return false;
        }
    return true;
}

bool from_outside_permitted(pid_t pid, struct from_outside_refusal *why)
{
    struct restriction restriction;
    const int error = outside_try(pid);
    if (!error)
        return true;
    restriction_of_error(error, pid == OUTSIDE_EVERYTHING ? 0 : 2, &restriction);
    snprintf(why->text, sizeof why->text, "%s%s%s", restriction.reason,
             *restriction.remedy ? "; " : "", restriction.remedy);
    return false;
}

int from_outside_check(const struct record_options *options, const char *refusal, pid_t pid)
{
    struct from_outside_refusal permission;
    const char *wish = NULL;
    if (!from_outside_fits(options, &wish))
        complain("%s; samples from outside are possible, but not with %s", refusal, wish);
    else if (!from_outside_permitted(pid, &permission))
        complain("%s; samples from outside are not possible either: %s", refusal, permission.text);
    else
        return 0;
    return STATUS_MISUSE;
}

int from_outside_check_all(const struct record_options *options)
{
    struct from_outside_refusal permission;
    const char *wish = NULL;
    if (!from_outside_fits(options, &wish))
        complain("-a samples all processes from outside, which is not possible with %s", wish);
    else if (!from_outside_permitted(OUTSIDE_EVERYTHING, &permission))
        complain("cannot sample the whole machine: %s", permission.text);
    else
        return 0;
    return STATUS_MISUSE;
}

int from_outside_add(struct outside *outside, const struct record_options *options)
{
    int error = options->everything ? outside_add_all(outside) : 0;
    for (unsigned i = options->entered_count; !error && i < options->pid_count; i++)
        error = outside_add(outside, options->pids[i], OUTSIDE_NOW);
    return error == -ESRCH ? 0 : error; // it has ended by itself
}

struct outside *from_outside_open(const struct record_options *options,
                                  const struct session *session)
{
    const struct outside_options wanted = {
        .memory = {.fd = session->fd,
                   .session = session->shared,
                   .slice_bytes = session->slice_bytes,
                   .slices = session->slices},
        .period_ns = options->period_ns,
        .kernel = options->kernel,
        .follow_fork = options->follow_fork,
    };
    return outside_open(&wanted);
}

char *from_outside_note(const struct outside *outside)
{
    char *note = NULL;
    const int length = asprintf(
        &note,
        "sampled from outside, without the agent: paths that take more than %s of "
        "a stack are cut short%s",
        text_bytes(outside_stack_bytes(outside)).text,
        outside_sees_kernel(outside) ? ""
                                     : "; time in the kernel counts where the program went on");
    return length < 0 ? NULL : note;
}
