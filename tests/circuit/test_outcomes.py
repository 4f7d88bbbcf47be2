"""The outcomes of one process are written once a second at most, and none is written twice."""

from __future__ import annotations

import pytest

from deadletter.circuit.outcomes import (
    MOST_STALE,
    MOST_TENANTS,
    SECONDS_BETWEEN_WRITES,
    OutcomesWrite,
    PendingOutcomes,
    hash_of_tenant,
    stale_buckets,
)
from deadletter.circuit.state import (
    BUCKETS,
    FEW_TENANTS,
    Circuit,
    CircuitPolicy,
    OutcomeBucket,
    OutcomeCounts,
)
from deadletter.pace.kinds import KindCount, kind_of, number_of
from tests.each_row import each_row

NOW = 1_800_000_000.0
POLICY = CircuitPolicy()
NUMBER = POLICY.bucket_of(NOW)


@pytest.fixture
def pending() -> PendingOutcomes:
    return PendingOutcomes(POLICY)


def due(write: OutcomesWrite | None) -> OutcomesWrite:
    assert write is not None
    return write


def circuit_with(*numbers: int) -> Circuit:
    """A circuit that counts one success in each of these buckets."""
    return Circuit("orders", buckets=tuple(OutcomeBucket(number, 1) for number in numbers))


def test_the_first_outcomes_are_written_at_once(pending: PendingOutcomes) -> None:
    write = due(pending.add("orders", OutcomeCounts(3, 1), NOW))
    assert write.buckets == (OutcomeBucket(NUMBER, 3, 1),)
    assert write.total == 4


def test_throttled_calls_add_up(pending: PendingOutcomes) -> None:
    both = OutcomeCounts(1, 0, throttled=2).then(OutcomeCounts(0, 1, throttled=3))
    assert (both.good, both.bad, both.throttled) == (1, 1, 5)


def test_a_single_failure_or_a_single_throttling_tells_how_calls_go(
    pending: PendingOutcomes,
) -> None:
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW)).calls == ()
    assert due(pending.add("tenant-1", OutcomeCounts(0, 1), NOW)).calls != ()
    assert due(pending.add("tenant-2", OutcomeCounts(1, 0, throttled=1), NOW)).calls != ()


def test_tenants_are_told_apart_by_24_bits() -> None:
    hashes = [hash_of_tenant(f"tenant-{number}") for number in range(100)]
    assert 2**16 < max(hashes) < 2**24
    assert len(set(hashes)) == 100


def test_a_circuit_that_has_seen_nothing_has_counted_nothing_and_takes_letters() -> None:
    fresh = Circuit("orders")
    assert (fresh.total_calls, fresh.total_failed, fresh.total_refused, fresh.openings) == (0,) * 4
    assert fresh.takes_letters(NOW)


def test_outcomes_within_a_second_wait_for_the_next_write(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    assert pending.add("orders", OutcomeCounts(2, 1), NOW + 0.5) is None
    assert pending.add("orders", OutcomeCounts(1, 0), NOW + 0.9) is None
    write = due(pending.add("orders", OutcomeCounts(1, 0), NOW + SECONDS_BETWEEN_WRITES))
    assert (write.total, write.buckets) == (5, (OutcomeBucket(NUMBER, 4, 1),))


def test_what_succeeds_in_calm_times_is_written_once_a_minute(pending: PendingOutcomes) -> None:
    def writes(*at: int) -> list[int]:
        written = []
        for second in at:
            now = NOW + second
            if pending.add("orders", OutcomeCounts(1, 0), now, calm=True) is not None:
                written.append(second)
                pending.written("orders", Circuit("orders", total_calls=second + 1), now, 1)
        return written

    # The second write is sooner: it tells how large this process's part is.
    assert writes(0, 5, 11, 30, 60, 71, 130, 132) == [0, 11, 71, 132]
    # So is one after five calls.
    assert writes(*range(140, 150)) == [144, 149]


@pytest.mark.parametrize(
    "trouble",
    [OutcomeCounts(0, 1), OutcomeCounts(1, slow=1), OutcomeCounts(throttled=1)],
)
def test_a_failure_in_calm_times_is_written_with_all_successes_before_it(
    pending: PendingOutcomes, trouble: OutcomeCounts
) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW, calm=True)
    assert pending.add("orders", OutcomeCounts(4, 0), NOW + 2, calm=True) is None
    write = due(pending.add("orders", trouble, NOW + 3, calm=True))
    assert write.called == 4 + trouble.total + trouble.throttled


