"""FIFO order: a group of letters moves as a unit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from deadletter.contract import PARKED_LANE
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import Wait
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import Verdict


def as_groups(
    letters: Sequence[ReceivedLetter],
    verdicts: Mapping[str, Verdict],
    waits: Mapping[str, Wait],
    maybe_sent: Collection[str] = (),
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
    """
    group_waits = dict(waits)
    stuck: set[str] = set()
    headless: set[str] = set()
    kept: dict[str, Verdict] = {}
    for received in letters:
        verdict = verdicts.get(received.letter.message_id)
        group = received.letter.group
        if group is None or _is_parked(verdict):
            if verdict is not None:
                kept[received.letter.message_id] = verdict
            continue
        if verdict is None:
            stuck.add(group)
        if group in stuck or verdict is None:
            continue
        may_repeat = received.letter.message_id in maybe_sent and group not in headless
        sent_again = may_repeat and isinstance(verdict.decision, Redrive)
        if not sent_again:
            headless.add(group)
        wait = None if sent_again else group_waits.get(group)
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


def _waits_too(verdict: Verdict, wait: Wait) -> Verdict:
    because = "its group waits"
    # The attempt that a re-drive would have counted has not happened.
    undone = 1 if isinstance(verdict.decision, Redrive) else 0
    stamp = replace(
        verdict.stamp,
        attempt=verdict.stamp.attempt - undone,
        base=verdict.stamp.base - int(verdict.free),
        decision="HOLD",
        reason=None,
        because=because,
    )
    decision = Hold(wait.lane, wait.due, because)
    return replace(verdict, decision=decision, stamp=stamp, free=False)
