/* The views by the first word of the fragment, and what they share: requests, polling, links. */
"use strict";
const POLL_MS = 1500;
const KEPT_ANSWERS = 60;
const answers = new Map();
const views = { runs: runsView, recording: recordingView, workflow: workflowView, compare: compareView, explorations: explorationsView, heatmap: heatmapView, scenarios: scenariosView };
const ofId = { recording: "recording", workflow: "workflow" };

/* The JSON at a path. What has not changed since it was last asked for is not sent again. */
async function ask(path, query = {}) {
  const url = `${path}?${new URLSearchParams(query)}`, known = answers.get(url);
  const response = await fetch(url, { cache: "no-store", headers: known ? { "If-None-Match": `"${known.tag}"` } : {} });
  if (response.status === 304) return known.body;
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  answers.delete(url);
  answers.set(url, { tag: (response.headers.get("etag") ?? "").replaceAll('"', ""), body });
  if (answers.size > KEPT_ANSWERS) answers.delete(answers.keys().next().value);
  return body;
}

/* The fragment of a view: its parts, then what is chosen in it. */
function fragment(parts, chosen = {}) {
  const given = Object.entries(chosen).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const query = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}
function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...parts] = path.split("/").map(decodeURIComponent);
  return { view: view || "runs", parts, chosen: Object.fromEntries(new URLSearchParams(query ?? "")) };
}
const linkOf = (run) => run.kind === "exploration" || run.kind === "scenarios" ? `report?id=${encodeURIComponent(run.id)}`
  : ofId[run.kind] ? fragment([ofId[run.kind], run.id]) : null;
/* Change what is chosen in a view, without a new entry in the history. */
function choose(chosen) {
  const { view, parts, chosen: before } = here();
  history.replaceState(null, "", fragment([view, ...parts], { ...before, ...chosen }));
}

function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.round(ms / 1000) % 60} s`;
}
const when = (time) => time ? element("time", { datetime: time, title: time }, time.slice(0, 16).replace("T", " ")) : "";
const badge = (words, tone) => element("span", { class: `badge ${tone}` }, words);
const listed = (items, attributes = {}) => element("ul", attributes, ...items.map((item) => element("li", {}, ...[item].flat())));

/* The view that is shown, and when it looks again whether something has changed. */
let shown = null, turn = 0;
async function show() {
  const { view, parts, chosen } = here(), mine = ++turn, main = found("main");
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  try {
    const made = await (views[view] ?? runsView)(parts, chosen);
    if (mine !== turn) return;
    main.replaceChildren(...made.nodes.filter(Boolean));
    document.title = `${made.title} · offbook view`;
    shown = made;
    made.onShown?.();
  } catch (error) {
    if (mine === turn) { shown = null; main.replaceChildren(problem(error)); }
  }
}
const problem = (error) => element("section", { class: "problem" }, element("h1", {}, "This cannot be shown"), text(error.message), element("p", {}, element("a", { href: "#/runs" }, "All runs")));

async function look() {
  try {
    if (!document.hidden) await shown?.refresh?.();
    found("status").textContent = "";
  } catch (error) {
    found("status").textContent = error instanceof TypeError ? "The viewer has stopped" : "";
  }
  setTimeout(look, POLL_MS);
}

addEventListener("hashchange", show);
found("skip").addEventListener("click", (event) => { event.preventDefault(); found("main").focus(); });
addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping && found("q")) { event.preventDefault(); found("q").focus(); }
});
show().then(() => { document.documentElement.dataset.ready = "1"; setTimeout(look, POLL_MS); });
