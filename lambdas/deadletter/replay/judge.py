"""What a replay run does next: the verdicts on its canaries, its ramp, and when it holds itself.

A step of a run is a canary of n letters, or a share of the rate. A step is judged by the tries
whose outcome became known in it:

    canary   all n outcomes are known, and failed <= error_rate * n: the next step begins
    ramp     after `ramp_seconds` the next share of the rate begins; with the last share only
             the counts begin anew, so that an outage in the middle of a long run is seen

A try has failed if its letter came back, was parked by the consumer, or has an outcome that was
not learned in time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState, aborted, held, moved_to
from deadletter.replay.ticket import ANSWERED, ReplayOutcome

BY = "replay"
"""Who changes a run that no person changed."""

SHORTEST_WAIT = 2
LONGEST_WAIT = 300
"""Seconds between two looks at a run that waits."""

PENDING_WAIT = 5
"""Seconds before workers look again for outcomes that a canary waits for."""

BACKLOG_WAIT = 30
"""Seconds that a run leaves to live traffic while the main queue is behind."""

MOST_BACKLOG = 2
"""A main queue with so many times the backlog limit is no passing lag: the run is held."""

STANDSTILL = 300.0
"""Seconds without a send or an outcome after which a run that may send is held: the rest waits
behind failed letters of its ordering keys, or cannot be moved."""

SHORTEST_EXPIRY = 3_600.0
"""Seconds before SQS drops a message: work for live messages comes before a replay."""


class ReplayNext(StrEnum):
    """Where an execution goes next; the values stand in the state machine's choices."""

    SNAPSHOT = "snapshot"
    FREEZE = "freeze"
    APPROVAL = "approval"
    WORK = "work"
    JUDGE = "judge"
    WAIT = "wait"
    RECONCILE = "reconcile"
    LEAVE = "leave"
    DONE = "done"
    HAND_OVER = "hand over"


