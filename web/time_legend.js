// SPDX-License-Identifier: MIT
// What the colours of the view of time stand for: functions, or how busy all threads were.

import { button, element, fill } from "./dom.js";
import { heatTone } from "./heat_canvas.js";
import { lanesOf } from "./lane_picture.js";
import { amount, percent } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";

/** @typedef {import("./lane_canvas.js").Canvas} Canvas */
/** @typedef {import("./lane_picture.js").Lays} Lays */

const MOST_FUNCTIONS = 20; // those that two lines have no room for are cut off
const TONES = 8;

export class TimeLegend {
    /**
     * @param {Session} session
     * @param {Selection} selection
     */
    constructor(session, selection) {
        this.session = session;
        this.selection = selection;
        this.host = element("div", {class: "legend time-legend", role: "list", "aria-label": "what colours stand for"});
        this.key = "";
    }

    /**
     * The functions that cost most of what is seen, or of the part that is chosen.
     * @param {Canvas} canvas
     * @param {Lays} lays
     */
    showFunctions({range, chosen, colours, theme}, lays) {
        const {session} = this, sums = lays.costs(lanesOf(session), chosen ?? range), whole = sums.reduce((a, b) => a + b, 0);
        const order = [...sums.keys()].filter((func) => sums[func] > 0).sort((a, b) => sums[b] - sums[a]).slice(0, MOST_FUNCTIONS);
        const key = JSON.stringify([theme.dark, order.map((func) => [func, sums[func]]), whole]);
        if (key === this.key)
            return;
        this.key = key;
        fill(this.host, ...order.map((func) => {
            const entry = button("", `${session.name(func)}\n${amount(sums[func], session.metric.unit)} ${session.metric.name}`,
                () => this.selection.function(func), "entry"), swatch = element("span", {class: "swatch"});
            swatch.style.backgroundColor = colours.swatch(func);
            entry.setAttribute("role", "listitem");
            fill(entry, swatch, element("span", {class: "text"}, session.shortName(func)),
                element("span", {class: "share"}, percent(sums[func], whole)));
            return entry;
        }));
    }

    /**
     * @param {Canvas} canvas
     * @param {number} most cost of a cell
     * @param {number} size of a cell, in nanoseconds
     */
    showHeat({theme}, most, size) {
        const {metric} = this.session, key = JSON.stringify([theme.dark, most, size, metric.index]);
        if (key === this.key)
            return;
        this.key = key;
        const scale = element("span", {class: "scale"});
        scale.style.background = `linear-gradient(to right, ${Array.from({length: TONES + 1}, (_, i) => heatTone(i / TONES, theme)).join(", ")})`;
        fill(this.host, element("span", {class: "share"}, `0 ${metric.name}`), scale,
            element("span", {class: "share"}, `${amount(most, metric.unit)} in ${amount(size, "ns")}: the busiest cell`));
    }
}
