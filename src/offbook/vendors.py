"""The known vendors: their addresses, keys, environment variables and protocols, each stated only here.

Importing this module loads no codec; `codec_of` loads one by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from offbook.errors import InputError
from offbook.text import printable_line

if TYPE_CHECKING:
    from offbook.codecs.base import Codec

VendorName = Literal["openai", "anthropic", "google", "ollama", "bedrock", "azure", "vertex"]
ProviderName = Literal["openai", "openai_responses", "anthropic", "google", "ollama", "bedrock", "bedrock_anthropic"]
MockableProviderName = Literal[ProviderName, "mock"]
DEFAULT_REGION = "us-east-1"
DUMMY_KEY = "offbook"
"""A key that no vendor accepts, for clients that insist on one."""


class Vendor(Struct, frozen=True, kw_only=True):
    """The common behaviour of one vendor's SDKs. Of several variables for one thing, the first that is set counts.

    Attributes:
        base_url: the default of the vendor's own SDK; empty if each user has another.
        like: the vendor whose formats it uses, if they are not its own.
        api_path: the path between that SDK's base URL and the paths of its protocol.
        default_port: the port of an address without a scheme, if the SDK accepts such addresses.
        needs_key: whether the vendor's own servers refuse requests without a key.
        signed_as: the service for which requests without a key are signed (AWS), if they are.
        region_variables: the variables that name the region of the servers, instead of the one in `base_url`.
        address_ends: the end of an address in a variable, if it differs from `base_url`'s.
        host_variables: variables of agents for the address without the path of `base_url`.
        is_opt_in: whether programs choose the vendor by its variables, which are therefore only replaced where set.
        tls_key_variables: those of the key variables that its SDK refuses to use without TLS.
        login_variables: further required variables of its SDK, with values for a replay.
        key_headers: every header in which a client may send its key, in lower case.
        secret_query: every query parameter in which a client may send its key.
        otel_name: OpenTelemetry's name for it, if it differs.
        hosts: further hosts of its API, and of others that speak its protocol, as patterns; interception knows them.
        codecs: the codec of each provider name under which the vendor is configured; the first writes its errors.
        prompt_codecs: the codecs of calls with one prompt, by the provider name that they are recorded under.
    """

    name: VendorName
    base_url: str
    like: VendorName | None = None
    api_path: str = ""
    default_port: int | None = None
    needs_key: bool = True
    signed_as: str = ""
    default_region: str = ""
    region_variables: tuple[str, ...] = ()
    is_opt_in: bool = False
    address_ends: dict[str, str] = {}
    address_variables: tuple[str, ...]
    host_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...]
    tls_key_variables: tuple[str, ...] = ()
    login_variables: dict[str, str] = {}
    key_headers: tuple[str, ...]
    secret_query: tuple[str, ...] = ()
    otel_name: str = ""
    hosts: tuple[str, ...] = ()
    codecs: dict[ProviderName, str] = {}
    prompt_codecs: dict[ProviderName, str] = {}

    @property
    def codec(self) -> Codec:
        """The codec of the vendor's main protocol."""
        return codec_of(next(iter(self.codecs.values()))) if self.like is None else VENDORS[self.like].codec

    @property
    def root_path(self) -> str:
        """The path of the base URL, like OpenAI's `/v1`."""
        _, slash, path = self.base_url.partition("://")[2].partition("/")
        return slash + path

    def address(self, environment: Mapping[str, str]) -> str | None:
        """The base URL that the environment sets for the vendor's SDK, or its region's; else None."""
        found = {name: environment.get(name, "").removesuffix(end) for name, end in self._ends.items()}
        address = _first_set(found, self.address_variables) or self._host_address(environment)
        region = _first_set(environment, self.region_variables)
        if not address and region:
            is_global = region == "global"  # its host has no region
            return self.base_url.replace(
                f"{self.default_region}-" if is_global else self.default_region, "" if is_global else region
            )
        return address and self._with_scheme(address)

    def _host_address(self, environment: Mapping[str, str]) -> str | None:
        hosts = [environment[name] for name in self.set_host_variables(environment)]
        return hosts[0].rstrip("/") + self.root_path if hosts else None

    def set_host_variables(self, environment: Mapping[str, str]) -> list[str]:
        """Return the host variables that hold an address. For other programs they hold words like `azure`."""
        return [name for name in self.host_variables if "://" in environment.get(name, "")]

    @property
    def _ends(self) -> dict[str, str]:
        return dict.fromkeys(self.address_variables, "") | self.address_ends

    def base_url_variables(self, url: str) -> dict[str, str]:
        """Return the variables that point the vendor's SDKs at the server at `url`."""
        return {name: url + (end or self.root_path) for name, end in self._ends.items()}

    def key(self, environment: Mapping[str, str]) -> str | None:
        """The API key that the environment sets for the vendor's SDK, or None."""
        return _first_set(environment, self.key_variables)

    def _with_scheme(self, address: str) -> str:
        if self.default_port is None or "://" in address:
            return address
        authority, slash, path = address.partition("/")
        host, colon, port = authority.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = authority, ""
        return f"http://{host or '127.0.0.1'}:{port or self.default_port}{slash}{path}".rstrip("/")


