"""Parked letters released or discarded: a small replay run for each parking queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.contract import DISCARDED, run_object
from deadletter.replay.plan import DISCARD, MAIN_QUEUE
from deadletter.routing.selection import Selection

from .answer import Answer
from .problem import Cause, Problem
from .replay_census import CountedLetter, Progress
from .replay_plan import DraftPlan, PlanRequest, draft
from .replay_source import parked_sources
from .replay_start import start
from .session import Session

DISCARD_RATE = 100.0
"""Letters per second that a discard throws away: a person can still hold it."""


# Ids that are named to a person: enough to look at some of the letters.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ParkedTally:
    """Letters as a person has to see them before a yes; never what is in them."""

    _letters: Sequence[CountedLetter]

    @property
    def letters(self) -> int:
        return len(self._letters)

    @property
    def reasons(self) -> Counter[str]:
        """The letters by why they are parked."""
        return Counter(letter.reason or "no known reason" for letter in self._letters)

    @property
    def failures(self) -> Counter[str]:
        """The letters by their last failure: the error, and the fingerprint of its cause."""
        return Counter(map(_failure, self._letters))

    @property
    def oldest(self) -> CountedLetter | None:
        """The letter that was sent first; None if that is known of none."""
        known = [letter for letter in self._letters if letter.first_sent]
        return min(known, key=lambda letter: letter.first_sent, default=None)

    @property
    def some(self) -> Sequence[str]:
        """Ids of some of the letters, of their first lives."""
        return sorted({letter.origin for letter in self._letters})[:_MOST_NAMED]


def _failure(letter: CountedLetter) -> str:
    if not letter.cause:
        return "not on record"
    return f"{letter.error_type or letter.category} ({letter.cause})"


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A replay run that takes the parked letters of one parking queue, or discarded letters."""

    run: Annotated[str, "id of the run"]
    source: Annotated[
        str,
        "`parking:<id>`: the queue, and its letters in lane `parked`; of a restore `discarded`, or "
        "`discarded:<run>`",
    ]
    letters: Annotated[int | None, "letters counted; null for a FIFO queue, which shows heads only"]
    state: Annotated[str, "state of the run"]


@dataclass(frozen=True, slots=True)
class ParkedExit(Answer):
    """What `dlq parked release`, `dlq parked discard` and `dlq parked restore` answer."""

    at: Annotated[datetime, "when it was started"]
    pipeline: Annotated[str, "name of the pipeline"]
    action: Annotated[str, "release, discard or restore"]
    letters: Annotated[int, "letters counted, of all parking queues, or of all discards"]
    left_out: Annotated[Mapping[str, int], "letters that match and stay parked, by reason"]
    runs: Annotated[
        Sequence[ParkedRun], "the runs that were started, one for each queue; of a restore one"
    ]
    copies: Annotated[
        Sequence[str], "where copies of discarded letters are kept, one place for each run"
    ]
    why: Annotated[str, "the reason given"]


class ParkedMove:
    """Parked letters that a person is about to release or discard: counted, not moved.

    `command` is what was typed, if it was neither `parked release` nor `parked discard`.
    """

    def __init__(
        self,
        session: Session,
        pipeline: str | None,
        selection: Selection,
        *,
        why: str,
        discard: bool = False,
        rate: float | None = None,
        accept_collision: bool = False,
        keep_export: bool = True,
        command: str = "",
        progress: Progress = lambda _: None,
    ) -> None:
        self._session = session
        self._discard = discard
        self._command = command
        chosen = session.app().pipeline(pipeline)
        self.pipeline = chosen.name
        self.why = why
        requests = [
            PlanRequest(
                pipeline=chosen.name,
                source=source.id,
                selection=selection,
                destination=DISCARD if discard else MAIN_QUEUE,
                # What is thrown away loads no consumer, and has no outcome to wait for.
                rate=DISCARD_RATE if discard else rate,
                canary=() if discard else None,
                ramp=(1.0,) if discard else None,
                accept_collision=accept_collision,
                keep_export=keep_export,
                why=why,
            )
            for source in parked_sources(chosen)
        ]
        drafts = [draft(session, request, progress) for request in requests]
        self.left_out = sum((Counter(d.forecast.left_out) for d in drafts), Counter[str]())
        self.others = sum(d.forecast.others for d in drafts)
        self.drafts: Sequence[DraftPlan] = [d for d in drafts if d.forecast.letters]
        if not self.drafts:
            raise Problem(self._nothing(), Cause.ABSENT)

    @property
    def _action(self) -> str:
        return "discard" if self._discard else "release"

    @property
    def letters(self) -> int:
        return sum(draft.forecast.letters for draft in self.drafts)

    @property
    def tally(self) -> ParkedTally:
        """The letters that would be released or discarded."""
        return ParkedTally([letter for draft in self.drafts for letter in draft.census.taken])

    def start(self) -> ParkedExit:
        """Starts the runs."""
        session = self._session
        command = self._command or f"parked {self._action}"
        started = [
            start(session, draft.plan, draft.origins, command=command) for draft in self.drafts
        ]
        return ParkedExit(
            **session.place,
            at=session.now,
            pipeline=self.pipeline,
            action=self._action,
            letters=self.letters,
            left_out=self.left_out,
            runs=tuple(
                ParkedRun(run.run.run, draft.source.id, draft.plan.counted, run.run.state)
                for run, draft in zip(started, self.drafts, strict=True)
            ),
            copies=tuple(
                f"s3://{draft.app.letters_bucket}/"
                f"{run_object(self.pipeline, run.run.run, DISCARDED)}"
                for run, draft in zip(started, self.drafts, strict=True)
                if self._discard and draft.plan.keep_export
            ),
            why=self.why,
        )

    def _nothing(self) -> str:
        shown = f"dlq list --in parked --look --pipeline {self.pipeline} shows what is there."
        if self.left_out:
            left = ", ".join(f"{number:,} {reason}" for reason, number in self.left_out.items())
            return f"Each letter that matches would stay out ({left}): nothing was done. {shown}"
        return f"No parked letter of {self.pipeline} matches: nothing was done. {shown}"
