// SPDX-License-Identifier: MIT
// Which processes, threads and phases are shown, and which of these stay apart.

import { button, element, fill } from "./dom.js";
import { amount, percent } from "./numbers.js";
import { KIND_PHASE, KIND_PROCESS, KIND_THREAD } from "./profile.js";
import { Session } from "./session.js";

/** @typedef {import("./session.js").Owner} Owner */

const MOST_ROWS = 500;

export class Filters {
    /** @param {Session} session */
    constructor(session) {
        this.session = session;
        this.host = element("div", {class: "popover filters", hidden: true});
    }

    get isUseful() {
        const {session} = this;
        return session.hasSeveralProcesses || session.hasSeveralThreads || session.hasPhases;
    }

    update() {
        if (this.host.hidden)
            return;
        const {session} = this, {state} = session;
        const groupings = [/** @type {const} */ (["none", "merged"])].concat(
            session.hasSeveralProcesses ? [/** @type {any} */ (["process", "by process"])] : [],
            session.hasSeveralThreads ? [/** @type {any} */ (["thread", "by thread"])] : [],
            session.hasPhases ? [/** @type {any} */ (["phase", "by phase"])] : []);
        fill(this.host,
            element("div", {class: "choices"}, ...groupings.map(([word, title]) => {
                const made = button(title, "", () => session.change({apart: word, zoom: []}), state.apart === word ? "chosen" : "");
                made.setAttribute("aria-pressed", String(state.apart === word));
                return made;
            })),
            element("div", {class: "choices"}, button("show all", "", () => session.change({hidden: [], withoutPhase: true, zoom: []}))),
            session.hasPhases ? this.phases() : null,
            element("h3", {}, session.hasSeveralProcesses ? "Processes and threads" : "Threads"),
            ...this.threads());
    }

    /**
     * @param {string} text
     * @param {number} total
     * @param {boolean} shown
     * @param {(shown: boolean) => void} change
     * @param {() => void} only
     * @param {number} indent
     */
    row(text, total, shown, change, only, indent) {
        const {recorded, metrics} = this.session, unit = metrics[0].unit, whole = this.session.owners
            .filter(({kind}) => kind === KIND_PROCESS).reduce((sum, owner) => sum + owner.total, 0);
        const box = element("input", {type: "checkbox", onchange: () => change(box.checked)});
        box.checked = shown;
        const label = element("label", {title: text}, box, element("span", {class: "text"}, text));
        label.style.paddingLeft = indent * 16 + "px";
        return element("div", {class: "filter"}, label, element("span", {class: "cost"}, recorded ? amount(total, unit) : ""),
            element("span", {class: "share"}, percent(total, whole)), button("only", "hide all others", only));
    }

    threads() {
        const {session} = this, hidden = new Set(session.state.hidden);
        const owners = session.owners.filter(({kind}) => kind === KIND_THREAD || (kind === KIND_PROCESS && session.hasSeveralProcesses));
        const rows = owners.slice(0, MOST_ROWS).map((owner) => this.row(owner.name, owner.total, !hidden.has(owner.node),
            (shown) => this.set([owner.node], shown), () => this.only(owner), owner.kind === KIND_THREAD && session.hasSeveralProcesses ? 1 : 0));
        if (owners.length > MOST_ROWS)
            rows.push(element("div", {class: "filter"}, `and ${owners.length - MOST_ROWS} more`));
        return rows;
    }

    /** Phases of the same name, in whatever threads. */
    phases() {
        const {session} = this, hidden = new Set(session.state.hidden);
        /** @type {Map<number, Owner[]>} */
        const phases = new Map();
        for (const owner of session.owners)
            if (owner.kind === KIND_PHASE)
                phases.set(owner.func, [...phases.get(owner.func) ?? [], owner]);
        const all = [...phases.values()], nodes = all.flat().map(({node}) => node);
        const inPhases = all.flat().reduce((sum, {total}) => sum + total, 0);
        const whole = session.owners.filter(({kind}) => kind === KIND_PROCESS).reduce((sum, {total}) => sum + total, 0);
        return element("div", {}, element("h3", {}, "Phases"), ...all.map((owners) => {
            const own = owners.map(({node}) => node);
            return this.row(owners[0].name, owners.reduce((sum, {total}) => sum + total, 0), own.some((node) => !hidden.has(node)),
                (shown) => this.set(own, shown), () => session.change({withoutPhase: false, zoom: [],
                    hidden: [...session.state.hidden.filter((node) => !nodes.includes(node)), ...nodes.filter((node) => !own.includes(node))]}), 0);
        }), this.row("in no phase", whole - inPhases, session.state.withoutPhase,
            (shown) => session.change({withoutPhase: shown, zoom: []}),
            () => session.change({withoutPhase: true, zoom: [], hidden: [...new Set([...session.state.hidden, ...nodes])]}), 0));
    }

    /**
     * @param {number[]} nodes
     * @param {boolean} shown
     */
    set(nodes, shown) {
        const {session} = this, others = session.state.hidden.filter((node) => !nodes.includes(node));
        session.change({hidden: shown ? others : [...others, ...nodes].sort((a, b) => a - b), zoom: []});
    }

    /** @param {Owner} chosen */
    only(chosen) {
        const {session} = this, phases = session.owners.filter(({kind}) => kind === KIND_PHASE).map(({node}) => node);
        const others = session.owners.filter((owner) => owner.kind === chosen.kind && owner.node !== chosen.node).map(({node}) => node);
        session.change({hidden: [...others, ...session.state.hidden.filter((node) => phases.includes(node))].sort((a, b) => a - b), zoom: []});
    }
}
