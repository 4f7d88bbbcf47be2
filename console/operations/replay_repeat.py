"""An ended replay run once more: new letters are made of those that it took."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import EDITS, Mode, originals_object
from deadletter.replay.plan import AGAIN, LONGEST_RUN, ORIGINALS, ReplayPlan
from deadletter.replay.ticket import ReplayOutcome

from . import deployed
from .adapter_errors import aws_errors
from .answer import Answer
from .problem import Cause, Problem
from .replay_letters import FAILED, ListedLetter, letters_of, objects_of
from .replay_pace import pace
from .replay_plan import circuits
from .replay_runs import ReplayRow, RunSwitch
from .replay_start import start
from .words import count, duration

if TYPE_CHECKING:
    from deadletter.settings.pipeline import Pipeline

_PROCESSED = frozenset({ReplayOutcome.RECOVERED, ReplayOutcome.DUPLICATE})

REPEATED: Mapping[str, Callable[[ListedLetter], bool]] = {
    "all": lambda _: True,
    "recovered": lambda letter: letter.outcome in _PROCESSED,
    "failed": lambda letter: letter.outcome in FAILED,
}
"""Which letters of an ended run are made anew."""


@dataclass(frozen=True, slots=True)
class RepeatStarted(Answer):
    """What `dlq replay repeat` answers."""

    at: Annotated[datetime, "when it was started"]
    run: Annotated[ReplayRow, "the new run"]
    repeats: Annotated[str, "id of the run whose letters it sends once more"]
    letters: Annotated[int, "letters counted"]
    processed_before: Annotated[int, "letters of them that were processed, by that run's outcomes"]
    again: Annotated[bool, "whether they get a new idempotency key"]
    warnings: Annotated[Sequence[str], "what to think about before it starts"]
    why: Annotated[str, "the reason given"]


class RunToRepeat:
    """A run that a person is about to repeat: its letters are counted, and nothing is made.

    `only` is a key of REPEATED; `ids` are letters, of the copy or of the first life, in place of
    it. With `again` the letters get a new idempotency key.
    """

    def __init__(
        self,
        switch: RunSwitch,
        *,
        only: str,
        ids: Collection[str] = (),
        again: bool = False,
        rate: float | None = None,
        approve: bool = False,
        why: str,
    ) -> None:
        self._switch = switch
        self._again = again
        self._rate = rate
        self._approve = approve
        self._why = why
        self._settings = deployed.settings(switch.pipeline)
        self._of = self._run_with_originals()
        letters = list(letters_of(switch))
        self._letters = [letter for letter in letters if _is_chosen(letter, only, ids)]
        if not self._letters:
            which = "with these ids" if ids else f"for --only {only}"
            raise Problem(
                f"Run {switch.id} has no letter {which}: nothing was done. "
                f"dlq show {switch.id} has the figures.",
                Cause.ABSENT,
            )
        self.warnings: Sequence[str] = tuple(self._warn())

    @property
    def letters(self) -> int:
        return len(self._letters)

    @property
    def _processed(self) -> int:
        return sum(letter.outcome in _PROCESSED for letter in self._letters)

    def _run_with_originals(self) -> str:
        """The run that has kept the letters; Problem if none of them is kept."""
        from deadletter.aws.replay_objects import S3RunObjects

        switch, plan = self._switch, self._switch.plan
        if plan.is_for_discarders:
            raise Problem(
                f"Run {switch.id} sent nothing: it threw letters away, or brought them back. "
                "What is discarded comes back by dlq restore.",
                Cause.INPUT,
            )
        of = plan.repeated_run or switch.id
        bucket, pipeline = switch.app.letters_bucket, switch.pipeline.name
        originals = S3RunObjects(switch.session.aws.s3, bucket, pipeline, of, originals_object)
        with aws_errors():
            kept = originals.listed("")
        if not kept:
            raise Problem(
                f"No letter of run {of} is kept: replay_days are over, or the setting is 0. "
                f"Letters that failed and are still parked: dlq replay rerun {switch.id} "
                "--only failed",
                Cause.ABSENT,
            )
        return of

    def _warn(self) -> Iterator[str]:
        """What a person should know, the most dangerous first."""
        switch, all_ = self._switch, len(self._letters)
        if switch.pipeline.mode == Mode.OBSERVE:
            yield (
                "The pipeline observes, so this run would be aborted before it makes a letter: set "
                "mode enforce, deploy, and type it again."
            )
        yield from _idempotency_says(self._settings, self._processed, all_, again=self._again)
        parked = sum(letter.outcome in FAILED for letter in self._letters)
        if parked:
            yield (
                f"{parked:,} of {all_:,} failed, and may still be parked: they stay there beside "
                f"what is made of them. dlq replay rerun {switch.id} --only failed takes the parked"
                " ones themselves."
            )
        with aws_errors():
            edited = {each.name.rpartition("-")[0] for each in objects_of(switch).listed(EDITS)}
        if edited:
            yield (
                f"Edited in run {switch.id}: {count(len(edited), 'letter')}. What is sent is the "
                "letter as it was before."
            )
        yield from circuits(switch.session, switch.app, switch.pipeline)[1]

    def start(self) -> RepeatStarted:
        """Start the run."""
        switch, session = self._switch, self._switch.session
        origins = sorted({letter.name.origin for letter in self._letters})
        run = start(session, self._plan(len(origins)), origins, command="replay repeat").run
        return RepeatStarted(
            **session.place,
            at=session.now,
            run=run,
            repeats=switch.id,
            letters=self.letters,
            processed_before=self._processed,
            again=self._again,
            warnings=self.warnings,
            why=self._why,
        )

    def _plan(self, counted: int) -> ReplayPlan:
        switch, terms = self._switch, self._settings.replay
        session, pipeline = switch.session, switch.pipeline
        now = session.now.timestamp()
        speed = pace(session, pipeline, self._rate)
        above = terms.approve_above is not None and counted > terms.approve_above
        return ReplayPlan(
            pipeline=pipeline.name,
            source=f"{ORIGINALS}{self._of}",
            counted=counted,
            rate=speed.rate,
            burst=max(1, min(10, int(speed.rate * 2))),
            ordered=pipeline.fifo or self._settings.ordering_key is not None,
            outcome_timeout=float(terms.outcome_timeout),
            workers=speed.workers,
            approve=self._approve or above,
            accept=AGAIN if self._again else None,
            created=round(now, 3),
            expires=round(now + LONGEST_RUN, 3),
            who=session.aws.caller,
            why=self._why,
        )


def _is_chosen(letter: ListedLetter, only: str, ids: Collection[str]) -> bool:
    if ids:
        return not {letter.name.copy, letter.name.origin}.isdisjoint(ids)
    return REPEATED[only](letter)


def _idempotency_says(
    settings: Pipeline, processed: int, all_: int, *, again: bool
) -> Iterator[str]:
    """What keeps the letters from being processed twice, or does not."""
    if not processed:
        return
    before = f"{processed:,} of {all_:,} were processed before: "
    if again:
        yield f"{before}with --again the consumer processes them once more, with all their effects."
    elif settings.consumer_library:
        yield (
            f"{before}the consumer will skip them unless its idempotency has forgotten them, after "
            f"{duration(settings.idempotency_keep)}; --again gives them a new key."
        )
    else:
        yield (
            f"{before}the consumer does not use the library, so nothing of ours keeps it from "
            "processing them twice; --again means nothing to it."
        )
