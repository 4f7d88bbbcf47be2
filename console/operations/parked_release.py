"""Parked letters released or discarded: a small replay run for each parking queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.contract import run_object
from deadletter.replay.plan import DISCARD, MAIN_QUEUE
from deadletter.routing.selection import Selection

from .answer import Answer
from .problem import Cause, Problem
from .replay_census import Progress
from .replay_plan import DraftPlan, PlanRequest, draft
from .replay_source import parked_sources
from .replay_start import start
from .session import Session

DISCARD_RATE = 100.0
"""Letters per second that a discard throws away: a person can still hold it."""


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A replay run that takes the parked letters of one parking queue."""

    run: Annotated[str, "id of the run"]
    source: Annotated[str, "`parking:<id>`: the queue, and its letters in lane `parked`"]
    letters: Annotated[int | None, "letters counted; null for a FIFO queue, which shows heads only"]
    state: Annotated[str, "state of the run"]


@dataclass(frozen=True, slots=True)
class ParkedExit(Answer):
    """What `dlq parked release` and `dlq parked discard` answer."""

    at: Annotated[datetime, "when it was started"]
    pipeline: Annotated[str, "name of the pipeline"]
    action: Annotated[str, "release or discard"]
    letters: Annotated[int, "letters counted, of all parking queues"]
    left_out: Annotated[Mapping[str, int], "letters that match and stay parked, by reason"]
    runs: Annotated[Sequence[ParkedRun], "the runs that were started, one for each queue"]
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
    def reasons(self) -> Counter[str]:
        """The letters by why they are parked."""
        return sum((Counter(d.forecast.reasons) for d in self.drafts), Counter[str]())

    def start(self) -> ParkedExit:
        """Starts the runs."""
        from deadletter.replay.discarding import DISCARDED

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
        shown = f"dlq parked list --pipeline {self.pipeline} shows what is there."
        if self.left_out:
            left = ", ".join(f"{number:,} {reason}" for reason, number in self.left_out.items())
            return f"Each letter that matches would stay out ({left}): nothing was done. {shown}"
        return f"No parked letter of {self.pipeline} matches: nothing was done. {shown}"
