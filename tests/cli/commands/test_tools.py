"""`offbook tools`: finds the functions of hand-written agents that are their tools."""

import json
import shutil
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

import offbook
from tests.subjects.node_programs import require_node

PROGRAMS = Path(__file__).parents[1] / "tool_programs"
LEDGER = """
def ran(tool, order):
    with open("ledger", "a") as file:
        file.write(f"{tool} {order}\\n")
"""
RAISING = """
def ran(tool, order):
    raise SystemExit(f"{tool} ran for real")
"""
REFUND = {"order": 7, "amount": 9.5}
LOOPS = {
    "chat": ({"order": 7, "note": " late "}, {"look": "chat:look", "refund": "chat:refund"}),
    "gathered": (REFUND, {"look": "gathered:fetch_order", "refund": "gathered:send_refund"}),
    "streamed": (REFUND, {"look": "streamed:Desk.look", "refund": "streamed:Desk.refund"}),
    "responses": (REFUND, {"look": "shop.desk:handle_look", "refund": "shop.desk:handle_refund"}),
    "gemini": ({"order": 7}, {"look": "gemini:order_status", "refund": "gemini:refund"}),
    "threaded": (REFUND, {"look": "threaded:look", "refund": "threaded:refund"}),
}
"""The arguments of `refund` that the model of each program asks for, and the functions of its tools."""

CHAT = (PROGRAMS / "chat.py").read_text()
TOOLS = CHAT[CHAT.index("def look(") : CHAT.index("def ask(")]


def asks_for(**calls):
    """An answer that asks for tools: by name, the arguments."""
    return {"tool_calls": [{"id": f"c-{name}", "name": name, "arguments": given} for name, given in calls.items()]}


@pytest.fixture
def upstream(write, monkeypatch):
    """Start an API that gives these answers: `with upstream(answer, …):`."""
    write("ledger.py", LEDGER)

    def start(*answers):
        server = offbook.serving(responses={"any": [*answers, {"content": "Done."}]})
        for name, path in {"OPENAI": "/v1", "ANTHROPIC": "", "GOOGLE_GEMINI": ""}.items():
            monkeypatch.setenv(f"{name}_BASE_URL", f"{server.url}{path}")
        for name in ("OPENAI", "ANTHROPIC", "GOOGLE"):
            monkeypatch.setenv(f"{name}_API_KEY", "sk-test")
        return server

    return start


@pytest.fixture
def propose(upstream, write, run_programs):
    """Run `offbook tools --json` on chat.py with other tools; gives the exit code and each tool by its name."""

    def propose(tools, *answers, offered=()):
        program = CHAT.replace(TOOLS, tools)
        offers = [{"type": "function", "function": {"name": name}} for name in offered]
        body = f'"messages": messages, "tools": {offers}}}' if offers else '"messages": messages}'
        write("agent.py", program.replace('"messages": messages}', body))
        with upstream(*(answers or [asks_for(refund={"order": 7})])):
            code, out, err = run_programs("tools", "--json", "--", sys.executable, "agent.py")
        assert "Done." in err
        return code, {each["tool"]: each for each in json.loads(out)["tools"]}

    return propose


@pytest.mark.parametrize("name", LOOPS)
def test_the_table_of_a_loop_is_found_and_replays_it_without_its_tools(name, upstream, write, run_programs, tmp_path):
    given, functions = LOOPS[name]
    shutil.copy(PROGRAMS / f"{name}.py", tmp_path)
    shutil.copytree(PROGRAMS / "shop", tmp_path / "shop")
    program = ["--", sys.executable, f"{name}.py"]
    answers = [asks_for(look={"order": 7}), asks_for(look={"order": 8}, refund=given)]
    with upstream(*answers):
        code, out, err = run_programs("tools", *program)
    assert code == 0, err
    assert {tool: table["function"] for tool, table in tomllib.loads(out)["tools"].items()} == functions

    write("offbook.toml", out)
    with upstream(*answers):
        assert run_programs("exec", "--record", "run.json", *program)[:2] == (0, "Done.\n")
    write("ledger.py", RAISING)
    assert run_programs("exec", "--replay", "run.json", *program)[:2] == (0, "Done.\n")


