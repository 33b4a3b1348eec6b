"""Running workflows."""

import asyncio

import pytest

from offbook import (
    InputError,
    MemorySink,
    MockProvider,
    OpenAIProvider,
    ProviderGateway,
    RecordingMismatchError,
    Response,
    RetryPolicy,
    Usage,
    run,
)
from offbook.agent import Workflow as AgentWorkflow
from offbook.errors import BudgetExceededError
from offbook.workflow import WorkflowEngine, parse_workflow
from tests.fakes import Echo, Scripted
from tests.workflow.running import engine_of, events_of, run_workflow, statuses

CHAIN = """
state: {topic: cats}
steps:
  - {id: draft, type: llm_call, prompt: "Write about {state.topic}", output: text}
  - {id: short, type: llm_call, depends_on: [draft], prompt: "Shorten: {state.text}", output: summary}
"""
PARALLEL = """
steps:
  - {id: a, type: llm_call, prompt: A, output: a}
  - {id: b, type: llm_call, prompt: B, output: b}
  - {id: both, type: llm_call, depends_on: [a, b], prompt: "{state.a} {state.b}", output: both}
"""


def print_nothing():
    """A tool that does nothing."""


def test_steps_run_after_those_they_depend_on_and_write_into_the_state():
    result = run_workflow(CHAIN, {"draft": {"content": "A long text."}, "short": {"content": "Short."}})
    assert result.succeeded
    assert result.state == {"topic": "cats", "text": "A long text.", "summary": "Short."}


def test_prompts_are_filled_from_the_state():
    provider = Echo()
    result = run_workflow(CHAIN, provider=provider, state={"topic": "dogs"})
    assert [request.messages[-1]["content"] for request in provider.requests] == [
        "Write about dogs",
        "Shorten: Write about dogs #1",
    ]
    assert result.state["topic"] == "dogs"


def test_requests_carry_step_workflow_and_settings():
    provider = Echo()
    flow = {
        "config": {"model": "m", "temperature": 0.5, "max_tokens": 9},
        "steps": [
            {"id": "one", "type": "llm_call", "system_prompt": "Be brief.", "prompt": "Hi"},
            {"id": "two", "type": "llm_call", "prompt": "Ho", "model": "n", "temperature": 0.0, "depends_on": ["one"]},
        ],
    }
    run_workflow(flow, provider=provider)
    one, two = provider.requests
    assert one.step_id == "one"
    assert one.workflow == "test"
    assert one.model == "m"
    assert one.temperature == 0.5
    assert one.max_tokens == 9
    assert one.messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"})
    assert two.model == "n"
    assert two.temperature == 0.0


def test_steps_that_do_not_depend_on_one_another_run_at_the_same_time():
    class Slow(Echo):
        async def send(self, request):
            await asyncio.sleep(10)
            return await super().send(request)

    assert run_workflow(PARALLEL, provider=Slow()).latency_s == 20


def test_no_more_steps_run_at_once_than_the_config_allows():
    running, most = 0, 0

    class Counting(Echo):
        async def send(self, request):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            return await super().send(request)

    steps = [{"id": f"s{number}", "type": "llm_call", "prompt": "Hi"} for number in range(20)]
    result = run_workflow({"config": {"model": "m", "max_concurrent_steps": 3}, "steps": steps}, provider=Counting())
    assert most == 3
    assert result.latency_s == 7


def test_a_result_reports_attempts_tokens_cost_and_time_of_each_step():
    responses = {
        "draft": [
            {"fault": {"type": "timeout", "after_ms": 1000}},
            {
                "content": "x",
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
                "cost_usd": 0.5,
            },
        ],
        "short": {"content": "y", "cost_usd": 0.25},
    }
    gateway = ProviderGateway(retry=RetryPolicy(backoff_s=2, jitter=0.0))
    gateway.register(MockProvider(responses=responses))
    result = run_workflow(CHAIN, provider=gateway)
    draft = result.steps["draft"]
    assert draft.attempts == 2
    assert draft.total_tokens == 15
    assert draft.cost_usd == 0.5
    assert draft.latency_s == 3.0
    assert result.attempts == 3
    assert result.total_tokens == 15
    assert result.cost_usd == 0.75


