"""Pictures: the same workflow gives the same one, and nothing in it is taken for markup."""

import xml.etree.ElementTree as ET

import pytest

from offbook.errors import InputError
from offbook.workflow import draw, parse_workflow
from offbook.workflow.file.load import read_definition
from tests.workflow.samples import EXAMPLE, call, workflow

SVG = "{http://www.w3.org/2000/svg}"
SIDES = ("x", "y", "width", "height")
NESTED = workflow(
    call("first", output="docs"),
    "{id: each, type: loop, depends_on: [first], over: state.docs, as: doc, collect: x, output: all, steps: ["
    "{id: inner, type: llm_call, prompt: '{doc}', output: x}]}",
    "{id: again, type: loop, until: state.y == 'z', steps: [{id: try, type: llm_call, prompt: x, output: y}]}",
    "{id: sub, type: subworkflow, depends_on: [each],"
    " workflow: {name: child, steps: [{id: c, type: llm_call, prompt: x}]}}",
)
HOSTILE = '</title><script>alert(1)</script>"]; click x \x1b[31m&{}|'


def hostile():
    steps = [
        {"id": HOSTILE, "type": "llm_call", "prompt": "x"},
        {"id": "r", "type": "router", "conditions": [{"expression": f"state.a == '{HOSTILE}'", "target": HOSTILE}]},
    ]
    return read_definition({"name": HOSTILE, "steps": steps})


def test_a_workflow_is_drawn_as_text_by_level():
    assert draw(parse_workflow(EXAMPLE)) == (
        "classify-and-respond\n"
        "  1 classify          llm_call → classification\n"
        "  2 route             router, after classify\n"
        "      state.classification == 'question' → answer\n"
        "      else → general_response\n"
        "  3 answer            agent, after route → response\n"
        "    general_response  llm_call, after route → response\n"
    )


def test_what_is_inside_a_step_is_drawn_under_it():
    assert draw(parse_workflow(NESTED), "text") == (
        "flow\n"
        "  1 first  llm_call → docs\n"
        "    again  loop\n"
        "      until state.y == 'z'\n"
        "      1 try  llm_call → y\n"
        "  2 each   loop, after first → all\n"
        "      doc in state.docs\n"
        "      1 inner  llm_call → x\n"
        "  3 sub    subworkflow, after each\n"
        "      child\n"
        "      1 c  llm_call\n"
    )


def test_a_workflow_is_drawn_as_a_mermaid_flowchart():
    assert draw(parse_workflow(EXAMPLE), "mermaid") == (
        "flowchart TD\n"
        '    s0["classify<br>llm_call"]\n'
        '    s1{"route<br>router"}\n'
        '    s2["answer<br>agent"]\n'
        '    s3["general_response<br>llm_call"]\n'
        "    s0 --> s1\n"
        "    s1 -->|\"state.classification == 'question'\"| s2\n"
        '    s1 -->|"else"| s3\n'
    )


def test_loops_and_sub_workflows_are_frames_in_mermaid():
    lines = [line.strip() for line in draw(parse_workflow(NESTED), "mermaid").splitlines()]
    assert lines[2:5] == ['subgraph s1["each<br>loop"]', 's1_0["inner<br>llm_call"]', "end"]
    assert 'subgraph s3["sub<br>subworkflow"]' in lines


def test_a_workflow_is_drawn_as_svg_with_boxes_arrows_labels_and_a_title():
    root = ET.fromstring(draw(parse_workflow(EXAMPLE), "svg"))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert root.find(f"{SVG}title").text == "classify-and-respond"
    assert {"classify", "route", "answer", "general_response", "agent", "router"} <= set(texts)
    assert len(root.findall(f"{SVG}path")) == 3
    titles = [element.find(f"{SVG}title") for element in root.iter(f"{SVG}text")]
    assert [title.text for title in titles if title is not None] == ["state.classification == 'question'", "else"]


def test_the_steps_of_loops_and_sub_workflows_are_drawn_inside_of_them():
    root = ET.fromstring(draw(parse_workflow(NESTED), "svg"))
    boxes = {
        group.find(f"{SVG}title").text: {key: int(group.find(f"{SVG}rect").get(key)) for key in SIDES}
        for group in root.iter(f"{SVG}g")
    }
    outer, inner = boxes["each"], boxes["inner"]
    assert outer["x"] < inner["x"] < inner["x"] + inner["width"] < outer["x"] + outer["width"]
    assert outer["y"] < inner["y"] < inner["y"] + inner["height"] < outer["y"] + outer["height"]
    assert outer["y"] + outer["height"] < int(root.get("height"))


def test_boxes_of_an_svg_do_not_overlap_and_stay_on_the_sheet():
    text = workflow(*(call(f"step_{n}" * (1 + n % 3), depends_on=f"[{'step_0' if n else ''}]") for n in range(9)))
    root = ET.fromstring(draw(parse_workflow(text), "svg"))
    boxes = [{key: int(box.get(key)) for key in SIDES} for box in root.iterfind(f".//{SVG}g/{SVG}rect")]
    assert len(boxes) == 9
    for at, one in enumerate(boxes):
        assert one["x"] >= 0
        assert one["x"] + one["width"] <= int(root.get("width"))
        assert one["y"] + one["height"] <= int(root.get("height"))
        for other in boxes[at + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert apart or one["y"] != other["y"]


@pytest.mark.parametrize("format", ["text", "mermaid", "svg"])
def test_pictures_are_the_same_every_time_and_hold_no_foreign_markup(format):
    picture = draw(hostile(), format)
    assert picture == draw(hostile(), format)
    assert "\x1b" not in picture
    assert format == "text" or "<script>" not in picture
    assert format != "mermaid" or '"]; click' not in picture
    assert format != "svg" or ET.fromstring(picture).tag == f"{SVG}svg"


def test_a_sub_workflow_that_is_not_loaded_is_drawn_by_its_path():
    step = {"id": "s", "type": "subworkflow", "path": "other.yaml"}
    flow = read_definition({"name": "flow", "steps": [step]})
    assert draw(flow) == "flow\n  1 s  subworkflow\n      other.yaml\n"
    assert 's0["s<br>subworkflow"]' in draw(flow, "mermaid")


def test_a_format_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="unknown format 'png'\n  hint: one of: mermaid, text, svg"):
        draw(parse_workflow(EXAMPLE), "png")
