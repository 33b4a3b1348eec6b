"""Refusals of Gemini. Consecutive turns of one role count as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from msgspec import Struct

from offbook.codecs.rules.rule import Breach, Rules, a_dict, objects, text
from offbook.messages import JsonObject

RULES = Rules()

ROLES = ("user", "model", "function")
MAX_NAME = 128


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
    "a content has another role than `user` and `model`",
    source="python-genai 3.1.0: types.py, Content.role",
    seen="2026-11-18",
)
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


def _declarations(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for position, tool in objects(body.get("tools")):
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for place, each in objects(declared):
            yield f"tools.{position}.functionDeclarations.{place}", each


@RULES.add(
    "the name of a function starts with neither a letter nor `_`, has other characters than letters, digits, `_`, `.`, "
    "`:` and `-`, or more than 128 of them",
    source="https://github.com/kaitranntt/ccs/issues/25, python-genai 3.1.0: types.py, FunctionDeclaration.name",
    seen="2026-11-18",
)
def function_names(body: JsonObject) -> Iterator[Breach]:
    for place, declared in _declarations(body):
        name = declared.get("name")
        if isinstance(name, str) and not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name):
            tool, function = re.findall(r"\d+", place)
            at = f"tools[{tool}].function_declarations[{function}].name"
            words = (
                f"The GenerateContentRequest proto is invalid:\n  * {at}: [FIELD_INVALID] Invalid function name. Must "
                "start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), "
                f"colons (:), or dashes (-), with a maximum length of {MAX_NAME}."
            )
            yield Breach(f"{place}.name", f"is {name!r}", words)
