"""What a test run shows of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from offbook.report.note import notes_of
from offbook.report.wording import on_one_line
from offbook.scenarios import ConversationResult, ScenarioResult

MAX_LINE_CHARS = 200
MAX_CONVERSATIONS = 3


def failure_text(result: ScenarioResult) -> str:
    """Why a scenario did not pass: each reason, with what differs."""
    lines = [line for note in notes_of(result) for line in (note.headline, *(f"  {more}" for more in note.detail))]
    return "\n".join(lines)


def conversation_text(result: ScenarioResult) -> str:
    """The conversations of a scenario, those that did not pass first, and not too many."""
    order = sorted(result.conversations, key=lambda each: each.passed)
    return "\n".join(line for each in order[:MAX_CONVERSATIONS] for line in _lines(each))


def _lines(conversation: ConversationResult) -> Iterator[str]:
    yield f"conversation {conversation.index + 1} with {conversation.agent}: {conversation.ending}"
    for turn in conversation.turns:
        yield f"  user:  {on_one_line(turn.user, MAX_LINE_CHARS)}"
        for call in turn.calls:
            yield f"  tool:  {on_one_line(f'{call.tool}({call.args})', MAX_LINE_CHARS)}"
        yield f"  agent: {on_one_line(turn.agent, MAX_LINE_CHARS)}"
