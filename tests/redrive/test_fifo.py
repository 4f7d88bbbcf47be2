"""A FIFO group moves as a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import PARKED_LANE, Reason, dedicated_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.fifo import BEHIND_A_RUN, as_groups, unbroken
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import SHARDS, Wait, never, shard_of
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import Verdict
from tests.each_row import each_row
from tests.samples import letter, received, verdict

REDRIVE = Redrive(0, "x")
HOLD = Hold("due", 5.0, "x", "r")
LATER = Hold("circuit:a", 9.0, "x")
PARK = Park(Reason.POISON, "x")
DIVERT = Divert("slow", "x")
JOINS = Hold("run:r", 2.0**40, "run r", shard=3)
DECISIONS: Sequence[Decision | None] = (REDRIVE, REDRIVE, REDRIVE, HOLD, LATER, PARK, DIVERT, None)


def _system(group: str | None) -> dict[str, Any]:
    return {} if group is None else {"MessageGroupId": group}


def queued(*groups: str | None) -> list[ReceivedLetter]:
    """Letters of these groups, in the queue's order; the ids are 0, 1, 2 …"""
    return [
        received(letter(message_id=str(number), **_system(group)))
        for number, group in enumerate(groups)
    ]


def verdicts_of(*decisions: Decision | None, attempt: int = 1) -> dict[str, Verdict]:
    """Verdicts with these decisions on the letters 0, 1, 2 …; None is no verdict."""
    return {
        str(number): verdict(str(number), decision, attempt)
        for number, decision in enumerate(decisions)
        if decision is not None
    }


def in_order(
    groups: str, *decisions: Decision | None, waits: Mapping[str, Wait] | None = None
) -> list[Decision | None]:
    """The decisions after ordering; each character of `groups` is the group of a letter."""
    ordered = as_groups(queued(*groups), verdicts_of(*decisions), waits or {})
    return [
        ordered[str(number)].decision if str(number) in ordered else None
        for number in range(len(groups))
    ]


def waiting(hold: Hold) -> Hold:
    return Hold(hold.lane, hold.due, "its group waits")


def test_the_rest_of_a_group_waits_with_its_first_letter_that_waits() -> None:
    assert in_order("gghgg", REDRIVE, HOLD, REDRIVE, REDRIVE, LATER) == [
        REDRIVE,
        HOLD,
        REDRIVE,
        waiting(HOLD),
        waiting(HOLD),
    ]


def test_a_letter_waits_with_its_group_that_is_waiting_already() -> None:
    waits = {"g": Wait("rule:r", 7.0)}
    behind = Hold("rule:r", 7.0, "its group waits")
    assert in_order("gh", REDRIVE, REDRIVE, waits=waits) == [behind, REDRIVE]
    assert in_order("gh", HOLD, PARK, waits=waits) == [behind, PARK]


IN_RUN = {"g": Wait("run:r", 2.0**40)}
BEHIND = Hold("due", 1_000 + BEHIND_A_RUN, "its group waits")


def behind_a_run(*decisions: Decision | None) -> list[Decision | None]:
    """What becomes of letters of a group whose earlier letters are in the lane of run r."""
    groups = "g" * len(decisions)
    ordered = as_groups(queued(*groups), verdicts_of(*decisions), IN_RUN, now=1_000)
    return [
        ordered[str(number)].decision if str(number) in ordered else None
        for number in range(len(decisions))
    ]


def test_later_letters_of_a_group_in_a_run_wait_behind_it_and_do_not_join() -> None:
    assert behind_a_run(REDRIVE, HOLD, LATER) == [BEHIND, BEHIND, BEHIND]
    other = Hold("run:other", 2.0**40, "run other")
    assert behind_a_run(other, JOINS) == [BEHIND, BEHIND]


def test_letters_that_the_run_takes_join_those_of_their_group() -> None:
    assert behind_a_run(JOINS, JOINS) == [JOINS, JOINS]


def test_no_letter_joins_a_run_past_one_that_waits_behind_it() -> None:
    assert behind_a_run(JOINS, REDRIVE, JOINS) == [JOINS, BEHIND, BEHIND]
    assert in_order("ggg", JOINS, REDRIVE, JOINS) == [
        JOINS,
        Hold("due", BEHIND_A_RUN, "its group waits"),
        Hold("due", BEHIND_A_RUN, "its group waits"),
    ]
    assert in_order("g", JOINS, waits={"g": Wait("due", 7.0)}) == [
        Hold("due", 7.0, "its group waits")
    ]


def test_a_letter_that_does_not_join_a_run_keeps_the_attempts_that_it_has_used() -> None:
    verdicts = verdicts_of(JOINS)
    before = Stamp("o", 3, base=1, spared=1)
    joined = replace(before, run="r", base=3, spared=4, accept="collision")
    verdicts["0"] = replace(verdicts["0"], stamp=joined, before=before)
    waits = {"g": Wait("due", 7.0)}
    behind = as_groups(queued("g"), verdicts, waits)["0"]
    assert behind.before is None
    assert behind.stamp == replace(before, decision="HOLD", because="its group waits")


