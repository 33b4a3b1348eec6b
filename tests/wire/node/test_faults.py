"""What the SDKs for Node do about faults and misses."""

import msgspec
import pytest

from offbook import serving
from offbook.faults.catalog import FAULT_TYPES
from tests.wire.conformance.answers import ANSWERS
from tests.wire.documented_table import DOCS
from tests.wire.node.driver import SDKS
from tests.wire.node.questions import ANTHROPIC, CHAT, QUESTIONS, RESPONSES
from tests.wire.node.table import PAGE, RENEWAL, TABLES, observed

pytestmark = pytest.mark.xdist_group("node_sdks")

every_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.title)
both_ways = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


def test_the_tables_tell_what_the_sdks_do(driver):
    seen = observed(driver)
    assert [TABLES[is_streamed].differences(columns) for is_streamed, columns in seen.items()] == [[], []], RENEWAL


@both_ways
def test_every_fault_has_a_row(is_streamed):
    rows = next(iter(TABLES[is_streamed].read().values()))
    of_http = {name for name, kind in FAULT_TYPES.items() if not name.startswith("ws_") and "lies" not in kind.traits}
    assert {row.strip("`").split()[0] for row in rows} == of_http


def test_the_page_names_the_versions_that_were_observed(driver):
    page = (DOCS / PAGE).read_text()
    assert [version for version in map(installed, ("openai", "@anthropic-ai/sdk")) if version not in page] == []


def installed(package):
    package_file = msgspec.json.decode((SDKS / "node_modules" / package / "package.json").read_bytes())
    return f"`{package}` {package_file['version']}"


def early_end(driver, server, question, helper, final):
    server.start_session("early", faults=["everywhere: stream_truncate 5 raise=clean"])
    return driver.ask(**question.case(server.session_url("early")) | {"call": helper, "final": final})


@pytest.mark.parametrize(
    ("question", "helper", "final", "error"),
    [
        (CHAT, "chat.completions.stream", "finalChatCompletion", "missing finish_reason"),
        (ANTHROPIC, "messages.stream", "finalMessage", "stream ended without producing a Message"),
    ],
    ids=["openai", "anthropic"],
)
def test_a_helper_refuses_a_stream_that_ends_too_early(driver, server, question, helper, final, error):
    assert error in early_end(driver, server, question, helper, final).error.message


def test_the_helper_of_responses_takes_a_stream_that_ends_too_early(driver, server):
    result = early_end(driver, server, RESPONSES, "responses.stream", "finalResponse")
    assert result.error is None
    assert result.value["status"] == "in_progress"


@every_question
@pytest.mark.parametrize("header", ["retry-after-ms=1", "retry-after=0.001"])
def test_a_call_that_fails_once_is_tried_again_when_it_is_told_to(driver, server, question, header):
    session = server.start_session("once", faults=[f"call=1 attempt=1: http_error 429 headers.{header}"])
    result = driver.ask(**question.case(server.session_url("once")))
    assert str(question.seen(result, is_streamed=False)) == "answer"
    assert [(call.attempt, call.status) for call in session.calls] == [(1, 429), (2, 200)]


@pytest.fixture(scope="module")
def strict():
    known = {"messages": [{"role": "user", "content": "Who are you?"}], "model": "m"}
    entry = ANSWERS["plain"] | {"request": known, "request_hash": "0" * 64}
    with serving(responses={"_version": 2, "known": entry}, strict=True) as server:
        yield server


@every_question
@both_ways
def test_a_miss_names_the_nearest_entry_and_is_never_retried(driver, strict, question, is_streamed):
    session = strict.start_session("missed")
    error = driver.ask(**question.case(strict.session_url("missed"), is_streamed=is_streamed)).error
    assert error.name == "UnprocessableEntityError"
    assert error.status == 422
    assert "The nearest entry is 'known'" in error.message
    assert [call.outcome for call in session.calls] == ["missed"]
