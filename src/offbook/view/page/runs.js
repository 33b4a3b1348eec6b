/* The list of all runs. */
"use strict";
const KINDS = { recording: "Recording", exploration: "Exploration", scenarios: "Scenarios", workflow: "Workflow run", unreadable: "Unreadable", pending: "…" };
const ORDERS = { "": "Latest first", id: "Name", verdict: "Verdict", kind: "Kind", "-cost_usd": "Cost", "-tokens": "Tokens", "-took_s": "Time", "-count": "Size" };
const compared = new Map();

function figures(run) {
  const parts = [run.count || run.noun ? `${number(run.count)} ${run.noun}` : "", run.tokens ? counted(run.tokens, "token") : "", dollars(run.cost_usd), run.took_s ? duration(run.took_s * 1000) : ""];
  return parts.filter(Boolean).join(" · ");
}

function runRow(run, onPick) {
  const link = linkOf(run), title = element("bdi", {}, run.id);
  const said = link ? element("a", { href: link, class: "title" }, title) : element("a", { class: "title", role: "link", "aria-disabled": "true" }, title);
  const pick = element("input", { type: "checkbox", "aria-label": `Compare ${run.id}` });
  pick.checked = compared.has(run.id);
  pick.disabled = !link;
  pick.addEventListener("change", () => onPick(run, pick));
  const origin = run.problem || run.origin;
  return [element("span", { class: "pick" }, pick), element("span", { class: "kind" }, badge(KINDS[run.kind], `kind-${run.kind}`)),
    element("span", { class: "what" }, said, element("span", { class: run.problem ? "bad origin" : "faint origin", title: origin }, origin)),
    element("span", { class: "verdict" }, run.kind === "pending" ? faint("being read", "span") : badge(run.verdict, run.tone)),
    element("span", { class: "figures faint" }, figures(run)), element("span", { class: "time faint" }, when(run.modified_at))];
}

async function runsView(_, chosen) {
  const query = { q: chosen.q ?? "", kind: chosen.kind ?? "", sort: chosen.sort ?? "" };
  const count = element("output", { "aria-live": "polite", id: "count" }), compare = element("a", { class: "button", id: "compare" }, "Compare");
  const search = element("input", { id: "q", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "name, model, tool, text, error…" });
  search.value = query.q;
  const select = (id, options) => {
    const made = element("select", { id }, ...Object.entries(options).map(([value, title]) => element("option", { value }, title)));
    made.value = query[id];
    return made;
  };
  const kind = select("kind", { "": "All", ...KINDS }), sort = select("sort", ORDERS);
  kind.querySelector('[value="pending"]').remove();
  const empty = element("p", { class: "faint", id: "empty" });

  const offerComparison = () => {
    const [left, right] = [...compared.values()];
    const fits = compared.size === 2 && left.kind === right.kind;
    if (fits) compare.href = fragment(["compare", left.id, right.id]); else compare.removeAttribute("href");
    compare.setAttribute("aria-disabled", String(!fits));
    compare.textContent = compared.size === 2 && !fits ? "Compare: choose two of one kind" : compared.size ? `Compare (${compared.size} of 2)` : "Compare";
  };
  const pick = (run, box) => {
    if (box.checked) compared.set(run.id, run); else compared.delete(run.id);
    while (compared.size > 2) compared.delete(compared.keys().next().value);
    offerComparison();
    list.draw(true);
  };
  const load = async (offset, limit) => {
    const found_ = await ask("api/runs", { ...query, offset, limit });
    count.textContent = `${number(found_.matching)} of ${counted(found_.total, "run")}${found_.pending ? `, ${number(found_.pending)} being read` : ""}`;
    empty.textContent = found_.total ? (found_.matching ? "" : "No run matches.") : "No recordings or JSON reports here yet: record one with offbook exec --record, or add --reporter json=runs/report.json to explore or test.";
    if (found_.pending) setTimeout(() => list.refresh().catch(() => {}), 50);
    return { total: found_.matching, rows: found_.runs };
  };
  const list = new VirtualList({ label: "Runs", className: "runs", load, render: (run) => runRow(run, pick) });
  const changed = () => {
    Object.assign(query, { q: search.value.trim(), kind: kind.value, sort: sort.value });
    choose(query);
    list.node.scrollTop = 0;
    list.active = 0;
    list.refresh().catch(() => {});
  };
  for (const control of [search, kind, sort]) control.addEventListener("input", changed);
  offerComparison();
  await list.refresh();
  const filters = element("search", { "aria-label": "Filter" }, element("label", {}, "Search", search), element("label", {}, "Kind", kind), element("label", {}, "Order", sort), count, compare);
  return { title: "Runs", nodes: [element("h1", { class: "unseen" }, "Runs"), filters, empty, list.node], refresh: () => list.refresh(), onShown: () => list.draw(true) };
}
