// Says which modules of a Node program have tools, and changes their sources so that they hand them to node_tools.cjs.
//
// For `offbook tools`, the calls of all functions of the program are noted, by what can be taken over: the functions of a
// module, and those in its objects and classes.
//
// What a module of ECMAScript exports cannot be replaced from outside. Inside, a declared function can be assigned to
// before anything of the module runs, and so it is taken before anybody has it. A module's lines keep their numbers.

"use strict";

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");

const HOOK = 'globalThis[Symbol.for("offbook.tools")]';
const EXTENSIONS = ["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", "/index.js", "/index.mjs"];
const PROLOGUE = /^(#![^\n]*\n)?(\s|\/\/[^\n]*\n|\/\*[^]*?\*\/)*(["']use strict["'];?)?/;

// Where each framework takes its tools in: names that a file exports, or declares itself, which can be assigned to.
// Tried with ai 6 and 7, @openai/agents 0.20, @langchain/core 1.2 and @mastra/core 1.71. One that lacks a name is noted.
const FRAMEWORKS = [
  { package: "ai", file: /^dist\/index\.m?js$/, declared: ["executeToolCall"] },
  { package: "@openai/agents-core", file: /^dist\/tool\.m?js$/, declared: ["tool"] },
  { package: "@langchain/core", file: /^dist\/tools\/index\.c?js$/ },
  { package: "@mastra/core", file: /^dist\/(agent\/)?index\.c?js$/ },
];

/** The modules of a program that are changed: those of frameworks, those with functions that are named, or all its own. */
class Sources {
  #functions;
  #files = new Map();
  #notesAll;

  /**
   * `functions` are the places of tools by name, as `./payments.mjs:refund`; `main` is the script that runs; `notesAll`
   * is whether the calls of all other functions of the program are noted.
   */
  constructor({ functions, main, notesAll }) {
    this.#functions = Object.entries(functions);
    this.#notesAll = notesAll;
    for (const [tool, place] of this.#functions) {
      const colon = place.lastIndexOf(":");
      const file = colon < 0 ? undefined : fileOf(place.slice(0, colon), main);
      if (file === undefined) continue;
      const found = { tool, place, names: place.slice(colon + 1).split(".") };
      this.#files.set(file, [...(this.#files.get(file) ?? []), found]);
    }
  }

  /** Return whether any module can have tools: a function is named, or there are packages. */
  get areExpected() {
    const starts = [process.cwd(), path.dirname(process.argv[1] ?? process.cwd())];
    return this.#notesAll || this.#functions.length > 0 || starts.some((folder) => hasPackages(folder));
  }

  /** Return the source of a module as it is to be loaded; undefined if it stays as it is. */
  changed(url, source, isModule) {
    const file = url.startsWith("file:") ? fileURLToPath(url) : url;
    const framework = frameworkOf(file);
    if (!this.isKnown(file) || source.includes(HOOK)) return undefined;
    if (framework !== undefined) return source + frameworkEnding(framework, file, isModule);
    const functions = this.#files.get(file) ?? [];
    const text = this.#isNoted(file) ? withNotes(source, file, new Set(functions.map(({ names }) => names[0]))) : source;
    return functions.reduce((changed, each) => withFunction(changed, each, isModule), text);
  }

  /** Return whether a module may be changed. */
  isKnown(url) {
    const file = url.startsWith("file:") ? fileURLToPath(url) : url;
    return this.#files.has(file) || frameworkOf(file) !== undefined || this.#isNoted(file);
  }

  #isNoted(file) {
    return this.#notesAll && path.isAbsolute(file) && !file.includes("/node_modules/") && !file.startsWith(__dirname);
  }
}

function hasPackages(folder) {
  if (fs.existsSync(path.join(folder, "node_modules"))) return true;
  const parent = path.dirname(folder);
  return parent !== folder && hasPackages(parent);
}

