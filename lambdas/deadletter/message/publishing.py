"""What is another one each time a producer publishes a message, and who wraps it then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deadletter.message.letter import Attribute

SERVICES = ("SNS", "EventBridge", "DynamoDB", "Kinesis", "S3", "CloudEvents")
"""What puts wrappers around messages."""

MOST_WRAPPERS = 3
"""Wrappers within each other that are opened, such as an event that reached a queue by a topic."""

# Attributes and fields that tracing libraries set anew at each send (W3C, B3, Jaeger, X-Ray,
# Datadog, New Relic, Sentry): a producer's second send of one message differs in nothing else.
TRACING = frozenset(
    {
        *("traceparent", "tracestate", "baggage", "b3", "uber-trace-id", "awstraceheader"),
        *("x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"),
        *("x-amzn-trace-id", "_datadog", "newrelic", "sentry-trace"),
    }
)

NEW_IN_CLOUDEVENTS = frozenset({"id", "time", "traceparent", "tracestate"})
"""What each publishing of a CloudEvent sets anew."""

# The attributes of a message that are the context of a CloudEvent begin with one of these.
_CONTEXTS = ("ce-", "ce_", "cloudevents_")


def lasting(attributes: Mapping[str, Attribute]) -> Iterator[tuple[str, Attribute]]:
    """The attributes that are the same each time a message is published."""
    lower = {name.lower() for name in attributes}
    new = [
        context + name
        for context in _CONTEXTS
        if f"{context}specversion" in lower
        for name in NEW_IN_CLOUDEVENTS
    ]
    for name, attribute in attributes.items():
        if name.lower() not in TRACING and name.lower() not in new:
            yield name, attribute
