"""The authority of a run is good for its hosts, for a day, and for no further authority."""

import ssl
from datetime import timedelta

import pytest
from cryptography import x509

from offbook.clock import SYSTEM_CLOCK
from offbook.wire.intercept.interception import Authority, InterceptedHosts


def shake_hands(authority, host, *, as_host=None):
    """Whether a client that trusts the authority takes its server for a host."""
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_context = ssl.create_default_context(cadata=authority.pem.decode())
    client = client_context.wrap_bio(here, there, server_hostname=as_host or host)
    server = authority.context_for(host).wrap_bio(there, here, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert()


@pytest.mark.parametrize(
    "host", ["api.openai.com", "eu.api.openai.com", "bedrock-runtime.eu-west-1.amazonaws.com", "llm.test", "a.b.test"]
)
def test_an_intercepted_host_is_trusted(host):
    assert shake_hands(Authority(InterceptedHosts(["llm.test", "*.b.test"]).domains), host)


@pytest.mark.parametrize("host", ["mail.example.org", "github.com", "openai.com", "192.0.2.7"])
def test_no_other_host_is_trusted_even_if_somebody_has_the_key(host):
    with pytest.raises(ssl.SSLCertVerificationError, match="subtree"):
        shake_hands(Authority(InterceptedHosts().domains), host)


def test_an_address_that_is_added_is_trusted_and_others_are_not():
    authority = Authority(InterceptedHosts(["127.0.0.1:8000"]).domains)
    assert shake_hands(authority, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="subtree"):
        shake_hands(authority, "192.0.2.7")


def test_it_ends_after_a_day_and_makes_no_other_authority():
    certificate = x509.load_pem_x509_certificate(Authority(["llm.test"]).pem)
    assert timedelta() < certificate.not_valid_after_utc - SYSTEM_CLOCK.utc_now() <= timedelta(days=1)
    limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert limits.value.path_length == 0


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["llm.test"], "llm.test"),
        (["*.example.org"], "example.org"),
        (["a.*.example.org:8443"], "example.org"),
        (["*-x.example.org"], "example.org"),
        (["127.0.0.1:80"], "127.0.0.1"),
    ],
)
def test_a_pattern_is_in_a_domain(hosts, expected):
    assert InterceptedHosts(hosts).domains[0] == expected


def test_a_pattern_that_is_in_no_domain_leaves_the_authority_open():
    assert InterceptedHosts(["exam*"]).domains == []
