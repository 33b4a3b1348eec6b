"""Node programs that ask a model, on a recording."""

import shutil

from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan
from offbook.subjects.program.program import ProgramSubject
from tests.explore.runs import plan_of, write_recording
from tests.servers.foreign import skip_or_fail

LONG_S = 100_000
HELLO = {"content": "Hello"}
ASKS = f"""
const url = process.env.OPENAI_BASE_URL + "/chat/completions";
async function request(options = {{}}) {{
  const body = JSON.stringify({{model: "m", messages: [{{role: "user", content: "Hi"}}]}});
  return fetch(url, {{method: "POST", headers: {{"content-type": "application/json"}}, body, ...options}});
}}
async function ask(options) {{
  const answer = await request(options);
  if (!answer.ok) throw new Error(`status ${{answer.status}}`);
  return (await answer.json()).choices[0].message.content;
}}
const S = {LONG_S};
"""


def program(code, folder, *answers, fresh=False, **settings):
    """A Node program in a file, on a recording."""
    (folder / "agent.mjs").write_text(ASKS + code)
    path = write_recording(folder / "run.json", {"any": list(answers or [HELLO])})
    explore_settings = ExploreSettings(
        **{"on_divergence": "stop", "fresh": fresh, "deadline_s": 2.0 * LONG_S, **settings}
    )
    return ProgramSubject(["node", str(folder / "agent.mjs")], replay=path, settings=explore_settings)


def outputs(subject, *plans):
    """What each run prints, the clean one first."""
    with subject:
        found = [subject.run(FaultPlan()), *(subject.run(plan_of(*plan)) for plan in plans)]
        assert subject.is_forked
    return [run.result["stdout"] for run in found]


def require_node():
    """Skip a test, or fail it where Node is required, if there is no Node."""
    skip_or_fail("" if shutil.which("node") else "node is not installed", "NODE")
