"""Fetches pages from allowed hosts with httpx2, which is imported only when a workflow declares the tool."""

from __future__ import annotations

import asyncio
import codecs
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cache
from ipaddress import ip_address
from typing import TypeAlias

import httpx2

from offbook.errors import ToolFailureError, ToolRefusalError, ToolResolutionError
from offbook.workflow.builtin_tools import DEFAULT_PORTS, Address, AllowedHosts

MAX_BYTES = 1_000_000
MAX_REDIRECTS = 5
NOT_THERE = (404, 410)
ENCODINGS = ("", "identity", "gzip", "deflate")
"""Accepted content encodings. Others, and combinations, can expand a kilobyte to a gigabyte."""
SLOW_CHARSETS = ("idna", "punycode")
"""Codecs that take minutes for a large page; no page uses them."""
HEADERS = {"User-Agent": "offbook", "Accept": "*/*", "Accept-Encoding": "identity"}

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def system_addresses(host: str, port: int) -> list[Address]:
    """Resolve a host with the system's resolver.

    Raises:
        OSError: the host cannot be resolved.
    """
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(address[0]) for *_, address in addresses]


class PageFetcher:
    """Fetches text of up to 1 MB from the hosts in `allow`, at addresses that are public or allowed themselves.

    Requests go to the address that was checked: a name cannot resolve to another one later (DNS rebinding). Proxies
    are not used, and no cookies or connections are kept between pages.
    """

    def __init__(self, allow: Sequence[str], *, tool: str, resolve: Resolve = system_addresses) -> None:
        self._allow, self._hosts = ", ".join(allow), AllowedHosts(allow)
        self._tool, self._resolve = tool, resolve

    async def fetch(self, url: str) -> str:
        """Fetch the text of a page.

        Args:
            url: the address of the page, with http:// or https://

        Raises:
            ToolRefusalError: the URL, or one that it redirects to, is not allowed.
            ToolResolutionError: there is no such page.
            ToolFailureError: the page cannot be fetched; `status_code` is set if the server answered with an error.
        """
        try:
            return await self._follow(self._checked(url))
        except httpx2.InvalidURL as error:
            raise ToolRefusalError(f"{url!r} is not a URL: {error}", tool=self._tool) from None
        except (httpx2.HTTPError, OSError, UnicodeError) as error:
            raise self._failure(f"{url} cannot be fetched: {str(error) or type(error).__name__}") from error

    def _checked(self, url: httpx2.URL | str) -> httpx2.URL:
        parsed = httpx2.URL(url)
        if parsed.scheme not in DEFAULT_PORTS or not parsed.host:
            raise ToolRefusalError(f"expected a URL like https://example.com/, got {str(url)!r}", tool=self._tool)
        if parsed.userinfo:
            raise ToolRefusalError("user names and passwords in URLs are not allowed", tool=self._tool)
        host, port, usual = _host(parsed), _port(parsed), DEFAULT_PORTS[parsed.scheme]
        if not self._hosts.has_host(host, port, usual_port=usual):
            refused = host if port == usual else f"{host}:{port}"
            raise ToolRefusalError(f"{refused} is not allowed; allowed: {self._allow}", tool=self._tool)
        return parsed

    async def _follow(self, url: httpx2.URL) -> str:
        for _ in range(MAX_REDIRECTS + 1):
            async with _client() as client, aclosing(await self._answer(client, url)) as answer:
                if not answer.has_redirect_location:
                    return await self._text(answer, url)
            url = self._checked(url.join(answer.headers["location"]))
        raise self._failure(f"more than {MAX_REDIRECTS} redirects, the last to {url}")

    async def _answer(self, client: httpx2.AsyncClient, url: httpx2.URL) -> httpx2.Response:
        """Return the response of the first address of the host that can be reached."""
        unreachable: Exception | None = None
        for address in await self._addresses(url):
            request = client.build_request(
                "GET",
                url.copy_with(host=str(address)),
                headers={"Host": url.netloc.decode()},
                extensions={"sni_hostname": _host(url)},
            )
            try:
                return await client.send(request, stream=True)
            except httpx2.ConnectError as error:
                unreachable = error
        raise self._failure(f"{url.host} cannot be reached: {unreachable or 'it has no address'}")

    async def _addresses(self, url: httpx2.URL) -> Sequence[Address]:
        host, port, usual = _host(url), _port(url), DEFAULT_PORTS[url.scheme]
        addresses = await self._resolve(host, port)
        for address in addresses:
            if not self._hosts.has_address(address, port, host=host, usual_port=usual):
                raise ToolRefusalError(f"{host} is at {address}, which is not public", tool=self._tool)
        return addresses

    async def _text(self, answer: httpx2.Response, url: httpx2.URL) -> str:
        if answer.status_code in NOT_THERE:
            raise ToolResolutionError(f"there is no {url}: {answer.status_code} {answer.reason_phrase}")
        if not answer.is_success:
            reason = f"{url} answered {answer.status_code} {answer.reason_phrase}"
            raise ToolFailureError(reason, tool=self._tool, status_code=answer.status_code)
        data = await self._data(answer, url)
        charset = answer.charset_encoding or "utf-8"
        try:
            known = codecs.lookup(charset).name not in SLOW_CHARSETS
            text = data.decode(charset if known else "utf-8", "replace")
        except LookupError:
            text = data.decode("utf-8", "replace")
        if "\0" in text:
            content_type = answer.headers.get("content-type", "of an unknown type")
            raise self._failure(f"{url} is not text, but {content_type}")
        return text

    async def _data(self, answer: httpx2.Response, url: httpx2.URL) -> bytes:
        encoding = answer.headers.get("content-encoding", "")
        if encoding.lower() not in ENCODINGS:
            raise self._failure(f"{url} has the encoding {encoding}, which was not requested")
        data = bytearray()
        async for piece in answer.aiter_bytes():
            data += piece
            if len(data) > MAX_BYTES:
                raise self._failure(f"{url} is larger than {MAX_BYTES} bytes")
        return bytes(data)

    def _failure(self, reason: str) -> ToolFailureError:
        return ToolFailureError(reason, tool=self._tool)


def _client() -> httpx2.AsyncClient:
    """Return a client for one request. A connection is never reused for another host at the same address."""
    transport = httpx2.AsyncHTTPTransport(verify=_tls_context())
    return httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None, headers=HEADERS)


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the TLS settings of all clients, cached because loading the certificates takes longer than fetching a
    page.
    """
    return httpx2.create_ssl_context()


def _host(url: httpx2.URL) -> str:
    return url.raw_host.decode()


def _port(url: httpx2.URL) -> int:
    return url.port if url.port is not None else DEFAULT_PORTS[url.scheme]
