// SPDX-License-Identifier: MIT
// Tables of trees: functions under their callers, and callers under functions.

import { Caller, callerRoot } from "./callers.js";
import { colouring, currentTheme } from "./colour.js";
import { cellsOf, columnsOf, sortValue } from "./columns.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { Table } from "./table.js";
import { Tree } from "./tree.js";

/** @typedef {import("./columns.js").Numbers} Numbers */
/** @typedef {import("./table.js").Column} Column */

// Below a row that is opened, callees open that have this share of their caller.
const HOT_SHARE = 0.5, DEEP = 40;
const TREE_NAME = 440; // pixels: names are indented

/**
 * @param {Tree} tree
 * @param {number} node
 * @returns {Numbers}
 */
export function nodeNumbers(tree, node) {
    return {self: (metric) => tree.self[metric][node], total: (metric) => tree.total[metric][node],
        returns: tree.returns[node], counted: tree.isCode(node)};
}

/**
 * Sorts the costliest first, or by name.
 * @template T
 * @param {Session} session
 * @param {T[]} rows
 * @param {string} key
 * @param {(row: T) => Numbers} numbers
 * @param {(row: T) => number} func
 */
export function sortRows(session, rows, key, numbers, func) {
    if (key === "name") {
        const names = rows.map((row) => ({row, name: session.name(func(row))}));
        names.sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
        return names.map(({row}) => row);
    }
    const values = rows.map((row) => {
        const own = numbers(row);
        return {row, value: sortValue(session, key, own), total: own.total(session.metric.index)};
    });
    values.sort((a, b) => b.value - a.value || b.total - a.total);
    return values.map(({row}) => row);
}

export class TopDown {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {(node: number) => void} open
     */
    constructor(session, selection, open) {
        this.session = session;
        this.selection = selection;
        this.table = new Table({
            sort: (key) => session.change({sort: key}, "replace"),
            select: (row) => selection.node(this.tree, this.rows[row]),
            toggle: (row) => this.toggle(row),
            open: (row) => open(this.rows[row]),
        }, "call tree");
        this.host = this.table.host;
        this.tree = session.recorded;
        /** @type {Set<number>} */
        this.expanded = new Set();
        /** @type {number[]} */
        this.rows = [];
        /** @type {number[]} */
        this.depths = [];
    }

    update() {
        const {session} = this, tree = session.tree;
        if (tree !== this.tree) {
            const path = this.table.selected >= 0 && this.rows.length > 0 ? this.tree.path(this.rows[this.table.selected]) : [];
            this.tree = tree;
            this.expanded = new Set([0]);
            this.expandHot(0);
            const zoomed = session.zoomNode(tree);
            for (let node = zoomed; node >= 0; node = tree.parent[node])
                this.expanded.add(node);
            this.expandHot(zoomed);
            this.table.selected = -1;
            this.flatten();
            const again = path.length ? tree.find(path) : zoomed;
            this.table.selected = again > 0 ? this.rows.indexOf(again) : -1;
        } else {
            const node = this.table.selected >= 0 ? this.rows[this.table.selected] : -1;
            this.flatten();
            this.table.selected = this.rows.indexOf(node);
        }
        this.show();
    }

    show() {
        const {session, tree, table} = this, columns = columnsOf(session, "function", TREE_NAME);
        const colours = colouring(session, tree, currentTheme()), {searched} = session;
        const {start} = tree.children(session.metric.index);
        table.setColumns(columns, session.state.sort || "total");
        table.setRows(this.rows.length, (row) => {
            const node = this.rows[row], func = tree.func[node];
            return cellsOf(session, columns, nodeNumbers(tree, node), {
                text: session.shortName(func), indent: this.depths[row], swatch: colours.swatch(func),
                fold: start[node] === start[node + 1] ? "none" : this.expanded.has(node) ? "open" : "closed",
                note: tree.isCode(node) ? session.moduleName(func) : "", title: session.name(func),
                strong: searched !== null && tree.isCode(node) && searched[func] !== 0,
            });
        });
    }

    /** @param {number} node */
    sortedChildren(node) {
        const {session, tree} = this, {start, list} = tree.children(session.metric.index);
        const children = [...list.subarray(start[node], start[node + 1])], key = session.state.sort;
        return key === "" || key === "total" || key === "total#" ? children
            : sortRows(session, children, key, (child) => nodeNumbers(tree, child), (child) => tree.func[child]);
    }

