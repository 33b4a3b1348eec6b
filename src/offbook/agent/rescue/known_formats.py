"""The formats in which models write calls, and the thinking and control tokens around them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from offbook.agent.rescue.call_format import (
    CallFormat,
    TextMatch,
    UnreadableError,
    calls_in,
    is_plain,
    parse,
    read_object,
    read_value,
)
from offbook.messages import JsonObject, ToolCall
from offbook.tools import ToolDef

_BRACKETS_OPENING = r"\[TOOL_CALLS\]|(?<![\w-])[\w-]{1,64}\[(?:ARGS|CALL_ID)\]|\bfunctools(?=\[)"
_BRACKETS_LIST = re.compile(r"(?:\[TOOL_CALLS\]|functools)\s*+(?=[\[{])")
_BRACKETS_NAMED = re.compile(
    r"[\s,]*+(?:\[TOOL_CALLS\])?\s*+([\w-]++)(?:\[CALL_ID\][\w-]*+)?+\s*+(?:\[ARGS\]\s*+(?=\{)|(?=\{))"
)


def read_brackets(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read a list of JSON calls, or tool names each followed by its arguments.

    Raises:
        UnreadableError: there is neither.
    """
    start = opening.start()
    if listed := _BRACKETS_LIST.match(text, start):
        value = read_value(text, listed.end())
        calls = calls_in(value.value, tools, is_closed=value.is_closed, is_marked=True)
        return _calls_match(start, value.end, calls)
    named, end = [], start
    while call := _BRACKETS_NAMED.match(text, end):
        args, end = read_object(text, call.end())
        named.append(ToolCall(call[1], args))
    return _calls_match(start, end, tuple(named))


def _calls_match(start: int, end: int, calls: tuple[ToolCall, ...]) -> TextMatch:
    if not calls:
        raise UnreadableError
    return TextMatch(start, end, calls)


BRACKETS = CallFormat(_BRACKETS_OPENING, read_brackets)


_HARMONY_OPENING = r"<\|start\|>assistant|<\|channel\|>"
_harmony_header = re.compile(
    r"""(?:<\|start\|>assistant \s*+ (?:to=(?P<early>[\w.-]+))? \s*+)?
    <\|channel\|> \s*+ (?P<channel>\w+) \s*+ (?:to=(?P<late>[\w.-]+))? \s*+
    (?:<\|constrain\|>)? (?:json)? \s*+ <\|message\|> \s*+""",
    re.VERBOSE,
)
_harmony_end = re.compile(r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)|\Z")
_harmony_call_end = re.compile(r"\s*+(?:<\|(?:call|end)\|>)?")


