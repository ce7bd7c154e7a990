// SPDX-License-Identifier: MIT
// The numbers that all tables have: inclusive and exclusive cost in every metric, calls, and the cost of a call.

import { amount, amountEach, exactAmount, grouped, percent, ratioText, signed } from "./numbers.js";
import { Session } from "./session.js";

/**
 * @typedef {import("./table.js").Cell} Cell
 * @typedef {import("./table.js").Column} Column
 * @typedef {{self: (metric: number) => number, total: (metric: number) => number, returns: number,
 *   counted: boolean}} Numbers counted: whether calls of it can be counted
 */

/** @type {{[name: string]: string}} */
const MEANINGS = {
    cpu: "time on a processor",
    wall: "time that passed, waiting included",
    waiting: "wall time less CPU time",
    calls: "how often functions were called",
    alloc: "bytes that were allocated",
    allocs: "blocks that were allocated",
    freed: "bytes of these that were freed, wherever that was",
    frees: "blocks of these that were freed",
    live: "bytes of these that were never freed",
    "live-blocks": "blocks of these that were never freed",
    "live-age": "bytes of these, times the seconds since they were allocated",
    peak: "bytes that were live when most memory was",
    "peak-blocks": "blocks that were live when most memory was",
    temporary: "blocks that were freed before their thread allocated another one",
    mapped: "bytes of address space that the program mapped",
    unmapped: "bytes of these that it gave back, wherever that was",
    io: "bytes read and written",
    read: "bytes read",
    written: "bytes written",
    "io-ops": "operations on files, pipes and sockets",
    "io-time": "time that these operations took, waiting included",
    lock: "time spent waiting for locks",
    contended: "how often a lock was busy",
    acquired: "how often a lock was taken",
    blame: "time that others waited for a lock that was taken here",
    sync: "time spent waiting for conditions, semaphores, barriers and the end of threads",
    syncs: "how often these were waited for",
    offcpu: "time off the processor, waiting for whatever it is",
    "offcpu-lock": "of this, waiting for locks and other threads",
    "offcpu-io": "of this, waiting for files, pipes and sockets",
    "offcpu-sleep": "of this, sleeping for a time",
    "offcpu-queue": "of this, ready to run while others ran",
    waits: "how often a thread left the processor",
};

/**
 * @param {string} metric its name
 * @returns {string} empty if it is not known
 */
export function meaningOf(metric) {
    return Object.hasOwn(MEANINGS, metric) ? MEANINGS[metric] : "";
}

/**
 * @param {Session} session
 * @param {string} nameTitle
 * @param {number} nameWidth
 * @returns {Column[]}
 */
export function columnsOf(session, nameTitle, nameWidth) {
    const {metric, metrics, callsMetric, tree} = session;
    /**
     * @param {number} of
     * @returns {Column[]}
     */
    const ratios = (of) => session.ratiosOf(of).map(({name, meaning}) =>
        ({key: "ratio:" + name, title: name, hint: `${meaning}, with all it calls`, width: 88}));
    /** @type {Column[]} */
    const columns = [
        {key: "total", title: "total", hint: `${metric.name} of a function with all it calls`, width: 70},
        {key: "total#", title: metric.name, hint: "the same as an amount", width: 84},
        {key: "self", title: "self", hint: `${metric.name} of the function alone`, width: 70},
        {key: "self#", title: metric.name, hint: "the same as an amount", width: 84},
    ];
    if (metric.before >= 0)
        columns.push({key: "change", title: "change", hint: `by how much ${metric.name} with all callees is more than it was, of all`, width: 80},
            {key: "change#", title: metric.name, hint: "the same as an amount", width: 88},
            {key: "own", title: "own", hint: `by how much ${metric.name} of the function alone is more than it was, of all`, width: 74});
    if (callsMetric >= 0 && metric.index !== callsMetric) {
        columns.push({key: "calls", title: "calls", hint: "how often it was called on these paths", width: 84},
            {key: "each", title: "per call", hint: `${metric.name} of one call, with all it calls`, width: 78});
    } else if (tree.returns.some((count) => count > 0)) {
        columns.push({key: "returns", title: "returns", hint: "how often it was seen to return between samples; " +
            "not a count of calls", width: 70});
    }
    columns.push(...ratios(metric.index), {key: "name", title: nameTitle, hint: "sort by name", width: nameWidth, name: true});
    for (const other of metrics) {
        if (other.index === metric.index || other.index === callsMetric)
            continue;
        columns.push({key: "total:" + other.index, title: other.name,
            hint: `${other.name} with all it calls${meaningOf(other.name) && ": "}${meaningOf(other.name)}`, width: 88});
        columns.push({key: "self:" + other.index, title: "self", hint: `${other.name} of the function alone`, width: 78},
            ...ratios(other.index));
    }
    return columns;
}

/**
 * What a column is sorted by.
 * @param {Session} session
 * @param {string} key
 * @param {Numbers} numbers
 */
