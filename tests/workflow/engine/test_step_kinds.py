"""Each type of step."""

import asyncio
import re
from typing import ClassVar

import pytest
from msgspec.structs import replace

from offbook import InputError, MockProvider
from offbook.errors import ToolRefusalError, ToolResolutionError, WorkflowError
from offbook.tools import tool
from tests.fakes import Echo
from tests.workflow.running import run_workflow, statuses


def find_order(order_id: int) -> dict:
    """Look up an order."""
    if order_id != 42:
        raise ToolResolutionError(f"no order {order_id}")
    return {"order_id": order_id, "status": "lost"}


def reply(text: str) -> str:
    """Answer the customer."""
    return text


FIND = {"find_order": find_order}
TOOLS = FIND | {"reply": reply}


def asks(name, **arguments):
    """A model's answer that calls a tool."""
    return {"content": "", "tool_calls": [{"id": name, "name": name, "arguments": arguments}]}


def step(kind, step_id="it", **fields):
    return {"id": step_id, "type": kind, **fields}


class TestLlmCall:
    def test_an_answer_can_be_read_as_json(self):
        for content in ('{"kind": "question"}', '```json\n{"kind": "question"}\n```'):
            flow = {"steps": [step("llm_call", prompt="Classify", json=True, output="read")]}
            assert run_workflow(flow, {"it": {"content": content}}).state["read"] == {"kind": "question"}

    def test_an_answer_that_is_no_json_fails_the_step(self):
        flow = {"steps": [step("llm_call", prompt="Classify", json=True, output="read")]}
        result = run_workflow(flow, {"it": {"content": "It is a question."}})
        assert "not JSON" in result.steps["it"].error
        assert "It is a question." in result.steps["it"].error

    KIND: ClassVar = {"type": "object", "properties": {"kind": {"enum": ["question", "order"]}}, "required": ["kind"]}

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("tools", [[], ["find_order"]])
    def test_an_answer_that_does_not_fit_its_schema_goes_back_to_the_model(self, stream, tools):
        answers = [{"content": each} for each in ("A question.", '{"kind": "joke"}', '{"kind": "order"}')]
        mock = MockProvider(responses={"it": answers})
        call = step("llm_call", prompt="Classify", response_schema=self.KIND, output="read", tools=tools, stream=stream)
        result = run_workflow({"steps": [call]}, provider=mock, tools=FIND if tools else {})
        assert result.state["read"] == {"kind": "order"}
        first, second, third = (call.request.messages for call in mock.calls)
        assert '{"enum":["question","order"]}' in first[0]["content"]
        assert [message["role"] for message in third] == ["user", "assistant"] * 2 + ["user"]
        assert "the answer is not JSON" in second[-1]["content"]
        assert "kind: 'joke' is not one of ['question', 'order']" in third[-1]["content"]

    def test_a_model_that_never_fits_its_schema_fails_the_step(self):
        call = step("llm_call", prompt="Classify", response_schema=self.KIND, max_retries_per_step=1)
        result = run_workflow({"steps": [call]}, {"it": {"content": "{}"}})
        assert result.steps["it"].error == "the answer does not fit the schema: 'kind' is a required property"
        assert result.steps["it"].calls == 2

    @pytest.mark.parametrize(
        ("fields", "complaint"),
        [
            ({"response_schema": {"type": "strin"}}, "response_schema.type: not a valid JSON schema"),
            ({"response_schema": {"$ref": "#/x"}}, "which does not exist"),
            ({"response_schema": "object"}, "response_schema: expected a mapping"),
        ],
    )
    def test_a_schema_that_is_none_is_refused(self, fields, complaint):
        with pytest.raises(WorkflowError, match=re.escape(complaint)):
            run_workflow({"steps": [step("llm_call", prompt="Classify", **fields)]}, {})

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_call_of_a_tool_that_was_not_given_is_no_answer(self, stream):
        flow = {"steps": [step("llm_call", prompt="Where is 42?", stream=stream, output="answer")]}
        result = run_workflow(flow, {"it": asks("find_order", order_id=42)})
        assert result.steps["it"].status == "failed"
        assert "the model calls 'find_order' and returns no text" in result.steps["it"].error

    def test_text_beside_a_call_of_a_tool_is_the_answer(self):
        flow = {"steps": [step("llm_call", prompt="Where is 42?", output="answer")]}
        assert run_workflow(flow, {"it": asks("find_order") | {"content": "Lost."}}).state["answer"] == "Lost."

    def test_tools_are_called_until_the_model_answers_in_text(self):
        flow = {"steps": [step("llm_call", prompt="Where is 42?", tools=["find_order"], output="answer")]}
        responses = {"it": [asks("find_order", order_id=42), {"content": "It is lost."}]}
        assert run_workflow(flow, responses, tools=FIND).state["answer"] == "It is lost."

    def test_the_model_sees_what_the_tools_gave(self):
        class Model(Echo):
            async def send(self, request):
                self.requests.append(request)
                return await MockProvider(responses={"it": asks("find_order", order_id=42)}).send(request)

        provider = Model()
        fields = {"prompt": "Where is 42?", "system_prompt": "Help.", "tools": ["find_order"], "max_tool_iterations": 1}
        result = run_workflow({"steps": [step("llm_call", **fields)]}, provider=provider, tools=FIND)
        assert [message["role"] for message in provider.requests[1].messages] == ["system", "user", "assistant", "tool"]
        assert provider.requests[0].tools[0]["function"]["name"] == "find_order"
        assert result.steps["it"].error_type == "MaxIterationsError"

    def test_a_loop_of_tools_can_stream(self):
        received = []
        flow = {"steps": [step("llm_call", prompt="Where?", tools=["find_order"], stream=True, output="answer")]}
        responses = {"it": [asks("find_order", order_id=42), {"content": "It is lost."}]}
        result = run_workflow(flow, responses, tools=FIND, on_text=lambda step_id, text: received.append(text))
        assert "".join(received) == result.state["answer"] == "It is lost."