def test_successes_are_written_at_once_when_the_row_has_failures_of_others(
    pending: PendingOutcomes,
) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW, calm=True)
    assert pending.add("orders", OutcomeCounts(4, 0), NOW + 2, calm=True) is None
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 3, calm=False)).total == 5


def test_a_clock_that_jumps_back_does_not_delay_a_write(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    assert pending.add("orders", OutcomeCounts(1, 0), NOW - 3600) is not None


def test_each_key_has_its_own_pace(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    assert pending.add("tenant-7", OutcomeCounts(1, 0), NOW) is not None


def test_a_batch_without_outcomes_writes_nothing(pending: PendingOutcomes) -> None:
    assert pending.add("orders", OutcomeCounts(0, 0), NOW) is None


def test_outcomes_older_than_the_window_are_dropped(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    pending.add("orders", OutcomeCounts(9, 0), NOW + 0.5)
    later = NOW + POLICY.window
    assert due(pending.add("orders", OutcomeCounts(1, 0), later)).buckets == (
        OutcomeBucket(POLICY.bucket_of(later), 1, 0),
    )


def test_outcomes_of_the_oldest_bucket_in_the_window_are_kept(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    pending.add("orders", OutcomeCounts(9, 0), NOW + 0.5)
    later = NOW + POLICY.window - POLICY.bucket
    assert due(pending.add("orders", OutcomeCounts(1, 0), later)).total == 10


def test_failures_in_a_row_are_added_to_the_streak(pending: PendingOutcomes) -> None:
    write = due(pending.add("orders", OutcomeCounts(0, 3), NOW))
    assert (write.streak, write.resets_streak) == (3, False)


def test_a_success_resets_the_streak_to_the_failures_after_it(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    pending.add("orders", OutcomeCounts(0, 2), NOW + 0.1)
    pending.add("orders", OutcomeCounts(1, 0), NOW + 0.2)
    pending.add("orders", OutcomeCounts(0, 2), NOW + 0.4)
    write = due(pending.add("orders", OutcomeCounts(0, 2), NOW + 2))
    assert (write.streak, write.resets_streak) == (4, True)


def test_the_streak_of_mixed_outcomes_is_what_failed_after_the_last_success() -> None:
    good, bad = OutcomeCounts(good=1), OutcomeCounts(bad=1)
    assert bad.then(good).streak == 0
    assert good.then(bad).streak == 1
    assert good.then(bad).then(bad).streak == 2
    assert good.then(bad).then(good).then(bad).streak == 1
    assert bad.then(bad).streak == 2
    assert OutcomeCounts(good=3, bad=2).streak == 0


def test_mixed_outcomes_reset_the_streak_to_the_failures_after_the_last_success(
    pending: PendingOutcomes,
) -> None:
    mixed = OutcomeCounts(bad=5).then(OutcomeCounts(good=1)).then(OutcomeCounts(bad=2))
    write = due(pending.add("orders", mixed, NOW))
    assert (write.streak, write.resets_streak) == (2, True)


def test_retries_are_in_the_row_of_failures_while_the_circuit_is_paced(
    pending: PendingOutcomes,
) -> None:
    """After an outage, messages that return are most of what is called."""
    retries = OutcomeCounts(retried_bad=2)
    for paced, streak in ((False, 0), (True, 2)):
        write = pending.add(str(paced), retries, NOW, paced=paced)
        assert write is not None
        assert write.streak == streak
    mixed = pending.add("c", OutcomeCounts(retried_good=1, retried_bad=2), NOW, paced=True)
    assert mixed is not None
    assert (mixed.streak, mixed.resets_streak) == (0, True)


def test_each_third_failure_in_a_row_is_written_at_once(pending: PendingOutcomes) -> None:
    """Within one second, in one batch or in several."""
    writes = [
        pending.add("orders", OutcomeCounts(bad=1), NOW + tenth / 100) for tenth in range(1, 10)
    ]
    assert [write.total if write else 0 for write in writes] == [1, 0, 2, 0, 0, 3, 0, 0, 3]


def test_a_success_between_failures_lets_them_wait(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(bad=1), NOW)
    pending.add("orders", OutcomeCounts(bad=1), NOW + 0.1)
    pending.add("orders", OutcomeCounts(good=1), NOW + 0.2)
    assert pending.add("orders", OutcomeCounts(bad=2), NOW + 0.3) is None
    assert due(pending.add("orders", OutcomeCounts(bad=1), NOW + 0.4)).streak == 3


def test_a_write_that_failed_is_not_repeated(pending: PendingOutcomes) -> None:
    """The caller reports no success; the next write holds what came since."""
    pending.add("orders", OutcomeCounts(5, 5), NOW)
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 2)).total == 1


def test_the_next_write_removes_stale_buckets(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    old = NUMBER - BUCKETS - 1
    assert pending.written("orders", circuit_with(old, NUMBER), NOW) == ()
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 2)).stale == (old,)
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 4)).stale == ()


