"""Pipelines: the models and tools of a config in a mode."""

import json

import msgspec
import pytest

from offbook.errors import (
    AllProvidersFailedError,
    InputError,
    NoProviderError,
    ProviderConnectionError,
    RecordingMismatchError,
    ToolFaultError,
)
from offbook.events import FaultFired, MemorySink, ReplayServed
from offbook.faults import FaultPlan, parse_fault
from offbook.messages import Response
from offbook.pipeline import Harnessed, Live, Mock, Record, Replay, open_pipeline
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.stores.locate import open_store
from offbook.tools import Toolbox, tool_of
from offbook.vendors import VENDORS
from offbook.workflow import parse_workflow
from offbook.workflow.file.schema import ConfigDefinition
from offbook.workflow.file.tree import Endpoint, endpoints_of
from tests.fakes import Scripted, user
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer

QUESTION = user("Hi")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """No key and no address of a model's vendor is in the environment."""
    for vendor in VENDORS.values():
        for name in (*vendor.key_variables, *vendor.address_variables):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with LoopbackServer(chat_answer("Hello!")) as server:
        yield server


def config(**fields):
    return msgspec.convert(fields, ConfigDefinition)


def local(server, **fields):
    return config(provider="openai", model="demo", base_url=server.url, **fields)


def written(path, **document):
    path.write_text(json.dumps({"_version": 2, **document}))
    return str(path)


async def answer_of(declared, mode, *, model="demo", step_id="greet", **options):
    """The answer to one question in a pipeline."""
    async with open_pipeline(declared, mode, **options) as pipeline:
        return (await pipeline.gateway.complete(QUESTION, model=model, step_id=step_id)).content


async def test_a_live_pipeline_asks_the_server_of_its_config(server):
    assert await answer_of(local(server), Live()) == "Hello!"
    assert len(server.calls) == 1


async def test_an_address_may_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert await answer_of(config(provider="openai"), Live()) == "Hello!"


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("openai", ["OPENAI_API_KEY"]),
        ("anthropic", ["ANTHROPIC_API_KEY"]),
        ("google", ["GOOGLE_API_KEY", "GEMINI_API_KEY"]),
    ],
)
@pytest.mark.parametrize("mode", [Live(), Record("run.json")])
async def test_a_missing_key_is_named_with_a_way_to_do_without(provider, variables, mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        await answer_of(config(provider=provider), mode)
    assert all(name in caught.value.reason for name in variables)
    assert "offbook replay" in caught.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("google", "GOOGLE_API_KEY"), ("ollama", "ANY")]
)
async def test_a_pipeline_opens_with_the_key_that_its_provider_needs(provider, variable, monkeypatch):
    monkeypatch.setenv(variable, "a-key")
    async with open_pipeline(config(provider=provider), Live()) as pipeline:
        assert list(pipeline.gateway.breakers) == [provider]


async def test_a_config_without_a_provider_is_refused_with_the_known_ones():
    with pytest.raises(InputError) as caught:
        await answer_of(config(), Live())
    assert "ollama" in caught.value.hint


async def test_a_recorded_pipeline_replays_without_its_server(server, tmp_path):
    path = str(tmp_path / "run.json")
    assert await answer_of(local(server), Record(path)) == "Hello!"
    assert await answer_of(local(server), Replay(path)) == "Hello!"
    assert len(server.calls) == 1


async def test_record_modes_are_those_of_the_recorder(server, tmp_path):
    path = str(tmp_path / "run.json")
    for _ in range(2):
        await answer_of(local(server), Record(path, "new"))
    assert len(server.calls) == 1


async def test_a_replay_is_strict_unless_told_otherwise(tmp_path):
    path = written(tmp_path / "run.json", other={"content": "x"})
    with pytest.raises(RecordingMismatchError):
        await answer_of(config(), Replay(path))
    assert await answer_of(config(), Replay(path, allow_default_fallback=True)) == "Mock response"


async def test_a_mock_is_lenient_unless_told_otherwise(tmp_path):
    path = written(tmp_path / "run.json", other={"content": "x"})
    assert await answer_of(config(), Mock(path)) == "Mock response"
    with pytest.raises(RecordingMismatchError):
        await answer_of(config(), Mock(path, lenient=False))


async def test_a_mock_without_a_recording_answers_with_the_default():
    assert await answer_of(config(), Mock()) == "Mock response"


