"use strict";
const SHOWN_CHARS = 4000;
const found = (id) => document.getElementById(id);

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
const number = (value) => value.toLocaleString("en");
const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
const dollars = (cost) => cost ? `${cost.toFixed(cost < 0.01 ? 6 : 4).replace(/0+$/, "").replace(/\.$/, "")} $` : "";
const name = (text) => element("bdi", {}, text);
const faint = (text, tag = "bdi") => (text ? element(tag, { class: "faint", dir: "auto" }, text) : null);

/* A button that shows the rest of something long. */
function more(label, show) {
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", () => { show(); button.remove(); });
  return button;
}
/* A text; a long one is shown in full on request. */
function text(value, tag = "pre") {
  const shown = element(tag, { class: "said", dir: "auto" }, value.slice(0, SHOWN_CHARS));
  return value.length <= SHOWN_CHARS ? shown : element("div", {}, shown, more(`Show all ${number(value.length)} characters`, () => { shown.textContent = value; }));
}
const json = (value) => text(typeof value === "string" ? value : JSON.stringify(value, null, 2));

/* Details whose content is built when they are first opened. */
const insides = new WeakMap();
function open(details) {
  const inside = insides.get(details);
  insides.delete(details);
  if (inside) details.append(...inside().filter((child) => child !== null));
  details.open = true;
}
function folded(attributes, summary, inside) {
  const details = element("details", attributes, element("summary", {}, ...summary));
  insides.set(details, inside);
  details.addEventListener("toggle", () => { if (details.open) open(details); });
  return details;
}

/* A printed page shows all details that are not filtered out. */
let unfolded = [];
addEventListener("beforeprint", () => {
  for (let left; (left = [...document.querySelectorAll("main details:not([open])")].filter((each) => !each.closest("[hidden]"))).length;) {
    left.forEach(open);
    unfolded.push(...left);
  }
});
addEventListener("afterprint", () => { unfolded.forEach((each) => { each.open = false; }); unfolded = []; });

/* A verdict as its cell is called: one whose sign is a word has it in its name, so that it can be called by what is seen. */
const spokenVerdict = (verdict, sign) => sign.length > 1 ? `${verdict} ${sign}` : verdict;

/* In a table, arrow keys go to the next cell in their direction that has something to open and is shown. */
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
function walkCells(event) {
  const cell = event.target.closest("td"), [down, right] = STEPS[event.key] ?? [0, 0];
  if (!cell || !(down || right)) return;
  event.preventDefault();
  const rows = [...cell.closest("tbody").rows];
  for (let row = rows.indexOf(cell.parentNode) + down, column = cell.cellIndex + right; rows[row]?.cells[column]; row += down, column += right) {
    const target = rows[row].cells[column].querySelector("button, a");
    if (target && target.checkVisibility()) return target.focus();
  }
}

/* What the report came from, as far as it is known. */
function originParts({ version, command, recording, recorded_at }) {
  const parts = [recording ? ["Recording ", name(recording), recorded_at ? ` of ${recorded_at.slice(0, 10)}` : ""] : [], command ? [element("code", {}, name(command))] : [], version ? [`offbook ${version}`] : []];
  return parts.filter((part) => part.length).flatMap((part, place) => (place ? [" · ", ...part] : part));
}

/* Says that a box scrolls, while it does. */
function scrollHint(box) {
  const hint = element("p", { class: "faint hint scrolls", hidden: "" }, "Scroll sideways to see the rest →");
  const seen = new ResizeObserver(() => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; });
  for (const each of [box, box.firstElementChild]) if (each) seen.observe(each);
  return hint;
}

