"""The function tools of programs: recorded, replayed without running, broken and explored, without a change to them."""

import json
import sys
from pathlib import Path

import pytest

import offbook

AGENT = """
import asyncio, json, os, sys, urllib.request
from shop import send_mail

def refund(order: int, note: str = "") -> dict:
    open("ledger", "a").write(f"refund {order}\\n")
    if order == 13:
        raise LookupError("there is no order 13")
    return {"refunded": order}

async def look(order: int) -> str:
    open("ledger", "a").write(f"look {order}\\n")
    return f"order {order}"

TOOLS = {"refund": refund, "look": lambda **given: asyncio.run(look(**given)), "send_mail": send_mail}

def ask(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.loads(urllib.request.urlopen(request).read())["choices"][0]["message"]

messages = [{"role": "user", "content": "Refund order 7"}]
while (message := ask(messages)).get("tool_calls"):
    messages.append(message)
    for call in message["tool_calls"]:
        for _ in range(int(os.environ.get("TRIES", "1"))):
            try:
                result = json.dumps(TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"])))
                break
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(message["content"])
"""
SHOP = """
def send_mail(to: str) -> str:
    open("ledger", "a").write(f"mail {to}\\n")
    return "sent"
"""
CONFIG = """
[tools.refund]
function = "agent:refund"
effect = true
[tools.look]
function = "__main__:look"
read_only = true
[tools.send_mail]
function = "shop:send_mail"
effect = true
"""
PROGRAM = ["--", sys.executable, "agent.py"]


def asks_for(**calls):
    """An answer that asks for tools: by name, the arguments."""
    called = [{"id": f"c-{name}", "name": name, "arguments": given} for name, given in calls.items()]
    return {"tool_calls": called}


@pytest.fixture
def project(write, monkeypatch, run_programs):
    """A program with three tools, and `run.json`, in which it is recorded."""
    for name, text in {"agent.py": AGENT, "shop.py": SHOP, "offbook.toml": CONFIG}.items():
        write(name, text)
    answers = [asks_for(look={"order": 7}), asks_for(refund={"order": 7}, send_mail={"to": "a@b.c"})]
    with offbook.serving(responses={"any": [*answers, {"content": "Done."}]}) as upstream:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        code, out, err = run_programs("exec", "--record", "run.json", *PROGRAM)
    assert (code, out) == (0, "Done.\n"), err
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert Path("ledger").read_text() == "look 7\nrefund 7\nmail a@b.c\n"
    Path("ledger").unlink()
    return run_programs


def test_calls_are_recorded_with_what_the_model_gave_and_what_the_tools_returned(project):
    tools = json.loads(Path("run.json").read_text())["_tools"]
    found = {name: [(each["arguments"], each["result"]) for each in calls] for name, calls in tools.items()}
    assert found == {
        "look": [({"order": 7}, "order 7")],
        "refund": [({"order": 7}, {"refunded": 7})],
        "send_mail": [({"to": "a@b.c"}, "sent")],
    }


def test_a_replay_runs_no_tool(project):
    code, out, _ = project("exec", "--replay", "run.json", *PROGRAM)
    assert code == 0
    assert out == "Done.\n"
    assert not Path("ledger").exists()


def test_tools_run_for_real_if_that_is_asked_for(project):
    assert project("exec", "--replay", "run.json", "--run-tools", *PROGRAM)[0] == 0
    assert Path("ledger").read_text() == "look 7\nrefund 7\nmail a@b.c\n"


@pytest.mark.parametrize("kind", ["os:system", "subprocess:Popen", "antigravity:fly", "__main__:ask", "builtins:exec"])
def test_nothing_is_loaded_or_called_because_a_recording_names_it(project, kind):
    document = json.loads(Path("run.json").read_text())
    document["_tools"]["refund"][0] |= {"result_type": kind, "result": "touch proof"}
    Path("run.json").write_text(json.dumps(document))
    project("exec", "--replay", "run.json", *PROGRAM)
    assert not Path("proof").exists()
    assert not Path("ledger").exists()


