"""Expressions: what they give, what they name, and that hostile ones are harmless."""

# ruff: noqa: E501 - a complaint is read best on one line

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import ExpressionError
from offbook.workflow import Expression
from offbook.workflow.file import expression

STATE = {
    "kind": "question",
    "n": 3,
    "f": 1.5,
    "none": None,
    "yes": True,
    "items": [1, 2, 3],
    "people": [{"name": "Ada", "tags": ["a", "b"]}, {"name": "Bo", "tags": []}],
}
SCOPE = {"state": STATE, "item": {"x": 1}, "index": 0}


def refused(text, **options):
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text, **options)
    return str(caught.value).replace("\n  hint: ", " | ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("state.kind == 'question'", True),
        ('state["kind"] != "question"', False),
        ("state.n > 2 && state.f < 2", True),
        ("state.n == 3.0 || false", True),
        ("state.none == null", True),
        ("!state.yes", False),
        ("state.items[1]", 2),
        ("state.people[0].name", "Ada"),
        ("size(state.items) + 1", 4),
        ("state.kind.startsWith('q') ? 'a' : 'b'", "a"),
        ("state.kind.matches('^q.*n$') && state.kind.contains('est') && state.kind.endsWith('ion')", True),
        (r"state.kind.matches(r'^\w+$')", True),
        ("has(state.missing)", False),
        ("has(state.kind)", True),
        ("2 in state.items", True),
        ("state.items.exists(x, has(state.missing))", False),
        ("state.items.exists(x, x == 2)", True),
        ("state.items.all(x, x > 1)", False),
        ("state.items.exists_one(x, x > 2)", True),
        ("state.items.filter(x, x >= 2)", [2, 3]),
        ("state.people.exists(p, p.tags.exists(t, t == 'b'))", True),
        ("state.people.filter(p, size(p.tags) > 0).exists(p, p.name == 'Ada')", True),
        ("item.x + index", 1),
        ("int('5') + int(double('1.0'))", 6),
        ("string(state.n) + 'x' // a comment", "3x"),
        ("[1, 'a'] == [1, 'a'] && {'a': 1}.a == 1", True),
        ("state", STATE),
    ],
)
def test_an_expression_gives_what_cel_says(text, value):
    assert Expression.parse(text).evaluate(SCOPE) == value


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("state.kind == 'state.other'", [("state", "kind")]),
        ("state.people[0].name", [("state", "people", "0", "name")]),
        ("state['kind'].size() > index", [("state", "kind"), ("index",)]),
        ("state.people.exists(p, p.name == state.kind)", [("state", "people"), ("state", "kind")]),
        ("state.people.exists(state, state.name == 'a')", [("state", "people")]),
        ("state.items[state.n]", [("state", "items"), ("state", "n")]),
        ("has(state.a.b) // state.c", [("state", "a", "b")]),
        ("state[r'kind']", [("state",)]),
        ("1 + 1", []),
    ],
)
def test_an_expression_reports_what_it_names(text, paths):
    assert list(Expression.parse(text).paths) == paths


def test_mappings_come_out_in_a_certain_order():
    rows = [{"z": 1, "a": {"y": 2, "b": 3}}]
    assert Expression.parse("state.rows").elements({"state": {"rows": rows}}) is rows
    assert Expression.parse("state.rows[0].a.y").evaluate({"state": {"rows": rows}}) == 2
    [row] = Expression.parse("state.rows.filter(r, true)").elements({"state": {"rows": rows}})
    assert list(row) == ["a", "z"]
    assert list(row["a"]) == ["b", "y"]


