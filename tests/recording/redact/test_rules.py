"""The rules that a user states once reach every file that is written for a run."""

import io
import json
import re
import sys
from contextlib import redirect_stderr

import httpx2
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import offbook
from offbook import MockProvider, RecordingProvider, Redactor, record_tools, redacting, replay_tools
from offbook.cli.app import app
from offbook.cli.output.console import FaultTally
from offbook.cli.output.wire import WireSummary, call_line
from offbook.cli.runners.wire import WireTally
from offbook.config import load_config
from offbook.errors import InputError, RecordingMismatchError
from offbook.events import CallEnded, CallRecorded, CallStarted
from offbook.mcp.message import parse_message
from offbook.mcp.recorder import McpRecorder, wire_record
from offbook.observe import JsonLinesSink, PrometheusSink, SpanFileSink
from offbook.providers import HttpOptions
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.format.keys import mcp_key
from offbook.recording.redact.rules import mask_text, redactor_in_force, rules_near
from offbook.recording.stores.locate import open_store
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.page import exploration_page
from offbook.report.exploration.report_input import ReportOptions
from offbook.report.exploration.reporter import report_exploration
from offbook.report.github import ExplorationGithubReporter
from offbook.report.junit import exploration_junit, junit_report
from offbook.report.scenarios.json_report import html_report, json_report
from offbook.subjects.regression import Regression, RegressionFolder, load_regression
from offbook.subjects.specs import ProgramSpec
from offbook.wire.backend import SessionTotals
from offbook.wire.session import Miss, WireCall
from tests.recording.redact.test_nothing_leaks import ONE, PART
from tests.report.exploration.explorations import cases, crashed, judged, naive
from tests.report.runs import conversation, scenario, suite

CUSTOMER, MAIL = "CUST-123456", "ada@mail.example"
PLANTED = f"{CUSTOMER} {MAIL} {ONE}"
RULES = """
[redaction]
patterns = ["CUST-\\\\d{6}", "lookup(?=_zeus)"]
fields = ["iban"]
personal = ["email"]
"""


def is_clean(data):
    text = data.decode() if isinstance(data, bytes) else data
    return not re.search(f"{CUSTOMER}|{MAIL}|{PART}|DE0012", text)


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "offbook.toml").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rules(project):
    with redacting(rules_near(project)):
        yield


def explored():
    """An exploration with planted secrets in its subject, its evidence, its calls, its tools and its errors."""
    subject = naive(f"agent {PLANTED}")
    case = cases()[0]
    run = crashed(case, f"no such customer: {PLANTED}")
    tools = tuple(
        replace(tool, arguments={"who": PLANTED, "iban": "DE0012"}, result=PLANTED) for tool in subject.clean.tools
    )
    calls = tuple(replace(call, model=PLANTED, step_id=PLANTED, error=PLANTED) for call in subject.clean.calls)
    told = replace(run, tools=tools, calls=calls, result=PLANTED)
    return replace(
        subject,
        clean=replace(subject.clean, tools=tools, result=PLANTED),
        results=(judged(case, told, "crashed", f"RuntimeError: {PLANTED}"), *subject.results),
    )


def exploration_files(folder):
    options = ReportOptions(lambda case: f"offbook explore --set who={PLANTED}")
    told, summary, log = options.report_input(explored(), is_complete=True), folder / "summary.md", io.StringIO()
    report_exploration(told.exploration, ExplorationGithubReporter(options, summary, out=log))
    yield log.getvalue()
    yield from (exploration_json(told), exploration_page(told), exploration_junit(told), summary.read_bytes())


def scenario_files(folder):
    said = conversation(failures=(), user=PLANTED, said=json.dumps({"a": PLANTED, "iban": "DE0012"}))
    told = suite(scenario(f"says {PLANTED}", agent=PLANTED, passes=0, failures=()), scenario(conversations=(said,)))
    yield from (json_report(told), html_report(told), junit_report(told))


EVENTS = [
    CallStarted(f"step {PLANTED}", PLANTED, PLANTED, 1),
    CallRecorded(f"step {PLANTED}", PLANTED, PLANTED, 1.0),
    CallEnded(f"step {PLANTED}", PLANTED, PLANTED, 1, error=PLANTED),
]


def trace_files(folder):
    lines = io.StringIO()
    metrics = PrometheusSink()
    with SpanFileSink(folder / "spans.jsonl") as spans:
        for event in EVENTS:
            for sink in (JsonLinesSink(lines), spans, metrics):
                sink.emit(event)
    for line in lines.getvalue().splitlines():
        assert json.loads(line)["event"]
    assert (folder / "spans.jsonl").read_text()
    yield from (lines.getvalue(), (folder / "spans.jsonl").read_bytes(), metrics.render())


