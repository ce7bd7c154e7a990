// SPDX-License-Identifier: MIT
// Reads the profile out of the page. docs/viewer.md describes how it lies there.

/**
 * @typedef {"cost" | "calls" | "error" | "edge"} MetricKind
 * Nodes that waited for locks, and that held these.
 * @typedef {{waiter: Int32Array, holder: Int32Array, ns: Float64Array, waits: Float64Array}} LockPairs
 * One metric over another; unit "%": a share.
 * @typedef {{name: string, unit: string, meaning: string, of: number, over: number}} Ratio
 * @typedef {{name: string, unit: string, kind: MetricKind, sample_weight: number,
 *   runs: number, error: number | null, warning: string | null}} Metric
 * A row of a diff: its outermost node, its cost, and why it changed.
 * @typedef {{node: number, contexts: number, old: number, new: number, by_calls: number,
 *   by_price: number, significant: boolean}} Change
 * @typedef {{format: number, command: string, tracker: string, tree: string, recorded_ms: number,
 *   duration_ns: number, complete: boolean, samples: number, sampled: string, whole: number,
 *   left_out: number, metrics: Metric[], ratios: Ratio[], timeline: number[] | null, locks: boolean, code: boolean,
 *   waiting: {wall: number, cpu: number} | null, diff: {old: string, new: string} | null, notes: string[], changes?: Change[],
 *   sentence?: string, split?: boolean}} Meta
 */

export const KIND_ROOT = 0;
export const KIND_PROCESS = 1;
export const KIND_THREAD = 2;
export const KIND_PHASE = 3;
export const KIND_FUNCTION = 4;
export const KIND_INLINED = 5;

export const FLAG_KERNEL = 1;
export const FLAG_STARTUP = 2;
export const FLAG_STANDARD = 4;
export const FLAG_ADDRESS = 8;

// Of a call: the line is not known; calls from several lines were merged; else the line and 1.
export const LINE_MANY = 1;
export const LINE_FIRST = 2;

const FORMAT = 1;

/**
 * Charges of a thread, in the order of time: those from `first` to `end`, which is not one of them.
 * @typedef {{thread: number, tid: number, outside: boolean, first: number, end: number}} Lane thread is the node of
 *   the recorded tree; outside: costs of a process that no thread has
 * When each cost was charged, lane by lane. Targets are numbered: nodes, then lines, then rows of instructions.
 * @typedef {{lanes: Lane[], time: Float64Array, weight: Float64Array, target: Int32Array, metric: Uint8Array,
 *   end: number}} Timeline metric is an index of the profile's
 */

/**
 * The instructions of a function: from `first` to `end`, which is not one of them.
 * @typedef {{func: number, first: number, end: number}} Piece
 * Machine code, and sources. What instructions cost are rows: of a node, a line (its row and 1; 0: none), an
 * instruction, and values by metric.
 * @typedef {{pieces: Piece[], address: Float64Array, file: Int32Array, line: Int32Array, texts: Texts, rows: number,
 *   rowNode: Int32Array, rowLine: Int32Array, rowInstruction: Int32Array, rowValues: Float64Array[],
 *   sources: Map<number, number>, sourceTexts: Texts}} Code file is a number and 1; sources are texts by file
 */

/**
 * The bytes of a text in base64.
 * @param {string} text
 */
export function fromBase64(text) {
    const native = /** @type {{fromBase64?: (text: string) => Uint8Array}} */ (
        /** @type {unknown} */ (Uint8Array)).fromBase64;
    if (native)
        return native.call(Uint8Array, text);
    const binary = atob(text), bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++)
        bytes[i] = binary.charCodeAt(i);
    return bytes;
}

/**
 * @param {Uint8Array} packed
 * @returns {Promise<Uint8Array>}
 */
