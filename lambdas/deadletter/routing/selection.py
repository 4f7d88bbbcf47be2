"""Which letters of a source a replay run takes, and what the router says about each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.contract import Reason
from deadletter.message.stamp import Stamp
from deadletter.settings.json_fields import BadSettings, as_object, build


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters of the source a run takes; an empty field allows all of them.

    pattern       an event pattern over the document that rules see
    ids           message ids: of the copy, or of the letter's first life
    fingerprints  causes of the letter's last failure
    reasons       why it is parked
    tenants       values of the pipeline's tenant in `context`
    since, until  epoch seconds of its first send; `until` is the first moment left out
    where         a JMESPath expression over the body that must be true
    groups        FIFO groups: the run takes them wholly, and no other (None: not FIFO)
    include       reasons for which automation would park a letter of the DLQ, and which do not
                  keep it out of this run; EXPIRED does all the same. With all reasons nothing
                  does, neither expiry nor the pipeline's schema
    """

    pattern: Mapping[str, Any] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    tenants: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    where: str = ""
    groups: tuple[str, ...] | None = None
    include: tuple[Reason, ...] = ()


def selection_from_data(data: Any) -> Selection:
    """The selection in decoded JSON. Raises BadSettings that names the field."""
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in as_object("selection", data).items()
    }
    for name in ("reasons", "include"):
        for reason in values.get(name, ()):
            if reason not in set(Reason):
                raise BadSettings(f"{name} has no {reason!r}; allowed are {', '.join(Reason)}")
        values[name] = tuple(map(Reason, values.get(name, ())))
    return build(Selection, "selection", values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What the router says about one letter that a replay run may take.

    chosen      whether the selection matches it and it goes back to no other live run
    left_out    why it stays out of the run although it matches: a reason for which automation
                parks it, or "SCHEMA"; empty if it may join
    rule        the rule that leaves it out; None if no rule does, or if the router does not say
    stamp       its stamp, with the attempts of the letter or of the ledger, whichever are more
    key         its ordering key as text; empty if it has none: it is in order with no other
    sequence    its place within the key: texts compare as Python compares them
    cause       fingerprint of its last failure, `category` that failure's; empty without one
    tenant      its tenant by the pipeline's `context`; empty without one
    applied     whether the ledger says that it was processed before
    """

    message_id: str
    chosen: bool
    stamp: Stamp
    left_out: str = ""
    rule: str | None = None
    key: str = ""
    sequence: str = ""
    cause: str = ""
    category: str = ""
    tenant: str = ""
    applied: bool = False


@dataclass(frozen=True, slots=True)
class CopiesOfRuns:
    """The copies that a question about runs is true of, and those whose rows cannot be read.

    Of the latter nothing is known: they stay where they are.
    """

    copies: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()


class LiveRuns(Protocol):
    """The replay runs, as the router asks about them; raises RouterUnavailable."""

    def returnable(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        """The copies whose run is live and waits for the outcome of the life that has ended.

        `stamps` are by the id of the copy that has come back; each names a run. A run waits if
        its ticket (of the stamp's `origin` and `ticket`) is SENT, and no other copy has come
        back to it; or if the ticket is not written yet.
        """

    def let_go(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        """The copies that their run has let go: to a lane, or to the schedule.

        The run wrote a ticket of this copy, STOPPED or LEFT, before it moved the letter.
        """
