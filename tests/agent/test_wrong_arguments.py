"""Arguments of the wrong type are refused with what to pass instead."""

import pytest

from offbook import InputError, MockProvider
from offbook.agent import GuardPolicy, ScriptedClient, TieredCompact, WorkflowRunner
from offbook.workflow import parse_workflow
from tests.agent.parts import agent

FLOW = "{name: flow, config: {model: m}, steps: [{id: a, type: llm_call, prompt: Hi}]}"


class SendsOnly:
    async def send(self, messages, tools=None):
        return []


@pytest.mark.parametrize(
    ("client", "told", "hint"),
    [
        (MockProvider(), "MockProvider", "wrap it: ProviderClient(provider, model=…)"),
        (agent(), "Workflow", "WorkflowRunner(client), then run(workflow, user_message)"),
        (["hello"], "list", "a ScriptedClient([…])"),
        (ScriptedClient, "the class ScriptedClient itself", "a ScriptedClient([…])"),
        ("gpt-5", "a text", "a ProviderClient"),
        (None, "None", "a ProviderClient"),
    ],
)
def test_what_is_no_client_is_refused(client, told, hint):
    with pytest.raises(InputError) as caught:
        WorkflowRunner(client)
    assert (caught.value.source, caught.value.reason) == ("client", f"expected a client, got {told}")
    assert hint in caught.value.hint


def test_a_client_that_cannot_stream_is_refused_where_it_should():
    WorkflowRunner(SendsOnly())
    with pytest.raises(InputError, match="expected a client, got SendsOnly"):
        WorkflowRunner(SendsOnly(), stream=True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"context_manager": TieredCompact()},
            (
                "context_manager: expected a ContextManager, got TieredCompact\n"
                "  hint: context_manager=ContextManager(TieredCompact(), budget_tokens=…)"
            ),
        ),
        (
            {"policy": {"max_same_calls": 2}},
            "policy: expected a GuardPolicy, got dict\n  hint: policy=GuardPolicy(max_same_calls=2)",
        ),
        ({"max_iterations": "3"}, "max_iterations: expected a whole number, got '3'"),
        ({"max_tool_errors": "3"}, "max_tool_errors: expected a whole number, got '3'"),
    ],
)
def test_options_of_a_runner_are_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        WorkflowRunner(ScriptedClient([]), **options)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("asked", "source", "hint"),
    [
        ((parse_workflow(FLOW), "go"), "workflow", "a workflow from YAML is run by WorkflowEngine(workflow, provider)"),
        (("go", agent()), "workflow", "run(workflow, user_message), in this order"),
        ((agent(), {"role": "user", "content": "go"}), "user_message", ""),
    ],
)
def test_what_cannot_be_run_is_refused(asked, source, hint):
    with pytest.raises(InputError) as caught:
        WorkflowRunner(ScriptedClient([])).run_sync(*asked)
    assert caught.value.source == source
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("max_same_calls", "three", "expected a whole number, got 'three'"),
        ("max_tool_errors", None, "expected a whole number, got None"),
        ("max_premature_ends", 1.5, "expected a whole number, got 1.5"),
        ("max_retries_per_step", True, "expected a whole number, got True"),
        ("budget_usd", "1", "expected a number, got '1'"),
        ("tool_timeout_s", [5], "expected a number, got [5]"),
        ("budget_tokens", True, "expected a number, got True"),
    ],
)
def test_a_field_of_a_policy_that_is_no_number_is_refused_by_name(field, value, reason):
    with pytest.raises(InputError) as caught:
        GuardPolicy(**{field: value})
    assert (caught.value.source, caught.value.reason) == (field, reason)
