"""Judges the letters again that rules make wait, whenever other rules are in force.

A review moves nothing. It only changes when a letter is due: one that its rule does not hold any
more is due now, and leaves like any other. So it needs no claim and no intent, and one that is
cut off or done twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from deadletter.contract import delay_lane, rule_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.journal import MAX_PLANS
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.router_client import next_request
from deadletter.redrive.waiting_room import (
    FOREVER,
    SHARDS,
    Lane,
    LaneReview,
    WaitingRoomEntry,
)
from deadletter.routing.decision import Decision, Hold, Redrive
from deadletter.routing.router import LaneAnswer, question_about, usable

REVIEWED_LANES = (rule_lane(""), delay_lane(""))
"""What the names of lanes begin with whose letters wait because of one rule."""

REVIEW_SECONDS = 25.0
"""Seconds of a run that go into reviews, for all lanes together; the next run goes on. About half
of a run: with fewer, two runs would not get through a lane of 100,000 letters."""

SETTLED = 30.0
"""Seconds after which all routers judge by the same edition. Each reads the rules by itself: a
letter that one of them has put into a lane by the edition before is found by a review from then
on."""

MOST_LISTED = MAX_PLANS
"""Letters of a shard that are looked at together; of large ones the room reads a few at a time."""

SAME_DUE = 5.0
"""Seconds by which two due times may differ and be the same: each is rounded."""


def review_lanes(
    setup: RedriverSetup, lanes: Sequence[Lane], answer: LaneAnswer, deadline: float
) -> None:
    """Judge the letters of lanes again that were not judged by this edition of the rules.

    Each lane that has work left gets a share of the time; the one that waits longest is first.
    Raises RouterUnavailable and RoomUnavailable.
    """
    began = setup.clock()
    pending = sorted(pending_reviews(lanes, answer, began), key=lambda lane: lane.review.at)
    for number, lane in enumerate(pending):
        now = setup.clock()
        until = min(began + REVIEW_SECONDS, deadline)
        if now >= until:
            return
        share = (until - now) / (len(pending) - number)
        # The backoff of a letter goes on while it waits for its turn.
        served = lane.name.startswith(rule_lane("")) and lane.name not in answer.rates
        after = _go_on(setup, lane, answer.edition, now + share, served=served)
        setup.room.note_review(lane.name, lane.review, after)


def _go_on(
    setup: RedriverSetup, lane: Lane, edition: str, until: float, *, served: bool
) -> LaneReview:
    """Go on with the review of a lane; returns how far it is then.

    A pass that the rules have overtaken is followed at once by one that begins with the edition.
    """
    review = lane.review
    while True:
        review = begin_review(review, edition, setup.clock())
        is_overtaken = review.began < review.since
        stands = _pass_shards(setup, lane.name, review, until, served=served)
        review = end_review(review, stands, setup.clock())
        if review.began or not is_overtaken or setup.clock() >= until:
            return review


def pending_reviews(lanes: Sequence[Lane], answer: LaneAnswer, now: float) -> Iterator[Lane]:
    """The lanes that have to be reviewed now.

    An open lane is emptied anyway, and the letters of a rule that is INVALID are left as they are
    until they are due: a mistake in an edit must not set free what the rule holds.
    """
    if not answer.edition:
        return
    left_alone = {*answer.open, *answer.invalid}
    for lane in lanes:
        if not lane.name.startswith(REVIEWED_LANES) or lane.name in left_alone:
            continue
        review = lane.review
        is_settled = now >= review.since + SETTLED
        is_under_way = bool(review.began) or (is_settled and not review.is_done)
        if is_under_way or review.edition != answer.edition:
            yield lane


def begin_review(review: LaneReview, edition: str, now: float) -> LaneReview:
    """The review that goes on or begins now, of the lane's last one and the edition in force.

    A pass under way goes on by the rules of now: if each edit began it anew, edits that come
    closer together than a pass takes would keep it from ever reaching its end.
    """
    began = review.began or now
    if review.edition != edition:
        return replace(review, edition=edition, since=now, began=began, is_done=False)
    return replace(review, began=began)


def end_review(
    review: LaneReview, stands: Mapping[int, WaitingRoomEntry | None], now: float
) -> LaneReview:
    """The review after it has gone on in some shards: the last entry of each, or None at its end.

    A pass that began before all routers had the edition is followed by another one.
    """
    finished = review.finished | {shard for shard, entry in stands.items() if entry is None}
    reached = {shard: entry for shard, entry in stands.items() if entry is not None}
    if len(finished) < SHARDS:
        reached = {**review.reached, **reached}
        kept = {shard: entry for shard, entry in reached.items() if shard not in finished}
        return replace(review, finished=finished, reached=kept, at=now)
    is_done = review.began >= review.since + SETTLED
    return LaneReview(review.edition, since=review.since, is_done=is_done, at=now)


def _pass_shards(
    setup: RedriverSetup, lane: str, review: LaneReview, until: float, *, served: bool
) -> dict[int, WaitingRoomEntry | None]:
    """Goes on in all shards side by side; returns where each stands, and None at its end."""
    left = [shard for shard in range(SHARDS) if shard not in review.finished]
    passes = [
        partial(_pass_shard, setup, lane, shard, review.reached.get(shard), until, served=served)
        for shard in left
    ]
    return dict(zip(left, setup.in_parallel(passes), strict=True))


def _pass_shard(
    setup: RedriverSetup,
    lane: str,
    shard: int,
    after: WaitingRoomEntry | None,
    until: float,
    *,
    served: bool,
) -> WaitingRoomEntry | None:
    """Goes on in one shard behind an entry; returns the last one, or None at the shard's end."""
    while entries := setup.room.due(lane, shard, FOREVER, MOST_LISTED, after):
        after = _review_page(setup, lane, entries, until, served=served)
        if setup.clock() >= until:
            return after
    return None