def _first_set(environment: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next(filter(None, map(environment.get, names)), None)


_ALL = (
    Vendor(
        name="openai",
        base_url="https://api.openai.com/v1",
        address_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),  # LangChain reads the second
        host_variables=("OPENAI_HOST",),
        key_variables=("OPENAI_API_KEY",),
        key_headers=("authorization", "api-key"),  # Azure's clients send the second
        secret_query=("api_key",),
        hosts=(
            *(
                "*.api.openai.com",
                "openrouter.ai",
                "api.groq.com",
                "api.mistral.ai",
                "api.deepseek.com",
                "api.x.ai",
                "api.cerebras.ai",
            ),
            *("api.together.xyz", "api.together.ai", "api.fireworks.ai", "api.perplexity.ai", "router.huggingface.co"),
        ),
        codecs={"openai": "openai_chat", "openai_responses": "openai_responses"},
        prompt_codecs={"openai": "openai_completions"},
    ),
    Vendor(
        name="anthropic",
        base_url="https://api.anthropic.com",
        address_variables=("ANTHROPIC_BASE_URL",),
        host_variables=("ANTHROPIC_HOST",),
        key_variables=("ANTHROPIC_API_KEY",),
        key_headers=("x-api-key", "authorization"),
        codecs={"anthropic": "anthropic"},
    ),
    Vendor(
        name="google",
        base_url="https://generativelanguage.googleapis.com",
        api_path="/v1beta",
        address_variables=("GOOGLE_GEMINI_BASE_URL",),
        host_variables=("GOOGLE_HOST",),
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        key_headers=("x-goog-api-key", "authorization"),
        secret_query=("key", "access_token"),
        otel_name="gcp.gemini",
        codecs={"google": "gemini"},
    ),
    Vendor(
        name="ollama",
        base_url="http://127.0.0.1:11434",
        default_port=11434,
        needs_key=False,
        address_variables=("OLLAMA_HOST",),
        key_variables=("OLLAMA_API_KEY",),
        key_headers=("authorization",),
        hosts=("ollama.com",),
        codecs={"ollama": "ollama"},
        prompt_codecs={"ollama": "ollama_generate"},
    ),
    Vendor(
        name="bedrock",
        base_url=f"https://bedrock-runtime.{DEFAULT_REGION}.amazonaws.com",
        default_region=DEFAULT_REGION,
        needs_key=False,
        signed_as="bedrock",
        region_variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
        address_variables=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "ANTHROPIC_BEDROCK_BASE_URL"),
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        tls_key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        login_variables={
            "AWS_ACCESS_KEY_ID": DUMMY_KEY,
            "AWS_SECRET_ACCESS_KEY": DUMMY_KEY,
            "AWS_REGION": DEFAULT_REGION,
            "AWS_DEFAULT_REGION": DEFAULT_REGION,
        },
        key_headers=("authorization",),
        otel_name="aws.bedrock",
        hosts=("bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com"),
        codecs={"bedrock": "bedrock", "bedrock_anthropic": "bedrock_anthropic"},
    ),
    Vendor(
        name="azure",
        base_url="",
        like="openai",
        is_opt_in=True,
        address_variables=("AZURE_OPENAI_ENDPOINT",),
        key_variables=("AZURE_OPENAI_API_KEY",),
        login_variables={"OPENAI_API_VERSION": "2024-10-21"},
        key_headers=("api-key", "authorization"),
        secret_query=("api-key",),
        hosts=("*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com"),
    ),
    Vendor(
        name="vertex",
        base_url="https://us-central1-aiplatform.googleapis.com",
        like="google",
        needs_key=False,
        default_region="us-central1",
        region_variables=("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"),
        address_ends={"ANTHROPIC_VERTEX_BASE_URL": "/v1"},
        address_variables=("GOOGLE_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL"),
        key_variables=(),
        key_headers=("authorization", "x-goog-api-key"),
        secret_query=("key", "access_token"),
        hosts=("aiplatform.googleapis.com", "*-aiplatform.googleapis.com"),
    ),
)
VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in _ALL}
VENDOR_OF: dict[str, Vendor] = {name: vendor for vendor in _ALL for name in vendor.codecs}
"""The vendor of each provider name."""
CODEC_NAMES: dict[str, str] = {name: codec for vendor in _ALL for name, codec in vendor.codecs.items()}
"""The codec of each provider name."""
PROVIDER_NAMES: dict[str, str] = {
    codec: name for vendor in _ALL for codecs in (vendor.codecs, vendor.prompt_codecs) for name, codec in codecs.items()
}
"""The provider name of each codec."""
KEY_HEADERS = frozenset(name for vendor in _ALL for name in vendor.key_headers)
CREDENTIAL_HEADERS = KEY_HEADERS | {"proxy-authorization", "cookie", "x-auth-token", "x-amz-security-token"}
"""Every header in which a request may carry a secret."""
_CREDENTIAL_NAME = re.compile(
    r"(?!.*(cache|idempotency|websocket|surrogate|partition|routing|sort|next|page|sync|continuation)[-_]?(key|token))"
    r"(.*[-_])?(key|token|auth|authorization|authentication|secret|password|passphrase|credentials?|signature|assertion"
    r"|apikey|(access|secret|user|subscription|account|client|private)key|(auth|access|session|id|refresh)token"
    r"|samlresponse)|(x|cf)-(.*-)?session"
)


