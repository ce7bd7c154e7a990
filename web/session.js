// SPDX-License-Identifier: MIT
// The profile that is looked at, and the state: from these, the tree that all views show.

import { callersTree } from "./callers.js";
import { mergeGroups, recordedTree } from "./merge.js";
import { safe, stages } from "./names.js";
import { KIND_FUNCTION, KIND_PHASE, KIND_PROCESS, KIND_THREAD, Profile } from "./profile.js";
import { foldRecursion, refine } from "./refine.js";
import { FunctionNames, fromHash, initialState, newName, toHash } from "./state.js";
import { partOf } from "./timeline.js";
import { Tree } from "./tree.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Step} Step
 * @typedef {{name: string, unit: string, kind: import("./profile.js").MetricKind, index: number, sampleWeight: number,
 *   error: number, before: number, both: number, named: number, warning: string | null}} ShownMetric other metrics, -1 if there is
 *   none: the one that bounds this one; the old side of a diff; both sides; contexts whose change is no noise
 * @typedef {"part" | "whole"} Extent the chosen part of the recording, or all of it
 * @typedef {{node: number, kind: number, func: number, name: string, total: number, parent: number}} Owner
 */

// Callers of less than this share of a function cannot be seen in a picture.
const CALLERS_SHARE = 1 / 4000;

// Metrics of a diff come in fours: new, old, both, and how many contexts changed by more than noise.
export const DIFF_PARTS = 4;

/**
 * A regular expression; text in lower case matches in either. null: it is none.
 * @param {string} text
 */
export function patternOf(text) {
    try {
        return new RegExp(text, /[A-Z]/.test(text) ? "u" : "iu");
    } catch {
        try {
            return new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
        } catch {
            return null;
        }
    }
}

export class Session {
    /** @param {Profile} profile */
    constructor(profile) {
        this.profile = profile;
        this.names = new FunctionNames(profile);
        this.recorded = recordedTree(profile);
        this.state = initialState(profile);
        /** @type {Map<string, Tree>} trees by what they show, the latest last */
        this.trees = new Map();
        /** @type {Map<string, Uint8Array>} */
        this.matches = new Map();
        /** @type {Map<number, string>} */
        this.safeNames = new Map();
        /** @type {(() => void)[]} */
        this.listeners = [];
        this.depth = 0; // of our own entries in the history
        /** @type {import("./timeline.js").Range | null} what `part` was made of last */
        this.lastRange = null;
        /** @type {import("./timeline.js").Part | null} */
        this.lastPart = null;
        this.callsMetric = profile.meta.metrics.findIndex(({kind}) => kind === "calls");
        /** @type {ShownMetric[]} */
        this.metrics = [];
        this.listMetrics();
        /** @type {Owner[]} */
        this.owners = [];
        this.listOwners();
        const {owners} = this;
        this.hasSeveralThreads = owners.filter((owner) => owner.kind === KIND_THREAD).length > 1;
        this.hasSeveralProcesses = owners.filter((owner) => owner.kind === KIND_PROCESS).length > 1;
        this.hasPhases = owners.some((owner) => owner.kind === KIND_PHASE);
    }

    listMetrics() {
        const {metrics, waiting} = this.profile.meta;
        metrics.forEach(({name, unit, kind, sample_weight, error, warning}, index) => {
            // Of a diff, the sides come behind each other.
            if ((kind === "cost" || kind === "calls") && !(this.isDiff && index % DIFF_PARTS !== 0))
                this.metrics.push({name: safe(newName(name)), unit: safe(unit), kind, index, sampleWeight: sample_weight, error: error ?? -1,
                    before: this.isDiff ? index + 1 : -1, both: this.isDiff ? index + 2 : -1, named: this.isDiff ? index + 3 : -1, warning});
            if (waiting && index === Math.max(waiting.wall, waiting.cpu))
                this.metrics.push({name: "waiting", unit: "ns", kind: "cost", index: metrics.length, sampleWeight: 0,
                    error: -1, before: -1, both: -1, named: -1, warning: null});
        });
    }

    /** Processes, threads and phases, in the order of the tree. */
    listOwners() {
        const {kind, count, parent, func} = this.recorded;
        const total = new Float64Array(count), self = this.recorded.self[0];
        for (let i = count - 1; i > 0; i--) {
            total[i] += self[i];
            total[parent[i]] += total[i];
        }
        for (let i = 1; i < count; i++)
            if (kind[i] < KIND_FUNCTION)
                this.owners.push({node: i, kind: kind[i], func: func[i], name: this.name(func[i]), total: total[i],
                    parent: parent[i]});
    }

