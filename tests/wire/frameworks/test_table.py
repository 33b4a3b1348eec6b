"""The page that tells what frameworks do about faults tells what they really do."""

from importlib.metadata import version

import pytest

from tests.wire.frameworks.table import RENEWAL, SHOWN, observed, table_of

every_framework = pytest.mark.parametrize(
    "framework",
    [pytest.param(shown, id=shown.name, marks=pytest.mark.xdist_group(shown.group)) for shown in SHOWN],
)


@every_framework
async def test_the_table_reports_what_a_framework_does(framework):
    assert table_of(framework).differences(await observed(framework)) == [], RENEWAL


@every_framework
def test_the_page_names_the_versions_that_were_observed(framework):
    section = table_of(framework).section()
    assert [package for package in framework.packages if f"{package} {version(package)}" not in section] == []
