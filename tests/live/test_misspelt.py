# SPDX-License-Identifier: MIT
"""Every command, option and value misspelt: exit status 2, nothing run, and one line that names the nearest."""

import os
import re
import tempfile
import unittest

from support import CAIRN, LiveTest, Run

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def distance(a, b):
    """Edits between two words; a swap of neighbours is one."""
    rows = [list(range(len(b) + 1))]
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            least = min(rows[-1][j - 1] + (letter != other), rows[-1][j] + 1, row[-1] + 1)
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


# Options that no help names.
FOR_TESTS = ("empty-handler", "reencode-always")


def misspelt(word):
    """As fingers do it: a letter too few, too many, twice, another one, and two that are swapped."""
    middle = len(word) // 2
    ways = {word[:middle] + word[middle + 1:], word[1:], word + "x", word[:middle] + "q" + word[middle:],
            word[:middle] + word[middle] + word[middle:], word[:middle] + "q" + word[middle + 1:],
            word[:middle - 1] + word[middle] + word[middle - 1] + word[middle + 1:]}
    return sorted(way for way in ways - {word} if len(way) > 2)


class Words(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.commands = re.findall(r"^  (\w+) +\S", Run([CAIRN, "help"]).text, re.M)
        cls.options = {}  # by command: the name, and the words that its value can be
        for command in cls.commands:
            text = Run([CAIRN, "help", command]).text
            rows = re.findall(r"^  (?:-\w,|   ) --([\w-]+)(?:[ =\[]+(\S+))?", text, re.M)
            cls.options[command] = {
                name: [word for word in value.rstrip("]").split("|") if word.islower()] if "|" in value and "FILE" not in value else []
                for name, value in rows}

    def refused(self, *arguments):
        run = Run([CAIRN, *arguments], cwd=self.folder)
        self.assertEqual(run.status, 2, f"{arguments}: {run.words}")
        self.assertEqual(run.out, b"", arguments)
        self.assertEqual(run.words.count("\n"), 1, run.words)
        self.assertTrue(run.words.startswith("cairn: "), run.words)
        self.assertEqual(os.listdir(self.folder), [], arguments)
        return run.words


class Misspelt(Words):
    def test_the_help_names_them(self):
        self.assertIn("record", self.commands)
        self.assertEqual(self.options["report"]["view"], ["tree", "callers", "flat", "processes", "blame", "timeline", "files"])
        for options in self.options.values():
            self.assertIn("help", options)

    def test_help_fits(self):
        """At 80 columns no line is broken, and -h is a part of --help."""
        for command in [None, *self.commands]:
            text = Run([CAIRN, "help", *filter(None, [command])]).text
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
            short = Run([CAIRN, *filter(None, [command]), "-h"]).text.splitlines()
            self.assertLessEqual({line for line in short if not line.startswith("Run ")}, set(text.splitlines()))

    def assert_nearest(self, said, word, names, pattern):
        """No other name is nearer to the word than what was said was meant."""
        match = re.search(pattern, said)
        self.assertTrue(match, f"{word}: {said}")
        meant = match.group(1)
        self.assertIn(meant, names, said)
        if not any(name.startswith(word) for name in names):
            self.assertEqual(distance(word, meant), min(distance(word, name) for name in names), said)

    def test_misspelt_commands_are_guessed(self):
        for command in self.commands:
            for word in misspelt(command):
                if word not in self.commands:
                    self.assert_nearest(self.refused(word), word, self.commands, r"did you mean 'cairn (\w+)'")
                    self.assert_nearest(self.refused("help", word), word, self.commands, r"did you mean '(\w+)'")
        self.assertIn("cairn help", self.refused("moonshine"))

    def test_misspelt_options_are_guessed(self):
        for command, options in self.options.items():
            for option in options:
                for word in misspelt(option):
                    if any(name.startswith(word) for name in (*options, *FOR_TESTS)):  # as getopt_long() has it
                        continue
                    for typed in ("--" + word, "--" + word + "=1"):
                        if command == "cc":
                            self.refused(command, typed, "true")
                            continue
                        said = self.refused(command, typed, "true")
                        self.assertIn(f"there is no option --{word}:", said)
                        self.assert_nearest(said, word, options, r"did you mean --([\w-]+)\?")
        self.assertIn("--version", self.refused("--verison"))

    def test_two_letters(self):
        """A short word may differ by two letters if it begins alike."""
        self.assertIn("did you mean --track?", self.refused("record", "--traks", "calls", "true"))
        self.assertIn("did you mean --view?", self.refused("report", "--vieew"))
        self.assertIn("use --version", self.refused("-v"))
        self.assertNotIn("did you mean", self.refused("import"))

    def test_profiles_that_are_none(self):
        self.assertIn("'cairn record COMMAND'", self.refused("report"))
        self.assertIn("'cairn record -o other.out COMMAND'", self.refused("info", "other.out"))
        self.assertIn("it is empty", self.refused("report", self.empty()))

    def empty(self):
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        return file.name

    def test_one_dash(self):
        """Other tools have long options with one dash."""
        for command, word, meant in (("report", "-view", "--view"), ("report", "-focsu", "--focus"),
                                     ("record", "-track", "--track"), ("info", "-json", "--json")):
            self.assertIn(f"there is no option {word}: did you mean {meant}?", self.refused(command, word, "x"))

    def test_unknown_letters(self):
        for command in self.commands:
            if command != "cc":
                self.assertIn("there is no option -z", self.refused(command, "-z", "true"))

    def test_misspelt_values_are_guessed(self):
        for command, options in self.options.items():
            for option, values in options.items():
                for value in values:
                    for word in misspelt(value):
                        if word in values or len(word) < 3:
                            continue
                        said = self.refused(command, f"--{option}={word}", "true", "true")
                        self.assertIn(f"--{option} takes ", said)
                        self.assert_nearest(said, word, values, r"did you mean '([\w-]+)'")

    def test_events_trees_and_formats(self):
        for arguments, meant in ((("-e", "cpuu"), "cpu"), (("-e", "wal:1ms"), "wall"), (("-e", "aloc"), "alloc"),
                                 (("-e", "call-by-function:3"), "calls-by-function"), (("--tree", "hto:1e-3"), "hot"),
                                 (("--tree", "buonded"), "bounded"), (("--calls-by", "librarys"), "libraries")):
            self.assertIn(f"did you mean '{meant}'?", self.refused("record", *arguments, "true"))
        self.assertIn("did you mean 'folded'?", self.refused("export", "-f", "foldde"))


class Habits(Words):
    """What users of other profilers type is answered with what cairn really has."""

    def table(self, name):
        with open(os.path.join(SOURCE, "src/cmd/line/other_profilers.c"), encoding="utf-8") as source:
            text = source.read()
        texts = dict(re.findall(r'#define (\w+) "([^\n]+)"', text))
        body = re.search(rf"struct instead {name}\[\] = {{(.*?)\n}};", text, re.S).group(1)
        for words, answer in re.findall(r'\{((?:\s*"[^"]*")+),\s*((?:"[^"]*"|\w+))', body):
            if answer != "NULL":
                yield "".join(re.findall(r'"([^"]*)"', words)).split(), texts.get(answer, answer.strip('"'))

    def assert_real(self, answer, command):
        """All commands and options that an answer names are there."""
        for quoted in re.findall(r"'cairn ([^']*)'", answer):
            name, *words = quoted.split()
            self.assertIn(name, self.commands, answer)
            self.assert_options(name, words, answer)
        self.assert_options(command, re.sub(r"'[^']*'", "", answer).split(), answer)

    def assert_options(self, command, words, answer):
        text = Run([CAIRN, "help", command]).text if command else ""
        for word in words:
            word = word.rstrip(",:;.?")
            if word.startswith("-") and word != "--":
                self.assertRegex(text, rf"(?m)^  (-\w, |    )?.*(?<![\w-]){word}(?![\w-])", answer)

    def test_commands_of_other_tools_are_answered(self):
        for words, answer in self.table("commands"):
            self.assert_real(answer, None)
            for word in words:
                if word not in self.commands:
                    self.assertIn(answer, self.refused(word))

    def test_options_of_other_tools_are_answered(self):
        for command in ("record", "report", "export"):
            for words, answer in self.table(command):
                self.assert_real(answer, command)
                for word in words:
                    if any(name.startswith(word) for name in self.options[command] if len(word) > 1):
                        continue
                    dashes = "--" if len(word) > 1 else "-"
                    if len(word) == 1 and re.search(rf"^  -{word}, ", Run([CAIRN, "help", command]).text, re.M):
                        continue
                    if (command, word) != ("record", "g"):
                        self.assertIn(answer, self.refused(command, dashes + word, "true"))

    def test_events_of_other_tools_are_answered(self):
        for words, answer in self.table("events"):
            for word in words:
                self.assertIn(f"there is no event '{word}': {answer}", self.refused("record", "-e", word, "true"))

    def test_pprof(self):
        self.assertIn("--view flat", self.refused("report", "-top"))
        self.assertIn("--view callers", self.refused("report", "-peek", "main"))
        self.assertIn("-F 10000", self.refused("record", "-F", "max", "true"))
        self.assertIn("always recorded", self.refused("record", "--call-graph", "dwarf", "true"))


if __name__ == "__main__":
    unittest.main()
