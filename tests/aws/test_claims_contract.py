"""The claims keep their promises on every backend: at most one owner, and no way past it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.claims import DynamoDBClaims, KeptClaim, kept_claims
from deadletter.contract import EVERYTHING
from deadletter.processing.idempotency import BusinessKey, Claim, ClaimsUnavailable, Standing
from deadletter.processing.payload import Content, content_of
from deadletter.testing.fakes.errors import client_error
from tests.aws.backends import Aws
from tests.tables import LETTERS, create_messages_table

KEEP = 3_000_000.0
# Seconds.
LEASE = 1

MINE, DUPLICATE, BUSY = Standing.MINE, Standing.DUPLICATE, Standing.BUSY
ORDER = BusinessKey("key:7", "payload-a")
OTHER = BusinessKey("key:7", "payload-b")


class Calls:
    """A DynamoDB client that counts its calls, and can do something before or after them."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.made = 0
        self.around: Callable[[Callable[[], Any]], Any] = lambda call: call()

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._real, name)

        def call(**options: Any) -> Any:
            self.made += 1
            return self.around(lambda: act(**options))

        return call

    def lose_answers(self) -> None:
        """Each call is applied, its answer lost, and the SDK tries it again."""

        def around(call: Callable[[], Any]) -> Any:
            with contextlib.suppress(ClientError):
                call()
            return call()

        self.around = around


class Desk:
    """Claims on one table, as any number of processes make them."""

    def __init__(self, aws: Aws) -> None:
        create_messages_table(aws.dynamodb)
        self.aws = aws
        self.calls = Calls(aws.dynamodb)
        self.bad_rows: list[str] = []
        self.port = self.with_keep(KEEP)

    def with_keep(self, seconds: float) -> DynamoDBClaims:
        client: Any = self.calls
        return DynamoDBClaims(
            client, LETTERS, "orders", self.aws.clock, seconds, self.bad_rows.append
        )

    def claim(self, owner: str, key: BusinessKey = ORDER, lease: float = LEASE) -> Claim:
        return self.port.claim(key, owner, self.aws.clock() + lease)

    def damage(self, attribute: str, value: Any) -> None:
        """Put something else, or nothing for None, in the place of an attribute of the only row."""
        [row] = self.rows()
        row = {name: each for name, each in row.items() if name != attribute}
        item = row if value is None else {**row, attribute: value}
        self.aws.dynamodb.put_item(TableName=LETTERS, Item=item)

    def rows(self) -> list[dict[str, Any]]:
        return list(self.aws.dynamodb.scan(TableName=LETTERS)["Items"])


@pytest.fixture
def desk(aws: Aws) -> Desk:
    return Desk(aws)


def test_the_first_claim_wins_and_others_are_busy_until_it_is_done(desk: Desk) -> None:
    first = desk.claim("one", lease=60)
    assert first.standing is MINE
    assert not first.collision
    assert desk.claim("two").standing is BUSY
    assert desk.port.done(first)
    assert desk.claim("three").standing is DUPLICATE


def test_the_good_path_is_two_round_trips_and_a_duplicate_one(desk: Desk) -> None:
    claim = desk.claim("one")
    desk.port.done(claim)
    assert desk.calls.made == 2
    desk.claim("two")
    assert desk.calls.made == 3


def test_a_released_message_is_claimed_again(desk: Desk) -> None:
    assert desk.port.withdraw(desk.claim("one", lease=60))
    assert desk.claim("two").standing is MINE


def test_a_lease_that_has_ended_is_taken_over(desk: Desk) -> None:
    desk.claim("one")
    desk.aws.clock.advance(LEASE + 1)
    assert desk.claim("two", lease=60).standing is MINE
    assert desk.claim("three").standing is BUSY


def test_only_a_claim_that_was_abandoned_is_taken_over(desk: Desk) -> None:
    assert not desk.claim("one").taken_over
    desk.aws.clock.advance(LEASE + 1)
    two = desk.claim("two")
    assert two.taken_over
    assert desk.port.withdraw(two)
    assert not desk.claim("three").taken_over


def test_tries_are_counted_over_all_receives_whatever_ended_them(desk: Desk) -> None:
    first = desk.claim("one")
    desk.port.withdraw(first)
    second = desk.claim("two")
    desk.aws.clock.advance(LEASE + 1)
    third = desk.claim("three")
    assert [first.tries, second.tries, third.tries] == [1, 2, 3]
    assert desk.claim("four").standing is BUSY
    desk.port.withdraw(third, tried=False)
    assert desk.claim("five").tries == 3