def test_too_many_stale_buckets_need_a_write_of_their_own(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    old = tuple(NUMBER - 100 - at for at in range(MOST_STALE + 1))
    assert pending.written("orders", circuit_with(*old[1:]), NOW) == ()
    assert pending.written("orders", circuit_with(*old), NOW) == old
    pending.swept("orders")
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 2)).stale == ()


def test_stale_buckets_that_were_not_swept_go_with_the_next_write(
    pending: PendingOutcomes,
) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    old = tuple(NUMBER - 100 - at for at in range(MOST_STALE + 1))
    pending.written("orders", circuit_with(*old), NOW)
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 2)).stale == old


def test_a_bucket_that_the_write_adds_to_is_not_removed(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    later = NOW + (BUCKETS + 1) * POLICY.bucket
    ahead = POLICY.bucket_of(later)
    pending.written("orders", circuit_with(ahead), NOW)
    assert due(pending.add("orders", OutcomeCounts(1, 0), later)).stale == ()


@each_row(
    ("distance", "is_stale"),
    [(-BUCKETS - 1, True), (-BUCKETS, False), (0, False), (BUCKETS, False), (BUCKETS + 1, True)],
)
def test_a_bucket_is_stale_when_no_window_can_hold_it(distance: int, is_stale: bool) -> None:
    circuit = circuit_with(NUMBER + distance)
    assert bool(stale_buckets(circuit, NUMBER)) == is_stale


def test_an_item_holds_at_most_twelve_stale_buckets(pending: PendingOutcomes) -> None:
    """More would make it larger than the 1 KB that one write unit pays for."""
    old = tuple(NUMBER - 100 - at for at in range(13))
    assert pending.written("orders", circuit_with(*old[1:]), NOW) == ()
    assert pending.written("orders", circuit_with(*old), NOW) == old


def test_each_process_writes_a_key_at_most_once_a_second(pending: PendingOutcomes) -> None:
    writes = [pending.add("orders", OutcomeCounts(1, 0), NOW + tenth / 10) for tenth in range(31)]
    assert sum(write is not None for write in writes) == 4


# Totals.


def test_a_write_tells_what_the_totals_grow_by(pending: PendingOutcomes) -> None:
    counts = OutcomeCounts(good=5, bad=2, retried_good=3, retried_bad=1, throttled=4, refused=7)
    write = due(pending.add("orders", counts, NOW))
    assert (write.called, write.failed, write.refused) == (15, 7, 7)


def test_what_is_refused_waits_for_a_write_that_a_call_pays_for(pending: PendingOutcomes) -> None:
    for minute in range(30):
        refused = OutcomeCounts(refused=2)
        assert pending.add("orders", refused, NOW + 60 * minute) is None
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 1_800)).refused == 60
    assert due(pending.add("orders", OutcomeCounts(1, 0), NOW + 1_802)).refused == 0