def test_only_what_is_named_is_handed_over():
    scope = {"state": {"kind": "a", "odd": object()}}
    assert Expression.parse("state.kind == 'a'").is_true(scope)
    with pytest.raises(ExpressionError, match="Conversion Error"):
        Expression.parse("state.odd == 1").evaluate(scope)
    assert Expression.parse("state.kind == 'a' && has(state.kind) && state == state").paths[-1] == ("state",)
    assert Expression.parse("state == state && state.n == 3").is_true({"state": {"n": 3}})
    assert Expression.parse("item == 3").is_true({"item": 3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state.kind", "'state.kind' is 'question', which is neither true nor false"),
        ("state.people.filter(p, true)", "'state.people.filter(p, true)' is [{'name': 'Ada', 'tags': ['a', 'b']}, {'name': 'Bo', 'tags'…, which is neither true nor false"),
        ("state.missing == 1", "'state.missing == 1': there is no key 'missing'\n  hint: test it with has(…) first"),
        ("state.n + 1.0 > 1", "'state.n + 1.0 > 1': No such overload: the operation is not defined for the given operand types\n  hint: state.n is an integer"),
        ("1 / 0 == 1", "'1 / 0 == 1': division by zero in CEL expression"),
        ("state.items[9] == 1", "'state.items[9] == 1': index out of bounds: 9"),
        ("9223372036854775807 + 1 > 0", "'9223372036854775807 + 1 > 0': Arithmetic overflow in 'add' on 9223372036854775807 and 1."),
        ("item.x == 1", "'item.x == 1': Undefined variable or function: 'item'"),
    ],
)  # fmt: skip
def test_a_condition_that_gives_no_truth_value_says_why(text, message):
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text).is_true({"state": STATE})
    assert str(caught.value) == message


def test_a_list_is_wanted_where_elements_are():
    assert Expression.parse("state.items").elements(SCOPE) == [1, 2, 3]
    with pytest.raises(ExpressionError, match=r"'state\.n' is 3, which is not a list"):
        Expression.parse("state.n").elements(SCOPE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "mismatched input '<EOF>' at character 1 | expressions are CEL: state.kind == 'a'"),
        ("state.kind ==", "mismatched input '<EOF>' at character 14 | expressions are CEL: state.kind == 'a'"),
        ("state.kind = 'a'", "unexpected '=' at character 12 | write == to compare"),
        ("state.a & state.b", "unexpected '&' at character 9 | write && for and"),
        ("state.a and state.b", "there is no name 'and' | write && for and"),
        ("not state.a", "there is no name 'not' | write ! for not"),
        ("state.a == None", "there is no name 'None' | write null"),
        ("kind == 'a'", "there is no name 'kind' | did you mean 'state.kind'?"),
        ("stat.kind == 'a'", "there is no name 'stat' | did you mean 'state'?"),
        ("state.__class__", "'__class__' starts with '_', which is not allowed"),
        ("''.__class__.__mro__[1].__subclasses__()", "'__class__' starts with '_', which is not allowed"),
        ("_x", "'_x' starts with '_', which is not allowed"),
        ("__import__('os').system('ls')", "'__import__' starts with '_', which is not allowed"),
        ("import os", "there is no name 'import' | did you mean 'state.import'?"),
        ("open('/etc/passwd')", "there is no function 'open' | functions: all, contains, double, endsWith, exists, exists_one, filter, has, int, lower, matches, size, startsWith, string, strip"),
        ("state.kind.sartsWith('a')", "there is no function 'sartsWith' | did you mean 'startsWith'?"),
        ("state.items.map(x, x)", "there is no function 'map' | use 'filter' here, or a loop step that collects"),
        ("state.items.exists(x, x.matches('a'))", "'matches' is allowed at most 4 times, and not inside all, exists, exists_one, filter | use contains, startsWith or endsWith"),
        (" || ".join(["'a'.matches('a')"] * 5), "'matches' is allowed at most 4 times, and not inside all, exists, exists_one, filter | use contains, startsWith or endsWith"),
        ("(state.a]", "unexpected ']' at character 9"),
        ("state.a)", "unexpected ')' at character 8"),
        ("(state.a", "missing ')' at '<EOF>' at character 9 | expressions are CEL: state.kind == 'a'"),
        ("state.`a`", "unexpected '`' at character 7"),
        ("'''a'''", "three quotes in a row are not allowed"),
        ("b'a'", "there is no name 'b' | did you mean 'state.b'?"),
        ("1u", "there is no name 'u' | did you mean 'state.u'?"),
        ("2 ** 999999999", "extraneous input '*' at character 4 | expressions are CEL: state.kind == 'a'"),
        ("'\ud800'", "this is not an expression | expressions are CEL: state.kind == 'a'"),
        ("lambda: 1", "there is no name 'lambda' | did you mean 'state.lambda'?"),
        ("state.items.exists(1, true)", "argument must be a simple name at character 20 | expressions are CEL: state.kind == 'a'"),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused_with_the_reason(text, complaint):
    assert refused(text) == complaint


