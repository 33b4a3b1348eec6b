const run = JSON.parse(found("data").textContent);
const percent = (rate) => `${Math.round(rate * 100)} %`;
const mark = (passed) => element("span", { class: passed ? "pass" : "fail" }, passed ? "✓ passed " : "✗ failed ");

function taken(part) {
  const told = [part.tokens && counted(part.tokens, "token"), dollars(part.cost_usd)];
  return [...told, part.latency_s && `${part.latency_s.toFixed(2)} s`].filter(Boolean).join(" · ");
}

function rates({ passes, runs, pass_rate, interval }) {
  const sure = `${percent(pass_rate)} (${percent(interval.low)} to ${percent(interval.high)})`;
  return runs > 1 ? `${passes}/${runs}, ${sure}` : `${passes}/${runs}`;
}

function failure({ kind, reason, detail }) {
  const said = element("div", {}, element("strong", { class: "fail" }, `${kind}: `), name(reason.slice(0, SHOWN_CHARS)));
  return element("div", { class: "failure" }, said, detail ? text(detail) : null);
}

function toolCall(call) {
  const wrong = call.error !== null || !call.is_answered;
  const end = call.error !== null ? "✗ failed" : call.is_answered ? "" : "✗ not answered";
  const told = [element("code", {}, name(call.tool)), " ", faint(JSON.stringify(call.args).slice(0, 80)), end ? element("span", { class: "fail" }, ` ${end}`) : null];
  const inside = () => [
    element("div", { class: "faint" }, "Arguments"), json(call.args),
    call.error === null && !call.is_answered ? null : element("div", { class: "faint" }, call.error === null ? "Result" : "Error"),
    call.error !== null ? json(call.error) : call.is_answered ? json(call.result) : null,
  ];
  return element("li", { class: wrong ? "tool wrong" : "tool" }, folded({}, ["Tool ", ...told], inside));
}

function assertion({ matched, reason, difference }) {
  const said = element("div", {}, mark(matched), "assertion ", name(reason));
  return element("li", { class: matched ? "verdict" : "verdict wrong" }, said, difference ? text(difference) : null);
}

function judgement({ metric, value, reason, severity, error }) {
  const found = error !== null ? `could not be judged: ${error}` : value === null ? "" : String(value);
  const said = element("div", {}, name(metric), " ", element("strong", {}, name(found)), faint(severity ? ` severity ${severity}` : ""));
  return element("li", { class: error !== null || severity ? "verdict wrong" : "verdict" }, said, reason ? text(reason, "div") : null);
}

/* A failed assertion is shown once: at its turn; or, if it is about the whole conversation, above that. */
const isAbove = ({ failures }, { matched, reason, turn_index }) => !matched && turn_index === null && failures.some((each) => each.reason === reason);
const isAtTurn = ({ assertions }, failure) => assertions.some(({ matched, reason, turn_index }) => !matched && turn_index !== null && reason === failure.reason);
function verdicts(conversation, index) {
  const at = (verdict) => verdict.turn_index === index;
  return [...conversation.assertions.filter((each) => at(each) && !isAbove(conversation, each)).map(assertion), ...conversation.judgements.filter(at).map(judgement)];
}

function turn(conversation, told) {
  const said = (who, words) => element("li", { class: who }, element("div", { class: "faint" }, who), text(words, "div"));
  const answer = told.agent ? said("agent", told.agent) : null;
  return [said("user", told.user), ...told.calls.map(toolCall), answer, ...verdicts(conversation, told.index)];
}

function timeline(conversation) {
  const events = conversation.turns.flatMap((told) => turn(conversation, told));
  const list = element("ol", { class: "timeline" }, ...events, ...verdicts(conversation, null));
  return [...conversation.failures.filter((each) => !isAtTurn(conversation, each)).map(failure), list, faint(`Ended: ${conversation.ending.replaceAll("_", " ")}`)];
}

function conversationOf(conversation, id) {
  const told = [mark(conversation.passed), `Conversation ${conversation.index + 1} `, faint(counted(conversation.turns.length, "turn")), faint(taken(conversation))];
  return folded({ class: `conversation ${conversation.passed ? "passed" : "failed"}`, id }, told, () => timeline(conversation));
}

function metrics(figures) {
  const rows = Object.entries(figures.metrics).map(([metric, { mean, deviation, count }]) =>
    element("li", {}, name(metric), ` ${mean.toFixed(2)} ± ${deviation.toFixed(2)} (${count})`));
  const hats = Object.entries(figures.pass_hat_k).map(([k, rate]) => `${k}: ${percent(rate)}`).join(", ");
  if (figures.runs > 1) rows.unshift(element("li", {}, `All of so many runs in a row pass (pass^k): ${hats}`));
  return rows.length ? element("ul", {}, ...rows) : null;
}

