"""Parked letters released: a small replay run for each parking queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.routing.selection import Selection

from .answer import Answer
from .problem import Cause, Problem
from .replay_census import Progress, by
from .replay_plan import DraftPlan, PlanRequest, draft
from .replay_source import parked_sources
from .replay_start import start
from .session import Session


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A replay run that takes the parked letters of one parking queue."""

    run: Annotated[str, "id of the run"]
    source: Annotated[str, "`parking:<id>`: the queue, and its letters in lane `parked`"]
    letters: Annotated[int | None, "letters counted; null for a FIFO queue, which shows heads only"]
    state: Annotated[str, "state of the run"]


@dataclass(frozen=True, slots=True)
class ParkedExit(Answer):
    """What `dlq parked release` answers."""

    at: Annotated[datetime, "when it was started"]
    pipeline: Annotated[str, "name of the pipeline"]
    letters: Annotated[int, "letters counted, of all parking queues"]
    left_out: Annotated[Mapping[str, int], "letters that match and stay parked, by reason"]
    runs: Annotated[Sequence[ParkedRun], "the runs that were started, one for each queue"]
    why: Annotated[str, "the reason given"]


class ParkedMove:
    """Parked letters that a person is about to release: counted, not moved.

    `command` is what was typed, if it was not `parked release`.
    """

    def __init__(
        self,
        session: Session,
        pipeline: str | None,
        selection: Selection,
        *,
        why: str,
        rate: float | None = None,
        accept_collision: bool = False,
        command: str = "",
        progress: Progress = lambda _: None,
    ) -> None:
        self._session = session
        self._command = command
        chosen = session.app().pipeline(pipeline)
        self.pipeline = chosen.name
        self.why = why
        requests = [
            PlanRequest(
                pipeline=chosen.name,
                source=source.id,
                selection=selection,
                rate=rate,
                accept_collision=accept_collision,
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
    def letters(self) -> int:
        return sum(draft.forecast.letters for draft in self.drafts)

    @property
    def reasons(self) -> Counter[str]:
        """The letters by why they are parked."""
        return sum((by(draft.census.taken, "reason") for draft in self.drafts), Counter[str]())

    def start(self) -> ParkedExit:
        """Starts the runs."""
        session = self._session
        command = self._command or "parked release"
        started = [
            start(session, draft.plan, draft.origins, command=command) for draft in self.drafts
        ]
        return ParkedExit(
            **session.place,
            at=session.now,
            pipeline=self.pipeline,
            letters=self.letters,
            left_out=self.left_out,
            runs=tuple(
                ParkedRun(run.run.run, draft.source.id, draft.plan.counted, run.run.state)
                for run, draft in zip(started, self.drafts, strict=True)
            ),
            why=self.why,
        )

    def _nothing(self) -> str:
        shown = f"dlq list --in parked --look --pipeline {self.pipeline} shows what is there."
        if self.left_out:
            left = ", ".join(f"{number:,} {reason}" for reason, number in self.left_out.items())
            return f"Each letter that matches would stay out ({left}): nothing was done. {shown}"
        return f"No parked letter of {self.pipeline} matches: nothing was done. {shown}"
