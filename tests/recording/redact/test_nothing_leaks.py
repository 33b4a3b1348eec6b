"""Nothing leaks: a secret of every kind, at every place of everything that is written."""

import gzip
import io
import json
import re
import time
import zlib
from pathlib import Path
from random import Random

import brotli
import httpx2
import orjson
import pytest
import zstandard
from msgspec import Raw
from msgspec.structs import replace
from typer.testing import CliRunner

import offbook
from offbook import MockProvider, RecordingProvider, Redactor, record_tools, replay_tools
from offbook.cli.app import app
from offbook.events import CallStarted
from offbook.faults import HttpError
from offbook.observe import JsonLinesSink
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import (
    Exchange,
    RecordedError,
    RecordedToolCall,
    StreamPiece,
    ToolCallPiece,
    ToolExchange,
)
from offbook.recording.format.wire_record import WireRecord
from offbook.recording.redact.rules import mask_text
from offbook.recording.redact.secret_kinds import _all_rules, secret_kinds
from offbook.recording.stores.locate import open_store
from offbook.report.github import GithubReporter
from offbook.report.junit import junit_report
from offbook.report.scenarios.json_report import html_report, json_report
from offbook.report.scenarios.reporter import report
from offbook.tools.toolbox import Toolbox
from tests.recording.redact.fake_secrets import fake_secrets
from tests.report.runs import conversation, scenario, suite

SECRETS = fake_secrets(Random(7))
TEXTS = [text for text, _ in SECRETS.values()]
ALL = "\n".join(TEXTS)
ONE, PART = SECRETS["npm-access-token"]
MESSAGES = [{"role": "user", "content": "Hi"}]


