"""Letters that are found by their content or their ids, wherever we hold them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import MAIN_DLQ, LedgerKeeps, parking_source
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp, initial_stamp

from . import deployed
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .letter_peek import stamp_of
from .letter_walk import FoundLetter, letters_of_lane, look_into_queue, waiting_room
from .peek import Reach
from .problem import Cause, Problem
from .queue import depth
from .session import Session
from .words import count, moment

if TYPE_CHECKING:
    from deadletter.rules.document import DocumentBuilder

MOST_LETTERS = 20_000
"""Letters that a search looks at, unless the caller says another number."""

# Replay runs of a pipeline whose snapshots are searched, the latest.
_LATEST_RUNS = 10

_EVERY = 200
"""Letters between two words about the progress."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a letter has to have: all of it. `fields` map JMESPath expressions to values."""

    text: str | None = None
    ids: frozenset[str] = frozenset()
    tenant: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def reads_content(self) -> bool:
        return self.text is not None or bool(self.fields)


@dataclass(frozen=True, slots=True)
class FoundMatch:
    """A letter that was found."""

    pipeline: Annotated[str, "name of the pipeline"]
    place: Annotated[
        str, "`lane <name>`, `queue <source>`, or `snapshot <run>` of a letter that left its run"
    ]
    message_id: Annotated[str, "MessageId of this copy"]
    origin: Annotated[str, "MessageId of its first life"]
    tenant: Annotated[
        str, "its tenant as `ledger` says: plain, hashed or left out; empty without one"
    ]
    attempts: Annotated[int, "re-drives so far"]
    first_sent: Annotated[datetime | None, "when its producer sent it"]
    outcome: Annotated[str | None, "what became of it in its run; null outside of snapshots"]
    size: Annotated[int, "bytes of body and attributes"]
    body: Annotated[str | None, "the body; null without --show-body, and in snapshots"]


