"""What the script of a replay says of the letters that its endpoint has taken."""

from __future__ import annotations

from tests.e2e.replay_script import Sizes, TakenLetter, by_group, by_key, given_up, out_of_order


def test_every_key_has_its_letters_in_order_and_all_keys_are_mixed() -> None:
    letters = by_key(Sizes(letters=6, keys=2))
    assert letters == [("k00", 1), ("k01", 1), ("k00", 2), ("k01", 2), ("k00", 3), ("k01", 3)]
    assert by_group(Sizes(grouped=2)) == [("g", 1), ("g", 2)]
    assert given_up(Sizes(parked=2)) == [("p000", 1), ("p001", 1)]


def test_a_letter_after_a_later_one_of_its_key_is_out_of_order() -> None:
    taken = [TakenLetter("a", place, "run") for place in (1, 3, 2)]
    assert out_of_order(taken) == [TakenLetter("a", 2, "run")]


def test_a_duplicate_is_not_out_of_order_and_keys_are_on_their_own() -> None:
    taken = [
        TakenLetter("a", 1, "run"),
        TakenLetter("a", 2, "run"),
        TakenLetter("a", 1, "run"),
        TakenLetter("b", 1, "run"),
    ]
    assert out_of_order(taken) == []


def test_what_another_run_releases_later_is_not_out_of_order() -> None:
    assert out_of_order([TakenLetter("a", 2, "first"), TakenLetter("a", 1, "release")]) == []
