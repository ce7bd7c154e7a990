// SPDX-License-Identifier: MIT
// The flame graph, with the path of what it is zoomed to.

import { colouring, currentTheme } from "./colour.js";
import { ColourLegend } from "./colour_legend.js";
import { button, element, fill } from "./dom.js";
import { Flame } from "./flame.js";
import { percent, signed } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { Tooltip } from "./tooltip.js";
import { Tree } from "./tree.js";

const MOST_CRUMBS = 7;

/**
 * Of a node: its share, or by how much of all it changed.
 * @param {Session} session
 * @param {Tree} tree
 */
export function shareText(session, tree) {
    const {index, before} = session.metric, total = tree.total[session.widthMetric];
    if (before < 0)
        return (/** @type {number} */ node) => percent(total[node], total[0]);
    const now = tree.total[index], old = tree.total[before];
    return (/** @type {number} */ node) => signed(percent(now[node] - old[node], old[0] || now[0]));
}

export class FlameView {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {Tooltip} tooltip
     * @param {(func: number) => void} open
     */
    constructor(session, selection, tooltip, open) {
        this.session = session;
        this.selection = selection;
        this.crumbs = element("nav", {class: "crumbs", "aria-label": "zoomed to"});
        this.flame = new Flame(session, {
            select: (node) => selection.node(session.tree, node),
            zoom: (node) => this.zoom(node),
            hover: (node, x, y) => tooltip.show(session.tree, node, x, y),
            open: (node) => session.tree.isCode(node) && open(session.tree.func[node]),
        }, "flame graph");
        this.legend = new ColourLegend(session);
        this.host = element("div", {class: "flame-view"}, this.crumbs, this.flame.host, this.legend.host);
        selection.listeners.push(() => this.mark());
    }

    mark() {
        const {chosen} = this.selection;
        this.flame.select(chosen && chosen.tree === this.session.tree ? chosen.node : -1);
    }

    /** @param {number} node */
    zoom(node) {
        const {session} = this;
        this.selection.node(session.tree, node);
        session.change({zoom: session.tree.path(node)});
    }

    update() {
        const {session, flame} = this, {tree, searched} = session, metric = session.widthMetric, theme = currentTheme();
        const same = flame.picture?.tree === tree && flame.picture.metric === metric;
        const colours = colouring(session, tree, theme);
        this.legend.update(tree, colours, theme);
        flame.set({tree, metric, colours, theme, matches: searched,
            upward: session.state.upward, first: 0, share: shareText(session, tree)});
        const node = session.zoomNode(tree);
        flame.zoomTo(node, same ? "moving" : "at once");
        this.writeCrumbs(node);
        this.mark();
    }

    /** @param {number} node */
    writeCrumbs(node) {
        const {session} = this, {tree} = session, path = [];
        for (let at = node; at >= 0; at = tree.parent[at])
            path.push(at);
        path.reverse();
        const cut = path.length > MOST_CRUMBS;
        const shown = cut ? [path[0], ...path.slice(2 - MOST_CRUMBS)] : path;
        const share = shareText(session, tree), parts = [];
        for (const [i, at] of shown.entries()) {
            if (i > 0)
                parts.push(element("span", {class: "arrow"}, cut && i === 1 ? `› … (${path.length - shown.length}) ›` : "›"));
            parts.push(button(session.shortName(tree.func[at]), session.name(tree.func[at]), () => this.zoom(at),
                i === shown.length - 1 ? "crumb last" : "crumb"));
        }
        if (node > 0)
            parts.push(element("span", {class: "share"}, share(node)));
        fill(this.crumbs, ...parts);
    }

    /**
     * @param {KeyboardEvent} event
     * @returns {boolean} whether it was a key of this view
     */
    key(event) {
        const {flame, session, selection} = this, {tree} = session;
        const node = selection.chosen?.tree === tree && selection.chosen.node >= 0 ? selection.chosen.node : session.zoomNode(tree);
        const up = session.state.upward;
        switch (event.key) {
        case "ArrowUp":
            return this.step(flame.neighbour(node, up ? "callee" : "caller"));
        case "ArrowDown":
            return this.step(flame.neighbour(node, up ? "caller" : "callee"));
        case "ArrowLeft":
            return this.step(flame.neighbour(node, "left"));
        case "ArrowRight":
            return this.step(flame.neighbour(node, "right"));
        case "Enter":
            this.zoom(node);
            return true;
        case "+":
        case "=":
            flame.zoomAt(0.5, 0.7);
            return true;
        case "-":
            flame.zoomAt(0.5, 1 / 0.7);
            return true;
        case "a":
            flame.pan(-0.15);
            return true;
        case "d":
            flame.pan(0.15);
            return true;
        case "Backspace":
            this.zoom(Math.max(0, tree.parent[session.zoomNode(tree)]));
            return true;
        }
        return false;
    }

    /** @param {number} node */
    step(node) {
        this.selection.node(this.session.tree, node);
        this.flame.reveal(node);
        return true;
    }
}
