# SPDX-License-Identifier: MIT
"""The viewer shows what `cairn report --json` says, and does what is clicked and typed."""

import json
import os
import unittest
from collections import Counter

import browser
from support import CAIRN, LiveTest, Run, program

# Every node of a tree that the page shows: names from the root, and its values, those of errors left out.
NODES = """(() => {
    const {session} = app, {tree, profile} = session, paths = [], kinds = profile.meta.metrics.map(({kind}) => kind);
    const told = (columns, i) => columns.map((column) => column[i]).filter((_, m) => kinds[m] !== "error");
    return Array.from({length: tree.count}, (_, i) => {
        const name = profile.names.get(tree.func[i]) + "@" + profile.moduleName(tree.func[i]);
        paths[i] = i === 0 ? [] : [...paths[tree.parent[i]], name];
        return [paths[i].join(" < "), told(tree.self, i).join(" "), told(tree.total, i).join(" ")];
    });
})()"""

FUNCTIONS = """(() => {
    const {session} = app, {tree, profile} = session, sums = tree.byFunction(), kinds = profile.meta.metrics.map(({kind}) => kind);
    const told = (columns, f) => columns.map((column) => column[f]).filter((_, m) => kinds[m] !== "error");
    return app.views.functions.rows.map((f) => [profile.names.get(f) + "@" + profile.moduleName(f), told(sums.self, f).join(" "),
        told(sums.total, f).join(" ")]);
})()"""

# Functions and two levels of callers.
CALLERS = """(() => {
    const {session} = app, {profile} = session, found = [], metric = session.metric.index;
    const visit = (caller, path) => {
        path = path + " < " + profile.names.get(caller.func);
        if (caller.depth > 0 && caller.total[metric] === 0 && caller.self[metric] === 0)
            return;
        found.push([path, caller.self[metric], caller.total[metric]]);
        if (caller.depth < 2)
            caller.callers().forEach((one) => visit(one, path));
    };
    app.views.callers.roots.forEach((root) => visit(root, ""));
    return found;
})()"""


def by_path(nodes):
    """Of the nodes of a report: the same as NODES."""
    paths, found = {}, []
    for node in nodes:
        name = f"{node['function']}@{node['module'] or ''}"
        paths[node["id"]] = [] if node["parent"] is None else [*paths[node["parent"]], name]
        found.append((" < ".join(paths[node["id"]]), " ".join(map(str, node["self"])), " ".join(map(str, node["total"]))))
    return Counter(found)


def listed(rows):
    return Counter(tuple(row) for row in rows)


