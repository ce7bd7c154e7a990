// SPDX-License-Identifier: MIT
// A calling context tree in columns. Parents stand before their children.

import { KIND_FUNCTION, LINE_MANY, Profile } from "./profile.js";

/**
 * @typedef {{start: Uint32Array, list: Uint32Array}} Children
 * @typedef {{x: Float64Array, width: Float64Array, depth: Int32Array, deepest: number}} Layout
 * @typedef {{self: Float64Array[], total: Float64Array[], returns: Float64Array}} Sums
 */

export class Tree {
    /**
     * @param {Profile} profile
     * @param {number} room nodes
     */
    constructor(profile, room) {
        this.profile = profile;
        this.count = 0;
        this.parent = new Int32Array(room);
        this.func = new Int32Array(room);
        this.kind = new Uint8Array(room);
        this.callLine = new Int32Array(room);
        this.returns = new Float64Array(room);
        /** @type {Float64Array[]} one for each metric, those that are made of others last */
        this.self = profile.meta.metrics.map(() => new Float64Array(room));
        /** @type {Float64Array[]} */
        this.total = [];
        /** @type {Int32Array} the node of each node of the profile; -1: it is not here */
        this.image = new Int32Array(0);
        /** @type {Map<number, Children>} */
        this.orders = new Map();
        /** @type {Map<number, Layout>} */
        this.layouts = new Map();
        /** @type {Uint8Array | null} */
        this.outermostNodes = null;
        /** @type {Sums | null} */
        this.functionSums = null;
        /** @type {Children | null} */
        this.occurrenceLists = null;
    }

    /**
     * @param {number} parent
     * @param {number} func
     * @param {number} kind
     * @param {number} callLine
     */
    append(parent, func, kind, callLine) {
        const node = this.count++;
        this.parent[node] = parent;
        this.func[node] = func;
        this.kind[node] = kind;
        this.callLine[node] = callLine;
        return node;
    }

    /**
     * Another call that leads to a node.
     * @param {number} node
     * @param {number} kind
     * @param {number} callLine
     */
    meet(node, kind, callLine) {
        if (this.kind[node] !== kind)
            this.kind[node] = KIND_FUNCTION;
        if (this.callLine[node] !== callLine)
            this.callLine[node] = LINE_MANY;
    }

    /** Sums up, when all nodes are there. */
    finish() {
        const count = this.count;
        this.parent = this.parent.subarray(0, count);
        this.func = this.func.subarray(0, count);
        this.kind = this.kind.subarray(0, count);
        this.callLine = this.callLine.subarray(0, count);
        this.returns = this.returns.subarray(0, count);
        this.self = this.self.map((column) => column.subarray(0, count));
        this.total = this.self.map((self) => {
            const total = self.slice();
            for (let i = count - 1; i > 0; i--)
                total[this.parent[i]] += total[i];
            return total;
        });
        this.addWaiting();
        return this;
    }

    /** Wall time less CPU time. Both are sampled: by chance, a part may have more than the whole that it is of. */
    addWaiting() {
        const waiting = this.profile.meta.waiting;
        if (!waiting)
            return;
        const {wall, cpu} = waiting, count = this.count;
        const self = new Float64Array(count), total = new Float64Array(count);
        for (let i = 0; i < count; i++) {
            total[i] = Math.max(0, this.total[wall][i] - this.total[cpu][i]);
            if (i > 0)
                total[i] = Math.min(total[i], total[this.parent[i]]);
            self[i] = Math.min(total[i], Math.max(0, this.self[wall][i] - this.self[cpu][i]));
        }
        this.self.push(self);
        this.total.push(total);
    }

    /** @param {number} node */
    isCode(node) {
        return this.kind[node] >= KIND_FUNCTION;
    }

    /**
     * The children of all nodes, the costliest first: those of n are list[start[n]] to list[start[n + 1] - 1].
     * @param {number} metric
     * @returns {Children}
     */
    children(metric) {
        const known = this.orders.get(metric);
        if (known)
            return known;
        const count = this.count, start = new Uint32Array(count + 2), list = new Uint32Array(count);
        for (let i = 1; i < count; i++)
            start[this.parent[i] + 2]++;
        for (let i = 2; i <= count; i++)
            start[i] += start[i - 1];
        for (let i = 1; i < count; i++)
            list[start[this.parent[i] + 1]++] = i;
        const total = this.total[metric];
        for (let i = 0; i < count; i++)
            sortRange(list, start[i], start[i + 1], total);
        const children = {start, list};
        this.orders.set(metric, children);
        return children;
    }

    /**
     * Where each node lies: as wide as its total, beside its siblings, within its parent.
     * @param {number} metric
     * @returns {Layout}
     */
    layout(metric) {
        const known = this.layouts.get(metric);
        if (known)
            return known;
        const {start, list} = this.children(metric), total = this.total[metric], count = this.count;
        const x = new Float64Array(count), width = new Float64Array(count), depth = new Int32Array(count);
        let deepest = 0;
        width[0] = total[0];
        for (let node = 0; node < count; node++) {
            const first = start[node], end = start[node + 1];
            if (first === end)
                continue;
            let below = 0;
            for (let i = first; i < end; i++)
                below += total[list[i]];
            // What is made of two metrics need not add up.
            const scale = below > width[node] ? width[node] / below : 1;
            const row = depth[node] + 1;
            deepest = Math.max(deepest, row);
            for (let i = first, at = x[node]; i < end; i++) {
                const child = list[i];
                x[child] = at;
                width[child] = total[child] * scale;
                depth[child] = row;
                at += width[child];
            }
        }
        const layout = {x, width, depth, deepest};
        this.layouts.set(metric, layout);
        return layout;
    }

