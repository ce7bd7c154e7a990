// SPDX-License-Identifier: MIT
// What a frame is, beside the pointer.

import { changeNote } from "./change.js";
import { boundText, samplesText } from "./columns.js";
import { element, fill } from "./dom.js";
import { amount, amountEach, percent, ratioText, signed } from "./numbers.js";
import { KIND_INLINED, KIND_PHASE, KIND_PROCESS, KIND_THREAD, LINE_FIRST, LINE_MANY } from "./profile.js";
import { Session } from "./session.js";
import { Tree } from "./tree.js";

/**
 * The lines of text about a node, for the tooltip and the panel.
 * @param {Session} session
 * @param {Tree} tree
 * @param {number} node
 */
export function factsOf(session, tree, node) {
    const func = tree.func[node], facts = [];
    if (!tree.isCode(node)) {
        const kind = tree.kind[node];
        facts.push(kind === KIND_PROCESS ? "process" : kind === KIND_THREAD ? "thread" : kind === KIND_PHASE ? "phase" : "everything");
        return facts;
    }
    const module = session.moduleName(func), where = session.where(func), line = tree.callLine[node];
    if (module || where)
        facts.push([module, where].filter(Boolean).join(" · "));
    if (line >= LINE_FIRST)
        facts.push(`called at line ${line - LINE_FIRST + 1} of ${session.name(tree.func[tree.parent[node]]).slice(0, 80)}`);
    else if (line === LINE_MANY)
        facts.push("called at several lines");
    if (tree.kind[node] === KIND_INLINED)
        facts.push("inlined");
    if (session.isDiff && changeNote(session, tree, node))
        facts.push(changeNote(session, tree, node));
    return facts;
}

/**
 * @param {Float64Array[]} columns
 * @param {number} node
 */
function nodeValues(columns, node) {
    return (/** @type {number} */ metric) => columns[metric][node];
}

/**
 * In a diff: what it was before, and the change.
 * @param {Session} session
 * @param {(metric: number) => number} total
 * @param {(metric: number) => number} self
 * @param {number} whole
 * @param {"tooltip" | "panel"} place
 */
export function changeRows({metric}, total, self, whole, place) {
    const {index, before, unit} = metric;
    /**
     * @param {string} name
     * @param {number} value
     * @param {number} own
     * @param {(text: string) => string} as
     */
    const row = (name, value, own, as) => element("tr", {class: as === signed && value !== 0 ? (value > 0 ? "costlier" : "cheaper") : ""},
        element("th", {}, name), element("td", {}, as(amount(value, unit))), element("td", {class: "share"}, as(percent(value, whole))),
        place === "tooltip" && element("td", {}, ""), element("td", {}, own !== 0 ? as(amount(own, unit)) : "–"),
        place === "panel" && element("td", {class: "share"}, own !== 0 ? as(percent(own, whole)) : ""));
    return [row("before", total(before), self(before), (text) => text),
        row("change", total(index) - total(before), self(index) - self(before), signed)];
}

/**
 * The ratios that a metric is the dividend of.
 * @param {Session} session
 * @param {Tree} tree
 * @param {number} node
 * @param {number} metric
 */
function ratioRows(session, tree, node, metric) {
    const ratios = session.ratiosOf(metric).filter(({over}) => tree.total[over][node] > 0);
    return ratios.map(({name, unit, of, over}) => element("tr", {}, element("th", {}, name),
        element("td", {}, ratioText(tree.total[of][node], tree.total[over][node], unit)), element("td", {}, ""), element("td", {}, ""),
        element("td", {}, ratioText(tree.self[of][node], tree.self[over][node], unit) || "–")));
}

export class Tooltip {
    /** @param {Session} session */
    constructor(session) {
        this.session = session;
        this.host = element("div", {class: "tooltip", hidden: true, role: "tooltip"});
        this.shown = -1;
        /** @type {Tree | null} */
        this.tree = null;
    }

    hide() {
        this.host.hidden = true;
        this.shown = -1;
    }

