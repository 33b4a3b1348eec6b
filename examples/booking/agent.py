"""An agent that takes bookings for a hair salon: it calls a model, and returns the model's tool calls."""

import os

from offbook import OpenAIProvider, Response
from offbook.messages import JsonObject
from offbook.providers import Provider
from offbook.scenarios import HandlerContext
from tools import FUNCTIONS

MODEL = "gpt-4o-mini"
LOOK_FIRST = "Always call check_availability before you book, and again before you repeat a booking that failed."
PROMPT = f"""\
You take bookings for a hair salon. Use your tools; you know nothing of the diary but what they tell.
{LOOK_FIRST}
Say that something is booked or cancelled only if the tool has answered so. Talk of nothing but appointments."""


async def handle(messages: list[JsonObject], ctx: HandlerContext) -> Response:
    """Return the answer to the last message, or tool calls."""
    return await answer(messages, ctx, prompt=PROMPT)


async def answer(messages: list[JsonObject], ctx: HandlerContext, *, prompt: str) -> Response:
    """Return the model's answer with `prompt` as system prompt."""
    if ctx.provider is not None:
        return await _ask(ctx.provider, messages, prompt)
    key, base_url = os.environ["OPENAI_API_KEY"], os.environ.get("OPENAI_BASE_URL", "")
    async with OpenAIProvider(api_key=key, base_url=base_url) as provider:
        return await _ask(provider, messages, prompt)


async def _ask(provider: Provider, messages: list[JsonObject], prompt: str) -> Response:
    request = [{"role": "system", "content": prompt}, *messages]
    return await provider.complete(request, MODEL, tools=FUNCTIONS, temperature=0.0)