export function sortValue(session, key, numbers) {
    const [word, index] = key.split(":"), ratio = session.ratioNamed(index);
    if (word === "ratio")
        return ratio && numbers.total(ratio.over) > 0 ? numbers.total(ratio.of) / numbers.total(ratio.over) : 0;
    const metric = index ? Number(index) : session.metric.index;
    const calls = session.callsMetric >= 0 && numbers.counted ? numbers.self(session.callsMetric) : 0;
    switch (word) {
    case "self":
    case "self#":
        return numbers.self(metric);
    case "calls":
        return calls;
    case "each":
        return session.perCall(numbers.total(metric), calls, metric);
    case "returns":
        return numbers.returns;
    case "change":
    case "change#":
        return numbers.total(metric) - numbers.total(session.metric.before);
    case "own":
        return numbers.self(metric) - numbers.self(session.metric.before);
    default:
        return numbers.total(metric);
    }
}

/**
 * "≈ 12 samples"; "" where nothing was sampled.
 * @param {Session} session
 * @param {number} value
 */
export function samplesText(session, value) {
    const {sampleWeight} = session.metric;
    if (!(sampleWeight > 0) || value === 0)
        return "";
    const count = Math.max(1, Math.round(value / sampleWeight));
    // 19 times of 20.
    const off = count < 100 ? `, ±${Math.round(196 / Math.sqrt(count + 3.84))} % by chance` : "";
    return `≈ ${grouped(count)} sample${count === 1 ? "" : "s"}${off}`;
}

/**
 * By how much a value may be too large, in a tree that forgets: " ±3 ms".
 * @param {Session} session
 * @param {number} error
 */
export function boundText(session, error) {
    return error > 0 ? " ±" + amount(error, session.metric.unit) : "";
}

/**
 * @param {string} text
 * @param {number} change
 * @param {boolean} [noise] it may be chance
 * @returns {Cell}
 */
export function changeCell(text, change, noise) {
    return change === 0 ? {text: ""}
        : noise ? {text: signed(text), dim: true, title: "may be noise"} : {text: signed(text), tone: change > 0 ? "costlier" : "cheaper"};
}

/**
 * The cells beside a name.
 * @param {Session} session
 * @param {Column[]} columns
 * @param {Numbers} numbers
 * @param {Cell} name
 * @returns {Cell[]}
 */
export function cellsOf(session, columns, numbers, name) {
    const {metric, metrics, callsMetric, tree} = session, whole = tree.total[metric.index][0];
    const total = numbers.total(metric.index), self = numbers.self(metric.index);
    const calls = callsMetric >= 0 && numbers.counted ? numbers.self(callsMetric) : 0;
    const {error, named} = metric, noise = named >= 0 && numbers.total(named) === 0, before = metric.before < 0 ? 0 : tree.total[metric.before][0] || whole;
    /**
     * @param {number} value
     * @param {number} bound
     */
    const hint = (value, bound) => exactAmount(value, metric.unit) + boundText(session, bound) +
        (samplesText(session, value) && ", " + samplesText(session, value));
    return columns.map(({key}) => {
        switch (key) {
        case "total":
            return {text: percent(total, whole), share: whole > 0 ? total / whole : 0, title: hint(total, error < 0 ? 0 : numbers.total(error))};
        case "total#":
            return {text: amount(total, metric.unit), dim: true};
        case "self":
            return {text: self > 0 ? percent(self, whole) + (error >= 0 && numbers.self(error) > 0.0005 * whole ? " ±" : "") : "",
                share: whole > 0 ? self / whole : 0, strong: self >= 0.05 * whole, title: hint(self, error < 0 ? 0 : numbers.self(error))};
        case "self#":
            return {text: self > 0 ? amount(self, metric.unit) : "", dim: true};
        case "calls":
            return {text: calls > 0 ? amount(calls, "") : "", title: calls > 0 ? grouped(calls) : ""};
        case "each":
            return {text: calls > 0 ? amountEach(session.perCall(total, calls, metric.index), metric.unit) : ""};
        case "returns":
            return {text: numbers.returns > 0 ? grouped(numbers.returns) : "", dim: true};
        case "change":
            return changeCell(percent(total - numbers.total(metric.before), before), total - numbers.total(metric.before), noise);
        case "change#":
            return changeCell(amount(total - numbers.total(metric.before), metric.unit), total - numbers.total(metric.before), noise);
        case "own":
            return changeCell(percent(self - numbers.self(metric.before), before), self - numbers.self(metric.before), numbers.self(named) === 0);
        case "name":
            return name;
        }
        const [word, index] = key.split(":"), ratio = session.ratioNamed(index);
        if (word === "ratio")
            return {text: ratio ? ratioText(numbers.total(ratio.of), numbers.total(ratio.over), ratio.unit) : ""};
        const other = metrics.find((one) => one.index === Number(index));
        if (!other)
            return {text: ""};
        const value = word === "self" ? numbers.self(other.index) : numbers.total(other.index);
        return {text: value > 0 ? amount(value, other.unit) : "", dim: word === "self", title: exactAmount(value, other.unit)};
    });
}
