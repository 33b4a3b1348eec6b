"""Recording tools from many processes, and from processes that are killed; `python -m bench.soak` does more of both."""

from random import Random

from bench.soak.mcp import kill_proxies, record_together


def test_many_proxies_record_into_one_file_beside_models_and_nothing_is_lost(tmp_path):
    outcome = record_together(str(tmp_path / "run.json"), proxies=4, calls=50)
    assert outcome.trials == 200
    assert outcome.examples == []


def test_a_proxy_that_is_killed_loses_at_most_the_call_in_flight(tmp_path):
    outcome = kill_proxies(str(tmp_path / "run.json"), kills=6, random=Random(1))
    assert outcome.losses == 0
    assert outcome.examples == []
    assert outcome.trials > 6
