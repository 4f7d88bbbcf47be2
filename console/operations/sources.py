"""Where the chosen messages lie, and what a run selects there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deadletter.contract import MAIN_DLQ, PARKED_LANE, run_lane
from deadletter.replay.plan import LANE

from .app import App, DeployedPipeline
from .errors import Cause, Problem, aws_errors
from .life_place import Where, places
from .life_record import LetterRecord, record_of
from .places import HELD_BY_US, PARKED
from .replay_census import MESSAGE_ID, ReplaySource, parked_sources
from .selection import Choice, ChosenPlace, Operator, Term, compiled
from .session import Here, Session

if TYPE_CHECKING:
    from deadletter.routing.selection import Selection

_MOST_RECORDS = 20
"""Ids whose records are read; of more than these, all places are looked through."""

_PLAIN_PATH = re.compile(r"(body|attributes)((?:\.[A-Za-z_][A-Za-z0-9_]*)+)")
"""A path that names one field, as a term does."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Messages of one pipeline that a person means: where they lie, and which of those there are.

    `terms` are what was typed, and `named` are the ids that were, each with all by which its record
    knows the message. `or_else` is what was meant if nothing is found: an id that is on no record
    can be a message's or a business id. `looks` is how often queues are looked through by then.
    """

    here: Here
    sources: Sequence[ReplaySource]
    selection: Selection
    terms: Sequence[Term] = ()
    named: Mapping[str, Collection[str]] = field(default_factory=dict)
    or_else: Chosen | None = None
    looks: int = 1

    @property
    def pipeline(self) -> DeployedPipeline:
        return self.here.pipeline

    @property
    def is_filtered(self) -> bool:
        """Whether not all messages there are chosen."""
        chosen = self.selection
        named = (chosen.ids, chosen.pattern, chosen.reasons)
        return any(named) or chosen.since is not None or chosen.until is not None


def chosen(session: Session, choice: Choice, pipeline: str | None) -> Chosen:
    """The sources that a choice names, and what it selects of them.

    Raises Problem for a choice that names no messages, a place that has none to take, and a term
    that runs do not know.
    """
    must_say_which(choice)
    for place in choice.places:
        if place.kind.refuses:
            raise Problem(place.kind.refuses.format(place.name), Cause.INPUT)
    app = session.app()
    known = _records(session, app, choice, pipeline)
    here = next((each.here for each in known.values()), None)
    here = here or Here(session, app, app.pipeline(pipeline))
    named = {id_: {id_} for id_ in choice.ids}
    for id_, record in known.items():
        # A run knows a message by its first id, or by that of the copy that waits.
        named[id_] |= {record.origin, *(each.copy for each in record.waiting)}
    choice = replace(choice, ids=tuple(sorted(set[str]().union(*named.values()))))
    found = replace(_chosen(here, choice, [*known.values()]), named=named)
    business = None if known or not choice.ids else business_ids(here.pipeline, choice.ids)
    if business is None:
        return found
    other = replace(choice, ids=(), terms=(*choice.terms, business))
    by_business = replace(_chosen(here, other, ()), named=named)
    kinds = {MESSAGE_ID.fullmatch(id_) is not None for id_ in choice.ids}
    if len(kinds) > 1:
        raise Problem("Give message IDs and business IDs one kind at a time.", Cause.INPUT)
    first, second = (found, by_business) if True in kinds else (by_business, found)
    return replace(first, or_else=replace(second, looks=2))


def _chosen(here: Here, choice: Choice, known: Sequence[LetterRecord]) -> Chosen:
    selection, beside = compiled(choice, here.session.now)
    if beside:
        says = f"{beside[0]}: no change is chosen by {beside[0].key}. List the messages by it, and "
        raise Problem(f"{says}give their ids here.", Cause.INPUT)
    places: Iterable[ChosenPlace] = choice.places
    if not places:
        places = map(ChosenPlace, [PARKED] if selection.reasons else HELD_BY_US)
    found = [
        each
        for sources in (
            map(_of_record, known)
            if known and not choice.places
            else (_of_place(here, place) for place in places)
        )
        for each in sources
    ]
    return Chosen(here, tuple(dict.fromkeys(found)), selection, choice.terms)


def must_say_which(choice: Choice) -> None:
    """A person who types too little must not move everything."""
    named = any(place.name for place in choice.places)
    if not (choice.is_narrow or named or choice.everything):
        raise Problem(
            "Say which messages: an ID, -f KEY=VALUE, a place with a name, or --all.", Cause.INPUT
        )


def _records(
    session: Session, app: App, choice: Choice, pipeline: str | None
) -> Mapping[str, LetterRecord]:
    """The record of each id of a choice, if all have one that can be read."""
    if len(choice.ids) > _MOST_RECORDS:
        return {}
    records: dict[str, LetterRecord] = {}
    for id_ in choice.ids:
        try:
            records[id_] = record_of(session, app, id_, pipeline)
        except Problem as problem:
            if problem.cause is not Cause.ABSENT:
                raise
            return {}
    if any(record.row is not None and record.row.unreadable for record in records.values()):
        return {}
    if len({record.pipeline.name for record in records.values()}) > 1:
        raise Problem("These messages are of several pipelines: take one at a time.", Cause.INPUT)
    return records


def business_ids(pipeline: DeployedPipeline, ids: Sequence[str]) -> Term | None:
    """The term that chooses messages by their business ids; None if no field holds them."""
    path = pipeline.settings().idempotency_key
    if path is None or (found := _PLAIN_PATH.fullmatch(path)) is None:
        return None
    top = "attribute" if found[1] == "attributes" else found[1]
    return Term(f"{top}{found[2]}", Operator.EQUAL, tuple(ids))


def _of_record(record: LetterRecord) -> Iterator[ReplaySource]:
    """Where a message is, as its record says."""
    pipeline = record.pipeline
    for waiting in record.waiting:
        if waiting.lane.startswith(run_lane("")):
            run = waiting.lane.removeprefix(run_lane(""))
            has = f"Run {run} has message {record.origin}: let it end, or end it with\n"
            raise Problem(f"{has}dlq run abort {run}", Cause.FAILED)
        if waiting.lane == PARKED_LANE:
            yield from parked_sources(pipeline)
        else:
            yield ReplaySource(f"{LANE}{waiting.lane}", lane=waiting.lane)
    if record.waiting:
        return
    place = next(places(record, ""), None)
    if place is not None and place.where is Where.PARKED:
        yield from parked_sources(pipeline)
    elif place is None or place.where is Where.QUEUE:
        yield ReplaySource(MAIN_DLQ, url=pipeline.dlq_url)
        yield from (ReplaySource(id_, url=url) for id_, url in pipeline.dedicated.items())
    else:
        says = f"Message {record.origin} is not there to be taken. {place.says}"
        raise Problem(says, Cause.ABSENT)


def _of_place(here: Here, place: ChosenPlace) -> Iterator[ReplaySource]:
    """The sources of a place."""
    for id_ in place.queues_of(here.pipeline).values():
        yield ReplaySource(id_, url=here.pipeline.urls[id_])
    if place.kind is PARKED or not place.kind.lanes:
        # A parking queue stands for all its messages, those in the lane too.
        return
    with aws_errors():
        names = sorted(lane.name for lane in here.room.lanes())
    for name in names:
        if not name.startswith(run_lane("")) and place.has_lane(name):
            yield ReplaySource(f"{LANE}{name}", lane=name)
