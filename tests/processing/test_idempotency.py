"""Which messages share an idempotency key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp, initial_stamp
from deadletter.processing.idempotency import BusinessKey, Identity, payload_of
from deadletter.rules.document import DocumentBuilder
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.samples import NOW, letter, letters, texts

PATH = "body.orderId"


def key(letter: Letter, path: str | None = PATH, stamp: Stamp | None = None) -> BusinessKey:
    stamp = stamp or initial_stamp(letter)
    pipeline = Pipeline("orders", idempotency_key=path)
    document = DocumentBuilder(pipeline).build(letter, stamp, None, NOW).value
    return Identity(pipeline).key_of(letter, stamp, document)


def apart(key: BusinessKey) -> str:
    """The digest of a key apart, as it was before payloads had a content."""
    return key.beside(None).digest


def by_path(letter: Letter, document: dict[str, Any]) -> BusinessKey:
    """The key of a letter with this document, whose key is at `k`."""
    return Identity(Pipeline("orders", idempotency_key="k")).key_of(letter, Stamp("x"), document)


def with_attributes(**values: Attribute) -> Letter:
    return replace(letter('{"orderId": "7"}'), attributes=values)


def test_without_a_path_the_origin_id_is_the_key_in_every_life() -> None:
    first = letter('{"orderId": "7"}')
    again = replace(first, message_id="a-later-copy")
    assert key(first, None) == key(again, None, Stamp(first.message_id, 3))
    assert key(first, None) != key(again, None)


@pytest.mark.parametrize("path", [None, PATH])
def test_a_run_that_repeats_with_a_new_key_gives_one_key_to_all_lives_of_a_letter(
    path: str | None,
) -> None:
    first = letter('{"orderId": "7"}')
    usual = Stamp(first.message_id)
    again = replace(usual, accept=f"{stamps.AGAIN}r1", attempt=1)
    copy = replace(first, message_id="a-later-copy")
    assert key(first, path, again) == key(copy, path, replace(again, attempt=2, run=None))
    others = [usual, replace(again, accept=f"{stamps.AGAIN}r2"), replace(usual, accept="again")]
    assert key(first, path, again).digest not in [key(first, path, each).digest for each in others]
    assert not key(first, path, again).apart


def test_a_path_finds_the_key_in_the_body_or_in_an_attribute() -> None:
    first = letter('{"orderId": "7"}')
    sent_twice = replace(first, message_id="sent-again")
    assert key(first) == key(sent_twice)
    keyed = with_attributes(key=Attribute("String", "abc"))
    assert key(keyed, "attributes.key") == key(
        replace(keyed, message_id="sent-again"), "attributes.key"
    )
    assert key(letter('{"orderId": 7}')).text == key(letter('{"orderId": "7"}')).text


@each_row(
    "body",
    [
        "not JSON",
        "[" * 100_000,
        '{"orderId": ' + "9" * 5_000 + "}",
        '{"orderId": NaN}',
        '{"orderId": "\\ud800"}',
        '{"orderId": "a", "orderId": "b"}',
        "{}",
        "[]",
        "7",
        '{"orderId": null}',
        '{"orderId": ""}',
        '{"orderId": "  "}',
        '{"orderId": true}',
        '{"orderId": []}',
        '{"orderId": {"a": 1}}',
    ],
)
def test_the_origin_id_is_the_key_if_the_path_finds_none(body: str) -> None:
    assert key(letter(body)) == key(letter(body), None)


@pytest.mark.parametrize("path", ["length(body)", "abs(body.orderId)", "sort(body)", "body[0].x"])
def test_a_path_that_does_not_fit_the_message_finds_no_key(path: str) -> None:
    sample = letter('{"orderId": "7"}')
    assert key(sample, path).text in (key(sample, None).text, "key:1")


@pytest.mark.parametrize(
    "payload", ["[body.sum, body.tax]", "{sum: body.sum, tax: [body.tax]}", "body.lines[].sku"]
)
def test_messages_in_which_what_is_compared_is_missing_are_compared_as_a_whole(
    payload: str,
) -> None:
    """Else all of them would be one, and each after the first would be lost as its duplicate."""
    identity = Identity(Pipeline("orders", idempotency_key="k", idempotency_payload=payload))
    contents = [
        identity.key_of(letter(f'{{"total": {total}}}'), Stamp("x"), {"k": "7"}).content
        for total in (1, 2)
    ]
    assert contents[0] is not None
    assert contents[1] is not None
    assert contents[0].core != contents[1].core


def test_an_invalid_path_is_refused() -> None:
    with pytest.raises(BadSettings, match="idempotency_key"):
        key(letter("{}"), "body.")


@given(st.text(max_size=40))
def test_no_business_key_is_ever_an_origin_id(text: str) -> None:
    """A producer cannot write a key that equals another letter's origin id."""
    sample = letter("{}")
    for origin in (text, f"key:{text}", f"origin:{text}"):
        if not origin:
            continue
        by_origin = key(sample, None, Stamp(origin))
        keyed = by_path(sample, {"k": text})
        assert by_origin.digest not in (keyed.digest, apart(keyed)) or (
            not text.strip() and origin == "x"
        )