def test_calls_that_left_the_window_unwritten_are_in_the_totals(pending: PendingOutcomes) -> None:
    pending.add("orders", OutcomeCounts(1, 0), NOW)
    assert pending.add("orders", OutcomeCounts(2, 1), NOW + 0.5) is None
    write = due(pending.add("orders", OutcomeCounts(1, 0), NOW + 2 * POLICY.window))
    assert (write.total, write.called, write.failed) == (1, 4, 1)


# Tenants.


def good_of(*tenants: int) -> OutcomeCounts:
    return OutcomeCounts(good=len(tenants), good_tenants=frozenset(tenants))


def bad_of(*tenants: int) -> OutcomeCounts:
    return OutcomeCounts(bad=len(tenants), bad_tenants=frozenset(tenants))


def test_in_good_times_no_tenant_is_written(pending: PendingOutcomes) -> None:
    write = due(pending.add("orders", good_of(1, 2), NOW))
    assert write.buckets == (OutcomeBucket(NUMBER, 2),)
    assert write.streak_tenants == frozenset()


def test_the_first_failure_is_written_with_the_tenants_that_succeeded_before(
    pending: PendingOutcomes,
) -> None:
    pending.add("orders", good_of(1, 2), NOW)
    pending.add("other", good_of(7), NOW)
    write = due(pending.add("orders", bad_of(3), NOW + 2))
    [bucket] = write.buckets
    assert (bucket.good_tenants, bucket.bad_tenants) == ({1, 2}, {3})
    assert write.streak_tenants == {3}


def test_who_succeeded_before_the_window_is_forgotten(pending: PendingOutcomes) -> None:
    pending.add("orders", good_of(1), NOW)
    [bucket] = due(pending.add("orders", bad_of(3), NOW + POLICY.window)).buckets
    assert bucket.good_tenants == frozenset()


def test_while_the_circuit_counts_failures_each_process_writes_who_succeeds(
    pending: PendingOutcomes,
) -> None:
    failing = Circuit("orders", buckets=(OutcomeBucket(NUMBER, bad=1),))
    pending.add("orders", good_of(1), NOW)
    pending.written("orders", failing, NOW)
    [bucket] = due(pending.add("orders", good_of(2), NOW + 2)).buckets
    assert bucket.good_tenants == {2}
    [later] = due(pending.add("orders", good_of(2), NOW + POLICY.window)).buckets
    assert later.good_tenants == frozenset()


def test_a_tenant_that_the_circuit_knows_is_not_written_again(pending: PendingOutcomes) -> None:
    known = OutcomeBucket(NUMBER, bad=1, good_tenants=frozenset({1}), bad_tenants=frozenset({2}))
    circuit = Circuit("orders", buckets=(known,), streak=1, streak_tenants=frozenset({2}))
    pending.add("orders", good_of(1), NOW)
    pending.written("orders", circuit, NOW)
    write = due(pending.add("orders", bad_of(2), NOW + 2))
    [bucket] = write.buckets
    assert (bucket.good_tenants, bucket.bad_tenants) == (frozenset(), frozenset())
    assert write.streak_tenants == frozenset()


