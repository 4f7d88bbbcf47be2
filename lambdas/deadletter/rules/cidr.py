"""Reads IP addresses as EventBridge does."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final

# Added to an address, so that no network of one version contains an address of the other.
_IPV4: Final = 4 << 32

IPV6: Final = 6 << 128
"""Added to an IPv6 address: every smaller number is IPv4."""

# Characters of the longest address; a longer text is not one, and is not cached.
_LONGEST: Final = 39

_HEX_AND_COLON: Final = frozenset("0123456789abcdefABCDEF:")


def read_address(text: str) -> int | None:
    """The address as one number for both versions, or None if the text is not an address.

    The octets of IPv4 are decimal, also after a zero. IPv4 mapped into IPv6 is IPv4. A text
    with a zone, or with IPv4 dots within IPv6, is not an address.
    """
    return _read(text) if len(text) <= _LONGEST else None


# Many rules read the address of one letter.
@lru_cache(maxsize=256)
def _read(text: str) -> int | None:
    if ":" not in text:
        octets = text.split(".")
        if len(octets) != 4 or not all(octet.isascii() and octet.isdigit() for octet in octets):
            return None
        numbers = [int(octet) for octet in octets]
        return None if max(numbers) > 255 else _IPV4 | int.from_bytes(bytes(numbers), "big")
    if not _HEX_AND_COLON.issuperset(text):
        return None
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return None
    inner = address.ipv4_mapped
    return IPV6 | int(address) if inner is None else _IPV4 | int(inner)
