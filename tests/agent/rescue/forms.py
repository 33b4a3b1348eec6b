"""Calls written in every form, and hypothesis strategies for them."""

import json

from hypothesis import strategies as st

from offbook.messages import ToolCall

texts = st.text(st.sampled_from("abc XYZ019{}[]()<>|/\\\"'`,:;=#.?!-_\n\té日"), max_size=20)
names = st.from_regex(r"[a-z][a-z0-9_]{0,15}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
calls = st.lists(st.builds(ToolCall, names, st.dictionaries(names, values, max_size=3)), min_size=1, max_size=3)


def is_json(text):
    try:
        json.loads(text, strict=False)
    except ValueError:
        return False
    return True


tag_texts = texts.filter(lambda text: "<" not in text and not is_json(text))
tag_values = (
    st.booleans() | st.integers(-(2**53), 2**53) | st.lists(st.integers(-(2**53), 2**53), max_size=2) | tag_texts
)
tag_calls = st.lists(st.builds(ToolCall, names, st.dictionaries(names, tag_values, max_size=3)), min_size=1, max_size=3)


def named(call, name="name", arguments="arguments"):
    return json.dumps({name: call.tool, arguments: call.args}, ensure_ascii=False)


def each(written, joint="\n"):
    return lambda calls: joint.join(written(call) for call in calls)


def fenced(text, language="json"):
    return f"```{language}\n{text}\n```"


def written_value(value):
    return value if isinstance(value, str) else json.dumps(value)


def qwen_coder(call):
    parameters = "".join(f"<parameter={k}>\n{written_value(v)}\n</parameter>\n" for k, v in call.args.items())
    return f"<tool_call>\n<function={call.tool}>\n{parameters}</function>\n</tool_call>"


def invoke(call):
    parameters = "".join(f'<parameter name="{k}">\n{written_value(v)}\n</parameter>' for k, v in call.args.items())
    return f'<invoke name="{call.tool}">{parameters}</invoke>'


def glm(call):
    pairs = "".join(
        f"<arg_key>{k}</arg_key>\n<arg_value>\n{written_value(v)}\n</arg_value>\n" for k, v in call.args.items()
    )
    return f"<tool_call>{call.tool}\n{pairs}</tool_call>"


def deepseek(call):
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.tool}\n{fenced(json.dumps(call.args))}<｜tool▁call▁end｜>"


def kimi(call):
    return (
        f"<|tool_call_begin|>functions.{call.tool}:0"
        f"<|tool_call_argument_begin|>{json.dumps(call.args)}<|tool_call_end|>"
    )


def harmony(call):
    return (
        f"<|start|>assistant<|channel|>commentary to=functions.{call.tool} "
        f"<|constrain|>json<|message|>{json.dumps(call.args)}<|call|>"
    )


def python(call):
    return f"{call.tool}({', '.join(f'{key}={value!r}' for key, value in call.args.items())})"


FORMS = {
    "json tool and args": each(lambda call: named(call, "tool", "args")),
    "json name and parameters": each(lambda call: named(call, arguments="parameters"), "; "),
    "json action": each(lambda call: named(call, "action", "action_input")),
    "json function with arguments as text": each(
        lambda call: json.dumps({"function": {"name": call.tool, "arguments": json.dumps(call.args)}})
    ),
    "json by key": each(lambda call: json.dumps({call.tool: call.args})),
    "json list": lambda calls: f"[{', '.join(named(call) for call in calls)}]",
    "json tool_calls": lambda calls: f'{{"tool_calls": [{", ".join(named(call) for call in calls)}]}}',
    "json fenced": lambda calls: fenced("\n".join(named(call) for call in calls)),
    "json as python prints it": each(lambda call: repr({"tool": call.tool, "args": call.args})),
    "json without the last brace": lambda calls: "\n".join(named(call) for call in calls)[:-1],
    "json behind thinking": lambda calls: "<think>Hm.</think>" + "\n".join(named(call) for call in calls),
    "brackets rehearsal": each(lambda call: f"{call.tool}[ARGS]{json.dumps(call.args)}", ""),
    "brackets list": lambda calls: f"[TOOL_CALLS][{', '.join(named(call) for call in calls)}]",
    "brackets named": each(lambda call: f"[TOOL_CALLS]{call.tool}{json.dumps(call.args)}", ""),
    "brackets with id": each(lambda call: f"[TOOL_CALLS]{call.tool}[CALL_ID]a1[ARGS]{json.dumps(call.args)}", ""),
    "tags hermes": each(lambda call: f"<tool_call>\n{named(call)}\n</tool_call>"),
    "tags function": each(lambda call: f"<function={call.tool}>{json.dumps(call.args)}</function>"),
    "tokens deepseek": each(deepseek),
    "tokens kimi": each(kimi, ""),
    "tokens harmony": each(harmony, ""),
    "tokens phi": lambda calls: f"<|tool_call|>[{', '.join(named(call) for call in calls)}]<|/tool_call|>",
    "python list": lambda calls: f"[{', '.join(map(python, calls))}]",
    "python lines": each(python),
    "python fenced": lambda calls: fenced("\n".join(map(python, calls)), "python"),
    "python behind its token": lambda calls: f"<|python_tag|>[{', '.join(map(python, calls))}]<|eom_id|>",
}
TAG_FORMS = {"qwen coder": each(qwen_coder), "invoke": each(invoke), "glm": each(glm)}
