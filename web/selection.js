// SPDX-License-Identifier: MIT
// What the keys and the details are about: a function, in one context or in all of them.

import { Session } from "./session.js";
import { Tree } from "./tree.js";

/**
 * node is -1 where all contexts of the function are meant.
 * @typedef {{tree: Tree, node: number, func: number}} Chosen
 */

export class Selection {
    /** @param {Session} session */
    constructor(session) {
        this.session = session;
        /** @type {Chosen | null} */
        this.chosen = null;
        /** @type {(() => void)[]} */
        this.listeners = [];
    }

    /**
     * @param {Tree} tree
     * @param {number} node
     */
    node(tree, node) {
        this.set({tree, node, func: tree.func[node]});
    }

    /** @param {number} func */
    function(func) {
        this.set({tree: this.session.tree, node: -1, func});
    }

    clear() {
        this.set(null);
    }

    /** @param {Chosen | null} chosen */
    set(chosen) {
        this.chosen = chosen;
        for (const listener of this.listeners)
            listener();
    }

    /** The function that a refinement would be about; -1: none. */
    get func() {
        const {chosen} = this;
        return !chosen || (chosen.node >= 0 && !chosen.tree.isCode(chosen.node)) ? -1 : chosen.func;
    }
}