def test_a_dispatcher_alone_is_not_proposed_but_named_with_what_to_do(propose):
    code, found = propose('TOOLS = {"refund": dict}\n\n')
    assert code == 1
    assert found["refund"]["status"] == "not found"
    assert found["refund"]["reason"] == (
        "only agent:run_tool (agent.py:19) was called with its arguments, and that runs several tools; "
        "move what it does for refund to a separate function"
    )


def test_a_function_that_runs_several_tools_is_not_proposed_for_any(propose):
    tools = """
def execute(arguments):
    return "done"

def pick(**arguments):
    return execute(arguments)

TOOLS = {"refund": pick, "look": pick}
"""
    code, found = propose(tools, asks_for(refund={"order": 7}, look={"order": 8}))
    assert code == 1
    assert [each["status"] for each in found.values()] == ["not found", "not found"]
    assert "runs several tools; move what it does for refund to a separate function" in found["refund"]["reason"]


def test_a_lambda_is_not_proposed_but_explained(propose):
    code, found = propose('TOOLS = {"refund": lambda order: f"refunded {order}"}\n\n')
    assert code == 1
    assert found["refund"]["status"] == "not found"
    assert "has no name; define it with def" in found["refund"]["reason"]


@pytest.mark.parametrize("wraps", ["@functools.wraps(function)", ""])
def test_a_decorated_function_is_proposed_by_its_own_name(wraps, propose):
    tools = f"""
import functools

def logged(function):
    {wraps}
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

@logged
def refund(order):
    return order

TOOLS = {{"refund": refund}}
"""
    code, found = propose(tools)
    assert (code, found["refund"]["function"]) == (0, "agent:refund")


def test_of_functions_with_equal_arguments_the_first_is_proposed_and_the_others_are_named(propose):
    tools = """
def give_back(order):
    return order

def audit(order):
    return order

TOOLS = {"refund": lambda order: (give_back(order), audit(order))}
"""
    code, found = propose(tools)
    assert (code, found["refund"]["function"], found["refund"]["others"]) == (0, "agent:give_back", ["agent:audit"])


def test_the_function_with_the_name_of_the_tool_is_proposed_whatever_is_called_before(propose):
    tools = """
def check(order):
    return order

def refund(order):
    return order

TOOLS = {"refund": lambda order: (check(order), refund(order))}
"""
    _, found = propose(tools)
    assert found["refund"]["function"] == "agent:refund"
    assert "others" not in found["refund"]


def test_equal_values_under_other_names_are_proposed_with_a_remark(propose):
    tools = """
def pay_back(number):
    return number

TOOLS = {"refund": lambda order: pay_back(number=order)}
"""
    _, found = propose(tools)
    assert found["refund"]["function"] == "agent:pay_back"
    assert "only the values" in found["refund"]["reason"]


def test_a_tool_without_arguments_is_found_by_its_name(propose):
    tools = """
def now():
    return 12

def list_orders(limit=10):
    return [limit, now()]

TOOLS = {"list_orders": list_orders}
"""
    code, found = propose(tools, asks_for(list_orders={}))
    assert (code, found["list_orders"]["function"]) == (0, "agent:list_orders")


NODE_AGENT = """
IMPORT
const call = (name, given) => ({ look: LOOK, refund: REFUND })[name](given);
async function ask(messages) {
  const body = JSON.stringify({ model: "m", messages });
  const answer = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", { method: "POST", body });
  return (await answer.json()).choices[0].message;
}
async function main() {
  const messages = [{ role: "user", content: "Refund order 7" }];
  for (let message = await ask(messages); ; message = await ask(messages)) {
    messages.push(message);
    if (!message.tool_calls) return console.log(message.content);
    for (const { id, function: asked } of message.tool_calls) {
      const content = JSON.stringify(await call(asked.name, JSON.parse(asked.arguments)));
      messages.push({ role: "tool", tool_call_id: id, content });
    }
  }
}
main();
"""
NODE_LOOPS = {
    "functions": (
        "agent.mjs",
        'import { look, refund } from "./shop.mjs";',
        ("(given) => look(given.order)", "refund"),
        "shop.mjs",
        """
        const text = `
        const refund = () => 1
        `;
        export function look(order) { return { order, text: text.length }; }
        export const refund = async ({ order }) => ({ refunded: order });
        """,
        {"look": "./shop.mjs:look", "refund": "./shop.mjs:refund"},
    ),
    "members": (
        "agent.cjs",
        'const { desk, Shop } = require("./lib/shop.cjs");',
        ("(given) => desk.look(given)", "({ order }) => new Shop().refund(order)"),
        "lib/shop.cjs",
        """
        "use strict";
        const desk = { look({ order }) { return { order }; } };
        class Shop { async refund(order) { return { refunded: order }; } }
        module.exports = { desk, Shop };
        """,
        {"look": "./lib/shop.cjs:desk.look", "refund": "./lib/shop.cjs:Shop.refund"},
    ),
}
"""The program, its import and its calls, the module with its tools, and the places of these."""


