const SHOWN_STEPS = 100;
const page = JSON.parse(found("data").textContent);
const verdicts = new Map(page.verdicts.map((verdict) => [verdict.name, verdict]));
const shade = (verdict) => verdict.replaceAll(" ", "-");
const sign = (verdict) => element("span", { class: `sign ${shade(verdict)}`, "aria-hidden": "true" }, verdicts.get(verdict).letter);
const told = (case_) => case_.faults.join("; ");
const listed = (items, attributes = {}) => element("ul", attributes, ...items.map((item) => element("li", {}, ...[item].flat())));

const call = ({ tool, arguments: given }) => element("code", {}, name(`${tool}(${JSON.stringify(given)})`.slice(0, SHOWN_CHARS)));
function stepParts({ kind, name: title, asks_for, model, result, error, notes }) {
  const head = [element("strong", {}, kind === "model" ? "Model " : "Tool "), name(title), faint(model && ` ${model}`)];
  const calls = (asks_for ?? []).flatMap((asked) => [" ", call(asked)]);
  const end = error ? [element("div", { class: "bad" }, "✗ failed"), text(error)] : kind === "tool" ? [text(result ?? "")] : [];
  return [element("div", {}, ...head, kind === "model" && calls.length ? " asks for" : "", ...calls, faint(notes?.length ? ` ${notes.join(", ")}` : "")), ...end];
}

function steps(numbers, fired, attributes) {
  const item = (step, place) => element("li", fired.has(place) ? { class: "fired" } : {},
    fired.has(place) ? element("div", { class: "bad" }, element("strong", {}, "⚡ the fault fires here")) : null, ...stepParts(page.steps[step]));
  const items = numbers.map(([step, place]) => () => item(step, place));
  const list = element("ol", attributes, ...items.slice(0, SHOWN_STEPS).map((make) => make()));
  const left = items.slice(SHOWN_STEPS);
  return left.length ? element("div", {}, list, more(`Show ${counted(left.length, "more call")}`, () => list.append(...left.map((make) => make())))) : list;
}

/* How the run ended: the last entry of its timeline. */
function ending(case_) {
  const { error, has_result, took_s = 0, paths = {} } = case_;
  const answer = error ? [element("div", { class: "bad" }, element("strong", {}, `✗ ended with ${error.type}`), ` (${error.kind})`), text(error.message)]
    : has_result ? [element("strong", {}, "Final answer"), json(case_.result ?? null), faint("Without the fault"), json(page.result)]
      : [element("strong", {}, "Final answer"), faint(" the same as without the fault"), json(page.result)];
  const took = took_s || page.took_s ? `${took_s.toFixed(1)} s, without the fault ${page.took_s.toFixed(1)} s` : "";
  const ran = Object.entries(paths).map(([path, times]) => `${path}: ${counted(times, "time")}`);
  return element("ol", { class: "timeline" }, element("li", { class: "ending" }, ...answer, faint([took, ...ran].filter(Boolean).join(" · "), "div") ?? ""));
}

function timeline(case_) {
  const all = case_.timeline, fired = new Set(case_.fired), placed = all.map((step, place) => [step, place]);
  if (!fired.size) return [element("h3", {}, "What the agent did"), steps(placed, fired, { class: "timeline" }), ending(case_)];
  const first = Math.min(...fired), before = placed.slice(0, first);
  const earlier = before.length ? folded({}, [`${counted(before.length, "call")} before the fault`], () => [steps(before, fired, { class: "timeline" })]) : null;
  const after = placed.slice(first + 1);
  return [element("h3", {}, "Where the fault fired"), earlier, steps(placed.slice(first, first + 1), fired, { class: "timeline" }),
    element("h3", {}, "What the agent did next"), after.length ? steps(after, fired, { class: "timeline after" }) : faint("It made no further call.", "p"), ending(case_)];
}

function sideBySide(case_) {
  if (!case_.pairs?.length) return [faint("The same calls of tools as without the fault.", "p")];
  const cell = (step) => element("td", {}, ...(step === null ? ["–"] : stepParts(page.steps[step])));
  const rows = case_.pairs.map(([clean, run]) => element("tr", clean === run ? {} : { class: "differs" }, cell(clean), cell(run)));
  const heads = ["Without the fault", "With the fault"].map((head) => element("th", { scope: "col" }, head));
  return [element("table", { class: "pairs" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows))];
}

function command(case_) {
  if (!case_.reproduce) return null;
  const shown = element("pre", { dir: "ltr" }, case_.reproduce), button = element("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(shown);
    const copied = await (navigator.clipboard?.writeText(case_.reproduce) ?? Promise.reject()).then(() => true, () => false);
    button.textContent = copied ? "Copied" : "Selected";
  });
  return element("div", { class: "command" }, shown, button);
}