    /** @param {number} func */
    name(func) {
        let name = this.safeNames.get(func);
        if (name === undefined)
            this.safeNames.set(func, name = safe(this.profile.names.get(func)));
        return name;
    }

    /**
     * In a line of a table.
     * @param {number} func
     */
    shortName(func) {
        const list = stages(this.name(func));
        return list.find((text) => text.length <= 90) ?? list[list.length - 1];
    }

    /** @param {number} func */
    moduleName(func) {
        return safe(this.profile.moduleName(func));
    }

    /**
     * "file.c:12"
     * @param {number} func
     */
    where(func) {
        const file = this.profile.fileName(func), line = this.profile.line[func];
        return file ? safe(file) + (line ? ":" + line : "") : "";
    }

    /**
     * The same without folders; the module where no file is known.
     * @param {number} func
     */
    place(func) {
        return this.where(func).split("/").pop() || this.moduleName(func);
    }

    get metric() {
        return this.metrics.find(({index}) => index === this.state.metric) ?? this.metrics[0];
    }

    /** Whether two versions are compared. */
    get isDiff() {
        return this.profile.meta.diff !== null;
    }

    /** The metric that widths of pictures are of. */
    get widthMetric() {
        const {index, before, both} = this.metric, {side} = this.state;
        return before < 0 || side === "new" ? index : side === "old" ? before : both;
    }

    /**
     * @param {string} key
     * @param {() => Tree} make
     */
    remembered(key, make) {
        let tree = this.trees.get(key);
        this.trees.delete(key);
        if (!tree)
            tree = make();
        this.trees.set(key, tree);
        // The way back is short.
        for (const old of this.trees.keys()) {
            if (this.trees.size <= 8)
                break;
            this.trees.delete(old);
        }
        return tree;
    }

    /** The part of the recording that is looked at; null: all of it. */
    get range() {
        const {from, to} = this.state;
        return to > 0 ? {from, to} : null;
    }

    /** What is left of the profile in that part; null: all of it is looked at. */
    get part() {
        const {range} = this, {timeline} = this.profile;
        if (!range || !timeline)
            return null;
        if (this.lastRange?.from !== range.from || this.lastRange.to !== range.to || !this.lastPart) {
            this.lastPart = partOf(this.profile, timeline, range);
            this.lastRange = range;
        }
        return this.lastPart;
    }

    /** Costs of lines, by metric. */
    get lineValues() {
        return this.part?.lines ?? this.profile.lineValues;
    }

    /** Costs of rows of instructions, by metric. */
    get rowValues() {
        return this.part?.rows ?? this.profile.code?.rowValues ?? [];
    }

    /** The chosen threads, before any refinement. */
    get base() {
        return this.baseOf("part");
    }

    /** @param {Extent} extent */
    baseOf(extent) {
        const {apart, hidden, withoutPhase} = this.state, part = extent === "part" ? this.part : null;
        const without = new Set(hidden);
        return this.remembered(JSON.stringify(["base", this.groupKey(extent)]), () =>
            mergeGroups(part ? recordedTree(this.profile, part.self) : this.recorded, apart, (node) => without.has(node), withoutPhase,
                part?.kept));
    }

    /** What all views show. */
    get tree() {
        return this.refined(this.state.steps.length, "part");
    }

    /** The same of all of the recording, whatever part of it is looked at. */
    get wholeTree() {
        return this.refined(this.state.steps.length, "whole");
    }

    /**
     * The tree after so many steps of refinement.
     * @param {number} count
     * @param {Extent} extent
     * @returns {Tree}
     */
    refined(count, extent) {
        const {steps, fold} = this.state, base = this.baseOf(extent);
        if (count === 0 && !fold)
            return base;
        return this.remembered(JSON.stringify(["refined", this.groupKey(extent), fold, steps.slice(0, count)]), () => {
            if (count === 0)
                return foldRecursion(base);
            const step = steps[count - 1];
            return refine(this.refined(count - 1, extent), step.kind, this.matchesOf(step));
        });
    }

    /** @param {Extent} extent */
    groupKey(extent) {
        const {apart, hidden, withoutPhase} = this.state;
        return [apart, hidden, withoutPhase, extent === "part" ? this.range : null];
    }

