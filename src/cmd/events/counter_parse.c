// SPDX-License-Identifier: MIT
#include "cmd/events/counter_parse.h"
#include "base/memory.h"
#include "cmd/events/counter_names.h"
#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_PFM
#include <perfmon/pfmlib.h>
#include <perfmon/pfmlib_perf_event.h>
#endif

#define UNITS "/sys/bus/event_source/devices"
#define COUNTS "counts" // of what only its name says

#define LEAST_PERIOD_NS 100000

// Cuts ":N" off, which is a period, or a wrong one.
static enum counter_answer take_period(char *name, struct live_counter *counter)
{
    char *colon = strrchr(name, ':'), *end;
    if (!colon || strchr(colon, '/'))
        return COUNTER_FOUND;
    errno = 0;
    counter->period = strtoull(colon + 1, &end, 10);
    const bool is_whole = isdigit((unsigned char)colon[1]) && !*end && !errno;
    *colon = '\0';
    return is_whole && counter->period && !(counter->period >> 62) ? COUNTER_FOUND : COUNTER_WRONG;
}

static enum counter_answer check_period(const struct counter_choice *choice,
                                        enum counter_answer period, char **error)
{
    if (period == COUNTER_WRONG)
        *error = memory_text("a period is a whole number from 1 on");
    else if (choice->counter.period && choice->counter.period < LEAST_PERIOD_NS &&
             !strcmp(choice->unit, "ns"))
        *error = memory_text("its period is in ns, 100000 at least");
    return *error ? COUNTER_WRONG : COUNTER_FOUND;
}

// The first line of a file of a unit. False: there is no such file.
static bool read_line(const char *unit, const char *folder, const char *name, char *line, int bytes)
{
    char path[256];
    snprintf(path, sizeof path, UNITS "/%s%s%s/%s", unit, *folder ? "/" : "", folder, name);
    FILE *file = strchr(name, '.') || strchr(unit, '.') ? NULL : fopen(path, "re");
    const bool read = file && fgets(line, bytes, file);
    if (file)
        fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

// Puts the bits of a value where a format says: "config:0-7,21", the lowest first. False: there is
// no such place, or the value is too large for it.
static bool put_bits(struct live_counter *counter, const char *format, uint64_t value)
{
    uint64_t *word = !strncmp(format, "config:", 7)    ? &counter->config
                     : !strncmp(format, "config1:", 8) ? &counter->config1
                     : !strncmp(format, "config2:", 8) ? &counter->config2
                                                       : NULL;
    const char *at = strchr(format, ':');
    while (word && at && *at) {
        char *end;
        const unsigned long low = strtoul(at + 1, &end, 10);
        const unsigned long high = *end == '-' ? strtoul(end + 1, &end, 10) : low;
        if (low > high || high > 63)
            return false;
        const unsigned long bits = high - low + 1;
        *word |= (bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1)) << low;
        value = bits == 64 ? 0 : value >> bits;
        at = *end == ',' ? end : NULL;
    }
    return word && !value;
}

// One term: "event=0x3c", "umask" (1), "config=5".
static bool put_term(struct live_counter *counter, const char *unit, char *term, char **error)
{
    char *equals = strchr(term, '='), *end = NULL, format[128];
    if (equals)
        *equals = '\0';
    errno = 0;
    const uint64_t value = equals ? strtoull(equals + 1, &end, 0) : 1;
    const bool is_number = !equals || (end != equals + 1 && !*end && !errno);
    if (!strcmp(term, "config") || !strcmp(term, "config1") || !strcmp(term, "config2"))
        snprintf(format, sizeof format, "%s:0-63", term);
    else if (!read_line(unit, "format", term, format, sizeof format)) {
        if (asprintf(error, "the unit %s has no term '%s': see " UNITS "/%s/format", unit, term,
                     unit) < 0)
            memory_checked(NULL);
        return false;
    }
    if (is_number && put_bits(counter, format, value))
        return true;
    if (asprintf(error, "'%s' is no value that the term '%s' of %s can have",
                 equals ? equals + 1 : "1", term, unit) < 0)
        memory_checked(NULL);
    return false;
}