def test_a_letter_that_leaves_for_good_goes_past_those_in_a_run() -> None:
    assert behind_a_run(PARK, JOINS, DIVERT, JOINS) == [PARK, JOINS, DIVERT, JOINS]


def test_a_letter_that_a_run_takes_out_of_a_parking_queue_waits_for_no_other() -> None:
    """In the lane of delays the schedule would send it, and no person said so."""
    parked = [replace(each, home="parking:default") for each in queued("g", "g")]
    verdicts = verdicts_of(JOINS, Hold(PARKED_LANE, 2.0**40, "not chosen"))
    for lane in ("run:other", "due"):
        assert as_groups(parked, verdicts, {"g": Wait(lane, 7.0)}, now=1_000) == verdicts


def test_a_letter_of_a_dedicated_dlq_stays_isolated_behind_a_run() -> None:
    isolated = [replace(each, home="slow") for each in queued("g", "g")]
    other, lane = Hold("run:other", 2.0**40, "run other"), dedicated_lane("slow")
    ordered = as_groups(isolated, verdicts_of(other, REDRIVE), IN_RUN, now=1_000)
    stays = Hold(lane, never(isolated[0].letter), "its group waits")
    assert [ordered[copy].decision for copy in "01"] == [stays, stays]
    assert ordered["0"].stamp.run is None
    rescued = verdicts_of(Hold(lane, 2.0**40, "rescued"))
    assert as_groups(isolated[:1], rescued, IN_RUN, now=1_000) == rescued


def test_a_letter_that_comes_back_to_its_run_goes_there_whatever_its_group_waits_for() -> None:
    verdicts = verdicts_of(JOINS, REDRIVE)
    stamp = Stamp("o", 3, run="r", ticket="c")
    verdicts["0"] = replace(verdicts["0"], stamp=stamp)
    for waits in ({"g": Wait("due", 7.0)}, {"g": Wait("run:other", 7.0)}, IN_RUN):
        ordered = as_groups(queued("g", "g"), verdicts, waits, now=1_000)
        assert ordered["0"] == verdicts["0"]
        assert ordered["1"].decision in (BEHIND, Hold("due", 7.0, "its group waits"))
    assert as_groups(queued("g", "g"), verdicts, {}, now=1_000)["1"].decision == BEHIND


def test_a_letter_without_a_verdict_keeps_the_rest_of_its_group_in_the_queue() -> None:
    assert in_order("ggghg", REDRIVE, None, REDRIVE, REDRIVE, PARK) == [
        REDRIVE,
        None,
        None,
        REDRIVE,
        None,
    ]


def test_a_letter_that_leaves_for_good_stops_no_other() -> None:
    assert in_order("ggg", PARK, DIVERT, REDRIVE) == [PARK, DIVERT, REDRIVE]


def test_a_letter_without_a_group_waits_for_no_other() -> None:
    ordered = as_groups(queued(None, None, None), verdicts_of(HOLD, None, REDRIVE), {})
    decisions = {message_id: verdict.decision for message_id, verdict in ordered.items()}
    assert decisions == {"0": HOLD, "2": REDRIVE}


def test_a_parked_letter_that_is_rescued_keeps_its_stamp_whatever_its_group_waits_for() -> None:
    rescue = Hold(PARKED_LANE, 2.0**40, "rescued")
    verdicts = verdicts_of(rescue, rescue)
    ordered = as_groups(queued("g", "g"), verdicts, {"g": Wait(PARKED_LANE, 2.0**40 + 7)})
    assert ordered == verdicts


def test_an_attempt_that_does_not_take_place_is_not_counted() -> None:
    verdicts = verdicts_of(HOLD, REDRIVE, PARK, attempt=3)
    ordered = as_groups(queued("g", "g", "g"), verdicts, {})
    assert [ordered[message_id].stamp.attempt for message_id in "012"] == [3, 2, 3]
    behind = ordered["1"].stamp
    assert (behind.decision, behind.reason, behind.because) == ("HOLD", None, "its group waits")
    assert ordered["0"] == verdicts["0"]


_letters = st.lists(
    st.tuples(st.sampled_from(["g", "h", None]), st.sampled_from(DECISIONS)), max_size=12
)
_waits = st.dictionaries(st.sampled_from(["g", "h"]), st.just(Wait("due", 3.0)))


