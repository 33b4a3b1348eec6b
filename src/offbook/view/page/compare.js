/* Two runs of one kind side by side. */
"use strict";
const PAIRS = 100;

function difference(lines) {
  const shade = { "-": "removed", "+": "added" };
  return element("pre", { class: "difference" }, ...lines.split("\n").map((line) => element("span", { class: shade[line.trimStart()[0]] ?? "" }, `${line}\n`)));
}

function pairRow({ left, right, is_same, difference: lines }) {
  const side = (part) => element("td", {}, ...(part ? [element("div", {}, name(part.title)), part.note ? badge(part.note, part.tone ?? "plain") : null].filter(Boolean) : [faint("–")]));
  const row = element("tr", { class: is_same ? "" : "differs" }, side(left), side(right));
  if (!lines) return [row];
  const more_ = element("td", { colspan: "2" }, folded({}, ["What differs"], () => [difference(lines)]));
  return [row, element("tr", { class: "explained" }, more_)];
}

function sideHead(run) {
  const link = linkOf(run);
  return element("th", { scope: "col" }, link ? element("a", { href: link }, name(run.id)) : name(run.id), element("div", { class: "faint" }, run.origin), element("div", { class: "faint" }, figures(run)),
    element("div", { class: "faint" }, when(run.modified_at)), badge(run.verdict, run.tone));
}

async function compareView([left, right], chosen) {
  const only = element("input", { type: "checkbox", id: "only" });
  only.checked = chosen.changed !== "0";
  const totals = element("p", { id: "totals" }), body = element("tbody", {}), head = element("thead", {}), rest = element("p", {});
  let last = null, shownPairs = PAIRS;
  const query = (offset) => ({ left, right, changed: only.checked ? "1" : "0", offset, limit: PAIRS });
  const fill = async (isAnew) => {
    const first = await ask("api/compare", query(0));
    if (first === last && !isAnew) return;
    last = first;
    const pages = [first];
    while (pages.length * PAIRS < Math.min(shownPairs, first.total)) pages.push(await ask("api/compare", query(pages.length * PAIRS)));
    const differing = first.all - first.same;
    totals.textContent = `${differing ? `${counted(differing, "difference")}, ` : "No differences, "}${number(first.same)} the same`;
    head.replaceChildren(element("tr", {}, sideHead(first.left), sideHead(first.right)));
    body.replaceChildren(...pages.flatMap((page) => page.pairs.flatMap(pairRow)));
    const hidden = first.total - shownPairs;
    rest.replaceChildren(...(hidden > 0 ? [more(`Show ${number(Math.min(PAIRS, hidden))} of ${number(hidden)} more`, () => { shownPairs += PAIRS; fill(true); })] : []));
  };
  only.addEventListener("input", () => { choose({ changed: only.checked ? "1" : "0" }); shownPairs = PAIRS; fill(true); });
  await fill(true);
  const swap = element("a", { href: fragment(["compare", right, left]) }, "Swap sides");
  return {
    title: "Comparison",
    nodes: [element("p", { class: "faint" }, element("a", { href: "#/runs" }, "← all runs")), element("h1", {}, "Side by side"), totals, element("search", { "aria-label": "Filter" }, element("label", { class: "check" }, only, " Only what differs"), swap),
      element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Both runs" }, element("table", { class: "pairs" }, head, body)), rest],
    refresh: () => fill(false),
  };
}
