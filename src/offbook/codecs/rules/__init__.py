"""The requests that a vendor refuses: one file of rules per protocol, and the refusal in the vendor's shape."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from offbook.codecs.base import Codec, WireRequest
from offbook.codecs.rules.rule import ProtocolRules, RuleRefusal
from offbook.errors import RequestError
from offbook.messages import Request

_RULES: Final = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic": "anthropic",
    "bedrock_anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
}
"""The file with each protocol's rules. Protocols without one, such as Ollama's, publish few refusals."""

PROTOCOLS: tuple[str, ...] = tuple(name for name, module in _RULES.items() if name == module)

# Other vendors also speak these protocols, and are more lenient or stricter. The model is the only thing in a request
# that tells them apart, as their address is ours in a replay.
_FAMILIES: Final = {
    "openai": r"gpt-(?!oss)|o\d|chatgpt|codex|computer-use",
    "anthropic": r"claude",
    "gemini": r"gemini",
    "other": (
        r"llama|meta|mi[sx]tral|ministral|codestral|magistral|devstral|qwen|qwq|deepseek|gemma|phi|command|grok|kimi|moonshot"
        r"|glm|minimax|nemotron|gpt-oss|granite|smollm|yi-|ernie|hunyuan|doubao|solar|jamba|falcon|starcoder|sonar|nova"
        r"|hermes|nous|dolphin|vicuna|zephyr|wizard|internlm|baichuan|olmo|exaone|lfm|reka|dbrx|arctic|titan|palmyra|mimo"
        r"|longcat|ling-|step-|aya-|stablelm|tulu|local|ollama|vllm"
    ),
}
_OWN_FAMILY: Final = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
_OTHER_MODELS: Final = {
    protocol: re.compile(
        rf"(?:^|[/:._-])(?:{'|'.join(names for family, names in _FAMILIES.items() if family != own)})", re.IGNORECASE
    )
    for protocol, own in _OWN_FAMILY.items()
}
_PATH_MODEL: Final = re.compile(r"/(?:models?|deployments)/(?P<model>[^/:?]+)")


def rules_of(protocol: str) -> ProtocolRules | None:
    """Return the rules of a protocol, or None."""
    module = _RULES.get(protocol)
    return None if module is None else import_module(f"offbook.codecs.rules.{module}").RULES


def refusal_of(protocol: str, request: WireRequest, *, has_real_answers: bool = True) -> RuleRefusal | None:
    """Return the refusal of a request by a protocol's vendor, or None if no rule applies.

    Requests to another vendor's model over the same protocol are not judged. Answers that are not real, such as
    hand-written ones, have no signatures for a client to send back: their absence does not count.
    """
    rules = rules_of(protocol)
    if rules is None:
        return None
    body = request.body
    if "model" not in body and (found := _PATH_MODEL.search(request.path)):
        body = body | {"model": found["model"]}
    return rules.refusal(body, has_real_answers=has_real_answers) if judges(protocol, body.get("model")) else None


def refusal_of_request(request: Request, codec: Codec) -> RuleRefusal | None:
    """Return the refusal of a provider's request in this process, as `refusal_of` does.

    A request that the codec cannot encode is not judged.
    """
    try:
        wire = codec.encode_request(request)
    except RequestError:
        return None
    return refusal_of(codec.name, wire, has_real_answers=False)


def judges(protocol: str, model: object) -> bool:
    """Return whether the rules of a protocol are those of a model: not if it is the model of another vendor."""
    others = _OTHER_MODELS.get(protocol)
    return others is None or not isinstance(model, str) or others.search(model) is None
