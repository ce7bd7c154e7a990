# SPDX-License-Identifier: MIT
"""The README does what it says: in a clean clone, as an ordinary user, command by command. The commands are read out
of its code blocks, so that what is written is what is tried. The other documents name options and places that exist."""

import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

from support import CAIRN, Run, installed

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = [SOURCE + "/README.md", SOURCE + "/CONTRIBUTING.md", *sorted(glob.glob(SOURCE + "/docs/*.md"))]
USER = "nobody"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks(text, language):
    return [block for name, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if name == language]


def commands(text):
    """The lines of the blocks in the shell's language, without their remarks."""
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks(text, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


def is_clone():
    return Run(["git", "-C", SOURCE, "rev-parse"]).status == 0


class Readme(unittest.TestCase):
    """One long day: everything is tried in the order of the text, as its reader would."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cairn-readme-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.clone, cls.home = cls.top + "/cairn", cls.top + "/home"
        os.makedirs(cls.clone)
        os.makedirs(cls.home)
        cls.as_user = []
        if is_clone():
            cls.copy_clone()
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chmod(cls.top, 0o755)
            subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", cls.clone, cls.home], check=True)
            cls.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    @classmethod
    def copy_clone(cls):
        """What a clone would have if everything here were committed, and nothing that git ignores."""
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, listed):
            if os.path.exists(os.path.join(SOURCE, name)):
                target = os.path.join(cls.clone, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(os.path.join(SOURCE, name), target)

    def shell(self, lines, who, timeout=900):
        """Runs lines one after the other, in one shell, with a terminal of 80 columns in mind."""
        script = "".join(f"echo '$ {line}'\n{line} || exit\n" for line in lines)
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "COLUMNS": "80", "LC_ALL": "C.UTF-8"}
        run = Run([*who, "bash", "--norc", "-c", script], cwd=self.clone, env=environment, timeout=timeout)
        self.assertEqual(run.status, 0, f"{run.text[-2000:]}\n{run.words[-2000:]}")
        return run

    @unittest.skipUnless(is_clone(), "not a clone")
    def test_all_of_it(self):
        text = read(self.clone + "/README.md")
        lines = commands(text)
        self.assertGreater(len(lines), 10)
        self.assertEqual([line.split()[0] for line in lines[:2]], ["make", "export"])
        run = self.shell(lines, self.as_user)
        self.assertIn("next: cairn report", run.words)
        self.assertIn("Perl_pp_match", run.text)
        self.assertTrue(os.path.exists(self.home + "/.local/bin/cairn"))

        # The sample has the columns that a report has.
        report = run.text.split("$ cairn report\n", 1)[1].split("\n$ ", 1)[0]
        sample = next(block for block in blocks(text, "") if "$ cairn report" in block)
        self.assertLessEqual(max(map(len, sample.splitlines())), 80)
        for shown in (report, sample):
            self.assertIn("Perl_pp_match", shown)
        head = next(line for line in sample.splitlines() if line.split()[:1] == ["total"])
        self.assertIn(head.split(), [line.split() for line in report.splitlines()])

        if self.as_user:
            self.installed_by_root()

    def installed_by_root(self):
        """`sudo make install` after a user's `make` leaves nothing of root's in the user's folders."""
        self.shell(["make install PREFIX=" + self.top + "/root"], [])
        found = Run(["find", self.clone, "-user", "root"]).text
        self.assertEqual(found, "")
        run = self.shell([self.top + "/root/bin/cairn --version"], self.as_user)
        self.assertIn("cairn ", run.text)


class Screens(unittest.TestCase):
    @installed("tmux")
    def test_screens_can_be_made(self):
        """What docs/screens.md shows is made by a script; each line fits the terminal."""
        with tempfile.NamedTemporaryFile(suffix=".md") as file:
            run = Run([SOURCE + "/scripts/screens", os.path.dirname(os.path.realpath(CAIRN)), file.name], timeout=600)
            self.assertEqual(run.status, 0, run.words)
            made = read(file.name)
        kept = read(SOURCE + "/docs/screens.md")
        for line in "".join(blocks(made, "")).splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertEqual(*(re.findall(r"^(?:#.*|\$ cairn .*)$", text, re.M) for text in (made, kept)))
        for words in ("next: cairn report", "Perl_pp_match", "Recording works"):
            self.assertIn(words, made)


class Documents(unittest.TestCase):
    def test_options_exist(self):
        """Each option that stands behind a command of cairn's is one of that command's."""
        helps = {}
        for path in DOCUMENTS:
            for command, words in re.findall(r"(?<![\w/.-])cairn ([a-z]+)((?: +[^\s`|;#)&<>]+)*)", read(path)):
                if command not in helps:
                    run = Run([CAIRN, "help", command])
                    helps[command] = run.text if run.status == 0 else None
                if helps[command] is None or command == "cc":
                    continue # "cairn tells ..."
                for word in words.split(" -- ")[0].split():
                    option = re.match(r"--?[a-zA-Z][\w-]*", word)
                    if not option:
                        continue
                    name = option.group(0) if word.startswith("--") else word[:2]
                    self.assertRegex(helps[command], rf"(?<![\w-]){re.escape(name)}(?![\w-])",
                                     f"{os.path.relpath(path, SOURCE)}: cairn {command}{words}")

    def test_json_everywhere(self):
        """Every command that prints takes --json."""
        commands_said = re.findall(r"^  (\w+) {2,}\S", Run([CAIRN, "help"]).text, re.M)
        self.assertLessEqual({"record", "merge", "doctor"}, set(commands_said))
        for command in set(commands_said) - {"help"}:
            self.assertIn("--json", Run([CAIRN, "help", command]).text, command)


if __name__ == "__main__":
    unittest.main()
