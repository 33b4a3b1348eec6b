"""What tokens cost."""

import inspect
import logging
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module

import orjson
import pytest

from offbook.errors import InputError
from offbook.messages import Usage
from offbook.providers.pricing import Price, PriceTable, PriceTier
from offbook.providers.provider import Provider

SMALL, LARGE = Price(prompt=1.0, completion=2.0), Price(prompt=10.0, completion=20.0)
TABLE = PriceTable({"gpt-4o": LARGE, "gpt-4o-mini": SMALL}, as_of="2026-01-31", free_providers=("ollama",))
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", LARGE),
        ("gpt-4o-mini", SMALL),
        ("gpt-4o-2024-08-06", LARGE),
        ("gpt-4o-20240806", LARGE),
        ("gpt-4o-mini-2024-07-18", SMALL),
        ("gpt-4o-latest", LARGE),
        ("openai/gpt-4o-2024-08-06", LARGE),
        ("router/openai/gpt-4o-mini", SMALL),
        ("gpt-4o@20240806", LARGE),
        ("gpt-4o.1", None),
        ("gpt-4o-nano", None),
        ("gpt-4o-2024-08-06-large", None),
        ("gpt-4omni", None),
        ("gpt-4", None),
        ("my-gpt-4o", None),
        ("openai/", None),
        ("", None),
    ],
)
def test_a_price_counts_for_its_name_with_a_path_or_a_date_and_for_no_other(model, expected):
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
    table.cost_usd("openai", "mystery-2", Usage.of(1, 1))
    table.cost_usd("openai", "mystery-3", Usage())
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "'mystery-1'" in caplog.records[0].getMessage()
    assert "'mystery-2'" in caplog.records[1].getMessage()
    assert {record.name for record in caplog.records} == {"offbook.pricing"}


def test_an_override_changes_and_adds_and_leaves_the_table_as_it_was():
    other = TABLE.override({"gpt-4o": SMALL, "new": LARGE})
    assert other.find("gpt-4o") == SMALL
    assert other.find("new") == LARGE
    assert other.find("gpt-4o-mini") == SMALL
    assert other.as_of == TABLE.as_of
    assert other.free_providers == TABLE.free_providers
    assert TABLE.find("gpt-4o") == LARGE
    assert TABLE.find("new") is None


def test_a_file_of_prices_is_loaded(tmp_path):
    path = tmp_path / "prices.json"
    models = {"mine": {"prompt": 1, "completion": 2.5, "cached": 0.5}}
    path.write_bytes(orjson.dumps({"as_of": "2026-01-31", "models": models, "free_providers": ["lab"]}))
    table = PriceTable.load(path)
    assert table.models == {"mine": Price(prompt=1.0, completion=2.5, cached=0.5)}
    assert table.as_of == "2026-01-31"
    assert table.free_providers == ("lab",)


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
        (b"\xff\xfe", "not UTF-8"),
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


GPT_5_6_IN_JULY, GPT_5_6_IN_OCTOBER = datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("provider", "model", "prompt", "completion"),
    [
        ("openai", "gpt-5", 1.25, 10.0),
        ("openai", "gpt-5.6", 4.0, 20.0),
        ("openai_responses", "gpt-5.6", 4.0, 20.0),
        ("mine", "gpt-5.6", 4.0, 20.0),
        ("anthropic", "claude-opus-4-8", 5.0, 25.0),
        ("openai", "anthropic/claude-opus-4-8", 5.0, 25.0),
        ("anthropic", "claude-opus-4-1-20250805", 15.0, 75.0),
        ("openai", "gpt-4o-2024-08-06", 2.5, 10.0),
        ("openai", "text-embedding-3-small", 0.02, 0.0),
    ],
)
def test_newer_models_cost_what_they_cost_and_not_what_older_ones_do(provider, model, prompt, completion):
    price = PriceTable.shipped().find(model, provider=provider, at=GPT_5_6_IN_OCTOBER)
    assert price.prompt == prompt
    assert price.completion == completion


@pytest.mark.parametrize("model", ["gpt-5.6-imaginary", "gpt-99", "o3-imaginary", "my-model", "a/b/c", "", "whisper-1"])
def test_a_model_that_nobody_knows_has_no_price_whatever_its_name_begins_with(model):
    assert PriceTable.shipped().find(model, provider="openai") is None


