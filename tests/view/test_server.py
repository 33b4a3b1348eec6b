"""The viewer over HTTP: what its page asks for, and what nobody gets."""

import re
import socket
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest

from offbook import WorkflowEngine, load_workflow
from offbook.errors import InputError
from offbook.recording.format.file import render_document
from offbook.session.provider import MockProvider
from offbook.view.library import RunLibrary
from offbook.view.server import ViewServer
from offbook.workflow.runs.store import RunStore
from tests.view import sample


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A viewer of runs of all kinds."""
    folder = sample.write_runs(tmp_path_factory.mktemp("runs"))
    with ViewServer(RunLibrary([folder])) as server, httpx2.Client(base_url=server.url) as client:
        client.folder = folder
        yield client


@pytest.fixture
def ask(served):
    def ask(path, **query):
        answer = served.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


def ids(found):
    return [run["id"] for run in found["runs"]]


def test_runs_come_in_pages_searched_filtered_and_sorted(ask):
    page = ask("/api/runs", limit=2, offset=1)
    assert page["total"] == 9
    assert page["matching"] == 9
    assert page["offset"] == 1
    assert ids(page) == ["nightly/monday.json", "explored/v3.json"]
    assert page["kinds"] == {"scenarios": 2, "exploration": 3, "unreadable": 2, "recording": 2}
    assert ids(ask("/api/runs", q="REFUND gpt", kind="recording")) == ["refund-tuesday.json", "refund-monday.json"]
    assert ids(ask("/api/runs", kind="scenarios", sort="id")) == ["nightly/monday.json", "nightly/tuesday.json"]
    assert ids(ask("/api/runs", kind="exploration", sort="-count"))[0] == "explored/v2.json"
    assert ask("/api/runs", q="nothing like it at all")["matching"] == 0


def test_runs_are_found_by_what_was_said_called_and_failed(ask):
    assert ids(ask("/api/runs", q="it is lost find_order", kind="recording")) == [
        "refund-tuesday.json",
        "refund-monday.json",
    ]
    assert ids(ask("/api/runs", q="http_error", kind="recording")) == ["refund-tuesday.json"]


def test_calls_of_a_recording_are_found_by_text_tool_and_error(ask):
    def numbers(query):
        found = ask("/api/recording", id="refund-tuesday.json", q=query)
        return [call["number"] for call in found["calls"]], found["total"], found["all"]

    assert numbers("http_error 500") == ([3], 1, 6)
    assert numbers("ORDER was") == ([6], 1, 6)
    assert numbers("nothing like it at all") == ([], 0, 6)
    assert numbers("")[1:] == (6, 6)


def test_what_has_not_changed_is_not_sent_again(served):
    first = served.get("/api/runs")
    again = served.get("/api/runs", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    other = served.get("/api/runs", params={"q": "x"}, headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200


def test_a_recording_is_a_waterfall_of_calls_attempts_streams_and_tools(ask):
    found = ask("/api/recording", id="refund-tuesday.json")
    rows = [(row["kind"], row["title"], row.get("attempt", 1), row.get("failure", "")) for row in found["calls"]]
    assert rows == [
        ("model", "→ find_order(42)", 1, ""),
        ("tool", "find_order(42)", 1, ""),
        ("model", "", 1, "http_error 500"),
        ("model", "→ refund(42)", 2, ""),
        ("tool", "refund(42)", 1, ""),
        ("model", "Order 42 was refunded.", 1, ""),
    ]
    last = found["calls"][-1]
    assert last["start_ms"] == 2700.0
    assert last["latency_ms"] == 1500.0
    assert last["first_ms"] == 400.0
    assert last["pieces"] == 4
    assert found["span_ms"] == 4200.0
    assert [row["number"] for row in ask("/api/recording", id="refund-tuesday.json", offset=4, limit=1)["calls"]] == [5]


def test_idle_times_are_drawn_short(served, ask):
    document = sample.refund_recording()
    document.add("d" * 64, sample.model_exchange(90_000, [sample.USER], fingerprint="d" * 64, content="late"))
    sample.write(served.folder / "idle.json", render_document(document))
    try:
        found = ask("/api/recording", id="idle.json")
    finally:
        (served.folder / "idle.json").unlink()
    assert found["calls"][-1]["start_ms"] > 89_000_000
    assert found["span_ms"] < 7_000


def test_a_conversation_shows_each_message_once(ask):
    calls = ask("/api/conversation", id="refund-monday.json")["calls"]
    said = [[message["role"] for message in call.get("said", [])] for call in calls]
    assert said == [["system", "user"], [], [], [], []]
    assert [call["answer"] for call in calls] == [
        {"role": "assistant", "calls": ["find_order(42)"]},
        {"role": "tool", "text": '{"order_id":42,"status":"lost","total":30}'},
        {"role": "assistant", "calls": ["refund(42)"]},
        {"role": "tool", "text": "30"},
        {"role": "assistant", "text": "Order 42 is refunded: you get 30 back. "},
    ]


def test_a_call_is_there_in_full(ask, served):
    call = ask("/api/call", id="refund-monday.json", number=5)
    assert call["exchange"]["request"]["messages"][1] == sample.USER
    assert served.get("/api/call", params={"id": "refund-monday.json", "number": 6}).status_code == 404


def test_two_recordings_stand_side_by_side(ask):
    query = {"left": "refund-monday.json", "right": "refund-tuesday.json"}
    found = ask("/api/compare", **query)
    assert found["kind"] == "recording"
    assert found["all"] == 6
    assert found["same"] == 4
    changed = ask("/api/compare", **query, changed=1)["pairs"]
    assert [(pair["left"], pair["right"]["note"]) for pair in changed[:1]] == [(None, "http_error 500 · 300 ms")]
    assert "Order 42 is refunded" in changed[1]["difference"]
    assert "Order 42 was refunded" in changed[1]["difference"]


def test_explorations_and_scenario_runs_stand_side_by_side(ask):
    found = ask("/api/compare", left="explored/v1.json", right="explored/v3.json", changed=1)
    notes = {(pair["left"]["note"], pair["right"]["note"]) for pair in found["pairs"]}
    assert ("repeated effect", "recovered") in notes
    found = ask("/api/compare", left="nightly/monday.json", right="nightly/tuesday.json")
    first = found["pairs"][0]
    assert first["left"]["note"] == "1/3 33 % (6–79 %)"
    assert first["right"]["note"] == "2/3 67 % (21–94 %)"
    assert found["pairs"][1]["right"] is None


def test_runs_of_two_kinds_are_not_compared(served):
    query = urlencode({"left": "refund-monday.json", "right": "explored/v1.json"})
    answer = served.get(f"/api/compare?{query}")
    assert answer.status_code == 404
    assert "cannot be compared" in answer.json()["error"]


def test_the_heatmaps_of_several_versions_are_one(ask):
    (group,) = ask("/api/explorations")["groups"]
    assert group["subject"] == "refund_agent"
    assert len(group["runs"]) == 3
    found = ask("/api/heatmap", subject="refund_agent")
    assert [version["findings"] for version in found["versions"]] == [3, 4, 0]
    row, column = found["rows"].index("refund(42)"), found["columns"].index("tool_lost")
    (cell,) = [cell for cell in found["cells"] if (cell["row"], cell["column"]) == (row, column)]
    assert cell["results"] == [
        ["repeated effect", "0006", "repeated effect"],
        ["repeated effect", "0006", "repeated effect"],
        ["recovered", "0006", "recovered"],
    ]


def test_scenarios_have_pass_rates_with_intervals_over_time(ask):
    found = ask("/api/scenarios")
    assert [run["id"] for run in found["runs"]] == ["nightly/monday.json", "nightly/tuesday.json"]
    refunds = next(
        each for each in found["scenarios"] if each["name"] == "refunds an order" and each["agent"] == "small"
    )
    assert [(point["run"], point["passes"], point["runs"]) for point in refunds["points"]] == [(0, 1, 3), (1, 2, 3)]
    assert all(point["low"] < point["rate"] < point["high"] for point in refunds["points"])


@pytest.mark.parametrize(("id", "title"), [("explored/v1.json", b"Exploration"), ("nightly/monday.json", b"Scenarios")])
def test_a_report_is_the_page_that_its_reporter_writes(served, id, title):
    answer = served.get("/report", params={"id": id})
    assert answer.status_code == 200
    assert b"<title>%b</title>" % title in answer.content
    assert served.get("/report", params={"id": "refund-monday.json"}).status_code == 404


async def test_a_workflow_run_has_its_steps_and_their_calls(tmp_path):
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: greet\nsteps:\n  - id: greet\n    type: llm_call\n    model: m\n    prompt: Hi\n")
    definition = load_workflow(flow)
    with RunStore(tmp_path / "runs").start(definition, flow) as run:
        provider = run.calls.wrap_provider(MockProvider(responses={"greet": {"content": "Hello."}}))
        await WorkflowEngine(definition, provider, checkpoint=run.checkpoint).run()
        run.end("succeeded")
    with ViewServer(RunLibrary([tmp_path / "runs"])) as server, httpx2.Client(base_url=server.url) as client:
        (listed,) = client.get("/api/runs").json()["runs"]
        assert listed["kind"] == "workflow"
        assert listed["verdict"] == "succeeded"
        assert listed["count"] == 1
        assert listed["noun"] == "of 1 step"
        found = client.get("/api/workflow", params={"id": listed["id"]}).json()
        assert [(step["place"], step["result"]["output"]) for step in found["steps"]] == [("greet", "Hello.")]
        calls = client.get("/api/recording", params={"id": found["recordings"][0]["id"]}).json()
        assert calls["part_of"] == listed["id"]
        assert calls["calls"][0]["title"] == "Hello."


@pytest.mark.parametrize(
    "path",
    ["/api/recording?id=../secret.json", "/api/recording?id=/etc/passwd", "/report?id=..%2Fsecret.json", "/../x", "/x"],
)
def test_nothing_outside_the_folder_is_served(served, path):
    (served.folder.parent / "secret.json").write_text('{"_version": 2, "key": {"content": "secret"}}')
    answer = served.get(path)
    assert answer.status_code == (401 if path == "/../x" else 404)  # which leaves the token out
    assert "content" not in answer.text


def test_only_this_machine_may_look_and_nobody_may_change(served):
    assert served.get("/", headers={"host": "evil.example"}).status_code == 403
    assert served.get("/", headers={"origin": "https://evil.example"}).status_code == 403
    assert served.post("/api/runs").status_code == 405
    assert urlsplit(str(served.base_url)).hostname == "127.0.0.1"


def test_nothing_is_shown_without_the_token_in_the_address(tmp_path):
    with ViewServer(RunLibrary([tmp_path])) as server, httpx2.Client() as client:
        bare = server.url.partition("/t/")[0]
        for path in ("/", "/viewer.js", "/api/runs", "/report?id=x", "/t/x/api/runs"):
            assert client.get(bare + path).status_code == 401
        assert client.get(f"{server.url}api/runs").status_code == 200


def test_the_address_that_is_given_to_the_browser_works_once(tmp_path):
    with ViewServer(RunLibrary([tmp_path])) as server, httpx2.Client() as client:
        assert client.get(server.opening_url, headers={"host": "evil.example"}).status_code in (401, 403)
        assert client.get(server.opening_url).headers["location"] == server.url
        assert client.get(server.opening_url).status_code == 401


def test_the_page_may_load_from_its_server_alone(served):
    page = served.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    for name in ("common.css", "common.js", "viewer.css", "viewer.js", "virtual_list.js"):
        assert f'"{name}"' in page.text
        loaded = served.get(f"/{name}")
        assert loaded.status_code == 200
        assert not re.search(r"""["'`(]/(api|report)""", loaded.text)  # it would leave the token out


def test_a_port_that_is_in_use_is_bad_input(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen"):
        ViewServer(RunLibrary([tmp_path]), port=taken.getsockname()[1])
