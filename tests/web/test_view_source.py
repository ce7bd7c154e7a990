# SPDX-License-Identifier: MIT
"""The source view has the lines and instructions of `cairn annotate --json`, and follows what is chosen."""

import json
import os
import subprocess
import unittest
from collections import Counter

import browser
from support import CAIRN, LiveTest, Run, program

LINES = """(() => app.views.source.lines.filter(({cost, line}) => cost && line > 0 && cost.total > 0)
    .map(({file, line, cost}) => [app.session.profile.files.get(file), line, cost.self, cost.total]))()"""
INSTRUCTIONS = """(() => { const {rows, costs} = app.views.source, {code} = app.session.profile;
    return rows.filter(({instruction}) => costs[instruction] > 0).map(({instruction: i}) => [code.address[i], code.texts.get(i), costs[i]]); })()"""


@unittest.skipUnless(browser.find(), "not installed: chromium")
class SourceTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.case = case = cls.for_all()
        cls.browser = cls.enterClassContext(browser.Browser())
        cls.profile = case.record([program("shares")], "-F", "2000", "--timeline")[1]
        cls.path = case.file("code.html")
        run = Run([CAIRN, "view", "--no-debuginfod", "--code", "-o", cls.path, cls.profile.path])
        case.assertEqual((run.status, run.words), (0, ""))

    def page(self, state=""):
        page = self.browser.open("file://" + self.path + state)
        self.addCleanup(page.close)
        return page

    def annotate(self, function, *options):
        return json.loads(subprocess.run([CAIRN, "annotate", function, self.profile.path, "--json", "--no-debuginfod", *options],
                                         capture_output=True, check=True).stdout)

    def test_lines_and_instructions_are_those_of_annotate(self):
        page = self.page()
        for function in ("burn", "share_upper", "share_lower", "main"):
            with self.subTest(function=function):
                page.evaluate(f"app.session.change({{view: 'source', func: app.session.names.find('{function}')}})")
                told = self.annotate(function, "--asm")
                self.assertEqual(Counter(map(tuple, page.evaluate(LINES))),
                                 Counter((one["file"], one["line"], one["self"], one["total"]) for one in told["lines"] if one["line"]))
                code = [(one["address"], one["self"]) for piece in told["code"] for one in piece.get("instructions", []) if one["self"]]
                shown = page.evaluate(INSTRUCTIONS)
                self.assertEqual(sorted((address, cost) for address, _, cost in shown), sorted(code))
                texts = {one["address"]: one["text"] for piece in told["code"] for one in piece["instructions"]}
                for address, text, _ in shown:
                    self.assertTrue(text.startswith(texts[address]))
        self.assertEqual(page.complaints(), [])

    def test_the_text_of_the_source_is_there(self):
        page = self.page()
        page.evaluate("app.session.change({view: 'source', func: app.session.names.find('share_upper')})")
        rows = page.evaluate("app.views.source.lines.filter(({line}) => line > 0).map(({line, text}) => [line, text])")
        with open(os.path.join(os.path.dirname(__file__), "../programs/shares.c"), encoding="utf-8") as file:
            source = file.read().split("\n")
        self.assertGreater(len(rows), 5)
        for line, text in rows:
            self.assertEqual(text, source[line - 1].replace("\t", " " * 8))

    def test_it_follows_what_is_chosen(self):
        page = self.page("#view=functions")
        row = page.evaluate("app.views.functions.rows.findIndex((f) => app.session.name(f) === 'burn')")
        page.evaluate(f"app.views.functions.table.select({row})")
        page.press("e")
        self.assertEqual(page.evaluate("document.querySelector('.source-view strong').textContent"), "burn")
        # Refined, and in a part of the recording.
        for change in ("{steps: [{kind: 'through', func: app.session.names.find('share_left'), pattern: ''}]}",
                       "{steps: [], from: 0, to: Math.round(app.session.profile.timeline.end / 2)}"):
            page.evaluate(f"app.session.change({change})")
            self.assertEqual(sum(one[2] for one in page.evaluate(LINES)),
                             page.evaluate("app.session.tree.byFunction().self[0][app.session.state.func]"))
            self.assertEqual(sum(one[2] for one in page.evaluate(INSTRUCTIONS)), sum(one[2] for one in page.evaluate(LINES)))

    def test_lines_and_instructions_lead_to_each_other(self):
        page = self.page()
        page.evaluate("app.session.change({view: 'source', func: app.session.names.find('burn')})")
        hot = page.evaluate("app.views.source.lines.findIndex(({cost}) => cost && cost.self > 0)")
        page.evaluate(f"app.views.source.source.select({hot})")
        self.assertGreater(page.evaluate("document.querySelectorAll('.table[aria-label=instructions] .strong').length"), 0)
        row = page.evaluate("app.views.source.rows.findIndex(({instruction}) => app.views.source.costs[instruction] > 0)")
        page.evaluate(f"app.views.source.code.select({row})")
        self.assertEqual(page.evaluate("document.querySelectorAll('.table[aria-label=source] .strong').length"), 1)

    def test_without_code_there_are_line_numbers(self):
        path = self.file("plain.html")
        run = Run([CAIRN, "view", "--no-debuginfod", "-o", path, self.profile.path])
        self.assertEqual((run.status, run.words), (0, ""))
        with open(path, "rb") as file:
            self.assertLess(len(file.read()), os.path.getsize(self.path))
        page = self.browser.open("file://" + path + "#view=source&function=burn")
        self.addCleanup(page.close)
        told = [(one["line"], one["self"]) for one in self.annotate("burn")["lines"] if one["line"]]
        self.assertEqual(sorted((line, own) for _, line, own, _ in page.evaluate(LINES)), sorted(told))
        self.assertIn("--code", page.evaluate("document.querySelector('.source-view').textContent"))
        self.assertEqual(page.complaints(), [])

    def test_sources_are_text(self):
        """A file below --source that says evil things."""
        folder = os.path.dirname(self.file("shares.c", "</script><script>evil = 1</script>\x1b[31m\u202e<img src=x onerror=evil>\n" * 60))
        path = self.file("evil.html")
        run = Run([CAIRN, "view", "--no-debuginfod", "--code", "--source", folder, "-o", path, self.profile.path])
        self.assertEqual((run.status, run.words), (0, ""))
        page = self.browser.open("file://" + path + "#view=source&function=share_upper")
        self.addCleanup(page.close)
        text = page.evaluate("document.querySelector('.source-view').innerText")
        self.assertIn("<img src=x onerror=evil>", text)
        self.assertIn("\\x1b[31m\\u202e", text)
        self.assertFalse(page.evaluate("'evil' in window"))
        self.assertEqual(page.evaluate("document.scripts.length"), 1)
        self.assertEqual(page.complaints(), [])

    def test_misuse(self):
        for arguments, words in ((("--code", "--base", self.profile.path), "--code is of one version"), (("--source", "/tmp"), "--source takes --code")):
            run = Run([CAIRN, "view", "--no-browser", *arguments, self.profile.path])
            self.assertEqual((run.status, run.out), (2, b""))
            self.assertIn(words, run.words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