    /**
     * Other than about a node.
     * @param {string} name
     * @param {string[]} facts
     * @param {number} x
     * @param {number} y
     */
    say(name, facts, x, y) {
        fill(this.host, element("div", {class: "tooltip-name"}, name.slice(0, 600)),
            ...facts.map((fact) => element("div", {class: "tooltip-fact"}, fact)));
        this.shown = -1;
        this.host.hidden = false;
        this.place(x, y);
    }

    /**
     * @param {Tree} tree
     * @param {number} node
     * @param {number} x
     * @param {number} y
     */
    show(tree, node, x, y) {
        if (node < 0) {
            this.hide();
            return;
        }
        if (node !== this.shown || tree !== this.tree || this.host.hidden)
            this.write(tree, node);
        this.shown = node;
        this.tree = tree;
        this.host.hidden = false;
        this.place(x, y);
    }

    /**
     * Beside the pointer, within the page.
     * @param {number} x
     * @param {number} y
     */
    place(x, y) {
        const {offsetWidth: width, offsetHeight: height} = this.host;
        const left = x + 14 + width > innerWidth - 4 ? Math.max(4, x - width - 10) : x + 14;
        const top = y + 18 + height > innerHeight - 4 ? Math.max(4, y - height - 10) : y + 18;
        this.host.style.left = left + "px";
        this.host.style.top = top + "px";
    }

    /**
     * @param {Tree} tree
     * @param {number} node
     */
    write(tree, node) {
        const {session} = this, {metric, metrics, callsMetric} = session;
        const whole = tree.total[metric.index][0], parent = tree.parent[node];
        const total = tree.total[metric.index][node], self = tree.self[metric.index][node], {error} = metric;
        const rows = [element("tr", {}, element("th", {}, metric.name),
            element("td", {}, amount(total, metric.unit) + (error < 0 ? "" : boundText(session, tree.total[error][node]))),
            element("td", {class: "share"}, percent(total, whole)),
            element("td", {class: "share"}, parent >= 0 ? percent(total, tree.total[metric.index][parent]) : ""),
            element("td", {}, self > 0 ? amount(self, metric.unit) + (error < 0 ? "" : boundText(session, tree.self[error][node])) : "–"))];
        if (metric.before >= 0)
            rows.push(...changeRows(session, nodeValues(tree.total, node), nodeValues(tree.self, node), tree.total[metric.before][0] || whole,
                "tooltip"));
        rows.push(...ratioRows(session, tree, node, metric.index));
        for (const other of metrics) {
            if (other.index === metric.index || other.index === callsMetric)
                continue;
            const value = tree.total[other.index][node];
            rows.push(element("tr", {}, element("th", {}, other.name), element("td", {}, amount(value, other.unit)),
                element("td", {class: "share"}, percent(value, tree.total[other.index][0])), element("td", {}, ""),
                element("td", {}, tree.self[other.index][node] > 0 ? amount(tree.self[other.index][node], other.unit) : "–")),
            ...ratioRows(session, tree, node, other.index));
        }
        const calls = session.calls(tree, node), below = [];
        if (calls > 0)
            below.push(`${amount(calls, "")} call${calls === 1 ? "" : "s"}` + (metric.index === callsMetric ? ""
                : `, ${amountEach(session.perCall(total, calls, metric.index), metric.unit)} each`));
        if (calls === 0 && tree.returns[node] > 0)
            below.push(`${amount(tree.returns[node], "")} return${tree.returns[node] === 1 ? "" : "s"} seen`);
        const samples = samplesText(session, total);
        if (samples)
            below.push(samples);
        fill(this.host, element("div", {class: "tooltip-name"}, session.name(tree.func[node]).slice(0, 600)),
            ...factsOf(session, tree, node).map((fact) => element("div", {class: "tooltip-fact"}, fact)),
            element("table", {}, element("thead", {}, element("tr", {}, ...["", "total", "of all", "of caller", "self"].map((head) =>
                element("th", {}, head)))), element("tbody", {}, ...rows)),
            ...below.map((text) => element("div", {class: "tooltip-fact"}, text)));
    }
}
