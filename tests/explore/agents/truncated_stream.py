"""Takes a stream that just ends for a whole answer. The twin looks for the reason why it ended, and asks again."""

import sys

from anthropic import Anthropic

GAVE_UP = 3
QUESTION = [{"role": "user", "content": "Where is order 42?"}]


def ask(client):
    text, reason = "", None
    for event in client.messages.create(model="claude", max_tokens=100, messages=QUESTION, stream=True):
        if event.type == "content_block_delta":
            text += event.delta.text
        elif event.type == "message_delta":
            reason = event.delta.stop_reason
    return text, reason


def main(*, minds):
    client = Anthropic(max_retries=0)
    for _ in range(3):
        text, reason = ask(client)
        if reason or not minds:
            sys.stdout.write(f"{text}\n")
            return 0
    return GAVE_UP


if __name__ == "__main__":
    sys.exit(main(minds=sys.argv[1] == "sound"))
