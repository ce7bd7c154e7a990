// SPDX-License-Identifier: MIT
// A function's source with the cost of each line, and its instructions beside it.

import { element, fill } from "./dom.js";
import { safe } from "./names.js";
import { amount, amountEach, grouped, percent } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { instructionCosts, lineCosts, piecesOf } from "./source_lines.js";
import { LINE, Table } from "./table.js";

/**
 * A row of the source: a line, or words about what follows. file is -1 where it is not known.
 * @typedef {{file: number, line: number, text: string, cost: import("./source_lines.js").LineCost | null, note: string}} SourceRow
 * A row of the code: an instruction, or the name of a function (instruction is -1).
 * @typedef {{instruction: number, text: string}} CodeRow
 */

const AROUND = 6; // lines above the first and below the last that has a cost
const GAP = 60; // lines without cost that are left out
const TAB = "        ";
const LETTER = 7.3, NOTE = 130, MOST_LETTERS = 240; // pixels of a letter, and of what stands behind an instruction

export class SourceView {
    /**
     * @param {Session} session
     * @param {Selection} selection
     */
    constructor(session, selection) {
        this.session = session;
        this.selection = selection;
        const none = () => {};
        this.source = new Table({sort: none, toggle: none, open: none, select: (row) => this.mark(this.lines[row]?.file ?? -1, this.lines[row]?.line ?? 0)},
            "source");
        this.code = new Table({sort: none, toggle: none, open: none, select: (row) => this.markLine(row)}, "instructions");
        this.source.host.classList.add("code");
        this.code.host.classList.add("code");
        this.title = element("div", {class: "sandwich-title"});
        this.host = element("div", {class: "source-view"}, this.title,
            element("div", {class: "source-panes"}, this.source.host, this.code.host));
        /** @type {SourceRow[]} */
        this.lines = [];
        /** @type {CodeRow[]} */
        this.rows = [];
        this.costs = new Float64Array(0);
        this.marked = {file: -1, line: 0};
        this.shown = -1; // the function
    }

    update() {
        const {session} = this, {profile, metric} = session, sums = session.tree.byFunction();
        const func = session.state.func >= 0 ? session.state.func : sums.self[metric.index].indexOf(Math.max(...sums.self[metric.index]));
        if (!this.selection.chosen)
            this.selection.function(func);
        const whole = session.tree.total[metric.index][0];
        fill(this.title, element("strong", {}, session.shortName(func)),
            ` ${percent(sums.self[metric.index][func], whole) || "0 %"} by itself, ${percent(sums.total[metric.index][func], whole)} with all it calls`,
            !profile.code && element("span", {class: "note"}, " · cairn view --code puts the text and the instructions here"));
        this.title.title = session.name(func);
        this.showSource(func);
        this.showCode(func);
        if (func !== this.shown)
            this.revealHottest();
        this.shown = func;
    }

    /** @param {number} func */
    showSource(func) {
        const {session} = this, {metric, callsMetric} = session, whole = session.tree.total[metric.index][0];
        const costs = lineCosts(session, func), {line, file} = session.profile, start = line[func];
        if (file[func] > 0 && start > 0 && costs.size > 0 && !costs.get(file[func] - 1)?.has(start))
            costs.get(file[func] - 1)?.set(start, {self: 0, total: 0, calls: 0});
        this.lines = [...costs].sort(([a, one], [b, other]) => ownCost(other) - ownCost(one) || a - b)
            .flatMap(([number, lines]) => this.linesOf(number, lines));
        const withCalls = callsMetric >= 0 && callsMetric !== metric.index;
        this.source.setColumns([{key: "total", title: "total", hint: "with what is called on the line", width: 64},
            {key: "self", title: "self", hint: "of the line itself", width: 64},
            ...withCalls ? [{key: "calls", title: "calls", hint: "that were counted on the line", width: 60},
                {key: "each", title: "each", hint: "cost per call", width: 64}] : [],
            {key: "line", title: "line", hint: "", width: 48}, {key: "name", title: "source", hint: "", width: widthOf(this.lines.map(({text}) => text)), name: true}], "total");
        const most = Math.max(1, ...this.lines.map(({cost}) => cost?.total ?? 0));
        this.source.setRows(this.lines.length, (row) => {
            const one = this.lines[row], {cost} = one, callees = cost ? cost.total - cost.self : 0;
            return [{text: cost?.total ? percent(cost.total, whole) : "", share: cost?.total ? cost.total / most : undefined, title: cost ? amount(cost.total, metric.unit) : ""},
                {text: cost?.self ? percent(cost.self, whole) : "", share: cost?.self ? cost.self / most : undefined, title: cost ? amount(cost.self, metric.unit) : ""},
                ...withCalls ? [{text: cost?.calls ? grouped(cost.calls) : "", dim: true},
                    {text: cost?.calls ? amountEach(session.perCall(callees, cost.calls, metric.index), metric.unit) : "", dim: true}] : [],
                {text: one.line > 0 ? String(one.line) : "", dim: true},
                {text: one.text, note: one.note, title: one.text || one.note, strong: this.marked.line > 0 && one.line === this.marked.line &&
                    one.file === this.marked.file}];
        });
    }

