// SPDX-License-Identifier: MIT
// Draws lanes of threads below an axis.

import { FONT } from "./flame.js";
import { AS_CHOSEN, COLUMN, Lays, lanesOf, ticksOf } from "./lane_picture.js";
import { moment } from "./numbers.js";
import { Session } from "./session.js";

/**
 * @typedef {import("./colour.js").Theme} Theme
 * @typedef {import("./colour.js").Colouring} Colouring
 * @typedef {import("./lane_picture.js").NamedLane} NamedLane
 * @typedef {import("./lane_picture.js").Spot} Spot
 * @typedef {import("./timeline.js").Range} Range
 * @typedef {{context: CanvasRenderingContext2D, width: number, height: number, top: number, range: Range,
 *   chosen: Range | null, theme: Theme, colours: Colouring}} Canvas top: how far it is scrolled; range: the time that is
 *   seen; chosen: the part that is looked at
 */

const AXIS = 22, LEAST_LANE = 26, MOST_LANE = 72, LABELS = 190, SUM = 34;
const TICK_ROOM = 90, DIM = 0.28;
const LEVEL = 18, LEAST_LEVELS = 3, LEAST_TEXT = 30; // pixels; what is worth showing
const MOST_LAID = 8e6; // charges that are laid out for a picture

export class LanePicture {
    /**
     * @param {Session} session
     * @param {Lays} lays
     */
    constructor(session, lays) {
        this.session = session;
        this.lays = lays;
        /** @type {NamedLane[]} */
        this.lanes = [];
    }

    update() {
        this.lanes = lanesOf(this.session);
    }

    get sum() {
        return this.lanes.length > 1 ? SUM : 0;
    }

    get height() {
        return AXIS + this.sum + this.lanes.length * LEAST_LANE + 6;
    }

    /**
     * The heights of a lane and of its costs: few lanes share what room there is, and below the costs stand callees, level
     * by level.
     * @param {Canvas} canvas
     */
    lane({height}) {
        const {profile} = this.session, {lays} = this, count = Math.max(1, this.lanes.length);
        const room = (height - AXIS - this.sum - 6) / count;
        const bar = Math.floor(Math.min(MOST_LANE, Math.max(LEAST_LANE, room)));
        lays.update();
        const most = MOST_LAID / (profile.count + (profile.timeline?.time.length ?? 0));
        const levels = Math.floor(Math.min(lays.deepest + 1, most, (room - bar) / LEVEL));
        return levels < LEAST_LEVELS ? {bar, levels: 0, high: bar} : {bar, levels, high: bar + levels * LEVEL};
    }

    /** @param {number} width */
    columns(width) {
        return Math.max(1, Math.floor((width - LABELS) / COLUMN));
    }

    /**
     * The moment at a place of the canvas.
     * @param {Canvas} canvas
     * @param {number} x
     */
    timeAt({range, width}, x) {
        const share = (x - LABELS) / (this.columns(width) * COLUMN);
        return range.from + Math.min(1, Math.max(0, share)) * (range.to - range.from);
    }

    /**
     * What is chosen by a drag from one place to another.
     * @param {Canvas} canvas
     * @param {{x: number, y: number}} from
     * @param {{x: number, y: number}} to
     */
    rangeOf(canvas, from, to) {
        const a = this.timeAt(canvas, from.x), b = this.timeAt(canvas, to.x);
        return {from: Math.round(Math.min(a, b)), to: Math.round(Math.max(a, b))};
    }

    /** @param {Canvas} canvas */
    draw(canvas) {
        const {context, height, top} = canvas, {high, bar, levels} = this.lane(canvas);
        context.font = FONT;
        context.textBaseline = "middle";
        this.drawSum(canvas);
        for (const [i, lane] of this.lanes.entries()) {
            const y = AXIS + this.sum + i * high - top;
            if (y > height)
                break;
            if (y <= AXIS - high)
                continue;
            this.drawLane(canvas, lane, y, bar - 4);
            for (let level = 0; level < levels; level++)
                this.drawLevel(canvas, lane, y + bar + level * LEVEL, level);
        }
        this.drawAxis(canvas);
    }

    /**
     * How bright columns are: less outside of what is chosen.
     * @param {Canvas} canvas
     * @param {number} columns
     */
    brightness({range, chosen}, columns) {
        const size = (range.to - range.from) / columns;
        return (/** @type {number} */ column) => {
            const begin = range.from + column * size;
            return !chosen || (begin + size > chosen.from && begin < chosen.to) ? 1 : DIM;
        };
    }

    /** @param {Canvas} canvas all threads together, as high as the busiest moment */
    drawSum(canvas) {
        if (this.sum === 0)
            return;
        const {context, range, top, theme} = canvas, columns = this.columns(canvas.width), cost = new Float64Array(columns);
        for (const {lane} of this.lanes)
            this.lays.of(lane, range, columns).cost.forEach((one, i) => cost[i] += one);
        const most = cost.reduce((a, b) => Math.max(a, b), 0) || 1, bottom = AXIS + SUM - 4 - top;
        const bright = this.brightness(canvas, columns);
        context.fillStyle = theme.text;
        context.globalAlpha = 0.75;
        context.fillText("all threads", 8, bottom - SUM / 2 + 4);
        context.fillStyle = theme.accent;
        for (let i = 0; i < columns; i++) {
            const high = Math.ceil(cost[i] / most * (SUM - 8));
            context.globalAlpha = 0.6 * bright(i);
            if (high > 0)
                context.fillRect(LABELS + i * COLUMN, bottom - high, COLUMN, high);
        }
        context.globalAlpha = 1;
    }