async def test_the_provider_mock_answers_from_the_file_of_the_config_whatever_folder_it_is_in(tmp_path):
    written(tmp_path / "answers.json", greet={"content": "Hello!"})
    declared = config(provider="mock", responses_file="answers.json")
    assert await answer_of(declared, Live(), folder=tmp_path) == "Hello!"


async def test_the_file_of_the_config_may_be_a_database(tmp_path):
    source = written(tmp_path / "answers.json", greet={"content": "Hello!"})
    open_store(f"sqlite:///{tmp_path}/answers.db").save(open_store(source).load())
    declared = config(provider="mock", responses_file="sqlite:///answers.db")
    assert await answer_of(declared, Live(), folder=tmp_path) == "Hello!"


async def test_a_strict_config_refuses_what_its_file_lacks(tmp_path):
    written(tmp_path / "answers.json")
    declared = config(provider="mock", responses_file="answers.json", strict=True)
    with pytest.raises(RecordingMismatchError):
        await answer_of(declared, Live(), folder=tmp_path)


async def test_a_file_of_the_config_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(InputError, match=r"answers\.json"):
        await answer_of(config(provider="mock", responses_file="answers.json"), Live(), folder=tmp_path)


async def test_answers_may_be_recorded_from_a_mock(tmp_path):
    written(tmp_path / "answers.json", greet={"content": "Hello!"})
    declared, path = config(provider="mock", responses_file="answers.json"), str(tmp_path / "run.json")
    assert await answer_of(declared, Record(path), folder=tmp_path) == "Hello!"
    assert open_store(path).load().size == 1


async def test_the_retry_of_the_config_is_that_of_the_gateway(tmp_path):
    path = written(tmp_path / "run.json", greet=[{"fault": {"type": "timeout"}}, {"content": "Hello!"}])
    with pytest.raises(AllProvidersFailedError):
        await answer_of(config(retry={"max_retries": 0}), Replay(path))
    assert await answer_of(config(retry={"backoff_s": 0}), Replay(path)) == "Hello!"


async def test_faults_fire_at_inside_retry_and_are_not_recorded(server, tmp_path):
    path, sink = str(tmp_path / "run.json"), MemorySink()
    plan = FaultPlan([parse_fault("call=1 attempt=1: http_error 500")])
    declared = local(server, retry={"backoff_s": 0})
    assert await answer_of(declared, Record(path), faults=plan, sink=sink) == "Hello!"
    assert [event.attempt for event in sink.events if isinstance(event, FaultFired)] == [1]
    assert open_store(path).load().size == 1


async def test_a_fallback_is_asked_by_its_own_name_and_replays(server, tmp_path):
    path = str(tmp_path / "run.json")
    gone = config(
        provider="openai",
        base_url="http://127.0.0.1:9",
        retry={"max_retries": 0},
        fallbacks=[{"provider": "openai", "model": "spare", "base_url": server.url}],
    )
    assert await answer_of(gone, Record(path)) == "Hello!"
    assert await answer_of(gone, Replay(path)) == "Hello!"
    assert len(server.calls) == 1
    models = [stored.exchange.request_fields()["model"] for stored in open_store(path).read()]
    assert models == ["demo", "spare"]


async def test_faults_count_the_calls_of_all_providers_together(tmp_path):
    path, sink = written(tmp_path / "run.json", one={"content": "1"}, two={"content": "2"}), MemorySink()
    models = {Endpoint("openai"): ["a"], Endpoint("anthropic"): ["b"]}
    plan, declared = FaultPlan([parse_fault("call=2 attempt=1: timeout 0")]), config(retry={"backoff_s": 0})
    async with open_pipeline(declared, Replay(path), models=models, faults=plan, sink=sink) as pipeline:
        await pipeline.gateway.complete(QUESTION, model="a", step_id="one")
        await pipeline.gateway.complete(QUESTION, model="b", step_id="two")
    assert [event.model for event in sink.events if isinstance(event, FaultFired)] == ["b"]


async def test_models_are_asked_where_the_workflow_says(server):
    with LoopbackServer(chat_answer("I am the other.")) as other:
        models = {Endpoint("openai", server.url): ["a[1]"], Endpoint("openai", other.url): ["b"]}
        assert await answer_of(config(), Live(), models=models, model="a[1]") == "Hello!"
        assert await answer_of(config(), Live(), models=models, model="b") == "I am the other."
        with pytest.raises(NoProviderError):
            await answer_of(config(), Live(), models=models, model="c")


