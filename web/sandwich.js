// SPDX-License-Identifier: MIT
// A function between its callers, above it, and its callees.

import { colouring, currentTheme } from "./colour.js";
import { element, fill } from "./dom.js";
import { Flame } from "./flame.js";
import { shareText } from "./flame_view.js";
import { FunctionList } from "./lists.js";
import { amount, percent } from "./numbers.js";
import { Selection } from "./selection.js";
import { Session } from "./session.js";
import { Tooltip } from "./tooltip.js";

export class Sandwich {
    /**
     * @param {Session} session
     * @param {Selection} selection
     * @param {Tooltip} tooltip
     * @param {(func: number) => void} open
     */
    constructor(session, selection, tooltip, open) {
        this.session = session;
        this.selection = selection;
        this.list = new FunctionList(session, selection, open);
        this.list.columns = ["total", "self", "name"];
        /** @param {"callers" | "callees"} which */
        const flame = (which) => {
            /** @type {Flame} */
            const made = new Flame(session, {
                select: (node) => made.picture && selection.node(made.picture.tree, node),
                zoom: (node) => {
                    if (made.picture) {
                        selection.node(made.picture.tree, node);
                        made.zoomTo(node, "moving");
                    }
                },
                hover: (node, x, y) => made.picture && tooltip.show(made.picture.tree, node, x, y),
                open: (node) => made.picture && open(made.picture.tree.func[node]),
            }, which);
            return made;
        };
        this.callers = flame("callers");
        this.callees = flame("callees");
        this.title = element("div", {class: "sandwich-title"});
        this.host = element("div", {class: "sandwich"},
            element("div", {class: "sandwich-list"}, this.list.host),
            element("div", {class: "sandwich-flames"},
                element("div", {class: "sandwich-label"}, "callers"), this.callers.host, this.title,
                element("div", {class: "sandwich-label below"}, "callees"), this.callees.host));
    }

    update() {
        const {session, list} = this;
        list.update();
        const func = this.func();
        list.table.selected = list.rows.indexOf(func);
        list.table.draw();
        if (func < 0) {
            fill(this.title, "choose a function");
            return;
        }
        if (!this.selection.chosen)
            this.selection.function(func);
        if (list.table.selected >= 0)
            list.table.reveal(list.table.selected);
        const {metric, widthMetric} = session, theme = currentTheme(), whole = session.tree.total[metric.index][0];
        const sums = session.tree.byFunction(), total = sums.total[metric.index][func];
        fill(this.title, element("strong", {}, session.shortName(func)),
            ` ${percent(total, whole)}, ${amount(total, metric.unit)}`);
        this.title.title = session.name(func);
        for (const [flame, tree, upward] of /** @type {const} */ ([[this.callers, session.callersOf(func), true],
            [this.callees, session.calleesOf(func), false]])) {
            flame.set({tree, metric: widthMetric, share: shareText(session, tree), colours: colouring(session, tree, theme), theme, matches: session.searched,
                upward, first: upward || tree.count < 2 ? 0 : 1});
        }
    }

    /** The function that was chosen, or the one that is first in the list. */
    func() {
        const {func} = this.session.state;
        return func >= 0 ? func : this.list.rows[0] ?? -1;
    }
}
