"""The law of kinds: what a message's kinds are, which are sick, and when one is tried again."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.pace.kinds import (
    ALL,
    COUNT_SECONDS,
    FAILURES,
    HEALED,
    KEPT_COUNTS,
    MOST_ADDED,
    MOST_COUNTED,
    MOST_KINDS,
    MOST_REMOVED,
    MOST_SICK,
    MOST_SINGLES,
    NONE_SICK,
    TRY_SECONDS,
    KindCount,
    Seen,
    SickKind,
    SickKinds,
    any_fails,
    both,
    explains,
    field_of,
    found,
    hidden_for,
    is_kind,
    kind_of,
    kinds_of,
    number_of,
    to_write,
)
from tests.each_row import each_row

NOW = 1_800_000_000.0
THIS = number_of(NOW)
TENANTS = tuple(kind_of("c_tenantId", f"t{number}") for number in range(40))
BIG = kind_of("size", "5")


def fields(body: Any, **context: Any) -> list[str]:
    document = {"context": context} if body is None else {"context": context, "body": body}
    return sorted(map(field_of, kinds_of(document, 100)))


def counted(number: int = THIS, **seen: tuple[int, int]) -> tuple[KindCount, ...]:
    """Failures and successes of tenants, such as t0=(4, 0); `all` are those of all messages."""
    names = {f"t{at}": kind for at, kind in enumerate(TENANTS)} | {"all": ALL, "big": BIG}
    return tuple(KindCount(names[name], number, *numbers) for name, numbers in seen.items())


# What kinds a message has.


def test_a_message_has_the_kinds_of_its_context_its_size_and_its_short_texts() -> None:
    short, long = "x" * 18, "x" * 19
    body = {"region": "eu", "needs": ["a", "b", "c", short], "amount": 7, "text": long, "deep": {}}
    assert fields(body, tenantId="t1") == ["b_needs", "b_region", "c_tenantId", "size"]
    assert len(fields({f"f{at}": "x" for at in range(20)})) == 10


def test_a_value_that_the_context_has_is_one_kind() -> None:
    assert fields({"tenant": "t1"}, tenantId="t1") == ["c_tenantId", "size"]


def test_sizes_are_of_one_kind_if_they_have_as_many_digits() -> None:
    small, other, big = (kinds_of({"context": {}}, size) for size in (100, 999, 1_000))
    assert small == other != big


@pytest.mark.parametrize(
    "body", [None, [], "text", 7, {"needs": []}, {"needs": ["a"] * 5}, {"x": [1]}]
)
def test_a_body_without_short_texts_has_none(body: Any) -> None:
    assert fields(body) == ["size"]


def test_a_name_in_a_body_that_is_no_word_is_no_field() -> None:
    """It may be a value itself, such as an address, and would be stored."""
    assert fields({"ann@example.com": "yes", "": "a", "n" * 33: "a"}) == ["size"]


def test_no_value_is_in_the_name_of_a_kind() -> None:
    assert "acme" not in kind_of("c_tenantId", "acme") != kind_of("c_tenantId", "other")
    assert is_kind(kind_of("c_näme-of.it", "acme"))
    assert is_kind(ALL)
    assert not is_kind("acme")
    # A long field is cut behind sixteen characters.
    assert field_of(kind_of("c_customerCountry", "nl")) == "c_customerCountr"


@given(
    st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.floats()),
    st.dictionaries(st.text(), st.text() | st.lists(st.text() | st.none()) | st.none()),
    st.integers(0, 10**7),
)
def test_any_message_has_a_few_well_formed_kinds(
    context: dict[str, Any], body: dict[str, Any], size: int
) -> None:
    kinds = kinds_of({"context": context, "body": body}, size)
    assert 1 <= len(kinds) == len(set(kinds)) <= MOST_KINDS
    assert all(kind and is_kind(kind) for kind in kinds)


# Which kinds are sick.


def test_a_kind_that_fails_while_all_others_succeed_is_sick() -> None:
    counts = counted(all=(5, 30), t0=(4, 0), t1=(1, 0))
    assert found(counts, 0, NOW) == (TENANTS[0],)


def test_three_failures_find_no_kind_and_keep_the_circuit_closed() -> None:
    counts = counted(all=(3, 30), t0=(3, 0))
    assert found(counts, 0, NOW) == ()
    assert explains(counts, 0, NOW)


def test_one_failure_explains_nothing() -> None:
    assert not explains(counted(all=(1, 10), t0=(1, 0)), 0, NOW)


def test_a_kind_of_which_more_than_a_fifth_succeeds_is_well() -> None:
    assert found(counted(all=(8, 30), t0=(8, 2)), 0, NOW) == (TENANTS[0],)
    assert found(counted(all=(8, 30), t0=(8, 3)), 0, NOW) == ()


def test_in_a_total_outage_no_kind_is_sick() -> None:
    counts = counted(all=(20, 0), t0=(10, 0), t1=(10, 0))
    assert found(counts, 0, NOW) == ()
    assert not explains(counts, 0, NOW)


@each_row(
    ("good", "bad", "sick_good", "is_well"),
    [
        *((4, 0, 0, False), (5, 0, 0, True), (5, 4, 0, False), (50, 34, 0, False), (6, 4, 0, True)),
        # What the sick kind did well is none of the rest's.
        *((4, 0, 2, False), (5, 0, 2, True)),
    ],
)
def test_a_rest_that_is_not_well_explains_nothing(
    good: int, bad: int, sick_good: int, *, is_well: bool
) -> None:
    counts = counted(all=(9 + bad, good + sick_good), t0=(9, sick_good))
    assert explains(counts, 0, NOW) is is_well


def test_a_kind_that_may_have_failed_by_chance_is_not_found() -> None:
    """Of the rest a third fails: four in a row are no wonder."""
    assert found(counted(all=(104, 200), t0=(4, 0)), 0, NOW) == ()
    assert found(counted(all=(110, 200), t0=(10, 0)), 0, NOW) == (TENANTS[0],)


def test_few_that_are_well_are_little_evidence() -> None:
    """Five of five: by the rule of succession the next one may fail in one of seven cases."""
    assert found(counted(all=(4, 5), t0=(4, 0)), 0, NOW) == ()
    assert found(counted(all=(5, 5), t0=(5, 0)), 0, NOW) == (TENANTS[0],)
    assert found(counted(all=(4, 7), t0=(4, 0)), 0, NOW) == ()
    assert found(counted(all=(4, 8), t0=(4, 0)), 0, NOW) == (TENANTS[0],)


def test_of_two_fields_the_one_that_explains_more_is_sick() -> None:
    counts = counted(all=(10, 20), t0=(5, 0), big=(9, 1))
    assert found(counts, 0, NOW) == (BIG,)
    assert found(counted(all=(10, 20), t0=(9, 0), big=(5, 1)), 0, NOW) == (TENANTS[0],)


def test_more_kinds_than_a_minority_has_are_none() -> None:
    many = {f"t{at}": (4, 0) for at in range(MOST_SICK + 1)}
    assert found(counted(all=(68, 800), **many), 0, NOW) == ()
    del many["t0"]
    assert len(found(counted(all=(64, 800), **many), 0, NOW)) == MOST_SICK


def test_only_the_last_minutes_count() -> None:
    old = counted(THIS - KEPT_COUNTS, all=(9, 20), t0=(9, 0))
    last = counted(THIS - KEPT_COUNTS + 1, all=(9, 20), t0=(9, 0))
    assert (found(old, 0, NOW), any_fails(old, NOW)) == ((), False)
    assert (found(last, 0, NOW), any_fails(last, NOW)) == ((TENANTS[0],), True)
    # Of a machine whose clock is ahead, and of one that is wrong.
    assert found(counted(THIS + 1, all=(9, 20), t0=(9, 0)), 0, NOW) == (TENANTS[0],)
    assert found(counted(THIS + 2, all=(9, 20), t0=(9, 0)), 0, NOW) == ()


def test_what_was_counted_before_the_circuit_closed_finds_nothing() -> None:
    counts = counted(all=(9, 20), t0=(9, 0))
    assert found(counts, THIS * COUNT_SECONDS, NOW) == (TENANTS[0],)
    assert found(counts, THIS * COUNT_SECONDS + 1, NOW) == ()
    assert not explains(counts, THIS * COUNT_SECONDS + 1, NOW)


NUMBERS = st.integers(0, 10**20) | st.integers(0, 30)
COUNTS = st.lists(
    st.builds(
        KindCount,
        st.sampled_from((ALL, BIG, *TENANTS)),
        st.integers(THIS - 4, THIS + 4),
        NUMBERS,
        NUMBERS,
    ),
    max_size=60,
)


@given(COUNTS)
def test_any_row_finds_a_few_kinds_that_failed(counts: list[KindCount]) -> None:
    kinds = found(counts, 0, NOW)
    assert len(kinds) <= MOST_SICK
    assert len(set(map(field_of, kinds))) <= 1
    for kind in kinds:
        assert sum(count.failed for count in counts if count.kind == kind) >= FAILURES
    if kinds:
        assert explains(counts, 0, NOW)


# What is written.


def test_only_kinds_that_failed_are_counted() -> None:
    seen = {THIS: {ALL: (1, 3), TENANTS[0]: (1, 0), TENANTS[1]: (0, 3)}}
    added, removed = to_write(seen, (), NOW)
    assert set(added) == set(counted(all=(1, 3), t0=(1, 0)))
    assert removed == ()


def test_successes_of_a_kind_that_has_failed_are_counted() -> None:
    added, _ = to_write({THIS: {ALL: (0, 1), TENANTS[0]: (0, 1)}}, counted(t0=(1, 0)), NOW)
    assert set(added) == set(counted(all=(0, 1), t0=(0, 1)))


def test_outdated_and_malformed_counts_are_removed() -> None:
    row = (*counted(THIS - 3, t0=(4, 0)), *counted(THIS + 3, t1=(4, 0)), *counted(t2=(0, 0)))
    kept = (*counted(THIS - 2, t0=(4, 0)), *counted(THIS + 2, t1=(4, 0)), *counted(t2=(0, 1)))
    assert set(to_write({}, (*row, *kept), NOW)[1]) == set(row)


FULL = counted(t0=(1, 0), **{f"t{at}": (9, 0) for at in range(1, MOST_COUNTED)})
OUTDATED = tuple(KindCount(kind, THIS - 9, 1, 0) for kind in TENANTS[:MOST_REMOVED])
ONE_LEFT = (*counted(THIS - 1, t0=(1, 0), t1=(9, 0)), *FULL[2:])


@each_row(
    ("row", "seen", "added", "removed"),
    [
        # Successes of a kind that never failed are skipped, those behind them are not.
        (counted(t1=(1, 0)), {THIS: {BIG: (0, 1), TENANTS[1]: (0, 1)}}, counted(t1=(0, 1)), ()),
        # A kind that fails in this write counts as one that has failed.
        (
            (),
            {THIS - 1: {BIG: (1, 0)}, THIS: {BIG: (0, 1)}},
            (*counted(THIS - 1, big=(1, 0)), *counted(big=(0, 1))),
            (),
        ),
        # What has no room waits for another write, and keeps back nothing that has its place.
        (
            (*OUTDATED, *FULL),
            {THIS: {BIG: (5, 0), TENANTS[1]: (1, 0)}},
            counted(t1=(1, 0)),
            OUTDATED,
        ),
        # What has just taken a place does not leave it for another.
        (
            FULL[:-1],
            {THIS: {BIG: (5, 0), TENANTS[39]: (2, 0)}},
            counted(big=(5, 0), t39=(2, 0)),
            FULL[:1],
        ),
        # A kind whose last failure leaves is not counted any more.
        (
            ONE_LEFT,
            {THIS - 1: {BIG: (10, 0)}, THIS: {TENANTS[0]: (0, 1)}},
            counted(THIS - 1, big=(10, 0)),
            ONE_LEFT[:1],
        ),
    ],
)
def test_a_row_that_is_full_makes_room_with_what_tells_least(
    row: tuple[KindCount, ...],
    seen: dict[int, Seen],
    added: tuple[KindCount, ...],
    removed: tuple[KindCount, ...],
) -> None:
    assert to_write(seen, row, NOW) == (added, removed)


def test_ids_take_the_places_of_one_another() -> None:
    row: tuple[KindCount, ...] = counted(all=(3, 0), t0=(1, 0), t1=(1, 0), t2=(1, 0))
    for at in range(3, 30):
        added, removed = to_write({THIS: {ALL: (1, 0), TENANTS[at]: (1, 0)}}, row, NOW)
        assert len(removed) == 1
        row = tuple(count for count in (*row, *added) if count not in removed and count.kind)
        assert len(row) == MOST_SINGLES
    assert TENANTS[29] in {count.kind for count in row}


def test_a_kind_that_failed_twice_keeps_its_place() -> None:
    row = counted(t0=(2, 0), t1=(1, 0), t2=(1, 0), t3=(1, 0))
    for tenant in TENANTS[4:]:
        _, removed = to_write({THIS: {tenant: (1, 0)}}, row, NOW)
        assert TENANTS[0] not in {count.kind for count in removed}


SEEN = st.dictionaries(
    st.integers(THIS - 1, THIS),
    st.dictionaries(
        st.sampled_from((ALL, BIG, *TENANTS)), st.tuples(st.integers(0, 5), st.integers(0, 5))
    ),
    max_size=2,
)


@given(SEEN, COUNTS)
def test_nothing_is_added_and_removed_in_one_write(
    seen: dict[int, Seen], row: list[KindCount]
) -> None:
    added, removed = to_write(seen, row, NOW)
    places = [(count.kind, count.number) for count in added]
    assert not {*places} & {(count.kind, count.number) for count in removed}
    assert len(places) == len(set(places)) <= MOST_ADDED
    assert len(removed) <= MOST_REMOVED


def test_a_count_that_is_added_to_makes_no_room_for_another() -> None:
    """DynamoDB refuses a write that adds to what it removes."""
    row = counted(t0=(1, 0), **{f"t{at}": (9, 0) for at in range(1, MOST_COUNTED)})
    added, removed = to_write({THIS: {TENANTS[0]: (2, 0), BIG: (1, 0)}}, row, NOW)
    assert (added, removed) == (counted(t0=(2, 0)), ())
    added, removed = to_write({THIS: {BIG: (1, 0)}}, row, NOW)
    assert (added, removed) == (counted(big=(1, 0)), counted(t0=(1, 0)))


def test_a_write_adds_sixteen_counts_and_removes_twelve() -> None:
    """As many fit into DynamoDB's expression."""
    many = {**{kind: (2 + at, 0) for at, kind in enumerate(TENANTS)}, ALL: (1, 0)}
    added, removed = to_write({THIS: many}, (), NOW)
    # All messages come first, then the kinds that fail most.
    assert [count.failed for count in added] == [1, *range(41, 26, -1)]
    assert removed == ()
    outdated = tuple(KindCount(kind, THIS - 9, 1, 0) for kind in TENANTS)
    added, removed = to_write({THIS: {BIG: (1, 0)}}, outdated, NOW)
    assert (len(added), len(removed)) == (1, 12)