class TestAgent:
    FLOW: ClassVar = {
        "steps": [
            step(
                "agent",
                prompt="Where is 42?",
                system_prompt="Help.",
                tools=["find_order"],
                terminal_tool="reply",
                required_steps=["find_order"],
                output="answer",
            )
        ]
    }

    def test_the_terminal_tools_result_is_the_steps(self):
        responses = {"it": [asks("reply", text="?"), asks("find_order", order_id=42), asks("reply", text="Lost.")]}
        result = run_workflow(self.FLOW, responses, tools=TOOLS)
        assert result.state["answer"] == "Lost."
        assert result.steps["it"].attempts == 3

    def test_an_agent_that_gets_nowhere_fails_the_step(self):
        result = run_workflow(self.FLOW, {"it": {"content": "I cannot."}}, tools=TOOLS)
        assert result.steps["it"].error_type == "ToolCallError"

    def test_prerequisites_can_be_declared_in_the_file(self):
        needs = {"reply": ["find_order"]}
        flow = {"steps": [self.FLOW["steps"][0] | {"required_steps": [], "prerequisites": needs}]}
        responses = {"it": [asks("reply", text="?"), asks("find_order", order_id=42), asks("reply", text="Lost.")]}
        assert run_workflow(flow, responses, tools=TOOLS).state["answer"] == "Lost."

    def test_a_prerequisite_that_matches_an_argument_which_is_not_there_is_refused_before_anything_runs(self):
        needs = {"reply": [{"tool": "find_order", "match_arg": "order_id"}]}
        with pytest.raises(InputError) as caught:
            run_workflow({"steps": [self.FLOW["steps"][0] | {"prerequisites": needs}]}, tools=TOOLS)
        assert str(caught.value).startswith(
            "steps.it: reply: prerequisites[0]: match_arg: reply has no argument 'order_id'"
        )


