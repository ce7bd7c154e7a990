// SPDX-License-Identifier: MIT
// A tree as a picture: each node is as wide as its total, and stands on its caller (or hangs below it). Only what can
// be seen is drawn, so that the size of a tree does not matter.

import { element } from "./dom.js";
import { stages } from "./names.js";
import { Session } from "./session.js";
import { Tree } from "./tree.js";

/**
 * @typedef {import("./colour.js").Colouring} Colouring
 * @typedef {import("./colour.js").Theme} Theme
 * @typedef {{tree: Tree, metric: number, colours: Colouring, theme: Theme, matches: Uint8Array | null,
 *   upward: boolean, first: number, share: (node: number) => string}} Picture first is the node that it begins with,
 *   share what stands behind a name
 * @typedef {{select: (node: number) => void, zoom: (node: number) => void,
 *   hover: (node: number, x: number, y: number) => void, open: (node: number) => void}} FlameEvents
 * @typedef {{node: number, x: number, y: number, width: number, height: number}} Frame
 */

export const ROW = 20;
const NARROWEST = 1.2; // pixels of a frame that is drawn by itself
const LABEL_LEAST = 26; // pixels of a frame that has a label
const PADDING = 5;
const ZOOM_MS = 170;
export const FONT = "12px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/** Names that fit. */
class Labels {
    /**
     * @param {Session} session
     * @param {CanvasRenderingContext2D} context
     */
    constructor(session, context) {
        this.session = session;
        this.context = context;
        /** @type {Map<number, {texts: string[], widths: number[]}>} */
        this.known = new Map();
    }

    /** @param {number} func */
    of(func) {
        let label = this.known.get(func);
        if (!label) {
            const texts = stages(this.session.name(func).slice(0, 300));
            label = {texts, widths: texts.map((text) => this.context.measureText(text).width)};
            this.known.set(func, label);
        }
        return label;
    }

    /**
     * The longest form of a name that fits, or the beginning of the shortest; and how wide it is.
     * @param {number} func
     * @param {number} room
     */
    fit(func, room) {
        const {texts, widths} = this.of(func), last = texts.length - 1;
        for (let i = 0; i <= last; i++)
            if (widths[i] <= room)
                return {text: texts[i], width: widths[i]};
        const letters = Math.floor((room - 10) / widths[last] * texts[last].length * 0.97);
        return {text: letters >= 1 ? texts[last].slice(0, letters) + "…" : "", width: room};
    }
}

export class Flame {
    /**
     * @param {Session} session
     * @param {FlameEvents} events
     * @param {string} label
     */
    constructor(session, events, label) {
        this.session = session;
        this.events = events;
        this.canvas = element("canvas", {class: "flame-canvas", role: "img", "aria-label": label});
        this.space = element("div", {class: "flame-space"});
        this.host = element("div", {class: "flame", tabindex: "0"}, this.canvas, this.space);
        const context = this.canvas.getContext("2d", {alpha: false});
        if (!context)
            throw new Error("this browser draws no canvas");
        this.context = context;
        this.labels = new Labels(session, context);
        /** @type {Picture | null} */
        this.picture = null;
        this.from = 0; // the part that is seen, in the units of the layout
        this.to = 1;
        /** @type {{from: number, to: number, start: number} | null} */
        this.moving = null;
        this.goal = {from: 0, to: 1};
        this.hovered = -1;
        this.selected = -1;
        /** @type {Frame[]} what was drawn last */
        this.frames = [];
        this.drawn = 0; // pictures so far
        this.scheduled = false;
        this.width = 0;
        this.height = 0;
        this.listen();
        new ResizeObserver(() => this.resize()).observe(this.host);
    }

