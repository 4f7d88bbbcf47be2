"""The freeze of a snapshot: from pages that name too much to a manifest that is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.objects import S3RunObjects
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay import freeze, manifest
from deadletter.replay.freeze import Freeze, FreezeReport
from deadletter.replay.manifest import Manifest
from deadletter.replay.names import Name, to_lines
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryS3
from tests.replay.test_names import name


@dataclass
class Bench:
    """The objects of a run, and the shards of the letters in its lane."""

    held_letters: dict[tuple[str, str], int] = field(default_factory=dict)
    down: bool = False

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.s3 = MemoryS3(self.clock)
        self.s3.create_bucket(Bucket="messages")
        client: Any = self.s3
        self.objects = S3RunObjects(client, "messages", "orders", "r")
        self.asked: list[int] = []
        self.pages = self.freezes = 0

    def page(self, *names: Name, moved: bool = True) -> None:
        """A page, whose letters were `moved` into the lane."""
        self.pages += 1
        self.objects.put(f"pages/run1-{self.pages:06}.jsonl", to_lines(names))
        if moved:
            self.held_letters.update((each.place, each.shard) for each in names)

    def held(self, lane: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        assert lane == "run:r"
        if self.down:
            raise RoomUnavailable("down")
        self.asked.append(len(places))
        return {place: self.held_letters[place] for place in places if place in self.held_letters}

    def freeze(self, seconds: float = 60) -> FreezeReport:
        self.freezes += 1
        made = Freeze(
            "r",
            objects=self.objects,
            custody=self,
            token=f"freeze{self.freezes}",
            clock=self.clock,
        )
        return made.run(self.clock() + seconds)

    def frozen(self) -> list[Name]:
        report = self.freeze()
        assert report.done, report.stopped
        assert report.index is not None
        names = list(Manifest(self.objects).names(report.index))
        assert report.index.messages == len(names)
        return names


def in_order(names: Sequence[Name]) -> list[Name]:
    return sorted(names, key=lambda each: each.sort_key)


def many(letters: int, keys: int) -> list[Name]:
    return [
        name(f"{n:05}", key=f"k{n % keys}", sequence=f"{letters - n:05}") for n in range(letters)
    ]


def test_the_letters_in_the_lane_are_the_manifest() -> None:
    bench = Bench()
    letters = many(7, keys=3)
    bench.page(*letters[:3])
    bench.page(*letters[3:])
    assert bench.frozen() == in_order(letters)


def test_a_snapshot_without_a_letter_is_frozen_as_well() -> None:
    bench = Bench()
    assert bench.frozen() == []
    bench = Bench()
    bench.page(name("a"), moved=False)
    assert bench.frozen() == []


def test_a_letter_that_was_named_and_did_not_move_is_not_in_it() -> None:
    """The pass was cut off between its page and its items, or they were refused."""
    bench = Bench()
    bench.page(name("a"), name("b"))
    bench.page(name("c"), moved=False)
    del bench.held_letters[name("b").place]
    assert bench.frozen() == [name("a")]


@pytest.mark.parametrize("run_bytes", [1, freeze.RUN_BYTES])
def test_a_letter_that_two_passes_have_named_is_in_it_once(
    run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freeze, "RUN_BYTES", run_bytes)
    bench = Bench()
    bench.page(name("a"), name("b"))
    bench.page(name("b"), name("c"))
    assert bench.frozen() == [name("a"), name("b"), name("c")]


def test_a_letter_named_under_two_keys_is_in_the_shard_that_holds_it() -> None:
    """The settings of order changed between two passes."""
    bench = Bench()
    held = name("a", key="k1")
    other = next(moved for n in range(9) if (moved := name("a", key=f"x{n}")).shard != held.shard)
    bench.page(other)
    bench.page(held)
    assert bench.frozen() == [held]


def test_a_letter_named_under_two_keys_of_one_shard_is_in_it_once() -> None:
    bench = Bench()
    keys = [key for n in range(9_999) if name("a", key=(key := f"k{n}")).shard == 0][:3]
    first, between, last = sorted(keys, key=lambda key: name("a", key=key).sort_key)
    again, other = name("a", key=last), name("b", key=between)
    bench.page(again)
    bench.page(name("a", key=first), other)
    assert bench.frozen() == [other, again]


@given(st.integers(0, 10_000))
def test_any_pages_come_out_sorted_in_whole_parts(seed: int) -> None:
    random = Random(seed)
    letters = many(random.randrange(60), keys=random.randrange(1, 9))
    bench = Bench()
    for _ in range(random.randrange(1, 8)):
        bench.page(*random.sample(letters, random.randrange(len(letters) + 1)), moved=False)
    held = random.sample(letters, random.randrange(len(letters) + 1))
    bench.held_letters = {each.place: each.shard for each in held}
    named = {each for page in bench.objects.listed("pages/") for each in _names(bench, page.name)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(freeze, "RUN_BYTES", random.choice([1, 2_000]))
        patch.setattr(freeze, "LEAST_READ", 64)
        patch.setattr(freeze, "MERGE_BYTES", random.choice([1, 1_000]))
        patch.setattr(freeze, "PART", 7)
        patch.setattr(manifest, "PART", 7)
        assert bench.frozen() == in_order([each for each in held if each in named])


def _names(bench: Bench, page: str) -> list[Name]:
    from deadletter.replay.names import from_lines

    return list(from_lines(bench.objects.get(page) or b""))


def test_the_hash_is_over_all_lines_in_order() -> None:
    bench = Bench()
    letters = many(1_203, keys=40)
    bench.page(*letters)
    frozen = bench.frozen()
    digest = blake2b(to_lines(frozen), digest_size=16).hexdigest()
    index = Manifest(bench.objects).index()
    assert index is not None
    assert index.hash == digest


def test_letters_are_counted_by_the_cause_of_their_last_failure() -> None:
    bench = Bench()
    bench.page(replace(name("a"), cause="f1"), replace(name("b"), cause="f1"), name("c"))
    index = bench.freeze().index
    assert index is not None
    assert index.causes == {"f1": 2}


def test_a_manifest_that_is_whole_never_changes() -> None:
    bench = Bench()
    bench.page(name("a"))
    before = bench.freeze()
    bench.page(name("b"))
    assert bench.freeze() == before


def test_a_slow_freeze_changes_nothing_of_a_manifest_that_another_has_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run has sent letters by then: the slow one does not find them in the lane."""
    bench = Bench()
    letters = many(12, keys=5)
    bench.page(*letters)
    first: list[FreezeReport] = []
    held = bench.held

    def overtaken(lane: str, places: Sequence[tuple[str, str]]) -> Any:
        if not first:
            first.append(FreezeReport(done=False))
            first.append(bench.freeze())
            bench.held_letters.popitem()
            bench.s3.delete_object(
                Bucket="messages", Key=f"replay/orders/r/{bench.objects.listed('sorted/')[0].name}"
            )
        return held(lane, places)

    monkeypatch.setattr(bench, "held", overtaken)
    slow = bench.freeze()
    assert slow == first[1]
    assert bench.frozen() == in_order(letters)