def _review_page(
    setup: RedriverSetup,
    lane: str,
    entries: Sequence[WaitingRoomEntry],
    until: float,
    *,
    served: bool,
) -> WaitingRoomEntry:
    """Judge the letters of these entries; returns the last entry that was looked at."""
    now = setup.clock()
    due = {entry.copy: entry.due for entry in entries}
    first: set[object] = set()
    for contents in setup.room.read_in_parts(entries, now, setup.in_parallel):
        letters = contents.letters
        if setup.pipeline.fifo:
            # A group waits for its first letter, and leaves with it.
            letters = _first_of_each_group(letters, first)
        _review(setup, lane, letters, due, served=served)
        # Large letters take long. Those of FIFO groups are not read in the order of the entries.
        if contents.letters and not setup.pipeline.fifo and setup.clock() >= until:
            last = contents.letters[-1].letter.message_id
            return next(entry for entry in entries if entry.copy == last)
    return entries[-1]


def _review(
    setup: RedriverSetup,
    lane: str,
    letters: Sequence[ReceivedLetter],
    due: Mapping[str, float],
    *,
    served: bool,
) -> None:
    """Judge these letters, and change when they are due if that has changed."""
    now = setup.clock()
    while letters:
        part, letters = next_request(letters, len(letters))
        # The time in a lane of delays counts as a part of the delay that is judged now.
        questions = [question_about(received, served=served, now=now) for received in part]
        answer = setup.router.decide(questions)
        setup.tally.note_bad_rows(answer.bad_rows)
        verdicts = usable(answer.verdicts, [received.letter.message_id for received in part])
        for received in part:
            copy = received.letter.message_id
            if copy in verdicts:
                new_due = due_after(verdicts[copy].decision, lane, due[copy], now)
                if new_due is not None:
                    setup.room.reschedule(received, lane, new_due)


def due_after(decision: Decision, lane: str, due: float, now: float) -> float | None:
    """When a letter of a lane is due now that it was judged again; None if as before.

    One that its rule still holds may be due earlier, because the rule ends earlier; one that it
    delays may be due later too, unless it is due already: a person may have called it back. Any
    other is due now, or when its shorter delay ends.
    """
    match decision:
        case Hold(lane=same, due=new) if same == lane:
            may_wait = lane.startswith(delay_lane("")) and due > now
            is_later = may_wait and new > due + SAME_DUE
            return new if is_later or new < due - SAME_DUE else None
        case Redrive(delay=delay):
            new = now + delay
        case _:
            new = now
    return new if new < due else None


def _first_of_each_group(
    letters: Sequence[ReceivedLetter], known: set[object]
) -> list[ReceivedLetter]:
    """The first letter of each FIFO group that is not `known` yet, and adds these groups to it.

    The letters of each group are in order.
    """
    firsts = []
    for received in letters:
        group = (received.home, received.letter.group)
        if group not in known:
            known.add(group)
            firsts.append(received)
    return firsts
