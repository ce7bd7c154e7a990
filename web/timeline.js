// SPDX-License-Identifier: MIT
// What was charged when: the costs of a part of the recording, and how costs lie over time.

import { FLAG_STARTUP, Profile } from "./profile.js";
import { Tree } from "./tree.js";

/**
 * @typedef {import("./profile.js").Timeline} Timeline
 * @typedef {import("./profile.js").Lane} Lane
 * @typedef {{from: number, to: number}} Range in nanoseconds; its end is not part of it
 * What is left of a profile: costs of nodes, lines and rows of instructions by metric; nodes that have any below them.
 * @typedef {{self: Float64Array[], lines: Float64Array[], rows: Float64Array[], kept: Uint8Array}} Part
 * Costs by column, and the function that has the most of each; -1: no cost.
 * @typedef {{cost: Float64Array, func: Int32Array}} Laid
 */

/**
 * The first charge of a lane at a time or after it.
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {number} time
 */
function firstAt(timeline, lane, time) {
    let {first: begin, end} = lane;
    while (begin < end) {
        const middle = (begin + end) >>> 1;
        if (timeline.time[middle] < time)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/**
 * The costs that were charged in a range.
 * @param {Profile} profile
 * @param {Timeline} timeline
 * @param {Range} range
 * @returns {Part}
 */
export function partOf(profile, timeline, range) {
    const {count, lineCount, lineNode, code} = profile, {target, weight, metric} = timeline;
    const self = profile.self.map(() => new Float64Array(count));
    const lines = profile.lineValues.map(() => new Float64Array(profile.lineCount));
    const rows = profile.lineValues.map(() => new Float64Array(code?.rows ?? 0)), kept = new Uint8Array(count);
    for (const lane of timeline.lanes) {
        const end = firstAt(timeline, lane, range.to);
        for (let i = firstAt(timeline, lane, range.from); i < end; i++) {
            const row = target[i] - count - lineCount, line = row >= 0 && code ? code.rowLine[row] - 1 : target[i] - count;
            const node = row >= 0 && code ? code.rowNode[row] : line < 0 ? target[i] : lineNode[line];
            self[metric[i]][node] += weight[i];
            kept[node] = 1;
            if (line >= 0)
                lines[metric[i]][line] += weight[i];
            if (row >= 0)
                rows[metric[i]][row] += weight[i];
        }
    }
    for (let i = count - 1; i > 0; i--)
        if (kept[i])
            kept[profile.parent[i]] = 1;
    return {self, lines, rows, kept};
}

/**
 * Of each node of a tree, how many calls it is below where the program's own code begins. -1: it is above.
 * @param {Profile} profile
 * @param {Tree} tree
 */
export function levelsOf({flags}, tree) {
    const levels = new Int32Array(tree.count).fill(-1);
    for (let i = 1; i < tree.count; i++) {
        const above = levels[tree.parent[i]], begins = tree.isCode(i) && !(flags[tree.func[i]] & FLAG_STARTUP);
        levels[i] = above >= 0 || begins ? above + 1 : -1;
    }
    return levels;
}

/**
 * Of each target, the function of the node that stands for its own node. -1: none does, or the tree does not have it.
 * @param {Profile} profile
 * @param {Tree} tree
 * @param {Int32Array} stands
 */
function functionsOf({count, lineCount, lineNode, code}, tree, stands) {
    const shown = new Int32Array(count + lineCount + (code?.rows ?? 0)).fill(-1);
    for (let i = 0; i < count; i++) {
        const node = tree.image[i];
        if (node >= 0 && stands[node] >= 0)
            shown[i] = tree.func[stands[node]];
    }
    for (let i = 0; i < lineCount; i++)
        shown[count + i] = shown[lineNode[i]];
    for (let i = 0; code && i < code.rows; i++)
        shown[count + lineCount + i] = shown[code.rowNode[i]];
    return shown;
}

/**
 * Of each target, the function that stands for it: so many calls below where the program's own code begins, or the
 * innermost one (0). -1: the tree does not have it.
 * @param {Profile} profile
 * @param {Tree} tree
 * @param {number} depth
 */
export function functionsAt(profile, tree, depth) {
    const levels = levelsOf(profile, tree), stands = new Int32Array(tree.count);
    for (let i = 1; i < tree.count; i++)
        stands[i] = depth > 0 && levels[tree.parent[i]] >= depth ? stands[tree.parent[i]] : i;
    return functionsOf(profile, tree, stands);
}

/**
 * The same at one level alone. -1: the path of the target does not reach it.
 * @param {Profile} profile
 * @param {Tree} tree
 * @param {Int32Array} levels
 * @param {number} level
 */
export function functionsOnLevel(profile, tree, levels, level) {
    const stands = new Int32Array(tree.count).fill(-1);
    for (let i = 1; i < tree.count; i++)
        stands[i] = levels[i] === level ? i : levels[i] > level ? stands[tree.parent[i]] : -1;
    return functionsOf(profile, tree, stands);
}

/**
 * Adds what was charged in a range, by the function that stands for it.
 * @param {Timeline} timeline
 * @param {Lane[]} lanes
 * @param {{metric: number, range: Range, shown: Int32Array, sign: 1 | -1}} how
 * @param {Float64Array} sums
 */
export function addCosts(timeline, lanes, {metric, range, shown, sign}, sums) {
    for (const lane of lanes) {
        const end = firstAt(timeline, lane, range.to);
        for (let i = firstAt(timeline, lane, range.from); i < end; i++) {
            const func = shown[timeline.target[i]];
            if (timeline.metric[i] === metric && func >= 0)
                sums[func] += sign * timeline.weight[i];
        }
    }
}

/** Which function has the most of a column, while its costs come in. */
class Most {
    /** @param {number} functions */
    constructor(functions) {
        this.cost = new Float64Array(functions);
        /** @type {number[]} */
        this.met = [];
    }

    /**
     * @param {number} func
     * @param {number} cost
     */
    add(func, cost) {
        if (this.cost[func] === 0)
            this.met.push(func);
        this.cost[func] += cost;
    }

    /** The function; -1: there is none. Begins anew. */
    take() {
        let most = -1;
        for (const func of this.met)
            if (most < 0 || this.cost[func] > this.cost[most])
                most = func;
        for (const func of this.met)
            this.cost[func] = 0;
        this.met.length = 0;
        return most;
    }
}

/**
 * Lays the charges of a lane over the time that each stands for, which ends when it was made.
 * @param {Profile} profile
 * @param {Timeline} timeline
 * @param {Lane} lane
 * @param {{metric: number, range: Range, columns: number, shown: Int32Array}} how shown is that of functionsAt()
 * @returns {Laid}
 */
export function layLane(profile, timeline, lane, {metric, range, columns, shown}) {
    const cost = new Float64Array(columns), func = new Int32Array(columns).fill(-1), most = new Most(profile.functions);
    const {from, to} = range, size = (to - from) / columns;
    let column = 0;
    /** @param {number} next */
    const goTo = (next) => {
        func[column] = most.take();
        column = next;
    };
    for (let i = firstAt(timeline, lane, from); i < lane.end; i++) {
        const end = Math.min(to, timeline.time[i]), begin = Math.max(from, timeline.time[i] - timeline.weight[i]);
        if (timeline.metric[i] !== metric)
            continue;
        if (begin >= to)
            break;
        const one = shown[timeline.target[i]];
        if (one < 0 || end <= begin)
            continue;
        const last = Math.min(columns - 1, Math.ceil((end - from) / size) - 1);
        for (let at = Math.min(last, Math.floor((begin - from) / size)); at <= last; at++) {
            const part = Math.min(end, from + (at + 1) * size) - Math.max(begin, from + at * size);
            cost[at] += part;
            if (at > column)
                goTo(at);
            if (at === column)
                most.add(one, part);
        }
    }
    goTo(column);
    return {cost, func};
}
