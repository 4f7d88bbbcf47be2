"""A FIFO group moves as a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import Reason
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.waiting_room import SHARDS, Wait, shard_of
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import Verdict
from tests.samples import letter, taken, verdict

REDRIVE = Redrive(0, "x")
HOLD = Hold("due", 5.0, "x", "r")
LATER = Hold("circuit:a", 9.0, "x")
PARK = Park(Reason.POISON, "x")
DIVERT = Divert("slow", "x")
DECISIONS: Sequence[Decision | None] = (REDRIVE, REDRIVE, REDRIVE, HOLD, LATER, PARK, DIVERT, None)


def _system(group: str | None) -> dict[str, Any]:
    return {} if group is None else {"MessageGroupId": group}


def line(*groups: str | None) -> list[ReceivedLetter]:
    """Letters in the queue's order, each of the group named."""
    return [
        taken(letter(message_id=str(number), **_system(group)))
        for number, group in enumerate(groups)
    ]


def judged(*said: Decision | None, attempt: int = 1) -> dict[str, Verdict]:
    return {
        str(number): verdict(str(number), one, attempt)
        for number, one in enumerate(said)
        if one is not None
    }


def decided(
    groups: str, *said: Decision | None, waits: Mapping[str, Wait] | None = None
) -> list[Decision | None]:
    """What is done with the letters of these groups, one character each."""
    found = as_groups(line(*groups), judged(*said), waits or {})
    return [
        found[str(number)].decision if str(number) in found else None
        for number in range(len(groups))
    ]


def waiting(hold: Hold) -> Hold:
    return Hold(hold.lane, hold.due, "its group waits")


def test_the_first_letter_that_waits_takes_the_rest_of_its_group_along() -> None:
    assert decided("gghgg", REDRIVE, HOLD, REDRIVE, REDRIVE, LATER) == [
        REDRIVE,
        HOLD,
        REDRIVE,
        waiting(HOLD),
        waiting(HOLD),
    ]


def test_who_joins_a_group_that_waits_already_waits_with_it() -> None:
    waits = {"g": Wait("rule:r", 7.0)}
    behind = Hold("rule:r", 7.0, "its group waits")
    assert decided("gh", REDRIVE, REDRIVE, waits=waits) == [behind, REDRIVE]
    assert decided("gh", HOLD, PARK, waits=waits) == [behind, PARK]


def test_a_letter_without_a_verdict_keeps_the_rest_of_its_group_in_the_queue() -> None:
    assert decided("ggghg", REDRIVE, None, REDRIVE, REDRIVE, PARK) == [
        REDRIVE,
        None,
        None,
        REDRIVE,
        None,
    ]


def test_who_leaves_for_good_holds_nobody_up() -> None:
    assert decided("ggg", PARK, DIVERT, REDRIVE) == [PARK, DIVERT, REDRIVE]


def test_a_letter_of_no_group_waits_for_nobody() -> None:
    found = as_groups(line(None, None, None), judged(HOLD, None, REDRIVE), {})
    assert {key: one.decision for key, one in found.items()} == {"0": HOLD, "2": REDRIVE}


def test_an_attempt_that_does_not_take_place_is_not_counted() -> None:
    verdicts = judged(HOLD, REDRIVE, PARK, attempt=3)
    found = as_groups(line("g", "g", "g"), verdicts, {})
    assert [found[key].stamp.attempt for key in ("0", "1", "2")] == [3, 2, 3]
    behind = found["1"].stamp
    assert (behind.decision, behind.reason, behind.because) == ("HOLD", None, "its group waits")
    assert found["0"] == verdicts["0"]


_letters = st.lists(
    st.tuples(st.sampled_from(["g", "h", None]), st.sampled_from(DECISIONS)), max_size=12
)
_waits = st.dictionaries(st.sampled_from(["g", "h"]), st.just(Wait("due", 3.0)))


@given(_letters, _waits)
def test_in_each_group_what_is_sent_comes_before_what_stays(
    drawn: list[tuple[str | None, Decision | None]], waits: dict[str, Wait]
) -> None:
    letters = line(*(group for group, _ in drawn))
    verdicts = judged(*(said for _, said in drawn))
    found = as_groups(letters, verdicts, waits)
    for group in ("g", "h"):
        in_group = [one.letter.message_id for one in letters if one.letter.group == group]
        stayed = group in waits
        for message_id in in_group:
            done = found.get(message_id)
            if done is None or isinstance(done.decision, Hold):
                stayed = True
            else:
                assert not stayed, "sent after one of its group that stays"
        # What waits does so in one lane, until one moment.
        holds = [found[one].decision for one in in_group if one in found]
        lanes = {(one.lane, one.due) for one in holds if isinstance(one, Hold)}
        assert len(lanes) <= 1


@given(_letters, _waits)
def test_no_verdict_is_made_up_and_what_nobody_waits_for_is_done_as_said(
    drawn: list[tuple[str | None, Decision | None]], waits: dict[str, Wait]
) -> None:
    letters = line(*(group for group, _ in drawn))
    verdicts = judged(*(said for _, said in drawn), attempt=4)
    found = as_groups(letters, verdicts, waits)
    assert found.keys() <= verdicts.keys()
    for message_id, one in found.items():
        said = verdicts[message_id]
        assert one == said or isinstance(one.decision, Hold)
        undone = isinstance(said.decision, Redrive) and isinstance(one.decision, Hold)
        assert one.stamp.attempt == (3 if undone else 4)
    alone = [one.letter.message_id for one in letters if one.letter.group is None]
    assert all(found.get(key) == verdicts.get(key) for key in alone)


def test_a_group_sits_in_one_shard_and_lone_letters_spread() -> None:
    many = [letter(message_id=str(number), MessageGroupId="g") for number in range(200)]
    assert len({shard_of(one, fifo=True) for one in many}) == 1
    assert {shard_of(one, fifo=False) for one in many} == set(range(SHARDS))
