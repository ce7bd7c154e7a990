# SPDX-License-Identifier: MIT
"""`make install` makes a tree that can be used wherever it lies, and `make uninstall` leaves nothing of it behind."""

import glob
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

from support import CAIRN, Run, installed

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.path.realpath(CAIRN))

API_PROGRAM = """
#include <cairn.h>
#include <stdio.h>
int main(void)
{
    cairn_phase_begin("all");
    for (volatile long i = 0; i < 300000000; i++)
        ;
    cairn_phase_end();
    puts("done");
    return 0;
}
"""

CXX_PROGRAM = """
#include <cstdio>
template <typename Number> __attribute__((noinline, noclone)) Number stones(Number n) { asm(""); return n; }
int main()
{
    long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += stones(i);
    std::printf("%ld\\n", sum);
}
"""


# What is offered is written to a file: what is shown depends on what has been typed meanwhile. A tab that comes
# before the line editor has the terminal is none: so it says when it begins.
SETUP_OF_ZSH = """
PS1=
fpath=($folder $fpath)
autoload -U compinit
compinit -D -u
compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]] && { builtin compadd "$@"; return }
    local -a hits
    builtin compadd -A hits "$@"
    print -l -- $hits >>offered
    builtin compadd "$@"
}
zle-line-init() { print begin }
zle -N zle-line-init
"""


def make(*words, env=None, source=None):
    build = ["BUILD=" + BUILD] if source is None else []
    return Run(["make", "--no-print-directory", "-C", source or SOURCE, *build, *words],
               env=dict(os.environ, **env) if env else None, timeout=600)


def is_clone(folder):
    return bool(shutil.which("git")) and os.path.exists(folder + "/.git")


