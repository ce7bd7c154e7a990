// SPDX-License-Identifier: MIT
// Elements of the page. Text comes into it as text alone, and is never read as HTML.

/**
 * @typedef {string | Node | null | false} Content
 * @typedef {{class?: string, title?: string, onclick?: (event: MouseEvent) => void,
 *   [attribute: string]: unknown}} Properties
 */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Properties} properties
 * @param {...Content} content
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, properties, ...content) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (value === undefined || value === null || value === false)
            continue;
        if (name === "class")
            made.className = String(value);
        else if (typeof value === "function")
            made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
        else
            made.setAttribute(name, value === true ? "" : String(value));
    }
    fill(made, ...content);
    return made;
}

/**
 * Exchanges what is in an element.
 * @param {Element} into
 * @param {...Content} content
 */
export function fill(into, ...content) {
    into.replaceChildren(.../** @type {(string | Node)[]} */ (
        content.filter((one) => one !== null && one !== false)));
}

/**
 * @param {string} label
 * @param {string} title
 * @param {() => void} action
 * @param {string} [name]
 */
export function button(label, title, action, name) {
    return element("button", {type: "button", class: name, title, onclick: action}, label);
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
    const found = document.getElementById(id);
    if (!found)
        throw new Error("no element " + id);
    return found;
}