@given(letters, texts.filter(bool))
def test_the_text_of_a_key_is_neither_stored_nor_printed(sample: Letter, text: str) -> None:
    secret = f"order-{text}"
    business_key = by_path(sample, {"k": secret})
    assert (
        secret
        not in repr(business_key) + business_key.digest + apart(business_key) + business_key.payload
    )


def test_the_payload_is_body_and_attributes_with_their_types() -> None:
    original = with_attributes(a=Attribute("String", "1"), b=Attribute("Binary", b"2"))
    others = [
        replace(original, body='{"orderId": "8"}'),
        replace(original, attributes={}),
        with_attributes(a=Attribute("Number", "1"), b=Attribute("Binary", b"2")),
        with_attributes(a=Attribute("String", "1"), b=Attribute("Binary", b"3")),
        with_attributes(a=Attribute("String", "1"), c=Attribute("Binary", b"2")),
        with_attributes(a=Attribute("String", "1b"), b=Attribute("Binary", b"")),
    ]
    assert len({payload_of(each) for each in (original, *others)}) == len(others) + 1


def test_our_stamp_and_traces_do_not_change_the_payload() -> None:
    """A producer that sends a message twice starts a new span each time."""
    original = with_attributes(a=Attribute("String", "1"))
    again = replace(original.attributes["a"])
    marks: dict[str, Any] = {
        stamps.NAME: stamps.attribute(Stamp("x")),
        "traceparent": Attribute("String", "00-1-2-01"),
        "X-B3-TraceId": Attribute("String", "1"),
        "_datadog": Attribute("String", "{}"),
    }
    assert payload_of(with_attributes(**marks, a=again)) == payload_of(original)


def test_the_order_of_attributes_does_not_change_the_payload() -> None:
    a, b = Attribute("String", "1"), Attribute("String", "2")
    assert payload_of(with_attributes(a=a, b=b)) == payload_of(with_attributes(b=b, a=a))


def test_an_attribute_of_our_name_is_one_payload_in_all_lives() -> None:
    own = Attribute("String", "yes")
    lives = [with_attributes(**{name: own}) for name in ("Redrive", "Redrive-original", "Redriv0")]
    assert len(set(map(payload_of, lives))) == 1
    others = [
        with_attributes(),
        with_attributes(Redrive=Attribute("String", "no")),
        with_attributes(Redrive=Attribute("Number", "yes")),
        with_attributes(Redrive=own, Redriv0=own),
        with_attributes(Redriven=own),
        with_attributes(Redrivx=own),
    ]
    assert len({payload_of(each) for each in (lives[0], *others)}) == len(others) + 1


def test_a_stamp_that_its_sender_copied_along_does_not_change_the_payload() -> None:
    """A parked letter that a person sends again by hand has been processed or not as before."""
    copied = with_attributes(**{"Redrive-original": stamps.attribute(Stamp("x", 3))})
    assert payload_of(copied) == payload_of(with_attributes())


@given(letters, letters)
def test_two_payloads_are_equal_only_if_the_messages_are(first: Letter, second: Letter) -> None:
    same = first.body == second.body and _sent(first) == _sent(second)
    assert (payload_of(first) == payload_of(second)) is same


def test_a_payload_is_not_that_of_a_message_whose_pieces_join_to_the_same_bytes() -> None:
    two = with_attributes(a=Attribute("String", "1"), b=Attribute("String", "2"))
    assert payload_of(two) != payload_of(with_attributes(a=Attribute("String", "1bString2")))
    body, value = "q" * 44, "v" * 118
    long = {name: Attribute("String", value) for name in "ab"}
    # What follows the body in the hash, with lengths of one byte: 256 bytes, which such a
    # length of the body leaves out.
    rest = "".join(f"\x01{name}\x06String{chr(118)}{value}" for name in "ab")
    assert len(rest) == 256
    assert payload_of(letter(body, attributes=long)) != payload_of(letter(body + rest))


def test_a_business_key_is_not_the_key_of_another_message_with_its_payload() -> None:
    first = BusinessKey("key:a", payload_of(letter("{}")))
    forged = BusinessKey(f"key:a{first.payload}", "any")
    assert forged.digest != apart(first)


def test_the_keys_of_one_message_are_the_same_in_every_version() -> None:
    """A key outlives a deployment: with other keys, each done message would be done again."""
    business_key = BusinessKey("key:7", payload_of(with_attributes(a=Attribute("Binary", b"1"))))
    assert business_key.payload == (
        "646841192c3e0652ee0cc18cf2795e7b7e12ce801e4de0288870abe67fe40831"
    )
    assert business_key.digest == (
        "2d010349b4166f1e9334fc5908781316a3d387b3a6c270168d469d0cf24b53db"
    )
    assert apart(business_key) == (
        "43cb8d926c6659e0a0e4ec9aa15885e53a08c129ae4e4e902f727114ad2764e5"
    )


def _sent(letter: Letter) -> list[tuple[str, Attribute]]:
    """What the producer sent as attributes, under names that no life changes."""
    named = [
        (stamps.KEPT_NAME if stamps.is_reserved(name) else name, attribute)
        for name, attribute in letter.attributes.items()
        if not (stamps.is_reserved(name) and stamps.parse(attribute.value))
    ]
    return sorted(named, key=repr)
