"""Workflows and recordings for the tests of commands that run them."""

import json

GREET = """\
name: greet
config: {provider: openai, model: demo}
state: {name: Ada, user: {city: Oslo}}
steps:
  - {id: hello, type: llm_call, prompt: "Say hello to {state.name}", output: hello}
  - {id: bye, type: llm_call, depends_on: [hello], prompt: "Say goodbye after {state.hello}", output: bye}
"""
ANSWERS = {"hello": {"content": "Hello!", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}, "bye": "Bye!"}


def entry(answer):
    return answer if isinstance(answer, dict | list) else {"content": answer}


def recording(answers, **more):
    """The text of a recording, of entries or of their contents."""
    return json.dumps({"_version": 2, **{key: entry(answer) for key, answer in answers.items()}, **more})
