"""Takes the picture of a heatmap for the documentation: of the refund agent, in a loop that starts over on any error.

Run it: python docs/pictures/heatmap.py
"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE.parents[1]), str(HERE.parents[1] / "examples")]

from tests.report import browser  # noqa: E402

from local_model import serving  # noqa: E402
from offbook import run  # noqa: E402
from offbook.explore.harness import Harness  # noqa: E402
from offbook.explore.options import ExploreOptions  # noqa: E402
from offbook.explore.runner import Exploration, Explorer  # noqa: E402
from offbook.explore.variants import select_variants  # noqa: E402
from offbook.report.exploration import exploration_reporter_of, report_exploration  # noqa: E402
from offbook.subjects.function import FunctionSubject  # noqa: E402
from refund_agent import TOOLS, ask, model, record  # noqa: E402


async def refund_agent(harness: Harness) -> object:
    for _ in range(3):
        try:
            return (await ask(harness.provider, harness.tools(TOOLS))).result
        except Exception:  # noqa: S112
            continue
    raise RuntimeError("gave up")


def explored(folder: Path) -> Exploration:
    with serving(model) as url:
        run(record(folder / "refund.json", url))
    return Explorer(
        FunctionSubject(refund_agent, folder / "refund.json"), ExploreOptions(variants=select_variants("all"))
    ).explore()


def main(folder: Path) -> None:
    page_file = folder / "report.html"
    report_exploration(explored(folder), exploration_reporter_of(f"html={page_file}", reproduce=str))
    with browser.started() as chromium:
        page = chromium.new_page(viewport={"width": 1000, "height": 610}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.screenshot(path=HERE / "heatmap.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
