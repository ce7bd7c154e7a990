// SPDX-License-Identifier: MIT
// Colours of frames: by module, by function, by a frame's own share of the cost, or by its change.

import { changeOf } from "./change.js";
import { FLAG_KERNEL, KIND_FUNCTION } from "./profile.js";
import { Session } from "./session.js";
import { Tree } from "./tree.js";

/**
 * module: the colour of a function's module, without the shade of the function
 * @typedef {{of: (node: number) => string, swatch: (func: number) => string, module: (func: number) => string}} Colouring
 */
/** @typedef {{dark: boolean, text: string, background: string, rest: string, owner: string,
 *   match: string, matchText: string, accent: string}} Theme */

const HEAT_STEPS = 32;
export const FULL_HEAT = 0.1; // the share of all that is as hot as it gets; its root spreads the small ones

/** @param {string} text */
function hashOf(text) {
    let hash = 0x811c9dc5;
    for (let i = 0; i < text.length; i++)
        hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ hash >>> 15, 0x2c1b3c6d);
    return (hash ^ hash >>> 13) >>> 0;
}

/** What the style sheet says. */
export function currentTheme() {
    const style = getComputedStyle(document.documentElement);
    /** @param {string} name */
    const value = (name) => style.getPropertyValue(name).trim();
    return {dark: value("--scheme") === "dark", text: value("--frame-text"),
        background: value("--background"), rest: value("--frame-rest"), owner: value("--frame-owner"),
        match: value("--frame-match"), matchText: value("--frame-match-text"), accent: value("--accent")};
}

/**
 * Hues of modules: the program's own is warm, and each other module has one that is far from it.
 * @param {Session} session
 */
function moduleHues(session) {
    const {profile} = session, self = new Float64Array(profile.modules.count + 1);
    const {recorded} = session;
    for (let i = 0; i < recorded.count; i++)
        self[profile.module[recorded.func[i]]] += recorded.self[0][i] + 1e-9;
    const order = [...self.keys()].filter((module) => self[module] > 0 && module > 0)
        .sort((a, b) => self[b] - self[a]);
    const program = profile.meta.command.split(" ")[0].split("/").pop();
    const own = order.findIndex((module) => profile.modules.get(module - 1).split("/").pop() === program);
    if (own > 0)
        order.unshift(...order.splice(own, 1));
    const hues = new Float64Array(self.length), first = [28, 205, 130, 265, 175, 55, 325, 95, 235, 0];
    order.forEach((module, i) => {
        hues[module] = i < first.length ? first[i] : hashOf(profile.modules.get(module - 1)) % 360;
    });
    return hues;
}

/**
 * Red costs more, blue less; the fuller, the larger the change is beside the cost.
 * @param {number} change from -1 to 1
 * @param {Theme} theme
 */
export function changeTone(change, theme) {
    const hue = change > 0 ? 4 : 214, size = Math.sqrt(Math.abs(change));
    return theme.dark ? `hsl(${hue} ${Math.round(75 * size)}% ${Math.round(27 + 15 * size)}%)`
        : `hsl(${hue} ${Math.round(85 * size)}% ${Math.round(89 - 25 * size)}%)`;
}

/**
 * @param {number} heat from 0 to 1
 * @param {Theme} theme
 */
export function costTone(heat, theme) {
    return theme.dark ? `hsl(${38 - 36 * heat} ${10 + 75 * heat}% ${26 + 16 * heat}%)`
        : `hsl(${45 - 45 * heat} ${28 + 60 * heat}% ${90 - 30 * heat}%)`;
}

/**
 * @param {Session} session
 * @param {Tree} tree
 * @param {Theme} theme
 * @param {import("./state.js").ColourMode} colour
 * @returns {Colouring}
 */
export function colouring(session, tree, theme, colour = session.state.colour) {
    const {profile} = session, {metric} = session.state;
    /** @type {(string | undefined)[]} */
    const known = new Array(profile.functions);
    const hues = moduleHues(session);
    /**
     * @param {number} hue
     * @param {number} saturation
     * @param {number} shade from 0 to 1
     */
    const tone = (hue, saturation, shade) => theme.dark
        ? `hsl(${hue} ${saturation * 0.62}% ${29 + shade * 11}%)` : `hsl(${hue} ${saturation}% ${73 + shade * 11}%)`;
    /**
     * @param {number} func
     * @param {number} shade
     */
    const ofModule = (func, shade) => {
        const module = profile.module[func];
        if (profile.flags[func] & FLAG_KERNEL)
            return tone(350, 62, shade);
        return module === 0 ? tone(220, 8, shade) : tone(hues[module] + (shade - 0.5) * 14, 68, shade);
    };
    /** @param {number} func */
    const byModule = (func) => ofModule(func, hashOf(profile.names.get(func).slice(0, 200)) % 1000 / 1000);
    /** @param {number} func */
    const module = (func) => ofModule(func, 0.5);
    /** @param {number} func */
    const byFunction = (func) => {
        const hash = hashOf(profile.names.get(func).slice(0, 200));
        return tone(hash % 360, 62, (hash >>> 12) % 1000 / 1000);
    };
    /** @param {number} func */
    const swatch = (func) => known[func] ??= colour === "function" ? byFunction(func) : byModule(func);
    if (colour === "change")
        return {of: (node) => node > 0 && tree.kind[node] < KIND_FUNCTION ? theme.owner : changeTone(changeOf(tree, node, metric), theme), swatch, module};
    if (colour !== "cost")
        return {of: (node) => tree.kind[node] < KIND_FUNCTION && node > 0 ? theme.owner : swatch(tree.func[node]), swatch, module};
    const heat = Array.from({length: HEAT_STEPS + 1}, (_, i) => costTone(i / HEAT_STEPS, theme));
    const self = tree.self[metric], whole = tree.total[metric][0] || 1;
    return {
        of: (node) => node === 0 || tree.kind[node] < KIND_FUNCTION ? theme.owner
            : heat[Math.round(HEAT_STEPS * Math.min(1, Math.sqrt(self[node] / whole / FULL_HEAT)))],
        swatch, module,
    };
}