def test_only_the_given_names_may_be_used():
    assert Expression.parse("doc.x == 1", names={"state", "doc"}).is_true({"doc": {"x": 1}})
    assert refused("item.x", names={"state"}) == "there is no name 'item' | did you mean 'state.item'?"
    assert refused("x", names={"doc"}) == "there is no name 'x'"


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("[", "]"), ("{1: ", "}"), ("!(", ")"), ("size([", "])")])
def test_deep_nesting_is_refused(opening, closing):
    assert refused(opening * 40 + "1" + closing * 40) == "brackets are nested more than 32 levels deep"
    assert refused(opening * 10_000 + "1" + closing * 10_000).endswith("more than 2000")


@pytest.mark.parametrize(
    "text",
    [
        "1" + " + 1" * 10_000,
        "!" * 5_000 + "true",
        "state" + ".a" * 5_000,
        "true ? " * 1_000 + "1" + " : 1" * 1_000,
    ],
)
def test_a_text_that_is_too_long_is_refused(text):
    assert refused(text) == f"the expression has {len(text)} characters, more than 2000"


@pytest.mark.parametrize(
    "text",
    [
        "!!(!!!!!!(!!!!(((((!!(!!(!!!!((" * 2 + "1",
        "!" * 1_900 + "true",
        "-" * 1_900 + "1",
        "true ? " * 150 + "1" + " : 1" * 150,
        "1" + "+1" * 900,
        "'a'.matches('(a{1000}){1000}')",
        "'" + "a" * 1_000 + "'.matches('(a*)*(a*)*b')",
    ],
)
def test_no_short_text_takes_long(text):
    start_s = time.perf_counter()
    with suppress(ExpressionError):
        Expression.parse(text).evaluate({})
    assert time.perf_counter() - start_s < 30.0


def test_a_value_that_is_nested_too_deep_or_in_a_circle_is_refused():
    deep, circle = [], []
    for _ in range(100_000):
        deep = [deep]
    circle.append(circle)
    for value in (deep, circle):
        with pytest.raises(ExpressionError, match="nested more than 100 levels deep"):
            Expression.parse("size(state.value) == 1").evaluate({"state": {"value": value}})
    while deep:
        deep = deep[0]


def test_macros_nest_twice_at_most():
    assert refused("[1].all(x, [1].all(y, [1].all(z, true)))") == "macros are nested 3 deep, more than 2"
    assert Expression.parse("[1].all(x, [1].all(y, true)) && [1].all(z, true)").is_true({})


def test_growth_by_doubling_is_refused_even_in_disguise():
    doubling = "['a']" + ".map(x, x + x)" * 40
    assert refused(doubling).startswith("there is no function 'map'")
    assert refused(f"r'\\' == '' || size({doubling}) == 0 || r'\\' == ''").startswith("there is no function 'map'")
    assert refused(f"''' ' ''' == '' || {doubling} == []").startswith("three quotes")


@pytest.mark.parametrize(
    "text",
    [
        "state.long.all(x, state.long.all(y, x <= y || true))",
        "state.long.all(x, state.long == state.long)",
        "state.long.all(x, state.doc.contains('b') || true)",
        "(state.long + state.long).all(x, state.long.exists(y, y == -1) || true)",
        "state.long.filter(x, x >= 0) == []",
        "[1, 2].all(x, state.long.filter(y, y >= x) == [])",
        "state.all(k, state.long.all(x, state.long.size() > 0))",
    ],
)
def test_a_list_that_is_too_long_for_a_macro_is_refused_before_it_is_gone_through(text):
    expression = Expression.parse(text)
    start_s = time.perf_counter()
    with pytest.raises(ExpressionError, match="would take too long"):
        expression.evaluate({"state": {"long": list(range(20_000)), "doc": "a" * 1_000_000}})
    assert time.perf_counter() - start_s < 30.0


