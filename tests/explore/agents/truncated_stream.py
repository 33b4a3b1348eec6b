"""Takes a stream that just ends for a complete answer. The twin checks for the reason why it ended, and asks again."""

import json
import os
import sys
import urllib.request

GAVE_UP = 3
QUESTION = {
    "model": "claude",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "Where is order 42?"}],
}


def ask():
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    text, reason = "", None
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(QUESTION).encode(), headers)) as answer:
        for line in answer:
            event = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
            if event.get("type") == "content_block_delta":
                text += event["delta"]["text"]
            elif event.get("type") == "message_delta":
                reason = event["delta"]["stop_reason"]
    return text, reason


def main(*, minds):
    for _ in range(3):
        text, reason = ask()
        if reason or not minds:
            sys.stdout.write(f"{text}\n")
            return 0
    return GAVE_UP


if __name__ == "__main__":
    sys.exit(main(minds=sys.argv[1] == "sound"))
