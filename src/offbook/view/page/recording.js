/* A recording: a waterfall of its calls, and the conversation beside it; and a workflow run with its steps. */
"use strict";
const CONVERSATION_CALLS = 30;
const SIGNS = { model: "◆", tool: "⚙", mcp: "⚙", http: "↔" };

/* Where a call lies in time: from its start to its end, with the part in which its answer streamed. */
function bar({ kind, drawn_ms = 0, latency_ms = 0, first_ms, failure }, span) {
  const share = (ms) => `${Math.min(100, (100 * ms) / (span || 1))}%`;
  const made = element("span", { class: `bar ${kind}${failure ? " failed" : ""}` });
  made.style.left = share(drawn_ms);
  made.style.width = `max(3px, ${share(latency_ms)})`;
  if (first_ms !== undefined && first_ms !== null && latency_ms > 0) {
    const streamed = element("span", { class: "streamed" });
    streamed.style.left = `${Math.min(100, (100 * first_ms) / latency_ms)}%`;
    made.append(streamed);
  }
  return element("span", { class: "lane", "aria-hidden": "true" }, made);
}

function callRow(call, span, onOpen, isChosen) {
  const attempt = call.attempt > 1 ? badge(`try ${call.attempt}`, "plain") : null;
  const notes = [call.name, call.model, duration(call.latency_ms ?? 0), call.pieces ? counted(call.pieces, "piece") : "", call.tokens ? counted(call.tokens, "token") : "", dollars(call.cost_usd)];
  const title = element("a", { href: fragment(["recording", here().parts[0]], { call: call.number }), class: "title", ...(isChosen ? { "aria-current": "true" } : {}) },
    element("span", { class: `mark ${call.kind}`, "aria-hidden": "true" }, SIGNS[call.kind]), `${call.number} `, name(call.title || (call.failure ? "no answer" : "an empty answer")));
  title.addEventListener("click", (event) => { if (!event.metaKey && !event.ctrlKey) { event.preventDefault(); onOpen(call.number); } });
  return [element("span", { class: "what" }, title, " ", attempt, call.failure ? badge(call.failure, "bad") : null, element("span", { class: "faint origin" }, notes.filter(Boolean).join(" · "))), bar(call, span)];
}

function said({ role, text: words = "", calls = [] }) {
  const content = [words ? text(words, "div") : null, ...calls.map((call) => element("code", { class: "asked" }, "→ ", name(call)))];
  return element("div", { class: `said-by ${["user", "system", "assistant", "tool"].includes(role) ? role : "user"}` }, faint(role, "div"), ...content);
}

function spoken(id, { row, said: messages = [], answer, reasoning }) {
  const about = [row.kind, row.name, row.model, duration(row.latency_ms ?? 0), row.attempt > 1 ? `try ${row.attempt}` : ""].filter(Boolean).join(" · ");
  const whole = folded({}, ["In full"], () => {
    const place = element("div", {}, faint("Loading…"));
    ask("api/call", { id, number: row.number }).then((call) => place.replaceChildren(json(call.exchange)), (error) => place.replaceChildren(text(error.message)));
    return [place];
  });
  const title = row.kind === "tool" || row.kind === "mcp" || row.kind === "http" ? element("code", { class: "asked" }, name(row.title)) : null;
  return element("li", { id: `call-${row.number}`, tabindex: "-1" }, element("h3", {}, `${row.number} `, faint(about)), ...messages.map(said), title,
    reasoning ? folded({}, ["Reasoning"], () => [text(reasoning, "div")]) : null, row.failure ? element("div", { class: "bad" }, `✗ ${row.failure}`) : null, answer ? said(answer) : null, whole);
}

/* The calls around one, as a conversation; earlier and later ones on request. */
function conversation(id) {
  const list = element("ol", { class: "conversation" }), earlier = element("button", { type: "button" }, "Earlier calls"), later = element("button", { type: "button" }, "Later calls");
  const state = { start: 0, count: 0, total: 0 };
  const put = (found_) => {
    Object.assign(state, { start: found_.offset, count: found_.calls.length, total: found_.total });
    list.replaceChildren(...found_.calls.map((call) => spoken(id, call)));
    earlier.hidden = state.start === 0;
    later.hidden = state.start + state.count >= state.total;
  };
  const load = async (start) => put(await ask("api/conversation", { id, offset: Math.max(0, start), limit: CONVERSATION_CALLS }));
  earlier.addEventListener("click", () => load(state.start - CONVERSATION_CALLS));
  later.addEventListener("click", () => load(state.start + CONVERSATION_CALLS).then(() => list.firstChild?.scrollIntoView({ block: "nearest" })));
  return {
    node: element("section", { class: "talk", "aria-labelledby": "talk-title" }, element("h2", { id: "talk-title" }, "Conversation"), earlier, list, later),
    state,
    refresh: () => (state.start + state.count >= state.total || !state.count ? load(state.start) : undefined),
    async open(number_, takesFocus) {
      if (number_ <= state.start || number_ > state.start + state.count) await load(number_ - 1 - CONVERSATION_CALLS / 3);
      for (const each of list.children) each.classList.toggle("chosen", each.id === `call-${number_}`);
      const target = found(`call-${number_}`);
      target?.scrollIntoView({ block: "nearest" });
      if (takesFocus) target?.focus({ preventScroll: true });
    },
  };
}

