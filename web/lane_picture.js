// SPDX-License-Identifier: MIT
// The lanes of threads, side by side in time: each column as high as the thread was busy, in the colour of the function
// that has the most of it.

import { nice } from "./numbers.js";
import { Session } from "./session.js";
import { addCosts, functionsAt, functionsOnLevel, layLane, levelsOf } from "./timeline.js";

/**
 * @typedef {import("./colour.js").Theme} Theme
 * @typedef {import("./timeline.js").Lane} Lane
 * @typedef {import("./timeline.js").Laid} Laid
 * @typedef {import("./timeline.js").Range} Range
 * @typedef {{lane: Lane, name: string, title: string}} NamedLane
 * What a place of a picture is about; the function is -1 where nothing was sampled.
 * @typedef {{text: string, func: number, cost: number, size: number, from: number, to: number}} Spot
 */

export const COLUMN = 2; // pixels
const MAIN_THREAD = "main thread";

/** @param {string} name "pigz [123]" */
function withoutNumber(name) {
    return name.replace(/ \[\d+\]$/, "");
}

/**
 * Threads that have charges, in the order of the tree, then of their beginning.
 * @param {Session} session
 * @returns {NamedLane[]}
 */
export function lanesOf(session) {
    const {timeline, parent, func} = session.profile, hidden = new Set(session.state.hidden);
    if (!timeline)
        return [];
    const several = session.hasSeveralProcesses, {time} = timeline;
    return timeline.lanes.filter(({thread, outside}) => !outside && !hidden.has(thread) && !hidden.has(parent[thread]))
        .sort((a, b) => parent[a.thread] - parent[b.thread] || time[a.first] - time[b.first] || a.tid - b.tid)
        .map((lane) => {
            const thread = withoutNumber(session.name(func[lane.thread])), process = session.name(func[Math.max(0, parent[lane.thread])]);
            const name = several && thread === MAIN_THREAD ? withoutNumber(process) : thread;
            return {lane, name: `${name} [${lane.tid}]`, title: `${thread} [${lane.tid}]${several ? ` of ${process}` : ""}`};
        });
}

export const AS_CHOSEN = -1; // a level: that of the state

/** Costs over time, laid out for what is asked for, and remembered until something else is. */
export class Lays {
    /** @param {Session} session */
    constructor(session) {
        this.session = session;
        /** @type {import("./tree.js").Tree | null} */
        this.tree = null;
        this.depth = -1;
        /** @type {Map<number, Int32Array>} functions of targets by level */
        this.shown = new Map();
        this.levels = new Int32Array(0);
        this.deepest = 0;
        this.key = "";
        /** @type {Map<string, Laid>} */
        this.known = new Map();
    }

    update() {
        const {session} = this, tree = session.wholeTree, {depth} = session.state;
        if (tree === this.tree && depth === this.depth)
            return;
        if (tree !== this.tree) {
            this.levels = levelsOf(session.profile, tree);
            this.deepest = this.levels.reduce((a, b) => Math.max(a, b), 0);
        }
        this.tree = tree;
        this.depth = depth;
        this.shown.clear();
        this.key = "";
    }

    /**
     * The function of each target.
     * @param {number} level
     */
    functions(level) {
        this.update();
        const {session, tree, depth, levels} = this, {profile} = session;
        let shown = this.shown.get(level);
        if (!shown && tree) {
            shown = level === AS_CHOSEN ? functionsAt(profile, tree, depth) : functionsOnLevel(profile, tree, levels, level);
            this.shown.set(level, shown);
        }
        return shown ?? new Int32Array(0);
    }

    /** The metrics that the one on view is made of: waiting is wall time less CPU time. */
    get parts() {
        const {profile, metric} = this.session, {waiting} = profile.meta;
        return metric.index >= profile.self.length && waiting ? {first: waiting.wall, less: waiting.cpu} : {first: metric.index, less: -1};
    }

    /**
     * @param {Lane} lane
     * @param {Range} range
     * @param {number} columns
     * @param {number} level
     * @returns {Laid}
     */
    of(lane, range, columns, level = AS_CHOSEN) {
        const {profile, metric} = this.session, {timeline} = profile, shown = this.functions(level);
        const key = `${metric.index} ${range.from} ${range.to} ${columns}`;
        if (key !== this.key)
            this.known.clear();
        this.key = key;
        const name = `${lane.first} ${level}`, {first, less} = this.parts;
        let laid = this.known.get(name);
        if (!laid && timeline) {
            /** @param {number} one */
            const lay = (one) => layLane(profile, timeline, lane, {metric: one, range, columns, shown});
            laid = lay(first);
            if (less >= 0)
                subtract(laid, lay(less).cost);
            this.known.set(name, laid);
        }
        return laid ?? {cost: new Float64Array(columns), func: new Int32Array(columns).fill(-1)};
    }

    /**
     * What was charged to each function in a range.
     * @param {NamedLane[]} lanes
     * @param {Range} range
     */
    costs(lanes, range) {
        const {timeline, functions} = this.session.profile, {first, less} = this.parts, sums = new Float64Array(functions);
        const shown = this.functions(AS_CHOSEN), these = lanes.map(({lane}) => lane);
        if (timeline)
            addCosts(timeline, these, {metric: first, range, shown, sign: 1}, sums);
        if (timeline && less >= 0)
            addCosts(timeline, these, {metric: less, range, shown, sign: -1}, sums);
        return sums;
    }
}

/**
 * Waiting is wall time less CPU time.
 * @param {Laid} laid
 * @param {Float64Array} less
 */
function subtract(laid, less) {
    for (let i = 0; i < less.length; i++)
        laid.cost[i] = Math.max(0, laid.cost[i] - less[i]);
}

/**
 * Where the marks of an axis are.
 * @param {Range} range
 * @param {number} most
 */
export function ticksOf({from, to}, most) {
    const step = nice((to - from) / Math.max(1, most)), ticks = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step)
        ticks.push(at);
    return {step, ticks};
}