def test_a_failed_step_fails_the_workflow_and_those_after_it_are_skipped():
    result = run_workflow(CHAIN, {"draft": {"fault": {"type": "http_error", "status_code": 400, "body": "no"}}})
    assert result.status == "failed"
    assert statuses(result) == {"draft": "failed", "short": "skipped"}
    assert result.steps["draft"].error_type == "AllProvidersFailedError"
    assert result.steps["short"].error == "draft failed"
    assert [step.id for step in result.failures] == ["draft"]


def test_steps_beside_a_failed_one_run_all_the_same():
    result = run_workflow(PARALLEL, {"a": {"fault": {"type": "http_error", "status_code": 400}}, "b": {"content": "B"}})
    assert statuses(result) == {"a": "failed", "b": "done", "both": "skipped"}


def test_a_step_may_fail_without_consequences():
    flow = PARALLEL.replace("output: a}", "output: a, on_failure: continue}")
    result = run_workflow(flow, {"a": {"fault": {"type": "http_error", "status_code": 400}}, "b": {"content": "B"}})
    assert result.succeeded
    assert statuses(result) == {"a": "failed", "b": "done", "both": "done"}
    assert result.state["a"] is None


def test_a_steps_own_retry_takes_the_place_of_the_gateways():
    flow = CHAIN.replace("output: text}", "output: text, retry: {max_retries: 4, backoff_s: 0}}")
    faults = [{"fault": {"type": "connection_reset"}}] * 4
    result = run_workflow(flow, {"draft": [*faults, {"content": "at last"}], "short": {"content": "s"}})
    assert result.state["text"] == "at last"
    assert result.steps["draft"].attempts == 5


DOWN = {"fault": {"type": "http_error", "status_code": 500}}
ASK = {"steps": [{"id": "ask", "type": "llm_call", "prompt": "Hi", "output": "answer"}]}


def retrying(max_retries):
    return {"config": {"model": "m", "retry": {"max_retries": max_retries, "jitter": 0}}}


def gateway_of(responses, **options):
    gateway = ProviderGateway(**options)
    gateway.register(MockProvider(responses=responses, strict=True))
    return gateway


@pytest.mark.parametrize("own_retries", [0, 5])
def test_the_retry_of_the_config_takes_the_place_of_the_gateways(own_retries):
    gateway = gateway_of({"ask": [DOWN, DOWN, {"content": "up"}]}, retry=RetryPolicy(own_retries))
    result = run_workflow(ASK | retrying(2), provider=gateway)
    assert result.state["answer"] == "up"
    assert result.steps["ask"].attempts == 3
    refused = run_workflow(ASK | retrying(1), provider=gateway_of({"ask": DOWN}, retry=RetryPolicy(own_retries)))
    assert refused.status == "failed"
    assert refused.steps["ask"].attempts == 2


def test_without_a_retry_of_the_config_the_gateways_holds():
    result = run_workflow(ASK, provider=gateway_of({"ask": DOWN}, retry=RetryPolicy(4)))
    assert result.steps["ask"].attempts == 5


def test_max_retries_of_the_config_is_short_for_a_retry():
    flow = ASK | {"config": {"model": "m", "max_retries": 4}}
    assert run_workflow(flow, {"ask": DOWN}).steps["ask"].attempts == 5


def test_max_retries_of_a_sub_workflow_takes_the_place_of_the_outer_retry():
    inner = {"name": "inner", "config": {"max_retries": 0}} | ASK
    flow = retrying(3) | {"steps": [{"id": "sub", "type": "subworkflow", "workflow": inner}]}
    assert run_workflow(flow, {"sub.ask": DOWN}).steps["sub.ask"].attempts == 1


