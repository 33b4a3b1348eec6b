"""What Gemini refuses. Turns of one role that follow each other count as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from msgspec import Struct

from offbook.codecs.rules.rule import Breach, Rules, a_dict, a_list, objects, text
from offbook.messages import JsonObject

RULES = Rules()

API_REFERENCE = "https://ai.google.dev/api/generate-content"
ROLES = ("user", "model", "function")
MAX_NAME = 64


class _Turn(Struct, frozen=True):
    """The contents of one role that follow each other, by their parts. `place` is the position of the first."""

    place: int
    role: str
    calls: list[str]
    results: list[str]

    @property
    def is_said(self) -> bool:
        return self.role == "model"


def _turns(body: JsonObject) -> list[_Turn]:
    contents = list(objects(body.get("contents")))
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


@RULES.add("`contents` is missing or empty", source=API_REFERENCE, seen="2026-01-15")
def contents_required(body: JsonObject) -> Iterator[Breach]:
    if not body.get("contents"):
        yield Breach("contents", "is empty", "* GenerateContentRequest.contents: contents is not specified\n")


@RULES.add("a content has no parts", source=API_REFERENCE, seen="2026-01-15")
def parts_required(body: JsonObject) -> Iterator[Breach]:
    for position, content in objects(body.get("contents")):
        if not content.get("parts"):
            words = f"* GenerateContentRequest.contents[{position}].parts: contents.parts must not be empty.\n"
            yield Breach(f"contents.{position}.parts", "is empty", words)


@RULES.add("a content has another role than `user` and `model`", source=API_REFERENCE, seen="2026-01-15")
def known_roles(body: JsonObject) -> Iterator[Breach]:
    for position, content in objects(body.get("contents")):
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
    source="https://github.com/google-gemini/gemini-cli/issues/16543",
    seen="2026-01-13",
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


@RULES.add("two functions have the same name", source="https://github.com/google/adk-python", seen="2025-09-01")
def unique_names(body: JsonObject) -> Iterator[Breach]:
    names: set[str] = set()
    for tool, declared in _declarations(body):
        name = text(declared.get("name"))
        if name and name in names:
            yield Breach(tool, f"{name!r} is there twice", f"Duplicate function declaration found: {name}")
        names.add(name)


def _declarations(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for position, tool in objects(body.get("tools")):
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for place, each in objects(declared):
            yield f"tools.{position}.functionDeclarations.{place}", each


@RULES.add(
    "the name of a function starts with neither a letter nor `_`, has other characters than letters, digits, `_`, `.`, "
    "`:` and `-`, or more than 64 of them",
    source="https://ai.google.dev/api/caching#FunctionDeclaration",
    seen="2026-01-15",
)
def function_names(body: JsonObject) -> Iterator[Breach]:
    for place, declared in _declarations(body):
        name = declared.get("name")
        if isinstance(name, str) and not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", name):
            positions = re.findall(r"\d+", place)
            words = (
                f"* GenerateContentRequest.tools[{positions[0]}].function_declarations[{positions[1]}].name: Invalid "
                "function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), "
                f"underscores (_), dots (.) or dashes (-), with a maximum length of {MAX_NAME}.\n"
            )
            yield Breach(f"{place}.name", f"is {name!r}", words)


@RULES.add("the temperature is not between 0 and 2", source=API_REFERENCE, seen="2026-01-15")
def ranges(body: JsonObject) -> Iterator[Breach]:
    config = _field(body, "generationConfig")
    value = config.get("temperature")
    if isinstance(value, int | float) and not 0 <= value <= 2:
        words = "* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].\n"
        yield Breach("generationConfig.temperature", f"is {value}", words)


@RULES.add(
    "`allowedFunctionNames` names a function that is not declared",
    source="https://ai.google.dev/api/caching#FunctionCallingConfig",
    seen="2026-01-15",
)
def allowed_functions(body: JsonObject) -> Iterator[Breach]:
    config = _field(_field(body, "toolConfig"), "functionCallingConfig")
    declared = {declared.get("name") for _, declared in _declarations(body)}
    for name in a_list(config.get("allowedFunctionNames", config.get("allowed_function_names"))):
        if name not in declared:
            words = (
                "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: "
                "allowed_function_names should be a subset of function names declared in tools.\n"
            )
            yield Breach("toolConfig.functionCallingConfig", f"{name!r} is not declared", words)
