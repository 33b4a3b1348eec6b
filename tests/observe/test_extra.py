"""The extra `observability`: nobody who does without it pays for it or misses it."""

import subprocess
import sys

import pytest

from offbook import observe
from offbook.installed import install_hint

OPTIONAL = {"prometheus_client", "opentelemetry"}
REPLAY = """
import offbook, offbook.gateway.gateway as gateway
import offbook.observe
from offbook.events import Sinks
from offbook.observe import JsonLinesSink
from offbook.events import MemorySink
sink = MemorySink()
g = gateway.ProviderGateway(sink=Sinks(sink))
g.register(offbook.MockProvider(responses={"greet": {"content": "Hello!"}}, sink=sink))
assert g.complete_sync([{"role": "user", "content": "Hi"}], "m", step_id="greet").content == "Hello!"
assert len(sink.events) == 5
"""


def outcome_of(program):
    """What a program prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def without(*packages):
    """A program's beginning that makes packages look as if they were not installed."""
    return f"import sys\nfor name in {packages!r}: sys.modules[name] = None\n"


@pytest.mark.parametrize(
    "program",
    ["import offbook", "import offbook.gateway.gateway", "import offbook.observe", REPLAY],
    ids=["offbook", "gateway", "observe", "replay"],
)
def test_nothing_of_the_extra_is_loaded_unless_asked_for(program):
    loaded = outcome_of(f"{program}\nimport sys; print(*sys.modules)").split()
    assert {name.partition(".")[0] for name in loaded} & OPTIONAL == set()


def test_replay_and_the_other_sinks_do_without_the_extra():
    assert outcome_of(f"{without(*OPTIONAL)}{REPLAY}print('done')") == "done"


@pytest.mark.parametrize(
    ("sink", "package"),
    [
        ("PrometheusSink", "prometheus_client"),
        ("OtelSink", "opentelemetry"),
        ("SpanFileSink", "opentelemetry.sdk"),
        ("OtlpSink", "opentelemetry.exporter"),
    ],
)
def test_a_sink_whose_package_is_missing_says_what_to_install(sink, package):
    program = f"""{without(package)}
from offbook.errors import InputError
try:
    from offbook.observe import {sink}
except InputError as error:
    print(error.source, "|", error.reason, "|", error.hint)
"""
    source, reason, hint = outcome_of(program).split(" | ")
    assert source == sink
    assert hint == install_hint("observability")
    assert reason.endswith("is not installed")


@pytest.mark.parametrize(("sink", "other"), [("PrometheusSink", "opentelemetry"), ("OtelSink", "prometheus_client")])
def test_a_sink_does_without_the_package_of_another(sink, other):
    program = f"{without(other)}\nfrom offbook.observe import {sink}\n{sink}()\nprint('made')"
    assert outcome_of(program) == "made"


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="has no attribute 'StatsdSink'"):
        _ = observe.StatsdSink


def test_all_names_are_sorted_and_resolve():
    assert dir(observe) == observe.__all__ == sorted(observe.__all__)
    assert [getattr(observe, name).__name__ for name in observe.__all__] == observe.__all__