@pytest.mark.parametrize(
    ("config", "own", "pieces"),
    [({"stream": True}, {}, ["Roses", " are"]), ({"stream": True}, {"stream": False}, []), ({}, {}, [])],
)
def test_stream_of_the_config_is_for_steps_that_do_not_say(config, own, pieces):
    texts = []
    flow = {"config": {"model": "m"} | config, "steps": [ASK["steps"][0] | own]}
    run_workflow(flow, {"ask": {"content": "Roses are"}}, on_text=lambda step_id, text: texts.append(text))
    assert texts == pieces


def test_the_retry_of_a_sub_workflows_config_is_for_its_own_steps():
    inner = {"name": "inner"} | ASK | {"config": {"retry": {"max_retries": 3, "jitter": 0}}}
    flow = retrying(0) | {
        "steps": [
            {"id": "sub", "type": "subworkflow", "workflow": inner},
            {"id": "outer", "type": "llm_call", "prompt": "Hi"},
        ]
    }
    result = run_workflow(flow, {"sub.ask": DOWN, "outer": DOWN})
    assert result.steps["sub.ask"].attempts == 4
    assert result.steps["outer"].attempts == 1


@pytest.mark.parametrize(("restarts", "status"), [(True, "succeeded"), (False, "failed")])
def test_the_config_decides_whether_a_broken_stream_restarts(restarts, status):
    cut = {"content": "Roses are red", "fault": {"type": "stream_truncate", "after_chunks": 2}}
    gateway = gateway_of({"ask": [cut, {"content": "Roses are red"}]})
    steps = [ASK["steps"][0] | {"stream": True}]
    flow = {"config": {"model": "m", "restart_streams": restarts}, "steps": steps}
    assert run_workflow(flow, provider=gateway).status == status


def test_a_gateway_that_restarts_streams_does_so_for_a_workflow_that_does_not_say():
    cut = {"content": "Roses are red", "fault": {"type": "stream_truncate", "after_chunks": 2}}
    gateway = gateway_of({"ask": [cut, {"content": "Roses are red"}]}, restart_streams=True)
    assert run_workflow({"steps": [ASK["steps"][0] | {"stream": True}]}, provider=gateway).succeeded


def test_tokens_of_reasoning_are_counted_by_step():
    thought = Response("Hm.", "m", "scripted", Usage.of(5, 40, reasoning=30))
    result = run_workflow(CHAIN, provider=Scripted(thought, thought))
    assert result.steps["draft"].reasoning_tokens == 30
    assert result.reasoning_tokens == 60
    assert result.steps["draft"].completion_tokens == 40


def test_a_step_that_takes_too_long_has_failed():
    flow = CHAIN.replace("output: text}", "output: text, timeout: 5}")
    provider = Scripted(Response("late"), delay_s=60.0)
    result = run_workflow(flow, provider=provider)
    assert result.steps["draft"].error_type == "StepTimeoutError"
    assert result.latency_s == 5
    assert "took longer than 5 s" in result.steps["draft"].error


def test_a_timeout_inside_a_step_is_its_own():
    flow = CHAIN.replace("output: text}", "output: text, timeout: 500}")
    result = run_workflow(flow, {"draft": {"fault": {"type": "timeout", "after_ms": 1000}}})
    assert result.steps["draft"].error_type == "AllProvidersFailedError"


def test_no_step_is_paid_for_once_the_budget_is_spent():
    flow = "config: {model: m, budget_usd: 1.0}\n" + CHAIN
    result = run_workflow(flow, {"draft": {"content": "x", "cost_usd": 1.0}})
    assert result.steps["short"].error_type == BudgetExceededError.__name__


@pytest.mark.parametrize(
    "place", ["config: {model: gpt-99, budget_usd: 1.0}", "config: {model: gpt-5, budget_usd: 1.0}"]
)
def test_a_budget_for_a_model_without_a_price_is_refused_before_the_first_step(place):
    flow = "name: f\n" + place + CHAIN.replace("depends_on: [draft],", "depends_on: [draft], model: gpt-99,")
    sink = MemorySink()
    engine = WorkflowEngine(parse_workflow(flow), OpenAIProvider(base_url="http://127.0.0.1:9/v1"), sink=sink)
    with pytest.raises(InputError, match="no price is known for model 'gpt-99'"):
        run(engine.run(), virtual_time=True)
    assert sink.events == []


