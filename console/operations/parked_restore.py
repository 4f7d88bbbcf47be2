"""Discarded letters brought back to the parking lot, as long as their copies are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from deadletter.contract import DISCARDED, REPORT_DAYS
from deadletter.replay.plan import DISCARDED_LETTERS, LONGEST_RUN, RESTORE, ReplayPlan
from deadletter.routing.selection import Selection

from .adapter_errors import aws_errors
from .app import App, DeployedPipeline
from .aws import side_by_side
from .letter_walk import FoundLetter
from .parked_release import ParkedExit, ParkedRun, ParkedTally
from .problem import Cause, Problem
from .replay_census import CountedLetter, Progress, census_of
from .replay_source import ReplaySource
from .replay_start import start
from .session import Session

if TYPE_CHECKING:
    from deadletter.aws.replay_objects import S3RunObjects
    from deadletter.replay.discarded import DiscardedLetter

# Copies in memory at once: each may have a mebibyte.
_TOGETHER = 50


@dataclass(frozen=True, slots=True)
class Discard:
    """Letters that one run has thrown away, who had it do so, when it began, and why."""

    run: str
    letters: int
    at: float
    by: str
    because: str


@dataclass(slots=True)
class _Copies:
    """What the copies say that were read so far; bodies are not kept."""

    discards: dict[str, tuple[str, DiscardedLetter]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


class ParkedRestore:
    """Discarded letters that a person is about to restore: counted, and nothing changed.

    `run` is the run that has thrown them away, or how its id begins; None: any run.
    """

    def __init__(
        self,
        session: Session,
        pipeline: str | None,
        selection: Selection,
        *,
        run: str | None = None,
        why: str,
        progress: Progress = lambda _: None,
    ) -> None:
        self._session = session
        self._app = session.app()
        self._pipeline = self._app.pipeline(pipeline)
        self._selection = selection
        self.why = why
        copies = _Copies()
        folders = _folders(session, self._app, self._pipeline, run)
        self._source = ReplaySource(
            f"{DISCARDED_LETTERS}:{folders[0]}" if run is not None else DISCARDED_LETTERS
        )
        letters = _read(session, self._app, self._pipeline, folders, copies)
        counted = census_of(
            session, self._app, self._pipeline, self._source, selection, letters, progress
        )
        # What keeps a letter out of a replay keeps it out of no parking lot.
        self._letters: Sequence[CountedLetter] = (*counted.taken, *counted.left_out)
        self.damaged: Sequence[str] = copies.damaged
        self.discards = _discards(self._letters, copies.discards)
        if not self._letters:
            raise Problem(self._nothing(), Cause.ABSENT)

    @property
    def pipeline(self) -> str:
        return self._pipeline.name

    @property
    def tally(self) -> ParkedTally:
        """What would come back."""
        return ParkedTally(self._letters)

    def start(self) -> ParkedExit:
        """Start the run that restores them."""
        session, now = self._session, self._session.now.timestamp()
        origins = sorted({letter.origin for letter in self._letters})
        plan = ReplayPlan(
            pipeline=self.pipeline,
            source=self._source.id,
            selection=self._selection,
            destination=RESTORE,
            counted=len(origins),
            canary=(),
            ramp=(1.0,),
            created=round(now, 3),
            expires=round(now + LONGEST_RUN, 3),
            who=session.aws.caller,
            why=self.why,
        )
        run = start(session, plan, origins, command="parked restore").run
        return ParkedExit(
            **session.place,
            at=session.now,
            pipeline=self.pipeline,
            action="restore",
            letters=len(self._letters),
            left_out={},
            runs=(ParkedRun(run.run, plan.source, len(self._letters), run.state),),
            copies=(),
            why=self.why,
        )

    def _nothing(self) -> str:
        if self.damaged:
            return f"No copy can be read: nothing was done. Damaged: {', '.join(self.damaged)}."
        return (
            f"No discarded letter of {self.pipeline} matches whose copy is kept: nothing was done. "
            f"Copies are kept for {REPORT_DAYS} days, and none with --no-export."
        )


def _objects(session: Session, app: App, pipeline: DeployedPipeline, run: str) -> S3RunObjects:
    from deadletter.aws.replay_objects import S3RunObjects

    return S3RunObjects(session.aws.s3, app.letters_bucket, pipeline.name, run)


def _folders(
    session: Session, app: App, pipeline: DeployedPipeline, run: str | None
) -> Sequence[str]:
    """The runs that may keep copies; of `run`, the one whose id begins so."""
    from deadletter.aws.replay_objects import runs_with_objects

    with aws_errors():
        known = list(runs_with_objects(session.aws.s3, app.letters_bucket, pipeline.name))
    if run is None:
        return known
    match [each for each in known if each.startswith(run)]:
        case [one]:
            return [one]
        case []:
            raise Problem(f"No run {run!r} of {pipeline.name} has kept anything.", Cause.ABSENT)
        case several:
            raise Problem(f"Several runs begin with {run!r}: {', '.join(several)}.", Cause.INPUT)


def _read(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    folders: Sequence[str],
    copies: _Copies,
) -> Iterator[FoundLetter]:
    """Each discarded letter, as it was parked; notes in `copies` who discarded it."""
    for run in folders:
        objects = _objects(session, app, pipeline, run)
        with aws_errors():
            names = [stored.name for stored in objects.listed(DISCARDED)]
        for begin in range(0, len(names), _TOGETHER):
            yield from _parsed(objects, run, names[begin : begin + _TOGETHER], copies)


def _parsed(
    objects: S3RunObjects, run: str, names: Sequence[str], copies: _Copies
) -> Iterator[FoundLetter]:
    from deadletter.replay.discarded import NotADiscardedLetter, discarded_letter

    for name, data in _contents(objects, names).items():
        try:
            discarded = discarded_letter(name, data)
        except NotADiscardedLetter:
            copies.damaged.append(f"{run}/{name}")
            continue
        letter = discarded.letter
        copies.discards[letter.message_id] = (run, discarded)
        yield FoundLetter(letter, discarded.parked_in, kept=discarded.parked_stamp)


def _contents(objects: S3RunObjects, names: Sequence[str]) -> Mapping[str, bytes]:
    """The objects that are still there, read side by side."""

    def get(name: str) -> bytes | None:
        with aws_errors():
            return objects.get(name)

    def lost(problem: Problem) -> None:
        raise problem

    with side_by_side() as start:
        reads = [(name, start(partial(get, name))) for name in names]
        found = [(name, read.result(lost)) for name, read in reads]
    return {name: data for name, data in found if data is not None}


def _discards(
    letters: Sequence[CountedLetter], known: Mapping[str, tuple[str, DiscardedLetter]]
) -> Sequence[Discard]:
    """The discards that these letters were thrown away by, the latest first."""
    runs = Counter(known[letter.copy][0] for letter in letters)
    first: dict[str, DiscardedLetter] = {}
    for letter in letters:
        run, discarded = known[letter.copy]
        if run not in first or discarded.at < first[run].at:
            first[run] = discarded
    found = [Discard(run, runs[run], each.at, each.by, each.because) for run, each in first.items()]
    return sorted(found, key=lambda each: -each.at)