function frameworkOf(file) {
  const start = file.lastIndexOf("/node_modules/") + "/node_modules/".length;
  if (start < "/node_modules/".length) return undefined;
  const rest = file.slice(start);
  return FRAMEWORKS.find((each) => rest.startsWith(`${each.package}/`) && each.file.test(rest.slice(each.package.length + 1)));
}

/** Return the file of a module: a path from the working folder, the script that runs, or a package. */
function fileOf(name, main) {
  const script = main === undefined ? undefined : existing(path.resolve(main));
  if (script !== undefined && [name, `${name}${path.extname(script)}`].includes(path.basename(script))) return script;
  if (name === "__main__") return script;
  const file = existing(path.resolve(name));
  if (file !== undefined || name.startsWith(".")) return file;
  const requireHere = createRequire(path.join(process.cwd(), "_"));
  for (const condition of ["import", "require"]) {
    try {
      const found = condition === "import" ? importedFile(name) : requireHere.resolve(name);
      if (found !== undefined) return fs.realpathSync(found);
    } catch {
      continue; // there is no such package, as when the function is one of a Python program
    }
  }
  return undefined;
}

function existing(file) {
  const found = EXTENSIONS.map((extension) => file + extension).find((each) => fs.statSync(each, { throwIfNoEntry: false })?.isFile());
  return found === undefined ? undefined : fs.realpathSync(found);
}

/** Return the file that `import` finds for a package with one entry; `require` does not find it if it has no other. */
function importedFile(name) {
  const folder = path.resolve("node_modules", name);
  const { exports, module } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  const entry = exports?.["."] ?? exports;
  const found = [entry?.import?.default, entry?.import, entry?.default, entry, module].find((each) => typeof each === "string");
  return found === undefined ? undefined : path.join(folder, found);
}

function frameworkEnding(framework, file, isModule) {
  const given = JSON.stringify({ package: framework.package, file });
  if (framework.declared === undefined) {
    const names = isModule ? "$offbook" : "module.exports";
    const own = isModule ? `import * as $offbook from ${JSON.stringify(pathToFileURL(file).href)};` : "";
    return `\n;${own}${HOOK}?.framework(${given}, ${names});`;
  }
  const places = framework.declared.map((name) => {
    const exported = `if (Object.getOwnPropertyDescriptor(module.exports, "${name}")?.writable) module.exports.${name} = value;`;
    return `${name}: { get: () => ${name}, set: (value) => { ${name} = value; ${isModule ? "" : exported} } }`;
  });
  return `\n;${HOOK}?.framework(${given}, { ${places.join(", ")} });`;
}

