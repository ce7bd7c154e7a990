// SPDX-License-Identifier: MIT
// What the keys do.

import { button, element } from "./dom.js";

/** @type {[string, [string, string][]][]} */
const KEYS = [
    ["Views", [["1 … 9", "the views, in their order"], ["m", "next metric"],
        ["c", "next colouring"], ["i", "turn the flame graph over"], ["l", "light or dark"], ["p", "details"]]],
    ["Move", [["click, Enter", "zoom to a frame; open a row"], ["Backspace", "zoom out by one frame"],
        ["Esc", "zoom out; end a search"], ["arrows", "go to a neighbour; open and close rows"],
        ["+ −, Ctrl-wheel", "zoom around the pointer"], ["a d, Shift-wheel, drag", "move sideways"],
        ["right click, s", "callers and callees of a function"],
        ["e", "source of a function"]]],
    ["Refine paths", [["t", "only paths through the selected function"], ["b", "only from the selected function down"],
        ["x", "only paths without it"], ["h", "hide it: its cost counts as its callers'"],
        ["f", "fold recursion"], ["u, Ctrl-Z", "undo; the browser's back does the same"], ["r", "all paths again"]]],
    ["Time", [["drag, double click", "choose a part of the recording; all of it"], ["Enter, Backspace", "zoom to what is chosen; out"],
        ["+ − a d", "zoom and move"], ["v", "threads, heat map"], ["[ ]", "colours of outer or inner functions"]]],
    ["Search", [["/", "a regular expression; lower case matches both"], ["n  N", "next and previous match"]]],
];

export function helpOverlay() {
    const host = element("div", {class: "overlay", hidden: true, role: "dialog", "aria-label": "keys"});
    const close = () => {
        host.hidden = true;
    };
    host.append(element("div", {class: "help"}, element("header", {}, element("h2", {}, "Keys"), button("✕", "close (Esc)", close)),
        element("div", {class: "help-columns"}, ...KEYS.map(([title, keys]) => element("section", {}, element("h3", {}, title),
            element("dl", {}, ...keys.flatMap(([key, text]) => [element("dt", {}, key), element("dd", {}, text)])))))));
    host.addEventListener("click", (event) => event.target === host && close());
    return host;
}
