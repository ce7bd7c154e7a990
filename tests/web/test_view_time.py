# SPDX-License-Identifier: MIT
"""The view of time: lanes of threads and the heat map have what was charged, and a part that is chosen is what
`cairn report --from --to` says of it."""

import collections
import os
import re
import unittest

import browser
import test_view
from support import CAIRN, LiveTest, Run, program

# Of each lane, the cost that is laid out in it.
LAID = """(() => {
    const {pictures} = app.views.time, {threads} = pictures, range = app.views.time.whole;
    return Object.fromEntries(threads.lanes.map(({lane}) => [lane.tid, threads.lays.of(lane, range, 400).cost.reduce((a, b) => a + b, 0)]));
})()"""
CHARGED = """(() => {
    const {timeline} = app.session.profile, {index} = app.session.metric, sums = {};
    for (const {tid, outside, first, end} of timeline.lanes)
        for (let i = first; i < end; i++)
            if (!outside && timeline.metric[i] === index)
                sums[tid] = (sums[tid] ?? 0) + timeline.weight[i];
    return sums;
})()"""
# What colours the columns of a lane have, but for the background.
COLOURS = """(() => {
    const {context} = app.views.time, {data} = context.getImageData(190, 22, 600, 200), found = {};
    for (let i = 0; i < data.length; i += 4)
        found[data.slice(i, i + 3).join()] = true;
    return Object.keys(found).length;
})()"""


