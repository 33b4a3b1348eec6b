"""Reading YAML: what is taken for what, and what is refused, with its line."""

# ruff: noqa: E501 - a complaint is read best on one line

import time

import pytest

from offbook.errors import InputError, WorkflowError
from offbook.workflow import AgentStep, LlmCallStep, RouterStep, load_workflow, parse_workflow
from offbook.workflow.file.load import MAX_BYTES
from tests.workflow.samples import EXAMPLE, call, problems_of, workflow


def test_a_workflow_file_is_read(tmp_path):
    (tmp_path / "flow.yaml").write_text(EXAMPLE)
    flow = load_workflow(tmp_path / "flow.yaml")
    assert [type(step) for step in flow.steps] == [LlmCallStep, RouterStep, AgentStep, LlmCallStep]
    assert flow.name == "classify-and-respond"
    assert flow.config.budget_usd == 0.5
    assert flow.config.model == "gpt-4o-mini"
    assert flow.steps[2].terminal_tool == ("reply",)
    assert flow.tools["reply"].function == "my_tools:reply"
    assert parse_workflow(EXAMPLE) == flow


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "flow.yaml").write_text(EXAMPLE, encoding="utf-8-sig")
    assert load_workflow(str(tmp_path / "flow.yaml")) == parse_workflow(EXAMPLE)


def test_words_mean_what_yaml_1_2_says_they_do():
    state = "{a: yes, b: on, c: '1', d: 1:30, e: 0o14, f: true, g: null, h: 1e3, i: 0x1F, j: -7, k: 2024-01-01, l: ~, m: .5}"
    flow = parse_workflow(workflow(call("a"), head=f"state: {state}"))
    assert flow.state == {
        "a": "yes",
        "b": "on",
        "c": "1",
        "d": "1:30",
        "e": 12,
        "f": True,
        "g": None,
        "h": 1000.0,
        "i": 31,
        "j": -7,
        "k": "2024-01-01",
        "l": None,
        "m": 0.5,
    }


def test_a_quoted_word_is_a_text_and_a_block_keeps_its_lines():
    flow = parse_workflow("name: 'true'\nsteps:\n  - id: a\n    type: llm_call\n    prompt: |\n      one\n      two\n")
    assert flow.name == "true"
    assert flow.steps[0].prompt == "one\ntwo\n"


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("a: &x 1", ["1:4: a: the anchor &x is not allowed | write the value out"]),
        ("a: 1\nb: *x", ["2:4: b: the alias *x is not allowed | write the value out"]),
        ("a: 1\n<<: {b: 2}", ["2:1: the merge key << is not allowed | write the entries out"]),
        ("a: 1\nb: 2\na: 3", ["3:1: a: duplicate key 'a', first in line 1"]),
        ("1: a", ["1:1: the key 1 is not a string | quote it to make it a string"]),
        ("true: a", ["1:1: the key true is not a string | quote it to make it a string"]),
        ("? [a]\n: b", ["1:3: the key with several parts is not a string | quote it to make it a string"]),
        ("a: 1\n---\nb: 2", ["2:1: a second document begins here | a file holds one workflow"]),
        ("a: .nan", ["1:4: a: .nan is not a finite number | quote it to make it a string"]),
        ("a: -.inf", ["1:4: a: -.inf is not a finite number | quote it to make it a string"]),
        ("a: 1e999", ["1:4: a: the number 1e999 is too large | quote it to make it a string"]),
        ("a: 9223372036854775808", ["1:4: a: the number 9223372036854775808 is too large | quote it to make it a string"]),
        ("a: " + "9" * 5000, [f"1:4: a: the number {'9' * 20}… is too large | quote it to make it a string"]),
        ("a:\n\t- b", ["2:1: not YAML: found character that cannot start any token | indent with spaces, not with tabs"]),
        ("a: [1, 2", ["2:1: not YAML: did not find expected ',' or ']'"]),
        ("a:\n  - b\n - c", ["3:2: not YAML: did not find expected key | indent this line like those that it belongs to"]),
        ("a: b: c", ["1:5: not YAML: mapping values are not allowed in this context | quote the string: a colon followed by a space starts a mapping"]),
        ("a: \x00", ["not YAML: control characters are not allowed"]),
        ("a: \ud800", ["the text is not Unicode: surrogates not allowed"]),
        ("", ["the workflow is empty | it needs a name and steps: offbook init FOLDER --sdk yaml"]),
        ("# nothing yet", ["the workflow is empty | it needs a name and steps: offbook init FOLDER --sdk yaml"]),
        ("- a", ["1:1: expected a mapping, got a list"]),
        ("just text", ["1:1: expected a mapping, got 'just text'"]),
    ],
)  # fmt: skip
def test_what_could_surprise_is_refused_with_its_line(text, complaints):
    assert problems_of(text) == complaints


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system [ls]", "!!python/name:os.system ''", "!!str 1", "!x 1"]
)
def test_tags_are_refused_whatever_they_are(tag):
    [complaint] = problems_of(f"name: {tag}")
    assert complaint.startswith("1:7: name: the tag ")
    assert complaint.endswith("is not allowed | write plain YAML; quote strings")


def test_everything_that_is_refused_is_reported_at_once():
    assert len(problems_of("a: &x 1\nb: *x\na: !!str 2\n2: 3\n")) == 5


def test_a_bomb_of_aliases_costs_nothing():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    start_s = time.perf_counter()
    assert problems_of("\n".join(lines))[0] == "1:5: a0: the anchor &a0 is not allowed | write the value out"
    assert time.perf_counter() - start_s < 30.0


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused(opening):
    [complaint] = problems_of(opening * 20_000)
    assert "nested more than 50 levels deep" in complaint


def test_a_text_that_is_too_long_is_refused(tmp_path):
    assert problems_of("a" * (MAX_BYTES + 1)) == [f"the file has {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"]
    (tmp_path / "long.yaml").write_bytes(b"# " + b"a" * 10 * MAX_BYTES)
    with pytest.raises(WorkflowError, match="more than 1000000"):
        load_workflow(tmp_path / "long.yaml")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"name: flow\nbad: \xff\xfe", "2:6: the file is not UTF-8\n  hint: save it as UTF-8"),
        (EXAMPLE.encode("utf-16"), "1:1: the file is not UTF-8\n  hint: save it as UTF-8"),
        (b"\xde\xad\xbe\xef" * 100, "1:3: the file is not UTF-8\n  hint: save it as UTF-8"),
    ],
)
def test_junk_and_other_encodings_are_refused(tmp_path, data, complaint):
    path = tmp_path / "flow.yaml"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_workflow(path)
    assert str(caught.value) == f"{path}:{complaint}"


def test_a_file_that_cannot_be_opened_is_reported_by_its_name(tmp_path):
    with pytest.raises(WorkflowError) as caught:
        load_workflow(tmp_path / "none.yaml")
    assert str(caught.value) == f"{tmp_path / 'none.yaml'}: No such file or directory"
    with pytest.raises(WorkflowError, match="Is a directory"):
        load_workflow(tmp_path)