@pytest.mark.parametrize(
    "text",
    [
        "state.rows.exists(r, r.name == state.wanted)",
        "state.rows.exists_one(r, r.text == 'needle') && size(state.rows) > 4000",
        "state.rows.all(r, r.name.startsWith('row')) && state.rows.exists(r, r.text.contains('needle'))",
    ],
)
def test_lists_of_thousands_are_gone_through(text):
    rows = [{"name": f"row {n}", "n": n, "text": "x" * 500} for n in range(4_000)] + [
        {"name": "row z", "n": 0, "text": "needle"}
    ]
    assert Expression.parse(text).is_true({"state": {"rows": rows, "wanted": "row z"}})


def test_hundreds_are_filtered():
    rows = [{"name": f"row {n}", "n": n, "text": "x" * 100} for n in range(800)]
    assert len(Expression.parse("state.rows.filter(r, r.n >= 10)").elements({"state": {"rows": rows}})) == 790


def test_the_longest_run_that_is_let_through_ends_soon():
    numbers = list(range(300))
    start_s = time.perf_counter()
    assert Expression.parse("state.a.all(x, state.b.all(y, x + y >= 0))").is_true(
        {"state": {"a": numbers, "b": [1] * 9}}
    )
    assert time.perf_counter() - start_s < 30.0


@given(st.text(alphabet="state.kind()[]!&|='\" x1,_", max_size=25))
def test_a_text_is_an_expression_or_an_expression_error_and_nothing_else(text):
    with suppress(ExpressionError):
        Expression.parse(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("state.kind.strip().lower() == 'a'", True),
        ("state.kind.lower() == 'a'", False),
        ("['A', 'b'].exists(x, x.lower() == state.kind.strip().lower())", True),
    ],
)
def test_texts_are_compared_without_case_and_blanks(text, value):
    assert Expression.parse(text).evaluate({"state": {"kind": " A "}}) is value


def test_what_is_no_text_stays_as_it_is():
    assert Expression.parse("state.kind.lower() == 3").evaluate({"state": {"kind": 3}}) is True


@given(
    value=st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(0, 9)
    | st.text(max_size=3)
    | st.just([1])
    | st.just({"a": 1}),
    text=st.text(st.characters(codec="ascii", exclude_characters="'\"\\\r\n"), max_size=3),
    sign=st.sampled_from(["==", "!="]),
    mark=st.sampled_from("'\""),
    place=st.sampled_from(["state.a.b", "state.c[0]"]),
)
def test_a_comparison_with_a_text_is_what_cel_makes_of_it(value, text, sign, mark, place):
    scope = {"state": {"a": {"b": value}, "c": [value]}}
    written = f"{place} {sign} {mark}{text}{mark}"
    assert Expression.parse(written).evaluate(scope) is expression._compile(written).execute(scope)


@pytest.fixture
def without_cel(monkeypatch):
    """A machine on which CEL is not installed, such as Alpine without a compiler."""
    monkeypatch.setattr(expression, "find_spec", lambda name: None)
    expression._compiler.cache_clear()
    yield
    expression._compiler.cache_clear()


def test_what_most_routers_ask_needs_no_cel(without_cel):
    scope = {"state": {"kind": "a"}}
    assert Expression.parse("state.kind == 'a'").is_true(scope)
    assert Expression.parse("state.kind").evaluate(scope) == "a"


def test_other_expressions_name_the_extra_with_cel(without_cel):
    with pytest.raises(ExpressionError, match="this expression needs the package") as caught:
        Expression.parse("size(state.kind) > 3")
    assert "workflows]" in caught.value.hint