async def test_a_model_asked_of_two_providers_is_refused():
    models = {Endpoint("openai", "http://127.0.0.1:9"): ["m"], Endpoint("anthropic"): ["m"]}
    with pytest.raises(InputError, match=r"'m' has two providers: openai at http://127\.0\.0\.1:9 and anthropic"):
        await answer_of(config(), Mock(), models=models)


async def test_where_no_model_is_asked_no_provider_is_needed():
    declared = config(fallbacks=[{"provider": "openai", "model": "spare"}])
    async with open_pipeline(declared, Live(), models={}) as pipeline:
        assert not pipeline.gateway.breakers


async def test_a_sink_gets_replayed_calls(tmp_path):
    sink = MemorySink()
    await answer_of(config(), Replay(written(tmp_path / "run.json", greet={"content": "x"})), sink=sink)
    assert [event.key for event in sink.events if isinstance(event, ReplayServed)] == ["greet"]


def double(number: int) -> int:
    """Twice the number."""
    double.calls += 1
    return 2 * number


@pytest.fixture
def tools():
    double.calls = 0
    return Toolbox([double])


async def called(mode, tools, *numbers, declared=None, **options):
    """What the tool gives for each number, wrapped anew each time."""
    async with open_pipeline(declared or config(provider="ollama"), mode, **options) as pipeline:
        results = [pipeline.wrap_tools(tools)["double"].callable(number=number) for number in numbers]
        return results, pipeline.unused()


async def test_tools_of_a_live_pipeline_are_left_alone(tools):
    async with open_pipeline(config(provider="ollama"), Live()) as pipeline:
        assert pipeline.wrap_tools(tools)["double"] is tools["double"]
        assert pipeline.unused() == []


async def test_tools_are_recorded_and_then_replayed_in_one_row_however_often_they_are_wrapped(tools, tmp_path):
    path = str(tmp_path / "run.json")
    await called(Record(path), tools, 1, 2, 3)
    assert double.calls == 3
    results, unused = await called(Replay(path), tools, 1, 2)
    assert results == [2, 4]
    assert unused == [UnusedEntry("_tools.double", 2)]
    assert double.calls == 3


async def test_tools_run_for_real_where_the_recording_has_none(tools, tmp_path):
    results, _ = await called(Replay(written(tmp_path / "run.json")), tools, 4)
    assert results == [8]
    assert double.calls == 1


async def test_a_mock_answers_calls_of_tools_that_do_not_match_too(tools, tmp_path):
    path = written(tmp_path / "run.json", _tools={"double": [{"arguments": {"number": 1}, "result": 2}]})
    results, _ = await called(Mock(path), tools, 9)
    assert results == [2]
    with pytest.raises(RecordingMismatchError):
        await called(Replay(path), tools, 9)


def lines(*texts):
    return FaultPlan(map(parse_fault, texts))


async def test_faults_fire_at_tools_and_count_their_calls_together_however_often_they_are_wrapped(tools):
    sink, plan = MemorySink(), lines("tool=double call=2: tool_error", "tool=double call=9: tool_lost")
    async with open_pipeline(config(provider="ollama"), Live(), faults=plan, sink=sink) as pipeline:
        assert pipeline.wrap_tools(tools)["double"].callable(number=1) == 2
        with pytest.raises(ToolFaultError):
            pipeline.wrap_tools(tools)["double"].callable(number=2)
        assert pipeline.wrap_tools(tools)["double"].callable(number=3) == 6
        assert [str(fired) for fired in pipeline.fired] == ["tool=double call=2: tool_error"]
        assert [str(line) for line in pipeline.unfired()] == ["tool=double call=9: tool_lost"]
    assert [event.tool for event in sink.events if isinstance(event, FaultFired)] == ["double"]
    assert double.calls == 2


async def test_tools_are_left_alone_by_faults_of_models(tools):
    async with open_pipeline(config(provider="ollama"), Live(), faults=lines("call=1: timeout")) as pipeline:
        assert pipeline.wrap_tools(tools)["double"] is tools["double"]


