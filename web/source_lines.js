// SPDX-License-Identifier: MIT
// What the lines and the instructions of a function cost, in all contexts that are shown.

import { KIND_FUNCTION, LINE_FIRST, Profile } from "./profile.js";
import { Session } from "./session.js";

/**
 * The cost of a line: its own, with what is called on it, and how many calls are counted there.
 * @typedef {{self: number, total: number, calls: number}} LineCost
 * Costs by file, and in it by line. Line 0: not known.
 * @typedef {Map<number, Map<number, LineCost>>} FileCosts
 */

/**
 * @param {FileCosts} costs
 * @param {number} file
 * @param {number} line
 */
function costAt(costs, file, line) {
    let lines = costs.get(file);
    if (!lines)
        costs.set(file, lines = new Map());
    let cost = lines.get(line);
    if (!cost)
        lines.set(line, cost = {self: 0, total: 0, calls: 0});
    return cost;
}

/**
 * @param {Session} session
 * @param {number} func
 * @returns {FileCosts}
 */
export function lineCosts(session, func) {
    const {profile, tree, metric} = session, values = session.lineValues[metric.index];
    /** @type {FileCosts} */
    const costs = new Map();
    for (let i = 0; values && i < profile.lineCount; i++) {
        const node = tree.image[profile.lineNode[i]] ?? -1;
        if (values[i] === 0 || node < 0 || tree.func[node] !== func)
            continue;
        const cost = costAt(costs, profile.lineFile[i], profile.lineNumber[i]);
        cost.self += values[i];
        cost.total += values[i];
    }
    const own = profile.file[func] - 1;
    const told = [...costs.values()].flatMap((lines) => [...lines.values()]).reduce((all, {self}) => all + self, 0);
    const rest = tree.byFunction().self[metric.index][func] - told;
    if (rest > 0) {
        const cost = costAt(costs, own, 0);
        cost.self += rest;
        cost.total += rest;
    }
    addCalls(session, func, (line) => costAt(costs, own, line));
    return costs;
}

/**
 * What each recorded node costs with all below it, as far as that is shown.
 * @param {Session} session
 * @param {number} metric
 */
function shownTotals(session, metric) {
    const {profile, tree} = session, total = (session.part?.self ?? profile.self)[metric].slice();
    for (let i = profile.count - 1; i > 0; i--) {
        if (tree.image[i] < 0)
            total[i] -= (session.part?.self ?? profile.self)[metric][i];
        total[profile.parent[i]] += total[i];
    }
    return total;
}

/**
 * The same of the metric that is looked at.
 * @param {Session} session
 */
function totalsOfMetric(session) {
    const {index} = session.metric, {metrics, waiting} = session.profile.meta;
    if (index < metrics.length || !waiting)
        return shownTotals(session, index);
    const cpu = shownTotals(session, waiting.cpu);
    return shownTotals(session, waiting.wall).map((wall, i) => Math.max(0, wall - cpu[i]));
}

/**
 * Adds the calls that a function makes to its lines. Recorded nodes have the lines of their calls, if only with the code.
 * @param {Session} session
 * @param {number} func
 * @param {(line: number) => LineCost} lineAt
 */
function addCalls(session, func, lineAt) {
    const {profile, tree, callsMetric} = session, {count, parent, callLine} = profile, total = totalsOfMetric(session);
    const calls = callsMetric >= 0 ? (session.part?.self ?? profile.self)[callsMetric] : null, inside = new Uint8Array(count);
    for (let i = 1; i < count; i++) {
        const caller = parent[i], isCall = profile.func[caller] === func && profile.kind[caller] >= KIND_FUNCTION;
        inside[i] = inside[caller] || isCall ? 1 : 0;
        if (!isCall || tree.image[caller] < 0 || tree.image[i] < 0)
            continue;
        const cost = lineAt(Math.max(0, callLine[i] - LINE_FIRST + 1));
        if (!inside[caller] || !isInside(profile, i))
            cost.total += total[i];
        cost.calls += calls?.[i] ?? 0;
    }
}

/**
 * Whether the same call stands on the path above: its total has this one's.
 * @param {Profile} profile
 * @param {number} node
 */
function isInside({parent, func, callLine}, node) {
    for (let at = parent[node]; at > 0; at = parent[at])
        if (func[parent[at]] === func[parent[node]] && callLine[at] === callLine[node])
            return true;
    return false;
}

/**
 * The machine code of a function; of one that is inlined everywhere, that of the functions that hold it.
 * @param {Session} session
 * @param {number} func
 */
export function piecesOf(session, func) {
    const {code} = session.profile, {tree} = session;
    if (!code)
        return [];
    const own = code.pieces.filter((piece) => piece.func === func);
    if (own.length > 0)
        return own;
    const held = new Uint8Array(code.address.length);
    for (let row = 0; row < code.rows; row++) {
        const node = tree.image[code.rowNode[row]];
        if (node >= 0 && tree.func[node] === func)
            held[code.rowInstruction[row]] = 1;
    }
    return code.pieces.filter(({first, end}) => held.subarray(first, end).includes(1));
}

/**
 * The cost of each instruction, in what is shown; of an inlined function's holders, its own part alone.
 * @param {Session} session
 * @param {number} func -1: whatever the function
 */
export function instructionCosts(session, func) {
    const {code} = session.profile, {tree, metric} = session, values = session.rowValues[metric.index];
    const costs = new Float64Array(code?.address.length ?? 0);
    for (let row = 0; code && values && row < code.rows; row++) {
        const node = tree.image[code.rowNode[row]];
        if (node >= 0 && (func < 0 || tree.func[node] === func))
            costs[code.rowInstruction[row]] += values[row];
    }
    return costs;
}
