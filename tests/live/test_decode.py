# SPDX-License-Identifier: MIT
"""Contexts as values: what a program was told of its call paths is what they were, then and after its death."""

import json
import os
import re
import signal
import unittest

from support import CAIRN, LiveTest, Run, installed, program


def example(name):
    return os.path.join(os.environ.get("CAIRN_EXAMPLES", program("../../examples")), name)


LINE = re.compile(r"(c:\S+) \[(.*)\] (\*?)(\S+)")


class DecodeTest(LiveTest):
    def ask(self, mode, seed=1, count=2000, tracker="encode", status=0, options=()):
        """Runs the program that knows its paths; the lines that it wrote."""
        self.out = self.file(f"{mode}-{seed}-{tracker}.out")
        run = Run([CAIRN, "record", "-q", "--track", tracker, *options, "-o", self.out, "--",
                   program("asking"), mode, str(seed), str(count)], cwd=self.folder)
        self.assertEqual(run.status, status, run.words)
        self.assertIn("asked", run.words)
        self.assertNotIn("wrong: ", run.words)
        for line in run.words.splitlines():
            self.assertRegex(line, r"^asked \d+ wrong 0 unknown \d+$")
        self.unknown = sum(int(line.split()[-1]) for line in run.words.splitlines())
        return run.text

    def decode(self, *arguments, stdin="", status=0):
        run = Run([CAIRN, "decode", *arguments], cwd=self.folder, stdin=stdin.encode())
        self.assertEqual(run.status, status, run.words)
        return run

    def assert_true_paths(self, lines, least):
        """What cairn decode says of each line is what the program wrote beside it."""
        decoded = self.decode(self.out, "--folded", "--no-debuginfod", stdin=lines).text.splitlines()
        self.assertEqual(len(decoded), len(lines.splitlines()))
        self.assertGreaterEqual(len(decoded), least)
        for line in decoded:
            context, told, surprise, own = LINE.fullmatch(line).groups()
            if surprise:  # what libc or a signal did in between is not known to the program
                self.assertEqual(told.split(";")[-1], own.split(";")[-1], line)
                if not told.endswith("coroutine"):
                    self.assertTrue(told.startswith(own.rpartition(";")[0]), line)
            else:
                self.assertEqual(told, own, context)
        return decoded


