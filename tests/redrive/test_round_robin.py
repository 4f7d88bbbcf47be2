"""The queue and the lanes that are due have their turns, from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.redrive.openings import Openings
from deadletter.redrive.round_robin import (
    NO_TURN,
    QUEUE,
    LastTurn,
    in_turn,
    kind_of,
    letters_a_turn,
    next_turn,
)
from deadletter.redrive.waiting_room import OpenShard
from deadletter.routing.decision import DUE
from tests.each_row import each_row

_lanes = st.lists(
    st.sampled_from([f"circuit:{name}" for name in "abcdef"] + ["rule:a", "rule:b"]),
    unique=True,
    max_size=8,
)
_sources = st.builds(
    lambda lanes, more: [*lanes, *more],
    _lanes,
    st.sampled_from([[QUEUE], [QUEUE, DUE], [DUE]]),
)


def played(sources: Sequence[str], turns: int, last: LastTurn = NO_TURN) -> list[str]:
    """The sources of so many turns; each of them always has letters."""
    taken = []
    for _ in range(turns):
        turn = next_turn(last, sources)
        assert turn is not None
        source, last = turn
        taken.append(source)
    return taken


@given(_sources, st.integers(1, 60))
def test_each_kind_and_each_lane_has_as_many_turns_as_the_others(
    sources: list[str], turns: int
) -> None:
    taken = played(sources, turns)
    for names in ([kind_of(each) for each in taken], [x for x in taken if kind_of(x) == "lanes"]):
        all_of = {kind_of(each) for each in sources} if DUE in names or QUEUE in names else set()
        counts = Counter(dict.fromkeys(all_of, 0))
        counts.update(names)
        assert not counts or max(counts.values()) - min(counts.values()) <= 1


@given(_sources, st.builds(LastTurn, st.sampled_from([DUE, "lanes", QUEUE, "?"]), st.text()))
def test_nothing_starves(sources: list[str], last: LastTurn) -> None:
    assert set(played(sources, 3 * len(sources), last)) == set(sources)


@given(_lanes, st.sampled_from(["", "circuit:c", "zzz"]))
def test_lanes_take_turns_by_name_and_begin_after_the_last_one(lanes: list[str], last: str) -> None:
    ordered = [lane for lane in sorted(lanes) if lane > last]
    ordered += [lane for lane in sorted(lanes) if lane <= last]
    assert played(lanes, 2 * len(lanes), LastTurn(lane=last)) == ordered * 2


def test_no_source_gets_no_turn() -> None:
    assert next_turn(NO_TURN, []) is None


@pytest.mark.parametrize(
    ("rate", "letters"),
    [(0.1, 10), (1.9, 10), (2.2, 11), (4.0, 20), (19.8, 99), (20.2, 100), (50.0, 100), (1e4, 100)],
)
def test_a_turn_is_five_seconds_of_the_pace_from_ten_letters_to_a_hundred(
    rate: float, letters: int
) -> None:
    assert letters_a_turn(rate) == letters


def found(due: Sequence[str], upto: str | None) -> Openings:
    """What a run has found that had time for the lanes up to one; each of these is due."""
    return Openings([OpenShard(lane, 0, 0.0) for lane in due], upto)


@each_row(
    ("served", "upto", "lane"),
    [
        (["circuit:a", "circuit:b"], None, "circuit:b"),
        (["circuit:a", "circuit:b"], "circuit:z", "circuit:z"),
        (["circuit:a"], "circuit:z", "circuit:b"),
        ([], "circuit:z", "circuit:b"),
        (["circuit:a", "circuit:b"], DUE, "circuit:b"),
    ],
)
def test_lanes_that_no_run_had_time_to_look_into_come_next_when_the_others_were_served(
    served: list[str], upto: str | None, lane: str
) -> None:
    last = LastTurn(DUE, "circuit:b")
    due = ["circuit:a", "circuit:b", DUE]
    assert found(due, upto).after(last, served) == LastTurn(DUE, lane)


def test_the_kinds_take_turns_delays_then_other_lanes_then_the_queue() -> None:
    sources = [QUEUE, DUE, "circuit:a", "rule:b"]
    assert played(sources, 8) == [
        *(DUE, "circuit:a", QUEUE),
        *(DUE, "rule:b", QUEUE),
        *(DUE, "circuit:a"),
    ]


def test_the_lane_of_delays_keeps_no_other_lane_waiting() -> None:
    """It always has its turn: that it had none does not hold the tour of the others back."""
    last = LastTurn(lane="a")
    assert found([DUE], "circuit:z").after(last).lane == "circuit:z"
    assert found([], QUEUE).after(last).lane == "a"


def test_lanes_are_in_turn_after_the_last_one() -> None:
    assert in_turn(LastTurn(lane="b"), ["a", "c", "b", "d"]) == ["c", "d", "a", "b"]
