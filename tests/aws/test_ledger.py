"""The ledger as the consumer writes it and the router reads it, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from deadletter.aws.dynamodb import plain
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import CAUSE_SHARDS, CAUSES, Category, Reason, cause_partition
from deadletter.failure.cause_index import SEEN_WITHIN, CauseEntry, entry_from_item
from deadletter.failure.classify import diagnose
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import (
    LIVES,
    RECEIVES,
    AboutLetter,
    FailureLog,
    Ledger,
    LedgerUnavailable,
    Records,
    RecordsConflict,
    RecordsUnavailable,
    Recovery,
)
from deadletter.message.stamp import Stamp
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB, client_error
from deadletter.testing.fakes.attribute_values import size_of_item
from deadletter.testing.fakes.dynamodb_table import write_units
from tests.aws.backends import Aws
from tests.aws.failing import Failing
from tests.tables import LETTERS, create_messages_table

ONE = Failure(
    at=1_800_000_000.125,
    attempt=0,
    category=Category.INTEGRATION,
    error_type="HTTPError",
    message="the service said …",
    http_status=404,
    fingerprint="0123456789abcdef",
    dependency_down=True,
    receive=3,
    queue="orders",
)

KEEP = 100.0


def ledger_on(dynamodb: Any, clock: Any, **options: Any) -> DynamoDBLedger:
    create_messages_table(dynamodb)
    return DynamoDBLedger(dynamodb, LETTERS, "orders", clock, KEEP, **options)


@pytest.fixture
def ledger(aws: Aws) -> DynamoDBLedger:
    return ledger_on(aws.dynamodb, aws.clock)


def raw(aws: Aws, origin: str) -> dict[str, Any]:
    key = {"pk": {"S": f"orders#ledger#{origin}"}, "sk": {"S": "ledger"}}
    answer = aws.dynamodb.get_item(TableName=LETTERS, Key=key, ConsistentRead=True)
    return dict(answer.get("Item", {}))


def test_one_ledger_serves_router_redriver_and_consumer(ledger: DynamoDBLedger) -> None:
    reads: Ledger = ledger
    records: Records = ledger
    log: FailureLog = ledger
    assert reads is records is log


def test_a_failure_is_read_as_it_was_written(ledger: DynamoDBLedger) -> None:
    ledger.failed("a", ONE)
    row = ledger.rows(["a"])["a"]
    assert row.failures == (ONE,)
    assert (row.attempt, row.unreadable) == (0, False)


def test_failures_come_back_in_the_order_of_their_time(ledger: DynamoDBLedger) -> None:
    lives = [replace(ONE, at=ONE.at + 10 * n, attempt=n) for n in range(3)]
    for live in reversed(lives):
        ledger.failed("a", live)
    row = ledger.rows(["a"])["a"]
    assert row.failures == tuple(lives)
    assert row.attempt == 2


def test_the_same_failure_written_again_is_one_failure(ledger: DynamoDBLedger) -> None:
    for _ in range(3):
        ledger.failed("a", ONE)
    assert ledger.rows(["a"])["a"].failures == (ONE,)


def test_a_row_knows_the_last_life_that_used_an_attempt(ledger: DynamoDBLedger) -> None:
    given_back = replace(ONE, error_type=str(Fate.REFUSED), message=GIVEN_BACK)
    ledger.failed("a", replace(given_back, attempt=0))
    assert ledger.rows(["a"])["a"].tried is None
    ledger.failed("a", replace(ONE, attempt=1, receive=1))
    # The row keeps two receives of a life; the one that was tried is gone.
    for receive in (2, 3):
        ledger.failed("a", replace(given_back, attempt=1, receive=receive))
    row = ledger.rows(["a"])["a"]
    assert (row.used_attempt(0), row.used_attempt(1)) == (False, True)


def test_a_failure_forgets_nothing_else_that_the_row_says(aws: Aws, ledger: DynamoDBLedger) -> None:
    ledger.store_stamps({"a": Stamp("a", 2, 5)})
    ledger.recovered("a", 1, 7.5)
    ledger.failed("a", ONE)
    row = ledger.rows(["a"])["a"]
    assert (row.stamp, row.recovered_at, row.failures) == (Stamp("a", 2, 5), 7.5, (ONE,))


def test_facts_of_several_letters_are_stored_together_and_forget_no_failure(
    ledger: DynamoDBLedger,
) -> None:
    ledger.failed("c5", ONE)
    marks = {f"c{number}": Stamp(f"c{number}", number, 5) for number in range(100)}
    ledger.store_stamps(marks)
    rows = ledger.rows(list(marks))
    assert {copy: row.stamp for copy, row in rows.items()} == marks
    assert rows["c5"].failures == (ONE,)


def test_a_transaction_that_is_cancelled_is_a_conflict_and_nothing_else_is() -> None:
    """Each fact may be written by itself then; a ledger without an answer is asked no more."""
    for code, raised in (
        ("TransactionCanceledException", RecordsConflict),
        ("InternalServerError", RecordsUnavailable),
    ):
        client: Any = Failing(client_error("TransactWriteItems", code, "no", status=400))
        ledger = DynamoDBLedger(client, LETTERS, "orders", Clock(), 100)
        with pytest.raises(RecordsUnavailable) as error:
            ledger.store_stamps({"a": Stamp("a", 1, 5), "b": Stamp("b", 1, 5)})
        assert type(error.value) is raised


def test_a_row_stays_as_long_after_its_last_failure(aws: Aws, ledger: DynamoDBLedger) -> None:
    before = int(aws.clock())
    ledger.failed("a", ONE)
    assert before + KEEP <= int(raw(aws, "a")["ttl"]["N"]) <= aws.clock() + KEEP + 1


def test_the_recovery_of_a_later_life_stands_and_the_first_word_on_a_life(
    ledger: DynamoDBLedger,
) -> None:
    ledger.failed("a", ONE)
    assert ledger.recovered("a", 1, 1_800_000_060.5)
    assert not ledger.recovered("a", 3, 1_800_000_070.5, Recovery.DUPLICATE)
    ledger.recovered("a", 3, 1_800_000_080.5, Recovery.PROCESSED)
    ledger.recovered("a", 2, 1_800_000_090.5, Recovery.SKIPPED)
    row = ledger.rows(["a"])["a"]
    assert (row.recovered_attempt, row.recovered_at) == (3, 1_800_000_070.5)
    assert row.recovered_as is Recovery.DUPLICATE
    assert [row.outcome_in(life) for life in (1, 2, 3)] == [None, None, "duplicate"]
    ledger.recovered("a", 10, 1_800_000_095.5)
    assert ledger.rows(["a"])["a"].outcome_in(10) == "recovered"


def test_a_parked_life_is_on_record_with_its_reason(ledger: DynamoDBLedger) -> None:
    ledger.failed("a", ONE)
    for attempt, reason in ((3, "PERMANENT"), (3, "PERMANENT"), (2, "KEY_CONFLICT")):
        ledger.parked("a", attempt, 1_800_000_060.5, reason)
    row = ledger.rows(["a"])["a"]
    assert (row.ended_attempt, row.ended_as, row.ended_reason) == (3, "parked", "PERMANENT")
    assert [row.outcome_in(life) for life in (2, 3)] == [None, "parked"]
    assert row.failures == (ONE,)


def test_our_own_write_whose_answer_was_lost_counts(ledger: DynamoDBLedger) -> None:
    assert ledger.recovered("a", 1, 5.1)
    assert ledger.recovered("a", 1, 5.1)


def test_a_kept_stamp_is_found_by_the_id_of_the_copy(aws: Aws, ledger: DynamoDBLedger) -> None:
    mark = Stamp("origin", 2, 5, "AIDA")
    ledger.store_stamps({"copy": mark})
    ledger.failed("other", ONE)
    assert ledger.stored_stamp("copy") == mark
    assert ledger.stored_stamp("other") is None
    assert ledger.stored_stamp("never") is None
    item = {**raw(aws, "copy"), "stamp": {"S": "no stamp"}}
    aws.dynamodb.put_item(TableName=LETTERS, Item=item)
    with pytest.raises(LedgerUnavailable):
        ledger.stored_stamp("copy")


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "UpdateItem"),
        EndpointConnectionError(endpoint_url="https://dynamodb"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_ledger_that_does_not_answer_says_so(error: Exception) -> None:
    client: Any = Failing(error)
    ledger = DynamoDBLedger(client, LETTERS, "orders", lambda: 0.0, KEEP)
    for write in (
        lambda: ledger.failed("a", ONE),
        lambda: ledger.recovered("a", 1, 5.0),
        lambda: ledger.parked("a", 1, 5.0, "PERMANENT"),
        lambda: ledger.note_parked("a", 5.0, "PERMANENT", ""),
        lambda: ledger.leave_index("a"),
    ):
        with pytest.raises(RecordsUnavailable):
            write()
    with pytest.raises(LedgerUnavailable):
        ledger.stored_stamp("a")


# The index of causes.

ABOUT = AboutLetter({"tenantId": "t-1"}, "t-1/default", 1_204)
LARGEST_ABOUT = AboutLetter({"n" * 6: "v" * 250}, "e" * 512, 262_144)


def entries(aws: Aws, fingerprint: str = "") -> list[CauseEntry]:
    """The entries of the index as `dlq groups` reads them."""
    found = []
    for shard in range(CAUSE_SHARDS):
        values = {":pk": {"S": cause_partition("orders", shard)}}
        condition = "causes = :pk"
        if fingerprint:
            condition, values = (
                f"{condition} AND fingerprint = :f",
                {
                    **values,
                    ":f": {"S": fingerprint},
                },
            )
        answer = aws.dynamodb.query(
            TableName=LETTERS,
            IndexName=CAUSES.name,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
        )
        found += [entry_from_item(plain(item)) for item in answer["Items"]]
    return [entry for entry in found if entry is not None]


def test_a_failing_letter_is_in_the_index_under_its_last_cause(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    ledger.failed("a", ONE, ABOUT)
    later = replace(ONE, at=ONE.at + 700, attempt=1, fingerprint="f2", http_status=None)
    ledger.failed("a", later, ABOUT)
    [entry] = entries(aws)
    assert (entry.origin, entry.fingerprint, entry.attempt) == ("a", "f2", 1)
    # To five minutes: an entry that stays the same costs nothing.
    assert (entry.first_at, entry.seen) == (ONE.at, 1_800_000_600)
    assert (entry.category, entry.error_type, entry.words) == (
        "integration",
        "HTTPError",
        ONE.message,
    )
    assert (entry.http_status, entry.about) == (None, ABOUT)
    assert entries(aws, ONE.fingerprint) == []
    row = ledger.rows(["a"])["a"]
    assert (row.about, row.first_at, row.attempt) == (ABOUT, ONE.at, 1)


def test_a_receive_that_was_given_back_keeps_the_cause_of_the_failure_before(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    given_back = replace(
        ONE, at=ONE.at + 309, error_type=str(Fate.REFUSED), message=GIVEN_BACK, fingerprint=""
    )
    ledger.failed("b", given_back, ABOUT)
    ledger.failed("a", ONE, ABOUT)
    ledger.failed("a", given_back, ABOUT)
    by_origin = {entry.origin: entry for entry in entries(aws)}
    assert by_origin["a"].fingerprint == ONE.fingerprint
    assert (by_origin["a"].words, by_origin["a"].seen) == (ONE.message, 1_800_000_300)
    assert (by_origin["b"].fingerprint, by_origin["b"].words) == ("", "")


@pytest.mark.parametrize(
    "end",
    [
        lambda ledger: ledger.recovered("a", 1, 7.5),
        lambda ledger: ledger.parked("a", 1, 7.5, "PERMANENT"),
        lambda ledger: ledger.note_parked("a", 7.5, "POISON", ""),
        lambda ledger: ledger.leave_index("a"),
    ],
    ids=["recovered", "parked in a run", "parked", "processed or thrown away"],
)
def test_a_letter_that_ends_leaves_the_index_and_keeps_its_history(
    aws: Aws, ledger: DynamoDBLedger, end: Any
) -> None:
    ledger.failed("a", ONE, ABOUT)
    end(ledger)
    assert entries(aws) == []
    assert ledger.rows(["a"])["a"].failures == (ONE,)
    ledger.failed("a", replace(ONE, attempt=2), ABOUT)
    assert [entry.origin for entry in entries(aws)] == ["a"]


def test_a_copy_that_fails_behind_its_recovery_leaves_the_index_when_it_is_processed(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    ledger.failed("a", ONE, ABOUT)
    assert ledger.recovered("a", 1, 7.5)
    ledger.failed("a", replace(ONE, receive=2), ABOUT)
    assert not ledger.recovered("a", 1, 9.5)
    assert entries(aws) == []


def test_leaving_the_index_creates_no_row(aws: Aws, ledger: DynamoDBLedger) -> None:
    ledger.leave_index("a")
    assert raw(aws, "a") == {}


def test_a_parked_letter_says_when_why_and_by_which_rule(aws: Aws, ledger: DynamoDBLedger) -> None:
    ledger.note_parked("a", 7.5, "QUARANTINED", "stop-t-1")
    row = ledger.rows(["a"])["a"]
    assert (row.parked_at, row.parked_as) == (7.5, Reason.QUARANTINED)
    assert (row.parked_rule, row.ended_as) == ("stop-t-1", "")
    ledger.note_parked("a", 9.5, "EXPIRED", "")
    row = ledger.rows(["a"])["a"]
    assert (row.parked_at, row.parked_as, row.parked_rule) == (9.5, Reason.EXPIRED, "")
    ledger.parked("a", 2, 11.5, "PERMANENT")
    row = ledger.rows(["a"])["a"]
    assert (row.parked_as, row.outcome_in(2)) == (Reason.PERMANENT, "parked")


def test_the_index_costs_a_unit_in_five_minutes_two_for_another_cause_and_one_at_the_end() -> None:
    """AWS: "the total provisioned throughput cost for a write consists of the sum of write
    capacity units consumed by writing to the base table and those consumed by updating the
    global secondary indexes": none if nothing projected changes, one if it does, two if the
    index's key changes. (Developer guide, Global secondary indexes, write capacity.)
    """
    dynamodb: Any = MemoryDynamoDB(lambda: 0.0)
    ledger = ledger_on(dynamodb, lambda: 0.0)

    def index_units(write: Callable[[], object]) -> int:
        before = dynamodb.consumed
        write()
        [item] = dynamodb.items(LETTERS)
        return int((dynamodb.consumed - before).write_units - write_units(size_of_item(item)))

    first, same, other = longest(0, 1), longest(0, 2), replace(longest(1, 1), fingerprint="f2")
    later = replace(same, at=same.at + SEEN_WITHIN)
    assert index_units(lambda: ledger.failed("a" * 100, first, LARGEST_ABOUT)) == 1
    unlike = replace(same, version="of another deployment")
    assert index_units(lambda: ledger.failed("a" * 100, unlike, LARGEST_ABOUT)) == 0
    assert index_units(lambda: ledger.failed("a" * 100, later, LARGEST_ABOUT)) == 1
    assert index_units(lambda: ledger.failed("a" * 100, other, LARGEST_ABOUT)) == 2
    assert index_units(lambda: ledger.recovered("a" * 100, 2, 1.0)) == 1
    # Once out of the index, writes to the row cost nothing there.
    assert index_units(lambda: ledger.note_parked("a" * 100, 1.0, "POISON", "")) == 0


# What a history costs.


class Wordy(Exception):
    """A failure with as much to say as is ever kept."""


Wordy.__name__ = "W" * 500


def longest(attempt: int, receive: int) -> Failure:
    found = diagnose(Wordy("some words " * 99), None, now=0.0)
    return Failure(
        at=1_800_000_000.125 + 10 * attempt + receive,
        attempt=attempt,
        category=Category.INTEGRATION,
        error_type=found.error_type,
        message=found.message,
        http_status=503,
        fingerprint=found.fingerprint,
        dependency_down=True,
        receive=receive,
        queue="q" * 80,
        request_id="00000000-0000-4000-8000-000000000000",
    )


def test_a_failure_is_one_write_and_a_row_ends_at_a_few_kilobytes() -> None:
    dynamodb: Any = MemoryDynamoDB(lambda: 0.0)
    ledger = ledger_on(dynamodb, lambda: 0.0)
    dearest = 0.0
    for attempt in range(40):
        for receive in range(1, 6):
            before = dynamodb.consumed
            unlike = replace(longest(attempt, receive), http_status=500 + receive)
            ledger.failed("a", unlike, LARGEST_ABOUT)
            cost = dynamodb.consumed - before
            assert cost.write_requests == 1
            assert receive > 1 or cost.read_units == 0
            dearest = max(dearest, cost.write_units)
    row = ledger.rows(["a"])["a"]
    assert len(row.failures) == LIVES * RECEIVES
    assert row.attempt == 39
    assert {failure.attempt for failure in row.failures} == set(range(40 - LIVES, 40))
    # Ten for the row, one for the index.
    assert dearest <= 11


# Most messages fail alike at each receive.


def alike(receive: int, **changes: Any) -> Failure:
    """The same failure at a receive of the first life, ten seconds after the one before."""
    at = ONE.at + 10 * receive
    one = replace(ONE, at=at, receive=receive, request_id=f"r{receive}", dependency_down=False)
    return replace(one, **changes)


def test_a_life_of_five_receives_that_fail_alike_is_one_write() -> None:
    dynamodb: Any = MemoryDynamoDB(lambda: 0.0)
    ledger = ledger_on(dynamodb, lambda: 0.0)
    for attempt in range(3):
        before = dynamodb.consumed
        for receive in range(1, 6):
            ledger.failed("b", alike(receive, attempt=attempt), ABOUT)
        cost = dynamodb.consumed - before
        assert cost.write_requests == 1
        # Half a unit for each other receive: it needs no newest answer.
        assert cost.read_units == 4 * 0.5
        # One of them for the index's entry.
        assert cost.write_units <= 2 + 1
    row = ledger.rows(["b"])["b"]
    kept = sorted((failure.attempt, failure.receive) for failure in row.failures)
    assert kept == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "f2"},
        {"message": "other words"},
        {"http_status": None},
        {"dependency_down": True},
        {"attempt": 1},
        {"error_type": str(Fate.REFUSED), "message": GIVEN_BACK, "fingerprint": ""},
        # The index would say that the letter no longer fails.
        {"at": ONE.at + 30 + SEEN_WITHIN},
    ],
)
def test_a_receive_that_says_something_new_is_written(
    ledger: DynamoDBLedger, changes: dict[str, Any]
) -> None:
    for receive in (1, 2):
        ledger.failed("a", alike(receive), ABOUT)
    last = alike(3, **changes)
    ledger.failed("a", last, ABOUT)
    assert last in ledger.rows(["a"])["a"].failures


def test_a_failure_like_the_one_before_the_last_is_written_because_the_last_was_another(
    ledger: DynamoDBLedger,
) -> None:
    failures = [alike(1), alike(2, fingerprint="f2"), alike(3)]
    for failure in failures:
        ledger.failed("a", failure, ABOUT)
    assert ledger.rows(["a"])["a"].last == failures[-1]


def test_it_is_written_too_where_the_other_one_changed_nothing_but_the_failure(
    ledger: DynamoDBLedger,
) -> None:
    failures = [alike(1), alike(2, version="v2"), alike(3)]
    for failure in failures:
        ledger.failed("a", failure, ABOUT)
    assert ledger.rows(["a"])["a"].last == failures[-1]


def test_a_failure_of_a_life_eight_lives_ago_is_no_other_one_of_this_life() -> None:
    dynamodb: Any = MemoryDynamoDB(lambda: 0.0)
    ledger = ledger_on(dynamodb, lambda: 0.0)
    for failure in (alike(1), alike(2, version="v2"), alike(1, attempt=LIVES)):
        ledger.failed("a", failure, ABOUT)
    before = dynamodb.consumed
    ledger.failed("a", alike(2, attempt=LIVES), ABOUT)
    assert (dynamodb.consumed - before).write_requests == 0


def test_a_letter_that_left_the_index_and_fails_again_is_written(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    for receive in (1, 2):
        ledger.failed("a", alike(receive), ABOUT)
    ledger.leave_index("a")
    ledger.failed("a", alike(3), ABOUT)
    assert len(entries(aws)) == 1


def test_a_letter_that_lost_its_endpoint_with_new_settings_is_written(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    for receive in (1, 2):
        ledger.failed("a", alike(receive), ABOUT)
    ledger.failed("a", alike(3), replace(ABOUT, endpoint=""))
    [entry] = entries(aws)
    assert entry.about.endpoint == ""


def test_a_failure_is_written_where_the_row_cannot_be_read() -> None:
    dynamodb: Any = MemoryDynamoDB(lambda: 0.0)
    ledger = ledger_on(dynamodb, lambda: 0.0)
    for receive in (1, 2):
        ledger.failed("a", alike(receive), ABOUT)
    read = dynamodb.batch_get_item

    def refused(**_: Any) -> Any:
        raise client_error("BatchGetItem", "ProvisionedThroughputExceededException", "slow down")

    dynamodb.batch_get_item = refused
    ledger.failed("a", alike(3), ABOUT)
    dynamodb.batch_get_item = read
    assert alike(3) in ledger.rows(["a"])["a"].failures


def test_a_pipeline_with_more_lives_to_poison_keeps_more_of_them() -> None:
    dynamodb: Any = MemoryDynamoDB(lambda: 0.0)
    ledger = ledger_on(dynamodb, lambda: 0.0, lives=20)
    for attempt in range(20):
        ledger.failed("a", replace(ONE, attempt=attempt, dependency_down=False))
    assert ledger.rows(["a"])["a"].lives_by_fingerprint() == {ONE.fingerprint: 20}