def test_a_message_that_was_never_tried_has_its_first_try_before_it(desk: Desk) -> None:
    desk.port.withdraw(desk.claim("one"), tried=False)
    assert desk.claim("two").tries == 1


def test_another_message_with_the_key_counts_its_own_tries(desk: Desk) -> None:
    desk.port.withdraw(desk.claim("one"))
    desk.port.done(desk.claim("two"))
    other = desk.claim("three", OTHER)
    assert other.tries == 1
    desk.port.withdraw(other)
    assert desk.claim("four", OTHER).tries == 2


def test_a_try_whose_claim_was_answered_late_is_never_counted_lower(desk: Desk) -> None:
    """The SDK's repeat may count once more: a number is left out, and none is used twice."""
    desk.calls.lose_answers()
    first = desk.claim("one")
    desk.port.withdraw(first)
    second = desk.claim("two")
    assert 1 <= first.tries < second.tries <= 4


def test_tries_go_on_in_a_row_that_is_past_its_time(desk: Desk) -> None:
    forgetful = desk.with_keep(1_000)
    forgetful.withdraw(forgetful.claim(ORDER, "one", desk.aws.clock() + LEASE))
    desk.aws.clock.advance(1_001)
    assert desk.claim("two").tries == 2


@pytest.mark.parametrize(
    "tries", [{"S": "many"}, {"N": "-1"}, {"N": "9" * 38}, {"NULL": True}, {"L": []}]
)
def test_tries_that_cannot_be_counted_cost_one_receive(desk: Desk, tries: Any) -> None:
    desk.port.withdraw(desk.claim("one"))
    desk.damage("tries", tries)
    assert desk.claim("two").standing is BUSY
    assert len(desk.bad_rows) == 1
    assert desk.claim("three").tries == 1


def test_a_claim_that_is_answered_after_its_lease_is_busy(desk: Desk) -> None:
    """A process was held up in the call: another owner may have the message by now."""
    until = desk.aws.clock() - 1
    assert desk.port.claim(ORDER, "one", until).standing is BUSY
    assert desk.claim("two").standing is MINE


def test_who_is_late_but_was_not_replaced_is_done_all_the_same(desk: Desk) -> None:
    claim = desk.claim("one")
    desk.aws.clock.advance(LEASE + 1)
    assert desk.port.done(claim)
    assert desk.claim("two").standing is DUPLICATE


@pytest.mark.parametrize("ended", ["done", "withdraw", "neither"])
def test_a_zombie_changes_nothing_of_a_newer_owners_row(desk: Desk, ended: str) -> None:
    zombie = desk.claim("zombie")
    desk.aws.clock.advance(LEASE + 1)
    newer = desk.claim("newer", lease=60)
    if ended != "neither":
        assert getattr(desk.port, ended)(newer)
    rows = desk.rows()
    assert not desk.port.done(zombie)
    assert not desk.port.withdraw(zombie)
    assert desk.rows() == rows


def test_a_claim_whose_answer_was_lost_is_known_by_its_owner(desk: Desk) -> None:
    desk.calls.lose_answers()
    assert desk.claim("one", lease=60).standing is MINE
    assert desk.claim("two").standing is BUSY


def test_a_claim_apart_whose_answer_was_lost_is_known_by_its_owner(desk: Desk) -> None:
    desk.port.done(desk.claim("one"))
    desk.calls.lose_answers()
    other = desk.claim("two", OTHER, lease=60)
    assert (other.standing, other.collision) == (MINE, True)


@pytest.mark.parametrize("ended", ["done", "withdraw"])
def test_an_end_whose_answer_was_lost_is_an_end(desk: Desk, ended: str) -> None:
    claim = desk.claim("one", lease=60)
    desk.calls.lose_answers()
    assert getattr(desk.port, ended)(claim)
    assert desk.claim("two").standing is (DUPLICATE if ended == "done" else MINE)


def test_a_release_that_comes_after_its_own_owners_done_undoes_nothing(desk: Desk) -> None:
    claim = desk.claim("one")
    desk.port.done(claim)
    assert not desk.port.withdraw(claim)
    assert desk.claim("two").standing is DUPLICATE


def test_a_released_claim_can_still_be_done_unless_it_was_taken(desk: Desk) -> None:
    """A parked letter: its effect failed, and it must not be processed again."""
    claim = desk.claim("one")
    desk.port.withdraw(claim)
    assert desk.port.done(claim)
    assert desk.claim("two").standing is DUPLICATE


