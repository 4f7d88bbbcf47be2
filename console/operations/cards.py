"""Cards of what needs a person: one for each trouble, with one command.

What belongs to one page is one card, in the most specific words. A page that another one explains
is named on its card: old messages while nothing moves are no second trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import Mode
from deadletter.signals.commands import typed
from deadletter.signals.pages import PIPELINE_PAGES, Alarm
from deadletter.signals.troubles import TROUBLES, Fact, Seen, TroubleKind, known_names, shown

from .words import clock, duration, moment

if TYPE_CHECKING:
    from .status import AlarmState, PipelineStatus

_OLD = (Alarm.DLQ_AGE, Alarm.MESSAGE_AGE)
EXPLAINS: Mapping[Alarm, tuple[Alarm, ...]] = {
    Alarm.REDRIVE_STALLED: (*_OLD, Alarm.DLQ_DEPTH, Alarm.MESSAGE_EXPIRY),
    Alarm.CIRCUIT_TROUBLE: (*_OLD, Alarm.DLQ_DEPTH),
    Alarm.DLQ_DEPTH: _OLD,
    Alarm.MESSAGE_EXPIRY: _OLD,
    Alarm.DLQ_AGE: (Alarm.MESSAGE_AGE,),
}
"""Pages that are no trouble of their own while another one rings."""

_PAGES = {page.alarm: page for page in PIPELINE_PAGES}

_HAVE_TROUBLES = {card.page for card in TROUBLES.values()}
"""Pages whose troubles are in the catalogue: where none is seen, what rang is over."""

_SILENT = (TroubleKind.WATCH_SILENT, TroubleKind.WATCH_NEVER_RAN)
"""What rings because nothing is published: the watch cannot see it."""

_UNTOLD = (*_SILENT, TroubleKind.UNREAD)
"""With these, what is not seen can be there."""

_ORDER = {kind: place for place, kind in enumerate(TroubleKind)}


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that needs a person, or is good to know."""

    pipeline: Annotated[str, "name of the pipeline"]
    kind: Annotated[
        str | None,
        "which trouble it is, such as `router-down`: see the runbook; null if only an alarm is "
        "known",
    ]
    says: Annotated[str, "a sentence for people"]
    type: Annotated[str | None, "the command that ends it, or leads there; null if none does"] = (
        None
    )
    page: Annotated[str | None, "the alarm that it is about; null if it is about none"] = None
    alarm: Annotated[str | None, "the name of the alarm that rings for it; null if none does"] = (
        None
    )
    needs_person: Annotated[
        bool, "false if automation, or a person, has it in hand already: it is good to know"
    ] = True

    @property
    def urgency(self) -> tuple[bool, int]:
        """What rings comes first, then the order of the catalogue."""
        return self.alarm is None, -1 if self.kind is None else _ORDER[TroubleKind(self.kind)]


def cards(
    app: str, pipeline: PipelineStatus, found: Iterable[Seen], now: datetime
) -> Iterator[Attention]:
    """What needs a person in a pipeline; an alarm that rings has its reason on its card.

    `found` is what `dlq` has seen beside the watch.
    """
    rings: dict[Alarm, AlarmState] = {}
    watch = [trouble.seen for trouble in pipeline.seen]
    seen = list(_merged(watch, found))
    writer = _Cards(app, pipeline, now, seen)
    for alarm in pipeline.alarms:
        name = alarm.name.rpartition("-")[2]
        if name in _PAGES:
            rings[Alarm(name)] = alarm
        else:
            yield writer.ringing(alarm)
    silent = [each for each in seen if each.kind in _SILENT]
    called = {*rings, *(each.page for each in (*watch, *silent))}
    explained: dict[Alarm, Alarm] = {}
    for page, others in EXPLAINS.items():
        for other in others if page in called else ():
            explained.setdefault(other, page)
    for each in seen:
        if each.page is None or each.page not in called:
            yield writer.card(each)
    for page in _ordered(called):
        if page not in explained:
            beside = [other for other in _ordered(called) if explained.get(other) is page]
            group = shown(each for each in seen if each.page is page)
            yield writer.of_page(page, rings.get(page), group, beside)


def _merged(watch: Iterable[Seen], found: Iterable[Seen]) -> Iterator[Seen]:
    """Each trouble once, with the facts of both who have seen it."""
    others = list(found)
    for each in watch:
        same = next((other for other in others if each.is_same(other)), None)
        if same is not None:
            others.remove(same)
        facts = {} if same is None else same.facts
        yield Seen(each.kind, {**each.facts, **facts}, each.since)
    yield from others


def _ordered(pages: Iterable[Alarm | None]) -> list[Alarm]:
    named = set(pages)
    return [page for page in Alarm if page in named]


class _Cards:
    """Writes the cards of one pipeline."""

    def __init__(
        self, app: str, pipeline: PipelineStatus, now: datetime, seen: Sequence[Seen]
    ) -> None:
        self._pipeline, self._now = pipeline, now
        self._is_told = not any(each.kind in _UNTOLD for each in seen)
        self._known: Mapping[str, Fact] = known_names(app, pipeline.name)

    def card(self, seen: Seen, *, is_called: bool = False) -> Attention:
        since = "" if seen.facts.get("began") else self._since(seen)
        return Attention(
            self._pipeline.name,
            str(seen.kind),
            f"{seen.says()}{since}",
            seen.repair(**self._known),
            None if seen.page is None else str(seen.page),
            needs_person=is_called or not TROUBLES[seen.kind].by_itself,
        )

    def of_page(
        self, page: Alarm, alarm: AlarmState | None, group: Sequence[Seen], beside: Sequence[Alarm]
    ) -> Attention:
        """The card of a page that rings or is about to, in the words of its first trouble."""
        others = f" ({' and '.join(beside)} for the same reason)" if beside else ""
        if alarm is None:
            card = self.card(group[0], is_called=True)
            return replace(card, says=f"{card.says}{others}")
        card = self.ringing(alarm)
        if not group and page in _HAVE_TROUBLES and self._is_told:
            says = f"{card.says}: what it rang for is over, and it ends by itself"
            return replace(card, says=says, page=str(page), needs_person=False)
        why = f": {group[0].says()}" if group else ""
        row = _PAGES[page]
        is_observed = self._pipeline.mode == Mode.OBSERVE and row.observed is not None
        line = row.observed if is_observed else row.repair
        repair = group[0].repair(**self._known) if group else None
        return replace(
            card,
            kind=str(group[0].kind) if group else None,
            says=f"{card.says}{why}{others}",
            type=repair or typed(str(line), self._known),
            page=str(page),
        )

    def ringing(self, alarm: AlarmState) -> Attention:
        """An alarm whose reason is not known; it may be one of your own."""
        ago = duration((self._now - alarm.since).total_seconds())
        says = f"{alarm.name} is in ALARM since {clock(alarm.since, self._now)}, {ago} ago"
        return Attention(self._pipeline.name, None, says, alarm=alarm.name)

    def _since(self, seen: Seen) -> str:
        at = moment(seen.since) if seen.since else None
        return "" if at is None else f" since {clock(at, self._now)}"
