"""A miss says why: which entry was nearest, what differs, or that it was used up; and it is nothing to retry."""

import pytest
from msgspec.structs import replace

from offbook import MockProvider, NormaliseRules, RecordingProvider
from offbook.errors import InputError, ProviderError, RecordingMismatchError
from offbook.messages import Request
from offbook.session.replayed_tools import replay_tools
from tests.fakes import Echo, user

LIVE_KEY = "sk-" + "proj-" + "Zx81" * 8
SYSTEM = {"role": "system", "content": "You are brief."}


def asking(*contents, **options):
    return Request((SYSTEM, *({"role": "user", "content": content} for content in contents)), "gpt-4o", **options)


async def recorded(path, *requests, **options):
    """The path of a recording of these requests."""
    async with RecordingProvider(Echo(), path, **options) as recorder:
        for request in requests:
            await recorder.send(request)
    return path


async def missed(path, request):
    """The error with which a strict replay refuses a request."""
    mock = MockProvider(path, strict=True)
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.send(request)
    error = caught.value
    assert len(str(error).splitlines()) <= 30
    assert all(len(line) <= 120 for line in error.difference.splitlines())
    return error


@pytest.fixture
async def weather(tmp_path):
    """A recording of four questions."""
    return await recorded(
        tmp_path / "run.json",
        asking("Tell me a joke about parrots.", step_id="joke"),
        asking("What is the weather in Oslo today?", step_id="weather"),
        asking("What is the weather in Oslo today?", "And tomorrow?", step_id="tomorrow"),
        asking("Translate 'dog' to Norwegian."),
    )


@pytest.mark.parametrize(
    ("request_", "nearest"),
    [
        (asking("What is the weather in Rome today?"), "weather"),
        (asking("Tell me two jokes about parrots."), "joke"),
        (asking("What is the weather in Oslo today?", "And on Sunday?"), "tomorrow"),
        (asking("What is the weather in Rome today?", step_id="new"), "weather"),
    ],
)
async def test_the_nearest_entry_is_the_one_with_the_nearest_content(weather, request_, nearest):
    error = await missed(weather, request_)
    assert error.kind == "missing"
    assert error.key == nearest
    assert f"The nearest entry is '{nearest}':" in str(error)


async def test_the_difference_shows_what_changed_message_by_message(weather):
    error = await missed(weather, asking("What is the weather in Rome today?"))
    assert error.difference.splitlines() == [
        "  messages[1] (user):",
        "   user:",
        "  -What is the weather in Oslo today?",
        "  +What is the weather in Rome today?",
    ]
    assert str(error).endswith(f"{error.difference}\n  hint: {error.hint}")


async def test_the_difference_shows_changed_parameters(weather):
    changed = replace(
        asking("What is the weather in Oslo today?", step_id="weather"),
        temperature=0.5,
        model="gpt-4o-mini",
        max_tokens=9,
    )
    error = await missed(weather, changed)
    assert error.kind == "drifted"
    assert error.key == "weather"
    lines = [line.strip() for line in error.difference.splitlines()]
    assert lines == ["max_tokens:", "+9", "model:", '-"gpt-4o"', '+"gpt-4o-mini"', "temperature:", "+0.5"]


async def test_the_difference_shows_messages_that_came_or_went(weather):
    longer = await missed(weather, asking("What is the weather in Oslo today?", "Please.", step_id="weather"))
    assert "messages[2] (user):\n  +user:\n  +Please." in longer.difference
    shorter = await missed(weather, asking("What is the weather in Oslo today?", step_id="tomorrow"))
    assert "messages[2] (user):\n  -user:\n  -And tomorrow?" in shorter.difference


async def test_drift_names_the_step_and_what_to_do(weather):
    error = await missed(weather, asking("What is the weather in Rome?", step_id="weather"))
    assert str(error).startswith(f"{weather}: step 'weather' was recorded with another request:\n")
    assert str(error).endswith(f"\n  hint: {error.hint}")
    assert 'record="all"' in error.hint


async def test_a_request_without_a_step_says_how_to_be_answered(tmp_path):
    path = await recorded(tmp_path / "run.json", asking("Hi"), asking("What is the weather?", step_id="weather"))
    error = await missed(path, asking("Ho"))
    assert str(error).startswith(
        f"{path}: a request to 'gpt-4o' is not in the recording. The nearest entry is '{error.key[:12]}…':"
    )
    assert error.hint == 'record it again with record="fresh", which replaces the recording, or undo the change'
    assert (await missed(path, asking("What weather?"))).hint.startswith("give the call its step_id, 'weather', or ")


