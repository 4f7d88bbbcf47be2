"""One deadline for a whole request of boto3, whose own time-out begins anew with every byte."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from deadletter.aws.wire.connections import RequestDeadline

C = TypeVar("C")


def with_deadline(client: C) -> C:
    """The client, each request of which ends within its read time-out, however its answer drips.

    botocore has no setting for it. A client that is made in another way, such as one of an account
    in memory, or by a botocore that names its parts otherwise, stays as it is.
    """
    session = getattr(getattr(client, "_endpoint", None), "http_session", None)
    pools = getattr(session, "_pool_classes_by_scheme", None)
    if isinstance(pools, dict):
        from botocore import compat

        now = getattr(compat, "get_current_datetime", None)
        if now is not None:
            made: Any = client
            begin = partial(RequestDeadline, now, made.meta.config.read_timeout)
            pools.update({scheme: _deadlined(pool, begin) for scheme, pool in pools.items()})
    return client


def _deadlined(pool: Any, begin: Callable[[], RequestDeadline]) -> Any:
    """A class of connection pools like this one, whose connections have the deadline."""

    class Connection(pool.ConnectionCls):  # type: ignore[misc]
        deadline: RequestDeadline

        def connect(self) -> None:
            super().connect()
            self.sock: Any = _Deadlined(self.sock, self)

        def request(self, *arguments: Any, **options: Any) -> None:
            self.deadline = begin()
            super().request(*arguments, **options)

    return type(pool.__name__, (pool,), {"ConnectionCls": Connection})


class _Deadlined:
    """A socket that waits for what is left of its connection's deadline, and no longer."""

    def __init__(self, real: Any, connection: Any) -> None:
        self._real = real
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sendall(self, *arguments: Any) -> None:
        self._real.settimeout(self._connection.deadline.left())
        self._real.sendall(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._real.settimeout(self._connection.deadline.left())
        return int(self._real.recv_into(*arguments))

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        # As socket.makefile does, with the reads through this object.
        self._real._io_refs += 1
        ours: Any = self
        return io.BufferedReader(socket.SocketIO(ours, "r"))