    listen() {
        const {host, canvas} = this;
        /** @type {{x: number, y: number, from: number, to: number, top: number} | null} */
        let drag = null;
        let dragged = false;
        host.addEventListener("scroll", () => this.schedule());
        canvas.addEventListener("pointerdown", (event) => {
            if (event.button !== 0)
                return;
            drag = {x: event.clientX, y: event.clientY, from: this.from, to: this.to, top: host.scrollTop};
            dragged = false;
        });
        canvas.addEventListener("pointermove", (event) => {
            if (drag && Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 4 && !dragged) {
                dragged = true;
                canvas.setPointerCapture(event.pointerId);
                this.hover(-1, 0, 0);
            }
            if (!drag || !dragged) {
                this.hover(this.nodeAt(event.offsetX, event.offsetY), event.clientX, event.clientY);
                return;
            }
            const shift = (event.clientX - drag.x) / this.width * (drag.to - drag.from);
            this.show(drag.from - shift, drag.to - shift);
            host.scrollTop = drag.top - (event.clientY - drag.y);
        });
        canvas.addEventListener("pointerup", (event) => {
            const click = drag && !dragged;
            drag = null;
            if (!click)
                return;
            const node = this.nodeAt(event.offsetX, event.offsetY);
            if (node >= 0)
                this.events.zoom(node);
        });
        canvas.addEventListener("pointercancel", () => drag = null);
        canvas.addEventListener("pointerleave", () => this.hover(-1, 0, 0));
        canvas.addEventListener("contextmenu", (event) => {
            const node = this.nodeAt(event.offsetX, event.offsetY);
            if (node < 0)
                return;
            event.preventDefault();
            this.events.open(node);
        });
        host.addEventListener("wheel", (event) => {
            if (event.ctrlKey || event.metaKey) {
                event.preventDefault();
                this.zoomAt(event.offsetX / this.width, Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.004)));
            } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
                event.preventDefault();
                this.pan((event.deltaX || event.deltaY) / this.width);
            }
        }, {passive: false});
    }

    /**
     * What to draw. The part that is seen stays if the tree does.
     * @param {Picture} picture
     */
    set(picture) {
        const {tree, metric, upward} = picture, old = this.picture;
        const same = old && old.tree === tree && old.metric === metric;
        this.picture = picture;
        if (!same) {
            const {x, width} = tree.layout(metric), {first} = picture;
            this.from = x[first];
            this.to = x[first] + (width[first] || 1);
            this.goal = {from: this.from, to: this.to};
            this.moving = null;
            this.hovered = -1;
            this.frames = [];
        }
        this.resize();
        if (!same || old.upward !== upward)
            this.host.scrollTop = upward ? this.space.offsetHeight : 0;
    }

    /** Rows of the picture. */
    get rows() {
        if (!this.picture)
            return 0;
        const {deepest, depth} = this.picture.tree.layout(this.picture.metric);
        return deepest + 1 - depth[this.picture.first];
    }

    resize() {
        const {host, canvas} = this, ratio = window.devicePixelRatio || 1;
        const bottom = this.picture?.upward && host.scrollTop + this.height >= this.space.offsetHeight - 2;
        this.width = host.clientWidth;
        this.height = host.clientHeight;
        canvas.style.width = this.width + "px";
        canvas.style.height = this.height + "px";
        canvas.width = Math.max(1, Math.round(this.width * ratio));
        canvas.height = Math.max(1, Math.round(this.height * ratio));
        this.space.style.height = Math.max(this.height, this.rows * ROW + 8) + "px";
        if (bottom)
            host.scrollTop = this.space.offsetHeight;
        this.schedule();
    }

    schedule() {
        if (this.scheduled)
            return;
        this.scheduled = true;
        requestAnimationFrame((now) => {
            this.scheduled = false;
            this.draw(now);
        });
    }

    /**
     * Shows a part, at once.
     * @param {number} from
     * @param {number} to
     */
    show(from, to) {
        if (!this.picture)
            return;
        const {x, width} = this.picture.tree.layout(this.picture.metric), {first} = this.picture;
        const whole = width[first] || 1, size = Math.min(whole, Math.max(to - from, whole * 1e-12));
        from = Math.max(x[first], Math.min(from, x[first] + whole - size));
        this.moving = null;
        this.from = from;
        this.to = from + size;
        this.goal = {from, to: from + size};
        this.schedule();
    }

    /**
     * @param {number} at from 0 to 1, what stays where it is
     * @param {number} factor
     */
    zoomAt(at, factor) {
        const fixed = this.from + at * (this.to - this.from);
        this.show(fixed - (fixed - this.from) * factor, fixed + (this.to - fixed) * factor);
    }

    /** @param {number} share */
    pan(share) {
        const shift = share * (this.to - this.from);
        this.show(this.from + shift, this.to + shift);
    }

    /**
     * Makes a node as wide as the picture.
     * @param {number} node
     * @param {"moving" | "at once"} how
     */
    zoomTo(node, how) {
        if (!this.picture)
            return;
        const {x, width} = this.picture.tree.layout(this.picture.metric);
        if (!(width[node] > 0))
            return;
        const goal = {from: x[node], to: x[node] + width[node]};
        const calm = how === "at once" || matchMedia("(prefers-reduced-motion: reduce)").matches;
        if (goal.from === this.goal.from && goal.to === this.goal.to)
            return;
        if (calm) {
            this.show(goal.from, goal.to);
        } else {
            this.goal = goal;
            this.moving = {from: this.from, to: this.to, start: performance.now()};
            this.schedule();
        }
        this.reveal(node);
    }

    /**
     * Scrolls to the row of a node, if that is out of sight.
     * @param {number} node
     */
    reveal(node) {
        if (!this.picture)
            return;
        const {host} = this, y = this.rowTop(this.depthOf(node)) + host.scrollTop;
        if (y < host.scrollTop || y + ROW > host.scrollTop + this.height)
            host.scrollTop = y - this.height / 3;
    }

    /** @param {number} node */
    depthOf(node) {
        if (!this.picture)
            return 0;
        const {depth} = this.picture.tree.layout(this.picture.metric);
        return depth[node] - depth[this.picture.first];
    }

    /**
     * Where a row begins, from the top of the canvas.
     * @param {number} depth
     */
    rowTop(depth) {
        const top = this.host.scrollTop;
        return this.picture?.upward ? this.space.offsetHeight - 4 - (depth + 1) * ROW - top : 4 + depth * ROW - top;
    }

    /** @param {number} now */
    move(now) {
        if (!this.moving)
            return;
        const {from, to, start} = this.moving, time = Math.min(1, Math.max(0, now - start) / ZOOM_MS);
        const eased = 1 - (1 - time) ** 3;
        this.from = from + (this.goal.from - from) * eased;
        this.to = to + (this.goal.to - to) * eased;
        if (time === 1) {
            this.from = this.goal.from;
            this.to = this.goal.to;
            this.moving = null;
        } else {
            this.schedule();
        }
    }

    /** @param {number} now */
    draw(now) {
        const {context, picture} = this;
        if (!picture || this.width === 0)
            return;
        this.move(now);
        const ratio = window.devicePixelRatio || 1, {theme, tree, metric} = picture;
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.fillStyle = theme.background;
        context.fillRect(0, 0, this.width, this.height);
        context.font = FONT;
        context.textBaseline = "middle";
        this.frames = [];
        const {x, width} = tree.layout(metric), {start, list} = tree.children(metric);
        const scale = this.width / (this.to - this.from);
        let row = width[picture.first] > 0 ? [picture.first] : [];
        for (let depth = 0; row.length > 0; depth++) {
            const y = this.rowTop(depth), below = this.rowTop(depth + 1);
            if (picture.upward ? y < -ROW : y > this.height)
                break;
            const seen = y > -ROW && y < this.height, next = [];
            for (const node of row) {
                if (seen)
                    this.drawFrame(node, (x[node] - this.from) * scale, y, width[node] * scale);
                const end = start[node + 1];
                let i = firstBehind(list, start[node], end, x, width, this.from);
                for (; i < end; i++) {
                    const child = list[i], left = (x[child] - this.from) * scale;
                    if (left > this.width)
                        break;
                    if (width[child] * scale < NARROWEST) {
                        // So are all that follow.
                        const last = list[end - 1], right = (x[last] + width[last] - this.from) * scale;
                        this.drawRest(left, below, right - left);
                        break;
                    }
                    next.push(child);
                }
            }
            row = next;
        }
        this.drawn++;
    }

    /**
     * Nodes that are too small to be seen one by one.
     * @param {number} left
     * @param {number} y
     * @param {number} width
     */
    drawRest(left, y, width) {
        if (y < -ROW || y > this.height || width < 0.4 || !this.picture)
            return;
        this.context.fillStyle = this.picture.theme.rest;
        this.context.fillRect(Math.max(0, left), y, Math.min(this.width, left + width) - Math.max(0, left), ROW - 1);
    }

    /**
     * @param {number} node
     * @param {number} left
     * @param {number} y
     * @param {number} wide
     */
    drawFrame(node, left, y, wide) {
        const {context} = this, {tree, colours, theme, matches, share} = /** @type {Picture} */ (this.picture);
        const begin = Math.max(0, left), end = Math.min(this.width, left + wide), width = end - begin;
        if (width <= 0)
            return;
        this.frames.push({node, x: begin, y, width, height: ROW});
        const matched = matches !== null && tree.isCode(node) && matches[tree.func[node]] !== 0;
        context.globalAlpha = matches && !matched ? 0.38 : 1;
        context.fillStyle = matched ? theme.match : colours.of(node);
        const gap = width > 3 ? 1 : width > 1.5 ? 0.5 : 0;
        context.fillRect(begin, y, width - gap, ROW - 1);
        if (node === this.selected || node === this.hovered) {
            context.globalAlpha = 1;
            context.strokeStyle = node === this.selected ? theme.accent : theme.text;
            context.lineWidth = node === this.selected ? 2 : 1;
            context.strokeRect(begin + 1, y + 1, Math.max(1, width - gap - 2), ROW - 3);
        }
        const room = width - 2 * PADDING;
        if (width >= LABEL_LEAST) {
            const {text, width: taken} = this.labels.fit(tree.func[node], room);
            context.fillStyle = matched ? theme.matchText : theme.text;
            if (text)
                context.fillText(text, begin + PADDING, y + ROW / 2);
            if (room > taken + 70) {
                context.globalAlpha *= 0.62;
                context.fillText(share(node), begin + PADDING + taken + 10,
                    y + ROW / 2);
            }
        }
        context.globalAlpha = 1;
    }

    /**
     * The node that was drawn there, or -1.
     * @param {number} x
     * @param {number} y
     */
    nodeAt(x, y) {
        for (const frame of this.frames)
            if (y >= frame.y && y < frame.y + ROW && x >= frame.x && x < frame.x + frame.width)
                return frame.node;
        return -1;
    }

    /**
     * @param {number} node
     * @param {number} x
     * @param {number} y
     */
    hover(node, x, y) {
        this.events.hover(node, x, y);
        this.canvas.style.cursor = node >= 0 ? "pointer" : "default";
        if (node === this.hovered)
            return;
        this.hovered = node;
        this.schedule();
    }

    /** @param {number} node */
    select(node) {
        this.selected = node;
        this.schedule();
    }

    /**
     * The node beside one, above or below it, that can be seen; itself if there is none.
     * @param {number} node
     * @param {"caller" | "callee" | "left" | "right"} where
     */
    neighbour(node, where) {
        if (!this.picture || node < 0)
            return 0;
        const {tree, metric} = this.picture, {start, list} = tree.children(metric);
        if (where === "caller")
            return Math.max(0, tree.parent[node]);
        if (where === "callee")
            return start[node] < start[node + 1] && tree.total[metric][list[start[node]]] > 0 ? list[start[node]] : node;
        const parent = tree.parent[node];
        if (parent < 0)
            return node;
        const at = list.indexOf(node, start[parent]) + (where === "left" ? -1 : 1);
        return at >= start[parent] && at < start[parent + 1] && tree.total[metric][list[at]] > 0 ? list[at] : node;
    }
}

/**
 * The first of a range of siblings that ends behind a place.
 * @param {Uint32Array} list
 * @param {number} begin
 * @param {number} end
 * @param {Float64Array} x
 * @param {Float64Array} width
 * @param {number} place
 */
function firstBehind(list, begin, end, x, width, place) {
    while (begin < end) {
        const middle = (begin + end) >>> 1, node = list[middle];
        if (x[node] + width[node] > place)
            end = middle;
        else
            begin = middle + 1;
    }
    return begin;
}