@given(_letters, _waits)
def test_in_each_group_the_sent_letters_come_before_those_that_stay(
    drawn: list[tuple[str | None, Decision | None]], waits: dict[str, Wait]
) -> None:
    letters = queued(*(group for group, _ in drawn))
    verdicts = verdicts_of(*(decision for _, decision in drawn))
    ordered = as_groups(letters, verdicts, waits)
    for group in ("g", "h"):
        in_group = [item.letter.message_id for item in letters if item.letter.group == group]
        stayed = group in waits
        for message_id in in_group:
            outcome = ordered.get(message_id)
            if outcome is None or isinstance(outcome.decision, Hold):
                stayed = True
            else:
                assert not stayed, "sent after a message of its group that stays"
        # The letters of a group that wait do so in one lane, until the same time.
        decisions = [ordered[key].decision for key in in_group if key in ordered]
        holds = {(hold.lane, hold.due) for hold in decisions if isinstance(hold, Hold)}
        assert len(holds) <= 1


@given(_letters, _waits)
def test_ordering_only_turns_verdicts_into_waits_and_leaves_lone_letters_alone(
    drawn: list[tuple[str | None, Decision | None]], waits: dict[str, Wait]
) -> None:
    letters = queued(*(group for group, _ in drawn))
    verdicts = verdicts_of(*(decision for _, decision in drawn), attempt=4)
    ordered = as_groups(letters, verdicts, waits)
    assert ordered.keys() <= verdicts.keys()
    for message_id, after in ordered.items():
        before = verdicts[message_id]
        assert after == before or isinstance(after.decision, Hold)
        undone = isinstance(before.decision, Redrive) and isinstance(after.decision, Hold)
        assert after.stamp.attempt == (3 if undone else 4)
    alone = [item.letter.message_id for item in letters if item.letter.group is None]
    assert all(ordered.get(key) == verdicts.get(key) for key in alone)


def orders(groups: str) -> list[Order]:
    return [Order(item, REDRIVE, Stamp(item.letter.message_id)) for item in queued(*groups)]


@each_row(
    ("groups", "left_out", "kept"),
    [
        ("ggg", "", "012"),
        ("ggg", "1", "0"),
        ("ghgh", "0", "13"),
        ("ghgh", "23", "01"),
        ("ghgh", "01", ""),
    ],
)
def test_an_order_behind_one_that_is_left_out_is_left_out_too(
    groups: str, left_out: str, kept: str
) -> None:
    every = orders(groups)
    chosen = [order for order in every if order.copy not in left_out]
    assert "".join(order.copy for order in unbroken(every, chosen)) == kept


def test_orders_without_a_group_do_not_wait_for_one_another() -> None:
    every = [Order(item, REDRIVE, Stamp("o")) for item in queued(None, None)]
    assert unbroken(every, every[1:]) == every[1:]


def test_a_group_waits_in_one_shard_and_lone_letters_spread_over_all() -> None:
    letters = [letter(message_id=str(number), MessageGroupId="g") for number in range(200)]
    assert len({shard_of(item, fifo=True) for item in letters}) == 1
    assert {shard_of(item, fifo=False) for item in letters} == set(range(SHARDS))


# Letters that may have been sent before.


def again(
    *decisions: Decision, maybe_sent: str, waits: Mapping[str, Wait] = {"g": Wait("lane", 7.0)}
) -> list[Decision]:
    """The decisions on letters of one group that waits; `maybe_sent` are some of their ids."""
    letters = queued(*("g" for _ in decisions))
    ordered = as_groups(letters, verdicts_of(*decisions), waits, set(maybe_sent))
    return [ordered[str(number)].decision for number in range(len(decisions))]


def test_a_letter_that_may_have_been_sent_goes_again_though_its_group_waits() -> None:
    """At once, SQS's deduplication swallows it; after the group's wait it would not."""
    first, second = again(REDRIVE, REDRIVE, maybe_sent="0")
    assert first == REDRIVE
    assert second == Hold("lane", 7.0, "its group waits")


def test_several_of_them_go_again_as_long_as_they_are_the_first_of_their_group() -> None:
    decisions = again(REDRIVE, REDRIVE, REDRIVE, REDRIVE, maybe_sent="013")
    assert [isinstance(decision, Redrive) for decision in decisions] == [True, True, False, False]


def test_a_letter_that_may_have_been_sent_waits_if_it_is_held_itself() -> None:
    assert again(HOLD, maybe_sent="0") == [Hold("lane", 7.0, "its group waits")]


def test_no_letter_passes_one_of_its_group_that_waits_from_now_on() -> None:
    first, second = again(HOLD, REDRIVE, maybe_sent="1", waits={})
    assert first == HOLD
    assert isinstance(second, Hold)


def test_a_group_that_waits_undoes_what_a_re_drive_would_have_counted() -> None:
    free = Verdict("1", REDRIVE, Stamp("1", 4, 1, base=2), free=True)
    verdicts = {**verdicts_of(HOLD), "1": free}
    held = as_groups(queued("a", "a"), verdicts, {})["1"]
    assert (held.stamp.attempt, held.stamp.base, held.free) == (3, 1, False)
