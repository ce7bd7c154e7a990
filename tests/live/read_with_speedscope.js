// SPDX-License-Identifier: MIT
// Reads files with speedscope's own importer, without a browser, and prints what it found as JSON.
// usage: node read_with_speedscope.js PACKAGE FILE...
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");

// The page defines the importer before it draws anything, and hands it to files that it loads.
const release = path.join(process.argv[2], "dist", "release");
const page = fs.readdirSync(release).find(name => /^speedscope-.*\.js$/.test(name));
const drawing = "console.log(`speedscope v";
let code = fs.readFileSync(path.join(release, page), "utf8");
const [, , , importer] = /loadFileFromBase64:\((\w+),(\w+)\)=>\{this\.loadProfile\(\(\)=>(\w+)\(\1,\2\)\)\}/.exec(code);
code = code.replace(drawing, () => `globalThis.importFile=${importer};throw "drawing";` + drawing);

// Stands for all of a browser that is touched until then.
const anything = new Proxy(function () {}, {
    get: (target, key) => key === Symbol.toPrimitive ? () => "" : key === "then" ? undefined : anything,
    apply: () => anything,
    construct: () => anything,
    set: () => true,
});
const silent = { log() {}, warn() {}, error: console.error };
const window = {
    console: silent, TextDecoder, TextEncoder, Uint8Array, URL, Blob, atob, performance, setTimeout, clearTimeout,
    document: anything, navigator: { platform: "", userAgent: "" }, location: { hash: "", protocol: "file:" },
    localStorage: anything, HTMLElement: class {}, devicePixelRatio: 1,
    matchMedia: () => anything, addEventListener() {}, fetch() {}, requestAnimationFrame() {},
};
window.window = window.self = window;
vm.createContext(window);
try {
    vm.runInContext(code, window);
} catch (reached) {
    if (reached !== "drawing")
        throw reached;
}

function describe(profile) {
    const functions = {};
    profile.forEachFrame(frame => {
        const known = functions[frame.name] ||= { self: 0, file: frame.file, line: frame.line };
        known.self += frame.getSelfWeight();
    });
    return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), functions };
}

(async () => {
    const answers = [];
    for (const file of process.argv.slice(3)) {
        const found = await window.importFile(path.basename(file), fs.readFileSync(file).toString("base64"));
        answers.push(found ? found.profiles.map(describe) : []);
    }
    console.log(JSON.stringify(answers));
})();
