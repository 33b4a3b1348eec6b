"""What frameworks do with a stand-in in the place of a model: each of them does it all, with each vendor's model."""

import pytest

from tests.wire.frameworks.catalog import FRAMEWORKS
from tests.wire.frameworks.scripts import CITIES, PLAIN, REPORT, WEATHER


def _client(framework, title):
    return pytest.param(
        framework, title, id=f"{framework.name}-{title}", marks=pytest.mark.xdist_group(framework.group)
    )


every_client = pytest.mark.parametrize(
    ("framework", "title"), [_client(framework, title) for framework in FRAMEWORKS for title in framework.titles]
)
both_ways = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def client(framework, title):
    return framework.clients()[framework.titles.index(title)]


@pytest.fixture
def begin(server):
    """Starts the run that a recording answers, and gives its session and its address."""

    def begin(script, *faults):
        return server.start_session(script, faults=faults), server.session_url(script)

    return begin


def outcomes(session):
    """What became of the calls of models. LiteLLM also asks Ollama about them."""
    return [call.outcome for call in session.calls if call.request is not None]


async def joined(pieces):
    return "".join([piece async for piece in pieces])


@every_client
def test_the_catalog_names_the_client(client, title):
    assert client.title == title


@every_client
async def test_a_question_is_answered(client, begin):
    session, url = begin("plain")
    assert await client.ask(url) == PLAIN
    assert outcomes(session) == ["served"]


@every_client
async def test_a_question_is_answered_in_pieces(client, begin):
    _, url = begin("plain")
    pieces = [piece async for piece in client.stream(url) if piece]
    assert "".join(pieces) == PLAIN
    assert len(pieces) > 3


@every_client
@both_ways
async def test_tools_that_are_asked_for_together_run_and_their_results_go_back(client, begin, is_streamed, request):
    if is_streamed and client.merges_streamed_calls:
        request.applymarker(pytest.mark.xfail(strict=True, reason="it merges the calls that Ollama streams apart"))
    session, url = begin("weather")
    questions = []

    def weather(city: str) -> str:
        questions.append(city)
        return f"The weather in {city}."

    assert await client.use_tools(url, weather, is_streamed=is_streamed) == WEATHER
    assert sorted(questions) == CITIES
    last = [call.request for call in session.calls if call.request is not None][-1]
    results = [message["content"] for message in last.messages if message["role"] == "tool"]
    assert [f"The weather in {city}." in result for city, result in zip(CITIES, results, strict=True)] == [True, True]


@every_client
async def test_an_answer_may_have_a_structure(client, begin):
    _, url = begin(client.report_script)
    assert (await client.report(url)).model_dump() == REPORT


@every_client
@both_ways
async def test_a_miss_is_raised_at_once_with_the_nearest_entry(client, begin, is_streamed):
    session, url = begin("another")
    with pytest.raises(Exception, match="greeting"):
        await (joined(client.stream(url)) if is_streamed else client.ask(url))
    assert outcomes(session) == ["missed"]
