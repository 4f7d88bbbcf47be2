"""Names of letters, as pages and manifests have them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.names import Name, NotAName, from_line, from_lines, key_hash, to_lines
from tests.each_row import each_row

names = st.builds(
    Name,
    copy=st.uuids().map(str),
    origin=st.uuids().map(str),
    place=st.tuples(st.text(), st.text()),
    key=st.text(max_size=5).map(key_hash),
    sequence=st.text(max_size=5),
    tenant=st.text(max_size=5),
    attempt=st.integers(0, 9),
    first_sent=st.integers(0, 2**41),
)


def name(copy: str, key: str = "k", sequence: str = "", first_sent: int = 0) -> Name:
    return Name(
        copy=copy,
        origin=f"o-{copy}",
        place=(f"orders#message#{copy}", "message"),
        key=key_hash(key),
        sequence=sequence,
        first_sent=first_sent,
    )


@given(names)
def test_a_name_comes_back_from_its_line(any_name: Name) -> None:
    line = any_name.to_line()
    assert "\n" not in line
    assert line.isascii()
    assert from_line(line) == any_name


@given(st.lists(names, max_size=5))
def test_names_come_back_from_their_lines_in_the_order_of_the_manifest(some: list[Name]) -> None:
    assert list(from_lines(to_lines(some))) == sorted(some, key=lambda each: each.sort_key)


def test_no_letter_is_no_line() -> None:
    assert to_lines([]) == b""
    assert from_lines(b"") == ()


def test_within_a_key_letters_are_in_sequence_then_by_age_then_by_id() -> None:
    shuffled = [name("d", sequence="2"), name("c", first_sent=9), name("b"), name("a")]
    in_order = [each.copy for each in from_lines(to_lines(shuffled))]
    assert in_order == ["a", "b", "c", "d"]


def test_a_key_is_in_one_shard_and_keys_are_in_all_of_them() -> None:
    assert {name(str(n), key="k").shard for n in range(50)} == {name("a").shard}
    assert {name("a", key=str(n)).shard for n in range(100)} == set(range(SHARDS))


def test_a_key_keeps_its_shard_from_version_to_version() -> None:
    assert [(key_hash(key), name("a", key=key).shard) for key in ("m1", "m2")] == [
        ("d11f79d4b490b654", 1),
        ("c203129735019090", 2),
    ]


def test_a_letter_without_a_key_is_in_order_with_no_other() -> None:
    assert name("a").is_ordered
    assert not name("a", key="o-a").is_ordered


@each_row("line", ["", "[]", "{}", "null", '{"c":', "12"])
def test_a_line_that_is_no_name_is_refused(line: str) -> None:
    with pytest.raises(NotAName):
        from_line(line)


def test_a_name_without_a_hash_or_without_a_place_is_refused() -> None:
    data = json.loads(name("a").to_line())
    for broken in ({**data, "y": "zz"}, {**data, "p": ["orders#message#a"]}, {**data, "p": None}):
        with pytest.raises(NotAName):
            from_line(json.dumps(broken))