def test_the_budget_is_of_a_run_and_not_of_an_engine():
    engine = engine_of("config: {model: m, budget_usd: 1.0}\n" + CHAIN, {"draft": {"content": "x", "cost_usd": 0.9}})
    assert [run(engine.run(), virtual_time=True).status for _ in range(2)] == ["succeeded"] * 2


def test_a_replay_that_has_no_answer_ends_the_run():
    provider = MockProvider(responses={"_version": 2, "draft": {"content": "x"}}, strict=True)
    with pytest.raises(RecordingMismatchError) as missed:
        run_workflow(CHAIN, provider=provider)
    assert missed.value.kind == "missing"
    assert "'short'" in missed.value.reason


def test_a_replay_that_has_no_answer_cancels_the_steps_beside_it():
    started = []

    class Half(Echo):
        async def send(self, request):
            if request.step_id == "b":
                raise RecordingMismatchError("no b", kind="missing")
            started.append(request.step_id)
            await asyncio.sleep(1000)

    async def work():
        with pytest.raises(RecordingMismatchError):
            await engine_of(PARALLEL, provider=Half()).run()
        assert len(asyncio.all_tasks()) == 1
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 0
    assert started == ["a"]


def test_events_tell_the_run_in_order_and_the_same_every_time():
    expected = [
        ("WorkflowStarted",),
        ("StepStarted", "a"),
        ("StepEnded", "a", "done"),
        ("StepStarted", "b"),
        ("StepEnded", "b", "done"),
        ("StepStarted", "both"),
        ("StepEnded", "both", "done"),
        ("WorkflowEnded", "succeeded"),
    ]
    assert events_of(PARALLEL) == events_of(PARALLEL) == expected


def test_an_engine_can_be_run_again_and_at_the_same_time():
    async def work():
        engine = engine_of(CHAIN, provider=Echo())
        results = await asyncio.gather(*(engine.run({"topic": topic}) for topic in ("a", "b")))
        return [result.state["topic"] for result in results]

    assert run(work(), virtual_time=True) == ["a", "b"]


def test_a_run_does_not_change_what_it_was_given():
    state = {"topic": {"name": "cats", "seen": []}}
    engine = engine_of(CHAIN.replace("output: summary", "output: topic.seen"), provider=Echo())
    result = run(engine.run(state), virtual_time=True)
    assert state == {"topic": {"name": "cats", "seen": []}}
    assert result.state["topic"]["seen"].startswith("Shorten")


def test_state_that_the_workflow_does_not_declare_is_refused():
    with pytest.raises(InputError, match="did you mean 'topic'"):
        run_workflow(CHAIN, state={"topci": "dogs"})


def test_a_workflow_without_a_model_is_refused_before_it_runs():
    with pytest.raises(InputError, match="the step has no model"):
        engine_of("config: {}\n" + CHAIN)


def test_what_is_no_provider_is_refused():
    with pytest.raises(InputError, match="provider_gateway"):
        engine_of(CHAIN, provider="openai")


def test_a_tool_that_no_step_calls_is_refused_with_the_one_that_was_meant():
    flow = (
        "steps: [{id: sub, type: subworkflow, workflow: {name: inner, steps: [{id: go, type: tool, tool: escalate}]}}]"
    )
    engine_of(flow, tools={"escalate": print_nothing})
    with pytest.raises(InputError) as caught:
        engine_of(flow, tools={"escalate": print_nothing, "escalat": print_nothing})
    assert str(caught.value) == (
        "tools: no step of test calls 'escalat', and no workflow declares it\n  hint: did you mean 'escalate'?"
    )