    /**
     * @param {Canvas} canvas
     * @param {NamedLane} named
     * @param {number} y
     * @param {number} room
     */
    drawLane(canvas, {lane, name}, y, room) {
        const {context, range, theme, colours, width} = canvas, columns = this.columns(width), {searched} = this.session;
        const {cost, func} = this.lays.of(lane, range, columns), size = (range.to - range.from) / columns;
        const bright = this.brightness(canvas, columns);
        context.fillStyle = theme.owner;
        context.globalAlpha = 0.35;
        context.fillRect(LABELS, y, columns * COLUMN, room);
        for (let i = 0; i < columns; i++) {
            if (func[i] < 0)
                continue;
            const high = Math.max(2, Math.round(Math.min(1, cost[i] / size) * room)), match = searched !== null && searched[func[i]] !== 0;
            context.globalAlpha = bright(i) * (searched && !match ? 0.45 : 1);
            context.fillStyle = match ? theme.match : colours.swatch(func[i]);
            context.fillRect(LABELS + i * COLUMN, y + room - high, COLUMN, high);
        }
        context.globalAlpha = 1;
        context.fillStyle = theme.text;
        // The number tells threads of one name apart.
        const number = / \[\d+\]$/.exec(name)?.[0] ?? "", rest = name.slice(0, name.length - number.length);
        context.fillText(shortened(context, rest, LABELS - 16 - context.measureText(number).width) + number, 8, y + room / 2);
    }

    /**
     * Which functions ran on a level of a lane; their names where they ran long enough.
     * @param {Canvas} canvas
     * @param {NamedLane} named
     * @param {number} y
     * @param {number} level
     */
    drawLevel(canvas, {lane}, y, level) {
        const {context, range, theme, colours, width} = canvas, columns = this.columns(width), {session} = this, {searched} = session;
        const {func} = this.lays.of(lane, range, columns, level), bright = this.brightness(canvas, columns);
        for (let i = 0, end; i < columns; i = end) {
            for (end = i + 1; end < columns && func[end] === func[i] && bright(end) === bright(i);)
                end++;
            if (func[i] < 0)
                continue;
            const match = searched !== null && searched[func[i]] !== 0, x = LABELS + i * COLUMN, wide = (end - i) * COLUMN;
            context.globalAlpha = bright(i) * (searched && !match ? 0.45 : 1);
            context.fillStyle = match ? theme.match : colours.swatch(func[i]);
            context.fillRect(x, y, wide, LEVEL - 1);
            if (wide < LEAST_TEXT)
                continue;
            context.fillStyle = match ? theme.matchText : theme.text;
            context.fillText(shortened(context, session.shortName(func[i]), wide - 6), x + 3, y + LEVEL / 2);
        }
        context.globalAlpha = 0.7;
        context.fillStyle = theme.text;
        if (level === 0)
            context.fillText("callers above callees", 8, y + LEVEL / 2);
        context.globalAlpha = 1;
    }

    /** @param {Canvas} canvas */
    drawAxis(canvas) {
        const {context, range, theme, width, chosen} = canvas, wide = this.columns(width) * COLUMN;
        const {step, ticks} = ticksOf(range, wide / TICK_ROOM), scale = wide / (range.to - range.from);
        context.fillStyle = theme.background;
        context.fillRect(0, 0, width, AXIS);
        context.fillStyle = theme.text;
        for (const tick of ticks) {
            const x = LABELS + (tick - range.from) * scale;
            context.globalAlpha = 0.25;
            context.fillRect(x, AXIS - 5, 1, 5);
            context.globalAlpha = 0.7;
            const text = moment(tick, step);
            if (x + 3 + context.measureText(text).width <= width)
                context.fillText(text, x + 3, AXIS / 2);
        }
        context.globalAlpha = 1;
        if (!chosen)
            return;
        const begin = LABELS + Math.max(0, (chosen.from - range.from) * scale);
        const end = LABELS + Math.min(wide, (chosen.to - range.from) * scale);
        context.fillStyle = theme.accent;
        if (end > begin)
            context.fillRect(begin, AXIS - 4, Math.max(2, end - begin), 4);
    }

    /**
     * @param {Canvas} canvas
     * @param {number} x
     * @param {number} y
     * @returns {Spot | null}
     */
    spotAt(canvas, x, y) {
        const {range, width, top} = canvas, columns = this.columns(width), size = (range.to - range.from) / columns;
        const {high, bar} = this.lane(canvas), below = y + top - AXIS - this.sum;
        const column = Math.floor((x - LABELS) / COLUMN), row = Math.floor(below / high);
        const inside = below - row * high, level = inside < bar ? AS_CHOSEN : Math.floor((inside - bar) / LEVEL);
        const named = y < AXIS ? undefined : this.lanes[row];
        if (!named || column < 0 || column >= columns)
            return null;
        const {cost, func} = this.lays.of(named.lane, range, columns, level), from = range.from + column * size;
        return {text: named.title, func: func[column], cost: cost[column], size, from, to: from + size};
    }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} room
 */
function shortened(context, text, room) {
    const {width} = context.measureText(text);
    return width <= room ? text : text.slice(0, Math.max(1, Math.floor((room - 10) / width * text.length))) + "…";
}
