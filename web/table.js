// SPDX-License-Identifier: MIT
// Tables of any length: only the rows that can be seen are elements of the page.

import { element, fill } from "./dom.js";

/**
 * @typedef {{text: string, share?: number, indent?: number, fold?: "open" | "closed" | "none", swatch?: string,
 *   note?: string, title?: string, strong?: boolean, dim?: boolean, tone?: "costlier" | "cheaper"}} Cell share: of a bar behind the text, 0 to 1
 * @typedef {{key: string, title: string, hint: string, width: number, name?: boolean}} Column
 *   the column of names takes what is left, and has this width at least
 * @typedef {{sort: (key: string) => void, select: (row: number) => void, toggle: (row: number) => void,
 *   open: (row: number) => void}} TableEvents
 * @typedef {{row: HTMLElement, cells: HTMLElement[]}} Line
 */

export const LINE = 24;
const BEYOND = 6; // rows that are ready above and below
// Deep rows step less far to the right, and leave a name this room.
const INDENT = 14, STEEP = 12, DEEP_INDENT = 4, NAME_ROOM = 300;

export class Table {
    /**
     * @param {TableEvents} events
     * @param {string} label
     */
    constructor(events, label) {
        this.events = events;
        this.head = element("div", {class: "table-head", role: "row"});
        this.body = element("div", {class: "table-rows"});
        this.host = element("div", {class: "table", tabindex: "0", role: "table", "aria-label": label}, this.head, this.body);
        /** @type {Column[]} */
        this.columns = [];
        /** @type {Line[]} */
        this.lines = [];
        this.count = 0;
        this.selected = -1;
        /** @type {(row: number) => Cell[]} */
        this.cells = () => [];
        this.columnKey = "";
        this.mostIndent = 0; // pixels
        this.host.addEventListener("scroll", () => this.draw());
        this.host.addEventListener("keydown", (event) => this.key(event));
        this.body.addEventListener("click", (event) => this.click(event));
        this.body.addEventListener("dblclick", (event) => {
            const row = this.rowOf(event);
            if (row >= 0)
                this.events.open(row);
        });
        new ResizeObserver(() => this.draw()).observe(this.host);
    }

    /**
     * @param {Column[]} columns
     * @param {string} sorted
     */
    setColumns(columns, sorted) {
        const key = JSON.stringify([columns, sorted]);
        if (key === this.columnKey)
            return;
        this.columnKey = key;
        this.columns = columns;
        const widths = columns.map(({width, name}) => name ? `minmax(${width}px, 1fr)` : width + "px").join(" ");
        this.host.style.setProperty("--columns", widths);
        this.host.style.setProperty("--least", columns.reduce((sum, {width}) => sum + width, 0) + "px");
        fill(this.head, ...columns.map((column) => element("button", {
            type: "button", class: (column.name ? "name " : "") + (column.key === sorted ? "sorted" : ""),
            title: column.hint, onclick: () => this.events.sort(column.key),
        }, column.title + (column.key === sorted ? " ▾" : ""))));
        this.lines = [];
        fill(this.body);
    }

    /**
     * @param {number} count
     * @param {(row: number) => Cell[]} cells
     */
    setRows(count, cells) {
        this.count = count;
        this.cells = cells;
        this.body.style.height = count * LINE + "px";
        this.draw();
    }

    /** @returns {Line} */
    makeLine() {
        const cells = this.columns.map(({name}) => element("div", {class: name ? "cell name" : "cell", role: "cell"}));
        const row = element("div", {class: "row", role: "row"}, ...cells);
        this.body.append(row);
        return {row, cells};
    }

    draw() {
        const top = this.host.scrollTop, height = this.host.clientHeight;
        if (height === 0)
            return;
        const name = this.head.children[this.columns.findIndex((column) => column.name)];
        this.mostIndent = Math.max(STEEP * INDENT, (name?.clientWidth ?? 0) - NAME_ROOM);
        const first = Math.max(0, Math.floor(top / LINE) - BEYOND);
        const last = Math.min(this.count, Math.ceil((top + height) / LINE) + BEYOND);
        while (this.lines.length < last - first)
            this.lines.push(this.makeLine());
        this.lines.forEach((line, i) => {
            const row = first + i;
            line.row.hidden = row >= last;
            if (row < last)
                this.drawLine(line, row);
        });
    }

