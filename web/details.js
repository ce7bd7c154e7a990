// SPDX-License-Identifier: MIT
// The panel about what is selected: its numbers in every metric, its lines, and what may be done with it.

import { boundText, meaningOf, samplesText } from "./columns.js";
import { button, element, fill } from "./dom.js";
import { functionNumbers } from "./lists.js";
import { safe } from "./names.js";
import { amount, amountEach, grouped, percent, ratioText } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { changeRows, factsOf } from "./tooltip.js";
import { nodeNumbers } from "./tree_views.js";

/** @typedef {import("./selection.js").Chosen} Chosen */
/** @typedef {{through: () => void, below: () => void, without: () => void, fold: () => void, sandwich: () => void,
 *   source: () => void}} Actions */

const MOST_LINES = 12, MOST_CALLEES = 8;

export class Details {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {Actions} actions
     */
    constructor(session, selection, actions) {
        this.session = session;
        this.selection = selection;
        this.actions = actions;
        this.host = element("aside", {class: "details", "aria-label": "details"});
        /** @type {"selected" | "always" | "never"} when it takes room of the page */
        this.mode = "selected";
        selection.listeners.push(() => this.update());
    }

    toggle() {
        this.mode = this.host.hidden ? "always" : "never";
        this.update();
    }

    update() {
        const {chosen} = this.selection;
        this.host.hidden = this.mode === "never" || (this.mode === "selected" && !chosen);
        if (this.host.hidden)
            return;
        if (!chosen) {
            fill(this.host, element("p", {class: "hint"}, "Select a frame or a row to see its numbers here, and to keep or " +
                "leave out paths through it. Press ? for all keys."));
            return;
        }
        const {session} = this, {tree, node, func} = chosen;
        const numbers = node >= 0 ? nodeNumbers(tree, node) : functionNumbers(session, func);
        const isCode = node < 0 || tree.isCode(node);
        fill(this.host,
            element("h2", {}, session.name(func).slice(0, 1000)),
            ...(node >= 0 ? factsOf(session, tree, node) : [[session.moduleName(func), session.where(func)].filter(Boolean).join(" · ")])
                .map((fact) => element("p", {class: "fact"}, fact)),
            element("p", {class: "fact"}, node >= 0 ? "in this context" : "in all contexts"),
            isCode && this.buttons(), this.table(numbers), ...this.counts(numbers),
            ...this.lines(chosen), ...(node >= 0 ? this.callees(chosen) : []));
    }

    /** @param {import("./columns.js").Numbers} numbers */
    table(numbers) {
        const {session} = this, {metrics, callsMetric, tree} = session;
        const others = metrics.filter(({index}) => index !== session.metric.index);
        const rows = [session.metric, ...others].filter(({index}) => index !== callsMetric).flatMap(({index, name, unit, error}) => {
            const whole = tree.total[index][0], total = numbers.total(index), self = numbers.self(index);
            return [element("tr", {class: index === session.metric.index ? "chosen" : ""}, element("th", {title: meaningOf(name)}, name),
                element("td", {}, amount(total, unit) + (error < 0 ? "" : boundText(session, numbers.total(error)))),
                element("td", {class: "share"}, percent(total, whole)),
                element("td", {}, self > 0 ? amount(self, unit) + (error < 0 ? "" : boundText(session, numbers.self(error))) : "–"),
                element("td", {class: "share"}, self > 0 ? percent(self, whole) : "")),
            ...session.ratiosOf(index).filter(({over}) => numbers.total(over) > 0).map((ratio) => element("tr", {}, element("th", {title: ratio.meaning}, ratio.name),
                ...[numbers.total, numbers.self].flatMap((value) => [
                    element("td", {}, ratioText(value(ratio.of), value(ratio.over), ratio.unit) || "–"), element("td", {})])))];
        });
        const {metric} = session;
        if (metric.before >= 0)
            rows.push(...changeRows(session, numbers.total, numbers.self, tree.total[metric.before][0] || tree.total[metric.index][0],
                "panel"));
        return element("table", {}, element("thead", {}, element("tr", {}, element("th", {}),
            element("th", {colspan: 2}, "total"), element("th", {colspan: 2}, "self"))), element("tbody", {}, ...rows));
    }

