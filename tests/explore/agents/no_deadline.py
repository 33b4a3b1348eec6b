"""Waits for ever for a model that says nothing. The twin waits for a moment, three times."""

import json
import os
import sys
import urllib.request

GAVE_UP = 3
QUESTION = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Where is order 42?"}]}


def ask(timeout_s):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    asked = urllib.request.Request(url, json.dumps(QUESTION).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=timeout_s) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def main(timeout_s):
    for _ in range(3):
        try:
            sys.stdout.write(f"{ask(timeout_s)}\n")
        except TimeoutError:
            continue
        return 0
    return GAVE_UP


if __name__ == "__main__":
    sys.exit(main(None if sys.argv[1] == "defect" else 0.5))
