"""What a rule matches by the failure records alone: nothing is received, and no body is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import DAY, PARKED_LANE, LedgerKeeps
from deadletter.failure.cause_index import CauseEntry
from deadletter.rules.pattern import Pattern, compile_pattern
from deadletter.settings.pipeline import Pipeline

from .app import App, DeployedPipeline
from .deadline import Deadline, side_by_side
from .errors import Problem, aws_errors
from .matching import field_holds, holds, known_of, unkept
from .queue import depth
from .selection import Choice, key_of
from .session import Here, Session
from .words import clock, count, moment, some

if TYPE_CHECKING:
    from deadletter.redrive.waiting_room import LaneCount

DAYS = 7
"""Days back from now: messages that failed within them are counted beside all that are here."""

_READ = ("category", "blame", "error_type", "http_status", "context", "life")

# Values of a field that are named.
_MOST_VALUES = 3


@dataclass(frozen=True, slots=True)
class RuleMatches:
    """What a rule matches of the messages of a pipeline, by their failure records."""

    pipeline: Annotated[str, "name of the pipeline"]
    here: Annotated[int, "messages that fail here now and have a failure record"] = 0
    matched: Annotated[int, "of them, those that the rule matches"] = 0
    tenants: Annotated[int | None, "tenants of those; null if failure records keep none"] = None
    failed_since: Annotated[datetime | None, f"{DAYS} days ago"] = None
    failed: Annotated[int, "of those here, the ones that failed since then"] = 0
    failed_matched: Annotated[int, "of them, those that the rule matches"] = 0
    is_at_least: Annotated[bool, "whether there are more failure records than were read"] = False
    untold: Annotated[int, "messages of which the record can't tell"] = 0
    why_untold: Annotated[
        Sequence[str], "what the rule reads that failure records do not keep"
    ] = ()
    hints: Annotated[
        Sequence[str], "if it matches none: what each field matches alone, or the nearest value"
    ] = ()
    not_searched: Annotated[Sequence[str], "messages that were not searched, and how many"] = ()
    problem: Annotated[str | None, "why nothing could be counted; null if it was"] = None

    def says(self, now: datetime, where: str = "here") -> Iterator[str]:
        """The same for a person, line by line; `where` names the pipeline."""
        if self.problem is not None:
            yield f"What it matches {where} can't be told: {self.problem}"
            return
        least = "at least " if self.is_at_least else ""
        parts = [f"Matches {self.matched:,} of {least}{count(self.here, 'message')} {where} now"]
        if self.failed_since is not None:
            since = clock(self.failed_since, now)
            of = f"{self.failed_matched:,} of {self.failed:,}"
            parts.append(f"{of} in {DAYS} days, since {since}")
        if self.matched and self.tenants is not None:
            parts.append(count(self.tenants, "tenant"))
        yield f"{'; '.join(parts)}."
        yield from self.hints
        if self.untold:
            why = "; ".join(self.why_untold) or "a value may be a text or a number"
            yield f"Can't be told for {count(self.untold, 'message')}: {why}."
        yield f"Not searched: {', '.join(self.not_searched)}."


def matches_on_record(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    pattern: Mapping[str, Any],
    deadline: Deadline | None = None,
) -> tuple[RuleMatches, Sequence[str]]:
    """What a valid pattern matches of the messages that fail now, and the ids of those.

    Raises Problem if the failure records can't be read.
    """
    from .groups import MOST_SECONDS, FailingReading

    settings = pipeline.settings()
    compiled = compile_pattern(pattern)
    since = session.clock() - DAYS * DAY
    deadline = deadline or Deadline(MOST_SECONDS)
    reading = FailingReading(Here(session, app, pipeline), Choice(), deadline)
    not_searched: list[str] = []
    with side_by_side(deadline) as start:
        parked = start(partial(_parked, session, app, pipeline))
        failing = reading.failing(_READ)
        in_parking = parked.result(lambda _: not_searched.append("parked messages"))
    known = [known_of(entry, settings) for entry in failing.entries]
    answers = [holds(compiled, each) for each in known]
    judged = list(zip(failing.entries, answers, strict=True))
    matching = [entry for entry, says in judged if says]
    if in_parking and in_parking.messages:
        least = "at least " if in_parking.is_at_least else ""
        not_searched.append(least + count(in_parking.messages, "parked message"))
    if failing.in_queues is None:
        not_searched.append("messages without a failure record")
    elif (more := failing.in_queues - len(judged)) > 0 and not failing.is_at_least:
        not_searched.append(f"{count(more, 'message')} without a failure record")
    untold = sum(says is None for says in answers)
    matches = RuleMatches(
        pipeline=pipeline.name,
        here=len(judged),
        matched=len(matching),
        tenants=_tenants(matching, settings),
        failed_since=moment(since),
        failed=sum(entry.seen >= since for entry, _ in judged),
        failed_matched=sum(entry.seen >= since for entry in matching),
        is_at_least=failing.is_at_least,
        untold=untold,
        why_untold=tuple(sorted(unkept(compiled, settings))) if untold else (),
        hints=() if matching or untold else tuple(_hints(compiled, known)),
        not_searched=(*not_searched, "processed messages", "messages that have not failed"),
    )
    return matches, [entry.origin for entry in matching]


def matches_in(
    session: Session,
    app: App,
    pipelines: Sequence[DeployedPipeline],
    pattern: Mapping[str, Any],
) -> Sequence[RuleMatches]:
    """What a valid pattern matches in each of these pipelines, by the failure records."""
    aws, deadline = session.aws, Deadline()
    _ = aws.sqs, aws.dynamodb  # made before there are threads
    lost: dict[str, RuleMatches] = {}

    def note(pipeline: str, problem: Problem) -> None:
        lost[pipeline] = RuleMatches(pipeline, problem=problem.says)

    with side_by_side() as start:
        reads = {
            each.name: start(partial(matches_on_record, session, app, each, pattern, deadline))
            for each in pipelines
        }
        found = {name: read.result(partial(note, name)) for name, read in reads.items()}
    return [lost[name] if known is None else known[0] for name, known in found.items()]


def _parked(session: Session, app: App, pipeline: DeployedPipeline) -> LaneCount:
    """The parked messages: those in parking queues, by SQS's estimate, and those saved from one."""
    depths = [depth(session.aws.sqs, url) for url in pipeline.parking.values()]
    with aws_errors():
        saved = Here(session, app, pipeline).lanes.count(PARKED_LANE)
    in_queues = sum(each.visible + each.in_flight + each.delayed for each in depths)
    return replace(saved, messages=saved.messages + in_queues)


