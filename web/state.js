// SPDX-License-Identifier: MIT
// What is looked at, as the part of the page's address behind the #: a link keeps it, and the browser's history is
// the way back.

import { Profile } from "./profile.js";

/**
 * @typedef {import("./refine.js").StepKind} StepKind
 * @typedef {import("./merge.js").Grouping} Grouping
 * @typedef {{kind: StepKind, func: number, pattern: string}} Step func is -1 where a pattern chooses functions
 * @typedef {"flame" | "tree" | "callers" | "functions" | "sandwich" | "paths" | "locks" | "changes" | "time" | "source"} ViewName
 * @typedef {"module" | "function" | "cost" | "change"} ColourMode
 * @typedef {"new" | "old" | "both"} Side which side of a diff a picture's widths are of
 * @typedef {"threads" | "heat"} Lanes how the view of time is drawn
 * @typedef {{view: ViewName, metric: number, apart: Grouping, hidden: number[], withoutPhase: boolean, steps: Step[],
 *   search: string, zoom: number[], colour: ColourMode, side: Side, upward: boolean, fold: boolean, func: number,
 *   sort: string, from: number, to: number, lanes: Lanes, depth: number}} State from and to, in nanoseconds: the part of
 *   the recording that is looked at, all of it where to is 0; depth: of the functions in the view of time
 */

/** @type {ViewName[]} */
export const VIEWS = ["flame", "tree", "callers", "functions", "sandwich", "paths", "locks", "changes", "time", "source"];
/** @type {Lanes[]} */
const LANES = ["threads", "heat"];
export const DEEPEST = 12; // that the view of time is asked for
/** @type {Side[]} */
export const SIDES = ["new", "old", "both"];
/** @type {ColourMode[]} */
const COLOURS = ["module", "function", "cost"];
/** @type {ColourMode[]} */
const DIFF_COLOURS = ["change", ...COLOURS];
/** @type {Grouping[]} */
export const GROUPINGS = ["none", "process", "thread", "phase"];
/** @type {StepKind[]} */
const STEPS = ["through", "below", "without", "fold"];

// Longer names, and those that several functions have, are told by their number.
const LONGEST_NAME = 100;

/**
 * The colours that a page has; the first is the default.
 * @param {Profile} profile
 */
export function coloursOf(profile) {
    return profile.meta.diff ? DIFF_COLOURS : COLOURS;
}

/**
 * @param {Profile} profile
 * @returns {State}
 */
export function initialState(profile) {
    return {view: "flame", metric: 0, apart: "none", hidden: [], withoutPhase: true, steps: [], search: "", zoom: [],
        colour: coloursOf(profile)[0], side: "new", upward: false, fold: false, func: -1, sort: "",
        from: 0, to: 0, lanes: "threads", depth: 0};
}

/**
 * The metric of a diff without the side that it is of.
 * @param {string} name
 */
export function newName(name) {
    return name.replace(/ \(new\)$/, "");
}

/** Functions by their name in an address. */
export class FunctionNames {
    /** @param {Profile} profile */
    constructor(profile) {
        this.profile = profile;
        /** @type {Map<string, number> | null} */
        this.index = null;
    }

    byName() {
        if (!this.index) {
            this.index = new Map();
            for (let f = 0; f < this.profile.functions; f++) {
                const name = this.profile.names.get(f);
                this.index.set(name, this.index.has(name) ? -1 : f);
            }
        }
        return this.index;
    }

    /** @param {number} func */
    tell(func) {
        const name = this.profile.names.get(func);
        const plain = name.length <= LONGEST_NAME && !name.startsWith("#") && this.byName().get(name) === func;
        return plain ? name : "#" + func;
    }

    /**
     * -1: there is none.
     * @param {string} text
     */
    find(text) {
        if (/^#\d+$/.test(text)) {
            const func = Number(text.slice(1));
            return func < this.profile.functions ? func : -1;
        }
        return this.byName().get(text) ?? -1;
    }
}

/**
 * @template {string} T
 * @param {string | null} text
 * @param {T[]} words the first is the default
 * @returns {T}
 */