def test_a_payload_is_compared_with_a_message_that_is_done_and_no_other(desk: Desk) -> None:
    first = desk.claim("one", ORDER, lease=60)
    waiting = desk.claim("two", OTHER)
    assert (waiting.standing, waiting.collision) == (BUSY, False)
    assert waiting.until == first.until
    desk.port.done(first)
    other = desk.claim("three", OTHER, lease=60)
    assert (other.standing, other.collision) == (MINE, True)
    assert desk.claim("four", OTHER).standing is BUSY
    desk.port.done(other)
    assert desk.claim("five", OTHER).standing is DUPLICATE
    assert desk.claim("six", ORDER).standing is DUPLICATE


@pytest.mark.parametrize("ended", ["withdrawn", "abandoned"])
def test_a_key_whose_message_was_not_processed_belongs_to_the_next(desk: Desk, ended: str) -> None:
    first = desk.claim("one", ORDER)
    if ended == "withdrawn":
        desk.port.withdraw(first)
    else:
        desk.aws.clock.advance(LEASE + 1)
    other = desk.claim("two", OTHER, lease=60)
    assert (other.standing, other.collision) == (MINE, False)
    assert other.taken_over is (ended == "abandoned")
    desk.port.done(other)
    again = desk.claim("three", ORDER, lease=60)
    assert (again.standing, again.collision) == (MINE, True)


def content(**body: Any) -> Content:
    return content_of(EVERYTHING, {"body": body}, {})


def key(digest: str, **body: Any) -> BusinessKey:
    """The key of an order that was received as one text and says one thing."""
    return BusinessKey("key:7", digest, content(**body))


def test_what_is_compared_is_the_content_and_the_paths_that_differ_are_named(desk: Desk) -> None:
    desk.port.done(desk.claim("one", key("raw", order=7, lines=[{"price": 1}])))
    again = desk.claim("two", key("wrapped", order=7, lines=[{"price": 1}]))
    assert (again.standing, again.collision) == (DUPLICATE, False)
    other = desk.claim("three", key("raw 2", order=7, lines=[{"price": 2}]), lease=60)
    assert (other.standing, other.collision) == (MINE, True)
    assert other.differences == ("body.lines[].price",)
    desk.port.done(other)
    same = desk.claim("four", key("wrapped 2", order=7, lines=[{"price": 2}]))
    assert same.standing is DUPLICATE


def test_without_a_payload_the_key_alone_decides(desk: Desk) -> None:
    desk.port.done(desk.claim("one", BusinessKey("key:7", "a", compared=False)))
    assert desk.claim("two", BusinessKey("key:7", "b", compared=False)).standing is DUPLICATE


def test_a_key_that_a_person_accepted_is_compared_with_none(desk: Desk) -> None:
    desk.port.done(desk.claim("one", key("a", amount=1)))
    accepted = replace(key("b", amount=2), apart=True)
    claim = desk.claim("two", accepted)
    assert (claim.standing, claim.collision) == (MINE, False)
    desk.port.done(claim)
    assert desk.claim("three", replace(accepted, payload="c")).standing is DUPLICATE
    assert desk.claim("four", key("b", amount=2)).standing is DUPLICATE


def test_a_row_of_another_setting_is_compared_as_it_was_received(desk: Desk) -> None:
    """Else the setting that a page asks for would make each message of the past collide."""
    desk.port.done(desk.claim("one", key("a", amount=1)))
    by_path = BusinessKey("key:7", "a", content_of("body.amount", {"payload": 1}, {}))
    assert desk.claim("two", by_path).standing is DUPLICATE
    other = desk.claim("three", replace(by_path, payload="b"))
    assert (other.standing, other.differences) == (MINE, None)


def test_an_execution_that_goes_on_finds_its_own_claim_and_keeps_it_for_longer(desk: Desk) -> None:
    desk.claim("execution/m1", lease=60)
    again = desk.claim("execution/m1", lease=600)
    assert (again.standing, again.taken_over) == (MINE, False)
    desk.aws.clock.advance(61)
    assert desk.claim("another").standing is BUSY
    assert desk.port.done(again)
    # Its handler runs again, because what it has done is in its checkpoints.
    assert desk.claim("execution/m1", lease=600).standing is MINE
    assert desk.claim("another").standing is DUPLICATE