    /** @param {import("./columns.js").Numbers} numbers */
    counts(numbers) {
        const {session} = this, {metric, callsMetric} = session, texts = [];
        const calls = callsMetric >= 0 && numbers.counted ? numbers.self(callsMetric) : 0;
        if (calls > 0) {
            texts.push(`${grouped(calls)} call${calls === 1 ? "" : "s"}`);
            if (metric.index !== callsMetric)
                texts.push(`${amountEach(session.perCall(numbers.total(metric.index), calls, metric.index), metric.unit)} per call, with callees`,
                    `${amountEach(session.perCall(numbers.self(metric.index), calls, metric.index), metric.unit)} per call, alone`);
        } else if (numbers.returns > 0) {
            texts.push(`${grouped(numbers.returns)} return${numbers.returns === 1 ? "" : "s"} seen`);
        }
        const samples = samplesText(session, numbers.total(metric.index));
        if (samples)
            texts.push(samples);
        return texts.map((text) => element("p", {class: "fact"}, text));
    }

    buttons() {
        const {actions} = this;
        return element("div", {class: "actions"},
            button("Keep paths", "only paths that go through this function (t)", actions.through),
            button("From here down", "this function and what it calls, whoever called it (b)", actions.below),
            button("Without", "only paths that do not go through this function (x)", actions.without),
            button("Fold away", "its cost counts as that of its callers (h)", actions.fold),
            button("Callers, callees", "this function between its callers and callees (s)", actions.sandwich),
            button("Source", "its lines and instructions (e)", actions.source));
    }

    /** @param {Chosen} chosen */
    lines(chosen) {
        return this.ranking("Lines of its own cost", this.linesOf(chosen), MOST_LINES);
    }

    /**
     * The costliest first.
     * @param {Chosen} chosen
     */
    linesOf({tree, node, func}) {
        const {session} = this, {profile, metric} = session, values = session.lineValues[metric.index];
        if (!values || (node >= 0 && tree.image.length === 0))
            return [];
        /** @type {Map<string, {text: string, cost: number}>} */
        const found = new Map();
        for (let i = 0; i < profile.lineCount; i++) {
            const at = profile.lineNode[i], image = tree.image[at] ?? -1;
            if (values[i] === 0 || image < 0 || (node >= 0 ? image !== node : tree.func[image] !== func))
                continue;
            const file = profile.lineFile[i], key = file + ":" + profile.lineNumber[i];
            const line = found.get(key);
            if (line)
                line.cost += values[i];
            else
                found.set(key, {text: safe(profile.files.get(file)).split("/").pop() + ":" + (profile.lineNumber[i] || "?"), cost: values[i]});
        }
        return [...found.values()].sort((a, b) => b.cost - a.cost);
    }

    /** @param {Chosen} chosen */
    callees({tree, node}) {
        const {session} = this, metric = session.metric.index, {start, list} = tree.children(metric);
        const nodes = [...list.subarray(start[node], Math.min(start[node + 1], start[node] + MOST_CALLEES))];
        return this.ranking("Heaviest callees", nodes.map((child) => ({text: session.shortName(tree.func[child]), cost: tree.total[metric][child],
            action: () => this.selection.node(tree, child)})), MOST_CALLEES);
    }

    /**
     * @param {string} title
     * @param {{text: string, cost: number, action?: () => void}[]} rows
     * @param {number} most
     */
    ranking(title, rows, most) {
        if (rows.length === 0)
            return [];
        const {unit, index} = this.session.metric, whole = this.session.tree.total[index][0];
        return [element("h3", {}, title), element("ul", {class: "ranking"}, ...rows.slice(0, most).map(({text, cost, action}) => {
            const item = element("li", {}, action ? button(text, text, action, "plain") : element("span", {class: "text", title: text}, text),
                element("span", {class: "cost"}, amount(cost, unit)), element("span", {class: "share"}, percent(cost, whole)));
            item.style.backgroundSize = `${rows[0].cost > 0 ? 100 * cost / rows[0].cost : 0}% 100%`;
            return item;
        }), rows.length > most && element("li", {class: "more"}, `and ${rows.length - most} more`))];
    }
}