def make_tarball(source, clone):
    """What `make dist` packs if all that is here is committed, in a clone of its own."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        if os.path.exists(os.path.join(source, name)):
            os.makedirs(os.path.dirname(os.path.join(clone, name)), exist_ok=True)
            shutil.copy2(os.path.join(source, name), os.path.join(clone, name))
    for words in (["init", "-q"], ["add", "-A"],
                  ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "All"]):
        subprocess.run(["git", "-C", clone, *words], check=True)
    run = make("dist", source=clone)
    if run.status:
        raise AssertionError(run.text + run.words)
    return os.path.join(clone, run.text.strip())


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(place, name), folder)
                  for place, _, names in os.walk(folder) for name in names)


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-install-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.prefix = os.path.join(self.folder, "prefix")

    def make(self, *words, **how):
        run = make(*words, **how)
        self.assertEqual(run.status, 0, run.text + run.words)
        return run

    def test_packages_know_nothing_of_their_folder(self):
        """Packages are made so: everything lies below DESTDIR, and no word of it is in the files."""
        root = os.path.join(self.folder, "root of a package")
        self.make("install", "PREFIX=/opt/cairn", "DESTDIR=" + root)
        self.assertEqual(os.listdir(root), ["opt"])
        self.assertIn("bin/cairn", files_below(root + "/opt/cairn"))
        for path in glob.glob(root + "/opt/cairn/lib/**/*.pc", recursive=True):
            with open(path, encoding="utf-8") as file:
                self.assertNotIn(self.folder, file.read())
        self.make("uninstall", "PREFIX=/opt/cairn", "DESTDIR=" + root)
        self.assertEqual(files_below(root), [])

    def test_uninstall_leaves_what_others_put_there(self):
        """What was there before stays, the folders too; what an older version had is gone after the next one."""
        os.makedirs(self.prefix + "/share/man")
        with open(self.prefix + "/share/man/other.1", "w", encoding="utf-8"):
            pass
        self.make("install", "PREFIX=" + self.prefix)
        listed, = glob.glob(self.prefix + "/lib/**/installed-files", recursive=True)
        with open(listed, encoding="utf-8") as file:
            known = [line for line in file.read().splitlines() if not line.endswith("/")]
        self.assertEqual(sorted(known + [os.path.relpath(listed, self.prefix), "share/man/other.1"]),
                         files_below(self.prefix))
        stale = self.prefix + "/bin/cairn-of-old"
        with open(stale, "w", encoding="utf-8"), open(listed, "a", encoding="utf-8") as file:
            file.write("bin/cairn-of-old\n")
        self.make("install", "PREFIX=" + self.prefix)
        self.assertFalse(os.path.exists(stale))
        self.make("uninstall", "PREFIX=" + self.prefix)
        self.assertEqual(files_below(self.prefix), ["share/man/other.1"])
        self.assertEqual(os.listdir(self.prefix), ["share"])
        run = make("uninstall", "PREFIX=" + self.prefix)
        self.assertIn("nothing was installed below " + self.prefix, run.words)

    def test_a_prefix_with_a_blank_is_refused_and_nothing_written(self):
        run = make("install", "PREFIX=" + self.folder + "/two words")
        self.assertNotEqual(run.status, 0)
        self.assertIn("no blank", run.words)
        self.assertEqual(os.listdir(self.folder), [])


# Stands before those tools that a build may not need: whoever calls one is written down.
FORBIDDEN_TOOL = """#!/bin/sh
echo "$0 $*" >>"$(dirname "$0")/called"
exit 1
"""


class TarballTest(unittest.TestCase):
    """What `make dist` packs, as a distribution builds it: no git, no package manager, no network, no root."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cairn-tarball-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.tools = cls.top + "/tools"
        if is_clone(SOURCE):
            cls.clone = tempfile.mkdtemp(prefix="cairn-clone-")
            cls.addClassCleanup(shutil.rmtree, cls.clone)
            cls.tarball = make_tarball(SOURCE, cls.clone)
            subprocess.run(["tar", "-xf", cls.tarball, "-C", cls.top], check=True)
            cls.source, = glob.glob(cls.top + "/cairn-*/")
        else: # unpacked from a tarball before
            cls.source = cls.top + "/cairn"
            shutil.copytree(SOURCE, cls.source, ignore=shutil.ignore_patterns("__pycache__", "build*"))
        os.mkdir(cls.tools)
        for name in ("git", "sudo", "apt-get", "curl", "wget"):
            cls.tool(cls.tools, name, FORBIDDEN_TOOL)
        os.chmod(cls.top, 0o755)
        cls.user = []
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for place, folders, files in os.walk(cls.top):
                for name in (".", *folders, *files):
                    os.chown(os.path.join(place, name), nobody.pw_uid, nobody.pw_gid)
            cls.user = ["setpriv", "--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"]

    @classmethod
    def tool(cls, folder, name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def make(self, *words, tools=(), user=None, **env):
        path = ":".join([*tools, self.tools, os.environ["PATH"]])
        return Run([*(self.user if user is None else user), "make", "--no-print-directory", *words], cwd=self.source,
                   env={**os.environ, "PATH": path, "HOME": self.top, **env}, timeout=800)

    def assert_nothing_forbidden(self):
        self.assertFalse(os.path.exists(self.tools + "/called"))

    def test_builds_and_installs_without_git_network_and_root(self):
        run = self.make("install", "PREFIX=" + self.top + "/prefix", "SETUP=-Doptimization=0 -Ddebug=false")
        self.assertEqual(run.status, 0, run.text + run.words)
        self.assert_nothing_forbidden()
        version = Run([self.top + "/prefix/bin/cairn", "--version"]).text
        if hasattr(self, "tarball"):
            commit = Run(["git", "-C", self.clone, "rev-parse", "HEAD"]).text
            told = re.search(r"^from commit (\w+) of \d{4}-\d\d-\d\d$", version, re.M)
            self.assertTrue(told and commit.startswith(told.group(1)), version)
        profile = self.top + "/profile"
        run = Run([*self.user, self.top + "/prefix/bin/cairn", "record", "-q", "-o", profile, "--",
                   "perl", "-e", "$x += $_ * $_ for 1 .. 3e6; print $x > 0"], cwd=self.top)
        self.assertEqual((run.status, run.text), (0, "1"), run.words)
        info = json.loads(Run([self.top + "/prefix/bin/cairn", "info", "--json", profile]).text)
        self.assertGreater(info["samples"], 10)
        if self.user: # as `sudo make install` does it
            run = self.make("install", "PREFIX=" + self.top + "/of-root", user=[])
            self.assertEqual(run.status, 0, run.text + run.words)
            self.assertEqual(os.stat(self.top + "/of-root/bin/cairn").st_uid, 0)
            self.assertEqual([path for path in files_below(self.source)
                              if os.lstat(os.path.join(self.source, path)).st_uid == 0], [])
            self.assertEqual(files_below(self.top + "/of-root"), files_below(self.top + "/prefix"))

    @unittest.skipUnless(is_clone(SOURCE), "not a clone")
    def test_a_tarball_has_all_that_git_knows_and_is_made_of_a_clone_alone(self):
        packed = Run(["tar", "-tf", self.tarball]).text.splitlines()
        known = Run(["git", "-C", self.clone, "ls-files"]).text.splitlines()
        self.assertEqual({name.split("/", 1)[1] for name in packed if not name.endswith("/")}, set(known))
        with open(self.tarball, "rb") as file:
            first = file.read()
        os.remove(self.tarball)
        self.assertEqual(make("dist", source=self.clone).status, 0)
        with open(self.tarball, "rb") as file:
            self.assertEqual(file.read(), first)
        run = Run(["make", "-C", self.source, "dist"])
        self.assertNotEqual(run.status, 0)
        self.assertIn("this is no clone", run.words)

    def test_what_is_missing_is_listed_and_not_installed(self):
        tools = tempfile.mkdtemp(dir=self.top)
        os.chmod(tools, 0o755)
        for name in ("pkg-config", "dpkg-query"):
            self.tool(tools, name, "#!/bin/sh\nexit 1\n")
        for command in ("all", "install"):
            run = self.make(command, "BUILD=other", "PREFIX=" + self.top + "/other", tools=[tools], CC="no-such-compiler")
            self.assertNotEqual(run.status, 0)
            packages = ("gcc libc6-dev libdw-dev libelf-dev liblzma-dev libdeflate-dev libzstd-dev libxxhash-dev "
                        "libiberty-dev libncurses-dev")
            self.assertIn(f"missing: {packages}\nto install them: sudo apt-get install {packages}\n", run.words)
        self.assert_nothing_forbidden()
        for name in ("cairn/other", "other"):
            self.assertFalse(os.path.exists(os.path.join(self.top, name)))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cairn-installed-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        first, cls.prefix = cls.top + "/first", cls.top + "/moved"
        run = make("install", "PREFIX=" + first)
        if run.status:
            raise AssertionError(run.text + run.words)
        # Nothing that is installed knows where it was installed.
        os.rename(first, cls.prefix)
        cls.cairn = cls.prefix + "/bin/cairn"

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.top)

    def run_it(self, *argv, status=0, **how):
        how.setdefault("env", {"PATH": self.prefix + "/bin:" + os.environ["PATH"], "HOME": self.folder, "LC_ALL": "C.UTF-8"})
        run = Run(list(argv), cwd=self.folder, **how)
        self.assertEqual(run.status, status, run.text + run.words)
        return run

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def info(self, *options):
        return json.loads(self.run_it("cairn", "info", "--json", *options).text)

    def test_record_and_report(self):
        self.run_it("cairn", "record", "--", "perl", "-e", "$x += $_ * $_ for 1 .. 3e6")
        self.assertGreater(self.info()["samples"], 10)
        self.assertIn("Perl_runops", self.run_it("cairn", "report").text)
        self.run_it("cairn", "record", "-e", "alloc", "--", "perl", "-e", "my @list = (1 .. 1e5)")
        self.assertIn("bytes", [event["unit"] for event in self.info()["events"]])

    @installed("g++")
    def test_cc_finds_its_assembler(self):
        """C++ needs the assembler that is installed with it."""
        self.write("stones.cc", CXX_PROGRAM)
        self.run_it("cairn", "cc", "g++", "-O2", "-o", "stones", "stones.cc")
        self.run_it("cairn", "record", "--track", "calls", "--calls-by", "entries", "--", "./stones")
        nodes = json.loads(self.run_it("cairn", "report", "--json").text)["nodes"]
        self.assertEqual(sum(node["calls"] or 0 for node in nodes if "stones<int>" in node["function"]), 100)

    @installed("pkg-config")
    def test_api_program(self):
        self.write("program.c", API_PROGRAM)
        package, = glob.glob(self.prefix + "/lib/**/pkgconfig", recursive=True)
        env = dict(os.environ, PKG_CONFIG_PATH=package)
        flags = self.run_it("pkg-config", "--cflags", "--libs", "cairn", env=env).text.split()
        self.assertEqual(self.run_it("pkg-config", "--modversion", "cairn", env=env).text.split(),
                         self.run_it("cairn", "--version").text.split()[1:2])
        self.run_it("gcc", "-O1", "-o", "program", "program.c", *flags)
        self.assertEqual(self.run_it("./program").text, "done\n")
        self.run_it("cairn", "record", "--", "./program")
        self.assertIn("main", self.run_it("cairn", "report", "--phase", "all").text)

    @installed("man")
    def test_every_command_has_its_page(self):
        """Every page is there, and every command but `help` has one."""
        for path in glob.glob(SOURCE + "/docs/man/*"):
            name, section = os.path.basename(path).rsplit(".", 1)
            found = self.run_it("man", "-M", self.prefix + "/share/man", "-w", section, name).text.strip()
            self.assertEqual(found, f"{self.prefix}/share/man/man{section}/{name}.{section}")
        for name in self.commands():
            if name != "help":
                self.run_it("man", "-M", self.prefix + "/share/man", "-w", "cairn-" + name)

    def commands(self):
        overview = self.run_it("cairn", "help").text
        return re.findall(r"^ {2,}(\w+) {2,}\S", overview, re.M)

    def offered_by_bash(self, *words):
        script = self.prefix + "/share/bash-completion/completions/cairn"
        quoted = " ".join(f"'{word}'" for word in words)
        done = self.run_it("bash", "--norc", "-c",
                           f". {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _cairn; "
                           "printf '%s\\n' \"${COMPREPLY[@]}\"")
        self.assertEqual(done.words, "")
        return done.text.split()

    def test_options_are_completed(self):
        """What is offered is what the tool takes, and what its help begins a line with."""
        self.assertEqual(sorted(self.offered_by_bash("cairn", "")),
                         sorted(self.commands() + ["--help", "--version"]))
        for command in self.commands():
            offered = self.offered_by_bash("cairn", command, "-")
            said = re.findall(r"^ {2,}(?:-\w, )?(--[\w-]+)", self.run_it("cairn", "help", command).text, re.M)
            self.assertLessEqual(set(said), set(offered))
            self.assertIn("--help", offered)
            for option in offered:
                # Two values at least: of what is wrong with this, an unknown option would be said first.
                run = Run([self.cairn, command, option, "--help"], cwd=self.folder)
                self.assertNotIn("no option", run.words, f"{command} {option}")

    def test_values_are_completed(self):
        for words, expected in (
                (("report", "--view", ""), {"tree", "callers", "flat"}),
                (("report", "--view", "=", "fl"), {"flat"}),
                (("record", "-e", ""), {"cpu", "wall", "alloc", "calls"}),
                (("record", "--tree", ""), {"full", "hot", "bounded", "functions"}),
                (("record", "--track", "w"), {"walk"}),
                (("help", "rep"), {"report"})):
            self.assertLessEqual(expected, set(self.offered_by_bash("cairn", *words)), words)
        for command, value in (("record", "bounded"), ("record", "functions"), ("record", "entries"),
                               ("export", "folded")):
            self.assertIn(value, self.run_it("cairn", "help", command).text)

    def test_programs_and_profiles_are_completed(self):
        self.write("a profile.out", "")
        self.assertIn("perl", self.offered_by_bash("cairn", "record", "per"))
        self.assertIn("perl", self.offered_by_bash("cairn", "record", "-F", "100", "--", "per"))
        self.assertEqual(self.offered_by_bash("cairn", "report", "a\\ pr"), [])
        self.assertEqual(self.offered_by_bash("cairn", "report", "a pr"), ["a", "profile.out"])
        self.assertEqual(self.offered_by_bash("cairn", "record", "-F", "1"), [])

    @installed("fish")
    def test_fish_completes(self):
        script = self.prefix + "/share/fish/vendor_completions.d/cairn.fish"
        def offered(line):
            done = self.run_it("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
            return {one.split("\t")[0] for one in done.text.splitlines()}
        self.assertLessEqual(set(self.commands()), offered("cairn "))
        self.assertLessEqual({"--track", "--tree", "--tree-memory"}, offered("cairn record --tr"))
        self.assertLessEqual({"tree", "callers", "flat"}, offered("cairn report --view "))

    @installed("zsh")
    def test_zsh_completes(self):
        """zsh reads a specification, and complains about it, only when it completes by it, in a terminal."""
        self.write("setup", SETUP_OF_ZSH)
        commands = self.commands()
        ask = "".join(f"zpty -w -n z 'cairn {command} --\t\025'; " for command in commands)
        done = self.run_it(
            "zsh", "-f", "-c", f"folder={self.prefix}/share/zsh/site-functions; zmodload zsh/zpty; "
            "zpty z zsh -f -i; zpty -w z \"folder=$folder; . ./setup\"; zpty -r z line '*begin*'; " +
            ask + "zpty -w z \"echo e''nd\"; zpty -r z line '*end*'; print -r -- $line; zpty -d z")
        self.assertNotIn("invalid", done.text + done.words)
        with open(os.path.join(self.folder, "offered"), encoding="utf-8") as file:
            offered = file.read().split()
        self.assertEqual(offered.count("--help"), len(commands), offered)
        self.assertLessEqual({"--follow-fork", "--view", "--json"}, set(offered))


if __name__ == "__main__":
    unittest.main()
