"""The entries of MCP servers in recordings: in files and databases, merged, pruned, compared, shown and redacted."""

import json

import pytest

from offbook import InputError
from offbook.recording.compare import compare_documents
from offbook.recording.edit import PruneFilter, merge_documents, prune_document
from offbook.recording.format.file import parse_document, render_document
from offbook.recording.recorded_tools import RecordedTools
from offbook.recording.stores.locate import open_store
from tests.mcp.wiring import Upstream, call, opening, over_stdio, recording_to, request

LIST = "_mcp.notes tools/list"


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "run.json"
    with recording_to(path) as session:
        asked = [*opening("handshake"), request("tools/list"), call("add", {"a": 1, "b": 2}), call("write", token=1)]
        over_stdio(session, *asked, upstream=Upstream())
    return path


def test_a_file_has_tools_by_server_and_the_rest_by_server_and_method(recorded):
    document = json.loads(recorded.read_text())
    assert list(document["_tools"]) == ["notes.add", "notes.write"]
    assert {server: list(methods) for server, methods in document["_mcp"].items()} == {
        "notes": ["initialize", "tools/list"]
    }


def test_a_recording_stays_the_same_through_a_file_and_a_database(recorded, tmp_path):
    document = open_store(recorded).load()
    assert render_document(parse_document(recorded.read_bytes(), source="")) == recorded.read_bytes()
    database = open_store(f"sqlite:///{tmp_path}/run.db")
    database.save(document)
    assert database.load() == document


def test_calls_are_recorded_in_a_database_as_in_a_file(tmp_path):
    with recording_to(f"sqlite:///{tmp_path}/run.db") as session:
        over_stdio(session, call("add", {"a": 1, "b": 2}), request("tools/list"), upstream=Upstream())
    assert list(open_store(f"sqlite:///{tmp_path}/run.db").load().tools) == ["notes.add", LIST]


def test_entries_are_merged_pruned_and_compared_by_their_keys(recorded):
    document = open_store(recorded).load()
    assert merge_documents([document, document]) == document
    shorter = open_store(recorded).load()
    assert prune_document(shorter, PruneFilter(keys=frozenset({LIST}))) == 1
    assert [(change.key, change.kind) for change in compare_documents(document, shorter)] == [(LIST, "removed")]


def test_what_is_not_a_tool_call_is_not_a_tool(recorded):
    assert RecordedTools(recorded).called == ("notes.add", "notes.write")


@pytest.mark.parametrize(
    ("mcp", "place"),
    [
        ([], "_mcp"),
        ({"notes": []}, "_mcp"),
        ({"notes": {"tools/list": {"resutl": 1}}}, "_mcp.notes tools/list"),
        ({"notes": {"tools/list": []}}, "_mcp.notes tools/list"),
        ({"notes": {"tools/list": {"wire": {"protocol": "mcp", "body": 1}}}}, "_mcp.notes tools/list.wire.body"),
    ],
)
def test_what_cannot_be_read_is_explained_with_its_place(mcp, place):
    with pytest.raises(InputError) as refused:
        parse_document(json.dumps({"_version": 2, "_mcp": mcp}).encode(), source="run.json")
    assert refused.value.place.startswith(place)
    assert refused.value.hint
