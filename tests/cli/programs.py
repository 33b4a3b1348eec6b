"""Programs that the tests of commands run: small ones, which start quickly and need no package."""

import sys

PYTHON = [sys.executable, "-S", "-c"]

ASK = [
    *PYTHON,
    """
import http.client, json, os, sys
from urllib.parse import urlsplit

url = urlsplit(os.environ["OFFBOOK_URL"])

def ask(asked):
    session, _, text = asked.rpartition("/")
    connection = http.client.HTTPConnection(url.netloc)
    body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
    headers = {"x-offbook-session": session, "authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", "")}
    try:
        connection.request("POST", url.path + "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        read = json.load(answer)
    except OSError:
        return "no answer"
    return read["choices"][0]["message"]["content"] if answer.status == 200 else f"status {answer.status}"

for asked in sys.argv[1:]:
    print(ask(asked))
""",
]
"""Asks each of its arguments, a text or `session/text`, and prints what it is told."""
