"""The Grafana dashboard: every panel shows something of a run that a real Prometheus has scraped."""

import json
import math
import re
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from offbook.clock import run
from offbook.observe import PrometheusSink
from tests.observe import prometheus_server
from tests.observe.traffic import drive

DASHBOARD = json.loads((Path(__file__).parents[2] / "dashboards/offbook.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]
VARIABLES = {"$__rate_interval": "1m", "$workflow": ".*"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A Prometheus that has seen the same run twice."""
    prometheus_server.require()
    folder = tmp_path_factory.mktemp("prometheus")
    with PrometheusSink() as sink, prometheus_server.scraping(sink.serve(), folder) as server:
        for _ in range(2):
            run(drive(sink, folder), virtual_time=True)
            server.wait_for_scrape()
        yield server


def substituted(expression):
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


@pytest.mark.parametrize("expression", QUERIES)
def test_every_query_gives_a_figure(prometheus, expression):
    samples = prometheus.query(substituted(expression))
    assert [sample for sample in samples if not math.isnan(float(sample["value"][1]))]


def test_a_panel_tells_the_truth(prometheus):
    (hits, defaults), (replays,) = (
        [prometheus.query(substituted(target["expr"]))[0]["value"][1] for target in panel["targets"]]
        for title in ("Hit ratio", "Total replays")
        for panel in PANELS
        if panel["title"] == title
    )
    assert float(hits) == pytest.approx(5 / 6)
    assert float(defaults) == pytest.approx(1 / 6)
    assert float(replays) == 12


def test_the_rows_are_what_the_panels_are_about():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Mock & Replay", "Faults & Resilience", "Cost"]


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert not [pair for pair in combinations(places, 2) if overlap(*pair)]


def overlap(one, other):
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not beside and not apart


def test_every_panel_asks_the_datasource_that_is_chosen():
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert all(asking["datasource"] == chosen for panel in PANELS for asking in (panel, *panel["targets"]))
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "workflow"}


def test_no_variable_is_unknown():
    used = {name for query in QUERIES for name in re.findall(r"\$\w+", query.values[0])}
    assert used == set(VARIABLES)


def test_the_dashboard_shows_every_metric_and_no_other():
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(PrometheusSink().render().decode())
    }
    shown = {name for query in QUERIES for name in re.findall(r"offbook_\w+", query.values[0])}
    assert {name.removesuffix("_bucket") for name in shown} == exposed


EXAMPLE = Path(__file__).parents[2] / "examples/observability"


def read(name):
    return yaml.safe_load((EXAMPLE / name).read_text())


def test_every_file_that_the_example_mounts_is_there():
    services = read("compose.yaml")["services"].values()
    mounted = [EXAMPLE / volume.partition(":")[0] for service in services for volume in service["volumes"]]
    assert [path for path in mounted if not path.exists()] == []
    assert any((path / "offbook.json").exists() for path in mounted)


def test_the_parts_of_the_example_meet_at_their_addresses():
    collector, datasources = read("collector.yaml"), read("grafana/datasources.yaml")["datasources"]
    scraped = {job["job_name"]: job["static_configs"][0]["targets"] for job in read("prometheus.yml")["scrape_configs"]}
    assert scraped["collector"] == [collector["exporters"]["prometheus"]["endpoint"]]
    tempo = read("tempo.yaml")
    taken = tempo["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]
    assert taken == collector["exporters"]["otlp"]["endpoint"]
    assert datasources[1]["url"] == f"http://127.0.0.1:{tempo['server']['http_listen_port']}"
    folder = read("grafana/dashboards.yaml")["providers"][0]["options"]["path"]
    assert f"../../dashboards:{folder}:ro" in read("compose.yaml")["services"]["grafana"]["volumes"]


def test_each_metric_over_http_has_a_panel():
    shown = " ".join(query.values[0] for query in QUERIES)
    assert [name for name in ("offbook_tokens_total", "offbook_cost_usd_total") if name not in shown] == []
