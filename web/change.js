// SPDX-License-Identifier: MIT
// What changed between two versions. The metrics of a diff come in fours: new, old, both, and the number of contexts
// whose change is more than noise.

import { DIFF_PARTS, Session } from "./session.js";
import { Tree } from "./tree.js";

const NEW = 0, OLD = 1, NAMED = 3;

/**
 * What a node costs in both versions, with all it calls, in the metric that is looked at.
 * @param {Tree} tree
 * @param {number} node
 * @param {number} metric
 */
function bothOf(tree, node, metric) {
    const base = metric - metric % DIFF_PARTS;
    return {new: tree.total[base + NEW][node], old: tree.total[base + OLD][node]};
}

/**
 * Whether something in it or below it changed by more than noise.
 * @param {Tree} tree
 * @param {number} node
 * @param {number} metric
 */
function isNamed(tree, node, metric) {
    return tree.total[metric - metric % DIFF_PARTS + NAMED][node] > 0;
}

/**
 * From -1 (only the old version has it) to 1 (only the new one); 0 if it is noise.
 * @param {Tree} tree
 * @param {number} node
 * @param {number} metric
 */
export function changeOf(tree, node, metric) {
    const both = bothOf(tree, node, metric), most = Math.max(both.new, both.old);
    return most > 0 && isNamed(tree, node, metric) ? (both.new - both.old) / most : 0;
}

/**
 * What its numbers do not say.
 * @param {Session} session
 * @param {Tree} tree
 * @param {number} node
 */
export function changeNote(session, tree, node) {
    const {index} = session.metric, both = bothOf(tree, node, index);
    if (both.old === 0 && both.new === 0)
        return "";
    const note = both.old === 0 ? "only in the new version" : both.new === 0 ? "only in the old version" : "";
    return isNamed(tree, node, index) ? note : (note ? note + ", " : "") + "may be chance";
}
