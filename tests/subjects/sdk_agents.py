"""An agent on each vendor's SDK that refunds an order: as a function of the clients that it is given, or as a program.

`python -m tests.subjects.sdk_agents openai streamed careless` talks to the server that its environment names.
"""

import json
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from offbook import effect

ASKED = "Refund order 42"
PARAMETERS = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
RECORDING = {
    "_version": 2,
    "agent": [
        {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order": 42}}]},
        {"content": "Your 30 € are on their way."},
    ],
}
MAX_TURNS = 4


class GaveUpError(Exception):
    """The agent says that it could not finish."""


def refund(arguments: Any) -> str:
    """Give the money back, unless what the model asks for is no order."""
    order = json.loads(arguments).get("order") if isinstance(arguments, str) else arguments.get("order")
    if not isinstance(order, int):
        raise GaveUpError("that is no order")
    effect("refund", order=order)
    return f"order {order} is refunded"


def finished(text: str | None, reason: str | None, *, complete: str) -> str:
    """Return the text of an answer that is complete."""
    if not text or reason != complete:
        raise GaveUpError("the answer is not complete")
    return text


def ask_openai(http: Any, *, streamed: bool) -> str:
    import openai  # noqa: PLC0415 - a program loads its own SDK only

    client = openai.OpenAI(api_key="none", http_client=http and http.sync_http_client(), timeout=5)
    tool = {"type": "function", "function": {"name": "refund", "parameters": PARAMETERS}}
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    for _ in range(MAX_TURNS):
        answer = client.chat.completions.create(model="m", messages=messages, tools=[tool], stream=streamed)
        said, reason = (
            _joined_openai(answer) if streamed else (answer.choices[0].message, answer.choices[0].finish_reason)
        )
        if not said.tool_calls:
            return finished(said.content, reason, complete="stop")
        if reason != "tool_calls":
            raise GaveUpError(reason)
        calls = [
            {"id": call.id, "type": "function", "function": {"name": "refund", "arguments": call.function.arguments}}
            for call in said.tool_calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        results = [(call["id"], _run(call, said.tool_calls)) for call in calls]
        messages += [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]
    raise GaveUpError("no answer")


def _run(call: Any, asked: Any) -> str:
    name = next(each.function.name for each in asked if each.id == call["id"])
    if name != "refund":
        raise GaveUpError(f"there is no tool {name}")
    return refund(call["function"]["arguments"])


def _joined_openai(chunks: Any) -> tuple[Any, str | None]:
    text, reason, calls = "", None, {}
    for chunk in chunks:
        for choice in chunk.choices:
            text, reason = text + (choice.delta.content or ""), choice.finish_reason or reason
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(
                    part.index, SimpleNamespace(id="", function=SimpleNamespace(name="", arguments=""))
                )
                call.id = part.id or call.id
                call.function.name += part.function.name or ""
                call.function.arguments += part.function.arguments or ""
    return SimpleNamespace(content=text, tool_calls=list(calls.values())), reason


def ask_anthropic(http: Any, *, streamed: bool) -> str:
    import anthropic  # noqa: PLC0415 - a program loads its own SDK only

    client = anthropic.Anthropic(api_key="none", http_client=http and http.sync_http_client(), timeout=5)
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    asked = {"model": "m", "max_tokens": 100, "tools": [{"name": "refund", "input_schema": PARAMETERS}]}
    for _ in range(MAX_TURNS):
        if streamed:
            with client.messages.stream(**asked, messages=messages) as stream:
                said = stream.get_final_message()
        else:
            said = client.messages.create(**asked, messages=messages)
        uses = [block for block in said.content if block.type == "tool_use"]
        if not uses:
            text = "".join(block.text for block in said.content if block.type == "text")
            return finished(text, said.stop_reason, complete="end_turn")
        if said.stop_reason != "tool_use" or any(use.name != "refund" for use in uses):
            raise GaveUpError("not asked for properly")
        content = [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input} for use in uses]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": refund(use.input)} for use in uses]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    raise GaveUpError("no answer")


def ask_google(http: Any, *, streamed: bool) -> str:
    from google import genai  # noqa: PLC0415 - a program loads its own SDK only

    options = genai.types.HttpOptions(timeout=5000, httpx_client=http and http.sync_http_client())
    client = genai.Client(api_key="none", http_options=options)
    declared = {"name": "refund", "parameters_json_schema": PARAMETERS}
    config = {"tools": [{"function_declarations": [declared]}], "automatic_function_calling": {"disable": True}}
    contents: list[Any] = [{"role": "user", "parts": [{"text": ASKED}]}]
    for _ in range(MAX_TURNS):
        asked = {"model": "m", "contents": contents, "config": config}
        answers = (
            list(client.models.generate_content_stream(**asked))
            if streamed
            else [client.models.generate_content(**asked)]
        )
        candidates = [candidate for answer in answers for candidate in answer.candidates or ()]
        parts = [part for each in candidates if each.content for part in each.content.parts or ()]
        calls = [part.function_call for part in parts if part.function_call]
        reason = next((str(each.finish_reason.value) for each in candidates if each.finish_reason), None)
        if not calls:
            return finished("".join(part.text or "" for part in parts), reason, complete="STOP")
        if reason != "STOP" or any(call.name != "refund" for call in calls):
            raise GaveUpError("not asked for properly")
        contents.append(
            {"role": "model", "parts": [{"function_call": {"name": "refund", "args": call.args}} for call in calls]}
        )
        results = [
            {"function_response": {"name": "refund", "response": {"result": refund(call.args or {})}}} for call in calls
        ]
        contents.append({"role": "user", "parts": results})
    raise GaveUpError("no answer")


def ask_ollama(http: Any, *, streamed: bool) -> str:
    import ollama  # noqa: PLC0415 - a program loads its own SDK only

    options = {} if http is None else {"transport": http.stand_in.httpx_transport()}
    client = ollama.Client(timeout=5, **options)
    tool = {"type": "function", "function": {"name": "refund", "parameters": PARAMETERS}}
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    for _ in range(MAX_TURNS):
        answer = client.chat(model="m", messages=messages, tools=[tool], stream=streamed)
        parts = list(answer) if streamed else [answer]
        calls = [call for part in parts for call in part.message.tool_calls or ()]
        reason = next((part.done_reason for part in reversed(parts) if part.done), None)
        if not calls:
            return finished("".join(part.message.content or "" for part in parts), reason, complete="stop")
        if reason != "stop" or any(call.function.name != "refund" for call in calls):
            raise GaveUpError("not asked for properly")
        made = [{"function": {"name": "refund", "arguments": dict(call.function.arguments)}} for call in calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": made})
        messages += [
            {"role": "tool", "content": refund(call["function"]["arguments"]), "tool_name": "refund"} for call in made
        ]
    raise GaveUpError("no answer")


ASK: dict[str, Callable[..., str]] = {
    "openai": ask_openai,
    "anthropic": ask_anthropic,
    "google": ask_google,
    "ollama": ask_ollama,
}


def agent(sdk: str, http: Any = None, *, streamed: bool, careless: bool) -> str:
    """Refund the order. A careless agent starts over when something fails, and repeats what was done."""
    for attempts_left in reversed(range(2 if careless else 1)):
        try:
            return ASK[sdk](http, streamed=streamed)
        except Exception as error:
            if not attempts_left:
                raise GaveUpError(type(error).__name__) from error
    raise AssertionError("unreachable")


def agents() -> Iterator[tuple[str, bool]]:
    """Yield the SDKs, not streamed and streamed."""
    yield from ((sdk, streamed) for sdk in ASK for streamed in (False, True))


if __name__ == "__main__":
    try:
        sys.stdout.write(agent(sys.argv[1], streamed=sys.argv[2] == "streamed", careless=sys.argv[3] == "careless"))
    except GaveUpError:
        sys.exit(75)