def log_files(folder):
    call = WireCall(1, PLANTED, PLANTED, f"/{PLANTED}", "missed", PLANTED, 404, fault=PLANTED, failure=PLANTED)
    yield call_line(call).plain
    miss = Miss(0, PLANTED, f"/{PLANTED}", "missing", None, f"nothing like {PLANTED}", 1)
    tally = WireTally(SessionTotals(), [call], [miss], [], [], FaultTally([], []))
    said = io.StringIO()
    with redirect_stderr(said):
        WireSummary(tally, "run.json").print()
    assert "has no answer" in said.getvalue()
    yield said.getvalue()


def regression_files(folder):
    spec = ProgramSpec(recording="run.json", command=("python", "agent.py", PLANTED))
    kind = Regression(offbook="regression", verdict="crashed", faults=(), subject=spec)
    found = explored().results[0]
    lines = tuple(replace(line, at=replace(line.at, step_id=PLANTED)) for line in found.case.lines)
    file = RegressionFolder(folder, kind)._write(found, lines, {})
    assert load_regression(file).verdict == "crashed"
    yield file.read_bytes()


@pytest.mark.parametrize("files", [exploration_files, scenario_files, trace_files, log_files, regression_files])
def test_no_file_has_what_the_rules_name(rules, tmp_path, files):
    written = list(files(tmp_path))
    assert written
    for data in written:
        assert is_clean(data), data


def test_the_rules_of_the_nearest_config_are_those_of_every_command(project):
    (project / "run.json").write_text(json.dumps({"_version": 2, "ask": {"content": PLANTED}}))
    checked = CliRunner().invoke(app, ["recording", "check", "run.json", "--json"])
    assert checked.exit_code == 1
    assert len(json.loads(checked.stdout)["findings"]) == 1
    assert CliRunner().invoke(app, ["recording", "redact", "run.json", "--pattern", "content"]).exit_code == 0
    assert is_clean((project / "run.json").read_text())
    assert mask_text(CUSTOMER) == CUSTOMER


async def test_a_recorder_that_is_given_no_rules_uses_those_in_force(rules, project):
    model = MockProvider(responses={"ask": {"content": PLANTED}})
    async with RecordingProvider(model, "run.json") as recorder:
        await recorder.complete([{"role": "user", "content": PLANTED}], model="m", step_id="ask")
    with offbook.sync_http_client(
        record="http.json", transport=httpx2.MockTransport(lambda _: httpx2.Response(200, text=PLANTED))
    ) as client:
        client.get("https://api.example/v1/models").read()
    for name in ("run.json", "http.json"):
        assert is_clean((project / name).read_text())
    async with RecordingProvider(model, "own.json", redactor=Redactor()) as recorder:
        await recorder.complete([{"role": "user", "content": "Hi"}], model="m", step_id="ask")
    assert CUSTOMER in (project / "own.json").read_text()


def lookup_zeus(text: str) -> str:
    """Look it up."""
    return f"found {text}"


def test_a_name_that_a_rule_has_masked_is_found_by_the_same_rules_and_else_the_miss_says_so(rules, project):
    with record_tools([lookup_zeus], "tools.json") as tools:
        tools["lookup_zeus"].callable(text="it")
    assert '"<redacted>_zeus"' in (project / "tools.json").read_text()
    with replay_tools([lookup_zeus], "tools.json") as replayed:
        assert replayed["lookup_zeus"].callable(text="it") == "found it"
    with redacting(Redactor()), replay_tools([lookup_zeus], "tools.json") as replayed:
        with pytest.raises(RecordingMismatchError) as missed:
            replayed["lookup_zeus"].callable(text="it")
        assert missed.value.kind == "missing"
        assert "same [redaction]" in missed.value.hint


@pytest.mark.parametrize(
    ("section", "place", "reason"),
    [
        ("patterns = ['(']", "redaction", "invalid pattern"),
        ("personal = ['mail']", "redaction", "personal data 'mail'"),
        ("pattern = ['a']", "redaction", "unknown (key|field) 'pattern'"),
        ("fields = 'iban'", "redaction.fields", "expected"),
    ],
)
def test_wrong_rules_are_refused_before_anything_is_written(project, section, place, reason):
    for name, head in (("offbook.toml", ""), ("pyproject.toml", "tool.offbook.")):
        file = project / name
        file.write_text(f"[{head}redaction]\n{section}\n")
        for load in (load_config, lambda path: rules_near(path.parent)):
            with pytest.raises(InputError, match=reason) as refused:
                load(file)
            assert refused.value.source.startswith(str(file))
            assert refused.value.place.startswith(place)
        file.unlink()


def test_a_config_without_rules_is_not_even_parsed(tmp_path):
    (tmp_path / "offbook.toml").write_text("[not toml")
    assert rules_near(tmp_path) is None
    assert redactor_in_force().text(CUSTOMER) == CUSTOMER


