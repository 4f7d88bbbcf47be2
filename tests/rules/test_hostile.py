"""Untrusted data never raises anything but the error that refuses it.

Quick by day; `make nightly` tries thousands of each.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.failure.redaction import LONGEST, redact
from deadletter.message import stamp
from deadletter.message.letter import (
    Letter,
    NotALetter,
    compact_json,
    from_event,
    from_json,
    to_json,
)
from deadletter.rules.document import DocumentBuilder
from deadletter.rules.rulebook import read_rules
from deadletter.settings.pipeline import Pipeline
from deadletter.webhook.url_guard import Destination, UrlRefused, is_literal, is_public, read_url
from tests.rules import hostile
from tests.samples import NOW

PIPELINE = Pipeline(
    "orders",
    context={
        "tenantId": "body.tenantId",
        "messageType": "attributes.type || body.type",
        # Functions on any type that a message may have.
        "total": "sum(body.lines[*].price)",
        "first": "sort_by(body.lines, &id)[0].id",
    },
    circuit_key="body.endpointId || attributes.Redrive",
)
BUILDER = DocumentBuilder(PIPELINE)
TRUSTED = frozenset({"AROAUS"})


def letter_of(record: dict[str, Any]) -> Letter | None:
    with suppress(NotALetter):
        return from_event(record)
    return None


@pytest.mark.long
@given(hostile.misshapen_records)
def test_a_record_of_any_shape_is_a_letter_or_is_refused(record: dict[str, Any]) -> None:
    letter_of(record)


@pytest.mark.long
@given(hostile.records)
def test_a_record_of_the_right_shape_is_a_letter(record: dict[str, Any]) -> None:
    letter = letter_of(record)
    assert letter is not None
    assert letter.body == record["body"]
    assert letter.size >= 0
    # The router's request is JSON: a lone surrogate must not stop the other letters in it.
    assert from_json(json.loads(compact_json(to_json(letter)))) == letter


@pytest.mark.long
@given(hostile.records, st.booleans())
def test_any_letter_becomes_a_document_that_rules_can_be_tried_on(
    record: dict[str, Any], ours: bool
) -> None:
    if ours:
        record["attributes"]["SenderId"] = "AROAUS:redrive"
    letter = from_event(record)
    reading = stamp.read(letter, TRUSTED)
    document = BUILDER.build(letter, reading.stamp, None, NOW)
    assert ("body" in document.value) == (document.unreadable is None)
    assert len(document.unreadable or "") < 100
    json.dumps(document.value["context"])


@pytest.mark.long
@given(st.lists(hostile.rule_items, max_size=4), hostile.records)
def test_any_stored_rule_is_a_rule_or_is_refused_and_can_be_tried_on_any_letter(
    items: list[dict[str, Any]], record: dict[str, Any]
) -> None:
    book = read_rules(items, PIPELINE)
    assert len(book.rules) + len(book.refused) == len(items)
    letter = from_event(record)
    document = BUILDER.build(letter, stamp.read(letter, TRUSTED).stamp, None, NOW)
    spoke = book.first(document.value, NOW, {}).rule
    trials = book.explain(document.value, NOW, {}, diverted=False)
    assert spoke is None or spoke.rule_id in {trial.rule_id for trial in trials}


@pytest.mark.long
@given(hostile.urls, st.booleans())
def test_any_url_has_a_destination_or_is_refused(url: str, allow_loopback: bool) -> None:
    try:
        destination = read_url(url, allow_loopback=allow_loopback)
    except UrlRefused:
        return
    assert destination.loopback <= allow_loopback
    assert not is_literal(destination.host) or destination.loopback or is_public(destination.host)
    assert_fit_for_a_request(destination)


def assert_fit_for_a_request(destination: Destination) -> None:
    """Request line and Host header contain no further line or header."""
    for part in (destination.authority, destination.target):
        assert part.isascii()
        assert part.isprintable()
        assert " " not in part


@pytest.mark.long
@given(hostile.bodies | hostile.any_text, hostile.records)
def test_any_exception_text_is_redacted_for_the_log(text: str, record: dict[str, Any]) -> None:
    redacted = redact(text, from_event(record))
    assert len(redacted) <= LONGEST
    assert redacted.isprintable()
