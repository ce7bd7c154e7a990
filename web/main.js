// SPDX-License-Identifier: MIT
// The page: head, views, keys.

import { ChangeList } from "./changes.js";
import { meaningOf } from "./columns.js";
import { Details } from "./details.js";
import { button, byId, element, fill } from "./dom.js";
import { Filters } from "./filters.js";
import { FlameView } from "./flame_view.js";
import { helpOverlay } from "./help.js";
import { FunctionList, PathList } from "./lists.js";
import { LockList } from "./locks.js";
import { safe } from "./names.js";
import { amount, grouped, moment, percent } from "./numbers.js";
import { Profile, fromBase64, gunzip } from "./profile.js";
import { Sandwich } from "./sandwich.js";
import { Selection } from "./selection.js";
import { Session, patternOf } from "./session.js";
import { SourceView } from "./source_view.js";
import { SIDES, VIEWS, coloursOf } from "./state.js";
import { TimeView } from "./time_view.js";
import { Tooltip } from "./tooltip.js";
import { BottomUp, TopDown } from "./tree_views.js";

/**
 * @typedef {import("./state.js").ViewName} ViewName
 * @typedef {import("./state.js").StepKind} StepKind
 * @typedef {{host: HTMLElement, update: () => void, key?: (event: KeyboardEvent) => boolean}} View
 */

/** @type {{[name in ViewName]: [string, string]}} */
const TITLES = {
    flame: ["Flame graph", "each frame as wide as its cost"],
    tree: ["Tree", "functions under their callers"],
    callers: ["Callers", "functions, and who called them"],
    functions: ["Functions", "a list"],
    sandwich: ["Sandwich", "a function between its callers and callees"],
    paths: ["Hot paths", "paths that end in the most cost of their own"],
    locks: ["Locks", "who waited for locks, and who held them"],
    changes: ["Changes", "contexts that explain what changed"],
    time: ["Time", "what ran when"],
    source: ["Source", "lines of a function, and its instructions"],
};

/** @type {{[kind in StepKind]: [string, string]}} */
const STEP_WORDS = {
    through: ["through", "only paths with this function on them"],
    below: ["below", "from this function down"],
    without: ["without", "no paths with this function on them"],
    fold: ["folded", "counts as part of its callers"],
};

/** @type {{[mode in import("./state.js").ColourMode]: string}} */
const COLOUR_TITLES = {module: "by module", function: "by function", cost: "by own cost", change: "by change"};
/** @type {{[side in import("./state.js").Side]: string}} */
const SIDE_TITLES = {new: "as wide as new", old: "as wide as old", both: "as wide as both"};

const THEME_KEY = "cairn-theme";
const SEARCH_MS = 120;

