"""Fetching pages: of allowed hosts alone, wherever a URL, a redirect or a name may lead."""

import gzip
import re
import socket
import threading
import time
from ipaddress import ip_address

import pytest

from offbook import run
from offbook.errors import ToolFailureError, ToolRefusalError, ToolResolutionError, ToolTimeoutError
from offbook.workflow.builtin_tools import AllowedHosts, http_get, is_public
from offbook.workflow.file.schema import HOST_PATTERN
from offbook.workflow.page_fetcher import PageFetcher
from tests.servers.pages import PageServer, page
from tests.workflow.builtin_tools.calls import outcome_of, text_of


def fetch_tool(*allow, timeout_s=10.0):
    return http_get("fetch", allow=allow, timeout_s=timeout_s)


def fetched(pages, path="/"):
    """What fetching a path of a server with these pages gives."""
    with PageServer(pages) as server:
        return text_of(fetch_tool(server.host), url=server.url + path)


def test_a_model_is_told_what_the_tool_does_and_which_hosts_it_may_ask():
    tool = fetch_tool("example.com", "*.example.org")
    assert tool.spec.description == "Fetch a page by HTTP GET. Hosts that you may ask: example.com, *.example.org."
    assert tool.spec.schema["properties"] == {
        "url": {"type": "string", "description": "the address of the page, with http:// or https://"}
    }


def test_a_page_is_fetched_as_text():
    assert fetched({"/": page("grüß dich")}) == "grüß dich"


CHARSETS = {
    "iso-8859-1": (b"gr\xfc\xdf", "grüß"),
    "utf-16": ("grüß".encode("utf-16"), "grüß"),
    "no-such-charset": ("grüß".encode(), "grüß"),
    "punycode": (b"gr-wka", "gr-wka"),
    "utf-8": (b"gr\xfc", "gr�"),
}


def test_a_page_is_read_in_its_charset():
    pages = {f"/{name}": page(body, Content_Type=f"text/plain; charset={name}") for name, (body, _) in CHARSETS.items()}
    with PageServer(pages) as server:
        texts = {name: text_of(fetch_tool(server.host), url=f"{server.url}/{name}") for name in CHARSETS}
    assert texts == {name: text for name, (_, text) in CHARSETS.items()}


def test_a_packed_page_is_unpacked():
    assert fetched({"/": page(gzip.compress(b"hello"), Content_Encoding="gzip")}) == "hello"


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
def test_a_page_that_could_unpack_to_anything_is_not_unpacked(encoding):
    with pytest.raises(ToolFailureError, match=f"has the encoding {encoding}"):
        fetched({"/": page(b"x", Content_Encoding=encoding)})


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
def test_a_page_that_is_not_there_is_no_failure_of_the_tool(status):
    with pytest.raises(ToolResolutionError, match=f"there is no http://127.0.0.1:.*/: {status}"):
        fetched({"/": page("", status=status)})


@pytest.mark.parametrize("status", ["500 Internal Server Error", "403 Forbidden", "304 Not Modified", "302 Found"])
def test_any_other_status_is_reported(status):
    with pytest.raises(ToolFailureError, match=f"answered {status}") as caught:
        fetched({"/": page("", status=status)})
    assert caught.value.status_code == int(status[:3])
    assert caught.value.tool == "fetch"


def test_what_is_no_text_is_reported_by_its_type():
    with pytest.raises(ToolFailureError, match="is not text, but image/png"):
        fetched({"/": page(b"\x89PNG\r\n\0\0", Content_Type="image/png")})


def test_a_page_of_more_than_a_megabyte_is_refused():
    assert len(fetched({"/": page(b"x" * 1_000_000)})) == 1_000_000
    body = b"x" * 1_000_001
    for answer in (page(body), page(gzip.compress(body), Content_Encoding="gzip")):
        with pytest.raises(ToolFailureError, match="is larger than 1000000 bytes"):
            fetched({"/": answer})


OTHER_HOSTS = [
    *("http://example.org/", "http://example.com:8080/", "http://www.example.com/", "https://example.com.evil.com/"),
    *("http://127.0.0.1/", "http://2130706433/", "http://[::ffff:127.0.0.1]/", "http://exämple.com/"),
]


def test_another_host_is_refused_and_the_allowed_ones_are_named():
    for url in OTHER_HOSTS:
        with pytest.raises(ToolRefusalError, match=r"is not allowed; allowed: example\.com"):
            text_of(fetch_tool("example.com"), url=url)


