"""Whether the agent used its tools wrongly, and how."""

from offbook.scenarios.judge.metrics.label import LabelMetric

FAILURES = {
    "unnecessary_tool_call": "it called a tool that nothing in the conversation gave a reason to call.",
    "tool_call_skipped": "it did not call a tool that it had to call, as when it claims to have done or looked up "
    "something that it did not.",
    "wrong_arguments": "it called the right tool with an argument that is wrong, missing or made up.",
    "misread_result": "what it tells the user is not what the tool answered, or passes over an error.",
    "repeated_call": "it made the same call again, although nothing had changed.",
    "other": "another failure in the use of tools; the reason says which.",
}

TOOL_CALL_BEHAVIOR_FAILURE = LabelMetric(
    "tool_call_behavior_failure",
    "Did the agent use its tools wrongly? Choose the one label that fits best; of several failures, the gravest.\n"
    "- none: it called what it had to call, rightly, and read the results rightly; or there was nothing to call.\n"
    + "\n".join(f"- {label}: {meaning}" for label, meaning in FAILURES.items())
    + "\nA failed call that is tried once more is no repeated call. How the agent words its answer does not matter "
    "here.",
    labels=("none", *FAILURES),
    failures=FAILURES,
    scope="turn",
)