@pytest.mark.parametrize("name", NODE_LOOPS)
def test_the_table_of_a_node_loop_is_found_and_replays_it_without_its_tools(name, upstream, write, run_programs):
    require_node()
    program, imports, (look, refund), module, text, functions = NODE_LOOPS[name]
    text = dedent(text)
    write(program, NODE_AGENT.replace("IMPORT", imports).replace("LOOK", look).replace("REFUND", refund))
    write(module, text)
    answers = [asks_for(look={"order": 7}), asks_for(look={"order": 8}, refund={"order": 7})]
    with upstream(*answers):
        code, out, err = run_programs("tools", "--", "node", program)
    assert code == 0, err
    assert {tool: table["function"] for tool, table in tomllib.loads(out)["tools"].items()} == functions

    write("offbook.toml", out)
    with upstream(*answers):
        assert run_programs("exec", "--record", "run.json", "--", "node", program)[:2] == (0, "Done.\n")
    write(
        module, text.replace("return {", 'throw new Error("it ran"); return {').replace("=> ({", "=> Promise.reject({")
    )
    assert run_programs("exec", "--replay", "run.json", "--", "node", program)[:2] == (0, "Done.\n")


def test_a_tool_that_the_model_did_not_ask_for_is_listed(propose):
    code, found = propose(TOOLS, offered=("look", "refund"))
    assert code == 0
    assert {name: each["status"] for name, each in found.items()} == {"refund": "found", "look": "not asked"}


def test_the_tables_are_printed_with_comments_and_what_the_program_prints_goes_to_stderr(upstream, write, run_programs):
    tools = TOOLS.replace('"look": look', '"look": lambda **given: {**given}')
    write("agent.py", CHAT.replace(TOOLS, tools))
    with upstream(asks_for(refund={"order": 7}), asks_for(look={"order": 8})):
        code, out, err = run_programs("tools", "--record", "run.json", "--", sys.executable, "agent.py")
    assert code == 1
    assert (
        out
        == """[tools.refund]
function = "agent:refund"
# effect = true  # if it changes something outside

# look: not found: agent:<lambda> (agent.py:24) was called with its arguments, and has no name; define it with def at \
the top level of a module
""".replace("\\\n", "")
    )
    assert err.splitlines()[:3] == [
        "offbook: the program runs once, with its real models and tools; recorded in run.json",
        "Done.",
        "offbook: 1 tool found, 1 not found; paste the tables into offbook.toml, or add --write",
    ]
    assert "run.json has no results of refund: with the tables in offbook.toml, record it again: offbook exec" in err


@pytest.fixture
def recorded(upstream, write, run_programs):
    """`agent.py`, which is chat.py, and `run.json`, in which its models are recorded."""
    write("agent.py", CHAT)
    with upstream(asks_for(refund={"order": 7})):
        assert run_programs("exec", "--record", "run.json", "--", sys.executable, "agent.py")[0] == 0
    Path("ledger").unlink()


