"""The vendors that offbook knows: their addresses, keys, environment variables and protocols, each stated here alone.

Importing this module loads no codec; `codec_of` loads one by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from offbook.codecs.base import Codec

VendorName = Literal["openai", "anthropic", "google", "ollama"]
ProviderName = Literal["openai", "openai_responses", "anthropic", "google", "ollama"]
MockableProviderName = Literal[ProviderName, "mock"]
DUMMY_KEY = "offbook"
"""A key that no vendor accepts, for clients that insist on one."""


class Vendor(Struct, frozen=True, kw_only=True):
    """What the SDKs of one vendor agree on. Where several variables hold the same thing, the first that is set counts.

    Attributes:
        base_url: what the vendor's own SDK uses where its address variable is not set.
        api_path: what that SDK puts between its base URL and the paths of its protocol.
        default_port: the port of an address without a scheme, if the SDK accepts such addresses.
        needs_key: whether the vendor's own servers refuse requests without a key.
        key_headers: every header in which a client may send its key, in lower case.
        secret_query: every query parameter in which a client may send its key.
        codecs: the codec of each provider name under which the vendor is configured; the first writes its errors.
    """

    name: VendorName
    base_url: str
    api_path: str = ""
    default_port: int | None = None
    needs_key: bool = True
    address_variables: tuple[str, ...]
    key_variables: tuple[str, ...]
    key_headers: tuple[str, ...]
    secret_query: tuple[str, ...] = ()
    codecs: dict[ProviderName, str]

    @property
    def codec(self) -> Codec:
        """The codec of the vendor's main protocol."""
        return codec_of(next(iter(self.codecs.values())))

    @property
    def root_path(self) -> str:
        """The path of the base URL, like OpenAI's `/v1`."""
        _, slash, path = self.base_url.partition("://")[2].partition("/")
        return slash + path

    def address(self, environment: Mapping[str, str]) -> str | None:
        """The base URL that the environment sets for the vendor's SDK, or None."""
        address = _first_set(environment, self.address_variables)
        return address and self._with_scheme(address)

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
        key_variables=("OPENAI_API_KEY",),
        key_headers=("authorization", "api-key"),  # Azure's clients send the second
        secret_query=("api_key",),
        codecs={"openai": "openai_chat", "openai_responses": "openai_responses"},
    ),
    Vendor(
        name="anthropic",
        base_url="https://api.anthropic.com",
        address_variables=("ANTHROPIC_BASE_URL",),
        key_variables=("ANTHROPIC_API_KEY",),
        key_headers=("x-api-key", "authorization"),
        codecs={"anthropic": "anthropic"},
    ),
    Vendor(
        name="google",
        base_url="https://generativelanguage.googleapis.com",
        api_path="/v1beta",
        address_variables=("GOOGLE_GEMINI_BASE_URL",),
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        key_headers=("x-goog-api-key", "authorization"),
        secret_query=("key", "access_token"),
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
        codecs={"ollama": "ollama"},
    ),
)
VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in _ALL}
VENDOR_OF: dict[str, Vendor] = {name: vendor for vendor in _ALL for name in vendor.codecs}
"""The vendor of each provider name."""
CODEC_NAMES: dict[str, str] = {name: codec for vendor in _ALL for name, codec in vendor.codecs.items()}
"""The codec of each provider name."""
PROVIDER_NAMES: dict[str, str] = {codec: name for name, codec in CODEC_NAMES.items()}
"""The provider name of each codec."""
KEY_HEADERS = frozenset(name for vendor in _ALL for name in vendor.key_headers)
CREDENTIAL_HEADERS = KEY_HEADERS | {"proxy-authorization", "cookie", "x-auth-token", "x-amz-security-token"}
"""Every header in which a request may carry a secret."""
SECRET_QUERY = frozenset(
    (
        *(name for vendor in _ALL for name in vendor.secret_query),
        *("api-key", "apikey", "token", "auth", "auth_token", "id_token", "refresh_token", "subscription-key"),
        *("sig", "signature", "password", "passwd", "pwd", "secret", "client_secret"),
        *("x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential"),
    )
)
"""Every query parameter in which a request may carry a secret, in lower case."""


def upstreams_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the base URL of each vendor for which the environment sets one, as its SDK reads it."""
    found = {name: vendor.address(environment) for name, vendor in VENDORS.items()}
    return {name: url for name, url in found.items() if url}


def keys_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the API key of each vendor for which the environment sets one."""
    found = {name: vendor.key(environment) for name, vendor in VENDORS.items()}
    return {name: key for name, key in found.items() if key}


def base_url_variables(url: str) -> dict[str, str]:
    """Return the variables that point every SDK at the server at `url`, and `OFFBOOK_URL` for other programs."""
    addresses = {name: url + vendor.root_path for vendor in _ALL for name in vendor.address_variables}
    return addresses | {"OFFBOOK_URL": url}


def api_key_variables(key: str = DUMMY_KEY, *, vendors: Iterable[str] = tuple(VENDORS)) -> dict[str, str]:
    """Return the variables that give the SDKs of `vendors`, by default of all, the API key `key`."""
    return {name: key for vendor in _ALL if vendor.name in vendors for name in vendor.key_variables}


@cache
def codec_of(name: str) -> Codec:
    """Load the codec of a protocol.

    Raises:
        KeyError: there is no protocol of that name.
    """
    if name not in PROVIDER_NAMES:
        raise KeyError(name)
    codec: Codec = import_module(f"offbook.codecs.{name}").CODEC
    return codec


class _Codecs(Mapping[str, "Codec"]):
    """All codecs by the name of their protocol, each loaded when it is first used."""

    def __getitem__(self, name: str) -> Codec:
        return codec_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(PROVIDER_NAMES)

    def __len__(self) -> int:
        return len(PROVIDER_NAMES)


CODECS: Mapping[str, Codec] = _Codecs()
