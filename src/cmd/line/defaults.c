// SPDX-License-Identifier: MIT
#include "cmd/line/defaults.h"
#include "base/text/nearest.h"
#include "cmd/line/config.h"
#include <stdio.h>
#include <string.h>

// The message begins with where the mistake is.
static void set_place(const struct config *config, const struct setting *setting)
{
    static char place[4096 + 32];
    snprintf(place, sizeof place, "%s:%u: ", config->path, setting->line);
    complain_at(place);
}

static int check_name(const struct command *command, const struct setting *setting)
{
    if (option_of(command, setting->name))
        return 0;
    const char *near = option_nearest(command, setting->name);
    if (near && option_of(command, near))
        complain("there is no option '%s': did you mean '%s'?", setting->name, near);
    else if (*command->name)
        complain("cairn %s has no option '%s' that can have a default", command->name,
                 setting->name);
    else
        complain("not all commands have an option '%s': name one in brackets above, as in [record]",
                 setting->name);
    return STATUS_MISUSE;
}

static int check_value(const struct option_row *row, const struct setting *setting)
{
    if (row->argument || !strcmp(setting->value, "yes") || !strcmp(setting->value, "no"))
        return 0;
    complain("%s takes yes or no, not '%s'", setting->name, setting->value);
    return STATUS_MISUSE;
}

static int check_command(const struct setting *setting)
{
    const char *near = nearest_command(setting->command);
    complain("'%s' is not a cairn command%s%s%s", setting->command, near ? ": did you mean '" : "",
             near ? near : "", near ? "'?" : "");
    return STATUS_MISUSE;
}

static int check_setting(const struct setting *setting)
{
    const struct command *command = command_by_name(setting->command);
    if (!command)
        return check_command(setting);
    const int status = check_name(command, setting);
    return status ? status : check_value(option_of(command, setting->name), setting);
}

int defaults_check(void)
{
    const struct config *config;
    int status = config_read(&config);
    for (size_t i = 0; !status && i < config->count; i++) {
        set_place(config, &config->settings[i]);
        status = check_setting(&config->settings[i]);
    }
    complain_at("");
    return status;
}

static bool is_for(const struct setting *setting, const struct command *command)
{
    return *setting->command ? !strcmp(setting->command, command->name) : command->prints;
}

bool defaults_next(const struct command *command, size_t *at, struct option_default *next)
{
    const struct config *config;
    config_read(&config);
    while (*at < config->count) {
        const struct setting *setting = &config->settings[(*at)++];
        const struct option_row *row = option_of(command_by_name(setting->command), setting->name);
        if (!is_for(setting, command) || (!row->argument && !strcmp(setting->value, "no")))
            continue;
        *next = (struct option_default){row, row->argument ? setting->value : NULL};
        set_place(config, setting);
        return true;
    }
    return false;
}

void defaults_end(const struct command *command)
{
    const struct config *config;
    static char names[256];
    size_t length = 0;
    config_read(&config);
    complain_at("");
    for (size_t i = 0; i < config->count && length < sizeof names; i++)
        if (!strcmp(config->settings[i].command, command->name))
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length ? ", " : "", config->settings[i].name);
    if (length)
        misuse_mentions(config->path, names);
}