    /**
     * The functions that a step of refinement is about.
     * @param {Step} step
     */
    matchesOf(step) {
        if (step.func < 0)
            return this.matching(step.pattern);
        const matches = new Uint8Array(this.profile.functions);
        matches[step.func] = 1;
        return matches;
    }

    /**
     * Functions whose name matches a regular expression.
     * @param {string} text
     */
    matching(text) {
        let matches = this.matches.get(text);
        if (matches)
            return matches;
        const pattern = patternOf(text);
        matches = new Uint8Array(this.profile.functions);
        if (pattern)
            for (let f = 0; f < matches.length; f++)
                matches[f] = pattern.test(this.profile.names.get(f)) ? 1 : 0;
        if (this.matches.size > 32)
            this.matches.clear();
        this.matches.set(text, matches);
        return matches;
    }

    /** null: nothing is searched for. */
    get searched() {
        return this.state.search ? this.matching(this.state.search) : null;
    }

    /** @param {number} func */
    callersOf(func) {
        const metric = this.widthMetric, tree = this.tree;
        return this.remembered(JSON.stringify(["callers", func, metric, this.treeKey()]), () =>
            callersTree(tree, func, metric, CALLERS_SHARE));
    }

    /** @param {number} func */
    calleesOf(func) {
        const matches = new Uint8Array(this.profile.functions), tree = this.tree;
        matches[func] = 1;
        return this.remembered(JSON.stringify(["callees", func, this.treeKey()]), () =>
            refine(tree, "below", matches));
    }

    treeKey() {
        const {steps, fold} = this.state;
        return [this.groupKey("part"), steps, fold];
    }

    /**
     * Calls that the tree counts at a node; 0: not known.
     * @param {Tree} tree
     * @param {number} node
     */
    calls(tree, node) {
        return this.callsMetric >= 0 && tree.isCode(node) ? tree.self[this.callsMetric][node] : 0;
    }

    /**
     * What a call costs, with all it calls.
     * @param {number} total
     * @param {number} calls
     * @param {number} metric
     */
    perCall(total, calls, metric) {
        const {metrics, waiting} = this.profile.meta;
        const runs = (metrics[metric] ?? metrics[waiting?.wall ?? 0]).runs;
        return calls > 0 ? total / runs / (calls / metrics[this.callsMetric].runs) : 0;
    }

    /**
     * The ratios that a metric is the dividend of.
     * @param {number} metric
     */
    ratiosOf(metric) {
        return this.profile.meta.ratios.filter(({of}) => of === metric);
    }

    /** @param {string} name */
    ratioNamed(name) {
        return this.profile.meta.ratios.find((ratio) => ratio.name === name);
    }

    /**
     * Changes the state. What a user may want to undo becomes an entry of the history.
     * @param {Partial<State>} change
     * @param {"push" | "replace"} [how]
     */
    change(change, how = "push") {
        const before = toHash(this.state, this.names);
        this.state = {...this.state, ...change};
        const hash = toHash(this.state, this.names);
        if (hash !== before) {
            const address = hash || location.pathname + location.search;
            if (how === "push")
                this.depth++;
            try {
                if (how === "push")
                    history.pushState({depth: this.depth}, "", address);
                else
                    history.replaceState({depth: this.depth}, "", address);
            } catch {
                // A page that may have no history still works.
            }
        }
        this.notify();
    }

    /** Takes the state from the address. */
    restore() {
        this.state = fromHash(location.hash, this.names);
        this.depth = /** @type {{depth?: number} | null} */ (history.state)?.depth ?? 0;
        this.notify();
    }

    undo() {
        if (this.depth > 0)
            history.back();
    }

    notify() {
        for (const listener of this.listeners)
            listener();
    }

    /** @param {Step} step */
    addStep(step) {
        const {steps} = this.state, last = steps[steps.length - 1];
        if (last && JSON.stringify(last) === JSON.stringify(step))
            return;
        this.change({steps: [...steps, step], zoom: []});
    }

    /** @param {number} index */
    removeStep(index) {
        this.change({steps: this.state.steps.filter((_, i) => i !== index), zoom: []});
    }

    /**
     * The node that the zoom leads to.
     * @param {Tree} tree
     */
    zoomNode(tree) {
        return tree.find(this.state.zoom);
    }
}
