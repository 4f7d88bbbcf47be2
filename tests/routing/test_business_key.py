"""The stamp of a letter that is sent carries its business key, as the library computes it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import Body
from deadletter.message import stamp as stamps
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import MAX_BYTES, Attribute, Letter, to_event
from deadletter.message.stamp import Stamp
from deadletter.processing.delivery import Reader
from deadletter.routing.decision import Park, Redrive
from deadletter.settings.pipeline import Pipeline
from tests.consumer.test_identity import eventbridge, sns
from tests.consumer.test_republished import cloudevent, dynamodb, kinesis
from tests.routing.test_router import WITHOUT_LIBRARY, Books, stamped, verdict_of
from tests.samples import NOW, REDRIVER, letter

# A consumer without the library leaves no word of a failure.
PIPELINE = replace(WITHOUT_LIBRARY, body=Body.OPAQUE)
KEYED = replace(PIPELINE, idempotency_key="body.orderId")
ORDER = {"orderId": "7", "count": 1}
ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"


def sent(first: Letter, pipeline: Pipeline = KEYED, **traits: Any) -> Letter:
    """The letter in its next life."""
    verdict = verdict_of(Books(), first, pipeline)
    assert isinstance(verdict.decision, Redrive)
    envelope = seal(first, verdict.stamp, QueueTraits(**traits))
    system = {**first.system, "SenderId": f"{REDRIVER}:run"}
    return Letter("another-copy", envelope.body, envelope.attributes, system)


def key_in(life: Letter) -> str | None:
    """What a consumer without the library reads."""
    attribute = life.attributes.get(stamps.NAME)
    if attribute is None:
        return None
    key: str | None = json.loads(attribute.value).get("key")
    return key


def key_of_library(life: Letter, pipeline: Pipeline = KEYED) -> str:
    record = to_event(life, receipt_handle="h", source_arn=ARN)
    return Reader(pipeline, frozenset({REDRIVER}), lambda: NOW).read(record).key.digest


@pytest.mark.parametrize(
    "body",
    [
        ORDER,
        {"orderId": 7},
        {"orderId": 1.5},
        {"orderId": "Ä€𝄞\u0000 \n"},
        {"orderId": "x" * 300_000},
        *(wrap(ORDER, 1) for wrap in (sns, eventbridge, kinesis, cloudevent)),
    ],
    ids=repr,
)
def test_a_sent_letter_carries_the_key_by_which_the_library_claims_it(body: Any) -> None:
    first = letter(json.dumps(body))
    later = sent(first)
    key = key_in(later)
    assert key is not None
    assert len(key) == 64
    assert key == key_of_library(first) == key_of_library(later) == key_in(sent(later))


def test_a_copy_that_its_producer_sent_again_has_the_same_key() -> None:
    first, again = (sent(letter(json.dumps(kinesis(ORDER, n)), message_id=str(n))) for n in (1, 2))
    assert key_in(first) == key_in(again)
    other = sent(letter(json.dumps(kinesis({**ORDER, "orderId": "8"}, 3))))
    assert key_in(other) != key_in(first)


def test_a_key_at_a_path_of_a_pipe() -> None:
    pipeline = replace(KEYED, idempotency_key="body.dynamodb.NewImage.orderId.S")
    first = letter(json.dumps(dynamodb(ORDER, 1)))
    assert key_in(sent(first, pipeline)) == key_of_library(first, pipeline)


@pytest.mark.parametrize("body", ["{}", '{"orderId": true}', "no JSON", "[" * 100_000])
def test_a_letter_without_a_key_carries_none(body: str) -> None:
    assert key_in(sent(letter(body))) is None
    assert key_in(sent(letter(json.dumps(ORDER)), PIPELINE)) is None


def test_the_text_of_a_key_is_in_no_stamp() -> None:
    secret = "anna@example.com"
    later = sent(letter(json.dumps({"orderId": secret})))
    assert secret not in str(later.attributes[stamps.NAME].value)


def test_an_edited_letter_has_the_key_of_what_it_says_now() -> None:
    earlier = stamped(Stamp("m1", 1, int(NOW * 1000), key="a" * 64))
    assert key_in(sent(replace(earlier, body=json.dumps(ORDER)))) == key_of_library(
        letter(json.dumps(ORDER))
    )
    assert key_in(sent(replace(earlier, body="{}"))) is None


def test_a_letter_that_a_person_accepted_beside_another_one_has_no_key_of_both() -> None:
    """By the key of the other one a consumer would skip it."""
    mark = Stamp("m1", 1, int(NOW * 1000), key="a" * 64, accept="collision")
    assert key_in(sent(replace(stamped(mark), body=json.dumps(ORDER)))) is None


@pytest.mark.parametrize("pipeline", [KEYED, PIPELINE], ids=["keyed", "not keyed"])
def test_a_letter_that_a_person_sends_once_more_has_the_new_key_of_the_library(
    pipeline: Pipeline,
) -> None:
    """By its own key, or by its origin, a consumer would skip it."""
    again = Stamp("m1", 1, int(NOW * 1000), accept=f"{stamps.AGAIN}run7")
    later = sent(replace(stamped(again), body=json.dumps(ORDER)), pipeline)
    assert key_in(later) == key_of_library(later, pipeline)
    assert key_in(later) not in (None, key_of_library(letter(json.dumps(ORDER)), pipeline))


def test_a_key_that_a_producer_forged_is_not_passed_on() -> None:
    mark = Stamp("m1", 1, int(NOW * 1000), key="a" * 64)
    forged = replace(stamped(mark, sender="AIDAPRODUCER"), body=json.dumps(ORDER))
    later = sent(forged)
    assert key_in(later) == key_of_library(letter(json.dumps(ORDER)))
    assert "a" * 64 in str(later.attributes[stamps.KEPT_NAME].value)


def test_a_letter_without_room_is_sent_as_it_is() -> None:
    ten = {f"a{number}": Attribute("String", "x") for number in range(10)}
    full = sent(letter(json.dumps(ORDER), attributes=ten))
    assert full.attributes == ten
    body = json.dumps({**ORDER, "text": "x" * (MAX_BYTES - 200)})
    large = sent(letter(body))
    assert (large.body, large.attributes) == (body, {})


def test_a_key_as_long_as_a_message_makes_the_stamp_no_longer() -> None:
    sizes = {
        len(sent(letter(json.dumps({"orderId": "x" * size}))).attributes[stamps.NAME].value)
        for size in (1, 900_000)
    }
    assert len(sizes) == 1


def test_a_parked_letter_keeps_it_too() -> None:
    silent = replace(stamped(Stamp("m1", 1, int(NOW * 1000))), body=json.dumps(ORDER))
    verdict = verdict_of(Books(), silent, replace(KEYED, consumer_library=True))
    assert isinstance(verdict.decision, Park)
    assert verdict.stamp.key == key_of_library(letter(json.dumps(ORDER)))
