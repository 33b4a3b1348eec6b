"""Whether the agent behaved wrongly, and how."""

from offbook.scenarios.judge.metrics.label import LabelMetric

FAILURES = {
    "repetition": "it says again what it said before, although the user did not ask for that.",
    "failure_to_ask_for_clarification": "the request can be meant in several ways that matter, or lacks something "
    "that is needed, and the agent guesses instead of asking.",
    "lack_of_specific_information": "it stays general where the user needs something specific that the agent has "
    "or could get.",
    "disobeys_user_request": "it does not do what the user asked for, or does something else, with no good reason "
    "given.",
    "stops_without_reason": "it ends its work or the conversation before the request is dealt with, and does not say "
    "why.",
    "hallucination": "it states something about the user's matter that no tool result, knowledge or message bears out.",
    "other": "another failure of the agent's behaviour towards the user; the reason says which.",
}

AGENT_BEHAVIOR_FAILURE = LabelMetric(
    "agent_behavior_failure",
    "Did the agent behave wrongly towards the user? Choose the one label that fits best; of several failures, the "
    "gravest.\n- none: it behaved as it should.\n"
    + "\n".join(f"- {label}: {meaning}" for label, meaning in FAILURES.items())
    + "\nWhether it called the right tools does not matter here.",
    labels=("none", *FAILURES),
    failures=FAILURES,
    scope="turn",
)