def test_a_count_covers_a_minute() -> None:
    assert [number_of(60 * THIS + second) - THIS for second in (-1, 0, 59, 60)] == [-1, 0, 0, 1]


def test_a_row_keeps_few_counts_whatever_fails() -> None:
    """Every message fails, of hundreds of kinds."""
    random, row = Random(1), dict[tuple[int, str], KindCount]()
    for second in range(400):
        now = NOW + second
        kinds = (kind_of(f"f{at}", str(random.randrange(60))) for at in range(MOST_KINDS - 1))
        seen = {number_of(now): dict.fromkeys((ALL, *kinds), (1, 0))}
        added, removed = to_write(seen, tuple(row.values()), now)
        for count in removed:
            del row[count.number, count.kind]
        for count in added:
            place = count.number, count.kind
            known = row.get(place, KindCount(count.kind, count.number, 0, 0))
            row[place] = replace(known, failed=known.failed + count.failed)
        deciding = [count for count in row.values() if any_fails([count], now) and count.kind]
        assert len(deciding) <= MOST_COUNTED
        # Outdated ones leave within seconds.
        assert len(row) <= 2 * MOST_COUNTED


def test_sums_keep_every_kind() -> None:
    assert both({}, {ALL: (1, 2)}) == both({ALL: (1, 2)}, {}) == {ALL: (1, 2)}
    one: Seen = {ALL: (1, 2), BIG: (1, 0)}
    assert both(one, {ALL: (3, 4), TENANTS[0]: (0, 1)}) == {
        ALL: (4, 6),
        BIG: (1, 0),
        TENANTS[0]: (0, 1),
    }


