#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rooms of src/, and the folders in them, depend on each other downward only. See docs/architecture.md for the drawing.

What does not keep to that yet is listed below, by name: a list that can only become shorter.
"""

import pathlib
import re
import sys
import unittest
from collections import defaultdict

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"

# Each room, and those right below it. What can be reached downward may be included.
ARROWS = {
    "base": [],
    "live": ["base"],
    "tree": ["base"],
    "encode": ["base"],
    # the tool
    "profile": ["live", "tree", "encode", "event"],
    "symbol": ["profile"],
    "analyze": ["symbol", "profile"],
    "export": ["analyze", "symbol", "profile"],
    "import": ["analyze", "symbol", "profile"],
    "inject": ["live"],
    "outside": ["inject", "profile", "tree", "unwind"],
    "cmd": ["analyze", "export", "import", "inject", "outside"],
    "as": [],
    # the agent
    "loadmap": ["base"],
    "unwind": ["loadmap"],
    "patch": ["unwind"],
    "track": ["unwind", "patch", "tree", "live", "encode"],
    "event": ["live"],
    "agent": ["event", "track"],
}
# The load map may publish into the shared memory: live lies at its level, above base alone.
ARROWS["loadmap"].append("live")

# Within a room: which folders may include from which others. Each of these is in use.
FOLDERS = {
    "agent": ["agent/api", "agent/interpose", "agent/interpose/events", "agent/interpose/process",
              "agent/session", "agent/thread"],
    "agent/api": ["agent/sampling", "agent/session", "agent/thread"],
    "agent/attach": ["agent", "agent/interpose", "agent/interpose/events", "agent/session", "agent/thread"],
    "agent/interpose": ["agent/session", "agent/thread"],
    "agent/interpose/events": ["agent/interpose", "agent/session", "agent/thread"],
    "agent/interpose/process": ["agent/interpose", "agent/session", "agent/thread"],
    "agent/sampling": ["agent/interpose", "agent/session", "agent/thread"],
    "agent/thread": ["agent/session"],
    "analyze": ["analyze/tree"],
    "analyze/annotate": ["analyze", "analyze/names", "analyze/tree", "analyze/views"],
    "analyze/compare": ["analyze", "analyze/index", "analyze/report", "analyze/summary",
                        "analyze/views"],
    "analyze/diff": ["analyze", "analyze/compare", "analyze/names", "analyze/report",
                     "analyze/tree"],
    "analyze/lanes": ["analyze", "analyze/names"],
    "analyze/names": ["analyze/index"],
    "analyze/report": ["analyze", "analyze/index", "analyze/names", "analyze/summary",
                       "analyze/tree", "analyze/views"],
    "analyze/summary": ["analyze", "analyze/names", "analyze/tree", "analyze/views"],
    "analyze/tree": ["analyze/index", "analyze/names"],
    "analyze/views": ["analyze/tree"],
    "base/text": ["base"],
    "cmd": ["cmd/line"],
    "cmd/continuous": ["cmd", "cmd/line"],
    "cmd/decode": ["cmd/line"],
    "cmd/diff": ["cmd", "cmd/line"],
    "cmd/doctor": ["cmd/events", "cmd/line", "cmd/record", "cmd/record/launch"],
    "cmd/events": ["cmd/line"],
    "cmd/record": ["cmd/continuous", "cmd/events", "cmd/line", "cmd/record/launch",
                   "cmd/record/options"],
    "cmd/record/launch": ["cmd/events", "cmd/line", "cmd/record/options"],
    "cmd/record/options": ["cmd/continuous", "cmd/events", "cmd/line"],
    "cmd/top": ["cmd/line", "cmd/watch"],
    "cmd/view": ["cmd", "cmd/diff", "cmd/line", "cmd/watch"],
    "cmd/watch": ["cmd/line"],
    "encode": ["encode/graph"],
    "encode/codebook": ["encode"],
    "export/page": ["export"],
    "patch": ["patch/functions", "patch/stubs", "patch/write", "patch/x86_64"],
    "patch/entries": ["patch/functions", "patch/write"],
    "patch/functions": ["patch/stubs", "patch/write", "patch/x86_64"],
    "patch/stubs": ["patch/write"],
    "patch/x86_64": ["patch/stubs"],
    "profile": ["profile/chunks"],
    "profile/merge": ["profile", "profile/queries"],
    "profile/queries": ["profile"],
    "profile/recorder": ["profile", "profile/chunks", "profile/merge", "profile/queries"],
    "symbol": ["symbol/dwarf", "symbol/files", "symbol/names"],
    "symbol/dwarf": ["symbol/files", "symbol/names"],
    "track": ["track/calls", "track/calls/bursts", "track/calls/trigger", "track/encode",
              "track/encode/contexts", "track/walk"],
    "track/calls": ["track/calls/bursts", "track/walk"],
    "track/calls/bursts": ["track/calls"],
    "track/calls/trigger": ["track/calls", "track/walk"],
    "track/context_id": ["track/walk"],
    "track/encode": ["track/walk"],
    "track/encode/contexts": ["track/context_id", "track/encode", "track/encode/sites",
                              "track/encode/threads", "track/walk"],
    "track/encode/sites": ["track/context_id", "track/encode", "track/encode/threads"],
    "track/encode/threads": ["track/calls", "track/encode", "track/encode/sites", "track/walk"],
    "track/walk": ["track/runtimes"],
    "tree": ["tree/bounded", "tree/miners"],
    "tree/bounded": ["tree"],
    "tree/miners": ["tree"],
    "unwind/x86_64": ["unwind"],
}

# Folders that need each other.
FOLDER_CYCLES = [
    "track/calls track/calls/bursts",
    "track/encode/sites track/encode/threads",
    "tree tree/bounded tree/miners",
]

# Files (a header and its code are one) that need each other. Most are the header that shows a room to
# others, whose types the files behind it use.
FILE_CYCLES = [
    "agent/thread/existing_threads agent/thread/signal_stack agent/thread/thread",
    "analyze/report/report analyze/report/report_frame",
    "cmd/record/options/event_options cmd/record/options/record_options "
    "cmd/record/options/tree_options",
    "loadmap/dynamic loadmap/gate loadmap/gomodules loadmap/identity loadmap/image loadmap/loadmap "
    "loadmap/pages loadmap/table",
    "patch/functions/function_map patch/functions/functions patch/functions/modules "
    "patch/functions/padding",
    "profile/contexts profile/creations profile/loader profile/place_names profile/profile "
    "profile/read_records profile/record profile/timeline profile/timeline_records "
    "profile/write_records",
    "profile/recorder/live_lossy_tree profile/recorder/live_reader "
    "profile/recorder/live_reader_state profile/recorder/live_tree profile/recorder/live_values "
    "profile/recorder/metrics profile/recorder/process_time profile/recorder/recorder "
    "profile/recorder/recorder_state",
    "track/calls/bursts/burst track/calls/call_cache track/calls/calls track/calls/deferred_calls "
    "track/calls/find_caller track/calls/shadow",
    "track/calls/call_sites track/calls/modules",
    "track/encode/sites/call_graph track/encode/sites/libraries track/encode/sites/open_functions "
    "track/encode/sites/silent_edges track/encode/sites/stubs track/encode/threads/count_pushes "
    "track/encode/threads/epoch track/encode/threads/exceptions track/encode/threads/hooks "
    "track/encode/threads/lock track/encode/threads/reencode track/encode/threads/state_from_stack "
    "track/encode/threads/threads",
    "tree/bounded/bounded tree/bounded/bounded_layout tree/hot tree/layout tree/miners/miner "
    "tree/miners/monitored_list tree/tree",
    "unwind/arch unwind/cfi unwind/common_cfi unwind/expression unwind/fde unwind/go unwind/recipe "
    "unwind/slow_steps unwind/stack unwind/unwind",
]

# Names that two files give to types of their own.
SHARED_NAMES = {}

# The unwinder is linked with one load map in the agent, and with another one in the tool.
SECOND_LOAD_MAP = "outside/load_map.c"

MOST_FILES = 30  # in a folder

# A function has five parameters at most, but for these, and those whose type libc or a table gives.
MORE_PARAMETERS = {
    "confirm", "import_bytes", "put",
    "stable_read", "syscall_watched",
}
GIVEN_PARAMETERS = {"__libc_start_main", "find_nothing", "mmap", "mmap64", "posix_spawn", "posix_spawnp", "pselect", "stop_at_once"}

PARTS = set()  # headers that hold what belongs to many files

AGENT_ROOMS = {"base", "live", "tree", "encode", "loadmap", "unwind", "patch", "track", "event", "agent"}
# What the agent may not need, wherever it stands: it is loaded into other people's programs.
FOREIGN = re.compile(r"^(elfutils/|libelf|gelf|dwarf\.h|zstd|xxhash|libiberty|libunwind)")
TOOL_FILES_OF_BASE = {"json", "text", "table", "memory"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def reachable(room):
    """All rooms below a room, and the room itself."""
    found, todo = set(), [room]
    while todo:
        current = todo.pop()
        if current not in found:
            found.add(current)
            todo.extend(ARROWS[current])
    return found


def complaints_about(path, text):
    """What is wrong with the includes of a file, `path` being relative to src/."""
    room = path.parts[0]
    wrong = []
    for quote, name in INCLUDE.findall(text):
        if quote == '"':
            target = name.split("/")[0]
            if "/" not in name or ".." in name.split("/"):
                wrong.append(f'{path}: "{name}" must be written from src/')
            elif target not in ARROWS:
                if not (SOURCE.parent / "include" / name).exists():
                    wrong.append(f'{path}: "{name}" is in no room')
            elif target not in reachable(room):
                wrong.append(f"{path}: {room} may not include {name}: {target} does not lie below it")
        elif room in AGENT_ROOMS and path.stem not in TOOL_FILES_OF_BASE and FOREIGN.match(name):
            wrong.append(f"{path}: <{name}> does not belong into the agent")
    return wrong


def sources():
    """{path below src/: its text}."""
    return {path.relative_to(SOURCE): path.read_text(encoding="utf-8")
            for path in SOURCE.rglob("*") if path.suffix in (".c", ".h", ".S")}


def includes(files):
    """Pairs of paths: who includes whom."""
    return [(path, pathlib.PurePath(name)) for path, text in files.items()
            for quote, name in INCLUDE.findall(text) if quote == '"' and pathlib.PurePath(name) in files]


def cycles(arrows):
    """The groups in which everybody leads to everybody, of pairs (from, to)."""
    below, above = defaultdict(set), defaultdict(set)
    for a, b in arrows:
        if a != b:
            below[a].add(b)
            above[b].add(a)

    def reached(start, along):
        found, todo = set(), [start]
        while todo:
            for one in along[todo.pop()] - found:
                found.add(one)
                todo.append(one)
        return found

    groups = set()
    for one in list(below):
        group = reached(one, defaultdict(set, below)) & reached(one, defaultdict(set, above))
        if group:
            groups.add(frozenset(group))
    return groups


def file_cycles(files):
    return cycles((str(a.with_suffix("")), str(b.with_suffix(""))) for a, b in includes(files))


def folder_arrows(files):
    """Arrows between folders of one room."""
    return {(str(a.parent), str(b.parent)) for a, b in includes(files)
            if a.parts[0] == b.parts[0] and a.parent != b.parent}


COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\(\([^\n]*\)\)\s*")
TYPE = re.compile(r"^[ \t]*(?:(?:typedef|static|extern|const)\s+)*(?:struct|union|enum)\s+(\w+)\s*\{", re.MULTILINE)
FUNCTION = re.compile(r"^(?!static\b)(?=[A-Za-z_])[^\n;={}#()]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)


DEFINITION = re.compile(r"^(?=[A-Za-z_])[^\n;={}#()]*?\b(\w+)\(([^;{}]*)\)\s*\{", re.MULTILINE)


def parameters_of(text):
    """{function: how many parameters it has}."""
    found = {}
    for name, parameters in DEFINITION.findall(ATTRIBUTE.sub("", COMMENT.sub("", text))):
        while re.search(r"\([^()]*\)", parameters):
            parameters = re.sub(r"\([^()]*\)", "", parameters)
        found[name] = parameters.count(",") + 1
    return found


def types_of(text):
    return set(TYPE.findall(COMMENT.sub("", text)))


def functions_of(text):
    """Those that other files can call."""
    return set(FUNCTION.findall(ATTRIBUTE.sub("", COMMENT.sub("", text))))


def twice(files, names_of):
    """{name: its files} of names that several files have."""
    places = defaultdict(set)
    for path, text in files.items():
        for name in names_of(text):
            places[name].add(str(path))
    return {name: found for name, found in places.items() if len(found) > 1}


class Arrows(unittest.TestCase):
    def test_every_room_is_known(self):
        rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
        self.assertEqual(rooms - set(ARROWS), set())

    def test_no_circle(self):
        for room, below in ARROWS.items():
            for other in below:
                self.assertNotIn(room, reachable(other))

    def test_includes_point_downward(self):
        files = [path for path in SOURCE.rglob("*") if path.suffix in (".c", ".h", ".S")]
        self.assertGreater(len(files), 10)
        wrong = []
        for path in files:
            wrong += complaints_about(path.relative_to(SOURCE), path.read_text(encoding="utf-8"))
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_folders_of_a_room_keep_to_the_arrows(self):
        arrows = folder_arrows(sources())
        self.assertGreater(len(arrows), 20)
        self.assertEqual(arrows, {(a, b) for a, below in FOLDERS.items() for b in below})

    def test_cycles_are_those_that_are_known(self):
        files = sources()
        for found, known in ((cycles(folder_arrows(files)), FOLDER_CYCLES), (file_cycles(files), FILE_CYCLES)):
            self.assertEqual({" ".join(sorted(cycle)) for cycle in found}, set(known))

    def test_headers_have_no_cycles(self):
        self.assertEqual(cycles(pair for pair in includes(sources()) if pair[0].suffix == ".h"), set())

    def test_a_name_is_given_once(self):
        files = sources()
        code = {path: text for path, text in files.items() if path.suffix == ".c"}
        self.assertGreater(sum(len(types_of(text)) for text in files.values()), 500)
        self.assertGreater(sum(len(functions_of(text)) for text in code.values()), 1200)
        self.assertEqual(twice(files, types_of), SHARED_NAMES)
        shared = {name: found for name, found in twice(code, functions_of).items()
                  if not (SECOND_LOAD_MAP in found and len(found) == 2 and any(file.startswith("loadmap/") for file in found))}
        self.assertEqual(shared, {"main": {"as/as.c", "cmd/main.c"}})

    def test_folders_and_headers_hold_one_thing(self):
        files = sources()
        folders = defaultdict(int)
        for path in files:
            folders[str(path.parent)] += 1
        self.assertEqual({folder: count for folder, count in folders.items() if count > MOST_FILES}, {})
        self.assertEqual({str(path) for path in files if path.name.endswith("_parts.h")}, PARTS)

    def test_parameters_are_few(self):
        counts = [parameters_of(text) for text in sources().values()]
        self.assertGreater(sum(map(len, counts)), 5000)
        many = {name for found in counts for name, count in found.items() if count > 5}
        self.assertEqual(many, MORE_PARAMETERS | GIVEN_PARAMETERS)

    def test_parameters_are_counted(self):
        text = ("static void f(int a, void (*g)(int, int),\n    int b)\n{\n    if (h(1, 2, 3)) {\n    }\n}\n"
                "int k(int a, int b);\n#define M(a, b) {\nint none(void)\n{\n}\n")
        self.assertEqual(parameters_of(text), {"f": 3, "none": 1})

    def test_cycles_and_names_are_seen(self):
        path = pathlib.PurePath
        files = {path("tree/a.c"): '#include "tree/a.h"\n#include "tree/x/b.h"\nstruct one {\n};\nint f(void)\n{\n}\n',
                 path("tree/a.h"): "", path("tree/x/b.h"): "int f(void);\nstruct one *one;\n",
                 path("tree/x/b.c"): '#include "tree/a.h"\nstatic struct one {\n} g;\nstruct two *f(int a,\n  int b)\n{\n}\n'
                                     "static int main(void)\n{\n    if (g(1)) {\n    }\n}\n"}
        self.assertEqual(file_cycles(files), {frozenset(("tree/a", "tree/x/b"))})
        self.assertEqual(cycles(folder_arrows(files)), {frozenset(("tree", "tree/x"))})
        both = {"tree/a.c", "tree/x/b.c"}
        self.assertEqual(twice(files, types_of), {"one": both})
        self.assertEqual(twice(files, functions_of), {"f": both})
        del files[path("tree/x/b.c")]
        self.assertEqual((file_cycles(files), cycles(folder_arrows(files)), twice(files, types_of)), (set(), set(), {}))

    def test_the_test_can_fail(self):
        for path, line in [
            ("tree/tree.c", '#include "cmd/line/command.h"'),
            ("base/arena.c", '#  include "tree/tree.h"'),
            ("track/walk/walk.c", '#include "../unwind/unwind.h"'),
            ("track/walk/walk.c", "#include <elfutils/libdw.h>"),
            ("profile/reader.c", '#include "symbol/symbol.h"'),
        ]:
            self.assertTrue(complaints_about(pathlib.PurePath(path), line), f"{path}: {line}")
        self.assertFalse(complaints_about(pathlib.PurePath("cmd/report.c"), '#include "base/place.h"'))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