export async function gunzip(packed) {
    /** @typedef {{DecompressionStream: new (format: string) => ReadableWritablePair<Uint8Array, Uint8Array>}} Unpacker */
    const {DecompressionStream: Unpack} = /** @type {Unpacker} */ (/** @type {unknown} */ (window));
    const stream = new Blob([packed]).stream().pipeThrough(new Unpack("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Takes numbers from bytes. */
class Reader {
    /** @param {Uint8Array} bytes */
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    number() {
        const one = new Float64Array(1);
        this.column(one);
        return one[0];
    }

    /**
     * Fills an array. Numbers above 2^53 are rounded.
     * @template {Float64Array | Int32Array | Uint8Array} T
     * @param {T} into
     * @returns {T}
     */
    column(into) {
        const bytes = this.bytes, count = into.length;
        let at = this.at;
        for (let i = 0; i < count; i++) {
            let byte = bytes[at++];
            if (byte < 0x80) {
                into[i] = byte;
                continue;
            }
            let value = byte & 0x7f, weight = 128;
            do {
                byte = bytes[at++];
                value += (byte & 0x7f) * weight;
                weight *= 128;
            } while (byte >= 0x80);
            into[i] = value;
        }
        if (at > bytes.length)
            throw new Error("the profile in this page is cut off");
        this.at = at;
        return into;
    }
}

/** Texts by their number, read when they are needed. */
export class Texts {
    /** @param {Reader} reader */
    constructor(reader) {
        this.count = reader.number();
        const lengths = reader.column(new Int32Array(this.count));
        this.bytes = reader.bytes;
        this.start = new Uint32Array(this.count + 1);
        let at = reader.at;
        for (let i = 0; i < this.count; i++) {
            this.start[i] = at;
            at += lengths[i];
        }
        this.start[this.count] = at;
        /** @type {(string | undefined)[]} */
        this.known = new Array(this.count);
        this.decoder = new TextDecoder("utf-8", {ignoreBOM: true});
    }

    /** @param {number} index */
    get(index) {
        let text = this.known[index];
        if (text === undefined) {
            text = this.decoder.decode(
                this.bytes.subarray(this.start[index], this.start[index + 1]));
            this.known[index] = text;
        }
        return text;
    }
}

/**
 * @param {Uint8Array} bytes
 * @returns {Map<string, Uint8Array>}
 */
function sections(bytes) {
    const found = new Map(), view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let at = 0; at + 12 <= bytes.length;) {
        const name = String.fromCharCode(...bytes.subarray(at, at + 4));
        const size = view.getUint32(at + 4, true) + view.getUint32(at + 8, true) * 2 ** 32;
        found.set(name, bytes.subarray(at + 12, at + 12 + size));
        at += 12 + size;
    }
    return found;
}

/** Lanes while their charges are counted, and then while these are put in. */
class LaneTable {
    constructor() {
        /** @type {Lane[]} */
        this.lanes = [];
        /** @type {Map<string, number>} */
        this.index = new Map();
        /** @type {number[]} where the next charge of each goes */
        this.next = [];
    }

    /**
     * @param {number} thread
     * @param {number} tid
     * @param {boolean} outside
     * @param {number} charges
     */
    add(thread, tid, outside, charges) {
        const key = `${thread} ${tid} ${outside}`, known = this.index.get(key);
        const lane = known ?? this.lanes.push({thread, tid, outside, first: 0, end: 0}) - 1;
        this.index.set(key, lane);
        this.lanes[lane].end += charges;
        return lane;
    }

    /** All charges are counted: gives each lane its place, and returns how many there are. */
    close() {
        let count = 0;
        for (const lane of this.lanes) {
            const charges = lane.end;
            lane.first = count;
            lane.end = count += charges;
        }
        this.next = this.lanes.map(({first}) => first);
        return count;
    }

    /**
     * Where so many charges go.
     * @param {number} lane
     * @param {number} charges
     */
    take(lane, charges) {
        this.next[lane] += charges;
        return this.next[lane] - charges;
    }
}

/**
 * Puts a run of charges, told by differences, into a timeline, and returns its last time.
 * @param {Timeline} timeline
 * @param {number[]} metrics
 * @param {number} into
 * @param {Float64Array} times
 * @param {Float64Array} targets
 * @param {Float64Array} weights
 */
function unfold(timeline, metrics, into, times, targets, weights) {
    const last = [0, 0];
    let time = 0, target = 0;
    for (let i = 0; i < times.length; i++) {
        time += times[i];
        const metric = targets[i] % 2, folded = (targets[i] - metric) / 2;
        target += folded % 2 ? -(folded + 1) / 2 : folded / 2;
        timeline.time[into + i] = time;
        timeline.target[into + i] = target;
        timeline.metric[into + i] = metrics[metric];
        timeline.weight[into + i] = weights[i] === 0 ? time - last[metric] : weights[i] - 1;
        last[metric] = time;
    }
    return time;
}

/**
 * A thread that takes turns with several trees, as one with phases, has runs of each.
 * @param {Timeline} timeline
 * @param {Lane} lane
 */
function sortLane(timeline, {first, end}) {
    const time = timeline.time.slice(first, end);
    if (time.every((one, i) => i === 0 || time[i - 1] <= one))
        return;
    const order = Array.from(time.keys()).sort((a, b) => time[a] - time[b] || a - b);
    for (const column of [timeline.time, timeline.weight, timeline.target, timeline.metric]) {
        const before = column.slice(first, end);
        order.forEach((from, i) => {
            column[first + i] = before[from];
        });
    }
}

/**
 * @param {Reader} reader
 * @returns {LockPairs}
 */
function readPairs(reader) {
    const count = reader.number();
    return {waiter: reader.column(new Int32Array(count)), holder: reader.column(new Int32Array(count)),
        ns: reader.column(new Float64Array(count)), waits: reader.column(new Float64Array(count))};
}

/** A profile as it was recorded: a tree in which processes, threads and phases are apart. */
export class Profile {
    /** @param {Uint8Array} bytes */
    constructor(bytes) {
        const parts = sections(bytes);
        /** @param {string} name */
        const reader = (name) => {
            const part = parts.get(name);
            if (!part)
                throw new Error("the profile in this page is damaged: it has no " + name);
            return new Reader(part);
        };
        /** @type {Meta} */
        this.meta = JSON.parse(new TextDecoder().decode(reader("META").bytes));
        if (this.meta.format !== FORMAT)
            throw new Error("this page holds a profile of another version");
        this.names = new Texts(reader("NAME"));
        this.modules = new Texts(reader("MODU"));
        this.files = new Texts(reader("FILE"));

        const functions = reader("FUNC"), known = functions.number();
        this.functions = known;
        this.module = functions.column(new Int32Array(known)); // and 1; 0: none
        this.file = functions.column(new Int32Array(known)); // and 1; 0: not known
        this.line = functions.column(new Int32Array(known));
        this.flags = functions.column(new Uint8Array(known));

        const nodes = reader("NODE"), count = nodes.number();
        this.count = count;
        this.parent = nodes.column(new Int32Array(count));
        this.func = nodes.column(new Int32Array(count));
        this.kind = nodes.column(new Uint8Array(count));
        this.callLine = nodes.column(new Int32Array(count));
        this.returns = nodes.column(new Float64Array(count));
        this.self = this.meta.metrics.map(() => nodes.column(new Float64Array(count)));
        for (let i = 0; i < count; i++)
            this.parent[i] = i - this.parent[i];
        this.parent[0] = -1;

        const lines = reader("LINE"), lineCount = lines.number();
        this.lineCount = lineCount;
        this.lineNode = lines.column(new Int32Array(lineCount));
        this.lineFile = lines.column(new Int32Array(lineCount));
        this.lineNumber = lines.column(new Int32Array(lineCount));
        this.lineValues = this.meta.metrics.map(() => lines.column(new Float64Array(lineCount)));
        for (let i = 1; i < lineCount; i++)
            this.lineNode[i] += this.lineNode[i - 1];
        /** @type {LockPairs} */
        this.pairs = this.meta.locks ? readPairs(reader("LOCK")) : {waiter: new Int32Array(0), holder: new Int32Array(0),
            ns: new Float64Array(0), waits: new Float64Array(0)};
        /** @type {Code | null} */
        this.code = this.meta.code ? this.readCode(reader) : null;
        /** @type {Timeline | null} */
        this.timeline = this.meta.timeline ? this.readTimeline(reader("TIME"), this.meta.timeline) : null;
    }

    /**
     * @param {(name: string) => Reader} reader
     * @returns {Code}
     */
    readCode(reader) {
        const code = reader("CODE"), count = code.number(), func = code.column(new Int32Array(count));
        const length = code.column(new Int32Array(count));
        let end = 0;
        const pieces = Array.from(func, (one, i) => ({func: one, first: end, end: end += length[i]}));
        const address = code.column(new Float64Array(end)), file = code.column(new Int32Array(end));
        for (const {first, end: last} of pieces)
            for (let i = first + 1; i < last; i++)
                address[i] += address[i - 1];
        const line = code.column(new Int32Array(end)), costs = reader("ADDR"), rows = costs.number();
        const rowNode = costs.column(new Int32Array(rows));
        for (let i = 1; i < rows; i++)
            rowNode[i] += rowNode[i - 1];
        const files = reader("SRCF"), numbers = files.column(new Int32Array(files.number()));
        return {pieces, address, file, line, texts: new Texts(reader("CTXT")), rows, rowNode,
            rowLine: costs.column(new Int32Array(rows)), rowInstruction: costs.column(new Int32Array(rows)),
            rowValues: this.meta.metrics.map(() => costs.column(new Float64Array(rows))),
            sources: new Map(Array.from(numbers, (one, i) => [one, i])), sourceTexts: new Texts(reader("SRCT"))};
    }

    /**
     * @param {Reader} reader
     * @param {number[]} metrics
     * @returns {Timeline}
     */
    readTimeline(reader, metrics) {
        const runs = reader.number(), column = () => reader.column(new Int32Array(runs));
        const owner = column(), tid = column(), outside = column(), length = column();
        const lanes = new LaneTable(), ofRun = new Int32Array(runs);
        for (let run = 0; run < runs; run++)
            ofRun[run] = lanes.add(this.threadOf(owner[run]), tid[run], outside[run] !== 0, length[run]);
        const count = lanes.close(), read = () => reader.column(new Float64Array(count));
        const times = read(), targets = read(), weights = read();
        const timeline = {lanes: lanes.lanes, time: new Float64Array(count), weight: new Float64Array(count),
            target: new Int32Array(count), metric: new Uint8Array(count), end: 0};
        for (let run = 0, from = 0; run < runs; from += length[run++])
            timeline.end = Math.max(timeline.end, unfold(timeline, metrics, lanes.take(ofRun[run], length[run]),
                times.subarray(from, from + length[run]), targets.subarray(from), weights.subarray(from)));
        timeline.lanes.forEach((lane) => sortLane(timeline, lane));
        return timeline;
    }

    /**
     * The thread that something is in, or the process.
     * @param {number} node
     */
    threadOf(node) {
        while (node > 0 && this.kind[node] !== KIND_THREAD && this.kind[node] !== KIND_PROCESS)
            node = this.parent[node];
        return node;
    }

    /** @param {number} func */
    moduleName(func) {
        const module = this.module[func];
        if (module === 0)
            return "";
        const path = this.modules.get(module - 1);
        return path.slice(path.lastIndexOf("/") + 1) || path;
    }

    /** @param {number} func */
    fileName(func) {
        const file = this.file[func];
        return file === 0 ? "" : this.files.get(file - 1);
    }
}
