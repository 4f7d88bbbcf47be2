"""Refuses URLs and addresses that nothing may be posted to, such as those of private networks.

A URL is checked twice: as it is written (`read_url`), and by every address that its host
resolves to when it is looked up (`refuse_addresses`). The registry is untrusted: a
tenant may put any URL into it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
)

HTTPS_PORT = 443

# In characters. No endpoint needs more, and parsing a host takes more than linear time.
_LONGEST_URL = 2048
_LONGEST_HOST = 253

_SHAPE = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(?P<fragment>(?:#.*)?)"
)
_AUTHORITY = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{1,5}))?"
)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

# Characters that a request line can carry; all others must be percent-encoded.
_TARGET = re.compile(r"(?:[A-Za-z0-9._~:/?@!$&'()*+,;=\[\]|-]|%[0-9A-Fa-f]{2})*")

# Letters that the two versions of IDNA read as different domains.
_AMBIGUOUS = frozenset("\u00df\u03c2\u1e9e")

_NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; Linux connects 0.0.0.0 to itself
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carriers' NAT, and VPCs that use it
            "127.0.0.0/8",  # loopback, and the Lambda runtime API
            "168.63.129.16/32",  # Azure's platform address
            "169.254.0.0/16",  # link-local: EC2 and ECS metadata, DNS and time of a VPC
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # multicast tunnels
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

# All addresses that are assigned to hosts; loopback, link-local, unique-local (with EC2's
# metadata at fd00:ec2::254), site-local, multicast and IPv4-compatible are outside.
_UNICAST_V6 = IPv6Network("2000::/3")

_NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which can hide any IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)

# IPv6 forms of an IPv4 address; the last 32 bits are the address.
_WRAPPED_V4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))

_LOOPBACK_V4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_V6 = IPv6Address("::1")


class UrlRefused(Exception):
    """The URL is refused; the text says why and never quotes the URL."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that may be posted to, if its addresses are fit too.

    `host` is a lower-case ASCII name or an address without brackets, `target` the path
    and query of the request line; `loopback` means plain http to this machine.
    """

    host: str
    port: int
    target: str
    loopback: bool = False

    @property
    def authority(self) -> str:
        """The Host header: the name as in the URL, and the port if it is not the default."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (80 if self.loopback else HTTPS_PORT) else f"{name}:{self.port}"


def read_url(
    url: str, *, allow_loopback: bool = False, ports: Sequence[int] = (HTTPS_PORT,)
) -> Destination:
    """The destination of a URL; raises UrlRefused for one that nothing may be posted to.

    Allowed: https on one of `ports`, without user and fragment. Plain http is allowed only to
    a loopback address, on any port, and only with `allow_loopback`.
    """
    if len(url) > _LONGEST_URL:
        raise UrlRefused(f"the URL is longer than {_LONGEST_URL} characters")
    shape = _SHAPE.fullmatch(url)
    if shape is None:
        raise UrlRefused("the URL is not of the form https://host/path")
    scheme, authority = shape["scheme"].lower(), shape["authority"]
    if "@" in authority:
        raise UrlRefused("the URL names a user")
    if shape["fragment"]:
        raise UrlRefused("the URL has a fragment")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise UrlRefused("the URL has no readable host and port")
    if _TARGET.fullmatch(shape["target"]) is None:
        raise UrlRefused("the URL's path has characters that must be percent-encoded")
    target = shape["target"] if shape["target"].startswith("/") else f"/{shape['target']}"
    is_local = allow_loopback and scheme == "http"
    host = _v6(parts["v6"]) if parts["v6"] else _name(parts["name"], allow_localhost=is_local)
    if scheme == "https":
        port = int(parts["port"] or HTTPS_PORT)
        if port not in ports:
            allowed = " or ".join(map(str, ports))
            raise UrlRefused(f"the URL's port is {port}, and only {allowed} is posted to")
        if is_literal(host) and not is_public(host):
            raise UrlRefused("the URL's host is not a public address")
        return Destination(host, port, target)
    if scheme != "http":
        raise UrlRefused("the URL is not https")
    if not allow_loopback:
        raise UrlRefused("the URL is plain http, not https")
    if host != "localhost" and not _is_loopback(host):
        raise UrlRefused("the URL is plain http to another machine")
    port = int(parts["port"] or 80)
    if not 0 < port < 65536:
        raise UrlRefused("the URL's port does not exist")
    return Destination(host, port, target, loopback=True)


def refuse_addresses(addresses: Sequence[str], destination: Destination) -> None:
    """Raise UrlRefused unless every address of the host may be connected to.

    Each must be public, or loopback for a loopback destination. One bad address among good
    ones refuses all of them: this is how DNS rebinding looks.
    """
    if not addresses:
        raise UrlRefused("the host has no address")
    is_allowed = _is_loopback if destination.loopback else is_public
    if not all(map(is_allowed, addresses)):
        kind = "a loopback address" if destination.loopback else "a public address"
        raise UrlRefused(f"the host stands for an address that is not {kind}")


def is_literal(host: str) -> bool:
    """Whether a host is an address, not a name that has to be looked up."""
    return _address(host) is not None


def is_public(text: str) -> bool:
    """Whether an address is public; an IPv4 address in an IPv6 form counts as itself."""
    address = _address(text)
    if isinstance(address, IPv6Address):
        if not any(address in network for network in _WRAPPED_V4):
            is_unicast = address in _UNICAST_V6
            return is_unicast and not any(address in network for network in _NOT_PUBLIC_V6)
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    return address is not None and not any(address in network for network in _NOT_PUBLIC_V4)


def _is_loopback(text: str) -> bool:
    address = _address(text)
    if isinstance(address, IPv4Address):
        return address in _LOOPBACK_V4
    return address == _LOOPBACK_V6


def _address(text: str) -> IPv4Address | IPv6Address | None:
    # A zone ("fe80::1%eth0") names one of this machine's own links.
    try:
        return None if "%" in text else IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return None


def _v6(text: str) -> str:
    address = _address(text)
    if not isinstance(address, IPv6Address):
        raise UrlRefused("the URL has no readable host and port")
    return str(address)


def _name(text: str, *, allow_localhost: bool) -> str:
    """The host's name in lower-case ASCII, as in look-ups and certificates."""
    if len(text) > _LONGEST_HOST or not text.isprintable() or not _AMBIGUOUS.isdisjoint(text):
        raise UrlRefused("the URL's host cannot be read: write it in its xn-- form")
    try:
        name = text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise UrlRefused("the URL's host cannot be read: write it in its xn-- form") from None
    if isinstance(_address(name), IPv4Address) or (allow_localhost and name == "localhost"):
        return name
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise UrlRefused("the URL's host is not a host name")
    # Resolvers read a name that ends in a number as an address: 127.1, 0x7f000001, 2130706433.
    if len(labels) < 2 or labels[-1][0].isdigit():
        raise UrlRefused("the URL's host is not a full host name")
    return name


def public_part(url: str) -> str:
    """Scheme, host and port of a URL: its path and query can be a secret."""
    try:
        to = read_url(url, allow_loopback=True, ports=range(65_536))
    except UrlRefused:
        return "?"
    return f"http://{to.authority}" if to.loopback else f"https://{to.authority}"
