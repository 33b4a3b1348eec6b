"""Templates: what is filled in, what is refused, and that nothing is read twice."""

# ruff: noqa: E501 - a complaint is read best on one line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError, TemplateError
from offbook.workflow import Template
from offbook.workflow.file.template import fill

SCOPE = {
    "state": {"name": "Ada", "items": [{"name": "first"}, "second"], "n": 3, "none": None, "braces": "{state.name}"},
    "item": {"x": 1.5},
    "index": 0,
}
keys = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("Hello {state.name}!", "Hello Ada!"),
        ("{state.items.0.name}, {state.items.1}", "first, second"),
        ("{index}: {item.x}", "0: 1.5"),
        ("{state.items}", '[{"name":"first"},"second"]'),
        ("{state.none} {state.n}", "null 3"),
        ('{{"a": {state.n}}}', '{"a": 3}'),
        ("{{state.name}}", "{state.name}"),
        ("", ""),
        ("no placeholder", "no placeholder"),
    ],
)
def test_a_template_is_filled_with_texts_as_they_are_and_all_else_as_json(text, rendered):
    assert Template.parse(text).render(SCOPE) == rendered


def test_what_is_filled_in_is_never_read_as_a_template():
    assert Template.parse("{state.braces}").render(SCOPE) == "{state.name}"


def test_the_paths_of_a_template_are_reported_each_once():
    template = Template.parse("{state.a.b} {index} {state.a.b} {{state.c}}")
    assert template.paths == (("state", "a", "b"), ("index",))


def test_a_single_placeholder_gives_the_value_itself():
    assert Template.parse("{state.items}").value(SCOPE) is SCOPE["state"]["items"]
    assert Template.parse(" {state.n}").value(SCOPE) == " 3"
    assert Template.parse("").value(SCOPE) == ""


def test_mappings_and_lists_are_filled_through():
    declared = {"n": "{state.n}", "all": ["{item.x}", {"deep": "x{index}"}], "kept": 5, "none": None}
    assert fill(declared, SCOPE) == {"n": 3, "all": [1.5, {"deep": "x0"}], "kept": 5, "none": None}


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ('{"a": 1}', "'{\"a\": 1}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("a { b", "the { at character 3 is not part of a placeholder", "write {{ and }} for literal braces"),
        ("a } b", "the } at character 3 is not part of a placeholder", "write {{ and }} for literal braces"),
        ("{}", "'{}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("{state.n!r}", "'{state.n!r}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("{state.n:>10}", "'{state.n:>10}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("{state[n]}", "'{state[n]}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("{0.a}", "'{0.a}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("{state..n}", "'{state..n}' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
        ("{state.__class__}", "{state.__class__} has a name that starts with '_', which is not allowed", ""),
        ("{state.n.__class__.__mro__}", "{state.n.__class__.__mro__} has a name that starts with '_', which is not allowed", ""),
        ("{" + "x y" * 50 + "}", "'{x yx yx yx yx yx yx yx yx yx yx yx yx …' is not a path", "a placeholder looks like {state.key}; write {{ and }} for literal braces"),
    ],
)  # fmt: skip
def test_what_is_no_template_is_refused(text, reason, hint):
    with pytest.raises(TemplateError) as caught:
        Template.parse(text)
    assert caught.value.reason == reason
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{state.nme}", "answer: there is no state.nme\n  hint: did you mean 'name'?"),
        ("{state.zzz}", "answer: there is no state.zzz\n  hint: keys of state: braces, items, n, name, none"),
        ("{stat.x}", "answer: there is no stat.x\n  hint: did you mean 'state'?"),
        ("{state.items.2}", "answer: there is no state.items.2\n  hint: state.items is a list of length 2"),
        ("{state.items.name}", "answer: there is no state.items.name\n  hint: state.items is a list of length 2"),
        (
            "{state.name.upper}",
            "answer: there is no state.name.upper\n  hint: state.name is neither a mapping nor a list",
        ),
        ("{state.none.x}", "answer: there is no state.none.x\n  hint: state.none is neither a mapping nor a list"),
    ],
)
def test_a_path_that_leads_nowhere_is_reported_with_its_place(text, message):
    with pytest.raises(InputError) as caught:
        Template.parse(text).render(SCOPE, place="answer")
    assert str(caught.value) == message


def test_a_value_that_is_no_json_cannot_be_filled_in():
    with pytest.raises(TemplateError, match="cannot be written as JSON"):
        Template.parse("a {state.o}").render({"state": {"o": object()}})


@given(st.text())
def test_a_text_with_its_braces_doubled_is_rendered_as_it_was(text):
    template = Template.parse(text.replace("{", "{{").replace("}", "}}"))
    assert template.render({}) == text
    assert template.paths == ()


@given(st.text(), keys, values, st.text())
def test_any_value_is_filled_in_between_what_is_around_it(before, key, value, after):
    scope = {"state": {key: value}}
    doubled = [text.replace("{", "{{").replace("}", "}}") for text in (before, after)]
    rendered = Template.parse(f"{doubled[0]}{{state.{key}}}{doubled[1]}").render(scope)
    alone = Template.parse(f"{{state.{key}}}")
    assert alone.value(scope) is value
    assert rendered == before + alone.render(scope) + after
    assert not isinstance(value, str) or alone.render(scope) == value


@given(st.text(alphabet="{}.ab_0 ", max_size=12))
def test_a_text_is_a_template_or_a_template_error_and_nothing_else(text):
    try:
        template = Template.parse(text)
    except TemplateError:
        return
    assert all(not part.startswith("_") for path in template.paths for part in path)


def test_a_prompt_does_not_depend_on_the_order_in_which_keys_were_written():
    template = Template.parse("{state.votes}")
    orders = [{"con": 1, "pro": {"b": 2, "a": 3}}, {"pro": {"a": 3, "b": 2}, "con": 1}]
    assert {template.render({"state": {"votes": votes}}) for votes in orders} == {'{"con":1,"pro":{"a":3,"b":2}}'}


def test_a_position_may_be_in_brackets():
    scope = {"state": {"items": ["a", {"name": "b"}], "grid": [[1, 2]]}}
    assert Template.parse("{state.items[0]} {state.items[1].name} {state.grid[0][1]}").render(scope) == "a b 2"
