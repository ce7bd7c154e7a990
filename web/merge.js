// SPDX-License-Identifier: MIT
// Trees that are made of others: of the profile, with what was chosen in it merged; and by image.

import { KIND_FUNCTION, KIND_PHASE, KIND_PROCESS, KIND_ROOT, KIND_THREAD, Profile } from "./profile.js";
import { Tree } from "./tree.js";

/** @typedef {"none" | "process" | "thread" | "phase"} Grouping */

/** Finds the children of a tree that grows by their function. */
class ChildIndex {
    /**
     * @param {Tree} tree
     * @param {number} most nodes that the tree will have
     */
    constructor(tree, most) {
        let slots = 64;
        while (slots < most * 2)
            slots *= 2;
        this.mask = slots - 1;
        this.slots = new Int32Array(slots); // of nodes, and 1
        this.tree = tree;
    }

    /**
     * The child of a node, made if it is new.
     * @param {number} parent
     * @param {number} func
     * @param {number} kind
     * @param {number} callLine
     */
    child(parent, func, kind, callLine) {
        const tree = this.tree, mask = this.mask, slots = this.slots;
        let at = Math.imul(parent + 1, 0x9e3779b1) ^ Math.imul(func + 1, 0x85ebca77);
        at = (at ^ at >>> 15) & mask;
        for (;; at = (at + 1) & mask) {
            const found = slots[at] - 1;
            if (found < 0)
                break;
            if (tree.parent[found] === parent && tree.func[found] === func) {
                tree.meet(found, kind, callLine);
                return found;
            }
        }
        slots[at] = tree.count + 1;
        return tree.append(parent, func, kind, callLine);
    }
}

/** Makes a tree out of another one, node by node. */
export class Derivation {
    /**
     * @param {Tree} from
     * @param {"same" | "merged"} shape whether nodes that become siblings may be the same function
     */
    constructor(from, shape) {
        this.from = from;
        this.tree = new Tree(from.profile, from.count);
        this.tree.append(-1, from.func[0], KIND_ROOT, 0);
        this.image = new Int32Array(from.count).fill(-1);
        this.index = shape === "merged" ? new ChildIndex(this.tree, from.count) : null;
    }

    /**
     * Puts a node below one of the new tree.
     * @param {number} node
     * @param {number} parent
     */
    put(node, parent) {
        const {from, tree, index} = this;
        const func = from.func[node], kind = from.kind[node], line = from.callLine[node];
        const image = index ? index.child(parent, func, kind, line) : tree.append(parent, func, kind, line);
        this.image[node] = image;
        tree.returns[image] += from.returns[node];
    }

    /**
     * Moves costs, all of them or those of nodes that are kept.
     * @param {Uint8Array} [keep] by node
     * @param {Uint8Array} [folded] by node: its calls are no calls of the node that has its cost
     */
    finish(keep, folded) {
        const {from, tree, image} = this, count = from.count;
        tree.self.forEach((column, metric) => {
            const values = from.self[metric];
            const left = from.profile.meta.metrics[metric].kind === "calls" ? folded : undefined;
            for (let i = 0; i < count; i++)
                if (image[i] >= 0 && (!keep || keep[i]) && !(left && left[i]))
                    column[image[i]] += values[i];
        });
        const nodes = from.image;
        tree.image = new Int32Array(nodes.length);
        for (let i = 0; i < nodes.length; i++) {
            const node = nodes[i];
            tree.image[i] = node < 0 || (keep && !keep[node]) ? -1 : image[node];
        }
        return tree.finish();
    }
}

/**
 * The tree of a profile as it was recorded, without totals.
 * @param {Profile} profile
 * @param {Float64Array[]} [self] costs of a part of it
 */
export function recordedTree(profile, self) {
    const tree = new Tree(profile, 0);
    tree.count = profile.count;
    tree.parent = profile.parent;
    tree.func = profile.func;
    tree.kind = profile.kind;
    tree.callLine = profile.callLine;
    tree.returns = self ? new Float64Array(profile.count) : profile.returns;
    tree.self = self ?? profile.self;
    tree.image = new Int32Array(profile.count);
    for (let i = 0; i < profile.count; i++)
        tree.image[i] = i;
    return tree;
}

/**
 * The chosen processes, threads and phases of a profile, laid upon each other but for what is to be apart.
 * @param {Tree} recorded
 * @param {Grouping} apart
 * @param {(node: number) => boolean} isHidden of a process, thread or phase
 * @param {boolean} withoutPhase what is in no phase is chosen, too
 * @param {Uint8Array} [part] by node: whether there is anything of it; all, where it is left out
 */
export function mergeGroups(recorded, apart, isHidden, withoutPhase, part) {
    /** @type {number[]} */
    const kept = {none: [], process: [KIND_PROCESS], thread: [KIND_PROCESS, KIND_THREAD],
        phase: [KIND_PHASE]}[apart];
    let owners = 0;
    for (let i = 1; i < recorded.count && recorded.kind[i] < KIND_FUNCTION; i++)
        owners++;
    for (let i = owners + 1; i < recorded.count && owners <= KIND_THREAD; i++)
        owners += recorded.kind[i] < KIND_FUNCTION ? 1 : 0;
    // A single thread has nothing to be merged with; but with the code, calls from different lines are apart.
    const making = new Derivation(recorded, owners <= KIND_THREAD && !recorded.profile.meta.code ? "same" : "merged");
    const {image} = making, {kind, parent} = recorded;
    image[0] = 0;
    for (let i = 1; i < recorded.count; i++) {
        const above = image[parent[i]];
        if (above < 0 || (part && !part[i]))
            continue;
        if (kind[i] >= KIND_FUNCTION) {
            if (withoutPhase || kind[parent[i]] !== KIND_THREAD)
                making.put(i, above);
        } else if (!isHidden(i)) {
            if (kept.includes(kind[i]))
                making.put(i, above);
            else
                image[i] = above;
        }
    }
    return making.finish();
}
