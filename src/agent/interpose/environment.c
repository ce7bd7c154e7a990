// SPDX-License-Identifier: MIT
#include "agent/interpose/environment.h"
#include "agent/interpose/limits.h"
#include "agent/session/agent.h"
#include "base/text/decimal.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define PRELOAD "LD_PRELOAD"

// The value if the entry is the variable `name`, else NULL.
static const char *value_of(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(entry, name, length) && entry[length] == '=' ? entry + length + 1 : NULL;
}

static const char *find(char *const *environment, const char *name)
{
    for (; environment && *environment; environment++) {
        const char *value = value_of(*environment, name);
        if (value)
            return value;
    }
    return NULL;
}

// The variable's value: the path, and after an exec "@", the charged clock, "@" and the limits.
bool environment_session(char *const *environment, char *path, size_t bytes, uint64_t *charged,
                         const char **limits)
{
    const char *value = find(environment, LIVE_ENVIRONMENT);
    if (!value)
        return false;
    const char *rest = strchrnul(value, '@');
    const size_t length = (size_t)(rest - value);
    if (length >= bytes)
        return false;
    memcpy(path, value, length);
    path[length] = 0;
    *charged = 0;
    if (*rest)
        for (rest++; *rest >= '0' && *rest <= '9'; rest++)
            *charged = *charged * 10 + (uint64_t)(*rest - '0');
    *limits = *rest == '@' && rest[1] ? rest + 1 : NULL;
    return true;
}

bool environment_is_of_another(char *const *environment)
{
    const char *value = find(environment, LIVE_ENVIRONMENT);
    const size_t length = strlen(agent.session_path);
    return value &&
           (strncmp(value, agent.session_path, length) || (value[length] && value[length] != '@'));
}

bool environment_is_emulated(char *const *environment)
{
    const char *preload = find(environment, PRELOAD);
    return preload && strstr(preload, "/vgpreload_");
}

// The value of LD_PRELOAD without the agent at its front; NULL if nothing else is in it.
static const char *preload_rest(const char *value, const char *agent_path)
{
    size_t length = strlen(agent_path);
    if (strncmp(value, agent_path, length))
        return value;
    if (value[length] == ':' || value[length] == ' ')
        return value + length + 1;
    return value[length] ? value : NULL;
}

// Programs look for what the kernel has put behind their environment (Go does): where our variables
// were, there are entries then that are to be ignored.
static void fill_gap(char **end, char **old_end)
{
    for (char **gap = end + 1; gap + 1 <= old_end; gap += 2) {
        gap[0] = (char *)AT_IGNORE;
        gap[1] = NULL;
    }
}

void environment_hide(char **environment, const char *agent_path)
{
    char **kept = environment;
    for (; *environment; environment++) {
        const char *preload = value_of(*environment, PRELOAD);
        if (value_of(*environment, LIVE_ENVIRONMENT) || !strcmp(*environment, LIVE_BIND_NOW) ||
            !strcmp(*environment, LIVE_EVEN))
            continue;
        if (preload) {
            const char *rest = preload_rest(preload, agent_path);
            if (!rest)
                continue;
            memmove(*environment + sizeof PRELOAD, rest, strlen(rest) + 1);
        }
        *kept++ = *environment;
    }
    *kept = NULL;
    fill_gap(kept, environment);
}

size_t environment_count(char *const *environment)
{
    size_t count = 0;
    while (environment && environment[count])
        count++;
    return count;
}

size_t environment_preload_length(char *const *environment)
{
    const char *value = find(environment, PRELOAD);
    return value ? strlen(value) : 0;
}

void environment_show(char *const *environment, const char **shown, char *text, uint64_t charged)
{
    const char *preload = find(environment, PRELOAD);
    char *const *given = environment;
    unsigned added = 1;
    for (; environment && *environment; environment++)
        if (!value_of(*environment, PRELOAD) && !value_of(*environment, LIVE_ENVIRONMENT))
            *shown++ = *environment;
    if (live_rewrites(&agent.session->options) && !find(given, "LD_BIND_NOW")) {
        *shown++ = LIVE_BIND_NOW;
        added++;
    }
    *shown++ = text;
    text = stpcpy(stpcpy(stpcpy(text, LIVE_ENVIRONMENT "="), agent.session_path), "@");
    text = decimal_write(text, charged);
    text = limits_print(stpcpy(text, "@")) + 1;
    *shown++ = text;
    text = stpcpy(stpcpy(text, PRELOAD "="), agent.session->agent_path);
    // A program that was itself shown our LD_PRELOAD (it asked /proc) must not load the agent
    // twice.
    if (preload)
        preload = preload_rest(preload, agent.session->agent_path);
    if (preload && *preload)
        stpcpy(stpcpy(text, ":"), preload);
    else
        added++;
    if (added % 2)
        *shown++ = LIVE_EVEN;
    *shown = NULL;
}
