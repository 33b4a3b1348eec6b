"""Folders in answers become those of the run, wherever a stream is cut, and nothing else does."""

import json

import pytest
from msgspec.structs import replace

from offbook import RecordingMismatchError
from offbook.errors import RecordingFormatError
from offbook.messages import Response, TextDelta, ToolCall, ToolCallDelta, Usage
from offbook.recording.format.exchange import Exchange, ToolExchange, piece_from_delta, recorded_calls
from offbook.recording.format.wire_record import WireRecord, wire_text
from offbook.recording.match.folders import FolderMap, Renames, RunFolders, other_homes
from offbook.vendors import CODECS
from tests.every_case import sampled

ANN, BOB = "/home/ann", "/home/bob the builder/é"
RENAMES = Renames({ANN: BOB})
TEXT = f"I write {ANN}/notes.txt, not /home/annika/notes.txt."
ARGUMENTS = {"path": f"{ANN}/notes.txt", "text": f"see {ANN}"}
NEW_TEXT = TEXT.replace(f"{ANN}/", f"{BOB}/")
NEW_ARGUMENTS = {"path": f"{BOB}/notes.txt", "text": f"see {BOB}"}
STREAMED = {name: codec for name, codec in CODECS.items() if name not in ("openai_completions", "ollama_generate")}


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("/home/ann", "/home/bob"),
        ("cd /home/ann/x; ls /home/ann.", "cd /home/bob/x; ls /home/bob."),
        ("file:///home/ann/x", "file:///home/bob/x"),
        ("gcc -I/home/ann/include", "gcc -I/home/bob/include"),
        ("?path=%2Fhome%2Fann%2fx&at=%2fhome%2fann", "?path=%2Fhome%2Fbob%2fx&at=%2Fhome%2Fbob"),
        (r'{"path": "\/home\/ann\/x"}', r'{"path": "\/home\/bob\/x"}'),
        (r'{"text": "in\n/home/ann/x"}', r'{"text": "in\n/home/bob/x"}'),
        ("PATH=/usr/bin:/home/ann/bin", "PATH=/usr/bin:/home/bob/bin"),
        ("/home/annika /home/ann-2 /home/ann.old /home/ann_x /home/ann~", None),
        ("/mnt/home/ann ./home/ann https://x.org/home/ann ~/home/ann", None),
        (r"C:\home\ann", None),
        ("L2hvbWUvYW5u", None),
    ],
)
def test_a_folder_is_renamed_however_it_is_written_and_no_other_is(text, renamed):
    assert Renames({"/home/ann": "/home/bob"}).text(text) == (renamed or text)


def test_the_longest_folder_comes_first():
    renames = Renames({"/home/ann": "/home/bob", "/home/ann/project": "/srv/copy", "/tmp": "/tmp"})
    assert renames.text("/home/ann/project/x /home/ann/x /tmp/x") == "/srv/copy/x /home/bob/x /tmp/x"


def test_a_folder_whose_name_today_is_not_known_is_refused():
    renames = Renames({"/home/ann": ""})
    assert renames.text("/home/annika") == "/home/annika"
    with pytest.raises(RecordingMismatchError, match="names the folder /home/ann, and this run has several"):
        renames.text("rm /home/ann/x")


def streamed(codec, deltas):
    """The exchange of a streamed answer, as it is recorded over HTTP."""
    arguments = json.dumps(ARGUMENTS)
    call = ToolCall("write", ARGUMENTS, "call_1")
    response = Response(content=TEXT, model="m", tool_calls=(call,), usage=Usage(1, 1), finish_reason="tool_calls")
    frames = [(float(at), wire_text(frame)) for at, frame in enumerate(codec.encode_stream(response, deltas))]
    assert arguments.count(ANN) == 2
    return Exchange(
        content=TEXT,
        tool_calls=recorded_calls(response.tool_calls),
        chunks=[(0.0, piece_from_delta(delta)) for delta in deltas],
        wire=WireRecord(protocol=codec.name, headers={"content-type": codec.stream_type}, frames=frames),
    )


def cut(text, place):
    return [piece for piece in (text[:place], text[place:]) if piece]


@pytest.mark.parametrize("codec", STREAMED.values(), ids=list(STREAMED))
def test_a_folder_is_renamed_wherever_a_stream_is_cut(codec):
    arguments = json.dumps(ARGUMENTS)
    for place in range(max(len(TEXT), len(arguments))):
        deltas = [TextDelta(piece) for piece in cut(TEXT, place)]
        deltas += [ToolCallDelta(0, "", "call_1", "write")]
        deltas += [ToolCallDelta(0, piece) for piece in cut(arguments, place)]
        renamed = RENAMES.exchange(streamed(codec, deltas))
        decoder = codec.stream_decoder()
        for _, frame in renamed.wire.timed_frames():
            list(decoder.feed(frame))
        read = decoder.close()[1]
        assert (read.content, [call.args for call in read.tool_calls]) == (NEW_TEXT, [NEW_ARGUMENTS])
        assert "".join(piece for _, piece in renamed.chunks if isinstance(piece, str)) == NEW_TEXT
        assert renamed.tool_calls[0].arguments == NEW_ARGUMENTS


