"""Which wrappers are opened, and what of them is part of the message."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.letter import Attribute
from deadletter.message.wrappers import MOST_WRAPPERS, opened
from tests.consumer.test_identity import eventbridge, sns
from tests.each_row import each_row

MESSAGE = {"orderId": "7"}


def of(body: Any) -> Any:
    return opened(json.dumps(body)).body


def test_a_notification_holds_a_text_and_an_event_an_object() -> None:
    assert of(MESSAGE) == MESSAGE
    assert of(sns(MESSAGE, 1)) == MESSAGE
    assert of(eventbridge(MESSAGE, 1)) == MESSAGE
    plain = opened(json.dumps(sns("shipped", 1)))
    assert (plain.body, plain.readable) == ("shipped", False)


def test_three_wrappers_are_opened_and_no_fourth() -> None:
    body: Any = MESSAGE
    for _ in range(MOST_WRAPPERS + 1):
        body = eventbridge(body, 1)
    assert of(body) == eventbridge(MESSAGE, 1)
    assert len(opened(json.dumps(body)).bodies) == MOST_WRAPPERS + 1


def test_ids_times_and_signatures_are_no_facts_and_all_else_is() -> None:
    [topic] = opened(json.dumps({**sns(MESSAGE, 1), "Subject": "x"})).wrappers
    assert dict(topic.facts) == {"TopicArn": sns(MESSAGE, 1)["TopicArn"], "Subject": "x"}
    [event] = opened(json.dumps({**eventbridge(MESSAGE, 1), "replay-name": "r"})).wrappers
    assert set(event.facts) == {"detail-type", "source", "account", "region", "resources"}


def test_attributes_of_a_notification_are_read_as_sqs_delivers_them() -> None:
    attributes = {
        "a": {"Type": "Number", "Value": "1"},
        "b": {"Type": "Binary", "Value": "AQI="},
        "c": {"Type": "Binary", "Value": "no base64"},
    }
    message = opened(json.dumps({**sns(MESSAGE, 1), "MessageAttributes": attributes}))
    assert message.attributes == {
        "a": Attribute("Number", "1"),
        "b": Attribute("Binary", b"\x01\x02"),
        "c": Attribute("Binary", "no base64"),
    }
    strange = opened(json.dumps({**sns(MESSAGE, 1), "MessageAttributes": {"a": 1}}))
    assert strange.attributes == {}
    assert strange.wrappers[0].facts["MessageAttributes"] == {"a": 1}


@each_row(
    "body",
    [
        {**sns(MESSAGE, 1), "Type": "SubscriptionConfirmation"},
        {**sns(MESSAGE, 1), "Message": MESSAGE},
        {**sns(MESSAGE, 1), "TopicArn": None},
        {**eventbridge(MESSAGE, 1), "detail": "text"},
        {**eventbridge(MESSAGE, 1), "id": 1},
        {"detail": MESSAGE, "id": "1", "source": "shop"},
        [sns(MESSAGE, 1)],
    ],
)
def test_what_is_no_whole_wrapper_is_a_message(body: Any) -> None:
    assert of(body) == body
    assert opened(json.dumps(body)).wrappers == ()


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    (*sns(MESSAGE, 1), *eventbridge(MESSAGE, 1), "MessageAttributes", "Value")
                ),
                inner | st.just("Notification"),
            )
        ),
    ).map(json.dumps)
)
def test_no_text_is_too_strange(text: str) -> None:
    assert opened(text).bodies
    assert opened(text, exact=True).bodies