def test_one_tool_runs_for_real_if_the_config_says_so(project, write):
    write("offbook.toml", CONFIG.replace('function = "shop:send_mail"', 'function = "shop:send_mail"\nrun = true'))
    assert project("exec", "--replay", "run.json", *PROGRAM)[0] == 0
    assert Path("ledger").read_text() == "mail a@b.c\n"


def test_a_tool_whose_calls_are_not_recorded_is_refused_and_does_not_run(project):
    document = json.loads(Path("run.json").read_text())
    del document["_tools"]["refund"]
    Path("run.json").write_text(json.dumps(document))
    code, _, err = project("exec", "--replay", "run.json", *PROGRAM)
    assert code == 3
    assert "record it again, or let it run for real: --run-tools, or [tools.refund] run = true" in err
    assert not Path("ledger").exists()


def test_a_fault_of_a_tool_fires_and_a_retry_gets_the_answer(project, monkeypatch):
    monkeypatch.setenv("TRIES", "2")
    line = "tool=refund call=1: tool_lost"
    code, out, err = project("exec", "--replay", "run.json", "--fault", line, *PROGRAM)
    assert code == 0
    assert out == "Done.\n"
    assert f"1 fault fired: {line}" in err
    assert not Path("ledger").exists()


def test_an_exploration_finds_the_refund_that_is_sent_twice_and_runs_nothing(project, monkeypatch):
    monkeypatch.setenv("TRIES", "2")
    words = ["explore", "--replay", "run.json", "--faults", "tool_lost", "--json"]
    code, out, _ = project(*words, *PROGRAM)
    found = {case["case"]: case["verdict"] for case in json.loads(out)["explored"]}
    assert code == 1
    assert found["tool=refund call=1: tool_lost"] == "repeated effect"
    assert found["tool=look call=1: tool_lost"] == "recovered"
    assert not Path("ledger").exists()


def test_a_program_whose_tools_take_long_does_not_hang(project, monkeypatch):
    monkeypatch.setenv("TRIES", "3")
    _, out, _ = project("explore", "--replay", "run.json", "--faults", "tool_timeout", "--json", *PROGRAM)
    explored = json.loads(out)["explored"]
    assert len(explored) == 6
    assert "was not waiting for an answer" not in str(explored)


def test_what_differs_from_the_recorded_results_is_said_if_tools_run_for_real(project, write):
    write("shop.py", SHOP.replace('return "sent"', 'return "queued"'))
    write("agent.py", AGENT.replace("order == 13", "order == 7"))
    _, _, err = project("exec", "--replay", "run.json", "--run-tools", *PROGRAM)
    assert 'send_mail(to="a@b.c") returned queued today; recorded: it returned sent' in err
    raised = "refund(order=7) raised LookupError: there is no order 13 today"
    assert f'{raised}; recorded: it returned {{"refunded":7}}' in err
    assert "look(" not in err


def test_a_function_that_is_not_there_is_named(project, write):
    write("offbook.toml", CONFIG.replace("agent:refund", "agent:refnd"))
    code, _, err = project("exec", "--replay", "run.json", *PROGRAM)
    assert code == 3
    assert "no such function" in err
    assert "the program ran refund for real: it is recorded, but was not taken over" in err
    assert Path("ledger").read_text() == "refund 7\n"


@pytest.mark.parametrize("command", ["exec", "explore"])
def test_a_recording_knows_where_its_tools_were(command, project):
    Path("offbook.toml").unlink()
    code, out, err = project(
        command, "--replay", "run.json", "--quiet", *(["--list"] * (command == "explore")), *PROGRAM
    )
    assert code == 0, err
    assert "refund" in out if command == "explore" else out == "Done.\n"
    assert not Path("ledger").exists()


@pytest.mark.parametrize("place", ["shop", "shop:send mail", "shop:a=b", "shop:f\nother=os:system"])
def test_a_recorded_place_is_a_module_and_a_name(place, project):
    document = json.loads(Path("run.json").read_text())
    document["_meta"]["program_tools"]["functions"]["refund"] = place
    Path("run.json").write_text(json.dumps(document))
    code, _, err = project("exec", "--replay", "run.json", *PROGRAM)
    assert code == 2
    assert "run.json: _meta.program_tools.functions: 'refund' is at" in err
    assert not Path("ledger").exists()