# How a sick kind is tried.


def sick(*kinds: str, next_try: float = NOW, good: int = 0) -> SickKinds:
    return SickKinds(3, tuple(SickKind(kind, next_try, good) for kind in kinds))


def test_a_kind_that_is_found_is_not_tried_at_once() -> None:
    after = NONE_SICK.and_found((BIG,), NOW)
    assert after == SickKinds(1, (SickKind(BIG, NOW + TRY_SECONDS),))
    assert after.and_found((BIG,), NOW) is None
    once = after.showed((BIG,), is_good=True)
    assert once is not None
    assert once.of((BIG,)) == (BIG,)
    healed = once.showed((BIG,), is_good=True)
    assert healed is not None
    assert healed.of((BIG,)) == ()


def test_at_most_sixteen_kinds_are_slowed() -> None:
    assert sick(*TENANTS[:MOST_SICK]).and_found(TENANTS[: MOST_SICK + 1], NOW) is None
    assert NONE_SICK.and_found(TENANTS[:17], NOW) is None
    assert NONE_SICK.and_found(TENANTS[:16], NOW) is not None


def test_a_kind_is_tried_once_each_fifteen_seconds() -> None:
    slowed, tries = sick(BIG), 0
    for second in range(61):
        after = slowed.tried((BIG, TENANTS[0]), NOW + second)
        tries, slowed = (tries + 1, after) if after else (tries, slowed)
    assert tries == 5