function choice(text, words) {
    return words.find((word) => word === text) ?? words[0];
}

/**
 * @param {State} state
 * @param {FunctionNames} names
 */
export function toHash(state, names) {
    const hash = new URLSearchParams(), usual = initialState(names.profile);
    /**
     * @param {string} key
     * @param {string} value
     * @param {boolean} isUsual
     */
    const put = (key, value, isUsual) => isUsual || hash.append(key, value);
    put("view", state.view, state.view === usual.view);
    put("metric", newName(names.profile.meta.metrics[state.metric]?.name ?? "waiting"), state.metric === usual.metric);
    put("apart", state.apart, state.apart === usual.apart);
    put("hidden", state.hidden.join("."), state.hidden.length === 0);
    put("phaseless", "no", state.withoutPhase);
    for (const step of state.steps)
        put(step.kind, step.func >= 0 ? "=" + names.tell(step.func) : "~" + step.pattern, false);
    put("search", state.search, state.search === "");
    put("zoom", state.zoom.join("."), state.zoom.length === 0);
    put("colour", state.colour, state.colour === usual.colour);
    put("side", state.side, state.side === usual.side);
    put("root", "bottom", !state.upward);
    put("fold", "yes", !state.fold);
    put("function", names.tell(Math.max(0, state.func)), state.func < 0);
    put("sort", state.sort, state.sort === "");
    put("time", state.from + "." + state.to, state.to === 0);
    put("lanes", state.lanes, state.lanes === usual.lanes);
    put("depth", String(state.depth), state.depth === 0);
    const text = hash.toString();
    return text ? "#" + text : "";
}

/**
 * @param {string | null} text numbers with dots between them
 * @param {number} end of what they may be
 */
function numberList(text, end) {
    return (text ?? "").split(".").filter((word) => /^\d+$/.test(word)).map(Number).filter((one) => one < end);
}

/**
 * Whatever is not understood is left at its default.
 * @param {string} text
 * @param {FunctionNames} names
 * @returns {State}
 */
export function fromHash(text, names) {
    const hash = new URLSearchParams(text.replace(/^#/, "")), state = initialState(names.profile);
    const {meta, functions, count} = names.profile;
    state.view = choice(hash.get("view"), VIEWS);
    if ((state.view === "changes" && !meta.changes) || (state.view === "time" && !meta.timeline) ||
        (state.view === "locks" && !meta.locks))
        state.view = "flame";
    const metric = hash.get("metric");
    if (metric === "waiting" && meta.waiting)
        state.metric = meta.metrics.length;
    else
        state.metric = Math.max(0, meta.metrics.findIndex(({name}) => name === metric || newName(name) === metric));
    state.apart = choice(hash.get("apart"), GROUPINGS);
    state.hidden = numberList(hash.get("hidden"), count);
    state.withoutPhase = hash.get("phaseless") !== "no";
    for (const [key, value] of hash) {
        const kind = STEPS.find((word) => word === key);
        const func = kind && value.startsWith("=") ? names.find(value.slice(1)) : -1;
        if (kind && (func >= 0 || value.startsWith("~")))
            state.steps.push({kind, func, pattern: func >= 0 ? "" : value.slice(1)});
    }
    state.search = hash.get("search") ?? "";
    state.zoom = numberList(hash.get("zoom"), functions);
    state.colour = choice(hash.get("colour"), coloursOf(names.profile));
    state.side = choice(hash.get("side"), SIDES);
    state.upward = hash.get("root") === "bottom";
    state.fold = hash.get("fold") === "yes";
    state.func = hash.has("function") ? names.find(hash.get("function") ?? "") : -1;
    state.sort = hash.get("sort") ?? "";
    const [from, to] = numberList(hash.get("time"), Infinity);
    if (meta.timeline && from < to)
        Object.assign(state, {from, to});
    state.lanes = choice(hash.get("lanes"), LANES);
    state.depth = numberList(hash.get("depth"), DEEPEST + 1)[0] ?? 0;
    return state;
}
