"""axe-core, the accessibility checker that nobody here wrote, in a page of the browser."""

import shutil
from functools import cache
from pathlib import Path

from tests.servers.foreign import skip_or_fail

SCRIPT = Path(__file__).parents[3] / ".scratch/axe/node_modules/axe-core/axe.min.js"
RUN = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`)"""


def reason_to_skip():
    """Why axe-core cannot run here, or nothing if it can."""
    if shutil.which("npm") is None:
        return "npm is not installed"
    return "" if SCRIPT.exists() else "axe-core is not installed: run `make axe`"


def require():
    """Skip the test where axe-core cannot run, or fail it if it is required."""
    skip_or_fail(reason_to_skip(), "NODE")


@cache
def _script():
    return SCRIPT.read_text()


def serious_problems(page):
    """Return what axe-core finds serious or critical on a page, as text. The page's policy lets no script in but ours:
    the tools of the browser may evaluate one."""
    page.evaluate(_script())
    return page.evaluate(RUN)
