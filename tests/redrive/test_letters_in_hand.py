"""Letters in hand: each is measured once, and a request never holds more than Lambda takes."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.functions import LambdaRouter
from deadletter.message.letter import Letter, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive import receiving
from deadletter.redrive.receiving import LettersInHand
from deadletter.redrive.router_client import request_bytes
from deadletter.redrive.run_limits import MAX_REQUEST
from deadletter.routing.wire import answer_event
from deadletter.testing.clock import START
from deadletter.testing.fakes import MemoryLambda
from tests.simulation.stage import Stage


def received(copy: str, body: str = "{}", handle: str = "handle") -> ReceivedLetter:
    return ReceivedLetter(Letter(copy, body), handle, START + 100)


def ids(letters: list[ReceivedLetter]) -> list[str]:
    return [letter.letter.message_id for letter in letters]


def test_letters_leave_in_the_order_of_their_receipt() -> None:
    hand = LettersInHand([received("a")])
    hand.add([received("b"), received("c")])
    assert ids(hand.take(2)) == ["a", "b"]
    assert (ids(list(hand)), len(hand)) == (["c"], 1)
    assert (ids(hand.take(5)), len(hand)) == (["c"], 0)


def test_of_a_copy_that_came_twice_the_last_handle_counts() -> None:
    hand = LettersInHand([received("a", handle="old"), received("b")])
    hand.add([received("a", handle="new")])
    assert [letter.handle for letter in hand.take(10)] == ["new", "handle"]


def test_a_copy_that_came_twice_is_measured_as_one_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_REQUEST", 2 * request_bytes(received("a")))
    hand = LettersInHand([received("a"), received("a")])
    assert not hand.fill_a_request
    hand.add([received("b")])
    assert hand.fill_a_request
    hand.clear()
    assert not hand.fill_a_request


def test_a_request_is_full_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = [received("a"), received("b"), received("c")]
    size = request_bytes(letters[0])
    for spare, requests in ((0, [["a", "b"], ["c"]]), (-1, [["a"], ["b"], ["c"]])):
        monkeypatch.setattr(receiving, "MAX_REQUEST", 2 * size + spare)
        hand = LettersInHand(letters)
        assert [ids(hand.take(10)) for _ in requests] == requests
        assert (len(hand), hand.fill_a_request) == (0, False)


def test_a_letter_too_large_for_a_request_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router's answer decides on it; a worker that never took it would stand still."""
    monkeypatch.setattr(receiving, "MAX_REQUEST", 1)
    hand = LettersInHand([received("a"), received("b")])
    assert [ids(hand.take(10)) for _ in "ab"] == [["a"], ["b"]]


def test_a_hand_is_full_to_the_byte_at_first_and_when_it_was_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = [received("a"), received("b")]
    size = 2 * request_bytes(letters[0])
    hand = LettersInHand()
    for _ in range(2):
        hand.add(letters)
        monkeypatch.setattr(receiving, "MAX_REQUEST", size + 1)
        assert not hand.fill_a_request
        monkeypatch.setattr(receiving, "MAX_REQUEST", size)
        assert hand.fill_a_request
        hand.clear()
        assert (len(hand), list(hand)) == (0, [])


@given(st.lists(st.integers(0, 2_000_000), max_size=12), st.integers(1, 12))
def test_a_request_fits_and_none_is_smaller_than_it_must_be(sizes: list[int], most: int) -> None:
    letters = [received(str(at), "x" * size) for at, size in enumerate(sizes)]
    hand = LettersInHand(letters)
    requests = []
    while len(hand):
        requests.append(hand.take(most))
    assert ids([letter for request in requests for letter in request]) == ids(letters)
    for request in requests:
        assert sum(map(request_bytes, request)) <= MAX_REQUEST or len(request) == 1
    for request, after in pairwise(requests):
        if len(request) < most:
            assert sum(map(request_bytes, [*request, after[0]])) > MAX_REQUEST


def test_a_run_encodes_each_letter_once_to_measure_it_and_to_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    copies = {stage.put(json.dumps({"n": n}), stage.dlq) for n in range(35)}
    encoded: Counter[str] = Counter()
    asked: list[Any] = []

    def counted(letter: Letter) -> dict[str, Any]:
        encoded[letter.message_id] += 1
        return to_json(letter)

    def answer(event: Any, _: Any) -> Any:
        asked.extend(event.get("letters", []))
        return answer_event(router, event)

    monkeypatch.setattr("deadletter.message.letter.to_json", counted)
    functions: Any = MemoryLambda(stage.clock, lambda: "request")
    router: Any = stage.router
    functions.register("router", answer)
    report = stage.run(router=LambdaRouter(functions, "router"))
    assert report.counts["Redriven"] == 35
    assert encoded == dict.fromkeys(copies, 1)
    assert {letter["id"] for letter in asked} == copies
