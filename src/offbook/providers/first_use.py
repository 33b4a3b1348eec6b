"""What libraries build at first use, built before processes are forked, which inherit it.

SDKs create the models of requests and responses when these are first used, which takes them longer than the rest of a
run. So the requests of a run are sent once more, the models of pydantic that it has used are completed, and the
patterns of `re` compiled. No code of an agent runs: a method that something has replaced is not called.

In every call, SDKs check every message of the conversation against its types, some hundred microseconds for each. What
they make of a value depends on the value and its types alone, so it is remembered by both. So are the parts of the URLs
that HTTP clients take apart for every request.

Only the standard library is used, because the interpreter of a program may not have offbook.
"""

from __future__ import annotations

import inspect
import json
import marshal
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from inspect import isfunction
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Options: TypeAlias = Mapping[str, Any]


class Sdk(NamedTuple):
    """An SDK: its package, a part of the paths that it requests, and what sends a request by it.

    `root` is where a path begins that the SDK adds to its base URL. `client_option` and `url_option` are the options of
    its client for an HTTP client of ours, and for a base URL.
    """

    package: str
    path: str
    root: str
    send: Callable[[Any, Options, str, dict[str, Any]], None]
    client_option: str = "http_client"
    url_option: str = "base_url"


def send_again(path: str, body: bytes | str, options_of: Callable[[Sdk], Options]) -> None:
    """Send a request by its SDK, if that is loaded. `options_of` returns the option that leads to its answer."""
    for sdk in _SDKS:
        package = sys.modules.get(sdk.package)
        if package is not None and sdk.path in path and sdk.root in path:
            with suppress(Exception):  # only time is lost: those who are forked build it themselves
                sdk.send(package, options_of(sdk), path, json.loads(body))


