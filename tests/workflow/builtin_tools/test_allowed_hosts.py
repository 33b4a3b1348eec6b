"""The hosts that a tool may talk to: exactly those, and no addresses behind the internet's back."""

import re
from ipaddress import ip_address

import pytest

from offbook.workflow.builtin_tools.allowed_hosts import HOST_PATTERN, AllowedHosts, is_public


def allows(entry, host, port=443):
    return AllowedHosts([entry]).has_host(host, port, usual_port=443)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("example.com", "example.com", 443),
        ("Example.COM", "example.com", 443),
        ("example.com:443", "example.com", 443),
        ("example.com:8080", "example.com", 8080),
        ("*.example.com", "www.example.com", 443),
        ("*.example.com", "a.b.example.com", 443),
        ("10.0.0.1:81", "10.0.0.1", 81),
        ("[::1]:81", "::1", 81),
        ("[::1]", "0:0:0:0:0:0:0:1", 443),
    ],
)
def test_a_host_is_allowed_as_it_is_written(entry, host, port):
    assert re.match(HOST_PATTERN, entry)
    assert allows(entry, host, port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
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
    ],
)
def test_any_other_host_or_port_is_not(entry, host, port):
    assert not allows(entry, host, port)


@pytest.mark.parametrize(
    "entry", ["*", "*.", "http://example.com", "example.com/", "a@b", "a b", "::1", "", ".com", "exa*mple.com", "a:"]
)
def test_an_entry_that_is_no_host_is_none(entry):
    assert not re.match(HOST_PATTERN, entry)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"),
        *("::", "::1", "fe80::1", "fd00::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "2001:db8::1"),
        *("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::"),
    ],
)
def test_addresses_of_networks_of_ones_own_are_not_public(address):
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address):
    assert is_public(ip_address(address))


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
