# SPDX-License-Identifier: MIT
"""Two versions in the viewer: what `cairn diff` says of them, in red and blue."""

import json
import os
import unittest

import browser
from support import CAIRN, LiveTest, Run

SOURCE = """
#include <stdlib.h>
static void *volatile sink;
#define NOINLINE __attribute__((noinline, noipa))
static NOINLINE void take(int n) { while (n--) free(sink = malloc(100)); }
NOINLINE void same(void) { take(500); }
NOINLINE void grown(void) { take(GROWN); }
NOINLINE void shrunk(void) { take(SHRUNK); }
NOINLINE void only(void) { take(50); }
int main(void) { same(); grown(); shrunk(); EXTRA; return 0; }
"""


@unittest.skipUnless(browser.find(), "not installed: chromium")
class BaseTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.paths = {}
        for name, flags in (("old", ("-DGROWN=300", "-DSHRUNK=200", "-DEXTRA=")), ("new", ("-DGROWN=600", "-DSHRUNK=40", "-DEXTRA=only()"))):
            os.mkdir(case.file(name))
            binary, source = case.file(name + "/program"), case.file(name + ".c", SOURCE)
            run = Run(["gcc", "-g", "-O1", "-w", *flags, "-o", binary, source])
            case.assertEqual(run.status, 0, run.words)
            cls.paths[name] = case.record([binary], "-e", "alloc")[1].path
        run = Run([CAIRN, "diff", "--json", "--metric", "allocs", cls.paths["old"], cls.paths["new"]])
        case.assertEqual(run.status, 0, run.words)
        cls.diff = json.loads(run.text)
        cls.page_path = case.file("diff.html")
        run = Run([CAIRN, "view", "--no-debuginfod", "-o", cls.page_path, "--base", cls.paths["old"], cls.paths["new"]])
        case.assertEqual((run.status, run.words), (0, ""))
        cls.browser = cls.enterClassContext(browser.Browser())

    def page(self, hash_text=""):
        page = self.browser.open("file://" + self.page_path + hash_text)
        self.addCleanup(page.close)
        return page

    def values(self, page, name):
        """(old, new) of a function in allocations."""
        return tuple(page.evaluate("(() => { const {session} = app, sums = session.tree.byFunction(), {index, before} = session.metric, "
                                   f"func = session.names.find({json.dumps(name)}); return [sums.total[before][func], sums.total[index][func]]; }})()"))

    def test_both_sides_are_those_of_the_diff(self):
        page = self.page("#metric=allocs")
        self.assertEqual(page.evaluate("[app.session.tree.total[app.session.metric.before][0], app.session.tree.total[app.session.metric.index][0]]"),
                         [self.diff["old_total"], self.diff["new_total"]])
        for name, expected in (("same", (500, 500)), ("grown", (300, 600)), ("shrunk", (200, 40)), ("only", (0, 50))):
            self.assertEqual(self.values(page, name), expected)
        self.assertEqual(page.complaints(), [])

    def test_changes_are_those_of_the_diff(self):
        page = self.page("#view=changes")
        metric = page.evaluate("app.session.metrics[0].name")
        run = Run([CAIRN, "diff", "--json", "--metric", metric, self.paths["old"], self.paths["new"]])
        expected = [[row["function"], row["old"], row["new"], row["significant"]] for row in json.loads(run.text)["rows"]]
        shown = page.evaluate("app.views.changes.rows.map((row) => [app.session.name(app.session.recorded.func[row.node]), "
                              "Math.round(row.old), Math.round(row.new), row.significant])")
        self.assertEqual(shown, expected)
        self.assertIn("grown", page.evaluate("document.querySelector('.view:not([hidden])').textContent"))
        text = Run([CAIRN, "diff", "--metric", metric, "--width", "0", self.paths["old"], self.paths["new"]], env={**os.environ, "LC_ALL": "C.UTF-8"}).text
        self.assertEqual(page.evaluate("document.querySelector('.view:not([hidden]) .sentence').textContent").split(), text.split("\n\n")[0].split())
        self.assertEqual(page.complaints(), [])

    def colour(self, page, name):
        return page.evaluate("""(() => { const {flame} = app.views.flame, found = flame.frames.find(({node}) =>
            app.session.name(app.session.tree.func[node]) === %s);
            return [...flame.context.getImageData(found.x + found.width - 3, found.y + 3, 1, 1).data]; })()""" % json.dumps(name))

    def width(self, page, name):
        return page.evaluate("app.views.flame.flame.frames.find(({node}) => app.session.name(app.session.tree.func[node]) === %s)?.width ?? 0"
                             % json.dumps(name))

    def test_costlier_is_red_and_cheaper_is_blue(self):
        page = self.page("#metric=allocs&side=both")
        red, _, blue, _ = self.colour(page, "grown")
        self.assertGreater(red, blue + 50)
        red, _, blue, _ = self.colour(page, "shrunk")
        self.assertGreater(blue, red + 50)
        red, _, blue, _ = self.colour(page, "same")
        self.assertLess(abs(red - blue), 20)

    def test_the_legend_has_the_colours(self):
        page = self.page("#metric=allocs")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.flame-view .legend .entry')].map((one) => one.textContent)"),
                         ["costs more", "costs less", "as before, or noise"])
        swatches = page.evaluate("[...document.querySelectorAll('.flame-view .legend .swatch')].map((one) => "
                                 "getComputedStyle(one).backgroundColor.match(/\\d+/g).map(Number))")
        self.assertGreater(swatches[0][0], swatches[0][2] + 50)
        self.assertGreater(swatches[1][2], swatches[1][0] + 50)
        self.assertEqual(swatches[2][0], swatches[2][2])

    def test_noise_has_no_colour_in_tables(self):
        page = self.page("#metric=allocs")
        tone = ("(() => { const {metric} = app.session, numbers = {self: (m) => m === metric.before ? 5 : m === metric.named ? %d : 9, "
                "total: (m) => m === metric.before ? 50 : m === metric.named ? %d : 90, returns: 0, counted: true}; "
                "return ['change', 'change#', 'own'].map((key) => cellsOf(app.session, [{key}], numbers, {text: ''})[0].tone ?? 'none'); })()")
        for named, tones in (((0, 0), ["none"] * 3), ((0, 1), ["costlier", "costlier", "none"]), ((1, 1), ["costlier"] * 3)):
            self.assertEqual(page.evaluate(tone % named), tones)

    def test_widths_are_of_either_side(self):
        page = self.page("#metric=allocs")
        whole = page.evaluate("app.views.flame.flame.width")
        old, new = self.diff["old_total"], self.diff["new_total"]
        for side, share, only in (("new", 600 / new, 50 / new), ("old", 300 / old, 0), ("both", 900 / (old + new), 50 / (old + new))):
            page.evaluate(f"location.hash = 'metric=allocs&side={side}'")
            page.wait(f"app.session.state.side === '{side}'")
            page.settle()
            self.assertAlmostEqual(self.width(page, "grown"), share * whole, delta=1)
            self.assertAlmostEqual(self.width(page, "only"), only * whole, delta=1)

    def test_misuse(self):
        for arguments, words in ((("--base", "no-such-file"), "no-such-file"), (("--base", self.paths["old"], "--kernel", "no"), "leave out --kernel")):
            run = Run([CAIRN, "view", "-o", self.file("x.html"), *arguments, self.paths["new"]])
            self.assertEqual((run.status, run.out), (2, b""))
            self.assertIn(words, run.words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