export class App {
    /** @param {Profile} profile */
    constructor(profile) {
        const session = this.session = new Session(profile);
        this.selection = new Selection(session);
        this.tooltip = new Tooltip(session);
        /** @param {number} func */
        const sandwich = (func) => this.showSandwich(func);
        /** @param {number} node */
        const flame = (node) => session.change({view: "flame", zoom: session.tree.path(node)});
        /** @type {{[name in ViewName]: View}} */
        this.views = {
            flame: new FlameView(session, this.selection, this.tooltip, sandwich),
            tree: new TopDown(session, this.selection, flame),
            callers: new BottomUp(session, this.selection, sandwich),
            functions: new FunctionList(session, this.selection, sandwich),
            sandwich: new Sandwich(session, this.selection, this.tooltip, sandwich),
            paths: new PathList(session, this.selection, flame),
            locks: new LockList(session, this.selection, flame),
            changes: new ChangeList(session, this.selection, flame),
            time: new TimeView(session, this.selection, this.tooltip),
            source: new SourceView(session, this.selection),
        };
        this.details = new Details(session, this.selection, {
            through: () => this.refine("through"), below: () => this.refine("below"), without: () => this.refine("without"),
            fold: () => this.refine("fold"), sandwich: () => this.selection.func >= 0 && sandwich(this.selection.func),
            source: () => this.open("source"),
        });
        this.filters = new Filters(session);
        this.help = helpOverlay();
        this.main = element("main", {});
        this.chips = element("div", {class: "chips"});
        this.status = element("footer", {});
        this.tip = element("span", {class: "tip"}, "click a frame or a row for its numbers");
        this.selection.listeners.push(() => this.tip.hidden = this.selection.chosen !== null);
        this.searchTimer = 0;
        this.build();
        session.listeners.push(() => this.update());
        document.addEventListener("keydown", (event) => this.key(event));
        window.addEventListener("popstate", () => session.restore());
        window.addEventListener("hashchange", () => session.restore());
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.update());
    }

    build() {
        const {session} = this, {profile} = session, command = safe(profile.meta.command || "profile");
        document.title = command.slice(0, 80) + " – cairn";
        this.sideSelect = element("select", {title: "widths", "aria-label": "widths",
            onchange: () => session.change({side: SIDES.find((side) => side === this.sideSelect?.value) ?? "new"}, "replace")},
        ...SIDES.map((side) => element("option", {value: side}, SIDE_TITLES[side])));
        this.sideSelect.hidden = !session.isDiff;
        this.tabs = VIEWS.map((name) => {
            const tab = button(TITLES[name][0], `${TITLES[name][1]} (${this.shown.indexOf(name) + 1})`, () => this.open(name));
            tab.setAttribute("role", "tab");
            tab.hidden = !this.has(name);
            return tab;
        });
        this.metricSelect = element("select", {title: "metric (m)", "aria-label": "metric",
            onchange: () => session.change({metric: Number(this.metricSelect?.value)})},
        ...session.metrics.map(({name, index}) => element("option", {value: index}, name)));
        this.colourSelect = element("select", {title: "colours (c)", "aria-label": "colours",
            onchange: () => session.change({colour: coloursOf(profile).find((mode) => mode === this.colourSelect?.value) ?? session.state.colour}, "replace")},
        ...coloursOf(profile).map((mode) => element("option", {value: mode}, COLOUR_TITLES[mode])));
        this.search = element("input", {type: "search", placeholder: "Search (/)", "aria-label": "search, a regular expression", spellcheck: "false",
            oninput: () => this.searchSoon()});
        this.found = element("span", {class: "found"});
        this.filterButton = button("Threads ▾", "which threads, processes and phases are shown", () => this.toggleFilters(), "filter-button");
        this.filterButton.hidden = !this.filters.isUseful;
        this.flip = button("⇅", "turn over (i)", () => session.change({upward: !session.state.upward}, "replace"), "icon");
        const header = element("header", {class: "top"},
            element("div", {class: "title", title: command}, element("b", {}, "cairn"), element("span", {}, command.slice(0, 300))),
            element("nav", {class: "tabs", role: "tablist"}, ...this.tabs),
            element("div", {class: "tools"}, element("div", {class: "search"}, this.search, this.found),
                button("◧", "details (p)", () => this.details.toggle(), "icon"),
                button("◐", "light or dark (l)", () => this.toggleTheme(), "icon"), button("?", "keys (?)", () => this.toggleHelp(), "icon")));
        const bar = element("div", {class: "bar"}, element("div", {class: "tools"}, this.metricSelect, this.filterButton, this.filters.host), this.chips,
            element("div", {class: "tools"}, this.sideSelect, this.colourSelect, this.flip));
        fill(byId("app"), header, bar, element("div", {class: "middle"}, this.main, this.details.host), this.status, this.tooltip.host, this.help);
        for (const view of Object.values(this.views)) {
            view.host.classList.add("view");
            view.host.hidden = true;
            this.main.append(view.host);
        }
        try {
            const theme = localStorage.getItem(THEME_KEY);
            if (theme === "light" || theme === "dark")
                document.documentElement.dataset.theme = theme;
        } catch {
            // A page of a file may have no storage.
        }
        if (innerWidth < 1000)
            this.details.mode = "never";
    }

    /**
     * Whether the profile has something for a view.
     * @param {ViewName} name
     */
    has(name) {
        const {meta} = this.session.profile;
        return name === "changes" ? meta.changes !== undefined : name === "time" ? meta.timeline !== null
            : name === "locks" ? meta.locks : true;
    }

    /** Views that the profile has something for, in their order: numbers are their keys. */
    get shown() {
        return VIEWS.filter((name) => this.has(name));
    }

    get view() {
        return this.views[this.session.state.view];
    }

    update() {
        const {session} = this, {state} = session;
        this.tooltip.hide();
        if (state.metric !== session.metric.index)
            state.metric = session.metric.index;
        this.tabs?.forEach((tab, i) => tab.setAttribute("aria-selected", String(VIEWS[i] === state.view)));
        if (this.metricSelect) {
            this.metricSelect.value = String(state.metric);
            this.metricSelect.title = ["metric (m)", meaningOf(session.metric.name)].filter(Boolean).join(": ");
        }
        if (this.colourSelect)
            this.colourSelect.value = state.colour;
        if (this.sideSelect)
            this.sideSelect.value = state.side;
        if (this.colourSelect)
            this.colourSelect.hidden = state.view === "time";
        if (this.flip)
            this.flip.hidden = state.view !== "flame";
        if (this.search && document.activeElement !== this.search && this.search.value !== state.search)
            this.search.value = state.search;
        if (this.filterButton) {
            const part = state.hidden.length > 0 || !state.withoutPhase;
            this.filterButton.classList.toggle("chosen", part || state.apart !== "none");
            this.filterButton.textContent = part ? "Threads: some ▾" : "Threads ▾";
        }
        if (this.selection.chosen && this.selection.chosen.tree !== session.tree)
            this.keepSelection();
        for (const [name, view] of Object.entries(this.views))
            view.host.hidden = name !== state.view;
        this.view.update();
        this.filters.update();
        this.details.update();
        this.writeChips();
        this.writeFound();
        this.writeStatus();
    }

    /** The same node in another tree, or the same function. */
    keepSelection() {
        const {selection, session} = this, {chosen} = selection;
        if (!chosen)
            return;
        const path = chosen.node >= 0 ? chosen.tree.path(chosen.node) : [], node = session.tree.find(path);
        if (chosen.node >= 0 && path.length > 0 && session.tree.func[node] === chosen.func)
            selection.chosen = {tree: session.tree, node, func: chosen.func};
        else
            selection.chosen = {tree: session.tree, node: -1, func: chosen.func};
    }

    writeChips() {
        const {session} = this, {state} = session, {tree, metric} = session;
        const chips = state.steps.map((step, i) => {
            const [word, hint] = STEP_WORDS[step.kind];
            const name = step.func >= 0 ? session.shortName(step.func) : safe(step.pattern);
            return element("span", {class: "chip " + step.kind, title: `${hint}: ${step.func >= 0 ? session.name(step.func) : name}`},
                element("span", {class: "word"}, word), element("span", {class: "text"}, name),
                button("✕", "remove", () => session.removeStep(i), "remove"));
        });
        const parts = chips.flatMap((chip) => [element("span", {class: "arrow"}, "›"), chip]);
        const {range} = session, step = range ? (range.to - range.from) / 100 : 1;
        const whole = session.base.total[metric.index][0], shown = tree.total[metric.index][0];
        fill(this.chips, button("all paths", "undo all refinement (r)", () => session.change({steps: [], zoom: [], fold: false}),
            state.steps.length ? "all" : "all chosen"), ...parts,
        range && element("span", {class: "chip time", title: "only what was charged in this part of the recording"},
            element("span", {class: "text"}, `${moment(range.from, step)} – ${moment(range.to, step)}`),
            button("✕", "the whole recording", () => session.change({from: 0, to: 0, zoom: []}), "remove")),
        state.fold && element("span", {class: "chip fold"}, element("span", {class: "text"}, "recursion folded"),
            button("✕", "remove", () => session.change({fold: false, zoom: []}), "remove")),
        state.steps.length > 0 && element("span", {class: "share"}, `${percent(shown, whole) || "0 %"} of ${amount(whole, metric.unit)}`));
    }

    writeFound() {
        const {session} = this, {searched, metric, tree, state} = session;
        if (!this.found || !this.search)
            return;
        this.search.classList.toggle("wrong", state.search !== "" && !patternOf(state.search));
        if (!searched) {
            fill(this.found);
            return;
        }
        const {cost, nodes} = tree.matching(searched, metric.index);
        const step = (/** @type {StepKind} */ kind) => () => session.addStep({kind, func: -1, pattern: state.search});
        fill(this.found, element("span", {class: "share", title: `${grouped(nodes)} frames match; the share counts each path once`},
            nodes ? percent(cost, tree.total[metric.index][0]) || "0 %" : "nothing"),
        nodes > 0 && button("keep", "only paths with a match", step("through")),
        nodes > 0 && button("drop", "only paths without a match", step("without")));
    }

    writeStatus() {
        const {session} = this, {meta} = session.profile, {tree, metric} = session, whole = tree.total[metric.index][0];
        const parts = [`${amount(whole, metric.unit)} ${metric.name}`];
        if (meta.samples > 0)
            parts.push(`${grouped(meta.samples)} ${safe(meta.sampled)} in all`);
        parts.push(session.range ? `${amount(session.range.to - session.range.from, "ns")} of ${amount(meta.duration_ns, "ns")}`
            : `${amount(meta.duration_ns, "ns")} recorded`);
        parts.push(`${grouped(tree.count - 1)} contexts`);
        const warnings = [];
        if (metric.warning)
            warnings.push(metric.warning);
        const kept = session.recorded.self[0].reduce((sum, value) => sum + value, 0);
        if (meta.whole > kept * 1.0005)
            warnings.push(`${percent(meta.whole - kept, meta.whole)} of the ${session.metrics[0].name} was in paths too cold to be kept`);
        if (meta.left_out > 0)
            warnings.push(`the ${grouped(meta.left_out)} smallest contexts are summed up under their callers`);
        if (metric.error >= 0)
            warnings.push("values with ± may be too large by that much");
        if (!meta.complete)
            warnings.push("the recording was cut off");
        warnings.push(...meta.notes);
        fill(this.status, element("span", {}, parts.join(" · ")),
            warnings.length > 0 && element("span", {class: "warning", title: warnings.map(safe).join("\n")}, "⚠ " + warnings.map(safe).join(" · ")),
            this.tip);
    }

    /** @param {ViewName} view */
    open(view) {
        const {session, selection} = this;
        const about = view === "source" || view === "sandwich";
        session.change({view, sort: "", func: about && selection.func >= 0 ? selection.func : session.state.func});
    }

    /** @param {StepKind} kind */
    refine(kind) {
        const {func} = this.selection;
        if (func >= 0)
            this.session.addStep({kind, func, pattern: ""});
    }

    /** @param {number} func */
    showSandwich(func) {
        this.selection.function(func);
        this.session.change({view: "sandwich", func});
    }

    toggleFilters() {
        this.filters.host.hidden = !this.filters.host.hidden;
        this.filters.update();
    }

    toggleHelp() {
        this.help.hidden = !this.help.hidden;
    }

    toggleTheme() {
        const dark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
        document.documentElement.dataset.theme = dark ? "light" : "dark";
        try {
            localStorage.setItem(THEME_KEY, dark ? "light" : "dark");
        } catch {
            // It holds until the page is closed.
        }
        this.update();
    }

    searchSoon() {
        clearTimeout(this.searchTimer);
        this.searchTimer = setTimeout(() => this.session.change({search: this.search?.value ?? ""}, "replace"), SEARCH_MS);
    }

    /**
     * The next frame that matches, the costliest first.
     * @param {1 | -1} direction
     */
    nextMatch(direction) {
        const {session, selection} = this, {searched, tree, metric} = session;
        if (!searched)
            return;
        const total = tree.total[metric.index], matches = [];
        for (let i = 1; i < tree.count; i++)
            if (tree.isCode(i) && searched[tree.func[i]] && tree.outermost()[i])
                matches.push(i);
        if (matches.length === 0)
            return;
        matches.sort((a, b) => total[b] - total[a]);
        const at = selection.chosen ? matches.indexOf(selection.chosen.node) : -1;
        const node = matches[(at < 0 && direction < 0 ? 0 : at + direction + matches.length) % matches.length];
        selection.node(tree, node);
        session.change({zoom: tree.path(node)}, "replace");
    }

    escape() {
        const {session} = this;
        if (!this.help.hidden)
            this.help.hidden = true;
        else if (!this.filters.host.hidden)
            this.filters.host.hidden = true;
        else if (document.activeElement === this.search) {
            this.search?.blur();
            this.main.focus();
        } else if (session.state.zoom.length > 0)
            session.change({zoom: []});
        else if (session.state.search)
            session.change({search: ""}, "replace");
        else if (session.state.view === "time" && session.range)
            session.change({from: 0, to: 0});
        else
            this.selection.clear();
    }

    /** @param {KeyboardEvent} event */
    key(event) {
        const {session} = this;
        if (event.key === "Escape") {
            this.escape();
            return;
        }
        const typing = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
        if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing) {
            event.preventDefault();
            session.undo();
            return;
        }
        if (event.ctrlKey || event.metaKey || event.altKey)
            return;
        if (typing) {
            if (event.key === "Enter" && event.target === this.search) {
                clearTimeout(this.searchTimer);
                session.change({search: this.search?.value ?? ""}, "replace");
                this.search?.blur();
            }
            return;
        }
        if (event.target instanceof HTMLSelectElement)
            return;
        if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === " "))
            return;
        if (this.view.key?.(event) || this.globalKey(event.key))
            event.preventDefault();
    }

    /** @param {string} key */
    globalKey(key) {
        const {session} = this, {state, metrics} = session, {func} = this.selection;
        const view = /^[1-9]$/.test(key) ? this.shown[Number(key) - 1] : undefined;
        if (view) {
            this.open(view);
            return true;
        }
        /** @type {{[key: string]: () => void}} */
        const actions = {
            "?": () => this.toggleHelp(),
            "/": () => this.search?.select(),
            m: () => session.change({metric: metrics[(metrics.indexOf(session.metric) + 1) % metrics.length].index}),
            c: () => {
                const colours = coloursOf(session.profile);
                session.change({colour: colours[(colours.indexOf(state.colour) + 1) % colours.length]}, "replace");
            },
            i: () => session.change({upward: !state.upward}, "replace"),
            l: () => this.toggleTheme(),
            p: () => this.details.toggle(),
            t: () => this.refine("through"),
            b: () => this.refine("below"),
            x: () => this.refine("without"),
            h: () => this.refine("fold"),
            f: () => session.change({fold: !state.fold, zoom: []}),
            u: () => session.undo(),
            r: () => session.change({steps: [], zoom: [], fold: false}),
            s: () => func >= 0 && this.showSandwich(func),
            e: () => this.open("source"),
            n: () => this.nextMatch(1),
            N: () => this.nextMatch(-1),
        };
        const action = actions[key];
        action?.();
        return action !== undefined;
    }
}

async function start() {
    const holder = byId("profile"), began = performance.now();
    const packed = fromBase64(holder.textContent ?? "");
    holder.remove();
    const app = new App(new Profile(await gunzip(packed)));
    app.session.restore();
    await new Promise((done) => requestAnimationFrame(done));
    const now = performance.now();
    return {app, firstFrame: now - began, opened: now};
}

/** What tests look at; the page itself does not use it. */
const ready = start();
ready.catch((/** @type {Error} */ error) =>
    fill(byId("app"), element("p", {class: "loading"}, "This page cannot be shown: " + error.message)));
Object.assign(window, {cairn: ready});
