"""What may differ in a request that a recording answers, and what may not."""

import re
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from offbook.recording.match.cursor import without_home_names
from offbook.recording.match.harmless import Comparison
from offbook.recording.match.moments import RunTimes

RECORDED = datetime(2026, 11, 19, 15, 43, 51, tzinfo=UTC)
NOW = datetime(2026, 12, 1, 9, 5, 7, tzinfo=UTC)
BEGAN = NOW - timedelta(seconds=20)
UUIDS = ("6a204bd8-9f14-4c1b-8a55-0d2c5f0a7f11", "0f9d3c52-77aa-4e0e-b7c9-6f1b2f6a9c03")


def difference(recorded, asked, *, recorded_at=RECORDED, now=NOW, began=BEGAN):
    """The kinds of what differs harmlessly; None if the requests really differ."""
    times = RunTimes.of(recorded_at.isoformat(), began, now)
    compared = Comparison(times, lambda text: without_home_names(text.encode()).decode())
    return compared.difference.kinds if compared.is_harmless(recorded, asked) else None


def request(*messages, **fields):
    return {"model": "m", "messages": list(messages)} | fields


def user(text):
    return request({"role": "system", "content": "You help."}, {"role": "user", "content": text})


def after_block(text):
    block = "<system-reminder>\nToday's date is 2026-11-19.\n</system-reminder>"
    return request({"role": "user", "content": [{"type": "text", "text": block}, {"type": "text", "text": text}]})


def around_block(text):
    return user(f"<env>\n  Platform: linux\n</env>\n{text}\n<env>\n</env>")


def system(text):
    return request({"role": "system", "content": f"You help.\n{text}"}, {"role": "user", "content": "Go on."})


def described(text):
    tool = {"type": "function", "function": {"name": "book", "description": text, "parameters": {}}}
    return request({"role": "user", "content": "Go on."}, tools=[tool])


def result(text):
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return request(
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": text},
    )


def model(text):
    return request({"role": "user", "content": "Go on."}, {"role": "assistant", "content": text})


def arguments(text):
    call = {"id": "call_1", "type": "function", "function": {"name": "book", "arguments": f'{{"text": "{text}"}}'}}
    return request({"role": "user", "content": "Go on."}, {"role": "assistant", "content": "", "tool_calls": [call]})


EVERYWHERE = (user, after_block, around_block, system, described, result, model, arguments)
WORDS_OF_PEOPLE = (user, after_block, around_block, model, arguments)