def test_a_tool_may_stand_in_for_one_that_is_declared_and_for_one_in_a_loop():
    flow = """
    tools: {find: {function: "nowhere:find"}}
    steps: [{id: each, type: loop, over: "[1]", steps: [{id: go, type: tool, tool: escalate}]}]
    """
    assert run_workflow(flow, tools={"find": print_nothing, "escalate": print_nothing}).succeeded


@pytest.mark.parametrize(
    ("workflow", "events_of"),
    [
        (
            AgentWorkflow("agent", tools=[]),
            "WorkflowRunner(client).run(workflow, message) runs the Workflow of an agent",
        ),
        (MockProvider(), "WorkflowEngine(workflow, provider), in this order"),
        ({"name": "x"}, "load_workflow()"),
    ],
)
def test_what_is_no_workflow_is_refused_with_what_to_do(workflow, events_of):
    with pytest.raises(InputError, match="expected a WorkflowDefinition or the path of one") as caught:
        WorkflowEngine(workflow, "flow.yaml")
    assert events_of in caught.value.hint


def test_an_engine_takes_the_path_of_a_workflow(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("name: from-file\nconfig: {model: m}\n" + CHAIN)
    engine = WorkflowEngine(path, MockProvider(default_response="x"))
    assert engine.run_sync().state["summary"] == "x"


def test_streamed_pieces_are_passed_on_by_step():
    received = []
    flow = CHAIN.replace("output: text}", "output: text, stream: true}")
    recorded = {"draft": {"content": "One two", "chunks": [[0, "One "], [5, "two"]]}, "short": {"content": "s"}}
    result = run_workflow(flow, recorded, on_text=lambda step, text: received.append((step, text)))
    assert received == [("draft", "One "), ("draft", "two")]
    assert result.state["text"] == "One two"


def test_usage_is_counted_whatever_provider_answers():
    provider = Scripted(Response("x", usage=Usage.of(3, 4)), Response("y", usage=Usage.of(1, 1)))
    assert run_workflow(CHAIN, provider=provider).total_tokens == 9


MOCKED = """
name: mocked
config:
  {provider: mock, model: m, responses_file: answers.json, strict: true, fallbacks: [{provider: mock, model: big}]}
tools: {get: "own_tools:get"}
steps:
  - {id: ask, type: llm_call, prompt: Hi, output: answer}
  - {id: look, type: tool, tool: get, depends_on: [ask], output: found}
"""
ANSWERS = """{
  "_version": 2,
  "ask": [{"fault": {"type": "context_overflow"}}, {"content": "Hello!"}],
  "_tools": {"get": [{"result": "recorded"}]}
}"""


@pytest.fixture
def mocked_flow(tmp_path):
    (tmp_path / "flow.yaml").write_text(MOCKED)
    (tmp_path / "answers.json").write_text(ANSWERS)
    (tmp_path / "own_tools.py").write_text("def get() -> str:\n    raise ConnectionError\n")
    return tmp_path / "flow.yaml"


def test_a_mocked_workflow_needs_no_gateway_and_every_run_starts_anew(mocked_flow):
    engine = WorkflowEngine(workflow=mocked_flow)
    for _ in range(2):
        result = engine.run_sync()
        assert result.state == {"answer": "Hello!", "found": "recorded"}
        assert result.steps["ask"].attempts == 2


def test_a_workflow_that_calls_a_model_is_refused_without_a_provider(mocked_flow):
    mocked_flow.write_text(MOCKED.replace("provider: mock, model: m", "provider: openai, model: m"))
    with pytest.raises(InputError, match="the workflow calls openai, and no provider is given"):
        WorkflowEngine(workflow=mocked_flow)


def test_a_response_file_of_another_folder_is_refused_without_a_gateway_as_well(mocked_flow):
    mocked_flow.write_text(MOCKED.replace("answers.json", "../answers.json"))
    with pytest.raises(InputError, match="leaves the folder of the workflow"):
        WorkflowEngine(workflow=mocked_flow).run_sync()
