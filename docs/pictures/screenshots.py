"""Takes the pictures of the documentation: the report of `offbook demo`, and the viewer over runs of all kinds.

Run it: make screenshots
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1]))

from tests.report import browser  # noqa: E402
from tests.view import sample  # noqa: E402

from offbook.cli.demo.refund_tools import GaveUpError  # noqa: E402
from offbook.cli.runners.demo import SHOWN_FAULTS, refund_fixed, refund_naive  # noqa: E402
from offbook.explore import explore_function  # noqa: E402
from offbook.view.library import RunLibrary  # noqa: E402
from offbook.view.server import ViewServer  # noqa: E402

RECORDING = HERE.parents[1] / "src/offbook/cli/demo/recordings/refund.json"
VIEWS = {
    "view-runs": ("", 1200, 560, "light"),
    "view-recording": ("#/recording/refund-tuesday.json?call=4", 1200, 640, "light"),
    "view-heatmap": ("#/heatmap/refund agent", 1200, 780, "dark"),
    "view-scenarios": ("#/scenarios", 1000, 420, "light"),
    "view-compare": ("#/compare/refund-monday.json/refund-tuesday.json", 1000, 480, "light"),
    "view-phone": ("#/recording/refund-tuesday.json", 390, 780, "dark"),
}


def write_runs(folder: Path) -> None:
    """Write the sample runs, with explorations of the demo's agents as two versions of one."""
    sample.write_runs(folder)
    for version, agent in enumerate((refund_naive, refund_fixed), 1):
        explored = explore_function(agent, RECORDING, faults=SHOWN_FAULTS, declared=[GaveUpError])
        report = sample.exploration_report(replace(explored, subject="refund agent"))
        sample.write(folder / f"explored/v{version}.json", report, hours=10 + version)
    for name in ("explored/v3.json", "settings.json"):
        (folder / name).unlink()


def main(folder: Path) -> None:
    command = [Path(sys.executable).with_name("offbook"), "demo"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own command
    write_runs(folder / "runs")
    with browser.started() as chromium, ViewServer(RunLibrary([folder / "runs"])) as server:
        page = chromium.new_page(viewport={"width": 1080, "height": 880}, color_scheme="light")
        page.goto((folder / "report.html").as_uri())
        page.screenshot(path=HERE / "heatmap.png")
        for name, (at, width, height, scheme) in VIEWS.items():
            page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(server.url + at)
            page.wait_for_selector("html[data-ready]", state="attached")
            page.screenshot(path=HERE / f"{name}.png")
            page.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