    /**
     * @param {number} file
     * @param {Map<number, import("./source_lines.js").LineCost>} costs
     * @returns {SourceRow[]}
     */
    linesOf(file, costs) {
        const {profile} = this.session, {code} = profile, name = file >= 0 ? safe(profile.files.get(file)) : "no file is known";
        const known = code?.sources.get(file), text = known !== undefined && code ? code.sourceTexts.get(known).split("\n") : null;
        const numbers = [...costs.keys()].filter((line) => line > 0).sort((a, b) => a - b);
        /** @type {SourceRow[]} */
        const rows = [{file, line: 0, text: "", cost: null, note: name + (code && !text && file >= 0 ? ": not found, or not the one that was compiled" : "")}];
        let next = 0;
        for (const [i, number] of numbers.entries()) {
            const end = Math.min(text?.length ?? number, i + 1 < numbers.length && numbers[i + 1] - number <= GAP ? number : number + AROUND);
            const first = Math.max(next, 1, number - (i === 0 || number - next > GAP ? AROUND : number));
            if (next > 0 && first > next)
                rows.push({file, line: 0, text: "", cost: null, note: "⋯"});
            for (let line = text ? first : number; line <= (text ? end : number); line++)
                rows.push({file, line, text: safe((text?.[line - 1] ?? "").replace(/\t/g, TAB)), cost: costs.get(line) ?? null, note: ""});
            next = (text ? end : number) + 1;
        }
        const several = costs.get(0);
        if (several)
            rows.push({file, line: 0, text: "", cost: several, note: "on lines that are not known"});
        return rows;
    }

    /** @param {number} func */
    showCode(func) {
        const {session} = this, {code} = session.profile, {metric} = session, whole = session.tree.total[metric.index][0];
        this.code.host.hidden = !code;
        if (!code)
            return;
        const pieces = piecesOf(session, func), own = pieces.some((piece) => piece.func === func);
        this.costs = instructionCosts(session, own ? -1 : func);
        this.rows = pieces.flatMap(({func: holder, first, end}) => [
            ...!own || pieces.length > 1 ? [{instruction: -1, text: session.name(holder)}] : [],
            ...Array.from({length: end - first}, (_, i) => ({instruction: first + i, text: ""}))]);
        if (pieces.length === 0)
            this.rows = [{instruction: -1, text: "no machine code: it cost too little, or its file is not at hand"}];
        this.code.setColumns([{key: "self", title: "self", hint: "of the instruction", width: 64},
            {key: "address", title: "address", hint: "in the file", width: 84},
            {key: "name", title: "instruction", hint: "", width: NOTE + widthOf(this.rows.map(({instruction: i}) => i < 0 ? "" : code.texts.get(i))), name: true}], "self");
        const most = this.rows.reduce((one, {instruction}) => Math.max(one, this.costs[instruction] ?? 0), 1);
        this.code.setRows(this.rows.length, (row) => {
            const {instruction, text} = this.rows[row], i = instruction;
            if (i < 0)
                return [{text: ""}, {text: ""}, {text: "", note: text}];
            const file = code.file[i] - 1, line = code.line[i], last = this.rows[row - 1]?.instruction ?? -1;
            const told = last >= 0 && code.file[last] - 1 === file && code.line[last] === line;
            return [{text: this.costs[i] > 0 ? percent(this.costs[i], whole) : "", share: this.costs[i] / most, title: amount(this.costs[i], metric.unit)},
                {text: code.address[i].toString(16), dim: true},
                {text: safe(code.texts.get(i)), note: told || file < 0 || line === 0 ? "" : `${safe(session.profile.files.get(file)).split("/").pop()}:${line}`,
                    strong: this.marked.line > 0 && line === this.marked.line && file === this.marked.file}];
        });
    }

    /**
     * Shows what belongs to a line.
     * @param {number} file
     * @param {number} line
     */
    mark(file, line) {
        const {code} = this.session.profile;
        this.marked = {file, line};
        const row = this.rows.findIndex(({instruction: i}) => code && i >= 0 && code.file[i] - 1 === file && code.line[i] === line);
        if (row >= 0)
            this.code.reveal(row);
        this.code.draw();
        this.source.draw();
    }

    /** @param {number} row of the code */
    markLine(row) {
        const {code} = this.session.profile, instruction = this.rows[row]?.instruction ?? -1;
        if (!code || instruction < 0)
            return;
        const file = code.file[instruction] - 1, line = code.line[instruction];
        const at = this.lines.findIndex((one) => one.file === file && one.line === line);
        this.marked = {file, line};
        if (at >= 0)
            this.source.reveal(at);
        this.source.draw();
        this.code.draw();
    }

    revealHottest() {
        this.marked = {file: -1, line: 0};
        const hottest = (/** @type {number[]} */ costs) => costs.indexOf(Math.max(...costs));
        centre(this.source, hottest(this.lines.map(({cost}) => cost?.self || (cost?.total ?? 0) / 1e6)));
        centre(this.code, hottest(this.rows.map(({instruction}) => instruction < 0 ? 0 : this.costs[instruction])));
    }
}

/**
 * Room for the longest of some texts.
 * @param {string[]} texts
 */
function widthOf(texts) {
    return Math.ceil(LETTER * Math.min(MOST_LETTERS, texts.reduce((most, text) => Math.max(most, text.length), 30))) + 20;
}

/**
 * @param {Table} table
 * @param {number} row
 */
function centre(table, row) {
    table.host.scrollTop = Math.max(0, row) * LINE - table.host.clientHeight / 3;
    table.draw();
}

/** @param {Map<number, import("./source_lines.js").LineCost>} lines */
function ownCost(lines) {
    return [...lines.values()].reduce((all, {self}) => all + self, 0);
}
