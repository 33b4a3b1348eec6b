"""Outputs as models really write them: the calls in each, and the text that remains."""

from pathlib import Path

import pytest
import yaml

from offbook.agent.rescue import rescue

TOOLS = ("search", "get_weather", "refund")
FAMILIES = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted(Path(__file__).with_name("corpus").glob("*.yaml"))
}


def calls_in(text, entry):
    return [{"tool": call.tool, "args": call.args} for call in rescue(text, entry.get("tools", TOOLS)).calls]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_yields_exactly_its_calls_its_reasoning_and_the_text_that_remains(family):
    for entry in FAMILIES[family]:
        rescued = rescue(entry["text"], entry.get("tools", TOOLS))
        assert calls_in(entry["text"], entry) == entry.get("calls", []), entry["name"]
        if "rest" in entry:
            assert rescued.text == entry["rest"], entry["name"]
        if "reasoning" in entry:
            assert rescued.calls[0].reasoning == entry["reasoning"], entry["name"]
            assert all(call.reasoning is None for call in rescued.calls[1:]), entry["name"]
        if "calls" not in entry:
            assert rescue(entry["text"], TOOLS).text == entry["text"], entry["name"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_that_breaks_off_yields_no_call_that_the_whole_does_not_have(family):
    for entry in FAMILIES[family]:
        if "withdrawn" in entry:
            continue
        whole = calls_in(entry["text"], entry)
        for end in range(len(entry["text"])):
            cut = calls_in(entry["text"][:end], entry)
            assert cut == whole[: len(cut)], f"{entry['name']}: {entry['text'][:end]}"