def test_a_bucket_holds_sixteen_tenants_of_each_kind(pending: PendingOutcomes) -> None:
    pending.add("orders", good_of(*range(100)), NOW)
    write = due(pending.add("orders", bad_of(*range(200, 300)), NOW + 2))
    [bucket] = write.buckets
    assert len(bucket.good_tenants) == len(bucket.bad_tenants) == MOST_TENANTS
    assert len(write.streak_tenants) == FEW_TENANTS
    circuit = Circuit("orders", buckets=(bucket,), streak=100, streak_tenants=write.streak_tenants)
    pending.written("orders", circuit, NOW + 2)
    again = due(pending.add("orders", bad_of(*range(300, 400)), NOW + 4))
    assert again.buckets[0].bad_tenants == again.streak_tenants == frozenset()


def test_a_success_ends_the_streak_of_tenants(pending: PendingOutcomes) -> None:
    pending.add("orders", bad_of(1), NOW)
    pending.add("orders", bad_of(2), NOW + 0.1)
    pending.add("orders", good_of(3), NOW + 0.2)
    write = due(pending.add("orders", bad_of(4), NOW + 2))
    assert write.streak_tenants == {4}


def test_kinds_that_failed_are_written_and_outdated_ones_removed(
    pending: PendingOutcomes,
) -> None:
    big = kind_of("size", "5")
    old = KindCount(big, number_of(NOW) - 9, 1, 0)
    outcomes = OutcomeCounts(1, 1, kinds={"": (1, 1), big: (1, 0)})
    write = due(pending.add("orders", outcomes, NOW, counted=(old,)))
    now = number_of(NOW)
    assert set(write.kinds) == {KindCount("", now, 1, 1), KindCount(big, now, 1, 0)}
    assert write.stale_kinds == (old,)
    # What is outdated goes without any that are new, and is written once.
    later = NOW + SECONDS_BETWEEN_WRITES
    write = due(pending.add("orders", OutcomeCounts(1, 0), later, counted=(old,)))
    assert (write.kinds, write.stale_kinds) == ((), (old,))


def test_slow_calls_are_counted(pending: PendingOutcomes) -> None:
    slow = OutcomeCounts(good=1, slow=1)
    [bucket] = due(pending.add("orders", slow.then(OutcomeCounts(good=1)), NOW)).buckets
    assert (bucket.good, bucket.slow) == (2, 1)


def test_a_tenant_is_written_as_24_bits() -> None:
    hashes = {hash_of_tenant(f"tenant-{number}") for number in range(1_000)}
    assert len(hashes) > 990
    assert all(0 <= number < 2**24 for number in hashes)
    assert hash_of_tenant("a") == hash_of_tenant("a")
    assert hash_of_tenant("\ud800")


def test_a_bucket_has_room_for_sixteen_tenants_of_each_kind() -> None:
    assert MOST_TENANTS == 16


def test_a_process_remembers_the_tenants_that_succeeded_last(pending: PendingOutcomes) -> None:
    for tenant in (*range(20), 4):
        pending.add("orders", good_of(tenant), NOW)
    *_, bucket = due(pending.add("orders", bad_of(99), NOW + 60)).buckets
    assert bucket.good_tenants == {4, *range(5, 20)}


def test_a_streak_began_with_its_first_failure(pending: PendingOutcomes) -> None:
    pending.add("orders", good_of(1), NOW)
    pending.add("orders", bad_of(1), NOW + 0.25)
    pending.add("orders", bad_of(1), NOW + 0.5)
    assert due(pending.add("orders", bad_of(1), NOW + 0.75)).streak_at == NOW + 0.25


def test_the_last_success_says_when_its_call_began() -> None:
    first, second = OutcomeCounts(good=1, good_at=1.0), OutcomeCounts(good=1, good_at=2.0)
    bad = OutcomeCounts(bad=1)
    assert first.then(second).good_at == 2.0
    assert first.then(bad).good_at == 1.0
    assert bad.then(second).good_at == 2.0
    assert first.then(bad).total == 2
