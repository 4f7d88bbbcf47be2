"""An ended run once more: new messages are made of those that it took, with a new key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from deadletter.contract import EDITS, Mode, originals_object
from deadletter.replay.plan import AGAIN, LONGEST_RUN, ORIGINALS, ReplayPlan

from . import deployed
from .adapter_errors import aws_errors
from .problem import Cause, Problem
from .replay_letters import FAILED, PROCESSED, ListedLetter, letters_of
from .replay_pace import pace
from .replay_plan import circuits
from .replay_runs import ReplayRow, RunSwitch
from .replay_start import start
from .words import count

if TYPE_CHECKING:
    from deadletter.settings.pipeline import Pipeline


def ended(switch: RunSwitch) -> RunSwitch:
    """The run; Problem if it has not ended."""
    if switch.before.is_live:
        raise Problem(
            f"Run {switch.id} is {switch.before.state}: only what an ended run took can be sent "
            f"again. This waits for its end:\ndlq show {switch.id} --watch",
            Cause.FAILED,
        )
    return switch


class OnceMore:
    """Messages of an ended run that would be made anew: they are counted, and nothing is made.

    `chooses` tells which.
    """

    def __init__(
        self,
        switch: RunSwitch,
        chooses: Callable[[ListedLetter], bool],
        *,
        rate: float | None,
        approve: bool,
        hold: bool,
    ) -> None:
        self._switch = ended(switch)
        self._settings = deployed.settings(switch.pipeline)
        self._of = self._run_with_originals()
        self._letters = list(filter(chooses, letters_of(switch)))
        if not self._letters:
            raise Problem(f"Run {switch.id} has no such message: nothing was done.", Cause.ABSENT)
        self._plan = self._planned(rate, approve, hold)

    def __len__(self) -> int:
        return len(self._letters)

    def _run_with_originals(self) -> str:
        """The run that has kept the messages; Problem if none of them is kept."""
        from deadletter.aws.objects import S3RunObjects

        switch, plan = self._switch, self._switch.plan
        if plan.is_for_discarders:
            raise Problem(
                f"Run {switch.id} sent nothing: it threw messages away, or brought them back. "
                f"What is discarded comes back by\ndlq restore {switch.id}",
                Cause.INPUT,
            )
        of = plan.repeated_run or switch.id
        bucket, pipeline = switch.app.letters_bucket, switch.pipeline.name
        originals = S3RunObjects(switch.session.aws.s3, bucket, pipeline, of, originals_object)
        with aws_errors():
            kept = originals.listed("")
        if not kept:
            raise Problem(
                f"No message of run {of} is kept: replay_days are over, or the setting is 0. Those "
                f"that failed and are still parked are sent by\ndlq retry --in run:{switch.id}",
                Cause.ABSENT,
            )
        return of

    def question(self) -> Iterator[str]:
        """What would be sent, and what a person should know."""
        switch, all_ = self._switch, len(self._letters)
        yield (
            f"{count(all_, 'message')} of run {switch.id} would be made anew, with a new "
            "idempotency key, as they were before that run."
        )
        if switch.pipeline.mode == Mode.OBSERVE:
            yield (
                "The pipeline observes, so this run would be aborted before it makes a message: "
                "set mode enforce, deploy, and type it again."
            )
        processed = sum(letter.outcome in PROCESSED for letter in self._letters)
        yield from _idempotency_says(self._settings, processed, all_)
        if parked := sum(letter.outcome in FAILED for letter in self._letters):
            yield (
                f"{parked:,} of {all_:,} failed, and can be parked still: they stay there beside "
                "what is made of them. Without --again the parked ones themselves are sent."
            )
        with aws_errors():
            changed = {each.name.rpartition("-")[0] for each in switch.objects.listed(EDITS)}
        if changed:
            yield (
                f"Edited in run {switch.id}: {count(len(changed), 'message')}. What is sent is the "
                "message as it was before."
            )
        yield from circuits(switch.session, switch.app, switch.pipeline)
        yield from pace_says(self._plan)

    def start(self, reason: str) -> ReplayRow:
        """Start the run."""
        from dataclasses import replace

        origins = sorted({letter.name.origin for letter in self._letters})
        plan = replace(self._plan, why=reason)
        return start(self._switch.session, plan, origins, command="retry")

    def _planned(self, rate: float | None, approve: bool, hold: bool) -> ReplayPlan:
        switch, terms = self._switch, self._settings.replay
        session, pipeline = switch.session, switch.pipeline
        now = session.now.timestamp()
        speed = pace(session, pipeline, rate)
        counted = len({letter.name.origin for letter in self._letters})
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
            approve=approve or above,
            hold=hold,
            accept=AGAIN,
            created=round(now, 3),
            expires=round(now + LONGEST_RUN, 3),
            who=session.aws.caller,
        )


def pace_says(plan: ReplayPlan) -> Iterator[str]:
    """How a run goes on, and who lets it."""
    first = ", ".join(map(str, plan.canary))
    yield f"First {first}, then up to {plan.rate:g}/s; it holds itself if they fail again."
    if plan.approve:
        yield "A second person has to approve it before anything is sent."


def _idempotency_says(settings: Pipeline, processed: int, all_: int) -> Iterator[str]:
    """What comes of a new key where messages were processed before."""
    if processed and settings.consumer_library:
        yield (
            f"{processed:,} of {all_:,} were processed before: the consumer processes them once "
            "more, with all their effects."
        )
    elif processed:
        yield (
            f"{processed:,} of {all_:,} were processed before: the consumer does not use the "
            "library, so a new key means nothing to it, and nothing of ours keeps it from "
            "processing them twice."
        )
