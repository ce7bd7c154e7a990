#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rooms of src/ depend on each other downward only. See docs/architecture.md for the drawing."""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"

# Each room, and those right below it. What can be reached downward may be included.
ARROWS = {
    "base": [],
    "live": ["base"],
    "tree": ["base"],
    "encode": ["base"],
    # the tool
    "profile": ["live", "tree", "encode"],
    "symbol": ["profile"],
    "analyze": ["symbol", "profile"],
    "export": ["analyze", "symbol", "profile"],
    "cmd": ["analyze", "export"],
    "as": [],
    # the agent
    "loadmap": ["base"],
    "unwind": ["loadmap"],
    "patch": ["unwind"],
    "track": ["unwind", "patch", "tree", "live", "encode"],
    "event": ["unwind", "tree", "live"],
    "agent": ["event", "track"],
}
# The load map may publish into the shared memory: live lies at its level, above base alone.
ARROWS["loadmap"].append("live")

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

    def test_the_test_can_fail(self):
        for path, line in [
            ("tree/tree.c", '#include "cmd/cmd.h"'),
            ("base/arena.c", '#  include "tree/tree.h"'),
            ("track/walk/walk.c", '#include "../unwind/unwind.h"'),
            ("track/walk/walk.c", "#include <elfutils/libdw.h>"),
            ("profile/reader.c", '#include "symbol/symbol.h"'),
        ]:
            self.assertTrue(complaints_about(pathlib.PurePath(path), line), f"{path}: {line}")
        self.assertFalse(complaints_about(pathlib.PurePath("cmd/report.c"), '#include "base/place.h"'))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
