# SPDX-License-Identifier: MIT
"""Files that cairn writes: what may be there before, who may read them, and what is never touched."""

import os
import stat
import unittest

from support import CAIRN, LiveTest, Run, program


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


class Writers(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        run, profile = case.record([program("shares")])
        case.assertEqual(run.status, 0, run.words)
        cls.profile = profile.path

    def writers(self, output):
        """Every command that writes a file, as a shell would start it, with that file."""
        return {
            "record": [CAIRN, "record", "-q", "-o", output, "true"],
            "export": [CAIRN, "export", "-f", "folded", "-o", output, self.profile],
            "compare": [CAIRN, "compare", self.profile, self.profile, "--svg", output],
            "merge": [CAIRN, "merge", "-q", "-o", output, self.profile],
        }

    def each(self, name, test):
        for command, argv in self.writers(os.path.join(self.folder, name)).items():
            with self.subTest(command=command, output=name):
                test(command, argv)

    def test_planted_links(self):
        """Links under every name that could be foreseen do not lead anywhere."""
        victim = self.file("victim", "precious\n")
        def test(command, argv):
            out = self.file("out")
            # The shell's pid is cairn's.
            plant = "for i in tmp new new-0 new-$$-0; do ln -sf victim out.$$.$i; ln -sf victim out.$i; done; " \
                    "ln -sf victim .cairn-$$; exec \"$@\""
            run = Run(["sh", "-c", plant, "sh", *argv], cwd=self.folder)
            self.assertEqual(run.status, 0, run.words)
            with open(victim, encoding="utf-8") as file:
                self.assertEqual(file.read(), "precious\n")
            self.assertTrue(stat.S_ISREG(os.lstat(out).st_mode))
            self.assertGreater(os.path.getsize(out), 0)
            for name in os.listdir(self.folder):
                if name != "victim":
                    os.unlink(self.file(name))

        self.each("out", test)

    def test_profiles_are_their_owners(self):
        """Profiles hold arguments: they are their owner's, unless the owner has said otherwise."""
        def test(command, argv):
            out = self.file("out")
            private = command in ("record", "merge")
            for umask, expected in ((0o022, 0o600 if private else 0o644), (0o377, 0o400)):
                run = Run(["sh", "-c", f"umask {umask:o}; exec \"$@\"", "sh", *argv], cwd=self.folder)
                self.assertEqual(run.status, 0, run.words)
                self.assertEqual(mode(out), expected)
                os.unlink(out)
            if private:
                Run(argv, cwd=self.folder)
            else:
                self.file("out", "")
            os.chmod(out, 0o640)
            self.assertEqual(Run(argv, cwd=self.folder).status, 0)
            self.assertEqual(mode(out), 0o640, "the owner's choice")
            if os.geteuid() == 0:
                # A file that somebody else has put there for us.
                os.chown(out, 65534, 65534)
                os.chmod(out, 0o666)
                self.assertEqual(Run(["sh", "-c", "umask 022; exec \"$@\"", "sh", *argv]).status, 0)
                self.assertEqual((os.stat(out).st_uid, mode(out)), (0, 0o600 if private else 0o644))
            os.unlink(out)
            if command == "record":
                os.unlink(out + ".old")

        self.each("out", test)
        self.assertEqual(os.listdir(self.folder), [])

    def test_links_are_followed(self):
        """What a link names is replaced, in its folder, and the link stays."""
        os.mkdir(self.file("folder"))
        def test(command, argv):
            target = self.file("folder/out", "")
            os.symlink("folder/out", self.file("link"))
            run = Run(argv, cwd=self.folder)
            self.assertEqual(run.status, 0, run.words)
            self.assertTrue(os.path.islink(self.file("link")))
            self.assertGreater(os.path.getsize(target), 0)
            self.assertEqual(os.listdir(self.file("folder")), ["out"])
            os.unlink(self.file("link"))

        self.each("link", test)

    def refused(self, argv, says):
        run = Run(argv, cwd=self.folder)
        self.assertEqual(run.status, 2 if argv[1] == "record" else 1, run.words)
        self.assertIn(says, run.words)
        self.assertEqual(len(run.words.splitlines()), 1)

    def test_dangling_link(self):
        os.symlink("nowhere", self.file("link"))
        def test(command, argv):
            self.refused(argv, "a link to a file that does not exist")
            self.assertFalse(os.path.exists(self.file("nowhere")))
            self.assertTrue(os.path.islink(self.file("link")))

        self.each("link", test)

    def test_a_folder_is_not_overwritten(self):
        os.mkdir(self.file("folder"))
        def test(command, argv):
            self.refused(argv, "directory" if command != "record" else "ordinary file")

        self.each("folder", test)
        self.assertEqual(os.listdir(self.file("folder")), [])

    def test_no_such_folder(self):
        def test(command, argv):
            self.refused(argv, "No such file or directory")

        self.each("missing/out", test)

    @unittest.skipIf(os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"), "root may write anywhere")
    def test_read_only_folder(self):
        os.chmod(self.folder, 0o555)
        self.addCleanup(os.chmod, self.folder, 0o755)
        def test(command, argv):
            if os.geteuid() == 0:
                os.chmod(self.profile, 0o644)
                os.chmod(os.path.dirname(self.profile), 0o755)
                argv = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", *argv]
                run = Run(argv, cwd=self.folder)
                self.assertEqual(run.status, 2 if command == "record" else 1, run.words)
                self.assertIn("Permission denied", run.words)
            else:
                self.refused(argv, "Permission denied")

        self.each("out", test)

    def test_pipes_and_devices(self):
        """A profile needs a file; text goes to whatever takes it."""
        os.mkfifo(self.file("pipe"))
        for path in (self.file("pipe"), "/dev/null", "/dev/stdout"):
            def test(command, argv):
                if command in ("record", "merge"):
                    self.refused(argv, "not an ordinary file")
                elif "pipe" not in path:
                    run = Run(argv, cwd=self.folder)
                    self.assertEqual((run.status, run.words), (0, ""))
                    self.assertEqual(command == "export" and path == "/dev/stdout", b";main" in run.out)

            self.each(path, test)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.file("pipe")).st_mode))

    def test_own_output(self):
        """A file that is stdout already is no place for a profile; text is added to what is in it."""
        for before in ("", "before\n"):
            def test(command, argv):
                log = self.file("log", before)
                run = Run(["sh", "-c", "exec \"$@\" >>log", "sh", *argv], cwd=self.folder)
                with open(log, encoding="utf-8") as file:
                    content = file.read()
                if command in ("record", "merge"):
                    self.assertEqual((run.status, content), (2 if command == "record" else 1, before))
                    self.assertIn("/dev/stdout", run.words)
                else:
                    self.assertEqual(run.status, 0, run.words)
                    self.assertEqual(content[:len(before)], before)
                    self.assertIn(";main" if command == "export" else "</svg>", content)

            self.each("/dev/stdout", test)


if __name__ == "__main__":
    unittest.main()
