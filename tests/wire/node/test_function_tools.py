"""Functions of Node programs that `[tools.NAME]` names: taken over wherever and however they are written."""

import json
import os
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from offbook.settings import ToolSettings
from offbook.wire.tool_variables import FUNCTIONS_VARIABLE, URL_VARIABLE, tool_variables
from tests.subjects.node_programs import require_node
from tests.wire.node.agents import NODES
from tests.wire.tools_of.standin import Recorded, answering

pytestmark = pytest.mark.xdist_group("node_programs")


@pytest.fixture(params=NODES)
def run(request, tmp_path):
    """Runs `program.mjs`, or another file, with tools at places; returns what it printed, and what it ran for real."""
    require_node()
    node = NODES[request.param]
    if node is None:
        pytest.skip(f"{request.param} is not installed: run `make node-agents`")

    def run(recorded, places, files, *, program="program.mjs"):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        ledger = tmp_path / "ledger"
        ledger.write_text("")
        tools = {name: ToolSettings(function=place) for name, place in places.items()}
        with answering(recorded) as url:
            own = tool_variables({}, "", tools) | {URL_VARIABLE: url, "LEDGER": str(ledger)}
            environment = os.environ | own
            ended = subprocess.run(
                [node, program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
            )
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines()], ledger.read_text().splitlines()

    return run


LEDGER = (
    'import { appendFileSync } from "node:fs"; const note = (line) => appendFileSync(process.env.LEDGER, line + "\\n");'
)
REQUIRED = LEDGER.replace("import", "const").replace('from "node:fs"', '= require("node:fs")')
ASYNC = "{ note(`refund ${order}`); return { refunded: order }; }"
ESM = {
    "function": f"export async function refund({{ order }}) {ASYNC}",
    "default function": f"export default async function refund({{ order }}) {ASYNC}",
    "plain function": f"export function refund({{ order }}) {ASYNC}",
    "positional": f"export function refund(order, unused = [1, 2]) {ASYNC}",
    "arrow": f"export const refund = async ({{ order }}) => {ASYNC};",
    "arrow with one": f"export const refund = order => {ASYNC};",
    "function expression": f"const refund = function ({{ order }}) {ASYNC};\nexport {{ refund }};",
    "renamed": f"async function pay({{ order }}) {ASYNC}\nexport {{ pay as refund }};",
    "promise": f"export function refund({{ order }}) {{ return Promise.resolve().then(() => {ASYNC}); }}",
}
METHODS = {
    "method": (
        "Shop.prototype.refund",
        f"export class Shop {{ async refund({{ order }}) {ASYNC} }}",
        "new Shop().refund",
    ),
    "short": (
        "Shop.refund",
        f"export class Shop extends Object {{ refund({{ order }}) {ASYNC} }}",
        "new Shop().refund",
    ),
    "static": ("Shop.refund", f"export class Shop {{ static refund({{ order }}) {ASYNC} }}", "Shop.refund"),
    "object": ("Shop.refund", f"export const Shop = {{ refund: async ({{ order }}) => {ASYNC} }};", "Shop.refund"),
}


def assert_taken_over(run, places, files, **more):
    """A tool is recorded as it runs, and answered without running."""
    recorded = Recorded()
    printed, ran = run(recorded, places, files, **more)
    calls = [(call["tool"], call["arguments"]) for call in recorded.calls]
    assert [note for note in recorded.notes if "problem" in note] == []
    assert (calls, ran) == ([("refund", {"order": 7})], ["refund 7"])
    recorded.is_replayed = True
    assert run(recorded, places, files, **more) == (printed, [])
    assert recorded.unanswered == []
    assert printed == [{"refunded": 7}]


@pytest.mark.parametrize("name", ESM)
def test_a_function_of_a_module_is_taken_over(run, name):
    given = "7" if name in ("positional", "arrow with one") else "{ order: 7 }"
    imported = "refund" if name == "default function" else "{ refund }"
    program = f"import {imported} from './shop.mjs';\nconsole.log(JSON.stringify(await refund({given})));"
    files = {"shop.mjs": f"{LEDGER}\n{ESM[name]}", "program.mjs": program}
    assert_taken_over(run, {"refund": "./shop.mjs:refund"}, files)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_taken_over(run, name):
    place, source, called = METHODS[name]
    program = f"import {{ Shop }} from './shop.mjs';\nconsole.log(JSON.stringify(await {called}({{ order: 7 }})));"
    files = {"shop.mjs": f"{LEDGER}\n{source}", "program.mjs": program}
    assert_taken_over(run, {"refund": f"./shop.mjs:{place}"}, files)


@pytest.mark.parametrize("source", ["function", "arrow", "plain function", "function expression"])
@pytest.mark.parametrize("place", ["__main__:refund", "program:refund", "./program.mjs:refund"])
def test_a_function_of_the_script_itself_is_taken_over_before_it_is_used(run, source, place):
    text = ESM[source].replace("export { refund };", "").replace("export ", "")
    used = "const TOOLS = { refund };\nconsole.log(JSON.stringify(await TOOLS.refund({ order: 7 })));"
    program = f"{LEDGER}\n{text}\n{used}"
    assert_taken_over(run, {"refund": place}, {"program.mjs": program})