class TestTool:
    def test_arguments_are_filled_from_the_state_as_values(self):
        flow = {
            "state": {"order": {"id": 42}},
            "steps": [step("tool", tool="find_order", args={"order_id": "{state.order.id}"}, output="found")],
        }
        assert run_workflow(flow, tools=FIND).state["found"] == {"order_id": 42, "status": "lost"}

    def test_a_tool_that_changes_its_arguments_does_not_change_the_state(self):
        def spoil(items: list) -> str:
            items.clear()
            return "spoilt"

        flow = {"state": {"items": [1, 2]}, "steps": [step("tool", tool="spoil", args={"items": "{state.items}"})]}
        assert run_workflow(flow, tools={"spoil": spoil}).state["items"] == [1, 2]

    def test_a_failure_is_the_steps(self):
        flow = {"steps": [step("tool", tool="find_order", args={"order_id": 7}, retry={"max_retries": 3})]}
        result = run_workflow(flow, tools=FIND)
        assert result.steps["it"].error_type == "ToolResolutionError"
        assert result.latency_s == 0

    def test_a_failure_is_tried_again_if_the_step_says_so(self):
        failures = [OSError("down"), OSError("down")]

        def flaky() -> str:
            if failures:
                raise failures.pop()
            return "up"

        retry = {"max_retries": 2, "backoff_s": 1, "multiplier": 2, "jitter": 0}
        result = run_workflow({"steps": [step("tool", tool="flaky", retry=retry, output="it")]}, tools={"flaky": flaky})
        assert result.state["it"] == "up"
        assert result.latency_s == 3

    def test_a_failure_is_not_tried_again_otherwise(self):
        def broken() -> str:
            raise OSError("down")

        result = run_workflow({"steps": [step("tool", tool="broken")]}, tools={"broken": broken})
        assert result.steps["it"].error == "down"

    @pytest.mark.parametrize(
        ("declared", "own_retry", "calls"),
        [
            ({}, None, 1),
            ({"read_only": True}, None, 3),
            ({"side_effect": True, "idempotent": True}, None, 3),
            ({"side_effect": True, "idempotent": "key"}, None, 3),
            ({"side_effect": True}, None, 1),
            ({"undoes": "book"}, None, 1),
            ({"side_effect": True}, {"max_retries": 1}, 2),
            ({}, {"max_retries": 1}, 2),
            ({"read_only": True}, {"max_retries": 0}, 1),
        ],
    )
    def test_the_retry_of_the_config_reaches_tools_that_may_run_twice(self, declared, own_retry, calls):
        keys = []

        @tool(**declared)
        def broken(key: str) -> str:
            """Fail."""
            keys.append(key)
            raise OSError("down")

        own = {} if own_retry is None else {"retry": own_retry}
        flow = {
            "config": {"retry": {"max_retries": 2}},
            "steps": [step("tool", tool="broken", args={"key": "a"}, **own)],
        }
        assert run_workflow(flow, tools={"broken": broken}).status == "failed"
        assert keys == ["a"] * calls

    def test_a_wrapper_that_declares_a_side_effect_does_not_change_how_often_a_tool_is_called(self):
        called = []

        @tool(read_only=True)
        def broken() -> str:
            """Fail."""
            called.append("once")
            raise OSError("down")

        def mark(tools):
            return {name: replace(one, side_effect=True, read_only=False) for name, one in tools.items()}

        flow = {"config": {"retry": {"max_retries": 2}}, "steps": [step("tool", tool="broken")]}
        run_workflow(flow, tools={"broken": broken}, wrap_tools=mark)
        assert len(called) == 3

    def test_what_a_tool_refuses_is_not_tried_again(self):
        called = []

        @tool(read_only=True)
        def refuse() -> str:
            """Refuse."""
            called.append("once")
            raise ToolRefusalError("not allowed", tool="refuse")

        flow = {"config": {"retry": {"max_retries": 2}}, "steps": [step("tool", tool="refuse")]}
        assert run_workflow(flow, tools={"refuse": refuse}).status == "failed"
        assert len(called) == 1


class TestRouter:
    FLOW: ClassVar = {
        "state": {"kind": ""},
        "steps": [
            step(
                "router",
                "route",
                conditions=[
                    {"expression": "state.kind == 'a'", "target": "one"},
                    {"expression": "state.kind in ['a', 'b']", "target": "two"},
                ],
                default="other",
            ),
            *[step("llm_call", name, prompt=name, output="chosen") for name in ("one", "two", "other")],
        ],
    }

    @pytest.mark.parametrize(("kind", "chosen"), [("a", "one"), ("b", "two"), ("c", "other")])
    def test_the_first_condition_that_holds_decides(self, kind, chosen):
        result = run_workflow(self.FLOW, state={"kind": kind}, provider=Echo())
        assert result.state["chosen"] == f"{chosen} #1"
        assert sorted(statuses(result).values()) == ["done", "done", "skipped", "skipped"]

    def without_default(self, **fields):
        router = {name: value for name, value in self.FLOW["steps"][0].items() if name != "default"}
        return self.FLOW | {"steps": [router | fields, *self.FLOW["steps"][1:3]]}

    def test_a_value_that_no_condition_knows_fails_a_router_without_default(self):
        result = run_workflow(self.without_default(), state={"kind": "complaint"}, provider=Echo())
        assert result.status == "failed"
        assert result.steps["route"].error == "no condition is true, and there is no default: state.kind is 'complaint'"
        assert {result.steps[name].error for name in ("one", "two")} == {"route failed"}

    def test_a_router_may_lead_nowhere_if_its_failure_has_no_consequences(self):
        flow = self.without_default(on_failure="continue")
        flow["steps"].append(step("llm_call", "after", prompt="after", depends_on=["route"], output="done"))
        result = run_workflow(flow, state={"kind": "complaint"}, provider=Echo())
        assert result.status == "succeeded"
        assert result.state["done"] == "after #1"
        assert statuses(result)["one"] == "skipped"
        assert statuses(result)["two"] == "skipped"

    def test_an_expression_that_cannot_be_evaluated_fails_the_step(self):
        flow = self.FLOW | {"state": {"kind": "", "size": "large"}}
        router = self.FLOW["steps"][0] | {"conditions": [{"expression": "state.size > 3", "target": "one"}]}
        result = run_workflow(
            flow | {"steps": [router, *self.FLOW["steps"][1:2], self.FLOW["steps"][3]]}, provider=Echo()
        )
        assert result.steps["route"].error_type == "ExpressionError"


