// SPDX-License-Identifier: MIT
// Numbers as people say them.

/**
 * @param {number} value
 * @param {number} digits
 */
function fixed(value, digits) {
    return value.toFixed(digits);
}

/**
 * Three digits that count.
 * @param {number} value
 */
function three(value) {
    const size = Math.abs(value);
    return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** @param {number} count */
export function grouped(count) {
    const whole = Math.round(count);
    return String(whole).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/**
 * @param {number} value
 * @param {number} step
 * @param {string[]} units
 */
function scaled(value, step, units) {
    let unit = 0;
    // What would be rounded to the next unit is said in that.
    while (unit + 1 < units.length && Math.abs(value) >= step * 0.9995) {
        value /= step;
        unit++;
    }
    return (unit === 0 && value === Math.round(value) ? String(value) : three(value)) + " " + units[unit];
}

/** @param {number} ns */
function duration(ns) {
    const seconds = Math.abs(ns) / 1e9;
    if (seconds < 99.995)
        return scaled(ns, 1000, ["ns", "µs", "ms", "s"]);
    const minutes = Math.floor(Math.round(seconds) / 60), rest = Math.round(seconds) % 60;
    return minutes < 100 ? `${minutes} min ${rest} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * @param {number} value
 * @param {string} unit
 * @returns {string}
 */
export function amount(value, unit) {
    if (value < 0)
        return "−" + amount(-value, unit);
    if (unit === "ns" || unit === "s")
        return duration(unit === "s" ? value * 1e9 : value);
    if (unit === "bytes")
        return scaled(value, 1000, ["B", "kB", "MB", "GB", "TB"]);
    return value < 1e6 ? grouped(value) : scaled(value, 1000, ["", "k", "M", "G", "T"]).trim();
}

/**
 * The same, with all digits.
 * @param {number} value
 * @param {string} unit
 */
export function exactAmount(value, unit) {
    return grouped(value) + (unit === "ns" ? " ns" : unit === "bytes" ? " bytes" : "");
}

/**
 * What one of several cost: it need not be whole.
 * @param {number} value
 * @param {string} unit
 * @returns {string}
 */
export function amountEach(value, unit) {
    if (value !== 0 && Math.abs(value) < 100 && value !== Math.round(value))
        return three(value) + (unit === "ns" ? " ns" : unit === "s" ? " s" : unit === "bytes" ? " B" : "");
    return amount(value, unit);
}

/**
 * One amount over another, in the unit of the ratio; "%": a share.
 * @param {number} of
 * @param {number} over
 * @param {string} unit
 * @returns {string} empty if nothing is to be divided by
 */
export function ratioText(of, over, unit) {
    return !(over > 0) ? "" : unit === "%" ? percent(of, over) : amountEach(of / over, unit);
}

/**
 * With its sign.
 * @param {string} text of a number
 */
export function signed(text) {
    return text === "" || text.startsWith("−") || /^[≈<0 ]*0(\.0*)?( |$)/.test(text) ? text : "+" + text;
}

/**
 * @param {number} part
 * @param {number} whole
 * @returns {string}
 */
export function percent(part, whole) {
    if (!(whole > 0))
        return "";
    if (part < 0) {
        const text = percent(-part, whole);
        return text.startsWith("<") ? "≈ 0 %" : "−" + text;
    }
    const share = 100 * part / whole;
    if (share === 0)
        return "0 %";
    if (Math.abs(share) < 0.005)
        return "<0.01 %";
    return fixed(share, Math.abs(share) < 0.995 ? 2 : Math.abs(share) < 99.95 ? 1 : 0) + " %";
}

/**
 * The next step above that divides an axis well: 1, 2 or 5 and zeros.
 * @param {number} least
 */
export function nice(least) {
    const tens = 10 ** Math.floor(Math.log10(Math.max(1, least)));
    return [1, 2, 5, 10].map((one) => one * tens).find((step) => step >= least * 0.999) ?? 10 * tens;
}

/**
 * A moment, as exact as marks that are so far apart need it.
 * @param {number} ns
 * @param {number} step
 */
export function moment(ns, step) {
    if (ns === 0)
        return "0";
    const [unit, size] = /** @type {[string, number]} */ (ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ["µs", 1e3]);
    return `${(ns / size).toFixed(Math.min(9, Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9))))} ${unit}`;
}
