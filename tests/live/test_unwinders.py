# SPDX-License-Identifier: MIT
"""Others who look at the stack see what is there, not our marker."""

import os
import re
import subprocess
import time
import unittest

from support import CAIRN, LiveTest, installed, program


class Unwinders(LiveTest):
    def test_backtraces_of_the_program(self):
        graph = {
            "": "trace_thread",
            "main": "run_digest trace_level",
            "run_digest": "trace_level",
            "trace_thread": "trace_level",
            "trace_level": "trace_level trace_work trace_glibc trace_unwind",
            "trace_unwind": "visit",
            "trace_work": "burn",
            "*": "add_frame visit",
        }
        self.survives([program("backtraces"), "digest"], graph)

    @installed("gdb")
    def test_gdb_while_marked(self):
        argv = [CAIRN, "record", "-q", "-F", "10000", "-o", self.file("profile"),
                program("backtraces"), "watched"]
        process = subprocess.Popen(argv, cwd=self.folder, stdout=subprocess.PIPE)
        try:
            pid = process.stdout.readline().decode().strip()
            for _ in range(5):
                time.sleep(0.1)
                debugger = self.native(
                    ["gdb", "-nx", "--batch", "-p", pid, "-ex", "bt"],
                    timeout=60)
                frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", debugger.text, re.M)
                ours = [name for name in frames if name.startswith("watched") or name == "main"]
                self.assertEqual(ours, ["watched_bottom"] + ["watched_middle"] * 11 + ["main"],
                                 debugger.text + debugger.words)
        finally:
            open(os.path.join(self.folder, "stop"), "w").close()
            process.stdout.read()
            self.assertEqual(process.wait(60), 0)
        process.stdout.close()


if __name__ == "__main__":
    unittest.main()
