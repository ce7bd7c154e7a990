// SPDX-License-Identifier: MIT
#include "cmd/events/counter_check.h"
#include "cmd/events/counter_names.h"
#include "cmd/events/restriction.h"
#include "event/counter_attributes.h"
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_PRECISE 2 // without skid

static int try_as_it_is(const struct live_counter *counter)
{
    struct perf_event_attr attributes;
    counter_attributes(counter, &attributes);
    const long fd = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return -errno;
    close((int)fd);
    return 0;
}

int counter_is_in_kernel(const struct live_counter *counter)
{
    for (size_t i = 0; i < counter_name_count; i++)
        if (counter_names[i].type == counter->type && counter_names[i].config == counter->config)
            return counter_names[i].is_in_kernel;
    return 0;
}

static int try_precise(struct live_counter *counter)
{
    int error = -ENOENT;
    counter->precise = counter->type == PERF_TYPE_SOFTWARE ? 0 : MOST_PRECISE;
    while ((error = try_as_it_is(counter)) && counter->precise > 0)
        counter->precise--;
    return error;
}

int counter_try(struct live_counter *counter)
{
    counter->exclude_kernel = 0;
    const int error = try_precise(counter);
    if ((error != -EACCES && error != -EPERM) || counter_is_in_kernel(counter))
        return error;
    counter->exclude_kernel = 1;
    return try_precise(counter);
}

// Any unit of this processor that counts: "cpu", or "cpu_core" and "armv8_pmuv3" elsewhere.
static int has_hardware(void)
{
    glob_t found = {.gl_pathc = 0};
    const int any = !glob("/sys/bus/event_source/devices/*cpu*", 0, NULL, &found) ||
                    !glob("/sys/bus/event_source/devices/armv*", 0, NULL, &found);
    globfree(&found);
    return any;
}

void counter_refused(const struct live_counter *counter, int error, struct counter_refusal *refusal)
{
    struct restriction why = {.reason = ""};
    const int missing = error == -ENOENT || error == -EOPNOTSUPP || error == -ENODEV;
    *refusal = (struct counter_refusal){.remedy = ""};
    if (missing && !has_hardware()) {
        strcpy(refusal->reason, "no hardware counters");
        strcpy(refusal->remedy, "use -e cpu");
    } else if (missing) {
        strcpy(refusal->reason, "this processor does not count it");
        strcpy(refusal->remedy, "use -e cpu");
    } else if (error == -EINVAL && counter->type > PERF_TYPE_MAX) {
        strcpy(refusal->reason, "this unit counts for no single thread, or not this");
        strcpy(refusal->remedy, "use -e cpu");
    } else {
        const long needed = counter_is_in_kernel(counter) ? 1 : 2;
        restriction_of_error(error, needed, &why);
        strcpy(refusal->reason, why.reason);
        strcpy(refusal->remedy, why.remedy);
    }
}
