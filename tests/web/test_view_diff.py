# SPDX-License-Identifier: MIT
"""The page of a diff: both versions in one tree, red where it costs more, blue where less, grey where that is noise."""

import json
import unittest

import browser
from support import CAIRN, LiveTest, Run, program

# Of each context: its path, and what it costs in the new version and in the old one.
CONTEXTS = """(() => {
    const {tree, profile} = app.session, paths = [];
    return Array.from({length: tree.count}, (_, i) => {
        paths[i] = i === 0 ? [] : [...paths[tree.parent[i]], profile.names.get(tree.func[i])];
        return [paths[i].join(";"), tree.self[0][i], tree.self[1][i], tree.self[2][i]];
    });
})()"""

COLOUR = """(() => { const {flame} = app.views.flame, {session} = app;
    const frame = flame.frames.find(({node}) => session.name(session.tree.func[node]) === %s);
    return [...flame.context.getImageData(frame.x + frame.width - 4, frame.y + 3, 1, 1).data]; })()"""


@unittest.skipUnless(browser.find(), "not installed: chromium")
class DiffPage(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.browser = cls.enterClassContext(browser.Browser())
        cls.paths = {}
        for name, version in (("old", "1"), ("new", "4"), ("more", "5")):
            cls.paths[name] = case.record([program("regression-" + version), "20"], "--track", "calls")[1].path
        cls.case = case

    def page(self, old, new, *options):
        out = self.file("diff.html")
        run = Run([CAIRN, "diff", old, new, "--html", out, *options])
        self.assertEqual((run.status, run.words), (0, ""))
        self.assertTrue(run.text.startswith("calls "), run.text)
        page = self.browser.open("file://" + out)
        self.addCleanup(page.close)
        return page

    def test_both_versions_are_there(self):
        page = self.page(self.paths["old"], self.paths["new"])
        report = {}
        for side, name in enumerate(("new", "old")):
            run = Run([CAIRN, "report", self.paths[name], "--json", "--no-sites", "--fold-recursion=yes", "--min", "0"])
            paths = {}
            for node in json.loads(run.out)["nodes"]:
                path = paths[node["id"]] = [] if node["parent"] is None else [*paths[node["parent"]], node["function"]]
                report.setdefault(";".join(path), [0, 0])[side] += node["self"][0]
        shown = {path: [new, old] for path, new, old, _ in page.evaluate(CONTEXTS)}
        self.assertEqual({path: values for path, values in shown.items() if any(values)},
                         {path: values for path, values in report.items() if any(values)})
        self.assertTrue(all(both == new + old for _, new, old, both in page.evaluate(CONTEXTS)))
        self.assertEqual(page.evaluate("[...document.querySelectorAll('select[aria-label=metric] option')].map((one) => one.textContent)"),
                         ["calls"])
        self.assertEqual(page.evaluate("[...document.querySelectorAll('select[aria-label=widths] option')].map((one) => one.textContent)"),
                         ["as wide as new", "as wide as old", "as wide as both"])
        self.assertEqual(page.complaints(), [])

    def test_colours_say_what_changed(self):
        page = self.page(self.paths["old"], self.paths["new"])
        red, _, blue, _ = page.evaluate(COLOUR % '"report"')
        self.assertGreater(red, blue + 40)
        red, green, blue, _ = page.evaluate(COLOUR % '"sort_items"')
        self.assertEqual((red, green), (blue, blue))
        page = self.page(self.paths["new"], self.paths["old"])
        red, _, blue, _ = page.evaluate(COLOUR % '"report"')
        self.assertGreater(blue, red + 40)
        page.press("c")
        self.assertEqual(page.evaluate("app.session.state.colour"), "module")
        page.press("c")
        page.press("c")
        page.press("c")
        self.assertEqual((page.evaluate("app.session.state.colour"), page.evaluate("location.hash")), ("change", ""))

    def test_the_page_is_written_or_not(self):
        out = self.file("kept.html", "kept")
        run = Run([CAIRN, "diff", self.paths["old"], self.file("none.out"), "--html", out])
        self.assertEqual(run.status, 2)
        run = Run([CAIRN, "diff", self.paths["old"], self.paths["new"], "--html", self.file("no/such/folder.html")])
        self.assertEqual(run.status, 1)
        self.assertIn("cannot write", run.words)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")


if __name__ == "__main__":
    unittest.main(verbosity=2)