FAILED = (ReplayOutcome.PARKED, ReplayOutcome.UNKNOWN)
"""Outcomes of a try that failed and whose letter did not come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """What is known about a run and its surroundings when it is judged.

    outcomes     letters by outcome
    returned     tries whose letter came back into the run
    late         failed tries among all that had been sent before a person resumed the run
    circuit      the state of the pipeline's circuit
    unwell       why the dependency is down by its health URL; empty if it is not
    backlog      messages of the main queue; None if unknown
    backlog_limit  above it the run yields
    same_causes  fresh dead letters, not of this run, that failed for one of its causes
    collisions   messages that collided with a processed one since the step began
    seconds_to_expiry  until SQS drops the oldest message of one of the pipeline's queues
    """

    outcomes: Mapping[ReplayOutcome, int] = field(default_factory=dict)
    returned: int = 0
    late: int = 0
    circuit: str = "CLOSED"
    unwell: str = ""
    backlog: int | None = None
    backlog_limit: int = 10_000
    same_causes: int = 0
    collisions: int = 0
    seconds_to_expiry: float | None = None

    @property
    def known(self) -> int:
        """Tries whose outcome is known."""
        return self._sum(*ANSWERED) + self.failed

    @property
    def failed(self) -> int:
        """Tries that failed, without those that were sent before the run was resumed.

        Their failures were why it was held; they say nothing of what has been mended since.
        """
        return self._sum(*FAILED) + self.returned - self.late

    @property
    def counts(self) -> dict[str, int]:
        """Letters by the name of their outcome, as the run's item has them."""
        return {outcome.name: number for outcome, number in self.outcomes.items() if number}

    @property
    def unfinished(self) -> int:
        """Letters that are neither sent nor at their end."""
        return self._sum(ReplayOutcome.OPEN, ReplayOutcome.SENT)

    def _sum(self, *outcomes: ReplayOutcome) -> int:
        return sum(self.outcomes.get(outcome, 0) for outcome in outcomes)


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The run as it is to be stored (or as it was), and what its execution does next."""

    run: ReplayRun
    next: ReplayNext
    wait_seconds: int = 1


def judged(run: ReplayRun, plan: ReplayPlan, evidence: RunEvidence, now: float) -> RunVerdict:
    """What a run does next."""
    if run.is_live and now >= plan.expires > 0:
        ended = aborted(run, at=now, by=BY, because="the run has expired")
        return RunVerdict(ended, ReplayNext.LEAVE)
    match run.state:
        case RunState.PLANNED:
            because = _is_down(evidence)
            if because:
                return _held(run, because, now)
            return RunVerdict(moved_to(run, RunState.MOVING, at=now, by=BY), ReplayNext.SNAPSHOT)
        case RunState.MOVING:
            return RunVerdict(run, ReplayNext.SNAPSHOT)
        case RunState.WAITING_APPROVAL:
            return RunVerdict(run, ReplayNext.APPROVAL)
        case RunState.HELD:
            return RunVerdict(run, ReplayNext.WAIT, held_wait(run, now))
        case RunState.CANARY | RunState.RUNNING:
            return _sending(run, plan, evidence, now)
        case RunState.BROKEN:
            # A person looks at it first, and aborts it then.
            return RunVerdict(run, ReplayNext.DONE)
        case _:
            return RunVerdict(run, ReplayNext.DONE if run.left else ReplayNext.LEAVE)


def _held(run: ReplayRun, because: str, now: float) -> RunVerdict:
    return RunVerdict(held(run, at=now, by=BY, because=because), ReplayNext.WAIT, SHORTEST_WAIT)


def held_wait(run: ReplayRun, now: float) -> int:
    """Seconds until a held run is looked at again: longer the longer it is held.

    A person who holds a run and resumes it soon sees it go on within seconds.
    """
    return _whole((now - run.changed) / 2)


def begun(
    run: ReplayRun, plan: ReplayPlan, evidence: RunEvidence, step: int, now: float
) -> ReplayRun:
    """The run at the beginning of a step: what it may send, how fast, and what was known before.

    Steps are counted through the plan's canaries and on through its ramp; a step behind the
    last one is the last one.
    """
    canaries = len(plan.canary)
    shares = plan.ramp or (1.0,)
    step = min(step, canaries + len(shares) - 1)
    is_canary = step < canaries
    share = shares[0] if is_canary else shares[step - canaries]
    state = RunState.CANARY if is_canary else RunState.RUNNING
    return replace(
        moved_to(run, state, at=now, by=BY),
        step=step,
        allowance=plan.canary[step] if is_canary else 0,
        rate=plan.rate * share,
        burst=plan.burst,
        step_began=now,
        known_before=evidence.known,
        failed_before=evidence.failed,
    )


def _sending(run: ReplayRun, plan: ReplayPlan, evidence: RunEvidence, now: float) -> RunVerdict:
    missing = evidence.outcomes.get(ReplayOutcome.MISSING, 0)
    if missing:
        because = f"{missing} messages are neither in the run's lane nor on a ticket"
        broken = moved_to(run, RunState.BROKEN, at=now, by=BY, because=because)
        return RunVerdict(broken, ReplayNext.RECONCILE)
    if not evidence.unfinished:
        return RunVerdict(run, ReplayNext.RECONCILE)
    because = hold_reason(run, plan, evidence) or _standstill(run, evidence, now)
    if because:
        return _held(run, because, now)
    if not run.step_began:
        return RunVerdict(begun(run, plan, evidence, run.step, now), ReplayNext.WORK)
    if evidence.backlog is not None and evidence.backlog > evidence.backlog_limit:
        return RunVerdict(run, ReplayNext.WAIT, BACKLOG_WAIT)
    if _is_over(run, plan, evidence, now):
        return RunVerdict(begun(run, plan, evidence, run.step + 1, now), ReplayNext.WORK)
    if run.state is RunState.CANARY:
        return RunVerdict(_with_allowance(run, plan, evidence), ReplayNext.WORK)
    return RunVerdict(run, ReplayNext.WORK)


def _with_allowance(run: ReplayRun, plan: ReplayPlan, evidence: RunEvidence) -> ReplayRun:
    """The run with what its canary still lacks, if it can no longer become whole otherwise.

    A grant whose answer was lost, or whose worker was killed, has used up allowance without a
    send. It is given again when no letter is under way, and the last step of work, which looks
    for sends of a killed worker first, has changed nothing.
    """
    missing = plan.canary[run.step] - (evidence.known - run.known_before)
    under_way = evidence.outcomes.get(ReplayOutcome.SENT, 0)
    if under_way or run.allowance >= missing or dict(run.counts) != evidence.counts:
        return run
    return replace(run, allowance=missing, generation=run.generation + 1)


def _is_over(run: ReplayRun, plan: ReplayPlan, evidence: RunEvidence, now: float) -> bool:
    """Whether the step has shown what it is for."""
    known = evidence.known - run.known_before
    if run.state is RunState.CANARY:
        return known >= plan.canary[run.step]
    is_last = run.step >= len(plan.canary) + len(plan.ramp) - 1
    # Without an outcome the last step goes on, so that a standstill is seen.
    return now - run.step_began >= plan.ramp_seconds and not (is_last and not known)


def _standstill(run: ReplayRun, evidence: RunEvidence, now: float) -> str:
    """Why a run that moves nothing is held; empty if it moves."""
    under_way = evidence.outcomes.get(ReplayOutcome.SENT, 0)
    has_news = (
        under_way or evidence.known != run.known_before or dict(run.counts) != evidence.counts
    )
    if has_news or not run.step_began or now - run.step_began < STANDSTILL:
        return ""
    return (
        f"nothing was sent in {STANDSTILL:.0f} s: {evidence.unfinished} messages wait behind failed"
        " messages of their ordering keys, or cannot be moved; abort the run or resume it"
    )


def hold_reason(run: ReplayRun, plan: ReplayPlan, evidence: RunEvidence) -> str:
    """Why the run holds itself, as a sentence; empty if it goes on."""
    because = _is_down(evidence)
    if because:
        return because
    if run.step_began:
        known = evidence.known - run.known_before
        failed = evidence.failed - run.failed_before
        canary = plan.canary[run.step] if run.state is RunState.CANARY else 0
        # A canary is judged by all of its letters, and earlier once it can only fail.
        enough = known >= plan.minimum or bool(canary)
        if enough and failed > plan.error_rate * (canary or known):
            return f"{failed} of {known} failed: more than {plan.error_rate:.0%} of this step"
    if evidence.same_causes >= plan.minimum:
        return (
            f"{evidence.same_causes} new dead messages failed for the same causes while the run"
            " went on"
        )
    if evidence.collisions:
        return f"{evidence.collisions} messages collided with processed ones: see `dlq status`"
    limit = MOST_BACKLOG * evidence.backlog_limit
    if evidence.backlog is not None and evidence.backlog > limit:
        return f"the main queue holds {evidence.backlog} messages: more than {limit}"
    expiry = evidence.seconds_to_expiry
    if expiry is not None and expiry < SHORTEST_EXPIRY:
        return f"SQS drops a message of the pipeline's queues in {max(0, int(expiry))} s"
    return ""


def _is_down(evidence: RunEvidence) -> str:
    """Why no letter is tried on the dependency now; empty if one may be."""
    if evidence.circuit != "CLOSED":
        return f"the pipeline's circuit is {evidence.circuit}"
    return unwell(evidence.unwell)


def unwell(trouble: str) -> str:
    """Why a run stops that its dependency's health URL stops; empty if it does not."""
    return f"the dependency is down: {trouble}" if trouble else ""


def _whole(seconds: float) -> int:
    return max(SHORTEST_WAIT, min(LONGEST_WAIT, math.ceil(seconds)))