@unittest.skipUnless(browser.find(), "not installed: chromium")
class TimeTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.case = case = cls.for_all()
        cls.browser = cls.enterClassContext(browser.Browser())
        cls.profiles = {}
        for name, argv, options in (("walk", ["shares"], ("-F", "2000")), ("threads", ["named_threads", "pool"], ("-F", "2000", "-e", "wall", "-e", "cpu")),
                                    ("short", ["threads", "short"], ()), ("phases", ["api", "phases"], ("-F", "2000")),
                                    ("processes", ["processes", "fork"], ()), ("encode", ["sleeps"], ("-e", "wall", "--track", "encode"))):
            cls.profiles[name] = case.record([program(argv[0]), *argv[1:]], "--timeline", *options)[1]

    def page(self, name, state=""):
        path = self.case.file(name + ".html")
        if not os.path.exists(path):
            run = Run([CAIRN, "view", "--no-debuginfod", "-o", path, self.profiles[name].path])
            self.assertEqual((run.status, run.words), (0, ""))
        page = self.browser.open("file://" + path + state)
        self.addCleanup(page.close)
        return page

    def assert_part(self, page, name, begin, end, *options):
        """The tree of the page is that of the report of this part."""
        metrics = ("--metric", "all") if name == "threads" else ()
        nodes = self.profiles[name].report("--no-debuginfod", "--no-sites", "--fold-recursion=no", "--min", "0", "--from", f"{begin}ns", "--to",
                                           f"{end}ns", *metrics, *options)["nodes"]
        shown = page.evaluate(test_view.NODES)
        # A page shows threads and processes without any cost nowhere; a report may.
        self.assertEqual(test_view.listed(row for row in shown if "<" in row[0]),
                         test_view.by_path(nodes) & test_view.listed(row for row in shown if "<" in row[0]))
        costs = [sum(node["self"][at] for node in nodes) for at in range(len(nodes[0]["self"]))]
        self.assertEqual(page.evaluate("app.session.tree.total.map((column) => column[0])")[:2], costs[:2])

    def test_parts_are_those_of_the_report(self):
        for name in self.profiles:
            with self.subTest(profile=name):
                page = self.page(name)
                end = int(page.evaluate("app.session.profile.timeline.end")) + 1
                whole = page.evaluate("app.session.tree.total[0][0]")
                edges = [0, end // 3, end // 2, end]
                parts = []
                for begin, until in zip(edges, edges[1:]):
                    page.evaluate(f"app.session.change({{from: {begin}, to: {until}}})")
                    parts.append(page.evaluate("app.session.tree.total[0][0]"))
                    if parts[-1]:
                        self.assert_part(page, name, begin, until)
                # What a starved recorder missed has no time; all else adds up to the nanosecond.
                missed = self.profiles[name].info["timeline"]["lost"]
                self.assertEqual(sum(parts) < whole, missed > 0)
                self.assertLessEqual(sum(parts), whole)
                self.assertEqual(page.complaints(), [])

    def test_lanes_have_what_was_charged(self):
        for name in ("walk", "threads", "processes", "phases"):
            with self.subTest(profile=name):
                page = self.page(name, "#view=time")
                laid, charged = page.evaluate(LAID), page.evaluate(CHARGED)
                self.assertEqual(laid.keys(), charged.keys())
                for tid, cost in charged.items():
                    # A charge may reach to before the beginning.
                    self.assertLessEqual(laid[tid], cost * 1.000001)
                    self.assertGreater(laid[tid], 0.9 * cost - 5e6)

    def test_a_drag_chooses_a_part_of_all_views(self):
        page = self.page("threads", "#view=time")
        canvas = page.evaluate("(() => { const {x, y} = app.views.time.canvas.getBoundingClientRect(); return {x, y}; })()")
        whole = page.evaluate("app.session.tree.total[0][0]")
        self.assertGreater(page.evaluate(COLOURS), 2)
        y = canvas["y"] + 80
        page.move(canvas["x"] + 300, y)
        page.mouse("mousePressed", canvas["x"] + 300, y, button="left", clickCount=1)
        page.move(canvas["x"] + 400, y)
        page.move(canvas["x"] + 500, y)
        page.mouse("mouseReleased", canvas["x"] + 500, y, button="left", clickCount=1)
        page.settle()
        state = page.evaluate("app.session.state")
        self.assertLess(0, state["from"])
        self.assertLess(state["from"], state["to"])
        self.assertRegex(page.evaluate("location.hash"), r"time=%d.%d" % (state["from"], state["to"]))
        self.assert_part(page, "threads", state["from"], state["to"])
        for key in "123456":
            page.press(key)
            self.assertRegex(page.evaluate("document.querySelector('.chip.time').textContent"), " – ")
            self.assertLess(page.evaluate("app.session.tree.total[0][0]"), whole)
        # It goes with what else was chosen, and comes back by a link.
        page.evaluate("app.session.change({apart: 'thread'})")
        self.assert_part(page, "threads", state["from"], state["to"], "--per-process", "--per-thread=tid")
        link, part = page.evaluate("location.hash"), page.evaluate("app.session.tree.total[0][0]")
        page.click_on(".chip.time .remove")
        self.assertEqual(page.evaluate("app.session.tree.total[0][0]"), whole)
        other = self.page("threads", link)
        self.assertEqual(other.evaluate("app.session.tree.total[0][0]"), part)
        self.assertEqual(page.complaints() + other.complaints(), [])

    def test_the_heat_map_has_all_threads(self):
        page = self.page("walk", "#view=time&lanes=heat")
        cells = page.evaluate("(() => { const {time} = app.views, {cost} = time.picture.cells(time.place()); return [...cost]; })()")
        self.assertGreater(sum(cells), 0.9 * sum(page.evaluate(CHARGED).values()) - 5e6)
        grid = page.evaluate("(() => { const {time} = app.views, {x, y} = time.canvas.getBoundingClientRect(); "
                             "return {...time.picture.grid(time.place()), x, y}; })()")
        # From the third row of the second column down by two cells.
        at = [(grid["x"] + 64 + grid["wide"] * 1.5, grid["y"] + 22 + grid["high"] * (row + 0.5)) for row in (2, 4)]
        page.move(*at[0])
        page.mouse("mousePressed", *at[0], button="left", clickCount=1)
        page.move(*at[1])
        page.mouse("mouseReleased", *at[1], button="left", clickCount=1)
        page.settle()
        state, begin = page.evaluate("app.session.state"), grid["span"] + 2 * grid["cell"]
        self.assertEqual((state["from"], state["to"]), (round(begin), round(begin + 3 * grid["cell"])))

    def test_the_heat_map_fills_the_page(self):
        page = self.page("walk", "#view=time&lanes=heat")
        for seconds in (4, 12, 40, 166, 900, 4000):
            wide, columns = page.evaluate("(() => { const {time} = app.views, place = {...time.place(), width: 1280, range: {from: 0, to: %d}}, "
                                          "{wide, columns} = time.picture.grid(place); return [wide, columns]; })()" % (seconds * 10 ** 9))
            self.assertGreater(wide * columns, 0.6 * 1280, seconds)
            self.assertGreater(wide, 7, seconds)

    def test_names_of_lanes_keep_their_number(self):
        page = self.page("threads", "#view=time")
        texts = page.evaluate("(() => { const {time} = app.views, {context} = time, texts = [], fill = context.fillText.bind(context); "
                              "context.fillText = (text, ...at) => { texts.push(text); fill(text, ...at); }; "
                              "time.picture.lanes.forEach((one) => one.name = 'a_very_long_name_of_a_thread_' + one.name); "
                              "time.picture.draw(time.place()); delete context.fillText; return texts; })()")
        lanes = page.evaluate("app.views.time.picture.lanes.map(({lane}) => lane.tid)")
        self.assertEqual([text.split("… ")[-1] for text in texts if text.startswith("a_very_long")], [f"[{tid}]" for tid in lanes])

    def test_refined_paths_and_depth_are_shown(self):
        page = self.page("walk", "#view=time&through=%3Dshare_left")
        laid = sum(page.evaluate(LAID).values())
        shown = page.evaluate("app.session.tree.total[0][0]")
        self.assertLessEqual(laid, shown * 1.000001)
        self.assertGreater(laid, 0.9 * shown - 5e6)
        page = self.page("walk", "#view=time&depth=1")
        found = page.evaluate("(() => { const {threads} = app.views.time.pictures, names = new Set(); "
                              "threads.lays.of(threads.lanes[0].lane, app.views.time.whole, 100).func.forEach((f) => f >= 0 && names.add("
                              "app.session.name(f))); return [...names]; })()")
        self.assertIn("share_lower", found)
        self.assertNotIn("burn", found)

    def test_the_legend_names_the_colours(self):
        for name in ("walk", "threads"):
            with self.subTest(profile=name):
                page = self.page(name, "#view=time")
                whole = sum(page.evaluate(CHARGED).values())
                # Two functions may share a short name: static ones of two files.
                own = collections.defaultdict(list)
                for function, cost in page.evaluate("(() => { const {self} = app.session.tree.byFunction(); return [...self[0].keys()].filter((f) => "
                                                    "self[0][f] > 0).map((f) => [app.session.shortName(f), self[0][f]]); })()"):
                    own[function].append(cost)
                legend = page.evaluate("[...document.querySelectorAll('.time-legend .entry')].map((one) => ["
                                       "one.querySelector('.text').textContent, one.querySelector('.share').textContent, "
                                       "getComputedStyle(one.querySelector('.swatch')).backgroundColor])")
                self.assertGreater(len(legend), 2)
                self.assertIn(max(sum(own.values(), [])), own[legend[0][0]])
                for function, share, _ in legend:
                    shown = float(share.split()[0].lstrip("<"))
                    self.assertLessEqual(min(abs(shown - 100 * cost / whole) for cost in own[function]), 0.06, function)
                # The costliest function has its colour in the lanes.
                colour = [int(part) for part in re.findall(r"\d+", legend[0][2])[:3]]
                self.assertTrue(page.evaluate("(() => { const {context} = app.views.time, {data} = context.getImageData(190, 22, 600, 300); "
                                              f"for (let i = 0; i < data.length; i += 4) if (data[i] === {colour[0]} && data[i + 1] === "
                                              f"{colour[1]} && data[i + 2] === {colour[2]}) return true; return false; }})()"))
                page.click_on(".time-legend .entry")
                self.assertEqual(page.evaluate("app.session.shortName(app.selection.func)"), legend[0][0])

    def test_the_legend_is_that_of_the_part(self):
        page = self.page("walk", "#view=time")
        entries = "[...document.querySelectorAll('.time-legend .entry')].map((one) => one.textContent)"
        before = page.evaluate(entries)
        page.evaluate("app.session.change({from: 1, to: 2000000})")
        page.settle()
        self.assertNotEqual(page.evaluate(entries), before)
        page.press("v")
        self.assertRegex(page.evaluate("document.querySelector('.time-legend').textContent"), "^0 cpu.* in .*: the busiest cell$")
        page.press("v")
        page.evaluate("app.session.change({from: 0, to: 0})")
        page.settle()
        self.assertEqual(page.evaluate(entries), before)

    def test_one_thread_has_its_callees_level_by_level(self):
        page = self.page("walk", "#view=time")
        levels = page.evaluate("app.views.time.picture.lane(app.views.time.place()).levels")
        self.assertGreaterEqual(levels, 4)
        found = page.evaluate("""(() => { const {time} = app.views, place = time.place(), {picture} = time, columns = picture.columns(place.width);
            return Array.from({length: picture.lane(place).levels}, (_, level) => [...new Set(picture.lays.of(picture.lanes[0].lane,
                place.range, columns, level).func)].filter((f) => f >= 0).map((f) => app.session.name(f))); })()""")
        self.assertIn("main", found[0])
        self.assertIn("share_lower", found[1])
        self.assertNotIn("main", found[1])
        # Each level has what the level above it calls, and no more time than that.
        sums = page.evaluate("""(() => { const {time} = app.views, place = time.place(), {picture} = time;
            return Array.from({length: picture.lane(place).levels}, (_, level) => picture.lays.of(picture.lanes[0].lane, place.range, 400,
                level).cost.reduce((a, b) => a + b, 0)); })()""")
        for above, below in zip(sums, sums[1:]):
            self.assertLessEqual(below, above * 1.000001)
        self.assertGreater(sums[1], 0.8 * sum(page.evaluate(LAID).values()))
        box = page.evaluate("(() => { const {x, y} = app.views.time.canvas.getBoundingClientRect(), {bar} = app.views.time.picture.lane("
                            "app.views.time.place()); return [x + 190, y + 22 + bar + 9]; })()")
        for step in range(20):
            page.move(box[0] + 20 + 40 * step, box[1])
            if page.evaluate("!document.querySelector('.tooltip').hidden"):
                break
        self.assertIn("main", page.evaluate("document.querySelector('.tooltip').textContent"))
        # Many threads have no room for it.
        self.assertEqual(self.page("short", "#view=time").evaluate("app.views.time.picture.lane(app.views.time.place()).levels"), 0)

    def test_keys(self):
        page = self.page("walk", "#view=time")
        page.press("v")
        self.assertEqual(page.evaluate("app.session.state.lanes"), "heat")
        page.press("v")
        page.press("+")
        seen = page.evaluate("app.views.time.seen")
        self.assertGreater(seen["from"], 0)
        page.press("d")
        self.assertGreater(page.evaluate("app.views.time.seen.from"), seen["from"])
        page.press("Backspace")
        self.assertEqual(page.evaluate("app.views.time.seen"), page.evaluate("app.views.time.whole"))
        page.press("]")
        self.assertEqual(page.evaluate("app.session.state.depth"), 1)

    def test_without_a_timeline_there_is_no_such_view(self):
        profile = self.record([program("shares")])[1]
        path = self.file("plain.html")
        run = Run([CAIRN, "view", "--no-debuginfod", "-o", path, profile.path])
        self.assertEqual((run.status, run.words), (0, ""))
        page = self.browser.open("file://" + path + "#view=time&time=5.10")
        self.addCleanup(page.close)
        self.assertEqual(page.evaluate("app.session.state.view"), "flame")
        self.assertIsNone(page.evaluate("app.session.range"))
        self.assertEqual(page.complaints(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
