"""Refusals of Gemini. Consecutive turns of one role count as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from msgspec import Struct

from offbook.codecs.rules.rule import Breach, ProtocolRules, a_dict, a_list, objects, text
from offbook.messages import JsonObject

RULES = ProtocolRules()

ROLES = ("user", "model", "function", "tool")
MAX_NAME = 128
_BEFORE_3 = re.compile(r"gemini-[12]\.")
"""Models before Gemini 3. Newer ones take other roles, and a calling config without functions."""


class _Turn(Struct, frozen=True):
    """The parts of consecutive contents of one role. `place` is the position of the first."""

    place: int
    role: str
    calls: list[str]
    results: list[str]

    @property
    def is_said(self) -> bool:
        return self.role == "model"


def _turns(body: JsonObject) -> list[_Turn]:
    contents = objects(body.get("contents"))
    turns: list[_Turn] = []
    for is_model, group in groupby(contents, key=lambda each: each[1].get("role") == "model"):
        same = list(group)
        parts = [part for _, content in same for _, part in objects(content.get("parts"))]
        calls = [text(_field(part, "functionCall").get("name")) for part in parts if _field(part, "functionCall")]
        results = [
            text(_field(part, "functionResponse").get("name")) for part in parts if _field(part, "functionResponse")
        ]
        turns.append(_Turn(same[0][0], "model" if is_model else "user", calls, results))
    return turns


def _field(part: JsonObject, name: str) -> JsonObject:
    """Return a field that may be written in both cases: `functionCall` or `function_call`."""
    snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    return a_dict(part.get(name, part.get(snake)))


@RULES.add(
    "`contents` is missing or empty",
    source="https://github.com/NousResearch/hermes-agent/pull/57942",
    seen="2026-07-03",
)
def contents_required(body: JsonObject) -> Iterator[Breach]:
    if not body.get("contents"):
        yield Breach("contents", "is empty", "* GenerateContentRequest.contents: contents is not specified\n")


@RULES.add(
    "a content has no parts",
    source="https://github.com/langchain-ai/langchain-google/issues/691, https://github.com/coze-dev/coze-studio/issues/46",
    seen="2025-07-26",
)
def parts_required(body: JsonObject) -> Iterator[Breach]:
    for position, content in objects(body.get("contents")):
        if not content.get("parts"):
            words = f"* GenerateContentRequest.contents[{position}].parts: contents.parts must not be empty.\n"
            yield Breach(f"contents.{position}.parts", "is empty", words)


@RULES.add(
    "a content has another role than `user`, `model`, `function` and `tool` (before Gemini 3)",
    source="https://github.com/the-open-agent/openagent/issues/1666, https://github.com/genkit-ai/genkit/pull/5780",
    seen="2026-07-21",
)
def known_roles(body: JsonObject) -> Iterator[Breach]:
    for position, content in objects(body.get("contents")) if _BEFORE_3.search(text(body.get("model"))) else ():
        role = content.get("role")
        if isinstance(role, str) and role and role not in ROLES:
            yield Breach(f"contents.{position}.role", f"is {role!r}", "Please use a valid role: user, model.")


@RULES.add(
    "the conversation starts with a function call",
    source="https://github.com/google-gemini/gemini-cli/issues/11814",
    seen="2025-10-23",
)
def calls_follow_user(body: JsonObject) -> Iterator[Breach]:
    first = next(iter(_turns(body)), None)
    if first is not None and first.is_said and first.calls:
        words = (
            "Please ensure that function call turn comes immediately after a user turn or after a function response "
            "turn."
        )
        yield Breach(f"contents.{first.place}", f"the call of {first.calls[0]!r} comes first", words)


@RULES.add(
    "a function response follows no function call",
    source="https://github.com/BerriAI/litellm/issues/26755",
    seen="2026-04-29",
)
def results_follow_calls(body: JsonObject) -> Iterator[Breach]:
    turns = _turns(body)
    for before, turn in zip([None, *turns], turns, strict=False):
        if turn.results and not turn.is_said and (before is None or not before.calls):
            words = "Please ensure that function response turn comes immediately after a function call turn."
            reason = f"result of {turn.results[0]!r}, which the turn before it does not call"
            yield Breach(f"contents.{turn.place}", reason, words)


@RULES.add(
    "a turn does not have as many function responses as the turn before it has function calls",
    source="https://github.com/google-gemini/gemini-cli/issues/21830",
    seen="2026-03-10",
)
def as_many_results(body: JsonObject) -> Iterator[Breach]:
    turns = _turns(body)
    for turn, after in pairwise(turns):
        if turn.is_said and turn.calls and len(turn.calls) != len(after.results):
            words = (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
            if after.results:
                reason = f"{len(turn.calls)} calls have {len(after.results)} results"
            else:
                reason = f"the call of {turn.calls[0]!r} has no result"
            yield Breach(f"contents.{turn.place}", reason, words)


def _declarations(body: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the functions of all tools with their places, in our words and the API's."""
    for position, tool in objects(body.get("tools")):
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for number, each in objects(declared):
            place = f"tools.{position}.functionDeclarations.{number}"
            yield place, f"tools[{position}].function_declarations[{number}]", each