function inside(scenario, id) {
  const never = scenario.never_called.length ? `Mocks never called: ${scenario.never_called.join(", ")}` : "";
  return [faint(scenario.source, "div"), metrics(scenario.figures), faint(never, "div"), ...scenario.failures.map(failure),
    ...scenario.conversations.map((each, index) => conversationOf(each, `${id}-${index}`))];
}

const sections = run.scenarios.map((scenario, index) => {
  const status = scenario.passed ? "passed" : "failed";
  const told = [mark(scenario.passed), name(scenario.name), faint(scenario.agent), faint(rates(scenario.figures)), faint(taken(scenario.figures))];
  return folded({ class: `scenario ${status}`, id: `scenario-${index}` }, told, () => inside(scenario, `scenario-${index}`));
});
const agents = [...new Set(run.scenarios.map((scenario) => scenario.agent))];

function overview() {
  const rows = new Map();
  run.scenarios.forEach((scenario, index) => {
    const key = JSON.stringify([scenario.source, scenario.name]);
    if (!rows.has(key)) rows.set(key, { title: scenario.name, cells: new Map() });
    rows.get(key).cells.set(scenario.agent, index);
  });
  const cell = (index) => index === undefined ? element("td", {}) : element("td", {},
    element("a", { href: `#scenario-${index}`, "data-index": index }, mark(run.scenarios[index].passed), rates(run.scenarios[index].figures)));
  const heads = agents.map((agent) => element("th", { scope: "col" }, name(agent || "agent")));
  const body = [...rows.values()].map(({ title, cells }) =>
    element("tr", {}, element("th", { scope: "row" }, name(title)), ...agents.map((agent) => cell(cells.get(agent)))));
  return [element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Scenario"), ...heads)), element("tbody", {}, ...body)];
}

const places = new Map();
run.scenarios.forEach(({ conversations }, index) => conversations.forEach(({ id }, at) => places.set(id, places.get(id) ?? [index, at])));
function group({ title, severity, conversations, description }) {
  const link = ([index, at]) => element("a", { href: `#scenario-${index}-${at}`, "data-index": index }, name(run.scenarios[index].name), ` ${at + 1}`);
  const links = conversations.filter((id) => places.has(id)).map((id) => link(places.get(id)));
  const said = element("div", {}, element("strong", { class: "fail" }, `${severity}: `), name(title.slice(0, SHOWN_CHARS)), faint(` ${counted(conversations.length, "conversation")}`));
  return element("li", {}, said, title.includes(description) ? null : text(description, "div"), ...links.flatMap((each) => [each, " "]));
}

const words = (value) => value !== null && typeof value === "object" ? Object.values(value).map(words).join("\n") : String(value);
const texts = [];
function matches(scenario, index) {
  const status = found("status").value, agent = found("agent").value, sought = found("text").value.trim().toLowerCase();
  if (status && status !== (scenario.passed ? "passed" : "failed")) return false;
  if (agent && agent !== `agent ${scenario.agent}`) return false;
  return !sought || (texts[index] ??= words(scenario).toLowerCase()).includes(sought);
}

function filter() {
  const shown = run.scenarios.map(matches);
  sections.forEach((section, index) => { section.hidden = !shown[index]; });
  for (const row of document.querySelectorAll("#overview tbody tr, #groups li")) {
    const links = [...row.querySelectorAll("a")];
    links.forEach((link) => { link.hidden = !shown[link.dataset.index]; });
    row.hidden = links.length > 0 && links.every((link) => link.hidden);
  }
  found("count").textContent = `${number(shown.filter(Boolean).length)} of ${counted(shown.length, "scenario")} shown`;
}

function showTarget() {
  const [id, scenario] = /^#(scenario-\d+)(-\d+)?$/.exec(location.hash) ?? [];
  if (found(scenario)) open(found(scenario));
  const target = found(id?.slice(1));
  if (target) { open(target); target.querySelector("summary").focus(); }
}

addEventListener("hashchange", showTarget);

const conversations = run.scenarios.flatMap((scenario) => scenario.conversations);
const passing = (all, noun) => `${number(all.filter((each) => each.passed).length)} of ${counted(all.length, noun)} passed`;
found("totals").append(mark(run.passed), [passing(run.scenarios, "scenario"), passing(conversations, "conversation"), taken(run)].filter(Boolean).join(" · "));
found("origin").append(...originParts(run.origin));
found("cut-off").hidden = run.is_complete;
found("agent").append(...agents.map((agent) => element("option", { value: `agent ${agent}` }, agent || "(no name)")));
found("groups").hidden = !run.groups.length;
found("groups").querySelector("ul").append(...run.groups.map(group));
found("overview").append(...overview());
found("results").append(...sections);
for (const id of ["text", "status", "agent"]) found(id).addEventListener("input", filter);
filter();
showTarget();