def test_a_row_with_a_content_of_many_paths_is_still_one_write_unit(desk: Desk) -> None:
    body = {f"field{'abcdefghij'[n % 10]}{n}": n for n in range(500)}
    long = BusinessKey("key:7", "0" * 64, content(**body))
    desk.claim("5b1e7c3a-7f54-4c7b-9f0e-6a1d2c3b4a59", long)
    [row] = desk.rows()
    assert len(row["content"]["B"]) <= 600
    sizes = [len(name) + len(*value.values()) for name, value in row.items()]
    assert sum(sizes) < 1_024


def test_a_row_that_is_past_its_time_counts_as_not_there(desk: Desk) -> None:
    """DynamoDB may take two days to delete it."""
    forgetful = desk.with_keep(1_000)
    forgetful.done(forgetful.claim(ORDER, "one", desk.aws.clock() + LEASE))
    desk.aws.clock.advance(1_001)
    other = desk.claim("two", OTHER)
    assert (other.standing, other.collision) == (MINE, False)
    desk.port.done(other)
    assert desk.claim("three", ORDER).collision


def test_a_key_is_kept_as_long_as_any_message_under_it(desk: Desk) -> None:
    """Else the second message, come back, would find its key free and be processed again."""
    forgetful = desk.with_keep(1_000)
    first = forgetful.claim(ORDER, "one", desk.aws.clock() + LEASE)
    forgetful.done(first)
    desk.aws.clock.advance(500)
    second = forgetful.claim(OTHER, "two", desk.aws.clock() + LEASE)
    assert second.collision
    forgetful.done(second)
    ttls = {row["pk"]["S"].rpartition("#")[2]: int(row["ttl"]["N"]) for row in desk.rows()}
    assert ttls[first.key] >= ttls[second.key]


def before_each_update(desk: Desk, deed: Callable[[], Any]) -> None:
    """Let another process act between a claim's look at the first row and its next call."""
    looked = desk.calls.made

    def around(call: Callable[[], Any]) -> Any:
        if desk.calls.made == looked + 2:
            deed()
        return call()

    desk.calls.around = around


def test_who_keeps_a_row_longer_never_shortens_it(desk: Desk) -> None:
    forgetful = desk.with_keep(1_000)
    forgetful.done(forgetful.claim(ORDER, "one", desk.aws.clock() + 60))
    [row] = desk.rows()
    later = {"N": str(int(row["ttl"]["N"]) * 2)}
    before_each_update(
        desk, lambda: desk.aws.dynamodb.put_item(TableName=LETTERS, Item={**row, "ttl": later})
    )
    assert desk.claim("two", OTHER).collision
    assert later in [row["ttl"] for row in desk.rows()]


def test_a_row_that_goes_away_meanwhile_leaves_its_place(desk: Desk) -> None:
    forgetful = desk.with_keep(1_000)
    forgetful.done(forgetful.claim(ORDER, "one", desk.aws.clock() + 60))
    [row] = desk.rows()
    key = {"pk": row["pk"], "sk": row["sk"]}
    before_each_update(desk, lambda: desk.aws.dynamodb.delete_item(TableName=LETTERS, Key=key))
    claim = desk.claim("two", OTHER, lease=60)
    assert claim.standing is MINE
    assert not claim.collision
    desk.port.done(claim)
    assert desk.claim("three", ORDER).collision


def test_a_row_is_small_and_holds_no_word_of_the_key(desk: Desk) -> None:
    key = BusinessKey("key:person@example.com", "0" * 64)
    desk.claim("5b1e7c3a-7f54-4c7b-9f0e-6a1d2c3b4a59", key)
    [row] = desk.rows()
    assert "person" not in str(row)
    assert row["pk"]["S"] == f"orders#done#{key.digest}"
    assert row["sk"]["S"] == "claim"
    # One write unit.
    assert len(str(row)) < 1_024


def test_who_knows_the_key_reads_what_became_of_its_message_and_which_it_was(desk: Desk) -> None:
    key = BusinessKey("key:7", "p", origin="m1")
    named = ("orders", key.digest)

    def kept() -> KeptClaim | None:
        client: Any = desk.calls
        return kept_claims(client, LETTERS, [named], desk.aws.clock()).get(named)

    assert kept() is None
    claim = desk.claim("one", key)
    assert kept() == KeptClaim(is_done=False, is_claimed=True, origin="m1")
    desk.port.withdraw(claim)
    assert kept() == KeptClaim(is_done=False, is_claimed=False, origin="m1")
    desk.port.done(desk.claim("two", key))
    assert kept() == KeptClaim(is_done=True, is_claimed=False, origin="m1")
    desk.damage("origin", {"N": "1"})
    assert kept() == KeptClaim(is_done=True, is_claimed=False, origin="")
    desk.aws.clock.advance(KEEP + 1)
    assert kept() is None