class TruthTest(DecodeTest):
    def test_calls_recursion_and_indirect_calls(self):
        self.assert_true_paths(self.ask("plain"), 2000)
        self.assertEqual(self.unknown, 0)

    def test_exceptions_jumps_handlers_callbacks_and_coroutines(self):
        lines = self.ask("all", seed=2, count=3000)
        decoded = self.assert_true_paths(lines, 2500)
        for kind in ("on_signal", "compare", "coroutine", "switch_stacks"):
            self.assertTrue(any(line.endswith(kind) for line in decoded), kind)

    def test_contexts_that_come_again(self):
        def life():
            self.assert_true_paths(self.ask("few", seed=3, count=12000), 10000)
            return self.info()["asked"]

        # Most are known by their number, without a walk.
        self.steadily(life, lambda counts: self.assertLess(counts["numbers"] + counts["walked"], 9000, counts))

    def test_encoded_again_and_again(self):
        for seed in (4, 5):
            def life():
                lines = self.ask("all", seed=seed, options=("--reencode-always", "-F", "4000"))
                self.assert_true_paths(lines, 1500)
                return {line.split()[0].split(".")[2] for line in lines.splitlines()}

            self.steadily(life, lambda stamps: self.assertGreater(len(stamps), 4))

    def test_threads_and_who_created_them(self):
        decoded = self.assert_true_paths(self.ask("threads", count=4000), 7000)
        self.assertTrue(any("[main;run_threads;worker;walk;step0;step" in line for line in decoded))

    def test_threads_while_it_is_encoded_anew(self):
        self.assert_true_paths(self.ask("threads", seed=6, count=3000, options=("--reencode-always", "-F", "4000")), 5000)

    def test_threads_whose_contexts_come_again(self):
        self.assert_true_paths(self.ask("crowd", seed=7, count=8000, options=("--reencode-always", "-F", "4000")), 14000)

    def test_jumps_that_nobody_is_told_of(self):
        run = Run([CAIRN, "record", "-q", "--track", "encode", "-o", self.file("odd.out"), "--", program("asking-odd")], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertRegex(run.text, r"^asked \d{5} wrong 0 unknown 0$")

    def test_children_of_fork_tell_their_parents_contexts_too(self):
        lines = self.ask("fork", seed=7, count=1600)
        self.assertEqual(len({line.split(".")[0] for line in lines.splitlines()}), 2)
        self.assert_true_paths(lines, 3000)

    def test_nothing_is_lost_when_the_program_is_killed(self):
        self.assert_true_paths(self.ask("kill", seed=8, status=128 + signal.SIGKILL), 1900)

    def test_stacks_are_walked_with_other_trackers(self):
        self.assert_true_paths(self.ask("all", seed=9, tracker="walk"), 1900)
        self.assert_true_paths(self.ask("threads", seed=9, count=1600, tracker="walk"), 3000)
        self.assertEqual(self.info()["asked"]["numbers"], 0)

    def test_a_program_that_records_itself(self):
        self.out = self.file("own.cairn")
        run = Run([program("asking-linked"), "own", "10", "1500", self.out], cwd=self.folder)
        self.assertEqual(run.status, 0, run.words)
        self.assertRegex(run.words, r"^asked \d+ wrong 0 unknown 0$")
        self.assert_true_paths(run.text, 1400)
        # As a profile like any other.
        snapshot, self.out = self.out, self.file("own.out")
        self.assertEqual(Run([CAIRN, "merge", "-o", self.out, snapshot], cwd=self.folder).status, 0)
        self.assert_true_paths(run.text, 1400)

    def test_without_cairn_nothing_is_known(self):
        run = Run([program("asking"), "all", "1", "500"], cwd=self.folder)
        self.assertEqual((run.status, run.text), (0, ""))
        self.assertRegex(run.words, r"^asked 0 wrong 0 unknown \d+$")

    def info(self):
        return json.loads(Run([CAIRN, "info", self.out, "--json"], cwd=self.folder).text)


class RealTest(DecodeTest):
    """Programs that know nothing of cairn, asked by a library in their allocator."""

    def check(self, least, *argv):
        if not installed(argv[0]):
            self.skipTest(f"{argv[0]} is not installed")
        log, out = self.file("asked.log"), self.file("asked.out")
        plain = Run(argv, cwd=self.folder)
        run = Run([CAIRN, "record", "-q", "--track", "encode", "-F", "2000", "-o", out, "--", "env",
                   "LD_PRELOAD=" + program("ask_malloc.so"), "ASK_MALLOC=" + log, *argv], cwd=self.folder)
        self.assertEqual((run.status, run.text), (plain.status, plain.text), run.words)
        with open(log, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertRegex(lines[-1], r"^asked \d+ wrong 0 unknown 0$")
        asked = dict(line.split() for line in lines[:-1])
        self.assertGreaterEqual(len(lines) - 1, least)
        answer = json.loads(self.decode(out, "--json", "--no-debuginfod", stdin="\n".join(asked)).text)
        self.assertEqual(len(answer["contexts"]), len(asked))
        for context in answer["contexts"]:
            offsets = [f"{frame['offset']:x}" for frame in context["frames"] if not frame["inlined"]]
            self.assertEqual(";".join(offsets), asked[context["context"]])

    def test_perl(self):
        self.check(200, "perl", "-e", "my %h; $h{$_ % 377} .= $_ for 1..3000; sub f { my $n = shift; $n < 2 ? [$n] : [f($n-1), f($n-2)] } f(11);"
                                      " eval { die [$_] } for 1..50; print scalar(keys %h)")

    def test_sqlite(self):
        self.check(100, "sqlite3", ":memory:", "create table t(a, b); with recursive c(x) as (values(1) union all select x + 1 from c"
                                               " where x < 900) insert into t select x, x * x % 100 from c; select b, count(*) from t group by b order by 2;")

    def test_lua(self):
        self.check(300, "lua5.4", "-e", "local t = {} for i = 1, 3000 do t[i] = {tostring(i)} end print(#t, pcall(error, 'x'))")

    def test_bash(self):
        self.check(100, "bash", "-c", "f() { local i; for i in 1 2 3 4 5; do x=$x$((i * $1)); done; }; for j in {1..40}; do f $j; done; echo ${#x}")


class LimitTest(DecodeTest):
    def test_no_room_is_said(self):
        lines = self.ask("all", seed=1, count=20000, options=("--memory", "1M"))
        self.assertGreater(self.unknown, 100)
        self.assert_true_paths(lines, 100)
        info = Run([CAIRN, "info", self.out], cwd=self.folder).text
        self.assertIn("not known", info)
        self.assertEqual(json.loads(Run([CAIRN, "info", self.out, "--json"]).text)["asked"]["unknown"], self.unknown)


class ExampleTest(DecodeTest):
    def test_a_log_whose_lines_know_where_they_come_from(self):
        plain = Run([example("logger")], cwd=self.folder)
        self.out = self.file("shop.out")
        run = Run([CAIRN, "record", "-q", "--track", "encode", "-o", self.out, "--", example("logger")], cwd=self.folder)
        self.assertEqual((plain.status, run.status), (0, 0), run.words)
        lines = run.text.splitlines()
        self.assertEqual([line.split(" ", 1)[1] for line in lines], plain.text.splitlines())
        # One message, three ways to it.
        boats = "".join(line + "\n" for line in lines if "boat" in line)
        ways = [re.search(r"\[(.*)\]", line).group(1).split(";")
                for line in self.decode(self.out, "--folded", stdin=boats).text.splitlines()]
        self.assertEqual([[name for name in way if name in ("offer", "sell", "serve")] for way in ways],
                         [["serve", "offer"], ["serve", "sell"], ["serve", "sell"]])
        self.assertNotEqual(ways[0], ways[1])
        self.assertIn("logger.c:", self.decode(self.out, stdin=boats).text)


class CommandTest(DecodeTest):
    def setUp(self):
        super().setUp()
        self.lines = self.ask("plain", count=300)
        self.context, self.path = self.lines.splitlines()[100].split()

    def test_a_context_as_argument(self):
        told = self.decode(self.out, self.context).text.splitlines()
        self.assertEqual(told[0], self.context)
        self.assertEqual([line.split()[0] for line in told[1:]], self.path.split(";")[::-1])
        self.assertRegex(told[1], r"^    step\d  .*asking.cpp:\d+$")
        # As the program could have printed it: two numbers.
        _, number, stamp, node, _ = self.context[2:].split(".")
        numbers = f"0x{number}:{int(stamp, 16) << 32 | int(node, 16)}"
        self.assertEqual(self.decode(self.out, numbers).text.splitlines()[1:], told[1:])

    def test_the_profile_has_a_default(self):
        os.rename(self.out, self.file("cairn.out"))
        self.assertEqual(self.decode(self.context, "--folded").text, f"{self.context} [{self.path}]\n")

    def test_lines_keep_what_else_is_in_them(self):
        text = f"12:00 <{self.context}> and {self.context}, abc:? c:? c: end\nnothing here\nno newline {self.context}"
        told = self.decode(self.out, "--folded", stdin=text).text
        path = f"{self.context} [{self.path}]"
        self.assertEqual(told, f"12:00 <{path}> and {path}, abc:? c:? [not known] c: end\nnothing here\nno newline {path}")
        below = self.decode(self.out, stdin="x " + self.context + "\ny\n").text.splitlines()
        self.assertEqual([below[0], below[-1]], ["x " + self.context, "y"])
        self.assertEqual(len(below), 2 + len(self.path.split(";")))

    def test_json_has_every_frame(self):
        answer = json.loads(self.decode(self.out, "--json", stdin=f"a\nb {self.context} c:?\n").text)
        first, second = answer["contexts"]
        self.assertEqual((first["context"], first["input_line"], first["known"], first["error"]), (self.context, 2, True, None))
        self.assertEqual([frame["function"] for frame in first["frames"]], self.path.split(";")[::-1])
        for frame in first["frames"]:
            self.assertEqual((frame["module"], frame["inlined"], frame["thread"]), (program("asking"), False, 0))
            self.assertTrue(frame["file"].endswith("asking.cpp") and frame["line"] > 0 and frame["offset"] > 0)
        self.assertEqual((second["known"], second["error"], second["frames"]), (False, None, []))

    def test_contexts_that_are_none(self):
        damaged = self.context[:-1] + ("0" if self.context[-1] != "0" else "1")
        for word in (damaged, "c:12", self.context + "0", self.context[:-3]):
            run = self.decode(self.out, word, status=2)
            self.assertEqual(run.text, "")
            self.assertEqual(run.words, f"cairn: decode: '{word}' is not a context, or is damaged (see 'cairn help decode')\n")
        run = self.decode(self.out, "--folded", stdin=f"x {damaged} y\n", status=1)
        self.assertEqual(run.text, f"x {damaged} [damaged] y\n")
        self.assertEqual(run.words, f"cairn: decode: 1 context could not be decoded by {self.out}\n")

    def test_other_profiles(self):
        own = self.out
        other = self.ask("plain", seed=2, count=50).split()[0]
        run = self.decode(own, other, status=1)
        self.assertIn("[of a process that is not in this profile]", run.text)
        self.assertEqual(len(run.words.splitlines()), 1)
        none = self.file("none.out")
        Run([CAIRN, "record", "-q", "-o", none, "--", "true"], cwd=self.folder)
        run = self.decode(none, self.context, status=1)
        self.assertEqual(run.words, f"cairn: decode: {none} holds no contexts: its program asked for none with cairn_context()\n")
        self.assertIn("there is no profile", self.decode("nowhere.out", self.context, status=2).words)
        self.assertIn("is not a cairn profile", self.decode(program("asking"), self.context, status=2).words)

    def test_misuse_is_named(self):
        self.assertIn("is not a process id", self.decode(self.out, "--pid", "x", status=2).words)
        self.assertIn("has no contexts of a process 1\n", self.decode(self.out, "--pid", "1", "1:2", status=1).words)
        self.assertIn("--nonsense", self.decode("--nonsense", status=2).words)
        self.assertIn("usage: cairn decode", self.decode("--help").text)

    def test_merged_profiles(self):
        one, line = self.out, f"{self.context} {self.path}\n"
        line += "".join(self.ask("plain", seed=3, count=50).splitlines(True)[-1:])
        merged = self.file("merged.out")
        self.assertEqual(Run([CAIRN, "merge", "-o", merged, one, self.out], cwd=self.folder).status, 0)
        self.out = merged
        self.assert_true_paths(line, 2)

    def test_a_profile_that_was_cut_off(self):
        with open(self.out, "rb") as file:
            whole = file.read()
        with open(self.file("cut.out"), "wb") as file:
            file.write(whole[: len(whole) * 2 // 3])
        run = Run([CAIRN, "decode", self.file("cut.out"), "--folded"], cwd=self.folder, stdin=self.lines.encode())
        self.assertIn(run.status, (0, 1))
        for line in run.text.splitlines():  # right, or not told
            match = LINE.fullmatch(line)
            if match:
                self.assertIn(match.group(2), (match.group(4), "not in this profile", "lost: the profile is damaged",
                                               "of a process that is not in this profile"))


if __name__ == "__main__":
    unittest.main()
