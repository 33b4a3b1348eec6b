"""Regression files collected by pytest, with one item each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offbook.errors import OffbookError
from offbook.pytest_plugin.explored_test import finding_text
from offbook.subjects.regression import load_regression, reproduce


class RegressionFile(pytest.File):
    """A file like `regress/0007.json`, with one item."""

    def collect(self) -> Iterator[RegressionItem]:
        yield RegressionItem.from_parent(self, name="regression")


class RegressionItem(pytest.Item):
    """A finding, run again. It passes when it is no longer a finding."""

    def runtest(self) -> None:
        regression = load_regression(self.path)
        result = reproduce(self.path)
        if result.is_finding:
            again = f"offbook replay --plan {shlex.quote(str(self.path))}"
            pytest.fail(finding_text(result.assessment, str(regression), again), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.name}: regression"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *style: Any) -> Any:
        error = excinfo.value
        return str(error) if isinstance(error, OffbookError) else super().repr_failure(excinfo, *style)
