"""The queue and the lanes that are due share each run, and what is cut short goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.redrive.fair_shares import (
    LARGEST_TURN,
    NO_SHARES,
    QUEUE,
    Shares,
    Turn,
    after_turns,
    end_turn,
    in_turn,
    next_turn,
    quantum,
    without_lost,
)
from deadletter.routing.decision import DUE
from tests.each_row import each_row

LETTERS = 100

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


def kind(source: str) -> str:
    return source if source in (QUEUE, DUE) else "lanes"


def played(
    sources: Sequence[str],
    turns: int,
    *,
    cuts: Sequence[int] = (),
    short: Sequence[int] = (),
    shares: Shares = NO_SHARES,
) -> list[tuple[str, int]]:
    """Turns of sources that always have letters.

    Turns numbered in `cuts` are cut in half by the end of a run; in those of `short` the
    source has only three letters at the moment.
    """
    taken = []
    for number in range(turns):
        turn, shares = next_turn(shares, sources, LETTERS)
        assert turn is not None
        used = turn.letters // 2 if number in cuts else turn.letters
        used = min(3, used) if number in short else used
        shares = end_turn(shares, turn, used, is_cut=number in cuts)
        taken.append((turn.source, used))
    return taken


def by_kind(sources: Sequence[str], taken: Sequence[tuple[str, int]]) -> Counter[str]:
    letters = Counter({kind(source): 0 for source in sources})
    for source, used in taken:
        letters[kind(source)] += used
    return letters


_numbers = st.sets(st.integers(0, 59), max_size=30).map(sorted)


@given(_sources, st.integers(1, 60))
def test_every_source_gets_its_share_less_one_turn(sources: list[str], turns: int) -> None:
    taken = played(sources, turns)
    kinds = by_kind(sources, taken)
    assert min(kinds.values()) >= kinds.total() / len(kinds) - LETTERS
    served: Counter[str] = Counter()
    for source, used in taken:
        served[source] += used
    lanes = [source for source in sources if kind(source) == "lanes"]
    for lane in lanes:
        assert served[lane] >= kinds["lanes"] / len(lanes) - LETTERS


@given(_sources, st.integers(1, 60), _numbers)
def test_what_the_end_of_a_run_cuts_short_is_made_good(
    sources: list[str], turns: int, cuts: list[int]
) -> None:
    kinds = by_kind(sources, played(sources, turns, cuts=cuts))
    assert min(kinds.values()) >= kinds.total() / len(kinds) - LETTERS - LARGEST_TURN


@given(_lanes.filter(bool), st.integers(1, 60))
def test_lanes_of_a_few_letters_together_get_the_share_of_one_large_queue(
    lanes: list[str], turns: int
) -> None:
    sources = [*lanes, QUEUE]
    shares, letters = NO_SHARES, Counter({"lanes": 0, QUEUE: 0})
    for _ in range(turns * 50):
        turn, shares = next_turn(shares, sources, LETTERS)
        assert turn is not None
        used = turn.letters if turn.source == QUEUE else 3
        shares = end_turn(shares, turn, used, is_cut=False)
        letters[kind(turn.source)] += used
    assert letters["lanes"] >= letters.total() / 2 - 2 * LETTERS


@given(_sources, st.builds(Shares, st.sampled_from([DUE, "lanes", QUEUE, "?"]), st.text()))
def test_nothing_starves(sources: list[str], shares: Shares) -> None:
    turns = played(sources, 3 * len(sources), shares=shares)
    assert {source for source, _ in turns} == set(sources)


@given(_lanes, st.sampled_from(["", "circuit:c", "zzz"]))
def test_lanes_take_turns_by_name_and_begin_after_the_last_one(lanes: list[str], last: str) -> None:
    turns = played(lanes, 2 * len(lanes), shares=Shares(lane=last))
    ordered = [lane for lane in sorted(lanes) if lane > last]
    ordered += [lane for lane in sorted(lanes) if lane <= last]
    assert [source for source, _ in turns] == ordered * 2


def test_a_lane_claims_in_its_next_turn_what_the_end_of_a_run_took_from_it() -> None:
    turn, shares = next_turn(NO_SHARES, ["circuit:a"], LETTERS)
    assert turn == Turn("circuit:a", 100)
    shares = end_turn(shares, turn, 30, is_cut=True)
    assert shares.claims == {"circuit:a": 70}
    turn, shares = next_turn(shares, ["circuit:a"], LETTERS)
    assert turn == Turn("circuit:a", 170)
    assert shares.claims == {}


def test_a_lane_without_letters_claims_nothing() -> None:
    turn, shares = next_turn(NO_SHARES, ["circuit:a"], LETTERS)
    assert turn is not None
    assert end_turn(shares, turn, 30, is_cut=False).claims == {}
    kept = Shares(claims={DUE: 70, "circuit:a": 30})
    assert without_lost(kept, {"circuit:a"}).claims == {"circuit:a": 30}


def test_a_claim_grows_to_no_more_than_the_largest_turn() -> None:
    shares = NO_SHARES
    for _ in range(5):
        shares = end_turn(shares, Turn("circuit:a", 90), 10, is_cut=True)
    assert shares.claims == {"circuit:a": LARGEST_TURN}


def test_no_source_gets_no_turn() -> None:
    assert next_turn(NO_SHARES, [], LETTERS) == (None, NO_SHARES)


@pytest.mark.parametrize(("rate", "letters"), [(0.1, 10), (4.0, 20), (50.0, 100), (1e4, 100)])
def test_a_turn_is_as_long_as_the_pace_allows_in_seconds(rate: float, letters: int) -> None:
    assert quantum(rate) == letters


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
    shares = Shares(lane="circuit:b")
    due = ["circuit:a", "circuit:b", DUE]
    assert after_turns(shares, served=served, due=due, looked_upto=upto).lane == lane


def test_what_a_kind_did_not_use_grows_to_no_more_than_one_turn() -> None:
    kept = Shares(credits={DUE: 70})
    assert next_turn(kept, [QUEUE, DUE], LETTERS)[0] == Turn(DUE, LETTERS)
    # Several workers hold turns of one kind at once, and none of them uses its turn.
    for _ in range(3):
        kept = end_turn(kept, Turn(DUE, LETTERS), 0, is_cut=False)
    assert kept.credits == {DUE: LARGEST_TURN}


@pytest.mark.parametrize(("rate", "letters"), [(2.2, 11), (1.9, 10), (19.8, 99), (20.2, 100)])
def test_a_turn_is_five_seconds_of_the_pace_from_ten_letters_to_a_hundred(
    rate: float, letters: int
) -> None:
    assert quantum(rate) == letters


def test_the_kinds_take_turns_delays_then_other_lanes_then_the_queue() -> None:
    sources = [QUEUE, DUE, "circuit:a", "rule:b"]
    assert played(sources, 8) == [
        (DUE, 100),
        ("circuit:a", 100),
        (QUEUE, 100),
        (DUE, 100),
        ("rule:b", 100),
        (QUEUE, 100),
        (DUE, 100),
        ("circuit:a", 100),
    ]


def test_a_kind_goes_on_with_what_it_did_not_use() -> None:
    turn, shares = next_turn(NO_SHARES, [QUEUE, DUE], LETTERS)
    assert (turn, shares) == (Turn(DUE, 100), Shares(DUE, "", {DUE: 0}))
    shares = end_turn(shares, Turn(DUE, 100), 99, is_cut=False)
    assert shares == Shares(DUE, "", {DUE: 1})
    turn, shares = next_turn(shares, [QUEUE, DUE], LETTERS)
    assert (turn, shares) == (Turn(DUE, 1), Shares(DUE, "", {DUE: 0}))
    turn, shares = next_turn(shares, [QUEUE, DUE], LETTERS)
    assert (turn, shares) == (Turn(QUEUE, 100), Shares(QUEUE, "", {DUE: 0, QUEUE: 0}))


def test_a_kind_without_letters_keeps_its_place_and_gains_nothing() -> None:
    turn, shares = next_turn(Shares(credits={DUE: 30}), [QUEUE], LETTERS)
    assert turn == Turn(QUEUE, 100)
    assert shares.credits == {DUE: 30, QUEUE: 0}


def test_a_kind_that_took_too_many_letters_pays_with_its_next_turns() -> None:
    shares = Shares(QUEUE, "", {QUEUE: -130, DUE: 0})
    turns = []
    for _ in range(4):
        turn, shares = next_turn(shares, [QUEUE, DUE], LETTERS)
        assert turn is not None
        turns.append((turn.source, turn.letters))
    assert turns == [(DUE, 100), (DUE, 100), (QUEUE, 70), (DUE, 100)]


def test_a_lane_that_was_cut_short_gets_its_claim_on_top_and_its_kind_pays_for_it() -> None:
    shares = Shares("lanes", "", {"lanes": 100}, {"circuit:a": 40})
    turn, shares = next_turn(shares, ["circuit:a", QUEUE], LETTERS)
    assert turn == Turn("circuit:a", 140)
    assert shares == Shares("lanes", "circuit:a", {"lanes": -40}, {})


@each_row(
    ("source", "used", "is_cut", "claims"),
    [
        ("circuit:a", 99, True, {"circuit:a": 1}),
        ("circuit:a", 100, True, {}),
        ("circuit:a", 101, True, {}),
        ("circuit:a", 99, False, {}),
        # The queue and the lane of delays have a share of their own.
        (DUE, 50, True, {}),
        (QUEUE, 50, True, {}),
    ],
)
def test_only_a_lane_that_the_end_of_a_run_cut_short_claims_the_rest(
    source: str, used: int, is_cut: bool, claims: dict[str, int]
) -> None:
    after = end_turn(NO_SHARES, Turn(source, 100), used, is_cut=is_cut)
    assert after.claims == claims
    assert after.credits == {kind(source): 100 - used}


def test_the_lane_of_delays_keeps_no_other_lane_waiting() -> None:
    """It always has its turn: that it had none does not hold the tour of the others back."""
    after = after_turns(Shares(lane="a"), served=[], due=[DUE], looked_upto="circuit:z")
    assert after.lane == "circuit:z"
    after = after_turns(Shares(lane="a"), served=[], due=[], looked_upto=QUEUE)
    assert after.lane == "a"


def test_lanes_are_in_turn_after_the_last_one() -> None:
    assert in_turn(Shares(lane="b"), ["a", "c", "b", "d"]) == ["c", "d", "a", "b"]


def test_the_first_run_begins_at_the_queue_without_credits() -> None:
    assert Shares("queue", "", {}, {}) == NO_SHARES
