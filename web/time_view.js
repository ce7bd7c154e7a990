// SPDX-License-Identifier: MIT
// What ran when. A drag chooses a part of the recording, and all other views show that part alone.

import { colouring, currentTheme } from "./colour.js";
import { button, element, fill } from "./dom.js";
import { HeatPicture } from "./heat_canvas.js";
import { LanePicture } from "./lane_canvas.js";
import { Lays } from "./lane_picture.js";
import { amount, moment, percent } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { DEEPEST } from "./state.js";
import { TimeLegend } from "./time_legend.js";
import { Tooltip } from "./tooltip.js";

/** @typedef {import("./timeline.js").Range} Range */
/** @typedef {import("./lane_canvas.js").Canvas} Canvas */
/** @typedef {{x: number, y: number}} Point */

const CLICK = 3; // pixels: a drag goes further
const SHORTEST = 1000; // nanoseconds that can be seen

export class TimeView {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {Tooltip} tooltip
     */
    constructor(session, selection, tooltip) {
        this.session = session;
        this.selection = selection;
        this.tooltip = tooltip;
        const lays = this.lays = new Lays(session);
        this.pictures = {threads: new LanePicture(session, lays), heat: new HeatPicture(session, lays)};
        this.legend = new TimeLegend(session, selection);
        this.bar = element("div", {class: "time-bar"});
        this.canvas = element("canvas", {class: "flame-canvas", role: "img", "aria-label": "costs over time"});
        this.space = element("div", {class: "flame-space"});
        this.scroll = element("div", {class: "flame", tabindex: "0"}, this.canvas, this.space);
        this.host = element("div", {class: "flame-view"}, this.bar, this.scroll, this.legend.host);
        const context = this.canvas.getContext("2d", {alpha: false});
        if (!context)
            throw new Error("this browser draws no canvas");
        this.context = context;
        /** @type {Range} what is seen */
        this.seen = {from: 0, to: Math.max(1, (session.profile.timeline?.end ?? 0) + 1)};
        this.whole = {...this.seen};
        /** @type {Range | null} while it is dragged */
        this.dragged = null;
        this.scheduled = false;
        this.drawn = 0; // pictures so far
        this.listen();
        new ResizeObserver(() => this.resize()).observe(this.scroll);
    }

    get picture() {
        return this.pictures[this.session.state.lanes];
    }

