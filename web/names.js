// SPDX-License-Identifier: MIT
// Names of functions: made harmless, and shorter where there is no room.

// Longer names end in dots wherever they are shown.
const LONGEST = 2000;

// What moves a cursor, turns text around or cannot be seen.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e007f}]/gu;

/**
 * Text of others as it may be shown.
 * @param {string} text
 */
export function safe(text) {
    if (text.length > LONGEST)
        text = text.slice(0, LONGEST) + "…";
    return text.replace(HIDDEN, (letter) => {
        const code = /** @type {number} */ (letter.codePointAt(0));
        const digits = code.toString(16);
        return code < 0x100 ? "\\x" + digits.padStart(2, "0") : "\\u" + digits.padStart(4, "0");
    });
}

/**
 * Where each part of a name begins, outside of all brackets; null: they do not match.
 * @param {string} name
 * @param {string} separator
 * @returns {number[] | null}
 */
function parts(name, separator) {
    const starts = [0];
    let depth = 0;
    for (let i = 0; i < name.length; i++) {
        const letter = name[i];
        if (letter === "<" || letter === "(" || letter === "[" || letter === "{")
            depth++;
        else if ((letter === ">" && name[i - 1] !== "-") || letter === ")" || letter === "]" || letter === "}")
            depth--;
        else if (depth === 0 && name.startsWith(separator, i))
            starts.push(i + separator.length);
        if (depth < 0)
            return null;
    }
    return depth === 0 ? starts : null;
}

/**
 * Without its parameters, and what it returns.
 * @param {string} name
 */
function withoutParameters(name) {
    let depth = 0, end = name.length;
    for (let i = 0; i < name.length; i++) {
        if (name[i] === "<")
            depth++;
        else if (name[i] === ">" && name[i - 1] !== "-")
            depth--;
        else if (name[i] === "(" && depth <= 0 && i > 0 && !name.startsWith("(anonymous", i) && name[i + 1] !== "*" &&
                 !name.endsWith("operator", i)) {
            end = i;
            break;
        }
    }
    if (end === name.length)
        return name;
    const cut = name.slice(0, end), words = parts(cut, " ");
    // Functions that were made of templates begin with their type.
    if (!words || words.length < 2 || /\boperator\b/.test(cut))
        return cut;
    return cut.slice(words[words.length - 1]) || cut;
}

/** @param {string} name */
function withoutArguments(name) {
    let depth = 0, text = "";
    for (let i = 0; i < name.length; i++) {
        if (name[i] === "<" && i > 0 && !name.endsWith("operator", i) && !name.endsWith("operator<", i)) {
            if (depth++ === 0)
                text += "<…>";
        } else if (name[i] === ">" && depth > 0 && name[i - 1] !== "-") {
            depth--;
        } else if (depth === 0) {
            text += name[i];
        }
    }
    return depth === 0 ? text : name;
}

/**
 * @param {string} name
 * @param {number} count
 */
function lastParts(name, count) {
    const starts = parts(name, "::");
    if (!starts || starts.length <= count)
        return name;
    return name.slice(starts[starts.length - count]);
}

/**
 * A name in all its lengths, the longest first.
 * @param {string} name
 */
export function stages(name) {
    const list = [name];
    /** @param {string} text */
    const add = (text) => {
        if (text && text.length < list[list.length - 1].length)
            list.push(text);
    };
    if (!/[(<:]/.test(name) || name.length > 1000)
        return list;
    const plain = withoutParameters(name);
    add(plain);
    add(withoutArguments(plain));
    add(lastParts(withoutArguments(plain), 2));
    add(lastParts(withoutArguments(plain), 1));
    return list;
}
