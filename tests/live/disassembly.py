# SPDX-License-Identifier: MIT
"""What binutils say about the code of a program: its calls and jumps, and its unwind table."""

import bisect
import re
import subprocess


def _output(*argv):
    # readelf ends with 1 over details that do not matter here.
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout


class Disassembly:
    """Addresses are those of the file."""

    def __init__(self, path):
        self.calls = {}  # address: (is it indirect, length)
        self.jumps = {}  # address: (is it conditional, target, is that a linkage entry); no indirect ones
        self.indirect_jumps = {}  # address: section
        self._read_code(_output("objdump", "-d", "-w", path))
        self._read_table(_output("readelf", "--debug-dump=frames-interp", "-W", path))

    def _read_code(self, text):
        section = ""
        line_of_code = re.compile(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(?:[a-zA-Z0-9.]+ )*?"
                                  r"(call|j\w+)(?:,p[nt])? +(\S+)(.*)")
        for line in text.splitlines():
            if line.startswith("Disassembly of section"):
                section = line.split()[-1].rstrip(":")
            match = line_of_code.match(line)
            if not match:
                continue
            address, length = int(match[1], 16), len(match[2].split())
            indirect = match[4].startswith("*")
            if match[3] == "call":
                self.calls[address] = (indirect, length)
            elif indirect:
                self.indirect_jumps[address] = section
            else:
                linkage = re.search(r"@plt>", match[5]) is not None
                self.jumps[address] = (match[3] != "jmp", int(match[4], 16), linkage)

    def _read_table(self, text):
        rows, self.functions, self.rows = None, {}, {}
        for line in text.splitlines():
            entry = re.search(r" FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
            if entry:
                start = int(entry[1], 16)
                self.functions[start] = int(entry[2], 16)
                rows = self.rows.setdefault(start, [])
            elif " CIE " in line:
                rows = None
            row = re.match(r"([0-9a-f]{16}) (\S+)", line)
            if row and rows is not None:
                rows.append((int(row[1], 16), row[2]))
        self.starts = sorted(self.functions)

    def function_of(self, address):
        """Where the function begins that the table has for the address; None if it has none."""
        index = bisect.bisect_right(self.starts, address) - 1
        if index < 0 or address >= self.functions[self.starts[index]]:
            return None
        return self.starts[index]

    def stack_is_empty(self, address):
        """The return address is on top of the stack."""
        rows = [cfa for start, cfa in self.rows[self.function_of(address)] if start <= address]
        return not rows or rows[-1] == "rsp+8"

    def leaves(self, address):
        """A direct jump out of its function, to the start of another one or a linkage entry."""
        _, target, linkage = self.jumps[address]
        function = self.function_of(address)
        if function is None or function <= target < self.functions[function]:
            return False
        return linkage or target in self.functions

    def are_parts(self, first, second):
        """Two functions of which one jumps into the middle of the other: parts of one function."""
        for here, there in ((first, second), (second, first)):
            for address, (_, target, _) in self.jumps.items():
                inside = here <= address < self.functions[here]
                if inside and there < target < self.functions[there]:
                    return True
        return False

    def jumps_into_others(self, function):
        """It jumps into the middle of another function."""
        for address, (_, target, _) in self.jumps.items():
            if function <= address < self.functions[function]:
                other = self.function_of(target)
                if other is not None and other not in (function, target):
                    return True
        return False
