// SPDX-License-Identifier: MIT
// A heat map of time: a column is a second (or what suits the length of the recording), a row a part of it. Patterns that
// recur in each second become visible, and so does what happens once.

import { FONT } from "./flame.js";
import { Lays, lanesOf } from "./lane_picture.js";
import { moment, nice } from "./numbers.js";
import { Session } from "./session.js";

/** @typedef {import("./lane_canvas.js").Canvas} Canvas */
/** @typedef {import("./lane_picture.js").Spot} Spot */

const HEAT_AXIS = 22, HEAT_LABELS = 64, HEAT_MOST_ROWS = 50, HEAT_LEAST_ROWS = 5, HEAT_MOST_COLUMNS = 160, HEAT_WIDEST = 72;
const SPANS = [0.02, 0.1, 1, 2, 5, 10, 30, 60, 300, 600, 3600].map((seconds) => seconds * 1e9);
const SAMPLES_A_CELL = 2, HEAT_TICK_ROOM = 80, HEAT_DIM = 0.25;

/**
 * @param {number} share of the busiest cell
 * @param {import("./colour.js").Theme} theme
 */
export function heatTone(share, theme) {
    return theme.dark ? `hsl(${48 - 44 * share} ${30 + 60 * share}% ${18 + 36 * share}%)`
        : `hsl(${48 - 46 * share} ${55 + 30 * share}% ${93 - 45 * share}%)`;
}

export class HeatPicture {
    /**
     * @param {Session} session
     * @param {Lays} lays
     */
    constructor(session, lays) {
        this.session = session;
        this.lays = lays;
    }

    update() {}

    get height() {
        return 0; // as high as there is room
    }

    /**
     * How a range is cut: its columns begin at whole spans.
     * @param {Canvas} canvas
     */
    grid({range, width, height}) {
        const span = SPANS.find((one) => (range.to - range.from) / one <= HEAT_MOST_COLUMNS) ?? SPANS[SPANS.length - 1];
        const period = this.session.metric.sampleWeight || 1e6;
        const rows = Math.min(HEAT_MOST_ROWS, Math.max(HEAT_LEAST_ROWS, Math.floor(span / period / SAMPLES_A_CELL)));
        const begin = Math.floor(range.from / span) * span, columns = Math.max(1, Math.ceil((range.to - begin) / span));
        const wide = Math.min(HEAT_WIDEST, (width - HEAT_LABELS - 8) / columns), high = (height - HEAT_AXIS - 8) / rows;
        return {span, rows, columns, begin, wide, high, cell: span / rows};
    }

    /**
     * Costs of all threads by cell, column after column, and the function that has most of each.
     * @param {Canvas} canvas
     */
    cells(canvas) {
        const {begin, columns, rows, span} = this.grid(canvas), count = columns * rows;
        const cost = new Float64Array(count), func = new Int32Array(count).fill(-1), most = new Float64Array(count);
        for (const {lane} of lanesOf(this.session)) {
            const laid = this.lays.of(lane, {from: begin, to: begin + columns * span}, count);
            for (let i = 0; i < count; i++) {
                cost[i] += laid.cost[i];
                if (laid.cost[i] > most[i]) {
                    most[i] = laid.cost[i];
                    func[i] = laid.func[i];
                }
            }
        }
        return {cost, func};
    }

    /** @param {Canvas} canvas */
    draw(canvas) {
        const {context, chosen, theme} = canvas, {begin, columns, rows, span, wide, high, cell} = this.grid(canvas);
        const {cost, func} = this.cells(canvas), most = cost.reduce((a, b) => Math.max(a, b), 0) || 1, {searched} = this.session;
        for (let i = 0; i < columns * rows; i++) {
            const time = begin + i * cell, share = cost[i] / most;
            if (cost[i] === 0)
                continue;
            const matches = !searched || (func[i] >= 0 && searched[func[i]] !== 0);
            context.globalAlpha = (chosen && (time + cell <= chosen.from || time >= chosen.to) ? HEAT_DIM : 1) * (matches ? 1 : 0.45);
            context.fillStyle = heatTone(share, theme);
            context.fillRect(HEAT_LABELS + Math.floor(i / rows) * wide, HEAT_AXIS + i % rows * high, Math.max(1, wide - 1), Math.max(1, high - 1));
        }
        context.globalAlpha = 0.7;
        context.fillStyle = theme.text;
        context.font = FONT;
        context.textBaseline = "middle";
        const every = nice(HEAT_TICK_ROOM / wide);
        for (let column = 0; column < columns; column += every)
            context.fillText(moment(begin + column * span, span), HEAT_LABELS + column * wide + 2, HEAT_AXIS / 2);
        for (let row = 0; row < rows; row += Math.ceil(36 / high))
            context.fillText("+" + moment(row * cell, cell), 4, HEAT_AXIS + row * high + 7);
        context.globalAlpha = 1;
    }

    /**
     * The cell at a place, or the nearest one.
     * @param {Canvas} canvas
     * @param {number} x
     * @param {number} y
     */
    cellAt(canvas, x, y) {
        const {columns, rows, wide, high} = this.grid(canvas);
        const column = Math.min(columns - 1, Math.max(0, Math.floor((x - HEAT_LABELS) / wide)));
        return column * rows + Math.min(rows - 1, Math.max(0, Math.floor((y - HEAT_AXIS) / high)));
    }

    /**
     * @param {Canvas} canvas
     * @param {number} x
     */
    timeAt(canvas, x) {
        const {begin, span, wide} = this.grid(canvas);
        return Math.max(canvas.range.from, Math.min(canvas.range.to, begin + (x - HEAT_LABELS) / wide * span));
    }

    /**
     * @param {Canvas} canvas
     * @param {{x: number, y: number}} from
     * @param {{x: number, y: number}} to
     */
    rangeOf(canvas, from, to) {
        const {begin, cell} = this.grid(canvas);
        const a = this.cellAt(canvas, from.x, from.y), b = this.cellAt(canvas, to.x, to.y);
        return {from: Math.round(begin + Math.min(a, b) * cell), to: Math.round(begin + (Math.max(a, b) + 1) * cell)};
    }

    /**
     * @param {Canvas} canvas
     * @param {number} x
     * @param {number} y
     * @returns {Spot | null}
     */
    spotAt(canvas, x, y) {
        const {begin, cell, columns, rows, wide, high} = this.grid(canvas);
        if (x < HEAT_LABELS || y < HEAT_AXIS || x >= HEAT_LABELS + columns * wide || y >= HEAT_AXIS + rows * high)
            return null;
        const {cost, func} = this.cells(canvas), i = this.cellAt(canvas, x, y), from = begin + i * cell;
        return {text: "all threads", func: func[i], cost: cost[i], size: cell, from, to: from + cell};
    }
}