NOT_WEB_ADDRESSES = [
    *("file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "example.com", "//example.com/", ""),
    *("http:///path", "http://user:password@example.com/", "http://example.org@example.com/"),
    *("http://example.com\\@example.org/", "http://exa mple.com\n/", "http://1.2.3.4.5:x/", "http://[::1/"),
]


def test_what_is_no_plain_web_address_is_refused():
    tool = fetch_tool("example.com", "example.org")
    for url in NOT_WEB_ADDRESSES:
        assert isinstance(outcome_of(tool, url=url).error, ToolRefusalError), url


def test_redirects_are_followed_on_allowed_hosts():
    pages = {"/": page("", status="302 Found", Location="/a?b=c"), "/a?b=c": page("here")}
    assert fetched(pages) == "here"


def test_a_redirect_to_another_host_is_refused_without_asking_it():
    with PageServer({"/secret": page("secret")}) as other:
        away = page("", status="301 Moved Permanently", Location=f"{other.url}/secret")
        with pytest.raises(ToolRefusalError, match=f"{other.host} is not allowed"):
            fetched({"/": away})
        assert other.calls == []


@pytest.mark.parametrize("location", ["file:///etc/passwd", "//evil.example/", "http://a@127.0.0.1/"])
def test_a_redirect_to_what_is_no_allowed_address_is_refused(location):
    with pytest.raises(ToolRefusalError):
        fetched({"/": page("", status="307 Temporary Redirect", Location=location)})


def test_a_redirect_to_what_is_no_address_at_all_is_reported():
    with pytest.raises(ToolFailureError, match="Invalid URL in location header"):
        fetched({"/": page("", status="307 Temporary Redirect", Location="http://[::1/")})


def test_only_five_redirects_are_followed():
    pages = {f"/{n}": page("", status="308 Permanent Redirect", Location=f"/{n + 1}") for n in range(7)}
    assert fetched(pages | {"/5": page("here")}, "/0") == "here"
    with pytest.raises(ToolFailureError, match="more than 5 redirects"):
        fetched(pages, "/0")


def test_cookies_and_secrets_go_nowhere(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    pages = {"/": page("", status="302 Found", Location="/a", Set_Cookie="a=b"), "/a": page("here")}
    with PageServer(pages) as server:
        assert text_of(fetch_tool(server.host), url=f"{server.url}/") == "here"
    for call in server.calls:
        assert dict(call.headers) == {
            "Host": server.host,
            "User-Agent": "offbook",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "keep-alive",
        }


def at(*addresses):
    """A stand-in for name servers: every name leads to the next of these addresses, each time it is asked for."""
    left = iter(addresses)

    async def resolve(host, port):
        return [ip_address(address) for address in next(left)]

    return resolve


def test_a_name_that_leads_to_this_machine_is_refused_though_it_is_allowed():
    with PageServer({"/": page("secret")}) as server:
        pages = PageFetcher([f"*.example.test:{server.port}"], tool="fetch", resolve=at(["127.0.0.1"]))
        with pytest.raises(ToolRefusalError, match=r"a\.example\.test is at 127\.0\.0\.1, which is not public"):
            run(pages.fetch(f"http://a.example.test:{server.port}/"), virtual_time=True)
    assert server.calls == []


def test_one_private_address_among_public_ones_is_enough_to_refuse():
    pages = PageFetcher(["example.test"], tool="fetch", resolve=at(["8.8.8.8", "169.254.169.254"]))
    with pytest.raises(ToolRefusalError, match=r"is at 169\.254\.169\.254"):
        run(pages.fetch("http://example.test/"), virtual_time=True)


def test_the_address_that_was_checked_is_asked_for_the_host_that_was_named():
    with PageServer({"/": page("here")}) as server:
        allow = [f"example.test:{server.port}", server.host]
        pages = PageFetcher(allow, tool="fetch", resolve=at(["127.0.0.1"], ["127.0.0.2"]))
        assert run(pages.fetch(f"http://example.test:{server.port}/"), virtual_time=True) == "here"
    assert [call.headers["Host"] for call in server.calls] == [f"example.test:{server.port}"]


def test_an_address_that_cannot_be_reached_is_passed_over():
    with PageServer({"/": page("here")}) as server:
        allow = [f"example.test:{server.port}", server.host, f"127.0.0.2:{server.port}"]
        pages = PageFetcher(allow, tool="fetch", resolve=at(["127.0.0.2", "127.0.0.1"]))
        assert run(pages.fetch(f"http://example.test:{server.port}/"), virtual_time=True) == "here"


def test_a_secure_page_is_asked_for_by_the_name_of_its_host():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, received = listening.getsockname()[1], []

        def answer():
            with listening.accept()[0] as connection:
                received.append(connection.recv(4096))

        server = threading.Thread(target=answer)
        server.start()
        allow = [f"pages.example.test:{port}", f"127.0.0.1:{port}"]
        pages = PageFetcher(allow, tool="fetch", resolve=at(["127.0.0.1"]))
        with pytest.raises(ToolFailureError, match=r"pages\.example\.test cannot be reached"):
            run(pages.fetch(f"https://pages.example.test:{port}/"), virtual_time=True)
        server.join()
    assert b"pages.example.test" in received[0]


@pytest.mark.parametrize(("addresses", "reason"), [([], "it has no address"), (["127.0.0.2"], "attempts failed")])
def test_a_host_that_cannot_be_reached_is_reported(addresses, reason):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        pages = PageFetcher([f"a.test:{port}", f"127.0.0.2:{port}"], tool="fetch", resolve=at(addresses))
        with pytest.raises(ToolFailureError, match=f"a.test cannot be reached: .*{reason}"):
            run(pages.fetch(f"http://a.test:{port}/"), virtual_time=True)


def test_localhost_is_this_machine():
    with PageServer({"/": page("here")}) as server:
        tool = fetch_tool(f"localhost:{server.port}")
        assert text_of(tool, url=f"http://localhost:{server.port}/") == "here"


def test_a_name_that_cannot_be_one_is_reported():
    with pytest.raises(ToolFailureError, match="cannot be fetched"):
        text_of(fetch_tool("*.example.test"), url="http://a..example.test/")


def test_an_answer_that_breaks_off_is_reported():
    with pytest.raises(ToolFailureError, match="cannot be fetched"):
        fetched({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"})


def test_a_page_that_does_not_come_in_time_is_given_up():
    with PageServer({"/": None}) as server:
        started_s = time.monotonic()
        error = outcome_of(fetch_tool(server.host, timeout_s=0.2), url=f"{server.url}/").error
        assert isinstance(error, ToolTimeoutError)
        assert time.monotonic() - started_s >= 0.2


def allows(entry, host, port=443):
    return AllowedHosts([entry]).has_host(host, port, usual_port=443)


ALLOWED = [
    ("example.com", "example.com", 443),
    ("Example.COM", "example.com", 443),
    ("example.com:443", "example.com", 443),
    ("example.com:8080", "example.com", 8080),
    ("*.example.com", "www.example.com", 443),
    ("*.example.com", "a.b.example.com", 443),
    ("10.0.0.1:81", "10.0.0.1", 81),
    ("[::1]:81", "::1", 81),
    ("[::1]", "0:0:0:0:0:0:0:1", 443),
]
NOT_ALLOWED = [
    ("example.com", "example.com", 8080),
    ("example.com:8080", "example.com", 443),
    ("example.com", "www.example.com", 443),
    ("example.com", "badexample.com", 443),
    ("example.com", "example.com.evil.com", 443),
    ("example.com", "example.com.", 443),
    ("*.example.com", "example.com", 443),
    ("*.example.com", "badexample.com", 443),
    ("*.example.com", "example.com.evil.com", 443),
    ("10.0.0.1", "167772161", 443),
]
NOT_HOSTS = ["*", "*.", "http://example.com", "example.com/", "a@b", "a b", "::1", "", ".com", "exa*mple.com", "a:"]


def test_a_host_is_allowed_as_it_is_written_and_no_other_host_or_port_is():
    assert [entry for entry, _, _ in ALLOWED if not re.match(HOST_PATTERN, entry)] == []
    assert [case for case in ALLOWED if not allows(*case)] == []
    assert [case for case in NOT_ALLOWED if allows(*case)] == []
    assert [entry for entry in NOT_HOSTS if re.match(HOST_PATTERN, entry)] == []


PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"),
    *("::", "::1", "fe80::1", "fd00::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "2001:db8::1"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "::127.0.0.1", "::8.8.8.8", "64:ff9b:1::7f00:1"),
    *("::ffff:0:7f00:1", "3fff::1", "5f00::1", "4000::1", "192.88.99.1"),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"]


def test_addresses_of_the_internet_are_public_and_those_of_private_networks_are_not():
    assert [address for address in PRIVATE if is_public(ip_address(address))] == []
    assert [address for address in PUBLIC if not is_public(ip_address(address))] == []


@pytest.mark.parametrize(
    ("allow", "host", "address", "allowed"),
    [
        (["example.com"], "example.com", "8.8.8.8", True),
        (["example.com"], "example.com", "10.0.0.1", False),
        (["example.com", "10.0.0.1"], "example.com", "10.0.0.1", True),
        (["example.com", "10.0.0.1:81"], "example.com", "10.0.0.1", False),
        (["10.0.0.1"], "10.0.0.1", "10.0.0.1", True),
        (["localhost"], "localhost", "127.0.0.1", True),
        (["localhost"], "localhost", "::1", True),
        (["localhost"], "localhost", "10.0.0.1", False),
    ],
)
def test_a_name_that_leads_to_a_private_address_needs_that_address_too(allow, host, address, allowed):
    hosts = AllowedHosts(allow)
    assert hosts.has_address(ip_address(address), 443, host=host, usual_port=443) is allowed