def leaked(data):
    """The kinds of which something is left."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    return [kind for kind, (_, part) in SECRETS.items() if part in text]


def planted():
    """A recording with every secret at every place that a recording has."""
    exchanges = {}
    for number, text in enumerate(TEXTS):
        exchanges[f"step {text}".replace("\n", " ")[:500] if number % 9 == 0 else f"step {number}"] = Exchange(
            content=text,
            model=text,
            provider=text,
            finish_reason=text,
            reasoning=text,
            tool_calls=[RecordedToolCall(id=text, name=text, arguments={text: [text]}, reasoning=text)],
            chunks=[
                (0.0, text[:9]),
                (1.0, text[9:]),
                (1.0, StreamPiece(tool_call=ToolCallPiece(0, text, text, json.dumps({"a": text})))),
            ],
            fault=HttpError(400, {"x-note": text.replace("\n", " ")}, text),
            request=Raw(orjson.dumps({"messages": [{"content": text, text: text}], "path": f"/x?{text}"})),
            wire=WireRecord(protocol="http", headers={"x-request-id": text.replace("\n", " ")}, body=text),
        )
    tools = {
        f"tool_{ONE}": [
            ToolExchange(
                arguments={text: text}, result=[{text: text}], error=RecordedError(text, text), result_type=text
            )
            for text in TEXTS
        ]
    }
    return Document(entries=exchanges, tools=tools, meta={"note": ALL, ONE: {"deep": [ALL]}}, rest={"_more": TEXTS})


def test_there_is_a_secret_of_every_kind_and_each_is_found_alone():
    assert {kind.partition(" ")[0] for kind in SECRETS} == set(secret_kinds())
    assert len(SECRETS) > 200
    for kind, (text, part) in SECRETS.items():
        masked = mask_text(f"before {text} after")
        assert part not in masked, kind
        assert masked.startswith("before ")
        assert masked.endswith(" after")
        assert mask_text(masked) == masked


def test_the_documentation_lists_every_kind():
    page = Path("docs/redaction.md").read_text().partition("## Kinds")[2]
    assert re.findall(r"`([^`]+)`(?=[,.])", page.replace("\n", " ")) == secret_kinds()


def test_the_project_itself_looks_like_no_secret():
    pages = [path.read_text() for path in [Path("README.md"), *Path("docs").glob("*.md")]]
    assert [span.kind for page in pages for span in Redactor().spans(page) if not span.kind.startswith("field")] == []


@pytest.mark.parametrize("filler", ["", "a1", '="', "A" * 20])
def test_a_text_of_the_words_of_any_rule_takes_linear_time(filler):
    words = sorted({word for rule in _all_rules() for word in rule.words})
    text = "".join(f"{word}{filler}" * 40 for word in words)
    started_s = time.process_time()
    mask_text(text)
    assert (time.process_time() - started_s) / len(text) < 20e-6


def test_a_recording_is_checked_and_redacted_at_every_place(tmp_path):
    path = str(tmp_path / "run.json")
    open_store(path).save(planted())
    found = json.loads(CliRunner().invoke(app, ["recording", "check", path, "--json"]).stdout)
    places = {row["place"] for row in found["findings"]}
    for number in range(0, len(TEXTS), 40):
        assert {row["place"] for row in found["findings"] if row["key"] == f"step {number}"} >= {
            *("content", "model", "provider", "finish_reason", "reasoning", "tool_calls[0].id", "tool_calls[0].name"),
            *("tool_calls[0].arguments (field name)", "tool_calls[0].reasoning", "chunks", "fault.headers.x-note"),
            *("fault.body", "request.messages[0].content", "request.messages[0] (field name)"),
            *("wire.headers.x-request-id", "wire.body"),
        } or number % 9 == 0
    assert {"key", "tool name", "_meta.note", "_meta (field name)", "arguments (field name)", "error.type"} <= places
    assert not leaked(json.dumps(found))
    assert CliRunner().invoke(app, ["recording", "redact", path]).exit_code == 0
    assert not leaked((tmp_path / "run.json").read_bytes())
    assert CliRunner().invoke(app, ["recording", "check", path]).stdout.endswith("checked: no problems\n")


async def test_a_recorder_writes_none_and_its_recording_still_matches(tmp_path):
    path = tmp_path / "run.json"
    step, tool = f"ask {ONE}", {"type": "function", "function": {"name": f"t_{ONE}", "parameters": {ONE: ALL}}}
    request = {"messages": [{"role": "user", "content": ALL, ONE: 1}], "tools": [tool]}
    model = MockProvider(responses={step: {"content": ALL, "tool_calls": [{"id": ONE, "name": ONE, "arguments": {}}]}})
    async with RecordingProvider(model, path) as recorder:
        await recorder.complete(**request, model=ONE, step_id=step)
        await recorder.complete(MESSAGES, model="m", step_id="other")
    assert not leaked(path.read_bytes())
    mock = MockProvider(path, strict=True)
    await mock.complete(**request, model=ONE, step_id=step)
    assert mock.calls[0].matched_by == "step_id"
    assert mock.unused() != []


def test_a_recorder_of_tools_writes_none_and_its_recording_still_matches(tmp_path):
    def look(text: str) -> dict:
        """Look it up."""
        return {"found": [text, {ONE: ALL}]}

    tool = replace(Toolbox([look])["look"], spec=replace(Toolbox([look])["look"].spec, name=f"t-{ONE}"))
    with record_tools([tool], tmp_path / "run.json") as tools:
        tools[f"t-{ONE}"].callable(text=ALL)
    assert not leaked((tmp_path / "run.json").read_bytes())
    with replay_tools([tool], tmp_path / "run.json") as replayed:
        assert replayed[f"t-{ONE}"].callable(text=ALL)["found"]


OPAQUE = "open-sesame-" + "4711"
URL = "https://api.example/v1/chat/completions"
CREDENTIALS = [
    ({"authorization": f"Bearer {OPAQUE}"}, ""),
    ({"x-api-key": OPAQUE}, ""),
    ({"cookie": f"a=b; session={OPAQUE}"}, ""),
    *(({}, f"?{name}={OPAQUE}") for name in ("api-key", "token", "sig", "password", "client_secret", "key")),
]


@pytest.mark.parametrize(("headers", "query"), CREDENTIALS)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_credentials_of_any_shape_are_masked_wherever_the_api_repeats_them(tmp_path, headers, query, is_streamed):
    path = tmp_path / "run.json"
    pieces = [OPAQUE[:5], OPAQUE[5:11], OPAQUE[11:]]
    frames = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
    stream = "".join(f"data: {frame}\n\n" for frame in frames) + "data: [DONE]\n\n"

    def answer(request):
        if is_streamed:
            return httpx2.Response(
                200, text=stream, headers={"content-type": "text/event-stream", "x-request-id": OPAQUE}
            )
        return httpx2.Response(401, json={"error": {"message": f"no such key: {OPAQUE}"}})

    body = {"model": "m", "messages": [{"role": "user", "content": f"my key is {OPAQUE}"}], "stream": is_streamed}
    with offbook.sync_http_client(record=path, transport=httpx2.MockTransport(answer)) as client:
        client.post(URL + query, json=body, headers={**headers, "x-offbook-step": f"s-{OPAQUE}"}).read()
        client.get(f"https://api.example/v1/models{query}", headers=headers).read()
        client.post("https://another.example/v1/later", json={"said": f"before, I sent {OPAQUE}"}).read()
    assert OPAQUE not in path.read_text()
    assert len(open_store(path).load().entries) == 3


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
    ],
)
def test_a_packed_request_is_unpacked_searched_and_replayed(tmp_path, encoding, pack):
    path = tmp_path / "run.json"
    answer = {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}}]}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"use {ONE}"}]}).encode()
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    with offbook.sync_http_client(
        record=path, transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=answer))
    ) as client:
        client.post(URL, content=pack(body), headers=headers).read()
    (_, exchange) = next(iter(open_store(path).load()))
    assert exchange.request_fields()["messages"][0]["content"].startswith("use <redacted:npm-access-token:")
    assert not leaked(path.read_bytes())
    with offbook.sync_http_client(path) as client:
        assert (
            client.post(URL, content=pack(body), headers=headers).json()["choices"][0]["message"]["content"] == "Hello"
        )
        assert client.post(URL, content=body).status_code == 200
        for broken in (body, pack(body)[:-9], b""):
            assert client.post(URL, content=broken, headers=headers).status_code == 422
        unknown = client.post(URL, content=body, headers={"content-encoding": "rot13"})
        assert unknown.status_code == 422
        assert "rot13" in unknown.text


def test_a_packed_response_of_an_unknown_encoding_is_not_kept(tmp_path):
    path = tmp_path / "run.json"
    packed = httpx2.Response(200, content=ONE.encode(), headers={"content-encoding": "rot13"})
    with offbook.sync_http_client(record=path, transport=httpx2.MockTransport(lambda _: packed)) as client:
        client.get("https://api.example/v1/files").read()
    assert "the encoding rot13 is not recorded" in path.read_text()
    assert not leaked(path.read_bytes())


def test_reports_write_none(tmp_path, capsys):
    said = conversation(failures=(), user=ALL, said=json.dumps({"a": ALL, "password": "hunter2"}))
    result = suite(scenario(f"says {ONE}", agent=ONE, passes=0, failures=()), scenario(conversations=(said,)))
    summary = tmp_path / "summary.md"
    report(result, GithubReporter(summary))
    written = [json_report(result), html_report(result), junit_report(result), summary.read_bytes()]
    for data in [*written, capsys.readouterr().out]:
        assert not leaked(data)
        assert "hunter2" not in str(data)
    assert json.loads(written[0])
    assert b"&lt;redacted:npm-access-token:" in written[2]


def test_traces_write_none():
    file = io.StringIO()
    JsonLinesSink(file).emit(CallStarted(f"step {ALL}", ONE, ALL, 1))
    assert json.loads(file.getvalue())["call"] == 1
    assert not leaked(file.getvalue())


PEOPLE = {
    "email": "ada.lovelace+notes@mail.example.co.uk",
    "phone": "+49 30 1234-5678",
    "card": "4111 1111 1111 1111",
}


def test_personal_data_goes_where_a_user_says_so(tmp_path):
    text = " and ".join(PEOPLE.values())
    exchange = Exchange(content=text)
    assert Redactor().redact(exchange) is exchange
    for kind, value in PEOPLE.items():
        mine = Redactor(personal=(kind,))
        assert value not in mine.redact(exchange).content
        assert [found.kind for found in mine.findings(exchange)] == [kind]
        assert mine.text(f"({value})") == "(<redacted>)"
    for innocent in ("4111 1111 1111 1112", "2026-11-17 03:00:44.123456", "@decorator.name", "1.2.3.4", "id 20261117"):
        assert Redactor(personal=("email", "phone", "card")).text(innocent) == innocent
    with pytest.raises(offbook.InputError, match="personal data 'mail'"):
        Redactor(personal=("mail",))
    path = str(tmp_path / "run.json")
    open_store(path).save(Document(entries={"a": exchange}))
    assert CliRunner().invoke(app, ["recording", "check", path, "--personal", "card"]).exit_code == 1
    CliRunner().invoke(app, ["recording", "redact", path, "--personal", "card", "--personal", "email"])
    assert open_store(path).load().exchanges("a")[0].content == f"<redacted> and {PEOPLE['phone']} and <redacted>"
