"""Small agents for tests, and shorthand for running them."""

from offbook.agent import (
    GuardPolicy,
    MessageType,
    ScriptedClient,
    ToolCall,
    ToolDef,
    ToolSpec,
    Workflow,
    WorkflowRunner,
)

FETCH, SUBMIT = ToolCall("fetch"), ToolCall("submit")


def tool(name, function=None, **options):
    """A tool that takes anything, and answers `<name> done` unless told otherwise."""
    return ToolDef(ToolSpec(name, f"Does {name}."), function or (lambda **_: f"{name} done"), **options)


def fails(*errors, then="done"):
    """A function that raises these errors, one a call, and answers after that."""
    remaining = list(errors)

    def function(**_):
        if remaining:
            raise remaining.pop(0)
        return then

    return function


def agent(*tools, required=("fetch",), terminal="submit", prompt="You are a {role}.", **functions):
    """An agent that must `fetch` before it may `submit`, with some of its functions replaced."""
    named = {name: tool(name, functions.get(name)) for name in ("fetch", "submit")}
    return Workflow(
        "test",
        "An agent for tests",
        tools=named | {extra.name: extra for extra in tools},
        required_steps=required,
        terminal_tool=terminal,
        system_prompt_template=prompt,
    )


class ScriptEnd:
    """A script that was played to an agent: the result or the error, and what was said."""

    def __init__(self, client, messages, run=None, error=None):
        self.client, self.messages, self.run, self.error = client, messages, run, error
        self.result = None if run is None else run.result

    def of(self, *types):
        """What was said in messages of these types, in order."""
        return [message.content for message in self.messages if message.metadata.type in types]

    @property
    def types(self):
        return [message.metadata.type for message in self.messages]

    @property
    def results(self):
        return self.of(MessageType.TOOL_RESULT)

    @property
    def wire(self):
        """What the model was sent with its last call."""
        return list(self.client.calls[-1].messages)


async def attempt(lines, workflow=None, *, message="go", run_options=None, policy=None, **options):
    """Play a script to an agent, whatever comes of it."""
    client, messages = ScriptedClient(lines), []
    runner = WorkflowRunner(client, on_message=messages.append, policy=GuardPolicy(**policy or {}), **options)
    run_arguments = {"prompt_vars": {"role": "tester"}} | (run_options or {})
    try:
        run = await runner.run_in_full(workflow or agent(), message, **run_arguments)
    except Exception as error:
        return ScriptEnd(client, messages, error=error)
    return ScriptEnd(client, messages, run=run)


async def run_script(lines, workflow=None, *, catch=None, **options):
    """Play a script to an agent, which must come to a result, or with `catch` to such an error."""
    end = await attempt(lines, workflow, **options)
    if catch is None and end.error is not None:
        raise end.error
    assert catch is None or isinstance(end.error, catch), f"expected {catch}, got {end.error or end.result!r}"
    return end