@pytest.mark.parametrize(
    ("entry", "hint"), [({}, "give the call the step_id of an entry"), ({"request_hash": "a"}, "")]
)
def test_a_request_without_a_step_says_which_entries_have_one(entry, hint):
    mock = MockProvider(responses={"a": {"content": "x"} | entry}, strict=True)
    with pytest.raises(RecordingMismatchError) as caught:
        mock.complete_sync(user("Hi"), "m")
    assert caught.value.hint == hint


async def test_drift_is_reported_against_the_nearest_call_of_the_step(tmp_path):
    contents = ("Count the words.", "What is the weather in Oslo today?", "Say goodbye.")
    path = await recorded(tmp_path / "run.json", *(asking(content, step_id="handle") for content in contents))
    error = await missed(path, asking("What is the weather in Rome today?", step_id="handle"))
    assert "step 'handle', call 2 was recorded with another request:" in str(error)
    assert "-What is the weather in Oslo today?" in error.difference


async def test_a_mistyped_step_is_answered_with_the_one_that_was_meant(weather):
    error = await missed(weather, asking("Something else", step_id="wheather"))
    assert "step 'wheather' is not in the recording. Did you mean 'weather'?" in str(error)


async def test_a_step_like_no_other_gets_no_suggestion(weather):
    assert "Did you mean" not in str(await missed(weather, asking("Something else", step_id="zzzzzz")))


async def test_a_change_far_inside_a_long_line_is_shown(tmp_path):
    text = "All work and no play makes Jack a dull boy. " * 50
    path = await recorded(tmp_path / "run.json", asking(text + "The end.", step_id="a"))
    error = await missed(path, asking(text + "To be continued.", step_id="a"))
    assert "The end." in error.difference
    assert "To be continued." in error.difference


async def test_a_large_difference_is_cut_to_one_screen_and_says_so(tmp_path):
    old, new = ("\n".join(f"{word} {number}" for number in range(500)) for word in ("old", "new"))
    path = await recorded(tmp_path / "run.json", asking(old, step_id="a"))
    error = await missed(path, asking(new, step_id="a"))
    assert error.difference.splitlines()[-1].endswith("more lines")


async def test_secrets_of_the_live_request_are_not_shown(tmp_path):
    path = await recorded(tmp_path / "run.json", asking("My key is secret.", step_id="a"))
    error = await missed(path, replace(asking(f"My key is {LIVE_KEY}", step_id="a"), extra={"api_key": "hunter2"}))
    assert LIVE_KEY not in str(error)
    assert "hunter2" not in str(error)
    assert "<redacted:openai-key:" in str(error)


async def test_a_secret_that_is_the_same_is_no_difference(tmp_path):
    path = await recorded(tmp_path / "run.json", asking(f"My key is {LIVE_KEY}", "One", step_id="a"))
    error = await missed(path, asking(f"My key is {LIVE_KEY}", "Two", step_id="a"))
    assert "redacted" not in error.difference


async def test_a_difference_that_only_redaction_hides_is_said_to_be_hidden(tmp_path):
    def request(password):
        return replace(asking("Hi", step_id="a"), extra={"password": password})

    error = await missed(await recorded(tmp_path / "run.json", request("one")), request("two"))
    assert error.kind == "drifted"
    assert "nothing differs that can be shown: the recorded request was redacted" in error.difference
    assert "two" not in str(error)


async def test_control_characters_do_not_reach_the_terminal(tmp_path):
    path = await recorded(tmp_path / "run.json", asking("plain", step_id="a"))
    error = await missed(path, asking("\x1b[2J\x07\u202eplain", step_id="a"))
    assert str(error).replace("\n", "").isprintable()


async def test_the_difference_is_taken_after_normalising(tmp_path):
    rules = NormaliseRules(mask=(r"\d{2}:\d{2}",))
    path = await recorded(tmp_path / "run.json", asking("At 10:00 all is well.", step_id="a"), normalise=rules)
    error = await missed(path, asking("At 11:30 all is lost.", step_id="a"))
    assert "11:30" not in error.difference
    assert "+At <masked> all is lost." in error.difference


@pytest.mark.parametrize("ignored", ["messages", "messages[*]", "messages[*].role", "model"])
async def test_rules_that_leave_little_of_a_request_do_not_stand_in_the_way(tmp_path, ignored):
    rules = NormaliseRules(ignore=(ignored,))
    path = await recorded(tmp_path / "run.json", asking("Hi", temperature=0.1), normalise=rules)
    error = await missed(path, asking("Ho", temperature=0.9))
    assert "+0.9" in error.difference