async function recordingView([id], chosen) {
  const head = await ask("api/recording", { id, offset: 0, limit: PAGE_ROWS });
  let span = head.span_ms, chosenCall = Number(chosen.call) || 0, size = head.total;
  const talk = conversation(id), totals = element("p", { class: "faint", id: "totals" });
  const search = element("input", { id: "q", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "tool, text, error…" }), count = element("output", { "aria-live": "polite", id: "count" });
  search.value = chosen.q ?? "";
  const load = async (offset, limit) => {
    const found_ = await ask("api/recording", { id, offset, limit, q: search.value.trim() });
    span = found_.span_ms;
    size = found_.all;
    count.textContent = `${number(found_.total)} of ${counted(found_.all, "call")}`;
    totals.replaceChildren([found_.run.origin, figures(found_.run), found_.run.verdict].filter(Boolean).join(" · "));
    return { total: found_.total, rows: found_.calls };
  };
  const openCall = async (number_, takesFocus = true) => {
    chosenCall = number_;
    choose({ call: number_, q: search.value.trim() });
    list.draw(true);
    await talk.open(number_, takesFocus);
  };
  const list = new VirtualList({ label: "Calls", className: "calls", load, render: (call) => callRow(call, span, openCall, call.number === chosenCall) });
  search.addEventListener("input", () => {
    choose({ call: chosenCall || "", q: search.value.trim() });
    list.node.scrollTop = 0;
    list.active = 0;
    list.refresh().catch(() => {});
  });
  await list.refresh();
  await talk.open(Math.max(1, chosenCall), false);
  const back = head.part_of ? element("a", { href: fragment(["workflow", head.part_of]) }, "← ", name(head.part_of)) : element("a", { href: "#/runs" }, "← all runs");
  const hint = faint("Bars show when a call began and how long it took; the lighter part is the streamed answer. Long idle times are shortened.", "p");
  const filter = element("search", { "aria-label": "Filter" }, element("label", {}, "Search", search), count);
  const waterfall = element("section", { class: "waterfall", "aria-labelledby": "waterfall-title" }, element("h2", { id: "waterfall-title" }, "Waterfall"), hint, filter, list.node);
  return {
    title: id,
    nodes: [element("p", { class: "faint" }, back), element("h1", {}, name(id)), totals, element("div", { class: "beside" }, waterfall, talk.node)],
    async refresh() { const before = size; await list.refresh(); if (size !== before) await talk.refresh(); },
    async onShown() { list.draw(true); if (chosenCall) { if (!search.value.trim()) await list.go(chosenCall - 1, false); await talk.open(chosenCall, false); } },
  };
}

async function workflowView([id]) {
  const body = element("div", {});
  const fill = ({ run, workflow, started_at, offbook, steps, recordings }) => {
    const row = ({ place, result }) => element("tr", {}, element("th", { scope: "row" }, name(place)), element("td", {}, badge(result.status, result.status === "done" ? "good" : result.status === "failed" ? "bad" : "plain")),
      element("td", {}, number(result.calls)), element("td", {}, number((result.prompt_tokens ?? 0) + (result.completion_tokens ?? 0))), element("td", {}, dollars(result.cost_usd)),
      element("td", {}, result.error ? element("span", { class: "bad" }, name(result.error)) : name(result.output === null ? "" : (typeof result.output === "string" ? result.output : JSON.stringify(result.output)).slice(0, 300))));
    const heads = ["Step", "Status", "Calls", "Tokens", "Cost", "Output"].map((head) => element("th", { scope: "col" }, head));
    const calls = recordings.map((each) => element("a", { href: fragment(["recording", each.id]) }, name(each.name)));
    body.replaceChildren(element("p", {}, badge(run.verdict, run.tone), " ", name(workflow), faint(` ${run.origin} · ${run.count} ${run.noun} · started ${started_at.slice(0, 19).replace("T", " ")} · offbook ${offbook}`)),
      element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Steps" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...steps.map(row)))),
      ...(calls.length ? [element("h2", {}, "Calls of steps"), listed(calls)] : []));
  };
  let last = await ask("api/workflow", { id });
  fill(last);
  const refresh = async () => { const next = await ask("api/workflow", { id }); if (next !== last) fill(last = next); };
  return { title: id, nodes: [element("p", { class: "faint" }, element("a", { href: "#/runs" }, "← all runs")), element("h1", {}, name(id)), body], refresh };
}