static bool put_terms(struct live_counter *counter, const char *unit, char *terms, char **error)
{
    for (char *term; (term = strsep(&terms, ",+"));) {
        char event[256];
        // A word alone may be an event of the unit, which is a list of terms itself.
        const bool is_event =
            !strchr(term, '=') && read_line(unit, "events", term, event, sizeof event);
        if (is_event ? !put_terms(counter, unit, event, error)
                     : *term && !put_term(counter, unit, term, error))
            return false;
    }
    return true;
}

// "cpu/event=0x3c,umask=0x1/". In names of metrics a plus stands for the comma, which is between
// names there.
static enum counter_answer parse_unit(const char *name, struct live_counter *counter, char **error)
{
    char *copy = memory_text(name), *terms = strchr(copy, '/'), line[64];
    *terms++ = '\0';
    char *last = strchr(terms, '/');
    enum counter_answer answer = COUNTER_WRONG;
    if (!last || last[1]) {
        *error = memory_text("it ends with a slash: cpu/event=0x3c/");
    } else if (!read_line(copy, "", "type", line, sizeof line)) {
        if (asprintf(error, "there is no unit '%s' here%s; 'ls " UNITS "' shows all", copy,
                     strcmp(copy, "cpu") ? "" : " (no hardware counters): use -e cpu") < 0)
            memory_checked(NULL);
    } else {
        *last = '\0';
        counter->type = (uint32_t)strtoul(line, NULL, 10);
        if (put_terms(counter, copy, terms, error))
            answer = COUNTER_FOUND;
    }
    free(copy);
    return answer;
}

static bool parse_raw(const char *name, struct live_counter *counter)
{
    char *end = NULL;
    if (*name != 'r' || !isxdigit((unsigned char)name[1]) || strlen(name) > 17)
        return false;
    counter->config = strtoull(name + 1, &end, 16);
    counter->type = PERF_TYPE_RAW;
    return !*end;
}

#ifdef HAVE_PFM
static bool parse_maker(const char *name, struct live_counter *counter)
{
    struct perf_event_attr attributes = {.size = sizeof attributes};
    pfm_perf_encode_arg_t encoding = {.attr = &attributes, .size = sizeof encoding};
    if (pfm_initialize() != PFM_SUCCESS ||
        pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &encoding) !=
            PFM_SUCCESS)
        return false;
    counter->type = attributes.type;
    counter->config = attributes.config;
    counter->config1 = attributes.config1;
    counter->config2 = attributes.config2;
    return true;
}
#else
static bool parse_maker(const char *name, struct live_counter *counter)
{
    (void)name;
    (void)counter;
    return false;
}
#endif

enum counter_answer counter_parse(const char *text, struct counter_choice *choice, char **error)
{
    struct live_counter *counter = &choice->counter;
    *choice = (struct counter_choice){.unit = COUNTS};
    if (strlen(text) >= sizeof choice->name)
        return COUNTER_UNKNOWN;
    strcpy(choice->name, text);
    const enum counter_answer period = take_period(choice->name, counter);
    const struct counter_name *named = counter_name_find(choice->name);
    if (named) {
        choice->unit = named->unit;
        counter->type = named->type;
        counter->config = named->config;
        counter->rest = named->rest;
        strcpy(choice->name, named->name);
        return check_period(choice, period, error);
    }
    if (counter_name_cache(choice->name, &counter->config)) {
        counter->type = PERF_TYPE_HW_CACHE;
        return check_period(choice, period, error);
    }
    if (parse_raw(choice->name, counter))
        return check_period(choice, period, error);
    if (strchr(choice->name, '/')) {
        if (check_period(choice, period, error) == COUNTER_WRONG ||
            parse_unit(choice->name, counter, error) == COUNTER_WRONG)
            return COUNTER_WRONG;
        for (char *comma = choice->name; (comma = strchr(comma, ','));)
            *comma = '+';
        return COUNTER_FOUND;
    }
    // Names of makers have colons of their own.
    if (period == COUNTER_WRONG) {
        counter->period = 0;
        strcpy(choice->name, text);
    }
    return parse_maker(choice->name, counter) ? COUNTER_FOUND : COUNTER_UNKNOWN;
}
