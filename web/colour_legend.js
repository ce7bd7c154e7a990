// SPDX-License-Identifier: MIT
// What the colours of frames stand for, in a line below them.

import { costTone, changeTone, FULL_HEAT } from "./colour.js";
import { element, fill } from "./dom.js";
import { safe } from "./names.js";
import { amount, percent } from "./numbers.js";
import { Session } from "./session.js";
import { Tree } from "./tree.js";

/** @typedef {import("./colour.js").Colouring} Colouring */
/** @typedef {import("./colour.js").Theme} Theme */

const MOST_MODULES = 16; // those that the line has no room for are cut off
const SCALE_TONES = 8, SCALE_CHANGE = 0.7;

export class ColourLegend {
    /** @param {Session} session */
    constructor(session) {
        this.session = session;
        this.host = element("div", {class: "legend one-line", role: "list", "aria-label": "what colours stand for"});
    }

    /**
     * @param {Tree} tree
     * @param {Colouring} colours
     * @param {Theme} theme
     */
    update(tree, colours, theme) {
        const {colour} = this.session.state;
        fill(this.host, ...colour === "module" ? this.modules(tree, colours) : colour === "change" ? changes(theme)
            : colour === "cost" ? costs(theme) : [words("each function has a colour of its own")]);
    }

    /**
     * The share of each module's own cost.
     * @param {Tree} tree
     * @param {Colouring} colours
     */
    modules(tree, colours) {
        const {profile, widthMetric, metric} = this.session, self = tree.self[widthMetric], whole = tree.total[widthMetric][0];
        const sums = new Float64Array(profile.modules.count + 1), first = new Int32Array(sums.length).fill(-1);
        for (let i = 1; i < tree.count; i++) {
            const func = tree.func[i], module = profile.module[func];
            if (self[i] > 0 && module > 0) {
                sums[module] += self[i];
                first[module] = func;
            }
        }
        return [...sums.keys()].filter((module) => first[module] >= 0).sort((a, b) => sums[b] - sums[a]).slice(0, MOST_MODULES)
            .map((module) => {
                const path = safe(profile.modules.get(module - 1));
                return entry(colours.module(first[module]), path.split("/").pop() || path, percent(sums[module], whole),
                    `${path}\n${amount(sums[module], metric.unit)} ${metric.name} by itself`);
            });
    }
}

/**
 * @param {string} colour
 * @param {string} text
 * @param {string} [share]
 * @param {string} [title]
 */
function entry(colour, text, share, title) {
    const swatch = element("span", {class: "swatch"});
    swatch.style.backgroundColor = colour;
    return element("span", {class: "entry", role: "listitem", title}, swatch, element("span", {class: "text"}, text),
        share ? element("span", {class: "share"}, share) : null);
}

/** @param {string} text */
function words(text) {
    return element("span", {class: "share"}, text);
}

/** @param {Theme} theme */
function changes(theme) {
    return [entry(changeTone(SCALE_CHANGE, theme), "costs more"), entry(changeTone(-SCALE_CHANGE, theme), "costs less"),
        entry(changeTone(0, theme), "as before, or noise")];
}

/** @param {Theme} theme */
function costs(theme) {
    const scale = element("span", {class: "scale"});
    scale.style.background = `linear-gradient(to right, ${Array.from({length: SCALE_TONES + 1},
        (_, i) => costTone(Math.sqrt(i / SCALE_TONES), theme)).join(", ")})`;
    return [words("own cost: 0 %"), scale, words(`${percent(FULL_HEAT, 1)} of all, or more`)];
}