@pytest.mark.parametrize(
    "text",
    [
        f"'use strict';\n{REQUIRED}\nfunction refund({{ order }}) {ASYNC}\nmodule.exports = {{ refund }};",
        f"{REQUIRED}\nexports.refund = async ({{ order }}) => {ASYNC};",
    ],
)
@pytest.mark.parametrize(
    "importing", ["const { refund } = require('./shop.cjs');", "import { refund } from './shop.cjs';"]
)
def test_a_function_of_commonjs_is_taken_over(run, text, importing):
    is_module = importing.startswith("import")
    program = f"{importing}\n(async () => console.log(JSON.stringify(await refund({{ order: 7 }}))))();"
    name = "program.mjs" if is_module else "program.cjs"
    files = {"shop.cjs": text, name: program}
    places = {"refund": "shop.cjs:refund"}
    assert_taken_over(run, places, files, program=name)


def test_a_function_of_a_package_is_taken_over(run):
    package = '{"name": "shop", "type": "module", "exports": {".": {"import": "./main.js"}}}'
    program = "import { refund } from 'shop';\nconsole.log(JSON.stringify(await refund({ order: 7 })));"
    source = f"{LEDGER}\n{ESM['function']}"
    packaged = {"node_modules/shop/package.json": package, "node_modules/shop/main.js": source}
    assert_taken_over(run, {"refund": "shop:refund"}, packaged | {"program.mjs": program})


def test_results_come_back_as_they_were(run):
    values = "[undefined, null, 0, '', { a: [1, { b: null }] }, [], true]"
    program = f"""
    const values = {values};
    async function give({{ index }}) {{ return values[index]; }}
    function giveAtOnce({{ index }}) {{ return values[index]; }}
    for (const index of values.keys()) {{
      for (const value of [await give({{ index }}), giveAtOnce({{ index }})]) {{
        console.log(JSON.stringify([value === undefined, value ?? null]));
      }}
    }}
    """
    recorded, places = Recorded(), {"give": "__main__:give", "giveAtOnce": "__main__:giveAtOnce"}
    printed, _ = run(recorded, places, {"program.mjs": program})
    assert printed[:4] == [[True, None], [True, None], [False, None], [False, None]]
    recorded.is_replayed = True
    assert run(recorded, places, {"program.mjs": program})[0] == printed


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("new Date(0)", "Date"),
        ("new Map()", "Map"),
        ("Buffer.from('a')", "Buffer"),
        ("NaN", "Number"),
        ("10n", "BigInt"),
    ],
)
def test_a_result_that_cannot_be_rebuilt_is_named_by_its_type(run, value, kind):
    recorded = Recorded()
    program = f"function give() {{ return {value}; }}\nconsole.log(typeof give() === 'undefined');"
    run(recorded, {"give": "__main__:give"}, {"program.mjs": program})
    assert recorded.calls[0]["ending"]["type"] == kind


def test_an_error_comes_back_with_its_class_name_and_message(run):
    program = """
    class Gone extends Error { name = "Gone"; }
    async function refund({ order }) { throw order === 1 ? new RangeError("no 1") : new Gone("no 2"); }
    const show = (error) => console.log(JSON.stringify([String(error), error instanceof RangeError]));
    for (const order of [1, 2]) await refund({ order }).catch(show);
    """
    recorded, places = Recorded(), {"refund": "__main__:refund"}
    printed, _ = run(recorded, places, {"program.mjs": program})
    assert printed == [["RangeError: no 1", True], ["Gone: no 2", False]]
    recorded.is_replayed = True
    assert run(recorded, places, {"program.mjs": program})[0] == printed


def test_a_tool_that_another_tool_calls_is_a_part_of_it(run):
    program = """
    async function look({ order }) { return order; }
    async function refund({ order }) { return await look({ order }); }
    console.log(await refund({ order: 7 }));
    """
    recorded = Recorded()
    run(recorded, {"look": "__main__:look", "refund": "__main__:refund"}, {"program.mjs": program})
    assert [call["tool"] for call in recorded.calls] == ["refund"]


def test_a_tool_that_was_not_recorded_is_refused(run):
    recorded = Recorded()
    recorded.is_replayed = True
    program = "async function refund() {}\nawait refund().catch((error) => console.log(JSON.stringify(error.name)));"
    assert run(recorded, {"refund": "__main__:refund"}, {"program.mjs": program})[0] == ["ToolRefusedError"]


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("./shop.mjs:refnd", "there is no such function"),
        ("./shop.mjs:Shop.refnd", "there is no such function"),
        ("./shop.mjs:limit", "it is not written as a function"),
        ("./shop.mjs:stream", "it is a generator"),
    ],
)
def test_a_place_that_has_no_function_is_noted(run, place, problem):
    shop = "export class Shop {}\nexport const limit = 3;\nexport async function* stream() {}"
    recorded = Recorded()
    run(recorded, {"refund": place}, {"shop.mjs": shop, "program.mjs": "import './shop.mjs';"})
    assert recorded.notes == [{"tool": "refund", "function": place, "problem": problem}]


def test_a_program_keeps_the_numbers_of_its_lines(run):
    program = """
    import { refund } from "./shop.mjs";
    const lineOf = ({ stack }) => stack.split("\\n")[1].match(/shop.mjs:(\\d+)/)[1];
    await refund({}).catch((error) => console.log(JSON.stringify(lineOf(error))));
    """
    shop = "// a comment\nexport const refund = async () => {\n  throw new Error('no');\n};\n"
    assert run(Recorded(), {"refund": "./shop.mjs:refund"}, {"shop.mjs": shop, "program.mjs": program})[0] == ["3"]


def test_the_variables_of_node_keep_what_was_there():
    variables = tool_variables({"NODE_OPTIONS": "--no-warnings"}, "http://localhost:1", {})
    assert variables["NODE_OPTIONS"].startswith("--no-warnings --require ")
    assert Path(json.loads(variables["NODE_OPTIONS"].partition("--require ")[2])).exists()
    assert FUNCTIONS_VARIABLE not in variables