@RULES.add(
    "the name of a function starts with neither a letter nor `_`, has other characters than letters, digits, `_`, `.`, "
    "`:` and `-`, or more than 128 of them",
    source="https://github.com/kaitranntt/ccs/issues/25, python-genai 3.1.0: types.py, FunctionDeclaration.name",
    seen="2026-11-18",
)
def function_names(body: JsonObject) -> Iterator[Breach]:
    for place, at, declared in _declarations(body):
        name = declared.get("name")
        if isinstance(name, str) and not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name):
            words = (
                f"The GenerateContentRequest proto is invalid:\n  * {at}.name: [FIELD_INVALID] Invalid function name. "
                "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots "
                f"(.), colons (:), or dashes (-), with a maximum length of {MAX_NAME}."
            )
            yield Breach(f"{place}.name", f"is {name!r}", words)


@RULES.add(
    "two functions have the same name",
    source="https://github.com/googleapis/dotnet-genai/issues/189",
    seen="2026-01-25",
)
def unique_function_names(body: JsonObject) -> Iterator[Breach]:
    seen: set[str] = set()
    for place, _, declared in _declarations(body):
        if (name := text(declared.get("name"))) in seen:
            yield Breach(
                f"{place}.name", f"{name!r} is declared twice", f"Duplicate function declaration found: {name}"
            )
        seen.add(name)


_UNKNOWN_IN_SCHEMAS = ("$schema", "const", "exclusiveMinimum", "exclusiveMaximum", "prefixItems", "propertyNames")


@RULES.add(
    "`parameters` of a function have a keyword that the API does not know: "
    + ", ".join(f"`{each}`" for each in _UNKNOWN_IN_SCHEMAS),
    source="https://github.com/pizza-bot-app/pizza-bot/issues/62, https://github.com/decolua/9router/issues/3743, "
    "https://github.com/tashfeenahmed/freellmapi/pull/65, https://github.com/openswarm-ai/openswarm/issues/24",
    seen="2026-09-07",
)
def known_keywords(body: JsonObject) -> Iterator[Breach]:
    for place, start, declared in _declarations(body):
        for at, schema in _schemas(a_dict(declared.get("parameters")), f"{start}.parameters"):
            for name in (each for each in _UNKNOWN_IN_SCHEMAS if each in schema):
                words = f"Invalid JSON payload received. Unknown name \"{name}\" at '{at}': Cannot find field."
                yield Breach(f"{place}.parameters", f"{name!r} at {at}", words)


def _schemas(schema: JsonObject, at: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield a schema and all schemas in it, with their places as the API names them."""
    yield at, schema
    for position, inner in enumerate(a_dict(schema.get("properties")).values()):
        yield from _schemas(a_dict(inner), f"{at}.properties[{position}].value")
    if isinstance(schema.get("items"), dict):
        yield from _schemas(schema["items"], f"{at}.items")
    for position, inner in enumerate(a_list(schema.get("anyOf", schema.get("any_of")))):
        yield from _schemas(a_dict(inner), f"{at}.any_of[{position}]")


@RULES.add(
    "`required` of a function's parameters names one that `properties` does not have",
    source="https://github.com/iBUHub/AIStudioToAPI/issues/154",
    seen="2026-05-05",
)
def required_is_defined(body: JsonObject) -> Iterator[Breach]:
    for place, at, declared in _declarations(body):
        schema = a_dict(declared.get("parameters"))
        for number, name in enumerate(a_list(schema.get("required"))):
            if isinstance(name, str) and name not in a_dict(schema.get("properties")):
                words = f"* GenerateContentRequest.{at}.parameters.required[{number}]: property is not defined\n"
                yield Breach(f"{place}.parameters.required.{number}", f"{name!r} is not a property", words)


@RULES.add(
    "`functionCallingConfig` lets or makes the model call a function, and none is declared (before Gemini 3)",
    source="https://github.com/AstrBotDevs/AstrBot/pull/7407, https://github.com/pydantic/pydantic-ai/pull/5791",
    seen="2026-06-09",
)
def config_needs_functions(body: JsonObject) -> Iterator[Breach]:
    config = _field(_field(body, "toolConfig"), "functionCallingConfig")
    is_whole = not body.get("cachedContent") and not body.get("cached_content")
    is_judged = is_whole and _BEFORE_3.search(text(body.get("model")))
    if config.get("mode") in ("AUTO", "ANY") and is_judged and not any(_declarations(body)):
        words = "Function calling config is set without function_declarations."
        yield Breach("toolConfig", "is given without functions", words)


_SIGNED_MODEL = re.compile(r"gemini-[3-9]")


@RULES.add(
    "since the last text of the user, the first function call of an answer lacks its thought signature (Gemini 3 and "
    "later)",
    source="https://github.com/lbjlaq/Antigravity-Manager/issues/3202, https://github.com/langgenius/dify/issues/29187",
    seen="2026-06-22",
    is_about_answers=True,
)
def thought_signatures(body: JsonObject) -> Iterator[Breach]:
    if not _SIGNED_MODEL.search(text(body.get("model"))):
        return
    unsigned: dict[int, str] = {}
    is_answer_open = False
    for place, content in objects(body.get("contents")):
        parts = [part for _, part in objects(content.get("parts"))]
        if content.get("role") != "model":
            is_answer_open = False
            if not all(_field(part, "functionResponse") for part in parts):
                unsigned.clear()
            continue
        called = next((part for part in parts if _field(part, "functionCall")), None)
        if called is None or is_answer_open:
            continue
        is_answer_open = True
        if not (called.get("thoughtSignature") or called.get("thought_signature")):
            unsigned[place] = text(_field(called, "functionCall").get("name"))
    for place, name in unsigned.items():
        words = (
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
            "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
            f"function call `default_api:{name}` , position {place + 1}. Please refer to "
            "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
        )
        yield Breach(f"contents.{place}", f"the call of {name!r} has no thought signature", words)
