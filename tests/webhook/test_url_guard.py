"""The URL guard refuses every hostile URL and address."""

from __future__ import annotations

import json
from contextlib import suppress
from ipaddress import ip_address, ip_network
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deadletter.webhook.url_guard import (
    Destination,
    UrlRefused,
    is_literal,
    is_public,
    read_url,
    refuse_addresses,
)
from tests.each_row import each_row

TABLE = json.loads(Path(__file__).with_name("hostile.json").read_text())

# Each of these has led some software to a wrong destination.
HOSTILE_URLS = [
    *chain.from_iterable(TABLE["urls"].values()),
    # Too long.
    f"https://{'a' * 64}.example.com/",
    f"https://{'a.' * 127}example.com/",
    f"https://hooks.example.com/{'a' * 2048}",
]

# Addresses that a resolver may answer for an ordinary name.
HOSTILE_ADDRESSES = list(chain.from_iterable(TABLE["addresses"].values()))

PUBLIC = TABLE["public addresses"]


def test_the_tables_of_hostile_urls_are_long_enough() -> None:
    assert len(set(HOSTILE_URLS)) >= 60
    assert len(set(HOSTILE_ADDRESSES)) >= 60


def refusal(url: str, *, allow_loopback: bool = False) -> str:
    """Why a URL is refused; empty if it is not."""
    try:
        read_url(url, allow_loopback=allow_loopback)
    except UrlRefused as refused:
        return str(refused)
    return ""


def test_every_hostile_url_is_refused() -> None:
    assert [url for url in HOSTILE_URLS if not refusal(url)] == []


def test_a_refusal_does_not_quote_its_url() -> None:
    assert [url for url in HOSTILE_URLS if url.strip() and url in refusal(url)] == []


@each_row(
    ("url", "why"),
    [
        ("https://user:pass@hooks.example.com", "the URL names a user"),
        ("https://hooks.example.com/#a", "the URL has a fragment"),
        ("https://hooks.example.com:22", "the URL's port is 22, and only 443 is posted to"),
        ("http://hooks.example.com", "the URL is plain http, not https"),
        ("https://10.0.0.1", "the URL's host is not a public address"),
        ("https://intranet", "the URL's host is not a full host name"),
        ("https://hooks.example.com/a b", "the URL's path has characters that must be"
         " percent-encoded"),
    ],
)  # fmt: skip
def test_the_refusal_says_what_is_wrong(url: str, why: str) -> None:
    with pytest.raises(UrlRefused) as raised:
        read_url(url)
    assert str(raised.value) == why


def test_a_sandbox_refuses_the_same_urls() -> None:
    assert [url for url in HOSTILE_URLS if not refusal(url, allow_loopback=True)] == []


@each_row(
    ("url", "expected"),
    [
        ("https://hooks.example.com", Destination("hooks.example.com", 443, "/")),
        (
            "HTTPS://Hooks.Example.COM:443/a/b?c=d",
            Destination("hooks.example.com", 443, "/a/b?c=d"),
        ),
        ("https://hooks.example.com?c", Destination("hooks.example.com", 443, "/?c")),
        ("https://hooks.example.com/a%20b", Destination("hooks.example.com", 443, "/a%20b")),
        ("https://hooks.example.com/a@b", Destination("hooks.example.com", 443, "/a@b")),
        ("https://b\u00fccher.example/", Destination("xn--bcher-kva.example", 443, "/")),
        ("https://xn--fa-hia.example/", Destination("xn--fa-hia.example", 443, "/")),
        ("https://1.1.1.1/", Destination("1.1.1.1", 443, "/")),
        ("https://[2606:4700:4700:0::1111]/", Destination("2606:4700:4700::1111", 443, "/")),
    ],
)
def test_a_valid_url_is_accepted(url: str, expected: Destination) -> None:
    assert read_url(url) == expected


@pytest.mark.parametrize(
    ("longest", "too_long"),
    [
        (
            "https://hooks.example.com/".ljust(2048, "a"),
            "https://hooks.example.com/".ljust(2049, "a"),
        ),
        # 253 characters of the host as it is written, and in its xn-- form.
        (f"https://{'a.' * 123}example", f"https://{'a.' * 123}examples"),
        (f"https://{'a.' * 120}b\u00fccher", f"https://{'a.' * 119}aa.b\u00fccher"),
    ],
)
def test_a_url_and_a_host_have_a_longest_length(longest: str, too_long: str) -> None:
    assert refusal(longest) == ""
    assert refusal(too_long) != ""


@pytest.mark.parametrize("name", ["1hooks.example.com", "1.2.example.com", "hooks.example.c0m"])
def test_a_name_may_have_digits_before_its_last_label(name: str) -> None:
    assert read_url(f"https://{name}/").host == name


@pytest.mark.parametrize("name", ["hooks.example.0x1", "hooks.example.1a", "hooks.example.1"])
def test_a_name_whose_last_label_starts_with_a_digit_is_refused(name: str) -> None:
    """A resolver may read it as an address."""
    assert refusal(f"https://{name}/") == "the URL's host is not a full host name"


@pytest.mark.parametrize("port", [1, 80, 65_535])
def test_a_sandbox_posts_to_every_port_of_this_machine(port: int) -> None:
    assert read_url(f"http://127.0.0.1:{port}", allow_loopback=True).port == port
    assert refusal("http://127.0.0.1:65536", allow_loopback=True) == "the URL's port does not exist"


