// SPDX-License-Identifier: MIT
// Lists: of functions, and of the paths that end in the most cost of their own.

import { colouring, currentTheme } from "./colour.js";
import { cellsOf, columnsOf } from "./columns.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { Table } from "./table.js";
import { nodeNumbers, shownFunctions, sortRows } from "./tree_views.js";
import { Tree } from "./tree.js";

const MOST_PATHS = 2000;

/**
 * @param {Session} session
 * @param {number} func
 * @returns {import("./columns.js").Numbers}
 */
export function functionNumbers(session, func) {
    const sums = session.tree.byFunction();
    return {self: (metric) => sums.self[metric][func], total: (metric) => sums.total[metric][func],
        returns: sums.returns[func], counted: true};
}

export class FunctionList {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {(func: number) => void} open
     */
    constructor(session, selection, open) {
        this.session = session;
        this.table = new Table({
            sort: (key) => session.change({sort: key}, "replace"),
            select: (row) => selection.function(this.rows[row]),
            toggle: () => {},
            open: (row) => open(this.rows[row]),
        }, "functions");
        this.host = this.table.host;
        /** @type {number[]} */
        this.rows = [];
        this.usual = "self";
        /** @type {string[] | null} those that there is room for; null: all */
        this.columns = null;
    }

    update() {
        const {session, table} = this, {searched} = session;
        const columns = columnsOf(session, "function", this.columns ? 200 : 300).filter(({key}) => !this.columns || this.columns.includes(key));
        const chosen = this.rows[table.selected] ?? -1, key = session.state.sort || this.usual;
        const functions = shownFunctions(session, session.tree).filter((func) => !searched || searched[func]);
        this.rows = sortRows(session, functions, key, (func) => functionNumbers(session, func), (func) => func);
        table.selected = this.rows.indexOf(chosen);
        const colours = colouring(session, session.tree, currentTheme());
        table.setColumns(columns, key);
        table.setRows(this.rows.length, (row) => {
            const func = this.rows[row];
            return cellsOf(session, columns, functionNumbers(session, func), {text: session.shortName(func),
                swatch: colours.swatch(func), note: session.place(func), title: session.name(func)});
        });
    }
}

export class PathList {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {(node: number) => void} open
     */
    constructor(session, selection, open) {
        this.session = session;
        this.table = new Table({
            sort: (key) => session.change({sort: key}, "replace"),
            select: (row) => selection.node(session.tree, this.rows[row]),
            toggle: () => {},
            open: (row) => open(this.rows[row]),
        }, "hot paths");
        this.host = this.table.host;
        /** @type {number[]} */
        this.rows = [];
    }

    update() {
        const {session, table} = this, {tree, searched} = session;
        const columns = columnsOf(session,
            "path, from the function that has the cost up to the root", 440);
        const key = session.state.sort || "self";
        const onPath = searched ? pathMatches(tree, searched) : null;
        const hottest = costliest(tree, tree.self[session.metric.index], onPath);
        this.rows = sortRows(session, hottest, key, (node) => nodeNumbers(tree, node), (node) => tree.func[node]);
        const colours = colouring(session, tree, currentTheme());
        table.selected = -1;
        table.setColumns(columns, key);
        table.setRows(this.rows.length, (row) => {
            const node = this.rows[row], callers = [];
            for (let at = tree.parent[node]; at > 0 && callers.length < 60; at = tree.parent[at])
                callers.push(session.shortName(tree.func[at]));
            return cellsOf(session, columns, nodeNumbers(tree, node), {text: session.shortName(tree.func[node]),
                swatch: colours.swatch(tree.func[node]), note: callers.map((name) => "‹ " + name).join(" "),
                title: [session.name(tree.func[node]), ...callers].join("\n").slice(0, 2000)});
        });
    }
}

/**
 * Of each node, whether it or something above it matches.
 * @param {Tree} tree
 * @param {Uint8Array} matches
 */
function pathMatches(tree, matches) {
    const inside = new Uint8Array(tree.count);
    for (let i = 1; i < tree.count; i++)
        inside[i] = inside[tree.parent[i]] || (tree.isCode(i) ? matches[tree.func[i]] : 0);
    return inside;
}

/**
 * The nodes with the most cost of their own, without sorting all of them.
 * @param {Tree} tree
 * @param {Float64Array} self
 * @param {Uint8Array | null} chosen
 */
function costliest(tree, self, chosen) {
    /** @type {number[]} */
    let nodes = [];
    let least = 0;
    for (let i = 1; i < tree.count; i++) {
        if (!(self[i] > least) || (chosen && !chosen[i]))
            continue;
        nodes.push(i);
        if (nodes.length >= 4 * MOST_PATHS) {
            nodes.sort((a, b) => self[b] - self[a]);
            nodes = nodes.slice(0, MOST_PATHS);
            least = self[nodes[MOST_PATHS - 1]];
        }
    }
    return nodes.sort((a, b) => self[b] - self[a]).slice(0, MOST_PATHS);
}
