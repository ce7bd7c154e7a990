# SPDX-License-Identifier: MIT
"""The configuration file gives defaults; a mistake in it is one line with its place."""

import json
import os
import unittest

from support import CAIRN, LiveTest, Profile, Run, program


class Config(LiveTest):
    def setUp(self):
        super().setUp()
        self.home = self.file("home")
        os.makedirs(self.home + "/.config/cairn")
        self.config = self.home + "/.config/cairn/config"

    def run_with(self, text, *arguments, **environment):
        """Runs cairn with this configuration file in the home folder."""
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(text)
        keep = {name: value for name, value in os.environ.items() if name not in ("CAIRN_CONFIG", "XDG_CONFIG_HOME")}
        return Run([CAIRN, *arguments], cwd=self.folder, env={**keep, "HOME": self.home, **environment})

    def record(self, text, *options, **environment):
        """The information of a profile that is recorded with this file."""
        run = self.run_with(text, "record", *options, "--", program("figure1"), **environment)
        self.assertEqual((run.status, run.words.count(self.config)), (0, 0), run.words)
        return Profile(self.file("cairn.out")).info

    def refused(self, text, line, *says, arguments=("record", "true")):
        run = self.run_with(text, *arguments)
        self.assertEqual((run.status, run.out, run.words.count("\n")), (2, b"", 1), run.words)
        self.assertTrue(run.words.startswith(f"cairn: {self.config}:{line}: "), run.words)
        for words in says:
            self.assertIn(words, run.words)


class Defaults(Config):
    def test_options_have_defaults(self):
        info = self.record("# by night\n\n[ record ]\n  frequency = 250 \r\nper-thread=yes\ntimeline = no\n")
        self.assertEqual(info["events"][0]["period"], 4000000)

    def test_the_command_line_takes_their_place(self):
        text = "[record]\nfrequency = 250\nevent = wall\nevent = alloc\n"
        for options, name, period in ((("-F", "500"), "wall", 2000000), (("--freq=500",), "wall", 2000000),
                                      (("-e", "cpu"), "cpu", 4000000), (("-e", "cpu:2ms"), "cpu", 2000000)):
            with self.subTest(options=options):
                events = self.record(text, *options)["events"]
                self.assertEqual((events[0]["name"], events[0]["period"]), (name, period))
                self.assertEqual(len(events) > 1, "-e" not in options)

    def test_no_defaults(self):
        text = "[record]\nfrequency = 250\n"
        self.assertEqual(self.record(text, "--no-config")["events"][0]["period"], 1000000)
        self.assertEqual(self.record(text, CAIRN_CONFIG="off")["events"][0]["period"], 1000000)
        self.assertEqual(self.run_with("nonsense", "--no-config", "list").status, 0)

    def test_other_places(self):
        os.makedirs(self.file("cairn"))
        other = self.file("cairn/config", "[record]\nfrequency = 500\n")
        for environment in ({"CAIRN_CONFIG": other}, {"XDG_CONFIG_HOME": self.folder}):
            with self.subTest(environment=environment):
                info = self.record("[record]\nfrequency = 250\n", **environment)
                self.assertEqual(info["events"][0]["period"], 2000000)
        info = self.record("[record]\nfrequency = 250\n", CAIRN_CONFIG="", XDG_CONFIG_HOME="cairn")
        self.assertEqual(info["events"][0]["period"], 4000000)

    def test_options_of_all_commands(self):
        coloured = "\x1b["
        self.assertIn(coloured, self.run_with("color = always\n", "doctor").text)
        for text, arguments in (("color = always\n[doctor]\ncolor = never\n", ("doctor",)),
                                ("[info]\ncolor = always\n", ("doctor",)),
                                ("color = always\n", ("doctor", "--color", "never")),
                                ("color = always\n", ("--color", "never", "doctor"))):
            with self.subTest(arguments=arguments):
                self.assertNotIn(coloured, self.run_with(text, *arguments).text)

    def test_values_with_anything_in_them(self):
        self.record("[record]\noutput = a = b; # c.out\n", "-o", "cairn.out")
        run = self.run_with("[record]\noutput = a = b; # c.out\n", "record", program("figure1"))
        self.assertEqual(run.status, 0, run.words)
        self.assertTrue(os.path.exists(self.file("a = b; # c.out")))

    def test_a_gate_records_as_its_base(self):
        self.record("")
        run = self.run_with("[record]\ntree = hot\n", "gate", "cairn.out", "--above", "1000", "--json", "--",
                            program("figure1"))
        self.assertIn(run.status, (0, 1), run.words)
        self.assertTrue(json.loads(run.text))


class Mistakes(Config):
    def test_lines(self):
        self.refused("x\n", 1, "frequency = 499")
        self.refused("\n\n = 3\n", 3, "frequency = 499")
        self.refused("[record\n", 1, "in brackets")
        self.refused("[]\n", 1, "in brackets")
        self.refused("[record]\n\0= 3\n", 2, "no text")

    def test_names(self):
        self.refused("[recrod]\nfrequency = 3\n", 2, "'recrod'", "did you mean 'record'?")
        self.refused("[record]\nfrequenzy = 3\n", 2, "'frequenzy'", "did you mean 'frequency'?")
        self.refused("[record]\nhelp = yes\n", 2, "'help'")
        self.refused("[record]\nsource = timer\n", 2, "'source'")
        self.refused("frequency = 3\n", 1, "'frequency'", "[record]")

    def test_mistakes_for_other_commands(self):
        self.refused("[record]\nfrequenzy = 3\n", 2, arguments=("list",))

    def test_values(self):
        self.refused("\n[record]\nfrequency = many\n", 3, "many", "samples a second")
        self.refused("[record]\ntimeline = perhaps\n", 2, "yes or no", "perhaps")
        self.refused("color = red\n", 1, "auto, always or never", arguments=("list",))
        self.refused("width = 7\n", 1, "40", arguments=("list",))

    def test_help_is_there_all_the_same(self):
        self.assertEqual(self.run_with("x\n", "record", "--help").status, 0)
        self.assertEqual(self.run_with("x\n", "--version").status, 0)

    def test_a_default_that_does_not_fit_is_named(self):
        run = self.run_with("[record]\ntree = hot\n", "record", "--timeline", "true")
        self.assertEqual((run.status, run.words.count("\n")), (2, 1), run.words)
        self.assertIn(f"{self.config} sets tree", run.words)

    def test_files_that_cannot_be_read(self):
        for path in (self.file("nothing"), self.folder, "/dev/zero"):
            run = self.run_with("", "list", CAIRN_CONFIG=path)
            self.assertEqual((run.status, run.words.count("\n")), (2, 1), run.words)
            self.assertIn(path, run.words)

    def test_a_file_that_others_may_write_to_is_not_read(self):
        with open(self.config, "w", encoding="utf-8"):
            pass
        os.chmod(self.config, 0o666)
        run = self.run_with("nonsense", "list")
        self.assertEqual((run.status, run.words.count("\n")), (0, 1), run.words)
        self.assertIn("chmod", run.words)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a file of another user's")
    def test_a_file_of_another_user_is_not_read(self):
        with open(self.config, "w", encoding="utf-8"):
            pass
        os.chown(self.config, 65534, 65534)
        run = self.run_with("nonsense", "list")
        self.assertEqual((run.status, run.words.count("\n")), (0, 1), run.words)
        self.assertIn("another user", run.words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
