# SPDX-License-Identifier: MIT
"""The page has room for what it shows: names are whole, panels take room when they say something, and a narrow window or
a dark one can be read as well."""

import unittest

import browser
from support import CAIRN, LiveTest, Run

DEEP = 88
CUT = """[...document.querySelectorAll('main .view:not([hidden]) .row:not([hidden]) .text')]
    .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"""
SHOWN = "document.querySelectorAll('main .view:not([hidden]) .row:not([hidden]) .text').length"
# What elements of a selector say, and how far their colours are from those behind them, as WCAG has it.
CONTRASTS = """((selector) => {
    const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255)
        .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (one) => {
        const {backgroundColor} = getComputedStyle(one);
        return /, 0\\)$/.test(backgroundColor) && one.parentElement ? behind(one.parentElement) : backgroundColor;
    };
    return [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility() && one.textContent.trim()).map((one) => {
        const a = light(getComputedStyle(one).color), b = light(behind(one));
        return [one.textContent, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
    });
})(%r)"""


def name_of(level):
    return f"level_{level}_of_a_deep_recursion"


@unittest.skipUnless(browser.find(), "not installed: chromium")
class LayoutTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.browser = cls.enterClassContext(browser.Browser())
        stacks = [";".join(map(name_of, range(depth))) for depth in range(1, DEEP + 1)]
        folded = case.file("deep.folded", "".join(f"{stack} {400 if stack is stacks[-1] else 3}\n" for stack in stacks))
        profile, cls.path = case.file("deep.cairn"), case.file("deep.html")
        for argv in (("import", "-f", "folded", "-o", profile, folded), ("view", "--no-debuginfod", "-o", cls.path, profile)):
            run = Run([CAIRN, *argv])
            case.assertEqual(run.status, 0, run.words)

    def page(self, state="", **how):
        page = self.browser.open("file://" + self.path + state, **how)
        self.addCleanup(page.close)
        return page

    def test_names_are_whole(self):
        for scheme in ("light", "dark"):
            for view in ("tree", "callers", "functions", "paths", "sandwich"):
                with self.subTest(scheme=scheme, view=view):
                    page = self.page("#view=" + view, scheme=scheme)
                    self.assertGreater(page.evaluate(SHOWN), 2)
                    self.assertEqual(page.evaluate(CUT), [])

    def test_names_of_deep_rows_are_whole(self):
        page = self.page("#view=tree")
        rows = "app.views.tree.rows.length"
        while page.evaluate(rows) <= DEEP:
            before = page.evaluate(rows)
            page.evaluate("app.views.tree.toggle(app.views.tree.rows.length - 1)")
            self.assertGreater(page.evaluate(rows), before)
        for details in (False, True):
            page.evaluate("app.views.tree.table.select(%s)" % (DEEP if details else -1))
            page.evaluate("app.views.tree.table.reveal(app.views.tree.rows.length - 1)")
            page.settle()
            self.assertIn(name_of(DEEP - 1), page.evaluate("document.querySelector('main').textContent"))
            self.assertEqual(page.evaluate(CUT), [])

    def test_details_take_room_when_something_is_chosen(self):
        page = self.page("#view=paths")
        visible = "document.querySelector('.details').checkVisibility()"
        self.assertFalse(page.evaluate(visible))
        self.assertEqual(page.evaluate("document.querySelector('main').clientWidth"), 1280)
        self.assertTrue(page.evaluate("document.querySelector('.tip').checkVisibility()"))
        page.evaluate("app.views.paths.table.select(0)")
        page.settle()
        self.assertTrue(page.evaluate(visible))
        self.assertFalse(page.evaluate("document.querySelector('.tip').checkVisibility()"))
        self.assertEqual(page.evaluate("document.querySelector('.details h2').textContent"), name_of(DEEP - 1))
        page.press("Escape")
        self.assertFalse(page.evaluate(visible))
        # The key decides, whatever is chosen.
        page.press("p")
        self.assertTrue(page.evaluate(visible))
        page.press("p")
        page.evaluate("app.views.paths.table.select(0)")
        page.settle()
        self.assertFalse(page.evaluate(visible))

    def test_a_narrow_window_has_all_views(self):
        for width in (1024, 720):
            page = self.page(width=width, height=600)
            for number, view in enumerate(page.evaluate("app.shown"), 1):
                with self.subTest(width=width, view=view):
                    page.press(str(number))
                    box = page.evaluate("(() => { const {x, width, height} = app.view.host.getBoundingClientRect(); return {x, width, height}; })()")
                    self.assertGreaterEqual(box["x"], 0)
                    self.assertLessEqual(box["x"] + box["width"], width)
                    self.assertGreater(box["height"], 400)
                    for control in (".tabs button", ".search input", "select", ".top .icon"):
                        self.assertEqual(page.evaluate(
                            f"[...document.querySelectorAll('{control}')].filter((one) => one.checkVisibility()).filter((one) => "
                            "{ const {left, right} = one.getBoundingClientRect(); return left < 0 || right > innerWidth; })"
                            ".map((one) => one.title)"), [])
            self.assertEqual(page.complaints(), [])

    def test_text_stands_out_from_what_is_behind_it(self):
        for scheme in ("light", "dark"):
            page = self.page("#view=tree", scheme=scheme)
            page.evaluate("app.views.tree.table.select(1)")
            page.settle()
            self.assertEqual(page.evaluate("getComputedStyle(document.body).colorScheme"), scheme)
            found = page.evaluate(CONTRASTS % ".tabs button, .row .text, .row .cell, .details h2, .details .fact, .table-head button, footer span")
            self.assertGreater(len(found), 40)
            self.assertEqual([(text, contrast) for text, contrast in found if contrast < 4.5], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
