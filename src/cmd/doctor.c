// SPDX-License-Identifier: MIT

// `cairn doctor`: checks what works on this machine, and what to do about the rest.

#include "base/text/text.h"
#include "cmd/doctor/check.h"
#include "cmd/options.h"
#include "cmd/record/launch.h"
#include "cmd/terminal.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

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
    struct check *check = checks_add(checks, "program", CHECK_NO, "%s", launch.refusal);
    check->essential = true;
    if (remedy)
        check_remedy(check, "%s", remedy + strspn(remedy, " "));
    return 0;
}

static void print_verdict(const struct checks *checks, const char *program)
{
    if (!checks_pass(checks))
        printf("\n%s cannot be recorded here: see the lines marked 'no'.\n",
               program ? text_safe(program) : "Programs");
    else
        printf("\nRecording works: cairn record -- %s\n", program ? text_safe(program) : "COMMAND");
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
    int status = program ? examine_program(&checks, argv + optind) : 0;
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
    .usage = "[PROGRAM] [OPTION...]",
    .help = "Tries what 'cairn record' needs, as this user on this machine. Each line has a\n"
            "mark (ok, limited or no) and a finding. The line below it names a command that\n"
            "helps, if there is one.\n"
            "\n"
            "    cairn doctor              this machine and this user\n"
            "    cairn doctor ./program    can it be recorded, and with which names\n",
    .notes = "\n"
             "Exit status: 0 if CPU time can be recorded (of PROGRAM, if one is named), 1 if\n"
             "not, 2 if the command line is wrong.\n",
    .options = rows,
    .prints = true,
    .run = run_doctor,
};
