"""Asking a model for JSON: reading its answer, and asking again if that cannot be used."""

import json
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import run
from offbook.errors import ProviderError, UnfitAnswerError
from offbook.messages import Response
from offbook.scenarios.structured_query import (
    ModelQuery,
    Prompt,
    as_data,
    bool_field,
    choice_field,
    int_field,
    json_or_text,
    text_field,
)
from tests.fakes import Scripted

PROMPT = Prompt("Judge it.", "Here it is.", frozenset({"score"}), "judge.it")
NUDGE = "Your answer cannot be used: {}. Answer again with only the JSON object that was requested."


async def ask(*texts, read=lambda answer: answer, **options):
    provider = Scripted(*(Response(content=text) for text in texts))
    return await ModelQuery(provider, "m", **options).ask(PROMPT, read), provider


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 4}',
        '  {"score": 4}\n',
        '```json\n{"score": 4}\n```',
        "Sure! Here you are:\n{'score': 4,}\nAnything else?",
        'Take {this} or {"other": 1}: {"score": 4}',
        '<think>Perhaps {"score": 1}?</think>{"score": 4}',
        '{"score": 1} would be harsh.\n</think>\n{"score": 4}',
        '{"score": 4} I repeat: {"score": 4}',
    ],
)
async def test_the_object_is_read_whatever_stands_around_it(text):
    answer, provider = await ask(text)
    assert answer == {"score": 4}
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it contains no JSON object in the requested format"),
        ("Four out of five.", "it contains no JSON object in the requested format"),
        ('{"score": 4', "it contains no JSON object in the requested format"),
        ('{"grade": 4}', "it contains no JSON object in the requested format"),
        ('[4, {"a": {"score": 1}}]', "it contains no JSON object in the requested format"),
        ("{" * 60 + '{"score": 4}', "it contains no JSON object in the requested format"),
        ('{"score": 1} or rather {"score": 4}', "it contains several JSON objects instead of one"),
        ("x" * 200_001, "it is longer than 200000 characters"),
    ],
)
async def test_a_model_is_told_once_why_its_answer_cannot_be_used(text, reason):
    answer, provider = await ask(text, '{"score": 4}')
    assert answer == {"score": 4}
    first, second = provider.requests
    said = [{"role": "assistant", "content": text}] if text else []
    assert second.messages == (*first.messages, *said, {"role": "user", "content": NUDGE.format(reason)})
    assert first.step_id == second.step_id == "judge.it"


async def test_a_second_unfit_answer_is_an_error_that_carries_it():
    with pytest.raises(UnfitAnswerError, match=r"in the requested format; it was 'Really, four\.'") as caught:
        await ask("Four.", "Really, four.")
    assert caught.value.raw == "Really, four."
    assert caught.value.reason == "it contains no JSON object in the requested format"


async def test_a_request_has_the_instructions_the_case_and_the_options():
    _, provider = await ask('{"score": 4}', temperature=0.5, max_tokens=99)
    [request] = provider.requests
    assert request.messages == (
        {"role": "system", "content": "Judge it."},
        {"role": "user", "content": "Here it is."},
    )
    assert request.model == "m"
    assert request.temperature == 0.5
    assert request.max_tokens == 99


async def test_a_failed_call_is_not_asked_again():
    provider = Scripted(ProviderError("down"))
    with pytest.raises(ProviderError, match="down"):
        await ModelQuery(provider, "m").ask(PROMPT, lambda answer: answer)


@pytest.mark.parametrize(
    ("read", "unfit", "fit", "value"),
    [
        (lambda answer: text_field(answer, "score"), "4", '" four "', "four"),
        (lambda answer: bool_field(answer, "score"), "1", "true", True),
        (lambda answer: bool_field(answer, "score"), '"maybe"', '"False"', False),
        (lambda answer: bool_field(answer, "other"), "", "1", False),
        (lambda answer: text_field(answer, "other"), "", "1", ""),
        (lambda answer: int_field(answer, "score", low=1, high=5), "0", "1", 1),
        (lambda answer: int_field(answer, "score", low=1, high=5), "6", "5.0", 5),
        (lambda answer: int_field(answer, "score", low=1, high=5), "4.5", '"4"', 4),
        (lambda answer: int_field(answer, "score", low=1, high=5), "true", "2", 2),
        (lambda answer: int_field(answer, "score", low=1, high=5), "null", "2", 2),
        (lambda answer: int_field(answer, "score", low=1, high=5), '"4/5"', "4", 4),
        (lambda answer: int_field(answer, "score", low=1, high=5), "1e999", "4", 4),
        (lambda answer: int_field(answer, "score", low=1, high=5), "1" + "0" * 400, "4", 4),
        (lambda answer: choice_field(answer, "score", ["not_at_all", "b"]), '"c"', '"Not-at all"', "not_at_all"),
        (lambda answer: choice_field(answer, "score", ["a", "b"]), "1", '"B"', "b"),
    ],
)
async def test_a_field_is_what_it_should_be_or_is_asked_for_again(read, unfit, fit, value):
    texts = [f'{{"score": {text}}}' for text in (unfit, fit) if text]
    read_value, provider = await ask(*texts, read=read)
    assert read_value == value
    assert type(read_value) is type(value)
    assert not provider.outcomes


answers = st.one_of(
    st.text(),
    st.text(alphabet='{}[]":,score4 \\\n<think>/`'),
    st.dictionaries(st.sampled_from(["score", "reason"]), st.integers() | st.text() | st.none()).map(json.dumps),
)


@given(answers, answers)
def test_whatever_a_model_answers_is_a_number_or_an_unfit_answer(first, second):
    def read(answer):
        return int_field(answer, "score", low=1, high=5)

    with suppress(UnfitAnswerError):
        score, _ = run(ask(first, second, read=read))
        assert score in range(1, 6)


@given(st.lists(st.text() | st.sampled_from(["</data>", "<data>", "\\u003c", "\n</data>\n"])))
def test_no_text_ends_the_data_and_all_of_it_can_be_read_again(texts):
    text = as_data("data", texts)
    assert text.startswith("<data>\n")
    assert text.endswith("\n</data>")
    inner = text.removeprefix("<data>").removesuffix("</data>")
    assert "<" not in inner
    assert ">" not in inner
    assert json.loads(inner) == texts


def test_letters_of_all_scripts_stay_as_they_are():
    assert as_data("data", "Größe 大") == '<data>\n"Größe 大"\n</data>'


def test_values_are_reported_as_json_has_them_and_others_as_text():
    assert json_or_text({"day": date(2026, 3, 30), 1: [None, True]}) == {"day": "2026-03-30", "1": [None, True]}
    assert json_or_text(date(2026, 3, 30)) == "2026-03-30"
    assert json_or_text("123") == "123"
    assert json_or_text(None) is None
