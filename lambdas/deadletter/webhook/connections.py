"""Connections that stay open between two requests, each to a checked address of one host."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from deadletter.webhook.url_guard import Destination

CHECKED_SECONDS = 30.0
"""How long the checked addresses of a host are used. No connection outlives them: when the
host is looked up again, its connections are closed."""

# Node and Apache close an idle connection after 5 seconds. A request that is sent at that
# moment is lost without an answer.
_IDLE_SECONDS = 4.0

# Idle connections of one host and of all; the oldest are closed.
_MOST_OF_A_HOST = 10
_MOST_IDLE = 64

# Hosts in memory before those whose addresses have to be looked up again are dropped.
_MOST_HOSTS = 500

Place = tuple[str, int, bool]
"""Host, port, and whether it is loopback."""


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """An open connection to `address`, one of the checked `addresses` of its host.

    `raw` is the socket below TLS, or `secured` itself.
    `sent_before` says that a request was sent on it before.
    """

    raw: socket.socket
    secured: socket.socket
    address: str
    addresses: tuple[str, ...]
    certificate: Mapping[str, Any] = field(default_factory=dict)
    sent_before: bool = False

    def close(self) -> None:
        """Close it; an error of closing changes nothing."""
        for each in (self.secured, self.raw):
            with suppress(OSError):
                each.close()

    @property
    def is_quiet(self) -> bool:
        """False if the other side has closed it, or sent what was not asked for."""
        if isinstance(self.secured, ssl.SSLSocket) and self.secured.pending():
            return False
        try:
            readable, _, _ = select.select([self.secured], [], [], 0)
        except (OSError, ValueError):
            return False
        return not readable


@dataclass(slots=True, eq=False)
class CheckedHost:
    """The checked addresses of a host, valid `until` (seconds of the clock).

    `idle` are its open connections, each with the time when it is closed.
    """

    place: Place
    addresses: tuple[str, ...]
    until: float
    idle: list[tuple[Connection, float]] = field(default_factory=list)


class KeptConnections:
    """The hosts that were looked up, and their idle connections. Safe to share by threads.

    `clock` is in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._hosts: dict[Place, CheckedHost] = {}
        self._look_ups: dict[Place, Lock] = {}

    def known(self, destination: Destination) -> CheckedHost | None:
        """The host, if its addresses were checked less than CHECKED_SECONDS ago."""
        with self._lock:
            host = self._hosts.get(_place(destination))
            return host if host is not None and self._clock() < host.until else None

    def looking_up(self, destination: Destination) -> Lock:
        """The lock of those who look this host up: one look-up serves all of them."""
        with self._lock:
            return self._look_ups.setdefault(_place(destination), Lock())

    def remember(self, destination: Destination, addresses: Sequence[str]) -> CheckedHost:
        """Keep addresses that were just checked; connections of an earlier look-up are closed."""
        now, place = self._clock(), _place(destination)
        host = CheckedHost(place, tuple(addresses), now + CHECKED_SECONDS)
        with self._lock:
            dropped = [self._hosts.pop(place, None)]
            if len(self._hosts) >= _MOST_HOSTS:
                over = [each for each, known in self._hosts.items() if now >= known.until]
                dropped += [self._hosts.pop(each) for each in over or list(self._hosts)]
                self._look_ups.clear()
            self._hosts[place] = host
        _close(connection for each in dropped if each for connection, _ in each.idle)
        return host

    def take(self, host: CheckedHost) -> Connection | None:
        """An idle connection of this host that is still open, the last used first."""
        while True:
            with self._lock:
                if not host.idle:
                    return None
                connection, until = host.idle.pop()
            if self._clock() < until and connection.is_quiet:
                return connection
            connection.close()

    def give_back(self, host: CheckedHost, connection: Connection, idle_seconds: float) -> None:
        """Keep a connection for the next request, for `idle_seconds` at most."""
        now = self._clock()
        until = min(now + min(idle_seconds, _IDLE_SECONDS), host.until)
        kept = replace(connection, sent_before=True)
        surplus: list[Connection] = []
        with self._lock:
            if until <= now or self._hosts.get(host.place) is not host:
                surplus.append(kept)
            else:
                host.idle.append((kept, until))
                if len(host.idle) > _MOST_OF_A_HOST:
                    surplus.append(host.idle.pop(0)[0])
                surplus += self._beyond_the_limit()
        _close(surplus)

    def close(self) -> None:
        """Close all idle connections, and forget all hosts."""
        with self._lock:
            idle = [connection for host in self._hosts.values() for connection, _ in host.idle]
            self._hosts.clear()
        _close(idle)

    def _beyond_the_limit(self) -> list[Connection]:
        everything = [(until, host) for host in self._hosts.values() for _, until in host.idle]
        if len(everything) <= _MOST_IDLE:
            return []
        _, oldest = min(everything, key=lambda entry: entry[0])
        return [oldest.idle.pop(0)[0]]


def _place(destination: Destination) -> Place:
    return destination.host, destination.port, destination.loopback


def _close(connections: Any) -> None:
    for connection in connections:
        connection.close()