@lru_cache(1_024)
def is_credential_name(name: str) -> bool:
    """Return whether a header or a query parameter with this lower-case name may authenticate requests, to a vendor or
    to a gateway.
    """
    return name in CREDENTIAL_HEADERS or (
        not name.startswith(("x-offbook-", "x-amz-checksum")) and _CREDENTIAL_NAME.fullmatch(name) is not None
    )


CREDENTIAL_QUERY = frozenset(
    ("code", "jwt", "ticket", "session", "session_id", "sessionid", "sid", "otp", "assertion", "nonce", "state", "hmac")
)
"""Query parameters that may authenticate requests. Elsewhere they are ordinary words."""
MIN_WEAK_CREDENTIAL_CHARS = 12
"""The minimum length of such a parameter's value. A shorter one may be a word."""
SECRET_QUERY = frozenset(
    (
        *(name for vendor in _ALL for name in vendor.secret_query),
        *("api-key", "apikey", "token", "auth", "auth_token", "id_token", "refresh_token", "subscription-key"),
        *("sig", "signature", "password", "passwd", "pwd", "secret", "client_secret"),
        *("x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential"),
    )
)
"""Every query parameter in which a request may carry a secret, in lower case."""


def otel_name(provider: str) -> str:
    """Return OpenTelemetry's name for the vendor of a provider name, or the name itself."""
    vendor = VENDOR_OF.get(provider)
    return provider if vendor is None else vendor.otel_name or vendor.name


def upstreams_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the base URLs that the environment sets, by vendor, as the SDKs read them."""
    found = {name: vendor.address(environment) for name, vendor in VENDORS.items()}
    return {name: url for name, url in found.items() if url}


def keys_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the API keys that the environment sets, by vendor."""
    found = {name: vendor.key(environment) for name, vendor in VENDORS.items()}
    return {name: key for name, key in found.items() if key}


