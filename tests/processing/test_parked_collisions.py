"""What becomes of a message whose key belongs to another one that was processed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import Category, LedgerKeeps, Mode
from deadletter.failure.fate import COLLIDED, Fate
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp, initial_stamp
from deadletter.processing.batch import Consumer
from deadletter.processing.collisions import Collisions
from deadletter.processing.guard import Guard
from deadletter.processing.idempotency import BusinessKey, Claim
from deadletter.processing.lambda_event import execution_of, permit_of, seconds_left
from deadletter.processing.result import Troubles
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count
from deadletter.testing.letterbox import Letterbox
from tests.processing.doubles import DEADLINE, UNAVAILABLE, Desk, Site, record, redriven
from tests.processing.test_collisions import Row
from tests.samples import NOW, letter


def colliding(**site: Any) -> Site:
    made = Site(claims=Desk(collision=True, differences=("body.n",)), **site)
    made.collisions = Collisions(Row.of_yesterday(), made.clock, lambda *_: None)
    return made


def test_it_is_acknowledged_when_the_lot_has_confirmed_it_and_its_claim_is_withdrawn() -> None:
    site = colliding()
    [result] = site.process(record(letter())).results
    assert (result.fate, site.handled) == (Fate.PARKED, [])
    [envelope] = site.lot.sent
    assert (envelope.stamp.reason, envelope.stamp.decision) == ("KEY_CONFLICT", "PARK")
    assert site.claims.states() == {"origin:m1": "withdraw", "parked:m1": "done"}
    [(_, failure)] = site.log.failures
    assert (failure.category, failure.fingerprint) == (Category.BUSINESS, COLLIDED)
    assert failure.message == "differs in body.n"


def test_the_ledger_says_so_of_a_letter_of_a_replay_run() -> None:
    site = colliding()
    site.process(record(redriven(letter(), attempt=3, run="r9")))
    assert site.log.parkings == [("first", 3, NOW, "KEY_CONFLICT")]


@pytest.mark.parametrize("answer", ["refused", "failed", "none"])
def test_it_comes_back_as_a_failure_of_the_business_if_the_lot_does_not_confirm(
    answer: str,
) -> None:
    site = colliding()
    site.lot.answer = answer
    result = site.process(record(letter()))
    [message] = result.results
    assert (message.fate, site.handled) == (Fate.FAILED, [])
    assert message.wait is None
    assert result.failed == ("m1",)
    [(_, failure)] = site.log.failures
    assert failure.category is Category.BUSINESS


def test_a_canary_that_collides_is_neither_parked_nor_processed() -> None:
    site = colliding()
    [result] = site.process(record(letter()), permit="p").results
    assert (result.fate, site.handled, site.lot.sent) == (Fate.FAILED, [], [])


def test_in_mode_observe_it_is_processed_and_counted() -> None:
    site = colliding(pipeline=Pipeline("orders", mode=Mode.OBSERVE))
    result = site.process(record(letter()))
    assert (site.handled, site.lot.sent) == (["m1"], [])
    assert result.counts["IdempotencyCollision"] == 1


def test_one_whose_difference_is_not_known_is_processed() -> None:
    """A row of another setting says nothing but that the texts are not the same."""
    site = colliding()
    site.claims.differences = None
    assert site.process(record(letter())).counts == {"Processed": 1, "IdempotencyCollision": 1}


def test_a_defect_in_counting_parks_nothing_and_fails_nothing() -> None:
    class Defect:
        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError

    site = colliding()
    broken: Any = Defect()
    site.collisions = broken
    result = site.process(record(letter()))
    assert [message.fate for message in result.results] == [Fate.PROCESSED]
    assert result.counts[Count.CONSUMER_LIBRARY_ERROR] >= 1


def test_a_letter_whose_stamp_is_in_the_ledger_is_accepted_by_that_one() -> None:
    full = {f"a{n}": stamps.attribute(Stamp("x")) for n in range(10)}
    site = colliding()
    parked = letter(attributes=full)
    site.log.stamps["m1"] = Stamp("m1", accept="collision")
    assert [result.fate for result in site.process(record(parked)).results] == [Fate.PROCESSED]
    site = colliding()
    site.log.raises = UNAVAILABLE["ledger"]()
    assert [result.fate for result in site.process(record(parked)).results] == [Fate.FAILED]


@pytest.mark.parametrize(
    ("until", "hidden"),
    [(NOW + 12.2, 13), (NOW - 5, 1), (NOW + 9_000, 905)],
)
def test_a_copy_of_a_message_in_hand_is_hidden_once_until_that_claim_ends(
    until: float, hidden: int
) -> None:
    site = Site(claims=Desk(busy_until=until))
    site.clock.now = NOW
    key = site.consumer().reader().read(record(letter())).key
    site.claims.rows[key.text, key.payload] = "claimed"
    [result] = site.process(record(letter())).results
    assert result.fate is Fate.BUSY
    [[(_, seconds)]] = site.queue.calls
    assert seconds == hidden


class Suspended(BaseException):
    """As a durable function ends an invocation in which it waits."""


def test_a_durable_execution_that_is_resumed_finds_its_own_claims() -> None:
    box = Letterbox(Pipeline("orders"))
    consumer = box.runtime.consumer
    assert consumer is not None
    records = [record(letter(message_id="m1")), record(letter(message_id="m2"))]
    handled: list[str] = []

    def run(execution: str, *, suspends: bool) -> list[str]:
        handled.clear()

        def handle(delivery: Any) -> None:
            handled.append(delivery.letter.message_id)
            if suspends and delivery.letter.message_id == "m2":
                raise Suspended

        batch: Consumer = replace(consumer, handle=handle)
        deadline = box.clock() + 30
        results = batch.process(records, deadline=deadline, execution=execution).results
        return [str(result.fate.name) for result in results]

    with pytest.raises(Suspended):
        run("arn:one", suspends=True)
    assert run("arn:two", suspends=False) == ["DUPLICATE", "BUSY"]
    # It runs each handler again, in the same order: what they did is in its checkpoints.
    assert run("arn:one", suspends=False) == ["PROCESSED", "PROCESSED"]
    assert handled == ["m1", "m2"]
    assert run("arn:two", suspends=False) == ["DUPLICATE", "DUPLICATE"]


def test_only_a_durable_execution_claims_a_message_as_it_did_before() -> None:
    owners: list[str] = []

    class Owners(Desk):
        def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
            owners.append(owner)
            return super().claim(key, owner, until)

    for execution, message_id in (("", "m1"), ("arn:one", ""), ("arn:one", "m1")):
        guard = Guard(
            claims=Owners(),
            new_id=lambda: "new",
            deadline=DEADLINE,
            troubles=Troubles(NOW),
            execution=execution,
        )
        for _ in range(2):
            guard.claim(BusinessKey("k", "p"), message_id)
    assert owners[:4] == ["new"] * 4
    assert owners[4] == owners[5] != "new"


def test_the_context_of_a_durable_execution_is_read_with_that_of_lambda_within() -> None:
    class Object:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    client = Object(custom={"deadletter_permit": "p"})
    of_lambda = Object(client_context=client, get_remaining_time_in_millis=lambda: 3_000)
    durable = Object(
        execution_context=Object(durable_execution_arn="arn:one"), lambda_context=of_lambda
    )
    for context in (of_lambda, durable):
        assert (seconds_left(context), permit_of(context)) == (3.0, "p")
    assert (execution_of(durable), execution_of(of_lambda), execution_of(None)) == (
        "arn:one",
        "",
        "",
    )


def test_a_pipeline_that_keeps_no_text_still_says_which_paths_differ() -> None:
    """They are names of fields, and no text of a failure."""
    site = colliding(pipeline=Pipeline("orders", ledger=LedgerKeeps.NONE))
    site.process(record(letter()))
    assert str(site.lot.sent[0].stamp.because).endswith("it differs in body.n")


def test_what_a_person_accepts_survives_every_copy() -> None:
    accepted = Stamp("m1", accept="collision")
    again = stamps.parse(stamps.attribute(accepted).value)
    assert again == accepted
    assert stamps.parse('{"origin": "m1", "accept": 1}') is None
    assert '"accept"' not in str(stamps.attribute(initial_stamp(letter())).value)
    assert DEADLINE > NOW