def test_of_many_kinds_each_is_tried_as_rarely_as_all_together_once_a_second() -> None:
    after = sick(*TENANTS[:MOST_SICK]).tried(TENANTS[:1], NOW)
    assert after is not None
    assert after.kinds[0].next_try == NOW + MOST_SICK


def test_a_kind_that_is_due_in_less_than_a_second_is_not_tried_yet() -> None:
    assert sick(BIG, next_try=NOW + 0.5).tried((BIG,), NOW) is None
    assert sick(BIG, next_try=NOW).tried((BIG,), NOW) is not None


def test_what_is_not_sick_needs_no_try() -> None:
    assert sick(BIG).tried(TENANTS[:1], NOW) is None
    assert NONE_SICK.tried((BIG,), NOW) is None


def test_a_time_far_ahead_holds_no_kind() -> None:
    """A wrong row wrote it: the kind would never be tried again."""
    assert sick(BIG, next_try=NOW + 1e12).tried((BIG,), NOW) is not None
    assert sick(BIG, next_try=math.inf).tried((BIG,), NOW) is not None
    # Sixteen kinds wait so long, by a clock that is ten seconds ahead.
    assert sick(BIG, next_try=NOW + 26).tried((BIG,), NOW) is None
    assert sick(BIG, next_try=NOW + 26.1).tried((BIG,), NOW) is not None