@unittest.skipUnless(browser.find(), "not installed: chromium")
class ViewTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        cls.browser = cls.enterClassContext(browser.Browser())
        cls.profiles, cls.case = {}, case
        for name, argv, options in (("walk", ["shares"], ("-F", "2000")), ("calls", ["shares"], ("--track", "calls")),
                                    ("alloc", ["allocs", "paths"], ("-e", "alloc")), ("hot", ["shares"], ("-F", "2000", "--tree", "hot:1e-2")),
                                    ("threads", ["named_threads", "pool"], ("-F", "2000", "-e", "wall", "-e", "cpu")),
                                    ("phases", ["api", "phases"], ("-F", "2000")), ("locks", ["locks", "blame"], ("-e", "lock"))):
            cls.profiles[name] = case.record([program(argv[0]), *argv[1:]], *options)[1]
        cls.profiles["processes"] = case.record(
            ["sh", "-c", f"{program('named_threads')} pool & {program('shares')} >{case.file('told')}; wait"], "-F", "2000")[1]

    def page(self, name, hash_text="", **how):
        path = self.case.file(name + ".html")
        if not os.path.exists(path):
            run = Run([CAIRN, "view", "--no-debuginfod", "-o", path, self.profiles[name].path])
            self.assertEqual((run.status, run.words), (0, ""))
        page = self.browser.open("file://" + path + hash_text, **how)
        self.addCleanup(page.close)
        return page

    def report(self, name, *options):
        return self.profiles[name].report("--no-debuginfod", "--no-sites", "--fold-recursion=no", "--min", "0", *options)["nodes"]

    def test_trees_are_those_of_the_report(self):
        for name in self.profiles:
            with self.subTest(profile=name):
                metrics = ("--metric", "all") if name == "threads" else ()
                page = self.page(name)
                self.assertEqual(listed(page.evaluate(NODES)), by_path(self.report(name, *metrics)))
                page.press("4")
                report = [(f"{row['function']}@{row['module'] or ''}", " ".join(map(str, row["self"])), " ".join(map(str, row["total"])))
                          for row in self.report(name, *metrics, "--by", "function")]
                self.assertEqual(listed(page.evaluate(FUNCTIONS)), Counter(report))
                self.assertEqual(page.complaints(), [])
                self.assertEqual(len(page.requests()), 1)

    def test_callers_are_those_of_the_report(self):
        for name in ("walk", "calls"):
            page = self.page(name, "#view=callers")
            paths, report = {}, []
            for node in self.report(name, "--view", "callers", "--depth", "3"):
                path = paths[node["id"]] = "" if node["parent"] is None else f"{paths[node['parent']]} < {node['function']}"
                if path:
                    report.append((path, node["self"][0], node["total"][0]))
            # A report leaves out what has no cost in its metric.
            found = [row for row in map(tuple, page.evaluate(CALLERS)) if row[1] or row[2]]
            self.assertEqual(Counter(found), Counter(row for row in report if row[1] or row[2]))

    def test_ratios_are_those_of_the_report(self):
        shown = """(() => {
            const {session} = app, tree = session.tree;
            return Array.from({length: tree.count}, (_, i) => session.profile.meta.ratios.map(({name}) =>
                sortValue(session, "ratio:" + name, nodeNumbers(tree, i))));
        })()"""
        for name, keys, label, text in (("alloc", ["alloc-size", "age"], "alloc-size", r" (k|M|)B$"),
                                        ("threads", ["waiting-share"], "waiting-share", r" %$")):
            page = self.page(name, "#view=tree")
            report = self.profiles[name].report("--no-debuginfod", "--no-sites", "--fold-recursion=no", "--min", "0", "--metric", "all")
            self.assertEqual(page.evaluate("app.session.profile.meta.ratios.map(({name}) => name)"), keys)
            rows = page.evaluate(shown)
            for at, key in enumerate(keys):
                scale = 100 if key == "waiting-share" else 1
                expected = sorted(round((node["ratios"][at] or 0) / scale, 6) for node in report["nodes"])
                for one, other in zip(sorted(row[at] for row in rows), expected, strict=True):
                    self.assertAlmostEqual(one, other, delta=1e-5 * max(1, other))
            heads = page.evaluate("[...document.querySelectorAll('.view:not([hidden]) .table-head button')].map((one) => one.textContent)")
            self.assertIn(label, heads)
            cell = page.evaluate(f"document.querySelector('.view:not([hidden]) .row').children[{heads.index(label)}].textContent")
            self.assertRegex(cell, text)
            page.press("p")
            page.evaluate("app.selection.node(app.session.tree, 1)")
            self.assertIn(label, page.evaluate("document.querySelector('.details').textContent"))
            self.assertEqual(page.complaints(), [])

    def locks(self, page):
        """(waiter, holder): (time, waits), as the page shows them; functions between these are left out."""
        rows = page.evaluate("""app.views.locks.rows.map(({node, ns, waits, level}) => {
            const {session} = app, {tree} = session, path = [];
            for (let at = node; at > 0; at = tree.parent[at])
                path.push(session.name(tree.func[at]));
            return {path, ns, waits, level};
        })""")
        found, waiter = {}, None
        for row in rows:
            name = next(name for name in row["path"] if name in ("wait_for_long", "wait_for_short", "hold_long", "hold_short"))
            if row["level"] == 0:
                waiter, found[name] = name, [row["ns"], row["waits"]]
            else:
                found[waiter, name] = [row["ns"], row["waits"]]
        return found

    def test_locks_have_their_waiters_and_holders(self):
        blame = self.profiles["locks"].report("--no-debuginfod", "--view", "blame", "--min", "0")
        whole = next(node for node in blame["nodes"] if node["parent"] is None)["total"]
        page = self.page("locks", "#view=locks")
        found = self.locks(page)
        pairs = {key: value for key, value in found.items() if isinstance(key, tuple)}
        self.assertEqual(set(pairs), {("wait_for_long", "hold_long"), ("wait_for_short", "hold_short")})
        self.assertEqual([sum(values) for values in zip(*pairs.values())], whole[:2])
        for (waiter, _), values in pairs.items():
            self.assertEqual(found[waiter], values)
        text = page.evaluate("document.querySelector('.view:not([hidden])').textContent")
        self.assertRegex(text, r"held by hold_for‹ hold_")
        self.assertRegex(text, r"in %d waits for locks" % whole[1])
        # A path that is left out takes its waits along, and a row opens and closes.
        page.evaluate("app.session.addStep({kind: 'without', func: -1, pattern: 'wait_for_short'})")
        self.assertEqual(set(self.locks(page)), {"wait_for_long", ("wait_for_long", "hold_long")})
        page.evaluate("app.views.locks.table.select(1)")
        self.assertIn("hold_for", page.evaluate("document.querySelector('.details h2').textContent"))
        self.assertEqual(page.evaluate("(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)(document.querySelector('.details'))"), 0)
        page.evaluate("app.views.locks.toggle(0)")
        self.assertEqual(set(self.locks(page)), {"wait_for_long"})
        self.assertEqual(page.complaints(), [])

    def test_a_profile_without_locks_has_no_view_of_them(self):
        page = self.page("walk", "#view=locks")
        self.assertEqual(page.evaluate("app.session.state.view"), "flame")
        self.assertNotIn("Locks", page.evaluate("document.querySelector('.tabs').innerText"))

    def test_small_contexts_are_summed_up(self):
        path = self.file("few.html")
        run = Run([CAIRN, "view", "--no-debuginfod", "--contexts", "12", "--json", "-o", path, self.profiles["walk"].path])
        self.assertEqual((run.status, run.words), (0, ""))
        said = json.loads(run.out)
        page = self.browser.open("file://" + path)
        self.addCleanup(page.close)
        few, all_of_it = page.evaluate(NODES), {}
        for names, own, total in by_path(self.report("walk")):
            all_of_it[names] = own, total
        self.assertLess(len(few), 25)
        self.assertLess(len(few), len(all_of_it))
        self.assertEqual(said["output"], path)
        self.assertLess(said["contexts"], 25)
        self.assertGreater(said["left_out"], 0)
        small = [row for row in few if "<small contexts>" in row[0]]
        self.assertGreater(len(small), 0)
        for names, own, total in few:
            if "<small contexts>" not in names:
                self.assertEqual((own, total), all_of_it[names])
        self.assertRegex(page.evaluate("document.querySelector('footer').textContent"), r"the \d+ smallest contexts are summed up")

    def refined(self, page, name, *options):
        self.assertEqual(listed(page.evaluate(NODES)), by_path(self.report(name, *options)))

    def test_paths_are_refined(self):
        page = self.page("walk")
        for kind, key in (("through", "t"), ("below", "b"), ("without", "x")):
            self.select(page, "share_left")
            page.press(key)
            option = {"below": "focus"}.get(kind, kind)
            self.refined(page, "walk", "--" + option, "^share_left$")
            self.assertEqual(page.evaluate("[...document.querySelectorAll('.chip')].map((one) => one.textContent)"), [f"{kind}share_left✕"])
            page.click_on(".chip .remove")
            self.refined(page, "walk")
        self.select(page, "share_upper")
        page.press("t")
        self.select(page, "share_left")
        page.press("x")
        self.refined(page, "walk", "--through", "^share_upper$", "--without", "^share_left$")
        page.press("u")
        page.wait("app.session.state.steps.length === 1")
        self.refined(page, "walk", "--through", "^share_upper$")
        page.evaluate("history.back()")
        page.wait("app.session.state.steps.length === 0")
        self.refined(page, "walk")
        page.press("f")
        self.assertEqual(listed(page.evaluate(NODES)), by_path(self.profiles["walk"].report(
            "--no-debuginfod", "--no-sites", "--fold-recursion=yes", "--min", "0")["nodes"]))

    def select(self, page, name):
        page.evaluate(f"app.selection.function(app.session.names.find({json.dumps(name)}))")

    def frame(self, page, name):
        """Where the first frame of a function is drawn, in the page."""
        return page.evaluate("""(() => { const {flame} = app.views.flame, box = flame.canvas.getBoundingClientRect();
            const frame = flame.frames.find(({node}) => app.session.name(app.session.tree.func[node]) === %s);
            return frame && {x: box.x + frame.x + frame.width / 2, y: box.y + frame.y + frame.height / 2, width: frame.width}; })()""" % json.dumps(name))

    def test_a_click_zooms_and_back_undoes_it(self):
        page = self.page("walk")
        before, whole = self.frame(page, "share_right"), self.frame(page, "main")["width"]
        share = page.evaluate("app.session.tree.byFunction().total[0][app.session.names.find('main')] / app.session.tree.total[0][0]")
        self.assertAlmostEqual(whole, share * page.evaluate("app.views.flame.flame.width"), delta=0.5)
        page.click(before["x"], before["y"])
        self.assertAlmostEqual(self.frame(page, "share_right")["width"], page.evaluate("app.views.flame.flame.width"), places=6)
        self.assertEqual(page.evaluate("document.querySelector('.crumb.last').textContent"), "share_right")
        self.assertEqual(page.evaluate("document.querySelector('.details h2').textContent"), "share_right")
        address = page.evaluate("location.hash")
        page.evaluate("history.back()")
        page.wait("app.session.state.zoom.length === 0")
        page.press("Escape")  # the details take room of the page
        self.assertEqual(self.frame(page, "share_right"), before)
        page.press("i")
        self.assertGreater(self.frame(page, "_start")["y"], self.frame(page, "main")["y"])
        linked = self.page("walk", address)
        self.assertAlmostEqual(self.frame(linked, "share_right")["width"], linked.evaluate("app.views.flame.flame.width"), places=6)

    def colour_at(self, page, name):
        """The colour that was drawn at a frame of a function."""
        return page.evaluate("""(() => { const {flame} = app.views.flame;
            const frame = flame.frames.find(({node}) => app.session.name(app.session.tree.func[node]) === %s);
            return [...flame.context.getImageData(frame.x + frame.width - 4, frame.y + 3, 1, 1).data]; })()""" % json.dumps(name))

    def test_search_marks_what_matches(self):
        page = self.page("walk")
        before = self.colour_at(page, "share_left")
        page.press("/")
        page.type("share_(left|right)$")
        page.press("Enter")
        matches = page.evaluate("document.querySelector('.found .share').textContent")
        inside = sum(int(values[1].split()[0]) for values in self.paths_with(page, ("share_left@shares", "share_right@shares")))
        whole = page.evaluate("app.session.tree.total[0][0]")
        self.assertEqual(matches, page.evaluate(f"app.views && (100 * {inside} / {whole}).toFixed({inside} / {whole} < 0.9995 ? 1 : 0) + ' %'"))
        self.assertNotEqual(self.colour_at(page, "share_left"), before)
        self.assertEqual(self.colour_at(page, "share_left"), [0xc0, 0x26, 0xd3, 255])
        page.click_on(".found button", "keep")
        self.refined(page, "walk", "--through", "share_(left|right)$")
        page.press("Escape")
        page.press("/")
        page.type("(")
        page.press("Enter")
        self.assertTrue(page.evaluate("document.querySelector('.search input').classList.contains('wrong')"))

    def test_the_legend_says_what_colours_mean(self):
        entries = "[...document.querySelectorAll('.flame-view .legend .entry')].map((one) => [one.children[1].textContent, one.children[2].textContent])"
        page = self.page("walk")
        report, whole = Counter(), page.evaluate("app.session.tree.total[0][0]")
        for row in self.report("walk", "--by", "function"):
            report[os.path.basename(row["module"] or "")] += row["self"][0]
        told = page.evaluate(entries)
        self.assertEqual(told[0][0], "shares")
        for module, share in told:
            self.assertEqual(share, page.evaluate(f"percent({report[module]}, {whole})"))
        # The colour is that of the module's frames, up to the shade of the function.
        colours = page.evaluate("(() => { const hue = (text) => Number(/hsl[(]([-\\d.]+)/.exec(text)[1]), {picture} = app.views.flame.flame, "
                                "func = app.session.names.find('burn'); return [hue(picture.colours.module(func)), hue(picture.colours.swatch(func))]; })()")
        self.assertLess(abs(colours[0] - colours[1]), 10)
        page.press("c")
        self.assertEqual(page.evaluate(entries), [])
        page.press("c")
        self.assertIn("10.0 % of all", page.evaluate("document.querySelector('.flame-view .legend').textContent"))

    def test_views_of_a_function_follow_what_is_selected(self):
        page = self.page("walk")
        for key, view, title in (("5", "sandwich", "sandwich"), ("7", "source", "source")):
            for name in ("share_left", "share_right"):
                page.press("1")
                self.select(page, name)
                page.press(key)
                self.assertEqual(page.evaluate("app.session.state.view"), view)
                self.assertEqual(page.evaluate(f"app.views.{title}.title.querySelector('strong').textContent"), name)

    def test_metrics_are_explained(self):
        _, profile = self.case.record([program("named_threads"), "pool"], *"-e cpu -e wall -e alloc -e io -e lock".split())
        path = self.file("all.html")
        self.assertEqual(Run([CAIRN, "view", "--no-debuginfod", "-o", path, profile.path]).status, 0)
        page = self.browser.open("file://" + path)
        self.addCleanup(page.close)
        self.assertEqual(page.evaluate("app.session.metrics.map(({name}) => name).filter((name) => !meaningOf(name))"), [])
        page.evaluate("app.session.change({metric: app.session.metrics.find(({name}) => name === 'blame').index})")
        self.assertIn("waited for a lock", page.evaluate("document.querySelector('select').title"))
        page.evaluate("app.selection.node(app.session.tree, 0)")
        # The one that is looked at stands first.
        self.assertEqual(page.evaluate("document.querySelector('.details tbody th').textContent"), "blame")

    def paths_with(self, page, names):
        """Nodes on whose path one of these names is: their own cost counts."""
        return [row for row in page.evaluate(NODES) if set(row[0].split(" < ")) & set(names)]

    def test_metrics_and_views_are_chosen(self):
        page = self.page("threads")
        names = page.evaluate("app.session.metrics.map(({name}) => name)")
        self.assertEqual(sorted(names), ["cpu", "waiting", "wall"])
        for expected in (*names[1:], names[0]):
            page.press("m")
            self.assertEqual(page.evaluate("app.session.metric.name"), expected)
            self.assertEqual(page.evaluate("document.querySelector('select').selectedOptions[0].textContent"), expected)
        tabs = "[...document.querySelectorAll('.tabs button')].filter((one) => !one.hidden).map((one) => one.textContent)"
        for number, view in enumerate(page.evaluate(tabs), 1):
            page.press(str(number))
            self.assertEqual(page.evaluate("document.querySelector('.tabs [aria-selected=true]').textContent"), view)
            self.assertEqual(page.evaluate("[...document.querySelectorAll('main > .view')].filter((one) => one.checkVisibility()).length"), 1)
        self.assertEqual(page.complaints(), [])

    def test_tables_open_and_sort(self):
        page = self.page("calls", "#view=tree")
        rows = "[...document.querySelectorAll('.view:not([hidden]) .row:not([hidden]) .text')].map((one) => one.textContent)"
        before = page.evaluate(rows)
        page.evaluate("app.views.tree.table.select(0)")
        page.evaluate("app.views.tree.host.focus()")
        page.press("ArrowLeft")
        self.assertEqual(page.evaluate(rows), before[:1])
        page.press("ArrowRight")
        self.assertEqual(page.evaluate(rows), before)
        page.press("4")
        calls_by_row = "app.views.functions.rows.map((f) => app.session.tree.byFunction().self[app.session.callsMetric][f])"
        page.click_on(".view:not([hidden]) .table-head button", "function")
        names = page.evaluate("app.views.functions.rows.map((f) => app.session.name(f))")
        self.assertEqual(names, sorted(names))
        page.click_on(".view:not([hidden]) .table-head button", "self")
        calls = page.evaluate(calls_by_row)
        self.assertEqual(calls, sorted(calls, reverse=True))
        self.assertGreater(calls[0], 1)

    def test_threads_and_processes_are_filters(self):
        page = self.page("processes")
        own = page.evaluate("app.session.owners.filter(({kind}) => kind === 1).map(({node, name}) => [node, name])")
        # A program that replaces another has the same number.
        numbers = {node: name[name.rindex("[") + 1:-1] for node, name in own}
        for pid in set(numbers.values()):
            others = ".".join(str(node) for node, number in numbers.items() if number != pid)
            page.evaluate(f"location.hash = 'hidden={others}'")
            page.wait(f"app.session.state.hidden.join('.') === '{others}'")
            self.refined(page, "processes", "--process", pid)
        page.evaluate("location.hash = 'apart=thread'")
        page.wait("app.session.state.apart === 'thread'")
        self.refined(page, "processes", "--per-process", "--per-thread=tid")
        page.evaluate("location.hash = ''")
        page.click_on(".filter-button")
        whole = page.evaluate("app.session.tree.total[0][0]")
        page.click_on(".filters input")
        self.assertLess(page.evaluate("app.session.tree.total[0][0]"), whole)
        page.click_on(".filters button", "show all")
        self.assertEqual(page.evaluate("app.session.tree.total[0][0]"), whole)

    def test_phases_are_filters(self):
        page = self.page("phases")
        phases = page.evaluate("app.session.owners.filter(({kind}) => kind === 3).map(({node, name}) => [node, name])")
        names = {name for _, name in phases}
        self.assertLessEqual({"startup", "request", "query"}, names)
        for chosen in names:
            others = ".".join(str(node) for node, name in phases if name != chosen)
            page.evaluate(f"location.hash = 'phaseless=no&hidden={others}'")
            page.wait(f"app.session.state.hidden.join('.') === '{others}'")
            self.refined(page, "phases", "--phase", f"^{chosen}$")
        page.evaluate("location.hash = ''")
        page.wait("app.session.state.withoutPhase")
        self.refined(page, "phases")
        page.click_on(".filter-button")
        page.evaluate("[...document.querySelectorAll('.filter')].find((one) => one.textContent.startsWith('request')).lastChild.click()")
        self.refined(page, "phases", "--phase", "^request$")

    def test_bounds_and_few_samples_are_told(self):
        page = self.page("hot")
        frame = self.frame(page, "share_leaf")
        page.move(frame["x"], frame["y"])
        tooltip = page.evaluate("document.querySelector('.tooltip').textContent")
        self.assertIn("share_leaf", tooltip)
        self.assertRegex(tooltip, r"≈ [\d,]+ sample")
        bound = page.evaluate("(() => { const {metric, tree} = app.session; return tree.total[metric.error][0]; })()")
        if bound > 0:
            self.assertIn("±", page.evaluate("(() => { app.selection.node(app.session.tree, 0); return document.querySelector('.details').textContent; })()"))
        for count, told in ((1, "≈ 1 sample, ±89 % by chance"), (50, "≈ 50 samples, ±27 % by chance"), (100, "≈ 100 samples")):
            self.assertEqual(page.evaluate(f"samplesText(app.session, {count} * app.session.metric.sampleWeight)"), told)

    def test_lines_are_those_of_the_report(self):
        page = self.page("walk")
        report = {}
        for row in self.report("walk", "--by", "line"):
            if row["function"] == "burn" and row["file"] and row["self"][0]:
                report[f"{os.path.basename(row['file'])}:{row['line']}"] = row["self"][0]
        self.select(page, "burn")
        shown = page.evaluate("app.details.linesOf(app.selection.chosen).map(({text, cost}) => [text, cost])")
        self.assertEqual(dict(shown), report)
        self.assertGreater(len(report), 0)

    def test_the_sandwich_has_callers_and_callees(self):
        page = self.page("walk", "#view=sandwich&function=share_left")
        names = "[...new Set(app.views.sandwich.%s.frames.map(({node}) => app.session.name(app.views.sandwich.%s.picture.tree.func[node])))]"
        self.assertEqual(page.evaluate(names % ("callees", "callees"))[:2], ["share_left", "share_leaf"])
        callers = page.evaluate(names % ("callers", "callers"))
        self.assertLessEqual({"share_left", "main", "share_upper", "share_recursive"}, set(callers))
        self.assertEqual(page.evaluate("app.views.sandwich.callers.picture.tree.total[0][0]"),
                         page.evaluate("app.session.tree.byFunction().total[0][app.session.names.find('share_left')]"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
