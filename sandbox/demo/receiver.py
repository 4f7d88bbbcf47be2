"""Three endpoints on this machine: one healthy, one down until it is mended, one that refuses."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus

from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, TENANTS, digest
from sandbox.loopback import LoopbackEndpoint


@dataclass(frozen=True, slots=True)
class Visit:
    """One POST and its answer, *at* so many seconds by the receiver's clock.

    *attempt* counts the posts of a message.
    """

    tenant: str
    digest: str
    webhook_id: str
    attempt: int
    status: int
    at: float = 0.0

    @property
    def accepted(self) -> bool:
        return self.status == HTTPStatus.OK


class Receiver(LoopbackEndpoint):
    """Serves `url(tenant)` and keeps a record of every visit; a context manager."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._visits: list[Visit] = []
        self._statuses = {
            HEALTHY: HTTPStatus.OK,
            RECOVERING: HTTPStatus.SERVICE_UNAVAILABLE,
            REFUSING: HTTPStatus.UNPROCESSABLE_ENTITY,
        }
        super().__init__()

    @property
    def visits(self) -> tuple[Visit, ...]:
        """Every visit so far, oldest first."""
        return tuple(self._visits)

    def url(self, tenant: str) -> str:
        return self.address(tenant)

    def mend(self) -> None:
        """End the outage."""
        self._statuses[RECOVERING] = HTTPStatus.OK

    def answer(self, tenant: str, body: bytes, headers: Message) -> HTTPStatus:
        status = self._statuses[tenant] if tenant in TENANTS else HTTPStatus.NOT_FOUND
        # Recorded before it is answered: what the sender does not hear of was still received.
        self._visits.append(
            Visit(
                tenant=tenant,
                digest=digest(body),
                webhook_id=headers["webhook-id"],
                attempt=int(headers["webhook-attempt"]),
                status=status,
                at=self._clock(),
            )
        )
        return status