def _call(package: Any, client: Any, method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call a method of an SDK, unless something else is in its place: a mock, or instrumentation."""
    function = getattr(method, "__func__", method)
    folder = Path(package.__file__).parent
    try:
        if isfunction(function) and Path(function.__code__.co_filename).is_relative_to(folder):
            _read(method(**arguments))
    finally:
        getattr(client, "close", lambda: None)()


def _read(answer: Any) -> None:
    """Read a streamed answer to its end."""
    if isinstance(answer, Iterator) or type(answer).__name__ == "Stream":
        for _ in answer:
            pass


def _send_openai_chat(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.OpenAI(api_key="none", max_retries=0, **options)
    _call(package, client, client.chat.completions.create, body)


def _send_openai_responses(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.OpenAI(api_key="none", max_retries=0, **options)
    _call(package, client, client.responses.create, body)


def _send_anthropic(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.Anthropic(api_key="none", max_retries=0, **options)
    _call(package, client, client.messages.create, body)


def _send_google(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.Client(api_key="none", vertexai=False, http_options=package.types.HttpOptions(**options))
    models = client.models
    send = models.generate_content_stream if ":stream" in path else models.generate_content
    config = {name: body[name] for name in ("tools", "systemInstruction") if name in body}
    model = path.rpartition("/")[2].partition(":")[0]
    _call(package, client, send, {"model": model, "contents": body["contents"], "config": config})


def _send_ollama(package: Any, options: Options, path: str, body: dict[str, Any]) -> None:
    client = package.Client(**options)
    _call(package, client, client.chat, body)


_SDKS = (
    Sdk("openai", "/chat/completions", "/chat/completions", _send_openai_chat),
    Sdk("openai", "/responses", "/responses", _send_openai_responses),
    Sdk("anthropic", "/messages", "/v1/messages", _send_anthropic),
    Sdk("google.genai", "enerateContent", "/v1/models/", _send_google, client_option="httpx_client"),
    Sdk("google.genai", "enerateContent", "/v1beta/models/", _send_google, client_option="httpx_client"),
    Sdk("ollama", "/api/chat", "/api/", _send_ollama, client_option="transport", url_option="host"),
)


MAX_PATTERN_CHARS = 150


def compiled_patterns() -> list[tuple[str, int]]:
    """Return the patterns, with their flags, that `re` has compiled and holds for their next use; not the longest."""
    held = [(pattern, int(flags)) for kind, pattern, flags in list(vars(re)["_cache"]) if kind is str]
    return [(pattern, flags) for pattern, flags in held if len(pattern) <= MAX_PATTERN_CHARS and pattern.isascii()]


def compile_patterns(patterns: Iterable[tuple[str, int]]) -> None:
    """Compile these patterns, so that `re` holds them."""
    for pattern, flags in patterns:
        with suppress(Exception):  # then who uses it compiles it
            re.compile(pattern, flags)


def built_models(is_known: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Return the models of known modules whose schemas are built: pydantic builds many of them at their first use."""
    models = [(each.__module__, each.__qualname__) for each in _models() if _is_built(each)]
    known = set(filter(is_known, {module for module, _ in models}))
    return [each for each in models if each[0] in known and "<" not in each[1] and "[" not in each[1]]


def build_models(names: Iterable[tuple[str, str]]) -> None:
    """Build the schemas of these models, as far as they are loaded."""
    wanted = {tuple(each) for each in names}
    for model in list(_models()) if wanted else ():
        if (model.__module__, model.__qualname__) in wanted and not _is_built(model):
            with suppress(Exception):  # then who uses it builds it
                model.model_rebuild(raise_errors=False)


def _models() -> Iterator[Any]:
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    left = [] if base is None else list(base.__subclasses__())
    while left:
        model = left.pop()
        left += model.__subclasses__()
        yield model


def _is_built(model: Any) -> bool:
    return bool(model.__dict__.get("__pydantic_complete__"))


_URL_MODULES = (("httpx", "httpx._urlparse"), ("httpx2", "httpx2._urlparse"))
_URL_FUNCTION, MAX_URLS = "urlparse", 256


def remember_urls() -> None:
    """Let the HTTP clients that are loaded remember the parts of URLs: these are texts that nobody can change."""
    for package, name in _URL_MODULES:
        module, user = sys.modules.get(name), sys.modules.get(f"{package}._urls")
        parse = getattr(module, _URL_FUNCTION, None)
        if module is not None and inspect.isfunction(parse) and parse.__code__.co_filename == module.__file__:
            remembering = lru_cache(MAX_URLS, typed=True)(parse)
            for holder in (module, user):
                if getattr(holder, _URL_FUNCTION, None) is parse:
                    setattr(holder, _URL_FUNCTION, remembering)


_TRANSFORM_MODULES = ("openai._utils._transform",)
_TRANSFORM_NAMES = ("_transform_recursive", "_async_transform_recursive")
_TRANSFORM_PARAMETERS = ["data", "annotation", "inner_type"]
MAX_TRANSFORM_BYTES, MAX_MEMORY_BYTES = 65_536, 16 * 1024 * 1024
"""How large a value is that is remembered, and how large all of them are."""
_MARSHAL_VERSION = 2
"""The last format of `marshal` whose bytes do not depend on who else refers to the parts of a value."""

_FIELDS, _ITEMS = (list, str), (dict,)
"""The types of values that are remembered: of fields of a request, and of items of lists."""

_Function = Callable[..., Any]
_TransformKey = tuple[int, int, bytes]


def remember_transforms() -> None:
    """Let the SDKs that are loaded remember, unless their functions are others than those that are known here."""
    for name in _TRANSFORM_MODULES:
        module = sys.modules.get(name)
        if module is not None and all(_has_known_transform(module, each) for each in _TRANSFORM_NAMES):
            memory = TransformMemory()
            for each, remembering in zip(_TRANSFORM_NAMES, (memory.remembering, memory.remembering_async), strict=True):
                setattr(module, each, remembering(getattr(module, each)))


def _has_known_transform(module: Any, name: str) -> bool:
    """Return whether a module has its own function of this name, and not a mock or instrumentation."""
    function = getattr(module, name, None)
    if not inspect.isfunction(function) or function.__code__.co_filename != module.__file__:
        return False
    return list(inspect.signature(function).parameters) == _TRANSFORM_PARAMETERS


class TransformMemory:
    """What a function has made of texts and lists, and of the items of lists: only those have an `inner_type`.

    It is kept by the value as bytes, and each caller gets a copy. A value that has a part of another than a plain type
    has no such bytes, and is left to the SDK.
    """

    def __init__(self) -> None:
        self._results: dict[_TransformKey, bytes] = {}
        self._types: list[Any] = []
        self._left_bytes = MAX_MEMORY_BYTES

    def remembering(self, real: _Function) -> _Function:
        """Return the function, which calls the real one for what is not known."""

        def transform(data: Any, *, annotation: Any, inner_type: Any = None) -> Any:
            key = _transform_key(data, annotation, inner_type)
            if key in self._results:
                return self._copy(key)
            return self._keep(key, real(data, annotation=annotation, inner_type=inner_type), annotation, inner_type)

        return transform

    def remembering_async(self, real: _Function) -> _Function:
        """Return the same for a coroutine function."""

        async def transform(data: Any, *, annotation: Any, inner_type: Any = None) -> Any:
            key = _transform_key(data, annotation, inner_type)
            if key in self._results:
                return self._copy(key)
            made = await real(data, annotation=annotation, inner_type=inner_type)
            return self._keep(key, made, annotation, inner_type)

        return transform

    def _copy(self, key: _TransformKey) -> Any:
        return marshal.loads(self._results[key])  # noqa: S302 - these are bytes of this process

    def _keep(self, key: _TransformKey | None, result: Any, *types: Any) -> Any:
        """Keep a result, and its types, so that no others get their ids; return it."""
        written = _bytes_of(result) if key is not None and self._left_bytes > 0 else None
        if key is not None and written is not None:
            self._results[key] = written
            self._types += types
            self._left_bytes -= len(key[2]) + len(written)
        return result


def _transform_key(data: Any, annotation: Any, inner_type: Any) -> _TransformKey | None:
    """Return by what a result is kept; None if it is not."""
    written = _bytes_of(data) if type(data) in (_FIELDS if inner_type is None else _ITEMS) else None
    return None if written is None else (id(annotation), id(inner_type), written)


def _bytes_of(value: Any) -> bytes | None:
    try:
        written = marshal.dumps(value, _MARSHAL_VERSION)
    except ValueError:
        return None
    return written if len(written) <= MAX_TRANSFORM_BYTES else None