async def test_faults_of_tools_are_not_recorded(tools, tmp_path):
    path, plan = str(tmp_path / "run.json"), lines("tool=double call=1: tool_error", "tool=double call=2: tool_lost")
    async with open_pipeline(config(provider="ollama"), Record(path), faults=plan) as pipeline:
        for _ in range(2):
            with pytest.raises(ToolFaultError):
                pipeline.wrap_tools(tools)["double"].callable(number=4)
    assert json.loads((tmp_path / "run.json").read_text())["_tools"]["double"][0]["result"] == 8
    results, unused = await called(Replay(path), tools, 4)
    assert results == [8]
    assert unused == []


async def test_a_replay_without_an_answer_says_what_fired_at_models_and_tools(tools, tmp_path):
    path = written(tmp_path / "run.json", _tools={"double": [{"arguments": {"number": 1}, "result": 2}]})
    async with open_pipeline(config(), Replay(path), faults=lines("tool=double call=1: tool_lost")) as pipeline:
        with pytest.raises(ToolFaultError):
            pipeline.wrap_tools(tools)["double"].callable(number=1)
        with pytest.raises(RecordingMismatchError) as at_a_model:
            await pipeline.gateway.complete(QUESTION, model="demo", step_id="greet")
        with pytest.raises(RecordingMismatchError) as at_a_tool:
            pipeline.wrap_tools(tools)["double"].callable(number=2)
    assert at_a_model.value.fired == at_a_tool.value.fired == ("tool=double call=1: tool_lost",)


def test_endpoints_are_those_of_steps_and_of_what_is_inside_them():
    definition = parse_workflow("""\
name: flow
config: {provider: openai, model: big, base_url: "http://127.0.0.1:9"}
state: {items: []}
steps:
  - {id: a, type: llm_call, prompt: hi}
  - {id: b, type: llm_call, prompt: hi, provider: anthropic, model: claude}
  - {id: c, type: loop, over: state.items, steps: [{id: d, type: llm_call, prompt: hi, model: small}]}
  - id: e
    type: subworkflow
    workflow:
      name: inner
      config: {provider: google, model: gem}
      steps: [{id: f, type: llm_call, prompt: hi}, {id: g, type: llm_call, prompt: hi, provider: openai}]
  - id: h
    type: subworkflow
    workflow: {name: inner, config: {model: tiny}, steps: [{id: i, type: llm_call, prompt: hi}]}
""")
    assert endpoints_of(definition) == {
        Endpoint("openai", "http://127.0.0.1:9"): ["big", "small", "tiny"],
        Endpoint("anthropic"): ["claude"],
        Endpoint("google"): ["gem"],
        Endpoint("openai"): ["gem"],
    }


class MyDoubles:
    """Stands in for a model that fails once, and around tools."""

    def __init__(self):
        self.provider = Scripted(ProviderConnectionError("gone"), Response("staged"))

    def wrap(self, tool):
        return tool_of(lambda: "staged", name=tool.name)


async def test_a_harnessed_pipeline_calls_its_doubles_behind_the_retry_of_the_config():
    declared = config(provider="openai", model="demo", retry={"max_retries": 1, "backoff_s": 0})
    async with open_pipeline(declared, Harnessed(MyDoubles())) as pipeline:
        assert (await pipeline.gateway.complete(QUESTION, model="demo")).content == "staged"
        tools = pipeline.wrap_tools({"find": tool_of(lambda: "real", name="find")})
        assert tools["find"].callable() == "staged"


@pytest.mark.parametrize(
    "name",
    ["../answers.json", "/tmp/answers.json", "sqlite:////tmp/answers.db", "link/answers.json", "a\0b", "x/../../y"],
)
async def test_a_config_names_no_recording_outside_of_its_folder(name, tmp_path):
    folder = tmp_path / "flow"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    written(tmp_path / "answers.json", greet={"content": "Hello!"})
    with pytest.raises(
        InputError, match=r"responses_file: .* leaves the folder of the workflow\n  hint: .*--recording"
    ):
        await answer_of(config(provider="mock", responses_file=name), Live(), folder=folder)


async def test_a_config_may_name_a_recording_through_its_folder(tmp_path):
    (tmp_path / "parts").mkdir()
    written(tmp_path / "answers.json", greet={"content": "Hello!"})
    assert (
        await answer_of(config(provider="mock", responses_file="parts/../answers.json"), Live(), folder=tmp_path)
        == "Hello!"
    )