    /** Of each node, whether its function is not on the path above it. */
    outermost() {
        if (this.outermostNodes)
            return this.outermostNodes;
        const {start, list} = this.children(0), count = this.count;
        const outermost = new Uint8Array(count), open = new Int32Array(this.profile.functions);
        outermost[0] = 1;
        const next = start.slice();
        for (let node = 0; node >= 0;) {
            if (next[node] < start[node + 1]) {
                node = list[next[node]++];
                outermost[node] = open[this.func[node]]++ === 0 ? 1 : 0;
            } else {
                open[this.func[node]]--;
                node = this.parent[node];
            }
        }
        this.outermostNodes = outermost;
        return outermost;
    }

    /**
     * The cost of each function; its total counts every path once.
     * @returns {Sums}
     */
    byFunction() {
        if (this.functionSums)
            return this.functionSums;
        const outermost = this.outermost(), functions = this.profile.functions;
        /** @param {Float64Array} column */
        const sum = (column) => {
            const sums = new Float64Array(functions);
            for (let i = 0; i < this.count; i++)
                if (this.isCode(i))
                    sums[this.func[i]] += column[i];
            return sums;
        };
        /** @param {Float64Array} column */
        const sumOutermost = (column) => {
            const sums = new Float64Array(functions);
            for (let i = 0; i < this.count; i++)
                if (outermost[i] && this.isCode(i))
                    sums[this.func[i]] += column[i];
            return sums;
        };
        this.functionSums = {self: this.self.map(sum), total: this.total.map(sumOutermost), returns: sum(this.returns)};
        // A sum of what others have waited for may be more than there was.
        if (this.profile.meta.waiting) {
            const {wall, cpu} = this.profile.meta.waiting, {self, total} = this.functionSums;
            const last = this.profile.meta.metrics.length;
            for (let f = 0; f < functions; f++) {
                total[last][f] = Math.min(this.total[last][0], Math.max(0, total[wall][f] - total[cpu][f]));
                self[last][f] = Math.min(total[last][f], Math.max(0, self[wall][f] - self[cpu][f]));
            }
        }
        return this.functionSums;
    }

    /**
     * The nodes of each function.
     * @returns {Children}
     */
    occurrences() {
        if (this.occurrenceLists)
            return this.occurrenceLists;
        const start = new Uint32Array(this.profile.functions + 2), list = new Uint32Array(this.count);
        for (let i = 0; i < this.count; i++)
            start[this.func[i] + 2]++;
        for (let i = 2; i < start.length; i++)
            start[i] += start[i - 1];
        for (let i = 0; i < this.count; i++)
            list[start[this.func[i] + 1]++] = i;
        this.occurrenceLists = {start, list};
        return this.occurrenceLists;
    }

    /**
     * The functions from the root down to a node, without the root.
     * @param {number} node
     */
    path(node) {
        const path = [];
        for (; node > 0; node = this.parent[node])
            path.push(this.func[node]);
        return path.reverse();
    }

    /**
     * The node at the end of a path, or as far as the path leads.
     * @param {number[]} path
     */
    find(path) {
        const {start, list} = this.children(0);
        let node = 0;
        for (const func of path) {
            let found = -1;
            for (let i = start[node]; i < start[node + 1] && found < 0; i++)
                if (this.func[list[i]] === func)
                    found = list[i];
            if (found < 0)
                break;
            node = found;
        }
        return node;
    }

    /**
     * The cost of all paths that go through functions that match; each path counts once.
     * @param {Uint8Array} matches by function
     * @param {number} metric
     */
    matching(matches, metric) {
        const inside = new Uint8Array(this.count), total = this.total[metric];
        let cost = 0, nodes = 0;
        for (let i = 1; i < this.count; i++) {
            const match = this.isCode(i) && matches[this.func[i]];
            nodes += match ? 1 : 0;
            inside[i] = inside[this.parent[i]];
            if (match && !inside[i]) {
                inside[i] = 1;
                cost += total[i];
            }
        }
        return {cost: Math.min(cost, total[0]), nodes};
    }
}

/**
 * Sorts a part of a list of nodes, the costliest first; equal ones stay in their order. Most parts are short, or
 * sorted already.
 * @param {Uint32Array} list
 * @param {number} begin
 * @param {number} end
 * @param {Float64Array} cost
 */
function sortRange(list, begin, end, cost) {
    let sorted = true;
    for (let i = begin + 1; i < end && sorted; i++)
        sorted = cost[list[i - 1]] >= cost[list[i]];
    if (sorted)
        return;
    if (end - begin > 24) {
        list.subarray(begin, end).sort((a, b) => cost[b] - cost[a] || a - b);
        return;
    }
    for (let i = begin + 1; i < end; i++) {
        const node = list[i];
        let at = i;
        for (; at > begin && cost[list[at - 1]] < cost[node]; at--)
            list[at] = list[at - 1];
        list[at] = node;
    }
}