async def test_a_used_up_list_is_said_to_be_used_up(tmp_path):
    request = asking("Next?", step_id="loop")
    path = await recorded(tmp_path / "run.json", request, request, request)
    mock = MockProvider(path, strict=True)
    for _ in range(3):
        await mock.send(request)
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.send(request)
    assert caught.value.kind == "exhausted"
    assert caught.value.difference == ""
    assert str(caught.value) == f"{path}: step 'loop': it has 3 answers, and all that fit were served already."


async def test_a_used_up_request_without_a_step_counts_its_equals(tmp_path):
    path = await recorded(tmp_path / "run.json", asking("Hi"), asking("Hi"), asking("Ho"))
    mock = MockProvider(path, strict=True)
    for _ in range(2):
        await mock.send(asking("Hi"))
    with pytest.raises(RecordingMismatchError, match="this request has 2 answers, and every one") as caught:
        await mock.send(asking("Hi"))
    assert caught.value.kind == "exhausted"


async def test_a_used_up_list_that_is_asked_something_new_shows_the_difference(tmp_path):
    path = await recorded(tmp_path / "run.json", *(asking(f"Round {n}", step_id="loop") for n in (1, 2)))
    mock = MockProvider(path, strict=True)
    for n in (1, 2):
        await mock.send(asking(f"Round {n}", step_id="loop"))
    with pytest.raises(RecordingMismatchError) as caught:
        await mock.send(asking("Round 3", step_id="loop"))
    assert caught.value.kind == "exhausted"
    assert "-Round 2" in caught.value.difference
    assert "+Round 3" in caught.value.difference


def refusal(**responses):
    """How a strict replay of hand-written responses refuses a request."""
    mock = MockProvider(responses=responses, strict=True)
    with pytest.raises(RecordingMismatchError) as caught:
        mock.complete_sync(user("Hi"), "m", step_id="a")
    return caught.value


def test_an_empty_recording_is_said_to_be_empty():
    error = refusal()
    assert error.kind == "missing"
    assert error.key is None
    assert error.difference == ""
    assert "The recording is empty." in str(error)


def test_entries_that_do_not_say_what_was_asked_are_no_neighbours():
    error = refusal(b={"content": "x"})
    assert error.kind == "missing"
    assert error.key is None
    assert "It has: 'b'" in str(error)


def test_a_drifted_entry_that_does_not_say_what_was_asked_is_reported_as_such():
    error = refusal(a={"content": "x", "request_hash": "0" * 64})
    assert error.kind == "drifted"
    assert "does not have its request" in error.difference


@pytest.mark.parametrize("odd_request", [5, "text", [], {}, {"messages": 5}, {"messages": ["Hi"]}, {"messages": None}])
def test_a_recorded_request_of_an_odd_shape_does_not_stand_in_the_way(odd_request):
    assert refusal(b={"content": "x", "request": odd_request}).kind == "missing"
    assert refusal(a={"content": "x", "request": odd_request, "request_hash": "0"}).kind == "drifted"


def test_calls_of_plain_http_are_reported_by_their_place():
    models = {"request": {"method": "GET", "path": "/v1/models", "body": None}, "request_hash": "0" * 64}
    models |= {"wire": {"protocol": "http", "body": "{}"}}
    missing = refusal(**{"0" * 64: models})
    assert missing.kind == "missing"
    assert missing.key is None
    assert "It has: 'GET /v1/models'" in str(missing)
    drifted = refusal(a=models)
    assert drifted.kind == "drifted"
    assert drifted.difference == "  (the entry answers GET /v1/models)"


async def test_a_miss_is_never_an_error_that_clients_retry(weather):
    error = await missed(weather, asking("Something else"))
    assert not isinstance(error, ProviderError | InputError | OSError)


async def test_a_long_name_does_not_fill_the_screen(weather):
    error = await missed(weather, replace(asking("Something else"), model="m" * 5000))
    assert len(str(error).splitlines()[0]) < 400 + len(str(weather))


async def test_the_nearest_of_many_entries_is_found(tmp_path):
    requests = [asking(f"Question {n} of many. " + "word " * 300, step_id=f"s{n}") for n in range(100)]
    path = await recorded(tmp_path / "run.json", *requests)
    assert (await missed(path, asking("Question 97 of many, changed. " + "word " * 300))).key == "s97"


def search(**arguments):
    """A tool that takes anything and must not run."""
    raise AssertionError


