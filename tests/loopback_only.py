"""Refuses every connection that leaves this machine, so that no test asks a real AWS.

A client with real credentials and no stub would reach an account: the tests hold no such client,
whatever the environment sets.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

_LOCAL_NAMES = ("", "localhost")


class LeftMachine(AssertionError):
    """A test asked for an address that is not loopback."""


def is_loopback(host: object) -> bool:
    """True for loopback addresses, the unspecified address and the name localhost."""
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text in _LOCAL_NAMES or text.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


@contextmanager
def loopback_only(asked: Callable[[str], None] = lambda host: None) -> Iterator[None]:
    """Within it, looking up or connecting to another machine raises LeftMachine.

    `asked` hears of each such host, also where the code under test swallows the error.
    """

    def refuse(host: object) -> None:
        if not is_loopback(host):
            asked(str(host))
            raise LeftMachine(
                f"a test asked for {host!r}: give it a fake, or an address of loopback"
            )

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple):
                refuse(address[0])
            return method(self, address)

        return connect

    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        refuse(host)
        return resolve(host, *arguments, **options)

    with (
        patch.object(socket.socket, "connect", checked(socket.socket.connect)),
        patch.object(socket.socket, "connect_ex", checked(socket.socket.connect_ex)),
        patch.object(socket, "getaddrinfo", getaddrinfo),
    ):
        yield