const TOP_LEVEL = /^(?:export\s+(?:default\s+)?)?(?:(?:async\s+)?function\s*\*?\s*([\w$]+)|class\s+([\w$]+)[^{(]*\{|(?:const|let|var)\s+([\w$]+)[^=\n]*?=(?!=))/gm;

const TEXTS = /\/\/[^\n]*|\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[^]|[^`\\])*`/g; // and comments

/** Return a source with spaces where it has texts and comments: nothing in them is a function. */
function withoutTexts(source) {
  return source.replace(TEXTS, (each) => each.replace(/[^\n]/g, " "));
}

/** Return a source in which the calls of its functions are noted, but those that are taken over. */
function withNotes(source, file, taken) {
  const own = path.relative(process.cwd(), file);
  const [place, module] = own.startsWith("..") ? [file, file] : [own, `./${own}`];
  const code = withoutTexts(source);
  let text = source;
  let prologue = "";
  for (const found of [...code.matchAll(TOP_LEVEL)].reverse()) {
    const [whole, declared, ofClass, variable] = found;
    const name = declared ?? ofClass ?? variable;
    if (taken.has(name)) continue;
    const line = code.slice(0, found.index).split("\n").length;
    const given = `${JSON.stringify(`${module}:${name}`)}, ${JSON.stringify(`${place}:${line}`)}`;
    const rest = code.slice(found.index + whole.length);
    if (declared !== undefined) prologue += `;try { ${name} = ${HOOK}.noted(${given}, ${name}); } catch {}`;
    else if (ofClass !== undefined) text = inserted(text, found, ` static { ${HOOK}.notedMembers(${given}, this); }`);
    else if (/^\s*(\{|new\b)/.test(rest)) text = inserted(text, found, ` ${HOOK}.notedSlot(${given}).value =`);
    else if (isFunctionAt(rest)) text = renamed(text, found, name, `${HOOK}.notedCall(${given}, $offbook_${name}, this, given)`);
  }
  return inserted(text, PROLOGUE.exec(text), prologue);
}

/** Return a source in which a function is taken over. */
function withFunction(source, { tool, place, names }, isModule) {
  const [first, ...rest] = names;
  const code = withoutTexts(source);
  const exportedAs = new RegExp(`^export\\s*\\{[^}]*?\\b([\\w$]+)\\s+as\\s+${escaped(first)}\\b`, "m").exec(code);
  const local = escaped(exportedAs === null ? first : exportedAs[1]);
  const name = local.replace(/\\/g, "");
  const given = `${JSON.stringify(tool)}, ${JSON.stringify(place)}`;
  const declared = new RegExp(`^(?:export\\s+)?(?:const|let|var)\\s+${local}(?![\\w$])[^=\\n]*?=(?!=)`, "m").exec(code);
  if (rest.length > 0) {
    const path = JSON.stringify(rest);
    const body = new RegExp(`^(?:export\\s+(?:default\\s+)?)?class\\s+${local}(?![\\w$])[^{(]*\\{`, "m").exec(code);
    if (body !== null) return inserted(source, body, ` static { ${HOOK}?.member(${given}, this, ${path}); }`);
    if (declared !== null) return inserted(source, declared, ` ${HOOK}.slot(${given}, ${path}).value =`);
  } else {
    if (new RegExp(`^(?:export\\s+(?:default\\s+)?)?(?:async\\s+)?function\\s*\\*?\\s*${local}(?![\\w$])`, "m").test(code)) {
      return inserted(source, PROLOGUE.exec(source), `;${name} = ${HOOK}.taken(${given}, ${name});`);
    }
    if (declared !== null && isFunctionAt(code.slice(declared.index + declared[0].length))) {
      return renamed(source, declared, name, `${HOOK}.call(${given}, $offbook_${name}, this, given)`);
    }
    if (declared !== null && isModule) return `${source}\n;${HOOK}.problem(${given}, "it is not written as a function");`;
  }
  const exported = isModule ? "{}" : "module.exports";
  return `${source}\n;${HOOK}.member(${given}, ${exported}, ${JSON.stringify(names)});`;
}

/** Return a source in which what a variable has is called $offbook_NAME, and a function has its name. */
function renamed(source, found, name, call) {
  const [, space] = /(?:const|let|var)(\s+)/.exec(found[0]);
  const start = `${found[0].startsWith("export") ? `export { ${name} }; ` : ""}const${space}$offbook_${name} =`;
  const text = source.slice(0, found.index) + start + source.slice(found.index + found[0].length);
  return `${text}\n;function ${name}(...given) { return ${call}; }`;
}

function inserted(source, found, text) {
  const end = found.index + found[0].length;
  return source.slice(0, end) + text + source.slice(end);
}

function escaped(name) {
  return name.replace(/[^\w]/g, "\\$&");
}

/** Return whether an expression is a function, as far as its beginning shows. */
function isFunctionAt(text) {
  const rest = text.replace(/^\s*(async\b)?\s*/, "");
  if (/^function\b|^[\w$]+\s*=>/.test(rest)) return true;
  if (!rest.startsWith("(")) return false;
  let depth = 0;
  for (let index = 0; index < rest.length; index += 1) {
    depth += "([{".includes(rest[index]) ? 1 : ")]}".includes(rest[index]) ? -1 : 0;
    if (depth === 0) return /^\s*(:[^={]+)?=>/.test(rest.slice(index + 1));
  }
  return false;
}

module.exports = { Sources };
