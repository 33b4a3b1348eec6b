/* Runs over time: explorations of one subject as one heatmap, and pass rates of scenarios. */
"use strict";
const shade = (verdict) => verdict.replaceAll(" ", "-");

async function explorationsView() {
  const body = element("div", {});
  const fill = ({ groups }) => {
    const row = ({ subject, runs }) => element("li", {}, element("h2", {}, element("a", { href: fragment(["heatmap", subject]) }, name(subject)), faint(` ${counted(runs.length, "exploration")}`)),
      listed(runs.slice(0, 5).map((run) => [element("a", { href: linkOf(run) }, name(run.id)), " ", badge(run.verdict, run.tone), " ", faint(`${number(run.count)} ${run.noun} · ${run.modified_at.slice(0, 16).replace("T", " ")}`)]), { class: "bare" }));
    body.replaceChildren(groups.length ? element("ul", { class: "bare groups" }, ...groups.map(row)) : faint("No JSON report of an exploration here yet: offbook explore … --reporter json=runs/exploration.json", "p"));
  };
  let last = await ask("api/explorations");
  fill(last);
  return { title: "Explorations", nodes: [element("h1", {}, "Explorations"), body], async refresh() { const next = await ask("api/explorations"); if (next !== last) fill(last = next); } };
}

/* The heatmap of all versions: in each cell, a sign for each version, the latest last. */
function versionsTable({ rows, columns, cells, versions, verdicts }, onlyChanged) {
  const signs = new Map(verdicts.map((verdict) => [verdict.name, verdict]));
  const placed = new Map(cells.map((cell) => [`${cell.row}/${cell.column}`, cell]));
  const hasChanged = (cell) => new Set(cell.results.map((result) => result?.[2])).size > 1;
  const kept = cells.filter((cell) => !onlyChanged || hasChanged(cell));
  const keptRows = rows.map((_, index) => index).filter((index) => kept.some((cell) => cell.row === index));
  const keptColumns = columns.map((_, index) => index).filter((index) => kept.some((cell) => cell.column === index));
  const sign = (result, at, cell) => result === null ? element("span", { class: "sign none", title: `${versions[at].id}: no such case` }, " ")
    : element("a", { class: `sign ${shade(result[0])}`, href: `report?id=${encodeURIComponent(versions[at].id)}#case-${result[1]}`, "aria-label": `${rows[cell.row]}, ${columns[cell.column]}, ${versions[at].id}: ${spokenVerdict(result[0], signs.get(result[0]).sign)}`, title: `${versions[at].id}: ${result[2]}` }, signs.get(result[0]).sign);
  const cellOf = (row, column) => {
    const cell = placed.get(`${row}/${column}`);
    return element("td", cell && hasChanged(cell) ? { class: "changed" } : {}, ...(cell && kept.includes(cell) ? [element("div", { class: "versions" }, ...cell.results.map((result, at) => sign(result, at, cell)))] : []));
  };
  const heads = keptColumns.map((column) => element("th", { scope: "col", title: columns[column] }, element("span", {}, name(columns[column]))));
  const body = keptRows.map((row) => element("tr", {}, element("th", { scope: "row", title: rows[row] }, name(rows[row])), ...keptColumns.map((column) => cellOf(row, column))));
  return [element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Call"), ...heads)), element("tbody", {}, ...body)];
}

async function heatmapView([subject], chosen) {
  const table = element("table", { id: "heatmap", class: "heatmap" }), versions = element("ol", { class: "bare" }), legend = element("ul", { class: "legend" });
  const only = element("input", { type: "checkbox", id: "only" }), none = element("p", { class: "faint" });
  only.checked = chosen.changed === "1";
  let last = null;
  const fill = async (isAnew) => {
    const found_ = await ask("api/heatmap", { subject });
    if (found_ === last && !isAnew) return;
    last = found_;
    table.replaceChildren(...versionsTable(found_, only.checked));
    none.textContent = table.tBodies[0].rows.length ? "" : "No verdict differs between these explorations.";
    const line = (version, at) => element("li", {}, `${at + 1}  `, element("a", { href: `report?id=${encodeURIComponent(version.id)}` }, name(version.id)), " ",
      badge(counted(version.findings, "finding"), version.findings ? "bad" : "good"), faint(` ${counted(version.cases, "case")} · ${version.modified_at.slice(0, 16).replace("T", " ")}${version.is_complete ? "" : " · not complete"}`),
      at ? element("a", { class: "small", href: fragment(["compare", found_.versions[at - 1].id, version.id]) }, " what changed") : null);
    versions.replaceChildren(...found_.versions.map(line));
    const used = new Set(found_.cells.flatMap((cell) => cell.results.map((result) => result?.[0])));
    legend.replaceChildren(...found_.verdicts.filter((verdict) => used.has(verdict.name)).map((verdict) => element("li", {}, element("span", { class: `sign ${shade(verdict.name)}`, "aria-hidden": "true" }, verdict.sign), ` ${verdict.name}: `, faint(verdict.meaning))));
  };
  only.addEventListener("input", () => { choose({ changed: only.checked ? "1" : "" }); fill(true); });
  table.addEventListener("keydown", walkCells);
  await fill(true);
  const box = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Heatmap" }, table);
  return {
    title: subject,
    nodes: [element("p", { class: "faint" }, element("a", { href: "#/explorations" }, "← all explorations")), element("h1", {}, name(subject)), versions,
      element("search", { "aria-label": "Filter" }, element("label", { class: "check" }, only, " Only what changed")),
      faint("Rows are the calls of the run, columns are faults. A cell has one sign for each exploration above, in that order; a sign opens its run, and arrow keys go from cell to cell.", "p"), none,
      scrollHint(box), box, element("h2", {}, "Verdicts"), legend],
    refresh: () => fill(false),
  };
}

/* Pass rates with their intervals, one point for each run. */
const SVG = "http://www.w3.org/2000/svg";
function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function rateChart({ points, name: title }, runs) {
  const step = Math.max(16, Math.min(48, 240 / runs.length)), width = runs.length * step, height = 48, x = (run) => step / 2 + run * step, y = (rate) => 4 + (1 - rate) * (height - 8);
  const words = points.map((point) => `${runs[point.run].id}: ${point.passes} of ${point.runs}`).join("; ");
  const marks = points.flatMap((point) => [drawn("line", { x1: x(point.run), x2: x(point.run), y1: y(point.high), y2: y(point.low), class: "interval" }),
    drawn("circle", { cx: x(point.run), cy: y(point.rate), r: 4, class: point.passed ? "passed" : "failed" })]);
  const line = drawn("polyline", { points: points.map((point) => `${x(point.run)},${y(point.rate)}`).join(" "), class: "trend" });
  return drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${words}` }, line, ...marks);
}
const percent = (rate) => `${Math.round(rate * 100)} %`;

async function scenariosView() {
  const body = element("div", {});
  const fill = ({ runs, scenarios }) => {
    const row = (scenario) => {
      const latest = scenario.points.at(-1), run = runs[latest.run];
      const passes = scenario.points.reduce((sum, point) => sum + point.passes, 0), all = scenario.points.reduce((sum, point) => sum + point.runs, 0);
      return element("tr", {}, element("th", { scope: "row" }, name(scenario.name), element("div", { class: "faint" }, name([scenario.agent, scenario.source].filter(Boolean).join(" · ")))),
        element("td", {}, rateChart(scenario, runs)),
        element("td", {}, element("a", { href: linkOf(run) }, badge(`${latest.passes}/${latest.runs}`, latest.passed ? "good" : "bad")), faint(` ${percent(latest.rate)} (${percent(latest.low)} to ${percent(latest.high)})`)),
        element("td", {}, `${number(passes)}/${number(all)}`), element("td", {}, dollars(latest.cost_usd)));
    };
    const heads = ["Scenario", "Pass rate over time", "Latest run", "All runs", "Cost"].map((head) => element("th", { scope: "col" }, head));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...scenarios.map(row)));
    const box = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Scenarios" }, table);
    body.replaceChildren(...(scenarios.length ? [faint(`${counted(runs.length, "run")}, the latest on the right. Lines through points are 95 % intervals.`, "p"), scrollHint(box), box]
      : [faint("No JSON report of scenarios here yet: offbook test --reporter json=runs/report.json", "p")]));
  };
  let last = await ask("api/scenarios");
  fill(last);
  return { title: "Scenarios", nodes: [element("h1", {}, "Scenarios over time"), body], async refresh() { const next = await ask("api/scenarios"); if (next !== last) fill(last = next); } };
}
