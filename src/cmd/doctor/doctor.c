// SPDX-License-Identifier: MIT

// `cairn doctor`: checks what works on this machine, and what to do about the rest.

#include "base/text/text.h"
#include "cmd/doctor/check.h"
#include "cmd/line/options.h"
#include "cmd/line/terminal.h"
#include "cmd/record/from_outside.h"
#include "cmd/record/launch/launch.h"
#include "inject/injection_target.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int examine_program(struct checks *checks, char **words)
{
    struct launch launch;
    const int status = launch_examine(&launch, words);
    if (!status) {
        check_program(checks, &launch);
        return 0;
    }
    if (status != STATUS_MISUSE)
        return misuse(&command_doctor, "doctor: %s", launch.refusal);
    // "cannot profile PATH: why; what to do"
    char *remedy = strrchr(launch.refusal, ';');
    if (remedy)
        *remedy++ = 0;
    struct from_outside_refusal why;
    const char *reason = strstr(launch.refusal, ": ");
    struct check *check = launch.from_outside && reason && from_outside_permitted(0, &why)
                              ? checks_add(checks, "program", CHECK_LIMITED,
                                           "%s is sampled from outside, by cpu time alone: %s",
                                           launch.path, reason + 2)
                              : checks_add(checks, "program", CHECK_NO, "%s", launch.refusal);
    check->essential = true;
    if (remedy)
        check_remedy(check, "%s", remedy + strspn(remedy, " "));
    return 0;
}

// 0: it is no number, but the name of a program.
static pid_t process_of(const char *word)
{
    char *end;
    errno = 0;
    const long number = strtol(word, &end, 10);
    return *end || end == word || errno || number <= 0 || number > INT_MAX ? 0 : (pid_t)number;
}

static int examine_process(struct checks *checks, pid_t pid)
{
    struct launch launch;
    struct target target;
    if (launch_find_agent(&launch, AGENT_NAME))
        return 0; // a check of its own says so
    struct check *check;
    if (target_examine(&target, pid, launch.agent_path))
        check = checks_add(checks, "process", CHECK_OK, "process %d can be recorded", (int)pid);
    else
        check =
            checks_add(checks, "process", target.fits_outside ? CHECK_LIMITED : CHECK_NO, "%s%s",
                       target.why, target.fits_outside ? "; it is sampled from outside" : "");
    check->essential = true;
    return 0;
}

static int examine(struct checks *checks, char **words)
{
    const pid_t pid = process_of(words[0]);
    return pid && access(words[0], F_OK) ? examine_process(checks, pid)
                                         : examine_program(checks, words);
}

static void print_verdict(const struct checks *checks, const char *program)
{
    const bool is_process = program && process_of(program);
    if (!checks_pass(checks))
        printf("\n%s%s cannot be recorded here: see the lines marked 'no'.\n",
               is_process ? "Process " : "", program ? text_safe(program) : "Programs");
    else
        printf("\nRecording works: cairn record %s %s\n", is_process ? "-p" : "--",
               program ? text_safe(program) : "COMMAND");
}

static const struct option_row rows[] = {
    OPTION_TITLE("Options"), {256, "json", NULL, "The same as JSON."}, OPTION_TABLE_END};

static int run_doctor(int argc, char **argv)
{
    bool as_json = false;
    struct option_scan scan = option_scan(&command_doctor, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        as_json = true;
    }
    if (argc - optind > 1)
        return misuse(&command_doctor, "doctor: one program at a time, not '%s' as well",
                      argv[optind + 1]);
    char *program = argv[optind];
    struct checks checks = {.list = NULL};
    int status = program ? examine(&checks, argv + optind) : 0;
    check_events(&checks);
    check_machine(&checks);
    check_names(&checks);
    terminal_use_pager();
    if (!status && as_json) {
        checks_print_json(&checks);
    } else if (!status) {
        struct text_style style = terminal_style();
        checks_print(&checks, &style);
        print_verdict(&checks, program);
    }
    if (!status && !(status = finish_output("doctor")) && !checks_pass(&checks))
        status = STATUS_FAILED;
    checks_free(&checks);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check what works on this machine, and what to do about the rest",
    .usage = "[PROGRAM | PID] [OPTION...]",
    .help = "Tries what 'cairn record' needs, as this user on this machine. Each line has a\n"
            "mark (ok, limited or no) and a finding. The line below it names a command that\n"
            "helps, if there is one.\n"
            "\n"
            "    cairn doctor              this machine and this user\n"
            "    cairn doctor ./program    can it be recorded, and with which names\n"
            "    cairn doctor 4711         can this process be recorded, with 'record -p'\n",
    .notes = "\n"
             "Exit status: 0 if CPU time can be recorded (of PROGRAM or PID, if one is named),\n"
             "1 if not, 2 if the command line is wrong.\n",
    .options = rows,
    .prints = true,
    .run = run_doctor,
};
