"""Cards of what needs a person: one for each trouble, with one command.

What belongs to one page is one card, the most specific words first. A page that another one
explains is named on its card: old messages while nothing moves are no second trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from deadletter.signals.pages import PIPELINE_ALARMS, Alarm

URGENCY = (
    *("ALARM", "EXPIRY", "STALLED", "WATCH", "SILENT", "TROUBLE", "LAST_RUN", "LETTERS", "REPLAY"),
    *("FOREIGN", "CAUSE", "COLLISIONS", "CONFIGURATION", "CIRCUIT", "HELD", "UNREAD", "PARKED"),
    "LOOKED",
)

BY_ITSELF = {"CIRCUIT", "HELD", "LOOKED"}
"""Kinds to know about, which automation or a person has in hand already."""

_MOST_SPECIFIC = (
    *("EXPIRY", "REPLAY", "CONFIGURATION", "CAUSE", "HELD", "SILENT", "STALLED", "TROUBLE"),
    *("WATCH", "LAST_RUN", "PARKED", "CIRCUIT"),
)
"""Whose words and command a card has, if it is about several."""

_OLD = (Alarm.DLQ_AGE, Alarm.MESSAGE_AGE)
EXPLAINS: Mapping[Alarm, tuple[Alarm, ...]] = {
    Alarm.REDRIVE_STALLED: (*_OLD, Alarm.DLQ_DEPTH, Alarm.MESSAGE_EXPIRY),
    Alarm.CIRCUIT_TROUBLE: (*_OLD, Alarm.DLQ_DEPTH),
    Alarm.DLQ_DEPTH: _OLD,
    Alarm.MESSAGE_EXPIRY: _OLD,
    Alarm.DLQ_AGE: (Alarm.MESSAGE_AGE,),
}
"""Pages that are no trouble of their own while another one rings."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that needs a person."""

    pipeline: Annotated[str, "name of the pipeline"]
    kind: Annotated[
        str,
        "ALARM, EXPIRY, STALLED, WATCH, SILENT, TROUBLE, LAST_RUN, LETTERS, REPLAY, FOREIGN, "
        "CAUSE, COLLISIONS, CONFIGURATION, CIRCUIT, HELD, UNREAD, PARKED or LOOKED, in this order",
    ]
    says: Annotated[str, "a sentence for people"]
    type: Annotated[str | None, "the command that ends it, or leads there; null if none does"] = (
        None
    )
    page: Annotated[str | None, "the alarm that it is about; null if it is about none"] = None


def cards(found: Iterable[Attention]) -> Iterator[Attention]:
    """One card for each trouble of one pipeline; an alarm that rings has its reason on its card."""
    items = list(found)
    of_page: dict[str, list[Attention]] = {}
    for item in items:
        if item.page is not None:
            of_page.setdefault(item.page, []).append(item)
    called = {page for page, group in of_page.items() if any(map(_calls, group))}
    explained: dict[str, str] = {}
    for alarm, others in EXPLAINS.items():
        for other in others if alarm in called else ():
            explained.setdefault(other, alarm)
    for item in items:
        if item.page is None:
            yield item
    for page, group in of_page.items():
        if page not in called:
            yield from group
        elif page not in explained:
            beside = [alarm for alarm in PIPELINE_ALARMS if explained.get(alarm) == page]
            yield _card(group, [alarm for alarm in beside if alarm in called])


def _calls(item: Attention) -> bool:
    """Whether the alarm rings, or is about to."""
    return item.kind in ("ALARM", "STALLED", "TROUBLE", "WATCH")


def _card(group: list[Attention], others: list[Alarm]) -> Attention:
    head = min(group, key=lambda item: URGENCY.index(item.kind))
    reasons = sorted(
        (item for item in group if item.kind in _MOST_SPECIFIC),
        key=lambda item: _MOST_SPECIFIC.index(item.kind),
    )
    if not reasons:
        return head
    best = reasons[0]
    says = best.says if head.kind != "ALARM" else f"{head.says}: {best.says}"
    if others:
        says = f"{says} ({' and '.join(others)} for the same reason)"
    return replace(head, says=says, type=best.type or head.type)