def read_harmony(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read one message: a call if a tool is its recipient, thinking if it is analysis, otherwise only its header.

    Raises:
        UnreadableError: there is no header, or a message to a tool has no JSON object.
    """
    start = opening.start()
    header = _harmony_header.match(text, start)
    if header is None:
        raise UnreadableError
    recipient = header["early"] or header["late"]
    if recipient:
        args, end = read_object(text, header.end())
        closing = _harmony_call_end.match(text, end)
        call = ToolCall(recipient.removeprefix("functions."), args)
        return TextMatch(start, closing.end() if closing else end, (call,))
    if header["channel"] != "analysis":
        return TextMatch(start, header.end())
    closing = _harmony_end.search(text, header.end())
    until = closing or header
    return TextMatch(start, until.end(), thought=(header.end(), until.start()))


HARMONY = CallFormat(_HARMONY_OPENING, read_harmony)


_JSON_OPENING = r"""\{(?=\s*(?:["'#]|/[/*]|[A-Za-z_][\w-]*\s*:))|\[(?=\s*\{)"""
_JSON_NEXT = re.compile(rf"[\s,;]*+(?:{_JSON_OPENING})")


def read_json_calls(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read consecutive JSON values. If any is not a call, none counts."""
    calls: list[ToolCall] = []
    start, is_text = opening.start(), False
    following: re.Match[str] | None = opening
    while following:
        value = read_value(text, following.end() - 1)
        here = calls_in(value.value, tools, is_closed=value.is_closed)
        is_text = is_text or not here
        calls += here
        following = _JSON_NEXT.match(text, value.end)
    return TextMatch(start, value.end, () if is_text else tuple(calls), is_text=is_text)


JSON_CALLS = CallFormat(_JSON_OPENING, read_json_calls, is_marked=False)


_CONTROL_MARK = (
    r"<\|(?:im_start|start_header_id|start)\|>\s*+\w*+(?:<\|end_header_id\|>)?"
    r"|<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|\[/TOOL_CALLS\]"
    r"|</(?:[a-z]{1,20}:|｜DSML｜)?(?:tool_calls?|function_calls?|functioncall|tools)>"
)
_other_speaker = re.compile(r"<\|(?:im_start|start_header_id|start)\|>\s*+(?!assistant)\w")


def read_control_token(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read the token.

    Raises:
        UnreadableError: it starts a message of another role, which the model invented.
    """
    if _other_speaker.match(text, opening.start()):
        raise UnreadableError
    return TextMatch(opening.start(), opening.end())


CONTROL_TOKENS = CallFormat(_CONTROL_MARK, read_control_token)


_PYTHON_NAME = r"[A-Za-z_][\w-]*+"
_python_start = re.compile(rf"\s*+(?:\[\s*+)?({_PYTHON_NAME})(?:\.call)?\(")
_python_call = re.compile(rf"\s*+({_PYTHON_NAME})(?:\.call)?\(")
_python_keyword = re.compile(rf"\s*+({_PYTHON_NAME})\s*=\s*+")
_python_list_start = re.compile(r"\s*+\[")
_after_python_value = re.compile(r"\s*+(,\s*+\)|[,)])")
_no_python_arguments = re.compile(r"\s*+\)")
_after_python_call = re.compile(r"\s*+(,|\])")
_between_python_calls = re.compile(rf"(?:\s*;\s*|[ \t]*\n\s*)(?={_PYTHON_NAME}(?:\.call)?\()")
_json_start = re.compile(rf"\s*+(?:{JSON_CALLS.opening})")


def opens_python_call(text: str, pos: int, tools: Collection[str]) -> bool:
    """Whether a call of one of `tools`, or a list of calls, seems to start at `pos`."""
    start = _python_start.match(text, pos)
    return start is not None and start[1] in tools


def read_python_calls(text: str, pos: int) -> TextMatch:
    """Read a list of calls, or calls on lines of their own.

    Raises:
        UnreadableError: a call is incomplete, or has a positional argument or a value that is not a literal.
    """
    start = _python_list_start.match(text, pos)
    calls, end = _read_python_list(text, start.end()) if start else _read_python_lines(text, pos)
    return TextMatch(pos, end, tuple(calls))


def read_announced_python(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read the Python or JSON calls after a token that announces code.

    Raises:
        UnreadableError: other code follows.
    """
    if objects := _json_start.match(text, opening.end()):
        match = read_json_calls(text, objects, tools)
    else:
        match = read_python_calls(text, opening.end())
    if not match.calls:
        raise UnreadableError
    return TextMatch(opening.start(), match.end, match.calls)


def _read_python_list(text: str, pos: int) -> tuple[list[ToolCall], int]:
    calls = []
    while True:
        call, pos = _read_python_call(text, pos)
        calls.append(call)
        after = _after_python_call.match(text, pos)
        if after is None:
            raise UnreadableError
        pos = after.end()
        if after[1] == "]":
            return calls, pos


def _read_python_lines(text: str, pos: int) -> tuple[list[ToolCall], int]:
    call, pos = _read_python_call(text, pos)
    calls = [call]
    while between := _between_python_calls.match(text, pos):
        call, pos = _read_python_call(text, between.end())
        calls.append(call)
    return calls, pos


def _read_python_call(text: str, pos: int) -> tuple[ToolCall, int]:
    call = _python_call.match(text, pos)
    if call is None:
        raise UnreadableError
    args: JsonObject = {}
    if empty := _no_python_arguments.match(text, call.end()):
        return ToolCall(call[1], args), empty.end()
    pos = call.end()
    while keyword := _python_keyword.match(text, pos):
        value = read_value(text, keyword.end())
        after = _after_python_value.match(text, value.end)
        if after is None or not value.is_closed or keyword[1] in args:
            raise UnreadableError
        args[keyword[1]] = value.value
        pos = after.end()
        if after[1].endswith(")"):
            return ToolCall(call[1], args), pos
    raise UnreadableError


PYTHON_CALLS = CallFormat(r"<\|(?:python_tag|python_start|tool_call_start)\|>", read_announced_python)


_SPECIAL_OPENING = r"<[|｜]tool[▁_]call[▁_]begin[|｜]>"
_special_call = re.compile(
    rf"""{_SPECIAL_OPENING}\s*+
    (?: (?:functions\.)? (?P<numbered>[\w.-]+?) (?: :\d+ )? \s*+ <[|｜]tool[▁_]call[▁_]argument[▁_]begin[|｜]>
      | function <[|｜]tool[▁_]sep[|｜]> (?P<typed>[\w.-]+) \s*+ ```json
      | (?P<plain>[\w.-]+) <[|｜]tool[▁_]sep[|｜]> )
    \s*+ (?=\{{)""",
    re.VERBOSE,
)
_special_end = re.compile(r"(?:\s|```)*+(?:<[|｜]tool[▁_]call[▁_]end[|｜]>)?")


def read_special_tokens(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read one call.

    Raises:
        UnreadableError: it is incomplete, or has another syntax.
    """
    call = _special_call.match(text, opening.start())
    if call is None:
        raise UnreadableError
    args, end = read_object(text, call.end())
    closing = _special_end.match(text, end)
    name = call["numbered"] or call["typed"] or call["plain"]
    return TextMatch(opening.start(), closing.end() if closing else end, (ToolCall(name, args),))


SPECIAL_TOKENS = CallFormat(_SPECIAL_OPENING, read_special_tokens)


THINKING_CLOSE = r"(?i:</think(?:ing)?>|\[/THINK\])"
_THINKING_OPEN = r"(?i:<think(?:ing)?>|\[THINK\])"
_thinking_open = re.compile(_THINKING_OPEN)
_thinking_close = re.compile(THINKING_CLOSE)
_late_thinking_close = re.compile(rf"\n[ \t]*+({THINKING_CLOSE})")


def read_thinking(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read up to the closing tag, or else to the end of the text."""
    closing = _thinking_close.search(text, opening.end())
    inner_end, end = closing.span() if closing else (len(text), len(text))
    return TextMatch(opening.start(), end, thought=(opening.end(), inner_end))


def thinking_before(closing: re.Match[str]) -> TextMatch:
    """Return all text before a closing tag as thinking: the opening tag was in the prompt."""
    return TextMatch(0, closing.end(), thought=(0, closing.start()))


def late_thinking_close(text: str, pos: int) -> re.Match[str] | None:
    """Return the last closing tag after `pos` that starts a line, if no opening tag is after `pos`."""
    closing = None
    for closing in _late_thinking_close.finditer(text, pos):  # noqa: B007 - the last one is wanted
        pass
    return None if closing is None or _thinking_open.search(text, pos, closing.start()) else closing


THINKING = CallFormat(_THINKING_OPEN, read_thinking)


_TAG_SPACE = "(?:｜DSML｜|[a-z]{1,20}:)?"
_TAG_WRAPPER = r"(?:tool_calls?|function_calls?|functioncall|tools)"
_TAG_OPEN = rf"<{_TAG_SPACE}{_TAG_WRAPPER}>|<\|tool_calls?\|>"
_TAG_CLOSE = rf"</{_TAG_SPACE}{_TAG_WRAPPER}>|<\|/tool_calls?\|>"
_TAG_ELEMENT = rf"<{_TAG_SPACE}(?:function|invoke)(?:=|\s+name=)"

_tag_wrapper = re.compile(rf"(?:{_TAG_OPEN})\s*+")
_tag_gap = re.compile(r"(?:\s|,|```(?:json)?)*+")
_tag_close = re.compile(_TAG_CLOSE)
_tags_end = re.compile(rf"(?:{_TAG_CLOSE})|(?={_TAG_OPEN}|<[|｜])|\Z")
_tag_element = re.compile(rf"""{_TAG_ELEMENT}["']?([\w.-]+)["']?\s*>\s*+""")
_tag_element_end = re.compile(rf"\s*+</{_TAG_SPACE}(?:function|invoke)>")
_tag_parameter = re.compile(
    rf"""\s*+<{_TAG_SPACE}param(?:eter)?(?:=|\s+name=)["']?([\w.-]+)["']?(?:\s+string="(true|false)")?\s*>"""
    rf"(.*?)</{_TAG_SPACE}param(?:eter)?>",
    re.DOTALL,
)
_tag_bare_name = re.compile(r"([\w.-]+)\s*+(?=<)")
_tag_pair = re.compile(r"\s*+<arg_key>([^<]*+)</arg_key>\s*+<arg_value>(.*?)</arg_value>", re.DOTALL)


def read_tags(text: str, opening: re.Match[str], tools: Collection[str]) -> TextMatch:
    """Read the calls of a wrapper, or of one element outside of a wrapper.

    Raises:
        UnreadableError: there is something else, or a call is incomplete.
    """
    start = opening.start()
    wrapper = _tag_wrapper.match(text, start)
    if wrapper is None:
        call, end = _read_tag_element(text, start, tools)
        return TextMatch(start, end, (call,))
    calls: list[ToolCall] = []
    pos = _past_tag_gap(text, wrapper.end())
    while not (end_mark := _tags_end.match(text, pos)):
        here, pos = _read_tagged(text, pos, tools)
        calls += here
        pos = _past_tag_gap(text, pos)
    if not calls and _tag_close.match(text, pos):
        raise UnreadableError
    return TextMatch(start, end_mark.end(), tuple(calls))


def _past_tag_gap(text: str, pos: int) -> int:
    gap = _tag_gap.match(text, pos)
    return gap.end() if gap else pos


def _read_tagged(text: str, pos: int, tools: Collection[str]) -> tuple[tuple[ToolCall, ...], int]:
    if text[pos] in "{[":
        value = read_value(text, pos)
        if calls := calls_in(value.value, tools, is_closed=value.is_closed, is_marked=True):
            return calls, value.end
        raise UnreadableError
    call, end = _read_tag_element(text, pos, tools) if text[pos] == "<" else _read_tag_pairs(text, pos, tools)
    return (call,), end


def _read_tag_element(text: str, pos: int, tools: Collection[str]) -> tuple[ToolCall, int]:
    """Read a call whose tag has the tool's name, around parameters, or around a JSON object without an end tag."""
    element = _tag_element.match(text, pos)
    if element is None:
        raise UnreadableError
    if text.startswith("{", element.end()):
        args, end = read_object(text, element.end())
        closing = _tag_element_end.match(text, end)
        return ToolCall(element[1], args), closing.end() if closing else end
    args, end = _read_tag_parameters(text, element.end(), text_parameters(tools, element[1]))
    closing = _tag_element_end.match(text, end)
    if closing is None:
        raise UnreadableError
    return ToolCall(element[1], args), closing.end()


def _read_tag_parameters(text: str, pos: int, texts: Collection[str]) -> tuple[JsonObject, int]:
    args: JsonObject = {}
    while parameter := _tag_parameter.match(text, pos):
        key, is_text, value = parameter.groups()
        is_plain_text = is_text == "true" or key in texts
        _add_argument(args, key, _strip_line_breaks(value) if is_plain_text else _tag_value(value))
        pos = parameter.end()
    return args, pos


def _read_tag_pairs(text: str, pos: int, tools: Collection[str]) -> tuple[ToolCall, int]:
    """Read a call in the format of GLM: the tool's name, then keys and values, up to the end tag."""
    name = _tag_bare_name.match(text, pos)
    if name is None:
        raise UnreadableError
    args: JsonObject = {}
    pos, texts = name.end(), text_parameters(tools, name[1])
    while pair := _tag_pair.match(text, pos):
        key = pair[1].strip()
        _add_argument(args, key, _strip_line_breaks(pair[2]) if key in texts else _tag_value(pair[2]))
        pos = pair.end()
    if not _tag_close.match(text, _past_tag_gap(text, pos)):
        raise UnreadableError
    return ToolCall(name[1], args), pos


def text_parameters(tools: Collection[str], name: str) -> frozenset[str]:
    """Return a tool's parameters that its schema declares as text, or none without a schema.

    A value between tags does not show its type: `10115` may be a number or a postal code.
    """
    tool = tools.get(name) if isinstance(tools, Mapping) else None
    if not isinstance(tool, ToolDef):
        return frozenset()
    properties = tool.spec.schema.get("properties", {})
    return frozenset(
        key for key, schema in properties.items() if isinstance(schema, dict) and schema.get("type") == "string"
    )


def _add_argument(args: JsonObject, key: str, value: object) -> None:
    if key in args:
        raise UnreadableError
    args[key] = value


def _tag_value(text: str) -> object:
    """Return the value of a parameter: its text parsed as JSON, unless that fails or gives a string."""
    try:
        value = parse(text)
    except UnreadableError:
        return _strip_line_breaks(text)
    return _strip_line_breaks(text) if isinstance(value, str) or not is_plain(value) else value


def _strip_line_breaks(text: str) -> str:
    """Return the text without the line breaks between it and its tags."""
    return text.removeprefix("\n").removesuffix("\n")


TAGS = CallFormat(f"{_TAG_OPEN}|{_TAG_ELEMENT}", read_tags)


FORMATS = {
    "thinking": THINKING,
    "tags": TAGS,
    "special_tokens": SPECIAL_TOKENS,
    "harmony": HARMONY,
    "python_calls": PYTHON_CALLS,
    "control_tokens": CONTROL_TOKENS,
    "brackets": BRACKETS,
    "json_calls": JSON_CALLS,
}
