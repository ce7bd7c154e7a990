// SPDX-License-Identifier: MIT
// The tree read from the leaves up: under a function its callers, under these theirs. All values are those of the
// function it begins with, as far as they came along that path.

import { Tree } from "./tree.js";
import { KIND_FUNCTION, KIND_ROOT, LINE_MANY } from "./profile.js";

/** A row of such a tree; its children are made when they are asked for. */
export class Caller {
    /**
     * @param {Tree} tree
     * @param {number} func
     * @param {Caller | null} callee
     */
    constructor(tree, func, callee) {
        this.tree = tree;
        this.func = func;
        this.callee = callee;
        /** @type {number} */
        this.depth = callee ? callee.depth + 1 : 0;
        /** @type {number[]} by metric */
        this.self = tree.total.map(() => 0);
        /** @type {number[]} */
        this.total = tree.total.map(() => 0);
        this.returns = 0;
        /** @type {number[]} occurrences of the first function, which carry the cost */
        this.origins = [];
        /** @type {number[]} where each of them has come to */
        this.at = [];
        /** @type {Caller[] | null} */
        this.known = null;
    }

    /**
     * @param {number} origin
     * @param {number} at
     */
    arrive(origin, at) {
        const {tree} = this;
        this.origins.push(origin);
        this.at.push(at);
        this.returns += tree.returns[origin];
        const outermost = tree.outermost()[origin];
        for (let m = 0; m < this.self.length; m++) {
            this.self[m] += tree.self[m][origin];
            if (outermost)
                this.total[m] += tree.total[m][origin];
        }
    }

    /** Whether anything called it. */
    hasCallers() {
        if (this.known)
            return this.known.length > 0;
        this.gather();
        return this.at.some((node) => this.tree.isCode(this.tree.parent[node]));
    }

    /** The first of a path stands for all of its occurrences. */
    gather() {
        if (this.callee || this.origins.length > 0)
            return;
        const {start, list} = this.tree.occurrences(), outermost = this.tree.outermost();
        for (let i = start[this.func]; i < start[this.func + 1]; i++) {
            const node = list[i];
            // Deep recursion has very many that carry nothing.
            if (this.tree.isCode(node) && (outermost[node] || this.tree.self.some((column) => column[node] > 0))) {
                this.origins.push(node);
                this.at.push(node);
            }
        }
    }

    callers() {
        if (this.known)
            return this.known;
        this.gather();
        /** @type {Map<number, Caller>} */
        const found = new Map();
        for (let i = 0; i < this.at.length; i++) {
            const above = this.tree.parent[this.at[i]];
            if (above < 0 || !this.tree.isCode(above))
                continue;
            const func = this.tree.func[above];
            let caller = found.get(func);
            if (!caller)
                found.set(func, caller = new Caller(this.tree, func, this));
            caller.arrive(this.origins[i], above);
        }
        this.known = [...found.values()];
        return this.known;
    }
}

/**
 * A function, to be climbed from.
 * @param {Tree} tree
 * @param {number} func
 */
export function callerRoot(tree, func) {
    const root = new Caller(tree, func, null), sums = tree.byFunction();
    root.self = sums.self.map((column) => column[func]);
    root.total = sums.total.map((column) => column[func]);
    root.returns = sums.returns[func];
    return root;
}

/**
 * The callers of a function as a tree, whose root is that function.
 * @param {Tree} tree
 * @param {number} func
 * @param {number} metric callers of less than a share of it are left out
 * @param {number} share
 */
export function callersTree(tree, func, metric, share) {
    const first = callerRoot(tree, func), least = Math.max(first.total[metric], first.self[metric]) * share;
    /** @type {{row: Caller, parent: number}[]} */
    const rows = [{row: first, parent: -1}];
    for (let i = 0; i < rows.length; i++)
        for (const caller of rows[i].row.callers())
            if (caller.total[metric] > 0 && caller.total[metric] >= least)
                rows.push({row: caller, parent: i});
    const made = new Tree(tree.profile, rows.length);
    rows.forEach(({row, parent}, i) => made.append(parent, row.func, i === 0 ? KIND_ROOT : KIND_FUNCTION, LINE_MANY));
    made.self = tree.total.map((_, m) => Float64Array.from(rows, ({row}) => row.self[m]));
    made.total = tree.total.map((_, m) => Float64Array.from(rows, ({row}) => row.total[m]));
    made.returns = Float64Array.from(rows, ({row}) => row.returns);
    made.image = new Int32Array(0);
    return made;
}