def refused_call(recorded, *calls, tool="search"):
    """The error with which a strict replay of these arguments, each once, refuses the last of the calls."""
    exchanges = [{"arguments": arguments, "result": "x"} for arguments in recorded]
    tools = replay_tools({tool: search}, {"_tools": {"search": exchanges}} if exchanges else {})
    for arguments in calls[:-1]:
        tools[tool](**arguments)
    with pytest.raises(RecordingMismatchError) as caught:
        tools[tool](**calls[-1])
    error = caught.value
    assert error.key == tool
    assert len(str(error).splitlines()) <= 30
    assert str(error).replace("\n", "").isprintable()
    return error


def test_a_drift_shows_the_nearest_call_and_what_differs():
    recorded = [{"query": "parrots"}, {"query": "weather in Oslo", "limit": 5}, {"query": "cheese", "limit": 9}]
    error = refused_call(recorded, {"query": "weather in Rome", "limit": 5})
    assert error.kind == "drifted"
    assert str(error) == (
        "recording: tool 'search' was not recorded with these arguments. The nearest call differs:\n"
        "  arguments:\n"
        '     "limit": 5,\n'
        '  -  "query": "weather in Oslo"\n'
        '  +  "query": "weather in Rome"\n'
        "   }\n"
        '  hint: record it again with record="all", which replaces what is there, or undo the change'
    )


def test_a_drift_shows_arguments_that_came_or_went():
    assert '+  "limit": null,' in refused_call([{"query": "a"}], {"query": "a", "limit": None}).difference
    assert '-  "limit": 5,' in refused_call([{"query": "a", "limit": 5}], {"query": "a"}).difference


def test_arguments_named_messages_are_arguments_like_any_other():
    assert '+  "messages": "b"' in refused_call([{"messages": "a"}], {"messages": "b"}).difference


def test_what_is_used_up_is_said_to_be():
    error = refused_call([{"n": 1}, {"n": 1}], {"n": 1}, {"n": 1}, {"n": 1})
    assert error.kind == "exhausted"
    assert error.difference == ""
    assert str(error) == "recording: tool 'search': it has 2 answers, and all that fit were served already."


def test_what_is_used_up_and_asked_something_new_shows_the_difference():
    error = refused_call([{"n": 1}, {"n": 2}], {"n": 1}, {"n": 2}, {"n": 3})
    assert error.kind == "exhausted"
    assert "The nearest call differs:" in str(error)
    assert '+  "n": 3' in error.difference


def test_calls_that_do_not_say_what_they_answer_are_used_up_without_a_difference():
    tools = replay_tools({"search": search}, {"_tools": {"search": [{"result": 1}]}})
    tools["search"]()
    with pytest.raises(RecordingMismatchError, match="one answer in a list") as caught:
        tools["search"](n=1)
    assert caught.value.difference == ""


def test_a_tool_that_is_not_there_is_answered_with_the_one_that_was_meant():
    error = refused_call([{}], {}, tool="serach")
    assert error.kind == "missing"
    assert error.difference == ""
    assert str(error) == ("recording: tool 'serach' is not in the recording. Did you mean 'search'? It has: 'search'")


def test_a_tool_like_no_other_is_answered_with_those_that_are_there():
    assert str(refused_call([{}], {}, tool="zzz")) == "recording: tool 'zzz' is not in the recording. It has: 'search'"


def test_a_recording_without_calls_of_tools_is_said_to_have_none():
    assert str(refused_call([], {})) == "recording: tool 'search' is not in the recording. It has no tool calls."


def test_many_tools_are_not_all_listed():
    recording = {"_tools": {f"tool_{number:03}": {} for number in range(50)}}
    with pytest.raises(RecordingMismatchError, match=r"'tool_011', …$"):
        replay_tools({"zzz": search}, recording)["zzz"]()


def test_secrets_of_the_live_call_are_not_shown():
    error = refused_call([{"key": "old"}], {"key": LIVE_KEY, "password": "hunter2"})
    assert LIVE_KEY not in str(error)
    assert "hunter2" not in str(error)


def test_control_characters_do_not_reach_the_terminal_and_long_texts_are_cut():
    refused_call([{"text": "plain"}], {"text": "\x1b[2J\x07\u202e" + "long " * 10_000})


def test_a_call_that_has_only_a_hash_does_not_say_what_was_asked():
    tools = replay_tools({"search": search}, {"_tools": {"search": {"arguments_hash": "x"}}})
    with pytest.raises(RecordingMismatchError, match="does not have its request") as caught:
        tools["search"](n=1)
    assert caught.value.kind == "drifted"
