"""Takes the picture of a heatmap for the documentation: the naive refund agent of `offbook demo`.

Run it: python docs/pictures/heatmap.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1]))

from tests.report import browser  # noqa: E402


def main(folder: Path) -> None:
    command = [Path(sys.executable).with_name("offbook"), "demo"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own command
    with browser.started() as chromium:
        page = chromium.new_page(viewport={"width": 1080, "height": 690}, color_scheme="light")
        page.goto((folder / "report.html").as_uri())
        page.screenshot(path=HERE / "heatmap.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