@dataclass(frozen=True, slots=True)
class SearchResult(Answer):
    """What `dlq search` answers."""

    at: Annotated[datetime, "when it ended"]
    matches: Annotated[Sequence[FoundMatch], "the letters, in no particular order"]
    pipelines: Annotated[Sequence[str], "the pipelines that were searched"]
    looked_at: Annotated[int, "letters that were compared"]
    received: Annotated[int, "of them received from queues, and given back"]
    complete: Annotated[bool, "whether all places that were asked for were searched to the end"]
    not_searched: Annotated[
        Sequence[str],
        "the places that the options leave out, each with how to include it, and those that it did "
        "not reach or not search to their end",
    ]
    never_searched: Annotated[Sequence[str], "the places that no search looks into, and why"]
    notes: Annotated[Sequence[str], "what was left out, and why"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search goes: matches, letters, seconds."""

    matches: int = 100
    letters: int = MOST_LETTERS
    seconds: float = 60.0


def search(
    session: Session,
    pipelines: Sequence[str],
    wanted: Wanted,
    *,
    bounds: Bounds,
    queues: Sequence[str] = ("parking",),
    body: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> SearchResult:
    """The letters that have all that is wanted: in lanes, snapshots of runs, parking queues.

    `queues` may have `dlq` too. What is received from a queue is given back, and counted by SQS.
    Raises Problem if nothing is wanted, or an expression is no JMESPath.
    """
    if not (wanted.ids or wanted.tenant or wanted.reads_content):
        raise Problem("Say what to look for: TEXT, --id, --tenant or --field.", Cause.INPUT)
    app = session.app()
    chosen = app.select(pipelines)
    running = _LetterSearch(session, app, wanted, bounds, body, progress)
    for pipeline in chosen:
        running.through(pipeline, queues)
    left_out = [*_left_out(queues), *running.unfinished]
    return SearchResult(
        **session.place,
        at=session.now,
        pipelines=tuple(pipeline.name for pipeline in chosen),
        looked_at=running.looked_at,
        received=running.received,
        complete=not running.notes,
        matches=tuple(running.matches),
        not_searched=tuple(left_out),
        never_searched=tuple(_never_searched(chosen, wanted)),
        notes=tuple(dict.fromkeys(running.notes)),
    )


class _LetterSearch:
    def __init__(
        self,
        session: Session,
        app: App,
        wanted: Wanted,
        bounds: Bounds,
        body: bool,
        progress: Callable[[str], None],
    ) -> None:
        self._session = session
        self._app = app
        self._wanted = wanted
        self._bounds = bounds
        self._body = body
        self._progress = progress
        self._until = session.clock() + bounds.seconds
        self._fields = [(_compiled(path), value) for path, value in wanted.fields.items()]
        self._kept: dict[str, LedgerKeeps] = {}
        self._seen: set[tuple[str, str]] = set()
        self.looked_at = self.received = 0
        self.matches: list[FoundMatch] = []
        self.notes: list[str] = []
        self.unfinished: list[str] = []
        """The places that it did not reach, or not search to their end."""

    def through(self, pipeline: DeployedPipeline, queues: Sequence[str]) -> None:
        """Search one pipeline: first what costs no receive."""
        if self._is_over():
            self.unfinished.append(f"pipeline {pipeline.name}")
            return
        documents = self._documents(pipeline)
        with aws_errors():
            lanes = [lane.name for lane in waiting_room(self._session, self._app, pipeline).lanes()]
        places: dict[str, Callable[[], bool]] = {
            f"lane {lane}": partial(self._lane, pipeline, documents, lane) for lane in lanes
        }
        if not self._wanted.reads_content:
            # Their content is in the lanes.
            places["the snapshots of replay runs"] = partial(self._snapshots, pipeline)
        for source, url in _queues(pipeline, queues):
            places[f"queue {source}"] = partial(self._queue, pipeline, documents, source, url)
        for place, search_whole in places.items():
            if self._is_over():
                self.unfinished.append(f"{place} of {pipeline.name}")
            elif not search_whole():
                self.unfinished.append(f"the rest of {place} of {pipeline.name}")

    def _lane(self, pipeline: DeployedPipeline, documents: DocumentBuilder, lane: str) -> bool:
        """Search a lane; False if it ended before the lane's end."""

        def broken(items: int) -> None:
            self.notes.append(
                f"{count(items, 'item')} of lane {lane} of {pipeline.name} hold no whole letter."
            )

        for found in letters_of_lane(self._session, self._app, pipeline, lane, broken):
            if self._is_over():
                return False
            self._compare(pipeline, documents, found, f"lane {lane}")
        return True

    def _documents(self, pipeline: DeployedPipeline) -> DocumentBuilder:
        from deadletter.rules.document import DocumentBuilder

        settings = deployed.settings(pipeline)
        self._kept[pipeline.name] = settings.ledger
        return DocumentBuilder(settings)

    def _shown(self, tenant: str, pipeline: DeployedPipeline) -> str:
        """The tenant as the ledger keeps it: results are copied into tickets and logs."""
        from deadletter.failure.about_letter import kept_values

        values = {"tenant": tenant} if tenant else {}
        return kept_values(values, self._kept[pipeline.name], pipeline.name).get("tenant", "")

    def _queue(
        self, pipeline: DeployedPipeline, documents: DocumentBuilder, source: str, url: str
    ) -> bool:
        """Search a queue; False if the look did not get to its end."""
        left = self._until - self._session.clock()
        held = depth(self._session.aws.sqs, url)
        if hidden := held.in_flight + held.delayed:
            self.notes.append(
                f"{count(hidden, 'message')} of queue {source} of {pipeline.name} could not be "
                "seen: in another receiver's hand, or delayed."
            )
        most = self._bounds.letters - self.looked_at

        def see(found: FoundLetter) -> None:
            self._compare(pipeline, documents, found, f"queue {source}")

        look = look_into_queue(
            self._session,
            url,
            source,
            see,
            # Hidden for longer than the look: no message is seen twice.
            reach=Reach(seconds=left, most=most, hidden=int(left) + 60),
            wanted=lambda: not self._is_over(),
        )
        self.received += look.looked_at
        if not look.is_whole:
            self._is_over()
            self.notes.append(f"Queue {source} of {pipeline.name} was not looked at to its end.")
        if look.not_given_back:
            letters = count(look.not_given_back, "letter")
            self.notes.append(f"{letters} of queue {source} stay hidden for {int(left) + 60} s.")
        if pipeline.fifo:
            self.notes.append(f"Queue {source} is FIFO: of each group only the head was seen.")
        return look.is_whole

    def _is_over(self) -> bool:
        """Whether a bound is reached; notes which one."""
        for reached, says in (
            (len(self.matches) >= self._bounds.matches,
             f"It ended at {self._bounds.matches:,} matches: --limit finds more."),
            (self.looked_at >= self._bounds.letters,
             f"It ended at {self._bounds.letters:,} letters: --most looks at more."),
            (self._session.clock() >= self._until,
             f"It ended after {self._bounds.seconds:g} s: --wait gives it more time."),
        ):  # fmt: skip
            if reached:
                if says not in self.notes:
                    self.notes.append(says)
                return True
        return False

    def _compare(
        self, pipeline: DeployedPipeline, documents: DocumentBuilder, found: FoundLetter, place: str
    ) -> None:
        self.looked_at += 1
        if self.looked_at % _EVERY == 0:
            matches = count(len(self.matches), "match").replace("matchs", "matches")
            self._progress(f"{self.looked_at:,} letters looked at, {matches}")
        letter = found.letter
        if self._is_known(pipeline, letter.message_id):
            return
        stamp = stamp_of(letter) or initial_stamp(letter)
        if self._wanted.ids and not self._wanted.ids & {letter.message_id, stamp.origin}:
            return
        if self._wanted.text is not None and not _has(letter, self._wanted.text):
            return
        document = documents.build(letter, stamp, None, self._session.clock()).value
        tenant = _tenant(document)
        shown = self._shown(tenant, pipeline)
        if self._wanted.tenant not in (None, tenant, shown):
            return
        if not all(_matches(path, value, document) for path, value in self._fields):
            return
        self._found(pipeline, _match(pipeline, letter, stamp, place, shown, body=self._body))

    def _is_known(self, pipeline: DeployedPipeline, copy: str) -> bool:
        """Whether this copy was found already: an index may lag, and show it in two lanes."""
        return (pipeline.name, copy) in self._seen

    def _found(self, pipeline: DeployedPipeline, match: FoundMatch) -> None:
        self._seen.add((pipeline.name, match.message_id))
        self.matches.append(match)

    def _snapshots(self, pipeline: DeployedPipeline) -> bool:
        """The names of letters in the latest runs' snapshots; False if it ended before the last."""
        wanted = self._wanted
        for run in self._runs(pipeline):
            for listed in self._listed(pipeline, run):
                if self._is_over():
                    return False
                self.looked_at += 1
                name = listed.name
                if wanted.ids and not wanted.ids & {name.copy, name.origin}:
                    continue
                shown = self._shown(name.tenant, pipeline)
                if wanted.tenant not in (None, name.tenant, shown):
                    continue
                if not self._is_known(pipeline, name.copy):
                    self._found(pipeline, FoundMatch(
                        pipeline=pipeline.name,
                        place=f"snapshot {run}",
                        message_id=name.copy,
                        origin=name.origin,
                        tenant=shown,
                        attempts=name.attempt,
                        first_sent=_sent(name.first_sent),
                        outcome=listed.outcome.name,
                        size=name.size,
                        body=None,
                    ))  # fmt: skip
        return True

    def _runs(self, pipeline: DeployedPipeline) -> Sequence[str]:
        from deadletter.aws.replay_runs import DynamoDBReplayRuns

        session = self._session
        runs = DynamoDBReplayRuns(
            session.aws.dynamodb, self._app.letters_table, pipeline.name, session.clock
        )
        with aws_errors():
            every = sorted(runs.all(), key=lambda run: run.created, reverse=True)
        if len(every) > _LATEST_RUNS:
            self.notes.append(
                f"{pipeline.name} has {count(len(every), 'replay run')}: only the snapshots of "
                f"the latest {_LATEST_RUNS} were searched."
            )
        return [run.id for run in every[:_LATEST_RUNS]]

    def _listed(self, pipeline: DeployedPipeline, run: str) -> Iterator[Any]:
        from .replay_letters import letters_of
        from .replay_runs import RunSwitch

        try:
            yield from letters_of(RunSwitch(self._session, pipeline.name, run))
        except Problem as problem:
            # Letters of a run without a snapshot are in its lane.
            if problem.cause is not Cause.FAILED:
                raise


def _left_out(queues: Sequence[str]) -> Iterator[str]:
    if "parking" not in queues:
        yield "the parking queues: leave out --no-queues, and SQS counts the looks"
    if MAIN_DLQ not in queues:
        yield "the DLQ and the dedicated DLQs: add --dlq, and SQS counts the looks"


def _never_searched(pipelines: Sequence[DeployedPipeline], wanted: Wanted) -> Iterator[str]:
    queues = ", ".join(pipeline.main_url.rpartition("/")[2] for pipeline in pipelines)
    if queues:
        yield f"the main queue ({queues}), and what consumers have in hand: it is theirs to receive"
    if wanted.reads_content:
        yield (
            "letters that have left their replay run: snapshots hold ids and tenants, and no "
            "content, so --id and --tenant find them"
        )


def _queues(pipeline: DeployedPipeline, sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    if "parking" in sources:
        for id_, url in pipeline.parking.items():
            yield parking_source(id_), url
    if MAIN_DLQ in sources:
        yield MAIN_DLQ, pipeline.dlq_url
        yield from pipeline.dedicated.items()


def _compiled(path: str) -> Any:
    from jmespath.exceptions import JMESPathError

    from deadletter.rules.paths import compiled
    from deadletter.settings.json_fields import BadSettings

    try:
        return compiled("--field", path)
    except (BadSettings, JMESPathError) as error:
        raise Problem(
            f"--field {path!r} is not JMESPath: write a path such as body.orderId, "
            "attributes.kind or context.tenantId.",
            Cause.INPUT,
        ) from error


def _matches(path: Any, value: str, document: Mapping[str, Any]) -> bool:
    from deadletter.rules.paths import value_at

    there = value_at(path, document)
    members = there if isinstance(there, list) else [there]
    return any(_text(member) == value for member in members if member is not None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _has(letter: Letter, text: str) -> bool:
    """Whether body or attributes contain the text, letters of either case."""
    wanted = text.casefold()
    values = (each.value for each in letter.attributes.values() if isinstance(each.value, str))
    return any(wanted in value.casefold() for value in (letter.body, *values))


def _tenant(document: Mapping[str, Any]) -> str:
    from deadletter.rules.document import TENANT

    value = document.get("context", {}).get(TENANT)
    return "" if value is None else _text(value)


def _sent(first_sent: int) -> datetime | None:
    return moment(first_sent / 1000) if first_sent else None


def _match(
    pipeline: DeployedPipeline, letter: Letter, stamp: Stamp, place: str, tenant: str, *, body: bool
) -> FoundMatch:
    return FoundMatch(
        pipeline=pipeline.name,
        place=place,
        message_id=letter.message_id,
        origin=stamp.origin,
        tenant=tenant,
        attempts=stamp.attempt,
        first_sent=_sent(stamp.first_sent),
        outcome=None,
        size=letter.size,
        body=letter.body if body else None,
    )
