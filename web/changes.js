// SPDX-License-Identifier: MIT
// What a diff found: the contexts that explain the change, and why they changed.

import { colouring, currentTheme } from "./colour.js";
import { changeCell } from "./columns.js";
import { element } from "./dom.js";
import { safe } from "./names.js";
import { amount, grouped, percent } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { Table } from "./table.js";

/** @typedef {import("./profile.js").Change} Change */

export class ChangeList {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {(node: number) => void} open
     */
    constructor(session, selection, open) {
        this.session = session;
        /** @param {number} row */
        const node = (row) => session.tree.image[this.rows[row].node] ?? -1;
        this.table = new Table({
            sort: () => {},
            select: (row) => node(row) >= 0 && selection.node(session.tree, node(row)),
            toggle: () => {},
            open: (row) => node(row) >= 0 && open(node(row)),
        }, "changes");
        this.sentence = element("p", {class: "sentence"}, safe(session.profile.meta.sentence ?? ""));
        this.sentence.hidden = !session.profile.meta.sentence;
        this.host = element("div", {class: "sentence-view"}, this.sentence, this.table.host);
        /** @type {Change[]} */
        this.rows = [];
    }

    update() {
        const {session, table} = this, {meta} = session.profile, {recorded, searched} = session;
        const metric = session.metrics[0];
        const whole = metric.before < 0 ? 0 : session.recorded.self[metric.before].reduce((sum, value) => sum + value, 0);
        this.rows = (meta.changes ?? []).filter(({node}) => !searched || searched[recorded.func[node]]);
        const colours = colouring(session, session.tree, currentTheme());
        table.setColumns([
            {key: "change", title: "change", hint: "of all that the old version cost", width: 90},
            {key: "relative", title: "of itself", hint: "of what this cost in the old version", width: 80},
            {key: "change#", title: metric.name, hint: "the change as an amount", width: 88},
            {key: "old", title: "old", hint: metric.name, width: 80}, {key: "new", title: "new", hint: metric.name, width: 80},
            ...meta.split ? [{key: "calls", title: "more calls", hint: "the part that comes of more or fewer calls", width: 86},
                {key: "price", title: "costlier calls", hint: "the part that comes of costlier or cheaper calls", width: 100}] : [],
            {key: "name", title: "context, and its callers", hint: "", width: 360, name: true}], "change");
        table.setRows(this.rows.length, (row) => {
            const change = this.rows[row], {node} = change, func = recorded.func[node], callers = [];
            for (let at = recorded.parent[node]; at > 0 && callers.length < 60; at = recorded.parent[at])
                callers.push(session.shortName(recorded.func[at]));
            const noise = !change.significant, difference = change.new - change.old;
            /**
             * @param {string} text
             * @param {number} value
             */
            const cell = (text, value) => changeCell(text, value, noise);
            return [cell(percent(difference, whole), difference), change.old > 0 && change.new > 0 ? cell(percent(difference, change.old), difference)
                    : {...cell("", difference), text: change.old > 0 ? "gone" : "new"},
                cell(amount(Math.round(difference), metric.unit), difference),
                {text: amount(Math.round(change.old), metric.unit), dim: true}, {text: amount(Math.round(change.new), metric.unit), dim: true},
                ...meta.split ? [cell(amount(Math.round(change.by_calls), metric.unit), change.by_calls),
                    cell(amount(Math.round(change.by_price), metric.unit), change.by_price)] : [],
                {text: session.shortName(func), dim: noise, swatch: colours.swatch(func), title: session.name(func),
                    note: (noise ? "may be chance; " : "") + (change.contexts > 1 ? `${grouped(change.contexts)} contexts; ` : "") +
                        callers.map((name) => "‹ " + name).join(" ")}];
        });
    }
}
