"""Tools of Semantic Kernel, called by an agent."""

import asyncio
from typing import Annotated, Any, ClassVar

from ledger import finish, ran
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.contents import ChatMessageContent, FunctionCallContent, FunctionResultContent
from semantic_kernel.functions import kernel_function
from semantic_kernel.kernel_pydantic import KernelBaseModel


class Receipt(KernelBaseModel):
    order: int


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @kernel_function
    def refund(self, order: Annotated[int, "its number"], note: str = "") -> Receipt:
        """Refund an order."""
        ran(f"{self.name}-refund", order=order)
        return Receipt(order=order)

    @kernel_function(name="look")
    async def look_up(self, kernel: Annotated[Kernel, {"include_in_function_choices": False}], order: int) -> str:
        """Look up an order."""
        ran(f"{self.name}-look", order=order)
        return f"order {order} {sorted(kernel.plugins)}"

    @kernel_function
    def fail(self, order: int) -> str:
        """Fail."""
        ran(f"{self.name}-fail", order=order)
        raise LookupError(f"no order {order}")


@kernel_function
async def count(since: str) -> int:
    """Count sales."""
    ran("till-count", since=since)
    return len(since)


CALLS = [
    ("north-refund", '{"order": 1}'),
    ("south-refund", '{"order": 1}'),
    ("south-look", '{"order": 2}'),
    ("north-fail", '{"order": 3}'),
    ("till-count", '{"since": "May"}'),
]


class Scripted(ChatCompletionClientBase):
    """Calls each tool once, then ends."""

    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True

    def _update_function_choice_settings_callback(self) -> Any:
        return lambda *_, **__: None

    def _verify_function_choice_settings(self, settings: Any) -> None: ...

    async def _inner_get_chat_message_contents(self, chat_history: Any, settings: Any) -> list[ChatMessageContent]:
        if any(isinstance(item, FunctionResultContent) for message in chat_history.messages for item in message.items):
            return [ChatMessageContent(role="assistant", content="done")]
        calls = [FunctionCallContent(id=name, name=name, arguments=arguments) for name, arguments in CALLS]
        return [ChatMessageContent(role="assistant", items=calls)]


async def main() -> None:
    agent = ChatCompletionAgent(
        service=Scripted(ai_model_id="scripted"),
        name="clerk",
        function_choice_behavior=FunctionChoiceBehavior.Auto(),
    )
    for name in ("north", "south"):
        agent.kernel.add_plugin(Shop(name), plugin_name=name)
    agent.kernel.add_function("till", count)
    results: list[str] = []

    async def note(message: ChatMessageContent) -> None:
        results.extend(
            f"{item.name}: {item.result}" for item in message.items if isinstance(item, FunctionResultContent)
        )

    async for _ in agent.invoke("help", on_intermediate_message=note):
        pass
    finish(sorted(results))


asyncio.run(main())