def test_two_successes_in_a_row_heal() -> None:
    slowed: SickKinds | None = sick(BIG, TENANTS[0])
    for is_good in (True, False, True):
        assert slowed is not None
        slowed = slowed.showed((BIG,), is_good=is_good)
    assert slowed is not None
    assert slowed.of((BIG, TENANTS[0])) == (BIG, TENANTS[0])
    after = slowed.showed((BIG,), is_good=True)
    assert after is not None
    assert after.of((BIG, TENANTS[0])) == (TENANTS[0],)
    assert HEALED == 2


def test_a_further_failure_changes_nothing_and_needs_no_write() -> None:
    assert sick(BIG).showed((BIG,), is_good=False) is None
    assert sick(BIG).showed((TENANTS[0],), is_good=True) is None


def test_each_change_has_a_turn_of_its_own() -> None:
    slowed = sick(BIG)
    changed = (
        slowed.tried((BIG,), NOW),
        slowed.showed((BIG,), is_good=True),
        slowed.and_found(TENANTS[:1], NOW),
    )
    assert [after and after.turn for after in changed] == [4, 4, 4]


def test_what_waits_is_hidden_for_a_time_that_is_drawn() -> None:
    waits = {hidden_for(Random(seed)) for seed in range(50)}
    assert len(waits) == 50
    assert 100 <= min(waits) < 110
    assert 190 < max(waits) <= 200
