"""Workflows and scenarios to explore, with their recordings written by hand."""

import json

REFUND = """\
name: refund
config: {provider: openai, model: m, retry: {max_retries: 1, backoff_s: 1.0}}
state: {order: "42"}
tools: {refund: "shop:refund"}
steps:
  - {id: plan, type: llm_call, prompt: "Refund {state.order}?", output: plan}
  - {id: pay, type: tool, depends_on: [plan], tool: refund, args: {order: "{state.order}"}, output: paid}
  - {id: tell, type: llm_call, depends_on: [pay], prompt: "Tell them: {state.paid}", output: told}
"""
SHOP = """\
from offbook import tool

@tool(side_effect=True)
def refund(order: str) -> str:
    raise AssertionError("the real tool must not run")

@tool(read_only=True)
def count(text: str) -> int:
    return int(text)
"""
REFUND_ANSWERS = {
    "plan": {"content": "yes"},
    "tell": {"content": "It is paid."},
    "_tools": {"refund": [{"arguments": {"order": "42"}, "result": "42 is paid"}]},
}
CARELESS = REFUND.replace("tool: refund,", "tool: refund, retry: {max_retries: 2},")
"""The same, which tries the refund again when its answer is lost."""

COUNT = """\
name: count
config: {provider: openai, model: m}
state: {}
tools: {count: "shop:count"}
steps:
  - {id: ask, type: llm_call, prompt: "How many?", output: number}
  - {id: read, type: tool, depends_on: [ask], tool: count, args: {text: "{state.number}"}, output: counted}
"""
COUNT_ANSWERS = {"ask": {"content": "7"}}

CONFIG = '[agent]\nname = "desk"\nhandler = "desk:handle"\n'
DESK = """\
async def handle(messages, ctx):
    print("hello")
    told = [{"role": "user", "content": messages[-1]["content"]}]
    await ctx.provider.complete(told, "m", step_id="plan")
    paid = await ctx.resolve_tool("refund", {"order": 42})
    said = await ctx.provider.complete([{"role": "user", "content": str(paid)}], "m", step_id="say")
    return said.content
"""
EAGER_DESK = """\
async def handle(messages, ctx):
    told = [{"role": "user", "content": messages[-1]["content"]}]
    await ctx.provider.complete(told, "m", step_id="plan")
    paid = {"error": "none yet"}
    while "error" in paid:
        paid = await ctx.resolve_tool("refund", {"order": 42})
    said = await ctx.provider.complete([{"role": "user", "content": str(paid)}], "m", step_id="say")
    return said.content
"""
SIM = """\
from offbook import scenario
from offbook.scenarios import Trajectory

scenario(
    "refunds",
    turns=["Order 42 never came"],
    mocks={"refund": {"paid": 42}},
    side_effects=["refund"],
    assertions=Trajectory("strict", ["refund"]),
)
"""
SIM_ANSWERS = {"refunds/desk/1/agent.plan": {"content": "yes"}, "refunds/desk/1/agent.say": {"content": "Paid."}}


def recorded(answers):
    return json.dumps({"_version": 2, **answers})


class Project:
    """A folder with workflows and scenarios in it."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def workflow(self, text=REFUND, answers=None):
        """A workflow with its tools, and its recording."""
        self.write("shop.py", SHOP)
        recording = self.write("run.json", recorded(REFUND_ANSWERS if answers is None else answers))
        return self.write("flow.yaml", text), recording

    def scenario(self, *, desk=DESK, sim=SIM, config=CONFIG, answers=None):
        """A scenario with its agent, and its recording."""
        self.write("offbook.toml", config)
        self.write("desk.py", desk)
        recording = self.write("recordings/refunds.json", recorded(SIM_ANSWERS if answers is None else answers))
        return self.write("sim_refunds.py", sim), recording