/* What happened first, as the title; the verdict and the place come second. */
const TITLE_CHARS = 200;
const cut = (title) => title.length <= TITLE_CHARS ? title : `${title.slice(0, TITLE_CHARS - 1)}…`;
const headline = ({ evidence, title }) => cut((evidence[0] ?? "").split("\n")[0] || title);
function inside(case_) {
  const [first = "", ...others] = case_.evidence, [title, ...lines] = first.split("\n");
  const rest = [title.length > TITLE_CHARS ? first : lines.join("\n"), ...others].filter(Boolean);
  const injected = case_.faults.map((fault) => element("code", {}, name(fault)));
  const evidence = rest.length ? [element("h3", {}, "Evidence"), listed(rest.map((line) => text(line)))] : [];
  return [element("h3", {}, "Injected"), listed(injected), ...evidence, ...(case_.reproduce ? [element("h3", {}, "Run it again"), command(case_)] : []),
    ...timeline(case_), element("h3", {}, "Calls of tools"), ...sideBySide(case_)];
}

function show(index) {
  const case_ = page.cases[index], dialog = found("run");
  const close = element("button", { type: "button", class: "close", "aria-label": "Close" }, "✕");
  close.addEventListener("click", () => dialog.close());
  const title = element("h2", { id: "run-title", tabindex: "-1" }, sign(case_.verdict), " ", name(headline(case_)));
  const about = element("p", { class: "faint" }, element("strong", {}, case_.title), `: ${verdicts.get(case_.verdict).meaning}. Case ${case_.id}, at `, name(told(case_)));
  dialog.replaceChildren(close, title, about, ...inside(case_).filter((child) => child !== null));
  if (!dialog.open) dialog.showModal();
  title.focus();
  dialog.scrollTop = 0;
  history.replaceState(null, "", `#case-${case_.id}`);
}
found("run").addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));

function opener(index, attributes, ...children) {
  const button = element("button", { type: "button", "data-case": index, ...attributes }, ...children);
  button.addEventListener("click", () => show(index));
  return button;
}
const line = (index) => opener(index, {}, sign(page.cases[index].verdict), " ", name(headline(page.cases[index])), faint(` ${told(page.cases[index])}`));