def test_a_freeze_goes_on_where_the_one_before_was_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(freeze, "RUN_BYTES", 1)
    bench = Bench()
    for letter in "abc":
        bench.page(name(letter))
    put = bench.objects.put
    stops = iter([False, False, True])

    def cut_off(name: str, data: bytes) -> None:
        if next(stops, False):
            raise ObjectsUnavailable("SlowDown for s3:PutObject on messages")
        put(name, data)

    monkeypatch.setattr(bench.objects, "put", cut_off)
    report = bench.freeze()
    assert (report.done, report.index) == (False, None)
    assert report.stopped == "SlowDown for s3:PutObject on messages"
    assert bench.asked == [1, 1, 1]
    assert bench.frozen() == [name("a"), name("b"), name("c")]
    assert bench.asked == [1, 1, 1, 1]


def test_a_page_that_comes_late_is_in_the_manifest_until_this_is_whole() -> None:
    """A pass that is thought dead may store one more page; its letters are in the lane."""
    bench = Bench()
    bench.page(name("a"))
    bench.down = True
    assert bench.freeze() == FreezeReport(done=False, stopped="down")
    bench.down = False
    bench.page(name("b"))
    assert bench.frozen() == [name("a"), name("b")]


def test_a_freeze_ends_at_its_deadline() -> None:
    bench = Bench()
    bench.page(name("a"))
    assert bench.freeze(seconds=0) == FreezeReport(done=False, stopped="the deadline is near")
    assert Manifest(bench.objects).index() is None


def test_a_damaged_page_stops_the_freeze_and_loses_no_letter() -> None:
    bench = Bench()
    bench.page(replace(name("a"), tenant="t"))
    bench.objects.put("pages/run1-000000.jsonl", b"{}\n")
    report = bench.freeze()
    assert not report.done
    assert "pages/run1-000000.jsonl" in report.stopped


@pytest.mark.parametrize(("spare", "runs"), [(0, 2), (-1, 4)])
def test_names_are_sorted_in_memory_as_far_as_they_fit(
    monkeypatch: pytest.MonkeyPatch, spare: int, runs: int
) -> None:
    bench = Bench()
    for letter in "abcd":
        bench.page(name(letter))
    [first, second, *_] = bench.objects.listed("pages/")
    monkeypatch.setattr(freeze, "RUN_BYTES", first.size + second.size + spare)
    assert bench.frozen() == [name(letter) for letter in "abcd"]
    assert len(bench.objects.listed("sorted/")) == runs


@pytest.mark.parametrize(("pages", "ahead"), [(1, 500), (4, 300), (30, 100)])
def test_a_merge_reads_ahead_by_what_its_memory_has_for_each_run(
    monkeypatch: pytest.MonkeyPatch, pages: int, ahead: int
) -> None:
    for limit, size in (
        ("RUN_BYTES", 1),
        ("MERGE_BYTES", 1_200),
        ("LEAST_READ", 100),
        ("MOST_READ", 500),
    ):
        monkeypatch.setattr(freeze, limit, size)
    bench = Bench()
    letters = [name(f"{number:02}") for number in range(pages)]
    for letter in letters:
        bench.page(letter)
    get_part, lengths = bench.objects.get_part, set()

    def get(name_: str, start: int, length: int) -> bytes:
        lengths.add(length)
        return get_part(name_, start, length)

    monkeypatch.setattr(bench.objects, "get_part", get)
    assert bench.frozen() == in_order(letters)
    assert lengths == {ahead}


def test_a_page_that_is_listed_and_gone_stops_the_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.page(name("a"))
    get = bench.objects.get
    monkeypatch.setattr(
        bench.objects, "get", lambda name_: None if "pages/" in name_ else get(name_)
    )
    report = bench.freeze()
    assert (report.done, report.stopped) == (False, "pages/run1-000001.jsonl is missing")