REAL_CHANGES = [
    ("Refund order 4711.", "Refund order 4712."),
    ("Pay 12.50 EUR.", "Pay 12.05 EUR."),
    ("Call Ann back.", "Call Bob back."),
    ("Delete the file.", "Do not delete the file."),
    ("Delete the draft.", "Archive the draft."),
    ("Book for 2026-12-24.", "Book for 2026-12-25."),
    ("Book for 24 December 2026.", "Book for 25 December 2026."),
    ("Book for December 24, 2026.", "Book for December 25, 2026."),
    ("Book for 12/24/2026.", "Book for 12/25/2026."),
    ("Book for 24.12.2026.", "Book for 31.12.2026."),
    ("The offer ends on 2025-01-01.", "The offer ends on 2025-01-02."),
    ("The budget of November 2025.", "The budget of December 2025."),
    ("Meet at 10:30.", "Meet at 11:30."),
    ("Meet at 2026-12-24T10:00:00Z.", "Meet at 2026-12-24T11:00:00Z."),
    ("The train leaves at 10:30:00.", "The train leaves at 10:35:00."),
    ("Today is a Monday.", "Today is a Friday."),
    ("Use Python 3.11.", "Use Python 3.12."),
    ("OS Version: iOS 17.1", "OS Version: iOS 17.2"),
    ("Memory: 16 GB", "Memory: 32 GB"),
    ("The limit is 60 seconds.", "The limit is 90 seconds."),
    ("Flight time: 45 minutes", "Flight time: 50 minutes"),
    (f"The customer is {UUIDS[0]}.", f"The customer is {UUIDS[1]}."),
    (f"customer_id: {UUIDS[0]}", f"customer_id: {UUIDS[1]}"),
    ("session 12", "session 13"),
    ("task id: 42", "task id: 43"),
    ("run id: 7", "run id: 8"),
    ("request id: A-1001", "request id: A-1002"),
    ("patient pid: 17", "patient pid: 18"),
    ("Ticket 1763567031 is open.", "Ticket 1764579907 is closed."),
    ("Read /tmp/report-2026Q1.csv.", "Read /tmp/report-2026Q2.csv."),
    ("Read /srv/ann/notes.", "Read /srv/bob/notes."),
    ("Read /home/ann/notes.", "Read /home/ann/diary."),
    ("Port 8080", "Port 9090"),
    ("Room 101, floor 3", "Room 102, floor 3"),
    ("Call +49 30 901820.", "Call +49 30 901821."),
    ("https://example.org/a/1", "https://example.org/a/2"),
    ("10 % off", "20 % off"),
    ("version 1.2.3 of the plan", "version 1.2.4 of the plan"),
    ("I have 1,000 shares.", "I have 10,000 shares."),
    ("a\nb", "a\n\nb"),
]
CHANGES_OF_PEOPLE = [
    ("Book for 2026-11-19.", "Book for 2026-12-01."),
    ("Today is 2026-11-19, book for tomorrow.", "Today is 2026-12-01, book for tomorrow."),
    ("Book at 2026-11-19T15:43:00Z.", "Book at 2026-12-01T09:05:00Z."),
    ("What happened on November 19, 2026?", "What happened on December 1, 2026?"),
    ("Kill PID 4242.", "Kill PID 4243."),
    (f"Resume session_id: {UUIDS[0]}.", f"Resume session_id: {UUIDS[1]}."),
    ("Undo commit 4f2a1c9.", "Undo commit 5f2a1c9."),
    ("Read /tmp/tmpbookings.", "Read /tmp/tmpinvoices."),
    ("It took 12 s, duration_ms: 12000", "It took 13 s, duration_ms: 13000"),
    ("Chunk ID: 4f2a1c", "Chunk ID: 5f2a1c"),
    ("OS Version: Linux 6.1.0", "OS Version: Linux 6.8.0"),
]
REFUSED = [*product(EVERYWHERE, REAL_CHANGES), *product(WORDS_OF_PEOPLE, CHANGES_OF_PEOPLE)]


def test_there_are_enough_real_changes():
    assert len(REFUSED) >= 300


@pytest.mark.parametrize(("place", "change"), REFUSED, ids=lambda each: getattr(each, "__name__", None))
def test_a_real_change_is_refused(place, change):
    old, new = change
    assert difference(place(old), place(new)) is None
    assert difference(place(new), place(old)) is None
    assert difference(place(old), place(old)) == ()


def test_a_schema_may_have_several_types():
    old, new = (system(f"Today's date is {day}.") for day in ("2026-11-19", "2026-12-01"))
    parameters = {"type": "object", "properties": {"order": {"type": ["integer", "null"]}}}
    tools = {"tools": [{"type": "function", "function": {"name": "book", "parameters": parameters}}]}
    assert difference(old | tools, new | tools) == ("a date or time",)


@pytest.mark.parametrize("now", [RECORDED + timedelta(hours=1), NOW])
@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_date_that_was_written_down_is_no_date_of_the_run(place, now):
    old, new = (place(f"Today's date is {day}.") for day in ("2026-12-24", "2026-12-25"))
    assert difference(old, new, now=now, began=now) is None
    assert difference(place("Today's date is 2026-11-19."), new, now=now, began=now) is None


@pytest.mark.parametrize("place", EVERYWHERE)
def test_on_the_same_day_a_changed_date_is_a_change(place):
    old, new = (place(f"Today's date is {day}.") for day in ("2026-11-19", "2026-11-20"))
    later = RECORDED + timedelta(minutes=3)
    assert difference(old, new, now=later, began=later) is None