def test_a_duplicate_knows_whether_it_is_the_message_that_was_processed(desk: Desk) -> None:
    lives = [
        BusinessKey("key:7", "p", origin=origin, attempt=attempt)
        for origin, attempt in (("m1", 2), ("m1", 3), ("m2", 2))
    ]
    desk.port.withdraw(desk.claim("one", lives[1]))
    desk.port.done(desk.claim("two", lives[0]))
    again = [desk.claim("later", life) for life in lives]
    assert {claim.standing for claim in again} == {DUPLICATE}
    assert [claim.same_life for claim in again] == [True, False, False]
    edited = replace(lives[0], payload="edited", compared=False)
    assert not desk.claim("later", edited).same_life
    assert not desk.claim("later", BusinessKey("key:7", "p")).same_life
    for damaged in ({"S": "2"}, {"N": "-1"}, {"N": "2.5"}, {"M": {}}, None):
        desk.damage("attempt", damaged)
        claim = desk.claim("later", lives[0])
        assert (claim.standing, claim.same_life) == (DUPLICATE, False)


@pytest.mark.parametrize("applied", [False, True])
def test_no_answer_is_no_claim_and_stands_until_the_lease_ends_if_it_was_one(
    desk: Desk, applied: bool
) -> None:
    def around(call: Callable[[], Any]) -> Any:
        if applied:
            call()
        raise client_error("PutItem", "InternalServerError", "no", status=500)

    desk.calls.around = around
    with pytest.raises(ClaimsUnavailable):
        desk.claim("one", lease=60)
    desk.calls.around = lambda call: call()
    assert desk.claim("two").standing is (BUSY if applied else MINE)


@pytest.mark.parametrize("deed", ["done", "withdraw"])
def test_an_end_without_an_answer_is_said(desk: Desk, deed: str) -> None:
    claim = desk.claim("one")

    def around(call: Callable[[], Any]) -> Any:
        raise client_error("UpdateItem", "ThrottlingException", "no", status=400)

    desk.calls.around = around
    with pytest.raises(ClaimsUnavailable):
        getattr(desk.port, deed)(claim)


def test_ending_an_unknown_claim_changes_nothing(desk: Desk) -> None:
    stranger = Claim("0" * 64, "me", 1_900_000_000.0, MINE, collision=False, taken_over=False)
    assert not desk.port.done(stranger)
    assert not desk.port.withdraw(stranger)
    assert desk.rows() == []


def test_a_row_that_is_no_claim_is_busy_for_an_hour_at_most(desk: Desk) -> None:
    desk.aws.dynamodb.put_item(
        TableName=LETTERS,
        Item={"pk": {"S": f"orders#done#{ORDER.digest}"}, "sk": {"S": "claim"}},
    )
    assert desk.claim("one").standing is BUSY
    assert desk.bad_rows == [f"{LETTERS} orders#done#{ORDER.digest} claim"]
    desk.aws.clock.advance(3_599)
    assert desk.claim("two").standing is BUSY
    desk.aws.clock.advance(1)
    assert desk.claim("three", lease=60).standing is MINE
    assert len(desk.bad_rows) == 1


@pytest.mark.parametrize("until", [None, {"NULL": True}, {"N": "-1"}, {"N": "1" + "0" * 120}])
def test_a_claim_whose_end_cannot_be_read_ends_within_the_hour(desk: Desk, until: Any) -> None:
    desk.claim("one", lease=60)
    desk.damage("until", until)
    desk.claim("two")
    desk.aws.clock.advance(3_600)
    assert desk.claim("three", lease=60).standing is MINE


@pytest.mark.parametrize("attribute", ["until", "ttl", "own"])
def test_a_message_that_is_done_stays_done_whatever_else_is_wrong(
    desk: Desk, attribute: str
) -> None:
    desk.port.done(desk.claim("one"))
    desk.damage(attribute, {"N": "-7.5"})
    desk.aws.clock.advance(7_200)
    assert desk.claim("two").standing is DUPLICATE
    assert desk.claim("three", OTHER).standing is MINE