def test_another_port_is_allowed_only_by_the_settings() -> None:
    to = read_url("https://hooks.example.com:8443/", ports=(443, 8443))
    assert (to.port, to.authority) == (8443, "hooks.example.com:8443")
    with pytest.raises(UrlRefused, match="port is 8443, and only 443 is posted to"):
        read_url("https://hooks.example.com:8443/")


@each_row(
    ("url", "authority"),
    [
        ("https://hooks.example.com/", "hooks.example.com"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://localhost/", "localhost"),
    ],
)
def test_the_host_header_is_the_urls_own_host(url: str, authority: str) -> None:
    assert read_url(url, allow_loopback=True).authority == authority


@each_row(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:8080/a", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080", True),
        ("http://localhost:8080", True),
        ("http://LOCALHOST", True),
        ("http://10.0.0.1", False),
        ("http://169.254.169.254/latest", False),
        ("http://localhost.example.com", False),
        ("http://2130706433", False),
        ("http://0.0.0.0", False),
        ("http://[::ffff:127.0.0.1]", False),
        ("http://user@127.0.0.1", False),
        ("http://127.0.0.1:70000", False),
        ("http://127.0.0.1:0", False),
        ("ftp://127.0.0.1", False),
        ("https://127.0.0.1", False),
    ],
)
def test_a_sandbox_may_use_plain_http_only_to_loopback(url: str, allowed: bool) -> None:
    with pytest.raises(UrlRefused):
        read_url(url)
    if allowed:
        assert read_url(url, allow_loopback=True).loopback
    else:
        with pytest.raises(UrlRefused):
            read_url(url, allow_loopback=True)


HOOKS = read_url("https://hooks.example.com")


def test_no_hostile_address_is_public() -> None:
    assert [address for address in HOSTILE_ADDRESSES if is_public(address)] == []


def test_one_hostile_address_refuses_the_whole_host() -> None:
    refusal = "the host stands for an address that is not a public address"
    for address in HOSTILE_ADDRESSES:
        for answers in ([address], ["8.8.8.8", address], [address, "8.8.8.8"]):
            with pytest.raises(UrlRefused, match=f"^{refusal}$"):
                refuse_addresses(answers, HOOKS)


def test_addresses_on_the_internet_are_public() -> None:
    assert [address for address in PUBLIC if not is_public(address)] == []
    for address in PUBLIC:
        refuse_addresses([address, "8.8.8.8"], HOOKS)


def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(UrlRefused, match="no address"):
        refuse_addresses([], HOOKS)


@pytest.mark.parametrize("answers", [["8.8.8.8"], ["127.0.0.1", "8.8.8.8"], ["169.254.169.254"]])
def test_a_loopback_name_must_resolve_to_loopback_only(answers: list[str]) -> None:
    here = read_url("http://localhost:8080", allow_loopback=True)
    refuse_addresses(["127.0.0.1", "::1"], here)
    with pytest.raises(UrlRefused, match="not a loopback address"):
        refuse_addresses(answers, here)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_no_address_that_python_calls_private_is_allowed(address: object) -> None:
    text = str(address)
    parsed = ip_address(text)
    inner = getattr(parsed, "ipv4_mapped", None) or parsed
    if is_public(text) and not text.startswith("64:ff9b::"):
        assert inner.is_global
        assert not inner.is_multicast
        assert not inner.is_reserved


_PIECES = st.sampled_from(
    ["https://", "http://", "@", ":", "/", "//", "\\", "?", "#", "[", "]", "%", ".", "..",
     "127.0.0.1", "::1", "localhost", "example.com", "443", "0x7f", "\u3002", "\uff11", "xn--",
     "\r\n", "\t", "\x00", "\ud800", "\u00df", "\u200d"]
)  # fmt: skip


@given(
    st.text(max_size=40)
    | st.text(max_size=40).map("https://{}".format)
    | st.lists(_PIECES, max_size=8).map("".join)
)
@example("https://xn--\ud800.com")
@example("https://[::ffff:1.2.3.4.5]/")
def test_every_url_is_accepted_or_refused_without_another_error(url: str) -> None:
    with suppress(UrlRefused):
        for sandbox in (False, True):
            to = read_url(url, allow_loopback=sandbox)
            assert to.host.isascii()
            assert not set(to.host + to.target) & set(" \r\n\t\x00\\")
            assert to.loopback or not is_literal(to.host) or is_public(to.host)
            assert to.port == 443 or to.loopback


@given(st.text(max_size=60))
def test_every_resolver_answer_is_accepted_or_refused_without_another_error(address: str) -> None:
    with suppress(UrlRefused):
        refuse_addresses([address], HOOKS)
        assert ip_address(address)


# IANA's registries of special addresses, and what clouds use inside: each with its exact size.
NOT_PUBLIC = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32"),
    *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24"),
    *("192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
    *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    *("::/3", "4000::/2", "8000::/1"),
)


@each_row("text", NOT_PUBLIC)
def test_a_range_is_refused_to_its_last_address_and_its_neighbours_are_not(text: str) -> None:
    networks = [ip_network(each) for each in NOT_PUBLIC]
    network = ip_network(text)
    first, last = network.network_address, network.broadcast_address
    assert not is_public(str(first))
    assert not is_public(str(last))
    largest = 2**network.max_prefixlen - 1
    for beside in (int(first) - 1, int(last) + 1):
        if not 0 <= beside <= largest:
            continue
        neighbour = type(first)(beside)
        if not any(neighbour in other for other in networks if other.version == network.version):
            assert is_public(str(neighbour)), neighbour