def missing_keys(vendors: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return the unset key variables of those vendors whose own servers need one."""
    known = [VENDORS[name] for name in dict.fromkeys(vendors) if name in VENDORS]
    return [each.key_variables[0] for each in known if each.needs_key and not each.key(environment)]


def base_url_variables(url: str) -> dict[str, str]:
    """Return the variables that point every SDK at the server at `url`, and `OFFBOOK_URL` for other programs."""
    addresses = [vendor.base_url_variables(url) for vendor in _ALL if not vendor.is_opt_in]
    return {name: address for each in addresses for name, address in each.items()} | {"OFFBOOK_URL": url}


_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=(?P<path>(?:/[A-Za-z0-9._~-]+)*/?))?")


def named_base_urls(names: Iterable[str], url: str) -> dict[str, str]:
    """Return further variables with the address of the server at `url`, each given as `NAME`, or `NAME=/path` below it.

    Raises:
        InputError: that is not the name of a variable, or not a path.
    """
    found = {name: _VARIABLE.fullmatch(name) for name in names}
    for name, match in found.items():
        if match is None:
            hint = "the name of a variable, with a path if the address has one: MY_LLM_URL, or MY_LLM_URL=/v1"
            raise InputError(f"{printable_line(name)!r} is not a variable", source="base_url_vars", hint=hint)
    return {match["name"]: url + (match["path"] or "") for match in found.values() if match is not None}


def api_key_variables(key: str = DUMMY_KEY, *, vendors: Iterable[str] = tuple(VENDORS)) -> dict[str, str]:
    """Return the variables that give the SDKs of `vendors`, by default of all, the API key `key`.

    Variables that an SDK refuses without TLS, and those by which programs choose a vendor, are omitted.
    """
    named = [vendor for vendor in _ALL if vendor.name in vendors and not vendor.is_opt_in]
    return {name: key for each in named for name in each.key_variables if name not in each.tls_key_variables}


def plain_environment(environment: Mapping[str, str], url: str, *, is_replayed: bool) -> dict[str, str]:
    """Return the environment for a program that is pointed at the server at `url` without TLS.

    Keys that SDKs refuse to send there are omitted. Missing settings for request signatures are added if nothing checks
    them: in a replay, or because the server sends such a key upstream. AWS settings in files take precedence.
    """
    tls_keys = {name for vendor in _ALL for name in vendor.tls_key_variables if environment.get(name)}
    left = {name: value for name, value in environment.items() if name not in tls_keys}
    left |= _opt_in_variables(environment, url, is_replayed=is_replayed)
    left |= {name: url for vendor in _ALL for name in vendor.set_host_variables(environment)}
    folder = Path(environment.get("HOME") or "~").expanduser() / ".aws"
    files = [Path(environment.get("AWS_CONFIG_FILE") or folder / "config"), folder / "credentials"]
    if not (is_replayed or tls_keys) or any(file.exists() for file in files):
        return left
    signed = [vendor for vendor in _ALL if vendor.signed_as]
    return {name: value for vendor in signed for name, value in vendor.login_variables.items()} | left


def _opt_in_variables(environment: Mapping[str, str], url: str, *, is_replayed: bool) -> dict[str, str]:
    """Return the variables of the vendors that a program has chosen by them."""
    chosen = [vendor for vendor in _ALL if vendor.is_opt_in and vendor.address(environment)]
    addresses = {name: address for vendor in chosen for name, address in vendor.base_url_variables(url).items()}
    if not is_replayed:
        return addresses
    keys = {name: DUMMY_KEY for vendor in chosen for name in vendor.key_variables}
    login = {name: value for vendor in chosen for name, value in vendor.login_variables.items()}
    return addresses | keys | {name: value for name, value in login.items() if name not in environment}


def tls_keys_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the API keys that the SDKs of their vendors refuse to send to a server without TLS, by vendor."""
    found = {name: _first_set(environment, vendor.tls_key_variables) for name, vendor in VENDORS.items()}
    return {name: key for name, key in found.items() if key}


@cache
def codec_of(name: str) -> Codec:
    """Load the codec of a protocol.

    Raises:
        KeyError: the protocol is unknown.
    """
    if name not in PROVIDER_NAMES:
        raise KeyError(name)
    codec: Codec = import_module(f"offbook.codecs.{name}").CODEC
    return codec


class _Codecs(Mapping[str, "Codec"]):
    """All codecs by protocol, each loaded on first use."""

    def __getitem__(self, name: str) -> Codec:
        return codec_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(PROVIDER_NAMES)

    def __len__(self) -> int:
        return len(PROVIDER_NAMES)


CODECS: Mapping[str, Codec] = _Codecs()
