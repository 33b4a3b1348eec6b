"""offbook validate, graph and schema: what can be said of workflow files without running them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offbook.workflow import workflow_json_schema
from tests.workflow.samples import EXAMPLE

BROKEN = EXAMPLE.replace("state.user_input", "state.user_inptu", 1).replace("tools: [search_docs]", "tools: [search]")


def test_a_workflow_that_could_run_is_ok(run, write):
    write("flow.yaml", EXAMPLE)
    assert run("validate", "flow.yaml") == (0, "flow.yaml: ok\n", "")


def test_all_problems_are_reported_with_file_line_and_column_and_other_files_are_checked_too(run, write):
    write("bad.yaml", BROKEN)
    write("good.yaml", EXAMPLE)
    code, out, err = run("validate", "bad.yaml", "good.yaml", "missing.yaml")
    assert code == 2
    assert err == ""
    assert "bad.yaml:10:5: steps[0].prompt" in out
    assert "bad.yaml:20:13: steps[2].tools[0]" in out
    assert "good.yaml: ok" in out
    assert "missing.yaml: No such file or directory" in out


def test_problems_as_json_have_their_place_in_fields(run, write):
    write("bad.yaml", BROKEN)
    code, out, _ = run("validate", "bad.yaml", "--json")
    report = json.loads(out)
    assert code == 2
    assert report["files"] == 1
    assert [(problem["source"], problem["line"]) for problem in report["problems"]] == [
        ("bad.yaml", 10),
        ("bad.yaml", 20),
    ]
    code, out, _ = run("validate", write("good.yaml", EXAMPLE), "--json")
    assert code == 0
    assert out == '{"files":1,"problems":[],"without_model":{}}\n'


def test_checking_and_drawing_import_no_tool(run, write, monkeypatch):
    monkeypatch.delitem(sys.modules, "my_tools", raising=False)
    write("my_tools.py", "raise SystemExit('imported')")
    flow = write("flow.yaml", EXAMPLE)
    assert run("validate", flow)[0] == 0
    assert run("graph", flow)[0] == 0
    assert "my_tools" not in sys.modules


@pytest.mark.parametrize(
    "text",
    ["", "- 1", "name: x", "\x00", "a: &a [*a]", "name: '\x1b[2J'", "{" * 10_000, "name: !!python/object:os.x {}"],
)
def test_hostile_files_are_bad_input_on_one_screen(run, write, text):
    code, out, err = run("validate", write("bad.yaml", text))
    assert code == 2
    assert err == ""
    assert "bad.yaml" in out
    assert "\x1b" not in out
    assert len(out) < 4_000


@pytest.mark.parametrize(
    ("format", "start"), [("text", "classify-and-respond"), ("mermaid", "flowchart"), ("svg", "<svg")]
)
def test_a_workflow_is_drawn_in_each_format(run, write, format, start):
    code, out, _ = run("graph", write("flow.yaml", EXAMPLE), "--format", format)
    assert code == 0
    assert out.startswith(start)


def test_a_drawing_goes_into_a_file(run, write):
    flow = write("flow.yaml", EXAMPLE)
    assert run("graph", flow, "-f", "svg", "-o", "flow.svg") == (0, "", "")
    assert Path("flow.svg").read_text().startswith("<svg")
    assert run("graph", flow, "-o", "called.svg") == (0, "", "")
    assert Path("called.svg").read_text() == Path("flow.svg").read_text()
    assert run("graph", flow, "-o", "called.mmd")[0] == 0
    assert Path("called.mmd").read_text().startswith("flowchart")
    code, _, err = run("graph", flow, "-o", "called.png")
    assert code == 2
    assert "no picture can be written as .png" in err
    assert not Path("called.png").exists()
    code, _, err = run("graph", flow, "-o", "no/such/folder.svg")
    assert code == 2
    assert "no/such/folder.svg" in err


def test_what_cannot_be_drawn_is_bad_input(run, write):
    assert run("graph", write("bad.yaml", BROKEN))[0] == 2
    assert run("graph", write("flow.yaml", EXAMPLE), "--format", "png")[0] == 2


def test_the_schema_of_a_workflow_is_printed(run):
    code, out, _ = run("schema", "workflow")
    assert code == 0
    assert json.loads(out) == workflow_json_schema()


def test_a_schema_that_there_is_not_is_bad_input(run):
    assert run("schema", "recording")[0] == 2


def test_the_words_of_a_command_can_be_completed():
    script = "import sys; from offbook.cli.app import app; sys.argv = ['offbook']; app(prog_name='offbook')"
    env = {"_OFFBOOK_COMPLETE": "complete_bash", "COMP_WORDS": "offbook r", "COMP_CWORD": "1", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert {"run", "replay", "recording"} <= set(done.stdout.split())


INNER = """\
name: outer
steps:
  - {id: named, type: llm_call, model: m, prompt: x}
  - {id: each, type: loop, until: index == 1, steps: [{id: ask, type: llm_call, prompt: x}]}
  - {id: sub, type: subworkflow, workflow: {name: inner, steps: [{id: say, type: agent, prompt: x, terminal_tool: t}]}}
tools: {t: "tools:t"}
"""


def test_steps_without_a_model_are_reported_and_no_problem(run, write):
    flow = write("flow.yaml", INNER)
    code, out, _ = run("validate", flow)
    assert code == 0
    assert out.startswith(f"{flow}: ok, but no model is named for ask and 1 more: ")
    _, out, _ = run("validate", flow, "--json")
    assert json.loads(out)["without_model"] == {str(flow): ["ask", "sub.say"]}


def test_a_model_of_the_config_is_that_of_all_steps(run, write):
    flow = write("flow.yaml", INNER + "config: {model: m}\n")
    assert run("validate", flow) == (0, f"{flow}: ok\n", "")
