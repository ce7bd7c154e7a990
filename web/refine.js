// SPDX-License-Identifier: MIT
// Call path refinement: from all paths to those one asks about. Each step makes a new tree.

import { Derivation } from "./merge.js";
import { Tree } from "./tree.js";

/**
 * through: paths with a match, whole.    below: from the outermost match down, whatever called it.
 * without: paths without any match.      fold: matches count as part of their callers.
 * @typedef {"through" | "below" | "without" | "fold"} StepKind
 */

/**
 * @param {Tree} tree
 * @param {StepKind} kind
 * @param {Uint8Array} matches by function
 */
export function refine(tree, kind, matches) {
    /** @param {number} node */
    const isMatch = (node) => tree.isCode(node) && matches[tree.func[node]] !== 0;
    switch (kind) {
    case "through":
        return keepPaths(tree, (node, above) => above || isMatch(node), 0);
    case "without":
        return keepPaths(tree, (node, above) => above && !isMatch(node), 1);
    case "below":
        return cutAbove(tree, isMatch);
    case "fold":
        return foldInto(tree, isMatch);
    }
}

/**
 * @param {Tree} tree
 * @param {(node: number, above: boolean) => boolean} isKept
 * @param {number} root whether the root is kept
 */
function keepPaths(tree, isKept, root) {
    const making = new Derivation(tree, "same"), count = tree.count;
    const keep = new Uint8Array(count);
    keep[0] = root;
    for (let i = 1; i < count; i++)
        keep[i] = isKept(i, keep[tree.parent[i]] !== 0) ? 1 : 0;
    const needed = keep.slice();
    for (let i = count - 1; i > 0; i--)
        if (needed[i])
            needed[tree.parent[i]] = 1;
    making.image[0] = 0;
    for (let i = 1; i < count; i++)
        if (needed[i])
            making.put(i, making.image[tree.parent[i]]);
    return making.finish(keep);
}

/**
 * @param {Tree} tree
 * @param {(node: number) => boolean} isMatch
 */
function cutAbove(tree, isMatch) {
    const making = new Derivation(tree, "merged");
    for (let i = 1; i < tree.count; i++) {
        const above = making.image[tree.parent[i]];
        if (above >= 0)
            making.put(i, above);
        else if (isMatch(i))
            making.put(i, 0);
    }
    return making.finish();
}

/**
 * @param {Tree} tree
 * @param {(node: number) => boolean} isMatch
 */
function foldInto(tree, isMatch) {
    const making = new Derivation(tree, "merged"), folded = new Uint8Array(tree.count);
    making.image[0] = 0;
    for (let i = 1; i < tree.count; i++) {
        const above = making.image[tree.parent[i]];
        if (isMatch(i)) {
            making.image[i] = above;
            folded[i] = 1;
        } else {
            making.put(i, above);
        }
    }
    return making.finish(undefined, folded);
}

/**
 * Recursion folded: the cost of inner calls of a function, direct or not, counts at the first one.
 * @param {Tree} tree
 */
export function foldRecursion(tree) {
    const making = new Derivation(tree, "merged"), into = making.tree;
    making.image[0] = 0;
    for (let i = 1; i < tree.count; i++) {
        const above = making.image[tree.parent[i]];
        let again = tree.isCode(i) ? above : -1;
        while (again >= 0 && (into.func[again] !== tree.func[i] || !into.isCode(again)))
            again = into.parent[again];
        if (again < 0)
            making.put(i, above);
        else {
            making.image[i] = again;
            into.returns[again] += tree.returns[i];
        }
    }
    return making.finish();
}
