"""What the stand-in answers to the frameworks: one small recording a run, by name."""

from __future__ import annotations

from typing import Any

QUESTION = "How are you?"
PLAIN = "Very well, thank you, and how are you today?"
WEATHER = "Rain in Oslo, sun in Rome."
CITIES = ["Oslo", "Rome"]
REPORT = {"city": "Oslo", "celsius": 21}


def _asks_for_report(tool: str) -> dict[str, Any]:
    return {"answer": {"tool_calls": [{"id": "call_r", "name": tool, "arguments": REPORT}]}}


SCRIPTS: dict[str, dict[str, Any]] = {
    "plain": {
        "answer": {
            "content": PLAIN,
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        }
    },
    "weather": {
        "turns": [
            {
                "tool_calls": [
                    {"id": "call_a", "name": "weather", "arguments": {"city": "Oslo"}},
                    {"id": "call_b", "name": "weather", "arguments": {"city": "Rome"}},
                ],
                "chunks": [
                    [0, {"tool_call": {"index": 0, "id": "call_a", "name": "weather"}}],
                    [0, {"tool_call": {"index": 0, "arguments": '{"city"'}}],
                    [0, {"tool_call": {"index": 0, "arguments": ': "Oslo"}'}}],
                    [0, {"tool_call": {"index": 1, "id": "call_b", "name": "weather"}}],
                    [0, {"tool_call": {"index": 1, "arguments": '{"city": "Rome"}'}}],
                ],
            },
            {"content": WEATHER},
        ]
    },
    "report": {"answer": {"content": '{"city": "Oslo", "celsius": 21}'}},
    "report by final_result": _asks_for_report("final_result"),
    "report by Report": _asks_for_report("Report"),
    "another": {
        "greeting": {
            "content": "Good morning.",
            "request": {"model": "m", "messages": [{"role": "user", "content": "Who are you?"}]},
            "request_hash": "0" * 64,
        }
    },
}
"""`weather` asks for two tools at once, then answers. `another` has an answer to another question alone."""