def test_a_call_costs_what_it_did_at_its_moment():
    table, usage = PriceTable.shipped(), Usage.of(100_000, 0)
    assert table.cost_usd("openai", "gpt-5.6", usage, at=GPT_5_6_IN_JULY) == pytest.approx(0.5)
    assert table.cost_usd("openai", "gpt-5.6", usage, at=GPT_5_6_IN_OCTOBER) == pytest.approx(0.4)


def test_without_a_moment_the_newest_price_counts_whatever_the_day():
    assert PriceTable.shipped().find("gpt-5.6") == PriceTable.shipped().find(
        "gpt-5.6", at=datetime.max.replace(tzinfo=UTC)
    )


def test_a_long_prompt_costs_the_price_of_its_tier():
    price = Price(1.0, 2.0, 0.5, tiers=(PriceTier(1000, 10.0, 20.0, 5.0), PriceTier(2000, 100.0, 200.0)))
    assert price.cost_usd(Usage.of(1000, 0)) == pytest.approx(1000e-6)
    assert price.cost_usd(Usage.of(1001, 1, cached=1)) == pytest.approx((1000 * 10 + 5 + 20) / MILLION)
    assert price.cost_usd(Usage.of(2001, 1, cached=1)) == pytest.approx((2001 * 100 + 200) / MILLION)
    known = PriceTable.shipped().find("gpt-5.6", at=GPT_5_6_IN_OCTOBER)
    assert known.tiers == (PriceTier(272_000, 8.0, 30.0, 0.8),)


def test_prices_that_a_user_states_go_before_known_ones():
    table = PriceTable.shipped().override({"gpt-5.6": SMALL})
    assert table.find("gpt-5.6") == SMALL
    assert table.find("openai/gpt-5.6-2026-07-01") == SMALL
    assert table.find("gpt-5") == PriceTable.shipped().find("gpt-5")


def test_the_variable_names_a_file_of_prices_that_go_before_known_ones(tmp_path, monkeypatch):
    path = tmp_path / "prices.json"
    path.write_text('{"as_of": "x", "models": {"gpt-5.6": {"prompt": 1, "completion": 2}}, "free_providers": ["lab"]}')
    monkeypatch.setenv("OFFBOOK_PRICES", str(path))
    table = PriceTable.default()
    assert table.find("gpt-5.6", provider="openai") == SMALL
    assert table.find("gpt-5") == PriceTable.shipped().find("gpt-5")
    assert table.free_providers == ("ollama", "lab")


def test_a_budget_requires_a_price():
    table = PriceTable.shipped().override({"mine": SMALL})
    table.require("mine", provider="lab")
    table.require("gpt-5.6", provider="openai")
    table.require("whatever", provider="ollama")
    with pytest.raises(InputError, match=r"no price is known for model 'gpt-99'") as caught:
        table.require("gpt-99", provider="openai")
    assert '"gpt-99": {"prompt": 1.0, "completion": 2.0}' in caught.value.hint


def test_nothing_loads_the_library_before_a_price_is_needed():
    code = (
        "import sys; from offbook import Usage; from offbook.providers import PriceTable, Price;"
        "table = PriceTable.default().override({'m': Price(1, 1)});"
        "table.cost_usd('openai', 'm', Usage.of(1, 1)); table.cost_usd('ollama', 'x', Usage.of(1, 1));"
        "table.cost_usd('openai', 'x', Usage()); assert 'genai_prices' not in sys.modules;"
        "table.cost_usd('openai', 'gpt-5', Usage.of(1, 1)); assert 'genai_prices' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def wrappers(kind=Provider):
    for each in kind.__subclasses__():
        if each.__module__.startswith("offbook.") and "self._provider" in inspect.getsource(each):
            yield each
        yield from wrappers(each)


def test_every_wrapper_passes_the_question_for_a_price_on():
    """Providers of explorations and replays have nothing to pay for."""
    for module in ("config.participants", "pytest_plugin.fixture", "workflow.runs.calls", "explore.harness"):
        import_module(f"offbook.{module}")
    silent = {each.__name__ for each in wrappers() if each.check_price is Provider.check_price}
    assert silent == {"ObservedProvider"}