@pytest.fixture
def untaken(project, write):
    """The program without its config, and a recording of its conversation alone."""
    write("offbook.toml", "")
    document = json.loads(Path("run.json").read_text())
    del document["_tools"], document["_meta"]
    write("run.json", json.dumps(document))
    return project


def test_a_program_whose_tools_would_run_for_real_is_not_started(untaken):
    code, out, err = untaken("exec", "--replay", "run.json", *PROGRAM)
    assert (code, out) == (2, "")
    assert "no result of look, refund, send_mail is recorded: the program would run its tools for real" in err
    assert f'say where it is: [tools.look] function = "module:name"; to find it: offbook tools {PROGRAM[0]}' in err
    assert not Path("ledger").exists()


@pytest.mark.parametrize("allowed", ["run", "read_only", "--run-tools"])
def test_tools_whose_results_are_not_recorded_run_if_that_is_allowed(allowed, untaken, write):
    if allowed != "--run-tools":
        write(
            "offbook.toml", "".join(f"[tools.{tool}]\n{allowed} = true\n" for tool in ("look", "refund", "send_mail"))
        )
    assert untaken("exec", "--replay", "run.json", *[allowed] * (allowed == "--run-tools"), *PROGRAM)[0] == 0
    assert Path("ledger").read_text() == "look 7\nrefund 7\nmail a@b.c\n"


def test_a_tool_that_nobody_announces_is_named_with_what_finds_it(project, write):
    write("offbook.toml", "")
    write("answers.json", json.dumps({"_version": 2, "any": [asks_for(refund={"order": 7}), {"content": "Done."}]}))
    code, _, err = project("exec", "--replay", "answers.json", *PROGRAM)
    assert code == 0
    assert "no result of refund is recorded: a tool is refused if it can be taken over, and else runs for real" in err
    assert "the calls of refund were not replayed" in err
    assert f'say where it is: [tools.refund] function = "module:name"; to find it: offbook tools {PROGRAM[0]}' in err
    assert "were not" in project("exec", "--replay", "answers.json", "--quiet", *PROGRAM)[2]


@pytest.fixture
def returning(write, monkeypatch, run_programs):
    """Record a program whose tool `refund` returns something else, as the source has it; gives what was said."""

    def record(returned, config=CONFIG):
        agent = AGENT.replace('return {"refunded": order}', f"return {returned}").replace(
            "json.dumps(TOOLS", "ascii(TOOLS"
        )
        for name, text in {"agent.py": agent, "shop.py": SHOP, "offbook.toml": config}.items():
            write(name, text)
        with offbook.serving(responses={"any": [asks_for(refund={"order": 7}), {"content": "Done."}]}) as upstream:
            monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
            monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
            code, out, err = run_programs("exec", "--record", "run.json", *PROGRAM)
        monkeypatch.delenv("OPENAI_BASE_URL")
        assert (code, out) == (0, "Done.\n"), err
        return err

    return record


def test_a_tool_whose_result_cannot_be_rebuilt_runs_in_a_replay_and_is_named(returning, run_programs):
    err = returning("{order}", CONFIG.replace("effect = true", "effect = false"))
    assert "refund returned a set, which cannot be rebuilt: in a replay, refund runs for real" in err
    code, out, err = run_programs("exec", "--replay", "run.json", "--quiet", *PROGRAM)
    assert code == 0
    assert out == "Done.\n"
    assert "refund ran for real: it returned a set, which cannot be rebuilt from a recording" in err
    assert Path("ledger").read_text() == "refund 7\nrefund 7\n"


