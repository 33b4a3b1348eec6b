"""Outputs as models really write them: what is found in each, and what is left."""

from pathlib import Path

import pytest
import yaml

from offbook.agent.rescue import rescue

TOOLS = ("search", "get_weather", "refund")
ENTRIES = [
    pytest.param(entry, id=f"{path.stem}: {entry['name']}")
    for path in sorted(Path(__file__).with_name("corpus").glob("*.yaml"))
    for entry in yaml.safe_load(path.read_text("utf-8"))
]


def found(text, entry):
    rescued = rescue(text, entry.get("tools", TOOLS))
    return [{"tool": call.tool, "args": call.args} for call in rescued.calls]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_text_yields_exactly_its_calls(entry):
    assert found(entry["text"], entry) == entry.get("calls", [])


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if "rest" in entry.values[0]])
def test_what_is_no_call_is_left_as_text(entry):
    assert rescue(entry["text"], entry.get("tools", TOOLS)).text == entry["rest"]


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if "reasoning" in entry.values[0]])
def test_the_first_call_carries_what_was_thought(entry):
    first, *others = rescue(entry["text"], entry.get("tools", TOOLS)).calls
    assert first.reasoning == entry["reasoning"]
    assert all(call.reasoning is None for call in others)


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if "calls" not in entry.values[0]])
def test_a_text_without_calls_is_left_whole(entry):
    assert rescue(entry["text"], TOOLS).text == entry["text"]


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if "withdrawn" not in entry.values[0]])
def test_a_text_that_breaks_off_yields_no_call_that_the_whole_does_not_have(entry):
    whole = found(entry["text"], entry)
    for end in range(len(entry["text"])):
        cut = found(entry["text"][:end], entry)
        assert cut == whole[: len(cut)], entry["text"][:end]