def _tenants(matching: Iterable[CauseEntry], settings: Pipeline) -> int | None:
    from deadletter.rules.document import TENANT

    if settings.ledger is LedgerKeeps.NONE or TENANT not in settings.context:
        return None
    return len({entry.about.context.get(TENANT, "") for entry in matching} - {""})


def _hints(pattern: Pattern, known: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What each field of a pattern matches alone, or which values messages have instead."""
    for field in pattern.fields if known else ():
        answers = [field_holds(field, each) for each in known]
        if None in answers:
            # Failure records do not keep it.
            continue
        name, words = key_of(field.name), field.comparison.words
        values = Counter(str(each[field.name]) for each in known if field.name in each)
        if any(answers):
            yield f"{name} {words} alone matches {sum(map(bool, answers)):,}."
        elif (near := nearest_value(words, values)) is not None:
            typed = near[:8] if name == "cause" else near
            yield f"Did you mean {name}={typed} ({values[near]:,})?"
        elif values:
            listed = [f"{value} ({n:,})" for value, n in values.most_common()]
            yield f"{name} is {some(listed, _MOST_VALUES)} here."
        else:
            yield f"No message here has {name}."


def nearest_value(expected: str, values: Mapping[str, int]) -> str | None:
    """The value that is spelled most like a text of `expected`, which are in quotes.

    Case and spaces count for nothing: they are what is mistaken most. None if none is near.
    """
    texts = [_bare(text) for text in _QUOTED.findall(expected) or [expected]]
    bare: dict[str, str] = {}
    for value in sorted(values, key=lambda each: (-values[each], each)):
        bare.setdefault(_bare(value), value)
    near = [match for text in texts for match in get_close_matches(text, bare, n=1)]
    near += [
        each
        for text in texts
        for each in bare
        if min(len(text), len(each)) >= _LEAST_IN_COMMON and (text in each or each in text)
    ]
    return bare[near[0]] if near else None


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

# Characters: what is shorter is a part of anything.
_LEAST_IN_COMMON = 3


def _bare(text: str) -> str:
    return "".join(text.split()).casefold()