@pytest.mark.parametrize("returned", ["{order}", '{"fee": float("nan")}', '"half a character: \\ud83d"', "b'7'"])
def test_a_tool_with_an_effect_whose_result_cannot_be_rebuilt_is_refused(returning, run_programs, returned):
    assert "which cannot be rebuilt: in a replay, refund is refused, as it has an effect" in returning(returned)
    code, _, err = run_programs("exec", "--replay", "run.json", *PROGRAM)
    assert code == 3
    assert "let it run for real: --run-tools, or [tools.refund] run = true" in err
    code, _, err = run_programs("explore", "--replay", "run.json", *PROGRAM)
    assert code == 2
    assert "no result of refund can be replayed" in err
    assert "what it returned cannot be rebuilt from a recording" in err
    assert Path("ledger").read_text() == "refund 7\n"


@pytest.mark.parametrize("place", ["shop.refund", "shop:", ":refund"])
def test_a_function_is_a_module_and_a_name(project, write, place):
    write("offbook.toml", CONFIG.replace("agent:refund", place))
    code, _, err = project("exec", "--replay", "run.json", *PROGRAM)
    assert code == 2
    assert f"offbook.toml:3: tools.refund.function: expected module:name, got {place!r}" in err


def test_a_module_that_is_never_loaded_is_named(project, write):
    write("offbook.toml", CONFIG.replace("agent:refund", "agnt:refund"))
    code, _, err = project("exec", "--replay", "run.json", "--fault", "tool=refund call=1: tool_lost", *PROGRAM)
    assert code == 3
    assert "[tools.refund] names agnt:refund, which was not called" in err
    assert "never fired: refund was not taken over" in err
    code, _, err = project("explore", "--replay", "run.json", *PROGRAM)
    assert code == 2
    assert "recorded, but not taken over in this run, so the program ran it for real: refund" in err


def test_a_call_whose_arguments_do_not_fit_raises_as_ever_and_is_no_call_of_the_tool(project, write):
    write("agent.py", AGENT.replace('(**json.loads(call["function"]["arguments"]))', "(ordr=7)"))
    _, _, err = project("exec", "--replay", "run.json", *PROGRAM)
    assert "unexpected keyword argument 'ordr'" in err
    assert "tool look" not in err


def test_an_exploration_with_real_tools_counts_what_the_ledger_has(project):
    _, _, err = project("explore", "--replay", "run.json", "--run-tools", "--faults", "tool_error", *PROGRAM)
    ran = [line.split()[0] for line in Path("ledger").read_text().splitlines()]
    counts = {"look": ran.count("look"), "refund": ran.count("refund"), "send_mail": ran.count("mail")}
    told = ", ".join(f"{tool} {count} time{'s' * (count > 1)}" for tool, count in counts.items() if count)
    assert f"note: tools ran for real in all: {told}\n" in err


EARLY = AGENT.replace("messages = [{", "print(refund(3), asyncio.run(look(3)), sys.gettrace())\nmessages = [{", 1)


@pytest.fixture
def early(write, monkeypatch, run_programs):
    """A script that calls its own tools before it asks a model, and `run.json`, in which it is recorded."""
    write("offbook.toml", CONFIG)
    write("shop.py", SHOP)
    write("agent.py", EARLY)
    with offbook.serving(responses={"any": {"content": "Done."}}) as upstream:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        code, out, err = run_programs("exec", "--record", "run.json", *PROGRAM)
    assert (code, out) == (0, "{'refunded': 3} order 3 None\nDone.\n"), err
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert Path("ledger").read_text() == "refund 3\nlook 3\n"
    Path("ledger").unlink()
    return run_programs


def test_a_script_s_own_tools_are_replayed_before_it_asks_a_model(early):
    code, out, _ = early("exec", "--replay", "run.json", *PROGRAM)
    assert (code, out) == (0, "{'refunded': 3} order 3 None\nDone.\n")
    assert not Path("ledger").exists()


def test_an_exploration_sees_tools_that_are_called_before_a_model_is_asked(early):
    code, out, _ = early("explore", "--replay", "run.json", "--faults", "tool_lost,http_error", "--json", *PROGRAM)
    explored = json.loads(out)
    assert code == 1
    assert explored["rows"] == ["1", "refund 1", "look 1"]
    assert set(explored["tally"]) == {"crashed"}
    assert not Path("ledger").exists()