    /**
     * @param {Line} line
     * @param {number} row
     */
    drawLine(line, row) {
        line.row.style.transform = `translateY(${row * LINE}px)`;
        line.row.dataset.row = String(row);
        line.row.classList.toggle("selected", row === this.selected);
        this.cells(row).forEach((cell, i) => drawCell(line.cells[i], cell, this.columns[i], this.mostIndent));
    }

    /** @param {Event} event */
    rowOf(event) {
        const row = /** @type {HTMLElement} */ (event.target).closest(".row");
        return row instanceof HTMLElement ? Number(row.dataset.row) : -1;
    }

    /** @param {MouseEvent} event */
    click(event) {
        const row = this.rowOf(event);
        if (row < 0)
            return;
        if (/** @type {HTMLElement} */ (event.target).classList.contains("fold"))
            this.events.toggle(row);
        else
            this.select(row);
    }

    /** @param {number} row */
    select(row) {
        this.selected = row;
        this.draw();
        if (row >= 0)
            this.events.select(row);
    }

    /** @param {number} row */
    reveal(row) {
        const {host} = this, top = row * LINE, room = host.clientHeight - LINE;
        if (top < host.scrollTop)
            host.scrollTop = top;
        else if (top + LINE > host.scrollTop + room)
            host.scrollTop = top + LINE - room;
    }

    /** @param {KeyboardEvent} event */
    key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey)
            return;
        const page = Math.max(1, Math.floor(this.host.clientHeight / LINE) - 2);
        /** @type {{[key: string]: number}} */
        const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count};
        if (event.key in moves && this.count > 0) {
            const row = Math.min(this.count - 1, Math.max(0, this.selected + moves[event.key]));
            this.select(row);
            this.reveal(row);
        } else if ((event.key === "ArrowRight" || event.key === "ArrowLeft" || event.key === " ") && this.selected >= 0) {
            const fold = this.cells(this.selected).find((cell) => cell.fold !== undefined)?.fold;
            if (event.key === " " || (event.key === "ArrowRight") === (fold === "closed"))
                this.events.toggle(this.selected);
        } else if (event.key === "Enter" && this.selected >= 0) {
            this.events.open(this.selected);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }
}

/**
 * @param {HTMLElement} into
 * @param {Cell} cell
 * @param {Column} column
 * @param {number} mostIndent
 */
function drawCell(into, cell, column, mostIndent) {
    into.title = cell.title ?? "";
    into.classList.toggle("strong", cell.strong === true);
    into.classList.toggle("dim", cell.dim === true);
    into.classList.toggle("costlier", cell.tone === "costlier");
    into.classList.toggle("cheaper", cell.tone === "cheaper");
    if (!column.name) {
        into.textContent = cell.text;
        into.style.backgroundSize = cell.share ? `${Math.min(1, cell.share) * 100}% 100%` : "0 100%";
        into.classList.toggle("gauge", cell.share !== undefined);
        return;
    }
    const level = cell.indent ?? 0, indent = Math.min(level, STEEP) * INDENT + Math.max(0, level - STEEP) * DEEP_INDENT;
    into.style.paddingLeft = Math.min(indent, mostIndent) + 6 + "px";
    const marks = [];
    if (indent > mostIndent)
        marks.push(element("span", {class: "depth"}, `+${cell.indent}`));
    if (cell.fold)
        marks.push(element("span", {class: "fold " + cell.fold}, cell.fold === "open" ? "▾" : cell.fold === "closed" ? "▸" : ""));
    if (cell.swatch) {
        const swatch = element("span", {class: "swatch"});
        swatch.style.backgroundColor = cell.swatch;
        marks.push(swatch);
    }
    fill(into, ...marks, element("span", {class: "text"}, cell.text),
        cell.note ? element("span", {class: "note"}, cell.note) : null);
}
