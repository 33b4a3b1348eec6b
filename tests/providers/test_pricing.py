"""What tokens cost."""

import logging

import orjson
import pytest

from offbook.errors import InputError
from offbook.messages import Usage
from offbook.providers.pricing import Price, PriceTable

SMALL, LARGE = Price(prompt=1.0, completion=2.0), Price(prompt=10.0, completion=20.0)
TABLE = PriceTable({"gpt-4o": LARGE, "gpt-4o-mini": SMALL}, as_of="2026-01-31", free_providers=("ollama",))
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", LARGE),
        ("gpt-4o-mini", SMALL),
        ("gpt-4o-2024-08-06", LARGE),
        ("gpt-4o-mini-2024-07-18", SMALL),
        ("openai/gpt-4o-2024-08-06", LARGE),
        ("router/openai/gpt-4o-mini", SMALL),
        ("gpt-4o:extended", LARGE),
        ("gpt-4o@20240806", LARGE),
        ("gpt-4o.1", LARGE),
        ("gpt-4omni", None),
        ("gpt-4", None),
        ("my-gpt-4o", None),
        ("openai/", None),
        ("", None),
    ],
)
def test_a_model_costs_what_its_longest_known_prefix_costs(model, expected):
    assert TABLE.find(model) == expected


def test_a_price_under_the_full_path_goes_before_that_of_the_name():
    table = TABLE.override({"cheap/gpt-4o": SMALL, "meta/llama": SMALL})
    assert table.find("cheap/gpt-4o-2024-08-06") == SMALL
    assert table.find("meta/llama") == SMALL
    assert table.find("openai/gpt-4o") == LARGE
    assert table.find("llama") is None


def test_cost_is_by_the_million_tokens():
    assert TABLE.cost_usd("openai", "gpt-4o", Usage.of(MILLION, MILLION)) == 30.0
    assert TABLE.cost_usd("openai", "gpt-4o", Usage.of(500, 100)) == pytest.approx(0.007)
    assert TABLE.cost_usd("openai", "gpt-4o", Usage()) == 0.0


def test_cached_tokens_cost_their_own_price():
    usage = Usage.of(MILLION, 0, cached=400_000)
    assert Price(prompt=10.0, completion=20.0, cached=1.0).cost_usd(usage) == pytest.approx(6.4)


def test_cached_tokens_without_a_price_of_their_own_cost_as_much_as_others():
    assert LARGE.cost_usd(Usage.of(MILLION, 0, cached=400_000)) == pytest.approx(10.0)


def test_cached_tokens_can_be_free():
    assert Price(prompt=10.0, completion=20.0, cached=0.0).cost_usd(Usage.of(MILLION, 0, cached=MILLION)) == 0.0


def test_a_free_provider_costs_nothing_whatever_the_model(caplog):
    assert TABLE.cost_usd("ollama", "gpt-4o", Usage.of(MILLION, MILLION)) == 0.0
    assert TABLE.cost_usd("ollama", "unknown", Usage.of(MILLION, MILLION)) == 0.0
    assert caplog.records == []


def test_an_unknown_model_costs_nothing_and_is_warned_about_once(caplog):
    table = PriceTable({})
    for _ in range(3):
        assert table.cost_usd("openai", "mystery-1", Usage.of(MILLION, MILLION)) == 0.0
    table.cost_usd("openai", "mystery-2", Usage())
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "'mystery-1'" in caplog.records[0].getMessage()
    assert "'mystery-2'" in caplog.records[1].getMessage()
    assert {record.name for record in caplog.records} == {"offbook.pricing"}


def test_an_override_changes_and_adds_and_leaves_the_table_as_it_was():
    other = TABLE.override({"gpt-4o": SMALL, "new": LARGE})
    assert (other.find("gpt-4o"), other.find("new"), other.find("gpt-4o-mini")) == (SMALL, LARGE, SMALL)
    assert (other.as_of, other.free_providers) == (TABLE.as_of, TABLE.free_providers)
    assert (TABLE.find("gpt-4o"), TABLE.find("new")) == (LARGE, None)


def test_a_file_of_prices_is_loaded(tmp_path):
    path = tmp_path / "prices.json"
    models = {"mine": {"prompt": 1, "completion": 2.5, "cached": 0.5}}
    path.write_bytes(orjson.dumps({"as_of": "2026-01-31", "models": models, "free_providers": ["lab"]}))
    table = PriceTable.load(path)
    assert table.models == {"mine": Price(prompt=1.0, completion=2.5, cached=0.5)}
    assert (table.as_of, table.free_providers) == ("2026-01-31", ("lab",))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"[]", "expected an object, got a list"),
        (b'{"models": {}}', "as_of"),
        (b'{"as_of": "x"}', "models"),
        (b'{"as_of": "x", "models": {}, "extra": 1}', "unknown field 'extra'"),
        (b'{"as_of": "x", "models": {"m": {"prompt": "1", "completion": 2}}}', "models[...].prompt: expected a number"),
        (b'{"as_of": "x", "models": {"m": {"prompt": 1}}}', "completion"),
        (b'{"as_of": "x", "models": {"m": {"prompt": -1, "completion": 2}}}', "at least 0"),
        (b'{"as_of": "x", "models": {"m": {"prompt": 1, "completion": 2, "cache": 3}}}', "cache"),
        (b'{"as_of": "x", "models": {"\xff": {"prompt": 1, "completion": 2}}}', "not UTF-8"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_a_file_that_is_no_table_of_prices_is_refused_with_place_and_example(tmp_path, data, message):
    path = tmp_path / "prices.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        PriceTable.load(path)
    assert message in str(caught.value)
    assert caught.value.source == str(path)
    assert '"models"' in caught.value.hint


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json"):
        PriceTable.load(tmp_path / "nowhere.json")


def test_the_shipped_table_is_dated_and_whole():
    table = PriceTable.shipped()
    assert table.as_of
    assert "ollama" in table.free_providers
    assert table.find("openai/gpt-4o-2024-08-06") == table.models["gpt-4o"]
    for name, price in table.models.items():
        assert 0 < price.prompt <= price.completion, name
        assert price.cached is None or price.cached < price.prompt, name