@pytest.mark.parametrize("codec", STREAMED.values(), ids=list(STREAMED))
def test_a_body_is_renamed_whichever_byte_its_pieces_are_cut_at(codec):
    whole = streamed(codec, [TextDelta(TEXT), ToolCallDelta(0, json.dumps(ARGUMENTS), "call_1", "write")])
    content = whole.wire.content()
    for place in sampled(range(len(content)), step=7):
        pieces = [(0.0, wire_text(content[:place])), (5.0, wire_text(content[place:]))]
        renamed = RENAMES.exchange(replace(whole, wire=replace(whole.wire, frames=pieces)))
        decoder = codec.stream_decoder()
        for _, frame in renamed.wire.timed_frames():
            list(decoder.feed(frame))
        read = decoder.close()[1]
        assert (read.content, [call.args for call in read.tool_calls]) == (NEW_TEXT, [NEW_ARGUMENTS])


def test_what_names_no_folder_stays_the_very_same():
    exchange = Exchange(content="Hello, /home/annika!", wire=WireRecord(protocol="http", body="{ }"))
    assert RENAMES.exchange(exchange) is exchange
    assert Renames({ANN: ANN}).exchange(Exchange(content=ANN)).content == ANN


def test_results_and_errors_of_tools_are_renamed_and_bytes_are_not():
    result = {f"{ANN}/a": [f"{ANN}/b", 1, {"base64": "L2hvbWUvYW5u"}]}
    renamed = RENAMES.exchange(ToolExchange(arguments={"path": ANN}, result=result))
    assert renamed.result == {f"{BOB}/a": [f"{BOB}/b", 1, {"base64": "L2hvbWUvYW5u"}]}
    assert renamed.arguments == {"path": ANN}


@pytest.fixture
def folders():
    recorded = RunFolders(work=("/home/ann/project",), home=("/home/ann",), temporary=("/tmp",))
    return FolderMap(recorded, RunFolders(work=("/srv/x",), home=("/home/bob",), temporary=("/tmp",)))


def test_a_request_is_looked_up_as_it_would_have_been_in_the_recorded_run(folders):
    text, named = folders.as_recorded('{"cwd": "/srv/x", "home": "/home/bob", "other": "/srv/xy"}')
    assert text == '{"cwd": "/home/ann/project", "home": "/home/ann", "other": "/srv/xy"}'
    assert folders.renames(named).text("/home/ann/project/a /home/ann/b") == "/srv/x/a /home/bob/b"


def test_a_folder_that_the_request_names_as_recorded_stays_what_it_is(folders):
    text, named = folders.as_recorded("read /home/ann/shared")
    assert text == "read /home/ann/shared"
    assert folders.renames(named).text("/home/ann/shared") == "/home/ann/shared"


def test_a_folder_that_stands_for_two_is_refused_unless_the_request_names_one():
    recorded = RunFolders(work=("/root",), home=("/root",))
    folders = FolderMap(recorded, RunFolders(work=("/srv/x",), home=("/home/bob",)))
    assert folders.renames(frozenset(["/srv/x"])).text("/root/a") == "/srv/x/a"
    for named in ([], ["/srv/x", "/home/bob"]):
        with pytest.raises(RecordingMismatchError):
            folders.renames(frozenset(named)).text("/root/a")


def test_homes_are_paired_in_the_order_of_the_requests():
    assert other_homes(b"/home/ann /home/ann/x /root", b"/home/bob /home/bob/x /root") == {
        "/home/ann": "/home/bob",
        "/root": "/root",
    }
    assert other_homes(b"/home/ann /home/ann", b"/home/bob /home/eve") == {"/home/ann": ""}
    assert other_homes(b"/home/ann /root", b"/home/bob") == {"/home/ann": "", "/root": ""}


def test_the_folders_of_a_run_are_also_known_without_links(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    run = RunFolders.of({"HOME": "/", "TMPDIR": f"{tmp_path}/link/"}, work="relative")
    assert run == RunFolders(temporary=(f"{tmp_path}/link", str(tmp_path)))


def test_folders_that_are_declared_wrongly_are_bad_input():
    with pytest.raises(RecordingFormatError, match=r"_meta\.folders"):
        RunFolders.from_meta({"folders": {"home": "/home/ann"}}, source="run.json")
