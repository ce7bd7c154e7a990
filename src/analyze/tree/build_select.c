// SPDX-License-Identifier: MIT

// Which threads and processes of a profile are chosen, and what they are called.

#include "analyze/names/names.h"
#include "analyze/tree/build.h"
#include "analyze/tree/name_sums.h"
#include "base/memory.h"

static const char *start_routine(struct functions *functions, const struct profile_tree *tree)
{
    if (tree->start == 0)
        return "main thread";
    const struct spot *spot = functions_look_up(functions, tree->process, tree->start);
    if (!spot)
        return "thread";
    const struct located *last = functions_located(functions, spot) + spot->count - 1;
    return functions_get(functions, last->function)->name;
}

const char *build_thread_name(struct functions *functions, const struct profile *profile,
                              const struct profile_tree *tree, enum thread_split split)
{
    static char main_thread[THREAD_NAME_BYTES + 32];
    const uint32_t index = (uint32_t)(tree - profile->trees);
    const struct names *names = functions_names(functions);
    const char *name = split == THREADS_BY_START ? NULL
                       : split == THREADS_APART  ? names_thread(names, index)
                                                 : names_pool(names, index);
    if (!name || tree->start != 0)
        return name ? name : start_routine(functions, tree);
    snprintf(main_thread, sizeof main_thread, "%s (%s)", start_routine(functions, tree), name);
    return main_thread;
}

static bool matches(struct pattern *pattern, struct functions *functions, const char *name)
{
    return pattern_matches(pattern, functions, functions_intern(functions, name, MODULE_NONE));
}

bool build_selects_process(struct functions *functions, const struct profile *profile,
                           uint32_t process, const struct build_options *options)
{
    if (!options->process && !options->process_name)
        return true;
    if (process >= profile->process_count)
        return false;
    if (options->process && profile->processes[process].pid != options->process)
        return false;
    if (!options->process_name || matches(options->process_name, functions,
                                          names_process(functions_names(functions), process)))
        return true;
    char *command = names_command(functions_names(functions), process);
    const bool chosen = matches(options->process_name, functions, command);
    free(command);
    return chosen;
}

static bool is_chosen_thread(struct functions *functions, const struct profile *profile,
                             const struct profile_tree *tree, const struct build_options *options)
{
    if (options->tid != 0 && tree->tid != options->tid)
        return false;
    if (!options->thread)
        return true;
    for (enum thread_split split = THREADS_BY_NAME; split <= THREADS_APART; split++)
        if (matches(options->thread, functions, build_thread_name(functions, profile, tree, split)))
            return true;
    return false;
}

bool build_selects(struct functions *functions, const struct profile *profile,
                   const struct profile_tree *tree, const struct build_options *options)
{
    if (options->phase && (!tree->phase[0] || !matches(options->phase, functions, tree->phase)))
        return false;
    return build_selects_process(functions, profile, tree->process, options) &&
           is_chosen_thread(functions, profile, tree, options);
}

static bool selects_any(struct functions *functions, const struct profile *profile,
                        const struct build_options *options)
{
    for (unsigned i = 0; i < profile->tree_count; i++)
        if (build_selects(functions, profile, &profile->trees[i], options))
            return true;
    return false;
}

// Why a process is not there to be shown; NULL if it is not in the profile.
static char *explain_pid(const struct profile *profile, uint32_t pid)
{
    char *text = NULL;
    int made = 0;
    for (unsigned i = 0; i < profile->process_count && !text; i++) {
        const struct profile_process *process = &profile->processes[i];
        if (process->pid != pid)
            continue;
        if (process->merged_into < profile->process_count)
            made = asprintf(&text,
                            "process %u was folded into process %u of the same program while "
                            "recording: try --process %u",
                            pid, profile->processes[process->merged_into].pid,
                            profile->processes[process->merged_into].pid);
        else
            made = asprintf(&text, "process %u was not sampled: it was too short or idle", pid);
    }
    return made < 0 ? memory_checked(NULL) : text;
}

static char *explain_process(struct functions *functions, const struct profile *profile,
                             const struct build_options *options)
{
    char *text = options->process ? explain_pid(profile, options->process) : NULL;
    if (text)
        return text;
    struct name_sums sums =
        name_sums_programs(functions, profile, &(struct build_options){0}, NULL);
    char *names = name_sums_list(&sums);
    const int made = options->process
                         ? asprintf(&text, "process %u is not in this profile, which has %s",
                                    options->process, names)
                         : asprintf(&text, "no process matches '%s'; the profile has %s",
                                    pattern_text(options->process_name), names);
    free(names);
    name_sums_free(&sums);
    return made < 0 ? memory_checked(NULL) : text;
}

static char *explain_thread(struct functions *functions, const struct profile *profile,
                            const struct build_options *options)
{
    char *text = NULL;
    const struct build_options others = {.process = options->process,
                                         .process_name = options->process_name};
    struct name_sums sums = name_sums_threads(functions, profile, &others, NULL);
    char *names = name_sums_list(&sums);
    const int made = options->tid
                         ? asprintf(&text,
                                    "thread %u is not in this profile, which has %s ('--by thread "
                                    "--per-thread=tid' has their numbers)",
                                    options->tid, names)
                         : asprintf(&text, "no thread matches '%s'; the profile has %s",
                                    pattern_text(options->thread), names);
    free(names);
    name_sums_free(&sums);
    return made < 0 ? memory_checked(NULL) : text;
}

static char *explain_phase(const struct profile *profile, const struct pattern *phase)
{
    char *text = NULL;
    char *names = profile_phases(profile, "', '");
    if (names && asprintf(&text, "no phase matches '%s'; the profile has '%s'", pattern_text(phase),
                          names) < 0)
        text = NULL;
    else if (!names)
        text = strdup("this profile has no phases: programs name them with cairn_phase_begin()");
    free(names);
    return memory_checked(text);
}

int build_check(struct functions *functions, const struct profile *profile,
                const struct build_options *options, char **error)
{
    if (!build_is_part(options) || selects_any(functions, profile, options))
        return 0;
    const struct build_options process = {.process = options->process,
                                          .process_name = options->process_name};
    const struct build_options phase = {.phase = options->phase};
    struct build_options thread = process;
    thread.tid = options->tid;
    thread.thread = options->thread;
    if (!selects_any(functions, profile, &process))
        *error = explain_process(functions, profile, options);
    else if (options->phase && !selects_any(functions, profile, &phase))
        *error = explain_phase(profile, options->phase);
    else if (!selects_any(functions, profile, &thread))
        *error = explain_thread(functions, profile, options);
    else
        *error = memory_text("nothing is in that phase, thread and process");
    return -1;
}