    listen() {
        const {canvas, scroll} = this;
        /** @type {Point | null} */
        let from = null;
        scroll.addEventListener("scroll", () => this.schedule());
        canvas.addEventListener("pointerdown", (event) => {
            if (event.button === 0) {
                from = {x: event.offsetX, y: event.offsetY};
                canvas.setPointerCapture(event.pointerId);
            }
        });
        canvas.addEventListener("pointermove", (event) => {
            const at = {x: event.offsetX, y: event.offsetY};
            if (from && (this.dragged || Math.abs(at.x - from.x) + Math.abs(at.y - from.y) > CLICK)) {
                this.dragged = this.picture.rangeOf(this.place(), from, at);
                this.tooltip.hide();
                this.writeBar();
                this.schedule();
            } else if (!from) {
                this.hover(at, event.clientX, event.clientY);
            }
        });
        canvas.addEventListener("pointerup", (event) => {
            const range = this.dragged;
            if (from && range)
                this.choose(range);
            else if (from)
                this.select({x: event.offsetX, y: event.offsetY});
            from = this.dragged = null;
        });
        canvas.addEventListener("pointercancel", () => from = this.dragged = null);
        canvas.addEventListener("pointerleave", () => this.tooltip.hide());
        canvas.addEventListener("dblclick", () => this.choose(null));
        scroll.addEventListener("wheel", (event) => {
            if (event.ctrlKey || event.metaKey) {
                event.preventDefault();
                this.zoom(this.picture.timeAt(this.place(), event.offsetX), Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.004)));
            } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
                event.preventDefault();
                this.pan((event.deltaX || event.deltaY) / 1000);
            }
        }, {passive: false});
    }

    /** @param {Range | null} range */
    choose(range) {
        this.dragged = null;
        if (range && range.to <= range.from)
            return;
        this.session.change({from: range?.from ?? 0, to: range?.to ?? 0, zoom: []});
    }

    /** @param {Point} at */
    select({x, y}) {
        const spot = this.picture.spotAt(this.place(), x, y);
        if (spot && spot.func >= 0)
            this.selection.function(spot.func);
    }

    /**
     * @param {Point} at
     * @param {number} x
     * @param {number} y
     */
    hover(at, x, y) {
        const spot = this.picture.spotAt(this.place(), at.x, at.y), {metric} = this.session;
        if (!spot || spot.func < 0) {
            this.tooltip.hide();
            return;
        }
        this.tooltip.say(this.session.name(spot.func), [spot.text, `${moment(spot.from, spot.size)}, for ${amount(spot.size, "ns")}`,
            `${amount(spot.cost, metric.unit)} ${metric.name}, ${percent(spot.cost, spot.size)} of the time`], x, y);
    }

    /**
     * @param {number} time stays where it is
     * @param {number} factor
     */
    zoom(time, factor) {
        const {seen} = this, size = (seen.to - seen.from) * factor;
        const from = time - (time - seen.from) * factor;
        this.see(from, from + Math.max(SHORTEST, size));
    }

    /** @param {number} share of what is seen */
    pan(share) {
        const {seen} = this, shift = share * (seen.to - seen.from);
        this.see(seen.from + shift, seen.to + shift);
    }

    /**
     * @param {number} from
     * @param {number} to
     */
    see(from, to) {
        const {whole} = this, size = Math.min(whole.to, to - from), begin = Math.max(0, Math.min(from, whole.to - size));
        this.seen = {from: begin, to: begin + size};
        this.writeBar();
        this.schedule();
    }

    update() {
        for (const picture of Object.values(this.pictures))
            picture.update();
        this.writeBar();
        this.resize();
    }

    writeBar() {
        const {session, seen, whole} = this, {state} = session, range = this.dragged ?? session.range;
        /** @param {"threads" | "heat"} lanes */
        const mode = (lanes) => () => session.change({lanes}, "replace");
        const depth = element("select", {title: "which function a colour stands for", "aria-label": "depth",
            onchange: () => session.change({depth: Number(depth.value)}, "replace")},
        element("option", {value: 0}, "innermost function"),
        ...Array.from({length: DEEPEST}, (_, i) => element("option", {value: i + 1}, i === 0 ? "1 call below main" : `${i + 1} calls below main`)));
        depth.value = String(state.depth);
        const zoomed = seen.from > whole.from || seen.to < whole.to;
        fill(this.bar, button("Threads", "a lane for each thread", mode("threads"), state.lanes === "threads" ? "chosen" : ""),
            button("Heat map", "a column for each second, a row for each part of it", mode("heat"), state.lanes === "heat" ? "chosen" : ""),
            state.lanes === "threads" && depth,
            range ? element("b", {}, `${moment(range.from, (range.to - range.from) / 100)} – ${moment(range.to, (range.to - range.from) / 100)}`)
                : element("span", {class: "share"}, "drag to choose a part; all views show it alone"),
            range && element("span", {class: "share"}, `${amount(range.to - range.from, "ns")}`),
            range && button("Zoom in", "to the chosen part (Enter)", () => this.see(range.from, range.to)),
            zoomed && button("Zoom out", "to the whole recording (Backspace)", () => this.see(whole.from, whole.to)),
            range && button("Choose all", "the whole recording (Esc)", () => this.choose(null)));
    }

    resize() {
        const {scroll, canvas} = this, ratio = window.devicePixelRatio || 1, width = scroll.clientWidth, height = scroll.clientHeight;
        canvas.style.width = width + "px";
        canvas.style.height = height + "px";
        canvas.width = Math.max(1, Math.round(width * ratio));
        canvas.height = Math.max(1, Math.round(height * ratio));
        this.space.style.height = Math.max(height, this.picture.height) + "px";
        this.schedule();
    }

    /** @returns {Canvas} */
    place() {
        const {session, context, scroll, seen} = this, theme = currentTheme();
        return {context, width: scroll.clientWidth, height: scroll.clientHeight, top: scroll.scrollTop, range: seen,
            chosen: this.dragged ?? session.range, theme, colours: colouring(session, session.wholeTree, theme, "function")};
    }

    schedule() {
        if (this.scheduled)
            return;
        this.scheduled = true;
        requestAnimationFrame(() => {
            this.scheduled = false;
            this.draw();
        });
    }

    draw() {
        const place = this.place(), ratio = window.devicePixelRatio || 1;
        if (place.width === 0)
            return;
        place.context.setTransform(ratio, 0, 0, ratio, 0, 0);
        place.context.fillStyle = place.theme.background;
        place.context.fillRect(0, 0, place.width, place.height);
        this.picture.draw(place);
        this.explain(place);
        this.drawn++;
    }

    /** @param {Canvas} place */
    explain(place) {
        const {heat} = this.pictures;
        if (this.picture !== heat)
            this.legend.showFunctions(place, this.lays);
        else
            this.legend.showHeat(place, heat.cells(place).cost.reduce((a, b) => Math.max(a, b), 0), heat.grid(place).cell);
    }

    /**
     * @param {KeyboardEvent} event
     * @returns {boolean} whether it was a key of this view
     */
    key(event) {
        const {session, seen} = this, middle = (seen.from + seen.to) / 2, {range} = session;
        /** @type {{[key: string]: () => void}} */
        const actions = {
            "+": () => this.zoom(middle, 0.7), "=": () => this.zoom(middle, 0.7), "-": () => this.zoom(middle, 1 / 0.7),
            a: () => this.pan(-0.15), d: () => this.pan(0.15),
            Enter: () => range && this.see(range.from, range.to),
            Backspace: () => this.see(0, this.whole.to),
            v: () => session.change({lanes: session.state.lanes === "heat" ? "threads" : "heat"}, "replace"),
            "[": () => session.change({depth: Math.max(0, session.state.depth - 1)}, "replace"),
            "]": () => session.change({depth: Math.min(DEEPEST, session.state.depth + 1)}, "replace"),
        };
        const action = actions[event.key];
        action?.();
        return action !== undefined;
    }
}
