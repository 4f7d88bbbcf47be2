"""The queue of numbered letters locks, returns and deletes as SQS does, and its books are true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.bench.lean_queue import LeanQueue, LetterSeries, OverLimit, number_of

LETTERS = LetterSeries(number=25, body_bytes=200)
NOW = 1_000_000.0


def queue(letters: LetterSeries = LETTERS) -> LeanQueue:
    return LeanQueue(letters, "arn:source", NOW)


def send(books: LeanQueue, number: int, **changes: Any) -> None:
    books.sent(LETTERS.body(number), {**LETTERS.attributes(number), **changes})


def test_a_body_has_its_size_and_tells_its_number() -> None:
    body = LETTERS.body(7)
    assert len(body.encode()) == 200
    assert json.loads(body)["tenantId"] == "t3"
    assert LETTERS.number_in(body) == 7
    assert LETTERS.number_in(body.replace("xx", "xy", 1)) is None
    assert number_of(LETTERS.id(7)) == 7


def test_a_received_letter_is_hidden_until_its_lock_ends() -> None:
    source = queue()
    first = source.receive(10, 30.0, NOW)
    assert [number for number, _ in first] == list(range(10))
    assert source.visible(NOW) == 15
    assert len(source.receive(20, 30.0, NOW + 1)) == 15
    assert source.receive(10, 30.0, NOW + 29) == []
    assert [number for number, _ in source.receive(10, 30.0, NOW + 30)] == list(range(10))


def test_a_longer_lock_replaces_the_earlier_one_and_zero_seconds_release() -> None:
    source = queue()
    (_, longer), (_, released) = source.receive(2, 30.0, NOW)
    source.hide(longer, 100.0, NOW)
    source.hide(released, 0.0, NOW)
    assert [number for number, _ in source.receive(1, 5.0, NOW + 1)] == [1]
    source.receive(23, 500.0, NOW + 2)
    assert [number for number, _ in source.receive(10, 5.0, NOW + 50)] == [1]
    assert [number for number, _ in source.receive(10, 5.0, NOW + 100)] == [1, 0]


def test_a_deleted_letter_does_not_come_back() -> None:
    source = queue()
    (_, handle), *_ = source.receive(25, 30.0, NOW)
    source.delete(handle)
    source.delete(handle)
    assert source.left == 24
    assert 0 not in [number for number, _ in source.receive(25, 30.0, NOW + 31)]


def test_a_group_is_under_one_lock_at_a_time_and_keeps_its_order() -> None:
    source = queue(LetterSeries(number=6, groups=2))
    received = source.receive(2, 30.0, NOW)
    assert [number for number, _ in received] == [0, 2]
    assert [number for number, _ in source.receive(10, 10.0, NOW)] == [1, 3, 5]
    assert source.receive(10, 30.0, NOW) == []
    source.delete(received[0][1])
    source.hide(received[1][1], 0.0, NOW)
    assert [number for number, _ in source.receive(10, 30.0, NOW)] == [2, 4]


def test_the_audit_tells_lost_duplicated_changed_and_unfinished_apart() -> None:
    books = queue()
    handles = dict(books.receive(25, 30.0, NOW))
    for number in range(24):
        books.delete(handles[number])
    send(books, 0)
    for _ in range(3):
        send(books, 1)
    send(books, 2, tenant={"DataType": "String", "StringValue": "other"})
    send(books, 3, Redrive={"DataType": "String", "StringValue": "ours"})
    audit = books.audit()
    assert audit == {
        "arrived": 4,
        "unfinished": 1,
        "lost": 20,
        "duplicated": 2,
        "changed": 1,
        "disordered": 0,
    }


def test_a_queue_with_too_many_in_flight_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.bench.lean_queue.MOST_IN_FLIGHT", 10)
    source = queue()
    source.receive(10, 30.0, NOW)
    with pytest.raises(OverLimit):
        source.receive(1, 30.0, NOW)


def test_a_letter_of_a_group_that_comes_after_a_later_one_is_out_of_order() -> None:
    letters = LetterSeries(number=8, body_bytes=200, groups=2)
    books = queue(letters)
    for number in (0, 4, 2, 3, 1, 2):
        books.sent(letters.body(number), letters.attributes(number), f"g{number % 2}")
    assert books.audit()["disordered"] == 2
    assert books.audit()["duplicated"] == 1
    assert books.unsent == 3
    books.sent(letters.body(6), letters.attributes(6), "g1")
    assert books.audit()["changed"] == 1