    /** The rows of all that is open. */
    flatten() {
        this.rows = [];
        this.depths = [];
        /** @type {{node: number, depth: number}[]} */
        const stack = [{node: 0, depth: 0}];
        for (let next; (next = stack.pop());) {
            this.rows.push(next.node);
            this.depths.push(next.depth);
            if (!this.expanded.has(next.node))
                continue;
            for (const child of this.sortedChildren(next.node).reverse())
                stack.push({node: child, depth: next.depth + 1});
        }
    }

    /** @param {number} node */
    expandHot(node) {
        const metric = this.session.metric.index, {start, list} = this.tree.children(metric), total = this.tree.total[metric];
        for (let depth = 0; depth < DEEP && start[node] < start[node + 1]; depth++) {
            this.expanded.add(node);
            const child = list[start[node]];
            if (total[child] < total[node] * HOT_SHARE)
                break;
            node = child;
        }
    }

    /** @param {number} row */
    toggle(row) {
        const node = this.rows[row];
        if (this.expanded.has(node))
            this.expanded.delete(node);
        else
            this.expandHot(node);
        this.flatten();
        this.table.selected = row;
        this.show();
    }
}

export class BottomUp {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {(func: number) => void} open
     */
    constructor(session, selection, open) {
        this.session = session;
        this.table = new Table({
            sort: (key) => session.change({sort: key}, "replace"),
            select: (row) => selection.function(this.rows[row].func),
            toggle: (row) => this.toggle(row),
            open: (row) => open(this.rows[row].func),
        }, "callers");
        this.host = this.table.host;
        /** @type {Tree | null} */
        this.tree = null;
        /** @type {Caller[]} */
        this.roots = [];
        /** @type {Caller[]} */
        this.rows = [];
        /** @type {Set<Caller>} */
        this.expanded = new Set();
    }

    update() {
        const {session} = this;
        if (session.tree !== this.tree) {
            this.tree = session.tree;
            this.expanded.clear();
            this.roots = shownFunctions(session, this.tree).map((func) => callerRoot(session.tree, func));
            this.table.selected = -1;
        }
        this.flatten();
        this.show();
    }

    show() {
        const {session, table} = this, columns = columnsOf(session, "function, and below it its callers", TREE_NAME);
        const colours = colouring(session, session.tree, currentTheme()), {searched} = session;
        table.setColumns(columns, session.state.sort || "self");
        table.setRows(this.rows.length, (row) => {
            const caller = this.rows[row], {func} = caller;
            return cellsOf(session, columns, callerNumbers(caller), {
                text: session.shortName(func), indent: caller.depth, swatch: colours.swatch(func),
                fold: !caller.hasCallers() ? "none" : this.expanded.has(caller) ? "open" : "closed",
                note: session.moduleName(func), title: session.name(func), strong: searched !== null && searched[func] !== 0,
            });
        });
    }

    /** @param {Caller[]} rows */
    sorted(rows) {
        return sortRows(this.session, rows, this.session.state.sort || "self", callerNumbers, (row) => row.func);
    }

    flatten() {
        const {searched} = this.session;
        const roots = searched ? this.roots.filter(({func}) => searched[func]) : this.roots;
        this.rows = [];
        const stack = this.sorted(roots).reverse();
        for (let next; (next = stack.pop());) {
            this.rows.push(next);
            if (this.expanded.has(next))
                stack.push(...this.sorted(next.callers()).reverse());
        }
    }

    /** @param {number} row */
    toggle(row) {
        let caller = this.rows[row];
        if (this.expanded.has(caller)) {
            this.expanded.delete(caller);
        } else {
            // Where there is only one way up, it is gone at once.
            for (let depth = 0; depth < DEEP; depth++) {
                this.expanded.add(caller);
                const callers = caller.callers();
                if (callers.length !== 1)
                    break;
                caller = callers[0];
            }
        }
        this.flatten();
        this.table.selected = row;
        this.show();
    }
}

/**
 * @param {Caller} caller
 * @returns {Numbers}
 */
function callerNumbers(caller) {
    return {self: (metric) => caller.self[metric], total: (metric) => caller.total[metric], returns: caller.returns, counted: true};
}

/**
 * The functions that a tree has.
 * @param {Session} session
 * @param {Tree} tree
 */
export function shownFunctions(session, tree) {
    const met = new Uint8Array(session.profile.functions), list = [];
    for (let i = 1; i < tree.count; i++)
        if (tree.isCode(i))
            met[tree.func[i]] = 1;
    for (let f = 0; f < met.length; f++)
        if (met[f])
            list.push(f);
    return list;
}
