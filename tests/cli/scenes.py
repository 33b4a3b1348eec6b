"""Projects with agents under test, their scenarios, and a model that plays everybody in them."""

from tests.servers.models import ChatModel, said

AGENT = """\
async def handle(messages, ctx):
    booked = await ctx.resolve_tool("create_booking", {"time": messages[-1]["content"]})
    return f"Booked: {booked['id']}"


async def think(messages, ctx):
    response = await ctx.provider.complete(messages, "m", step_id="answer")
    return response.content
"""
CONFIG = """\
[agent]
name = "booking"
handler = "my_agent:handle"
"""
SCRIPTED = """\
from offbook import scenario
from offbook.scenarios import Trajectory

BOOKS = {"create_booking": lambda args: {"id": "BK-" + args["time"]}}
scenario("books a room", turns=["09:00"], mocks=BOOKS, assertions=Trajectory("strict", ["create_booking"]))
"""
SIMULATED = """\
from offbook import scenario

scenario("finds an order", profile="a customer", goal="know where order 42 is")
scenario("asks twice", turns=["Where is 42?", "And 43?"])
"""
MODELS = """
[user]
provider = "openai"
model = "m"

[judge]
provider = "openai"
model = "m"
metrics = ["helpfulness"]
thresholds = {{ helpfulness = {least} }}
"""
FLOW = """\
name: support
config: {provider: openai, model: m}
state: {user_input: ""}
steps:
  - {id: user, type: llm_call, prompt: "Answer: {state.user_input}", output: response}
"""
RUNNER = """\
from offbook import Workflow


def reply(text: str) -> str:
    \"\"\"Answer the customer.\"\"\"
    raise AssertionError("the real tool must not run")


workflow = Workflow("support", tools={"reply": reply}, terminal_tool="reply", system_prompt_template="You help.")
"""


GROUPED = '{"groups": [{"title": "It only says: lost", "severity": "low", "errors": [1], "description": "Look."}]}'


def everybody(prompt):
    """What a model says that plays the user, the judge and the agent, each as it is asked to."""
    if "has not begun" in prompt:
        return said('{"message": "Where is 42?", "stop": false}')
    if "Write what you say next" in prompt:
        return said('{"reason": "I know", "message": null, "stop": true, "goal_reached": true}')
    if "by helpfulness alone" in prompt:
        return said('{"reason": "It answers.", "score": 4}')
    if "Group these errors" in prompt:
        return said(GROUPED)
    return said(f"{prompt} It is lost.")


def model():
    return ChatModel(everybody)
