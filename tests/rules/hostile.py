"""Strategies for hostile messages, rules and URLs."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.samples import json_values

# Any Python text, with lone surrogates and control characters.
any_text = st.text(st.characters(codec=None), max_size=40)

_SPLINTERS = (
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\\ud800",
    "\\u0000",
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5_000,
    "0" * 30,
    "null",
    '"tenantId"',
    '"tenantId": "a", "tenantId": "b"',
    "\ud800",
    "\x00",
    "\u202e",
    "'; DROP TABLE",
    "${jndi:ldap://x}",
    "=cmd|' /C calc'!A0",
    "\x1b]0;owned\x07",
)


def _deep(depth: int) -> str:
    return '{"a":[' * depth


def _closed(depth: int) -> str:
    return "[" * depth + "]" * depth


# Bodies: pieces of JSON in any order, deeply nested JSON, JSON with a part removed.
bodies = st.one_of(
    any_text,
    st.lists(st.sampled_from(_SPLINTERS) | any_text, max_size=12).map("".join),
    st.integers(0, 20_000).map(_deep),
    st.integers(0, 20_000).map(_closed),
    json_values.map(json.dumps),
    st.tuples(json_values.map(json.dumps), st.integers(0, 60)).map(
        lambda both: both[0][: both[1]] + both[0][both[1] + 1 :]
    ),
)

# Attributes of a Lambda event with the right form and any content.
event_attributes = st.dictionaries(
    any_text | st.just("Redrive"),
    st.one_of(
        st.fixed_dictionaries(
            {
                "dataType": st.sampled_from(["String", "Number", "Number.int", "String.\x00"]),
                "stringValue": bodies,
            }
        ),
        st.fixed_dictionaries(
            {
                "dataType": st.sampled_from(["Binary", "Binary.gzip"]),
                "binaryValue": st.binary(max_size=40).map(
                    lambda raw: base64.b64encode(raw).decode()
                ),
            }
        ),
    ),
    max_size=10,
)

system_attributes = st.dictionaries(
    st.sampled_from(
        [
            "SenderId",
            "SentTimestamp",
            "MessageGroupId",
            "AWSTraceHeader",
            "DeadLetterQueueSourceArn",
        ]
    ),
    any_text | st.integers(-(10**25), 10**25).map(str),
)

records = st.fixed_dictionaries(
    {
        "messageId": st.uuids().map(str),
        "body": bodies,
        "messageAttributes": event_attributes,
        "attributes": system_attributes,
    }
)

# Attributes with a wrong form.
misshapen_records = st.dictionaries(
    st.sampled_from(["messageId", "body", "messageAttributes", "attributes", "x"]),
    json_values
    | any_text
    | st.dictionaries(any_text, json_values | st.fixed_dictionaries({"dataType": json_values})),
)

# The types of DynamoDB beside those of JSON.
stored_values = st.one_of(
    json_values,
    bodies,
    # Nothing that reads DynamoDB or JSON makes a number that raises when it is compared.
    st.decimals().filter(lambda number: not number.is_snan()),
    st.sampled_from([Decimal("1E+125"), Decimal("NaN"), Decimal("-Infinity"), Decimal("0.5")]),
    st.binary(max_size=20),
    st.sets(any_text, max_size=3),
    st.sampled_from(["QUARANTINE", "HOLD", "DELAYED_REDRIVE", "DEDICATED_DLQ", "DEFAULT"]),
)

_MATCHES = ["prefix", "suffix", "wildcard", "anything-but", "numeric", "exists", "cidr", "$or"]
patterns: st.SearchStrategy[Any] = st.recursive(
    st.lists(json_values | st.dictionaries(st.sampled_from(_MATCHES), json_values), max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from(["body", "context", "tenantId", "system", "$or", ""]) | any_text,
        inner | st.lists(inner, max_size=2),
        max_size=3,
    ),
    max_leaves=6,
)

_COLUMNS = [
    "rule_id",
    "action",
    "pattern",
    "priority",
    "enabled",
    "mode",
    "delay_seconds",
    "queue",
    "policy",
    "expires_at",
    "rate",
    "max_matches",
    "tenantId",
    "reason",
]
rule_items: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries(
        {
            "rule_id": st.text(min_size=1, max_size=5),
            "action": st.sampled_from(["QUARANTINE", "HOLD", "DEFAULT", "quarantine"]),
        },
        optional={"pattern": patterns | patterns.map(json.dumps)},
    ),
    st.dictionaries(st.sampled_from(_COLUMNS) | any_text, stored_values, max_size=3),
)

_HOSTS = (
    "example.com",
    "127.0.0.1",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "169.254.169.254",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[fe80::1%25eth0]",
    "localhost",
    "１２７.0.0.1",  # noqa: RUF001 - full-width digits resolve to loopback in places
    "xn--",
    "a.b\r\nHost: c",
    "[example.com]",
    "ß.example",
    ".",
    "",
)
urls = st.one_of(
    any_text,
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["https://", "http://", "HTTPS://", "https:/\\", "file://", "//", ""]),
            st.sampled_from(["", "user@", "a:b@", "@", "example.com@"]) | any_text,
            st.sampled_from(_HOSTS) | any_text | st.ip_addresses().map(str),
            st.sampled_from(["", ":443", ":0", ":99999", ":٤٤٣", ":-1", ":"]),
            st.sampled_from(["", "/", "/a?b=c", "#f", "?", "\\@x", "/%zz", "/\r\nX: y"]) | any_text,
        ),
    ),
)
