"""FIFO order: a group of letters moves as a unit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from deadletter.contract import (
    MAIN_DLQ,
    MINUTE,
    PARKED_LANE,
    dedicated_lane,
    parking_source,
    run_lane,
)
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import Wait, is_of_run, never
from deadletter.routing.decision import DUE, Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import Verdict

BEHIND_A_RUN = 15.0 * MINUTE
"""Seconds after which letters are looked at again that wait behind letters of a replay run."""


def as_groups(
    letters: Sequence[ReceivedLetter],
    verdicts: Mapping[str, Verdict],
    waits: Mapping[str, Wait],
    maybe_sent: Collection[str] = (),
    *,
    now: float = 0.0,
) -> dict[str, Verdict]:
    """The verdicts, changed so that each group keeps its order; `letters` in the queue's order.

    The first letter of a group that has to wait takes all that follow into the same wait. A
    group that already waits (`waits`, by group) takes all its letters into that wait. A letter
    without a verdict stays in the queue, and so does the rest of its group. A letter
    that leaves for good, parked or diverted, stops no other. A parked letter that is
    rescued keeps its stamp: its group's order ended when it was parked.

    The letters at the head of a waiting group that may have been sent already (`maybe_sent`)
    do not take part in its wait: sent again at once, SQS's deduplication swallows
    them, and after a wait it would not.

    Behind letters in the custody of a replay run, later ones of their group wait in the lane of
    delays from `now` on (epoch seconds), or in that of their dedicated DLQ: none of them joins the
    run unless its own verdict says so. A letter that comes back to its run is in the order of the
    run, not of its group. So is one that a run takes out of a parking queue: it waits for a
    person, and no wait of its group may hand it to the schedule.
    """
    group_waits = dict(waits)
    stuck: set[str] = set()
    headless: set[str] = set()
    kept: dict[str, Verdict] = {}
    for received in letters:
        verdict = verdicts.get(received.letter.message_id)
        group = received.letter.group
        if group is None or _is_parked(verdict) or _comes_back(verdict):
            if verdict is not None:
                kept[received.letter.message_id] = verdict
            if group is not None and verdict is not None and _comes_back(verdict):
                group_waits.setdefault(group, Wait(run_lane(str(verdict.stamp.run)), now))
            continue
        if verdict is None:
            stuck.add(group)
        if group in stuck or verdict is None:
            continue
        may_repeat = received.letter.message_id in maybe_sent and group not in headless
        sent_again = may_repeat and isinstance(verdict.decision, Redrive)
        if not sent_again:
            headless.add(group)
        is_apart = sent_again or _is_released(received.home, verdict.decision)
        wait = None if is_apart else group_waits.get(group)
        if wait is not None and is_of_run(wait.lane):
            if _may_pass(verdict.decision, wait.lane):
                wait = None
            else:
                wait = group_waits[group] = _behind_a_run(received, now)
        if wait is not None:
            verdict = _waits_too(verdict, wait)
        elif isinstance(verdict.decision, Hold):
            group_waits[group] = Wait(verdict.decision.lane, verdict.decision.due)
        kept[received.letter.message_id] = verdict
    return kept


def unbroken(orders: Sequence[Order], chosen: Sequence[Order]) -> list[Order]:
    """The chosen orders, without those behind an order of their group that is not chosen."""
    wanted = {order.copy for order in chosen}
    stopped: set[str | None] = set()
    kept: list[Order] = []
    for order in orders:
        if order.copy not in wanted:
            stopped.add(order.group)
        elif order.group is None or order.group not in stopped:
            kept.append(order)
    return kept


def _is_parked(verdict: Verdict | None) -> bool:
    decision = None if verdict is None else verdict.decision
    return isinstance(decision, Hold) and decision.lane == PARKED_LANE


def _comes_back(verdict: Verdict | None) -> bool:
    """Whether a letter returns to the replay run that sent it."""
    return (
        verdict is not None
        and isinstance(verdict.decision, Hold)
        and is_of_run(verdict.decision.lane)
        and verdict.stamp.ticket is not None
    )


def _may_pass(decision: Decision, lane: str) -> bool:
    """Whether a letter may go past those of its group in a run's lane: into it, or for good.

    One that stays isolated in the lane of its dedicated DLQ goes nowhere.
    """
    if isinstance(decision, Hold):
        return decision.lane == lane or decision.lane.startswith(dedicated_lane(""))
    return isinstance(decision, Park | Divert)


def _is_released(home: str, decision: Decision) -> bool:
    """Whether a replay run takes a letter out of a parking queue."""
    return _is_parking(home) and isinstance(decision, Hold) and is_of_run(decision.lane)


def _is_parking(home: str) -> bool:
    return home.startswith(parking_source(""))


def _behind_a_run(received: ReceivedLetter, now: float) -> Wait:
    """Where a letter waits behind those of its group in a run's lane.

    One of a dedicated DLQ stays isolated.
    """
    home = received.home
    if home == MAIN_DLQ or _is_parking(home):
        return Wait(DUE, now + BEHIND_A_RUN)
    return Wait(dedicated_lane(home), never(received.letter))


def _waits_too(verdict: Verdict, wait: Wait) -> Verdict:
    return held_instead(verdict, Hold(wait.lane, wait.due, "its group waits"))


def held_instead(verdict: Verdict, hold: Hold) -> Verdict:
    """The verdict on a letter that waits although another decision was made on it."""
    # The attempt that a re-drive would have counted has not happened, nor has it joined a run,
    # in which its attempts would count anew.
    undone = 1 if isinstance(verdict.decision, Redrive) else 0
    stamp = verdict.before or verdict.stamp
    stamp = replace(
        stamp,
        attempt=stamp.attempt - undone,
        base=stamp.base - int(verdict.free),
        decision="HOLD",
        reason=None,
        because=hold.because,
    )
    return replace(verdict, decision=hold, stamp=stamp, free=False, matched=None, before=None)