def test_a_replay_calls_no_model_and_says_that_tools_run_for_real(recorded, run_programs, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL")
    code, out, err = run_programs("tools", "--replay", "run.json", "--", sys.executable, "agent.py")
    assert (code, out.splitlines()[1]) == (0, 'function = "agent:refund"')
    assert err.startswith("offbook: models are answered from run.json; the program's tools run for real\n")
    assert Path("ledger").read_text() == "refund 7\n"


def test_a_replay_that_does_not_match_exits_with_3(recorded, run_programs):
    Path("agent.py").write_text(CHAT.replace("Refund order 7", "Refund order 8"))
    assert run_programs("tools", "--replay", "run.json", "--", sys.executable, "agent.py")[0] == 3


def test_write_adds_the_tables_and_leaves_what_is_there(recorded, write, run_programs):
    before = "# our agents\n[explore]\ndeadline = 90  # slow\n"
    write("offbook.toml", before)
    code, out, err = run_programs("tools", "--replay", "run.json", "--write", "--", sys.executable, "agent.py")
    assert (code, out) == (0, "")
    assert "written to offbook.toml" in err
    assert Path("offbook.toml").read_text() == (
        f'{before}\n[tools.refund]\nfunction = "agent:refund"\n# effect = true  # if it changes something outside\n'
    )
    code, out, err = run_programs("tools", "--replay", "run.json", "--write", "--", sys.executable, "agent.py")
    assert (code, out) == (0, "# refund: taken over already: the config names its function\n")
    assert "no tool needs a line" in err


def test_another_function_in_the_config_is_left_and_named(recorded, write, run_programs):
    before = '[tools.refund]\nfunction = "agent:repay"\n'
    write("offbook.toml", before)
    code, out, _ = run_programs("tools", "--replay", "run.json", "--write", "--", sys.executable, "agent.py")
    assert "# refund: not found: the config names agent:repay, which was not called; agent:refund was" in out
    assert code == 1
    assert Path("offbook.toml").read_text() == before


def test_tools_of_a_module_are_named_by_it(recorded, write, run_programs):
    write("desk/agent.py", CHAT)
    words = ["tools", "--replay", "run.json", "--json", "--", sys.executable, "-m", "desk.agent"]
    code, out, err = run_programs(*words)
    assert code == 0, err
    assert json.loads(out)["tools"][0]["function"] == "desk.agent:refund"


def test_a_python_that_loads_nothing_is_not_observed_and_that_is_said(recorded, run_programs):
    code, out, _ = run_programs("tools", "--replay", "run.json", "--", sys.executable, "-S", "agent.py")
    assert code == 1
    assert "the flags -S, -I and -E of Python keep offbook out of the program" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "a command is missing"),
        (["--", "there-is-none"], 2, "there-is-none: command not found"),
        (["--replay", "run.json", "--record", "b.json", "--", "python", "x"], 2, "exclude each other"),
        (
            ["--record", "run.json", "--", sys.executable, "agent.py"],
            2,
            "or replay it: offbook tools --replay run.json",
        ),
        (["--", sys.executable, "-c", "pass"], 3, "made no model call"),
        (["--", sys.executable, "-c", "raise SystemExit(7)"], 1, "failed with exit code 7"),
    ],
)
def test_what_cannot_work_is_explained(words, code, message, recorded, run_programs, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: None if name == "there-is-none" else name)
    ended, _, err = run_programs("tools", *words)
    assert ended == code
    assert message in err


def test_a_tool_that_a_framework_announces_needs_no_line(propose, write):
    write("dspy.py", "class Tool:\n    def __init__(self, func, name=None):\n        self.func = func\n")
    tools = """
from dspy import Tool

def pay_back(order):
    return order

TOOLS = {"refund": Tool(pay_back, "refund").func}
"""
    assert propose(tools) == (0, {"refund": {"tool": "refund", "status": "taken over"}})


def test_a_tool_of_an_mcp_server_needs_no_line(propose, write):
    for package in ("mcp", "mcp/client"):
        write(f"{package}/__init__.py", "")
    write(
        "mcp/client/session.py",
        "class ClientSession:\n    async def call_tool(self, name, arguments=None):\n        return 1\n",
    )
    tools = """
import asyncio
from mcp.client.session import ClientSession

def remote(arguments):
    return asyncio.run(ClientSession().call_tool("refund", arguments))

TOOLS = {"mcp__shop__refund": lambda **arguments: remote(arguments)}
"""
    code, found = propose(tools, asks_for(mcp__shop__refund={"order": 7}))
    assert (code, found["mcp__shop__refund"]["status"]) == (0, "mcp")


def test_a_run_in_which_the_model_asks_for_no_tool_says_so(upstream, write, run_programs):
    write("agent.py", CHAT)
    with upstream():
        code, out, err = run_programs("tools", "--", sys.executable, "agent.py")
    assert (code, out) == (0, "")
    assert err.endswith("offbook: the model asked for no tool\n")