KEY = "open-sesame-4711"


@pytest.mark.parametrize(
    "options",
    [{"api_key": KEY}, {"http": {"headers": {"X-Api-Key": KEY}}}, {"http": {"query": {"token": KEY}}}],
)
async def test_the_key_of_a_provider_is_masked_whatever_its_shape(tmp_path, options):
    def answer(request):
        return httpx2.Response(401, json={"error": {"message": f"no such key: {KEY}"}})

    http = HttpOptions(transport=httpx2.MockTransport(answer), **options.get("http", {}))
    provider = offbook.OpenAIProvider(api_key=options.get("api_key", ""), base_url="https://api.example/v1", http=http)
    gateway = offbook.ProviderGateway(retry=offbook.RetryPolicy(max_retries=0))
    gateway.register(provider, rate_limit=offbook.RateLimit(requests_per_minute=100))
    for number, each in enumerate((provider, gateway)):
        recorder = RecordingProvider(each, tmp_path / f"{number}.json")
        with pytest.raises(offbook.ProviderError):
            await recorder.complete([{"role": "user", "content": f"is it {KEY}?"}], model="m", step_id=KEY)
        await recorder.close()
        assert "no such key: <redacted>" in (tmp_path / f"{number}.json").read_text()
        assert KEY not in (tmp_path / f"{number}.json").read_text()


def mcp_messages():
    """What a server sends for a call: progress, and a result; and its bytes, also with a secret that is escaped."""
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"message": PLANTED}}
    content = [{"type": "text", "text": json.dumps({"iban": "DE0012", "note": PLANTED})}]
    result = {"jsonrpc": "2.0", "id": 1, "result": {"content": content, "structuredContent": {PLANTED: PLANTED}}}
    escaped = json.dumps(result).replace(CUSTOMER, CUSTOMER.replace("C", "\\u0043"))
    return [(0.0, json.dumps(progress).encode()), (1.0, escaped.encode())]


def test_recordings_of_mcp_servers_are_checked_and_redacted_at_every_place(project):
    messages = mcp_messages()
    exchange = ToolExchange(arguments={"who": PLANTED, "iban": "DE0012"}, result=[PLANTED], wire=wire_record(messages))
    document = Document(
        tools={f"crm.find {PLANTED}": [exchange], "crm.find": [replace(exchange, wire=wire_record(messages[1:]))]}
    )
    for method in ("tools/list", "notifications/message"):
        listed = {"tools": [{"name": PLANTED, "description": PLANTED, "inputSchema": {PLANTED: {}}}]}
        document.tools[mcp_key("crm", method)] = [ToolExchange(arguments={"data": PLANTED}, result=listed)]
    open_store("run.json").save(document)
    found = json.loads(CliRunner().invoke(app, ["recording", "check", "run.json", "--json"]).stdout)["findings"]
    places = {(row["key"].partition(" ")[0], row["place"].partition("[")[0].partition(".")[0]) for row in found}
    assert {("_tools.crm.find", "arguments"), ("_tools.crm.find", "result"), ("_tools.crm.find", "wire")} <= places
    assert {("_mcp.crm", "arguments"), ("_mcp.crm", "result")} <= places
    assert any(row["place"] == "tool name" for row in found)
    assert is_clean(json.dumps(found))
    assert CliRunner().invoke(app, ["recording", "redact", "run.json"]).exit_code == 0
    written = (project / "run.json").read_text()
    assert is_clean(written.encode().decode("unicode_escape"))
    assert CliRunner().invoke(app, ["recording", "check", "run.json"]).exit_code == 0


def test_a_recorder_of_mcp_servers_writes_none(rules, project):
    recorder = McpRecorder("run.json")
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": CUSTOMER, "arguments": {"a": PLANTED}},
    }
    recorder.record_exchange("crm", parse_message(json.dumps(asked).encode()), mcp_messages())
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": PLANTED}}
    recorder.record_own_message("crm", parse_message(json.dumps(told).encode()))
    recorder.close()
    assert is_clean((project / "run.json").read_text().encode().decode("unicode_escape"))
    assert list(open_store("run.json").load().tools) == ["crm.<redacted>", mcp_key("crm", "notifications/message")]


@pytest.mark.parametrize(("encoding", "package"), [("br", "brotli"), ("zstd", "zstandard")])
def test_a_body_that_needs_a_package_is_refused_with_its_name(project, monkeypatch, encoding, package):
    monkeypatch.setitem(sys.modules, package, None)
    (project / "run.json").write_text('{"_version": 2}')
    with offbook.sync_http_client("run.json") as client:
        refused = client.post(
            "https://api.example/v1/chat/completions", content=b"packed", headers={"content-encoding": encoding}
        )
    assert refused.status_code == 422
    assert f"pip install {package}" in refused.text