HARMLESS = {
    # Claude Code
    "a date or time": [
        (system, "<env>\nWorking directory: /w\nToday's date: {2026-11-19|2026-12-01}\n</env>"),
        (around_block, "<system-reminder>\n# Date\nToday's date is {2026-11-19|2026-12-01}.\n</system-reminder>"),
        (
            user,
            (
            "<system-reminder>\nThe date has changed. Today's date is now {2026-11-19|2026-12-01}. DO NOT mention this"
            " to the user explicitly because they are already aware.\n</system-reminder>"
            ),
        ),
        (described, "The current month is {November 2026|December 2026}. You MUST use this year."),
        (described, "Today's date is {2026-11-19|2026-12-01}. You MUST use this year when searching."),
        # OpenCode
        (system, "<env>\n  Platform: linux\n  Today's date: {Thu Nov 19 2026|Tue Dec 01 2026}\n</env>"),
        (system, "Today's date: {Thu Nov 19 2026|Tue Dec 01 2026}"),
        (user, "Today's date is now: {Thu Nov 19 2026|Tue Dec 01 2026}"),
        # Gemini CLI and Qwen Code
        (
            user,
            (
            "This is the Qwen Code. We are setting up the context for our chat.\nToday's date is"
            " {Thursday, November 19, 2026|Tuesday, December 1, 2026} (formatted according to the user's locale).\n"
            "My operating system is: linux"
            ),
        ),
        (
            user,
            (
            "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\nToday's date is"
            " {Thursday, November 19, 2026|Tuesday, December 1, 2026} (formatted according to the user's locale).\n"
            "</session_context>"
            ),
        ),
        (user, "Today's date is {19.11.2026|1.12.2026} (formatted according to the user's locale)."),
        (user, "Today's date is {19/11/2026|01/12/2026}."),
        # Codex
        (
            user,
            (
            "<environment_context>\n  <cwd>/w</cwd>\n  <current_date>{2026-11-19|2026-12-01}</current_date>\n"
            "  <timezone>Etc/UTC</timezone>\n</environment_context>"
            ),
        ),
        # gptme
        (system, "## Current Date\n\n**Local date:** {2026-11-19|2026-12-01} UTC\n\nDate at session start"),
        (system, "<current-date>{2026-11-19|2026-12-01} UTC. Date at session start</current-date>"),
        (user, "<system>The time is now {2026-11-19 15:43|2026-12-01 09:05}</system>"),
        # others, in other time zones
        (system, "Current time: {2026-11-19T16:43:51+01:00|2026-12-01T10:05:07+01:00}"),
        (system, "Current date and time: {2026-11-20 01:13:51|2026-12-01 18:35:07}"),
        (system, "The current date is {November 19th, 2026|December 1st, 2026}."),
        (system, "It is {2026-11-19|2026-12-01}."),
        (
            user,
            "<environment_details>\n{11/19/2026, 3:43:51 PM|12/1/2026, 9:05:07 AM} (UTC)\n</environment_details>",
        ),
        (result, "{Thu Nov 19 15:43:50 UTC 2026|Tue Dec  1 09:05:06 UTC 2026}"),
        (result, '{"created_at": "[2026-11-19T15:43:51.120Z|2026-12-01T09:05:07.993Z]"}'),
        (result, "-rw-r--r-- 1 ann ann 6 {Nov 19 15:43|Dec  1 09:05} hello.txt"),
        (result, "Modify: {2026-11-19 15:43:50.123456789 +0000|2026-12-01 09:05:06.987654321 +0000}"),
        (result, f"{{{RECORDED.timestamp():.0f}|{NOW.timestamp():.0f}}}"),
        (result, "[{15:43:51|09:05:07}] started"),
        (result, "20:1: {20261119T154351Z|20261201T090507Z}"),
    ],
    "an id": [
        (result, "Chunk ID: {4f2a1c|9be01d}\nWall time: 0.05 seconds\nProcess exited with code 0\nOutput:\nhi"),
        (result, "Process running with session ID {4211|91823}"),
        (result, "Command running in background with ID: {b1x7q2z|bk93hd1}. Output is being written"),
        (result, "agentId: {a4f2a1c|a9be01d} (for resuming)"),
        (around_block, "<system-reminder>\n<task-id>{b4f2a1c|b9be01d}</task-id>\n</system-reminder>"),
        (system, f"session_id: {{{UUIDS[0]}|{UUIDS[1]}}}"),
        (system, f"Your conversation ID is {{{UUIDS[0]}|{UUIDS[1]}}}."),
        (result, f'{{"sessionId": "[{UUIDS[0]}|{UUIDS[1]}]"}}'),
        (result, f'{{"request_id": "[req_{"a1B2" * 6}|req_{"c3D4" * 6}]"}}'),
        (result, "trace id: {4bf92f3577b34da6a3ce929d0e0e4736|5bf92f3577b34da6a3ce929d0e0e4736}"),
        (system, f"Scratchpad: /tmp/claude-0/-w/{{{UUIDS[0]}|{UUIDS[1]}}}/scratchpad"),
        (system, f"Write to /home/ann/.gemini/tmp/w/{{{UUIDS[0]}|{UUIDS[1]}}}/plans."),
        (result, "[main (root-commit) {4f2a1c9|9be01d2}] first\n 1 file changed"),
        (result, "commit {" + "4f2a1c90" * 5 + "|" + "9be01d2f" * 5 + "}\nAuthor: Ann"),
        (system, "Status:\n(clean)\n\nRecent commits:\n{4f2a1c9|9be01d2} first"),
        (system, "x-anthropic-billing-header: cc_version=2.1.327; cc_entrypoint=cli; cch={0a1b2|c3d4e};"),
    ],
    "a process": [
        (result, "Command: sleep 9 &\nExit Code: 0\nBackground PIDs: {4242, 4243|57, 58}"),
        (result, "Output: hi\nProcess Group PGID: {4242|57}"),
        (result, "[1] {4242|57}"),
        (result, "started (pid {4242|57})"),
        (result, "listening, pid={4242|57}"),
        (around_block, "<system>Process ID: {4242|57}</system>"),
    ],
    "a duration": [
        (result, "Wall time: {0.0512|1.2} seconds"),
        (result, '{"output": "hi", "metadata": {"exit_code": 0, "duration_seconds": [0.1|0.3]}}'),
        (result, "duration_ms: {120|98}"),
        (result, "=== 1 passed in {0.12s|0.09s} ==="),
        (result, "Ran 3 tests in {0.004s|0.013s}"),
        (result, "real\t{0m0.012s|0m1.120s}"),
        (result, "ok  \texample.org/x\t{0.012s|0.300s}"),
        (result, "--- PASS: TestX ({0.00s|0.02s})"),
    ],
    "load or memory": [
        (result, "{up 3 days,  2:01,  1 user,  load average: 0.0, 0.01, 0.05|up 11 min, load average: 1.2, 0.9, 0.5}"),
        (result, "Memory usage:{ 3.2GiB / 8GiB| 512MiB / 16GiB}"),
        (result, "free memory:{ 3.2 GB| 811 MB}"),
    ],
    "a version": [
        (system, "OS Version: Linux {6.1.0-13-amd64|6.8.0-45-generic}"),
        (system, "x-anthropic-billing-header: cc_version={2.1.327|2.1.330}; cc_entrypoint=cli;"),
        (result, "Linux box {6.1.0-13-amd64 #1 SMP Debian|6.8.0-45-generic #45 SMP Ubuntu}"),
    ],
    "a temporary path": [
        (user, "Read {/tmp/pytest-of-ann/pytest-3|/tmp/pytest-of-bob/pytest-11}/x.txt."),
        (user, "Read {/tmp/tmp4x_k2q9z|/var/folders/ab/x1y2z3/T/tmpk2_09zzq}/x.txt."),
        (result, "wrote {/tmp/tmp.Ab12Cd34Ef|/tmp/tmp.Zz99Yy88Xx}/x"),
        (system, "Temporary folder: {/tmp/gemini-Ab12Cd|/tmp/gemini-Zz99Yy}"),
        (model, "I wrote {/tmp/tmp4x_k2q9z|/tmp/tmpk2_09zzq}/x.txt."),
    ],
    "a home folder": [
        (user, "Read {/home/ann|/root}/x."),
        (system, "Working directory: {/home/ann|/Users/bob}/x"),
    ],
}  # fmt: skip
MATCHED = [(kind, place, text) for kind, rows in HARMLESS.items() for place, text in rows]


def both(text):
    """The text as recorded, and as it is asked: what is `{this|that}`, or `[this|that]` in JSON."""
    parts = re.split(r"[{\[]([^{}\[\]|]*)\|([^{}\[\]|]*)[}\]]", text)
    assert len(parts) > 1, text
    return tuple("".join(part for place, part in enumerate(parts) if place % 3 in (0, side)) for side in (1, 2))


@pytest.mark.parametrize(("kind", "place", "text"), MATCHED, ids=[f"{kind}-{text[:40]}" for kind, _, text in MATCHED])
def test_a_harmless_difference_matches(kind, place, text):
    old, new = both(text)
    assert difference(place(old), place(new)) == (kind,)
    assert difference(place(old), place(f"{new}\nMore.")) is None


def test_there_are_enough_harmless_differences():
    assert len(MATCHED) >= 60
