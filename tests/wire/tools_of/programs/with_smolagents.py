"""Tools of smolagents: agents that call them, and one that writes code which does."""

from typing import ClassVar

from ledger import finish, ran
from smolagents import CodeAgent, Tool, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)


@tool
def refund(order: int, note: str = "") -> str:
    """Refund an order.

    Args:
        order: its number
        note: a note
    """
    ran("refund", order=order)
    return f"refunded {order}"


@tool
def fail(order: int) -> str:
    """Fail.

    Args:
        order: its number
    """
    ran("fail", order=order)
    raise LookupError(f"no order {order}")


class LookUp(Tool):
    name = "look"
    description = "Look up an order."
    inputs: ClassVar = {"order": {"type": "integer", "description": "its number"}}
    output_type = "object"

    def forward(self, order: int) -> dict[str, int]:
        ran("look", order=order)
        return {"order": order}


class Scripted(Model):
    """Answers with what it is given, one after the other."""

    def __init__(self, *answers: ChatMessage) -> None:
        super().__init__(model_id="scripted")
        self.answers = list(answers)

    def generate(self, messages: object, **_: object) -> ChatMessage:
        return self.answers.pop(0)


def calling(*calls: tuple[str, dict[str, object]]) -> ChatMessage:
    functions = [ChatMessageToolCallFunction(name=name, arguments=arguments) for name, arguments in calls]
    tool_calls = [ChatMessageToolCall(id=f"c{n}", type="function", function=each) for n, each in enumerate(functions)]
    return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=tool_calls)


def steps_of(agent: ToolCallingAgent | CodeAgent) -> list[str]:
    steps = [step for step in agent.memory.steps if hasattr(step, "observations")]
    return [f"{step.observations} / {step.error}" for step in steps]


model = Scripted(
    calling(("refund", {"order": 1}), ("look", {"order": 2})),
    calling(("fail", {"order": 3})),
    calling(("final_answer", {"answer": "done"})),
)
agent = ToolCallingAgent(tools=[refund, fail, LookUp()], model=model, verbosity_level=0)
answer = agent.run("help")

code = "<code>\nprint(look(order=5)['order'])\nfinal_answer(refund(6))\n</code>"
coder = CodeAgent(
    tools=[refund, LookUp()],
    model=Scripted(ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go\n{code}")),
    verbosity_level=0,
)
finish([answer, steps_of(agent), coder.run("help"), steps_of(coder)])