class TestSubworkflow:
    CHILD: ClassVar = {
        "name": "child",
        "state": {"topic": "", "own": 1},
        "steps": [step("llm_call", "write", prompt="Write about {state.topic}", output="text")],
    }

    def flow(self, **fields):
        return {
            "state": {"subject": "cats"},
            "steps": [
                step(
                    "subworkflow",
                    "sub",
                    workflow=self.CHILD,
                    input={"topic": "{state.subject}"},
                    outputs={"written": "text"},
                    **fields,
                )
            ],
        }

    def test_only_input_goes_in_and_only_outputs_come_out(self):
        result = run_workflow(self.flow(), provider=Echo())
        assert result.state == {"subject": "cats", "written": "Write about cats #1"}

    def test_its_steps_are_recorded_and_reported_under_its_id(self):
        provider = Echo()
        result = run_workflow(self.flow(), provider=provider)
        assert provider.requests[0].step_id == "sub.write"
        assert list(result.steps) == ["sub.write", "sub"]

    def test_its_failure_is_the_steps(self):
        result = run_workflow(self.flow(), {"sub.write": {"fault": {"type": "http_error", "status_code": 400}}})
        assert statuses(result) == {"sub.write": "failed", "sub": "failed"}
        assert "sub.write failed" in result.steps["sub"].error

    def test_cost_is_counted_once(self):
        result = run_workflow(self.flow(), {"sub.write": {"content": "x", "cost_usd": 0.5}})
        assert result.cost_usd == 0.5


class TestLoop:
    OVER: ClassVar = {
        "state": {"names": ["ann", "bob"], "text": ""},
        "steps": [
            step(
                "loop",
                "each",
                over="state.names",
                **{"as": "name"},
                steps=[step("llm_call", "greet", prompt="{index} {name}", output="text")],
                collect="text",
                output="greetings",
            )
        ],
    }

    def test_each_element_has_its_round_and_what_it_collects_is_in_order(self):
        result = run_workflow(self.OVER, provider=Echo())
        assert result.state["greetings"] == ["0 ann #1", "1 bob #2"]
        assert result.state["text"] == ""
        assert list(result.steps) == ["each[0].greet", "each[1].greet", "each"]

    def test_all_rounds_are_recorded_under_the_same_step(self):
        provider = Echo()
        run_workflow(self.OVER, provider=provider)
        assert [request.step_id for request in provider.requests] == ["greet", "greet"]

    def test_what_a_round_writes_inside_the_state_stays_in_it(self):
        inner = [step("llm_call", "greet", prompt="{name}", output="seen.last")]
        loop = self.OVER["steps"][0] | {"steps": inner, "collect": "seen.last"}
        flow = {"state": {"names": ["ann", "bob"], "seen": {"last": "nobody"}}, "steps": [loop]}
        result = run_workflow(flow, provider=Echo())
        assert result.state["greetings"] == ["ann #1", "bob #2"]
        assert result.state["seen"] == {"last": "nobody"}

    def test_an_empty_list_has_no_rounds(self):
        assert run_workflow(self.OVER, state={"names": []}, provider=Echo()).state["greetings"] == []

    UNTIL: ClassVar = {
        "state": {"draft": "", "verdict": "no"},
        "steps": [
            step(
                "loop",
                "refine",
                until="state.verdict == 'good'",
                max_iterations=3,
                steps=[
                    step("llm_call", "write", prompt="Better than: {state.draft}", output="draft"),
                    step("llm_call", "judge", prompt="{state.draft}", depends_on=["write"], output="verdict"),
                ],
            )
        ],
    }

    def test_rounds_go_on_until_the_expression_is_true(self):
        responses = {
            "write": [{"content": "one"}, {"content": "two"}],
            "judge": [{"content": "bad"}, {"content": "good"}],
        }
        result = run_workflow(self.UNTIL, responses)
        assert result.state == {"draft": "two", "verdict": "good"}
        assert result.steps["refine"].output == 2

    def test_rounds_without_end_fail_the_step(self):
        result = run_workflow(self.UNTIL, {"write": {"content": "one"}, "judge": {"content": "bad"}})
        assert "not true after 3 rounds" in result.steps["refine"].error

    def test_a_failure_in_a_round_is_the_loops(self):
        responses = {"greet": [{"content": "hi"}, {"fault": {"type": "http_error", "status_code": 400}}]}
        result = run_workflow(self.OVER, responses)
        assert statuses(result) == {"each[0].greet": "done", "each[1].greet": "failed", "each": "failed"}


def test_a_tool_may_take_its_time_in_virtual_time():
    async def slow() -> str:
        await asyncio.sleep(3600)
        return "done"

    assert run_workflow({"steps": [step("tool", tool="slow")]}, tools={"slow": slow}).latency_s == 3600
