"""The ways to write calls, in the order in which they are tried at one place."""

from offbook.agent.rescue import brackets, harmony, json_calls, marks, python_calls, special_tokens, tags, thinking

FAMILIES = {
    "thinking": thinking.FAMILY,
    "tags": tags.FAMILY,
    "special_tokens": special_tokens.FAMILY,
    "harmony": harmony.FAMILY,
    "python_calls": python_calls.FAMILY,
    "marks": marks.FAMILY,
    "brackets": brackets.FAMILY,
    "json_calls": json_calls.FAMILY,
}
