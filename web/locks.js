// SPDX-License-Identifier: MIT
// Waiters for locks, and under each waiter, the holders.

import { colouring, currentTheme } from "./colour.js";
import { element, fill } from "./dom.js";
import { amount, amountEach, grouped, percent } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { Table } from "./table.js";

/**
 * A waiter, or a holder below it.
 * @typedef {{node: number, ns: number, waits: number, holders: LockRow[], level: 0 | 1}} LockRow
 */

/** @param {LockRow} row */
function perWait({ns, waits}) {
    return ns / Math.max(1, waits);
}

/** @type {{[key: string]: (row: LockRow) => number}} */
const ORDERS = {share: ({ns}) => ns, waits: ({waits}) => waits, each: perWait};

export class LockList {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {(node: number) => void} open
     */
    constructor(session, selection, open) {
        this.session = session;
        this.table = new Table({
            sort: (key) => key in ORDERS && session.change({sort: key}, "replace"),
            select: (row) => this.rows[row].node >= 0 && selection.node(session.tree, this.rows[row].node),
            toggle: (row) => this.toggle(row),
            open: (row) => this.rows[row].node >= 0 && open(this.rows[row].node),
        }, "locks");
        this.sentence = element("p", {class: "sentence"});
        this.host = element("div", {class: "sentence-view"}, this.sentence, this.table.host);
        /** @type {LockRow[]} */
        this.rows = [];
        /** @type {Set<number>} waiters whose holders are not shown */
        this.closed = new Set();
    }

    /** Pairs whose waiter is on a path that is left, by waiter. */
    waiters() {
        const {session} = this, tree = session.tree, {pairs} = session.profile;
        /** @type {Map<number, {row: LockRow, holders: Map<number, LockRow>}>} */
        const found = new Map();
        for (let i = 0; i < pairs.waiter.length; i++) {
            const waiter = tree.image[pairs.waiter[i]], holder = tree.image[pairs.holder[i]];
            if (waiter < 0)
                continue;
            const known = found.get(waiter) ?? {row: newRow(waiter, 0), holders: new Map()};
            found.set(waiter, known);
            const held = known.holders.get(holder) ?? newRow(holder, 1);
            known.holders.set(holder, held);
            for (const row of [known.row, held]) {
                row.ns += pairs.ns[i];
                row.waits += pairs.waits[i];
            }
        }
        return [...found.values()].map(({row, holders}) => ({...row, holders: [...holders.values()]}));
    }

    update() {
        const {session, table} = this, tree = session.tree, {searched} = session;
        const key = session.state.sort in ORDERS ? session.state.sort : "share", order = ORDERS[key];
        /**
         * @param {LockRow} a
         * @param {LockRow} b
         */
        const compare = (a, b) => order(b) - order(a) || b.ns - a.ns;
        /** @param {LockRow} row */
        const matches = ({node}) => !searched || (node >= 0 && searched[tree.func[node]] !== 0);
        const waiters = this.waiters().filter((row) => matches(row) || row.holders.some(matches)).sort(compare);
        this.rows = waiters.flatMap((row) => [row, ...this.closed.has(row.node) ? [] : row.holders.sort(compare)]);
        const sum = waiters.reduce((ns, row) => ns + row.ns, 0), waits = waiters.reduce((count, row) => count + row.waits, 0);
        const lock = session.metrics.find(({name}) => name === "lock"), whole = lock ? Math.max(sum, tree.total[lock.index][0]) : sum;
        fill(this.sentence, `${amount(sum, "ns")} in ${grouped(waits)} wait${waits === 1 ? "" : "s"} for locks whose holder is known: ` +
            `${percent(sum, whole) || "0 %"} of all these waits here. Under each waiter stands who held the lock.`);
        const colours = colouring(session, tree, currentTheme());
        table.setColumns([
            {key: "share", title: "waited", hint: "share of the time in which threads waited for locks", width: 92},
            {key: "ns", title: "time", hint: "the same as an amount", width: 84},
            {key: "waits", title: "waits", hint: "how often a lock was busy", width: 78},
            {key: "each", title: "per wait", hint: "time of one wait", width: 84},
            {key: "name", title: "waiter, and below it who held the lock", hint: "", width: 440, name: true}], key);
        table.setRows(this.rows.length, (at) => {
            const row = this.rows[at], {node} = row, func = node < 0 ? -1 : tree.func[node], callers = [];
            for (let up = node < 0 ? 0 : tree.parent[node]; up > 0 && callers.length < 60; up = tree.parent[up])
                callers.push(session.shortName(tree.func[up]));
            return [{text: percent(row.ns, whole), share: whole > 0 ? row.ns / whole : 0, dim: row.level === 1},
                {text: amount(row.ns, "ns"), dim: true}, {text: grouped(row.waits)}, {text: amountEach(perWait(row), "ns")},
                {text: (row.level ? "held by " : "") + (func < 0 ? "a path that is not shown" : session.shortName(func)), indent: row.level,
                    swatch: func < 0 ? "" : colours.swatch(func), fold: row.level ? "none" : this.closed.has(node) ? "closed" : "open",
                    title: func < 0 ? "" : [session.name(func), ...callers].join("\n").slice(0, 2000),
                    note: callers.map((name) => "‹ " + name).join(" "), dim: func < 0}];
        });
    }

    /** @param {number} row */
    toggle(row) {
        const {node} = this.rows[row];
        if (!this.closed.delete(node))
            this.closed.add(node);
        this.table.selected = row;
        this.update();
    }
}

/**
 * @param {number} node
 * @param {0 | 1} level
 * @returns {LockRow}
 */
function newRow(node, level) {
    return {node, ns: 0, waits: 0, holders: [], level};
}