function heatmap() {
  const grid = page.rows.map(() => page.columns.map(() => null));
  page.cases.forEach((case_, index) => (case_.places ?? []).forEach(([row, column]) => { grid[row][column] ??= index; }));
  const cell = (index, row, column) => index === null ? element("td", {}) : element("td", {}, opener(index,
    { class: shade(page.cases[index].verdict), "aria-label": `${page.rows[row]}, ${page.columns[column]}: ${spokenVerdict(page.cases[index].verdict, verdicts.get(page.cases[index].verdict).letter)}`, title: `${page.columns[column]}: ${page.cases[index].title}` },
    verdicts.get(page.cases[index].verdict).letter));
  const heads = page.columns.map((column) => element("th", { scope: "col", title: column }, element("span", {}, name(column))));
  const rows = grid.map((cells, row) => element("tr", {}, element("th", { scope: "row", title: page.rows[row] }, name(page.rows[row])), ...cells.map((index, column) => cell(index, row, column))));
  return [element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Call"), ...heads)), element("tbody", {}, ...rows)];
}

function finding({ verdict, title: kind, headline: title, cases }) {
  const first = page.cases[cases[0]], others = cases.slice(1);
  const place = element("div", { class: "faint place" }, `${kind}, at `, name(told(first)), others.length ? ` and in ${counted(others.length, "more case")}` : "");
  const summary = [sign(verdict), " ", element("strong", {}, name(cut(title))), place];
  const also = others.length ? [element("h3", {}, "Also"), listed(others.map((index) => name(told(page.cases[index]))), { class: "also" }), listed(others.map(line), { class: "cases" })] : [];
  return folded({ class: "finding", "data-cases": JSON.stringify(cases) }, summary, () => [...inside(first), ...also]);
}

function coverage({ met, missed, paths, never_ran }) {
  const title = (row) => page.rows[page.names.indexOf(row)] ?? row;
  const rows = page.names.filter((row) => met[row]).map((row) => element("tr", {}, element("th", { scope: "row" }, name(title(row))), element("td", {}, name(met[row].join(", ")))));
  const table = element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Call"), element("th", { scope: "col" }, "Faults it met"))), element("tbody", {}, ...rows));
  const ran = Object.entries(paths).map(([path, times]) => `${path} ran ${counted(times, "time")}`);
  const never = never_ran.length ? [faint(`Not seen: ${never_ran.join(", ")}.${never_ran.length > 1 || never_ran[0] !== "retry" ? " Fallbacks and breakers are seen only if the agent calls its models through offbook's gateway." : ""}`)] : [];
  return [element("h3", {}, "Ways to recover"), listed([...ran, ...never]), missed.length ? element("p", {}, "Calls that met no fault: ", name(missed.map(title).join(", "))) : null,
    folded({}, [`Faults met by ${counted(rows.length, "call")}`], () => [element("div", { class: "wide" }, table)])];
}

const missing = (isLeftOut) => isLeftOut ? "left out" : "no such case";
function comparison({ same, changes }) {
  const row = ({ case: case_, before, after, is_worse, was_left_out, is_left_out }) => element("tr", {}, element("td", { class: is_worse ? "bad" : "faint" }, is_worse ? "✗ worse" : "other"),
    element("td", {}, `${before ?? missing(was_left_out)} → ${after ?? missing(is_left_out)}`), element("td", {}, name(case_)));
  const worse = changes.filter((change) => change.is_worse), others = changes.filter((change) => !change.is_worse);
  const table = element("table", {}, element("tbody", {}, ...[...worse, ...others].map(row)));
  return [element("p", {}, `${number(worse.length)} worse, ${counted(others.length, "other change")}, ${number(same)} the same`), changes.length ? element("div", { class: "wide" }, table) : null];
}

function matches(case_) {
  const verdict = found("verdict").value, fault = found("fault").value, row = found("call").value;
  if (verdict && (verdict === "findings" ? !verdicts.get(case_.verdict).is_finding : verdict !== case_.verdict)) return false;
  return (!fault && !row) || (case_.places ?? []).some(([at, column]) => (!fault || column === Number(fault)) && (!row || at === Number(row)));
}
function filter() {
  const shown = page.cases.map(matches), fault = found("fault").value, call_ = found("call").value;
  const table = found("heatmap"), rows = [...table.tBodies[0].rows], used = new Set();
  rows.forEach((row, at) => {
    [...row.cells].slice(1).forEach((cell, column) => {
      const button = cell.firstChild;
      if (button) button.hidden = !shown[button.dataset.case] || (fault && Number(fault) !== column) || (call_ && Number(call_) !== at);
      if (button && !button.hidden) used.add(column);
    });
    row.hidden = !row.querySelector("button:not([hidden])");
  });
  for (const row of table.rows) [...row.cells].slice(1).forEach((cell, column) => { cell.hidden = !used.has(column); });
  for (const button of document.querySelectorAll("#beside button")) button.parentNode.hidden = !shown[button.dataset.case];
  for (const each of document.querySelectorAll(".finding")) each.hidden = !JSON.parse(each.dataset.cases).some((index) => shown[index]);
  found("count").textContent = `${number(shown.filter(Boolean).length)} of ${counted(shown.length, "case")} shown`;
}

function showTarget() {
  const index = page.cases.findIndex(({ id }) => location.hash === `#case-${id}`);
  if (index >= 0) show(index);
}
addEventListener("hashchange", showTarget);

const bad = page.cases.filter(({ verdict }) => verdicts.get(verdict).is_finding).length;
const tried = page.verdicts.filter(({ cases }) => cases);
document.title = `Exploration of ${page.subject}`;
found("subject").append(page.subject);
found("totals").append(`${counted(page.cases.length, "case")}, `, element("strong", bad ? { class: "bad" } : {}, counted(bad, "finding")), page.left ? `; the budget left out ${counted(page.left, "case")}` : "", page.left_orders ? `; ${counted(page.left_orders, "order")} of calls left out` : "");
found("totals").after(...page.notes.map((note) => element("p", { class: "faint note" }, note)));
found("origin").append(...originParts(page.origin));
found("cut-off").hidden = page.is_complete;
found("tally").append(...tried.map(({ name: verdict, cases, meaning, noun }) => element("li", {}, sign(verdict), ` ${number(cases)} ${noun}: `, faint(meaning))));
found("verdict").append(...tried.map(({ name: verdict }) => element("option", {}, verdict)));
found("fault").append(...page.columns.map((column, index) => element("option", { value: index }, column)));
found("call").append(...page.rows.map((row, index) => element("option", { value: index }, row)));
found("heatmap").append(...heatmap());
found("heatmap").addEventListener("keydown", walkCells);
found("heatmap").parentNode.before(scrollHint(found("heatmap").parentNode));
const beside = page.cases.map((_, index) => index).filter((index) => !page.cases[index].places?.length);
found("beside").hidden = !beside.length;
found("beside").querySelector("summary").append(counted(beside.length, "case"));
found("beside").querySelector("details").append(listed(beside.map(line), { class: "cases" }));
if (page.findings.length) found("findings-title").after(faint(`${counted(bad, "finding")} of ${counted(page.findings.length, "cause")}`, "p"));
found("findings").append(...(page.findings.length ? page.findings.map(finding) : [faint("None.", "p")]));
found("coverage").append(...coverage(page.coverage).filter((child) => child !== null));
found("comparison").hidden = !page.comparison;
if (page.comparison) found("comparison").append(...comparison(page.comparison).filter((child) => child !== null));
for (const id of ["verdict", "fault", "call"]) found(id).addEventListener("input", filter);
filter();
showTarget();
