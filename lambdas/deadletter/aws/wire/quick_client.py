"""A client that makes hot calls before botocore is loaded, which takes 0.2 s of CPU time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deadletter.aws.wire.call_place import CallPlace
from deadletter.aws.wire.connections import Connections, Received
from deadletter.aws.wire.hot_calls import HOT_CALLS, Answer, HotCall
from deadletter.aws.wire.known_places import known_place
from deadletter.aws.wire.outcome import metadata, outcome
from deadletter.aws.wire.signature import Signer
from deadletter.aws.wire.whereabouts import Whereabouts

if TYPE_CHECKING:
    from deadletter.aws.consumer_clients import CallLimits

C = TypeVar("C")


def quick(service: str, whereabouts: Whereabouts, limits: CallLimits, make: Callable[[], C]) -> C:
    """A client that makes the hot calls itself until it needs the thin client that `make` makes."""
    return cast(C, QuickClient(service, whereabouts, limits, make))


class QuickClient:
    """Makes the hot calls of a function in Lambda's ordinary environment.

    It knows successes alone. A refusal, a lost answer or any other call makes the thin client,
    which goes on with what has begun, as if it had made the first try itself. From then on the
    thin client, and so boto3, makes all calls.
    """

    def __init__(
        self, service: str, whereabouts: Whereabouts, limits: CallLimits, make: Callable[[], Any]
    ) -> None:
        self._signer = Signer(whereabouts.region, service)
        self._whereabouts = whereabouts
        self._make = make
        self._thin: Any = None
        self._making = Lock()
        self._places: dict[Any, CallPlace | None] = {}
        self._connections = Connections(
            whereabouts.origin(service),
            connect_timeout=limits.connect_timeout,
            read_timeout=limits.read_timeout,
            idle=limits.connections,
            bundle=whereabouts.bundle or trusted_certificates(),
            now=whereabouts.now,
        )
        for name, call in HOT_CALLS[service].items():
            setattr(self, name, partial(self._call, name, call))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thin_client(), name)

    def close(self) -> None:
        """Close all idle connections. The client stays of use."""
        self._connections.close()
        if self._thin is not None:
            self._thin.close()

    def _call(self, name: str, call: HotCall, **arguments: Any) -> Answer:
        place = None if self._thin is not None else self._place(call, arguments)
        body = None if place is None else call.write(arguments)
        if place is None or body is None:
            return cast(Answer, getattr(self._thin_client(), name)(**arguments))
        tried = outcome(call, partial(self._send, place, body))
        if tried.received is None or tried.answer is None:
            return cast(Answer, self._thin_client().go_on(call, place, body, tried))
        tried.answer["ResponseMetadata"] = metadata(tried.received, 1)
        return tried.answer

    def _send(self, place: CallPlace, body: bytes) -> Received:
        moment = self._whereabouts.now().strftime("%Y%m%dT%H%M%SZ")
        trace = self._whereabouts.trace()
        added = {"x-amzn-trace-id": trace} if trace else {}
        headers = place.headers_for(body, moment, self._whereabouts.keys, added)
        return self._connections.ask(place.request(headers, body))

    def _place(self, call: HotCall, arguments: dict[str, Any]) -> CallPlace | None:
        # The headers of an invocation differ; those of the other calls do not.
        name = (call.name, call.place(arguments) if self._signer.service == "lambda" else None)
        if name not in self._places:
            self._places[name] = known_place(self._signer, call, arguments, self._whereabouts)
        return self._places[name]

    def _thin_client(self) -> Any:
        with self._making:
            if self._thin is None:
                self._thin = self._make()
            return self._thin


def trusted_certificates() -> str:
    """The file of the certificates that botocore trusts, if the settings name no other one."""
    # Of the package certifi, if there is one. Its import would load what reads resources.
    package = find_spec("certifi") or find_spec("botocore")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).with_name("cacert.pem"))
