// SPDX-License-Identifier: MIT
#include "cmd/line/other_profilers.h"
#include <stddef.h>
#include <string.h>

#define ATTACH "cairn cannot attach to a running process: start it with 'cairn record -- COMMAND'"
#define CALL_GRAPH "leave it out: call graphs are always recorded"
#define IS_TEXT "leave it out: 'cairn report' prints text"
#define FLAT "use 'cairn report --view flat'"
#define CALLERS "use 'cairn report --view callers --focus NAME'"
#define LINES "use 'cairn report --lines --focus NAME'"
#define FLAMES "use 'cairn export -f folded', which flame graph tools read"

struct instead {
    const char *words; // between blanks
    const char *text;
};

static const struct instead commands[] = {
    {" stat ", "run 'cairn record', then 'cairn info'"},
    {" annotate list disasm ", LINES},
    {" diff base ", "run 'cairn report --by function' on each of the two profiles"},
    {" script dump raw traces ", "use 'cairn export -f folded'"},
    {" import convert ", "cairn reads only what 'cairn record' wrote"},
    {" top live ", "run 'cairn report --view flat' while 'cairn record' is running"},
    {" attach ", ATTACH},
    {" trace ", "use 'cairn record --track calls', which follows every call"},
    {" mem heap alloc memory ", "use 'cairn record -e alloc'"},
    {" sched offcpu wall ", "use 'cairn record -e offcpu', or 'cairn record -e wall -e cpu'"},
    {" run start profile collect exec ", "use 'cairn record -- COMMAND'"},
    {" show print text tree view web gui ", "use 'cairn report'"},
    {" peek callers ", CALLERS},
    {" flat functions ", FLAT},
    {" flamegraph flame flames svg ", FLAMES},
    {" events counters ", "use 'cairn list'"},
    {" test check ", "use 'cairn doctor'"},
    {NULL, NULL},
};

static const struct instead record[] = {
    {" p pid t tid attach ", ATTACH},
    {" a all-cpus C cpu ", "cairn records a command and all that it starts, not the whole machine"},
    {" call-graph g stack ", CALL_GRAPH},
    {" i no-inherit ", "use --follow-fork no"},
    {" count interval ", "use --period"},
    {" freq rate hz ", "use --frequency"},
    {" D ", "use --delay SEC"},
    {" timeout time d ", "use --duration SEC"},
    {" out file ", "use --output FILE"},
    {" s per-tid ", "use --per-thread"},
    {" alloc heap mem ", "use -e alloc"},
    {" io ", "use -e io"},
    {" wall ", "use -e wall"},
    {" off-cpu offcpu ", "use -e offcpu"},
    {" v verbose ", "leave it out, and run 'cairn info' afterwards"},
    {NULL, NULL},
};

static const struct instead report[] = {
    {" stdio tui gtk text n ", IS_TEXT},
    {" top flat ", "use --view flat"},
    {" tree children ", "leave it out: the call tree is the default"},
    {" peek caller G inverted invert ", "use --view callers"},
    {" list l annotate ", "use --lines --focus NAME"},
    {" g call-graph ", "the call tree is the default; --view callers shows callers"},
    {" no-children ", "use --sort self"},
    {" cum cumulative ", "use --sort total"},
    {" s ", "use --sort"},
    {" percent-limit nodefraction edgefraction ", "use --min PCT"},
    {" max-stack nodecount ", "use --depth N, or --min PCT"},
    {" pid comm p ", "use --process"},
    {" tid t ", "use --thread"},
    {" symbol symbols parent S ", "use --focus NAME"},
    {" hide exclude ", "use --ignore RE or --without RE"},
    {" svg web pdf dot png gif folded collapsed traces raw ", FLAMES},
    {" o output ", "redirect stdout, or use 'cairn export -f folded'"},
    {" inuse_space inuse_objects ", "use --metric live"},
    {" alloc_space alloc_objects ", "use --metric alloc"},
    {" U full ", "use --wide"},
    {NULL, NULL},
};

static const struct instead none[] = {
    {" v ", "use --version"},
    {NULL, NULL},
};

static const struct instead export[] = {
    {" folded collapsed ", "use -f folded"},
    {" i input ", "name the profile without an option"},
    {NULL, NULL},
};

static const struct {
    const char *command;
    const struct instead *options;
} options[] = {{"", none}, {"record", record}, {"report", report}, {"export", export}};

static const struct instead events[] = {
    {" time itimer ctimer ", "did you mean 'cpu'?"},
    {" malloc heap mem memory ", "did you mean 'alloc'?"},
    {" off-cpu sleep ", "did you mean 'offcpu', or 'wall' with -e cpu?"},
    {" call function functions ", "did you mean 'calls'?"},
    {NULL, NULL},
};

static const char *find(const struct instead *table, const char *word)
{
    const size_t length = strlen(word);
    for (; table->words; table++)
        for (const char *at = table->words; length && (at = strstr(at, word)); at++)
            if (at[-1] == ' ' && at[length] == ' ')
                return table->text;
    return NULL;
}

const char *instead_of_command(const char *name)
{
    return strchr(name, ' ') ? NULL : find(commands, name);
}

const char *instead_of_option(const char *command, const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strcmp(command, options[i].command) && !strchr(name, ' '))
            return find(options[i].options, name);
    return NULL;
}

const char *instead_of_event(const char *name)
{
    return strchr(name, ' ') ? NULL : find(events, name);
}
