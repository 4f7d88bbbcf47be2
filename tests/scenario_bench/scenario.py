"""A scenario is a row of data: the traffic, what befalls the dependency, and what people do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.scenario_bench.event_source import ENVIRONMENTS

PAYMENTS, MAIL = "payments", "mail"

LINES = "lines"
"""The field that makes a message big."""


class Trouble(StrEnum):
    """How a dependency fails, as its caller sees it."""

    REFUSED = "refuses connections"
    ERROR = "answers 503"
    TIMEOUT = "does not answer"
    EMPTY = "answers 200 with an empty body"
    HTML = "answers 200 with a page of HTML"
    UNAUTHORIZED = "answers 401"
    NOT_FOUND = "answers 404"
    SLOW = "answers slowly"
    OVERLOAD = "bears few requests"
    """It serves a share of its full rate, from a tenth at the beginning to all at the end."""
    THROTTLED = "answers 429 with Retry-After to what is above its limit"
    BUG = "is well, but a deployment makes the handler refuse messages"


@dataclass(frozen=True, kw_only=True)
class Spell:
    """A dependency in trouble from second `begins` to `ends`, for a share of its requests.

    key, tenants, big, odd  only requests for this endpoint, these tenants, big messages, or every
                            second message are affected
    limit                   requests a second that one with a rate limit accepts
    """

    begins: float
    ends: float
    trouble: Trouble = Trouble.ERROR
    share: float = 1.0
    dependency: str = PAYMENTS
    key: str = ""
    tenants: tuple[str, ...] = ()
    big: bool = False
    odd: bool = False
    limit: float = 0.0

    def affects(self, message: Mapping[str, Any], at: float) -> bool:
        """Whether a message that is processed at this second meets this trouble."""
        return (
            self.begins <= at < self.ends
            and self.dependency in message["needs"]
            and self.key in ("", message["endpoint"])
            and (not self.tenants or message["tenant"] in self.tenants)
            and (not self.big or LINES in message)
            and (not self.odd or message["id"] % 2 == 1)
        )


@dataclass(frozen=True, kw_only=True)
class Burst:
    """Messages beside the steady traffic, `rate` a second: of one tenant, for one endpoint, or
    poisonous."""

    begins: float
    ends: float
    rate: float
    tenant: str = ""
    key: str = ""
    poison: bool = False


class Event(StrEnum):
    """What befalls the machinery, or what a person does."""

    KILL_EXECUTION = "the execution that runs the outage is killed"
    DELETE_ROW = "the circuit's row is deleted"
    FORCE_OPEN = "a person forces the circuit open without an end"
    PURGE = "a person empties main queue and DLQ"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row.

    rate       messages a second, evenly spaced with jitter
    lasts      seconds of traffic; `tail` seconds are added before the balance is drawn
    poison     the share of messages that lack a field which the handler reads
    big        the share of messages with a body of 20 kB instead of a hundred bytes
    keys       how many endpoints, and how many tenants, the messages are spread over
    pause      a time (from, to) without traffic
    in_hand    messages that are sent at once, 5 s before the first trouble
    settings   what differs from the product's defaults, and the circuit's settings likewise
    needs      the dependencies that messages call, in turns; with `named` the handler names them
    ours       the product may pause the consumer's mapping, which has a MaximumConcurrency; one
               that is not ours has none
    has_health_url  the dependency has a URL that says whether it is well; if `health_lies`, it
                    always says so
    environments  how many batches are handled at once
    capacity   requests a second that a dependency serves when it is well; it answers 503 to more
    """

    name: str
    title: str
    rate: float
    lasts: float
    tail: float = 600.0
    spells: tuple[Spell, ...] = ()
    bursts: tuple[Burst, ...] = ()
    events: tuple[tuple[float, Event], ...] = ()
    poison: float = 0.0
    big: float = 0.0
    keys: int = 1
    tenants: int = 1
    pause: tuple[float, float] | None = None
    in_hand: int = 0
    needs: tuple[tuple[str, ...], ...] = ((PAYMENTS,),)
    named: bool = False
    fifo: bool = False
    ours: bool = True
    has_health_url: bool = False
    health_lies: bool = False
    environments: int = ENVIRONMENTS
    capacity: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    circuit: Mapping[str, Any] = field(default_factory=dict)

    @property
    def begins(self) -> float | None:
        """When the first trouble begins; None without any."""
        return min((spell.begins for spell in self.spells), default=None)

    @property
    def recovers(self) -> float | None:
        """When the dependency is well again for good; None if it never was in trouble."""
        return max((spell.ends for spell in self.spells), default=None)

    @property
    def row_deleted(self) -> float | None:
        """When the circuit's row is deleted; None if it never is."""
        return next((at for at, event in self.events if event is Event.DELETE_ROW), None)

    @property
    def ends(self) -> float:
        """When the balance is drawn."""
        return self.lasts + self.tail
